"""Distances between motions from their block features, pair by pair or all against all, in bounded memory."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from jeanie.alignment.api import (
    MAX_NUMBERS,
    MAX_VIEW_AXES,
    Lengths,
    Number,
    Temperature,
    check_gamma,
    check_options,
    check_size,
    check_tensor,
    convert_gamma,
    convert_lengths,
)
from jeanie.alignment.autograd_features import Options, compute_pairs, compute_table
from jeanie.alignment.base_distance import METRICS, BaseDistance
from jeanie.alignment.selection import select_for_features
from jeanie.alignment.validation import check_lengths
from jeanie.errors import ConfigError, ShapeError

__all__ = ["distances"]

MATCHINGS = ("jeanie", "fvm")
NORMALISATIONS = ("length", "area", "divergence")
_CHUNK = 2**21  # costs held at once: a few megabytes stay in the cache
_TILE = 2**24  # costs held at once where a pair has many views; fewer pairs share a call then
_KEEP = 2**27  # costs that autograd may store for a whole call; backward computes more of them again


def distances(
    query: Float[Tensor, "query query_time *query_views feature"],
    support: Float[Tensor, "support support_time *support_views feature"],
    *,
    metric: str | BaseDistance = "rbf",
    sigma: Number = 2.0,
    gamma: Temperature = 0.01,
    shift: int = 1,
    query_lengths: Lengths = None,
    support_lengths: Lengths = None,
    normalise: str | None = None,
    pairs: str = "all",
    band: Number | None = None,
    plan: str = "smooth",
    matching: str = "jeanie",
    view_gamma: Temperature | None = None,
    backend: str = "auto",
) -> Float[Tensor, "query support"] | Float[Tensor, " query"]:
    """Return the alignment distance of every query to every support, or of matched pairs (``pairs="matched"``).

    The call runs in chunks, so the costs never exist as a whole, and features are not copied per pair. Half precision
    is computed and returned in float32; its gradient has its own dtype.

    Args:
        query: Block features; view axes make the alignment 4-D.
        support: Block features; no view axes, or the same number of view axes as the query (6-D).
        metric: Base distance between blocks: ``euclidean``, ``sqeuclidean``, ``rbf`` or ``cosine``, which is
            2 - 2 cos(x, y); or a function like ``torch.cdist``, which gets query blocks [batch, m, feature] and support
            blocks [batch, n, feature] and returns costs [batch, m, n].
        sigma: Width of ``rbf``.
        gamma, query_lengths, support_lengths, band, plan, backend: See ``align``.
        shift: Views that one step may turn; for ``matching="jeanie"`` only.
        normalise: ``length`` divides by tau + tau', ``area`` by tau tau'; ``divergence`` returns
            d(x, y) - (d(x, x) + d(y, y)) / 2, where self-distances compare motions as recorded, in their middle view.
        pairs: ``all``, or ``matched`` for query i with support i.
        matching: ``jeanie`` is the path through views; ``fvm`` lets every cell take its best view, then runs soft-DTW.
        view_gamma: Temperature over views for ``matching="fvm"``; ``gamma`` if None.

    Returns:
        The distances ``[query, support]``, or ``[pair]`` for matched pairs.

    Raises:
        ShapeError: A tensor has the wrong shape, dtype or numbers.
        ConfigError: An option is out of range, or the band leaves no path.

    >>> x = torch.tensor([[[0.0], [1.0], [2.0]]])
    >>> float(distances(x, x, metric="sqeuclidean", gamma=0)[0, 0])
    0.0
    """
    query, support = _check_features(query, "query"), _check_features(support, "support")
    _check_agreement(query, support, pairs)
    check_options(gamma, shift, band, plan, backend)
    _check_names(metric, sigma, normalise)
    view_gamma = gamma if view_gamma is None else view_gamma
    _check_matching(matching, view_gamma, plan)
    tau = convert_lengths(query_lengths, query.shape[0], "query_lengths", query.device)
    tau_ = convert_lengths(support_lengths, support.shape[0], "support_lengths", query.device)
    query = _zero_padding(query, tau, "query_lengths")
    support = _zero_padding(support, tau_, "support_lengths")
    if metric == "cosine":  # |x - y|^2 = 2 - 2 cos for vectors of length 1
        query, support = (torch.nn.functional.normalize(x, dim=-1) for x in (query, support))
        metric = "sqeuclidean"
    band = None if band is None else float(band)
    options = Options(
        pairs == "matched", metric, float(sigma), convert_gamma(gamma), shift, band, plan, backend, matching == "fvm",
        convert_gamma(view_gamma),
    )  # fmt: skip
    result = (_compute_matched if options.matched else _compute_all_pairs)(query, support, tau, tau_, options)
    return result if normalise is None else _normalise(result, query, support, tau, tau_, options, normalise)


def _normalise(
    result: Tensor,
    query: Tensor,
    support: Tensor,
    tau: Tensor | None,
    tau_: Tensor | None,
    options: Options,
    normalise: str,
) -> Tensor:
    matched, motions = options.matched, ((query, tau), (support, tau_))
    if normalise == "divergence":
        options = options._replace(matched=True)
        middle = [(_select_middle_view(x), n) for x, n in motions]
        query_self, support_self = (_compute_matched(x, x, n, n, options) for x, n in middle)
        return result - ((query_self if matched else query_self[:, None]) + support_self) / 2
    full = [torch.full((len(x),), x.shape[1], device=x.device) if n is None else n for x, n in motions]
    rows, columns = full if matched else (full[0][:, None], full[1][None])
    return result / (rows + columns if normalise == "length" else rows * columns)


def _check_features(x: Tensor, name: str) -> Tensor:
    x = check_tensor(x, name)
    if x.dim() < 3:
        raise ShapeError(
            f"{name} needs axes ({name}, time, *views, feature), got shape {tuple(x.shape)}; "
            "for one motion use x[None]"
        )
    if not x.numel() and 0 in x.shape[1:]:
        raise ShapeError(f"{name} needs at least one block, view and feature, got shape {tuple(x.shape)}")
    check_size(x.numel(), name)
    return x


def _check_agreement(query: Tensor, support: Tensor, pairs: str) -> None:
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
            f"the query may have view axes, the support none or the same number, {MAX_VIEW_AXES} in all; "
            f"got {views[0]} and {views[1]}; drop or swap them"
        )
    if query.numel() * support.numel() > MAX_NUMBERS:
        check_size(math.prod(query.shape[1:-1]) * math.prod(support.shape[1:-1]), "the cost of one pair")
    if pairs not in ("all", "matched"):
        raise ConfigError(f"pairs needs 'all' or 'matched', got {pairs!r}")
    if pairs == "matched" and query.shape[0] != support.shape[0]:
        raise ShapeError(
            f"matched pairs need equal numbers of queries and supports, got {len(query)} and {len(support)}; "
            "use pairs='all'"
        )


def _check_names(metric: str | BaseDistance, sigma: Number, normalise: str | None) -> None:
    if not callable(metric) and metric not in (*METRICS, "cosine"):
        raise ConfigError(
            f"metric needs one of {', '.join(METRICS)}, cosine, or a function like torch.cdist, got {metric!r}"
        )
    if not sigma > 0 or sigma == float("inf"):
        raise ConfigError(f"sigma needs a finite number > 0, got {sigma!r}; 2 is the paper's")
    if normalise is not None and normalise not in NORMALISATIONS:
        raise ConfigError(f"normalise needs one of {', '.join(NORMALISATIONS)} or None, got {normalise!r}")


def _check_matching(matching: str, view_gamma: Temperature, plan: str) -> None:
    if matching not in MATCHINGS:
        raise ConfigError(f"matching needs one of {', '.join(MATCHINGS)}, got {matching!r}")
    check_gamma(view_gamma, "view_gamma")
    if matching == "fvm" and plan == "preprint":
        raise ConfigError(
            "matching 'fvm' has no path through views that plan 'preprint' could change; use plan 'smooth'"
        )


def _zero_padding(x: Tensor, lengths: Tensor | None, name: str) -> Tensor:
    """Return ``x`` with 0 in the padding."""
    if lengths is None:
        return x
    is_on_host = lengths.device.type == "cpu"  # on a GPU the backend checks them
    if is_on_host and not torch.compiler.is_compiling() and not torch._C._functorch.is_batchedtensor(lengths):
        check_lengths(lengths, x.shape[1], name)
    inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return torch.where(inside.reshape(*inside.shape, *[1] * (x.dim() - 2)), x, 0.0)


def _select_middle_view(x: Tensor) -> Tensor:
    """Return the middle view, which is the recording itself."""
    while x.dim() > 3:
        x = x.select(2, x.shape[2] // 2)
    return x


def _select_rows(x: Tensor, rows: slice) -> Tensor:
    """Return ``x[rows]``, or ``x`` itself for all rows: autograd would copy the gradient of a slice."""
    return x if rows.start == 0 and rows.stop >= len(x) else x[rows]


def _compute_matched(
    query: Tensor, support: Tensor, tau: Tensor | None, tau_: Tensor | None, options: Options
) -> Tensor:
    if not query.shape[0]:
        return query.new_empty(0)
    result = compute_pairs(query, support, (tau, tau_), options)
    if result is not None:
        return result
    tau, tau_ = (None if n is None else n[:, None] for n in (tau, tau_))
    cells = query[0].numel() // query.shape[-1] * (support[0].numel() // support.shape[-1])
    step = _count_pairs(cells, query, support, options)
    recompute = _needs_recomputation(query, support, cells * len(query))
    parts = []
    for i in range(0, len(query), step):
        rows = slice(i, i + step)
        q, s = _select_rows(query, rows), _select_rows(support, rows)
        lengths = None if tau is None else tau[rows], None if tau_ is None else tau_[rows]
        parts.append(_compute_chunk(q, s, lengths, options, recompute))
    return torch.cat(parts).squeeze(1)


def _compute_all_pairs(
    query: Tensor, support: Tensor, tau: Tensor | None, tau_: Tensor | None, options: Options
) -> Tensor:
    n, m = len(query), len(support)
    if not n or not m:
        return query.new_empty(n, m)
    cells = query[0].numel() // query.shape[-1] * (support[0].numel() // support.shape[-1])
    recompute = _needs_recomputation(query, support, cells * n * m)
    rows = []
    for queries, support_slices in _iterate_tiles(n, m, _count_pairs(cells, query, support, options)):
        row = []
        for supports in support_slices:
            count = (len(range(n)[queries]), len(range(m)[supports]))
            lengths = (
                None if tau is None else tau[queries, None].expand(count),
                None if tau_ is None else tau_[None, supports].expand(count),
            )
            q, s = _select_rows(query, queries), _select_rows(support, supports)
            row.append(_compute_chunk(q, s, lengths, options, recompute))
        rows.append(torch.cat(row, 1))
    return torch.cat(rows)


def _count_pairs(cells: int, query: Tensor, support: Tensor, options: Options) -> int:
    """Return the number of pairs of a chunk: 32 or more, unless their costs would be too many.

    The Triton kernel takes as many as possible in one launch; it stores no costs, only the plan for a gradient.
    """
    is_on_gpu = query.device.type == "cuda" or options.backend == "triton"
    if is_on_gpu and select_for_features(query, support, options.backend) == "triton":
        return max(1, _KEEP // cells)
    return max(1, _CHUNK // cells, min(32, _TILE // cells))


def _iterate_tiles(n: int, m: int, pairs: int) -> Iterator[tuple[slice, list[slice]]]:
    """Yield slices of queries, each with its slices of supports, with about ``pairs`` pairs per tile."""
    across = min(m, pairs)
    down = max(1, pairs // across)
    for i in range(0, n, down):
        yield slice(i, i + down), [slice(j, j + across) for j in range(0, m, across)]


def _needs_recomputation(query: Tensor, support: Tensor, cells: int) -> bool:
    """Return whether autograd would store too many costs, so that backward computes them again."""
    return torch.is_grad_enabled() and (query.requires_grad or support.requires_grad) and cells > _KEEP


def _compute_chunk(
    query: Tensor,
    support: Tensor,
    lengths: tuple[Tensor | None, Tensor | None],
    options: Options,
    recompute: bool,
) -> Tensor:
    if recompute:
        result: Tensor = checkpoint(compute_table, query, support, lengths, options, use_reentrant=False)
        return result
    return compute_table(query, support, lengths, options)
