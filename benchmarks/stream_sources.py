"""Streams with known movements for ``stream_calibration.py`` and ``streams.py``: real sequences and joined clips."""

import os
import random
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from openset_sources import Source, make_gestures, read_rocketbox, select_clips
from stream_measures import Movement
from torch import Tensor

from jeanie.datasets import open_dataset
from jeanie.datasets.dataset import Dataset, FileDataset
from jeanie.datasets.formats.precog import list_movements, read_precog_labels
from jeanie.recogniser.stream.pose_sampler import PoseSampler
from jeanie.skeleton import Layout, Motion

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from movements import cut_to_movement, join_clips  # noqa: E402  the tests use the same measures

PAUSES = {"a second of rest": 1.0, "no rest": 0.0}
SUBJECTS_OF_DEVELOPMENT = {1, 3, 5, 7, 9}  # of MSRAction3D
PRECOG_OF_DEVELOPMENT = range(1, 7)  # subjects
KNOWN, OTHER = 9, 5  # clips of enrolled actions per stream, and of others in every second stream
_ACTIONS = (5, 3, 8, 5)  # enrolled actions, by turns
_RATE = 30.0  # of clips that do not say theirs
_SHORTEST = 8  # frames of a labelled movement of PRECOG; shorter runs are errors of the labels
_FRAMES = 12, 300  # of a joined clip
_TEACHERS = 3  # subjects of PRECOG that show the examples of one performer


@dataclass(frozen=True)
class LabelledStream:
    """A stream, one example per enrolled action, and all movements. Sources of one ``family`` are left out together."""

    family: str
    name: str
    examples: dict[str, Motion]
    motion: Motion
    truth: list[Movement]


def list_precog(data: FileDataset, subjects: Collection[int]) -> Iterator[tuple[int, Motion, list[Movement]]]:
    """Yield subject, sequence and movements."""
    for index, clip in enumerate(data.clips):
        if clip.tags.subject in subjects:
            rows = list_movements(read_precog_labels(clip.source))
            truth = [(start, end, str(label)) for start, end, label in rows if end - start >= _SHORTEST]
            yield int(clip.tags.subject), data[index], truth


def collect_first_examples(recordings: Iterable[tuple[Motion, list[Movement]]]) -> dict[str, Motion]:
    """Return the first performance of each action in some sequences."""
    examples: dict[str, Motion] = {}
    for motion, truth in recordings:
        for start, end, label in truth:
            examples.setdefault(label, motion[start:end])
    return examples


