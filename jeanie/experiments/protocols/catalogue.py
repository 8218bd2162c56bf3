"""The protocols by name: which data, which classes and cameras train and test, and how episodes are drawn.

``docs/protocols.md`` says of each where it comes from and what was decided where its source is silent.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from jeanie.datasets import Dataset, open_dataset
from jeanie.errors import ConfigError, DataError
from jeanie.experiments.protocols import places as table
from jeanie.experiments.protocols.divisions import combined, drawn, everything, named, same_and_novel
from jeanie.experiments.protocols.rules import Cameras, Rules, Setups, build, class_counts, split_count
from jeanie.experiments.protocols.splits import Split
from jeanie.fewshot.episodes import Tag

__all__ = ["PROTOCOLS", "Protocol", "protocol"]

PAPER = "Wang, Liu, Koniusz: 3D Skeleton-based Few-shot Action Recognition with JEANIE is not so Naive, 2021"
LIU = "Liu et al.: NTU RGB+D 120, TPAMI 2019"


@dataclass(frozen=True)
class Protocol:
    """An experiment that others can repeat.

    ``ways`` and ``train_classes`` are the published choices, the first number of training classes is the
    default. What is listed binds nobody: `splits` takes any number that the data can serve.
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
        """Where the data set is had, and what to run then."""
        return table.GET[self.dataset]

    def place(self, root: str | Path | None = None) -> Path | None:
        """Folder or archive where the data is expected; None for generated data, or where nothing says."""
        if root is not None:
            return Path(root)
        home = os.environ.get("JEANIE_DATA")
        return Path(home) / self.dataset if home and self.dataset != "synthetic" else None

    def available(self, root: str | Path | None = None) -> bool:
        """Whether the data seems to be there: generated, or a folder or file in its place."""
        place = self.place(root)
        return self.dataset == "synthetic" if place is None else place.exists()

    def open(self, root: str | Path | None = None) -> Dataset:
        """The data set, from ``root`` or the folder of its name in ``$JEANIE_DATA``."""
        if not self.available(root):
            place = self.place(root) or f"$JEANIE_DATA/{self.dataset} (JEANIE_DATA is not set)"
            raise DataError(f"{self.name} needs {self.dataset}, which is not at {place}. Get it: {self.get}")
        return open_dataset(self.dataset, root)

    def counts(self, train_classes: int | None = None) -> tuple[tuple[int, int, int], ...]:
        """Numbers of training, validation and test classes that occur in the splits; needs no data."""
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
        train_classes: int | None = None,
        validation: float | int | None = None,
        apart: Sequence[str] | None = None,
        setups: Setups | None = None,
    ) -> tuple[Split, ...]:
        """All splits, from the tags of a data set alone.

        ``way`` is cut to the number of test classes of a split. ``validation`` is the part of the training
        classes that is held out, 0 for a last training on all of them. ``apart`` replaces the tags in which
        queries differ from supports. ``setups`` are groups of setup numbers where cameras are told by height.
        """
        rules = self.rules
        if validation is not None:
            if not 0 <= validation < 1:
                raise ConfigError(f"validation is a part of the training classes, 0 to 1, got {validation}")
            rules = replace(rules, validation=validation)
        if apart is not None:
            rules = replace(rules, apart=tuple(apart))
        count = self.train_classes[0] if train_classes is None else train_classes
        return build(
            rules, dataset, way=way, usual_way=self.way, shot=self.shot, train_classes=count, setups=setups
        )


def one_pair(subject: Tag) -> Tag:
    """SBU names who acts first; the same two persons are one pair in either order.

    >>> one_pair("s03s01")
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
        rules=Rules(drawn, tuple(range(1, 21))),
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
            partial(named, test=range(11, 21)),
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
        rules=Rules(partial(combined, group=2), tuple(range(1, 13)), group=2, episodes=100),
    ),
    Protocol(
        name="uwa3d",
        dataset="uwa3d",
        title="UWA3D Activity, 10 random halves of the classes",
        source=PAPER,
        way=10,
        ways=(5, 10),
        train_classes=(15,),
        rules=Rules(drawn, tuple(range(1, 31))),
    ),
    Protocol(
        name="uwa3d-multiview",
        dataset="uwa3d-multiview",
        title="UWA3D Multiview Activity II, 12 choices of two training cameras and a test camera",
        source=PAPER,
        way=30,
        ways=(30,),
        train_classes=(30,),
        rules=Rules(everything, tuple(range(1, 31)), cameras=table.UWA_VIEWS, validation=0.2, episodes=50),
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
            partial(named, test=range(1, 60, 6)),
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
            partial(named, test=table.NTU120_NOVEL),
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
                partial(same_and_novel, test=table.NTU120_NOVEL),
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
        rules=Rules(partial(drawn, seeds=(0,)), 400, validation=0.2, episodes=1000),
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
            drawn,
            (1, 2, 3, 4, 5, 6, 8, 9, 11, 12),
            cameras=table.NW_UCLA_PAIRS,
            apart=("subject",),
            left_out=table.NW_UCLA_ONE_FRAME,
        ),
    ),
    Protocol(
        name="nwucla-published",
        dataset="nw-ucla",
        title="Northwestern-UCLA, a published one-shot protocol from cameras 1 and 2 to 3, to the generator call",
        source="the benchmark of the library torchwarp",
        way=5,
        ways=(5,),
        train_classes=(5,),
        rules=Rules(
            partial(named, test=(6, 8, 9, 11, 12), seeds=range(5)),
            (1, 2, 3, 4, 5, 6, 8, 9, 11, 12),
            cameras=(Cameras("1+2 to 3", (1, 2), (1, 2), (3,)),),
            validation=0.0,
            queries=5,
            episodes=300,
            published=True,
            left_out=table.NW_UCLA_ONE_FRAME,
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
        rules=Rules(drawn, tuple(range(1, 9)), people=one_pair, apart=("subject",)),
    ),
    Protocol(
        name="synthetic",
        dataset="synthetic",
        title="The embedded data set, novel classes from cameras that training has not seen",
        source="jeanie",
        way=10,
        ways=(5, 10, 20),
        train_classes=(55,),
        rules=Rules(
            partial(drawn, seeds=(0,)),
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


def protocol(name: str) -> Protocol:
    """The protocol of this name."""
    if name not in PROTOCOLS:
        raise ConfigError(f"no protocol {name!r}; the known ones are {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]
