"""pyskl and mmaction2 pickles: a list of annotations with key points."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.clip_names import Tags, parse_tags
from jeanie.datasets.dataset import Clip, FileDataset, find_files
from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.json_files import expect_type
from jeanie.datasets.formats.keypoints import make_keypoint_motion, place_persons, select_best_two
from jeanie.datasets.formats.safe_pickle import load_pickle
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = [
    "default_layout",
    "find_only_file",
    "limit_text",
    "merge_tags",
    "open_pyskl",
    "read_pyskl",
    "read_splits",
]

# joints and coordinates of the usual files; a third coordinate of 2-D key points is their score
_LAYOUTS = {
    (25, 3): "ntu25",
    (20, 3): "kinect20",
    (25, 2): "openpose25",
    (17, 2): "coco17",
    (17, 3): "coco17",
    (18, 2): "openpose18",
    (18, 3): "openpose18",
}


def open_pyskl(path: str | Path, *, layout: Layout | None = None) -> FileDataset:
    """Open the recordings of a pyskl or mmaction2 pickle, ``{"split", "annotations": [...]}`` or only the list.

    If ``frame_dir`` is an NTU name, the label is its action number (``A001`` is 1), otherwise the label of the
    pickle.
    """
    path = find_only_file(path, "*.pkl", "a pyskl pickle")
    value = load_pickle(path)
    entries = value.get("annotations", [value]) if isinstance(value, dict) else value
    clips, annotations = [], []
    if not isinstance(value, dict | str) and not (
        isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
    ):
        raise DataError(
            f"{path}: not a pickle of pyskl or mmaction2; other pickles are not read, as they can run any code; save "
            "arrays [frame, joint, 3] with numpy.save or numpy.savez, or JSON"
        )
    for index, entry in enumerate(expect_type(path, entries, list, "annotations")):
        annotation = expect_type(path, entry, dict, f"annotation {index}")
        name = limit_text(annotation.get("frame_dir"), f"{path.stem}_{index}")
        tags = merge_tags(name, annotation.get("label"))
        clips.append(Clip(name.removesuffix(".skeleton"), path, tags, index))
        annotations.append(annotation)
    if not clips:
        raise DataError(f"{path}: no annotations in it")
    first = next((annotation for annotation in annotations if "keypoint" in annotation), None)
    file_layout = layout or LAYOUTS["coco17"]
    if layout is None and first is not None:
        file_layout = default_layout(path, *_get_keypoints(path, first).shape[2:])
    return FileDataset("pyskl", file_layout, tuple(clips), partial(_read_annotation, annotations, layout))


def read_pyskl(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read the only recording of a pyskl pickle; use ``open_pyskl`` for several."""
    data = open_pyskl(path, layout=layout)
    if len(data) != 1:
        raise DataError(f"{path}: has {len(data)} recordings; open it with open_dataset('pyskl', path)")
    return data[0]


def read_splits(path: str | Path) -> dict[str, list[str]]:
    """Read the splits of a pyskl pickle: names of recordings under names such as ``xsub_train``."""
    path = Path(path)
    value = expect_type(path, load_pickle(path), dict, "the pickle")
    splits = expect_type(path, value.get("split", {}), dict, "split")
    return {
        limit_text(key, "?"): [
            limit_text(name, "?") for name in expect_type(path, names, list, "the names of a split")
        ]
        for key, names in splits.items()
    }


def find_only_file(path: str | Path, pattern: str, name: str) -> Path:
    """Return the file at a path, or the only file below it that matches the pattern."""
    files = [Path(path)] if Path(path).is_file() else find_files(path, pattern, name)
    if len(files) > 1:
        examples = ", ".join(file.name for file in files[:5])
        raise DataError(f"{path}: has {len(files)} files {pattern} ({examples}); give the path of one")
    return files[0]


def limit_text(value: Any, default: str) -> str:
    """Return the first 200 characters of a text, or the default for any other value."""
    return value[:200] if isinstance(value, str) else default


def merge_tags(name: str, label: object) -> Tags:
    """Return the tags in a name, or only the label if the name has none."""
    tags = parse_tags(name)
    return Tags(label=label) if tags.label is None and isinstance(label, str | int) else tags


def default_layout(path: Path, joints: int, coordinates: int) -> Layout:
    """Return the usual layout for this number of joints and coordinates."""
    if (joints, coordinates) not in _LAYOUTS:
        raise DataError(
            f"{path}: {joints} joints with {coordinates} coordinates; give a layout that names them"
        )
    return LAYOUTS[_LAYOUTS[joints, coordinates]]


