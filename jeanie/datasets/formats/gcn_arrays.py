"""Arrays of the graph-network libraries: st-gcn npy files with labels, and CTR-GCN npz files."""

import math
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.clip_names import Tags
from jeanie.datasets.dataset import Clip, FileDataset, find_files
from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import check_size, parser_errors
from jeanie.datasets.formats.json_files import expect_type
from jeanie.datasets.formats.keypoints import make_keypoint_motion
from jeanie.datasets.formats.kinetics import KINETICS_SIZE
from jeanie.datasets.formats.npz import open_zip, read_member
from jeanie.datasets.formats.pyskl import default_layout, find_only_file, limit_text, merge_tags
from jeanie.datasets.formats.safe_pickle import load_pickle
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["open_ctr_gcn", "open_st_gcn"]


@dataclass(frozen=True)
class _MappedArray:
    """An array in a file; a row is mapped into memory when it is indexed."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, row: int) -> NDArray[Any]:
        array = np.memmap(self.path, self.dtype, "r", self.offset, self.shape)
        return np.array(array[row])


def _map_array(path: Path, file: IO[bytes], start: int, size: int, axes: int) -> _MappedArray:
    """Map the array of an npy file of ``size`` bytes that begins at ``start`` of an open file."""
    npy: Any = np.lib.format
    file.seek(start)
    version = npy.read_magic(file)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read_header is None:
        raise DataError(f"{path}: an npy file of version {version}, expected 1.0 or 2.0")
    shape, fortran, dtype = read_header(file)
    needed = math.prod(shape) * dtype.itemsize
    if dtype.kind not in "fiu" or fortran or len(shape) != axes or 0 in shape or min(shape) < 0:
        raise DataError(f"{path}: expected an array of numbers with {axes} axes, got {dtype} {shape}")
    if file.tell() - start + needed > size:
        raise DataError(
            f"{path}: declares {needed} bytes of numbers, {size} are there; it is cut off or damaged"
        )
    return _MappedArray(path, file.tell(), tuple(shape), dtype)


def open_st_gcn(root: str | Path, *, layout: Layout | None = None) -> FileDataset:
    """Open st-gcn arrays [recording, 3, frame, joint, person], ``*_data*.npy``, each with its ``*_label.pkl``.

    3-D coordinates are unchanged (metres, y up, if made from NTU RGB+D). 18 joints are those of Kinetics: x and y
    from the centre of the image, y down, and the score. Frames of zeros at the end and persons of zeros are padding
    and left out.
    """
    clips: list[Clip] = []
    arrays: dict[Path, _MappedArray] = {}
    for path in find_files(root, "*_data*.npy", "an st-gcn data set"):
        with parser_errors(path, "npy file"), path.open("rb") as file:
            arrays[path] = _map_array(path, file, 0, path.stat().st_size, 5)
        labels = path.with_name(path.name.split("_data")[0] + "_label.pkl")
        for index, (name, number) in enumerate(_read_labels(labels, len(arrays[path]))):
            name = limit_text(name, f"{path.stem}_{index}")
            clips.append(Clip(name.removesuffix(".skeleton"), path, merge_tags(name, number), index))
    shape = arrays[clips[0].source].shape
    file_layout = layout or default_layout(clips[0].source, shape[3], shape[1])
    return FileDataset("st-gcn", file_layout, tuple(clips), partial(_read_st_gcn, arrays, file_layout))


def _read_labels(path: Path, count: int) -> list[tuple[Any, Any]]:
    """Read the name and the label of each recording."""
    pair = load_pickle(path)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise DataError(f"{path}: expected a list of names and a list of labels")
    names, numbers = (expect_type(path, part, list, "names and labels") for part in pair)
    if not len(names) == len(numbers) == count:
        raise DataError(f"{path}: {len(names)} names and {len(numbers)} labels for {count} recordings")
    return list(zip(names, numbers, strict=True))


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def _read_st_gcn(arrays: dict[Path, _MappedArray], layout: Layout, clip: Clip) -> Motion:
    path, array = clip.source, arrays[clip.source]
    _, coordinates, frames, joints, persons = array.shape
    if coordinates != 3:
        raise DataError(f"{path}: {coordinates} coordinates per joint, expected 3")
    check_size(path, frames, persons, joints)
    with parser_errors(path, "npy file"):
        points = _remove_padding(array[clip.index].transpose(1, 3, 2, 0).astype(np.float64))
    if layout.dims == 3:
        return make_motion(path, points, layout, name=clip.name, tags=clip.tags)
    pixels = points[..., :2] * np.array(KINETICS_SIZE)
    return make_keypoint_motion(
        path, pixels, points[..., 2], layout, (0.0, 0.0), name=clip.name, tags=clip.tags, rate=30.0
    )


def _remove_padding(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return [frame, person, joint, 3] without frames of zeros at the end and without persons of zeros."""
    present = (points != 0).any(axis=(2, 3))
    if not present.any():
        return points
    return points[: int(np.flatnonzero(present.any(1))[-1]) + 1, present.any(0)]


