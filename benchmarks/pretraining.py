"""Validation scores that selected the settings of the shipped model: a training curve, and complete models.

    python benchmarks/pretraining.py --steps 1200 --seed 1 [--model NAME=FOLDER ...]
    python benchmarks/pretraining.py --page         # only the page and the picture, from the stored results

Trains one member without the held-out subjects of CMU and validates it during training. Validates complete models. Each
validation is repeated with queries without an arm or the legs, and on training classes of real data sets. Needs
$JEANIE_DATA.
Writes benchmarks/results/pretraining.json, docs/results/pretraining.md and docs/pictures/pretraining.png.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from numpy.typing import NDArray
from recognition_tasks import compute_distances

from jeanie._internal.provenance import get_commit, get_versions
from jeanie.datasets import open_dataset
from jeanie.datasets.formats.cmu import read_cmu_descriptions
from jeanie.fewshot import FewShotModel
from jeanie.pretraining import PretrainConfig, pretrain_member
from jeanie.pretraining.augment import STRONG_AUGMENTATION, augment, retime
from jeanie.pretraining.gestures import draw_gestures, draw_near_misses, perform
from jeanie.pretraining.pairs import Windows
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.convert import convert

mpl.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "pretraining.json"
HELD_OUT = frozenset(map(str, (13, 14, 15, 17, 24, *range(26, 33), 41, 54, 55, 79, 80)))  # subjects of CMU
MAX_FRAMES = 150  # of a held-out clip, from its middle
WAY, EPISODES = 10, 1500
GESTURES, PERFORMANCES = 24, 6
VALIDATION_SHARES = (0.38, 0.13, 0.1, 0.12, 0.13, 0.14)  # of the gestures, for any training settings
CHECKS = (100, 300, 600, 900, 1200, 1500, 2000, 3000, 4000, 5000, 6000)
WEIGHTS = {"cmu": 0.4, "synthetic": 0.2, "synthetic, other camera": 0.2, "gestures": 0.2}
MISSING = "score, joints missing"
MISSING_JOINTS = (
    ("right_elbow", "right_hand"),
    ("left_elbow", "left_hand"),
    ("right_knee", "right_foot", "left_knee", "left_foot"),
)
REAL = ("MSRAction3D 1-10", "NW-UCLA 1-5, one camera", "NW-UCLA 1-5, other cameras")
Scores = dict[str, float]
Transform = Callable[[Sequence[Motion]], Sequence[Motion]]


@dataclass(frozen=True)
class Clips:
    """Motions with their labels, subjects and views."""

    motions: Sequence[Motion]
    label: NDArray[Any]
    subject: NDArray[Any]
    view: NDArray[Any]

    @classmethod
    def from_motions(cls, motions: Sequence[Motion]) -> "Clips":
        tags = [[str(getattr(m, key)) for m in motions] for key in ("label", "subject", "view")]
        return cls(motions, *map(np.array, tags))


def load_cmu(root: Path) -> tuple[Clips, Windows]:
    """Return the held-out clips of classes that several held-out subjects perform, and windows of all other classes."""
    motions = list(open_dataset("cmu", root).motions)
    texts = read_cmu_descriptions(root)
    held_out = [m for m in motions if str(m.subject).lstrip("0") in HELD_OUT and m.label]
    people: dict[str, set[str]] = {}
    for m in held_out:
        people.setdefault(str(m.label), set()).add(str(m.subject))
    shared = {label for label, who in people.items() if len(who) > 1 and label != "walk"}
    rest = [m for m in motions if str(m.subject).lstrip("0") not in HELD_OUT and str(m.label) not in shared]
    core = [convert(m, LAYOUTS["core15"]).joints[:, 0] for m in rest]
    windows = Windows.from_clips(core, [texts.get(m.name or "", "") for m in rest])
    return Clips.from_motions([_cut_middle(m) for m in held_out if str(m.label) in shared]), windows


def _cut_middle(motion: Motion) -> Motion:
    start = max(0, len(motion) - MAX_FRAMES) // 2
    return motion[start : start + MAX_FRAMES]


def load_synthetic() -> Clips:
    """Return the first take of six subjects from three cameras."""
    data = open_dataset("synthetic")
    selected = [
        number
        for number, clip in enumerate(data.clips)
        if clip.tags.take == 0 and clip.tags.view in ("centre", "left", "top") and clip.tags.subject < 6
    ]
    return Clips.from_motions([data.motions[number] for number in selected])


def make_gestures() -> Clips:
    """Return procedural gestures and near misses of them, each performed several times with strong augmentation."""
    generator = torch.Generator().manual_seed(987654321)
    base = draw_gestures(GESTURES, generator, VALIDATION_SHARES)
    gestures = base.concatenate(draw_near_misses(base, generator))
    motions = []
    for person in range(PERFORMANCES):
        performed = retime(perform(gestures, generator), STRONG_AUGMENTATION, generator, 32)
        for label, joints in enumerate(augment(performed, STRONG_AUGMENTATION, generator)):
            motions.append(Motion(joints[:, None], LAYOUTS["core15"], label=label, subject=person, rate=30.0))
    return Clips.from_motions(motions)


def remove_joints(motions: Sequence[Motion]) -> list[Motion]:
    """Return the motions as core joints, each without one arm, the other arm or the legs, in turn."""
    core = LAYOUTS["core15"]
    results = []
    for number, motion in enumerate(convert(motion, core) for motion in motions):
        valid = motion.valid.clone()
        valid[..., [core.index(name) for name in MISSING_JOINTS[number % len(MISSING_JOINTS)]]] = False
        results.append(motion.replace(valid=valid))
    return results


def score_episodes(distances: NDArray[Any], clips: Clips, seed: int = 0) -> float:
    """Return the accuracy of random one-shot episodes; query and example of a class are from two subjects."""
    rng = np.random.default_rng(seed)
    labels = np.unique(clips.label)
    index = {label: np.flatnonzero(clips.label == label) for label in labels}
    hits = []
    for _ in range(EPISODES):
        chosen = rng.choice(labels, min(WAY, len(labels)), replace=False)
        examples = np.array([rng.choice(index[label]) for label in chosen])
        queries = [
            rng.choice(index[label][clips.subject[index[label]] != clips.subject[example]])
            for label, example in zip(chosen, examples, strict=True)
        ]
        hits.append((distances[np.ix_(queries, examples)].argmin(1) == np.arange(len(chosen))).mean())
    return 100 * float(np.mean(hits))


def score_by_subject(
    distances: NDArray[Any], clips: Clips, support: NDArray[Any], query: NDArray[Any], draws: int = 1
) -> float:
    """Return the accuracy if one subject performs all examples and the others the queries, averaged over subjects."""
    rng = np.random.default_rng(0)
    labels, hits = np.unique(clips.label), []
    for subject in np.unique(clips.subject):
        for _ in range(draws):
            own = [
                np.flatnonzero((clips.label == label) & (clips.subject == subject) & support)
                for label in labels
            ]
            examples = np.array([rng.choice(some) for some in own if len(some)])
            if len(examples) < 2:
                continue
            queries = np.flatnonzero(
                (clips.subject != subject) & query & np.isin(clips.label, clips.label[examples])
            )
            predicted = clips.label[examples[distances[np.ix_(queries, examples)].argmin(1)]]
            hits.append((predicted == clips.label[queries]).mean())
    return 100 * float(np.mean(hits))


def score_by_camera(distances: NDArray[Any], clips: Clips, draws: int = 1) -> tuple[float, float]:
    """Return the mean accuracy for examples and queries from the same camera, and from different cameras."""
    views = np.unique(clips.view)
    accuracies = {
        (a, b): score_by_subject(distances, clips, clips.view == a, clips.view == b, draws)
        for a in views
        for b in views
    }
    same = [value for (a, b), value in accuracies.items() if a == b]
    other = [value for (a, b), value in accuracies.items() if a != b]
    return float(np.mean(same)), float(np.mean(other))


class Validation:
    """The data that select the settings, and real data for comparison."""

    def __init__(self, data: Path) -> None:
        self.cmu, self.windows = load_cmu(data / "cmu")
        self.synthetic, self.gestures = load_synthetic(), make_gestures()
        first = {str(label) for label in range(1, 11)}
        msr = [m for m in open_dataset("msraction3d", data / "msraction3d").motions if str(m.label) in first]
        ucla = [m for m in open_dataset("nw-ucla", data / "nw-ucla").motions if str(m.label) in set("12345")]
        self.msr, self.ucla = Clips.from_motions(msr), Clips.from_motions(ucla)

    def __call__(self, model: FewShotModel) -> Scores:
        scores = self._score(model, lambda motions: motions)
        scores[MISSING] = self._score(model, remove_joints)["score"]
        all_msr = np.ones(len(self.msr.label), bool)
        scores[REAL[0]] = score_by_subject(_compute_distances(model, self.msr), self.msr, all_msr, all_msr, 4)
        scores[REAL[1]], scores[REAL[2]] = score_by_camera(_compute_distances(model, self.ucla), self.ucla, 3)
        return {name: round(value, 2) for name, value in scores.items()}

    def _score(self, model: FewShotModel, transform: Transform) -> Scores:
        """Return the validation scores with transformed queries."""
        same, other = score_by_camera(_compute_distances(model, self.synthetic, transform), self.synthetic)
        everything = np.ones(len(self.gestures.label), bool)
        distances = _compute_distances(model, self.gestures, transform)
        scores = {
            "cmu": score_episodes(_compute_distances(model, self.cmu, transform), self.cmu),
            "synthetic": same,
            "synthetic, other camera": other,
            "gestures": score_by_subject(distances, self.gestures, everything, everything),
        }
        return {**scores, "score": sum(weight * scores[name] for name, weight in WEIGHTS.items())}


def _compute_distances(
    model: FewShotModel, clips: Clips, transform: Transform = lambda motions: motions
) -> NDArray[Any]:
    return compute_distances(model, transform(clips.motions), clips.motions).numpy()


def measure_curve(
    validation: Validation, config: PretrainConfig, report: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Train one member and return its loss and validation scores during training."""
    rows: list[dict[str, Any]] = []
    losses: dict[int, tuple[float, float]] = {}
    started = time.process_time()

    def validate(step: int, model: FewShotModel) -> None:
        if step in CHECKS or step == config.steps:
            loss, accuracy = losses[step]
            dense = model.with_config({"encoder.dense": True})  # like the ensemble
            rows.append({"step": step, "loss": loss, "partner found": accuracy, **validation(dense)})
            rows[-1]["cpu_s"] = round(time.process_time() - started)
            report(json.dumps(rows[-1]))

    pretrain_member(
        validation.windows, config, config.seed,
        lambda now: losses.__setitem__(now.step, (round(now.loss, 4), round(100 * now.accuracy, 2))), on_model=validate,
    )  # fmt: skip
    return rows


