"""Recordings with a known number of repetitions: real ones, marked by peaks of one signal, and clips joined to one."""

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.signal import find_peaks

from jeanie.datasets import open_dataset
from jeanie.datasets.dataset import Dataset
from jeanie.skeleton import Motion
from jeanie.skeleton.canonical_body import BODY, compute_canonical_body
from jeanie.skeleton.resample import interpolate_gaps

Signal = Callable[[np.ndarray], np.ndarray]
_AT = {name: BODY.index(name) for name in BODY.joints}


@dataclass(frozen=True)
class Task:
    """A recording with its true count, and an example with ``repetitions`` (None: unknown)."""

    kind: str
    example: Motion
    recording: Motion
    truth: int
    repetitions: int | None = 1


# CMU clips by several performers: frames of one repetition, and complete repetitions per clip, marked by hand
# where both the hands rise above the head and the hips dip. The clips hold other exercises as well.
_CMU_EXAMPLES = {
    "jumping jacks": (("13_29", 33, 66), ("14_06", 46, 78), ("23_15", 38, 77), ("22_16", 27, 60)),
    "squats": (("13_29", 960, 1040), ("14_06", 262, 330), ("22_14", 15, 88), ("13_30", 355, 430)),
}
_CMU_TRUTH = {
    "jumping jacks": {
        "13_29": 3,
        "14_06": 3,
        "14_14": 3,
        "14_20": 3,
        "22_16": 3,
        "23_15": 3,
        "23_16": 3,
        "22_14": 0,
    },
    "squats": {"13_29": 2, "13_30": 2, "14_06": 2, "14_14": 2, "22_14": 2, "23_14": 3, "14_20": 0},
}

# A repetition goes from one low point of the signal to the next. The signals are in the axes of the person.
SIGNALS: dict[str, Signal] = {
    "walking": lambda body: body[:, _AT["left_foot"], 2] - body[:, _AT["right_foot"], 2],
    "jogging": lambda body: body[:, _AT["left_knee"], 2] - body[:, _AT["right_knee"], 2],
    "hand clap": lambda body: (
        -np.linalg.norm(body[:, _AT["left_hand"]] - body[:, _AT["right_hand"]], axis=-1)
    ),
    "two hand wave": lambda body: body[:, _AT["right_hand"], 0] - body[:, _AT["left_hand"], 0],
    "high arm wave": lambda body: body[:, _AT["right_hand"], 0],
}
_PROMINENCE = 0.4  # of a peak, relative to the range of the signal


