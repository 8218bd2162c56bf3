"""Losses: functions of the distances of queries to supports (paper, Eq. 10 and 11).

Every function takes the distances of one episode, or of a mini-batch of episodes (episode axis first), and ``same``:
whether query and support have the same class (on the host, it costs no synchronisation with a device). The paper's
losses pool a whole mini-batch.
"""

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field, field_validator
from torch import Tensor, nn

from jeanie.config import Config
from jeanie.errors import ConfigError, ShapeError
from jeanie.fewshot.mining import multi_similarity_loss

__all__ = ["Loss", "LossConfig", "absolute_loss", "cross_entropy", "similarity_loss", "squared_loss"]

Distances = Float[Tensor, "*episode query support"]
Same = Bool[Tensor, "*episode query support"]


class LossConfig(Config):
    """The loss of a training and its options (paper, Eq. 10 and 11)."""

    kind: Literal["cross-entropy", "similarity", "squared", "absolute", "multi-similarity"] = Field(
        default="cross-entropy",
        description="similarity is the loss of the paper, squared and absolute are its variants; multi-similarity "
        "mines pairs",
    )
    beta: int = Field(
        default=1,
        description="similarity: number of smallest distances in the near target; the far target has N Z times as many",
    )
    target: float = Field(
        default=1.0, ge=0, description="squared, absolute: target of the mean distance to other classes"
    )
    temperature: float | None = Field(
        default=None,
        gt=0,
        description="cross-entropy: initial temperature; null: the standard deviation of the first distances",
    )
    learnt: bool = Field(default=True, description="cross-entropy: learn the temperature")
    classifier: float = Field(
        default=0.0,
        ge=0,
        description="weight of the cross-entropy of a linear classifier of the training classes, which is added; "
        "0 disables it",
    )

    @field_validator("beta")
    @classmethod
    def _check_beta(cls, beta: int) -> int:
        if beta < 1:
            raise ValueError(
                f"a target is the mean of beta distances, so beta is 1 or more, got {beta}; the paper allows 0, but "
                "the mean of no distance is not defined"
            )
        return beta


def similarity_loss(distances: Distances, same: Same, *, beta: int = 1, far: int) -> Float[Tensor, ""]:
    """Return the loss of the paper (Eq. 10, 11).

    (mean(d+) - mean(TopMin_beta(d+)))^2 + (mean(d-) - mean(TopMax_far(d-)))^2, targets detached

    d+ are distances within a class, d- distances between classes. The far target is the maximum of the batch itself,
    so with an unbounded base distance it grows during training.

    Args:
        distances: Distances of queries to supports.
        same: Whether query and support have the same class.
        beta: Number of smallest d+ in the near target, at most all.
        far: Number of largest d- in the far target, at most all; N Z beta for N-way Z-shot episodes.

    Raises:
        ShapeError: If the shapes differ, or there are no distances within or between classes.
    """
    near, others = _split(distances, same)
    smallest = near.detach().topk(min(beta, near.numel()), largest=False).values.mean()
    largest = others.detach().topk(min(far, others.numel())).values.mean()
    return (near.mean() - smallest).square() + (others.mean() - largest).square()


def squared_loss(distances: Distances, same: Same, *, target: float = 1.0) -> Float[Tensor, ""]:
    """Return the variant v1 of the paper's loss: mean(d+)^2 + (mean(d-) - target)^2."""
    near, others = _split(distances, same)
    return near.mean().square() + (others.mean() - target).square()


def absolute_loss(distances: Distances, same: Same, *, target: float = 1.0) -> Float[Tensor, ""]:
    """Return the variant v2 of the paper's loss: |mean(d+)| + |mean(d-) - target|."""
    near, others = _split(distances, same)
    return near.mean().abs() + (others.mean() - target).abs()


def cross_entropy(
    distances: Distances,
    support_labels: Int[Tensor, "*episode support"],
    query_labels: Int[Tensor, "*episode query"],
    temperature: float | Float[Tensor, ""] = 1.0,
) -> Float[Tensor, ""]:
    """Return the mean cross-entropy of the queries.

    logit[q, c] = log sum over supports s of class c of exp(-d[q, s] / temperature)

    The nearest supports of a class dominate its logit, as in the rule "nearest". With one shot, the logits are the
    negative distances divided by the temperature. This loss is not in the paper.

    Raises:
        ShapeError: If a query has no support of its class.
    """
    return _cross_entropy(distances, query_labels[..., :, None] == support_labels[..., None, :], temperature)


