"""The public operators: ``align``, ``fvm`` and ``trace`` on costs, with every input checked at this edge."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.align import native, recursion
from jeanie.align.cells import NO_PATH, NOT_FINITE, allowed, check_lengths, reject
from jeanie.align.operator import align_values, backend_for
from jeanie.errors import ConfigError, ShapeError

__all__ = [
    "Alignment",
    "Lengths",
    "Number",
    "align",
    "check_gamma",
    "check_options",
    "fvm",
    "lengths_tensor",
    "trace",
]

BACKENDS = ("auto", "native", "reference")
PLANS = ("smooth", "preprint")
MAX_VIEW_AXES = 4

Lengths = Tensor | Sequence[int] | None
Number = float | int


@dataclass(frozen=True, eq=False)
class Alignment:
    """How one query lies on one support.

    ``distance`` is the soft distance; ``path [step, 2 + views]`` the exact best path (query block, support block, view
    indices) whose costs are ``steps [step]``; ``plan`` (like the pair's cost) the expected path under the softmin,
    which is the gradient of ``distance``; ``backend`` what computed it.
    """

    distance: Float[Tensor, ""]
    path: Int[Tensor, "step axes"]
    steps: Float[Tensor, " step"]
    plan: Float[Tensor, "query support *views"]
    backend: str


def check_gamma(gamma: Number, name: str = "gamma") -> None:
    """Raise ConfigError for a softmin temperature that is none."""
    if not (isinstance(gamma, float | int) and math.isfinite(gamma) and gamma >= 0):
        raise ConfigError(
            f"{name} needs a finite number >= 0 (0 is the hard minimum), got {gamma!r}; try 0.01"
        )


def check_options(gamma: Number, shift: int, band: Number | None, plan: str, backend: str) -> None:
    """Raise ConfigError for an option that means nothing."""
    check_gamma(gamma)
    if not (isinstance(shift, int) and not isinstance(shift, bool) and shift >= 0):
        raise ConfigError(f"shift needs a whole number of views >= 0, got {shift!r}; 1 or 2 is usual")
    if band is not None and not (isinstance(band, float | int) and math.isfinite(band) and band >= 0):
        raise ConfigError(
            f"band needs a share of the length >= 0, or None for no limit, got {band!r}; try 0.2"
        )
    if plan not in PLANS:
        raise ConfigError(f"plan needs one of {', '.join(PLANS)}, got {plan!r}")
    if backend not in BACKENDS:
        raise ConfigError(f"backend needs one of {', '.join(BACKENDS)}, got {backend!r}")
    if plan == "preprint" and backend == "native":
        raise ConfigError("plan 'preprint' runs in torch only; use backend='auto' or 'reference'")


def _check_cost(cost: Tensor) -> None:
    if not isinstance(cost, Tensor):
        raise ShapeError(f"cost needs a torch tensor, got {type(cost).__name__}; use torch.as_tensor(cost)")
    if not 3 <= cost.dim() <= 3 + MAX_VIEW_AXES:
        raise ShapeError(
            f"cost needs axes (pair, query, support, *views) with 0 to {MAX_VIEW_AXES} view axes, got shape "
            f"{tuple(cost.shape)}; for one pair use cost[None]"
        )
    if cost.dtype not in (torch.float32, torch.float64):
        raise ShapeError(f"cost needs dtype float32 or float64, got {cost.dtype}; use cost.float()")
    if 0 in cost.shape[1:]:
        raise ShapeError(
            f"cost needs at least one query block, support block and view, got shape {tuple(cost.shape)}; "
            "only the number of pairs may be 0"
        )


def lengths_tensor(
    lengths: Lengths, count: int, longest: int, name: str, device: torch.device
) -> Tensor | None:
    """Lengths as an int64 tensor ``[count]`` on ``device``; their values are checked where they are used."""
    if lengths is None:
        return None
    tensor = torch.as_tensor(lengths, device=device)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ShapeError(f"{name} needs whole numbers, got dtype {tensor.dtype}; use .long()")
    if tensor.shape != (count,):
        raise ShapeError(f"{name} needs shape ({count},), one length each, got {tuple(tensor.shape)}")
    return tensor.long()


def _lengths_of(cost: Tensor, query: Lengths, support: Lengths) -> tuple[Tensor | None, Tensor | None]:
    return (
        lengths_tensor(query, cost.shape[0], cost.shape[1], "query_lengths", cost.device),
        lengths_tensor(support, cost.shape[0], cost.shape[2], "support_lengths", cost.device),
    )


def align(
    cost: Float[Tensor, "pair query support *views"],
    *,
    gamma: Number = 0.01,
    shift: int = 1,
    query_lengths: Lengths = None,
    support_lengths: Lengths = None,
    band: Number | None = None,
    plan: str = "smooth",
    backend: str = "auto",
) -> Float[Tensor, " pair"]:
    """Cost of the soft best path through ``cost``, one number a pair (paper, Alg. 1; IJCV 2024, Alg. 1).

    R[t, s, v] = cost[t, s, v] + softmin over moves of R[t - dt, s - ds, v - dv]

    with (dt, ds) in {(0,1), (1,0), (1,1)} and every |dv| <= ``shift`` on each view axis. Paths start at the first
    blocks and end at the last ones, in any view. Without view axes this is soft-DTW; ``gamma`` 0 is the hard minimum;
    ``band`` keeps |t/tau - s/tau'| below it. Differentiable; the gradient is the expected path.

    >>> float(align(torch.tensor([[[1.0, 9.0], [9.0, 2.0]]]), gamma=0))
    3.0
    """
    _check_cost(cost)
    check_options(gamma, shift, band, plan, backend)
    query, support = _lengths_of(cost, query_lengths, support_lengths)
    if plan == "preprint":
        return _preprint(cost, query, support, gamma, shift, band)
    tau, tau_ = (None if x is None else x[:, None] for x in (query, support))
    band = None if band is None else float(band)
    return align_values(cost.unsqueeze(1), tau, tau_, float(gamma), shift, band, backend).squeeze(1)


def _preprint(
    cost: Tensor, query: Tensor | None, support: Tensor | None, gamma: Number, shift: int, band: Number | None
) -> Tensor:
    if any(n % 2 == 0 for n in cost.shape[3:]):
        raise ConfigError(
            f"plan 'preprint' needs view axes of odd size (-eta..eta), got {tuple(cost.shape[3:])}; use plan 'smooth'"
        )
    cells, tau, tau_ = _cells_of(cost, query, support, band)
    if not bool(torch.where(cells[(...,) + (None,) * (cost.dim() - 3)], cost, 0.0).isfinite().all()):
        reject(NOT_FINITE)
    value = recursion.preprint(
        cost.double(), cells, tau, tau_, float(gamma), min(shift, max(cost.shape[3:], default=0))
    )
    if bool(value.isinf().any()):
        reject(NO_PATH)
    return value.to(cost.dtype)


def _cells_of(
    cost: Tensor, query: Tensor | None, support: Tensor | None, band: Number | None
) -> tuple[Tensor, Tensor, Tensor]:
    pairs, queries, supports = cost.shape[:3]
    tau = torch.full((pairs,), queries, device=cost.device) if query is None else query
    tau_ = torch.full((pairs,), supports, device=cost.device) if support is None else support
    check_lengths(tau, queries, "query_lengths")
    check_lengths(tau_, supports, "support_lengths")
    return allowed((queries, supports), tau, tau_, None if band is None else float(band)), tau, tau_


def fvm(
    cost: Float[Tensor, "pair query support *views"],
    *,
    gamma: Number = 0.01,
    view_gamma: Number | None = None,
    query_lengths: Lengths = None,
    support_lengths: Lengths = None,
    band: Number | None = None,
    backend: str = "auto",
) -> Float[Tensor, " pair"]:
    """Free viewpoint matching (paper, Suppl.): each cell takes its best view, then soft-DTW.

    cost'[t, s] = softmin of cost[t, s, v] over all views with ``view_gamma`` (``gamma`` if None).

    >>> float(fvm(torch.tensor([[[[5.0, 1.0, 7.0]]]]), gamma=0))
    1.0
    """
    _check_cost(cost)
    check_options(gamma, 0, band, "smooth", backend)
    view_gamma = gamma if view_gamma is None else view_gamma
    check_gamma(view_gamma, "view_gamma")
    if cost.dim() > 3:
        if query_lengths is not None or support_lengths is not None:
            cells, *_ = _cells_of(cost, *_lengths_of(cost, query_lengths, support_lengths), None)
            cost = torch.where(cells[(...,) + (None,) * (cost.dim() - 3)], cost, 0.0)
        cost = recursion.softmin(cost.flatten(3), float(view_gamma), 3)
    return align(
        cost,
        gamma=gamma,
        shift=0,
        query_lengths=query_lengths,
        support_lengths=support_lengths,
        band=band,
        backend=backend,
    )


def trace(
    cost: Float[Tensor, "pair query support *views"],
    *,
    gamma: Number = 0.01,
    shift: int = 1,
    query_lengths: Lengths = None,
    support_lengths: Lengths = None,
    band: Number | None = None,
    plan: str = "smooth",
    backend: str = "auto",
) -> list[Alignment]:
    """The alignment of every pair: soft distance, exact best path with its costs, expected plan.

    The path minimises the sum of costs (the hard recursion, in float64); it is not read off soft values, where a greedy
    walk goes wrong.

    >>> trace(torch.tensor([[[1.0, 9.0], [9.0, 2.0]]]))[0].path.tolist()
    [[0, 0], [1, 1]]
    """
    leaf = cost.detach().requires_grad_() if isinstance(cost, Tensor) and cost.is_floating_point() else cost
    options = {"query_lengths": query_lengths, "support_lengths": support_lengths, "band": band, "plan": plan}
    with torch.enable_grad():
        value = align(leaf, gamma=gamma, shift=shift, backend=backend, **options)  # type: ignore[arg-type]
        expected = torch.autograd.grad(value.sum(), leaf)[0] if len(leaf) else leaf.detach()
    query, support = _lengths_of(cost, query_lengths, support_lengths)
    ran = "reference" if plan == "preprint" else backend_for(cost, backend)
    paths = _paths(cost.detach(), query, support, shift, band, plan, ran)
    return [
        Alignment(d, path, c[tuple(path.T)], p, ran)
        for d, path, c, p in zip(value.detach(), paths, cost.detach(), expected, strict=True)
    ]


def _paths(
    cost: Tensor,
    query: Tensor | None,
    support: Tensor | None,
    shift: int,
    band: Number | None,
    plan: str,
    backend: str,
) -> list[Tensor]:
    if not len(cost):
        return []
    cells, tau, tau_ = _cells_of(cost, query, support, band)
    if backend == "native":
        lengths = None if query is None and support is None else (tau, tau_)
        return native.path(cost, lengths, shift, None if band is None else float(band))
    leaf = cost.double().requires_grad_()
    with torch.enable_grad():
        recurse = recursion.smooth if plan == "smooth" else recursion.preprint
        value = recurse(leaf, cells, tau, tau_, 0.0, min(shift, max(cost.shape[3:], default=0)))
        plans = torch.autograd.grad(value.sum(), leaf)[0]
    return [recursion.path_of(p) for p in plans]
