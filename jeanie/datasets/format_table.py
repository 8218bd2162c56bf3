"""The known file formats: how a file is recognised, and what reads it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jeanie.datasets.archive.reader import is_archive
from jeanie.datasets.formats.azure_kinect import read_azure_kinect
from jeanie.datasets.formats.bvh import read_bvh
from jeanie.datasets.formats.c3d import read_c3d
from jeanie.datasets.formats.capture_tables import NEXUS_SECTIONS, read_capture_table
from jeanie.datasets.formats.coco import read_coco
from jeanie.datasets.formats.compressed import GZIP_MAGIC, read_compressed_head
from jeanie.datasets.formats.csv_header import has_point_titles
from jeanie.datasets.formats.csv_table import read_csv
from jeanie.datasets.formats.fbx import read_fbx
from jeanie.datasets.formats.frame_folders import is_frame_folder
from jeanie.datasets.formats.gltf import read_gltf
from jeanie.datasets.formats.hdf5 import HDF5_MAGIC, read_hdf5
from jeanie.datasets.formats.json_table import is_json_table, read_json_table
from jeanie.datasets.formats.kinect import (
    read_action_pairs,
    read_msr_screen,
    read_msr_world,
    read_nw_ucla,
    read_sbu,
)
from jeanie.datasets.formats.kinetics import read_kinetics
from jeanie.datasets.formats.kinovea import is_kinovea, read_kinovea
from jeanie.datasets.formats.mediapipe import read_mediapipe
from jeanie.datasets.formats.mvnx import read_mvnx
from jeanie.datasets.formats.named_frames import is_named_frames, read_named_frames
from jeanie.datasets.formats.ntu import read_ntu
from jeanie.datasets.formats.openpose import read_openpose
from jeanie.datasets.formats.pose_arrays import read_npy, read_npz_poses
from jeanie.datasets.formats.precog import PRECOG_HEADER, read_precog
from jeanie.datasets.formats.pyskl import read_pyskl
from jeanie.datasets.formats.text_encoding import convert_to_utf8
from jeanie.datasets.formats.trc import read_trc
from jeanie.datasets.formats.uwa import read_uwa3d, read_uwa3d_multiview
from jeanie.datasets.formats.zed import read_zed
from jeanie.errors import DataError
from jeanie.skeleton.motion import Motion

__all__ = ["FORMATS", "Format", "detect_format"]

HEAD_BYTES = 2**16
_VIEW = re.compile(r"_v\d")


@dataclass(frozen=True)
class Format:
    """A file format.

    ``matches`` decides from the lower-case name and the first bytes of a file; ``read`` reads one motion. In a format
    that ``assumes_unit``, a file may not say its unit.
    """

    description: str
    matches: Callable[[str, bytes], bool]
    read: Callable[..., Motion]
    assumes_unit: bool = False


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


def _is_mvnx(name: str, head: bytes) -> bool:
    return b"<mvnx" in head[:4096] or name.endswith(".mvnx")


def _is_gltf(name: str, head: bytes) -> bool:
    return head[:4] == b"glTF" or name.endswith((".glb", ".gltf"))


def _is_fbx(name: str, head: bytes) -> bool:
    return head.startswith((b"Kaydara FBX", b"; FBX")) or name.endswith(".fbx")


def _is_nexus(name: str, head: bytes) -> bool:
    first, _, rest = head.lstrip(b"\xef\xbb\xbf").partition(b"\n")
    title = first.strip(b' ,;\t\r"').decode("latin-1")
    return title in NEXUS_SECTIONS and re.match(rb"[\s\"]*\d+(\.\d*)?[\s,;\"]*\n", rest) is not None


def _is_npz(name: str, head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04") and not name.endswith((".xlsx", ".ods", ".pt", ".pth", ".zip"))


def _is_openpose(name: str, head: bytes) -> bool:
    return _match_json(b'"people"')(name, head) and b"andmark" not in head


def _is_array_json(name: str, head: bytes) -> bool:
    return re.match(rb"\s*\[\s*\[\s*-?\d", head) is not None


def _is_mediapipe(name: str, head: bytes) -> bool:
    keys = (
        b"andmark",
        b'"frames"',
        b'"x"',
        b'"X"',
        b"[[[",
        b'"keypoints3D"',
        b'"nose"',
        b'"NOSE"',
        b"NOSE",
        b'"keypoints"',
    )
    is_printed = b"Landmark(x=" in head  # by Python's print
    return not is_printed and (_match_json(*keys)(name, head) or _is_array_json(name, head))


def _has_landmark_rows(head: bytes) -> bool:
    """Return whether key points are rows of all numbers of 33 landmarks."""
    row = re.search(rb'"keypoints"\s*:\s*\[([^\[\]{}]*)\]', head)
    return row is not None and row[1].count(b",") + 1 in (99, 132, 165)


def _is_csv(name: str, head: bytes) -> bool:
    if not name.endswith((".txt", ".dat", ".asc", ".prn")):
        return name.endswith((".csv", ".tsv"))
    return len(_parse_first_row(head)) in (99, 132, 165) or has_point_titles(
        Path(name), iter(head.decode("utf-8", "replace").splitlines())
    )


def _is_azure(name: str, head: bytes) -> bool:
    is_named = b'"bodies"' in head and b"PELVIS" in head
    return _match_json(b'"joint_positions"', b'"bone_list"')(name, head) or (
        is_named and _match_json(b"PELVIS")(name, head)
    )


def _is_coco(name: str, head: bytes) -> bool:
    if b"andmark" in head or b"eye_inner" in head.lower() or _has_landmark_rows(head):
        return False
    named = (
        b'"instances"',
        b'"instance_info"',
        b'"image_id"',
        b'"category_id"',
        b'"keypoint_scores"',
        b'"skeleton"',
        b'"visible"',
        b"houlder",
    )
    is_list = (
        any(key in head for key in named) or re.search(rb'"keypoints"\s*:\s*\[\s*-?\d', head) is not None
    )
    has_bodies = (
        b'"bodies"' in head and _match_json(b'"joints"')(name, head) and not is_named_frames(name, head)
    )
    return (_match_json(b'"keypoints"')(name, head) and is_list) or has_bodies


# The first match wins: content before file names, specific formats before general ones.
FORMATS: dict[str, Format] = {
    "bvh": Format("BVH motion capture", _match_start(b"HIERARCHY"), read_bvh, assumes_unit=True),
    "trc": Format("TRC markers", _match_start(b"PathFileType"), read_trc),
    "motive": Format(
        "CSV of OptiTrack's Motive",
        _match_start(b"Format Version"),
        partial(read_capture_table, program="motive"),
    ),
    "nexus": Format("CSV of Vicon's Nexus", _is_nexus, partial(read_capture_table, program="nexus")),
    "qualisys": Format(
        "TSV of Qualisys", _match_start(b"NO_OF_FRAMES"), partial(read_capture_table, program="qualisys")
    ),
    "deeplabcut": Format(
        "CSV of DeepLabCut", _match_start(b"scorer,"), partial(read_capture_table, program="deeplabcut")
    ),
    "kinovea": Format("Kinovea trajectories, CSV or text", is_kinovea, read_kinovea),
    "precog": Format("PRECOG sequences", _match_start(PRECOG_HEADER), read_precog),
    "npz": Format("npz of a motion, or of one array of poses", _is_npz, read_npz_poses),
    "npy": Format("npy array of poses", _match_start(b"\x93NUMPY"), read_npy, assumes_unit=True),
    "mvnx": Format("Xsens MVNX", _is_mvnx, read_mvnx),
    "gltf": Format("glTF or GLB with a skeletal animation", _is_gltf, read_gltf),
    "fbx": Format("FBX, which is not read", _is_fbx, read_fbx),
    "c3d": Format("C3D markers (needs ezc3d)", _match_ending(".c3d"), read_c3d),
    "ntu": Format("NTU RGB+D .skeleton", _match_ending(".skeleton"), read_ntu),
    "uwa3d-multiview": Format(
        "UWA3D Multiview Activity II text or .mat", _is_multiview, read_uwa3d_multiview
    ),
    "uwa3d": Format("UWA3D Activity text or .mat", _is_uwa, read_uwa3d),
    "hdf5": Format("HDF5 of the JEANIE authors (needs h5py)", _match_start(HDF5_MAGIC), read_hdf5),
    "pyskl": Format("pyskl or mmaction2 pickle", _match_ending(".pkl", ".pickle"), read_pyskl),
    "nw-ucla": Format("Northwestern-UCLA JSON", _match_json(b'"skeletons"'), read_nw_ucla),
    "azure-kinect": Format("Azure Kinect body tracking JSON", _is_azure, read_azure_kinect),
    "zed": Format("ZED body tracking JSON", _match_json(b'"body_list"', b'"is_tracked"'), read_zed),
    "openpose": Format("OpenPose JSON, one file or a folder", _is_openpose, read_openpose),
    "coco": Format("Key points as JSON: COCO, MMPose, AlphaPose, ViTPose", _is_coco, read_coco),
    "kinetics": Format("Kinetics-skeleton JSON", _match_json(b'"frame_index"', b'"skeleton"'), read_kinetics),
    "json-table": Format(
        "JSON of a table: records, columns, points by joint",
        is_json_table,
        read_json_table,
        assumes_unit=True,
    ),
    "json-joints": Format(
        "JSON of frames with named joints", is_named_frames, read_named_frames, assumes_unit=True
    ),
    "mediapipe": Format("MediaPipe Pose JSON or JSON lines", _is_mediapipe, read_mediapipe),
    "sbu": Format("SBU Kinect Interaction skeleton_pos.txt", _match_row_width(91), read_sbu),
    "action-pairs": Format(
        "3D Action Pairs or MSR Daily Activity text", _match_row_width(2), read_action_pairs
    ),
    "msr-screen": Format("MSRAction3D text, screen coordinates", _is_screen, read_msr_screen),
    "msr-world": Format("MSRAction3D text, world coordinates", _match_row_width(4), read_msr_world),
    "csv": Format("CSV with named columns", _is_csv, read_csv, assumes_unit=True),
}


_PROGRAM_ENDINGS = (
    ".tak", ".trb", ".cap", ".vsk", ".x2d", ".qtm", ".mvn", ".calc", ".raw", ".blend", ".max", ".ma", ".mb", ".bip",
    ".unitypackage", ".uasset", ".anim",
)  # fmt: skip
# files that are not read, and what to do instead
_ADVICE: tuple[tuple[Callable[[str, bytes], bool], str], ...] = (
    (_match_start(b"PAR1"), "Parquet is not read; save a CSV file: pandas.read_parquet(FILE).to_csv(...)"),
    (_match_start(b"landmark {"), "the printed text of landmarks is not read; save json.dumps(MessageToDict(results."
     "pose_landmarks)) per frame, or numpy arrays [frame, 33, 3]"),
    (lambda name, head: b"Landmark(x=" in head, "the printed text of landmarks is "
     "not read; save {'x': p.x, 'y': p.y, 'z': p.z} of each landmark with json.dump, or numpy arrays [frame, 33, 3]"),
    (lambda name, head: re.match(rb"\s*\[?\s*[\[{]\s*\{?'", head) is not None, "printed Python lists are not read; "
     "save them with json.dump"),
    (lambda name, head: b"Kinovea" in head or name.endswith(".kva"), "the own format or the spreadsheet of "
     "Kinovea; export the trajectories as CSV or text (.txt) from its menu File, Export"),
    (_match_ending(".xlsx", ".xls", ".ods"), "spreadsheets are not read; save the table as CSV"),
    (_match_ending(".pt", ".pth"), "files of torch are not read; save a numpy array: numpy.save(FILE, array)"),
    (_match_ending(".mot", ".sto"), "OpenSim's joint angles or forces; export the markers as TRC"),
    (_match_ending(".asf", ".amc"), "Acclaim files are not read; convert them to BVH"),
    (_match_ending(*_PROGRAM_ENDINGS), "the own format of a program is not read; export BVH, C3D, TRC, glTF or "
     "CSV from it"),
    (_match_ending(".rar", ".7z", ".zip", ".tar"), "a packed folder; unpack it first"),
    (_match_ending(".mp4", ".avi", ".mov", ".mkv", ".webm"), "a video; extract key points first, for example with "
     "MediaPipe, or open it in the page of: jeanie serve"),
)  # fmt: skip


_FRAME_FORMATS = ("mediapipe", "coco")


def detect_format(path: str | Path) -> str:
    """Detect the format of a file from its first bytes and its name.

    Args:
        path: The file, or a folder with one JSON file per frame.

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
        first = next((file for file in sorted(path.glob("*.json")) if file.is_file()), None)
        if first is not None and FORMATS["openpose"].matches(first.name, _read_head(first)):
            return "openpose"
        if first is not None and is_frame_folder(path):
            frame_format = detect_format(first)
            if frame_format in _FRAME_FORMATS:
                return frame_format
        raise DataError(
            f"{path}: a folder without JSON files, one per frame; give the path of one recording, or open it as "
            "a data set"
        )
    head, file_name = _read_head(path), path.name.lower()
    if head.startswith(GZIP_MAGIC):
        head, file_name = read_compressed_head(path, HEAD_BYTES), file_name.removesuffix(".gz")
    for name, form in FORMATS.items():
        if form.matches(file_name, head):
            return name
    raise DataError(f"{path}: {_describe_unknown(file_name, head)}")


def _describe_unknown(name: str, head: bytes) -> str:
    """Return why a file is not read, and what to do."""
    advice = next((text for test, text in _ADVICE if test(name, head)), None)
    if advice is not None:
        return advice
    if head.lstrip()[:1] in (b"{", b"["):
        return (
            "JSON without poses that are known; expected frames of named joints, [{'Head': [x, y, z], ...}, ...], or "
            "the output of a program in docs/formats.md; for lists without names give layout= (--layout) and "
            "format='mediapipe' (--format mediapipe)"
        )
    return (
        "unknown format; export BVH, C3D, TRC or a CSV file with columns head_x, head_y, head_z, ... "
        f"(docs/formats.md), or give format= (--format), one of: {', '.join(FORMATS)}"
    )


def _read_head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return convert_to_utf8(file.read(HEAD_BYTES))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
