"""benchmarks/recognition_report.py: its counts, computed by hand."""

import numpy as np
import pytest
import torch

from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.fewshot import FewShotModel
from jeanie.fewshot.episodes import Episode

SCRIPT = "recognition_report"


def test_answers_through_the_recogniser_are_those_of_the_nearest_exemplar(script):
    """Two episodes with different exemplars, so that what one enrols is forgotten in the next."""
    data = open_synthetic(subjects=3, takes=1, cameras=1, actions=["squat", "bow", "clap"])
    numbers = torch.arange(9).reshape(3, 3)  # action, subject
    episodes = [
        Episode(numbers[:, 0], torch.arange(3), numbers[:, 1], torch.arange(3), ("squat", "bow", "clap")),
        Episode(numbers[[2, 0], 1], torch.arange(2), numbers[[2, 0], 2], torch.arange(2), ("clap", "squat")),
    ]
    for model in script.build_methods(data).values():
        found = script.find_right_answers(model, script.Task("three", data, episodes, ""))
        for right, episode in zip(found, episodes, strict=True):
            table = model.distances(
                *([data[i] for i in clips.tolist()] for clips in (episode.query, episode.support))
            )
            nearest = episode.support_labels[table.argmin(1)]
            assert right == (nearest == episode.query_labels).tolist()


def test_methods_are_the_shipped_model_and_two_that_learn_nothing(script):
    models = script.build_methods(open_synthetic(subjects=2, takes=1, cameras=1, actions=["bow"]))
    assert list(models) == [script.OURS, script.DTW, script.SOFT]
    assert models[script.OURS].config == FewShotModel.load().config
    assert [list(models[name].parameters()) for name in (script.DTW, script.SOFT)] == [[], []]
    assert models[script.DTW].config.align.gamma == 0
    assert models[script.SOFT].config.align.gamma > 0


def test_shares_and_paired_differences_are_counted_right(script):
    ours, others = (
        script.compute_units([row], whole=True)
        for row in ([True, True, True, False], [True, False, False, False])
    )
    assert script.estimate_accuracy(ours).value == pytest.approx(75)
    found, p = script.estimate_difference(ours, others)
    assert found.value == pytest.approx(50)
    assert p == pytest.approx(0.5)  # two queries differ, both one way: 2 * 1/4
    rng = np.random.default_rng(0)
    right, wrong = (rng.random((20, 5)) < share for share in (0.8, 0.5))
    ours, others = (script.compute_units(rows.tolist(), whole=False) for rows in (right, wrong))
    found, _ = script.estimate_difference(ours, others)
    assert found.value == pytest.approx(100 * (right.mean() - wrong.mean()))
    assert found.low < found.value < found.high
    assert script.estimate_accuracy(ours).value == pytest.approx(100 * right.mean())
