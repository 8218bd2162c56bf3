"""Which cells of the (query block, support block) table a path may visit: lengths, band, and finite numbers."""

from typing import NoReturn

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError

__all__ = ["BAD_FEATURES", "NOT_FINITE", "NO_PATH", "allowed", "check_lengths", "reject"]

NOT_FINITE, NO_PATH, BAD_FEATURES = "not finite", "no path", "bad features"


def reject(reason: str) -> NoReturn:
    """Raise the error that both backends share."""
    if reason == NOT_FINITE:
        raise ShapeError(
            "cost needs finite numbers where a path may pass, got NaN or infinity; "
            "mask missing blocks by query_lengths and support_lengths, or repair the features"
        )
    if reason == BAD_FEATURES:
        raise ShapeError(
            "features need finite numbers whose squares are finite too, got NaN, infinity or numbers too large; "
            "mask missing blocks by query_lengths and support_lengths, or repair the features"
        )
    raise ConfigError(
        "band leaves no path from the first to the last blocks of some pair; "
        "use a larger band (at least |1/tau - 1/tau'|, 1 is no limit) or None"
    )


def allowed(
    shape: tuple[int, int],
    query_lengths: Int[Tensor, " pair"],
    support_lengths: Int[Tensor, " pair"],
    band: float | None,
) -> Bool[Tensor, "pair query support"]:
    """Cells inside the lengths with |t / tau - s / tau'| <= band (and 1e-9 for rounding)."""
    device = query_lengths.device
    t = torch.arange(shape[0], device=device)[:, None]
    s = torch.arange(shape[1], device=device)
    tau, tau_ = query_lengths[:, None, None], support_lengths[:, None, None]
    cells = (t < tau) & (s < tau_)
    if band is not None:
        cells &= (t * tau_ - s * tau).abs() <= (band + 1e-9) * (tau * tau_).double()
    return cells


def check_lengths(lengths: Tensor, longest: int, name: str) -> None:
    """Lengths must lie in 1 .. the padded length."""
    if lengths.numel() and not bool(((lengths >= 1) & (lengths <= longest)).all()):
        raise ShapeError(
            f"{name} must lie between 1 and the padded length {longest}, got {int(lengths.min())} to "
            f"{int(lengths.max())}; a motion needs at least one block, and no more than the tensor holds"
        )
