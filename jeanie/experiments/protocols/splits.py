"""A split: what training may see, and the fixed episodes that validate and test."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from jeanie.datasets import Dataset
from jeanie.errors import ConfigError
from jeanie.fewshot.episodes import Draw, Episode, Episodes, PublishedEpisodes, Tag

__all__ = ["Columns", "Split", "with_rivals"]


@dataclass(frozen=True, eq=False)
class Columns:
    """Tags of all clips of a data set, and the numbers of those that a protocol uses."""

    labels: Sequence[Tag | None]
    subjects: Sequence[Tag | None]
    cameras: Sequence[Tag | None]
    usable: tuple[int, ...]

    def of(
        self, classes: Collection[Tag], cameras: Collection[Tag] | None, among: Sequence[int] | None = None
    ) -> tuple[int, ...]:
        """Clips of these classes from these cameras (None: from any)."""
        chosen = set(classes)
        return tuple(
            clip
            for clip in (self.usable if among is None else among)
            if self.labels[clip] in chosen and (cameras is None or self.cameras[clip] in cameras)
        )

    def episodes(
        self,
        support: Sequence[int],
        query: Sequence[int],
        *,
        way: int,
        shot: int,
        queries: int,
        count: int,
        seed: int,
        apart: Sequence[str],
    ) -> Episodes:
        """Random episodes from pools of clips."""
        return Episodes(
            self.labels,
            way=way,
            shot=shot,
            queries=queries,
            count=count,
            seed=seed,
            support=support,
            query=query,
            subjects=self.subjects,
            views=self.cameras,
            apart=apart,
        )


@dataclass(frozen=True, eq=False)
class Split:
    """One way to train and to measure.

    ``train`` are the numbers of the clips that training may use, ``validation`` and ``test`` fixed episodes.
    ``way``, ``shot`` and ``apart`` are those of the test; ``test_variants`` are other test episodes, by name.
    No validation or test clip is a training clip. Where test classes are training classes,
    ``validation_classes`` are too.
    """

    name: str
    train: tuple[int, ...]
    validation: Sequence[Episode]
    test: Sequence[Episode]
    train_classes: tuple[Tag, ...]
    validation_classes: tuple[Tag, ...]
    test_classes: tuple[Tag, ...]
    way: int
    shot: int
    apart: tuple[str, ...]
    columns: Columns = field(repr=False)
    published: bool = False
    test_variants: Mapping[str, Sequence[Episode]] = field(default_factory=dict)

    def training(
        self,
        dataset: Dataset,
        *,
        way: int | None = None,
        shot: int | None = None,
        queries: int = 1,
        count: int,
        seed: int,
        apart: Sequence[str] | None = None,
    ) -> Sequence[Episode]:
        """``count`` training episodes of the data set that the split was made from.

        Without ``way`` and ``shot`` they are those of the test, the way cut to the number of training
        classes; without ``apart`` so are the tags in which a query differs from its class's supports. A
        published split has an order of generator calls of its own, in which ``apart`` has no place.
        """
        if not self.train:
            raise ConfigError(
                f"split {self.name!r} has no training classes; bring a model that was trained elsewhere, "
                "or ask the protocol for splits with train_classes"
            )
        if len(dataset) != len(self.columns.labels):
            raise ConfigError(
                f"split {self.name!r} was made from {len(self.columns.labels)} clips, this data set has "
                f"{len(dataset)}; make the splits from the data set that is trained on"
            )
        way = min(self.way, len(self.train_classes)) if way is None else way
        shot = self.shot if shot is None else shot
        if self.published:
            return PublishedEpisodes(
                self.columns.labels,
                classes=self.train_classes,
                way=way,
                shot=shot,
                queries=queries,
                count=count,
                seed=seed,
                support=self.train,
                query=self.train,
            )
        return self.columns.episodes(
            self.train,
            self.train,
            way=way,
            shot=shot,
            queries=queries,
            count=count,
            seed=seed,
            apart=self.apart if apart is None else apart,
        )


def with_rivals(split: Split) -> tuple[Episode, ...]:
    """The validation episodes of a split, each with a support of every training class that is not in it.

    Episode i takes those of ``Draw(i)``. Queries stay as they are: only held-out classes are asked for.
    """
    clips = {tag: split.columns.of((tag,), None, split.train) for tag in split.train_classes}
    found = []
    for number in range(len(split.validation)):
        episode, draw = split.validation[number], Draw(number)
        others = [tag for tag, own in clips.items() if own and tag not in episode.classes]
        more = torch.tensor([draw.pick(clips[tag], split.shot) for tag in others], dtype=torch.int64)
        labels = torch.arange(episode.way, episode.way + len(others)).repeat_interleave(split.shot)
        found.append(
            Episode(
                torch.cat([episode.support, more.flatten()]),
                torch.cat([episode.support_labels, labels]),
                episode.query,
                episode.query_labels,
                (*episode.classes, *others),
            )
        )
    return tuple(found)
