"""The script that fits the confidence: its regression, its episodes, and what the recogniser answers to the same."""

import os
import sys

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from jeanie.datasets import open_dataset
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.fewshot import FewShotModel
from jeanie.recogniser import Recogniser
from jeanie.recogniser.background import BackgroundSet, CohortStatistics
from jeanie.recogniser.confidence import CALIBRATION_FILE, Calibration

SCRIPT = "openset"
DATA = os.environ.get("JEANIE_DATA")


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return FewShotModel.load()


def test_the_regression_is_the_one_of_highest_likelihood(script):
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(rng.normal(size=(4000, 2)))
    right = torch.from_numpy(rng.random(4000)) < torch.sigmoid(
        0.5 + rows @ torch.tensor([1.0, -2.0]).double()
    )
    found = script.fit_logistic(rows, right)
    assert_close(found, torch.tensor([0.5, 1.0, -2.0]).double(), atol=0.25, rtol=0)

    def likelihood(solution):
        chance = torch.sigmoid(solution[0] + rows @ solution[1:])
        return float(torch.where(right, chance, 1 - chance).log().sum())

    best = likelihood(found)
    for place in range(3):
        for step in (-0.02, 0.02):
            moved = found.clone()
            moved[place] += step
            assert likelihood(moved) < best


def test_an_even_fit_trusts_evidence_less_whose_level_depends_on_the_source(script):
    rng = np.random.default_rng(0)
    right, source = torch.from_numpy(rng.random(4000)) < 0.5, torch.arange(4000) % 2
    steady, shifted = (right + torch.from_numpy(rng.normal(size=4000)) for _ in range(2))
    rows = torch.stack([steady, shifted + 2.0 * source], 1).float()

    def fit(evenness):
        bias, *weights = solution = script.fit_logistic(rows, right, None, source, evenness)
        chance = torch.sigmoid(rows.double() @ solution[1:] + bias)
        return weights, [float((chance - right.double())[source == one].mean()) for one in (0, 1)]

    (steady_alone, shifted_alone), errors_alone = fit(0.0)
    (steady_even, shifted_even), errors_even = fit(100.0)
    assert_close(script.fit_logistic(rows, right, None, source, 0.0), script.fit_logistic(rows, right))
    assert 0 <= shifted_even < shifted_alone / 2
    assert steady_even > 0.8 * steady_alone
    assert max(map(abs, errors_even)) < 0.3 * max(map(abs, errors_alone))


@pytest.fixture
def episodes(script):
    """The module of episodes that the script uses."""
    return sys.modules["openset_episodes"]


@pytest.mark.parametrize("recordings", [0, 2])
def test_the_script_measures_what_the_recogniser_answers(script, episodes, model, recordings):
    """Confidences from tables of distances are those of a recogniser that was taught the same examples."""
    names = ["squat", "bow", "kick_forward"]
    studio = open_synthetic(subjects=3, takes=2, cameras=1, actions=names)
    background_set = BackgroundSet.for_model(model)
    source = script.select_clips(studio, "studio")
    rows = {label: [at for at, one in enumerate(source.labels) if one == label] for label in names}
    found = script.compute_table(model, background_set, source)
    squats, bows, kicks = rows.values()
    asked, own = (
        [squats[5], bows[5], kicks[5]],
        torch.tensor([kicks[0], bows[4]][:recordings], dtype=torch.long),
    )
    examples = [torch.tensor(squats[:3]), torch.tensor(bows[:1])]
    answers = episodes.answer_queries(found, torch.tensor(asked), np.array(names[:2]), examples, own)
    assert answers.right.tolist() == [True, True, False]
    assert answers.known.tolist() == [True, True, False]
    with Recogniser.load(model=model) as recogniser:
        recogniser.enrol("squat", [source.motions[at] for at in squats[:3]])
        recogniser.enrol("bow", source.motions[bows[0]])
        if len(own):
            recogniser.calibrate([source.motions[at] for at in own.tolist()])
        found = [recogniser.recognise(source.motions[at]) for at in asked]
        expected = recogniser._calibration.compute_confidence(answers.evidence)
    confidences = torch.tensor([one.confidence for one in found]).double()
    assert_close(confidences.logit(), expected.logit(), rtol=0, atol=0.05 if len(own) else 0.01)


