"""What training makes small: functions of the distances of queries to supports (paper, Eq. 10 and 11).

Every function takes the distances of one episode, or of a mini-batch of episodes with the episode first, and
which of them join a query to a support of its own class. The paper's losses pool a whole mini-batch.
"""

import math
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from jeanie.config import Config
from jeanie.errors import ShapeError
from jeanie.fewshot.mining import multi_similarity_loss

__all__ = ["Loss", "LossConfig", "absolute_loss", "cross_entropy", "similarity_loss", "squared_loss"]

Distances = Float[Tensor, "*episode query support"]
Same = Bool[Tensor, "*episode query support"]


class LossConfig(Config):
    """Which loss, and its numbers (METHOD 8)."""

    kind: Literal["cross-entropy", "similarity", "squared", "absolute", "multi-similarity"] = Field(
        default="cross-entropy",
        description="similarity is the paper's, squared and absolute are its variants; multi-similarity mines pairs",
    )
    beta: int = Field(
        default=1,
        ge=1,
        description="similarity: distances that make the near target; N Z times as many the far",
    )
    target: float = Field(
        default=1.0, ge=0, description="squared, absolute: mean distance that other classes are driven to"
    )
    temperature: float | None = Field(
        default=None, gt=0, description="cross-entropy: at the start; none: the spread of the first distances"
    )
    learnt: bool = Field(default=True, description="cross-entropy: whether the temperature is learnt")


def similarity_loss(distances: Distances, same: Same, *, beta: int = 1, far: int) -> Float[Tensor, ""]:
    """The paper's loss: own classes to the smallest own distance, others to the largest other (Eq. 10, 11).

    (mean(d+) - mean(TopMin_beta(d+)))^2 + (mean(d-) - mean(TopMax_far(d-)))^2, targets detached

    ``far`` is N Z beta for N-way Z-shot episodes. Both counts are cut to what there is. The far target is the
    batch's own maximum, so with an unbounded base distance it runs away from training.
    """
    near, others = _split(distances, same)
    smallest = near.detach().topk(min(beta, near.numel()), largest=False).values.mean()
    largest = others.detach().topk(min(far, others.numel())).values.mean()
    return (near.mean() - smallest).square() + (others.mean() - largest).square()


def squared_loss(distances: Distances, same: Same, *, target: float = 1.0) -> Float[Tensor, ""]:
    """Variant v1: mean(d+)^2 + (mean(d-) - target)^2."""
    near, others = _split(distances, same)
    return near.mean().square() + (others.mean() - target).square()


def absolute_loss(distances: Distances, same: Same, *, target: float = 1.0) -> Float[Tensor, ""]:
    """Variant v2: |mean(d+)| + |mean(d-) - target|."""
    near, others = _split(distances, same)
    return near.mean().abs() + (others.mean() - target).abs()


def cross_entropy(
    distances: Distances,
    support_labels: Int[Tensor, "*episode support"],
    query_labels: Int[Tensor, "*episode query"],
    temperature: float | Float[Tensor, ""] = 1.0,
) -> Float[Tensor, ""]:
    """Cross-entropy over classes, whose logits are soft nearest supports; the mean over queries.

    logit[q, c] = log sum over supports s of class c of exp(-d[q, s] / temperature)

    A class counts by its nearest supports, as the rule "nearest" does; with one shot the logits are the
    negative distances themselves. Not in the paper.
    """
    return _cross_entropy(distances, query_labels[..., :, None] == support_labels[..., None, :], temperature)


def _cross_entropy(distances: Tensor, same: Tensor, temperature: float | Tensor) -> Tensor:
    """-log of the share of exp(-d / temperature) that lies on supports of the query's own class."""
    if not bool(same.any(-1).all()):
        raise ShapeError("cross-entropy needs a support of every query's class; an episode has some")
    logits = distances / -temperature
    own = torch.logsumexp(logits.masked_fill(~same, -math.inf), -1)
    return (torch.logsumexp(logits, -1) - own).mean()


def _split(distances: Tensor, same: Tensor) -> tuple[Float[Tensor, " near"], Float[Tensor, " far"]]:
    """d+ and d-: distances to the query's own class, and to the others."""
    if distances.shape != same.shape:
        raise ShapeError(
            f"same needs the shape of distances {tuple(distances.shape)}, got {tuple(same.shape)}; "
            "it is query_labels[:, None] == support_labels"
        )
    near, others = distances[same], distances[~same]
    if not near.numel() or not others.numel():
        raise ShapeError(
            f"a loss compares distances within a class with those between classes, got {near.numel()} and "
            f"{others.numel()}; episodes need 2 classes or more, and queries of the supports' classes"
        )
    return near, others


class Loss(nn.Module):
    """The loss of a configuration; holds the temperature of the cross-entropy, which may be learnt.

    >>> loss = Loss(LossConfig(temperature=0.5))
    >>> same = torch.eye(2, dtype=torch.bool)
    >>> round(loss(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), same).item(), 4)  # log(1 + exp(-1 / 0.5))
    0.1269
    """

    def __init__(self, config: LossConfig) -> None:
        super().__init__()
        self.config = config
        start = config.temperature
        self.log_temperature = nn.Parameter(
            torch.tensor(0.0 if start is None else math.log(start), dtype=torch.float64),
            requires_grad=config.kind == "cross-entropy" and config.learnt,
        )
        self.register_buffer("measured", torch.tensor(start is not None or config.kind != "cross-entropy"))

    @property
    def temperature(self) -> float:
        """The temperature as it is now."""
        return self.log_temperature.detach().exp().item()

    def forward(self, distances: Distances, same: Same) -> Float[Tensor, ""]:
        """The loss of one episode or of a mini-batch; ``same`` joins queries with their own class's supports."""
        config = self.config
        if config.kind == "similarity":
            # supports of an episode are N Z, whichever N and Z are
            return similarity_loss(distances, same, beta=config.beta, far=distances.shape[-1] * config.beta)
        if config.kind == "squared":
            return squared_loss(distances, same, target=config.target)
        if config.kind == "absolute":
            return absolute_loss(distances, same, target=config.target)
        if config.kind == "multi-similarity":
            return multi_similarity_loss(distances, same)
        self._measure(distances)
        return _cross_entropy(distances, same, self.log_temperature.exp().to(distances.dtype))

    @torch.no_grad()
    def _measure(self, distances: Tensor) -> None:
        """Where none is given, the first distances set the temperature: their standard deviation, 1 where it is 0."""
        known = self.get_buffer("measured")
        if not bool(known):
            spread = distances.double().std(correction=0)
            self.log_temperature.copy_(torch.where(spread > 0, spread, 1.0).log())
            known.fill_(True)
