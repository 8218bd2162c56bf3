"""Passes that are much less similar than the best ones of a recording are other movements."""

import pytest
import torch

from jeanie.recogniser.exercise.passes import MeasuredPass, find_alike, find_least_similarity


def make_passes(similarities):
    pose, path = torch.zeros(15, 3), torch.zeros(1, 2, dtype=torch.long)
    return [MeasuredPass(0, 10, 1.0, value, pose, pose, 0, path) for value in similarities]


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


@pytest.mark.parametrize(
    ("similarity", "mutual", "kept"),
    [
        ([0.9], [[1.0]], [True]),
        # the last pass resembles the example, but not what this person does
        ([0.9, 0.88, 0.87, 0.75], [0.98, 0.97, 0.7, 0.98, 0.7, 0.7], [True, True, True, False]),
        # two people do not move alike: a movement is nearer to the example than the repetitions
        ([0.94, 0.86, 0.85, 0.87], [0.7, 0.7, 0.7, 0.97, 0.98, 0.98], [True, True, True, True]),
        # a single pass is nearer to the example than all others: what is unlike it is another movement
        ([0.9, 0.6, 0.55], [0.5, 0.9, 0.6], [True, False, True]),
        # repetitions that differ a lot from each other: the limit is wide
        ([0.8, 0.75, 0.6], [0.75, 0.6, 0.5], [True, True, True]),
    ],
)
def test_repetitions_are_alike_and_other_movements_are_not(similarity, mutual, kept):
    table = torch.eye(len(similarity))
    if len(similarity) > 1:
        first, second = torch.triu_indices(len(similarity), len(similarity), 1)
        table[first, second] = table[second, first] = torch.tensor(mutual)
    assert find_alike(table, torch.tensor(similarity)).tolist() == kept
