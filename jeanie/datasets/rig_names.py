"""Translate the joint names of rigs, suits, cameras and laboratories into jeanie's vocabulary.

Rigs name bones: "LeftForeArm" is the bone that starts at the elbow, and "LeftHand" starts at the wrist. Cameras name
joints: "HandLeft" is the hand. Names such as "LeftUpLeg" show which of the two a file is.
"""

import re
from collections import Counter
from collections.abc import Sequence, Set

from jeanie.datasets.joint_words import find_foreign_side, fold_letters, translate_part

__all__ = ["drop_shared_words", "find_side", "is_rig", "normalise_name", "translate_names"]

_SIDES = {"l": "left", "left": "left", "lt": "left", "r": "right", "right": "right", "rt": "right"}
# words that programs put before or after the name of a joint
_PREFIXES = {
    "bip", "bip1", "bip01", "bip001", "biped", "mixamorig", "def", "org", "j", "jnt", "jt", "joint", "bone", "rig",
    "skel", "skeleton", "cc", "base", "character1", "valvebiped", "b", "p", "c", "k4", "abt", "k4abt",
}  # fmt: skip
_SUFFIXES = {"jnt", "joint", "bone", "jt", "pos", "position", "center", "centre", "01", "001"}

# Keys have no underscores. Words that both kinds of files use with the same meaning:
_MIDDLE = {
    "hips": "hip_center", "hip": "hip_center", "pelvis": "hip_center", "waist": "hip_center",
    "hipcenter": "hip_center", "hipcentre": "hip_center", "hipscenter": "hip_center", "midhip": "hip_center",
    "spinebase": "hip_center", "basespine": "hip_center", "lowertorso": "hip_center",
    "spine": "spine", "abdomen": "spine", "ab": "spine", "belly": "spine", "spinemid": "spine",
    "midspine": "spine", "spinenaval": "spine", "spinenavel": "spine", "spinemiddle": "spine", "l3": "spine",
    "torso": "torso", "trunk": "torso",
    "spine1": "chest", "chest": "chest", "thorax": "chest", "upperback": "chest", "spinechest": "chest",
    "t8": "chest", "uppertorso": "chest",
    "spineshoulder": "spine_shoulder", "shouldercenter": "spine_shoulder", "shouldercentre": "spine_shoulder",
    "neck": "neck", "neck01": "neck", "lowerneck": "neck", "head": "head", "skull": "head", "nose": "nose",
}  # fmt: skip
# a numbered spine without a bone "spine" (Unreal, SMPL) starts one joint lower
_NUMBERED_SPINE = {"spine1": "spine", "spine01": "spine", "spine2": "chest", "spine02": "chest"}
_SIDED_BONES = {
    "upleg": "hip", "upperleg": "hip", "thigh": "hip", "uleg": "hip", "femur": "hip", "hip": "hip",
    "leg": "knee", "lowerleg": "knee", "lowleg": "knee", "shin": "knee", "calf": "knee", "tibia": "knee",
    "knee": "knee", "foot": "ankle", "ankle": "ankle",
    "toebase": "foot", "toe": "foot", "toes": "foot", "toe0": "foot", "ball": "foot",
    "collar": "clavicle", "clavicle": "clavicle", "shoulder": "clavicle",
    "arm": "shoulder", "uparm": "shoulder", "upperarm": "shoulder", "uarm": "shoulder", "humerus": "shoulder",
    "forearm": "elbow", "lowerarm": "elbow", "lowarm": "elbow", "farm": "elbow", "radius": "elbow",
    "elbow": "elbow", "hand": "wrist", "wrist": "wrist",
}  # fmt: skip
_SIDED_JOINTS = {
    "shoulder": "shoulder", "sho": "shoulder", "elbow": "elbow", "elb": "elbow", "wrist": "wrist", "wri": "wrist",
    "hand": "hand", "palm": "hand", "handtip": "hand_tip", "thumb": "thumb", "collar": "clavicle",
    "clavicle": "clavicle", "hip": "hip", "knee": "knee", "kne": "knee", "ankle": "ankle", "ank": "ankle",
    "foot": "foot", "toe": "foot", "toes": "foot", "heel": "heel", "bigtoe": "big_toe", "smalltoe": "small_toe",
    "footindex": "big_toe", "eye": "eye", "ear": "ear",
}  # fmt: skip
# parts that only rigs have: they name bones, not joints
_ONLY_BONES = {
    "upleg", "upperleg", "thigh", "uleg", "femur", "shin", "calf", "tibia", "lowerleg", "lowleg", "arm", "uparm",
    "upperarm", "uarm", "humerus", "forearm", "lowerarm", "lowarm", "farm", "radius",
}  # fmt: skip
_UPPER_ARMS = {"arm", "uparm", "upperarm", "uarm", "humerus", "collar", "clavicle"}
_COLLARS = {"collar", "clavicle"}
_LONG_SPINE = 5  # joints, as in ARKit
_MIN_NAMES, _SHARE = 6, 0.8  # names that contain a word, so that it is not the name of a joint


