"""A whole archive labelled from one example of each action: labels spread over the graph of nearest motions.

Every motion of the archive helps to label the others, so this is a task of its own: what it reaches says nothing
about the recognition of a single motion, and is never put beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.datasets.dataset import Lazy
from jeanie.errors import ConfigError
from jeanie.experiments.predictions import Progress, evaluating, feature_batches, support_groups
from jeanie.fewshot.episodes import Tag
from jeanie.fewshot.model import FewShotModel
from jeanie.skeleton.motion import Motion

__all__ = ["LabelConfig", "Labelling", "Neighbours", "label", "nearest", "propagate", "spread", "strengths"]

_KEPT = 2**30  # bytes of prepared motions that are kept
_LOCAL = 7  # the neighbour whose distance is a motion's own scale (Zelnik-Manor and Perona, 2004)
_EVEN = 0.4  # mass that all motions share, as part of that of the examples; chosen on the embedded data set
_TOLERANCE, _ROUNDS = 1e-8, 1000  # of the conjugate gradients


class LabelConfig(Config):
    """How labels spread, and when a motion is left without one."""

    neighbours: int = Field(default=10, ge=1, description="nearest motions that each motion is tied to")
    alpha: float = Field(default=0.95, gt=0, lt=1, description="share of its label that a motion passes on")
    abstain: float = Field(
        default=0.4,
        ge=0,
        le=1,
        description="confidence below which a motion gets no label; 0 labels all it can",
    )


@dataclass(frozen=True, eq=False)
class Neighbours:
    """For every motion its nearest others, nearest first."""

    index: Int[Tensor, "motion neighbour"]
    distance: Float[Tensor, "motion neighbour"]


@dataclass(frozen=True, eq=False)
class Labelling:
    """A label, or None, for every motion of an archive.

    ``shares`` says how much of what arrived at a motion came from each of ``classes``; what is missing to 1 is
    the share that every motion has. ``confidence`` is the largest of them.
    """

    labels: tuple[Tag | None, ...]
    confidence: Float[Tensor, " motion"]
    shares: Float[Tensor, "motion class"]
    classes: tuple[Tag, ...]

    def __len__(self) -> int:
        return len(self.labels)


@torch.no_grad()
def nearest(
    model: FewShotModel, motions: Sequence[Motion], count: int, *, progress: Progress | None = None
) -> Neighbours:
    """The ``count`` nearest others of every motion. Time grows with the square of their number, memory does not.

    Features are held for as many motions as fit, others are encoded again; ``progress`` is told (pairs done, all).
    """
    total = len(motions)
    count = min(count, total - 1)
    store = model.store(motions, limit=_KEPT)
    clips = torch.arange(total)
    index = torch.zeros(total, count, dtype=torch.int64)
    distance = torch.full((total, count), torch.inf, dtype=torch.float64)
    done = 0
    with evaluating(model):
        for group, held in support_groups(model, store, clips):
            for at, features in feature_batches(model, store, clips, "query"):
                table = model.compare(features, held).cpu().double()
                table[clips[at][:, None] == group] = torch.inf  # itself
                both = torch.cat([distance[at], table], 1)
                distance[at], place = both.topk(count, largest=False)
                names = torch.cat([index[at], group.expand(len(table), -1)], 1)
                index[at] = names.gather(1, place)
                done += table.numel()
                if progress is not None:
                    progress(done, total * total)
    return Neighbours(index, distance)


def strengths(near: Neighbours) -> tuple[Tensor, Float[Tensor, " motion"]]:
    """The graph as a sparse matrix S = D^-1/2 W D^-1/2, and the degrees D of its motions.

    W is the mean of A and its transpose, A[i, j] = exp(-d[i, j]^2 / (s[i] s[j])) for the neighbours j of i, where
    s is a motion's distance to its seventh neighbour: dense and thin places of an archive are tied alike.
    """
    total, count = near.index.shape
    scale = near.distance[:, min(_LOCAL, count) - 1].clamp_min(torch.finfo(torch.float64).tiny)
    # a quotient at a time: the product of two small scales would be 0
    ratio = (near.distance / scale[:, None]) * (near.distance / scale[near.index])
    rows = torch.arange(total)[:, None].expand_as(near.index).flatten()
    columns, weight = near.index.flatten(), torch.exp(-ratio).flatten() / 2
    both = torch.stack([torch.cat([rows, columns]), torch.cat([columns, rows])])
    ties = _sparse(both, torch.cat([weight, weight]), total).coalesce()
    place, value = ties.indices(), ties.values()
    degree = torch.zeros(total, dtype=value.dtype).index_add(0, place[0], value)
    root = degree.sqrt().clamp_min(torch.finfo(torch.float64).tiny)
    value = value / root[place[0]] / root[place[1]]
    return _sparse(place, value, total).coalesce(), degree


def _sparse(place: Int[Tensor, "2 tie"], value: Float[Tensor, " tie"], total: int) -> Tensor:
    # unchecked on purpose: the places come from topk, and saying nothing would make torch warn
    return torch.sparse_coo_tensor(place, value, (total, total), check_invariants=False)


def spread(
    graph: Tensor, seeds: Float[Tensor, "motion class"], alpha: float
) -> Float[Tensor, "motion class"]:
    """F = (1 - alpha) (I - alpha S)^-1 Y, where labels Y come to rest on a graph S (Zhou et al., 2004).

    By conjugate gradients, each column for itself; the eigenvalues of I - alpha S lie in 1 - alpha to 1 + alpha.
    """
    found = torch.zeros_like(seeds)
    rest = (1 - alpha) * seeds
    way, square = rest, rest.square().sum(0)
    enough = _TOLERANCE**2 * square
    for _ in range(_ROUNDS):
        if bool((square <= enough).all()):
            break
        image = way - alpha * torch.sparse.mm(graph, way)
        step = square / (way * image).sum(0).clamp_min(torch.finfo(square.dtype).tiny)
        found, rest = found + step * way, rest - step * image
        before, square = square, rest.square().sum(0)
        way = rest + square / before.clamp_min(torch.finfo(square.dtype).tiny) * way
    return found.clamp_min(0)


def propagate(
    near: Neighbours, examples: Sequence[int], labels: Sequence[Tag], config: LabelConfig
) -> Labelling:
    """Labels of all motions of a graph from those of its ``examples``, which keep theirs.

    What arrives at a motion is weighed against an even share: as much as it would have if a part of the examples'
    mass lay on the graph without direction, sqrt(D[i]) over the sum of all. A motion far from every example, or
    between two of them, has no large share of any label.
    """
    classes = tuple(dict.fromkeys(labels))
    own = torch.tensor([classes.index(one) for one in labels])
    seeds = torch.zeros(len(near.index), len(classes), dtype=torch.float64)
    counts = torch.bincount(own, minlength=len(classes))
    seeds[torch.tensor(examples), own] = 1 / counts[own].double()  # a class with many examples weighs no more
    graph, degree = strengths(near)
    mass = spread(graph, seeds, config.alpha)
    even = _EVEN * mass.sum() * degree.sqrt() / degree.sqrt().sum()
    whole = mass.sum(1) + even
    shares = mass / torch.where(whole > 0, whole, 1.0)[:, None]
    shares[torch.tensor(examples)] = torch.nn.functional.one_hot(own, len(classes)).double()
    confidence, best = shares.max(1)
    sure = (confidence >= config.abstain) & (confidence > 0)
    named = tuple(classes[at] if yes else None for at, yes in zip(best.tolist(), sure.tolist(), strict=True))
    return Labelling(named, confidence, shares, classes)


def label(
    model: FewShotModel,
    motions: Sequence[Motion],
    examples: Sequence[tuple[Tag, Motion | int]],
    config: LabelConfig | None = None,
    *,
    progress: Progress | None = None,
) -> Labelling:
    """Labels of all ``motions`` from examples: a label each, with a motion of its own or the number of one of them.

    Examples that are not among the motions take part in the graph and not in the result.
    """
    config = LabelConfig() if config is None else config
    outside = [one for _, one in examples if isinstance(one, Motion)]
    _check(examples, len(motions), len(outside))
    near = nearest(model, _Joined(motions, outside), config.neighbours, progress=progress)
    beyond = iter(range(len(motions), len(motions) + len(outside)))
    places = [next(beyond) if isinstance(one, Motion) else one for _, one in examples]
    found = propagate(near, places, [tag for tag, _ in examples], config)
    inside = slice(len(motions))
    return Labelling(found.labels[inside], found.confidence[inside], found.shares[inside], found.classes)


def _check(examples: Sequence[tuple[Tag, Motion | int]], motions: int, outside: int) -> None:
    if not examples:
        raise ConfigError("no example to spread labels from; give at least one")
    if motions + outside < 2 or not motions:
        raise ConfigError(f"labels spread between motions, got an archive of {motions}; give more")
    clips = [one for _, one in examples if not isinstance(one, Motion)]
    for clip in clips:
        if not 0 <= clip < motions:
            raise ConfigError(f"example {clip}: the archive has the motions 0 to {motions - 1}")
    twice = [clip for clip in clips if clips.count(clip) > 1]
    if twice:
        raise ConfigError(f"motion {twice[0]} is an example twice; give each once")


@dataclass(frozen=True, eq=False)
class _Joined(Lazy):
    """An archive's motions, read when they are asked for, and after them those of the examples."""

    archive: Sequence[Motion]
    beyond: Sequence[Motion]

    def __len__(self) -> int:
        return len(self.archive) + len(self.beyond)

    def one(self, number: int) -> Motion:
        known = len(self.archive)
        return self.archive[number] if number < known else self.beyond[number - known]
