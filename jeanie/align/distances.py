"""Distances between motions from their block features, pair by pair or all against all, in bounded memory."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from jeanie.align.alignment import MAX_VIEW_AXES, Lengths, Number, check_gamma, check_options, lengths_tensor
from jeanie.align.cells import check_lengths
from jeanie.align.cost import METRICS
from jeanie.align.fused import Options, kernel_pairs, table
from jeanie.errors import ConfigError, ShapeError

__all__ = ["distances"]

MATCHINGS = ("jeanie", "fvm")
NORMALISATIONS = ("length", "area", "divergence")
_CHUNK = 2**21  # costs held at once: a few megabytes stay in the cache
_KEEP = 2**27  # costs of a whole call that autograd may keep; beyond, they are computed again in backward


def distances(
    query: Float[Tensor, "query query_time *query_views feature"],
    support: Float[Tensor, "support support_time *support_views feature"],
    *,
    metric: str = "rbf",
    sigma: Number = 2.0,
    gamma: Number = 0.01,
    shift: int = 1,
    query_lengths: Lengths = None,
    support_lengths: Lengths = None,
    normalise: str | None = None,
    pairs: str = "all",
    band: Number | None = None,
    plan: str = "smooth",
    matching: str = "jeanie",
    view_gamma: Number | None = None,
    backend: str = "auto",
) -> Float[Tensor, "query support"] | Float[Tensor, " query"]:
    """Alignment distance of every query to every support, or of matched pairs (``pairs="matched"``).

    The query may carry view axes (4-D alignment), the support then none or its own (6-D). Base distances: ``metric`` of
    METRICS. ``matching``: ``jeanie`` is the path through views, ``fvm`` lets every cell take its best view (softmin
    with ``view_gamma``, or ``gamma`` if None) and then is soft-DTW; ``shift`` counts for the first, ``view_gamma`` for
    the second only. ``normalise``: ``length`` divides by tau + tau', ``area`` by tau tau', ``divergence`` is
    d(x, y) - (d(x, x) + d(y, y)) / 2, where self-distances compare motions as recorded, in their middle view.
    All pairs are computed in chunks, so the costs never exist as a whole; features are not copied per pair.

    >>> x = torch.tensor([[[0.0], [1.0], [2.0]]])
    >>> float(distances(x, x, metric="sqeuclidean", gamma=0)[0, 0])
    0.0
    """
    _check_features(query, support, pairs)
    check_options(gamma, shift, band, plan, backend)
    _check_names(metric, sigma, normalise)
    view_gamma = gamma if view_gamma is None else view_gamma
    _check_matching(matching, view_gamma, plan)
    tau = lengths_tensor(query_lengths, query.shape[0], query.shape[1], "query_lengths", query.device)
    tau_ = lengths_tensor(
        support_lengths, support.shape[0], support.shape[1], "support_lengths", query.device
    )
    query, support = _masked(query, tau, "query_lengths"), _masked(support, tau_, "support_lengths")
    matched, fvm = pairs == "matched", matching == "fvm"
    band = None if band is None else float(band)
    options = Options(
        matched, metric, float(sigma), float(gamma), shift, band, plan, backend, fvm, float(view_gamma)
    )
    result = (_matched if matched else _all_pairs)(query, support, tau, tau_, options)
    if normalise is None:
        return result
    full = [
        torch.full((len(x),), x.shape[1], device=x.device) if n is None else n
        for x, n in ((query, tau), (support, tau_))
    ]
    rows, columns = full if matched else (full[0][:, None], full[1][None])
    if normalise == "length":
        return result / (rows + columns)
    if normalise == "area":
        return result / (rows * columns)
    own = [
        _matched(_recorded(x), _recorded(x), n, n, options._replace(matched=True))
        for x, n in ((query, tau), (support, tau_))
    ]
    return result - (own[0] + own[1] if matched else own[0][:, None] + own[1]) / 2


def _check_features(query: Tensor, support: Tensor, pairs: str) -> None:
    for name, x in (("query", query), ("support", support)):
        if not isinstance(x, Tensor):
            raise ShapeError(f"{name} needs a torch tensor, got {type(x).__name__}; use torch.as_tensor")
        if x.dim() < 3:
            raise ShapeError(
                f"{name} needs axes ({name}, time, *views, feature), got shape {tuple(x.shape)}; "
                "for one motion use x[None]"
            )
        if x.dtype not in (torch.float32, torch.float64):
            raise ShapeError(f"{name} needs dtype float32 or float64, got {x.dtype}; use .float()")
        if 0 in x.shape[1:]:
            raise ShapeError(f"{name} needs at least one block, view and feature, got shape {tuple(x.shape)}")
    if query.dtype != support.dtype or query.device != support.device:
        raise ShapeError(
            f"query and support need one dtype and device, got {query.dtype} on {query.device} and "
            f"{support.dtype} on {support.device}; use support.to(query)"
        )
    if query.shape[-1] != support.shape[-1]:
        raise ShapeError(
            f"query and support need equal feature sizes, got {query.shape[-1]} and {support.shape[-1]}; "
            "both must come from the same encoder"
        )
    views = query.dim() - 3, support.dim() - 3
    if sum(views) > MAX_VIEW_AXES or views[1] > views[0]:
        raise ShapeError(
            f"the query may have view axes, the support none or as many, {MAX_VIEW_AXES} in all; "
            f"got {views[0]} and {views[1]}; drop or swap them"
        )
    if pairs not in ("all", "matched"):
        raise ConfigError(f"pairs needs 'all' or 'matched', got {pairs!r}")
    if pairs == "matched" and query.shape[0] != support.shape[0]:
        raise ShapeError(
            f"matched pairs need as many queries as supports, got {len(query)} and {len(support)}; use pairs='all'"
        )


def _check_names(metric: str, sigma: Number, normalise: str | None) -> None:
    if metric not in METRICS:
        raise ConfigError(f"metric needs one of {', '.join(METRICS)}, got {metric!r}")
    if not sigma > 0 or sigma == float("inf"):
        raise ConfigError(f"sigma needs a finite number > 0, got {sigma!r}; 2 is the paper's")
    if normalise is not None and normalise not in NORMALISATIONS:
        raise ConfigError(f"normalise needs one of {', '.join(NORMALISATIONS)} or None, got {normalise!r}")


def _check_matching(matching: str, view_gamma: Number, plan: str) -> None:
    if matching not in MATCHINGS:
        raise ConfigError(f"matching needs one of {', '.join(MATCHINGS)}, got {matching!r}")
    check_gamma(view_gamma, "view_gamma")
    if matching == "fvm" and plan == "preprint":
        raise ConfigError(
            "matching 'fvm' has no path through views that plan 'preprint' could change; use plan 'smooth'"
        )


def _masked(x: Tensor, lengths: Tensor | None, name: str) -> Tensor:
    """Padding set to 0, so that nothing it holds can leak."""
    if lengths is None:
        return x
    if not torch.compiler.is_compiling() and not torch._C._functorch.is_batchedtensor(lengths):
        check_lengths(lengths, x.shape[1], name)
    inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return torch.where(inside.reshape(*inside.shape, *[1] * (x.dim() - 2)), x, 0.0)


def _recorded(x: Tensor) -> Tensor:
    """The middle view, which is the recording itself."""
    while x.dim() > 3:
        x = x.select(2, x.shape[2] // 2)
    return x


def _part(x: Tensor, at: slice) -> Tensor:
    """``x[at]``; ``x`` itself where that is all of it, since autograd would copy a slice's gradient."""
    return x if at.start == 0 and at.stop >= len(x) else x[at]


