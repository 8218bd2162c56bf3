"""Protocols by name, or from the user's own TOML file."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from jeanie.config import Config
from jeanie.datasets import DATASETS, Dataset, ReadOptions, open_dataset
from jeanie.datasets.dataset import FileDataset
from jeanie.datasets.sheets import is_sheet
from jeanie.errors import ConfigError, DataError, suggest_name
from jeanie.evaluation.protocols.catalogue import PROTOCOLS, Protocol
from jeanie.evaluation.protocols.class_splits import (
    ClassRule,
    ClassSplit,
    share_all_classes,
    split_randomly,
)
from jeanie.evaluation.protocols.rules import Cameras, Rules
from jeanie.fewshot.episodes import Tag

__all__ = ["FileProtocol", "ProtocolConfig", "get_protocol", "read_protocol"]

TagConfig = str | int
Count = Annotated[int, Field(ge=1)]


class RandomClassesConfig(Config):
    """Training classes drawn at random, once per seed; the other classes are tested."""

    rule: Literal["random"] = "random"
    train: int = Field(default=0, ge=0, description="number of training classes; 0 tests all classes")
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(0,), min_length=1, description="seeds of the draws, one split each"
    )


class ListedClassesConfig(Config):
    """Classes by name."""

    rule: Literal["lists"] = "lists"
    train: tuple[TagConfig, ...] = Field(default=(), description="training classes")
    validation: tuple[TagConfig, ...] = Field(
        default=(), description="validation classes; empty: a share of the training classes"
    )
    test: tuple[TagConfig, ...] = Field(min_length=2, description="test classes")


class SameClassesConfig(Config):
    """All classes are trained and tested; training and test differ in their cameras."""

    rule: Literal["same"] = "same"


class CameraConfig(Config):
    """The cameras of training clips, supports and queries of one split."""

    name: str = Field(default="", description="name of the split in reports; empty: made from the cameras")
    train: tuple[TagConfig, ...] = Field(
        default=(), description="cameras of the training clips; empty: those of the supports"
    )
    support: tuple[TagConfig, ...] = Field(description="cameras of the supports")
    query: tuple[TagConfig, ...] = Field(description="cameras of the queries")


class ProtocolConfig(Config):
    """A protocol as a TOML file."""

    name: str = Field(default="", description="name in reports; empty: the name of the file")
    title: str = Field(default="", description="short description; empty: the name")
    source: str = Field(default="", description="publication or study that defines the protocol")
    dataset: str | None = Field(default=None, description="data set by name")
    folder: str | None = Field(
        default=None, description="folder or archive of recordings, relative to the TOML file"
    )
    pattern: str | None = Field(
        default=None,
        description="names of the files in the folder, such as {label}/{subject}_{take}, or a sheet that lists them",
    )
    unit: str | float | None = Field(default=None, description="unit of the coordinates: m, cm, mm, in")
    up: str | None = Field(default=None, description="axis that points up: y, z, x, -y, -z, -x")
    rate: Annotated[float, Field(gt=0)] | None = Field(default=None, description="frames per second")
    layout: str | None = Field(
        default=None, description="layout of the joints, or a layout file relative to the TOML file"
    )
    mirror: bool = Field(default=False, description="whether the coordinates are left-handed")
    format: str | None = Field(default=None, description="file format; empty: detected")
    way: int = Field(default=5, ge=2, description="classes per test episode")
    shot: Count = Field(default=1, description="supports per class")
    queries: Count = Field(default=1, description="queries per class of a test episode")
    episodes: Count = Field(default=200, description="test episodes per split")
    validation_episodes: Count = Field(default=100, description="validation episodes per split")
    validation: float = Field(
        default=0.3, ge=0, lt=1, description="share of the training classes that is held out for validation"
    )
    apart: tuple[Literal["subject", "view"], ...] = Field(
        default=(), description="tags in which a query differs from the supports of its class"
    )
    classes: Annotated[
        RandomClassesConfig | ListedClassesConfig | SameClassesConfig, Field(discriminator="rule")
    ] = Field(
        default=RandomClassesConfig(), description="rule that selects training, validation and test classes"
    )
    cameras: tuple[CameraConfig, ...] = Field(default=(), description="choices of cameras, one split each")


@dataclass(frozen=True)
class FileProtocol(Protocol):
    """A protocol from a TOML file; ``folder`` holds the recordings if they are not a named data set."""

    folder: Path | None = None
    pattern: str | None = None
    options: ReadOptions = field(default_factory=ReadOptions)

    @property
    def get(self) -> str:
        """Where to get the data set."""
        if self.folder is None:
            return next(row.get for row in PROTOCOLS.values() if row.dataset == self.dataset)
        return f"put the recordings into {self.folder}, or change folder in the protocol"

    def place(self, root: str | Path | None = None) -> Path | None:
        """Return the expected folder or archive of the data."""
        return super().place(root) if self.folder is None or root is not None else self.folder

    def open(
        self,
        root: str | Path | None = None,
        *,
        pattern: str | None = None,
        options: ReadOptions | None = None,
    ) -> Dataset:
        """Open the recordings of the folder, or the data set by name.

        ``pattern`` says how the files of the folder are named; see ``open_dataset``. ``options`` replace those of the
        TOML file.

        Raises:
            DataError: The data is not there, or no recording has a label.
        """
        options = self.options.merge(options)
        if self.folder is None:
            if self._is_uncatalogued:
                return open_dataset(self.dataset, root, pattern=pattern, options=options)
            return super().open(root, pattern=pattern, options=options)
        place = self.place(root)
        if place is None or not place.exists():
            raise DataError(f"{self.name} needs the recordings in {place}, which does not exist")
        dataset = _open_place(place, pattern or self.pattern, options)
        if all(label is None for label in dataset.labels):
            raise DataError(
                f"{place}: no recording has a label, which a protocol needs; put the recordings of each action into "
                "a folder with its name, say how files are named, for example pattern = '{label}/{subject}_{take}' "
                "(--pattern), or prepare an archive with labels: jeanie prepare"
            )
        return dataset

    @property
    def _is_uncatalogued(self) -> bool:
        return self.dataset != "synthetic" and all(row.dataset != self.dataset for row in PROTOCOLS.values())


def _open_place(place: Path, pattern: str | None, options: ReadOptions) -> Dataset:
    """Open an archive or a folder; without a pattern, the name of a sub-folder is the label of its clips."""
    dataset = open_dataset(place, pattern=pattern, options=options)
    return _label_by_folder(dataset) if pattern is None and isinstance(dataset, FileDataset) else dataset


def _label_by_folder(dataset: FileDataset) -> FileDataset:
    """Return a data set whose clips without a label have the name of their folder as the label."""
    clips = [
        replace(clip, tags=replace(clip.tags, label=clip.name.split("/")[0]))
        if clip.tags.label is None and "/" in clip.name
        else clip
        for clip in dataset.clips
    ]
    return replace(dataset, clips=tuple(clips))


def get_protocol(name: str) -> Protocol:
    """Return the protocol with this name, or that of a TOML file or of a folder.

    Args:
        name: A key of ``PROTOCOLS``; the path of a TOML file; or a folder, archive or sheet of recordings with labels,
            whose classes are all tested, 5-way 1-shot.

    Raises:
        ConfigError: There is no such protocol or file, or the file has a wrong name or value.

    >>> get_protocol("synthetic").dataset
    'synthetic'
    """
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    if name.endswith(".toml"):
        return read_protocol(name)
    if Path(name).is_dir() or is_sheet(name):
        return _make_protocol(ProtocolConfig(folder=str(Path(name).resolve())), Path(name))
    raise ConfigError(
        f"no protocol {name!r}; the known ones are {', '.join(PROTOCOLS)}, or give a TOML file or a folder"
        f"{suggest_name(name, PROTOCOLS)}"
    )


def read_protocol(path: str | Path) -> FileProtocol:
    """Return the protocol of a TOML file.

    Raises:
        ConfigError: The file cannot be read, or has a wrong name or value.
    """
    path = Path(path)
    config = ProtocolConfig.from_file(path)
    name = config.name or path.stem
    if name in PROTOCOLS:
        raise ConfigError(f"{path}: the name {name!r} is that of a protocol of jeanie; set another name")
    if (config.dataset is None) == (config.folder is None):
        raise ConfigError(f"{path}: give either dataset, the name of a data set, or folder")
    if config.dataset is not None and config.dataset not in ("synthetic", *DATASETS):
        raise ConfigError(
            f"{path}: no data set {config.dataset!r}; the known ones are {', '.join(('synthetic', *DATASETS))}"
        )
    return _make_protocol(config, path)


def _make_protocol(config: ProtocolConfig, path: Path) -> FileProtocol:
    """Return the protocol of a configuration; files in it are relative to ``path``, a TOML file or a folder."""
    name = config.name or path.resolve().stem
    folder = None if config.folder is None else (path.parent / config.folder).resolve()
    rule, train_classes = _make_class_rule(config)
    return FileProtocol(
        name=f"{name}-folder" if name in PROTOCOLS else name,
        dataset=config.dataset or str(folder),
        title=config.title or name,
        source=config.source or str(path),
        way=config.way,
        ways=(config.way,),
        train_classes=(train_classes,),
        rules=Rules(
            rule,
            0,  # only the data set knows the classes
            cameras=tuple(_make_cameras(cameras) for cameras in config.cameras),
            validation=config.validation,
            apart=config.apart,
            queries=config.queries,
            episodes=config.episodes,
            validation_episodes=config.validation_episodes,
        ),
        shot=config.shot,
        folder=folder,
        pattern=_find_file(path, config.pattern),
        options=ReadOptions(
            format=config.format,
            layout=_find_file(path, config.layout),
            unit=config.unit,
            up=config.up,
            rate=config.rate,
            mirror=config.mirror,
        ),
    )


def _find_file(path: Path, text: str | None) -> str | None:
    """Return a pattern or a layout; the path of a sheet or a layout file is relative to the TOML file."""
    is_file = text is not None and (path.parent / text).is_file()
    return str(path.parent / text) if is_file and text is not None else text


def _make_class_rule(config: ProtocolConfig) -> tuple[ClassRule, int]:
    """Return the rule of the classes, and the number of training classes."""
    match config.classes:
        case RandomClassesConfig(train=train, seeds=seeds):
            return partial(split_randomly, seeds=seeds), train
        case ListedClassesConfig() as lists:
            return partial(_split_by_lists, lists=lists), len(lists.train)
    return _share_classes, 0


def _share_classes(classes: Sequence[Tag], train: int) -> tuple[ClassSplit, ...]:
    return share_all_classes(classes, train or len(classes))


def _split_by_lists(
    classes: Sequence[Tag], train: int, *, lists: ListedClassesConfig
) -> tuple[ClassSplit, ...]:
    """Return the one split of the listed classes; a class is found by its text, so 1 and "1" are the same."""
    names = {str(tag): tag for tag in classes}

    def find(tags: Sequence[TagConfig]) -> tuple[Tag, ...]:
        unknown = [str(tag) for tag in tags if str(tag) not in names]
        if unknown:
            raise ConfigError(
                f"the data set has no class {unknown[0]!r}; its classes are {', '.join(names)}"
                f"{suggest_name(unknown[0], names)}"
            )
        return tuple(names[str(tag)] for tag in tags)

    validation, test = find(lists.validation), find(lists.test)
    learnt = find(lists.train)[:train]
    shared = (set(learnt) & set(validation)) | (set(test) & (set(learnt) | set(validation)))
    if shared:
        raise ConfigError(f"classes in more than one list: {', '.join(sorted(map(str, shared)))}")
    return (ClassSplit("", (*learnt, *validation), test, validation=validation or None),)


def _make_cameras(config: CameraConfig) -> Cameras:
    name = config.name or f"{'+'.join(map(str, config.support))} to {'+'.join(map(str, config.query))}"
    return Cameras(name, config.train or config.support, config.support, config.query)
