"""Kinetics-skeleton: JSON files with 18 OpenPose key points of every person in every frame."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.clip_names import Tags, parse_tags
from jeanie.datasets.dataset import Clip, FileDataset, find_files
from jeanie.datasets.formats.json_files import expect_type, read_json, to_array
from jeanie.datasets.formats.keypoints import make_keypoint_motion, place_persons, select_best_two
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["KINETICS_SIZE", "open_kinetics", "read_kinetics"]

KINETICS_SIZE = (340.0, 256.0)  # width and height in pixels of all videos
MAX_PERSONS = 5  # persons per frame that are read
_LABEL = re.compile(rb'"label"\s*:\s*("(?:[^"\\]|\\.){0,200}")')


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def read_kinetics(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read a Kinetics-skeleton file. Coordinates are pixels from the centre of the image of 340 x 256 pixels.

    ``{"data": [{"frame_index", "skeleton": [{"pose": [x0, y0, ...], "score": [18]}]}], "label"}``. The first five
    persons of a frame are read and the best two are kept.
    """
    path = Path(path)
    value = expect_type(path, read_json(path), dict, "the file")
    data = expect_type(path, value.get("data"), list, "data")
    frames = [expect_type(path, frame, dict, "a frame") for frame in data]
    people = [
        expect_type(path, frame.get("skeleton"), list, "a frame's skeleton")[:MAX_PERSONS] for frame in frames
    ]
    places = _parse_frame_numbers(path, [frame.get("frame_index") for frame in frames])
    file_layout = LAYOUTS["openpose18"]
    pose = _collect(path, people, "pose", 2 * len(file_layout)).reshape(-1, len(file_layout), 2)
    score = _collect(path, people, "score", len(file_layout))
    points, scores = place_persons(path, places, [len(persons) for persons in people], pose, score)
    label = value.get("label")
    tags = replace(parse_tags(path), label=label) if isinstance(label, str | int) else None
    points, scores = select_best_two(points * np.array(KINETICS_SIZE), scores)
    return make_keypoint_motion(
        path, points, scores, file_layout, KINETICS_SIZE, layout=layout, rate=30.0, tags=tags
    )


def _collect(path: Path, people: Sequence[list[Any]], key: str, width: int) -> NDArray[np.float64]:
    """Return the numbers under a key of all persons of all frames, [persons, width]."""
    rows = [expect_type(path, person, dict, "a person").get(key) for persons in people for person in persons]
    return to_array(path, rows, (None, width), f"{key} of the persons") if rows else np.empty((0, width))


def _parse_frame_numbers(path: Path, numbers: list[Any]) -> NDArray[np.int64]:
    """Return the place of every frame by its number, from 0. Frames without any numbers are consecutive."""
    if not numbers:
        raise DataError(f"{path}: no frames in data")
    if all(number is None for number in numbers):
        return np.arange(len(numbers))
    if not all(isinstance(number, int) and 0 <= number < 2**40 for number in numbers):
        raise DataError(f"{path}: every frame needs a frame_index, a whole number from 0")
    places: NDArray[np.int64] = np.array(numbers, dtype=np.int64) - min(numbers)
    if len(np.unique(places)) != len(places):
        raise DataError(f"{path}: two frames have the same frame_index")
    return places


def open_kinetics(root: str | Path) -> FileDataset:
    """Open Kinetics-skeleton: ``kinetics_train/*.json`` and ``kinetics_val/*.json`` below ``root``.

    Labels come from ``kinetics_train_label.json`` and the like; clips that such a file marks as having no skeleton
    are dropped. Without such a file the label is read from the end of each clip's file.
    """
    files = find_files(root, "*.json", "Kinetics-skeleton")
    lists = [path for path in files if path.name.endswith("_label.json")]
    entries: dict[str, Any] = {}
    for path in lists:
        entries.update(expect_type(path, read_json(path), dict, "the list of labels"))
    clips, empty = [], []
    for path in files:
        entry = entries.get(path.stem)
        if isinstance(entry, dict) and entry.get("has_skeleton") is False:
            empty.append((path.stem, "listed as having no skeleton"))
        if path not in lists:
            label = entry.get("label") if isinstance(entry, dict) else _read_last_label(path)
            clips.append(Clip(path.stem, path, Tags(label=label if isinstance(label, str | int) else None)))
    return FileDataset("kinetics", LAYOUTS["openpose18"], tuple(clips), _read_clip).exclude(empty)


def _read_clip(clip: Clip) -> Motion:
    return read_kinetics(clip.source).replace(label=clip.tags.label)


def _read_last_label(path: Path) -> str | None:
    """Return the label in the last bytes of a Kinetics file, without reading the rest."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            labels = _LABEL.findall(file.read(4096))
        return str(json.loads(labels[-1])) if labels else None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: its label cannot be read: {error}") from None
