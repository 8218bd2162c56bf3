"""Training at the size of NTU RGB+D 120: 114,480 clips, prepared, opened, trained on, and evaluated.

The clips are synthetic: 75 generated actions and 45 of them backwards, performed by 106 subjects before three cameras,
with the layout, the names and the number of clips of NTU RGB+D 120. They measure speed and memory; accuracies on them
say nothing about NTU. The protocol is ``ntu120-oneshot``: 100 classes to train on, one exemplar for each of the 20
others. Training steps alternate between a learner that reads and prepares every clip, because clips hardly ever come
twice, and one with the same episodes whose clips are in its cache, as those of a small data set are. Prints the
measurements and writes them to benchmarks/results/ntu120.json, or ntu120_small.json if the archive is smaller.
"""

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import torch
from train import MODEL, TRAIN, measure_parts, read_commit

from jeanie._internal.memory import keep_freed_memory
from jeanie.compute.distributed import World
from jeanie.datasets import open_dataset
from jeanie.datasets.archive.prepare import prepare
from jeanie.datasets.clip_names import Tags
from jeanie.datasets.dataset import Clip, Dataset, FileDataset
from jeanie.datasets.synthetic.action_table import ACTIONS
from jeanie.datasets.synthetic.cameras import CAMERAS
from jeanie.datasets.synthetic.dataset import Studio
from jeanie.evaluation.evaluate import evaluate
from jeanie.evaluation.protocols import get_protocol
from jeanie.evaluation.protocols.splits import Split
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion
from jeanie.training.step import Learner

ROOT = Path(__file__).resolve().parent.parent
CLASSES, SUBJECTS, PER_CLASS = 120, 106, 954
WAY = 10
MORE_BYTES = 2**30  # for all clips of the measured episodes
CACHE_BYTES = 2**26  # of prepared clips: full after a tenth of the training, so memory must stay the same
STUDIO = Studio(seed=0, subjects=SUBJECTS)
NAMES = tuple(ACTIONS)