def test_changed_clips_are_the_same_movements_further_away_the_stronger(script, model):
    clips = open_synthetic(subjects=1, takes=1, cameras=1, noise=0, missing=0).motions[::12]
    augment_motion, apart = script.augment_motion, []
    for strength in (0.0, 0.5, 1.5):
        made = [augment_motion(clip, strength, seed) for seed, clip in enumerate(clips)]
        table = model.distances(made, clips)
        apart.append(float(table.diagonal().mean()))
        assert (table.argmin(1) == torch.arange(len(clips))).float().mean() >= 0.8, "they stay themselves"
    assert apart[0] < 0.01, "a strength of 0 only reads the clip at other moments"
    assert apart == sorted(apart)
    again = augment_motion(clips[0], 1.5, 0)
    assert_close(again.joints, augment_motion(clips[0], 1.5, 0).joints)
    assert not torch.equal(again.joints, augment_motion(clips[0], 1.5, 1).joints)


def test_an_episode_never_asks_a_subject_about_an_example_of_its_own(script, episodes):
    rng = np.random.default_rng(0)
    labels, subjects = (
        np.array(column) for column in zip(*[(a, s) for a in "abcd" for s in "1234"] * 2, strict=True)
    )
    count = len(labels)
    apart = torch.full((count, count), 2.0)
    same = torch.from_numpy((labels[:, None] == labels) & (subjects[:, None] == subjects))
    apart[same] = 0.0  # would be found at once
    around = CohortStatistics(
        torch.zeros(count), torch.ones(count), torch.zeros(count), torch.zeros(count, 1)
    )
    bodies = torch.zeros(count, 14)
    found = script.Table("letters", "letters", labels, subjects, apart, apart, around, around, bodies)
    for shots in (1, 3):
        answers = episodes.run_episode(found, 2, shots, rng)
        assert (answers.distance == 2).all()
        assert answers.known.tolist() == [True] * episodes.QUERIES + [False] * episodes.QUERIES


@pytest.mark.parametrize("recordings", [0, 3])
def test_one_person_performs_everything_in_an_own_episode(script, episodes, monkeypatch, recordings):
    rng = np.random.default_rng(0)
    labels, subjects = (
        np.array(column)
        for column in zip(*[(a, s) for a in "abcd" for s in "123" if (a, s) != ("a", "1")] * 2, strict=True)
    )
    count = len(labels)
    apart = torch.ones(count, count)
    around = CohortStatistics(
        torch.zeros(count), torch.ones(count), torch.zeros(count), torch.zeros(count, 1)
    )
    table = script.Table(
        "letters", "letters", labels, subjects, apart, apart, around, around, torch.zeros(count, 14)
    )
    asked = []
    answer = episodes.answer_queries
    monkeypatch.setattr(episodes, "answer_queries", lambda *given: asked.append(given) or answer(*given))
    people = set()
    for _ in range(12):
        answers = episodes.run_episode(table, 2, 3, rng, recordings, True)
        _, queries, enrolled, examples, own = asked[-1]
        rows = torch.cat([queries, *examples, own])
        (person,) = set(subjects[rows.numpy()])
        people.add(person)
        shown = torch.cat(examples)
        assert not set(shown.tolist()) & set(queries.tolist()), "an example is no query"
        assert not set(own.tolist()) & {*queries.tolist(), *shown.tolist()}, "a recording is neither"
        assert [len(rows) for rows in examples] == [1] * len(enrolled), "one of two performances is left"
        assert answers.known.tolist() == [True] * episodes.QUERIES + [False] * episodes.QUERIES
    assert people == {"1", "2", "3"}


def test_sources_without_persons_have_no_own_episodes(script):
    for name, family in (("cmu, changed", "cmu"), ("gestures", "gestures")):
        table = script.Table(name, family, *[None] * 7)
        assert script.run_same_person_episodes(table, 0) is None


def test_thresholds_keep_the_mean_share_of_false_alarms_over_sources(script):
    confidences = [torch.rand(2000, generator=torch.Generator().manual_seed(n)).double() ** n for n in (1, 3)]
    for share, threshold in script.find_thresholds(confidences):
        alarms = [float((one >= threshold).double().mean()) for one in confidences]
        assert share - 0.01 <= sum(alarms) / 2 <= share


@pytest.mark.skipif(DATA is None, reason="JEANIE_DATA is not set: needs MSRAction3D")
def test_unknown_actions_of_a_sensor_never_seen_are_told_from_enrolled_ones(script, model):
    data = open_dataset("msraction3d")
    source = script.select_clips(data, "msraction3d", per_label=12)
    found = script.compute_table(model, BackgroundSet.for_model(model), source)
    shown = script.run_episodes(found, 0, [(3, 1, 0), (3, 3, 20)])
    result = script.summarise_answers("msraction3d", shown, Calibration.from_file(CALIBRATION_FILE))
    assert result["auroc"] > 0.75
    assert result["false_alarms"] < 0.25
    assert result["error"] < 0.15
