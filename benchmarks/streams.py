"""Measure how well movements are found in a stream, with one example per action by the same or by another person.

Real sequences of PRECOG (subjects 7 to 12), which have hardly any rest, and clips of MSRAction3D one after another
(subjects 2, 4, 6, 8, 10), with a second of rest and without. The other subjects served for development; ``--develop``
measures them. Writes docs/results/streams.md.
"""

import argparse
import json
import platform
import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from stream_measures import StreamMeasures, measure_stream
from stream_sources import (
    OTHER,
    PRECOG_OF_DEVELOPMENT,
    SUBJECTS_OF_DEVELOPMENT,
    LabelledStream,
    collect_first_examples,
    cut_to_movement,
    draw_joined,
    join_clips,
    list_precog,
    select_msraction3d,
    select_usable,
)

from jeanie.datasets import open_dataset
from jeanie.datasets.dataset import Dataset, FileDataset
from jeanie.fewshot import FewShotModel
from jeanie.recogniser import Recogniser
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.recogniser.stream.stream_confidence import StreamCalibration, StreamEvidence
from jeanie.skeleton import Motion

ROOT = Path(__file__).resolve().parent.parent
CALIBRATION = ROOT / "benchmarks" / "results" / "stream_calibration.json"
ANOTHER, SAME = "another person", "the same person"
PAUSES = {
    "MSRAction3D, a second of rest between clips": 1.0,
    "MSRAction3D, cut to the movement, no rest": 0.0,
}


def list_sequences(subjects: range, seed: int, most: int) -> Iterator[LabelledStream]:
    """Yield sequences of each subject with the first performance of each action by another subject."""
    data = open_dataset("precog")
    assert isinstance(data, FileDataset)
    sequences, chosen = list(list_precog(data, subjects)), random.Random(seed)
    for subject in subjects:
        other = chosen.choice([one for one in subjects if one != subject])
        examples = collect_first_examples(row[1:] for row in sequences if row[0] == other)
        for motion, truth in [row[1:] for row in sequences if row[0] == subject][:most]:
            yield LabelledStream("precog", "PRECOG", examples, motion, truth)


def list_same_person_sequences(subjects: range, most: int) -> Iterator[LabelledStream]:
    """Yield sequences of each subject with the first performance of each action in their other sequences."""
    data = open_dataset("precog")
    assert isinstance(data, FileDataset)
    sequences = list(list_precog(data, subjects))
    for subject in subjects:
        rows = [row[1:] for row in sequences if row[0] == subject]
        for number, (motion, truth) in enumerate(rows[:most]):
            examples = collect_first_examples(rows[:number] + rows[number + 1 :])
            yield LabelledStream("precog", "PRECOG", examples, motion, truth)


def join_known(
    clips: Dataset,
    pause: float,
    seed: int,
    count: int,
    subjects: Collection[object],
    *,
    by_same_person: bool = False,
) -> LabelledStream:
    """Return clips of one person one after another, with one example per action by the same or another person."""
    labels, people = list(clips.labels), list(clips.subjects)
    chosen = random.Random(seed)
    actions = chosen.sample(sorted(set(labels), key=str), 5)
    teacher, performer = chosen.sample(sorted(subjects, key=str), 2)
    teacher = performer if by_same_person else teacher
    examples = {
        str(labels[row]): row
        for row in range(len(clips))
        if labels[row] in actions and people[row] == teacher
    }
    shown = [
        clips[row]
        for row in range(len(clips))
        if str(labels[row]) in examples and people[row] == performer and row not in examples.values()
    ]
    chosen.shuffle(shown)
    parts = shown[:count] if pause else [cut_to_movement(clip) for clip in shown[:count]]
    joints, truth = join_clips(parts, pause, blend=0.3 if pause else 0.2)
    motion = Motion(joints, shown[0].layout, rate=shown[0].rate)
    enrolled = {label: clips[row] for label, row in examples.items()}
    return LabelledStream("msraction3d", "MSRAction3D", enrolled, motion, truth)


def measure_streams(
    streams: Iterable[LabelledStream], thresholds: Sequence[float], model: FewShotModel
) -> dict[float, StreamMeasures]:
    """Return the measures of some streams for each threshold."""
    sums = {threshold: StreamMeasures() for threshold in thresholds}
    for stream in streams:
        with Recogniser.load(model=model, threshold=0.0) as recogniser:
            for label, example in stream.examples.items():
                recogniser.enrol(label, example)
            measure_stream(recogniser, stream.motion, stream.truth, sums)
    return sums


