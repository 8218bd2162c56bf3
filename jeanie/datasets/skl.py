"""Containers of the skeleton libraries: pyskl and mmaction2 pickles, st-gcn npy with labels, CTR-GCN npz."""

import math
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.dataset import Clip, Clips, find_files
from jeanie.datasets.names import Tags, tags_of
from jeanie.datasets.npz import member
from jeanie.datasets.poses import KINETICS_SIZE, best_two, flat_motion, place_persons
from jeanie.datasets.text import expect, foreign, make_motion
from jeanie.datasets.unpickling import load_pickle
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["open_ctr_gcn", "open_pyskl", "open_st_gcn", "read_pyskl", "read_splits"]

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


def _array_of(path: Path, value: Any, what: str) -> NDArray[Any]:
    """An array out of a pickle."""
    array = getattr(value, "value", value)
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: {what} must be an array, got {type(value).__name__.strip('_')}")
    return array


def read_splits(path: str | Path) -> dict[str, list[str]]:
    """The splits of a pyskl pickle: names of recordings under names such as ``xsub_train``."""
    path = Path(path)
    value = expect(path, load_pickle(path), dict, "the pickle")
    splits = expect(path, value.get("split", {}), dict, "split")
    return {
        _text(key, "?"): [_text(name, "?") for name in expect(path, names, list, "the names of a split")]
        for key, names in splits.items()
    }


def _one_file(path: str | Path, pattern: str, name: str) -> Path:
    """The file at a path, or the only one of its kind below it."""
    found = [Path(path)] if Path(path).is_file() else find_files(path, pattern, name)
    if len(found) > 1:
        some = ", ".join(file.name for file in found[:5])
        raise DataError(f"{path}: holds {len(found)} files {pattern} ({some}); give the path of one")
    return found[0]


def _text(value: Any, otherwise: str) -> str:
    return value[:200] if isinstance(value, str) else otherwise


def open_pyskl(path: str | Path, *, layout: Layout | None = None) -> Clips:
    """The recordings of a pyskl or mmaction2 pickle, ``{"split", "annotations": [...]}`` or the list alone.

    The label is the action number of an NTU name (``A001`` is 1) where ``frame_dir`` is one, else the
    pickle's own.
    """
    path = _one_file(path, "*.pkl", "a pyskl pickle")
    value = load_pickle(path)
    listed = value.get("annotations", [value]) if isinstance(value, dict) else value
    clips, annotations = [], []
    for at, entry in enumerate(expect(path, listed, list, "annotations")):
        about = expect(path, entry, dict, f"annotation {at}")
        name = _text(about.get("frame_dir"), f"{path.stem}_{at}")
        clips.append(Clip(name.removesuffix(".skeleton"), path, _tags(name, about.get("label")), at))
        annotations.append(about)
    if not clips:
        raise DataError(f"{path}: no annotations in it")
    first = next((about for about in annotations if "keypoint" in about), None)
    own = layout or LAYOUTS["coco17"]
    if layout is None and first is not None:
        own = _usual(path, *_keypoint(path, first).shape[2:])
    return Clips("pyskl", own, tuple(clips), partial(_read_annotation, annotations, layout))


