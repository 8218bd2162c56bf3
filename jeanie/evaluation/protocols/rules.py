"""Build splits from the rules of a protocol and the tags of a data set.

Only tags are read (labels, subjects, views, setups, names), never a motion. So splits of a large data set take
seconds at most, and are the same in every process.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import product
from pathlib import Path

from jeanie.datasets import Dataset
from jeanie.errors import ConfigError, DataError
from jeanie.evaluation.protocols.camera_heights import (
    clip_names,
    find_setups_file,
    read_known_setups,
    setup_numbers,
)
from jeanie.evaluation.protocols.class_splits import ClassRule, ClassSplit, hold_out_classes
from jeanie.evaluation.protocols.splits import Columns, Split
from jeanie.fewshot.episodes import Draw, Episode, Exemplars, PublishedEpisodes, Tag, sort_tags
from jeanie.views.camera_position import group_setups_by_height

__all__ = [
    "Cameras",
    "Rules",
    "Setups",
    "build_splits",
    "class_counts",
    "read_released_list",
    "split_count",
]

Setups = Mapping[str, Sequence[int]]
Clips = tuple[int, ...]

PUBLISHED_TEST_SEED = 10_000  # the published protocol draws test episodes from RandomState(10000 + seed)
_TEST, _VALIDATION = 1_000_000, 2_000_000  # seeds of the episodes of split k are these plus k
_SUBJECTS = 2  # key of the draw of subjects; 1 is that of validation classes


@dataclass(frozen=True)
class Cameras:
    """The cameras of training clips, of supports and of queries."""

    name: str
    train: tuple[Tag, ...]
    support: tuple[Tag, ...]
    query: tuple[Tag, ...]


@dataclass(frozen=True)
class Rules:
    """How a protocol builds its splits: one per class split and choice of cameras.

    Attributes:
        classes: Rule that returns the class splits.
        labels: The classes, or their number if only the data set knows them.
        group: Number of consecutive classes that are held out together.
        cameras: Choices of cameras; empty if there is only one camera.
        cameras_by: Key of ``CAMERAS_BY``.
        merge_subjects: Function that maps subject tags of the same persons to one tag.
        exemplars: Names of the supports of a single test episode, whose queries are all other clips.
        repeated: Whether a variant has the exemplars among the queries.
        reserve: Subjects per class whose clips are supports and not trained on, if test classes are training
            classes.
        validation: Share of the training classes that is held out, or of the subjects if test classes are
            training classes.
        apart: Tags in which a query differs from the supports of its class.
        queries: Queries per class of a test episode.
        episodes, validation_episodes: Numbers of test and validation episodes.
        published: Whether episodes are `PublishedEpisodes`.
        excluded: Names of clips that are not used.
        listed: Name of a released list of clips; other clips are not used.
    """

    classes: ClassRule
    labels: tuple[Tag, ...] | int
    group: int = 1
    cameras: tuple[Cameras, ...] = ()
    cameras_by: str = "view"
    merge_subjects: Callable[[Tag], Tag] | None = None
    exemplars: tuple[str, ...] = ()
    repeated: bool = False
    reserve: int = 1
    validation: float = 0.3
    apart: tuple[str, ...] = ()
    queries: int = 1
    episodes: int = 200
    validation_episodes: int = 100
    published: bool = False
    excluded: tuple[str, ...] = ()
    listed: str = ""


def class_counts(rules: Rules, train_classes: int) -> tuple[tuple[int, int, int], ...]:
    """Return the distinct numbers of training, validation and test classes of the splits; needs no data."""
    counts = []
    for split in _list_class_splits(rules, train_classes):
        train, validation = split.train, split.train
        if not split.has_shared_classes:
            train, validation = hold_out_classes(split, rules.validation, rules.group)
        counts.append((len(train), len(validation), len(split.test)))
    return tuple(dict.fromkeys(counts))


def split_count(rules: Rules, train_classes: int) -> int:
    """Return the number of splits; needs no data."""
    return len(_list_class_splits(rules, train_classes)) * max(1, len(rules.cameras))


def _list_class_splits(rules: Rules, train_classes: int) -> tuple[ClassSplit, ...]:
    """Return the class splits; classes that only the data set knows are numbers."""
    classes = range(rules.labels) if isinstance(rules.labels, int) else rules.labels
    return rules.classes(classes, train_classes)


def build_splits(
    rules: Rules,
    dataset: Dataset,
    *,
    way: int | None,
    default_way: int,
    shot: int,
    train_classes: int,
    setups: Setups | None = None,
    root: Path | None = None,
) -> tuple[Split, ...]:
    """Build the splits of a data set; the way of each split is at most its number of test classes."""
    columns = _read_columns(rules, dataset, setups, root)
    present = sort_tags([columns.labels[clip] for clip in columns.usable])
    classes = present if isinstance(rules.labels, int) else rules.labels
    missing = [label for label in classes if label not in set(present)]
    if missing:
        raise DataError(
            f"data set {dataset.name!r}: expected the classes {classes[0]} to {classes[-1]}, got no clip of "
            f"{len(missing)} of them ({', '.join(map(str, missing[:10]))}); is the data set complete?"
        )
    class_splits = rules.classes(classes, train_classes)
    most = max(len(split.test) for split in class_splits)
    way = min(default_way, most) if way is None else way
    if not 2 <= way <= most:
        raise ConfigError(f"way is 2 to {most}, as there are {most} test classes, got {way}")
    if shot < 1:
        raise ConfigError(f"shot is 1 or more supports per class, got {shot}")
    if rules.exemplars and (way, shot) != (most, 1):
        rules = replace(rules, exemplars=(), repeated=False)  # there is one exemplar of every class
    rules = replace(rules, reserve=max(rules.reserve, shot))
    exemplars = _find_clips(dataset, rules.exemplars)
    cameras: Sequence[Cameras | None] = rules.cameras or (None,)
    return tuple(
        _SplitBuilder(rules, columns, split, camera_split, number, min(way, len(split.test)), shot).build(
            exemplars
        )
        for number, (split, camera_split) in enumerate(product(class_splits, cameras))
    )


def _read_columns(rules: Rules, dataset: Dataset, setups: Setups | None, root: Path | None) -> Columns:
    labels = list(dataset.labels)
    usable = [clip for clip, label in enumerate(labels) if label is not None]
    if rules.excluded or rules.published:
        names = clip_names(dataset)
        usable = [clip for clip in usable if names[clip] not in rules.excluded]
        if rules.published:  # its generator counts the clips in the order of their names
            usable.sort(key=lambda clip: names[clip])
    if rules.listed:
        listed = set(_find_clips(dataset, read_released_list(rules.listed), "clips of the released list"))
        usable = [clip for clip in usable if clip in listed]
    cameras = CAMERAS_BY[rules.cameras_by](dataset, setups, root) if rules.cameras else [None] * len(labels)
    subjects = list(dataset.subjects)
    if rules.merge_subjects is not None:
        subjects = [None if subject is None else rules.merge_subjects(subject) for subject in subjects]
    return Columns(labels, subjects, cameras, tuple(usable))


def read_released_list(name: str) -> tuple[str, ...]:
    """Return the names of the clips in a list that the paper's authors released; it is part of the package."""
    file = resources.files("jeanie.evaluation.protocols").joinpath("released", f"{name}.txt")
    return tuple(file.read_text(encoding="utf-8").split())


