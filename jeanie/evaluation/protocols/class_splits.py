"""Class splits: which classes a split trains on, holds out for validation, and tests.

A class rule is a function of all classes and the number of training classes; each protocol names one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from jeanie.errors import ConfigError
from jeanie.fewshot.episodes import Draw, Tag

__all__ = [
    "ClassRule",
    "ClassSplit",
    "hold_out_classes",
    "share_all_classes",
    "split_by_group",
    "split_by_name",
    "split_randomly",
    "split_same_and_novel",
]

_VALIDATION = (
    1  # key of the draws of validation classes, so that they are independent of the draws of the split
)


@dataclass(frozen=True)
class ClassSplit:
    """Training classes (including validation classes) and test classes; ``seed`` is that of its draws.

    ``validation`` lists the validation classes; None draws them.
    If test classes are training classes, subjects are held out instead of classes.
    """

    name: str
    train: tuple[Tag, ...]
    test: tuple[Tag, ...]
    seed: int = 0
    validation: tuple[Tag, ...] | None = None

    @property
    def has_shared_classes(self) -> bool:
        """Whether test classes are training classes."""
        return not set(self.train).isdisjoint(self.test)


ClassRule = Callable[[Sequence[Tag], int], tuple[ClassSplit, ...]]


def split_randomly(
    classes: Sequence[Tag], train: int, *, seeds: Sequence[int] = range(10)
) -> tuple[ClassSplit, ...]:
    """Draw ``train`` training classes per seed with ``Draw(seed)``; the other classes are tested.

    If ``train`` is 0, a single class split tests all classes.

    >>> [split.train for split in split_randomly(range(1, 7), 3, seeds=(0, 1))]
    [(2, 3, 4), (2, 3, 6)]
    """
    if train == 0:
        return (ClassSplit("", (), tuple(classes)),)
    _check_train_classes(train, len(classes) - 2)
    return tuple(
        ClassSplit(
            _name_by_seed(seed, seeds),
            *_partition(classes, set(Draw(seed).pick_indices(len(classes), train))),
            seed=seed,
        )
        for seed in seeds
    )


def split_by_group(classes: Sequence[Tag], train: int, *, group: int) -> tuple[ClassSplit, ...]:
    """Return every choice of training classes in whole groups of ``group`` consecutive classes."""
    _check_train_classes(train, len(classes) - group)
    if train % group or len(classes) % group:
        raise ConfigError(
            f"classes come in groups of {group}, got {train} training classes of {len(classes)}"
        )
    splits = []
    for seed, groups in enumerate(combinations(range(len(classes) // group), train // group)):
        indices = {group * number + offset for number in groups for offset in range(group)}
        name = "train " + " ".join(f"{group * number + 1}-{group * number + group}" for number in groups)
        splits.append(ClassSplit(name, *_partition(classes, indices), seed=seed))
    return tuple(splits)


def split_by_name(
    classes: Sequence[Tag], train: int, *, test: Sequence[Tag], seeds: Sequence[int] = (0,)
) -> tuple[ClassSplit, ...]:
    """Test the classes ``test`` and train the first ``train`` of the other classes."""
    others = tuple(tag for tag in classes if tag not in set(test))
    _check_train_classes(train, len(others))
    return tuple(ClassSplit(_name_by_seed(seed, seeds), others[:train], tuple(test), seed) for seed in seeds)


def split_same_and_novel(
    classes: Sequence[Tag], train: int, *, test: Sequence[Tag]
) -> tuple[ClassSplit, ...]:
    """Train the classes of `split_by_name`; test the same classes, and in a second class split ``test``."""
    (novel,) = split_by_name(classes, train, test=test)
    same = ClassSplit(f"same {train}", novel.train, novel.train)
    return same, ClassSplit(f"novel {len(test)}", novel.train, novel.test)


def share_all_classes(classes: Sequence[Tag], train: int) -> tuple[ClassSplit, ...]:
    """Train and test the first ``train`` classes: only the cameras are new."""
    _check_train_classes(train, len(classes))
    return (ClassSplit("", tuple(classes[:train]), tuple(classes[:train])),)


def hold_out_classes(
    split: ClassSplit, fraction: float, group: int = 1
) -> tuple[tuple[Tag, ...], tuple[Tag, ...]]:
    """Return the training classes without the validation classes, and the validation classes.

    A ``fraction`` of the training classes (at least 2, whole groups) is drawn by ``Draw(seed, 1)``. At least two
    classes remain for training.
    """
    if split.validation is not None:
        return tuple(tag for tag in split.train if tag not in split.validation), split.validation
    groups = len(split.train) // group
    if not groups or fraction == 0:
        return split.train, ()
    count = max(math.ceil(2 / group), round(fraction * groups))
    if len(split.train) - count * group < 2:
        raise ConfigError(
            f"{len(split.train)} training classes, {count * group} of them for validation, leave fewer than "
            "2 to train; use more training classes, or validation=0"
        )
    draw = Draw(split.seed, _VALIDATION)
    indices = {
        group * number + offset for number in draw.pick_indices(groups, count) for offset in range(group)
    }
    validation, train = _partition(split.train, indices)
    return train, validation


def _name_by_seed(seed: int, seeds: Sequence[int]) -> str:
    return f"seed {seed}" if len(seeds) > 1 else ""


def _partition(classes: Sequence[Tag], indices: set[int]) -> tuple[tuple[Tag, ...], tuple[Tag, ...]]:
    """Return the classes at ``indices`` and the other classes, both in order."""
    inside = tuple(tag for index, tag in enumerate(classes) if index in indices)
    return inside, tuple(tag for index, tag in enumerate(classes) if index not in indices)


def _check_train_classes(train: int, most: int) -> None:
    if most < 2:
        raise ConfigError(
            f"train_classes={train}: the data set has too few classes for training; use 0 to test all"
        )
    if not 2 <= train <= most:
        raise ConfigError(f"train_classes={train} must be from 2 to {most} with the classes of this data set")
