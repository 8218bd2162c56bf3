"""Makes what a recogniser needs to know when not to answer, and measures it.

Builds the bank of background motions and fits the coefficients of the confidence for a model, from CMU motion capture
and the embedded data set, whose actions are divided: some for the bank, some to fit, the rest to test. Clips are taken
as they are and *changed*: other bodies and manners before worse sensors, as in training, in three strengths. Writes
``background.safetensors`` and ``openset.json`` beside the model, then measures on the actions that were left out, and
on MSRAction3D, NW-UCLA and SBU, of which nothing is fitted: docs/results/openset.md, docs/pictures/openset.png,
benchmarks/results/openset.json.

    JEANIE_DATA=... python benchmarks/openset.py
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
from recognition_tasks import features
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
UNSEEN = ("msraction3d", "nw-ucla", "sbu")
WAYS, SHOTS = (1, 2, 3, 5, 10, 20), (1, 2, 3, 5)
QUERIES = 10  # of enrolled actions, and as many of others, an episode
EPISODES = 40  # of each number of actions and examples
STRENGTHS = (0.5, 1.0, 1.5)  # of changes
CHANCES = ("burst", "hidden", "drop")  # settings of a manner that are probabilities
WINDOW = (30, 150)  # frames of a background motion from CMU
LONGEST = 600  # frames of a CMU clip that is a query or an example
TAKES = 20  # clips of an action of the embedded data set
FROM_CMU, FROM_SYNTHETIC = 90, 46  # motions in the bank
NAMES = list(Calibration.model_fields)[1:8]


@dataclass(frozen=True)
class Table:
    """Clips that are queries and examples: who does what, log distances, and mean and spread of the background.

    ``apart`` are log distances of examples from each other; ``around_query`` and ``around_support`` tell of the
    background as seen from a query, and from an example.
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
    """What was found for many queries: evidence, log distance, whether nearest is right, whether it was enrolled."""

    evidence: Tensor
    distance: Tensor
    right: Tensor
    known: Tensor


def changed(motion: Motion, strength: float, seed: int) -> Motion:
    """A motion of one person as another body would do it in another manner before another sensor."""
    usual, generator = STRONG_AUGMENTATION, torch.Generator().manual_seed(seed)
    values = {name: strength * getattr(usual, name) for name in AugmentationStrength.model_fields}
    augmentation = AugmentationStrength(**values | {name: min(1.0, values[name]) for name in CHANCES})
    joints, _ = sample_core_joints(motion, 64)
    made = augment(retime(joints, augmentation, generator, 48), augmentation, generator)
    return Motion(made[0][:, None], LAYOUTS["core15"], rate=motion.rate)


@torch.no_grad()
def table(
    model: FewShotModel,
    background_set: BackgroundSet,
    data: Dataset,
    index: Sequence[int],
    strength: float | None = None,
) -> Table:
    """Every distance between some clips of a data set; with a ``strength`` those of one person, changed."""
    if strength is not None:
        index = [i for i in index if data[i].persons == 1]
    shown = [data[i] if strength is None else changed(data[i], strength, seed=i) for i in index]
    query, support = (features(model, shown, side) for side in ("query", "support"))
    labels, subjects = (np.array([str(tags[i]) for i in index]) for tags in (data.labels, data.subjects))
    name = data.name if strength is None else f"{data.name} changed by {strength:g}"
    return Table(
        name,
        labels,
        subjects,
        log_distance(model.compare(query, support)),
        log_distance(model.compare(support, support)),
        compute_log_statistics(model.compare(query, background_set.support)),
        background_set.measure_supports(model, support),
    )


def divided(names: Iterable[str], shares: int, rng: np.random.Generator) -> list[list[str]]:
    """Names in random order, in equal shares."""
    order = sorted(set(names))
    rng.shuffle(order)
    return [order[at::shares] for at in range(shares)]


