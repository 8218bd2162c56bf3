"""PRECOG: continuous Kinect v1 sequences of kicks, punches and elbow strikes with one label per frame."""

import re
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.clip_names import Tags
from jeanie.datasets.dataset import Clip, FileDataset, find_files
from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.rows import open_lines, parse_rows
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["PRECOG_HEADER", "list_movements", "open_precog", "read_precog", "read_precog_labels"]

PRECOG_HEADER = b"HipCenter; Spine; ShoulderCenter; Head"
_RATE = 30.0
_EMPTY = ("Seq2_10", "Seq4_10")  # published without a single joint
_JOINTS = 20
_NAME = re.compile(r"Seq(\d{1,3})_(\d{1,3})\.csv")


def open_precog(root: str | Path) -> FileDataset:
    """Open the sequences ``SeqQ_S.csv`` of subject S; ``take`` is Q. They hold several movements, so no label."""
    files = find_files(root, "Seq*_*.csv", "PRECOG")
    return FileDataset(
        "precog",
        LAYOUTS["kinect20"],
        tuple(Clip(path.stem, path, _parse_name(path)) for path in files if path.stem not in _EMPTY),
        _read_clip,
        tuple((path.stem, "all joints are 0") for path in files if path.stem in _EMPTY),
    )


def read_precog(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read a sequence: a header, then rows of 20 x ``x y z`` and the label, separated by semicolons; metres, y up."""
    path = Path(path)
    rows = _read_rows(path)
    joints = rows[:, :-1].reshape(-1, 1, _JOINTS, 3)
    return make_motion(
        path, joints, LAYOUTS["kinect20"], layout=layout, rate=_RATE, name=path.stem, tags=_parse_name(path)
    )


def read_precog_labels(path: str | Path) -> list[int]:
    """Read the label of each frame; 0 is no movement."""
    return [int(label) for label in _read_rows(Path(path))[:, -1]]


def list_movements(labels: list[int]) -> list[tuple[int, int, int]]:
    """Return (first frame, end, label) of every movement; the end is exclusive."""
    movements, at = [], 0
    for label, frames in groupby(labels):
        count = len(list(frames))
        if label:
            movements.append((at, at + count, label))
        at += count
    return movements


def _read_clip(clip: Clip) -> Motion:
    return read_precog(clip.source)


def _parse_name(path: Path) -> Tags:
    match = _NAME.fullmatch(path.name)
    return Tags(subject=int(match[2]), take=int(match[1])) if match else Tags()


def _read_rows(path: Path) -> NDArray[np.float64]:
    with open_lines(path) as lines:
        header = next(lines, "")
        if not header.encode().startswith(PRECOG_HEADER):
            raise DataError(
                f"{path}, line 1: expected the joint names of PRECOG, got {header.strip()[:60]!r}"
            )
        rows = (line.replace(";", " ") for line in lines)
        return parse_rows(path, rows, width=3 * _JOINTS + 1, first_line=2)
