"""MediaPipe Pose: JSON files, or JSON lines, with the landmarks of each frame."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.json_files import expect_type, list_numbered, read_json_lines, to_array
from jeanie.datasets.formats.keypoints import MAX_PERSONS
from jeanie.datasets.formats.landmarks import MEDIAPIPE, make_landmark_motion
from jeanie.datasets.rig_names import normalise_name, translate_names
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
_INDEX_KEYS = ("index", "id", "landmark_id", "landmark_index", "idx")
_NAME_KEYS = ("name", "landmark", "landmark_name", "joint", "part")


def read_mediapipe(path: str | Path, *, layout: Layout | None = None, up: str | None = None) -> Motion:
    """Read MediaPipe Pose results: a list of frames, JSON lines, or ``{"fps", "width", "height", "frames": [...]}``.

    A frame is a dict with world landmarks (metres, preferred) or image landmarks (parts of the image), the
    ``{"landmark": [...]}`` of protobuf's MessageToDict, a dict by name of the landmark, or a plain list: 33 landmarks
    for one person, or a list of such lists for several. A landmark is ``{"x", "y", "z", ...}``, with or without its
    name or index, or ``[x, y, z, ...]``. A frame without landmarks is missing. x and y change sign. Image landmarks
    have the unit "relative": parts of the width, also for y if the file has the size of the image. Without a key that
    says which of the two they are, landmarks around the hips are world landmarks.
    """
    path = Path(path)
    value = read_json_lines(path)
    header = value if isinstance(value, dict) else {}
    frames = _list_frames(path, value)
    keys = next((keys for keys in _KEYS if any(_find_landmarks(frame, keys) for frame in frames)), ())
    people = [_split_persons(path, _find_landmarks(frame, keys)) for frame in frames]
    if not any(people):
        raise DataError(f"{path}: no landmarks in any of its {len(frames)} frames; expected {WORLD_KEYS[0]}")
    own = layout or MEDIAPIPE
    rows = [_parse_person(path, person, own) for persons in people for person in persons]
    points = to_array(path, rows, (None, len(own), 3), "landmarks of the persons")
    counts = np.array([len(persons) for persons in people])
    check_size(path, len(people), int(counts.max()), len(own))
    placed = np.full((len(people), int(counts.max()), len(own), 3), np.nan)
    placed[np.arange(placed.shape[1]) < counts[:, None]] = points
    rate = header.get("fps")
    rate = float(rate) if isinstance(rate, int | float) and 0 < rate < 1e6 else None
    is_known = (
        {WORLD_KEYS: True, IMAGE_KEYS: False}.get(keys) if len(own) == len(MEDIAPIPE) else keys is WORLD_KEYS
    )
    return make_landmark_motion(
        path, placed, own, world=is_known, up=up or "-y", aspect_ratio=_aspect_ratio(header), rate=rate
    )


def _list_frames(path: Path, value: Any) -> list[Any]:
    if isinstance(value, dict):
        found = next((value[key] for key in _FRAME_LISTS if isinstance(value.get(key), list | dict)), None)
        if found is None:
            found = list_numbered(value)
        if found is None and any(key in value for keys in _KEYS for key in keys):
            found = _list_one_key(value)
        value = list_numbered(found) or found
    frames: list[Any] = expect_type(path, value, list, "the list of frames")
    return frames


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
    value = next((frame[key] for key in keys if frame.get(key)), None)
    if value is None and keys is PLAIN_KEYS and _parse_names(frame):
        return frame
    if isinstance(value, dict):
        return value.get("landmark") or value.get("landmarks") or (value if _parse_names(value) else None)
    return value


def _split_persons(path: Path, landmarks: Any) -> list[Any]:
    """Return the persons of a frame, each a list of landmarks or a dict by name."""
    if not landmarks:
        return []
    if isinstance(landmarks, dict):
        return [landmarks]
    first = expect_type(path, landmarks, list, "a frame's landmarks")[0]
    if isinstance(first, dict) and "landmark" in first and isinstance(first["landmark"], list):
        return [person.get("landmark") for person in landmarks[:MAX_PERSONS] if isinstance(person, dict)]
    has_several = isinstance(first, list) and bool(first) and isinstance(first[0], list | dict)
    persons = landmarks if has_several else [landmarks]
    return [expect_type(path, person, list, "a person's landmarks") for person in persons[:MAX_PERSONS]]


def _parse_person(path: Path, person: Any, own: Layout) -> Any:
    """Return the coordinates of a person's landmarks in the order of the layout."""
    if isinstance(person, dict):
        return _place_by_name(path, person, own)
    if not isinstance(person, list):
        return person
    if person and all(isinstance(value, int | float) for value in person):
        size, rest = divmod(len(person), len(own))
        return person if rest or size < 3 else [person[at : at + 3] for at in range(0, len(person), size)]
    if all(isinstance(point, dict) for point in person):
        index_key = next(
            (key for key in _INDEX_KEYS if all(isinstance(p.get(key), int) for p in person)), None
        )
        if index_key is not None:
            return _place_by_index(path, [(point[index_key], point) for point in person], own)
        name_key = next((key for key in _NAME_KEYS if all(isinstance(p.get(key), str) for p in person)), None)
        if name_key is not None and person:
            return _place_by_name(path, {point[name_key]: point for point in person}, own)
    return [_parse_landmark(point) for point in person]


def _place_by_index(path: Path, points: Sequence[tuple[int, Any]], own: Layout) -> list[Any]:
    placed: list[Any] = [[None] * 3 for _ in own.joints]
    for index, point in points:
        if not 0 <= index < len(own):
            raise DataError(f"{path}: landmark {index}; expected 0 to {len(own) - 1}")
        placed[index] = _parse_landmark(point)
    return placed


def _place_by_name(path: Path, points: dict[str, Any], own: Layout) -> list[Any]:
    index_of = _parse_names(points)
    unknown = [name for name, joint in index_of.items() if joint not in own.joints]
    if len(unknown) == len(points):
        raise DataError(f"{path}: no landmark of {own.name!r} among {', '.join(map(str, unknown))[:99]}")
    known = {joint: points[name] for name, joint in index_of.items() if joint in own.joints}
    return [_parse_landmark(known[joint]) if joint in known else [None] * 3 for joint in own.joints]


def _parse_names(points: dict[str, Any]) -> dict[str, str]:
    """Return the joint of every key of a dict of points; empty if it is none."""
    named = [
        name
        for name, value in points.items()
        if isinstance(value, list | dict) and re.match(r"(?:\w+\.)?[A-Za-z][A-Za-z _]+$", name)
    ]
    plain = [normalise_name(name.rsplit(".", 1)[-1]) for name in named]
    joints = translate_names(plain)
    known = set(joints) & set(MEDIAPIPE.joints)
    return dict(zip(named, joints, strict=True)) if len(known) >= 3 else {}


def _parse_landmark(point: Any) -> Any:
    if isinstance(point, dict):
        return (point.get("x"), point.get("y"), point.get("z"))
    return point[:3] if isinstance(point, list) else point


def _aspect_ratio(header: dict[str, Any]) -> float:
    """Return the height of the image in parts of its width, 1 if unknown."""
    width, height = header.get("width"), header.get("height")
    if isinstance(width, int | float) and isinstance(height, int | float):
        return float(height / width) if 0 < width < 1e6 and 0 < height < 1e6 else 1.0
    return 1.0
