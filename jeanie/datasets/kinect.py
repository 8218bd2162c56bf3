"""Recordings of Kinect v1: MSRAction3D, 3D Action Pairs, Northwestern-UCLA, SBU Kinect Interaction.

All of them end in Kinect's camera space: metres, +y up, +z away from the camera, and x growing towards the
right hand of a person who faces the camera (a right-handed system).
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.dataset import Clips, find_files, list_files
from jeanie.datasets.names import Tags, clip_name, tags_of
from jeanie.datasets.table import check_size, number_rows
from jeanie.datasets.text import as_array, expect, make_motion, read_json, read_lines, read_rows
from jeanie.errors import DataError
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion

__all__ = [
    "open_action_pairs",
    "open_msraction3d",
    "open_nw_ucla",
    "open_sbu",
    "read_action_pairs",
    "read_msr_screen",
    "read_msr_world",
    "read_nw_ucla",
    "read_sbu",
]

# Depth image of MSRAction3D: 320 x 240 pixels, and 250 depth units a metre. The focal length is the sensor's
# nominal one; a fit of screen files to the world files of the same clips gives 285.69 and the same centre.
FOCAL_PX = 285.63
CENTRE_PX = (160.0, 120.0)
DEPTH_UNITS_PER_METRE = 250.0

# SBU: x and y are parts of an image that is 2.56 m wide and 1.92 m high, y down; z in units of 1.28 m
SBU_SCALE = np.array([-2.56, -1.92, 10 / 7.8125])
SBU_OFFSET = np.array([1.28, 0.96, 0.0])

# MSRAction3D's recordings without any data
MSR_EMPTY = (("a13_s09_e02", "every joint is zero in every frame"),)


def read_msr_world(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """MSRAction3D in world coordinates: 20 rows ``x y z confidence`` a frame, metres, y up, as they are.

    The confidence is not used: it is 0 for joints whose positions are right.
    """
    path = Path(path)
    rows = _frames(path, read_rows(path, (4,)), 20)
    return make_motion(path, rows[..., :3], LAYOUTS["msr20"], layout=layout, rate=15.0)


@np.errstate(over="ignore", invalid="ignore")  # what overflows is missing
def read_msr_screen(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """MSRAction3D in screen coordinates: 20 rows ``u v d confidence`` a frame, brought back into metres.

    z = d / 250, x = (u - 160) z / f, y = (120 - v) z / f with f = 285.63 pixels. The images are mirrored, as
    Kinect v1 gives them, so u grows with x. Pixels are whole numbers: positions are right to about 5 mm.
    """
    path = Path(path)
    rows = _frames(path, read_rows(path, (4,)), 20)
    z = rows[..., 2] / DEPTH_UNITS_PER_METRE
    x = (rows[..., 0] - CENTRE_PX[0]) * z / FOCAL_PX
    y = (CENTRE_PX[1] - rows[..., 1]) * z / FOCAL_PX
    # a joint without depth has no place, whatever its pixel says
    valid = np.isfinite(rows[..., :3]).all(-1) & (rows[..., 2] > 0)
    joints = np.stack([x, y, z], axis=-1)
    return make_motion(path, joints, LAYOUTS["msr20"], layout=layout, valid=valid, rate=15.0)


def _frames(path: Path, rows: NDArray[np.float64], joints: int) -> NDArray[np.float64]:
    """Rows of joints [row, column] as [frame, 1, joint, column]."""
    if len(rows) % joints:
        raise DataError(
            f"{path}: ends after {len(rows) % joints} of the {joints} rows of frame {len(rows) // joints}; "
            "it is cut off or damaged"
        )
    return rows.reshape(-1, 1, joints, rows.shape[1])


def read_action_pairs(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """3D Action Pairs (and MSR Daily Activity 3D): ``frames joints``, then each frame with its count of rows.

    A body has two rows of four numbers a joint, first the world coordinates (metres, y up, taken as they
    are), then the screen's. A frame has 0 rows or those of some bodies, which keep their order.
    """
    path = Path(path)
    lines = read_lines(path)
    full = [at for at, line in enumerate(lines) if line.strip()]
    counts, joints = _pairs_header(path, lines, full)
    check_size(path, len(counts), max(counts, default=0), joints)
    rows = number_rows(path, lines, width=4, first_line=1)[::2, :3].reshape(-1, joints, 3)
    bodies = np.array(counts, dtype=np.int64)
    placed = np.full((len(bodies), max(1, bodies.max(initial=0)), joints, 3), np.nan)
    placed[np.arange(placed.shape[1]) < bodies[:, None]] = rows
    return make_motion(path, placed, LAYOUTS["kinect20"], layout=layout)


def _pairs_header(path: Path, lines: list[str], full: list[int]) -> tuple[list[int], int]:
    """Bodies of every frame and joints of a body; lines with counts are blanked: only rows are left."""
    if not full:
        raise DataError(f"{path}: empty; expected the numbers of frames and joints")
    frames, joints = _whole(path, lines, full[0], 2, "the numbers of frames and joints")
    if not 0 < joints <= 1024:
        raise DataError(f"{path}, line {full[0] + 1}: {joints} joints; expected 20")
    lines[full[0]] = ""
    counts: list[int] = []
    at = 1
    while at < len(full):
        (rows,) = _whole(path, lines, full[at], 1, "a frame's number of rows")
        if rows < 0 or rows % (2 * joints):
            raise DataError(
                f"{path}, line {full[at] + 1}: a frame of {rows} rows; a body has {2 * joints}, two a joint"
            )
        lines[full[at]] = ""
        counts.append(rows // (2 * joints))
        at += 1 + rows
    if at > len(full) or len(counts) != frames:
        raise DataError(
            f"{path}: {frames} frames announced, the file ends in frame {len(counts)}; "
            "it is cut off or damaged"
        )
    return counts, joints


def _whole(path: Path, lines: list[str], at: int, count: int, what: str) -> list[int]:
    """The whole numbers of a line."""
    cells = lines[at].split()
    if len(cells) != count or not all(len(cell) < 12 and cell.isdecimal() for cell in cells):
        raise DataError(f"{path}, line {at + 1}: expected {what}, got {lines[at].strip()[:40]!r}")
    return [int(cell) for cell in cells]


def read_nw_ucla(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Northwestern-UCLA as JSON ``{"file_name", "skeletons": [frame][20][3], "label"}``: metres, y up.

    Tags come from the name of the file, else from ``file_name``; the label is the action number of the name
    (1 to 12, without 7 and 10), and ``label`` (1 to 10) only where no name tells it.
    """
    path = Path(path)
    value = expect(path, read_json(path), dict, "the file")
    if "skeletons" not in value:
        raise DataError(f"{path}: has no key 'skeletons'; expected frames x 20 x 3 numbers there")
    joints = as_array(path, value["skeletons"], (None, None, 3), "skeletons")
    said = value.get("file_name")
    source = Path(said) if isinstance(said, str) and tags_of(path) == Tags() else path
    tags, label = tags_of(source), value.get("label")
    if tags.label is None and isinstance(label, str | int):
        tags = Tags(label=label)
    own = LAYOUTS["kinect20"]
    return make_motion(path, joints[:, None], own, layout=layout, tags=tags, name=clip_name(source))


