"""Label an archive from one or a few examples per action, by label propagation over the graph of nearest motions.

This is transductive: every motion of the archive helps to label the others. Its accuracy cannot be compared with the
recognition of single motions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.datasets.dataset import LazyMotions
from jeanie.errors import ConfigError
from jeanie.fewshot.batching import Progress
from jeanie.fewshot.episodes import Tag
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.neighbours import Neighbours, find_neighbours
from jeanie.skeleton.motion import Motion

__all__ = [
    "LabelConfig",
    "Labelling",
    "build_graph",
    "label",
    "propagate",
    "spread_labels",
]

_SCALE_NEIGHBOUR = 7  # its distance is the local scale of a motion (Zelnik-Manor and Perona, 2004)
_EVEN_SHARE = 0.4  # mass that all motions share, relative to the examples; tuned on the synthetic data set
_TOLERANCE, _MAX_ITERATIONS = 1e-8, 1000  # of the conjugate gradients


class LabelConfig(Config):
    """How labels spread, and when a motion gets no label."""

    neighbours: int = Field(default=10, ge=1, description="nearest motions that each motion is connected to")
    alpha: float = Field(
        default=0.95, gt=0, lt=1, description="share of its label that a motion passes to its neighbours"
    )
    abstain: float = Field(
        default=0.4,
        ge=0,
        le=1,
        description="confidence below which a motion gets no label; 0 labels all motions with a path to an example",
    )


@dataclass(frozen=True, eq=False)
class Labelling:
    """A label, or None, for each motion of an archive.

    ``shares`` is the share of each of ``classes`` in the label mass of a motion; the rest, up to 1, is the even share
    of all motions. ``confidence`` is the largest share.
    """

    labels: tuple[Tag | None, ...]
    confidence: Float[Tensor, " motion"]
    shares: Float[Tensor, "motion class"]
    classes: tuple[Tag, ...]

    def __len__(self) -> int:
        return len(self.labels)


def build_graph(neighbours: Neighbours) -> tuple[Tensor, Float[Tensor, " motion"]]:
    """Return the graph as a sparse matrix S = D^-1/2 W D^-1/2, and the degrees D of its motions.

    W is the mean of A and its transpose, A[i, j] = exp(-d[i, j]^2 / (s[i] s[j])) for the neighbours j of i, where
    s is the distance of a motion to its seventh neighbour. This gives dense and sparse regions similar weights.
    """
    total, count = neighbours.index.shape
    scale = neighbours.distance[:, min(_SCALE_NEIGHBOUR, count) - 1].clamp_min(
        torch.finfo(torch.float64).tiny
    )
    # two quotients: the product of two small scales could underflow to 0
    ratio = (neighbours.distance / scale[:, None]) * (neighbours.distance / scale[neighbours.index])
    rows = torch.arange(total)[:, None].expand_as(neighbours.index).flatten()
    columns, weight = neighbours.index.flatten(), torch.exp(-ratio).flatten() / 2
    indices = torch.stack([torch.cat([rows, columns]), torch.cat([columns, rows])])
    edges = _build_sparse(indices, torch.cat([weight, weight]), total).coalesce()
    place, value = edges.indices(), edges.values()
    degree = torch.zeros(total, dtype=value.dtype).index_add(0, place[0], value)
    root = degree.sqrt().clamp_min(torch.finfo(torch.float64).tiny)
    value = value / root[place[0]] / root[place[1]]
    return _build_sparse(place, value, total).coalesce(), degree


def _build_sparse(place: Int[Tensor, "2 edge"], value: Float[Tensor, " edge"], total: int) -> Tensor:
    # the indices come from topk and need no check; without check_invariants, torch warns
    return torch.sparse_coo_tensor(place, value, (total, total), check_invariants=False)


def spread_labels(
    graph: Tensor, seeds: Float[Tensor, "motion class"], alpha: float
) -> Float[Tensor, "motion class"]:
    """Return F = (1 - alpha) (I - alpha S)^-1 Y, the limit of spreading labels Y over a graph S (Zhou et al., 2004).

    Conjugate gradients solve each column; the eigenvalues of I - alpha S lie between 1 - alpha and 1 + alpha.
    """
    solution = torch.zeros_like(seeds)
    residual = (1 - alpha) * seeds
    direction, square = residual, residual.square().sum(0)
    target = _TOLERANCE**2 * square
    for _ in range(_MAX_ITERATIONS):
        if bool((square <= target).all()):
            break
        image = direction - alpha * torch.sparse.mm(graph, direction)
        step = square / (direction * image).sum(0).clamp_min(torch.finfo(square.dtype).tiny)
        solution, residual = solution + step * direction, residual - step * image
        previous, square = square, residual.square().sum(0)
        direction = residual + square / previous.clamp_min(torch.finfo(square.dtype).tiny) * direction
    return solution.clamp_min(0)


def propagate(
    neighbours: Neighbours, examples: Sequence[int], labels: Sequence[Tag], config: LabelConfig
) -> Labelling:
    """Label all motions of a graph from its ``examples``, which keep their labels.

    The label mass of a motion is compared with an even share: the mass that it would have if a part of the examples'
    mass were spread over the whole graph in proportion to sqrt(D[i]). So a motion that is far from every example, or
    between two of them, has no large share of any label.
    """
    classes = tuple(dict.fromkeys(labels))
    label_index = torch.tensor([classes.index(label) for label in labels])
    seeds = torch.zeros(len(neighbours.index), len(classes), dtype=torch.float64)
    counts = torch.bincount(label_index, minlength=len(classes))
    seeds[torch.tensor(examples), label_index] = (
        1 / counts[label_index].double()
    )  # every class has the same weight
    graph, degree = build_graph(neighbours)
    mass = spread_labels(graph, seeds, config.alpha)
    even = _EVEN_SHARE * mass.sum() * degree.sqrt() / degree.sqrt().sum()
    total = mass.sum(1) + even
    shares = mass / torch.where(total > 0, total, 1.0)[:, None]
    shares[torch.tensor(examples)] = torch.nn.functional.one_hot(label_index, len(classes)).double()
    confidence, best = shares.max(1)
    is_sure = (confidence >= config.abstain) & (confidence > 0)
    assigned_labels = tuple(
        classes[number] if sure else None
        for number, sure in zip(best.tolist(), is_sure.tolist(), strict=True)
    )
    return Labelling(assigned_labels, confidence, shares, classes)


def label(
    model: FewShotModel,
    motions: Sequence[Motion],
    examples: Sequence[tuple[Tag, Motion | int]],
    config: LabelConfig | None = None,
    *,
    jobs: int = 1,
    cluster: str | None = None,
    progress: Progress | None = None,
) -> Labelling:
    """Label all ``motions`` from a few examples.

    Args:
        model: The model that measures distances.
        motions: The archive.
        examples: Pairs of a label and an example: a motion, or the index of one of ``motions``. Examples outside the
            archive take part in the graph but not in the result.
        config: How labels spread (default: ``LabelConfig()``).
        jobs: Number of worker processes with one thread each that compare motions. The labels do not depend on it.
        cluster: Address of a Dask scheduler whose workers compare motions; they need the archive under the same path.
        progress: Called with (pairs done, pairs in total).

    Returns:
        The labels of ``motions`` with their confidences.

    Raises:
        ConfigError: There is no example, an index is wrong or repeated, or ``jobs`` or ``cluster`` is wrong.

    >>> from jeanie import FewShotModel, open_synthetic
    >>> motions = open_synthetic(subjects=1, actions=["wave", "walk"]).motions  # 8 clips of each action
    >>> label(FewShotModel.raw(), motions, [("wave", 0), ("walk", 8)]).labels[7:9]
    ('wave', 'walk')
    """
    config = LabelConfig() if config is None else config
    outside = [example for _, example in examples if isinstance(example, Motion)]
    _check_examples(examples, len(motions), len(outside))
    neighbours = find_neighbours(
        model,
        _Concatenation(motions, outside),
        config.neighbours,
        jobs=jobs,
        cluster=cluster,
        progress=progress,
    )
    numbers = iter(range(len(motions), len(motions) + len(outside)))
    rows = [next(numbers) if isinstance(example, Motion) else example for _, example in examples]
    labelling = propagate(neighbours, rows, [tag for tag, _ in examples], config)
    inside = slice(len(motions))
    return Labelling(
        labelling.labels[inside], labelling.confidence[inside], labelling.shares[inside], labelling.classes
    )


def _check_examples(examples: Sequence[tuple[Tag, Motion | int]], motions: int, outside: int) -> None:
    if not examples:
        raise ConfigError("no example to spread labels from; give at least one")
    if motions + outside < 2 or not motions:
        raise ConfigError(
            f"labelling needs two motions or more, got an archive of {motions}; give a larger one"
        )
    clips = [example for _, example in examples if not isinstance(example, Motion)]
    for clip in clips:
        if not 0 <= clip < motions:
            raise ConfigError(f"example {clip}: the archive has the motions 0 to {motions - 1}")
    repeated = [clip for clip in clips if clips.count(clip) > 1]
    if repeated:
        raise ConfigError(f"motion {repeated[0]} is an example twice; give each once")


@dataclass(frozen=True, eq=False)
class _Concatenation(LazyMotions):
    """The motions of an archive, read on access, followed by those of the examples."""

    archive: Sequence[Motion]
    outside: Sequence[Motion]

    def __len__(self) -> int:
        return len(self.archive) + len(self.outside)

    def load(self, number: int) -> Motion:
        count = len(self.archive)
        return self.archive[number] if number < count else self.outside[number - count]
