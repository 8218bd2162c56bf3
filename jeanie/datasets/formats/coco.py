"""Key points of COCO and of the programs that write like it: MMPose, AlphaPose, ViTPose. 17, 26 or 133 points."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.frame_folders import read_frame_folder
from jeanie.datasets.formats.json_files import expect_type, list_numbered, read_json_lines, to_array
from jeanie.datasets.formats.keypoints import (
    MAX_PERSONS,
    make_keypoint_motion,
    place_by_id,
    place_persons,
    select_best_two,
)
from jeanie.datasets.rig_names import normalise_name
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["read_coco"]

Floats = NDArray[np.float64]
Person = dict[str, Any]

COCO_LAYOUTS = {17: LAYOUTS["coco17"], 25: LAYOUTS["vitpose25"], 26: LAYOUTS["halpe26"]}
_WHOLE_BODY = 133  # the first 17 are the body
_ID_KEYS = ("track_id", "idx", "person_id")


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def read_coco(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read key points in pixels of one video, from one file or a folder with one file per frame.

    - COCO annotations ``{"images", "annotations": [{"image_id", "keypoints": [x, y, v, ...]}]}`` and results
      ``[{"image_id", "keypoints": [...], "score"}]`` of MMPose, ViTPose and AlphaPose
    - MMPose's inferencer, ``[{"frame_id", "instances": [{"keypoints": [[x, y], ...], "keypoint_scores"}]}]``, also
      with ``meta_info`` and ``instance_info``
    - easy_ViTPose, ``{"keypoints": [{"0": [[y, x, score], ...]}, ...], "skeleton"}``
    - Ultralytics, lists of ``{"keypoints": {"x": [...], "y": [...], "visible": [...]}}``; MoveNet and PoseNet, lists of
      ``{"keypoints": [{"name", "x", "y", "score"}]}``; OpenPifPaf, ``{"frame", "predictions": [...]}``

    Frames are ordered by image or frame number. If every person has an id, persons are the ids; otherwise the best two
    of each frame are kept. Of 133 whole-body points the 17 of the body are read.
    """
    path = Path(path)
    frames = _list_frames(path, _read_folder(path) if path.is_dir() else read_json_lines(path))
    flat = [person for persons in frames for person in persons]
    if not flat:
        raise DataError(f"{path}: nobody in any of its {len(frames)} frames; leave it out")
    points, file_layout = _parse_key_points(path, flat, layout)
    counts = [len(persons) for persons in frames]
    ids = [next((str(person[key]) for key in _ID_KEYS if key in person), None) for person in flat]
    frame_of = np.repeat(np.arange(len(frames)), counts)
    if None not in ids and len(set(zip(frame_of.tolist(), ids, strict=True))) == len(ids):
        points_by_frame = place_by_id(path, points, counts, ids)
        bodies = points_by_frame[..., :2], np.nan_to_num(points_by_frame[..., 2])
    else:
        bodies = select_best_two(
            *place_persons(path, np.arange(len(frames)), counts, points[..., :2], points[..., 2])
        )
    return make_keypoint_motion(path, *bodies, file_layout, (0.0, 0.0), layout=layout)


def _read_folder(path: Path) -> list[Any]:
    """Return the values of a folder with one file per frame; a gap is a frame with nobody."""
    values = list(read_frame_folder(path))
    nobody = (
        {key: [] for key in ("instances", "predictions", "bodies")} if isinstance(values[0], dict) else []
    )
    return [nobody if value is None else value for value in values]


def _list_frames(path: Path, value: Any) -> list[list[Person]]:
    """Return the persons of every frame."""
    if isinstance(value, dict) and "skeleton" in value and isinstance(value.get("keypoints"), list):
        return [_list_vitpose(path, frame) for frame in value["keypoints"]]
    if isinstance(value, dict):
        key = next(
            (key for key in ("annotations", "instance_info", "frames", "predictions") if key in value), None
        )
        value = list_numbered(value) if key is None else value[key]
    entries = expect_type(path, value, list, "the list of persons or frames")
    for key in ("instances", "predictions", "bodies"):
        if entries and all(isinstance(entry, dict) and key in entry for entry in entries):
            numbers = [entry.get("frame_id", entry.get("frame", at)) for at, entry in enumerate(entries)]
            order = sorted(range(len(entries)), key=lambda index: _number_key(numbers[index]))
            return [_limit(path, entries[index][key]) for index in order]
    if entries and all(isinstance(entry, list) for entry in entries):
        return [_limit(path, entry) for entry in entries]
    people = [expect_type(path, entry, dict, "a person") for entry in entries]
    by_image: dict[str, list[Person]] = {}
    for index, person in enumerate(people):
        by_image.setdefault(str(person.get("image_id", person.get("frame", index))), []).append(person)
    return [by_image[image][:MAX_PERSONS] for image in sorted(by_image, key=_number_key)]


