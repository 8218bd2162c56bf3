"""JSON files of frames whose joints have names, as game engines, sensors and own programs write them."""

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from jeanie.datasets.formats.csv_table import read_table
from jeanie.datasets.formats.json_files import list_numbered, read_json_lines
from jeanie.datasets.formats.json_table import write_rows
from jeanie.datasets.formats.keypoints import MAX_PERSONS
from jeanie.datasets.formats.landmarks import MEDIAPIPE
from jeanie.datasets.rig_names import normalise_name, translate_names
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["is_named_frames", "read_named_frames"]

_POINT_KEYS = (
    "position",
    "pos",
    "point",
    "location",
    "translation",
    "coordinates",
    "position3d",
    "world",
    "value",
)
_NAME_KEYS = ("name", "joint", "joint_name", "joint_type", "bone", "bone_name", "landmark", "part", "marker", "label",
              "type", "id", "key")  # fmt: skip
_ID_KEYS = ("person_id", "body_id", "track_id", "tracking_id", "skeleton_id", "id", "person", "name")
_FRAME_LISTS = ("frames", "data", "results", "poses", "samples", "recording", "motion", "animation")
_RATE_KEYS = ("fps", "frame_rate", "framerate", "sample_rate", "sampling_rate", "rate", "frequency", "hz")
_TIME = re.compile(r"(?:time(?:_?stamp)?|t|ts)(?:_(?:s|sec|seconds|ms|us|usec|ns))?")
_NAMES_KEY = re.compile(r"(?:\w*names|joints|bones|labels|keypoints|markers|landmarks|segments)")
_MIN_POINTS, _MAX_DEPTH, _MEDIAPIPE_POINTS = 3, 4, 20
_KEY_OF_POINT = re.compile(
    rb'"([^"\\]{1,64})"\s{0,9}:\s{0,99}(?:\{\s{0,99}"(?:[xX]|[pP]osition|pos|point|location|translation)"\s{0,9}:'
    rb"|\[\s{0,99}-?\d[^\[\]{}]{0,99}\])"
)
_NAME_OF_POINT = re.compile(
    rb'"(?:\w*[nN]ame|joint|joint_?[tT]ype|JointType|bone|landmark|part|marker)"\s{0,9}:\s{0,9}"([^"\\]{1,64})"'
)
_LIST_OF_NAMES = re.compile(
    rb'"(?:\w*[nN]ames|joints|bones|labels|keypoints|markers|landmarks|segments)"\s{0,9}:\s{0,9}\[((?:\s{0,99}"[^"\\]{1,64}",?){3,512})'
)

Points = dict[str, list[Any]]


def is_named_frames(name: str, head: bytes) -> bool:
    """Return whether the first bytes of a file are JSON with named joints that are not those of MediaPipe Pose."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return False
    texts = {*_KEY_OF_POINT.findall(head), *_NAME_OF_POINT.findall(head)}
    for names in _LIST_OF_NAMES.findall(head):
        texts |= set(re.findall(rb'"([^"]+)"', names))
    plain = [normalise_name(text.decode("utf-8", "replace")) for text in sorted(texts)]
    joints = (
        set(translate_names(plain)) - set(_POINT_KEYS) - {"rotation", "velocity", "orientation", "quaternion"}
    )
    known = joints & set(MEDIAPIPE.joints)
    return len(joints) >= _MIN_POINTS and len(known) < min(_MEDIAPIPE_POINTS, len(joints))


def read_named_frames(
    path: str | Path,
    *,
    unit: str | float | None = None,
    up: str | None = None,
    layout: Layout | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Motion:
    """Read frames of named joints from a JSON file or JSON lines, with the rules of ``read_csv`` for names and units.

    A frame is a dict, or has a dict or list somewhere in it, with joints: ``{"Head": [x, y, z]}``, ``{"Head": {"x",
    "y", "z"}}``, ``[{"name": "Head", "position": {...}}]``; or lists of numbers in the order of a list of names, such
    as ``joint_names``, of the whole file. Frames are in a list, in ``frames`` or in a dict by number. Several
    persons are a list. Rotations and other values are ignored.
    """
    path = Path(path)
    value = read_json_lines(path)
    names = _find_names(value)
    records = list(_list_records(path, _list_frames(path, value, names), names))
    if not records:
        raise DataError(
            f"{path}: no positions of named joints in its frames; expected {{'Head': [x, y, z], ...}} per frame, "
            "or rotations were saved instead of positions: export positions"
        )
    titles = list(dict.fromkeys(title for record in records for title in record))
    rows = ([record.get(title) for title in titles] for record in records)
    motion = read_table(
        path, write_rows(chain([titles], rows)), unit=unit, up=up, layout=layout, aliases=aliases
    )
    rate = _find_rate(value)
    return motion if rate is None or motion.rate is not None else motion.replace(rate=rate)


def _list_records(path: Path, frames: list[Any], names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield one record per frame and person: frame, person, time, and name_x, name_y, name_z of every joint."""
    for number, frame in enumerate(frames):
        time = _find_time(frame)
        for person, points in _find_people(frame, names):
            record: dict[str, Any] = {"frame": number, "person": person, **time}
            for name, point in points.items():
                record |= {f"{name}_{axis}": value for axis, value in zip("xyz", point, strict=False)}
            yield record
    if not frames:
        raise DataError(f"{path}: has no frames")


