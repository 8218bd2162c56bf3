"""Key points of images: Kinetics-skeleton, OpenPose and MediaPipe JSON.

An image has u to the right and v down, as the camera sees it. Turned half about the optical axis, x = -u and
y = -v, it becomes Kinect's camera space: y up, and x growing towards the right hand of a person who faces the
camera, so that left and right stay what they are. 2-D key points have z = 0.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.dataset import Clip, Clips, find_files
from jeanie.datasets.names import Tags, tags_of
from jeanie.datasets.table import check_size
from jeanie.datasets.text import as_array, expect, make_motion, read_json
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = [
    "best_two",
    "flat_motion",
    "from_image",
    "open_kinetics",
    "place_persons",
    "read_kinetics",
    "read_mediapipe",
    "read_openpose",
]

Floats = NDArray[np.float64]

KINETICS_SIZE = (340.0, 256.0)  # width and height in pixels that all videos were brought to
KINETICS_PERSONS = 5  # so many persons of a frame are looked at
OPENPOSE_LAYOUTS = {18: LAYOUTS["openpose18"], 25: LAYOUTS["openpose25"]}
WORLD_KEYS = ("pose_world_landmarks", "poseWorldLandmarks", "world_landmarks", "worldLandmarks")
IMAGE_KEYS = ("pose_landmarks", "poseLandmarks", "landmarks")
MAX_PERSONS = 64
MAX_FOLDER_BYTES = 2**29
_LABEL = re.compile(rb'"label"\s*:\s*("(?:[^"\\]|\\.){0,200}")')


@np.errstate(over="ignore", invalid="ignore")  # what overflows is missing
def from_image(points: Floats, size: tuple[float, float] = (0.0, 0.0)) -> Floats:
    """Points (u, v) or (u, v, depth) as camera coordinates: (width / 2 - u, height / 2 - v, depth or 0)."""
    centred = np.array(size) / 2 - points[..., :2]
    depth = points[..., 2:] if points.shape[-1] > 2 else np.zeros_like(centred[..., :1])
    return np.concatenate([centred, depth], axis=-1)


@np.errstate(over="ignore", invalid="ignore")  # what overflows is missing
def best_two(points: Floats, score: Floats) -> tuple[Floats, Floats]:
    """The two best persons of every frame, followed through the frames.

    ``points`` [frame, person, joint, axis] hold NaN where nobody was found, ``score`` is [frame, person, joint].
    Persons are ranked by their mean score in each frame; from a frame to the next the two change places where
    they are then nearer to where they were.
    """
    if points.shape[1] < 2:
        return points, score
    rank = np.argsort(-np.nan_to_num(score).mean(axis=2), axis=1, kind="stable")[:, :2]
    points = np.take_along_axis(points, rank[..., None, None], axis=1)
    score = np.take_along_axis(score, rank[..., None], axis=1)
    apart = np.linalg.norm(points[1:, None, :] - points[:-1, :, None], axis=-1)  # [frame, before, now, joint]
    apart = np.where(apart < 1e30, apart, np.nan)
    stay = _known_mean(np.stack([apart[:, 0, 0], apart[:, 1, 1]], axis=1))
    change = _known_mean(np.stack([apart[:, 0, 1], apart[:, 1, 0]], axis=1))
    turned = np.logical_xor.accumulate(np.concatenate([[False], change < stay]))[:, None, None]
    return np.where(turned[..., None], points[:, ::-1], points), np.where(turned, score[:, ::-1], score)


def _known_mean(values: Floats) -> Floats:
    """Mean over persons and joints of what is not NaN in [frame, person, joint]; infinite where all is."""
    known = np.isfinite(values)
    count = known.sum(axis=(1, 2))
    return np.where(count > 0, np.where(known, values, 0).sum(axis=(1, 2)) / np.maximum(count, 1), np.inf)


def flat_motion(
    path: Path, points: Floats, score: Floats, own: Layout, size: tuple[float, float], **known: Any
) -> Motion:
    """A motion of points [frame, person, joint, 2 or 3]; one at the origin or with score 0 was not found.

    Persons of whom nothing was found in any frame are left out.
    """
    valid = np.isfinite(points).all(-1) & (points != 0).any(-1) & (score > 0)
    there = valid.any(axis=(0, 2))
    if there.any():
        points, valid = points[:, there], valid[:, there]
    return make_motion(path, from_image(points, size), own, valid=valid, **known)


@np.errstate(over="ignore", invalid="ignore")  # what overflows is missing
def read_kinetics(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Kinetics-skeleton: 18 OpenPose key points of every person in every frame, parts of a 340 x 256 image.

    ``{"data": [{"frame_index", "skeleton": [{"pose": [x0, y0, ...], "score": [18]}]}], "label"}``. At most
    five persons of a frame are looked at and the best two are kept. Pixels from the centre of the image.
    """
    path = Path(path)
    value = expect(path, read_json(path), dict, "the file")
    frames = [expect(path, frame, dict, "a frame") for frame in expect(path, value.get("data"), list, "data")]
    people = [
        expect(path, frame.get("skeleton"), list, "a frame's skeleton")[:KINETICS_PERSONS] for frame in frames
    ]
    places = _frame_numbers(path, [frame.get("frame_index") for frame in frames])
    own = LAYOUTS["openpose18"]
    pose = _all(path, people, "pose").reshape(-1, len(own), 2) if any(people) else np.empty((0, len(own), 2))
    score = _all(path, people, "score") if any(people) else np.empty((0, len(own)))
    if pose.shape[:2] != score.shape:
        raise DataError(f"{path}: a person needs {2 * len(own)} numbers in pose and {len(own)} in score")
    points, scores = place_persons(path, places, [len(persons) for persons in people], pose, score)
    label = value.get("label")
    tags = replace(tags_of(path), label=label) if isinstance(label, str | int) else None
    scaled, scores = best_two(points * np.array(KINETICS_SIZE), scores)
    return flat_motion(path, scaled, scores, own, KINETICS_SIZE, layout=layout, rate=30.0, tags=tags)