def _find_clips(dataset: Dataset, names: Sequence[str], description: str = "exemplars") -> Clips:
    """Return the numbers of the clips with these names."""
    if not names:
        return ()
    numbers = {name: clip for clip, name in enumerate(clip_names(dataset))}
    missing = [name for name in names if name not in numbers]
    if missing:
        raise DataError(
            f"data set {dataset.name!r}: {len(missing)} of {len(names)} {description} are missing: "
            f"{', '.join(missing[:5])}; is the data set complete?"
        )
    return tuple(numbers[name] for name in names)


def _group_by_height(dataset: Dataset, setups: Setups | None, root: Path | None) -> list[Tag | None]:
    """Return for each clip the third of all heights that contains its setup's camera (paper, Suppl.)."""
    numbers = setup_numbers(dataset)
    groups = _read_height_groups(root, set(numbers) - {None}) if setups is None else setups
    group_of = {setup: name for name, members in groups.items() for setup in members}
    return [None if number is None else group_of.get(number) for number in numbers]


def _read_height_groups(root: Path | None, recorded: set[int | None]) -> Setups:
    """Return the setups by height: S001 to S017 as published, the others from the table beside the data set."""
    place = Path("ntu120") if root is None else root
    cameras = read_known_setups(place)
    unknown = sorted(setup for setup in recorded if setup is not None and setup not in cameras)
    if unknown:
        path = find_setups_file(place) or place.with_name("setups.csv")
        raise DataError(
            f"{path}: no height for the cameras of setup {', '.join(map(str, unknown))}; setups 1 to 17 are known. "
            f"Measure the others from the recordings: jeanie setups ntu120 {place} {path}; or write the values of the "
            "data set's paper (Liu et al., NTU RGB+D 120) there as rows under the heading setup,height,distance; "
            "or give setups={'bottom': [...], 'centre': [...], 'top': [...]}"
        )
    return group_setups_by_height(cameras)


