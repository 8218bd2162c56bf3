"""Plausibility of a recording: size, posture, left and right, frozen and jumping frames of a body.

The limits are wide: recordings of people, also noisy ones, pass. What does not pass was usually declared wrongly: the
unit, the axis that points up, or the names of the joints.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.skeleton.convert import map_joints
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.proportions import (
    find_better_layout,
    find_flat_axis,
    find_uneven_bones,
    measure_height,
)

__all__ = [
    "BodyFacts",
    "assume_unit",
    "is_misplaced",
    "keep_suggestions",
    "list_warnings",
    "measure_body",
    "suggest_unit",
]

CORE = LAYOUTS["core15"]
MIN_JOINTS = 10  # of the core joints
MIN_HEIGHT, MAX_HEIGHT = 0.3, 3.0  # metres
MIN_ASSUMED_HEIGHT = (
    0.9  # metres, if the unit is a guess: an adult in inches that are read as centimetres reaches 0.8
)
MIN_RATE, MAX_RATE = 2.0, 2000.0  # frames per second
MAX_SPREAD = 6.0  # metres between points of one frame whose joints are unknown
_UNITS = {"mm": 0.001, "cm": 0.01, "in": 0.0254, "m": 1.0, "ft": 0.3048, "dm": 0.1}
_ADULT = (1.0, 2.3)  # metres; a unit is suggested if it gives such a height
_AXES = ("x", "y", "z", "-x", "-y", "-z")
_UPPER = [CORE.index(joint) for joint in ("head", "neck", "left_shoulder", "right_shoulder")]
_LOWER = [CORE.index(f"{side}_{joint}") for joint in ("knee", "foot") for side in ("left", "right")]
_HIPS = [CORE.index("left_hip"), CORE.index("right_hip")]
_ALONG, _MEDIAN_ALONG = (
    0.8,
    0.95,
)  # cosine between a body and the axis that it stands along: nearly always, median
_MOST = 0.95  # share of the frames
_UPRIGHT = 0.85  # cosine between a body and the up axis above which its front is horizontal
_STRETCHED = (
    -0.5
)  # median cosine between the feet of a swimmer and the axis of the body; a standing person has flat feet
_MIN_UNEVEN = 2  # uneven bones: the noise of sensors reaches one
_FROZEN = 0.6  # share of frames that repeat the frame before
_MIN_FROZEN = 15  # frames
_JUMP, _MAX_JUMP = (
    0.8,
    3.0,
)  # heights per frame: the smallest jump, and a jump that the noise of a tracker cannot cause
_CACHE_KEY = "_body_facts"  # attribute of a motion
_BACKWARDS = -0.6  # median cosine between the front of the body and its toes or face


@dataclass(frozen=True)
class BodyFacts:
    """Measurements of the body in a recording.

    Attributes:
        height: Standing height by the lengths of the bones, in the unit of the recording; None if unknown.
        up: Axis along which the body stands in nearly all frames, such as "y" or "-z"; None if it does not.
        upside_down: Share of the frames in which the feet are above the head.
        matched, missing: Core joints that the layout has, directly or derived, and those that it lacks.
        frozen: Number of frames that repeat the frame before.
        jumps: Frames before which the whole body jumps, and how far, in the unit of the recording.
        facing: Median cosine between the front by left and right and the direction of toes and face, while the body is
            upright; None if unknown.
        has_flat_feet: Whether the feet are at an angle to the axis ``up``, as of a person who stands along it.
        flat: Axis along which the body has no extent in any frame; None in 2-D, or for a body with depth.
        uneven: Bones whose left and right side differ in length by more than a factor of two.
        spread: Longest side of the box around the points of a frame, the median over frames; 0 if unknown.
        better_layout: Known layout with as many joints whose proportions fit much better; None without one.
        suggested_unit, suggested_up: What to declare if size or posture are implausible; None if unclear.
        is_unit_assumed: Whether neither the file nor the user says the unit.
    """

    height: float | None
    up: str | None
    upside_down: float
    matched: int
    missing: tuple[str, ...]
    frozen: int
    jumps: tuple[tuple[int, float], ...]
    facing: float | None
    has_flat_feet: bool
    flat: str | None
    uneven: tuple[str, ...]
    spread: float
    better_layout: str | None
    suggested_unit: str | None
    suggested_up: str | None
    is_unit_assumed: bool = False


def list_warnings(motion: Motion, *, is_stream: bool = False) -> tuple[str, ...]:
    """Return the warnings about a recording; each says what to declare. A plausible recording has none.

    ``is_stream`` allows frozen frames: a stream repeats a frame until the next one arrives.
    """
    facts = measure_body(motion)
    return tuple(_describe_problems(motion, replace(facts, frozen=0) if is_stream else facts))


def suggest_unit(height: float) -> str | None:
    """Return the unit in which a height is that of a person, None if there is none.

    >>> suggest_unit(172.0), suggest_unit(1.72), suggest_unit(9999.0)
    ('cm', 'm', None)
    """
    return next((name for name, size in _UNITS.items() if _ADULT[0] <= height * size <= _ADULT[1]), None)


def measure_body(motion: Motion) -> BodyFacts:
    """Measure the body of the person who is seen most; the motion keeps the result."""
    facts: BodyFacts | None = motion.__dict__.get(_CACHE_KEY)
    if facts is None:
        facts = _measure_body(motion)
        motion.__dict__[_CACHE_KEY] = facts
    return facts


def is_misplaced(motion: Motion) -> bool:
    """Return whether size or posture are implausible, so that a unit or an up axis is wrong."""
    facts = measure_body(motion)
    return _has_wrong_size(motion, facts) or _has_wrong_axis(motion, facts)


def assume_unit(motion: Motion) -> None:
    """Let the warnings of a motion treat its unit as a guess: a body below 0.9 m is then implausible."""
    motion.__dict__[_CACHE_KEY] = replace(measure_body(motion), is_unit_assumed=True)


def keep_suggestions(motion: Motion, stored: Motion) -> None:
    """Let the warnings of a motion suggest the unit and the up axis of its file.

    Args:
        motion: The motion as it was read, perhaps scaled and rotated.
        stored: The same motion with the numbers and axes of the file.
    """
    file_facts = measure_body(stored)
    motion.__dict__[_CACHE_KEY] = replace(
        measure_body(motion), suggested_unit=file_facts.suggested_unit, suggested_up=file_facts.suggested_up
    )


def _has_wrong_size(motion: Motion, facts: BodyFacts) -> bool:
    if motion.layout.unit != "m" or motion.layout.dims != 3:
        return False
    if facts.height is None:
        return facts.spread > MAX_SPREAD
    smallest = MIN_ASSUMED_HEIGHT if facts.is_unit_assumed else MIN_HEIGHT
    return not smallest <= facts.height <= MAX_HEIGHT


def _has_wrong_axis(motion: Motion, facts: BodyFacts) -> bool:
    is_elsewhere = facts.up is not None and facts.up != motion.layout.up
    return facts.upside_down > 0.5 or (is_elsewhere and facts.has_flat_feet)


def _measure_body(motion: Motion) -> BodyFacts:
    person = int(motion.valid.sum(dim=(0, 2)).argmax()) if motion.persons > 1 else 0
    joints, valid = motion.joints[:, person], motion.valid[:, person]
    plan = map_joints(motion.layout, CORE)
    core, is_known = plan.apply(joints, valid)
    height = measure_height(core, is_known)
    line = _find_body_lines(core, is_known)
    axis = _find_axis(line)
    cosine = line[:, "xyz".index(motion.layout.up)]
    upright = (cosine > _UPRIGHT)[:, None]
    is_upright = motion.layout.dims == 3 and float(upright.to(core.dtype).mean()) > 0.5
    upside_down = float((cosine < -0.5).to(core.dtype).mean())
    spread = _measure_spread(motion)
    opposite = f"-{motion.layout.up}" if upside_down > 0.5 else None
    return BodyFacts(
        height=height,
        up=axis,
        upside_down=upside_down,
        matched=len(CORE) - len(plan.missing),
        missing=plan.missing,
        frozen=_count_frozen(joints, valid),
        jumps=_find_jumps(core, is_known, height),
        facing=_measure_facing(joints, valid & upright, motion.layout) if is_upright else None,
        has_flat_feet=axis is None or _has_flat_feet(joints, valid, motion.layout, axis),
        flat=find_flat_axis(core, is_known, height) if motion.layout.dims == 3 else None,
        uneven=find_uneven_bones(core, is_known),
        spread=spread,
        better_layout=find_better_layout(joints, valid, motion.layout),
        suggested_unit=suggest_unit(spread if height is None else height),
        suggested_up=axis or opposite or (motion.layout.up if is_upright else None),
    )


def _measure_spread(motion: Motion) -> float:
    """Return the longest side of the box around all points of a frame, in the median over the frames; 0 if unknown."""
    points = motion.joints.flatten(1, 2)
    is_seen = motion.valid.flatten(1, 2)[..., None]
    size = points.masked_fill(~is_seen, -torch.inf).amax(1) - points.masked_fill(~is_seen, torch.inf).amin(1)
    size = size[is_seen.any(1)[:, 0]]
    return float(size.amax(1).median()) if len(size) else 0.0


def _describe_problems(motion: Motion, facts: BodyFacts) -> Iterator[str]:
    if facts.matched < MIN_JOINTS:
        yield (
            f"only {facts.matched} of the {len(CORE)} core joints are known (missing: {', '.join(facts.missing)}); "
            "write a layout file with: jeanie layout FILE, edit it and give it as layout (--layout)"
        )
    is_metric = motion.layout.unit == "m" and motion.layout.dims == 3
    height, unit, up = facts.height, facts.suggested_unit, facts.suggested_up
    if _has_wrong_size(motion, facts):
        size = (
            f"the points of a frame are up to {_round(facts.spread)} m apart"
            if height is None
            else f"the body is {_round(height)} m tall"
        )
        advice = f"unit='{unit}' (--unit {unit})" if unit else "unit (--unit m, cm, mm, in or ft)"
        is_small = facts.is_unit_assumed and height is not None and MIN_HEIGHT <= height < MIN_ASSUMED_HEIGHT
        assumed = " in the unit that was assumed" if is_small else ""
        yield f"{size}{assumed}; declare the unit of the file: {advice}"
    if _has_wrong_axis(motion, facts):
        advice = f"up='{up}' (--up {up})" if up else f"up (--up {', '.join(_AXES)})"
        yield (
            f"the feet are above the head in {100 * facts.upside_down:.0f} % of the frames; declare the axis that "
            f"points up: {advice}"
            if facts.upside_down > 0.5
            else f"the body lies along the axis {facts.up} in all frames; if it stands, declare the axis that points "
            f"up: {advice}"
        )
    if facts.flat is not None:
        yield (
            f"the body has no depth: in every frame, its joints have the same {facts.flat}; 2-D key points need "
            "lifting: jeanie lift apply"
        )
    if facts.facing is not None and facts.facing < _BACKWARDS:
        yield (
            "left and right seem to be swapped: toes and face point backwards; for left-handed coordinates declare "
            "mirror=True (--mirror), else exchange left and right in a layout file (--layout)"
        )
    if facts.better_layout is not None:
        yield (
            f"the lengths of the bones fit the layout {facts.better_layout} much better than {motion.layout.name}; "
            f"check the order of the joints, and declare it: layout='{facts.better_layout}' (--layout "
            f"{facts.better_layout})"
        )
    elif len(facts.uneven) >= _MIN_UNEVEN and is_metric:
        yield (
            f"left and right differ in the lengths of {', '.join(facts.uneven)} by more than a factor of two; check "
            "the order or the names of the joints, and declare them: layout= (--layout)"
        )
    if facts.frozen >= max(_MIN_FROZEN, _FROZEN * len(motion)):
        yield (
            f"{facts.frozen} of {len(motion)} frames repeat the frame before; cut the part without movement, or "
            "export the recording at its own frame rate and declare it (--rate)"
        )
    if motion.rate is not None and not MIN_RATE <= motion.rate <= MAX_RATE:
        yield f"the frame rate is {motion.rate:.3g} per second; declare that of the recording: rate= (--rate)"
    jumps = [jump for jump in facts.jumps if height is not None and jump[1] > _MAX_JUMP * height]
    if jumps:
        frame, distance = jumps[0]
        more = f" and {len(jumps) - 1} times more" if len(jumps) > 1 else ""
        unit = {"m": " m", "px": " pixels"}.get(motion.layout.unit, "")
        yield (
            f"the body jumps by {distance:.3g}{unit} at frame {frame}{more}; cut the recording there, and check that "
            "it follows one person"
        )


def _round(length: float) -> str:
    """Return a length with three digits and without an exponent."""
    return f"{float(f'{length:.3g}'):,.10g}"


def _average_valid(
    core: Float[Tensor, "frame 15 3"], known: Bool[Tensor, "frame 15"], joints: list[int]
) -> tuple[Float[Tensor, "frame 3"], Bool[Tensor, " frame"]]:
    weight = known[:, joints].to(core.dtype)
    count = weight.sum(1, keepdim=True)
    return (core[:, joints] * weight[..., None]).sum(1) / count.clamp_min(1), count[:, 0] > 0


def _find_body_lines(
    core: Float[Tensor, "frame 15 3"], known: Bool[Tensor, "frame 15"]
) -> Float[Tensor, "frame 3"]:
    """Return the unit vector from the legs (without them, the hips) to head and shoulders; 0 if unknown."""
    upper, has_upper = _average_valid(core, known, _UPPER)
    lower, has_lower = _average_valid(core, known, _LOWER)
    hips, has_hips = _average_valid(core, known, _HIPS)
    line = upper - torch.where(has_lower[:, None], lower, hips)
    has_line = has_upper & (has_lower | has_hips)
    return torch.where(has_line[:, None], line / line.norm(dim=-1, keepdim=True).clamp_min(1e-9), 0.0)


def _find_axis(line: Float[Tensor, "frame 3"]) -> str | None:
    """Return the axis along which the body stands in nearly all frames."""
    cosines = torch.cat([line, -line], 1)[line.norm(dim=-1) > 0.5]
    if not len(cosines):
        return None
    best = int(cosines.median(0).values.argmax())
    is_along = float((cosines[:, best] > _ALONG).to(line.dtype).mean()) >= _MOST
    return _AXES[best] if is_along and float(cosines[:, best].median()) >= _MEDIAN_ALONG else None


def _has_flat_feet(
    joints: Float[Tensor, "frame joint 3"], valid: Bool[Tensor, "frame joint"], layout: Layout, axis: str
) -> bool:
    """Return whether the feet are not stretched along the axis of the body; True if the layout has no toes."""
    index = {joint: at for at, joint in enumerate(layout.joints)}
    vectors = _subtract_pairs(joints, valid, index, [cue for cue in _list_cues(index) if cue[0] != "nose"])
    if not vectors:
        return True
    foot = torch.cat(vectors)
    sign = -1.0 if axis.startswith("-") else 1.0
    cosine = sign * foot[:, "xyz".index(axis[-1])] / foot.norm(dim=-1).clamp_min(1e-9)
    return not float(cosine.nanmedian()) < _STRETCHED


def _count_frozen(joints: Float[Tensor, "frame joint 3"], valid: Bool[Tensor, "frame joint"]) -> int:
    """Return the number of frames that repeat the frame before exactly; frames without a body do not count."""
    same = (joints[1:] == joints[:-1]).flatten(1).all(1) & (valid[1:] == valid[:-1]).all(1) & valid[1:].any(1)
    return int(same.sum())


def _find_jumps(
    core: Float[Tensor, "frame 15 3"], known: Bool[Tensor, "frame 15"], height: float | None
) -> tuple[tuple[int, float], ...]:
    """Return (frame, distance) of jumps of the trunk between two frames that both show it."""
    if height is None:
        return ()
    trunk, has_trunk = _average_valid(core, known, [*_UPPER[1:], *_HIPS])
    full = known[:, [*_UPPER[2:], *_HIPS]].all(1) & has_trunk
    distance = (trunk[1:] - trunk[:-1]).norm(dim=-1)
    at = ((distance > _JUMP * height) & full[1:] & full[:-1]).nonzero().flatten().tolist()
    return tuple((frame + 1, float(distance[frame])) for frame in at)


def _measure_facing(
    joints: Float[Tensor, "frame joint 3"], valid: Bool[Tensor, "frame joint"], layout: Layout
) -> float | None:
    """Return the median cosine between the front by left and right and the direction of toes and nose.

    With y up, a person with the right side at +x looks along -z: the front is up x (right - left).
    """
    index = {joint: at for at, joint in enumerate(layout.joints)}
    pairs = [("left_shoulder", "right_shoulder"), ("left_hip", "right_hip")]
    lines = _subtract_pairs(joints, valid, index, [(right, left) for left, right in pairs])
    cues = _subtract_pairs(joints, valid, index, _list_cues(index))
    if not lines or not cues:
        return None
    up = joints.new_tensor([0.0, 1.0, 0.0] if layout.up == "y" else [0.0, 0.0, 1.0])
    line = torch.stack(lines).nansum(0)
    front = torch.linalg.cross(up.expand_as(line), line)
    front = front / front.norm(dim=-1, keepdim=True).clamp_min(1e-9)
    cue = torch.stack(cues)
    cue = cue - (cue @ up)[..., None] * up
    along = (cue * front).nansum((0, 2)) / cue.norm(dim=-1).nansum(0).clamp_min(1e-9)
    has_cue = cue.isfinite().any(-1).any(0) & (front.norm(dim=-1) > 0.5)
    return float(along[has_cue].median()) if bool(has_cue.any()) else None


def _list_cues(index: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Yield (front joint, back joint): toes before ankles or heels, and the nose before the ears."""
    for side in ("left", "right"):
        toe = next((f"{side}_{part}" for part in ("big_toe", "foot") if f"{side}_{part}" in index), None)
        back = next((f"{side}_{part}" for part in ("heel", "ankle") if f"{side}_{part}" in index), None)
        if toe and back:
            yield toe, back
        if "nose" in index and f"{side}_ear" in index:
            yield "nose", f"{side}_ear"


def _subtract_pairs(
    joints: Float[Tensor, "frame joint 3"],
    valid: Bool[Tensor, "frame joint"],
    index: dict[str, int],
    pairs: Iterable[tuple[str, str]],
) -> list[Float[Tensor, "frame 3"]]:
    """Return joint a minus joint b for the pairs that the layout has, NaN where one of the two is missing."""
    vectors = []
    for a, b in pairs:
        if a in index and b in index:
            are_valid = valid[:, index[a]] & valid[:, index[b]]
            vectors.append(
                torch.where(are_valid[:, None], joints[:, index[a]] - joints[:, index[b]], torch.nan)
            )
    return vectors
