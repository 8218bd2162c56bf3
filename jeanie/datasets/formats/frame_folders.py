"""Folders with one JSON file per frame."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jeanie.datasets.formats.json_files import read_json
from jeanie.errors import DataError

__all__ = ["is_frame_folder", "list_frame_files", "read_frame_folder"]

MAX_FOLDER_BYTES = 2**29
_MAX_FRAME_BYTES = 2**18
_MAX_SPARSENESS = 20  # frames per file
_LANDMARKS = (
    "pose_world_landmarks", "poseWorldLandmarks", "world_landmarks", "worldLandmarks", "pose_landmarks",
    "poseLandmarks", "landmarks", "landmark",
)  # fmt: skip


def is_frame_folder(folder: Path) -> bool:
    """Return whether the JSON files of a folder are the frames of one recording.

    Their names differ in numbers only, and the first one holds one frame, not a list of frames.
    """
    files = list(folder.glob("*.json"))
    names = {re.sub(r"\d+", "0", file.name) for file in files}
    first = min(files, default=None)
    if first is None or len(files) < 2 or len(names) > 1 or first.stat().st_size > _MAX_FRAME_BYTES:
        return False
    try:
        return _is_one_frame(json.loads(first.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return False


def list_frame_files(folder: Path) -> list[Path | None]:
    """Return the file of every frame by the numbers in the names, None for a number that is missing.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for number in (2, 3, 5, 10):
    ...     (folder / f"frame_{number}.json").touch()
    >>> [file and file.stem for file in list_frame_files(folder)[:4]]
    ['frame_2', 'frame_3', None, 'frame_5']
    """
    files = sorted(folder.glob("*.json"), key=_number_key)
    if not files or sum(file.stat().st_size for file in files) > MAX_FOLDER_BYTES:
        raise DataError(f"{folder}: expected a folder with one JSON file per frame, found {len(files)}")
    numbers = _find_numbers(files)
    if numbers is None:
        return list(files)
    step = math.gcd(*(number - numbers[0] for number in numbers)) or 1
    places = [(number - numbers[0]) // step for number in numbers]
    if places[-1] >= _MAX_SPARSENESS * len(files) + 100:
        return list(files)
    files_by_frame: list[Path | None] = [None] * (places[-1] + 1)
    for place, file in zip(places, files, strict=True):
        files_by_frame[place] = file
    return files_by_frame


def read_frame_folder(folder: Path) -> Iterator[Any]:
    """Yield the value of every frame, None for a frame that is missing."""
    for file in list_frame_files(folder):
        yield None if file is None else read_json(file)


def _find_numbers(files: Sequence[Path]) -> list[int] | None:
    """Return the only numbers in which the names differ, if they grow from file to file."""
    rows = [[int(part[:18]) for part in re.findall(r"\d+", file.stem)] for file in files]
    if len({len(row) for row in rows}) != 1:
        return None
    different = [list(column) for column in zip(*rows, strict=True) if len(set(column)) > 1]
    if len(different) != 1 or any(a >= b for a, b in zip(different[0], different[0][1:], strict=False)):
        return None
    return different[0]


def _number_key(path: Path) -> list[tuple[int, str]]:
    """Return a sorting key that puts frame_2 before frame_10."""
    return [(int(part[:18]) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", path.name)]


def _is_one_frame(value: Any) -> bool:
    if isinstance(value, dict):
        if isinstance(value.get("people"), list) or isinstance(value.get("instances"), list):
            return True
        value = next((value[key] for key in _LANDMARKS if key in value), None)
        if isinstance(value, dict):
            return isinstance(value.get("landmark"), list)
    first = value[0] if isinstance(value, list) and value else None
    if isinstance(first, dict):
        return {"x", "y"} <= first.keys() or ("keypoints" in first and "image_id" not in first)
    return False
