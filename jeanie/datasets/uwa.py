"""UWA3D Activity and UWA3D Multiview Activity II: text, MATLAB, and the HDF5 files of the JEANIE authors.

OpenNI's world coordinates (y up, z away from the camera) are taken as they are; a file whose typical depth is
above ``MILLIMETRES_FROM`` counts in millimetres and is divided by 1000.
"""

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.dataset import Clip, Clips, find_files, list_files
from jeanie.datasets.names import Tags, clip_name, tags_of
from jeanie.datasets.table import MAX_POINTS
from jeanie.datasets.text import foreign, make_motion, read_bytes, read_rows
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = [
    "HDF5_MAGIC",
    "open_hdf5",
    "open_uwa3d",
    "open_uwa3d_multiview",
    "read_hdf5",
    "read_uwa3d",
    "read_uwa3d_multiview",
]

JOINTS = 15
MILLIMETRES_FROM = 50.0  # metres of depth that no Kinect sees
MAX_MAT_BYTES = 2**26
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_NUMERIC = ("double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")

# UWA3D Activity has the torso after the arms; in the multiview set it is the third joint, as in SBU
ACTIVITY, MULTIVIEW = LAYOUTS["openni15"], LAYOUTS["sbu15"]


def read_uwa3d(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """A recording of UWA3D Activity; text or MATLAB, see ``read_uwa3d_multiview``. Joints as ``openni15``."""
    path = Path(path)
    return _motion(path, _read(path), ACTIVITY, layout, tags_of(path))


def read_uwa3d_multiview(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """A recording of UWA3D Multiview Activity II, as text or as a MATLAB file; joints as ``sbu15``.

    Text: a row of 45 numbers a frame (46 with the frame's number, 60 with a confidence after each joint), or
    a row of 3 or 4 numbers a joint. MATLAB: one array of size frames x 45, 45 x frames, 15 x 3 x frames,
    3 x 15 x frames or frames x 15 x 3, in files up to version 7 (needs scipy) or of 7.3 (needs h5py).
    """
    path = Path(path)
    return _motion(path, _read(path), MULTIVIEW, layout, tags_of(path))


@np.errstate(over="ignore", invalid="ignore")  # what overflows is missing
def _motion(
    path: Path, joints: NDArray[np.float64], own: Layout, layout: Layout | None, tags: Tags, name: str = ""
) -> Motion:
    """A motion of the joints [frame, person, joint, 3] in metres or millimetres."""
    seen = np.isfinite(joints).all(-1) & (joints != 0).any(-1)
    depth = np.median(np.abs(joints[..., 2][seen])) if seen.any() else 0.0
    joints = joints / 1000 if depth > MILLIMETRES_FROM else joints
    return make_motion(path, joints, own, layout=layout, tags=tags, name=name or _name(path, tags, own))


def _name(path: Path, tags: Tags, layout: Layout) -> str:
    """The name in the published lists: those of UWA3D Activity are spelt a01e02s03."""
    if layout == ACTIVITY and tags.view is None and isinstance(tags.subject, int):
        return f"a{tags.label:02}e{tags.take:02}s{tags.subject:02}"
    return clip_name(path)


def _read(path: Path) -> NDArray[np.float64]:
    """Numbers of a file as [frame, 1, joint, 3]."""
    if path.suffix.lower() == ".mat":
        head = read_bytes(path, MAX_MAT_BYTES)[:1024]
        return _from_hdf5_mat(path) if HDF5_MAGIC in head else _from_mat(path)
    rows = read_rows(path, (3 * JOINTS, 3 * JOINTS + 1, 4 * JOINTS, 3, 4))
    if rows.shape[1] == 3 * JOINTS + 1:
        rows = rows[:, 1:]
    if rows.size % (JOINTS * (4 if rows.shape[1] % 4 == 0 else 3)):
        raise DataError(f"{path}: {len(rows)} rows of {rows.shape[1]} numbers; a frame has {JOINTS} joints")
    return rows.reshape(-1, 1, JOINTS, 4 if rows.shape[1] % 4 == 0 else 3)[..., :3]


def _arranged(array: NDArray[Any]) -> NDArray[np.float64] | None:
    """A MATLAB array of one of the known sizes as [frame, 1, joint, 3]; None for any other size."""
    shape = array.shape
    if array.ndim == 2 and 3 * JOINTS in shape:
        rows = array if shape[1] == 3 * JOINTS else array.T
        return rows.reshape(-1, 1, JOINTS, 3).astype(np.float64)
    orders = {(JOINTS, 3): (2, 0, 1), (3, JOINTS): (2, 1, 0)}
    if array.ndim == 3 and shape[:2] in orders:
        return array.transpose(orders[shape[:2]])[:, None].astype(np.float64)
    if array.ndim == 3 and shape[1:] == (JOINTS, 3):
        return array[:, None].astype(np.float64)
    return None


def _only(path: Path, arrays: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """The one array of a file that holds joints."""
    found = [joints for array in arrays.values() if (joints := _arranged(array)) is not None]
    if len(found) != 1:
        sizes = ", ".join(f"{name[:40]} {array.shape}" for name, array in list(arrays.items())[:8])
        raise DataError(f"{path}: expected one array of {JOINTS} joints x 3 x frames, got {sizes or 'none'}")
    return found[0]


def _from_mat(path: Path) -> NDArray[np.float64]:
    with foreign(path, "MATLAB file"):
        matlab = import_module("scipy.io")
        listed = matlab.whosmat(path, appendmat=False)
        sizes = {name: size for name, size, kind in listed if kind in _NUMERIC}
        fits = [name for name, size in sizes.items() if np.prod(size, dtype=object) <= 3 * MAX_POINTS]
        arrays = matlab.loadmat(path, variable_names=fits, appendmat=False)
        return _only(path, {name: np.asarray(arrays[name]) for name in fits if name in arrays})


def _from_hdf5_mat(path: Path) -> NDArray[np.float64]:
    with foreign(path, "MATLAB 7.3 file"):
        h5py = import_module("h5py")
        with h5py.File(path, "r") as file:
            names = [name for name in file if _is_small(file.get(name), h5py)]
            return _only(
                path, {name: file[name][()].T for name in names}
            )  # HDF5 holds MATLAB's axes reversed


def _is_small(node: Any, h5py: Any) -> bool:
    """Is a node of an HDF5 file an array of numbers that a motion may hold?"""
    return isinstance(node, h5py.Dataset) and node.dtype.kind in "fiu" and 0 < node.size <= 3 * MAX_POINTS


def read_hdf5(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """The one recording of an HDF5 file of the JEANIE authors; use ``open_hdf5`` where there are more."""
    path = Path(path)
    found = open_hdf5(path, path.stem, layout or ACTIVITY)
    if len(found) != 1:
        raise DataError(
            f"{path}: holds {len(found)} recordings; open it by open_dataset('uwa3d', {path.name!r})"
        )
    return found[0]


def open_hdf5(path: str | Path, name: str, layout: Layout) -> Clips:
    """The JEANIE authors' container: a group for every recording with ``skeleton`` [joints, 3, frames].

    The joints of a second person follow those of the first (``num_subjects`` says how many count).
    """
    path = Path(path)
    with foreign(path, "HDF5 file"):
        h5py = import_module("h5py")
        with h5py.File(path, "r") as file:
            keys = [key for key in file if isinstance(file.get(key), h5py.Group)]
    if not keys:
        raise DataError(f"{path}: no group with a recording in it")
    clips = [
        Clip(_name(Path(key), tags_of(key), layout), path, tags_of(key), at) for at, key in enumerate(keys)
    ]
    return Clips(name, layout, tuple(clips), partial(_read_hdf5, tuple(keys), layout))


def _read_hdf5(keys: tuple[str, ...], layout: Layout, clip: Clip) -> Motion:
    key = keys[clip.index]
    with foreign(clip.source, "HDF5 file"):
        h5py = import_module("h5py")
        with h5py.File(clip.source, "r") as file:
            node = file[key].get("skeleton")
            if not _is_small(node, h5py) or node.ndim != 3 or node.shape[1] != 3:
                raise DataError(f"{clip.source}: {key}/skeleton must be joints x 3 x frames")
            skeleton = node[()].astype(np.float64)
            count = file[key].get("num_subjects")
            persons = int(count[()]) if count is not None else len(skeleton) // len(layout)
    if persons < 1 or len(skeleton) < persons * len(layout):
        raise DataError(
            f"{clip.source}: {key}/skeleton has {len(skeleton)} joints for {persons} persons of {len(layout)}"
        )
    joints = skeleton[: persons * len(layout)].reshape(persons, len(layout), 3, -1).transpose(3, 0, 1, 2)
    return _motion(clip.source, joints, layout, None, clip.tags, clip.name)


def open_uwa3d(root: str | Path) -> Clips:
    """UWA3D Activity: MATLAB or text files named by action, subject and take, or the authors' HDF5."""
    return _open("uwa3d", root, ACTIVITY, read_uwa3d)


def open_uwa3d_multiview(root: str | Path) -> Clips:
    """UWA3D Multiview Activity II: ``aAA_sSS_eEE_vVV.mat`` or ``.txt``, or the authors' HDF5."""
    return _open("uwa3d-multiview", root, MULTIVIEW, read_uwa3d_multiview)


def _open(name: str, root: str | Path, layout: Layout, read: Any) -> Clips:
    """Recordings below ``root``; where the depth videos lie beside them, only paths that say skeleton."""
    everything = find_files(root, "*", name)
    files = [path for path in everything if path.suffix in (".mat", ".txt") and tags_of(path) != Tags()]
    files = [path for path in files if "skel" in str(path).removeprefix(str(root)).lower()] or files
    containers = [path for path in everything if path.suffix in (".hdf5", ".h5")]
    if not files and len(containers) == 1:
        return open_hdf5(containers[0], name, layout)
    if not files:
        raise DataError(
            f"{root}: no file such as a01_s02_e03_v04.mat and no single .hdf5 file in it or below"
        )
    listed = list_files(name, layout, files, read)
    clips = tuple(
        Clip(_name(clip.source, clip.tags, layout), clip.source, clip.tags) for clip in listed.clips
    )
    return Clips(name, layout, clips, listed.read, listed.dropped)