def draw_precog(subjects: Sequence[int]) -> Iterator[LabelledStream]:
    """Yield the sequences of each subject with examples of three others; all 8 actions are enrolled, or 4."""
    data = open_dataset("precog")
    assert isinstance(data, FileDataset)
    sequences = list(list_precog(data, subjects))
    for subject in subjects:
        others = [other for other in subjects if other != subject]
        for turn, teacher in enumerate(random.Random(subject).sample(others, _TEACHERS)):
            examples = collect_first_examples(row[1:] for row in sequences if row[0] == teacher)
            own = [row[1:] for row in sequences if row[0] == subject]
            half = random.Random(100 * subject + teacher).sample(sorted(examples), len(examples) // 2)
            for number, (motion, truth) in enumerate(own):
                is_half = (number + turn) % 2 == 1
                shown = {label: examples[label] for label in sorted(examples) if not is_half or label in half}
                yield LabelledStream("precog", "PRECOG", shown, motion, truth)


def draw_joined(
    source: Source, draw: int, pause: float, *, by_anyone: bool, others: int, by_same_person: bool = False
) -> LabelledStream:
    """Return clips of one person one after another, with one example per enrolled action by another person.

    Args:
        source: The clips.
        draw: Number of the draw.
        pause: Seconds of rest between two clips; without rest, clips are cut to the movement.
        by_anyone: Whether clips of several persons are joined, in the size of one body: each starts at the place and in
            the direction of the one before it.
        others: Number of clips of actions that are not enrolled.
        by_same_person: Whether the examples are other clips of the same person.
    """
    chosen = random.Random(1000 + draw)
    examples, shown = _choose_clips(
        source, chosen, _ACTIONS[draw % len(_ACTIONS)], by_anyone, others, by_same_person
    )
    clips = [_fill(source, row) for row in shown]
    if not pause:
        clips = [cut_to_movement(clip).replace(label=clip.label) for clip in clips]
        clips = [clip for clip in clips if len(clip) >= _FRAMES[0]]
    if by_anyone:
        clips = _chain_clips(clips)
    joints, truth = join_clips(clips, pause, blend=0.3 if pause else 0.2, seed=draw)
    return LabelledStream(
        source.family,
        source.name,
        {label: _fill(source, row) for label, row in examples.items()},
        Motion(joints, clips[0].layout, rate=clips[0].rate),
        truth,
    )


def _fill(source: Source, row: int) -> Motion:
    motion = source.motions[row].fill_gaps(10**6)
    return motion.replace(label=source.labels[row], rate=motion.rate or _RATE)


def _choose_clips(
    source: Source, chosen: random.Random, count: int, by_anyone: bool, others: int, by_same_person: bool
) -> tuple[dict[str, int], list[int]]:
    """Return the row of one example per action, and the rows of the clips of a stream."""
    labels, subjects = source.labels, source.subjects
    while True:
        performers = set(subjects)
        teachers = performers
        if not by_anyone:
            teacher, performer = chosen.sample(sorted(performers), 2)
            teachers, performers = {performer if by_same_person else teacher}, {performer}
        people: dict[str, set[str]] = {}
        for label, subject in zip(labels, subjects, strict=True):
            people.setdefault(label, set()).add(subject)
        shared = sorted(
            label
            for label, who in people.items()
            if (len(who) > 1 if by_anyone else teachers | performers <= who)
        )
        actions = chosen.sample(shared, min(count, 2 * len(shared) // 3))
        examples = {
            label: chosen.choice(
                [row for row, own in enumerate(labels) if own == label and subjects[row] in teachers]
            )
            for label in actions
        }
        rows = [row for row, subject in enumerate(subjects) if subject in performers]
        known = [
            row
            for row in rows
            if labels[row] in examples
            and row != examples[labels[row]]
            and (by_same_person or subjects[row] != subjects[examples[labels[row]]])
        ]
        other = [row for row in rows if labels[row] not in examples]
        chosen.shuffle(known)
        chosen.shuffle(other)
        shown = _spread_labels(known, labels)[:KNOWN] + other[:others]
        if len(actions) > 1:
            chosen.shuffle(shown)
            return examples, shown


def _spread_labels(rows: Sequence[int], labels: Sequence[str]) -> list[int]:
    """Return rows in an order in which every label comes once before any comes twice."""
    counts: dict[str, int] = {}
    rank = {}
    for row in rows:
        rank[row] = counts[labels[row]] = counts.get(labels[row], 0) + 1
    return sorted(rows, key=rank.__getitem__)


def select_usable(source: Source) -> Source:
    """Return the clips of one person that are neither too short nor too long, and move."""
    rows = [row for row, motion in enumerate(source.motions) if _is_usable(motion)]
    columns = ([column[row] for row in rows] for column in (source.motions, source.labels, source.subjects))
    return Source(source.name, source.family, *columns)


def _is_usable(motion: Motion) -> bool:
    if motion.persons != 1 or not _FRAMES[0] <= len(motion) <= _FRAMES[1]:
        return False
    filled = motion.fill_gaps(10**6)
    sampler = PoseSampler(filled.layout, 1, filled.rate or _RATE)
    speeds = sampler.push(filled.joints, filled.valid).speeds
    return int((speeds > 0.3).sum()) >= 4


def _chain_clips(clips: Sequence[Motion]) -> list[Motion]:
    """Return clips in the size of the first body; each starts where the one before it ends, in its direction."""
    size, chained = _measure_trunk(clips[0]), [clips[0]]
    for clip in clips[1:]:
        joints = clip.joints * (size / max(_measure_trunk(clip), 1e-3))
        last = chained[-1].joints[-1, 0]
        turn = _measure_direction(last, clip.layout) - _measure_direction(joints[0, 0], clip.layout)
        sine, cosine, zero, one = turn.sin(), turn.cos(), torch.zeros(()), torch.ones(())
        axes = torch.stack([cosine, zero, sine, zero, one, zero, -sine, zero, cosine]).reshape(3, 3)
        joints = joints @ axes
        shift = _find_hips(last, clip.layout) - _find_hips(joints[0, 0], clip.layout)
        chained.append(clip.replace(joints=joints + shift * torch.tensor([1.0, 0.0, 1.0]), valid=None))
    return chained


def _find_hips(pose: Tensor, layout: Layout) -> Tensor:
    return pose[..., [layout.index("left_hip"), layout.index("right_hip")], :].mean(-2)


def _measure_trunk(clip: Motion) -> float:
    pose, index = clip.joints[:, 0], clip.layout.index
    shoulders = pose[:, [index("left_shoulder"), index("right_shoulder")]].mean(1)
    return float((shoulders - _find_hips(pose, clip.layout)).norm(dim=-1).median())


def _measure_direction(pose: Tensor, layout: Layout) -> Tensor:
    """Return the angle of the line from left to right in the ground plane."""
    index = layout.index
    line = sum(pose[index(f"right_{part}")] - pose[index(f"left_{part}")] for part in ("shoulder", "hip"))
    assert isinstance(line, Tensor)
    return torch.atan2(line[2], line[0])


def select_msraction3d(subjects: Collection[object]) -> Source:
    """Return the clips of some subjects of MSRAction3D."""
    clips = open_dataset("msraction3d")
    rows = [row for row in range(len(clips)) if clips.subjects[row] in subjects]
    labels, people = ([str(column[row]) for row in rows] for column in (clips.labels, clips.subjects))
    return Source("MSRAction3D", "msraction3d", [clips[row] for row in rows], labels, people)


def _select_centre(clips: Dataset) -> Source:
    """Return the clips of the central camera of the synthetic data set."""
    rows = [row for row, name in enumerate(clips.names) if str(name).endswith("_centre")]
    labels, people = ([str(column[row]) for row in rows] for column in (clips.labels, clips.subjects))
    return Source("synthetic", "synthetic", [clips[row] for row in rows], labels, people)


FAMILIES: dict[str, tuple[tuple[Callable[[], Source], int, bool], ...]] = {
    "precog": (),
    "msraction3d": ((lambda: select_msraction3d(SUBJECTS_OF_DEVELOPMENT), 18, False),),
    "cmu": ((lambda: select_clips(open_dataset("cmu"), "cmu", _FRAMES[1]), 14, True),),
    "rocketbox": ((lambda: read_rocketbox(Path(os.environ["JEANIE_DATA"]) / "rocketbox"), 14, True),),
    "gestures": (
        (lambda: make_gestures("gestures", 1, 0.7, 4), 8, False),
        (lambda: make_gestures("gestures, worse sensor", 2, 1.3, 5), 6, False),
    ),
    "synthetic": ((lambda: _select_centre(open_dataset("synthetic")), 12, False),),
}
"""Sources of joined clips: their clips, the number of draws, and whether several persons are joined."""


def draw_development_streams(family: str) -> Iterator[LabelledStream]:
    """Yield the streams of a family that may be used to fit and to choose."""
    if family == "precog":
        yield from draw_precog(PRECOG_OF_DEVELOPMENT)
    for open_source, draws, by_anyone in FAMILIES[family]:
        source = select_usable(open_source())
        for draw in range(draws):
            for pause in PAUSES.values():
                others = OTHER if draw // len(_ACTIONS) % 2 else 0  # with every number of actions
                yield draw_joined(source, draw, pause, by_anyone=by_anyone, others=others)