def normalise_name(name: str) -> str:
    """Return a joint name in snake case, with the side in front, without name spaces and accents.

    >>> [normalise_name(name) for name in ("mixamorig:LeftUpLeg", "R.Elbow", "hand_l", "7th rib", "Hüfte L")]
    ['left_up_leg', 'right_elbow', 'left_hand', 'joint_7th_rib', 'left_hufte']
    """
    last = fold_letters(name.rsplit(":", 1)[-1])
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", last)
    words = [word for word in re.split(r"[^a-z0-9]+", split.lower()) if word]
    sides = {"l": "left", "left": "left", "r": "right", "right": "right"}
    if len(words) > 1 and words[0] in sides:
        words = [sides[words[0]], *words[1:]]
    elif len(words) > 1 and words[-1] in sides:
        words = [sides[words[-1]], *words[:-1]]
    plain = "_".join(words)
    return plain if plain[:1].isalpha() else f"joint_{plain}".rstrip("_")


def find_side(plain: str) -> tuple[str, str]:
    """Return the side of a normalised name ("left", "right" or "") and its part without underscores.

    >>> [find_side(normalise_name(name)) for name in ("Bip01 L UpperArm", "lfemur", "LUArm", "Waist", "Schulter_li")]
    [('left', 'upperarm'), ('left', 'femur'), ('left', 'uarm'), ('', 'waist'), ('left', 'shoulder')]
    """
    side, part = _find_english_side(plain)
    if part in _MIDDLE or part in _SIDED_BONES or part in _SIDED_JOINTS:
        return side, part
    if part.endswith("1") and (part[:-1] in _MIDDLE or part[:-1] in _SIDED_JOINTS):
        return side, part[:-1]  # neck_1 and left_shoulder_1 of ARKit
    if not side:
        side, words = find_foreign_side(plain.split("_"))
        part = "".join(words)
    return side, translate_part(part)


def _find_english_side(plain: str) -> tuple[str, str]:
    words = plain.split("_")
    while len(words) > 1 and words[0] in _PREFIXES:
        words = words[1:]
    sided = [index for index, word in enumerate(words) if word in _SIDES]
    if len(words) > 1 and len(sided) == 1:
        side = _SIDES[words.pop(sided[0])]
        while len(words) > 1 and words[0] in _PREFIXES:
            words = words[1:]
        return side, _join_words(words, _SIDED_BONES.keys() | _SIDED_JOINTS.keys())
    part = _join_words(words, _MIDDLE.keys())
    glued = part[1:]
    if part not in _MIDDLE and part[:1] in "lr" and (glued in _SIDED_BONES or glued in _SIDED_JOINTS):
        return _SIDES[part[0]], glued
    return "", part


