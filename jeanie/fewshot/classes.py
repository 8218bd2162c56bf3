"""The class of a query, from its distances to supports."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError

__all__ = ["classify"]


def classify(
    distances: Float[Tensor, "query support"],
    support_labels: Int[Tensor, " support"],
    way: int,
    rule: Literal["nearest", "mean"] = "nearest",
) -> Int[Tensor, " query"]:
    """Class of every query: that of its nearest support, or the smallest mean over a class's supports."""
    if rule == "nearest":
        return support_labels.to(distances.device)[distances.argmin(1)]
    if rule != "mean":
        raise ConfigError(f"rule is 'nearest' or 'mean', got {rule!r}")
    member = torch.nn.functional.one_hot(support_labels.to(distances.device), way).to(distances.dtype)
    if bool((member.sum(0) == 0).any()):
        raise ShapeError(f"every one of the {way} classes needs a support for the rule 'mean'")
    return (distances @ member / member.sum(0)).argmin(1)
