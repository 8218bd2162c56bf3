"""Fits the confidence of the recogniser and measures it, leaving out every source in turn.

A source is what one sensor would record: CMU motion capture, the synthetic data set, Rocketbox animations, PRECOG
(Kinect; six of twelve subjects), procedural gestures; most of them also *changed*, as other bodies before a worse
sensor. The background set contains no motion of the family of the source that is measured, because the sensor of a user
is not in it either. Writes ``openset.json`` beside the model, then measures MSRAction3D, NW-UCLA and SBU, of which
nothing is fitted or chosen: docs/results/openset.md, docs/pictures/openset.png, benchmarks/results/openset.json.

    JEANIE_DATA=... python benchmarks/openset.py
    python benchmarks/openset.py --page             # only the page and the picture, from the stored results

With ``--background`` it also makes ``background.safetensors`` anew, from CMU, the synthetic data set and gestures.
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
from openset_sources import CLIPS, Source, augment_motion, make_gestures, open_sources, select_clips
from recognition_tasks import compute_features
from torch import Tensor

from jeanie.datasets import open_dataset
from jeanie.errors import JeanieError
from jeanie.fewshot import Features, FewShotModel
from jeanie.fewshot.model import SHIPPED
from jeanie.recogniser.background import (
    BACKGROUND_FILE,
    BackgroundSet,
    CohortStatistics,
    log_distance,
    write_motions,
)
from jeanie.recogniser.confidence import (
    CALIBRATION_FILE,
    EVIDENCE,
    Calibration,
    compute_auroc,
    compute_evidence,
    compute_reliability,
)
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.recogniser.gallery import find_middle
from jeanie.skeleton import Motion

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "openset.json"
UNSEEN = ("msraction3d", "nw-ucla", "sbu")
WAYS, SHOTS = (1, 2, 3, 5, 10, 20, None), (1, 3, 5)  # None: half of all actions
RECORDINGS = 20  # of the own sensor, in half of the episodes
SIZES = [(way, shots, own) for own in (0, RECORDINGS) for way in WAYS for shots in SHOTS]
QUERIES = 10  # of enrolled actions, and as many of others, per episode
EPISODES = 12  # of each number of actions, examples and recordings
UNKNOWN_WEIGHT = 1.3  # of queries of other actions in the fit: most movements in use are not enrolled
SHARES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)  # of false alarms in the table of thresholds
WINDOW = (30, 150)  # frames of a background motion from CMU
BACKGROUND = {"cmu": 60, "synthetic": 40, "gestures": 60}  # motions of the background set, in this order
# what version 0.1.0 shipped
EARLIER = {
    "support": -0.8118865821905545, "query": -0.4130455751536692, "margin": 1.5790270114761442,
    "alone": 0.5565202888861069, "actions": -0.6902025907202555, "own": -1.82702179719757,
    "several": -0.008063309674413684,
}  # fmt: skip
BEFORE = Calibration(bias=-2.97602103678366, **{name: EARLIER.get(name, 0.0) for name in EVIDENCE})


@dataclass(frozen=True)
class Table:
    """Clips of a source: labels, subjects, features, and log distances.

    ``distances`` are those of queries to supports, ``apart`` those of supports to each other (without a mirror);
    ``around_query`` and ``around_support`` describe the background set as seen from a query, and from a support.
    """

    name: str
    family: str
    labels: np.ndarray
    subjects: np.ndarray
    distances: Tensor
    apart: Tensor
    around_query: CohortStatistics
    around_support: CohortStatistics
    support: Features | None = None


@dataclass(frozen=True)
class Answers:
    """What was found for many queries.

    Evidence, log distance, whether nearest is right, whether it was enrolled, examples per action, own recordings.
    """

    evidence: Tensor
    distance: Tensor
    right: Tensor
    known: Tensor
    shots: Tensor
    recordings: Tensor

    def select(self, chosen: Tensor) -> "Answers":
        """Return some of the answers."""
        return Answers(*(getattr(self, key)[chosen] for key in self.__dataclass_fields__))

    @classmethod
    def cat(cls, parts: "Sequence[Answers]") -> "Answers":
        """Return the answers of several."""
        return cls(*(torch.cat([getattr(one, key) for one in parts]) for key in cls.__dataclass_fields__))


@torch.no_grad()
def compute_table(model: FewShotModel, background_set: BackgroundSet, source: Source) -> Table:
    """Return every distance between the clips of a source."""
    query = compute_features(model, source.motions, "query")
    support = (
        replace(query, mirrored=None)
        if model.views is None
        else compute_features(model, source.motions, "support")
    )
    return Table(
        source.name,
        source.family,
        np.array(source.labels),
        np.array(source.subjects),
        log_distance(model.compare(query, support)),
        log_distance(model.compare(support, support)),
        CohortStatistics.from_distances(model.compare(query, background_set.support)),
        background_set.measure_supports(model, support),
        support,
    )


def draw_background_motions(seed: int) -> list[Motion]:
    """Return windows of unlabelled CMU clips, clips of the synthetic data set, and procedural gestures.

    Every other window and all gestures are changed, each by another sensor.
    """
    rng = np.random.default_rng(seed)
    cmu, made = open_dataset("cmu"), open_dataset("synthetic")
    windows: list[Motion] = []
    for i in rng.permutation([i for i, label in enumerate(cmu.labels) if label is None]):
        motion, length = cmu[int(i)], int(rng.integers(*WINDOW))
        if len(motion) >= length:
            start = int(rng.integers(0, len(motion) - length + 1))
            windows.append(motion[start : start + length])
        if len(windows) == BACKGROUND["cmu"]:
            break
    for at in range(0, len(windows), 2):
        windows[at] = augment_motion(windows[at], 1.0, at, sensor=1000 + at)
    clips = [made[int(i)] for i in rng.choice(len(made), BACKGROUND["synthetic"], replace=False)]
    gestures = make_gestures("background", 900 + seed, 0.5, None).take(BACKGROUND["gestures"])
    return (
        windows
        + clips
        + [augment_motion(motion, 0.5, at, sensor=2000 + at) for at, motion in enumerate(gestures.motions)]
    )


def leave_family_out(background_set: BackgroundSet, family: str) -> BackgroundSet:
    """Return the background set without the motions of a family."""
    families = np.repeat(list(BACKGROUND), list(BACKGROUND.values()))
    rows = torch.from_numpy(np.flatnonzero(families != family))
    return BackgroundSet(background_set.query[rows], background_set.support[rows])


def run_episode(
    found: Table,
    way: int | None,
    shots: int,
    rng: np.random.Generator,
    recordings: int = 0,
) -> Answers | None:
    """Some actions are enrolled; other subjects, and other actions by anyone, are asked.

    An action's examples are by one subject or by up to half of all, as in use: oneself, or several persons.
    """
    classes, half = np.unique(found.labels), max(1, len(np.unique(found.labels)) // 2)
    several = [one for one in classes if len(np.unique(found.subjects[found.labels == one])) > 1]
    enrolled = rng.choice(several, min(way or half, half, len(several)), replace=False)
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
    others = np.flatnonzero(~np.isin(found.labels, enrolled))
    if not known or not len(others):
        return None
    queries = np.concatenate([rng.choice(known, QUERIES), rng.choice(others, QUERIES)])
    rest = np.setdiff1d(np.arange(len(found.labels)), np.concatenate([queries, *examples]))
    own = torch.from_numpy(rng.choice(rest, min(recordings, len(rest)), replace=False))
    made = answer_queries(
        found, torch.from_numpy(queries), enrolled, [torch.from_numpy(rows) for rows in examples], own
    )
    return replace(made, shots=torch.full_like(made.shots, shots))


def answer_queries(
    found: Table,
    queries: Tensor,
    enrolled: np.ndarray,
    examples: list[Tensor],
    recordings: Tensor | None = None,
) -> Answers:
    """Return what a recogniser would find for queries, from distances that are known already."""
    own = torch.zeros(0, dtype=torch.long) if recordings is None else recordings
    nearest = [found.distances[queries][:, rows].min(1) for rows in examples]
    ranks = torch.stack([one.values for one in nearest], 1)
    ordered, place = ranks.sort(1)
    best = place[:, 0]
    row = torch.stack([rows[one.indices] for rows, one in zip(examples, nearest, strict=True)], 1)
    row = row.gather(1, best[:, None])[:, 0]
    is_best = torch.arange(len(examples)) == best[:, None]
    member = torch.stack([rows[find_middle_example(found, rows)] for rows in examples])
    to_query = torch.cat([ranks.masked_fill(is_best, torch.inf), found.distances[queries][:, own]], 1)
    to_support = torch.cat(
        [found.apart[member][:, row].T.masked_fill(is_best, torch.inf), found.distances[own][:, row].T], 1
    )
    proof = compute_evidence(
        ordered[:, 0],
        ordered[:, min(1, len(examples) - 1)],
        found.around_support[row].with_members(to_support),
        found.around_query[queries].with_members(to_query),
        torch.stack([measure_within_action(found, rows) for rows in examples])[best],
        len(examples),
        len(examples) - 1 + len(own),
    )
    asked = found.labels[queries.numpy()]
    right = torch.from_numpy(enrolled[best.numpy()] == asked)
    known = torch.from_numpy(np.isin(asked, enrolled))
    counts = torch.full((len(queries),), len(examples[0])), torch.full((len(queries),), len(own))
    return Answers(proof, ordered[:, 0], right, known, *counts)


def find_middle_example(found: Table, rows: Tensor) -> int:
    """Return which of an action's examples is nearest to all."""
    if found.support is None or len(rows) < 2:
        return 0
    return find_middle(found.apart[rows][:, rows].exp(), found.support[rows])


