"""Fit the background set and the confidence of a model, and measure open-set recognition.

The data are CMU motion capture and the synthetic data set. Their actions are divided: some form the background set,
some are used to fit the coefficients of the confidence, and the rest is held out for the test. Clips are used as
recorded and with augmentation (other bodies, styles and sensors, as in training) of three strengths. Writes
``background.safetensors`` and ``openset.json`` into the folder of the model. Then measures on the held-out actions, and
on MSRAction3D, NW-UCLA and SBU, which are not used to fit. Writes docs/results/openset.md, docs/pictures/openset.png
and benchmarks/results/openset.json.

    JEANIE_DATA=... python benchmarks/openset.py
    python benchmarks/openset.py --page             # only the page and the picture, from the stored results
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import openset_page
import torch
from recognition_tasks import compute_features
from torch import Tensor

from jeanie.datasets import Dataset, open_dataset
from jeanie.errors import JeanieError
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.model import SHIPPED
from jeanie.pretraining.augment import STRONG_AUGMENTATION, AugmentationStrength, augment, retime
from jeanie.recogniser.background import (
    BACKGROUND_FILE,
    BackgroundSet,
    compute_log_statistics,
    log_distance,
    read_motions,
    write_motions,
)
from jeanie.recogniser.confidence import (
    CALIBRATION_FILE,
    Calibration,
    compute_auroc,
    compute_evidence,
    compute_reliability,
)
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.canonical_body import sample_core_joints

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "openset.json"
UNSEEN = ("msraction3d", "nw-ucla", "sbu")
WAYS, SHOTS = (1, 2, 3, 5, 10, 20), (1, 2, 3, 5)
QUERIES = 10  # per episode: of enrolled actions, and the same number of other actions
EPISODES = 40  # per number of actions and examples
STRENGTHS = (0.5, 1.0, 1.5)  # of the augmentation
PROBABILITIES = ("burst", "hidden", "drop")  # options of the augmentation that are probabilities
WINDOW = (30, 150)  # frames of a background motion from CMU
LONGEST = 600  # frames of a CMU clip that is a query or an example
TAKES = 20  # clips per action of the synthetic data set
FROM_CMU, FROM_SYNTHETIC = 90, 46  # motions in the background set
NAMES = list(Calibration.model_fields)[1:8]


@dataclass(frozen=True)
class Table:
    """Clips as queries and as examples: labels, subjects, log distances and statistics of the background set.

    ``apart`` are the log distances between examples. ``around_query`` and ``around_support`` are mean and standard
    deviation of the log distances from a query, and from an example, to the background set.
    """

    name: str
    labels: np.ndarray
    subjects: np.ndarray
    distances: Tensor
    apart: Tensor
    around_query: tuple[Tensor, Tensor]
    around_support: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Answers:
    """Results of many queries: evidence, log distance, whether the nearest action is right, whether it is enrolled."""

    evidence: Tensor
    distance: Tensor
    right: Tensor
    known: Tensor


def augment_motion(motion: Motion, strength: float, seed: int) -> Motion:
    """Return a motion of one person with augmentation: another body, another style and another sensor."""
    generator = torch.Generator().manual_seed(seed)
    values = {
        name: strength * getattr(STRONG_AUGMENTATION, name) for name in AugmentationStrength.model_fields
    }
    augmentation = AugmentationStrength(**values | {name: min(1.0, values[name]) for name in PROBABILITIES})
    joints, _ = sample_core_joints(motion, 64)
    augmented = augment(retime(joints, augmentation, generator, 48), augmentation, generator)
    return Motion(augmented[0][:, None], LAYOUTS["core15"], rate=motion.rate)


@torch.no_grad()
def compute_table(
    model: FewShotModel,
    background_set: BackgroundSet,
    data: Dataset,
    index: Sequence[int],
    strength: float | None = None,
) -> Table:
    """Return all distances between some clips of a data set; with a ``strength``, augmented clips of one person."""
    if strength is not None:
        index = [i for i in index if data[i].persons == 1]
    motions = [data[i] if strength is None else augment_motion(data[i], strength, seed=i) for i in index]
    query, support = (compute_features(model, motions, side) for side in ("query", "support"))
    labels, subjects = (np.array([str(tags[i]) for i in index]) for tags in (data.labels, data.subjects))
    name = data.name if strength is None else f"{data.name}, augmentation {strength:g}"
    return Table(
        name,
        labels,
        subjects,
        log_distance(model.compare(query, support)),
        log_distance(model.compare(support, support)),
        compute_log_statistics(model.compare(query, background_set.support)),
        background_set.measure_supports(model, support),
    )


def divide_names(names: Iterable[str], shares: int, rng: np.random.Generator) -> list[list[str]]:
    """Return the names in random order, divided into equal shares."""
    order = sorted(set(names))
    rng.shuffle(order)
    return [order[at::shares] for at in range(shares)]


def draw_background_motions(rng: np.random.Generator, actions: Sequence[str]) -> list[Motion]:
    """Return windows of unlabelled CMU clips, one per clip, and clips of some actions of the synthetic data set."""
    motions: list[Motion] = []
    cmu, synthetic = open_dataset("cmu"), open_dataset("synthetic")
    unlabelled = [i for i, label in enumerate(cmu.labels) if label is None]
    for i in rng.permutation(unlabelled):
        motion, length = cmu[int(i)], int(rng.integers(*WINDOW))
        if len(motion) >= length:
            start = int(rng.integers(0, len(motion) - length + 1))
            motions.append(motion[start : start + length])
        if len(motions) == FROM_CMU:
            break
    chosen = [i for i, label in enumerate(synthetic.labels) if label in actions]
    return motions + [synthetic[int(i)] for i in rng.choice(chosen, FROM_SYNTHETIC, replace=False)]


def run_episode(
    found: Table, classes: Sequence[object], way: int, shots: int, rng: np.random.Generator
) -> Answers | None:
    """Enrol some actions. Queries are enrolled actions by other subjects, and other actions by any subject.

    The examples of an action are by one subject, or by up to half of all subjects.
    """
    way = min(way, max(1, len(classes) // 2))
    enrolled = rng.choice(classes, way, replace=False)
    alone = bool(rng.integers(2))
    examples = []
    for label in enrolled:
        rows = np.flatnonzero(found.labels == label)
        people = rng.permutation(np.unique(found.subjects[rows]))
        people = people[: 1 if alone else max(1, len(people) // 2)]
        rows = rows[np.isin(found.subjects[rows], people)]
        examples.append(rng.choice(rows, min(shots, len(rows)), replace=False))
    taken = {(found.labels[i], found.subjects[i]) for rows in examples for i in rows}
    of_enrolled = np.flatnonzero(np.isin(found.labels, enrolled))
    known = [i for i in of_enrolled if (found.labels[i], found.subjects[i]) not in taken]
    others = np.flatnonzero(np.isin(found.labels, classes) & ~np.isin(found.labels, enrolled))
    if not known or not len(others):
        return None
    queries = torch.from_numpy(np.concatenate([rng.choice(known, QUERIES), rng.choice(others, QUERIES)]))
    return answer_queries(found, queries, enrolled, [torch.from_numpy(rows) for rows in examples])


def answer_queries(found: Table, queries: Tensor, enrolled: np.ndarray, examples: list[Tensor]) -> Answers:
    """Return what a recogniser would answer to queries, from the computed distances."""
    nearest = [found.distances[queries][:, rows].min(1) for rows in examples]
    distances = torch.stack([one.values for one in nearest], 1)
    ordered, place = distances.sort(1)
    best = place[:, 0]
    row = torch.stack([rows[one.indices] for rows, one in zip(examples, nearest, strict=True)], 1)
    row = row.gather(1, best[:, None])[:, 0]
    own = torch.stack([measure_within_action(found, rows) for rows in examples])
    evidence = compute_evidence(
        ordered[:, 0],
        ordered[:, min(1, len(examples) - 1)],
        tuple(one[row] for one in found.around_support),
        tuple(one[queries] for one in found.around_query),
        own[best],
        len(examples),
    )
    labels = found.labels[queries.numpy()]
    right = torch.from_numpy(enrolled[best.numpy()] == labels)
    return Answers(evidence, ordered[:, 0], right, torch.from_numpy(np.isin(labels, enrolled)))


def measure_within_action(found: Table, rows: Tensor) -> Tensor:
    """Return the mean log distance of examples to the nearest other example, NaN for a single example."""
    if len(rows) < 2:
        return torch.tensor(torch.nan)
    return found.apart[rows][:, rows].clone().fill_diagonal_(torch.inf).amin(1).mean()


def run_episodes(
    found: Table, classes: Sequence[str], seed: int, sizes: Iterable[tuple[int, int]] | None = None
) -> Answers:
    """Return the answers of many episodes, with few and many actions and examples."""
    rng = np.random.default_rng(seed)
    names, labels = np.unique(
        found.labels, return_inverse=True
    )  # comparing numbers is faster than comparing strings
    people = np.unique(found.subjects, return_inverse=True)[1]
    found = replace(found, labels=labels, subjects=people)
    classes = np.flatnonzero(np.isin(names, classes)).tolist()
    every = sizes or [(way, shots) for way in WAYS for shots in SHOTS]
    drawn = [run_episode(found, classes, way, shots, rng) for way, shots in every for _ in range(EPISODES)]
    kept = [one for one in drawn if one is not None]
    return Answers(*(torch.cat([getattr(one, key) for one in kept]) for key in Answers.__dataclass_fields__))


def fit_logistic(evidence: Tensor, right: Tensor) -> Tensor:
    """Return bias and coefficients of the logistic regression of ``right`` on the evidence, by Newton's method.

    A small ridge penalty keeps the solution defined if a column of the evidence is constant.
    """
    rows = torch.cat([torch.ones(len(evidence), 1), evidence], 1).double()
    target = right.double()
    solution = torch.zeros(rows.shape[1], dtype=torch.float64)
    ridge = 1e-6 * len(rows) * torch.eye(len(solution), dtype=torch.float64)
    for _ in range(100):
        probability = torch.sigmoid(rows @ solution)
        hessian = (rows * (probability * (1 - probability))[:, None]).T @ rows + ridge
        step = torch.linalg.solve(hessian, rows.T @ (target - probability) - ridge @ solution)
        solution = solution + step
        if float(step.abs().max()) < 1e-10:
            break
    return solution


def summarise_answers(name: str, found: Answers, calibration: Calibration) -> dict[str, Any]:
    """Return how well the confidence separates known from unknown actions, and how well it is calibrated."""
    confidence = calibration.compute_confidence(found.evidence)
    accepted, known, right = confidence >= 0.5, found.known, found.right
    rows = compute_reliability(confidence, right)
    return {
        "name": name,
        "answers": len(right),
        "accuracy": float(right[known].double().mean()),
        "auroc_distance": compute_auroc(-found.distance, known),
        "auroc": compute_auroc(confidence, known),
        "auroc_right": compute_auroc(confidence, right),
        "false_alarms": float(accepted[~known].double().mean()),
        "recognised": float((accepted & right)[known].double().mean()),
        "confused": float((accepted & ~right)[known].double().mean()),
        "error": sum(count * abs(mean - share) for count, mean, share in rows) / len(right),
        "excess": float((confidence - right.double()).mean()),
        "reliability": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=Path, default=SHIPPED, help="folder of the model; the fitted files are written there"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of all random draws")
    parser.add_argument("--threads", type=int, default=1, help="number of torch threads")
    parser.add_argument(
        "--page", action="store_true", help="measure nothing; write the page from the stored results"
    )
    options = parser.parse_args()
    if not options.page:
        torch.set_num_threads(options.threads)
        RESULTS.write_text(json.dumps(measure(options.model, options.seed), indent=1) + "\n")
    write_page(json.loads(RESULTS.read_text()), options.model)


def write_page(facts: dict[str, Any], folder: Path) -> None:
    """Write the page and the picture of stored results."""
    calibration = Calibration.from_file(folder / CALIBRATION_FILE.name)
    count = len(read_motions(folder / BACKGROUND_FILE.name))
    about = (
        f"Model {facts['model'][:8]}, background set of {count} motions; fitted on {calibration.fitted_on}."
    )
    page = openset_page.format_page(facts["results"], facts["fitted_as_recorded"], calibration, about)
    (ROOT / "docs" / "results" / "openset.md").write_text(page)
    openset_page.draw_picture(facts["results"], ROOT / "docs" / "pictures" / "openset.png")


def measure(folder: Path, seed: int) -> dict[str, Any]:
    """Write the background set and the coefficients of the confidence of a model. Return the results of all tests."""
    rng = np.random.default_rng(seed)
    model = FewShotModel.load(folder)
    if model.views is not None:
        raise SystemExit("this script cannot be used for a model with simulated views")
    synthetic, cmu = open_dataset("synthetic"), open_dataset("cmu")
    background_names, *synthetic_parts = divide_names(map(str, synthetic.labels), 3, rng)
    cmu_parts = divide_names((label for label in cmu.labels if label is not None), 2, rng)
    background_file = folder / BACKGROUND_FILE.name
    write_motions(background_file, draw_background_motions(rng, background_names))
    background_set = BackgroundSet.for_model(
        model, background_file
    )  # in half precision, as a recogniser uses it
    print(
        f"background set: {len(background_set)} motions, {background_file.stat().st_size} bytes", flush=True
    )

    chosen = [i for part in synthetic_parts for name in part for i in _draw_takes(synthetic, name, rng)]
    short = [i for i, label in enumerate(cmu.labels) if label is not None and len(cmu[i]) <= LONGEST]
    sources = ((synthetic, chosen, synthetic_parts), (cmu, short, cmu_parts))
    tables = []
    for strength in (None, *STRENGTHS):
        for data, index, parts in sources:
            found = compute_table(model, background_set, data, index, strength)
            tables.append((found, [[name for name in part if name in set(found.labels)] for part in parts]))
            print(f"{found.name}: {len(found.labels)} clips", flush=True)
    answers = [run_episodes(found, fit_on, seed + at) for at, (found, (fit_on, _)) in enumerate(tables)]
    counts = [len(parts[0]) for _, parts in tables[:2]]
    description = (
        f"{counts[0]} actions of the synthetic data set and {counts[1]} of CMU, seed {seed}, as recorded"
    )
    strengths = ", ".join(map(str, STRENGTHS))
    unaugmented = fit_calibration(answers[:2], description)
    calibration = fit_calibration(answers, f"{description} and with augmentation {strengths}")
    (folder / CALIBRATION_FILE.name).write_text(calibration.model_dump_json(indent=1) + "\n")

    tests = [(f"{t.name}, held out", run_episodes(t, rest, seed + 10)) for t, (_, rest) in tables]
    tests += [test for name in UNSEEN for test in measure_unseen(model, background_set, name, seed)]
    return {
        "model": fingerprint(model),
        "seed": seed,
        "results": [summarise_answers(name, found, calibration) for name, found in tests],
        "fitted_as_recorded": [summarise_answers(name, found, unaugmented) for name, found in tests],
    }


def fit_calibration(answers: Sequence[Answers], description: str) -> Calibration:
    """Return the coefficients that fit some answers best."""
    evidence, right = (torch.cat([getattr(one, key) for one in answers]) for key in ("evidence", "right"))
    bias, *weights = fit_logistic(evidence, right).tolist()
    return Calibration(bias=bias, **dict(zip(NAMES, weights, strict=True)), fitted_on=description)


def measure_unseen(
    model: FewShotModel, background_set: BackgroundSet, name: str, seed: int
) -> list[tuple[str, Answers]]:
    """Return the answers on a data set that is not used to fit: of all sizes, and with one example of five actions."""
    try:
        data = open_dataset(name)
        found = compute_table(model, background_set, data, range(len(data)))
    except JeanieError as error:
        print(f"{name} is skipped: {error}")
        return []
    classes = sorted(set(found.labels))
    print(f"{name}: {len(found.labels)} clips", flush=True)
    return [
        (name, run_episodes(found, classes, seed + 20)),
        (f"{name}, 5 actions, 1 example", run_episodes(found, classes, seed + 30, [(5, 1)] * 10)),
    ]


def _draw_takes(data: Dataset, label: str, rng: np.random.Generator) -> list[int]:
    rows = [i for i, name in enumerate(data.labels) if name == label]
    return rng.choice(rows, min(TAKES, len(rows)), replace=False).tolist()


if __name__ == "__main__":
    main()
