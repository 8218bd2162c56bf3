"""Which backend runs: by the requested name, the device, and the size of the problem."""

from torch import Tensor

from jeanie.alignment.backends import native, triton
from jeanie.errors import ConfigError

__all__ = ["BACKENDS", "find_backend", "select_backend", "select_for_costs", "select_for_features"]

BACKENDS = ("auto", "native", "reference", "triton")


def select_backend(x: Tensor, backend: str, lanes: int = 1) -> str:
    """Return the backend that will run on the device of ``x``.

    ``auto`` selects the C++ kernel on the CPU and the Triton kernel on a GPU, if they exist. ``lanes`` is the number of
    cells on the longest anti-diagonal, which the Triton kernel limits (see ``triton.count_lanes``).
    """
    kind = x.device.type
    if backend == "native" and kind != "cpu":
        raise ConfigError(
            f"backend 'native' runs on the CPU, got cost on {x.device}; use 'auto' or 'reference'"
        )
    if backend == "triton":
        triton.check_availability(x.device)
    if backend == "auto":
        if kind == "cpu":
            return "native" if native.is_available() else "reference"
        fits = kind == "cuda" and triton.is_available() and lanes <= triton.find_limit(x.device)
        return "triton" if fits else "reference"
    return backend


def select_for_costs(cost: Tensor, backend: str) -> str:
    """Return the backend that will run on ``cost[query, support, t, s, *views]``."""
    return select_backend(cost, backend, triton.count_lanes(cost.shape[2], cost.shape[3], cost.shape[4:]))


def select_for_features(query: Tensor, support: Tensor, backend: str) -> str:
    """Return the backend that will run on features."""
    grid = (*query.shape[2:-1], *support.shape[2:-1])
    return select_backend(query, backend, triton.count_lanes(query.shape[1], support.shape[1], grid))


def find_backend(cost: Tensor, support: Tensor | None = None, *, backend: str = "auto") -> str:
    """Return the backend that ``align``, ``fvm`` and ``trace`` select for a cost, or ``distances`` for features.

    ``auto`` takes ``native`` on the CPU, if the library has its kernel. On a CUDA or ROCm device it takes ``triton`` if
    that package is installed and the problem fits (docs/alignment.md), and ``reference`` otherwise. Plan ``preprint``
    always runs on ``reference``.

    Args:
        cost: The cost ``[pair, query, support, *views]``, or the features of the queries.
        support: The features of the supports; None for a cost.
        backend: The requested backend.

    Returns:
        ``native``, ``triton`` or ``reference``.

    Raises:
        ConfigError: The requested backend cannot run here.

    >>> import torch
    >>> find_backend(torch.zeros(1, 3, 3), backend="reference")
    'reference'
    """
    if backend not in BACKENDS:
        raise ConfigError(f"backend needs one of {', '.join(BACKENDS)}, got {backend!r}")
    if support is None:
        return select_backend(cost, backend, triton.count_lanes(cost.shape[1], cost.shape[2], cost.shape[3:]))
    return select_for_features(cost, support, backend)
