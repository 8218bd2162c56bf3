"""Equality of motions to the last bit."""

import torch


def assert_same(first, second):
    """Assert that two motions are equal to the last bit and to the type of every tag."""
    assert first.joints.numpy().tobytes() == second.joints.numpy().tobytes()
    assert torch.equal(first.valid, second.valid)
    assert first.layout == second.layout
    for key in ("label", "subject", "view", "rate", "name", "setup", "take"):
        assert getattr(first, key) == getattr(second, key), key
        assert type(getattr(first, key)) is type(getattr(second, key)), key