def background(rng: np.random.Generator, actions: Sequence[str]) -> list[Motion]:
    """Windows of unlabelled CMU clips, one a clip, and clips of some actions of the embedded data set."""
    motions: list[Motion] = []
    cmu, made = open_dataset("cmu"), open_dataset("synthetic")
    unnamed = [i for i, label in enumerate(cmu.labels) if label is None]
    for i in rng.permutation(unnamed):
        motion, length = cmu[int(i)], int(rng.integers(*WINDOW))
        if len(motion) >= length:
            start = int(rng.integers(0, len(motion) - length + 1))
            motions.append(motion[start : start + length])
        if len(motions) == FROM_CMU:
            break
    chosen = [i for i, label in enumerate(made.labels) if label in actions]
    return motions + [made[int(i)] for i in rng.choice(chosen, FROM_SYNTHETIC, replace=False)]


def episode(
    found: Table, classes: Sequence[object], way: int, shots: int, rng: np.random.Generator
) -> Answers | None:
    """Some actions are enrolled; other subjects, and other actions by anyone, are asked.

    An action's examples are by one subject or by up to half of all, as in use: oneself, or several persons.
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
    return answers(found, queries, enrolled, [torch.from_numpy(rows) for rows in examples])


def answers(found: Table, queries: Tensor, enrolled: np.ndarray, examples: list[Tensor]) -> Answers:
    """What a recogniser would find for queries, from distances that are known already."""
    nearest = [found.distances[queries][:, rows].min(1) for rows in examples]
    distances = torch.stack([one.values for one in nearest], 1)
    ordered, place = distances.sort(1)
    best = place[:, 0]
    row = torch.stack([rows[one.indices] for rows, one in zip(examples, nearest, strict=True)], 1)
    row = row.gather(1, best[:, None])[:, 0]
    own = torch.stack([fellows(found, rows) for rows in examples])
    proof = compute_evidence(
        ordered[:, 0],
        ordered[:, min(1, len(examples) - 1)],
        tuple(one[row] for one in found.around_support),
        tuple(one[queries] for one in found.around_query),
        own[best],
        len(examples),
    )
    asked = found.labels[queries.numpy()]
    right = torch.from_numpy(enrolled[best.numpy()] == asked)
    return Answers(proof, ordered[:, 0], right, torch.from_numpy(np.isin(asked, enrolled)))


def fellows(found: Table, rows: Tensor) -> Tensor:
    """Mean log distance of examples to their nearest fellow, NaN for one alone."""
    if len(rows) < 2:
        return torch.tensor(torch.nan)
    return found.apart[rows][:, rows].clone().fill_diagonal_(torch.inf).amin(1).mean()


def episodes(
    found: Table, classes: Sequence[str], seed: int, sizes: Iterable[tuple[int, int]] | None = None
) -> Answers:
    """Answers of many episodes, with few and many actions and examples."""
    rng = np.random.default_rng(seed)
    names, labels = np.unique(found.labels, return_inverse=True)  # numbers are compared sooner than words
    people = np.unique(found.subjects, return_inverse=True)[1]
    found = replace(found, labels=labels, subjects=people)
    classes = np.flatnonzero(np.isin(names, classes)).tolist()
    every = sizes or [(way, shots) for way in WAYS for shots in SHOTS]
    drawn = [episode(found, classes, way, shots, rng) for way, shots in every for _ in range(EPISODES)]
    kept = [one for one in drawn if one is not None]
    return Answers(*(torch.cat([getattr(one, key) for one in kept]) for key in Answers.__dataclass_fields__))


def fit(proof: Tensor, right: Tensor) -> Tensor:
    """Bias and coefficients of the logistic regression of ``right`` on evidence, by Newton's method.

    A small ridge keeps it defined where a kind of evidence never varies.
    """
    rows = torch.cat([torch.ones(len(proof), 1), proof], 1).double()
    wanted = right.double()
    solution = torch.zeros(rows.shape[1], dtype=torch.float64)
    ridge = 1e-6 * len(rows) * torch.eye(len(solution), dtype=torch.float64)
    for _ in range(100):
        chance = torch.sigmoid(rows @ solution)
        curve = (rows * (chance * (1 - chance))[:, None]).T @ rows + ridge
        step = torch.linalg.solve(curve, rows.T @ (wanted - chance) - ridge @ solution)
        solution = solution + step
        if float(step.abs().max()) < 1e-10:
            break
    return solution


def measured(name: str, found: Answers, calibration: Calibration) -> dict[str, Any]:
    """How well answers are told from each other, and how true confidences are."""
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
        "--model", type=Path, default=SHIPPED, help="folder of the model; files are written there"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rng = np.random.default_rng(options.seed)
    model = FewShotModel.load(options.model)
    if model.views is not None:
        raise SystemExit("the tables take a query for a support: simulated views are not for this script")
    made, cmu = open_dataset("synthetic"), open_dataset("cmu")
    for_bank, *made_parts = divided(map(str, made.labels), 3, rng)
    cmu_parts = divided((label for label in cmu.labels if label is not None), 2, rng)
    write_motions(options.model / BACKGROUND_FILE.name, background(rng, for_bank))
    background_set = BackgroundSet.for_model(
        model, options.model / BACKGROUND_FILE.name
    )  # as it will be used, in half precision
    size = (options.model / BACKGROUND_FILE.name).stat().st_size
    print(f"background set: {len(background_set)} motions, {size} bytes", flush=True)

    chosen = [i for part in made_parts for name in part for i in _some(made, name, rng)]
    short = [i for i, label in enumerate(cmu.labels) if label is not None and len(cmu[i]) <= LONGEST]
    sources = ((made, chosen, made_parts), (cmu, short, cmu_parts))
    tables = []
    for strength in (None, *STRENGTHS):
        for data, index, parts in sources:
            found = table(model, background_set, data, index, strength)
            tables.append((found, [[name for name in part if name in set(found.labels)] for part in parts]))
            print(f"{found.name}: {len(found.labels)} clips", flush=True)
    shown = [episodes(found, fit_on, options.seed + at) for at, (found, (fit_on, _)) in enumerate(tables)]
    counts = [len(parts[0]) for _, parts in tables[:2]]
    said = f"{counts[0]} actions of the embedded data set and {counts[1]} of CMU, seed {options.seed}"
    clean = calibrated(shown[:2], f"{said}, as recorded")
    calibration = calibrated(shown, f"{said}, as recorded and changed by {', '.join(map(str, STRENGTHS))}")
    (options.model / CALIBRATION_FILE.name).write_text(calibration.model_dump_json(indent=1) + "\n")

    asked = [(f"{t.name}, left out", episodes(t, rest, options.seed + 10)) for t, (_, rest) in tables]
    asked += [answer for name in UNSEEN for answer in unseen(model, background_set, name, options.seed)]
    results = [measured(name, found, calibration) for name, found in asked]
    before = [measured(name, found, clean) for name, found in asked]
    about = (
        f"Model {fingerprint(model)[:8]}, background set of {len(background_set)} motions; "
        f"fitted on {calibration.fitted_on}."
    )
    (ROOT / "docs" / "results" / "openset.md").write_text(
        openset_page.report(results, before, calibration, about)
    )
    facts = {
        "model": fingerprint(model),
        "seed": options.seed,
        "results": results,
        "fitted_as_recorded": before,
    }
    (ROOT / "benchmarks" / "results" / "openset.json").write_text(json.dumps(facts, indent=1) + "\n")
    openset_page.picture(results, ROOT / "docs" / "pictures" / "openset.png")


def calibrated(shown: Sequence[Answers], said: str) -> Calibration:
    """The coefficients that fit some answers best."""
    proof, right = (torch.cat([getattr(one, key) for one in shown]) for key in ("evidence", "right"))
    bias, *weights = fit(proof, right).tolist()
    return Calibration(bias=bias, **dict(zip(NAMES, weights, strict=True)), fitted_on=said)


def unseen(
    model: FewShotModel, background_set: BackgroundSet, name: str, seed: int
) -> list[tuple[str, Answers]]:
    """Answers on a data set of which nothing is fitted: of all sizes, and with one example of five actions."""
    try:
        data = open_dataset(name)
        found = table(model, background_set, data, range(len(data)))
    except JeanieError as error:
        print(f"{name} is left out: {error}")
        return []
    classes = sorted(set(found.labels))
    print(f"{name}: {len(found.labels)} clips", flush=True)
    return [
        (name, episodes(found, classes, seed + 20)),
        (f"{name}, 5 actions, 1 example", episodes(found, classes, seed + 30, [(5, 1)] * 10)),
    ]


def _some(data: Dataset, label: str, rng: np.random.Generator) -> list[int]:
    rows = [i for i, name in enumerate(data.labels) if name == label]
    return rng.choice(rows, min(TAKES, len(rows)), replace=False).tolist()


if __name__ == "__main__":
    main()
