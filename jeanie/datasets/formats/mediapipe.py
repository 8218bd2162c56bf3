"""MediaPipe Pose: JSON files, or JSON lines, with the landmarks of each frame."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.frame_folders import read_frame_folder
from jeanie.datasets.formats.json_files import expect_type, list_numbered, read_json_lines, to_array
from jeanie.datasets.formats.keypoints import MAX_PERSONS
from jeanie.datasets.formats.landmark_lists import is_by_axis, parse_names, parse_person
from jeanie.datasets.formats.landmarks import MEDIAPIPE, is_mediapipe, make_landmark_motion
from jeanie.datasets.formats.units import estimate_frame_rate, rotate_to_y_up
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_mediapipe"]

WORLD_KEYS = (
    "pose_world_landmarks", "poseWorldLandmarks", "world_landmarks", "worldLandmarks", "keypoints3D",
)  # fmt: skip
IMAGE_KEYS = ("pose_landmarks", "poseLandmarks", "landmarks", "keypoints")
# keys of files that do not say whether landmarks are of the image or of the world
PLAIN_KEYS = ("landmark", "pose", "points", "joints", "skeleton")
_KEYS = (WORLD_KEYS, IMAGE_KEYS, PLAIN_KEYS)
_FRAME_LISTS = ("frames", "data", "results", "poses")
_PERSON_LISTS = ("people", "persons", "poses", "bodies", "detections")
_WRAPPERS = ("result", "results", "output", "prediction")
_RATE_KEYS = ("fps", "frame_rate", "framerate", "frameRate", "video_fps", "rate")
_WIDTH_KEYS, _HEIGHT_KEYS = ("width", "image_width", "imageWidth"), ("height", "image_height", "imageHeight")
# keys of the time of a frame -> seconds per unit; None: by the step of the times
_TIME_KEYS = {
    "timestamp_ms": 1e-3, "timestampMs": 1e-3, "time_ms": 1e-3, "timestamp_us": 1e-6, "timestampUs": 1e-6,
    "time_us": 1e-6, "time_s": 1.0, "timestamp_s": 1.0, "time_sec": 1.0, "timestamp": None, "time": None, "ts": None,
    "t": None,
}  # fmt: skip


class _People(list[Any]):
    """The landmarks of several persons of a frame."""


def read_mediapipe(path: str | Path, *, layout: Layout | None = None, up: str | None = None) -> Motion:
    """Read MediaPipe Pose results: a list of frames, JSON lines, ``{"fps", "width", "height", "frames": [...]}``, or a
    folder with one file per frame.

    A frame is a dict with world landmarks (metres, preferred) or image landmarks (parts of the image), the
    ``{"landmark": [...]}`` of protobuf's MessageToDict, a dict by name of the landmark, or a plain list: 33 landmarks
    for one person, or a list of such lists for several. A landmark is ``{"x", "y", "z", ...}``, with or without its
    name or index, or ``[x, y, z, ...]``, also without z or with its number in front. A frame without landmarks is
    missing. x and y change sign. Image landmarks have the unit "relative": parts of the width, also for y if the file
    has the size of the image. Without a key that says which of the two they are, landmarks around the hips are world
    landmarks. Joints of another ``layout`` in 3-D are metres, y up, unless declared. The frame rate is
    that of the header, or comes from the times of the frames.
    """
    path = Path(path)
    value = list(read_frame_folder(path)) if path.is_dir() else read_json_lines(path)
    header, value = _split_header(value)
    frames = value if path.is_dir() else _list_frames(path, value)
    keys = next((keys for keys in _KEYS if any(_find_landmarks(frame, keys) for frame in frames)), ())
    people = [_split_persons(path, _find_landmarks(frame, keys)) for frame in frames]
    if not any(people):
        raise DataError(f"{path}: no landmarks in any of its {len(frames)} frames; expected {WORLD_KEYS[0]}")
    file_layout = layout or MEDIAPIPE
    rows = [parse_person(path, person, file_layout) for persons in people for person in persons]
    _check_count(path, rows, file_layout)
    points = to_array(path, rows, (None, len(file_layout), 3), "landmarks of the persons")
    counts = np.array([len(persons) for persons in people])
    check_size(path, len(people), int(counts.max()), len(file_layout))
    placed_points = np.full((len(people), int(counts.max()), len(file_layout), 3), np.nan)
    placed_points[np.arange(placed_points.shape[1]) < counts[:, None]] = points
    is_flat = bool(np.isnan(placed_points[..., 2]).all())
    if is_flat:
        placed_points[..., 2] = np.where(np.isnan(placed_points[..., 0]), np.nan, 0.0)
        file_layout = replace(file_layout, dims=2)
    rate = _find_number(header, _RATE_KEYS) or _find_rate(frames)
    if keys in (PLAIN_KEYS, IMAGE_KEYS) and not is_flat and not is_mediapipe(file_layout):
        return make_motion(path, rotate_to_y_up(placed_points, up or "y"), file_layout, rate=rate)
    is_known = (
        {WORLD_KEYS: True, IMAGE_KEYS: False}.get(keys)
        if len(file_layout) == len(MEDIAPIPE)
        else keys is WORLD_KEYS
    )
    return make_landmark_motion(
        path,
        placed_points,
        file_layout,
        world=is_known and not is_flat,
        up=up or "-y",
        aspect_ratio=_find_aspect_ratio(header),
        rate=rate,
    )


def _split_header(value: Any) -> tuple[dict[str, Any], Any]:
    """Return the facts about the recording, and the value without a first line that has only such facts."""
    if isinstance(value, list) and len(value) > 1 and isinstance(value[0], dict):
        first = value[0]
        has_facts = any(key in first for key in (*_RATE_KEYS, *_WIDTH_KEYS))
        if has_facts and not any(_find_landmarks(first, keys) for keys in _KEYS):
            return first, value[1:]
    return (value if isinstance(value, dict) else {}), value


def _check_count(path: Path, rows: list[Any], file_layout: Layout) -> None:
    """Raise DataError if a person has another number of landmarks than the layout."""
    other = next((len(row) for row in rows if isinstance(row, list) and len(row) != len(file_layout)), None)
    if other is not None:
        raise DataError(
            f"{path}: a person with {other} landmarks, expected {len(file_layout)} as in {file_layout.name}; hands and "
            "faces are not read; for other joints give a layout: layout= (--layout)"
        )


def _list_frames(path: Path, value: Any) -> list[Any]:
    if isinstance(value, dict):
        content = next((value[key] for key in _FRAME_LISTS if isinstance(value.get(key), list | dict)), None)
        if content is None:
            content = list_numbered(value)
        if content is None and any(key in value for keys in _KEYS for key in keys):
            content = _list_one_key(value)
        value = list_numbered(content) or content
    elif isinstance(value, list) and value and all(map(_is_point, value)):
        value = [value]  # the landmarks of a single frame
    frames: list[Any] = expect_type(path, value, list, "the list of frames")
    return frames


def _is_point(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(axis), int | float) for axis in "xy")


def _list_one_key(value: dict[str, Any]) -> list[Any]:
    """Return the frames of a dict that has the landmarks of all frames under one key, or is one frame."""
    key = next(key for keys in _KEYS for key in keys if key in value)
    content = value[key]
    first = content[0] if isinstance(content, list) and content else None
    several = isinstance(first, dict) and ("landmark" in first or "landmarks" in first)
    if several or (isinstance(first, list) and first and isinstance(first[0], list | dict)):
        return [{key: frame} for frame in content]
    return [value]


def _find_landmarks(frame: Any, keys: Sequence[str]) -> Any:
    """Return the value of a frame under one of the keys, or the frame if it is a plain list or a dict by name."""
    if isinstance(frame, list):
        return frame if keys is PLAIN_KEYS else None
    if not isinstance(frame, dict):
        return None
    frame = _unwrap(frame)
    people = next((frame[key] for key in _PERSON_LISTS if isinstance(frame.get(key), list)), None)
    if people is not None and all(isinstance(person, dict) for person in people):
        bodies = [_find_landmarks(person, keys) for person in people[:MAX_PERSONS]]
        return _People(person for person in bodies if person)
    value = next((frame[key] for key in keys if frame.get(key)), None)
    if value is None and keys is PLAIN_KEYS and (parse_names(frame) or is_by_axis(frame)):
        return frame
    if isinstance(value, dict) and is_by_axis(value):
        return value
    if isinstance(value, dict):
        return value.get("landmark") or value.get("landmarks") or (value if parse_names(value) else None)
    return value


def _unwrap(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the result within a frame of the form {"frame": 3, "result": {...}}."""
    inner = next((frame[key] for key in _WRAPPERS if isinstance(frame.get(key), dict)), None)
    return frame if inner is None else inner