def _limit(path: Path, people: Any) -> list[Person]:
    persons = expect_type(path, people, list, "the persons of a frame")[:MAX_PERSONS]
    return [expect_type(path, person, dict, "a person") for person in persons]


def _list_vitpose(path: Path, frame: Any) -> list[Person]:
    """Return the persons of a frame of easy_ViTPose, a dict by id; its points are (y, x, score)."""
    persons = expect_type(path, frame, dict, "a frame")
    return [{"track_id": person, "keypoints": points, "is_yx": True} for person, points in persons.items()][
        :MAX_PERSONS
    ]


def _parse_key_points(path: Path, people: Sequence[Person], layout: Layout | None) -> tuple[Floats, Layout]:
    """Return (x, y, score) [person, joint, 3] of all persons, and their layout."""
    rows = [_list_points(person.get("keypoints", person.get("joints"))) for person in people]
    is_flat = isinstance(rows[0], list) and bool(rows[0]) and not isinstance(rows[0][0], list)
    if is_flat:
        numbers = to_array(path, rows, (None, None), "keypoints of the persons")
        if numbers.shape[1] % 3:
            raise DataError(
                f"{path}: {numbers.shape[1]} numbers per person; expected x, y, score per key point"
            )
        points = numbers.reshape(len(rows), -1, 3)
    else:
        points = to_array(path, rows, (None, None, None), "keypoints of the persons")
    if points.shape[2] == 2:
        scores = [person.get("keypoint_scores") for person in people]
        has_scores = any(score is not None for score in scores)
        shape = (len(people), points.shape[1])
        score = (
            to_array(path, scores, shape, "keypoint_scores of the persons") if has_scores else np.ones(shape)
        )
        points = np.concatenate([points, score[..., None]], -1)
    if points.shape[2] != 3:
        raise DataError(f"{path}: {points.shape[2]} values per key point; expected x, y and a score")
    if people[0].get("is_yx"):
        points = points[..., [1, 0, 2]]
    if points.shape[1] == _WHOLE_BODY and layout is None:
        points = points[:, :17]
    if layout is None and points.shape[1] not in COCO_LAYOUTS:
        raise DataError(
            f"{path}: {points.shape[1]} key points per person; expected {', '.join(map(str, COCO_LAYOUTS))} or "
            f"{_WHOLE_BODY}, or give a layout"
        )
    return points, layout or COCO_LAYOUTS[points.shape[1]]


def _list_points(points: Any) -> Any:
    """Return the points of Ultralytics, MoveNet and PoseNet as lists [x, y, score]; other points stay."""
    if isinstance(points, dict) and {"x", "y"} <= points.keys():
        axes = [points["x"], points["y"], points.get("visible", points.get("confidence"))]
        if all(isinstance(axis, list) for axis in axes[:2]):
            score = axes[2] if isinstance(axes[2], list) else [1.0] * len(axes[0])
            return [list(point) for point in zip(axes[0], axes[1], score, strict=False)]
    if isinstance(points, list) and points and all(isinstance(point, dict) for point in points):
        named = {normalise_name(str(point.get("name", point.get("part", "")))): point for point in points}
        return [_parse_point(named.get(joint, {})) for joint in LAYOUTS["coco17"].joints]
    return points


def _parse_point(point: dict[str, Any]) -> list[Any]:
    place = point["position"] if isinstance(point.get("position"), dict) else point
    return [place.get("x", 0.0), place.get("y", 0.0), point.get("score", 1.0 if point else 0.0)]


def _number_key(name: Any) -> list[tuple[int, str]]:
    """Return a sorting key that puts 2.jpg before 10.jpg."""
    return [
        (int(part[:18]) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", str(name)[:200])
    ]
