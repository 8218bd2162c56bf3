"""UWA3D Activity and UWA3D Multiview Activity II: text and MATLAB files, or HDF5 files of the JEANIE authors."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.clip_names import Tags, parse_tags
from jeanie.datasets.dataset import FileDataset, find_files, list_files
from jeanie.datasets.formats.hdf5 import open_hdf5
from jeanie.datasets.formats.mat import read_mat
from jeanie.datasets.formats.openni import get_published_name, make_openni_motion
from jeanie.datasets.formats.rows import read_rows
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["open_uwa3d", "open_uwa3d_multiview", "read_uwa3d", "read_uwa3d_multiview"]

JOINTS = 15
# UWA3D Activity has the torso after the arms; in the multiview set it is the third joint, as in SBU
ACTIVITY, MULTIVIEW = LAYOUTS["openni15"], LAYOUTS["sbu15"]


def read_uwa3d(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read a recording of UWA3D Activity, text or MATLAB (see ``read_uwa3d_multiview``); joints ``openni15``."""
    path = Path(path)
    return make_openni_motion(path, _read_joints(path), ACTIVITY, tags=parse_tags(path), layout=layout)


def read_uwa3d_multiview(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read a recording of UWA3D Multiview Activity II, text or MATLAB; joints ``sbu15``.

    Text: a row of 45 numbers per frame (46 with the frame number, 60 with a confidence after each joint), or a
    row of 3 or 4 numbers per joint. MATLAB: one array of size frames x 45, 45 x frames, 15 x 3 x frames,
    3 x 15 x frames or frames x 15 x 3, in a file up to version 7 (needs scipy) or of 7.3 (needs h5py).
    """
    path = Path(path)
    return make_openni_motion(path, _read_joints(path), MULTIVIEW, tags=parse_tags(path), layout=layout)


def _read_joints(path: Path) -> NDArray[np.float64]:
    """Read the numbers of a file as [frame, 1, joint, 3]."""
    if path.suffix.lower() == ".mat":
        return _select_joint_array(path, read_mat(path))
    rows = read_rows(path, (3 * JOINTS, 3 * JOINTS + 1, 4 * JOINTS, 3, 4))
    if rows.shape[1] == 3 * JOINTS + 1:
        rows = rows[:, 1:]
    numbers = 4 if rows.shape[1] % 4 == 0 else 3  # per joint
    if rows.size % (JOINTS * numbers):
        raise DataError(f"{path}: {len(rows)} rows of {rows.shape[1]} numbers; a frame has {JOINTS} joints")
    return rows.reshape(-1, 1, JOINTS, numbers)[..., :3]


def _select_joint_array(path: Path, arrays: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return the only array of a file that has the size of joints."""
    matches = [joints for array in arrays.values() if (joints := _arrange_axes(array)) is not None]
    if len(matches) != 1:
        sizes = ", ".join(f"{name[:40]} {array.shape}" for name, array in list(arrays.items())[:8])
        raise DataError(f"{path}: expected one array of {JOINTS} joints x 3 x frames, got {sizes or 'none'}")
    return matches[0]


def _arrange_axes(array: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return a MATLAB array of one of the known sizes as [frame, 1, joint, 3], or None for any other size."""
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


def open_uwa3d(root: str | Path) -> FileDataset:
    """Open UWA3D Activity: MATLAB or text files named by action, subject and take, or the authors' HDF5 file."""
    return _open("uwa3d", root, ACTIVITY, read_uwa3d)


def open_uwa3d_multiview(root: str | Path) -> FileDataset:
    """Open UWA3D Multiview Activity II: ``aAA_sSS_eEE_vVV.mat`` or ``.txt``, or the authors' HDF5 file."""
    return _open("uwa3d-multiview", root, MULTIVIEW, read_uwa3d_multiview)


def _open(name: str, root: str | Path, layout: Layout, read: Callable[[Path], Motion]) -> FileDataset:
    """List the recordings below ``root``. If there are also depth videos, take only paths with "skel"."""
    everything = find_files(root, "*", name)
    files = [path for path in everything if path.suffix in (".mat", ".txt") and parse_tags(path) != Tags()]
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
        replace(clip, name=get_published_name(clip.source, clip.tags, layout)) for clip in listed.clips
    )
    return replace(listed, clips=clips)
