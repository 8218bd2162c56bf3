"""Marker sets of laboratories: joint centres from skin markers, by tables.

Limb joints are the mean of the markers around them, or the one marker beside them: within 5 cm of the joint. The hips
are inside the pelvis, so they come from the regression of Bell, Pedersen and Brand (J. Biomechanics 1990): 19 % of the
distance between the front markers of the pelvis (ASIS) behind their middle, 30 % below and 36 % to the side.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["MARKER_SETS", "compute_joint_centres"]

Floats = NDArray[np.float64]

_BEHIND, _BELOW, _ASIDE = 0.19, 0.30, 0.36

# marker set -> joint -> alternatives, each a group of markers whose mean is the joint; {S} is L or R. "asis" and
# "psis" are the front and back of the pelvis.
MARKER_SETS: dict[str, dict[str, tuple[str, ...]]] = {
    # Vicon's Plug-in Gait, also the marker set of CMU
    "Plug-in Gait": {
        "head": ("LFHD RFHD LBHD RBHD", "LFHD RFHD"),
        "neck": ("C7 CLAV", "C7"),
        "spine": ("T10 STRN", "T10", "STRN"),
        "{side}_shoulder": ("{S}SHO",),
        "{side}_elbow": ("{S}ELB {S}ELBM", "{S}ELB"),
        "{side}_wrist": ("{S}WRA {S}WRB", "{S}WRI"),
        "{side}_hand": ("{S}FIN",),
        "{side}_knee": ("{S}KNE {S}KNEM", "{S}KNE"),
        "{side}_ankle": ("{S}ANK {S}ANKM", "{S}ANK"),
        "{side}_heel": ("{S}HEE",),
        "{side}_foot": ("{S}TOE",),
        "{side}_asis": ("{S}ASI",),
        "psis": ("LPSI RPSI", "SACR"),
    },
    # Qualisys, CAST and IOR: bony landmarks
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
    # Qualisys' set for animation
    "Qualisys animation": {
        "head": ("HEADL HEADR HEADFRONT", "HEADL HEADR", "HEADTOP"),
        "neck": ("SPINETOP",),
        "spine": ("CHEST BACKL BACKR", "BACKL BACKR", "CHEST"),
        "{side}_shoulder": ("{S}SHOULDERTOP",),
        "{side}_elbow": ("{S}ELBOWOUT {S}ELBOWIN", "{S}ELBOWOUT"),
        "{side}_wrist": ("{S}WRISTIN {S}WRISTOUT", "{S}WRISTOUT"),
        "{side}_hand": ("{S}HANDOUT {S}HANDIN", "{S}HANDOUT"),
        "{side}_knee": ("{S}KNEEOUT {S}KNEEIN", "{S}KNEEOUT"),
        "{side}_ankle": ("{S}ANKLEOUT {S}ANKLEIN", "{S}ANKLEOUT"),
        "{side}_heel": ("{S}HEELBACK",),
        "{side}_foot": ("{S}FOREFOOTIN {S}FOREFOOTOUT", "{S}FOREFOOT5 {S}FOREFOOT2", "{S}TOETIP"),
        "{side}_asis": ("WAIST{S}FRONT",),
        "psis": ("WAISTLBACK WAISTRBACK", "WAISTBACK"),
    },
}  # fmt: skip
_MIN_LIMBS = 8  # of shoulders, elbows, wrists, knees, ankles
_LIMBS = ("shoulder", "elbow", "wrist", "knee", "ankle")


def compute_joint_centres(names: Sequence[str], points: Floats) -> tuple[list[str], Floats] | None:
    """Return joints and their centres [frame, person, joint, 3] if the markers are those of a known set, else None.

    Markers are found by their names, without the name of the subject before a colon and in any case. A joint is
    missing in a frame in which one of its markers is.
    """
    index_of = {_normalise_marker(name): index for index, name in reversed(list(enumerate(names)))}
    for table in MARKER_SETS.values():
        groups = _find_groups(table, index_of)
        limbs = sum(f"{side}_{limb}" in groups for side in ("left", "right") for limb in _LIMBS)
        if limbs >= _MIN_LIMBS:
            return _average_groups(groups, points)
    return None


def _normalise_marker(name: str) -> str:
    return re.sub(r"[^A-Z0-9_]", "", name.rsplit(":", 1)[-1].upper())


def _find_groups(table: Mapping[str, tuple[str, ...]], index_of: Mapping[str, int]) -> dict[str, list[int]]:
    groups = {}
    for joint, alternatives in table.items():
        for side, letter in (("left", "L"), ("right", "R")) if "{side}" in joint else (("", ""),):
            options = [text.replace("{S}", letter).split() for text in alternatives]
            found = next((option for option in options if all(marker in index_of for marker in option)), None)
            if found:
                groups[joint.replace("{side}", side)] = [index_of[marker] for marker in found]
    return groups


def _average_groups(groups: dict[str, list[int]], points: Floats) -> tuple[list[str], Floats]:
    means = {joint: points[:, :, group].mean(2) for joint, group in groups.items()}
    back = means.pop("psis", None)
    left, right = means.pop("left_asis", None), means.pop("right_asis", None)
    if left is not None and right is not None:
        means |= _compute_hips(left, right, back, means)
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
    rest = vector - (vector * side).sum(-1, keepdims=True) * side
    unit: Floats = rest / np.maximum(np.linalg.norm(rest, axis=-1, keepdims=True), 1e-9)
    return unit