# how to find the camera of each clip
CAMERAS_BY: Mapping[str, Callable[[Dataset, Setups | None, Path | None], Sequence[Tag | None]]] = {
    "view": lambda dataset, setups, root: list(dataset.views),
    "height": _group_by_height,
}


@dataclass(frozen=True)
class _SplitBuilder:
    """Builds the split of a class split and a choice of cameras (None: there is only one camera)."""

    rules: Rules
    columns: Columns
    classes: ClassSplit
    cameras: Cameras | None
    number: int
    way: int
    shot: int

    def build(self, exemplars: Clips) -> Split:
        train_cameras, support_cameras = (
            (self.cameras.train, self.cameras.support) if self.cameras else (None, None)
        )
        if self.classes.has_shared_classes:
            train_classes = self.classes.train
            train, validation, supports = self._split_subjects(train_cameras, support_cameras)
            validation_classes = self._find_usable_classes(validation)
        else:
            train_classes, validation_classes = hold_out_classes(
                self.classes, self.rules.validation, self.rules.group
            )
            train = self.columns.select(train_classes, train_cameras)
            validation = self.columns.select(validation_classes, train_cameras)
            supports = exemplars or self.columns.select(self.classes.test, support_cameras)
        test, variants = self._draw_test_episodes(supports)
        names = (self.classes.name, self.cameras.name if self.cameras else "")
        return Split(
            name=", ".join(name for name in names if name) or "all",
            train=train,
            validation=self._draw_validation_episodes(validation_classes, validation),
            test=test,
            train_classes=train_classes,
            validation_classes=validation_classes,
            test_classes=self.classes.test,
            way=self.way,
            shot=self.shot,
            apart=self.rules.apart,
            columns=self.columns,
            published=self.rules.published,
            test_variants=variants,
        )

    def _split_subjects(
        self, train_cameras: tuple[Tag, ...] | None, support_cameras: tuple[Tag, ...] | None
    ) -> tuple[Clips, Clips, Clips]:
        """Return training clips, clips of held-out subjects, and supports, if test classes are training classes.

        The subjects are shuffled. The first ones are held out. For each class, the last ``reserve`` subjects that
        perform it give the supports, and their clips of that class are neither trained nor validated on, since
        several cameras may record the same performance. So the test does not depend on the held-out subjects.
        """
        subjects, labels = self.columns.subjects, self.columns.labels
        clips = self.columns.select(self.classes.train, train_cameras)
        people = sort_tags([subjects[clip] for clip in clips])
        count = max(2, self.shot, round(self.rules.validation * len(people))) if self.rules.validation else 0
        if len(people) <= count + self.rules.reserve:
            advice = (
                "is the data set complete, and has every clip its subject?"
                if self.shot == 1
                else f"use fewer than {self.shot} supports per class (shot), or validation=0"
            )
            raise DataError(
                f"the training cameras show {len(people)} subjects, expected more than {count} for validation and "
                f"{self.rules.reserve} for supports; {advice}"
            )
        order = Draw(self.classes.seed, _SUBJECTS, self.number).pick(people, len(people))
        validation_subjects = set(order[:count])
        candidates = self.columns.select(self.classes.test, support_cameras, clips)
        performed = {(labels[clip], subjects[clip]) for clip in candidates}
        reserved: set[tuple[Tag | None, Tag | None]] = set()
        for label in self.classes.test:
            performers = [(label, person) for person in order if (label, person) in performed]
            reserved |= set(performers[-self.rules.reserve :])
        supports = [clip for clip in clips if (labels[clip], subjects[clip]) in reserved]
        others = [clip for clip in clips if (labels[clip], subjects[clip]) not in reserved]
        return (
            tuple(clip for clip in others if subjects[clip] not in validation_subjects),
            tuple(clip for clip in others if subjects[clip] in validation_subjects),
            self.columns.select(self.classes.test, support_cameras, supports),
        )

    def _list_validation_tags(self) -> tuple[str, ...]:
        """Return the tags of the protocol, and the camera if training has several."""
        several = self.cameras is not None and len(self.cameras.train) > 1
        return tuple(dict.fromkeys((*self.rules.apart, *(("view",) if several else ()))))

    def _find_usable_classes(self, clips: Clips) -> tuple[Tag, ...]:
        """Return the classes with a query among these clips and ``shot`` supports that differ from it in their tags."""
        columns = {"subject": self.columns.subjects, "view": self.columns.cameras}
        tags = [columns[tag] for tag in self._list_validation_tags()]
        by_class: dict[Tag, list[int]] = {}
        for clip in clips:
            label = self.columns.labels[clip]
            if label is not None:
                by_class.setdefault(label, []).append(clip)

        def count_supports(query: int, members: list[int]) -> int:
            return sum(clip != query and all(tag[clip] != tag[query] for tag in tags) for clip in members)

        return sort_tags(
            [
                label
                for label, members in by_class.items()
                if any(count_supports(query, members) >= self.shot for query in members)
            ]
        )

    def _draw_validation_episodes(self, classes: tuple[Tag, ...], clips: Clips) -> Sequence[Episode]:
        if len(classes) < 2:
            return ()
        pool = self.columns.select(classes, None, clips)
        return self.columns.episodes(
            pool,
            pool,
            way=min(self.way, len(classes)),
            shot=self.shot,
            queries=1,
            count=self.rules.validation_episodes,
            seed=_VALIDATION + self.number,
            apart=self._list_validation_tags(),
        )

    def _draw_test_episodes(
        self, supports: Clips
    ) -> tuple[Sequence[Episode], Mapping[str, Sequence[Episode]]]:
        """Return the test episodes, and their variants by name."""
        rules, labels = self.rules, self.columns.labels
        queries = self.columns.select(self.classes.test, self.cameras.query if self.cameras else None)
        if rules.exemplars:
            exemplars = set(supports)
            others = tuple(clip for clip in queries if clip not in exemplars)
            variants = {"with exemplars": Exemplars(supports, queries, labels, repeated=True)}
            return Exemplars(supports, others, labels), variants if rules.repeated else {}
        if rules.published:
            return PublishedEpisodes(
                labels,
                classes=self.classes.test,
                way=self.way,
                shot=self.shot,
                queries=rules.queries,
                count=rules.episodes,
                seed=PUBLISHED_TEST_SEED + self.classes.seed,
                support=supports,
                query=queries,
            ), {}
        return self.columns.episodes(
            supports,
            queries,
            way=self.way,
            shot=self.shot,
            queries=rules.queries,
            count=rules.episodes,
            seed=_TEST + self.number,
            apart=rules.apart,
        ), {}
