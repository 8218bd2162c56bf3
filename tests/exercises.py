"""Bodies of sticks that do exercises with known angles and a known number of repetitions."""

import numpy as np
import torch

from jeanie.skeleton import LAYOUTS, Motion

CORE = LAYOUTS["core15"]


def stand_upright():
    """A person who faces the camera, upright, arms hanging: metres, +y up, -z forward, right hand at larger x."""
    places = {"head": (0, 1.7, 0), "neck": (0, 1.5, 0), "torso": (0, 1.2, 0)}
    for side, x in (("left", -1), ("right", 1)):
        places |= {
            f"{side}_shoulder": (0.2 * x, 1.45, 0), f"{side}_elbow": (0.2 * x, 1.15, 0),
            f"{side}_hand": (0.2 * x, 0.9, 0), f"{side}_hip": (0.1 * x, 0.95, 0),
            f"{side}_knee": (0.1 * x, 0.5, 0), f"{side}_foot": (0.1 * x, 0.05, 0),
        }  # fmt: skip
    return np.array([places[joint] for joint in CORE.joints], dtype=float)


def raise_arms(degrees, side="both", elbow=0.0):
    """The standing person with the arms raised to the side; ``elbow`` bends the forearms further up."""
    body = stand_upright()
    for name, x in (("left", -1), ("right", 1)):
        if side in (name, "both"):
            shoulder = body[CORE.index(f"{name}_shoulder")]
            up, bent = np.deg2rad(degrees), np.deg2rad(degrees + elbow)
            upper = shoulder + 0.3 * np.array([x * np.sin(up), -np.cos(up), 0])
            body[CORE.index(f"{name}_elbow")] = upper
            body[CORE.index(f"{name}_hand")] = upper + 0.25 * np.array([x * np.sin(bent), -np.cos(bent), 0])
    return body


def perform_exercise(angles, rate=30.0, noise=0.004, seed=0, **options):
    """A motion whose arms have the given angles, one per frame."""
    poses = np.stack([raise_arms(angle, **options) for angle in angles])
    poses += noise * np.random.default_rng(seed).standard_normal(poses.shape)
    return Motion(torch.tensor(poses, dtype=torch.float32), CORE, rate=rate)


def plan_swings(amplitudes, seconds=2.0, rest=0.5, rate=30.0):
    """Angles of one repetition per amplitude: down, up, down, and rest before each and at the end."""
    pause = np.zeros(round(rest * rate))
    time = np.linspace(0, 2 * np.pi, round(seconds * rate))
    parts = [part for top in amplitudes for part in (pause, top * (1 - np.cos(time)) / 2)]
    return np.concatenate([*parts, pause])
