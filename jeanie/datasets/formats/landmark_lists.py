"""Lists of landmarks in JSON files, as programs write them: dicts or lists, in order, by name or by index."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jeanie.datasets.formats.landmarks import MEDIAPIPE
from jeanie.datasets.rig_names import normalise_name, translate_names
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout

__all__ = ["is_by_axis", "parse_names", "parse_person"]

_INDEX_KEYS = ("index", "id", "landmark_id", "landmark_index", "idx", "type")
_NAME_KEYS = ("name", "landmark", "landmark_name", "joint", "part")
_POINT_KEYS = (
    "position3D",
    "position",
    "point",
    "coordinates",
)  # ML Kit and others put the coordinates one level down


def parse_person(path: Path, person: Any, file_layout: Layout) -> Any:
    """Return the coordinates (x, y, z) of a person's landmarks in the order of the layout; z is None in 2-D.

    A landmark that is null is missing.
    """
    if isinstance(person, dict):
        if is_by_axis(person):
            columns = [person[axis] if isinstance(person.get(axis), list) else [] for axis in "xyz"]
            columns = [column or [None] * len(person["x"]) for column in columns]
            return [list(point) for point in zip(*columns, strict=False)]
        return _place_by_name(path, person, file_layout)
    if not isinstance(person, list):
        return person
    if person and all(isinstance(value, int | float) for value in person):
        size, remainder = divmod(len(person), len(file_layout))
        if remainder or size < 2:
            return person
        return [_pad(person[at : at + min(3, size)]) for at in range(0, len(person), size)]
    person = [[None] * 3 if point is None else point for point in person]
    if all(isinstance(point, dict) for point in person):
        index_key = next(
            (key for key in _INDEX_KEYS if all(isinstance(p.get(key), int) for p in person)), None
        )
        if index_key is not None:
            return _place_by_index(path, [(point[index_key], point) for point in person], file_layout)
        name_key = next((key for key in _NAME_KEYS if all(isinstance(p.get(key), str) for p in person)), None)
        if name_key is not None and person:
            return _place_by_name(path, {point[name_key]: point for point in person}, file_layout)
    if _have_numbers(person):
        return _place_by_index(path, [(point[0], point[1:]) for point in person], file_layout)
    return [_parse_landmark(point) for point in person]


def is_by_axis(person: dict[str, Any]) -> bool:
    """Return whether landmarks are lists of all x, all y and, in 3-D, all z."""
    return all(isinstance(person.get(axis), list) for axis in "xy")


def _have_numbers(person: Sequence[Any]) -> bool:
    """Return whether every landmark is a list that starts with its number: [0, x, y], [1, x, y], ..."""
    lists = all(isinstance(point, list) and 3 <= len(point) <= 5 for point in person)
    return lists and len(person) > 2 and [point[0] for point in person] == list(range(len(person)))


def _place_by_index(path: Path, points: Sequence[tuple[int, Any]], file_layout: Layout) -> list[Any]:
    placed_points: list[Any] = [[None] * 3 for _ in file_layout.joints]
    for index, point in points:
        if not 0 <= index < len(file_layout):
            raise DataError(f"{path}: landmark {index}; expected 0 to {len(file_layout) - 1}")
        placed_points[index] = _parse_landmark(point)
    return placed_points


def _place_by_name(path: Path, points: dict[str, Any], file_layout: Layout) -> list[Any]:
    index_of = parse_names(points)
    unknown = [name for name, joint in index_of.items() if joint not in file_layout.joints]
    if len(unknown) == len(points):
        raise DataError(
            f"{path}: no landmark of {file_layout.name!r} among {', '.join(map(str, unknown))[:99]}"
        )
    known = {joint: points[name] for name, joint in index_of.items() if joint in file_layout.joints}
    return [_parse_landmark(known[joint]) if joint in known else [None] * 3 for joint in file_layout.joints]


def parse_names(points: dict[str, Any]) -> dict[str, str]:
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
        inner = next((point[key] for key in _POINT_KEYS if isinstance(point.get(key), dict | list)), None)
        if inner is not None:
            return _parse_landmark(inner)
        return tuple(point.get(axis, point.get(axis.upper())) for axis in "xyz")
    return _pad(point[:3]) if isinstance(point, list) else point


def _pad(point: list[Any]) -> list[Any]:
    return [*point, None] if len(point) == 2 else point
