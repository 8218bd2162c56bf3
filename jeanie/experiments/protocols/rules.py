"""From a protocol's rules and a data set's tags to splits.

Only tags are looked at (labels, subjects, views, setups, names), never a motion: splits of a data set of any
size take seconds at most, and are the same in every process.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

from jeanie.datasets import Dataset
from jeanie.errors import ConfigError, DataError
from jeanie.experiments.protocols.divisions import Division, Rule, held_out
from jeanie.experiments.protocols.heights import clip_names, setup_numbers
from jeanie.experiments.protocols.splits import Columns, Split
from jeanie.fewshot.episodes import Draw, Episode, Exemplars, PublishedEpisodes, Tag, in_order
from jeanie.views.position import read_setups, setups_by_height

__all__ = ["Cameras", "Rules", "Setups", "build", "class_counts", "split_count"]

Setups = Mapping[str, Sequence[int]]
Clips = tuple[int, ...]

PUBLISHED_TEST_SEED = 10_000  # the published protocol draws test episodes from RandomState(10000 + seed)
_TEST, _VALIDATION = 1_000_000, 2_000_000  # seeds of the episodes of split k are these plus k
_SUBJECTS = 2  # key of the draw of subjects; 1 is that of validation classes


@dataclass(frozen=True)
class Cameras:
    """Cameras whose clips a split trains on, takes supports from, and takes queries from."""

    name: str
    train: tuple[Tag, ...]
    support: tuple[Tag, ...]
    query: tuple[Tag, ...]


@dataclass(frozen=True)
class Rules:
    """How a protocol makes its splits: one for each division of the classes and each choice of cameras.

    ``labels``: the classes, or their number where the data set tells them. ``group``: classes that are held
    out together. ``cameras_by``: a key of ``CAMERAS_BY``. ``people``: what makes one subject of a subject
    tag. ``validation``: the part of the training classes (of the subjects, where test classes are training
    classes) that is held out. ``apart``: tags in which a query differs from its class's supports.
    ``exemplars``: names of the supports of one test episode that has all other clips as queries; with
    ``repeated`` there is a variant with the exemplars among the queries. ``reserve``: where test classes are
    training classes, subjects a class whose clips are supports and not trained on. ``published``: episodes
    are `PublishedEpisodes`. ``left_out``: names of clips that are not used.
    """

    classes: Rule
    labels: tuple[Tag, ...] | int
    group: int = 1
    cameras: tuple[Cameras, ...] = ()
    cameras_by: str = "view"
    people: Callable[[Tag], Tag] | None = None
    exemplars: tuple[str, ...] = ()
    repeated: bool = False
    reserve: int = 1
    validation: float | int = 0.3
    apart: tuple[str, ...] = ()
    queries: int = 1
    episodes: int = 200
    validation_episodes: int = 100
    published: bool = False
    left_out: tuple[str, ...] = ()


def class_counts(rules: Rules, train_classes: int) -> tuple[tuple[int, int, int], ...]:
    """The different numbers of training, validation and test classes of the splits, without any data."""
    counts = []
    for division in _divisions(rules, train_classes):
        shared = (division.train, division.train)
        train, validation = shared if division.shared else held_out(division, rules.validation, rules.group)
        counts.append((len(train), len(validation), len(division.test)))
    return tuple(dict.fromkeys(counts))


def split_count(rules: Rules, train_classes: int) -> int:
    """Number of splits, without any data."""
    return len(_divisions(rules, train_classes)) * max(1, len(rules.cameras))


def _divisions(rules: Rules, train_classes: int) -> tuple[Division, ...]:
    """The divisions; classes that only the data can name are numbers here."""
    classes = range(rules.labels) if isinstance(rules.labels, int) else rules.labels
    return rules.classes(classes, train_classes)


def build(
    rules: Rules,
    dataset: Dataset,
    *,
    way: int | None,
    usual_way: int,
    shot: int,
    train_classes: int,
    setups: Setups | None = None,
) -> tuple[Split, ...]:
    """The splits of a data set; the way is cut to the number of test classes of each."""
    columns = _columns(rules, dataset, setups)
    present = in_order([columns.labels[clip] for clip in columns.usable])
    classes = present if isinstance(rules.labels, int) else rules.labels
    missing = [label for label in classes if label not in set(present)]
    if missing:
        raise DataError(
            f"data set {dataset.name!r}: expected the classes {classes[0]} to {classes[-1]}, got no clip of "
            f"{len(missing)} of them ({', '.join(map(str, missing[:10]))}); is it complete?"
        )
    divisions = rules.classes(classes, train_classes)
    most = max(len(division.test) for division in divisions)
    way = min(usual_way, most) if way is None else way
    least = most if rules.exemplars else 2
    if not least <= way <= most:
        raise ConfigError(f"way is {least} to {most}, as there are {most} test classes, got {way}")
    exemplars = _find(dataset, rules.exemplars)
    cameras: Sequence[Cameras | None] = rules.cameras or (None,)
    return tuple(
        _Case(rules, columns, division, seen, number, min(way, len(division.test)), shot).split(exemplars)
        for number, (division, seen) in enumerate(product(divisions, cameras))
    )


def _columns(rules: Rules, dataset: Dataset, setups: Setups | None) -> Columns:
    labels = list(dataset.labels)
    usable = [clip for clip, label in enumerate(labels) if label is not None]
    if rules.left_out or rules.published:
        names = clip_names(dataset)
        usable = [clip for clip in usable if names[clip] not in rules.left_out]
        if rules.published:  # its generator counts the clips in the order of their names
            usable.sort(key=lambda clip: names[clip])
    cameras = CAMERAS_BY[rules.cameras_by](dataset, setups) if rules.cameras else [None] * len(labels)
    subjects = list(dataset.subjects)
    if rules.people is not None:
        subjects = [None if subject is None else rules.people(subject) for subject in subjects]
    return Columns(labels, subjects, cameras, tuple(usable))


def _find(dataset: Dataset, wanted: Sequence[str]) -> Clips:
    """Numbers of the clips with these names."""
    if not wanted:
        return ()
    at = {name: clip for clip, name in enumerate(clip_names(dataset))}
    missing = [name for name in wanted if name not in at]
    if missing:
        raise DataError(
            f"data set {dataset.name!r}: {len(missing)} of {len(wanted)} exemplars are not there: "
            f"{', '.join(missing[:5])}; is it complete?"
        )
    return tuple(at[name] for name in wanted)


def _by_height(dataset: Dataset, setups: Setups | None) -> list[Tag | None]:
    """For each clip the third of the heights in which its setup's camera stood (paper, Suppl.)."""
    groups = _height_groups() if setups is None else setups
    group_of = {setup: name for name, members in groups.items() for setup in members}
    return [None if number is None else group_of.get(number) for number in setup_numbers(dataset)]


