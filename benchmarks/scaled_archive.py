"""Archives of any length from CMU's motion capture: time-warped, mirrored, and with the arms of other recordings.

Recording number i is the same for every length, so a longer archive begins with the shorter one.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from jeanie.datasets import Dataset, open_dataset
from jeanie.datasets.archive.writer import write_archive
from jeanie.skeleton import Motion

SEED = 0
_ARMS = ("elbow", "hand", "wrist")


def generate_motions(clips: Dataset, hours: float) -> Iterator[Motion]:
    """Yield the recordings of CMU, then recordings made from two of them each, until ``hours`` are full."""
    left = hours * 3600
    number = 0
    while left > 0:
        motion = clips.motions[number] if number < len(clips) else make_motion(clips, number)
        left -= len(motion) / (motion.rate or 30.0)
        number += 1
        yield motion


def make_motion(clips: Dataset, number: int) -> Motion:
    """Return a recording at a changing speed with the arms of another recording; every second one is mirrored."""
    random = np.random.default_rng([SEED, number])
    body = clips.motions[number % len(clips)]
    other = clips.motions[int(random.integers(len(clips)))]
    joints = body.joints.clone()
    layout = body.layout
    for side in ("left", "right"):
        shoulder = layout.joints.index(f"{side}_shoulder")
        arm = [
            at
            for at, name in enumerate(layout.joints)
            if name.startswith(side) and any(part in name for part in _ARMS)
        ]
        frames = torch.arange(len(joints)) % len(other)
        joints[:, :, arm] = (
            other.joints[frames][:, :, arm]
            - other.joints[frames][:, :, [shoulder]]
            + body.joints[:, :, [shoulder]]
        )
    speed = np.exp(
        random.uniform(-0.2, 0.2)
        + 0.15 * np.sin(np.arange(len(joints)) / random.uniform(20, 60) + random.uniform(0, 6))
    )
    times = np.cumsum(speed)
    wanted = np.arange(times[0], max(times[-1], times[0] + 2))  # at least two frames
    positions = torch.from_numpy(np.interp(wanted, times, np.arange(len(times))))
    low = positions.floor().long().clamp_max(len(joints) - 1)
    high = (low + 1).clamp_max(len(joints) - 1)
    weight = (positions - low)[:, None, None, None].float()
    warped = joints[low] * (1 - weight) + joints[high] * weight
    mixture = Motion(warped, layout, rate=body.rate, name=f"made {number}")
    return mixture.mirror() if random.integers(2) else mixture


def main() -> None:
    """Write an archive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--hours", type=float, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    clips = open_dataset("cmu")
    write_archive(generate_motions(clips, options.hours), options.path, name=f"cmu x {options.hours:g} h")


if __name__ == "__main__":
    main()
