"""Recordings from files: ``read_motion`` for one, ``open_dataset`` for a published or prepared set."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jeanie.datasets.archive import is_archive, open_archive
from jeanie.datasets.bvh import read_bvh
from jeanie.datasets.cmu import open_cmu
from jeanie.datasets.dataset import Dataset
from jeanie.datasets.kinect import (
    open_action_pairs,
    open_msraction3d,
    open_nw_ucla,
    open_sbu,
    read_action_pairs,
    read_msr_screen,
    read_msr_world,
    read_nw_ucla,
    read_sbu,
)
from jeanie.datasets.mocap import read_c3d, read_csv, read_trc
from jeanie.datasets.npz import read_npz
from jeanie.datasets.ntu import open_ntu60, open_ntu120, read_ntu
from jeanie.datasets.poses import open_kinetics, read_kinetics, read_mediapipe, read_openpose
from jeanie.datasets.skl import open_ctr_gcn, open_pyskl, open_st_gcn, read_pyskl
from jeanie.datasets.synthetic import open_synthetic
from jeanie.datasets.uwa import (
    HDF5_MAGIC,
    open_hdf5,
    open_uwa3d,
    open_uwa3d_multiview,
    read_hdf5,
    read_uwa3d,
    read_uwa3d_multiview,
)
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["DATASETS", "FORMATS", "Dataset", "Format", "open_dataset", "read_motion", "recognise"]

HEAD_BYTES = 2**16
_VIEW = re.compile(r"_v\d")


@dataclass(frozen=True)
class Format:
    """A kind of file: what it is called, how it is recognised by name and first bytes, and what reads it."""

    what: str
    fits: Callable[[str, bytes], bool]
    read: Callable[..., Motion]


def _ends(*endings: str) -> Callable[[str, bytes], bool]:
    return lambda name, head: name.endswith(endings)


def _begins(mark: bytes) -> Callable[[str, bytes], bool]:
    return lambda name, head: head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(mark)


def _json_with(*keys: bytes) -> Callable[[str, bytes], bool]:
    def fits(name: str, head: bytes) -> bool:
        return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") and any(key in head for key in keys)

    return fits


def _row(head: bytes) -> list[float]:
    """The numbers of the first line that is not blank; none where it holds anything else."""
    first = next((line for line in head.split(b"\n") if line.strip()), b"").strip().rstrip(b",")
    try:
        return [float(cell) for cell in (first.split(b",") if b"," in first else first.split())]
    except ValueError:
        return []


def _text_rows(*widths: int) -> Callable[[str, bytes], bool]:
    return lambda name, head: name.endswith((".txt", ".csv")) and len(_row(head)) in widths


def _is_screen(name: str, head: bytes) -> bool:
    row = _row(head)
    far = len(row) == 4 and max(row[:3]) > 50  # no world coordinate is 50 m away
    return name.endswith(".txt") and len(row) == 4 and (far or name.endswith("_skeleton.txt"))


def _is_uwa(name: str, head: bytes) -> bool:
    return name.endswith(".mat") or _text_rows(3, 45, 46, 60)(name, head)


def _is_multiview(name: str, head: bytes) -> bool:
    return bool(_VIEW.search(name)) and _is_uwa(name, head)


# The first that fits is taken: marks within the file before endings, narrow before wide.
FORMATS: dict[str, Format] = {
    "bvh": Format("BVH motion capture", _begins(b"HIERARCHY"), read_bvh),
    "trc": Format("TRC markers", _begins(b"PathFileType"), read_trc),
    "npz": Format("npz with an array joints", _begins(b"PK\x03\x04"), read_npz),
    "c3d": Format("C3D markers (needs ezc3d)", _ends(".c3d"), read_c3d),
    "ntu": Format("NTU RGB+D .skeleton", _ends(".skeleton"), read_ntu),
    "uwa3d-multiview": Format(
        "UWA3D Multiview Activity II text or .mat", _is_multiview, read_uwa3d_multiview
    ),
    "uwa3d": Format("UWA3D Activity text or .mat", _is_uwa, read_uwa3d),
    "hdf5": Format("HDF5 of the JEANIE authors (needs h5py)", _begins(HDF5_MAGIC), read_hdf5),
    "pyskl": Format("pyskl or mmaction2 pickle", _ends(".pkl", ".pickle"), read_pyskl),
    "nw-ucla": Format("Northwestern-UCLA JSON", _json_with(b'"skeletons"'), read_nw_ucla),
    "openpose": Format("OpenPose JSON, one file or a folder", _json_with(b'"people"'), read_openpose),
    "kinetics": Format("Kinetics-skeleton JSON", _json_with(b'"frame_index"', b'"skeleton"'), read_kinetics),
    "mediapipe": Format(
        "MediaPipe Pose JSON", _json_with(b"andmark", b'"frames"', b'"x"', b"[[["), read_mediapipe
    ),
    "sbu": Format("SBU Kinect Interaction skeleton_pos.txt", _text_rows(91), read_sbu),
    "action-pairs": Format("3D Action Pairs or MSR Daily Activity text", _text_rows(2), read_action_pairs),
    "msr-screen": Format("MSRAction3D text, screen coordinates", _is_screen, read_msr_screen),
    "msr-world": Format("MSRAction3D text, world coordinates", _text_rows(4), read_msr_world),
    "csv": Format("CSV with named columns", _ends(".csv", ".tsv"), read_csv),
}

DATASETS: dict[str, Callable[[Path], Dataset]] = {
    "msraction3d": open_msraction3d,
    "action-pairs": open_action_pairs,
    "uwa3d": open_uwa3d,
    "uwa3d-multiview": open_uwa3d_multiview,
    "ntu60": open_ntu60,
    "ntu120": open_ntu120,
    "kinetics": open_kinetics,
    "nw-ucla": open_nw_ucla,
    "sbu": open_sbu,
    "cmu": open_cmu,
    "pyskl": open_pyskl,
    "st-gcn": open_st_gcn,
    "ctr-gcn": open_ctr_gcn,
    "archive": open_archive,
}
# data sets that the JEANIE authors keep as HDF5, with the layout of their joints
_HDF5 = {
    "msraction3d": "msr20",
    "action-pairs": "kinect20",
    "uwa3d": "openni15",
    "uwa3d-multiview": "sbu15",
    "ntu60": "ntu25",
    "ntu120": "ntu25",
}


def recognise(path: str | Path) -> str:
    """The format of a file, a key of ``FORMATS``, by its first bytes and its name."""
    path = Path(path)
    if path.is_dir():
        if is_archive(path):
            raise DataError(f"{path}: an archive of many motions; use open_dataset('archive', {str(path)!r})")
        if any(path.glob("*.json")):
            return "openpose"
        raise DataError(
            f"{path}: a folder without a JSON file for each frame; give the path of one recording"
        )
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    for name, form in FORMATS.items():
        if form.fits(path.name.lower(), head):
            return name
    known = "; ".join(f"{name} ({form.what})" for name, form in FORMATS.items())
    raise DataError(f"{path}: in no known format; say which by format=, one of: {known}")


def read_motion(path: str | Path, *, format: str | None = None, layout: Layout | str | None = None) -> Motion:
    """One recording from a file, or from a folder with an OpenPose file for each frame.

    ``format`` is a key of ``FORMATS``; without it name and content tell. ``layout`` (or its name) says which
    joints the file holds, where the format does not or another is wanted. What cannot be read is a DataError
    that names the file, the line where there are lines, and the cause.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise ConfigError(f"no format {format!r}; the known ones are {', '.join(FORMATS)}")
    if isinstance(layout, str):
        if layout not in LAYOUTS:
            raise ConfigError(f"no layout {layout!r}; the known ones are {', '.join(LAYOUTS)}")
        layout = LAYOUTS[layout]
    try:
        return FORMATS[format or recognise(path)].read(path, layout=layout)
    except JeanieError:
        raise
    except MemoryError:
        raise DataError(f"{path}: too large for the memory of this machine; cut it into clips") from None


def open_dataset(name: str, root: str | Path | None = None) -> Dataset:
    """A data set by its name: a key of ``DATASETS``, or "synthetic", which is generated and needs no files.

    ``root`` is the folder that it was unpacked into, or an archive that was prepared from it; without it the
    folder of that name in ``$JEANIE_DATA``. Recordings are listed, and each is read when it is asked for.
    """
    if name == "synthetic" and root is None:
        return open_synthetic()
    if name not in DATASETS and not (name == "synthetic" and root is not None and is_archive(root)):
        raise ConfigError(f"no data set {name!r}; the known ones are {', '.join(('synthetic', *DATASETS))}")
    if root is None:
        home = os.environ.get("JEANIE_DATA")
        if not home:
            raise ConfigError(
                f"where is {name}? give its folder as root, or set JEANIE_DATA to the folder above it"
            )
        root = Path(home) / name
    root = Path(root)
    if is_archive(root):
        return open_archive(root)
    if name in _HDF5 and root.suffix in (".hdf5", ".h5"):
        return open_hdf5(root, name, LAYOUTS[_HDF5[name]])
    return DATASETS[name](root)