def read_pyskl(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """The one recording of a pyskl pickle; use ``open_pyskl`` where there are more."""
    found = open_pyskl(path, layout=layout)
    if len(found) != 1:
        raise DataError(f"{path}: holds {len(found)} recordings; open it by open_dataset('pyskl', path)")
    return found[0]


def _tags(name: str, label: object) -> Tags:
    tags = tags_of(name)
    return Tags(label=label) if tags.label is None and isinstance(label, str | int) else tags


def _keypoint(path: Path, about: dict[str, Any]) -> NDArray[np.float64]:
    """Coordinates [frame, person, joint, 2 or 3] of an annotation."""
    points = _array_of(path, about.get("keypoint"), "keypoint")
    if points.ndim == 3:
        points = points[None]
    if points.ndim != 4 or points.shape[3] not in (2, 3) or 0 in points.shape:
        raise DataError(f"{path}: keypoint must be persons x frames x joints x 2 or 3, got {points.shape}")
    return points.transpose(1, 0, 2, 3).astype(np.float64)


def _usual(path: Path, joints: int, coordinates: int) -> Layout:
    if (joints, coordinates) not in _LAYOUTS:
        raise DataError(
            f"{path}: {joints} joints with {coordinates} coordinates; give a layout that names them"
        )
    return LAYOUTS[_LAYOUTS[joints, coordinates]]


def _read_annotation(annotations: list[dict[str, Any]], layout: Layout | None, clip: Clip) -> Motion:
    path, about = clip.source, annotations[clip.index]
    if "keypoint" not in about:
        points, score = best_two(*_detections(path, about, clip.name))
        return _flat(clip, points, score, layout or LAYOUTS["coco17"], about)
    points = _keypoint(path, about)
    own = layout or _usual(path, *points.shape[2:])
    if own.dims == 3 and points.shape[3] == 3:
        return make_motion(path, points, own, name=clip.name, tags=clip.tags)
    score = points[..., 2] if points.shape[3] == 3 else np.ones(points.shape[:3])
    if about.get("keypoint_score") is not None:
        score = _array_of(path, about["keypoint_score"], "keypoint_score")
        score = score[None] if score.ndim == 2 else score
        score = score.swapaxes(0, 1).astype(np.float64) if score.ndim == 3 else score
    if score.shape != points.shape[:3]:
        raise DataError(f"{path}: keypoint_score of {clip.name} does not fit its keypoint {points.shape}")
    return _flat(clip, points[..., :2], score, own, about)


def _flat(
    clip: Clip, points: NDArray[np.float64], score: NDArray[np.float64], own: Layout, about: dict[str, Any]
) -> Motion:
    """A 2-D motion in pixels from the centre of the image, where the annotation knows its size."""
    size = about.get("img_shape")
    known = isinstance(size, tuple) and len(size) == 2 and all(type(n) is int and 0 < n < 1e6 for n in size)
    middle = (float(size[1]), float(size[0])) if known and size else (0.0, 0.0)
    return flat_motion(clip.source, points, score, own, middle, name=clip.name, tags=clip.tags)


def _detections(
    path: Path, about: dict[str, Any], name: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Key points that lie apart, in ``raw_file``: ``{frame_dir: {"keypoint": [detection, joint, 3]}}``.

    ``frame_inds`` has the frame of every detection; frames without one are left out, as pyskl does.
    """
    said = _text(about.get("raw_file"), "")
    places = [path.parent.joinpath(*Path(said).parts[-depth:]) for depth in (3, 2, 1)] if said else []
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise DataError(f"{path}: {name} has no keypoint, and no raw_file {said!r} with it beside this file")
    found = expect(file, load_pickle(file), dict, "the pickle").get(_text(about.get("frame_dir"), name))
    points = _array_of(file, expect(file, found, dict, f"the entry of {name}").get("keypoint"), "keypoint")
    frames = _array_of(path, about.get("frame_inds"), "frame_inds")
    if points.ndim != 3 or points.shape[2] != 3 or frames.shape != points.shape[:1] or 0 in points.shape:
        raise DataError(f"{file}: keypoint {points.shape} of {name} does not fit frame_inds {frames.shape}")
    order = np.argsort(frames, kind="stable")
    kept, counts = np.unique(frames, return_counts=True)
    points = points[order].astype(np.float64)
    return place_persons(path, np.arange(len(kept)), counts.tolist(), points[..., :2], points[..., 2])


@dataclass(frozen=True)
class _Stored:
    """An array in a file, of which rows are mapped into memory when they are asked for."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, row: int) -> NDArray[Any]:
        whole = np.memmap(self.path, self.dtype, "r", self.offset, self.shape)
        return np.array(whole[row])


def _stored(path: Path, file: IO[bytes], start: int, size: int, axes: int) -> _Stored:
    """The array of an npy file of ``size`` bytes that begins at ``start`` of an open file."""
    npy: Any = np.lib.format
    file.seek(start)
    version = npy.read_magic(file)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise DataError(f"{path}: an npy file of version {version}, expected 1.0 or 2.0")
    shape, fortran, dtype = read(file)
    needed = math.prod(shape) * dtype.itemsize
    if dtype.kind not in "fiu" or fortran or len(shape) != axes or 0 in shape or min(shape) < 0:
        raise DataError(f"{path}: expected an array of numbers with {axes} axes, got {dtype} {shape}")
    if file.tell() - start + needed > size:
        raise DataError(
            f"{path}: claims {needed} bytes of numbers, {size} are there; it is cut off or damaged"
        )
    return _Stored(path, file.tell(), tuple(shape), dtype)


def open_st_gcn(root: str | Path, *, layout: Layout | None = None) -> Clips:
    """st-gcn's arrays [recording, 3, frame, joint, person], ``*_data*.npy``, each with its ``*_label.pkl``.

    3-D coordinates are taken as they are (metres, y up, where made from NTU RGB+D). 18 joints are those of
    Kinetics: x and y from the centre of the image, y down, and the score. Frames of zeros at the end and
    persons of zeros are padding and left out.
    """
    clips: list[Clip] = []
    arrays: dict[Path, _Stored] = {}
    for path in find_files(root, "*_data*.npy", "an st-gcn data set"):
        with foreign(path, "npy file"), path.open("rb") as file:
            arrays[path] = _stored(path, file, 0, path.stat().st_size, 5)
        labels = path.with_name(path.name.split("_data")[0] + "_label.pkl")
        pair = load_pickle(labels)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise DataError(f"{labels}: expected a list of names and a list of labels")
        names, numbers = (expect(labels, part, list, "names and labels") for part in pair)
        if not len(names) == len(numbers) == len(arrays[path]):
            raise DataError(
                f"{labels}: {len(names)} names and {len(numbers)} labels for {len(arrays[path])} recordings"
            )
        for at, (name, number) in enumerate(zip(names, numbers, strict=True)):
            said = _text(name, f"{path.stem}_{at}")
            clips.append(Clip(said.removesuffix(".skeleton"), path, _tags(said, number), at))
    shape = arrays[clips[0].source].shape
    own = layout or _usual(clips[0].source, shape[3], shape[1])
    return Clips("st-gcn", own, tuple(clips), partial(_read_st_gcn, arrays, own))


@np.errstate(over="ignore", invalid="ignore")  # what overflows is missing
def _read_st_gcn(arrays: dict[Path, _Stored], layout: Layout, clip: Clip) -> Motion:
    with foreign(clip.source, "npy file"):
        points = _unpadded(arrays[clip.source][clip.index].transpose(1, 3, 2, 0).astype(np.float64))
    if points.shape[3] != 3:
        raise DataError(f"{clip.source}: {points.shape[3]} coordinates a joint, expected 3")
    if layout.dims == 3:
        return make_motion(clip.source, points, layout, name=clip.name, tags=clip.tags)
    pixels = points[..., :2] * np.array(KINETICS_SIZE)
    return flat_motion(
        clip.source, pixels, points[..., 2], layout, (0.0, 0.0), name=clip.name, tags=clip.tags, rate=30.0
    )


def _unpadded(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """[frame, person, joint, 3] without the frames at the end and the persons that are 0 throughout."""
    there = (points != 0).any(axis=(2, 3))
    if not there.any():
        return points
    return points[: int(np.flatnonzero(there.any(1))[-1]) + 1, there.any(0)]


def open_ctr_gcn(path: str | Path, *, layout: Layout | None = None) -> Clips:
    """CTR-GCN's npz: ``x_train`` [recording, frame, 2 persons x joint x 3], one-hot ``y_train``, ``_test``.

    Coordinates as they are: metres, y up, the first frame's spine at the origin. A person is missing in the
    frames where all of its joints are 0; frames of zeros at the end are left out. Labels count from 0.
    """
    path = _one_file(path, "*.npz", "a CTR-GCN data set")
    own = layout or LAYOUTS["ntu25"]
    clips: list[Clip] = []
    arrays: dict[str, Any] = {}
    with foreign(path, "npz file"), zipfile.ZipFile(path) as archive:
        for part in ("train", "test"):
            if f"x_{part}.npy" not in archive.namelist():
                raise DataError(f"{path}: no x_{part} in it; expected x_train, y_train, x_test and y_test")
            labels = member(archive, f"y_{part}.npy", path)
            arrays[part] = _member(path, archive, f"x_{part}.npy")
            if labels.ndim != 2 or len(labels) != len(arrays[part]):
                raise DataError(
                    f"{path}: y_{part} must be one-hot, a row for each of {len(arrays[part])} recordings"
                )
            if arrays[part].shape[2] % (3 * len(own)):
                raise DataError(
                    f"{path}: {arrays[part].shape[2]} numbers a frame are not persons x {len(own)} x 3"
                )
            for at, label in enumerate(labels.argmax(1).tolist()):
                clips.append(Clip(f"{part}_{at:06}", path, Tags(label=label), at))
    return Clips("ctr-gcn", own, tuple(clips), partial(_read_ctr_gcn, arrays, own))


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> Any:
    """An array of three axes: mapped where it is stored as it is, in memory where it is compressed."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        array = member(archive, name, path)
        if array.ndim != 3 or 0 in array.shape or array.dtype.kind not in "fiu":
            raise DataError(f"{path}: {name} must be numbers with 3 axes, got {array.dtype} {array.shape}")
        return array
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = np.frombuffer(file.read(4), "<u2")
        start = info.header_offset + 30 + int(lengths.sum())
        return _stored(path, file, start, min(info.file_size, path.stat().st_size - start), 3)


def _read_ctr_gcn(arrays: dict[str, Any], layout: Layout, clip: Clip) -> Motion:
    with foreign(clip.source, "npz file"):
        rows = arrays[clip.name.split("_")[0]][clip.index]
        points = _unpadded(rows.reshape(len(rows), -1, len(layout), 3).astype(np.float64))
    there = np.broadcast_to((points != 0).any(axis=(2, 3))[..., None], points.shape[:3])
    return make_motion(
        clip.source, points, layout, valid=there.copy(), name=clip.name, tags=clip.tags, rate=30.0
    )
