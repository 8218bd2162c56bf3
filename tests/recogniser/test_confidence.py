"""Confidence: the formula in scalar arithmetic, its measures by counting, and the shipped files."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError, DataError, ShapeError
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.model import SHIPPED
from jeanie.recogniser.background import (
    BACKGROUND_FILE,
    BackgroundSet,
    CohortStatistics,
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

ROOT = Path(__file__).resolve().parents[2]
COEFFICIENTS = {
    "bias": -1.0, "support": -0.5, "query": -0.25, "support_nearest": -0.375, "query_nearest": -0.625,
    "own_nearest": -1.75, "background_spread": -1.25, "foreign": -0.875, "margin": 2.0, "alone": 0.125,
    "actions": -0.75, "own": -1.5, "several": 0.0625,
    "body": 0.375,
}  # fmt: skip
levels = st.integers(0, 6).map(lambda level: level / 4)


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return FewShotModel.load()


@given(st.lists(st.tuples(levels, st.booleans()), min_size=2, max_size=30))
def test_the_area_under_the_curve_is_the_share_of_pairs_in_order(rows):
    scores, positive = (list(column) for column in zip(*rows, strict=True))
    wins = [
        1.0 if one > other else 0.5 if one == other else 0.0
        for one, yes in rows if yes for other, no in rows if not no
    ]  # fmt: skip
    if not wins:
        with pytest.raises(ShapeError, match="needs positives and negatives"):
            compute_auroc(torch.tensor(scores), torch.tensor(positive))
    else:
        found = compute_auroc(torch.tensor(scores), torch.tensor(positive))
        assert found == pytest.approx(sum(wins) / len(wins), abs=1e-12)


def test_the_area_agrees_with_scipy():
    stats = pytest.importorskip("scipy.stats", reason="scipy is not here")
    rng = np.random.default_rng(0)
    scores, positive = rng.normal(size=500).round(1), rng.random(500) < 0.3
    expected = (
        stats.mannwhitneyu(scores[positive], scores[~positive]).statistic / positive.sum() / (~positive).sum()
    )
    assert compute_auroc(torch.from_numpy(scores), torch.from_numpy(positive)) == pytest.approx(
        expected, abs=1e-12
    )


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
def test_reliability_counts_every_answer_in_its_range(rows):
    confidence, right = (list(column) for column in zip(*rows, strict=True))
    found = compute_reliability(torch.tensor(confidence, dtype=torch.float64), torch.tensor(right), bins=4)
    expected = []
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = [(c, r) for c, r in rows if low <= c < low + 0.25 or (low == 0.75 and c == 1)]
        if inside:
            means = [sum(column) / len(inside) for column in zip(*inside, strict=True)]
            expected.append((len(inside), *means))
    assert [count for count, *_ in found] == [count for count, *_ in expected]
    assert_close([row[1:] for row in found], [row[1:] for row in expected])


def cohort(mean, std, *nearest, background_nearest=None):
    background_nearest = sum(nearest) / len(nearest) if background_nearest is None else background_nearest
    return CohortStatistics(*map(torch.tensor, (mean, std, background_nearest, nearest)))


@pytest.mark.parametrize("actions", [1, 4])
@pytest.mark.parametrize("own", [math.nan, -2.0])
def test_evidence_and_confidence_are_the_formula(actions, own):
    nearest, second, around, asked = -2.5, -1.75, (-1.0, 0.5), (-0.5, 0.25)
    z, t = (nearest - around[0]) / around[1], (nearest - asked[0]) / asked[1]
    near = nearest - (-2.0 - 1.5) / 2, (nearest - (-1.25 - 1.0) / 2) / actions
    level = -0.75 - (-1.25 - 1.0) / 2, -0.5 - -0.75
    margin = second - nearest if actions > 1 else 0.0
    farther = 0.0 if math.isnan(own) else nearest - own
    expected = [
        z, t, *near, *level, 10 / (10 + 6), margin, float(actions == 1), math.log(actions), farther,
        float(not math.isnan(own)), math.log(0.05 + 0.02),
    ]  # fmt: skip
    found = compute_evidence(
        torch.tensor(nearest),
        torch.tensor(second),
        cohort(*around, -2.0, -1.5),
        cohort(*asked, -1.25, -1.0, background_nearest=-0.75),
        torch.tensor(own),
        actions,
        own_motions=6,
        body_difference=torch.tensor(0.05),
    )
    assert_close(found, torch.tensor(expected))
    weights = list(COEFFICIENTS.values())
    total = weights[0] + sum(w * x for w, x in zip(weights[1:], expected, strict=True))
    confidence = Calibration(**COEFFICIENTS).compute_confidence(found)
    assert float(confidence) == pytest.approx(1 / (1 + math.exp(-total)), rel=1e-6)


def test_the_evidence_of_an_exact_match_is_limited():
    floor = log_distance(torch.tensor(0.0))
    pair = cohort(-1.0, 0.1, -1.5)
    found = compute_evidence(floor, floor, pair, pair, floor, 2, 0, torch.tensor(0.0))
    expected = [-8.0, -8.0, -3.0, -1.5, 0.0, 0.5, 1.0, 0.0, 0.0, math.log(2), 0.0, 1.0, math.log(0.02)]
    assert_close(found, torch.tensor(expected))


logs = st.floats(-5, 2, width=32)


@given(st.lists(logs, min_size=90, max_size=100), st.lists(logs, max_size=8))
def test_own_motions_join_the_nearest_of_the_cohort(background, own):
    statistics = CohortStatistics.from_distances(torch.tensor([background]).exp())[0]
    joined = statistics.with_members(torch.tensor([*own, math.inf]))
    assert_close(joined.nearest, torch.tensor(sorted([*background, *own])[:3]), rtol=1e-4, atol=1e-4)
    assert (joined.mean, joined.std) == (statistics.mean, statistics.std)
    assert joined.background_nearest == statistics.background_nearest == statistics.nearest.mean()


@given(st.floats(0, 1), st.floats(0, 1))
def test_fewer_false_alarms_need_a_higher_threshold(one, other):
    calibration = Calibration(**COEFFICIENTS, thresholds=((0.5, 0.125), (0.1, 0.5), (0.05, 0.75)))
    low, high = sorted((one, other))
    assert 1 >= calibration.find_threshold(low) >= calibration.find_threshold(high) >= 0
    assert [calibration.find_threshold(share) for share in (0, 0.05, 0.1, 0.3, 1)] == pytest.approx(
        [1, 0.75, 0.5, 0.3125, 0]
    )


@pytest.mark.errors
def test_errors_name_wrong_shares_of_false_alarms():
    with pytest.raises(ConfigError, match="no table of false alarms"):
        Calibration(**COEFFICIENTS).find_threshold(0.05)
    with pytest.raises(ConfigError, match=r"false_alarms is a share from 0 to 1, got 5"):
        Calibration.from_file(CALIBRATION_FILE).find_threshold(5)


@pytest.mark.errors
def test_errors_name_wrong_coefficients(tmp_path):
    with pytest.raises(ConfigError, match="bias: field required"):
        Calibration(support=1)
    (tmp_path / "c.json").write_text(json.dumps({**COEFFICIENTS, "bias": math.inf}))
    with pytest.raises(ConfigError, match=r"c\.json: Calibration: bias"):
        Calibration.from_file(tmp_path / "c.json")


def test_background_statistics_equal_those_of_numpy():
    table = torch.rand(3, 40) + 0.1
    mean, deviation = compute_log_statistics(table)
    logs = np.log(table.numpy())
    assert_close(mean.numpy(), logs.mean(1))
    assert_close(deviation.numpy(), logs.std(1), rtol=1e-5, atol=1e-6)


def test_fingerprints_of_different_weights_or_configurations_differ(model):
    other = FewShotModel.load()
    assert fingerprint(other) == fingerprint(model)
    weight = next(other.parameters())
    with torch.no_grad():
        weight.view(-1)[0] = torch.nextafter(weight.view(-1)[0], torch.tensor(torch.inf))
    assert fingerprint(other) != fingerprint(model)
    changed = FewShotModel(model.config.with_values({"align.band": 0.5}), model.layout)
    changed.load_state_dict(model.state_dict())
    assert fingerprint(changed) != fingerprint(model)


def test_a_background_set_is_written_and_read_as_small_motions(model, tmp_path):
    studio = open_synthetic(subjects=1, takes=1, cameras=1, actions=["squat", "shake_hands", "bow"])
    clips = [*studio.motions]
    write_motions(tmp_path / "background.safetensors", clips)
    assert (tmp_path / "background.safetensors").stat().st_size < 4 * 64 * 15 * 3 * 2 + 2000
    again = read_motions(tmp_path / "background.safetensors")
    assert [motion.persons for motion in again] == [1, 2, 1]
    background_set, kept = (
        BackgroundSet.from_motions(model, clips),
        BackgroundSet.for_model(model, tmp_path / "background.safetensors"),
    )
    assert background_set.support.paired.tolist() == [False, True, False] == kept.support.paired.tolist()
    with torch.no_grad():
        apart = model.compare(background_set.query, kept.support)
    assert bool((apart.diagonal() < 0.02 * apart.mean()).all()), "the motions read equal those written"


def test_missing_joints_of_a_background_set_stay_missing(model, tmp_path):
    clip = open_synthetic(subjects=1, takes=1, cameras=1, actions=["squat"]).motions[0]
    valid = clip.valid.clone()
    valid[..., clip.layout.index("right_hand")] = False
    write_motions(tmp_path / "background.safetensors", [clip.replace(valid=valid)])
    (again,) = read_motions(tmp_path / "background.safetensors")
    seen = dict(zip(again.layout.joints, again.valid.any(0)[0].tolist(), strict=True))
    assert not seen.pop("right_hand")
    assert all(seen.values())


def test_a_model_without_canonical_bodies_uses_generated_motions(tmp_path):
    few = open_synthetic(subjects=1, takes=1, cameras=1, actions=["squat", "bow"])
    write_motions(tmp_path / "background.safetensors", [*few.motions])
    canonical, recorded = (
        FewShotModel.raw(),
        FewShotModel.raw("dtw").with_config({"inputs.prepare.layout": "core15"}),
    )
    assert len(BackgroundSet.for_model(canonical, tmp_path / "background.safetensors")) == 2
    assert len(BackgroundSet.for_model(recorded, tmp_path / "background.safetensors")) > 50


@pytest.mark.errors
def test_an_error_names_a_file_that_is_no_background_set(model, tmp_path):
    (tmp_path / "background.safetensors").write_bytes(b"no background set")
    with pytest.raises(DataError, match=r"background\.safetensors: not a background set"):
        BackgroundSet.for_model(model, tmp_path / "background.safetensors")


def test_the_shipped_confidence_was_fitted_for_the_shipped_model(model):
    found = json.loads((ROOT / "benchmarks" / "results" / "openset.json").read_text())
    assert found["model"] == fingerprint(model), "run benchmarks/openset.py for this model"


def test_the_shipped_background_set_is_small_and_has_many_motions():
    motions = read_motions(BACKGROUND_FILE)
    assert BACKGROUND_FILE.stat().st_size <= 1_700_000
    assert len(motions) >= 100
    assert {motion.persons for motion in motions} == {1, 2}
    assert BACKGROUND_FILE.parent == CALIBRATION_FILE.parent == SHIPPED


def test_the_shipped_confidence_grows_with_a_smaller_distance_and_a_larger_margin():
    shipped = Calibration.from_file(CALIBRATION_FILE)
    assert shipped.fitted_on
    background = cohort(-0.7, 0.3, -1.3)

    def confidence(nearest, second=-0.8, actions=5, body=0.08):
        given = (torch.tensor(nearest), torch.tensor(second), background, background, torch.tensor(math.nan))
        evidence = compute_evidence(*given, actions, actions - 1, torch.tensor(body))
        return float(shipped.compute_confidence(evidence))

    for actions in (1, 2, 5, 20, 200):
        near = [confidence(nearest, actions=actions) for nearest in (-9.0, -3.0, -2.0, -1.5, -1.0, -0.7)]
        assert near == sorted(near, reverse=True)
    near = [confidence(nearest) for nearest in (-3.0, -2.0, -1.5, -1.0, -0.7)]
    assert near[0] > 0.9
    assert near[-1] < 0.1
    assert confidence(-1.6, -0.8) > confidence(-1.6, -1.5)
    assert confidence(-1.6, actions=2) > confidence(-1.6, actions=50)
    assert confidence(-1.6, body=0.15) > confidence(-1.6, body=0.01), (
        "the same distance says more about another body"
    )
