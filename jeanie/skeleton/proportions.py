"""Proportions of a body in the joints of ``core15``: its height, its depth, and whether its sides are alike."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.layout import LAYOUTS

__all__ = ["find_flat_axis", "find_uneven_bones", "measure_height"]

CORE = LAYOUTS["core15"]
# mean bone lengths of core15 in the order of its bones, in parts of the standing height
_PARTS = (0.075, 0.158, 0.118, 0.175, 0.163, 0.118, 0.175, 0.163, 0.163, 0.250, 0.280, 0.163, 0.250, 0.280)
_PARENT, _CHILD = (list(side) for side in zip(*CORE.bones, strict=True))
_FLAT = 1e-6  # heights
# pairs of joints of core15 whose distance is about the same on both sides
_BONES = {
    "upper arm": ("{side}_shoulder", "{side}_elbow"), "forearm": ("{side}_elbow", "{side}_hand"),
    "thigh": ("{side}_hip", "{side}_knee"), "shin": ("{side}_knee", "{side}_foot"),
    "shoulder": ("neck", "{side}_shoulder"), "hip": ("torso", "{side}_hip"),
}  # fmt: skip
_UNEVEN = 2.0  # ratio of left and right


def measure_height(core: Float[Tensor, "frame 15 3"], known: Bool[Tensor, "frame 15"]) -> float | None:
    """Return the standing height by the median lengths of the known bones."""
    both = known[:, _PARENT] & known[:, _CHILD]
    lengths = (
        torch.where(both, (core[:, _CHILD] - core[:, _PARENT]).norm(dim=-1), torch.nan).nanmedian(0).values
    )
    present = lengths.isfinite()
    if int(present.sum()) < 3:
        return None
    parts = core.new_tensor(_PARTS)
    height = float(lengths[present].sum() / parts[present].sum())
    return height if height > 0 else None


def find_flat_axis(
    core: Float[Tensor, "frame 15 3"], known: Bool[Tensor, "frame 15"], height: float | None
) -> str | None:
    """Return the first axis along which the known joints of a frame are nowhere apart."""
    if height is None:
        return None
    low = core.masked_fill(~known[..., None], torch.inf).amin(1)
    high = core.masked_fill(~known[..., None], -torch.inf).amax(1)
    extent = (high - low).amax(0)  # -inf if no frame shows a joint
    flat = (extent < _FLAT * height).nonzero().flatten().tolist()
    return "xyz"[flat[0]] if flat else None


def find_uneven_bones(core: Float[Tensor, "frame 15 3"], known: Bool[Tensor, "frame 15"]) -> tuple[str, ...]:
    """Return the names of the bones whose median lengths on the left and on the right are very different."""
    uneven = []
    for name, ends in _BONES.items():
        lengths = []
        for side in ("left", "right"):
            a, b = (CORE.index(end.format(side=side)) for end in ends)
            both = known[:, a] & known[:, b]
            lengths.append(
                float((core[both, a] - core[both, b]).norm(dim=-1).nanmedian()) if both.any() else 0.0
            )
        if min(lengths) > 0 and max(lengths) > _UNEVEN * min(lengths):
            uneven.append(name)
    return tuple(uneven)
