"""Convert motions between layouts by joint names; missing joints are derived from others."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["JointMapping", "convert", "map_joints"]

# Substitutes for a joint that the source layout lacks, best first: the mean of the joints of one entry.
# {side} is left or right; entries may name joints that are derived themselves.
_SUBSTITUTES: dict[str, tuple[tuple[str, ...], ...]] = {
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
class JointMapping:
    """A linear map from the joints of one layout to another.

    Each row of ``weights`` sums to 1, or to 0 for a missing joint. ``derived`` lists the joints without a source
    joint of the same name.
    """

    source: Layout
    target: Layout
    weights: Float[Tensor, "target source"]
    missing: tuple[str, ...]
    derived: tuple[str, ...]

    def __str__(self) -> str:
        """Describe which joints match by name, which are derived and how, and which are missing."""
        by_name = len(self.target) - len(self.missing) - len(self.derived)
        lines = [f"{self.source.name} -> {self.target.name}: {by_name} of {len(self.target)} joints by name"]
        lines += [f"  {joint} = {self.describe_joint(joint)}" for joint in self.derived]
        lines += [f"  missing: {', '.join(self.missing)}"] if self.missing else []
        return "\n".join(lines)

    def describe_joint(self, joint: str) -> str:
        """Return the source joints of a target joint with their weights, such as "0.5 left_hip + 0.5 right_hip"."""
        row = self.weights[self.target.index(joint)].tolist()
        terms = [(weight, name) for weight, name in zip(row, self.source.joints, strict=True) if weight]
        return " + ".join(name if weight == 1 else f"{weight:g} {name}" for weight, name in terms)

    def apply(
        self, joints: Float[Tensor, "*batch source 3"], valid: Bool[Tensor, "*batch source"]
    ) -> tuple[Float[Tensor, "*batch target 3"], Bool[Tensor, "*batch target"]]:
        """Return joints and mask in the target layout; a joint is valid if all its sources are."""
        count = int((self.weights > 0).sum(-1).max())
        weights, sources = (part.to(joints.device) for part in self.weights.topk(max(count, 1)))
        present = (valid[..., sources] | (weights == 0)).all(-1) & (weights[:, 0] > 0)
        # gathering is exact, and faster than a matrix product for so few sources
        mapped = (joints[..., sources, :] * weights.to(joints.dtype)[..., None]).sum(-2)
        return torch.where(present[..., None], mapped, 0.0), present


@lru_cache(maxsize=256)  # every clip of a data set needs the same mapping
def map_joints(source: Layout, target: Layout) -> JointMapping:
    """Map the joints of ``source`` to those of ``target``: by name, otherwise from substitutes.

    Hand and wrist replace each other, and so do foot and ankle, torso and spine. The midpoint of the shoulders
    replaces the neck; the midpoint of neck and hips replaces the torso. The nose, or the midpoint of the ears or
    eyes, replaces the head.

    >>> from jeanie.skeleton.layout import LAYOUTS
    >>> map_joints(LAYOUTS["ntu25"], LAYOUTS["core15"]).missing
    ()
    """
    rows = [_find_weights(joint, source, ()) for joint in target.joints]
    weights = [torch.zeros(len(source)) if row is None else row for row in rows]
    mapped = {joint for joint, row in zip(target.joints, rows, strict=True) if row is not None}
    return JointMapping(
        source=source,
        target=target,
        weights=torch.stack(weights),
        missing=tuple(joint for joint in target.joints if joint not in mapped),
        derived=tuple(joint for joint in target.joints if joint in mapped and joint not in source.joints),
    )


def convert(motion: Motion, to: Layout) -> Motion:
    """Return the motion in another layout. Joints that cannot be derived are missing; see ``map_joints``.

    The unit, up axis and number of dimensions of the recording stay: key points of images in ``core15`` are
    still in pixels.

    Args:
        motion: The motion.
        to: The new layout.

    Raises:
        ConfigError: The layouts share no joint.

    >>> from jeanie import LAYOUTS
    >>> convert(Motion(torch.ones(60, 25, 3), LAYOUTS["ntu25"]), LAYOUTS["core15"])
    Motion(None, core15, frames=60, persons=1)
    """
    mapping = map_joints(motion.layout, to)
    if len(mapping.missing) == len(to):
        of_motion = f"{motion.name}: " if motion.name else ""
        raise ConfigError(
            f"{of_motion}layout {motion.layout.name!r} has no joint of layout {to.name!r}, by name or derived "
            f"({', '.join(motion.layout.joints)[:99]}); declare them in a layout file, which jeanie layout FILE writes"
        )
    joints, valid = mapping.apply(motion.joints, motion.valid)
    old = motion.layout
    return motion.replace(
        joints=joints, valid=valid, layout=replace(to, up=old.up, unit=old.unit, dims=old.dims)
    )


def _find_weights(joint: str, source: Layout, pending: tuple[str, ...]) -> Float[Tensor, " source"] | None:
    """Return the source weights of ``joint``; None if it needs itself or a joint in ``pending``."""
    if joint in source.joints:
        return torch.eye(len(source))[source.index(joint)]
    for parts in _list_substitutes(joint):
        if not {*pending, joint} & set(parts):
            rows = [_find_weights(part, source, (*pending, joint)) for part in parts]
            known_rows = [row for row in rows if row is not None]
            if len(known_rows) == len(parts):
                return torch.stack(known_rows).mean(0)
    return None


def _list_substitutes(joint: str) -> Iterator[tuple[str, ...]]:
    side, _, part = joint.partition("_")
    sided = _SUBSTITUTES.get(f"{{side}}_{part}", ()) if side in ("left", "right") else ()
    yield from _SUBSTITUTES.get(joint, ())
    yield from (tuple(name.format(side=side) for name in parts) for parts in sided)
