"""The public operators on costs: ``align``, ``fvm`` and ``trace``. They check every input before any work."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from jeanie.alignment.autograd import align_values
from jeanie.alignment.backends import native, torch_recursion, triton
from jeanie.alignment.selection import BACKENDS, select_for_costs
from jeanie.alignment.validation import HALF, NO_PATH, NOT_FINITE, check_lengths, find_allowed_cells, reject
from jeanie.errors import ConfigError, ShapeError

__all__ = [
    "Alignment",
    "Lengths",
    "Number",
    "Temperature",
    "align",
    "check_gamma",
    "check_options",
    "check_size",
    "check_tensor",
    "convert_gamma",
    "convert_lengths",
    "fvm",
    "trace",
]

PLANS = ("smooth", "preprint")
MAX_VIEW_AXES = 4
MAX_NUMBERS = 2**44  # of one tensor; products of sizes then stay far from overflow

Lengths = Tensor | Sequence[int] | None
Number = float
Temperature = float | Tensor


@dataclass(frozen=True, eq=False)
class Alignment:
    """The alignment of one query with one support.

    Attributes:
        distance: Soft distance.
        path: Exact best path ``[step, 2 + views]``: query block, support block, view indices.
        steps: Costs along the path ``[step]``.
        plan: Expected path under the softmin (like the cost of the pair); it is the gradient of ``distance``.
        backend: Backend that computed it: ``native``, ``reference`` or ``triton``.

    >>> trace(torch.tensor([[[1.0, 9.0], [9.0, 2.0]]]))[0].steps.tolist()
    [1.0, 2.0]
    """

    distance: Float[Tensor, ""]
    path: Int[Tensor, "step axes"]
    steps: Float[Tensor, " step"]
    plan: Float[Tensor, "query support *views"]
    backend: str


def check_gamma(gamma: Temperature, name: str = "gamma") -> None:
    """Raise ConfigError unless ``gamma`` is a finite number >= 0.

    The number of a tensor on a GPU is not checked: reading it would wait for the device.
    """
    if isinstance(gamma, Tensor):
        if gamma.numel() != 1 or not gamma.is_floating_point():
            raise ConfigError(
                f"{name} needs a number or a tensor of one floating-point number, got shape {tuple(gamma.shape)} and "
                f"{gamma.dtype}"
            )
        if gamma.device.type != "cpu":
            return
        gamma = gamma.item()
    # a tuple, because torch 2.8 cannot compile float | int
    if not (isinstance(gamma, (float, int)) and math.isfinite(gamma) and gamma >= 0):
        raise ConfigError(
            f"{name} needs a finite number >= 0 (0 is the hard minimum), got {gamma!r}; try 0.01"
        )


def convert_gamma(gamma: Temperature) -> Temperature:
    """Return a temperature as a float, or as it is if it lies on a GPU."""
    return gamma if isinstance(gamma, Tensor) and gamma.device.type != "cpu" else float(gamma)


def check_options(gamma: Temperature, shift: int, band: Number | None, plan: str, backend: str) -> None:
    """Raise ConfigError for an option out of range."""
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
    if plan == "preprint" and backend in ("native", "triton"):
        raise ConfigError("plan 'preprint' runs in torch only; use backend='auto' or 'reference'")


def check_tensor(x: Tensor, name: str) -> Tensor:
    """Raise ShapeError unless ``x`` is a dense floating-point tensor; return it, half precision as float32."""
    if not isinstance(x, Tensor):
        raise ShapeError(f"{name} needs a torch tensor, got {type(x).__name__}; use torch.as_tensor({name})")
    if x.layout != torch.strided:
        raise ShapeError(f"{name} needs a dense tensor, got layout {x.layout}; use {name}.to_dense()")
    if x.dtype in (torch.float32, torch.float64):
        return x
    if x.dtype in HALF:
        return x.float()
    raise ShapeError(
        f"{name} needs dtype float32 or float64 (or half precision), got {x.dtype}; use {name}.float()"
    )


def check_size(size: int, name: str) -> None:
    """Raise ShapeError if a tensor is larger than the memory of any computer."""
    if size > MAX_NUMBERS:
        raise ShapeError(
            f"{name} needs at most 2^{MAX_NUMBERS.bit_length() - 1} numbers, got {size}; split the batch or use "
            "fewer blocks"
        )


def _check_cost(cost: Tensor) -> Tensor:
    cost = check_tensor(cost, "cost")
    if not 3 <= cost.dim() <= 3 + MAX_VIEW_AXES:
        raise ShapeError(
            f"cost needs axes (pair, query, support, *views) with 0 to {MAX_VIEW_AXES} view axes, got shape "
            f"{tuple(cost.shape)}; for one pair use cost[None]"
        )
    if not cost.numel() and 0 in cost.shape[1:]:
        raise ShapeError(
            f"cost needs at least one query block, support block and view, got shape {tuple(cost.shape)}; "
            "only the number of pairs may be 0"
        )
    check_size(cost.numel(), "cost")
    return cost


def convert_lengths(lengths: Lengths, count: int, name: str, device: torch.device) -> Tensor | None:
    """Return ``lengths`` as an int64 tensor ``[count]`` on ``device``; the caller checks their values."""
    if lengths is None:
        return None
    tensor = torch.as_tensor(lengths, device=device)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise ShapeError(f"{name} needs whole numbers, got dtype {tensor.dtype}; use .long()")
    if tensor.shape != (count,):
        raise ShapeError(f"{name} needs shape ({count},), one length each, got {tuple(tensor.shape)}")
    return tensor.long()


def _convert_both_lengths(
    cost: Tensor, query: Lengths, support: Lengths
) -> tuple[Tensor | None, Tensor | None]:
    return (
        convert_lengths(query, cost.shape[0], "query_lengths", cost.device),
        convert_lengths(support, cost.shape[0], "support_lengths", cost.device),
    )


def align(
    cost: Float[Tensor, "pair query support *views"],
    *,
    gamma: Temperature = 0.01,
    shift: int = 1,
    query_lengths: Lengths = None,
    support_lengths: Lengths = None,
    band: Number | None = None,
    plan: str = "smooth",
    backend: str = "auto",
) -> Float[Tensor, " pair"]:
    """Return the cost of the soft best path through ``cost``, one number per pair (paper, Alg. 1; IJCV 2024, Alg. 1).

    R[t, s, v] = cost[t, s, v] + softmin over moves of R[t - dt, s - ds, v - dv]

    with (dt, ds) in {(0,1), (1,0), (1,1)} and every |dv| <= ``shift`` on each view axis. Paths start at the first
    blocks and end at the last ones, in any view. Without view axes this is soft-DTW. The result is differentiable; its
    gradient is the expected path. Half precision is computed and returned in float32; its gradient has its own dtype.

    Args:
        cost: Costs; 0 to 4 view axes.
        gamma: Temperature of the softmin; 0 is the hard minimum. A tensor of one number is read on its device by
            backend ``triton``; it gets no gradient and must not be 0.
        shift: Views that one step may turn.
        query_lengths: Number of blocks of every query; None means all. Padding may have any values.
        support_lengths: Number of blocks of every support; None means all.
        band: Largest |t/tau - s/tau'| of a path; None means no limit.
        plan: ``smooth``, or ``preprint`` for the preprint's printed Algorithm 1.
        backend: ``native`` (C++, CPU), ``triton`` (GPU; on the CPU in Triton's interpreter, for tests), ``reference``
            (torch, any device) or ``auto``; see ``find_backend``.

    Returns:
        One distance per pair.

    Raises:
        ShapeError: A tensor has the wrong shape, dtype or numbers.
        ConfigError: An option is out of range, or the band leaves no path.

    >>> float(align(torch.tensor([[[1.0, 9.0], [9.0, 2.0]]]), gamma=0))
    3.0
    """
    cost = _check_cost(cost)
    check_options(gamma, shift, band, plan, backend)
    query, support = _convert_both_lengths(cost, query_lengths, support_lengths)
    band = None if band is None else float(band)
    if plan == "preprint":
        return _align_preprint(cost, query, support, float(gamma), shift, band)
    tau, tau_ = (None if x is None else x[:, None] for x in (query, support))
    return align_values(cost.unsqueeze(1), tau, tau_, convert_gamma(gamma), shift, band, backend).squeeze(1)


def _align_preprint(
    cost: Tensor, query: Tensor | None, support: Tensor | None, gamma: Number, shift: int, band: float | None
) -> Tensor:
    if any(n % 2 == 0 for n in cost.shape[3:]):
        raise ConfigError(
            f"plan 'preprint' needs view axes of odd size (-eta..eta), got {tuple(cost.shape[3:])}; use plan 'smooth'"
        )
    cells, tau, tau_ = _find_cells(cost, query, support, band)
    if not bool(_mask(cost, cells).isfinite().all()):
        reject(NOT_FINITE)
    value = torch_recursion.align_preprint(
        cost.double(), cells, tau, tau_, float(gamma), min(shift, max(cost.shape[3:], default=0))
    )
    if bool(value.isinf().any()):
        reject(NO_PATH)
    return value.to(cost.dtype)


def _find_cells(
    cost: Tensor, query: Tensor | None, support: Tensor | None, band: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the allowed cells and both lengths of every pair."""
    pairs, queries, supports = cost.shape[:3]
    tau = torch.full((pairs,), queries, device=cost.device) if query is None else query
    tau_ = torch.full((pairs,), supports, device=cost.device) if support is None else support
    check_lengths(tau, queries, "query_lengths")
    check_lengths(tau_, supports, "support_lengths")
    return find_allowed_cells((queries, supports), tau, tau_, band), tau, tau_


def _mask(cost: Tensor, cells: Tensor) -> Tensor:
    """Return the cost with 0 in forbidden cells."""
    return torch.where(cells[(...,) + (None,) * (cost.dim() - 3)], cost, 0.0)


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
    """Return free viewpoint matching (paper, Suppl.): each cell takes its best view, then soft-DTW runs.

    cost'[t, s] = softmin of cost[t, s, v] over all views

    Args:
        cost: Costs; 0 to 4 view axes.
        gamma: Temperature of the softmin over moves; 0 is the hard minimum.
        view_gamma: Temperature of the softmin over views; None means ``gamma``.
        query_lengths, support_lengths, band, backend: See ``align``.

    Returns:
        One distance per pair; see ``align`` for dtypes.

    Raises:
        ShapeError: A tensor has the wrong shape, dtype or numbers.
        ConfigError: An option is out of range, or the band leaves no path.

    >>> float(fvm(torch.tensor([[[[5.0, 1.0, 7.0]]]]), gamma=0))
    1.0
    """
    cost = _check_cost(cost)
    check_options(gamma, 0, band, "smooth", backend)
    view_gamma = gamma if view_gamma is None else view_gamma
    check_gamma(view_gamma, "view_gamma")
    if cost.dim() > 3:
        if query_lengths is not None or support_lengths is not None:
            cells, *_ = _find_cells(cost, *_convert_both_lengths(cost, query_lengths, support_lengths), None)
            cost = _mask(cost, cells)
        cost = torch_recursion.softmin(cost.flatten(3), float(view_gamma), 3)
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
    """Return the alignment of every pair: soft distance, exact best path with its costs, expected plan.

    The path minimises the sum of costs (hard recursion in float64); a greedy walk over soft values would miss it.

    Args:
        cost: Costs; 0 to 4 view axes.
        gamma: Temperature of the softmin for distance and plan; the path does not depend on it.
        shift, query_lengths, support_lengths, band, plan, backend: See ``align``.

    Returns:
        One alignment per pair.

    Raises:
        ShapeError: A tensor has the wrong shape, dtype or numbers.
        ConfigError: An option is out of range, or the band leaves no path.

    >>> trace(torch.tensor([[[1.0, 9.0], [9.0, 2.0]]]))[0].path.tolist()
    [[0, 0], [1, 1]]
    """
    cost = _check_cost(cost).detach()
    leaf = cost.detach().requires_grad_()
    lengths = _convert_both_lengths(cost, query_lengths, support_lengths)
    with torch.enable_grad():
        value = align(
            leaf, gamma=gamma, shift=shift, query_lengths=lengths[0], support_lengths=lengths[1], band=band,
            plan=plan, backend=backend,
        )  # fmt: skip
        expected = torch.autograd.grad(value.sum(), leaf)[0] if len(leaf) else cost
    backend = "reference" if plan == "preprint" else select_for_costs(cost[:, None], backend)
    paths = _find_paths(cost, *lengths, shift, None if band is None else float(band), plan, backend)
    return [
        Alignment(d, path, c[tuple(path.T)], p, backend)
        for d, path, c, p in zip(value.detach(), paths, cost, expected, strict=True)
    ]


def _find_paths(
    cost: Tensor,
    query: Tensor | None,
    support: Tensor | None,
    shift: int,
    band: float | None,
    plan: str,
    backend: str,
) -> list[Tensor]:
    if not len(cost):
        return []
    cells, tau, tau_ = _find_cells(cost, query, support, band)
    if backend == "native":
        lengths = None if query is None and support is None else (tau.contiguous(), tau_.contiguous())
        return native.find_paths(cost, lengths, shift, band)
    if backend == "triton":
        table = cost.detach().double().unsqueeze(1)
        _, plans = triton.align_costs(table, tau[:, None], tau_[:, None], 0.0, shift, band, with_plan=True)
        assert plans is not None
        return [torch_recursion.order_path(p) for p in plans.squeeze(1)]
    leaf = cost.detach().double().requires_grad_()
    with torch.enable_grad():
        recurse = torch_recursion.align_smooth if plan == "smooth" else torch_recursion.align_preprint
        value = recurse(leaf, cells, tau, tau_, 0.0, min(shift, max(cost.shape[3:], default=0)))
        plans = torch.autograd.grad(value.sum(), leaf)[0]
    return [torch_recursion.order_path(p) for p in plans]
