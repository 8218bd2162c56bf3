"""A split: the clips for training, and fixed validation and test episodes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from jeanie.datasets import Dataset
from jeanie.errors import ConfigError
from jeanie.fewshot.episodes import Draw, Episode, Episodes, PublishedEpisodes, Tag

__all__ = ["Columns", "Split", "add_distractors"]


@dataclass(frozen=True, eq=False)
class Columns:
    """The tags of all clips of a data set, and the numbers of the clips that a protocol uses."""

    labels: Sequence[Tag | None]
    subjects: Sequence[Tag | None]
    cameras: Sequence[Tag | None]
    usable: tuple[int, ...]

    def select(
        self, classes: Collection[Tag], cameras: Collection[Tag] | None, clips: Sequence[int] | None = None
    ) -> tuple[int, ...]:
        """Return the clips of these classes and cameras (None: all cameras), from ``clips`` or all usable clips."""
        class_set = set(classes)
        return tuple(
            clip
            for clip in (self.usable if clips is None else clips)
            if self.labels[clip] in class_set and (cameras is None or self.cameras[clip] in cameras)
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
        query_classes: int | None = None,
    ) -> Episodes:
        """Return random episodes from pools of support and query clips."""
        return Episodes(
            self.labels,
            way=way,
            shot=shot,
            queries=queries,
            query_classes=query_classes,
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
    """One division of a data set into training, validation and test. No training clip is a validation or test clip.

    Attributes:
        name: Name within its protocol.
        train: Numbers of the training clips.
        validation, test: Fixed episodes.
        train_classes, validation_classes, test_classes: The classes. If test classes are training classes, so
            are the validation classes.
        way, shot, apart: Those of the test episodes.
        columns: The tags of all clips.
        published: Whether episodes are `PublishedEpisodes`.
        test_variants: Other test episodes, by name.
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

    def training_episodes(
        self,
        dataset: Dataset,
        *,
        way: int | None = None,
        shot: int | None = None,
        queries: int = 1,
        query_classes: int | None = None,
        count: int,
        seed: int,
        apart: Sequence[str] | None = None,
    ) -> Sequence[Episode]:
        """Return ``count`` training episodes.

        Args:
            dataset: The data set that the split was built from.
            way, shot: Default to those of the test; the way is at most the number of training classes.
            queries: Queries per class.
            query_classes: Number of classes per episode that have queries (default: all).
            count: Number of episodes.
            seed: Seed of the draws.
            apart: Tags in which a query differs from the supports of its class (default: those of the test). A
                published split ignores it.

        Raises:
            ConfigError: The split has no training classes, or the data set is another one.
        """
        if not self.train:
            raise ConfigError(
                f"split {self.name!r} has no training classes; use a model that was trained elsewhere, "
                "or give train_classes=, the number of classes to train on"
            )
        if len(dataset) != len(self.columns.labels):
            raise ConfigError(
                f"split {self.name!r} was built from {len(self.columns.labels)} clips, this data set has "
                f"{len(dataset)}; build the splits from the data set that is trained on"
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
                query_classes=query_classes,
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
            query_classes=query_classes,
            count=count,
            seed=seed,
            apart=self.apart if apart is None else apart,
        )


def add_distractors(split: Split) -> tuple[Episode, ...]:
    """Return the validation episodes of a split, with supports of every training class added as distractors.

    ``Draw(i)`` draws the distractors of episode i. The queries do not change: they are of held-out classes.
    """
    clips = {tag: split.columns.select((tag,), None, split.train) for tag in split.train_classes}
    episodes = []
    for number in range(len(split.validation)):
        episode, draw = split.validation[number], Draw(number)
        others = [tag for tag, members in clips.items() if members and tag not in episode.classes]
        more = torch.tensor([draw.pick(clips[tag], split.shot) for tag in others], dtype=torch.int64)
        labels = torch.arange(episode.way, episode.way + len(others)).repeat_interleave(split.shot)
        episodes.append(
            Episode(
                torch.cat([episode.support, more.flatten()]),
                torch.cat([episode.support_labels, labels]),
                episode.query,
                episode.query_labels,
                (*episode.classes, *others),
            )
        )
    return tuple(episodes)