def _join_words(words: Sequence[str], known: Set[str]) -> str:
    """Join words; a word that programs append is dropped if the rest is a known part."""
    compound = "".join(words)
    if compound not in known and len(words) > 1 and words[-1] in _SUFFIXES:
        rest = "".join(words[:-1])
        return rest if rest in known else compound
    return compound


def drop_shared_words(plain: Sequence[str]) -> list[str]:
    """Return normalised names without the words that nearly all of them contain, such as that of the subject.

    Names stay if they are few, or if no more joints are known without the words.

    >>> drop_shared_words(["body_head", "body_neck", "body_left_hip", "body_right_hip", "body_left_knee", "body_nose"])
    ['head', 'neck', 'left_hip', 'right_hip', 'left_knee', 'nose']
    """
    names = list(plain)
    counts = Counter(word for name in names for word in set(name.split("_")))
    shared = {word for word, count in counts.items() if count >= max(_MIN_NAMES, _SHARE * len(names))}
    shared -= _SIDES.keys() | _MIDDLE.keys() | _SIDED_BONES.keys() | _SIDED_JOINTS.keys()
    if not shared:
        return names
    bare = ["_".join(word for word in name.split("_") if word not in shared) or name for name in names]
    bare = [normalise_name(name) for name in bare]  # the side comes to the front
    return bare if _count_parts(bare) > _count_parts(names) else names


def _count_parts(plain: Sequence[str]) -> int:
    known = _MIDDLE.keys() | _SIDED_BONES.keys() | _SIDED_JOINTS.keys()
    return sum(part in known for _, part in map(find_side, plain))


def is_rig(plain: Sequence[str]) -> bool:
    """Return whether normalised names are those of bones, not of joints."""
    return any(side and part in _ONLY_BONES for side, part in map(find_side, plain))


def translate_names(
    plain: Sequence[str], *, rig: bool | None = None, fixed: Sequence[bool] | None = None
) -> list[str]:
    """Return jeanie's names for normalised joint names; unknown names stay.

    Args:
        plain: Names of ``normalise_name``.
        rig: Whether the names are those of bones; by default ``is_rig`` decides.
        fixed: Names that are not translated.
    """
    parts = [find_side(name) for name in plain]
    bones = is_rig(plain) if rig is None else rig
    present = set(parts)
    translated = list(plain)
    used_names: set[str] = set()
    # names that are a known part exactly come first: "LeftUpLeg" is the hip, not the "LHipJoint" before it
    for index in sorted(
        range(len(plain)), key=lambda index: not plain[index].replace("_", "").endswith(parts[index][1])
    ):
        if fixed is None or not fixed[index]:
            known = _translate(*parts[index], present, bones) or plain[index]
            translated[index] = plain[index] if known in used_names else known
        used_names.add(translated[index])
    return translated


def _number_spine(present: set[tuple[str, str]]) -> dict[str, str]:
    """Return the joints of a numbered spine: the first two of a short one, the middle and the top of a long one."""
    numbers = sorted(int(part[5:]) for _, part in present if re.fullmatch(r"spine\d{1,2}", part))
    if len(numbers) < _LONG_SPINE:
        return _NUMBERED_SPINE
    return {f"spine{numbers[len(numbers) // 2]}": "spine", f"spine{numbers[-1]}": "chest"}


def _translate(side: str, part: str, present: set[tuple[str, str]], bones: bool) -> str | None:
    if not side:
        if re.fullmatch(r"spine\d{1,2}", part) and ("", "spine") not in present:
            return _number_spine(present).get(part)
        return _MIDDLE.get(part)
    parts_of_side = {other for where, other in present if where == side}
    if not bones or (part == "shoulder" and (not parts_of_side & _UPPER_ARMS or parts_of_side & _COLLARS)):
        joint = _SIDED_JOINTS.get(part)
    else:
        joint = _SIDED_BONES.get(part)
    return f"{side}_{joint}" if joint else None
