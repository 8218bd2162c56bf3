"""Measure recognition in streams of MSRAction3D clips, with and without rest between the clips.

Every draw enrols five actions with up to three examples by two persons; the stream has clips of these actions by a
third person. Writes docs/results/streams.md.
"""

import argparse
import platform
import random
import sys
import time
from pathlib import Path

import torch

from jeanie.datasets import open_dataset
from jeanie.datasets.dataset import Dataset
from jeanie.recogniser import Recogniser
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.recogniser.stream.stream import Stream
from jeanie.skeleton import Motion

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from movements import cut_to_movement, join_clips, score_events  # noqa: E402  the tests use the same measures

KINDS = {"a second of rest between clips": 1.0, "cut to the movement, no rest at all": 0.0}


def draw_clips(clips: Dataset, seed: int, count: int) -> tuple[dict[str, list[Motion]], list[Motion]]:
    """Return examples per action and clips of another person."""
    labels, subjects = list(clips.labels), list(clips.subjects)
    chosen = random.Random(seed)
    actions = chosen.sample(sorted(set(labels), key=str), 5)
    people = sorted(set(subjects), key=str)
    chosen.shuffle(people)
    examples = {
        str(action): [
            clips[i] for i in range(len(clips)) if labels[i] == action and subjects[i] in people[:2]
        ][:3]
        for action in actions
    }
    queries = [clips[i] for i in range(len(clips)) if labels[i] in actions and subjects[i] == people[2]]
    chosen.shuffle(queries)
    return {label: motions for label, motions in examples.items() if motions}, queries[:count]


def measure_stream(recogniser: Recogniser, clips: list[Motion], pause: float) -> tuple[float, ...]:
    """Return recall and precision of all events, those of labelled events, their accuracy, and ms per frame."""
    parts = clips if pause else [cut_to_movement(clip) for clip in clips]
    joints, truth = join_clips(parts, pause, blend=0.3 if pause else 0.2)
    stream = Stream(recogniser, clips[0].layout, rate=clips[0].rate)
    start = time.process_time()
    events = [event for at in range(0, len(joints), 5) for event in stream.push(joints[at : at + 5])]
    events += stream.finish()
    spent = 1e3 * (time.process_time() - start) / len(joints)
    named = [event for event in events if event.label is not None]
    return (*score_events(events, truth)[:2], *score_events(named, truth), spent)


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=6, help="number of draws")
    parser.add_argument("--seed", type=int, default=20, help="seed of the first draw")
    parser.add_argument("--clips", type=int, default=12, help="clips per stream")
    options = parser.parse_args()
    torch.set_num_threads(1)
    clips = open_dataset("msraction3d")
    rows: dict[str, list[tuple[float, ...]]] = {kind: [] for kind in KINDS}
    for draw in range(options.draws):
        examples, queries = draw_clips(clips, options.seed + draw, options.clips)
        with Recogniser.load() as recogniser:
            for label, motions in examples.items():
                recogniser.enrol(label, motions)
            for kind, pause in KINDS.items():
                rows[kind].append(measure_stream(recogniser, queries, pause))
            model = fingerprint(recogniser.model)[:8]
    lines = [
        "# Recognition in streams: results\n",
        "Written by `benchmarks/streams.py`. A stream is a sequence of MSRAction3D clips by one person. Five actions",
        f"are enrolled, with up to three examples by two others. {options.draws} draws (seeds from {options.seed}) of",
        f"{options.clips} clips, model {model}, {platform.machine()}, torch {torch.__version__}, 1 thread.",
        "An event is in the right place if its intersection over union with a clip is at least 0.5.\n",
        "| | clips found | events in right places | clips found and named | named events in right places "
        "| right names | CPU, ms per frame |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, values in rows.items():
        means = torch.tensor(values).mean(0).tolist()
        cells = [f"{100 * value:.0f} %" for value in means[:5]]
        lines.append(f"| {kind} | {' | '.join(cells)} | {means[5]:.1f} |")
    (ROOT / "docs" / "results" / "streams.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
