"""Which classes a split trains on, which it holds out for validation, and which it tests.

A rule is a function of all classes and the number of training classes; protocols name one in their row.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from jeanie.errors import ConfigError
from jeanie.fewshot.episodes import Draw, Tag

__all__ = ["Division", "Rule", "combined", "drawn", "everything", "held_out", "named", "same_and_novel"]

_VALIDATION = 1  # key of the draws that hold classes out, so that they are no part of the draws of the split


@dataclass(frozen=True)
class Division:
    """Training classes (validation classes among them) and test classes; ``seed`` belongs to its draws.

    Where the two are the same classes, a split holds out subjects in place of classes.
    """

    name: str
    train: tuple[Tag, ...]
    test: tuple[Tag, ...]
    seed: int = 0

    @property
    def shared(self) -> bool:
        """Whether test classes are training classes."""
        return not set(self.train).isdisjoint(self.test)


Rule = Callable[[Sequence[Tag], int], tuple[Division, ...]]


def drawn(classes: Sequence[Tag], train: int, *, seeds: Sequence[int] = range(10)) -> tuple[Division, ...]:
    """For each seed, ``train`` classes drawn by ``Draw(seed)`` from all in order; the others are tested.

    With ``train`` 0 nothing is drawn: one division tests all classes.

    >>> [division.train for division in drawn(range(1, 7), 3, seeds=(0, 1))]
    [(2, 3, 4), (2, 3, 6)]
    """
    if train == 0:
        return (Division("", (), tuple(classes)),)
    _check(train, len(classes) - 2)
    chosen = [(seed, set(Draw(seed).places(len(classes), train))) for seed in seeds]
    return tuple(
        Division(_name(seed, seeds), *_parted(classes, places), seed=seed) for seed, places in chosen
    )


def combined(classes: Sequence[Tag], train: int, *, group: int) -> tuple[Division, ...]:
    """Every choice of training classes in whole groups of neighbours; the other groups are tested."""
    _check(train, len(classes) - group)
    if train % group or len(classes) % group:
        raise ConfigError(
            f"classes come in groups of {group}, got {train} training classes of {len(classes)}"
        )
    divisions = []
    for seed, groups in enumerate(combinations(range(len(classes) // group), train // group)):
        places = {group * one + offset for one in groups for offset in range(group)}
        name = "train " + " ".join(f"{group * one + 1}-{group * one + group}" for one in groups)
        divisions.append(Division(name, *_parted(classes, places), seed=seed))
    return tuple(divisions)


def named(
    classes: Sequence[Tag], train: int, *, test: Sequence[Tag], seeds: Sequence[int] = (0,)
) -> tuple[Division, ...]:
    """The named classes are tested; the first ``train`` of the others, in order, are trained."""
    others = tuple(tag for tag in classes if tag not in set(test))
    _check(train, len(others))
    return tuple(Division(_name(seed, seeds), others[:train], tuple(test), seed) for seed in seeds)


def same_and_novel(classes: Sequence[Tag], train: int, *, test: Sequence[Tag]) -> tuple[Division, ...]:
    """Two divisions with the training classes of ``named``: tested on those same classes, and on ``test``."""
    (novel,) = named(classes, train, test=test)
    same = Division(f"same {train}", novel.train, novel.train)
    return same, Division(f"novel {len(test)}", novel.train, novel.test)


def everything(classes: Sequence[Tag], train: int) -> tuple[Division, ...]:
    """One division that trains and tests the first ``train`` classes: only the cameras are new."""
    _check(train, len(classes))
    return (Division("", tuple(classes[:train]), tuple(classes[:train])),)


def held_out(
    division: Division, fraction: float | int, group: int = 1
) -> tuple[tuple[Tag, ...], tuple[Tag, ...]]:
    """Training classes without the validation classes, and the validation classes.

    ``fraction`` of the training classes (at least 2, whole groups) are drawn by ``Draw(seed, 1)``. At least
    two classes stay for training.
    """
    groups = len(division.train) // group
    if not groups or fraction == 0:
        return division.train, ()
    count = max(math.ceil(2 / group), round(fraction * groups))
    if len(division.train) - count * group < 2:
        raise ConfigError(
            f"{len(division.train)} training classes, {count * group} of them for validation, leave fewer than "
            "2 to train; use more training classes, or validation=0"
        )
    draw = Draw(division.seed, _VALIDATION)
    places = {group * one + offset for one in draw.places(groups, count) for offset in range(group)}
    validation, train = _parted(division.train, places)
    return train, validation


def _name(seed: int, seeds: Sequence[int]) -> str:
    return f"seed {seed}" if len(seeds) > 1 else ""


def _parted(classes: Sequence[Tag], places: set[int]) -> tuple[tuple[Tag, ...], tuple[Tag, ...]]:
    """The classes at ``places`` and the others, both in order."""
    inside = tuple(tag for place, tag in enumerate(classes) if place in places)
    return inside, tuple(tag for place, tag in enumerate(classes) if place not in places)


def _check(train: int, most: int) -> None:
    if not 2 <= train <= most:
        raise ConfigError(f"train_classes is 2 to {most} here, got {train}")
