"""Passes that are much less similar than the best ones of a recording are other movements."""

import pytest
import torch

from jeanie.recogniser.exercise.passes import MeasuredPass, find_least_similarity


def make_passes(similarities):
    path = torch.zeros(1, 2, dtype=torch.long)
    return [MeasuredPass(0, 10, 1.0, value, 0, path) for value in similarities]


@pytest.mark.parametrize(
    ("similarities", "least"),
    [
        ([], 0.0),
        ([0.95, 0.97, 0.98, 0.65, 0.6, 0.7], 0.75),  # the best third is almost perfect: the tolerance counts
        ([0.8, 0.85, 0.9, 0.5], 1 - 3 * 0.15),  # three times the difference of the second best
        ([0.6], 1 - 3 * 0.4),  # a single pass stays
    ],
)
def test_the_limit_follows_the_best_passes(similarities, least):
    found = find_least_similarity(make_passes(similarities), 0.34, 0.25)
    assert found == pytest.approx(least)
    assert all(value >= found for value in similarities[:1])