def _all(path: Path, people: Sequence[list[Any]], key: str) -> Floats:
    """The numbers under a key of all persons of all frames, [persons, numbers]."""
    every = [expect(path, person, dict, "a person").get(key) for persons in people for person in persons]
    width = {"pose": 36, "score": 18}[key]
    return as_array(path, every, (None, width), f"{key} of the persons")


def _frame_numbers(path: Path, numbers: list[Any]) -> NDArray[np.int64]:
    """Place of every frame by its number, from 0; without any numbers, one after the other."""
    if not numbers:
        raise DataError(f"{path}: no frames in data")
    if all(number is None for number in numbers):
        return np.arange(len(numbers))
    if not all(isinstance(number, int) and 0 <= number < 2**40 for number in numbers):
        raise DataError(f"{path}: every frame needs a frame_index, a whole number from 0")
    places: NDArray[np.int64] = np.array(numbers, dtype=np.int64) - min(numbers)
    if len(np.unique(places)) != len(places):
        raise DataError(f"{path}: a frame_index is there twice")
    return places


def place_persons(
    path: Path, places: NDArray[np.int64], counts: Sequence[int], pose: Floats, score: Floats
) -> tuple[Floats, Floats]:
    """Persons in a row as [frame, person, joint, axis] and [frame, person, joint]; the rest is missing."""
    counted = np.array(counts, dtype=np.int64)
    frames, persons, joints = int(places.max()) + 1, max(1, int(counted.max(initial=0))), pose.shape[1]
    check_size(path, frames, persons, joints)
    points = np.full((frames, persons, joints, pose.shape[2]), np.nan)
    scores = np.zeros((frames, persons, joints))
    within = np.arange(len(pose)) - np.repeat(np.cumsum(counted) - counted, counted)
    points[np.repeat(places, counted), within] = pose
    scores[np.repeat(places, counted), within] = score
    return points, scores


def open_kinetics(root: str | Path) -> Clips:
    """Kinetics-skeleton: ``kinetics_train/*.json`` and ``kinetics_val/*.json`` below ``root``.

    Labels come from ``kinetics_train_label.json`` and the like; clips that such a file marks as having no
    skeleton are dropped. Without it the label is looked up at the end of each clip's file.
    """
    files = find_files(root, "*.json", "Kinetics-skeleton")
    lists = [path for path in files if path.name.endswith("_label.json")]
    known: dict[str, Any] = {}
    for path in lists:
        known.update(expect(path, read_json(path), dict, "the list of labels"))
    clips, empty = [], []
    for path in files:
        about = known.get(path.stem)
        if isinstance(about, dict) and about.get("has_skeleton") is False:
            empty.append((path.stem, "listed as having no skeleton"))
        if path not in lists:
            label = about.get("label") if isinstance(about, dict) else _label_at_end(path)
            clips.append(Clip(path.stem, path, Tags(label=label if isinstance(label, str | int) else None)))
    return Clips("kinetics", LAYOUTS["openpose18"], tuple(clips), _read_clip).without(empty)


