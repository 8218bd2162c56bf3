"""Speed of one training episode, compared with the same episode in plain torch with loops.

The episode is 10-way 1-shot on MSRAction3D ($JEANIE_DATA) with 5 x 5 views, the encoder of the paper's small preset,
blocks of 8 frames, the paper's loss and SGD. The time covers forward, backward and the update of the weights on one
thread, in CPU seconds. The plain versions are also torch and have the same weights. The first loops over clips, views
and blocks to encode, and over pairs, blocks and views to align, like the authors' code. The second computes all views
of a cell at once. Neither is compiled. All versions must give the same distances and gradients before they are timed.

The stages of a step are compared with lower bounds: the floating-point operations of all matrix products at the
highest rate that a large product reaches on this machine, plus the time of the alignment, whose kernel is bounded by
its instructions (docs/results/align.md). The second case has synthetic clips of 25 joints and 7 x 7 views.
Writes benchmarks/results/train.json.
"""

import argparse
import functools
import json
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from plain_torch import Alignment, align_plain, align_windowed, compute_plain_distances, compute_plain_loss
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from jeanie._internal.memory import keep_freed_memory
from jeanie.alignment import get_instruction_set
from jeanie.compute.distributed import World
from jeanie.encoders import PRESETS
from jeanie.encoders.joint_mlp import JointMlp
from jeanie.encoders.operation_counts import register_operation_counts
from jeanie.evaluation.protocols import get_protocol
from jeanie.fewshot.config import EulerViewsConfig, ModelConfig
from jeanie.fewshot.episodes import Episode
from jeanie.fewshot.inputs import Store, arrange
from jeanie.fewshot.losses import LossConfig
from jeanie.fewshot.model import FewShotModel
from jeanie.training.augment import AugmentConfig
from jeanie.training.config import TrainConfig
from jeanie.training.step import Learner

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results/train.json"
# without dropout the gradients can be compared; with this sigma the distances are not saturated
MODEL = ModelConfig(
    views=EulerViewsConfig(azimuth=30, altitude=30, step=15),
    encoder=PRESETS["small"].with_values(dropout=0.0),
).with_values({"align.sigma": 10.0})
TRAIN = TrainConfig(
    episodes=1000, batch=1, queries=1, mirror=False, augment=AugmentConfig(),
    loss=LossConfig(kind="similarity"), optimiser="sgd", rate=1e-6, schedule="constant", weight_decay=1e-6, clip=None,
)  # fmt: skip
WAY = 10


def get_clips(store: Store, episode: Episode) -> tuple[list[Tensor], list[Tensor]]:
    """Return the prepared queries and supports, each clip [frame, joint, 3]."""
    queries, supports = (
        [store[[int(clip)]].joints[0, 0] for clip in clips] for clips in (episode.query, episode.support)
    )
    return queries, supports


def run_plain_step(model: FewShotModel, store: Store, episode: Episode, align: Alignment) -> Tensor:
    """Train on one episode and return its distances."""
    queries, supports = get_clips(store, episode)
    assert model.encoder is not None
    optimiser = torch.optim.SGD(model.parameters(), lr=TRAIN.rate, weight_decay=TRAIN.weight_decay)
    optimiser.zero_grad()
    distances = compute_plain_distances(model.encoder, queries, supports, model.config, align)
    compute_plain_loss(distances, episode).backward()
    optimiser.step()
    return distances.detach()


PLAIN: dict[str, Alignment] = {
    "plain torch": align_plain,
    "plain torch, views at once": align_windowed,
}


# --- measuring ---


