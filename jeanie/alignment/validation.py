"""Which cells of the (query block, support block) table a path may visit, and the errors that both backends share."""

import math
from typing import NoReturn

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError

__all__ = [
    "BAD_FEATURES",
    "HALF",
    "NOT_FINITE",
    "NO_PATH",
    "check_lengths",
    "check_path",
    "find_allowed_cells",
    "reject",
    "reject_large_costs",
]

HALF = (torch.float16, torch.bfloat16)  # computed in float32
NOT_FINITE, NO_PATH, BAD_FEATURES = "not finite", "no path", "bad features"


def reject(reason: str) -> NoReturn:
    """Raise the error for ``reason``; both backends raise the same one."""
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


def reject_large_costs(gamma: float) -> NoReturn:
    """Raise the error for costs whose exponents do not fit into float64."""
    raise ConfigError(
        f"costs / gamma must stay below 2^34, got costs beyond {gamma * 2.0**34 * math.log(2):.3g} with "
        f"gamma {gamma}; use a larger gamma, or gamma=0 for the hard minimum"
    ) from None


def find_allowed_cells(
    shape: tuple[int, int],
    query_lengths: Int[Tensor, " pair"],
    support_lengths: Int[Tensor, " pair"],
    band: float | None,
) -> Bool[Tensor, "pair query support"]:
    """Return the cells inside the lengths with |t / tau - s / tau'| <= band (plus 1e-9 for rounding).

    Raises:
        ConfigError: The band leaves no path for some pair.
    """
    device = query_lengths.device
    t = torch.arange(shape[0], device=device)[:, None]
    s = torch.arange(shape[1], device=device)
    tau, tau_ = query_lengths[:, None, None], support_lengths[:, None, None]
    cells = (t < tau) & (s < tau_)
    if band is not None:
        cells &= (t * tau_ - s * tau).abs() <= (band + 1e-9) * (tau * tau_).double()
        check_path(cells, query_lengths, support_lengths)
    return cells


def check_path(
    cells: Bool[Tensor, "pair query support"],
    query_lengths: Int[Tensor, " pair"],
    support_lengths: Int[Tensor, " pair"],
) -> None:
    """Raise ConfigError if a band leaves no path for some pair.

    The first cell of a row never moves back from row to row, so it is enough that every row touches the row above and
    that the last cell is allowed.
    """
    row = torch.arange(cells.shape[1], device=cells.device) < query_lengths[:, None]
    first = cells.int().argmax(2)
    last = cells.shape[2] - 1 - cells.flip(2).int().argmax(2)
    connected = cells.any(2)
    connected[:, 1:] &= first[:, 1:] <= last[:, :-1] + 1
    pair = torch.arange(len(cells), device=cells.device)
    if not bool((connected | ~row).all() & cells[pair, query_lengths - 1, support_lengths - 1].all()):
        reject(NO_PATH)


def check_lengths(lengths: Tensor, longest: int, name: str) -> None:
    """Raise ShapeError for a length outside 1 .. ``longest``, the padded length."""
    if lengths.numel() and not bool(((lengths >= 1) & (lengths <= longest)).all()):
        raise ShapeError(
            f"{name} must lie between 1 and the padded length {longest}, got {int(lengths.min())} to "
            f"{int(lengths.max())}; a motion needs at least one block, and no more than the tensor holds"
        )
