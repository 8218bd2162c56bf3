"""The usual course of known motions, by which examples that are near to everything are held back."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jeanie.errors import DataError, ShapeError
from jeanie.fewshot.features import Features

__all__ = ["HubnessCorrection"]


class HubnessCorrection(nn.Module):
    """Mean features m_t of known motions, block by block, and their mean squared deviation from it, ``spread``.

    The mean squared distance of a motion s to a known one, block by block, is

        r(s) = mean over t of |s_t - m_t|^2 + spread

    and 2 * spread on average. An example with a small r is near to whatever is asked, and attracts queries of other
    classes; distances to s are therefore multiplied by (2 * spread / r(s)) ^ power.
    """

    def __init__(self, blocks: int, features: int, power: float) -> None:
        super().__init__()
        self.power = power
        self.register_buffer("course", torch.zeros(blocks, features))
        self.register_buffer("spread", torch.zeros(()))

    def learn(self, known: Iterable[Features]) -> None:
        """Take the course and the spread of some motions; of two matched persons both count."""
        course = self.get_buffer("course")
        total, squares, count = torch.zeros_like(course, dtype=torch.float64), 0.0, 0
        for part in known:
            for values in _persons(part):
                self._check(values)
                total += values.double().sum(0)
                squares += values.double().square().sum().item()
                count += len(values)
        if count < 2:
            raise DataError(f"the usual course needs two motions or more, got {count}")
        mean = total / count
        course.copy_(mean)
        self.get_buffer("spread").fill_((squares / count - mean.square().sum().item()) / len(course))

    def factor(self, support: Features) -> Float[Tensor, " clip"]:
        """What distances to each of these motions are multiplied by; of two matched persons r is the mean."""
        apart = self._apart(support.values)
        if support.second is not None and support.paired is not None:
            both = (apart + self._apart(support.second)) / 2
            apart = torch.where(support.paired, both, apart)
        return (2 * self.get_buffer("spread") / apart.clamp_min(1e-12)) ** self.power

    def _apart(self, values: Float[Tensor, "clip block feature"]) -> Float[Tensor, " clip"]:
        self._check(values)
        away = (values - self.get_buffer("course")).square().sum(-1).mean(1)
        return away + self.get_buffer("spread")

    def _check(self, values: Tensor) -> None:
        course = self.get_buffer("course")
        if values.shape[1:] != course.shape:
            raise ShapeError(
                f"the usual course has (block, feature) = {tuple(course.shape)}, got features of shape "
                f"{tuple(values.shape)}; motions have to be prepared with one number of frames, without views"
            )


def _persons(features: Features) -> list[Tensor]:
    """Features of the first persons, and of the second ones who are there."""
    if features.second is None or features.paired is None:
        return [features.values]
    return [features.values, features.second[features.paired]]