def open_ctr_gcn(path: str | Path, *, layout: Layout | None = None) -> FileDataset:
    """Open a CTR-GCN npz file: ``x_train`` [recording, frame, 2 persons x joint x 3], one-hot ``y_train``, ``_test``.

    Coordinates are unchanged: metres, y up, the spine of the first frame at the origin. A person is missing in
    frames in which all of its joints are 0; frames of zeros at the end are left out. Labels count from 0.
    """
    path = find_only_file(path, "*.npz", "a CTR-GCN data set")
    file_layout = layout or LAYOUTS["ntu25"]
    clips: list[Clip] = []
    arrays: dict[str, Any] = {}
    with parser_errors(path, "npz file"), open_zip(path) as archive:
        for part in ("train", "test"):
            if f"x_{part}.npy" not in archive.namelist():
                raise DataError(f"{path}: no x_{part} in it; expected x_train, y_train, x_test and y_test")
            labels = read_member(archive, f"y_{part}.npy", path)
            arrays[part] = _open_member(path, archive, f"x_{part}.npy")
            if labels.ndim != 2 or len(labels) != len(arrays[part]):
                raise DataError(
                    f"{path}: y_{part} must be one-hot, one row for each of {len(arrays[part])} recordings"
                )
            if arrays[part].shape[2] % (3 * len(file_layout)):
                raise DataError(
                    f"{path}: {arrays[part].shape[2]} numbers per frame are not persons x {len(file_layout)} x 3"
                )
            for index, label in enumerate(labels.argmax(1).tolist()):
                clips.append(Clip(f"{part}_{index:06}", path, Tags(label=label), index))
    return FileDataset("ctr-gcn", file_layout, tuple(clips), partial(_read_ctr_gcn, arrays, file_layout))


def _open_member(path: Path, archive: zipfile.ZipFile, name: str) -> Any:
    """Return an array of three axes, mapped if it is stored uncompressed, otherwise in memory."""
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        array = read_member(archive, name, path)
        if array.ndim != 3 or 0 in array.shape or array.dtype.kind not in "fiu":
            raise DataError(f"{path}: {name} must be numbers with 3 axes, got {array.dtype} {array.shape}")
        return array
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = np.frombuffer(file.read(4), "<u2")
        start = info.header_offset + 30 + int(lengths.sum())
        return _map_array(path, file, start, min(info.file_size, path.stat().st_size - start), 3)


def _read_ctr_gcn(arrays: dict[str, Any], layout: Layout, clip: Clip) -> Motion:
    array = arrays[clip.name.split("_")[0]]
    check_size(clip.source, array.shape[1], array.shape[2] // (3 * len(layout)), len(layout))
    with parser_errors(clip.source, "npz file"):
        rows = array[clip.index]
        points = _remove_padding(rows.reshape(len(rows), -1, len(layout), 3).astype(np.float64))
    present = np.broadcast_to((points != 0).any(axis=(2, 3))[..., None], points.shape[:3])
    return make_motion(
        clip.source, points, layout, valid=present.copy(), name=clip.name, tags=clip.tags, rate=30.0
    )
