"""Data sets with hand-made names and tags in place of recordings: without motions, or with short made-up ones."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from jeanie.datasets.clip_names import Tags, parse_tags
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.evaluation.protocols import PROTOCOLS, rules
from jeanie.skeleton.layout import LAYOUTS
from jeanie.skeleton.motion import Motion


class Unread:
    """Motions that must not be read: splits are made from tags alone."""

    def __len__(self):
        return 0

    def __getitem__(self, index):
        raise AssertionError("a protocol read a motion")


@dataclass(frozen=True)
class Tagged:
    """A data set of names and tags without a single motion."""

    name: str
    names: list[str]
    tags: list[Tags]
    motions: Unread = Unread()  # noqa: RUF009 it has no state
    layout = LAYOUTS["ntu25"]

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return self.motions[index]

    @property
    def labels(self):
        return [tags.label for tags in self.tags]

    @property
    def subjects(self):
        return [tags.subject for tags in self.tags]

    @property
    def views(self):
        return [tags.view for tags in self.tags]


def make_tagged_dataset(name, names):
    names = list(names)
    return Tagged(name, names, [parse_tags(one) for one in names])


def ntu(name, groups):
    """Names of NTU: every class of a group in its setups, by subjects 1 to 8 before three cameras."""
    return make_tagged_dataset(name, (
        f"S{setup:03}C{camera:03}P{subject:03}R001A{label:03}"
        for labels, setups in groups
        for setup, camera, subject, label in product(setups, (1, 2, 3), range(1, 9), labels)
    ))  # fmt: skip


def kinect(name, labels, subjects, takes, views=None):
    rows = product(labels, range(1, subjects + 1), range(1, takes + 1), views or [None])
    return make_tagged_dataset(name, (
        f"a{label:02}_s{subject:02}_e{take:02}" + (f"_v{view:02}" if view else "")
        for label, subject, take, view in rows
    ))  # fmt: skip


def kinetics():
    rows = [(f"class {label:03}", take) for label in range(400) for take in range(4)]
    return Tagged("kinetics", [f"{label} {take}" for label, take in rows], [Tags(label) for label, _ in rows])


PAIRS = ("s01s02", "s02s01", "s01s03", "s03s02", "s04s05", "s05s04")
NW_UCLA = (1, 2, 3, 4, 5, 6, 8, 9, 11, 12)
HAND_MADE = {
    "msraction3d": lambda: kinect("msraction3d", range(1, 21), 10, 3),
    "action-pairs": lambda: kinect("action-pairs", range(1, 13), 10, 3),
    "uwa3d": lambda: kinect("uwa3d", range(1, 31), 10, 2),
    "uwa3d-multiview": lambda: kinect("uwa3d-multiview", range(1, 31), 9, 1, (1, 2, 3, 4)),
    "ntu60": lambda: ntu("ntu60", [(range(1, 61), (1, 2))]),
    "ntu120": lambda: ntu("ntu120", [(range(1, 61), (1, 2, 3)), (range(61, 121), (18, 19, 20))]),
    "kinetics": kinetics,
    "nw-ucla": lambda: kinect("nw-ucla", NW_UCLA, 9, 4, (1, 2, 3)),
    "sbu": lambda: make_tagged_dataset(
        "sbu", [f"{pair}/{a:02}/{t:03}/x" for pair in PAIRS for a in range(1, 9) for t in (1, 2)]
    ),
    "synthetic": lambda: replace(open_synthetic(subjects=3), read=Unread().__getitem__),
}  # fmt: skip


def hand_made(name):
    if PROTOCOLS[name].rules.listed:
        return make_tagged_dataset(
            PROTOCOLS[name].dataset, rules.read_released_list(PROTOCOLS[name].rules.listed)
        )
    return HAND_MADE[PROTOCOLS[name].dataset]()


@dataclass(frozen=True)
class Motions:
    """Short motions of one pose per class with much noise, made when they are read."""

    tags: list[Tags]

    def __len__(self):
        return len(self.tags)

    def __getitem__(self, index):
        tags = self.tags[index]
        pose = np.random.default_rng(sum(str(tags.label).encode())).normal(size=(1, 25, 3))
        noise = np.random.default_rng(index).normal(size=(6, 25, 3))
        return Motion(torch.from_numpy(0.3 * pose + noise).float(), LAYOUTS["ntu25"], label=tags.label)


def stand_in(name):
    """Enough clips per class for the shots; the setups of the vertical protocol have published heights."""
    if name in ("ntu120-horizontal", "ntu120-vertical"):
        made = make_tagged_dataset("ntu120", (
            f"S{setup:03}C{camera:03}P{subject:03}R001A{label:03}"
            for setup, camera, subject, label in product((7, 1, 16), (1, 2, 3), range(1, 15), range(1, 121))
        ))  # fmt: skip
    elif name == "kinetics":
        tags = [Tags(f"class {label:03}") for label in range(400) for _ in range(7)]
        made = replace(hand_made(name), names=[f"clip {i}" for i in range(len(tags))], tags=tags)
    elif name == "sbu":
        pairs = [f"s{i:02}s{j:02}" for i in range(1, 8) for j in range(1, 8) if i != j]
        made = make_tagged_dataset(
            "sbu", [f"{pair}/{a:02}/{t:03}/x" for pair in pairs for a in range(1, 9) for t in (1, 2)]
        )
    elif name == "synthetic":
        clips = open_synthetic(subjects=7)
        numbers = {name: number for number, name in enumerate(clips.names)}
        motions = Motions([clip.tags for clip in clips.clips])
        return replace(clips, read=lambda clip: motions[numbers[clip.name]])
    else:
        made = hand_made(name)
    return replace(made, motions=Motions(list(made.tags)))