def format_calibration(results: dict[str, Any], calibration: StreamCalibration) -> list[str]:
    """Return the part of the page about the confidence."""
    keys = ("auroc", "recognised", "wrong", "false_alarms", "error", "excess")
    rows = [
        f"| {row['name']} | {row['streams']} | {row['candidates']} | "
        + " | ".join(f"{row['clip'][key]:.2f}, {row['stream'][key]:.2f}" for key in keys)
        + " |"
        for row in results["left_out"]
    ]
    fields = StreamCalibration.model_fields
    return [
        "\n## Confidence\n",
        f"`benchmarks/stream_calibration.py` fits it on {calibration.fitted_on}:",
        "subjects 1 to 6 of PRECOG, and clips of the others, joined with a second of rest and without. In half of",
        "the streams, all movements are of enrolled actions; in the other half, a third or more are not. Each row was",
        "measured with coefficients that were fitted without its family; msraction3d has the odd subjects.",
        "Each cell: the confidence of the recogniser for the same parts of the stream, and that of the stream.\n",
        "| family | streams | parts | AUROC | right parts that reach 0.5 | wrong ones of those that reach 0.5 "
        "| other movements that reach 0.5 | calibration error | mean confidence minus share of right parts |",
        "|" + "---|" * 9,
        *rows,
        "\nA part is right if it is in place and the nearest action is right.\n",
        "| evidence | coefficient | |",
        "|---|---|---|",
        f"| bias | {calibration.bias:.3f} | |",
        *(
            f"| {name} | {getattr(calibration, name):.3f} | {fields[name].description} |"
            for name in StreamEvidence._fields
        ),
        "\nThresholds for a share of false alarms among other movements, each family left out; for `false_alarms=`:\n",
        "| false alarms | " + " | ".join(f"{share:.0%}" for share, _ in calibration.thresholds) + " |",
        "|" + "---|" * (1 + len(calibration.thresholds)),
        "| threshold | " + " | ".join(f"{level:.2f}" for _, level in calibration.thresholds) + " |",
        "",
        (ROOT / "benchmarks" / "stream_trials.md").read_text().rstrip(),
    ]


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
    clips = open_dataset("msraction3d")
    among = SUBJECTS_OF_DEVELOPMENT if given.develop else set(clips.subjects) - SUBJECTS_OF_DEVELOPMENT
    source = select_usable(select_msraction3d(among))
    subjects = PRECOG_OF_DEVELOPMENT if given.develop else range(7, 13)
    seeds = range(given.seed, given.seed + given.draws)
    precog = f"PRECOG, subjects {subjects[0]} to {subjects[-1]}"
    kinds: dict[tuple[str, str], Iterable[LabelledStream]] = {
        (precog, ANOTHER): list_sequences(subjects, given.seed, given.sequences),
        (precog, SAME): list_same_person_sequences(subjects, given.sequences),
    }
    for name, pause in PAUSES.items():
        for whose in (ANOTHER, SAME):
            kinds[name, whose] = [
                join_known(clips, pause, seed, given.clips, among, by_same_person=whose == SAME)
                for seed in seeds
            ]
            kinds[name + ", a third of the clips not enrolled", whose] = [
                draw_joined(source, seed, pause, by_anyone=False, others=OTHER, by_same_person=whose == SAME)
                for seed in seeds
            ]
    with Recogniser.load() as recogniser:
        model = recogniser.model
    rows = {}
    for name, streams in kinds.items():
        for threshold, sums in measure_streams(streams, given.thresholds, model).items():
            rows[*name, threshold] = sums
            print(*name, threshold, sums, flush=True)
    if given.develop:
        return
    lines = [
        "# Movements in streams\n",
        f"Written by `benchmarks/streams.py`: model {fingerprint(model)[:8]}, {platform.machine()},",
        f"torch {torch.__version__}, 1 thread. One example per action, by another person or by the same one.",
        "PRECOG has 8 actions in real sequences with little rest "
        f"({given.sequences} per subject). Of subjects 2, 4, 6, 8 and 10 of MSRAction3D, {given.draws} draws of 5",
        f"actions and {given.clips} clips (seeds from {given.seed}); other draws have 3 to 8 actions, 9 clips of them",
        f"and {OTHER} of others. No setting was chosen on these subjects. A name needs the threshold as confidence;",
        "0.5 is the default. A movement is in place if the intersection over union with an event is at least 0.5. A",
        "false name is a named event that is not in place or has another label. A delay counts from the end of the",
        "movement to its event. CPU time is that of one process on a shared machine, after the first recognition.\n",
        "| | example by | threshold | movements | found | named in place | false names per minute | mean delay "
        "| 90 % of delays | CPU, ms per frame |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {kind} | {whose} | {level} | {sums.movements} | {sums} |"
            for (kind, whose, level), sums in rows.items()
        ),
        *format_calibration(json.loads(CALIBRATION.read_text()), StreamCalibration.load()),
    ]
    (ROOT / "docs" / "results" / "streams.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