def _list_frames(path: Path, value: Any, names: list[str]) -> list[Any]:
    if isinstance(value, dict):
        lower = {normalise_name(key): inner for key, inner in value.items()}
        content = next((lower[key] for key in _FRAME_LISTS if isinstance(lower.get(key), list | dict)), None)
        if content is None:
            content = list_numbered(value)
        if content is None:  # the longest list of frames
            lists = [inner for inner in value.values() if isinstance(inner, list) and inner]
            bodies = [inner for inner in lists if _find_people(inner[0], names)]
            content = max(bodies, key=len, default=None)
        value = list_numbered(content) or content
    if isinstance(value, dict):
        value = _list_frames(path, value, names)
    if isinstance(value, list) and value and _is_joint(value[0]):
        value = [value]
    if not isinstance(value, list):
        raise DataError(f"{path}: no list of frames; expected a list, or {{'frames': [...]}}")
    return value


def _find_people(frame: Any, names: list[str], depth: int = _MAX_DEPTH) -> list[tuple[Any, Points]]:
    """Return (person, points by name) of a frame."""
    points = _read_body(frame, names)
    if points is not None:
        return [(0, points)]
    if depth == 0:
        return []
    if isinstance(frame, list):
        people = []
        for number, person in enumerate(frame[:MAX_PERSONS]):
            people += [
                (_find_id(person, number), points) for _, points in _find_people(person, names, depth - 1)[:1]
            ]
        return people
    if isinstance(frame, dict):
        candidates = [
            _find_people(inner, names, depth - 1)
            for inner in frame.values()
            if isinstance(inner, dict | list)
        ]
        return max(candidates, key=lambda people: sum(len(points) for _, points in people), default=[])
    return []


def _read_body(value: Any, names: list[str]) -> Points | None:
    """Return the points of a dict by name, of a list of joints with names, or of a list in the order of the names."""
    if isinstance(value, dict):
        points = {name: _parse_point(point) for name, point in value.items()}
    elif isinstance(value, list) and names and len(value) == len(names):
        points = dict(zip(names, map(_parse_point, value), strict=True))
    elif isinstance(value, list) and value and all(map(_is_joint, value)):
        points = {_find_name(joint): _parse_point(joint) for joint in value}
    else:
        return None
    known_points = {name: point for name, point in points.items() if point is not None}
    return known_points if len(known_points) >= _MIN_POINTS else None


def _parse_point(value: Any) -> list[Any] | None:
    """Return the two or three coordinates of a point; None for anything else, such as a quaternion."""
    if isinstance(value, dict):
        lower = {key.lower(): inner for key, inner in value.items()}
        if all(isinstance(lower.get(axis), int | float) for axis in "xy") and "w" not in lower:
            return [lower.get(axis) for axis in ("xyz" if "z" in lower else "xy")]
        inner = next((lower[key] for key in _POINT_KEYS if isinstance(lower.get(key), dict | list)), None)
        return None if inner is None else _parse_point(inner)
    is_point = isinstance(value, list) and 2 <= len(value) <= 3
    is_number = is_point and all(item is None or isinstance(item, int | float) for item in value)
    return value if is_number and not all(item is None for item in value) else None


def _is_joint(value: Any) -> bool:
    return isinstance(value, dict) and _find_name(value) != ""


def _find_name(joint: dict[str, Any]) -> str:
    lower = {normalise_name(key): inner for key, inner in joint.items()}
    return next((lower[key] for key in _NAME_KEYS if isinstance(lower.get(key), str)), "")


def _find_id(person: Any, number: int) -> Any:
    if not isinstance(person, dict):
        return number
    lower = {normalise_name(key): inner for key, inner in person.items()}
    return next((lower[key] for key in _ID_KEYS if isinstance(lower.get(key), int | str)), number)


def _find_names(value: Any, depth: int = 2) -> list[str]:
    """Return the names of the joints that the whole file has in a list; an empty list without one."""
    if not isinstance(value, dict) or depth == 0:
        return []
    for key, inner in value.items():
        is_names = (
            isinstance(inner, list) and len(inner) >= _MIN_POINTS and all(isinstance(n, str) for n in inner)
        )
        if is_names and _NAMES_KEY.fullmatch(normalise_name(key)):
            return list(inner)
    return next((names for inner in value.values() if (names := _find_names(inner, depth - 1))), [])


def _find_rate(value: Any) -> float | None:
    """Return the frame rate of a dict, or of a dict in it."""
    if not isinstance(value, dict):
        return None
    for table in (value, *(inner for inner in value.values() if isinstance(inner, dict))):
        for key, inner in table.items():
            if normalise_name(key) in _RATE_KEYS and isinstance(inner, int | float) and 0 < inner < 1e6:
                return float(inner)
    return None


def _find_time(frame: Any) -> dict[str, Any]:
    """Return the time of a frame under the title of a column of times; an empty dict if it has none."""
    if not isinstance(frame, dict):
        return {}
    for key, inner in frame.items():
        title = normalise_name(key)
        if _TIME.fullmatch(title) and isinstance(inner, int | float | str) and not isinstance(inner, bool):
            return {"time" if title in ("t", "ts") else title: inner}
    return {}
