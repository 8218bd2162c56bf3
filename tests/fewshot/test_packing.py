"""Padding is not encoded: it costs nothing and changes neither features nor gradients."""

import pytest
import tiny_task
import torch
from torch.testing import assert_close

from jeanie.fewshot.model import FewShotModel

CLIPS = [tiny_task.dataset()[number] for number in (0, 1, 7, 12)]


def make_model(**changes):
    torch.manual_seed(0)
    return FewShotModel(
        tiny_task.model_config().with_values({"encoder.dropout": 0.0, **changes}), tiny_task.LAYOUT
    )


def count_encoded_blocks(model, batch, side):
    """Return the features of a batch and the number of blocks that the encoder receives."""
    sizes = []
    hook = model.encoder.register_forward_pre_hook(lambda _, args: sizes.append(args[0].shape[:-3].numel()))
    try:
        return model.features(batch, side), sum(sizes)
    finally:
        hook.remove()


@pytest.mark.parametrize("side", ["query", "support"])
def test_clips_of_a_batch_have_the_features_that_they_have_alone(side):
    model = make_model()
    together = model.features(model.collate(CLIPS), side)
    for number, clip in enumerate(CLIPS):
        alone = model.features(model.collate([clip]), side)
        count = int(alone.counts)
        assert int(together.counts[number]) == count
        assert_close(together.values[number, :count], alone.values[0])
        assert together.values[number, count:].count_nonzero() == 0


@pytest.mark.parametrize("side", ["query", "support"])
def test_only_blocks_of_motions_are_encoded(side):
    model = make_model()
    batch = model.collate(CLIPS)
    features, encoded = count_encoded_blocks(model, batch, side)
    views = features.values[0, 0].numel() // features.values.shape[-1]
    assert len(set(features.counts.tolist())) > 1
    assert encoded == int(features.counts.sum()) * views


def test_absent_persons_are_not_encoded():
    model = make_model()
    one, two = tiny_task.dataset()[0], tiny_task.dataset()[1]
    pair = type(two)(two.joints.repeat(1, 2, 1, 1), two.layout, valid=two.valid.repeat(1, 2, 1))
    features, encoded = count_encoded_blocks(model, model.collate([one, pair]), "support")
    assert encoded == int(features.counts[0]) + 2 * int(features.counts[1])
    alone = model.features(model.collate([two]), "support").values[0]
    assert_close(features.values[1, : features.counts[1]], alone)


def test_gradients_are_the_sums_of_those_of_single_clips():
    model = make_model()
    total = model.features(model.collate(CLIPS)).values.square().sum()
    together = torch.autograd.grad(total, list(model.parameters()))
    parts = [
        torch.autograd.grad(
            model.features(model.collate([clip])).values.square().sum(), list(model.parameters())
        )
        for clip in CLIPS
    ]
    for whole, each in zip(together, zip(*parts, strict=True), strict=True):
        assert_close(whole, sum(each), rtol=1e-4, atol=1e-5)
