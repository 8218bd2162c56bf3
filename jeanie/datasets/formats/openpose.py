"""OpenPose: JSON files with the key points of each person, one file per frame or a list of frames."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.frame_folders import read_frame_folder
from jeanie.datasets.formats.json_files import (
    expect_type,
    list_numbered,
    read_json_lines,
    to_array,
)
from jeanie.datasets.formats.keypoints import (
    MAX_PERSONS,
    make_keypoint_motion,
    place_persons,
    select_best_two,
)
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_openpose"]

Floats = NDArray[np.float64]
People = list[dict[str, Any]]

OPENPOSE_LAYOUTS = {18: LAYOUTS["openpose18"], 25: LAYOUTS["openpose25"]}
MAX_KEYPOINT_NUMBERS = 2**24  # of all persons in all frames
_KEYS_2D = ("pose_keypoints_2d", "pose_keypoints")
_KEY_3D = "pose_keypoints_3d"
_KEYS = ("person_id", *_KEYS_2D, _KEY_3D)


def read_openpose(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read an OpenPose file of one frame, a list of frames, or a folder with one file per frame.

    ``{"people": [{"person_id": [-1], "pose_keypoints_2d": [u, v, confidence, ...]}]}``, 18 or 25 key points in
    pixels. If any person has ``pose_keypoints_3d`` (OpenPose's --3d), (x, y, z, 1 or 0) per key point, only those
    are read; their unit is that of the calibration, which the file does not name. If every person has an id,
    persons are the ids; otherwise the best two of each frame are kept.
    """
    path = Path(path)
    people = _read_people(path)
    if has_3d := any(person.get(_KEY_3D) for persons in people for person in persons):
        people = [[person for person in persons if person.get(_KEY_3D)] for persons in people]
    flat = [person for persons in people for person in persons]
    if not flat:
        raise DataError(f"{path}: nobody in any of its {len(people)} frames; leave it out")
    points, file_layout = _parse_key_points(path, flat, has_3d, layout)
    ids = [_parse_id(person) for person in flat]
    counts = np.array([len(persons) for persons in people])
    frame_of = np.repeat(np.arange(len(people)), counts)
    if None not in ids and len(set(zip(frame_of.tolist(), ids, strict=True))) == len(ids):
        person_of = {person: index for index, person in enumerate(dict.fromkeys(ids))}
        placed_points = _place_by_id(
            path, frame_of, [person_of[person] for person in ids], points, len(people)
        )
    else:
        placed_points = select_best_two(
            *place_persons(path, np.arange(len(people)), counts.tolist(), points[..., :-1], points[..., -1])
        )
    return make_keypoint_motion(path, *placed_points, file_layout, (0.0, 0.0), layout=layout)


def _read_people(path: Path) -> list[People]:
    """Return the persons of each frame, in the order of the numbers in the names of the files; a gap is nobody."""
    if not path.is_dir():
        value = read_json_lines(path)
        if isinstance(value, dict) and "people" not in value:
            value = list_numbered(value) or value.get("frames") or value
        return [_parse_people(path, frame) for frame in (value if isinstance(value, list) else [value])]
    people: list[People] = []
    numbers = 0
    for frame in read_frame_folder(path):
        people.append([] if frame is None else _parse_people(path, frame))
        numbers += sum(len(v) for person in people[-1] for v in person.values() if isinstance(v, list))
        if numbers > MAX_KEYPOINT_NUMBERS:
            raise DataError(
                f"{path}: more than {MAX_KEYPOINT_NUMBERS} numbers in {len(people)} frames; cut it into clips"
            )
    return people


def _parse_people(path: Path, frame: Any) -> People:
    """Return the persons of a frame with their id and key points, without hands and faces."""
    persons = expect_type(path, expect_type(path, frame, dict, "a frame").get("people"), list, "people")
    people = [expect_type(path, person, dict, "a person") for person in persons[:MAX_PERSONS]]
    return [{key: person[key] for key in _KEYS if key in person} for person in people]


def _parse_key_points(
    path: Path, people: People, has_3d: bool, layout: Layout | None
) -> tuple[Floats, Layout]:
    """Return coordinates and confidence [person, joint, 3 or 4] of all persons, and their layout."""
    names = (_KEY_3D,) if has_3d else _KEYS_2D
    rows = [next((person[name] for name in names if name in person), None) for person in people]
    numbers = to_array(path, rows, (None, None), f"{names[0]} of the persons")
    width = 4 if has_3d else 3
    joints, remainder = divmod(numbers.shape[1], width)
    if remainder or (joints not in OPENPOSE_LAYOUTS and layout is None):
        raise DataError(
            f"{path}: {numbers.shape[1]} numbers per person; expected {width} x 18 or {width} x 25, "
            "or give a layout"
        )
    file_layout = layout or OPENPOSE_LAYOUTS[joints]
    if has_3d and layout is None:
        file_layout = replace(file_layout, dims=3, unit="relative")
    return numbers.reshape(-1, joints, width), file_layout


def _parse_id(person: dict[str, Any]) -> int | None:
    """Return OpenPose's id of a person, None for a person that it did not track ([-1])."""
    value = person.get("person_id")
    number = value[0] if isinstance(value, list) and value else value
    return number if isinstance(number, int) and number >= 0 else None


def _place_by_id(
    path: Path, frame: NDArray[np.int64], person: list[int], points: Floats, frames: int
) -> tuple[Floats, Floats]:
    check_size(path, frames, max(person) + 1, points.shape[1])
    placed_points = np.full((frames, max(person) + 1, *points.shape[1:]), np.nan)
    placed_points[frame, person] = points
    return placed_points[..., :-1], np.nan_to_num(placed_points[..., -1])
