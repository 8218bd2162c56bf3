"""The protocols by name: data set, training and test classes, cameras, and how episodes are drawn.

``docs/protocols.md`` gives the source of each protocol, and our choices where the source is silent.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from jeanie.datasets import Dataset, ReadOptions, open_dataset
from jeanie.errors import ConfigError, DataError
from jeanie.evaluation.protocols import published as table
from jeanie.evaluation.protocols.class_splits import (
    share_all_classes,
    split_by_group,
    split_by_name,
    split_randomly,
    split_same_and_novel,
)
from jeanie.evaluation.protocols.rules import Cameras, Rules, Setups, build_splits, class_counts, split_count
from jeanie.evaluation.protocols.splits import Split
from jeanie.fewshot.episodes import Tag

__all__ = ["PROTOCOLS", "Protocol"]

PAPER = "Wang, Liu, Koniusz: 3D Skeleton-based Few-shot Action Recognition with JEANIE is not so Naive, 2021"
LIU = "Liu et al.: NTU RGB+D 120, TPAMI 2019"


@dataclass(frozen=True)
class Protocol:
    """A reproducible experiment: a data set and the rules for its splits.

    Attributes:
        name, title: Name on the command line, and a short description.
        dataset: Name of the data set.
        source: Publication that defines the protocol.
        way, shot: Default number of classes per episode, and supports per class.
        ways, train_classes: Published numbers; the first number of training classes is the default. `splits`
            accepts other numbers too.
        rules: How splits are built.

    >>> protocol = PROTOCOLS["synthetic"]
    >>> protocol.way, protocol.shot, protocol.split_count
    (10, 1, 1)
    """

    name: str
    dataset: str
    title: str
    source: str
    way: int
    ways: tuple[int, ...]
    train_classes: tuple[int, ...]
    rules: Rules
    shot: int = 1

    @property
    def get(self) -> str:
        """Where to get the data set, and what to run then."""
        return table.GET[self.dataset]

    def place(self, root: str | Path | None = None) -> Path | None:
        """Return the expected folder or archive of the data; None for generated data, or if no folder is known."""
        if root is not None:
            return Path(root)
        home = os.environ.get("JEANIE_DATA")
        return Path(home) / self.dataset if home and self.dataset != "synthetic" else None

    def available(self, root: str | Path | None = None) -> bool:
        """Return whether the data is generated, or its folder or file exists."""
        place = self.place(root)
        return self.dataset == "synthetic" if place is None else place.exists()

    def open(
        self,
        root: str | Path | None = None,
        *,
        pattern: str | None = None,
        options: ReadOptions | None = None,
    ) -> Dataset:
        """Open the data set in ``root``, or in the folder of its name in ``$JEANIE_DATA``.

        ``pattern`` says how the files of a folder of one's own are named, and ``options`` how they are read; see
        ``open_dataset``.

        Raises:
            DataError: The data is not there.
        """
        if not self.available(root):
            place = self.place(root) or f"$JEANIE_DATA/{self.dataset} (JEANIE_DATA is not set)"
            raise DataError(f"{self.name} needs {self.dataset}, which is not at {place}. Get it: {self.get}")
        root = self.place(root) if pattern is not None else root
        return open_dataset(self.dataset, root, pattern=pattern, options=options)

    def counts(self, train_classes: int | None = None) -> tuple[tuple[int, int, int], ...]:
        """Return the numbers of training, validation and test classes that occur in the splits; needs no data."""
        return class_counts(self.rules, self.train_classes[0] if train_classes is None else train_classes)

    @property
    def split_count(self) -> int:
        """Number of splits with the default number of training classes; needs no data."""
        return split_count(self.rules, self.train_classes[0])

    def splits(
        self,
        dataset: Dataset,
        *,
        way: int | None = None,
        shot: int | None = None,
        train_classes: int | None = None,
        validation: float | None = None,
        apart: Sequence[str] | None = None,
        setups: Setups | None = None,
        root: str | Path | None = None,
    ) -> tuple[Split, ...]:
        """Build all splits from the tags of a data set; no motion is read.

        Args:
            dataset: The data set.
            way: Classes per test episode, at most the number of test classes (default: that of the protocol).
            shot: Supports per class (default: that of the protocol). Published exemplars are one per test class, so
                another way or shot draws random episodes of the test classes instead.
            train_classes: Number of training classes (default: the first of ``self.train_classes``).
            validation: Share of the training classes that is held out; 0 trains on all of them.
            apart: Tags in which queries differ from supports (default: those of the protocol).
            setups: Groups of setup numbers, for protocols that group cameras by height.
            root: Folder of the data set (default: the one that it was opened from). The file ``setups.csv``
                beside it is read if ``setups`` is not given.

        Raises:
            ConfigError: An option is out of range, or the data set has too few classes or clips.
        """
        rules = self.rules
        if validation is not None:
            if not 0 <= validation < 1:
                raise ConfigError(f"validation is a share of the training classes, 0 to 1, got {validation}")
            rules = replace(rules, validation=validation)
        if apart is not None:
            rules = replace(rules, apart=tuple(apart))
        count = self.train_classes[0] if train_classes is None else train_classes
        return build_splits(
            rules,
            dataset,
            way=way,
            default_way=self.way,
            shot=self.shot if shot is None else shot,
            train_classes=count,
            setups=setups,
            root=self.place(getattr(dataset, "root", None) if root is None else root),
        )


def sort_pair(subject: Tag) -> Tag:
    """Sort the two persons of an SBU subject, whose name starts with the person who acts first.

    >>> sort_pair("s03s01")
    's01s03'
    """
    text = str(subject)
    return "".join(sorted((text[:3], text[3:])))


_ROWS = (
    Protocol(
        name="msraction3d-splits",
        dataset="msraction3d",
        title="MSRAction3D, 10 random halves of the classes",
        source=PAPER,
        way=10,
        ways=(5, 10),
        train_classes=(10,),
        rules=Rules(split_randomly, tuple(range(1, 21))),
    ),
    Protocol(
        name="msraction3d-exemplars",
        dataset="msraction3d",
        title="MSRAction3D, the authors' fixed exemplars, with and without them among the queries",
        source=f"{PAPER}; released lists of its authors",
        way=10,
        ways=(10,),
        train_classes=(10,),
        rules=Rules(
            partial(split_by_name, test=range(11, 21)),
            tuple(range(1, 21)),
            exemplars=table.MSR_EXEMPLARS,
            repeated=True,
        ),
    ),
    Protocol(
        name="action-pairs",
        dataset="action-pairs",
        title="3D Action Pairs, all 20 choices of 3 of its 6 pairs",
        source=PAPER,
        way=5,
        ways=(5,),
        train_classes=(6,),
        rules=Rules(partial(split_by_group, group=2), tuple(range(1, 13)), group=2, episodes=100),
    ),
    Protocol(
        name="uwa3d",
        dataset="uwa3d",
        title="UWA3D Activity, 10 random halves of the classes",
        source=PAPER,
        way=10,
        ways=(5, 10),
        train_classes=(15,),
        rules=Rules(split_randomly, tuple(range(1, 31))),
    ),
    *(
        Protocol(
            name=f"{dataset}-exemplars",
            dataset=dataset,
            title=f"{name}, the authors' fixed split and exemplars, with and without them among the queries",
            source=f"{PAPER}; released lists of its authors",
            way=half,
            ways=(half,),
            train_classes=(half,),
            rules=Rules(
                partial(split_by_name, test=range(half + 1, 2 * half + 1)),
                tuple(range(1, 2 * half + 1)),
                group=group,
                exemplars=exemplars,
                repeated=True,
                listed=dataset,
            ),
        )
        for dataset, name, half, group, exemplars in (
            ("action-pairs", "3D Action Pairs", 6, 2, table.PAIRS_EXEMPLARS),
            ("uwa3d", "UWA3D Activity", 15, 1, table.UWA_EXEMPLARS),
        )
    ),
    Protocol(
        name="uwa3d-multiview-released",
        dataset="uwa3d-multiview",
        title="UWA3D Multiview Activity II, the authors' fixed split: cameras 1 and 2 to 3",
        source=f"{PAPER}; released lists of its authors",
        way=30,
        ways=(30,),
        train_classes=(30,),
        rules=Rules(
            share_all_classes,
            tuple(range(1, 31)),
            cameras=(Cameras("1+2 to 3", (1, 2), (1, 2), (3,)),),
            validation=0.2,
            episodes=50,
            listed="uwa3d-multiview",
        ),
    ),
    Protocol(
        name="uwa3d-multiview",
        dataset="uwa3d-multiview",
        title="UWA3D Multiview Activity II, 12 choices of two training cameras and a test camera",
        source=PAPER,
        way=30,
        ways=(30,),
        train_classes=(30,),
        rules=Rules(
            share_all_classes, tuple(range(1, 31)), cameras=table.UWA_VIEWS, validation=0.2, episodes=50
        ),
    ),
    Protocol(
        name="ntu60-oneshot",
        dataset="ntu60",
        title="NTU RGB+D 60, one-shot, 50 training and 10 novel classes",
        source=PAPER,
        way=10,
        ways=(10,),
        train_classes=(50, 40, 30, 20, 10),
        rules=Rules(
            partial(split_by_name, test=range(1, 60, 6)),
            tuple(range(1, 61)),
            exemplars=table.NTU60_EXEMPLARS,
            validation=0.2,
        ),
    ),
    Protocol(
        name="ntu120-oneshot",
        dataset="ntu120",
        title="NTU RGB+D 120, one-shot, 100 training and 20 novel classes",
        source=LIU,
        way=20,
        ways=(20,),
        train_classes=(100, 80, 60, 40, 20),
        rules=Rules(
            partial(split_by_name, test=table.NTU120_NOVEL),
            tuple(range(1, 121)),
            exemplars=table.NTU120_EXEMPLARS,
            validation=0.2,
        ),
    ),
    *(
        Protocol(
            name=f"ntu120-{direction}",
            dataset="ntu120",
            title=f"NTU RGB+D 120, {direction} views, the same 100 and 20 novel classes",
            source=PAPER,
            way=100,
            ways=(20, 100),
            train_classes=(100,),
            rules=Rules(
                partial(split_same_and_novel, test=table.NTU120_NOVEL),
                tuple(range(1, 121)),
                cameras=cameras,
                cameras_by=cameras_by,
                reserve=3,
                validation=0.2,
                apart=("subject",),
                episodes=50,
            ),
        )
        for direction, cameras, cameras_by in (
            ("horizontal", table.NTU_HORIZONTAL, "view"),
            ("vertical", table.NTU_VERTICAL, "height"),
        )
    ),
    Protocol(
        name="kinetics",
        dataset="kinetics",
        title="Kinetics-skeleton, 200 training and 200 novel classes",
        source=PAPER,
        way=5,
        ways=(5,),
        train_classes=(200,),
        rules=Rules(partial(split_randomly, seeds=(0,)), 400, validation=0.2, episodes=1000),
    ),
    Protocol(
        name="nwucla-crossview",
        dataset="nw-ucla",
        title="Northwestern-UCLA, one-shot between all pairs of cameras",
        source="jeanie",
        way=10,
        ways=(5, 10),
        train_classes=(0, 5),
        rules=Rules(
            split_randomly,
            (1, 2, 3, 4, 5, 6, 8, 9, 11, 12),
            cameras=table.NW_UCLA_PAIRS,
            apart=("subject",),
            excluded=table.NW_UCLA_ONE_FRAME,
        ),
    ),
    Protocol(
        name="nwucla-published",
        dataset="nw-ucla",
        title="Northwestern-UCLA, a published one-shot protocol from cameras 1 and 2 to 3, with its random draws",
        source="the benchmark of the library torchwarp",
        way=5,
        ways=(5,),
        train_classes=(5,),
        rules=Rules(
            partial(split_by_name, test=(6, 8, 9, 11, 12), seeds=range(5)),
            (1, 2, 3, 4, 5, 6, 8, 9, 11, 12),
            cameras=(Cameras("1+2 to 3", (1, 2), (1, 2), (3,)),),
            validation=0.0,
            queries=5,
            episodes=300,
            published=True,
            excluded=table.NW_UCLA_ONE_FRAME,
        ),
    ),
    Protocol(
        name="sbu",
        dataset="sbu",
        title="SBU Kinect Interaction, one-shot, supports by other pairs of persons",
        source="jeanie",
        way=8,
        ways=(3, 8),
        train_classes=(0, 5),
        rules=Rules(split_randomly, tuple(range(1, 9)), merge_subjects=sort_pair, apart=("subject",)),
    ),
    Protocol(
        name="synthetic",
        dataset="synthetic",
        title="The synthetic data set, novel classes from cameras that are not used in training",
        source="jeanie",
        way=10,
        ways=(5, 10, 20),
        train_classes=(55,),
        rules=Rules(
            partial(split_randomly, seeds=(0,)),
            75,
            cameras=table.SYNTHETIC_CAMERAS,
            validation=0.2,
            apart=("subject",),
            episodes=100,
            validation_episodes=50,
        ),
    ),
)
PROTOCOLS: dict[str, Protocol] = {row.name: row for row in _ROWS}
