"""The known file formats and data sets: ``read_motion``, ``detect_format`` and ``open_dataset``."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from jeanie.datasets.archive.reader import is_archive, open_archive
from jeanie.datasets.dataset import Dataset, FileDataset
from jeanie.datasets.formats.bvh import read_bvh
from jeanie.datasets.formats.c3d import read_c3d
from jeanie.datasets.formats.cmu import open_cmu
from jeanie.datasets.formats.csv_table import read_csv
from jeanie.datasets.formats.gcn_arrays import open_ctr_gcn, open_st_gcn
from jeanie.datasets.formats.hdf5 import HDF5_MAGIC, open_hdf5, read_hdf5
from jeanie.datasets.formats.kinect import (
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
from jeanie.datasets.formats.kinetics import open_kinetics, read_kinetics
from jeanie.datasets.formats.mediapipe import read_mediapipe
from jeanie.datasets.formats.npz import read_npz
from jeanie.datasets.formats.ntu import open_ntu60, open_ntu120, read_ntu
from jeanie.datasets.formats.openpose import read_openpose
from jeanie.datasets.formats.precog import PRECOG_HEADER, open_precog, read_precog
from jeanie.datasets.formats.pyskl import open_pyskl, read_pyskl
from jeanie.datasets.formats.trc import read_trc
from jeanie.datasets.formats.uwa import open_uwa3d, open_uwa3d_multiview, read_uwa3d, read_uwa3d_multiview
from jeanie.datasets.synthetic.dataset import open_synthetic
from jeanie.errors import ConfigError, DataError, JeanieError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = ["DATASETS", "FORMATS", "Dataset", "Format", "detect_format", "open_dataset", "read_motion"]

HEAD_BYTES = 2**16
_VIEW = re.compile(r"_v\d")


@dataclass(frozen=True)
class Format:
    """A file format.

    ``matches`` decides from the lower-case name and the first bytes of a file; ``read`` reads one motion.
    """

    description: str
    matches: Callable[[str, bytes], bool]
    read: Callable[..., Motion]


def _match_ending(*endings: str) -> Callable[[str, bytes], bool]:
    return lambda name, head: name.endswith(endings)


def _match_start(mark: bytes) -> Callable[[str, bytes], bool]:
    return lambda name, head: head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(mark)


def _match_json(*keys: bytes) -> Callable[[str, bytes], bool]:
    def matches(name: str, head: bytes) -> bool:
        return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") and any(key in head for key in keys)

    return matches


def _parse_first_row(head: bytes) -> list[float]:
    """Return the numbers of the first line that is not blank; an empty list if it is anything else."""
    first = next((line for line in head.split(b"\n") if line.strip()), b"").strip().rstrip(b",")
    try:
        return [float(cell) for cell in (first.split(b",") if b"," in first else first.split())]
    except ValueError:
        return []


def _match_row_width(*widths: int) -> Callable[[str, bytes], bool]:
    return lambda name, head: name.endswith((".txt", ".csv")) and len(_parse_first_row(head)) in widths


def _is_screen(name: str, head: bytes) -> bool:
    row = _parse_first_row(head)
    is_far = len(row) == 4 and max(row[:3]) > 50  # no world coordinate is 50 m away
    return name.endswith(".txt") and len(row) == 4 and (is_far or name.endswith("_skeleton.txt"))


def _is_uwa(name: str, head: bytes) -> bool:
    return name.endswith(".mat") or _match_row_width(3, 45, 46, 60)(name, head)


def _is_multiview(name: str, head: bytes) -> bool:
    return bool(_VIEW.search(name)) and _is_uwa(name, head)


# The first match wins: content before file names, specific formats before general ones.
FORMATS: dict[str, Format] = {
    "bvh": Format("BVH motion capture", _match_start(b"HIERARCHY"), read_bvh),
    "trc": Format("TRC markers", _match_start(b"PathFileType"), read_trc),
    "precog": Format("PRECOG sequences", _match_start(PRECOG_HEADER), read_precog),
    "npz": Format("npz with an array joints", _match_start(b"PK\x03\x04"), read_npz),
    "c3d": Format("C3D markers (needs ezc3d)", _match_ending(".c3d"), read_c3d),
    "ntu": Format("NTU RGB+D .skeleton", _match_ending(".skeleton"), read_ntu),
    "uwa3d-multiview": Format(
        "UWA3D Multiview Activity II text or .mat", _is_multiview, read_uwa3d_multiview
    ),
    "uwa3d": Format("UWA3D Activity text or .mat", _is_uwa, read_uwa3d),
    "hdf5": Format("HDF5 of the JEANIE authors (needs h5py)", _match_start(HDF5_MAGIC), read_hdf5),
    "pyskl": Format("pyskl or mmaction2 pickle", _match_ending(".pkl", ".pickle"), read_pyskl),
    "nw-ucla": Format("Northwestern-UCLA JSON", _match_json(b'"skeletons"'), read_nw_ucla),
    "openpose": Format("OpenPose JSON, one file or a folder", _match_json(b'"people"'), read_openpose),
    "kinetics": Format("Kinetics-skeleton JSON", _match_json(b'"frame_index"', b'"skeleton"'), read_kinetics),
    "mediapipe": Format(
        "MediaPipe Pose JSON", _match_json(b"andmark", b'"frames"', b'"x"', b"[[["), read_mediapipe
    ),
    "sbu": Format("SBU Kinect Interaction skeleton_pos.txt", _match_row_width(91), read_sbu),
    "action-pairs": Format(
        "3D Action Pairs or MSR Daily Activity text", _match_row_width(2), read_action_pairs
    ),
    "msr-screen": Format("MSRAction3D text, screen coordinates", _is_screen, read_msr_screen),
    "msr-world": Format("MSRAction3D text, world coordinates", _match_row_width(4), read_msr_world),
    "csv": Format("CSV with named columns", _match_ending(".csv", ".tsv"), read_csv),
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
    "precog": open_precog,
    "pyskl": open_pyskl,
    "st-gcn": open_st_gcn,
    "ctr-gcn": open_ctr_gcn,
    "archive": open_archive,
}
# layouts of the data sets that the JEANIE authors store as HDF5
_HDF5 = {
    "msraction3d": "msr20",
    "action-pairs": "kinect20",
    "uwa3d": "openni15",
    "uwa3d-multiview": "sbu15",
    "ntu60": "ntu25",
    "ntu120": "ntu25",
}


def detect_format(path: str | Path) -> str:
    """Detect the format of a file from its first bytes and its name.

    Args:
        path: The file, or a folder with one OpenPose file per frame.

    Returns:
        A key of ``FORMATS``.

    Raises:
        DataError: The format is unknown, or the file cannot be read.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = Path(file.name).write_text("HIERARCHY")
    ...     detect_format(file.name)
    'bvh'
    """
    path = Path(path)
    if path.is_dir():
        if is_archive(path):
            raise DataError(f"{path}: an archive of many motions; use open_dataset('archive', {str(path)!r})")
        if any(path.glob("*.json")):
            return "openpose"
        raise DataError(f"{path}: a folder without JSON files, one per frame; give the path of one recording")
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    for name, form in FORMATS.items():
        if form.matches(path.name.lower(), head):
            return name
    known = "; ".join(f"{name} ({form.description})" for name, form in FORMATS.items())
    raise DataError(f"{path}: unknown format; give format=, one of: {known}")


def read_motion(path: str | Path, *, format: str | None = None, layout: Layout | str | None = None) -> Motion:
    """Read one recording from a file, or from a folder with one OpenPose file per frame.

    Args:
        path: The file or folder.
        format: A key of ``FORMATS``. By default it is detected from the content and the name of the file.
        layout: Layout of the joints, or its name. Needed if the format does not define one.

    Returns:
        The motion.

    Raises:
        DataError: The file cannot be read. The message names the file, the line of a text file, and the cause.
        ConfigError: ``format`` or ``layout`` is unknown, or an optional library is missing.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/wave.npz", joints=np.ones((60, 25, 3)))
    ...     len(read_motion(f"{folder}/wave.npz", layout="ntu25"))
    60
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise ConfigError(f"no format {format!r}; the known ones are {', '.join(FORMATS)}")
    if isinstance(layout, str):
        if layout not in LAYOUTS:
            raise ConfigError(f"no layout {layout!r}; the known ones are {', '.join(LAYOUTS)}")
        layout = LAYOUTS[layout]
    try:
        return FORMATS[format or detect_format(path)].read(path, layout=layout)
    except JeanieError:
        raise
    except MemoryError:
        raise DataError(f"{path}: too large for the memory of this machine; cut it into clips") from None


