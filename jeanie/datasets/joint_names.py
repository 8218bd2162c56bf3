"""Find the layout of a file from its joint or marker names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.rig_names import drop_shared_words, normalise_name, translate_names
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout, pair_sides

__all__ = [
    "CMU_NAMES",
    "CMU_SUBSET",
    "MAX_JOINTS",
    "connect_joints",
    "find_hierarchy_layout",
    "find_marker_layout",
    "make_named_layout",
    "suggest_joints",
]

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

_TORSO = ("torso", "spine", "chest", "spine_shoulder")
_TRUNK = ("chest", "spine", "torso", "hip_center")
# joint -> the joints that it hangs from, nearest first
_PARENTS: dict[str, tuple[str, ...]] = {
    "head": ("neck", "spine_shoulder", *_TRUNK), "nose": ("head", "neck", "spine_shoulder", *_TRUNK),
    "neck": ("spine_shoulder", *_TRUNK), "spine_shoulder": _TRUNK, "chest": _TRUNK[1:],
    "spine": ("hip_center",), "torso": ("hip_center",),
}  # fmt: skip
_SIDED_PARENTS: dict[str, tuple[str, ...]] = {
    "clavicle": ("spine_shoulder", "neck", *_TRUNK),
    "shoulder": ("{side}_clavicle", "spine_shoulder", "neck", *_TRUNK),
    "elbow": ("{side}_shoulder",), "wrist": ("{side}_elbow",), "hand": ("{side}_wrist", "{side}_elbow"),
    "hand_tip": ("{side}_hand", "{side}_wrist"), "thumb": ("{side}_hand", "{side}_wrist"),
    "hip": ("hip_center", "torso", "spine", "{side}_shoulder"), "knee": ("{side}_hip",), "ankle": ("{side}_knee",),
    "foot": ("{side}_ankle", "{side}_knee"), "heel": ("{side}_ankle",), "big_toe": ("{side}_ankle",),
}  # fmt: skip


def find_hierarchy_layout(
    names: Sequence[str],
    parents: Sequence[int],
    ends: Sequence[bool],
    *,
    layout: Layout | None,
    path: Path,
    aliases: Mapping[str, str] | None = None,
    kind: str = "bvh",
) -> tuple[Layout, NDArray[np.int64]]:
    """Return the layout of a rig and, for each joint of it, the index of the joint in the file (-1: missing).

    A rig with all of CMU's joints becomes ``cmu31`` without its End Sites. ``layout`` selects joints by name.
    ``aliases`` maps names of the file to joints; an empty joint keeps the name of the file.
    """
    if len(names) > MAX_JOINTS:
        raise DataError(f"{path}: {len(names)} joints; a skeleton has at most {MAX_JOINTS}")
    index_of = {name: index for index, name in reversed(list(enumerate(names)))}
    joints = _make_unique(_name_joints(names, aliases, rig=True, ends=ends))
    if set(CMU_NAMES) <= index_of.keys() and not aliases:
        cmu = LAYOUTS["cmu31"]
        if layout is None or set(layout.joints) <= set(cmu.joints):
            return _select_joints(cmu.joints, [index_of[name] for name in CMU_NAMES], layout or cmu, path)
    if layout is not None:
        return _select_joints(joints, range(len(joints)), layout, path)
    bones = tuple((parent, child) for child, parent in enumerate(parents) if parent >= 0)
    torso = next((joints.index(joint) for joint in _TORSO if joint in joints), 0)
    file_layout = Layout(kind, tuple(joints), bones, pair_sides(joints), 0, torso)
    return file_layout, np.arange(len(joints))


def find_marker_layout(
    names: Sequence[str],
    *,
    kind: str,
    layout: Layout | None,
    path: Path,
    aliases: Mapping[str, str] | None = None,
) -> tuple[Layout, NDArray[np.int64]]:
    """Return the layout of named points and, for each joint of it, the index of the point in the file (-1: missing).

    Names that are exactly those of a known layout give that layout. Other names give a layout of the points,
    centred on its torso joint or, without one, on the mean of all points. ``aliases`` maps names of the file to
    joints; a point with an empty joint is left out.
    """
    if not 0 < len(names) <= MAX_JOINTS:
        raise DataError(f"{path}: {len(names)} named points; expected 1 to {MAX_JOINTS}")
    plain = _make_unique(drop_shared_words([normalise_name(name) for name in names]))
    known = None if aliases else _find_known_layout(plain)
    translated = _make_unique(_name_joints(names, aliases))
    joints = plain if known else translated
    layout = layout or known or _find_known_layout(joints)
    if layout is not None:
        return _select_joints(joints, range(len(joints)), layout, path)
    ignored = {name for name, joint in (aliases or {}).items() if not joint}
    used_points = [index for index, name in enumerate(names) if name not in ignored]
    if not used_points:
        raise DataError(
            f"{path}: the layout file ignores all of its points ({', '.join(names)[:99]}); write the joint behind each "
            'name, such as "head" or "left_elbow"'
        )
    return make_named_layout(kind, [joints[index] for index in used_points]), np.array(used_points)


def make_named_layout(kind: str, joints: Sequence[str]) -> Layout:
    """Return a layout of joints with distinct names; joints of the vocabulary are connected."""
    root = joints.index("hip_center") if "hip_center" in joints else 0
    torso = next((joints.index(joint) for joint in _TORSO if joint in joints), None)
    centre = tuple(range(len(joints))) if torso is None else (torso,)
    bones = connect_joints(joints)
    return Layout(
        kind, tuple(joints), bones, pair_sides(joints), root, root if torso is None else torso, centre=centre
    )


def connect_joints(joints: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return bones (parent, child) between joints of the vocabulary: each one hangs from the nearest that is there."""
    index_of = {joint: index for index, joint in enumerate(joints)}
    bones = []
    for child, joint in enumerate(joints):
        side, _, part = joint.partition("_")
        sided = side in ("left", "right") and part in _SIDED_PARENTS
        chain = (
            [name.format(side=side) for name in _SIDED_PARENTS[part]] if sided else _PARENTS.get(joint, ())
        )
        parent = next((index_of[name] for name in chain if name in index_of), None)
        if parent is not None:
            bones.append((parent, child))
    return tuple(bones)


