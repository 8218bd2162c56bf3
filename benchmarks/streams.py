"""Measure how well movements are found in a stream, with one example per action by another person.

Real sequences of PRECOG (subjects 7 to 12), which have hardly any rest, and clips of MSRAction3D one after another
(subjects 2, 4, 6, 8, 10), with a second of rest and without. The other subjects served for development; ``--develop``
measures them. Writes docs/results/streams.md.
"""

import argparse
import platform
import random
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import torch
from stream_measures import Movement, StreamMeasures, measure_stream

from jeanie.datasets import open_dataset
from jeanie.datasets.dataset import Dataset, FileDataset
from jeanie.datasets.formats.precog import list_movements, read_precog_labels
from jeanie.recogniser import Recogniser
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.skeleton import Motion

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from movements import cut_to_movement, join_clips  # noqa: E402  the tests use the same measures

PAUSES = {
    "MSRAction3D, a second of rest between clips": 1.0,
    "MSRAction3D, cut to the movement, no rest": 0.0,
}
SUBJECTS_OF_DEVELOPMENT = {1, 3, 5, 7, 9}  # of MSRAction3D
_SHORTEST = 8  # frames of a labelled movement; shorter runs are errors of the labels


def list_precog(data: FileDataset, subjects: range) -> Iterator[tuple[int, Motion, list[Movement]]]:
    """Yield subject, sequence and movements."""
    for index, clip in enumerate(data.clips):
        if clip.tags.subject in subjects:
            rows = list_movements(read_precog_labels(clip.source))
            truth = [(start, end, str(label)) for start, end, label in rows if end - start >= _SHORTEST]
            yield int(clip.tags.subject), data[index], truth


def measure_precog(subjects: range, seed: int, most: int, threshold: float) -> StreamMeasures:
    """Measure the sequences of each subject with the first performance of each action by another subject."""
    data = open_dataset("precog")
    assert isinstance(data, FileDataset)
    sequences, chosen, sums = list(list_precog(data, subjects)), random.Random(seed), StreamMeasures()
    for subject in subjects:
        other = chosen.choice([one for one in subjects if one != subject])
        examples: dict[str, Motion] = {}
        for who, motion, truth in sequences:
            for start, end, label in truth if who == other else ():
                examples.setdefault(label, motion[start:end])
        with Recogniser.load(threshold=threshold) as recogniser:
            for label, example in examples.items():
                recogniser.enrol(label, example)
            for motion, truth in [row[1:] for row in sequences if row[0] == subject][:most]:
                measure_stream(recogniser, motion, truth, sums)
    return sums


def draw_clips(
    clips: Dataset, seed: int, count: int, among: Collection[object]
) -> tuple[dict[str, Motion], list[Motion]]:
    """Return one example per action by one person and clips of another person, of some subjects."""
    labels, subjects = list(clips.labels), list(clips.subjects)
    chosen = random.Random(seed)
    actions = chosen.sample(sorted(set(labels), key=str), 5)
    teacher, performer = chosen.sample(sorted(among, key=str), 2)
    examples = {
        str(labels[row]): clips[row]
        for row in range(len(clips))
        if labels[row] in actions and subjects[row] == teacher
    }
    shown = [
        clips[row] for row in range(len(clips)) if str(labels[row]) in examples and subjects[row] == performer
    ]
    chosen.shuffle(shown)
    return examples, shown[:count]


def measure_joined(
    clips: Dataset,
    pause: float,
    draws: int,
    seed: int,
    count: int,
    among: Collection[object],
    threshold: float,
) -> StreamMeasures:
    """Measure clips of one person one after another."""
    sums = StreamMeasures()
    for draw in range(draws):
        examples, shown = draw_clips(clips, seed + draw, count, among)
        parts = shown if pause else [cut_to_movement(clip) for clip in shown]
        joints, truth = join_clips(parts, pause, blend=0.3 if pause else 0.2)
        with Recogniser.load(threshold=threshold) as recogniser:
            for label, example in examples.items():
                recogniser.enrol(label, example)
            measure_stream(recogniser, Motion(joints, shown[0].layout, rate=shown[0].rate), truth, sums)
    return sums


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--seed", type=int, default=20, help="of the first draw")
    parser.add_argument("--clips", type=int, default=12)
    parser.add_argument("--sequences", type=int, default=6, help="of each subject of PRECOG")
    parser.add_argument("--thresholds", type=float, nargs="+", default=[0.5], help="confidences for a name")
    parser.add_argument("--develop", action="store_true", help="measure the subjects of development and stop")
    given = parser.parse_args()
    torch.set_num_threads(1)
    clips, rows = open_dataset("msraction3d"), {}
    everyone = set(clips.subjects)
    among = SUBJECTS_OF_DEVELOPMENT if given.develop else everyone - SUBJECTS_OF_DEVELOPMENT
    subjects = range(1, 7) if given.develop else range(7, 13)
    for threshold in given.thresholds:
        name = f"PRECOG, subjects {subjects[0]} to {subjects[-1]}"
        rows[name, threshold] = measure_precog(subjects, given.seed, given.sequences, threshold)
        print(name, threshold, rows[name, threshold], flush=True)
        for name, pause in PAUSES.items():
            sums = measure_joined(clips, pause, given.draws, given.seed, given.clips, among, threshold)
            rows[name, threshold] = sums
            print(name, threshold, sums, flush=True)
    if given.develop:
        return
    with Recogniser.load() as recogniser:
        model = fingerprint(recogniser.model)[:8]
    lines = [
        "# Movements in streams\n",
        f"Written by `benchmarks/streams.py`: model {model}, {platform.machine()}, torch {torch.__version__},",
        "1 thread. One example per action by another person. PRECOG has 8 actions in real sequences with little rest",
        f"({given.sequences} per subject). Of subjects 2, 4, 6, 8 and 10 of MSRAction3D, {given.draws} draws of 5",
        f"actions and {given.clips} clips (seeds from {given.seed}). No setting was chosen on these subjects. A name",
        "needs the threshold as its confidence; 0.5 is the default. A movement is in place if the intersection over",
        "union with an event is at least 0.5. A false name is a named event that is not in place or has another label.",
        "A delay counts from the end of the movement to its event. CPU time is that of one process on a shared",
        "machine, after the first recognition.\n",
        "| | threshold | movements | found | named in place | false names per minute | mean delay | 90 % of delays "
        "| CPU, ms per frame |",
        "|---|---|---|---|---|---|---|---|---|",
        *(f"| {kind} | {level} | {sums.movements} | {sums} |" for (kind, level), sums in rows.items()),
    ]
    (ROOT / "docs" / "results" / "streams.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