def find_turns(motion: Motion, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the frames of the high and of the low points of a signal."""
    body, _ = compute_canonical_body(motion.select_most_active(1), len(motion))
    values = SIGNALS[kind](body[:, 0].numpy())
    width = max(1, int((motion.rate or 30.0) / 10)) | 1
    values = np.convolve(np.pad(values, width // 2, mode="edge"), np.ones(width) / width, "valid")
    low, high = np.percentile(values, [5, 95])
    least = _PROMINENCE * (high - low)
    return find_peaks(values, prominence=least)[0], find_peaks(-values, prominence=least)[0]


def list_marked_tasks() -> Iterator[Task]:
    """Yield the marked clips of CMU; examples are by other performers."""
    clips = open_dataset("cmu")
    at = {name: index for index, name in enumerate(clips.names)}
    for kind, examples in _CMU_EXAMPLES.items():
        for name, start, end in examples:
            for other, truth in _CMU_TRUTH[kind].items():
                if other.split("_")[0] != name.split("_")[0]:
                    yield Task(kind, clips[at[name]][start:end], clips[at[other]], truth)


def list_periodic_tasks(
    clips: Dataset,
    kind: str,
    label: object,
    seed: int,
    tasks: int,
    *,
    cut: bool,
    among: Collection[int] | None = None,
) -> Iterator[Task]:
    """Yield recordings of a periodic movement, each with one period by another performer as the example.

    The tempo of the example differs from that of the recording by less than a factor of two.
    ``cut`` keeps the recording from its first to its last low point, for movements that neither start nor end at rest.
    ``among`` are the rows of the clips that count, by default all.
    """
    chosen = random.Random(seed)
    rows = [
        index for index, one in enumerate(clips.labels) if one == label and (among is None or index in among)
    ]
    periods, recordings = [], []
    for row in rows:
        motion = clips[row]
        high, low = find_turns(motion, kind)
        if len(low) >= 3:
            middle = len(low) // 2
            periods.append((clips.subjects[row], motion[int(low[middle - 1]) : int(low[middle]) + 1]))
        if len(low) >= 2 and len(high) >= 1:
            part = motion[int(low[0]) : int(low[-1]) + 1] if cut else motion
            recordings.append((clips.subjects[row], part, len(low) - 1 if cut else len(high)))
    for _ in range(tasks):
        subject, recording, truth = chosen.choice(recordings)
        usual = len(recording) / truth
        others = [one for who, one in periods if who != subject and usual / 2 < len(one) < 2 * usual]
        if others:
            yield Task(kind, chosen.choice(others), recording, truth)


def list_joined_tasks(
    clips: Dataset,
    kind: str,
    actions: Collection[object],
    seed: int,
    tasks: int,
    *,
    among: Collection[int] | None = None,
) -> Iterator[Task]:
    """Yield recordings of 1 to 8 performances of one of ``actions``, and of another action, 0.2 to 1 s apart.

    The example is one performance by another performer, seen by any camera. ``among`` are the rows of the clips that
    count, by default all.
    """
    chosen = random.Random(seed)
    labels, subjects, views = list(clips.labels), list(clips.subjects), list(clips.views)
    rows = [
        index for index, label in enumerate(labels) if label is not None and (among is None or index in among)
    ]
    while tasks:
        row = chosen.choice([i for i in rows if labels[i] in actions])
        here = [i for i in rows if subjects[i] == subjects[row] and views[i] == views[row]]
        own = [i for i in here if labels[i] == labels[row]]
        examples = [i for i in rows if subjects[i] != subjects[row] and labels[i] == labels[row]]
        other = [i for i in here if labels[i] != labels[row]]
        if not examples or not other:
            continue
        truth = chosen.randint(1, 8)
        shown = [clips[chosen.choice(own)] for _ in range(truth)]
        shown.insert(chosen.randint(0, truth), clips[chosen.choice(other)])
        yield Task(kind, clips[chosen.choice(examples)], join_clips(shown, chosen), truth)
        tasks -= 1


def join_clips(clips: list[Motion], chosen: random.Random) -> Motion:
    """Return clips of one performer as one motion; the person moves from clip to clip and rests in between.

    Gaps are filled. A joint that a clip never shows stays missing there.
    """
    parts: list[torch.Tensor] = []
    masks: list[torch.Tensor] = []
    for clip in clips:
        person = clip.select_most_active(1)
        joints, seen = interpolate_gaps(person.joints, person.valid), person.valid.any(0, keepdim=True)
        rate = clip.rate or 30.0
        if parts:
            last, both = parts[-1][-1:], masks[-1][-1:] & seen
            # each clip starts where the one before it ended
            moved = ((last - joints[:1]) * both[..., None]).sum(2, keepdim=True) / both.sum().clamp_min(1)
            joints = joints + moved
            share = torch.linspace(0, 1, round(0.3 * rate) + 2)[1:-1].reshape(-1, 1, 1, 1)
            rest = joints[:1].expand(round(chosen.uniform(0.2, 1.0) * rate), -1, -1, -1)
            parts += [last + share * (joints[:1] - last), rest]
            masks += [both.expand(len(share), -1, -1), seen.expand(len(rest), -1, -1)]
        parts.append(joints)
        masks.append(seen.expand(len(joints), -1, -1))
    return Motion(torch.cat(parts), clips[0].layout, rate=clips[0].rate, valid=torch.cat(masks))