def _get_array(path: Path, value: Any, name: str) -> NDArray[Any]:
    """Return an array from a pickle."""
    array = getattr(value, "value", value)
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: {name} must be an array, got {type(value).__name__.strip('_')}")
    return array


def _get_keypoints(path: Path, annotation: dict[str, Any]) -> NDArray[np.float64]:
    """Return the coordinates [frame, person, joint, 2 or 3] of an annotation."""
    points = _get_array(path, annotation.get("keypoint"), "keypoint")
    if points.ndim == 3:
        points = points[None]
    if points.ndim != 4 or points.shape[3] not in (2, 3) or 0 in points.shape:
        raise DataError(f"{path}: keypoint must be persons x frames x joints x 2 or 3, got {points.shape}")
    check_size(path, points.shape[1], points.shape[0], points.shape[2])
    return points.transpose(1, 0, 2, 3).astype(np.float64)


def _read_annotation(annotations: list[dict[str, Any]], layout: Layout | None, clip: Clip) -> Motion:
    path, annotation = clip.source, annotations[clip.index]
    if "keypoint" not in annotation:
        points, score = select_best_two(*_read_detections(path, annotation, clip.name))
        return _make_image_motion(clip, points, score, layout or LAYOUTS["coco17"], annotation)
    points = _get_keypoints(path, annotation)
    file_layout = layout or default_layout(path, *points.shape[2:])
    if file_layout.dims == 3 and points.shape[3] == 3:
        return make_motion(path, points, file_layout, name=clip.name, tags=clip.tags)
    score = points[..., 2] if points.shape[3] == 3 else np.ones(points.shape[:3])
    if annotation.get("keypoint_score") is not None:
        score = _get_array(path, annotation["keypoint_score"], "keypoint_score")
        score = score[None] if score.ndim == 2 else score
        score = score.swapaxes(0, 1).astype(np.float64) if score.ndim == 3 else score
    if score.shape != points.shape[:3]:
        raise DataError(f"{path}: keypoint_score of {clip.name} does not fit its keypoint {points.shape}")
    return _make_image_motion(clip, points[..., :2], score, file_layout, annotation)


def _make_image_motion(
    clip: Clip,
    points: NDArray[np.float64],
    score: NDArray[np.float64],
    file_layout: Layout,
    annotation: dict[str, Any],
) -> Motion:
    """Build a 2-D motion in pixels from the centre of the image, if the annotation has its size."""
    size = annotation.get("img_shape")
    is_size = isinstance(size, tuple) and len(size) == 2 and all(type(n) is int and 0 < n < 1e6 for n in size)
    width_height = (float(size[1]), float(size[0])) if is_size and size else (0.0, 0.0)
    return make_keypoint_motion(
        clip.source, points, score, file_layout, width_height, name=clip.name, tags=clip.tags
    )


def _read_detections(
    path: Path, annotation: dict[str, Any], name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Read key points from ``raw_file``: ``{frame_dir: {"keypoint": [detection, joint, 3]}}``.

    ``frame_inds`` has the frame of every detection; frames without one are left out, as in pyskl.
    """
    raw = limit_text(annotation.get("raw_file"), "")
    places = [path.parent.joinpath(*Path(raw).parts[-depth:]) for depth in (3, 2, 1)] if raw else []
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise DataError(
            f"{path}: {name} has no keypoint, and there is no raw_file {raw!r} with it in the same folder"
        )
    entries = expect_type(file, load_pickle(file), dict, "the pickle")
    entry = entries.get(limit_text(annotation.get("frame_dir"), name))
    points = _get_array(
        file, expect_type(file, entry, dict, f"the entry of {name}").get("keypoint"), "keypoint"
    )
    frames = _get_array(path, annotation.get("frame_inds"), "frame_inds")
    if points.ndim != 3 or points.shape[2] != 3 or frames.shape != points.shape[:1] or 0 in points.shape:
        raise DataError(f"{file}: keypoint {points.shape} of {name} does not fit frame_inds {frames.shape}")
    order = np.argsort(frames, kind="stable")
    frame_numbers, counts = np.unique(frames, return_counts=True)
    points = points[order].astype(np.float64)
    return place_persons(
        path, np.arange(len(frame_numbers)), counts.tolist(), points[..., :2], points[..., 2]
    )
