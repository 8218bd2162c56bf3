"""Generated movements, and what can be done to them with a known outcome."""

import numpy as np
import torch

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.recogniser.stream.pose_sampler import PoseSampler
from jeanie.skeleton import Motion


def performed(action="wave", subject=0, camera="centre", take=0, noise=0.0, missing=0.0):
    """A clip of the synthetic data set, by default seen perfectly."""
    clips = open_synthetic(
        subjects=subject + 2, takes=take + 1, actions=[action], noise=noise, missing=missing
    )
    return clips[clips.names.index(f"{action}_s{subject:02d}_t{take:02d}_{camera}")]


def seen_from(motion, degrees):
    """The motion before a camera that went round it to the left of who faces the first camera.

    Who faces the camera looks along -z and has the left hand at -x. A camera at the angle a to that side stands in
    the direction (-sin a, 0, -cos a), looks along z' = (sin a, 0, cos a) and has x' = (cos a, 0, -sin a).
    """
    angle = np.deg2rad(degrees)
    across, ahead = (np.cos(angle), 0, -np.sin(angle)), (np.sin(angle), 0, np.cos(angle))
    axes = torch.tensor(np.stack([across, (0, 1, 0), ahead]), dtype=torch.float64)
    joints = motion.joints.double()
    middle = joints.mean((0, 1, 2))
    return motion.replace(joints=((joints - middle) @ axes.T + middle).float())


def slower(motion, factor):
    """The motion in ``factor`` times as many frames at the same rate."""
    return motion.to_length(round(len(motion) * factor)).replace(rate=motion.rate)


def moved(motion, joint, right=0.0, up=0.0, forward=0.0):
    """One joint elsewhere by metres, as the person sees it who faces the camera."""
    joints = motion.joints.clone()
    joints[:, :, motion.layout.index(joint)] += torch.tensor([right, up, -forward])
    return motion.replace(joints=joints)


def facing(motion):
    """The motion turned so that shoulders and hips lie along +x in the mean of the clip."""
    pairs = [(f"left_{part}", f"right_{part}") for part in ("shoulder", "hip")]
    at = motion.layout.index
    line = sum((motion.joints[:, 0, at(b)] - motion.joints[:, 0, at(a)]).mean(0) for a, b in pairs)
    return seen_from(motion, -np.rad2deg(np.arctan2(float(line[2]), float(line[0]))))


def joined(clips, pause, blend=0.3, seed=0):
    """Clips one after another: joints ``[frame, person, joint, 3]`` and (first, behind-last frame, label) of each.

    Between two clips the person rests for ``pause`` seconds and goes from one pose to the next in ``blend`` seconds,
    seen with 4 mm of noise.
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


def over_union(one, other):
    """Share of two stretches that is common to both."""
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, common) / (max(one[1], other[1]) - min(one[0], other[0]))


def found(events, truth, least=0.5):
    """(recall, precision, share of right labels) of events against what was performed."""
    hits = {}
    for event in events:
        best = max(range(len(truth)), key=lambda place: over_union((event.start, event.end), truth[place]))
        if over_union((event.start, event.end), truth[best]) >= least and best not in hits:
            hits[best] = event.label == truth[best][2]
    return len(hits) / len(truth), len(hits) / max(1, len(events)), sum(hits.values()) / max(1, len(hits))


def two(first, second):
    """Two motions of one person as one of two persons, cut to the shorter."""
    frames = min(len(first), len(second))
    both = [motion[:frames] for motion in (first, second)]
    joints = torch.cat([motion.joints for motion in both], 1)
    return Motion(joints, first.layout, valid=torch.cat([m.valid for m in both], 1), rate=first.rate)


def moving(clip):
    """The clip from the first to the last fast frame."""
    clock = PoseSampler(clip.layout, 1, clip.rate)
    speeds = clock.push(clip.joints[:, :1], clip.valid[:, :1]).speeds[:, 0]
    fast = (speeds > 0.2).nonzero()[:, 0]
    first, last = max(0, int(fast[0]) - clock.lag + 1), int(fast[-1]) - clock.lag + 2
    return clip[first * clock.frames : last * clock.frames]