@np.errstate(over="ignore", invalid="ignore")  # what overflows is missing
def read_sbu(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """SBU Kinect Interaction: rows ``frame, 30 x (x, y, z)``, 15 joints of each of two persons.

    Metres: X = 1.28 - 2.56 x, Y = 0.96 - 1.92 y (y points down in the file), Z = 1.28 z.
    """
    path = Path(path)
    rows = read_rows(path, (91,))
    raw = rows[:, 1:].reshape(-1, 2, 15, 3)
    valid = np.isfinite(raw).all(-1) & (raw != 0).any(-1)
    joints = SBU_OFFSET + SBU_SCALE * raw
    return make_motion(path, joints, LAYOUTS["sbu15"], layout=layout, valid=valid, rate=15.0)


def open_msraction3d(root: str | Path) -> Clips:
    """MSRAction3D: the world coordinates, or the screen coordinates where only those are there."""
    try:
        files, read = find_files(root, "*_skeleton3D.txt", "MSRAction3D"), read_msr_world
    except DataError:
        files, read = find_files(root, "*_skeleton.txt", "MSRAction3D"), read_msr_screen
    return list_files("msraction3d", LAYOUTS["msr20"], files, read).without(MSR_EMPTY)


def open_action_pairs(root: str | Path) -> Clips:
    """3D Action Pairs: ``aAA_sSS_eEE_skeleton.txt`` anywhere below ``root``."""
    files = find_files(root, "a*_s*_e*.txt", "3D Action Pairs")
    return list_files("action-pairs", LAYOUTS["kinect20"], files, read_action_pairs)


def open_nw_ucla(root: str | Path) -> Clips:
    """Northwestern-UCLA: ``aAA_sSS_eEE_vVV.json`` anywhere below ``root``."""
    files = find_files(root, "a*_s*_e*_v*.json", "Northwestern-UCLA")
    return list_files("nw-ucla", LAYOUTS["kinect20"], files, read_nw_ucla)


def open_sbu(root: str | Path) -> Clips:
    """SBU Kinect Interaction: ``sXXsYY/AA/TTT/skeleton_pos.txt`` anywhere below ``root``."""
    files = find_files(root, "skeleton_pos.txt", "SBU Kinect Interaction")
    return list_files("sbu", LAYOUTS["sbu15"], files, read_sbu)
