"""Recordings as the page sends them."""

from functools import cache

import torch
from movements import open_clip


def to_frames(motion, start=0.0):
    """Return a motion as frames in the format of ``jeanie watch -``; missing joints are null."""
    rows = zip(motion.joints[:, 0].tolist(), motion.valid[:, 0].tolist(), strict=True)
    return [
        {
            "t": start + number / motion.rate,
            "layout": motion.layout.name,
            "joints": [joint if seen else None for joint, seen in zip(joints, valid, strict=True)],
        }
        for number, (joints, valid) in enumerate(rows)
    ]


@cache
def make_take(action="wave", subject=0, rest=0):
    """Return the frames of a synthetic action, with ``rest`` frames of rest at both ends."""
    motion = open_clip(action, subject)
    joints = motion.joints
    joints = torch.cat([joints[:1].expand(rest, -1, -1, -1), joints, joints[-1:].expand(rest, -1, -1, -1)])
    return to_frames(motion.replace(joints=joints, valid=None))
