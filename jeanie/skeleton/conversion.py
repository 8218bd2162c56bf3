"""From one layout to another by joint names, with joints that are derived from others."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["Mapping", "convert", "mapping"]

# What may stand for a joint that a layout does not have, the best first: the mean of the joints of one entry.
# A side is written {side}; entries may name joints that are derived themselves.
_STAND_INS: dict[str, tuple[tuple[str, ...], ...]] = {
    "head": (("nose",), ("left_ear", "right_ear"), ("left_eye", "right_eye")),
    "nose": (("head",),),
    "neck": (("spine_shoulder",), ("left_shoulder", "right_shoulder")),
    "spine_shoulder": (("neck",),),
    "neck_base": (("chest",),),
    "chest": (("left_clavicle", "right_clavicle"), ("spine", "neck")),
    "spine": (("torso",), ("neck", "hip_center")),
    "torso": (("spine",), ("neck", "hip_center")),
    "lower_back": (("hip_center",),),
    "hip_center": (("left_hip", "right_hip"),),
    "{side}_hip_joint": (("hip_center",),),
    "{side}_hand": (("{side}_wrist",),),
    "{side}_wrist": (("{side}_hand",),),
    "{side}_finger_base": (("{side}_wrist",),),
    "{side}_foot": (("{side}_ankle",),),
    "{side}_ankle": (("{side}_foot",),),
}


@dataclass(frozen=True, eq=False)
class Mapping:
    """How one layout's joints come from another's: rows of ``weights`` sum to 1, to 0 for missing joints."""

    source: Layout
    target: Layout
    weights: Float[Tensor, "target source"]
    missing: tuple[str, ...]
    derived: tuple[str, ...]

    def __str__(self) -> str:
        """What was found by name, what was derived from what, and what could not be mapped."""
        by_name = len(self.target) - len(self.missing) - len(self.derived)
        lines = [f"{self.source.name} -> {self.target.name}: {by_name} of {len(self.target)} joints by name"]
        lines += [f"  {joint} = {self._formula(joint)}" for joint in self.derived]
        lines += [f"  missing: {', '.join(self.missing)}"] if self.missing else []
        return "\n".join(lines)

    def _formula(self, joint: str) -> str:
        row = self.weights[self.target.index(joint)].tolist()
        terms = [(weight, name) for weight, name in zip(row, self.source.joints, strict=True) if weight]
        return " + ".join(name if weight == 1 else f"{weight:g} {name}" for weight, name in terms)

    def apply(
        self, joints: Float[Tensor, "*batch source 3"], valid: Bool[Tensor, "*batch source"]
    ) -> tuple[Float[Tensor, "*batch target 3"], Bool[Tensor, "*batch target"]]:
        """Joints and mask in the target layout; a joint is valid where all it is made of is."""
        most = int((self.weights > 0).sum(-1).max())
        share, part = (chosen.to(joints.device) for chosen in self.weights.topk(max(most, 1)))
        there = (valid[..., part] | (share == 0)).all(-1) & (share[:, 0] > 0)
        # gathered, not multiplied by the matrix: exact, and quicker for so few parts
        made = (joints[..., part, :] * share.to(joints.dtype)[..., None]).sum(-2)
        return torch.where(there[..., None], made, 0.0), there


def mapping(source: Layout, target: Layout) -> Mapping:
    """How ``target``'s joints come from ``source``'s: by name, else by what may stand for them.

    hand and wrist stand for each other, so do foot and ankle, torso and spine; the middle of the shoulders
    stands for the neck, of neck and hips for the torso; the nose, else the middle of the ears or of the eyes,
    for the head.
    """
    return _mapping(source, target)


@lru_cache(maxsize=256)  # a data set asks for the same plan at every clip
def _mapping(source: Layout, target: Layout) -> Mapping:
    rows = [_weights(joint, source, ()) for joint in target.joints]
    found = [torch.zeros(len(source)) if row is None else row for row in rows]
    made = {joint for joint, row in zip(target.joints, rows, strict=True) if row is not None}
    return Mapping(
        source=source,
        target=target,
        weights=torch.stack(found),
        missing=tuple(joint for joint in target.joints if joint not in made),
        derived=tuple(joint for joint in target.joints if joint in made and joint not in source.joints),
    )


def convert(motion: Motion, to: Layout) -> Motion:
    """The motion in another layout. Joints that cannot be had are missing (``mapping`` says which, and why).

    Unit, up axis and number of dimensions stay those of the recording, so that key points of images in
    ``core15`` still say that they are pixels.
    """
    plan = mapping(motion.layout, to)
    if len(plan.missing) == len(to):
        raise ConfigError(
            f"layout {motion.layout.name!r} has no joint of layout {to.name!r}, by name or derived; "
            "rename its joints after the vocabulary in docs/motions.md"
        )
    joints, valid = plan.apply(motion.joints, motion.valid)
    seen = motion.layout
    return motion.replace(
        joints=joints, valid=valid, layout=replace(to, up=seen.up, unit=seen.unit, dims=seen.dims)
    )


def _weights(joint: str, source: Layout, above: tuple[str, ...]) -> Float[Tensor, " source"] | None:
    """Weights of the source's joints that make ``joint``, None if only those ``above`` could make it."""
    if joint in source.joints:
        return torch.eye(len(source))[source.index(joint)]
    for parts in _stand_ins(joint):
        if not {*above, joint} & set(parts):
            rows = [_weights(part, source, (*above, joint)) for part in parts]
            made = [row for row in rows if row is not None]
            if len(made) == len(parts):
                return torch.stack(made).mean(0)
    return None


def _stand_ins(joint: str) -> Iterator[tuple[str, ...]]:
    side, _, part = joint.partition("_")
    sided = _STAND_INS.get(f"{{side}}_{part}", ()) if side in ("left", "right") else ()
    yield from _STAND_INS.get(joint, ())
    yield from (tuple(name.format(side=side) for name in parts) for parts in sided)
