"""What ``jeanie info`` says about the body in a recording: joints, height, posture, gaps and warnings."""

from typing import Any

import torch

from jeanie.skeleton import LAYOUTS, Motion, map_joints
from jeanie.skeleton.plausibility import list_warnings, measure_body

__all__ = ["body_facts"]


def body_facts(motion: Motion) -> dict[str, Any]:
    """Return the facts as JSON values."""
    facts = measure_body(motion)
    gaps, longest = _measure_gaps(motion)
    return {
        "height": None if facts.height is None else round(facts.height, 3),
        "up": motion.layout.up,
        "stands_along": facts.up,
        "gaps": gaps,
        "longest_gap": longest,
        "repeated_frames": facts.frozen,
        "jumps": [frame for frame, _ in facts.jumps],
        "core_joints": facts.matched,
        "mapping": _describe_mapping(motion),
        "warnings": list(list_warnings(motion)),
    }


def _describe_mapping(motion: Motion) -> dict[str, str]:
    """Return the source of each core joint: a joint of the recording, a mean of several, or "missing"."""
    plan = map_joints(motion.layout, LAYOUTS["core15"])
    return {
        joint: "missing" if joint in plan.missing else plan.describe_joint(joint)
        for joint in plan.target.joints
    }


def _measure_gaps(motion: Motion) -> tuple[int, int]:
    """Return the number of gaps of joints between frames that show them, and the length of the longest in frames."""
    is_valid = motion.valid.flatten(1)
    if len(is_valid) < 3:
        return 0, 0
    before, after = is_valid.cummax(0).values, is_valid.flip(0).cummax(0).values.flip(0)
    missing = ~is_valid & before & after
    starts = missing & ~torch.cat([torch.zeros_like(missing[:1]), missing[:-1]])
    counts = torch.zeros_like(missing[0], dtype=torch.long)
    longest = counts
    for row in missing:
        counts = torch.where(row, counts + 1, 0)
        longest = torch.maximum(longest, counts)
    return int(starts.sum()), int(longest.max())
