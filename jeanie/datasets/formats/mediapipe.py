"""MediaPipe Pose: JSON files with the landmarks of each frame."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.json_files import expect_type, read_json, to_array
from jeanie.datasets.formats.keypoints import MAX_PERSONS
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_mediapipe"]

WORLD_KEYS = ("pose_world_landmarks", "poseWorldLandmarks", "world_landmarks", "worldLandmarks")
IMAGE_KEYS = ("pose_landmarks", "poseLandmarks", "landmarks")


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def read_mediapipe(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read MediaPipe Pose results: a list of frames, or ``{"fps", "width", "height", "frames": [...]}``.

    A frame is a dict with world landmarks (metres, preferred) or image landmarks (parts of the image), or a plain
    list of image landmarks: 33 for one person, or a list of such lists for several. A landmark is
    ``{"x", "y", "z", ...}`` or ``[x, y, z, ...]``. A frame without landmarks is missing. x and y change sign. Image
    landmarks have the unit "relative": parts of the width, also for y if the file has the size of the image.
    """
    path = Path(path)
    value = read_json(path)
    header = value if isinstance(value, dict) else {}
    frames = expect_type(path, header.get("frames") if header else value, list, "the list of frames")
    keys = next(
        (keys for keys in (WORLD_KEYS, IMAGE_KEYS) if any(_find_landmarks(f, keys) for f in frames)), ()
    )
    people = [_split_persons(path, _find_landmarks(frame, keys)) for frame in frames]
    if not any(people):
        raise DataError(f"{path}: no landmarks in any of its {len(frames)} frames; expected {WORLD_KEYS[0]}")
    own = layout or LAYOUTS["mediapipe33"]
    rows = [[_parse_landmark(point) for point in person] for persons in people for person in persons]
    points = to_array(path, rows, (None, len(own), 3), "landmarks of the persons")
    counts = np.array([len(persons) for persons in people])
    check_size(path, len(people), int(counts.max()), len(own))
    placed = np.full((len(people), int(counts.max()), len(own), 3), np.nan)
    placed[np.arange(placed.shape[1]) < counts[:, None]] = points
    valid = np.isfinite(placed).all(-1) & (placed != 0).any(-1)
    scale = np.array([-1.0, -1.0, 1.0])
    if keys is not WORLD_KEYS:
        own = replace(own, unit="relative")
        scale[1] *= _aspect_ratio(header)
    rate = header.get("fps")
    rate = float(rate) if isinstance(rate, int | float) and 0 < rate < 1e6 else None
    return make_motion(path, placed * scale, own, valid=valid, rate=rate)


def _find_landmarks(frame: Any, keys: Sequence[str]) -> Any:
    """Return the value of a frame under one of the keys, or the frame itself if it is a list."""
    if isinstance(frame, list):
        return frame if keys is not WORLD_KEYS else None
    value = next((frame[key] for key in keys if frame.get(key)), None) if isinstance(frame, dict) else None
    return value.get("landmark") if isinstance(value, dict) else value


def _split_persons(path: Path, landmarks: Any) -> list[list[Any]]:
    """Return the persons of a frame, each a list of landmarks."""
    if not landmarks:
        return []
    first = expect_type(path, landmarks, list, "a frame's landmarks")[0]
    has_several = isinstance(first, list) and bool(first) and isinstance(first[0], list | dict)
    persons = landmarks if has_several else [landmarks]
    return [expect_type(path, person, list, "a person's landmarks") for person in persons[:MAX_PERSONS]]


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
