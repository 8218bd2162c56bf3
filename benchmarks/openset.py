"""Fits the confidence of the recogniser and measures it, leaving out every source in turn.

A source is what one sensor would record: CMU motion capture, the synthetic data set, Rocketbox animations, PRECOG
(Kinect; six of twelve subjects), procedural gestures; most of them also *changed*, as other bodies before a worse
sensor. The background set contains no motion of the family of the source that is measured, because the sensor of a user
is not in it either. Writes ``openset.json`` beside the model, then measures MSRAction3D, NW-UCLA and SBU, on which
nothing was fitted or chosen: docs/results/openset.md, docs/pictures/openset.png, benchmarks/results/openset.json.

    JEANIE_DATA=... python benchmarks/openset.py
    python benchmarks/openset.py --page             # only the page and the picture, from the stored results

With ``--background`` it also makes ``background.safetensors`` again, from CMU, the synthetic data set and gestures.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import openset_page
import torch
from openset_episodes import SHOTS, Answers, Table, compute_table, run_episodes
from openset_sources import CLIPS, augment_motion, make_gestures, open_sources, select_clips
from torch import Tensor

from jeanie.datasets import open_dataset
from jeanie.errors import JeanieError
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.model import SHIPPED
from jeanie.recogniser.background import (
    BACKGROUND_FILE,
    BackgroundSet,
    write_motions,
)
from jeanie.recogniser.confidence import (
    CALIBRATION_FILE,
    EVIDENCE,
    Calibration,
    compute_auroc,
    compute_reliability,
)
from jeanie.recogniser.fingerprints import fingerprint
from jeanie.skeleton import Motion

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "openset.json"
UNSEEN = ("msraction3d", "nw-ucla", "sbu")
SAME_PERSON_WEIGHT = 0.25  # in the fit, of episodes in which one person performs everything
UNKNOWN_WEIGHT = 1.1  # of queries of other actions in the fit: most movements in use are not enrolled
EVENNESS = 10.0  # weight of the squared mean error of each source in the fit, against errors of level
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


def fit_logistic(
    proof: Tensor,
    right: Tensor,
    weight: Tensor | None = None,
    source: Tensor | None = None,
    evenness: float = 0.0,
) -> Tensor:
    """Return bias and coefficients of the logistic regression of ``right`` on evidence, by Newton's method.

    A small ridge keeps it defined where a kind of evidence never varies. With ``source``, the number of the source of
    each row, the squared mean error of each source is added to the loss, ``evenness`` times: evidence whose level
    depends on the sensor then gets a smaller coefficient. The curvature of this part is that of Gauss and Newton.
    """
    rows = torch.cat([torch.ones(len(proof), 1), proof], 1).double()
    target = right.double()
    weight = torch.ones_like(target) if weight is None else weight.double() / weight.double().mean()
    solution = torch.zeros(rows.shape[1], dtype=torch.float64)
    ridge = 1e-4 * len(rows) * torch.eye(len(solution), dtype=torch.float64)
    is_of = torch.zeros(0, len(rows)) if source is None else (source == source.unique()[:, None])
    shares = is_of * weight  # one row per source
    total = shares.sum(1)
    for _ in range(100):
        chance = torch.sigmoid(rows @ solution)
        change = rows * (weight * chance * (1 - chance))[:, None]
        curve = change.T @ rows + ridge
        slope = rows.T @ (weight * (target - chance)) - ridge @ solution
        # mean error of each source, and its derivative by the coefficients
        error, derivative = shares @ (target - chance) / total, is_of.double() @ change / total[:, None]
        curve = curve + 2 * evenness * (derivative * total[:, None]).T @ derivative
        slope = slope + 2 * evenness * (derivative * total[:, None]).T @ error
        step = torch.linalg.solve(curve, slope)
        solution = solution + step
        if float(step.abs().max()) < 1e-10:
            break
    return solution


def fit_calibration(family_answers: Sequence[tuple[str, Answers, float]], fitted_on: str = "") -> Calibration:
    """Return the coefficients that fit the answers of each source best.

    Args:
        family_answers: Family, answers and weight of each source. Every family counts the same.
        fitted_on: Description of the sources.
    """
    totals: dict[str, float] = {}
    for family, _, share in family_answers:
        totals[family] = totals.get(family, 0.0) + share
    weight = torch.cat(
        [
            torch.where(answers.known, 1.0, UNKNOWN_WEIGHT) * share / (len(answers.right) * totals[family])
            for family, answers, share in family_answers
        ]
    )
    every = Answers.cat([answers for _, answers, _ in family_answers])
    source = torch.cat(
        [torch.full((len(answers.right),), at) for at, (_, answers, _) in enumerate(family_answers)]
    )
    bias, *weights = fit_logistic(every.evidence, every.right, weight, source, EVENNESS).tolist()
    return Calibration(bias=bias, **dict(zip(EVIDENCE, weights, strict=True)), fitted_on=fitted_on)


def find_thresholds(confidences: Sequence[Tensor]) -> tuple[tuple[float, float], ...]:
    """Return (share of false alarms, threshold), given the confidences of unknown queries of every source."""
    grid = torch.linspace(0, 1, 1001, dtype=torch.float64)
    shares = torch.stack([(values[:, None] >= grid).double().mean(0) for values in confidences]).mean(0)
    return tuple((share, round(float(grid[(shares <= share).int().argmax()]), 3)) for share in SHARES)


def summarise_answers(
    name: str, answers: Answers, calibration: Calibration, alarms: float | None = None
) -> dict[str, Any]:
    """Return how well right and wrong answers are separated, and how well confidences are calibrated.

    ``alarms`` is another share of false alarms at which the share of recognised queries is measured.
    """
    confidence = calibration.compute_confidence(answers.evidence)
    accepted, known, right = confidence >= 0.5, answers.known, answers.right
    rows = compute_reliability(confidence, right)
    false_alarms = float(accepted[~known].double().mean())
    limit = confidence[~known].quantile(1 - (false_alarms if alarms is None else alarms))
    return {
        "name": name,
        "answers": len(right),
        "accuracy": float(right[known].double().mean()),
        "auroc": compute_auroc(confidence, known),
        "auroc_distance": compute_auroc(-answers.distance, known),
        "false_alarms": false_alarms,
        "recognised": float((accepted & right)[known].double().mean()),
        "recognised_at": float(((confidence > limit) & right)[known].double().mean()),
        "confused": float((accepted & ~right)[known].double().mean()),
        "error": sum(count * abs(mean - share) for count, mean, share in rows) / len(right),
        "excess": float((confidence - right.double()).mean()),
        "reliability": rows,
    }


def compare_versions(name: str, answers: Answers, calibration: Calibration) -> list[dict[str, Any]]:
    """Return the measures of one source for every number of examples: before, after, and with own recordings."""
    rows = []
    for shots in SHOTS:
        alone, with_own = (
            answers.select((answers.shots == shots) & ((answers.recordings > 0) == flag))
            for flag in (False, True)
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
    page = openset_page.format_page(facts, calibration, about)
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
    parser.add_argument("--background", action="store_true", help="make the background set again")
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

    drawn: list[tuple[Table, Answers, Answers | None]] = []
    for source in open_sources():
        table = compute_table(model, leave_family_out(background_set, source.family), source)
        answers = run_episodes(table, seed + len(drawn))
        assert answers is not None
        drawn.append((table, answers, run_same_person_episodes(table, seed + 50 + len(drawn))))
        print(f"{table.name}: {len(table.labels)} clips, {len(set(table.labels))} actions", flush=True)
    answered = [(table.family, answers, 1.0) for table, answers, _ in drawn]
    answered += [(table.family, own, SAME_PERSON_WEIGHT) for table, _, own in drawn if own is not None]
    families = sorted({family for family, _, _ in answered})
    fitted = {left: fit_calibration([row for row in answered if row[0] != left]) for left in families}
    left_out, left_out_same_person = [], []
    for table, answers, own in drawn:
        left_out += compare_versions(table.name, answers, fitted[table.family])
        left_out_same_person += [] if own is None else compare_versions(table.name, own, fitted[table.family])
    thresholds = find_thresholds(
        [
            fitted[table.family].compute_confidence(answers.evidence)[~answers.known]
            for table, answers, _ in drawn
        ]
    )
    description = f"{len(drawn)} sources of {len(families)} families ({', '.join(families)}), seed {seed}"
    calibration = fit_calibration(answered, description).with_values(thresholds=thresholds)
    (folder / CALIBRATION_FILE.name).write_text(calibration.model_dump_json(indent=1) + "\n")

    unseen, unseen_same_person = [], []
    for name in UNSEEN:
        try:
            source = select_clips(open_dataset(name), name, per_label=30).take(CLIPS)
            table = compute_table(model, background_set, source)
        except JeanieError as error:
            print(f"{name} is skipped: {error}")
            continue
        for rows, answers in (
            (unseen, run_episodes(table, seed + 20)),
            (unseen_same_person, run_same_person_episodes(table, seed + 70)),
        ):
            rows += [] if answers is None else compare_versions(name, answers, calibration)
        print(f"{name}: {len(table.labels)} clips", flush=True)
    return {
        "model": fingerprint(model),
        "seed": seed,
        "results": flatten_rows(unseen),
        "left_out": left_out,
        "left_out_same_person": left_out_same_person,
        "unseen": unseen,
        "unseen_same_person": unseen_same_person,
    }


def run_same_person_episodes(table: Table, seed: int) -> Answers | None:
    """Return the answers of episodes of one person; None if every clip of the source has a body of its own."""
    is_changed = table.name.endswith(", changed") or table.family == "gestures"
    return None if is_changed else run_episodes(table, seed, by_same_person=True)


if __name__ == "__main__":
    main()
