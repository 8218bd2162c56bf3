"""Open-set episodes: enrol a few actions of a source, then answer queries of these and of other actions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from openset_sources import Source
from recognition_tasks import compute_features
from torch import Tensor

from jeanie.fewshot import Features, FewShotModel
from jeanie.recogniser.background import (
    BackgroundSet,
    CohortStatistics,
    log_distance,
)
from jeanie.recogniser.confidence import (
    compute_evidence,
)
from jeanie.recogniser.gallery import find_middle
from jeanie.recogniser.proportions import compare_proportions, measure_proportions

WAYS, SHOTS = (1, 2, 3, 5, 10, 20, None), (1, 3, 5)  # None: half of all actions
RECORDINGS = 20  # of the own sensor, in half of the episodes
SIZES = [(way, shots, own) for own in (0, RECORDINGS) for way in WAYS for shots in SHOTS]
QUERIES = 10  # of enrolled actions, and as many of others, per episode
EPISODES = 12  # of each number of actions, examples and recordings


@dataclass(frozen=True)
class Table:
    """Clips of a source: labels, subjects, features, and log distances.

    ``distances`` are those of queries to supports, ``apart`` those of supports to each other (without a mirror);
    ``around_query`` and ``around_support`` describe the background set as seen from a query, and from a support.
    ``proportions`` are those of the bodies.
    """

    name: str
    family: str
    labels: np.ndarray
    subjects: np.ndarray
    distances: Tensor
    apart: Tensor
    around_query: CohortStatistics
    around_support: CohortStatistics
    proportions: Tensor
    support: Features | None = None


@dataclass(frozen=True)
class Answers:
    """Results of many queries.

    Evidence, log distance, whether nearest is right, whether it was enrolled, examples per action, own recordings.
    """

    evidence: Tensor
    distance: Tensor
    right: Tensor
    known: Tensor
    shots: Tensor
    recordings: Tensor

    def select(self, chosen: Tensor) -> "Answers":
        """Return some of the answers."""
        return Answers(*(getattr(self, key)[chosen] for key in self.__dataclass_fields__))

    @classmethod
    def cat(cls, parts: "Sequence[Answers]") -> "Answers":
        """Return the answers of several."""
        return cls(*(torch.cat([getattr(part, key) for part in parts]) for key in cls.__dataclass_fields__))


@torch.no_grad()
def compute_table(model: FewShotModel, background_set: BackgroundSet, source: Source) -> Table:
    """Return every distance between the clips of a source."""
    query = compute_features(model, source.motions, "query")
    support = (
        replace(query, mirrored=None)
        if model.views is None
        else compute_features(model, source.motions, "support")
    )
    return Table(
        source.name,
        source.family,
        np.array(source.labels),
        np.array(source.subjects),
        log_distance(model.compare(query, support)),
        log_distance(model.compare(support, support)),
        CohortStatistics.from_distances(model.compare(query, background_set.support)),
        background_set.measure_supports(model, support),
        torch.stack([measure_proportions(motion) for motion in source.motions]),
        support,
    )


def run_episode(
    table: Table,
    way: int | None,
    shots: int,
    rng: np.random.Generator,
    recordings: int = 0,
    by_same_person: bool = False,
) -> Answers | None:
    """Some actions are enrolled; the queries are of these and of other actions.

    With ``by_same_person``, one person performs everything, the calibration recordings included.
    """
    chosen = (
        _choose_clips_of_one_person(table, way, shots, rng)
        if by_same_person
        else _choose_clips(table, way, shots, rng)
    )
    if chosen is None:
        return None
    enrolled, examples, clips = chosen
    unused = np.setdiff1d(clips, np.concatenate(examples))
    is_known = np.isin(table.labels[unused], enrolled)
    if not is_known.any() or is_known.all():
        return None
    queries = np.concatenate([rng.choice(unused[is_known], QUERIES), rng.choice(unused[~is_known], QUERIES)])
    sensor = clips if by_same_person else np.arange(len(table.labels))
    rest = np.setdiff1d(sensor, np.concatenate([queries, *examples]))
    own = torch.from_numpy(rng.choice(rest, min(recordings, len(rest)), replace=False))
    made = answer_queries(
        table, torch.from_numpy(queries), enrolled, [torch.from_numpy(rows) for rows in examples], own
    )
    return replace(made, shots=torch.full_like(made.shots, shots))


def _choose_clips(
    table: Table, way: int | None, shots: int, rng: np.random.Generator
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray] | None:
    """Return enrolled actions, the rows of their examples, and rows of examples and possible queries.

    An action's examples are by one subject or by up to half of all; its queries are by the other subjects.
    """
    classes, half = np.unique(table.labels), max(1, len(np.unique(table.labels)) // 2)
    several = [name for name in classes if len(np.unique(table.subjects[table.labels == name])) > 1]
    enrolled = rng.choice(several, min(way or half, half, len(several)), replace=False)
    alone = bool(rng.integers(2))
    examples = []
    for label in enrolled:
        rows = np.flatnonzero(table.labels == label)
        people = rng.permutation(np.unique(table.subjects[rows]))
        people = people[: 1 if alone else max(1, len(people) // 2)]
        rows = rows[np.isin(table.subjects[rows], people)]
        examples.append(rng.choice(rows, min(shots, len(rows)), replace=False))
    taken = {(table.labels[i], table.subjects[i]) for rows in examples for i in rows}
    clips = [i for i, key in enumerate(zip(table.labels, table.subjects, strict=True)) if key not in taken]
    return enrolled, examples, np.array(clips, dtype=np.int64)


def _choose_clips_of_one_person(
    table: Table, way: int | None, shots: int, rng: np.random.Generator
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray] | None:
    """Return the same as ``_choose_clips`` for a person who has two performances of an action; None without one."""
    for person in rng.permutation(np.unique(table.subjects)):
        clips = np.flatnonzero(table.subjects == person)
        classes, counts = np.unique(table.labels[clips], return_counts=True)
        several = classes[counts > 1]
        if len(several) and len(classes) > 1:
            break
    else:
        return None
    half = max(1, len(classes) // 2)
    enrolled = rng.choice(several, min(way or half, half, len(several)), replace=False)
    rows = [clips[table.labels[clips] == label] for label in enrolled]
    examples = [rng.choice(own, min(shots, len(own) - 1), replace=False) for own in rows]
    return enrolled, examples, clips


def answer_queries(
    table: Table,
    queries: Tensor,
    enrolled: np.ndarray,
    examples: list[Tensor],
    recordings: Tensor | None = None,
) -> Answers:
    """Return the results of a recogniser for queries, from known distances."""
    own = torch.zeros(0, dtype=torch.long) if recordings is None else recordings
    nearest = [table.distances[queries][:, rows].min(1) for rows in examples]
    ranks = torch.stack([smallest.values for smallest in nearest], 1)
    ordered, place = ranks.sort(1)
    best = place[:, 0]
    row = torch.stack([rows[smallest.indices] for rows, smallest in zip(examples, nearest, strict=True)], 1)
    row = row.gather(1, best[:, None])[:, 0]
    is_best = torch.arange(len(examples)) == best[:, None]
    member = torch.stack([rows[find_middle_example(table, rows)] for rows in examples])
    to_query = torch.cat([ranks.masked_fill(is_best, torch.inf), table.distances[queries][:, own]], 1)
    to_support = torch.cat(
        [table.apart[member][:, row].T.masked_fill(is_best, torch.inf), table.distances[own][:, row].T], 1
    )
    proof = compute_evidence(
        ordered[:, 0],
        ordered[:, min(1, len(examples) - 1)],
        table.around_support[row].with_members(to_support),
        table.around_query[queries].with_members(to_query),
        torch.stack([measure_within_action(table, rows) for rows in examples])[best],
        len(examples),
        len(examples) - 1 + len(own),
        compare_proportions(table.proportions[queries], table.proportions[row]),
    )
    query_labels = table.labels[queries.numpy()]
    right = torch.from_numpy(enrolled[best.numpy()] == query_labels)
    known = torch.from_numpy(np.isin(query_labels, enrolled))
    counts = torch.full((len(queries),), len(examples[0])), torch.full((len(queries),), len(own))
    return Answers(proof, ordered[:, 0], right, known, *counts)


def find_middle_example(table: Table, rows: Tensor) -> int:
    """Return which of an action's examples is nearest to all."""
    if table.support is None or len(rows) < 2:
        return 0
    return find_middle(table.apart[rows][:, rows].exp(), table.support[rows])


def measure_within_action(table: Table, rows: Tensor) -> Tensor:
    """Return the mean log distance of examples to their nearest neighbour, NaN for one alone."""
    if len(rows) < 2:
        return torch.tensor(torch.nan)
    return table.apart[rows][:, rows].clone().fill_diagonal_(torch.inf).amin(1).mean()


def run_episodes(
    table: Table,
    seed: int,
    sizes: Iterable[tuple[int | None, int, int]] | None = None,
    *,
    by_same_person: bool = False,
) -> Answers | None:
    """Return the answers of many episodes, with few and many actions, examples and recordings.

    With ``by_same_person``, one person performs examples and queries. None if no episode is possible.
    """
    labels, subjects = (
        np.unique(column, return_inverse=True)[1] for column in (table.labels, table.subjects)
    )  # comparing numbers is faster than comparing texts
    table = replace(table, labels=labels, subjects=subjects)
    every = SIZES if sizes is None else sizes
    drawn = []
    for at, (way, shots, own) in enumerate(every):
        rng = np.random.default_rng([seed, at])
        drawn += [run_episode(table, way, shots, rng, own, by_same_person) for _ in range(EPISODES)]
    possible = [answers for answers in drawn if answers is not None]
    return Answers.cat(possible) if possible else None