def _height_groups() -> Setups:
    path = Path(os.environ.get("JEANIE_DATA", ".")) / "ntu120" / "setups.csv"
    if not path.is_file():
        raise DataError(
            f"{path}: not there; cameras are grouped by the heights of the setups. Measure them from the "
            f"recordings: jeanie setups ntu120 {path.parent} {path}; or write those that the data set's paper prints "
            "(Liu et al., NTU RGB+D 120) into that file as rows under the heading setup,height,distance, or give "
            "setups={'bottom': [...], 'centre': [...], 'top': [...]}"
        )
    return setups_by_height(read_setups(path))


# what tells a clip's camera
CAMERAS_BY: Mapping[str, Callable[[Dataset, Setups | None], Sequence[Tag | None]]] = {
    "view": lambda dataset, setups: list(dataset.views),
    "height": _by_height,
}


@dataclass(frozen=True)
class _Case:
    """A split in the making: a division of the classes, seen by some cameras (None: there is only one)."""

    rules: Rules
    columns: Columns
    division: Division
    cameras: Cameras | None
    number: int
    way: int
    shot: int

    def split(self, exemplars: Clips) -> Split:
        seen, shown = (self.cameras.train, self.cameras.support) if self.cameras else (None, None)
        if self.division.shared:
            trained = self.division.train
            train, held, supports = self._by_subject(seen, shown)
            validated = self._served(held)
        else:
            trained, validated = held_out(self.division, self.rules.validation, self.rules.group)
            train, held = self.columns.of(trained, seen), self.columns.of(validated, seen)
            supports = exemplars or self.columns.of(self.division.test, shown)
        test, variants = self._test(supports)
        names = (self.division.name, self.cameras.name if self.cameras else "")
        return Split(
            name=", ".join(name for name in names if name) or "all",
            train=train,
            validation=self._validation(validated, held),
            test=test,
            train_classes=trained,
            validation_classes=validated,
            test_classes=self.division.test,
            way=self.way,
            shot=self.shot,
            apart=self.rules.apart,
            columns=self.columns,
            published=self.rules.published,
            test_variants=variants,
        )

    def _by_subject(
        self, seen: tuple[Tag, ...] | None, shown: tuple[Tag, ...] | None
    ) -> tuple[Clips, Clips, Clips]:
        """Training clips, clips of held-out subjects, and supports, where test classes are trained too.

        The subjects are shuffled. The first ones are held out; of each class the last ``reserve`` that perform
        it give the supports, and none of their clips of that class is trained or validated on: the cameras of
        some data sets see one and the same performance. So the test does not depend on what is held out.
        """
        subjects, labels = self.columns.subjects, self.columns.labels
        clips = self.columns.of(self.division.train, seen)
        people = in_order([subjects[clip] for clip in clips])
        count = max(2, round(self.rules.validation * len(people))) if self.rules.validation else 0
        if len(people) <= count + self.rules.reserve:
            raise DataError(
                f"the training cameras show {len(people)} subjects, expected more than {count} for validation and "
                f"{self.rules.reserve} for supports; is the data set complete, and has every clip its subject?"
            )
        order = Draw(self.division.seed, _SUBJECTS, self.number).pick(people, len(people))
        held = set(order[:count])
        shows = {(labels[clip], subjects[clip]) for clip in self.columns.of(self.division.test, shown, clips)}
        reserved: set[tuple[Tag | None, Tag | None]] = set()
        for label in self.division.test:
            own = [(label, one) for one in order if (label, one) in shows]
            reserved |= set(own[-self.rules.reserve :])
        supports = [clip for clip in clips if (labels[clip], subjects[clip]) in reserved]
        others = [clip for clip in clips if (labels[clip], subjects[clip]) not in reserved]
        return (
            tuple(clip for clip in others if subjects[clip] not in held),
            tuple(clip for clip in others if subjects[clip] in held),
            self.columns.of(self.division.test, shown, supports),
        )

    def _apart(self) -> tuple[str, ...]:
        """In validation a query also comes from another camera, where training has several."""
        several = self.cameras is not None and len(self.cameras.train) > 1
        return tuple(dict.fromkeys((*self.rules.apart, *(("view",) if several else ()))))

    def _served(self, clips: Clips) -> tuple[Tag, ...]:
        """Classes of which these clips hold a support and a query that differ in what they must."""
        columns = {"subject": self.columns.subjects, "view": self.columns.cameras}
        tags = [columns[tag] for tag in self._apart()]
        by_class: dict[Tag, list[int]] = {}
        for clip in clips:
            label = self.columns.labels[clip]
            if label is not None:
                by_class.setdefault(label, []).append(clip)
        return in_order(
            [
                label
                for label, own in by_class.items()
                if any(all(tag[one] != tag[two] for tag in tags) for one, two in combinations(own, 2))
            ]
        )

    def _validation(self, classes: tuple[Tag, ...], clips: Clips) -> Sequence[Episode]:
        if len(classes) < 2:
            return ()
        pool = self.columns.of(classes, None, clips)
        return self.columns.episodes(
            pool,
            pool,
            way=min(self.way, len(classes)),
            shot=self.shot,
            queries=1,
            count=self.rules.validation_episodes,
            seed=_VALIDATION + self.number,
            apart=self._apart(),
        )

    def _test(self, supports: Clips) -> tuple[Sequence[Episode], Mapping[str, Sequence[Episode]]]:
        """The test episodes, and variants of them by name."""
        rules, labels = self.rules, self.columns.labels
        asked = self.columns.of(self.division.test, self.cameras.query if self.cameras else None)
        if rules.exemplars:
            shown = set(supports)
            others = tuple(clip for clip in asked if clip not in shown)
            variants = {"with exemplars": Exemplars(supports, asked, labels, repeated=True)}
            return Exemplars(supports, others, labels), variants if rules.repeated else {}
        if rules.published:
            return PublishedEpisodes(
                labels,
                classes=self.division.test,
                way=self.way,
                shot=self.shot,
                queries=rules.queries,
                count=rules.episodes,
                seed=PUBLISHED_TEST_SEED + self.division.seed,
                support=supports,
                query=asked,
            ), {}
        return self.columns.episodes(
            supports,
            asked,
            way=self.way,
            shot=self.shot,
            queries=rules.queries,
            count=rules.episodes,
            seed=_TEST + self.number,
            apart=rules.apart,
        ), {}