def open_dataset(name: str, root: str | Path | None = None) -> Dataset:
    """Open a data set. The recordings are listed now; each one is read when it is indexed.

    Args:
        name: A key of ``DATASETS``, or "synthetic", which is generated and needs no files.
        root: The folder of the unpacked data set, or an archive of it. By default the folder ``name`` in
            ``$JEANIE_DATA``.

    Returns:
        The data set.

    Raises:
        DataError: The folder or its files cannot be read.
        ConfigError: The name is unknown, or ``root`` is missing and ``$JEANIE_DATA`` is not set.

    >>> open_dataset("synthetic").labels[0]
    'wave'
    """
    if name == "synthetic" and root is None:
        return open_synthetic()
    if name not in DATASETS and not (name == "synthetic" and root is not None and is_archive(root)):
        raise ConfigError(f"no data set {name!r}; the known ones are {', '.join(('synthetic', *DATASETS))}")
    if root is None:
        folder = os.environ.get("JEANIE_DATA")
        if not folder:
            raise ConfigError(
                f"no folder for {name}; give it as root, or set JEANIE_DATA to the folder that contains it"
            )
        root = Path(folder) / name
    root = Path(root)
    if is_archive(root):
        return open_archive(root)
    if name in _HDF5 and root.suffix in (".hdf5", ".h5"):
        return open_hdf5(root, name, LAYOUTS[_HDF5[name]])
    dataset = DATASETS[name](root)
    return replace(dataset, root=root) if isinstance(dataset, FileDataset) else dataset