def measure_seconds(step: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    start = time.process_time()
    step()
    return time.process_time() - start


class Task:
    """The data of the episodes."""

    def __init__(self, protocol: str = "msraction3d-splits") -> None:
        self.protocol = get_protocol(protocol)
        self.data = self.protocol.open()
        self.split = self.protocol.splits(self.data, validation=0)[0]
        self.store: Store | None = None

    def learner(self, queries: int = 1, model: ModelConfig = MODEL) -> Learner:
        torch.manual_seed(0)
        model = FewShotModel(model, self.data.layout)
        self.store = model.store(self.data.motions) if self.store is None else self.store
        episodes = self.split.training_episodes(
            self.data, way=WAY, queries=queries, count=TRAIN.episodes, seed=0
        )
        for number in range(50):  # read and prepare all clips before the measurement
            self.store[episodes[number].query], self.store[episodes[number].support]
        return Learner(model, TRAIN, episodes, self.store, World())


def check_same(learner: Learner, align: Alignment) -> dict[str, float]:
    """Return the differences of distances and gradients on one episode; exit if they exceed rounding."""
    model, store, episode = learner.model, learner.store, learner.episodes[0]
    model.train()
    learner.optimiser.zero_grad()
    distances = model(store[episode.query], store[episode.support])
    compute_plain_loss(distances, episode).backward()
    gradients = [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]
    model.zero_grad()
    assert model.encoder is not None
    plain_distances = compute_plain_distances(model.encoder, *get_clips(store, episode), MODEL, align)
    compute_plain_loss(plain_distances, episode).backward()
    plain_gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    value = ((distances - plain_distances).abs().max() / plain_distances.abs().max()).item()
    plain_gradient = torch.cat([part.flatten() for part in plain_gradients])
    gradient = torch.cat([part.flatten() for part in gradients])
    slope = ((gradient - plain_gradient).norm() / plain_gradient.norm()).item()
    if not (value < 1e-4 and slope < 1e-2):
        raise SystemExit(f"the two versions differ: distances by {value:.2g}, gradients by {slope:.2g}")
    return {"relative difference of distances": value, "relative difference of gradients": slope}


def measure_parts(learner: Learner, rounds: int = 9) -> dict[str, float]:
    """Return the milliseconds of each part of a step."""
    model, store = learner.model, learner.store
    model.train()
    times: dict[str, list[float]] = {}

    def time_part(name: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        times.setdefault(name, []).append(1e3 * (time.process_time() - start))
        return result

    for number in range(rounds):
        episode = learner.episodes[number]
        query, support = time_part("batches", lambda e=episode: (store[e.query], store[e.support]))
        blocks, _ = time_part(
            "views and blocks", lambda q=query: arrange(q, model.config.inputs, model.views)
        )
        left = time_part(
            "encoder, queries (with views and blocks)", lambda q=query: model.features(q, "query")
        )
        right = time_part("encoder, supports", lambda s=support: model.features(s, "support"))
        distances = time_part("alignment", lambda x=left, y=right: model.compare(x, y))
        loss = compute_plain_loss(distances, episode)
        ends = time_part(
            "backward, alignment",
            lambda z=loss, x=left, y=right: torch.autograd.grad(z, (x.values, y.values)),
        )
        time_part(
            "backward, encoder",
            lambda x=left, y=right, g=ends: torch.autograd.backward((x.values, y.values), g),
        )
        time_part("optimiser", learner.optimiser.step)
        del blocks
    return {name: statistics.median(values) for name, values in times.items()}


def measure_peak() -> float:
    """Return the floating-point operations per second of the fastest of some large matrix products."""
    size, rounds = 1024, 5
    left, right, out = (torch.randn(size, size) for _ in range(3))
    return 2 * size**3 / min(measure_seconds(lambda: torch.mm(left, right, out=out)) for _ in range(rounds))


def compare_with_bounds(learner: Learner, rounds: int = 15) -> dict[str, Any]:
    """Return the milliseconds of steps and stages, and how many times as long as its lower bounds a step takes."""
    register_operation_counts()
    learner.step(0)
    steps, with_torch, bounds, operations = [], [], [], []
    parts = measure_parts(learner, rounds)
    alignment = parts["alignment"] + parts["backward, alignment"]
    for number in range(rounds):
        with FlopCounterMode(display=False) as counter:
            learner.step(number)
        operations.append(counter.get_total_flops())
        peak = measure_peak()
        steps.append(1e3 * measure_seconds(lambda k=number: learner.step(k)))
        with mock.patch.object(JointMlp, "_can_use_kernel", return_value=False):
            with_torch.append(1e3 * measure_seconds(lambda k=number: learner.step(k)))
        bounds.append(1e3 * operations[-1] / peak + alignment)
    return {
        "CPU ms per episode": statistics.median(steps),
        "CPU ms per episode, MLP by torch": statistics.median(with_torch),
        "parts of a step, CPU ms": parts,
        "GFLOP of the matrix products": statistics.median(operations) / 1e9,
        "lower bound, CPU ms": statistics.median(bounds),
        "times the lower bound": statistics.median(a / b for a, b in zip(steps, bounds, strict=True)),
    }


def measure_by_pairs(task: Task, rounds: int = 7) -> dict[str, dict[str, float]]:
    """Return the milliseconds per episode with 1, 2, 4 and 8 queries per class, measured in turns."""
    learners = {queries: task.learner(queries) for queries in (1, 2, 4, 8)}
    times: dict[int, list[float]] = {queries: [] for queries in learners}
    for number in range(rounds + 1):
        for queries, learner in learners.items():
            spent = measure_seconds(lambda measured_learner=learner, k=number: measured_learner.step(k))
            if number:
                times[queries].append(1e3 * spent)
    rows = {}
    for queries, values in times.items():
        pairs, ms = queries * WAY * WAY, statistics.median(values)
        rows[str(pairs)] = {"ms": ms, "us per pair": 1e3 * ms / pairs}
    return rows


def measure_bounds(learner: Learner) -> dict[str, Any]:
    """Return the comparison with the lower bounds for both cases; ``learner`` is that of the first."""
    wide = MODEL.with_values({"views.azimuth": 45, "views.altitude": 45})
    return {
        "commit": read_commit(),
        "MSRAction3D, 20 joints, 5 x 5 views": compare_with_bounds(learner),
        "synthetic, 25 joints, 7 x 7 views": compare_with_bounds(Task("synthetic").learner(model=wide)),
    }


def measure_only_bounds() -> dict[str, Any]:
    """Return the last results with a new comparison with the lower bounds."""
    torch.set_num_threads(1)
    keep_freed_memory()
    result: dict[str, Any] = json.loads(RESULTS.read_text())
    result["lower bounds"] = measure_bounds(Task().learner())
    return result


def read_commit() -> str:
    output = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    return output.stdout.strip()


def measure(rounds: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    keep_freed_memory()  # as in training; it applies to all versions
    task = Task()
    learner = task.learner()
    result: dict[str, Any] = {
        "machine": platform.processor() or platform.machine(), "instruction_set": get_instruction_set(),
        "torch": torch.__version__, "python": platform.python_version(), "commit": read_commit(), "threads": 1,
        "dtype": "float32", "seed": 0, "task": "MSRAction3D, 10-way 1-shot, 1 query per class, 5x5 views, small preset",
    }  # fmt: skip
    result["agreement"] = {name: check_same(learner, align) for name, align in PLAIN.items()}
    episodes = learner.episodes
    result["blocks of the first queries"] = learner.model.features(
        learner.store[episodes[0].query]
    ).counts.tolist()
    learner.step(0)
    times: dict[str, list[float]] = {name: [] for name in ("jeanie", *PLAIN)}
    for turn in range(rounds):
        times["jeanie"] += [
            measure_seconds(lambda k=number: learner.step(k)) for number in range(5 * turn, 5 * turn + 5)
        ]
        for name, align in PLAIN.items():
            step = functools.partial(run_plain_step, learner.model, learner.store, episodes[5 * turn], align)
            times[name].append(measure_seconds(step))
        print(
            f"round {turn + 1}: " + ", ".join(f"{name} {1e3 * x[-1]:.0f} ms" for name, x in times.items()),
            flush=True,
        )
    medians = {name: statistics.median(values) for name, values in times.items()}
    result["CPU ms per episode"] = {name: 1e3 * value for name, value in medians.items()}
    result["times slower than jeanie"] = {name: medians[name] / medians["jeanie"] for name in PLAIN}
    result["episodes per CPU second"] = 1 / medians["jeanie"]
    result["lower bounds"] = measure_bounds(learner)
    result["time by number of pairs"] = measure_by_pairs(task)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2, help="episodes of the plain versions")
    parser.add_argument(
        "--only-bounds", action="store_true",
        help="compare with the lower bounds only, which takes a minute, and keep the other results of the file",
    )  # fmt: skip
    options = parser.parse_args()
    result = measure_only_bounds() if options.only_bounds else measure(options.rounds)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