def _cross_entropy(distances: Tensor, same: Tensor, temperature: float | Tensor) -> Tensor:
    """Return -log of the softmax weight on supports of the query's class, the mean over queries."""
    if not bool(same.any(-1).all()):
        raise ShapeError(
            "cross-entropy needs a support of the class of every query, got a query without one; "
            "leave out such queries"
        )
    logits = distances / -temperature
    same_class = torch.logsumexp(logits.masked_fill(~same.to(logits.device), -math.inf), -1)
    return (torch.logsumexp(logits, -1) - same_class).mean()


def _split(distances: Tensor, same: Tensor) -> tuple[Float[Tensor, " near"], Float[Tensor, " far"]]:
    """Return d+ and d-: distances to supports of the query's class, and to supports of other classes."""
    if distances.shape != same.shape:
        raise ShapeError(
            f"same needs the shape of distances {tuple(distances.shape)}, got {tuple(same.shape)}; "
            "it is query_labels[:, None] == support_labels"
        )
    near, others = distances[same], distances[~same]
    if not near.numel() or not others.numel():
        raise ShapeError(
            f"a loss needs distances within a class and between classes, got {near.numel()} and "
            f"{others.numel()}; episodes need 2 classes or more, and queries of the classes of the supports"
        )
    return near, others


class Loss(nn.Module):
    """The loss of a configuration, with the temperature of the cross-entropy as a parameter.

    >>> loss = Loss(LossConfig(temperature=0.5))
    >>> same = torch.eye(2, dtype=torch.bool)
    >>> round(loss(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), same).item(), 4)  # log(1 + exp(-1 / 0.5))
    0.1269
    """

    def __init__(self, config: LossConfig, *, features: int = 0, classes: int = 0) -> None:
        super().__init__()
        self.config = config
        self.classifier = nn.Linear(features, classes) if config.classifier else None
        initial = config.temperature
        self.log_temperature = nn.Parameter(
            torch.tensor(0.0 if initial is None else math.log(initial), dtype=torch.float64),
            requires_grad=config.kind == "cross-entropy" and config.learnt,
        )
        self.register_buffer("measured", torch.tensor(initial is not None or config.kind != "cross-entropy"))

    @property
    def temperature(self) -> float:
        """The current temperature."""
        return self.log_temperature.detach().exp().item()

    def forward(self, distances: Distances, same: Same) -> Float[Tensor, ""]:
        """Return the loss of one episode or of a mini-batch."""
        config = self.config
        if config.kind == "similarity":
            # an N-way Z-shot episode has N Z supports
            return similarity_loss(distances, same, beta=config.beta, far=distances.shape[-1] * config.beta)
        if config.kind == "squared":
            return squared_loss(distances, same, target=config.target)
        if config.kind == "absolute":
            return absolute_loss(distances, same, target=config.target)
        if config.kind == "multi-similarity":
            return multi_similarity_loss(distances, same)
        self._measure_temperature(distances)
        return _cross_entropy(distances, same, self.log_temperature.exp().to(distances.dtype))

    def classify(
        self, features: Float[Tensor, "clip feature"], classes: Int[Tensor, " clip"], total: int
    ) -> Float[Tensor, ""]:
        """The weighted cross-entropy of the classifier over training classes, of ``total`` clips in all processes."""
        if self.classifier is None:
            raise ConfigError("this loss has no classifier: set loss.classifier above 0")
        logits = self.classifier(features)
        return self.config.classifier * nn.functional.cross_entropy(logits, classes, reduction="sum") / total

    @torch.no_grad()
    def _measure_temperature(self, distances: Tensor) -> None:
        """Set the temperature to the standard deviation of the first distances, unless the configuration sets it.

        If the standard deviation is 0, the temperature is 1.
        """
        is_measured = self.get_buffer("measured")
        deviation = distances.double().std(correction=0)
        first = torch.where(deviation > 0, deviation, 1.0).log()
        self.log_temperature.copy_(torch.where(is_measured, self.log_temperature, first))
        is_measured.fill_(True)
