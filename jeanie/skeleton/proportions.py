"""Proportions of a body in the joints of ``core15``: height, depth, equal sides, and the misfit of a layout."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.convert import map_joints
from jeanie.skeleton.layout import LAYOUTS, Layout

__all__ = ["find_better_layout", "find_flat_axis", "find_uneven_bones", "measure_height"]

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
_MAX_MISFIT = 3.0  # of one bone: a factor of 8
_BETTER_FIT = (
    1.25  # misfit of the declared layout relative to another; recordings in their own layout stay below 0.85
)
_MAX_FIT_FRAMES = 256  # that are compared with other layouts


def measure_height(core: Float[Tensor, "frame 15 3"], known: Bool[Tensor, "frame 15"]) -> float | None:
    """Return the standing height by the median lengths of the known bones."""
    lengths = _measure_bones(core, known)
    present = lengths.isfinite()
    if int(present.sum()) < 3:
        return None
    parts = core.new_tensor(_PARTS)
    height = float(lengths[present].sum() / parts[present].sum())
    return height if height > 0 else None


def _measure_misfit(core: Float[Tensor, "frame 15 3"], known: Bool[Tensor, "frame 15"]) -> float | None:
    """Return how far the proportions are from those of a person: the mean of |log2(length / expected length)|.

    Recorded people reach 0.45, mostly 0.1 to 0.3. Joints in a wrong order reach 0.25 to 1.
    """
    ratio = (_measure_bones(core, known) / core.new_tensor(_PARTS)).log2()
    if int(ratio.isfinite().sum()) < 3:
        return None
    return float((ratio - ratio.nanmedian()).abs().clamp_max(_MAX_MISFIT).nanmean())


def _measure_bones(
    core: Float[Tensor, "frame 15 3"], known: Bool[Tensor, "frame 15"]
) -> Float[Tensor, " bone"]:
    """Return the median length of every bone; NaN for a bone that no frame shows."""
    are_known = known[:, _PARENT] & known[:, _CHILD]
    lengths = torch.where(are_known, (core[:, _CHILD] - core[:, _PARENT]).norm(dim=-1), torch.nan)
    return lengths.nanmedian(0).values


def find_better_layout(
    joints: Float[Tensor, "frame joint 3"], valid: Bool[Tensor, "frame joint"], layout: Layout
) -> str | None:
    """Return the known layout with as many joints whose proportions fit much better than those of ``layout``."""
    others = {
        other.joints: name
        for name, other in reversed(list(LAYOUTS.items()))
        if len(other) == len(layout) and other.joints != layout.joints
    }
    is_known = layout.dims == 3 and any(layout.joints == known.joints for known in LAYOUTS.values())
    if not others or not is_known:
        return None
    step = max(1, len(joints) // _MAX_FIT_FRAMES)
    sample = joints[::step], valid[::step]
    misfit = _measure_misfit(*map_joints(layout, CORE).apply(*sample))
    fits = {
        name: _measure_misfit(*map_joints(LAYOUTS[name], CORE).apply(*sample)) for name in others.values()
    }
    known_fits = {name: fit for name, fit in fits.items() if fit is not None}
    if misfit is None or not known_fits:
        return None
    best = min(known_fits, key=known_fits.__getitem__)
    return best if misfit > _BETTER_FIT * known_fits[best] else None


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
            are_known = known[:, a] & known[:, b]
            lengths.append(
                float((core[are_known, a] - core[are_known, b]).norm(dim=-1).nanmedian())
                if are_known.any()
                else 0.0
            )
        if min(lengths) > 0 and max(lengths) > _UNEVEN * min(lengths):
            uneven.append(name)
    return tuple(uneven)
