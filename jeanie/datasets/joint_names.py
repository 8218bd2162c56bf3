"""Translate the joint and marker names of motion-capture files into layouts with jeanie's joint names."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout, pair_sides

__all__ = ["CMU_NAMES", "CMU_SUBSET", "find_hierarchy_layout", "find_marker_layout", "normalise_name"]

MAX_JOINTS = 1024

_CMU_LEG = "{s}HipJoint {side}UpLeg {side}Leg {side}Foot {side}ToeBase"
_CMU_ARM = "{side}Shoulder {side}Arm {side}ForeArm {side}Hand {side}FingerBase {side}HandIndex1 {s}Thumb"
_LEFT, _RIGHT = {"s": "L", "side": "Left"}, {"s": "R", "side": "Right"}
# joints of a CMU file in the order of layout cmu31
CMU_NAMES: tuple[str, ...] = tuple(
    " ".join(
        (
            "Hips",
            _CMU_LEG.format(**_LEFT),
            _CMU_LEG.format(**_RIGHT),
            "LowerBack Spine Spine1 Neck Neck1 Head",
            _CMU_ARM.format(**_LEFT),
            _CMU_ARM.format(**_RIGHT),
        )
    ).split()
)
# the subset in layout cmu22, in its order
CMU_SUBSET: tuple[str, ...] = tuple(
    name
    for name, joint in zip(CMU_NAMES, LAYOUTS["cmu31"].joints, strict=True)
    if joint in LAYOUTS["cmu22"].joints
)

# Name of a joint in animation rigs -> name in jeanie. Rigs name bones: "Hand" is the start of the hand, the wrist.
_MIDDLE = {
    "hips": "hip_center", "hip": "hip_center", "pelvis": "hip_center", "spine": "spine", "spine1": "chest",
    "spine_1": "chest", "chest": "chest", "neck": "neck", "head": "head",
}  # fmt: skip
_SIDED = {
    "up_leg": "hip", "upper_leg": "hip", "thigh": "hip", "hip": "hip",
    "leg": "knee", "lower_leg": "knee", "low_leg": "knee", "shin": "knee", "calf": "knee", "knee": "knee",
    "foot": "ankle", "ankle": "ankle", "toe_base": "foot", "toe": "foot", "toes": "foot",
    "collar": "clavicle", "clavicle": "clavicle", "shoulder": "clavicle",
    "arm": "shoulder", "up_arm": "shoulder", "upper_arm": "shoulder",
    "fore_arm": "elbow", "forearm": "elbow", "lower_arm": "elbow", "low_arm": "elbow", "elbow": "elbow",
    "hand": "wrist", "wrist": "wrist",
}  # fmt: skip
_UPPER_ARMS = ("arm", "up_arm", "upper_arm", "collar", "clavicle")
_TORSO = ("torso", "spine", "chest", "spine_shoulder")


def normalise_name(name: str) -> str:
    """Return a joint name in snake case, with the side in front and without name spaces.

    >>> [normalise_name(name) for name in ("mixamorig:LeftUpLeg", "R.Elbow", "hand_l", "7th rib")]
    ['left_up_leg', 'right_elbow', 'left_hand', 'joint_7th_rib']
    """
    last = name.rsplit(":", 1)[-1]
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", last)
    words = [word for word in re.split(r"[^a-z0-9]+", split.lower()) if word]
    sides = {"l": "left", "left": "left", "r": "right", "right": "right"}
    if len(words) > 1 and words[0] in sides:
        words = [sides[words[0]], *words[1:]]
    elif len(words) > 1 and words[-1] in sides:
        words = [sides[words[-1]], *words[:-1]]
    plain = "_".join(words)
    return plain if plain[:1].isalpha() else f"joint_{plain}".rstrip("_")


def find_hierarchy_layout(
    names: Sequence[str], parents: Sequence[int], ends: Sequence[bool], *, wanted: Layout | None, path: Path
) -> tuple[Layout, NDArray[np.int64]]:
    """Return the layout of a rig and, for each joint of it, the index of the joint in the file (-1: missing).

    A rig with all of CMU's joints becomes ``cmu31`` without its End Sites. ``wanted`` selects joints by name.
    """
    if len(names) > MAX_JOINTS:
        raise DataError(f"{path}: {len(names)} joints; a skeleton has at most {MAX_JOINTS}")
    index_of = {name: index for index, name in reversed(list(enumerate(names)))}
    ours = _make_unique(_translate_rig_names(names, ends))
    if set(CMU_NAMES) <= index_of.keys():
        cmu = LAYOUTS["cmu31"]
        if wanted is None or set(wanted.joints) <= set(cmu.joints):
            return _select_joints(cmu.joints, [index_of[name] for name in CMU_NAMES], wanted or cmu, path)
    if wanted is not None:
        return _select_joints(ours, range(len(ours)), wanted, path)
    bones = tuple((parent, child) for child, parent in enumerate(parents) if parent >= 0)
    torso = next((ours.index(joint) for joint in _TORSO if joint in ours), 0)
    own = Layout("bvh", tuple(ours), bones, pair_sides(ours), 0, torso)
    return own, np.arange(len(ours))


def find_marker_layout(
    names: Sequence[str], *, kind: str, wanted: Layout | None, path: Path
) -> tuple[Layout, NDArray[np.int64]]:
    """Return the layout of named points and, for each joint of it, the index of the point in the file (-1: missing).

    Names that are exactly those of a known layout give that layout. Other names give a layout without bones,
    centred on its torso joint or, without one, on the mean of all points.
    """
    if not 0 < len(names) <= MAX_JOINTS:
        raise DataError(f"{path}: {len(names)} named points; expected 1 to {MAX_JOINTS}")
    ours = _make_unique([normalise_name(name) for name in names])
    wanted = wanted or _find_known_layout(ours)
    if wanted is not None:
        return _select_joints(ours, range(len(ours)), wanted, path)
    root = ours.index("hip_center") if "hip_center" in ours else 0
    torso = next((ours.index(joint) for joint in _TORSO if joint in ours), None)
    centre = tuple(range(len(ours))) if torso is None else (torso,)
    own = Layout(
        kind, tuple(ours), (), pair_sides(ours), root, root if torso is None else torso, centre=centre
    )
    return own, np.arange(len(ours))


def _find_known_layout(ours: Sequence[str]) -> Layout | None:
    """Return the known layout with these joints, preferably in this order; pixels become metres."""
    same = [known for known in reversed(list(LAYOUTS.values())) if set(known.joints) == set(ours)]
    best = next((known for known in same if known.joints == tuple(ours)), same[0] if same else None)
    if best is None or best.dims == 3:
        return best
    return replace(best, name=f"{best.name}_3d", unit="m", dims=3)


def _select_joints(
    names: Sequence[str], indices: Iterable[int], wanted: Layout, path: Path
) -> tuple[Layout, NDArray[np.int64]]:
    index_of = dict(zip(names, indices, strict=True))
    order = np.array([index_of.get(joint, -1) for joint in wanted.joints])
    if (order < 0).all():
        raise DataError(
            f"{path}: has none of the joints of layout {wanted.name!r}; it has {', '.join(names)[:99]}"
        )
    return wanted, order


def _translate_rig_names(names: Sequence[str], ends: Sequence[bool]) -> list[str]:
    """Return jeanie's names for the joints of a rig; unknown ones are in snake case."""
    plain = [normalise_name(name) for name in names]
    taken: set[str] = set()
    ours = []
    for joint, end in zip(plain, ends, strict=True):
        known = joint if end else _translate_rig_name(joint, plain)
        ours.append(joint if known in taken else known)
        taken.add(ours[-1])
    return ours


def _translate_rig_name(joint: str, all_joints: Sequence[str]) -> str:
    side, _, part = joint.partition("_")
    if side not in ("left", "right"):
        return _MIDDLE.get(joint, joint)
    if part == "shoulder" and not any(f"{side}_{arm}" in all_joints for arm in _UPPER_ARMS):
        return joint
    if part == "shoulder" and any(f"{side}_{collar}" in all_joints for collar in ("collar", "clavicle")):
        return joint
    return f"{side}_{_SIDED[part]}" if part in _SIDED else joint


def _make_unique(names: Sequence[str]) -> list[str]:
    """Append ``_2``, ``_3``, ... to repeated names."""
    seen: set[str] = set()
    unique = []
    for name in names:
        number = 2
        fresh = name
        while fresh in seen:
            fresh, number = f"{name}_{number}", number + 1
        seen.add(fresh)
        unique.append(fresh)
    return unique
