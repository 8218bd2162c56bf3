"""Marker sets of laboratories: joint centres from skin markers, by tables.

Limb joints are the mean of the markers around them, or the one marker beside them: within 5 cm of the joint. The hips
are inside the pelvis, so they come from the regression of Bell, Pedersen and Brand (J. Biomechanics 1990): 19 % of the
distance between the front markers of the pelvis (ASIS) behind their middle, 30 % below and 36 % to the side.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["MARKER_SETS", "compute_joint_centres"]

Floats = NDArray[np.float64]

_BEHIND, _BELOW, _ASIDE = 0.19, 0.30, 0.36

# marker set -> joint -> alternatives, each a group of markers whose mean is the joint; {S} is L or R. "asis" and
# "psis" are the front and back of the pelvis. Names are in upper case without dots and spaces.
MARKER_SETS: dict[str, dict[str, tuple[str, ...]]] = {
    # Vicon's Plug-in Gait with its joint centres, also the marker set of CMU, and Conventional (39) of OptiTrack
    "Plug-in Gait": {
        "head": ("LFHD RFHD LBHD RBHD", "LFHD RFHD"),
        "neck": ("C7 CLAV", "C7"),
        "spine": ("T10 STRN", "T10", "STRN"),
        "{side}_shoulder": ("{S}SJC", "{S}SHO"),
        "{side}_elbow": ("{S}EJC", "{S}ELB {S}ELBM", "{S}ELB"),
        "{side}_wrist": ("{S}WJC", "{S}WRA {S}WRB", "{S}WRI"),
        "{side}_hand": ("{S}FIN",),
        "{side}_hip": ("{S}HJC",),
        "{side}_knee": ("{S}KJC", "{S}KNE {S}KNEM", "{S}KNE {S}MKNE", "{S}KNE {S}KNM", "{S}KNE"),
        "{side}_ankle": ("{S}AJC", "{S}ANK {S}ANKM", "{S}ANK {S}MED", "{S}ANK {S}MANK", "{S}ANK"),
        "{side}_heel": ("{S}HEE",),
        "{side}_foot": ("{S}TOE",),
        "{side}_asis": ("{S}ASI", "{S}ASIS"),
        "psis": ("LPSI RPSI", "LPSIS RPSIS", "SACR"),
    },
    # Qualisys, CAST: bony landmarks
    "CAST": {
        "head": ("L_HEAD R_HEAD", "SGL", "HEAD"),
        "neck": ("CV7 SJN", "CV7", "SJN"),
        "spine": ("TV10 SXS", "TV10"),
        "{side}_shoulder": ("{S}_SAE",),
        "{side}_elbow": ("{S}_HLE {S}_HME", "{S}_HLE"),
        "{side}_wrist": ("{S}_RSP {S}_USP", "{S}_RSP"),
        "{side}_hand": ("{S}_HM2", "{S}_HM3"),
        "{side}_knee": ("{S}_FLE {S}_FME", "{S}_FLE"),
        "{side}_ankle": ("{S}_FAL {S}_TAM", "{S}_FAL"),
        "{side}_heel": ("{S}_FCC",),
        "{side}_foot": ("{S}_FM1 {S}_FM5", "{S}_FM2", "{S}_FM1"),
        "{side}_asis": ("{S}_IAS",),
        "psis": ("L_IPS R_IPS",),
    },
    # the legs of IOR (Leardini et al., Gait & Posture 2007)
    "IOR": {
        "neck": ("CV7", "C7"),
        "{side}_shoulder": ("{S}A", "{S}AC"),
        "{side}_knee": ("{S}LE {S}ME", "{S}LE"),
        "{side}_ankle": ("{S}LM {S}MM", "{S}LM"),
        "{side}_heel": ("{S}CA",),
        "{side}_foot": ("{S}FM {S}VM", "{S}SM"),
        "{side}_asis": ("{S}IAS", "{S}ASIS"),
        "psis": ("LIPS RIPS", "LPSIS RPSIS"),
    },
    # OptiTrack's Baseline and Core, Qualisys' sets for animation and sports
    "OptiTrack, Qualisys": {
        "head": ("HEADL HEADR HEADFRONT", "HEADL HEADR", "HEADTOP HEADFRONT HEADSIDE", "HEADTOP"),
        "neck": ("SPINETOP", "BACKTOP", "SPINETHORACIC2"),
        "spine": ("CHEST BACKL BACKR", "CHEST BACKLEFT BACKRIGHT", "CHEST SPINETHORACIC12", "BACKL BACKR",
                  "BACKLEFT BACKRIGHT", "SPINETHORACIC12", "CHEST"),
        "{side}_shoulder": ("{S}SHOULDERTOP",),
        "{side}_elbow": ("{S}ELBOWOUT {S}ELBOWIN", "{S}ELBOWOUT"),
        "{side}_wrist": ("{S}WRISTIN {S}WRISTOUT", "{S}WRISTOUT", "{S}WRISTTOP"),
        "{side}_hand": ("{S}HANDOUT {S}HANDIN", "{S}HANDOUT", "{S}HAND2"),
        "{side}_knee": ("{S}KNEEOUT {S}KNEEIN", "{S}KNEEOUT"),
        "{side}_ankle": ("{S}ANKLEOUT {S}ANKLEIN", "{S}ANKLEOUT"),
        "{side}_heel": ("{S}HEELBACK",),
        "{side}_foot": ("{S}FOREFOOTIN {S}FOREFOOTOUT", "{S}FOREFOOT5 {S}FOREFOOT2", "{S}TOEIN {S}TOEOUT",
                        "{S}TOETIP"),
        "{side}_asis": ("WAIST{S}FRONT",),
        "psis": ("WAISTLBACK WAISTRBACK", "WAISTBACK", "LSIPS RSIPS"),
    },
    # OpenCap and Pose2Sim with the marker augmenter
    "OpenCap": {
        "head": ("HEAD",),
        "nose": ("NOSE",),
        "neck": ("NECK", "C7_STUDY"),
        "{side}_shoulder": ("{S}_SHOULDER_STUDY",),
        "{side}_elbow": ("{S}_LELBOW_STUDY {S}_MELBOW_STUDY",),
        "{side}_wrist": ("{S}_LWRIST_STUDY {S}_MWRIST_STUDY",),
        "{side}_hip": ("{S}HJC_STUDY",),
        "{side}_knee": ("{S}_KNEE_STUDY {S}_MKNEE_STUDY",),
        "{side}_ankle": ("{S}_ANKLE_STUDY {S}_MANKLE_STUDY",),
        "{side}_heel": ("{S}_CALC_STUDY",),
        "{side}_foot": ("{S}_TOE_STUDY",),
        "{side}_asis": ("{S}ASIS_STUDY",),
        "psis": ("LPSIS_STUDY RPSIS_STUDY",),
    },
}  # fmt: skip
_MIN_LIMBS = 8  # of shoulders, elbows, wrists, knees, ankles
_LIMBS = ("shoulder", "elbow", "wrist", "knee", "ankle")
_LEGS = {f"{side}_{part}" for side in ("left", "right") for part in ("knee", "ankle", "asis")}
_MIN_PREFIX_SHARE = 0.8


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def compute_joint_centres(names: Sequence[str], points: Floats) -> tuple[list[str], Floats] | None:
    """Return joints and their centres [frame, person, joint, 3] if the markers are those of a known set, else None.

    A set is known if its limbs are there, or at least its legs. Markers are found by their names in any case, without
    the name of the subject: before a colon, or a beginning that nearly all names share. A joint is missing in a frame
    in which one of its markers is.
    """
    plain = _strip_prefix([_normalise_marker(name) for name in names])
    index_of = {name: index for index, name in reversed(list(enumerate(plain)))}
    groups = max((_find_groups(table, index_of) for table in MARKER_SETS.values()), key=len)
    limbs = sum(f"{side}_{limb}" in groups for side in ("left", "right") for limb in _LIMBS)
    return _average_groups(groups, points) if limbs >= _MIN_LIMBS or groups.keys() >= _LEGS else None


def _normalise_marker(name: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "", name.rsplit(":", 1)[-1].upper())


def _strip_prefix(names: Sequence[str]) -> list[str]:
    """Return names without the longest beginning, up to an underscore, that nearly all of them share.

    >>> _strip_prefix(["KUO_LASI", "KUO_RASI", "KUO_C7"])
    ['LASI', 'RASI', 'C7']
    """
    counts = Counter(name[: match.end()] for name in names for match in re.finditer("_", name))
    shared = [prefix for prefix, count in counts.items() if count >= _MIN_PREFIX_SHARE * len(names)]
    prefix = max(shared, key=len, default="")
    return [name.removeprefix(prefix) or name for name in names]


def _find_groups(table: Mapping[str, tuple[str, ...]], index_of: Mapping[str, int]) -> dict[str, list[int]]:
    groups = {}
    for joint, alternatives in table.items():
        for side, letter in (("left", "L"), ("right", "R")) if "{side}" in joint else (("", ""),):
            options = [text.replace("{S}", letter).split() for text in alternatives]
            markers = next(
                (option for option in options if all(marker in index_of for marker in option)), None
            )
            if markers:
                groups[joint.replace("{side}", side)] = [index_of[marker] for marker in markers]
    return groups


def _average_groups(groups: dict[str, list[int]], points: Floats) -> tuple[list[str], Floats]:
    means = {joint: points[:, :, group].mean(2) for joint, group in groups.items()}
    back = means.pop("psis", None)
    left, right = means.pop("left_asis", None), means.pop("right_asis", None)
    if left is not None and right is not None:
        means = _compute_hips(left, right, back, means) | means
    return list(means), np.stack(list(means.values()), 2)


def _compute_hips(
    left: Floats, right: Floats, back: Floats | None, means: Mapping[str, Floats]
) -> dict[str, Floats]:
    """Return the centres of the hips by regression on the markers of the pelvis."""
    middle = (left + right) / 2
    side = right - left
    width = np.linalg.norm(side, axis=-1, keepdims=True)
    side = side / np.maximum(width, 1e-9)
    if back is None:  # without a marker behind: straight below the front of the pelvis
        top = next((means[joint] for joint in ("neck", "spine", "head") if joint in means), middle)
        up = _make_orthogonal(top - middle, side)
        front = np.zeros_like(up)
    else:
        front = _make_orthogonal(middle - back, side)
        up = np.cross(side, front)
    base = middle - _BEHIND * width * front - _BELOW * width * up
    return {"left_hip": base - _ASIDE * width * side, "right_hip": base + _ASIDE * width * side}


def _make_orthogonal(vector: Floats, side: Floats) -> Floats:
    """Return the unit vector of the part of ``vector`` that is orthogonal to the unit vector ``side``."""
    perpendicular = vector - (vector * side).sum(-1, keepdims=True) * side
    unit: Floats = perpendicular / np.maximum(np.linalg.norm(perpendicular, axis=-1, keepdims=True), 1e-9)
    return unit