def draw_curve(rows: Sequence[dict[str, Any]], path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
    steps = [row["step"] for row in rows]
    for name in (*WEIGHTS, "score", MISSING):
        left.plot(
            steps, [row[name] for row in rows], marker=".", lw=2.5 if name == "score" else 1, label=name
        )
    left.set_title("validation scores")
    for name in REAL:
        right.plot(steps, [row[name] for row in rows], marker=".", label=name)
    right.set_title("training classes of real data")
    for axis in (left, right):
        axis.set(xscale="log", xlabel="steps", ylabel="one-shot accuracy, %")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)  # below the axes
    figure.savefig(path, dpi=110)


def format_page(results: dict[str, Any]) -> str:
    names = [*WEIGHTS, "score", MISSING, *REAL]
    head = "| | loss | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 2) + "|\n"

    def row(title: str, loss: str, scores: dict[str, Any]) -> str:
        return f"| {title} | {loss} | " + " | ".join(f"{scores[name]:.1f}" for name in names) + " |\n"

    curve_rows = [
        row(f"step {scores['step']:,}", f"{scores['loss']:.2f}", scores) for scores in results["curve"]
    ]
    models = [row(name, "", scores) for name, scores in results["models"].items()]
    return (
        "# Pretraining results: validation scores and training curve\n\n"
        "Written by `benchmarks/pretraining.py`. One-shot accuracy in percent. *cmu*: 10-way, classes that several\n"
        "of 17 held-out subjects perform, 1,500 episodes. *synthetic*: 75 actions of the synthetic data set; one person\n"  # noqa: E501
        "performs all examples, recorded by the same camera as the queries or by another one. *gestures*: 24 held-out\n"
        "procedural gestures and 24 near misses. *score* = 0.4 cmu + 0.2 of each other column; the second score is for\n"  # noqa: E501
        "queries without an arm or the legs. The score selected the settings. The last three columns are training\n"
        "classes of real data sets; they only selected between settings with equal scores (strides 1, 1, 2).\n\n"
        "![Validation scores and real data during training](../pictures/pretraining.png)\n\n"
        f"One member, seed {results['seed']}, {results['steps']:,} steps, trained without the held-out subjects, no mirroring:\n\n"  # noqa: E501
        + head + "".join(curve_rows)
        + "\nComplete models; shipped and reference with mirroring. The shipped model is trained on all of CMU, so its\n"  # noqa: E501
        "*cmu* and *score* are too high:\n\n"
        + head + "".join(models)
        + f"\nCommit {(results['provenance']['commit'] or 'unknown')[:7]}, torch {results['provenance']['torch']}.\n"
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1200, help="training steps; 0 keeps the curve")
    parser.add_argument("--seed", type=int, default=1, help="seed of the training")
    parser.add_argument(
        "--model", action="append", default=[], metavar="NAME=FOLDER", help="another model; repeatable"
    )
    parser.add_argument(
        "--page", action="store_true", help="measure nothing; write the page from the stored results"
    )
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"models": {}, "curve": []}
    if not arguments.page:
        measure(results, arguments)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    draw_curve(results["curve"], ROOT / "docs" / "pictures" / "pretraining.png")
    (ROOT / "docs" / "results" / "pretraining.md").write_text(format_page(results))


def measure(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Validate the models and train one member, and add the scores to the results."""
    torch.set_num_threads(1)
    validation = Validation(Path(os.environ["JEANIE_DATA"]))
    models = {"shipped": FewShotModel.load(), "reference, no learning": FewShotModel.raw()}
    models |= {
        name: FewShotModel.load(folder) for name, folder in (text.split("=", 1) for text in arguments.model)
    }
    for name, model in models.items():
        results["models"][name] = validation(model)
        print(name, json.dumps(results["models"][name]), flush=True)
    if arguments.steps:
        config = PretrainConfig(steps=arguments.steps, members=1, seed=arguments.seed)
        results["curve"] = measure_curve(validation, config, lambda line: print(line, flush=True))
        results["steps"], results["seed"] = arguments.steps, arguments.seed
    results["provenance"] = {"commit": get_commit(), **get_versions()}


if __name__ == "__main__":
    main()
