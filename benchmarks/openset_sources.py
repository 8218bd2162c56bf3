"""Sources of movements for ``openset.py``: each is what one sensor would record, with labels and subjects."""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from jeanie.datasets import Dataset, open_dataset
from jeanie.pretraining.augment import STRONG_AUGMENTATION, AugmentationStrength, augment, retime
from jeanie.pretraining.gestures import draw_gestures, draw_near_misses, perform
from jeanie.skeleton import LAYOUTS, Motion
from jeanie.skeleton.canonical_body import sample_core_joints

CHANCES = ("burst", "hidden", "drop")  # settings of an augmentation that are probabilities
LONGEST = 600  # frames of a clip
CLIPS = 250  # clips per source
GESTURES, TAKES = 30, 8  # classes and performances per class
DEVELOP = range(1, 7)  # subjects of PRECOG that may be used to fit
SENSOR = ("jitter", "burst", "hidden", "warp", "crop", "amplitude", "slow_rad", "guess")  # not of a sensor
# joints of Rocketbox in the order of the core joints
ROCKETBOX = (
    "head", "neck", "spine1", "l_shoulder", "l_elbow", "l_hand", "r_shoulder", "r_elbow", "r_hand", "l_hip", "l_knee",
    "l_ankle", "r_hip", "r_knee", "r_ankle",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """Clips of one sensor. Sources of one ``family`` are left out together."""

    name: str
    family: str
    motions: Sequence[Motion]
    labels: Sequence[str]
    subjects: Sequence[str]

    def take(self, count: int, seed: int = 0) -> "Source":
        """Return at most ``count`` clips, as evenly over the labels as possible."""
        order = np.random.default_rng(seed).permutation(len(self.motions))
        counts: dict[str, int] = {}
        rank = []
        for row in order:
            counts[self.labels[row]] = counts.get(self.labels[row], 0) + 1
            rank.append(counts[self.labels[row]])
        rows = sorted(order[np.argsort(rank, kind="stable")[:count]].tolist())
        columns = ([column[row] for row in rows] for column in (self.motions, self.labels, self.subjects))
        return Source(self.name, self.family, *columns)

    def change(self, strength: float, sensor: int) -> "Source":
        """Return the clips of one person as other bodies perform them before another sensor."""
        rows = [row for row, motion in enumerate(self.motions) if motion.persons == 1]
        made = [augment_motion(self.motions[row], strength, 1000 * sensor + row, sensor) for row in rows]
        labels, subjects = ([column[row] for row in rows] for column in (self.labels, self.subjects))
        return Source(f"{self.name}, changed", self.family, made, labels, subjects)


def scale_augmentation(strength: float, **fixed: float) -> AugmentationStrength:
    """Return the strong augmentation times a factor, with some settings fixed."""
    values = {
        name: strength * getattr(STRONG_AUGMENTATION, name) for name in AugmentationStrength.model_fields
    }
    values |= {name: min(1.0, values[name]) for name in CHANCES}
    return AugmentationStrength(**values | fixed)


def augment_motion(motion: Motion, strength: float, seed: int, sensor: int | None = None) -> Motion:
    """Return a motion of one person as another body would do it in another manner before another sensor.

    Clips with the same ``sensor`` share its constant errors: tilt, bone lengths, biased joints and limbs.
    """
    joints = sample_core_joints(motion, 64)[0][:1]
    if sensor is not None:
        constant = scale_augmentation(1.5, **dict.fromkeys(SENSOR, 0.0))
        joints = augment(joints, constant, torch.Generator().manual_seed(sensor))
    generator, augmentation = torch.Generator().manual_seed(seed), scale_augmentation(strength)
    made = augment(retime(joints, augmentation, generator, 48), augmentation, generator)
    return Motion(made[0][:, None], LAYOUTS["core15"], rate=motion.rate)


def select_clips(
    data: Dataset, family: str, longest: int | None = None, per_label: int | None = None
) -> Source:
    """Return the labelled clips of a data set, those of at most ``longest`` frames and ``per_label`` per label."""
    rows: dict[str, list[int]] = {}
    for row in np.random.default_rng(0).permutation(len(data)).tolist():
        label = data.labels[row]
        own = rows.setdefault(str(label), [])
        if label is not None and (per_label is None or len(own) < per_label):
            own.append(row)
    clips = [row for own in rows.values() for row in own if longest is None or len(data[row]) <= longest]
    labels, subjects = (
        [str(column[row]) for row in sorted(clips)] for column in (data.labels, data.subjects)
    )
    return Source(family, family, [data[row] for row in sorted(clips)], labels, subjects)


def make_gestures(name: str, seed: int, strength: float, sensor: int | None) -> Source:
    """Return performances of random gestures; half of the classes are near misses of the other half."""
    generator = torch.Generator().manual_seed(seed)
    classes = draw_gestures(GESTURES // 2, generator)
    classes = classes.concatenate(draw_near_misses(classes, generator))
    motions, labels, subjects = [], [], []
    for take in range(TAKES):
        for label, joints in enumerate(perform(classes, generator, 48)):
            motion = Motion(joints[:, None], LAYOUTS["core15"], rate=30.0)
            motions.append(augment_motion(motion, strength, 10000 * seed + 100 * take + label, sensor))
            labels.append(str(label))
            subjects.append(str(take))
    return Source(name, "gestures", motions, labels, subjects)


def read_rocketbox(root: Path) -> Source:
    """Return the Rocketbox animations; clips that differ in a number have one label, the bodies are the subjects."""
    table = json.loads((root / "rocketbox_30fps.json").read_text())
    columns = [table["joints"].index(name) for name in ROCKETBOX]
    motions, labels, subjects = [], [], []
    with np.load(root / "rocketbox_30fps_mm.npz") as arrays:
        for clip in table["clips"]:
            group, _, name = clip["id"].partition("__")
            body = name[:2] if name[:2] in ("f_", "m_") else ""
            joints = torch.from_numpy(arrays[clip["id"]][:, columns] / 1000).float()
            motions.append(Motion(joints[:, None], LAYOUTS["core15"], rate=30.0))
            name = re.sub(r"_\d+$", "", name.removeprefix(body)).replace("breathe", "neutral")
            labels.append(f"{group} {name}")
            subjects.append(body)
    return Source("rocketbox", "rocketbox", motions, labels, subjects)


def read_precog(root: Path, subjects: Sequence[int] = DEVELOP) -> Source:
    """Return the labelled movements of some subjects of PRECOG."""
    motions, labels, people = [], [], []
    for path in sorted(root.glob("Seq*_*.csv")):
        subject = int(path.stem.split("_")[1])
        if subject not in subjects:
            continue
        lines = path.read_text().splitlines()[1:]
        rows = np.array([line.replace(";", " ").split() for line in lines if line.strip()], dtype=np.float64)
        number = rows[:, -1].astype(int)
        ends = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(number)]
        for start, end in pairwise(ends):
            if number[start] and end - start >= 8:
                joints = torch.from_numpy(rows[start:end, :60]).float().reshape(-1, 1, 20, 3)
                motions.append(Motion(joints, LAYOUTS["kinect20"], rate=30.0))
                labels.append(str(number[start]))
                people.append(str(subject))
    return Source("precog", "precog", motions, labels, people)


def open_sources() -> Iterator[Source]:
    """Yield all sources that may be used to fit and to choose."""
    root = Path(os.environ["JEANIE_DATA"])
    makers: tuple[tuple[Callable[[], Source], tuple[float, int] | None], ...] = (
        (lambda: select_clips(open_dataset("cmu"), "cmu", LONGEST), (1.0, 7)),
        (lambda: select_clips(open_dataset("synthetic"), "synthetic", per_label=5), (1.2, 9)),
        (lambda: read_rocketbox(root / "rocketbox"), (1.0, 8)),
        (lambda: read_precog(root / "precog"), None),
        (lambda: make_gestures("gestures", 1, 0.7, 4), None),
        (lambda: make_gestures("gestures, worse sensor", 2, 1.3, 5), None),
    )
    for make, change in makers:
        source = make().take(CLIPS)
        yield source
        if change is not None:
            yield source.change(*change)