def _matched(
    query: Tensor, support: Tensor, tau: Tensor | None, tau_: Tensor | None, options: Options
) -> Tensor:
    if not query.shape[0]:
        return query.new_empty(0)
    direct = kernel_pairs(query, support, tau, tau_, options)
    if direct is not None:
        return direct
    tau, tau_ = (None if n is None else n[:, None] for n in (tau, tau_))
    cells = query[0].numel() // query.shape[-1] * (support[0].numel() // support.shape[-1])
    step = max(1, _CHUNK // cells, 32)
    forget = _too_large(query, support, cells * len(query))
    parts = []
    for i in range(0, len(query), step):
        some = slice(i, i + step)
        lengths = None if tau is None else _part(tau, some), None if tau_ is None else _part(tau_, some)
        parts.append(_chunk(_part(query, some), _part(support, some), lengths, options, forget))
    return torch.cat(parts).squeeze(1)


def _all_pairs(
    query: Tensor, support: Tensor, tau: Tensor | None, tau_: Tensor | None, options: Options
) -> Tensor:
    n, m = len(query), len(support)
    if not n or not m:
        return query.new_empty(n, m)
    cells = query[0].numel() // query.shape[-1] * (support[0].numel() // support.shape[-1])
    forget = _too_large(query, support, cells * n * m)
    rows = []
    for at_query, at_support in _tiles(n, m, max(32, _CHUNK // cells)):
        row = []
        for some in at_support:
            count = (len(range(n)[at_query]), len(range(m)[some]))
            lengths = (
                None if tau is None else tau[at_query, None].expand(count),
                None if tau_ is None else tau_[None, some].expand(count),
            )
            row.append(_chunk(_part(query, at_query), _part(support, some), lengths, options, forget))
        rows.append(torch.cat(row, 1))
    return torch.cat(rows)


def _tiles(n: int, m: int, at_once: int) -> Iterator[tuple[slice, list[slice]]]:
    """Slices of queries, and for each the slices of supports, with about ``at_once`` pairs a tile."""
    across = min(m, at_once)
    down = max(1, at_once // across)
    for i in range(0, n, down):
        yield slice(i, i + down), [slice(j, j + across) for j in range(0, m, across)]


def _too_large(query: Tensor, support: Tensor, cells: int) -> bool:
    return torch.is_grad_enabled() and (query.requires_grad or support.requires_grad) and cells > _KEEP


def _chunk(query: Tensor, support: Tensor, lengths: tuple[Tensor | None, Tensor | None], options: Options,
           forget: bool) -> Tensor:  # fmt: skip
    if forget:
        again: Tensor = checkpoint(table, query, support, lengths, options, use_reentrant=False)
        return again
    return table(query, support, lengths, options)