def _split_persons(path: Path, landmarks: Any) -> list[Any]:
    """Return the persons of a frame, each a list of landmarks or a dict by name."""
    if not landmarks:
        return []
    if isinstance(landmarks, dict):
        return [landmarks]
    if isinstance(landmarks, _People):
        return landmarks
    first = expect_type(path, landmarks, list, "a frame's landmarks")[0]
    if isinstance(first, dict) and "landmark" in first and isinstance(first["landmark"], list):
        return [person.get("landmark") for person in landmarks[:MAX_PERSONS] if isinstance(person, dict)]
    has_several = isinstance(first, list) and bool(first) and isinstance(first[0], list | dict)
    persons = landmarks if has_several else [landmarks]
    return [expect_type(path, person, list, "a person's landmarks") for person in persons[:MAX_PERSONS]]


def _find_aspect_ratio(header: dict[str, Any]) -> float:
    """Return the height of the image in parts of its width, 1 if unknown."""
    width, height = _find_number(header, _WIDTH_KEYS), _find_number(header, _HEIGHT_KEYS)
    return height / width if width and height else 1.0


def _find_number(header: dict[str, Any], keys: Sequence[str]) -> float | None:
    """Return the first number above 0 and below a million under one of the keys, in a dict or in a dict of it."""
    for table in (header, *(value for value in header.values() if isinstance(value, dict))):
        for key in keys:
            value = _parse_number(table.get(key))
            if 0 < value < 1e6:
                return value
    return None


def _parse_number(value: Any) -> float:
    """Return a number, also one in quotes or a fraction as of ffprobe, "30000/1001"; NaN for anything else."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}(?:\.\d{0,9})?(?:/[1-9]\d{0,8})?", value.strip()):
        above, _, below = value.partition("/")
        return float(above) / float(below or 1)
    return float(value) if isinstance(value, int | float) else float("nan")


def _find_rate(frames: Sequence[Any]) -> float | None:
    """Return the frame rate from the times of the frames; times that are frame numbers give None."""
    for key, unit in _TIME_KEYS.items():
        times = [frame.get(key) for frame in frames if isinstance(frame, dict)]
        if len(times) > 1 and all(isinstance(time, int | float) for time in times):
            rate = estimate_frame_rate(np.array(times, np.float64), unit)
            return None if rate is not None and rate < 1.5 else rate
    return None