def _read_clip(clip: Clip) -> Motion:
    return read_kinetics(clip.source).replace(label=clip.tags.label)


def _label_at_end(path: Path) -> str | None:
    """The label that a Kinetics file carries in its last bytes, without reading the rest."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            found = _LABEL.findall(file.read(4096))
        return str(json.loads(found[-1])) if found else None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: its label cannot be read: {error}") from None


def read_openpose(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """OpenPose: a file of one frame, a list of frames, or a folder with a file for each frame.

    ``{"people": [{"person_id": [-1], "pose_keypoints_2d": [u, v, confidence, ...]}]}``, 18 or 25 key points,
    in pixels. Where persons have ``pose_keypoints_3d`` (OpenPose's --3d), (x, y, z, 1 or 0) a key point, those
    are read and the others are not; the file does not name their unit, which is that of the calibration.
    Where every person has an id of its own, persons are the ids; else the best two of each frame are kept.
    """
    path = Path(path)
    people = [_people(path, frame) for frame in _openpose_frames(path)]
    if solid := any(person.get("pose_keypoints_3d") for persons in people for person in persons):
        people = [[person for person in persons if person.get("pose_keypoints_3d")] for persons in people]
    flat = [person for persons in people for person in persons]
    if not flat:
        raise DataError(f"{path}: nobody in any of its {len(people)} frames; drop it")
    points, own = _key_points(path, flat, solid, layout)
    ids = [_person_id(person) for person in flat]
    counts = np.array([len(persons) for persons in people])
    frame_of = np.repeat(np.arange(len(people)), counts)
    if None not in ids and len(set(zip(frame_of.tolist(), ids, strict=True))) == len(ids):
        person_of = {person: at for at, person in enumerate(dict.fromkeys(ids))}
        placed = _by_id(path, frame_of, [person_of[person] for person in ids], points, len(people))
    else:
        placed = best_two(
            *place_persons(path, np.arange(len(people)), counts.tolist(), points[..., :-1], points[..., -1])
        )
    return flat_motion(path, *placed, own, (0.0, 0.0), layout=layout)


def _people(path: Path, frame: Any) -> list[dict[str, Any]]:
    persons = expect(path, expect(path, frame, dict, "a frame").get("people"), list, "people")
    return [expect(path, person, dict, "a person") for person in persons[:MAX_PERSONS]]


def _key_points(
    path: Path, people: list[dict[str, Any]], solid: bool, layout: Layout | None
) -> tuple[Floats, Layout]:
    """Coordinates and confidence [person, joint, 3 or 4] of all persons, and the layout that they have."""
    names = ("pose_keypoints_3d",) if solid else ("pose_keypoints_2d", "pose_keypoints")
    rows = [next((person[name] for name in names if name in person), None) for person in people]
    numbers = as_array(path, rows, (None, None), f"{names[0]} of the persons")
    each = 4 if solid else 3
    joints, beyond = divmod(numbers.shape[1], each)
    if beyond or (joints not in OPENPOSE_LAYOUTS and layout is None):
        raise DataError(
            f"{path}: {numbers.shape[1]} numbers a person; expected {each} x 18 or {each} x 25, or give a layout"
        )
    own = layout or OPENPOSE_LAYOUTS[joints]
    if solid and layout is None:
        own = replace(own, dims=3, unit="relative")
    return numbers.reshape(-1, joints, each), own


def _openpose_frames(path: Path) -> list[Any]:
    """The frames of a file or of the files of a folder, in the order of the numbers in their names."""
    if not path.is_dir():
        value = read_json(path)
        return value if isinstance(value, list) else [value]
    files = sorted(path.glob("*.json"), key=_in_numbers)
    if not files or sum(file.stat().st_size for file in files) > MAX_FOLDER_BYTES:
        raise DataError(
            f"{path}: expected a folder with a JSON file for each frame, {len(files)} of them there"
        )
    return [read_json(file) for file in files]


def _in_numbers(path: Path) -> list[tuple[int, str]]:
    """Key by which frame_2 comes before frame_10."""
    return [(int(part[:18]) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", path.name)]


def _person_id(person: dict[str, Any]) -> int | None:
    """OpenPose's id of a person, [-1] where it did not follow them."""
    value = person.get("person_id")
    number = value[0] if isinstance(value, list) and value else value
    return number if isinstance(number, int) and number >= 0 else None


def _by_id(
    path: Path, frame: NDArray[np.int64], person: list[int], points: Floats, frames: int
) -> tuple[Floats, Floats]:
    check_size(path, frames, max(person) + 1, points.shape[1])
    placed = np.full((frames, max(person) + 1, *points.shape[1:]), np.nan)
    placed[frame, person] = points
    return placed[..., :-1], np.nan_to_num(placed[..., -1])


@np.errstate(over="ignore", invalid="ignore")  # what overflows is missing
def read_mediapipe(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """MediaPipe Pose results as JSON: a list of frames, or ``{"fps", "width", "height", "frames": [...]}``.

    A frame is what the landmarker gave: a dict with world landmarks (metres, preferred) or image landmarks
    (parts of the image), or a bare list of image landmarks; 33 for one person, a list of such lists for
    several. A landmark is ``{"x", "y", "z", ...}`` or ``[x, y, z, ...]``; an empty frame is missing. x and y
    change sign. Image landmarks have the unit "relative": parts of the width, y too where the size is known.
    """
    path = Path(path)
    value = read_json(path)
    about = value if isinstance(value, dict) else {}
    listed = expect(path, about.get("frames") if about else value, list, "the list of frames")
    keys = next((keys for keys in (WORLD_KEYS, IMAGE_KEYS) if any(_landmarks(f, keys) for f in listed)), ())
    people = [_persons(path, _landmarks(frame, keys)) for frame in listed]
    if not any(people):
        raise DataError(f"{path}: no landmarks in any of its {len(listed)} frames; expected {WORLD_KEYS[0]}")
    own = layout or LAYOUTS["mediapipe33"]
    rows = [[_landmark(point) for point in person] for persons in people for person in persons]
    points = as_array(path, rows, (None, len(own), 3), "landmarks of the persons")
    counts = np.array([len(persons) for persons in people])
    check_size(path, len(people), int(counts.max()), len(own))
    placed = np.full((len(people), int(counts.max()), len(own), 3), np.nan)
    placed[np.arange(placed.shape[1]) < counts[:, None]] = points
    valid = np.isfinite(placed).all(-1) & (placed != 0).any(-1)
    scale = np.array([-1.0, -1.0, 1.0])
    if keys is not WORLD_KEYS:
        own = replace(own, unit="relative")
        scale[1] *= _ratio(about)
    rate = about.get("fps")
    rate = float(rate) if isinstance(rate, int | float) and 0 < rate < 1e6 else None
    return make_motion(path, placed * scale, own, valid=valid, rate=rate)


def _landmarks(frame: Any, keys: Sequence[str]) -> Any:
    """What a frame holds under one of the keys, or the bare list that it is."""
    if isinstance(frame, list):
        return frame if keys is not WORLD_KEYS else None
    found = next((frame[key] for key in keys if frame.get(key)), None) if isinstance(frame, dict) else None
    return found.get("landmark") if isinstance(found, dict) else found


def _persons(path: Path, landmarks: Any) -> list[list[Any]]:
    """The persons of a frame, each a list of landmarks."""
    if not landmarks:
        return []
    first = expect(path, landmarks, list, "a frame's landmarks")[0]
    several = isinstance(first, list) and bool(first) and isinstance(first[0], list | dict)
    persons = landmarks if several else [landmarks]
    return [expect(path, person, list, "a person's landmarks") for person in persons[:MAX_PERSONS]]


def _landmark(point: Any) -> Any:
    if isinstance(point, dict):
        return (point.get("x"), point.get("y"), point.get("z"))
    return point[:3] if isinstance(point, list) else point


def _ratio(about: dict[str, Any]) -> float:
    """Height of the image in parts of its width, 1 where unknown."""
    width, height = about.get("width"), about.get("height")
    if isinstance(width, int | float) and isinstance(height, int | float):
        return float(height / width) if 0 < width < 1e6 and 0 < height < 1e6 else 1.0
    return 1.0
