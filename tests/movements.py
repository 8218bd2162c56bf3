"""Synthetic movements, and changes of them with a known effect."""

import numpy as np
import torch

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.recogniser.stream.pose_sampler import PoseSampler
from jeanie.skeleton import Motion


def open_clip(action="wave", subject=0, camera="centre", take=0, noise=0.0, missing=0.0):
    """Return a clip of the synthetic data set, by default without noise and missing joints."""
    clips = open_synthetic(
        subjects=subject + 2, takes=take + 1, actions=[action], noise=noise, missing=missing
    )
    return clips[clips.names.index(f"{action}_s{subject:02d}_t{take:02d}_{camera}")]


def view_from(motion, degrees):
    """Return the motion as seen by a camera that moved round the person, towards the left of a person who faces it.

    A person who faces the camera looks along -z and has the left hand at -x. A camera at angle a on that side is in
    the direction (-sin a, 0, -cos a), looks along z' = (sin a, 0, cos a) and has x' = (cos a, 0, -sin a).
    """
    angle = np.deg2rad(degrees)
    across, ahead = (np.cos(angle), 0, -np.sin(angle)), (np.sin(angle), 0, np.cos(angle))
    axes = torch.tensor(np.stack([across, (0, 1, 0), ahead]), dtype=torch.float64)
    joints = motion.joints.double()
    middle = joints.mean((0, 1, 2))
    return motion.replace(joints=((joints - middle) @ axes.T + middle).float())


def slow_down(motion, factor):
    """Return the motion with ``factor`` times as many frames at the same rate."""
    return motion.to_length(round(len(motion) * factor)).replace(rate=motion.rate)


def move_joint(motion, joint, right=0.0, up=0.0, forward=0.0):
    """Return the motion with one joint moved by metres, in the directions of a person who faces the camera."""
    joints = motion.joints.clone()
    joints[:, :, motion.layout.index(joint)] += torch.tensor([right, up, -forward])
    return motion.replace(joints=joints)


def turn_to_camera(motion):
    """Return the motion turned so that the mean line of shoulders and hips points along +x."""
    pairs = [(f"left_{part}", f"right_{part}") for part in ("shoulder", "hip")]
    at = motion.layout.index
    line = sum((motion.joints[:, 0, at(b)] - motion.joints[:, 0, at(a)]).mean(0) for a, b in pairs)
    return view_from(motion, -np.rad2deg(np.arctan2(float(line[2]), float(line[0]))))


def join_clips(clips, pause, blend=0.3, seed=0):
    """Join clips to one stream: joints ``[frame, person, joint, 3]`` and (start, end, label) of each clip.

    Between two clips the person rests for ``pause`` seconds and changes from one pose to the next in ``blend``
    seconds, with 4 mm of noise.
    """
    random = torch.Generator().manual_seed(seed)
    parts, truth, at = [], [], 0
    for clip in clips:
        joints = clip.fill_gaps(10**6).joints
        if parts:
            last, first = parts[-1][-1], joints[0]
            rest = round(pause / 2 * clip.rate)
            share = torch.linspace(0, 1, round(blend * clip.rate) + 2)[1:-1].reshape(-1, 1, 1, 1)
            poses = [
                last.expand(rest, *last.shape),
                last + share * (first - last),
                first.expand(rest, *first.shape),
            ]
            gap = torch.cat(poses)
            parts.append(gap + 0.004 * torch.randn(gap.shape, generator=random))
            at += len(gap)
        truth.append((at, at + len(joints), str(clip.label)))
        parts.append(joints)
        at += len(joints)
    return torch.cat(parts), truth


def compute_overlap(one, other):
    """Return the intersection over union of two segments."""
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, common) / (max(one[1], other[1]) - min(one[0], other[0]))


def score_events(events, truth, least=0.5):
    """Return recall, precision and the share of right labels of events."""
    hits = {}
    for event in events:
        best = max(
            range(len(truth)), key=lambda place: compute_overlap((event.start, event.end), truth[place])
        )
        if compute_overlap((event.start, event.end), truth[best]) >= least and best not in hits:
            hits[best] = event.label == truth[best][2]
    return len(hits) / len(truth), len(hits) / max(1, len(events)), sum(hits.values()) / max(1, len(hits))


def combine_persons(first, second):
    """Return two motions of one person as one motion of two persons, cut to the shorter one."""
    frames = min(len(first), len(second))
    both = [motion[:frames] for motion in (first, second)]
    joints = torch.cat([motion.joints for motion in both], 1)
    return Motion(joints, first.layout, valid=torch.cat([m.valid for m in both], 1), rate=first.rate)


def cut_to_movement(clip):
    """Return the clip from the first to the last fast frame."""
    clock = PoseSampler(clip.layout, 1, clip.rate)
    speeds = clock.push(clip.joints[:, :1], clip.valid[:, :1]).speeds[:, 0]
    fast = (speeds > 0.2).nonzero()[:, 0]
    first, last = max(0, int(fast[0]) - clock.lag + 1), int(fast[-1]) - clock.lag + 2
    return clip[first * clock.frames : last * clock.frames]
