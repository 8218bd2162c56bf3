"""Hubness correction: increase the distances to supports that are near to all motions."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from jeanie.errors import DataError, ShapeError
from jeanie.fewshot.features import Features

__all__ = ["HubnessCorrection"]


class HubnessCorrection(nn.Module):
    """Mean features m_t of known motions per block (``course``), and their mean squared deviation from it (``spread``).

    The mean squared distance per block of a motion s to the known motions is

        r(s) = mean over t of |s_t - m_t|^2 + spread

    Its average over the known motions is 2 * spread. A support with a small r is near to every query and attracts
    queries of other classes. Distances to s are therefore multiplied by (2 * spread / r(s)) ^ power.

    Args:
        blocks: Number of blocks of every motion.
        features: Number of features per block.
        power: Exponent of the correction.
    """

    def __init__(self, blocks: int, features: int, power: float) -> None:
        super().__init__()
        self.power = power
        self.register_buffer("course", torch.zeros(blocks, features))
        self.register_buffer("spread", torch.zeros(()))

    def learn(self, batches: Iterable[Features]) -> None:
        """Compute the course and the spread of known motions; two matched persons are two motions.

        Raises:
            DataError: If there are fewer than two motions.
            ShapeError: If motions differ in their numbers of blocks, or have views.
        """
        course = self.get_buffer("course")
        total, squares, count = torch.zeros_like(course, dtype=torch.float64), 0.0, 0
        for batch in batches:
            for values in _split_persons(batch):
                self._check_shape(values)
                total += values.double().sum(0)
                squares += values.double().square().sum().item()
                count += len(values)
        if count < 2:
            raise DataError(f"a hubness correction needs two motions or more, got {count}; give more motions")
        mean = total / count
        course.copy_(mean)
        self.get_buffer("spread").fill_((squares / count - mean.square().sum().item()) / len(course))

    def factor(self, support: Features) -> Float[Tensor, " clip"]:
        """Return the factor of the distances to each of these motions; for two matched persons, r is their mean."""
        squared = self._average_squared_distance(support.values)
        if support.second is not None and support.paired is not None:
            mean_squared = (squared + self._average_squared_distance(support.second)) / 2
            squared = torch.where(support.paired, mean_squared, squared)
        return (2 * self.get_buffer("spread") / squared.clamp_min(1e-12)) ** self.power

    def _average_squared_distance(
        self, values: Float[Tensor, "clip block feature"]
    ) -> Float[Tensor, " clip"]:
        """Return r(s) of every motion."""
        self._check_shape(values)
        deviation = (values - self.get_buffer("course")).square().sum(-1).mean(1)
        return deviation + self.get_buffer("spread")

    def _check_shape(self, values: Tensor) -> None:
        course = self.get_buffer("course")
        if values.shape[1:] != course.shape:
            raise ShapeError(
                f"the hubness correction needs features of (block, feature) = {tuple(course.shape)}, got shape "
                f"{tuple(values.shape)}; prepare all motions with the same number of frames, without views"
            )


def _split_persons(features: Features) -> list[Tensor]:
    """Return the features of the first persons, and of the second persons that exist."""
    if features.second is None or features.paired is None:
        return [features.values]
    return [features.values, features.second[features.paired]]