def measure_within_action(found: Table, rows: Tensor) -> Tensor:
    """Return the mean log distance of examples to their nearest neighbour, NaN for one alone."""
    if len(rows) < 2:
        return torch.tensor(torch.nan)
    return found.apart[rows][:, rows].clone().fill_diagonal_(torch.inf).amin(1).mean()


def run_episodes(
    found: Table,
    seed: int,
    sizes: Iterable[tuple[int | None, int, int]] | None = None,
) -> Answers:
    """Return the answers of many episodes, with few and many actions, examples and recordings."""
    labels, subjects = (
        np.unique(column, return_inverse=True)[1] for column in (found.labels, found.subjects)
    )  # numbers are compared sooner than words
    found = replace(found, labels=labels, subjects=subjects)
    every = SIZES if sizes is None else sizes
    drawn = []
    for at, (way, shots, own) in enumerate(every):
        rng = np.random.default_rng([seed, at])
        drawn += [run_episode(found, way, shots, rng, own) for _ in range(EPISODES)]
    return Answers.cat([one for one in drawn if one is not None])


def fit_logistic(proof: Tensor, right: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return bias and coefficients of the logistic regression of ``right`` on evidence, by Newton's method.

    A small ridge keeps it defined where a kind of evidence never varies.
    """
    rows = torch.cat([torch.ones(len(proof), 1), proof], 1).double()
    wanted = right.double()
    weight = torch.ones_like(wanted) if weight is None else weight.double() / weight.double().mean()
    solution = torch.zeros(rows.shape[1], dtype=torch.float64)
    ridge = 1e-4 * len(rows) * torch.eye(len(solution), dtype=torch.float64)
    for _ in range(100):
        chance = torch.sigmoid(rows @ solution)
        curve = (rows * (weight * chance * (1 - chance))[:, None]).T @ rows + ridge
        step = torch.linalg.solve(curve, rows.T @ (weight * (wanted - chance)) - ridge @ solution)
        solution = solution + step
        if float(step.abs().max()) < 1e-10:
            break
    return solution


def fit_calibration(shown: Sequence[tuple[str, Answers]], said: str = "") -> Calibration:
    """Return the coefficients that fit the answers of (family, answers) best; every family counts the same."""
    families = [family for family, _ in shown]
    weight = torch.cat(
        [
            torch.where(one.known, 1.0, UNKNOWN_WEIGHT) / (len(one.right) * families.count(family))
            for family, one in shown
        ]
    )
    every = Answers.cat([one for _, one in shown])
    bias, *weights = fit_logistic(every.evidence, every.right, weight).tolist()
    return Calibration(bias=bias, **dict(zip(EVIDENCE, weights, strict=True)), fitted_on=said)


def find_thresholds(confidences: Sequence[Tensor]) -> tuple[tuple[float, float], ...]:
    """Return (share of false alarms, threshold), given the confidences of unknown queries of every source."""
    grid = torch.linspace(0, 1, 1001, dtype=torch.float64)
    shares = torch.stack([(one[:, None] >= grid).double().mean(0) for one in confidences]).mean(0)
    return tuple((share, round(float(grid[(shares <= share).int().argmax()]), 3)) for share in SHARES)


def summarise_answers(
    name: str, found: Answers, calibration: Calibration, alarms: float | None = None
) -> dict[str, Any]:
    """Return how well answers are told from each other, and how true confidences are.

    ``alarms`` is another share of false alarms at which the share of recognised queries is measured.
    """
    confidence = calibration.compute_confidence(found.evidence)
    accepted, known, right = confidence >= 0.5, found.known, found.right
    rows = compute_reliability(confidence, right)
    false_alarms = float(accepted[~known].double().mean())
    limit = confidence[~known].quantile(1 - (false_alarms if alarms is None else alarms))
    return {
        "name": name,
        "answers": len(right),
        "accuracy": float(right[known].double().mean()),
        "auroc": compute_auroc(confidence, known),
        "auroc_distance": compute_auroc(-found.distance, known),
        "false_alarms": false_alarms,
        "recognised": float((accepted & right)[known].double().mean()),
        "recognised_at": float(((confidence > limit) & right)[known].double().mean()),
        "confused": float((accepted & ~right)[known].double().mean()),
        "error": sum(count * abs(mean - share) for count, mean, share in rows) / len(right),
        "excess": float((confidence - right.double()).mean()),
        "reliability": rows,
    }


def compare_versions(name: str, found: Answers, calibration: Calibration) -> list[dict[str, Any]]:
    """Return the measures of one source for every number of examples: before, after, and with own recordings."""
    rows = []
    for shots in SHOTS:
        alone, with_own = (
            found.select((found.shots == shots) & ((found.recordings > 0) == flag)) for flag in (False, True)
        )
        before = summarise_answers(name, alone, BEFORE)
        alarms = before["false_alarms"]
        after = summarise_answers(name, alone, calibration, alarms)
        own = summarise_answers(name, with_own, calibration, alarms)
        rows.append({"name": name, "shots": shots, "before": before, "after": after, "calibrated": own})
    return rows


def flatten_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per data set and number of examples, without and with own recordings."""
    names = {"after": "", "calibrated": ", calibrated"}
    return [
        row[state] | {"name": f"{row['name']}, {row['shots']} per action{end}"}
        for row in rows
        for state, end in names.items()
    ]


def write_page(facts: dict[str, Any], folder: Path) -> None:
    """Write the page and the picture from the results."""
    calibration = Calibration.from_file(folder / CALIBRATION_FILE.name)
    about = (
        f"Model {facts['model'][:8]}, background set of {sum(BACKGROUND.values())} motions, fitted on "
        f"{calibration.fitted_on}."
    )
    page = openset_page.format_page(facts["left_out"], facts["unseen"], calibration, about)
    (ROOT / "docs" / "results" / "openset.md").write_text(page)
    shown = [row["after"] for row in facts["left_out"] + facts["unseen"] if row["shots"] == 1]
    openset_page.draw_picture(shown, ROOT / "docs" / "pictures" / "openset.png")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=Path, default=SHIPPED, help="folder of the model; files are written there"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--background", action="store_true", help="make the background set anew")
    parser.add_argument(
        "--page", action="store_true", help="measure nothing; write the page from the stored results"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.page:
        facts = measure(options.model, options.seed, options.background)
        RESULTS.write_text(json.dumps(facts, indent=1) + "\n")
    write_page(json.loads(RESULTS.read_text()), options.model)


def measure(folder: Path, seed: int, make_background: bool) -> dict[str, Any]:
    """Fit the coefficients, write them into the folder of the model, and measure them."""
    model = FewShotModel.load(folder)
    if model.views is not None:
        raise SystemExit(
            "the tables use one encoding for queries and supports, so simulated views are not possible"
        )
    file = folder / BACKGROUND_FILE.name
    if make_background or not file.is_file():
        write_motions(file, draw_background_motions(seed))
    background_set = BackgroundSet.for_model(model, file)

    drawn: list[tuple[Table, Answers]] = []
    for source in open_sources():
        found = compute_table(model, leave_family_out(background_set, source.family), source)
        drawn.append((found, run_episodes(found, seed + len(drawn))))
        print(f"{found.name}: {len(found.labels)} clips, {len(set(found.labels))} actions", flush=True)
    answered = [(found.family, after) for found, after in drawn]
    families = sorted({family for family, _ in answered})
    fitted = {left: fit_calibration([one for one in answered if one[0] != left]) for left in families}
    left_out = [
        row for found, after in drawn for row in compare_versions(found.name, after, fitted[found.family])
    ]
    thresholds = find_thresholds(
        [fitted[family].compute_confidence(one.evidence)[~one.known] for family, one in answered]
    )
    description = f"{len(answered)} sources of {len(families)} families ({', '.join(families)}), seed {seed}"
    calibration = fit_calibration(answered, description).with_values(thresholds=thresholds)
    (folder / CALIBRATION_FILE.name).write_text(calibration.model_dump_json(indent=1) + "\n")

    unseen = []
    for name in UNSEEN:
        try:
            source = select_clips(open_dataset(name), name, per_label=30).take(CLIPS)
            found = compute_table(model, background_set, source)
        except JeanieError as error:
            print(f"{name} is skipped: {error}")
            continue
        unseen += compare_versions(name, run_episodes(found, seed + 20), calibration)
        print(f"{name}: {len(found.labels)} clips", flush=True)
    return {
        "model": fingerprint(model),
        "seed": seed,
        "results": flatten_rows(unseen),
        "left_out": left_out,
        "unseen": unseen,
    }


if __name__ == "__main__":
    main()
