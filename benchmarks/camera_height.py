"""Measure how much too low camera heights are that are estimated from skeletons: CMU seen by simulated cameras.

The floor of CMU is y = 0. Each clip is rotated by a random azimuth and put before a camera of known height, distance
and tilt. The mean error over all cameras and layouts is ``LOWEST_JOINT`` of ``jeanie.views.camera_position``.

    python benchmarks/camera_height.py            # needs CMU in $JEANIE_DATA/cmu; half a minute
"""

import argparse
import math

import numpy as np
import torch

from jeanie.datasets import open_dataset
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.convert import convert
from jeanie.views.camera_position import estimate_positions_by

CAMERAS = ((0.5, 4.5), (1.2, 3.0), (1.7, 3.5), (2.5, 3.0))  # height, distance in metres
AIM = 1.0  # metres above the floor where the camera looks


def see(motion: Motion, height: float, distance: float, azimuth_rad: float) -> Motion:
    """Return a motion with its floor at y = 0 in the space of a camera."""
    tilt = math.asin((height - AIM) / distance)
    x, y, z = motion.joints.unbind(-1)
    x, y, z = x - x.mean(), y - height, z - z.mean()
    c, s = math.cos(azimuth_rad), math.sin(azimuth_rad)
    x, z = c * x + s * z, c * z - s * x + distance * math.cos(tilt)
    c, s = math.cos(tilt), math.sin(tilt)
    return motion.replace(joints=torch.stack((x, c * y + s * z, c * z - s * y), -1))


def main() -> None:
    """Print the error per layout and camera, and the mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    generator = np.random.default_rng(parser.parse_args().seed)
    data = open_dataset("cmu")
    labelled = [clip for clip, label in enumerate(data.labels) if label is not None][::2]
    motions = [data[clip] for clip in labelled]
    errors = []
    for name in ("msr20", "kinect20", "ntu25"):
        for height, distance in CAMERAS:
            recordings = [
                convert(see(motion, height, distance, generator.uniform(0, 2 * math.pi)), LAYOUTS[name])
                for motion in motions
            ]
            (position,) = estimate_positions_by(recordings, lambda motion: 0).values()
            errors.append(position.height - height)
            print(f"{name:9} camera at {height:.1f} m, {distance:.1f} m away: error {errors[-1]:+.3f} m")
    print(
        f"{len(motions)} clips, mean error {np.mean(errors):+.3f} m, from {min(errors):+.3f} to {max(errors):+.3f}"
    )


if __name__ == "__main__":
    main()