def suggest_joints(names: Sequence[str]) -> dict[str, str]:
    """Return the joint that each name of a file stands for, "" for a name that is not understood."""
    vocabulary = {joint for layout in LAYOUTS.values() for joint in layout.joints}
    joints = _name_joints(names, None)
    return {name: joint if joint in vocabulary else "" for name, joint in zip(names, joints, strict=True)}


def _name_joints(
    names: Sequence[str],
    aliases: Mapping[str, str] | None,
    *,
    rig: bool | None = None,
    ends: Sequence[bool] | None = None,
) -> list[str]:
    """Return jeanie's name of every joint: that of ``aliases``, else the translated name."""
    joint_of = {} if aliases is None else aliases
    bare = drop_shared_words([normalise_name(name) for name in names])
    plain = [joint_of.get(name) or short for name, short in zip(names, bare, strict=True)]
    fixed = [name in joint_of or bool(ends and ends[index]) for index, name in enumerate(names)]
    return translate_names(plain, rig=rig, fixed=fixed)


def _find_known_layout(joints: Sequence[str]) -> Layout | None:
    """Return the known layout with these joints, preferably in this order; pixels become metres."""
    same = [known for known in reversed(list(LAYOUTS.values())) if set(known.joints) == set(joints)]
    best = next((known for known in same if known.joints == tuple(joints)), same[0] if same else None)
    if best is None or best.dims == 3:
        return best
    return replace(best, name=f"{best.name}_3d", unit="m", dims=3)


def _select_joints(
    names: Sequence[str], indices: Iterable[int], layout: Layout, path: Path
) -> tuple[Layout, NDArray[np.int64]]:
    index_of = dict(zip(names, indices, strict=True))
    order = np.array([index_of.get(joint, -1) for joint in layout.joints])
    if (order < 0).all():
        raise DataError(
            f"{path}: has none of the joints of layout {layout.name!r}; it has {', '.join(names)[:99]}"
        )
    return layout, order


def _make_unique(names: Sequence[str]) -> list[str]:
    """Append ``_2``, ``_3``, ... to repeated names."""
    used_names: set[str] = set()
    unique = []
    for name in names:
        number = 2
        fresh = name
        while fresh in used_names:
            fresh, number = f"{name}_{number}", number + 1
        used_names.add(fresh)
        unique.append(fresh)
    return unique