def list_names(per_class: int) -> Iterator[tuple[str, Tags]]:
    """Yield the names of the clips, those of a class one after the other, the exemplars first."""
    subjects = (8, *(number for number in range(1, SUBJECTS + 1) if number != 8))
    for action in range(1, CLASSES + 1):
        first, count = (1, 17) if action <= 60 else (18, 15)  # setups 18 to 32 have the later classes
        takes = product(range(3), subjects, (3, 2, 1))
        for take, subject, camera in islice(takes, per_class):
            setup = first + (subject - 8 + take // 2) % count
            tags = Tags(label=action, subject=subject, view=camera, setup=setup, take=1 + take % 2)
            yield f"S{setup:03}C{camera:03}P{subject:03}R{1 + take % 2:03}A{action:03}", tags


def generate(clip: Clip) -> Motion:
    """Return a clip; the classes after the generated actions are these actions backwards."""
    tags = clip.tags
    number = int(tags.label or 0) - 1
    source = Tags(
        label=NAMES[number % len(NAMES)], subject=tags.subject, view=CAMERAS[int(tags.view or 1) - 1].name,
        take=2 * int(tags.setup or 0) + int(tags.take or 0),
    )  # fmt: skip
    motion = STUDIO(replace(clip, tags=source))
    joints, valid = motion.joints, motion.valid
    if number >= len(NAMES):
        joints, valid = joints.flip(0), valid.flip(0)
    return Motion(
        joints, motion.layout, label=tags.label, subject=tags.subject, view=tags.view, rate=motion.rate,
        name=clip.name, valid=valid, setup=tags.setup, take=tags.take,
    )  # fmt: skip


def make_dataset(per_class: int = PER_CLASS) -> FileDataset:
    """Return the generated data set: ``per_class`` clips of each class, 114,480 in all."""
    clips = tuple(Clip(name, Path("synthetic"), tags) for name, tags in list_names(per_class))
    return FileDataset("ntu120", LAYOUTS["ntu25"], clips, generate)


def read_memory() -> float:
    """Return the memory of this process in MB, without the mapped files."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def time_stage(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the result of a stage, and its wall-clock seconds, CPU seconds and memory."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, {
        "seconds": time.perf_counter() - wall, "CPU seconds": time.process_time() - cpu, "MB": read_memory()
    }  # fmt: skip


def make_learner(dataset: Dataset, split: Split, episodes: int, cache: int) -> Learner:
    """Return a learner on the training clips of a split with a cache of some bytes."""
    torch.manual_seed(0)
    model = FewShotModel(MODEL, dataset.layout)
    training_episodes = split.training_episodes(dataset, way=WAY, queries=1, count=episodes, seed=0)
    store = model.store(dataset.motions, limit=cache)
    return Learner(model, TRAIN.with_values(episodes=episodes), training_episodes, store, World())


def train_both(dataset: Dataset, split: Split, episodes: int) -> tuple[Learner, dict[str, Any]]:
    """Train in turns with new clips and with the same clips from a cache.

    Returns:
        The first learner, and the measurements.
    """
    # a smaller archive has a smaller cache, so that as few clips come twice
    cache = CACHE_BYTES * len(dataset) // (CLASSES * PER_CLASS)
    learners = {
        "new clips": make_learner(dataset, split, episodes, cache),
        "the same clips, cached": make_learner(dataset, split, episodes, MORE_BYTES),
    }
    cached = learners["the same clips, cached"]
    for episode in (cached.episodes[number] for number in range(episodes)):
        cached.store[episode.query], cached.store[episode.support]
    cpu: dict[str, list[float]] = {name: [] for name in learners}
    main: dict[str, list[float]] = {name: [] for name in learners}  # without the thread that loads clips
    memory = [read_memory()]
    for number in range(episodes):
        for name, learner in list(learners.items())[:: 1 if number % 2 else -1]:
            start, start_main = time.process_time(), time.thread_time()
            learner.step(number)
            cpu[name].append(time.process_time() - start)
            main[name].append(time.thread_time() - start_main)
        if (number + 1) % max(1, episodes // 4) == 0:
            memory.append(read_memory())
    learner = learners["new clips"]
    return learner, {
        "episodes": episodes,
        "CPU ms per episode": take_medians(cpu),
        "CPU ms per episode of the thread that computes": take_medians(main),
        "speed with new clips, relative to cached ones": {
            "one core": compare_speed(cpu),
            "a core is free to load clips": compare_speed(main),
        },
        "MB at the start and after each quarter": memory,
        "parts of a step, CPU ms": measure_parts(learner),
    }


def take_medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Return the median milliseconds per step of each learner."""
    return {name: 1e3 * statistics.median(values) for name, values in seconds.items()}


def compare_speed(seconds: dict[str, list[float]]) -> float:
    """Return the median ratio of the speed with new clips to that with cached ones, of equal steps."""
    pairs = zip(seconds["new clips"], seconds["the same clips, cached"], strict=True)
    return statistics.median(cached / new for new, cached in pairs)


def measure(folder: Path, per_class: int, episodes: int, jobs: int, limit: int | None) -> dict[str, Any]:
    """Run all stages in ``folder`` and return the measurements."""
    torch.set_num_threads(1)
    keep_freed_memory()
    result: dict[str, Any] = {
        "machine": platform.machine(), "torch": torch.__version__, "commit": read_commit(), "seed": 0,
        "clips": CLASSES * per_class, "jobs": jobs,
    }  # fmt: skip
    archive = folder / "ntu120"
    report, result["prepare"] = time_stage(lambda: prepare(make_dataset(per_class), archive, jobs=jobs))
    result["prepare"] |= {
        "clips": report["kept"], "frames": report["frames"], "clips per second": report["clips_per_second"],
        "GB on disk": sum(path.stat().st_size for path in archive.iterdir()) / 1e9,
    }  # fmt: skip
    dataset, result["open"] = time_stage(lambda: open_dataset("ntu120", archive))
    protocol = get_protocol("ntu120-oneshot")
    splits, result["split"] = time_stage(lambda: protocol.splits(dataset, validation=0))
    (learner, training), result["train"] = time_stage(lambda: train_both(dataset, splits[0], episodes))
    result["train"] |= training
    outcome, result["evaluate"] = time_stage(
        lambda: evaluate(learner.model, protocol, dataset=dataset, splits=splits, limit=limit)
    )
    result["evaluate"] |= {"queries": outcome.queries}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="folder for the archive (default: a temporary one)")
    parser.add_argument("--per-class", type=int, default=PER_CLASS, help="clips per class (default: 954)")
    parser.add_argument("--episodes", type=int, default=200, help="training episodes (default: 200)")
    parser.add_argument("--jobs", type=int, default=2, help="processes that generate clips (default: 2)")
    parser.add_argument("--limit", type=int, help="test queries per class (default: all)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        result = measure(folder, options.per_class, options.episodes, options.jobs, options.limit)
    # results of smaller archives do not replace those of the whole one
    name = "ntu120.json" if options.per_class == PER_CLASS else "ntu120_small.json"
    path = ROOT / "benchmarks/results" / name
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
