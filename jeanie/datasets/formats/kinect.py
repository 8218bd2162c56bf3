"""Recordings of Kinect v1: MSRAction3D, 3D Action Pairs, Northwestern-UCLA, SBU Kinect Interaction.

All motions are in Kinect's camera space: metres, +y up, +z away from the camera, and x growing towards the
right hand of a person who faces the camera (a right-handed system).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.clip_names import Tags, parse_clip_name, parse_tags
from jeanie.datasets.dataset import FileDataset, find_files, list_files
from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import check_size
from jeanie.datasets.formats.json_files import expect_type, read_json, to_array
from jeanie.datasets.formats.rows import open_lines, parse_rows, read_rows
from jeanie.datasets.joint_names import MAX_JOINTS
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

# Depth image of MSRAction3D: 320 x 240 pixels, and 250 depth units per metre. The focal length is the sensor's
# nominal one; a fit of screen files to the world files of the same clips gives 285.69 and the same centre.
FOCAL_PX = 285.63
CENTRE_PX = (160.0, 120.0)
DEPTH_UNITS_PER_METRE = 250.0

# SBU: x and y are parts of an image that is 2.56 m wide and 1.92 m high, y down; z in units of 1.28 m
SBU_SCALE = np.array([-2.56, -1.92, 10 / 7.8125])
SBU_OFFSET = np.array([1.28, 0.96, 0.0])

# recordings of MSRAction3D without any data
MSR_EMPTY = (("a13_s09_e02", "every joint is zero in every frame"),)


def read_msr_world(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read MSRAction3D in world coordinates: 20 rows ``x y z confidence`` per frame, metres, y up, unchanged.

    The confidence is not used: it is 0 also for joints with correct positions.
    """
    path = Path(path)
    rows = _read_frames(path)
    return make_motion(path, rows[..., :3], LAYOUTS["msr20"], layout=layout, rate=15.0)


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def read_msr_screen(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read MSRAction3D in screen coordinates: 20 rows ``u v d confidence`` per frame, converted to metres.

    z = d / 250, x = (u - 160) z / f, y = (120 - v) z / f with f = 285.63 pixels. The images are mirrored, as
    Kinect v1 gives them, so u grows with x. Pixels are whole numbers: the error is about 5 mm.
    """
    path = Path(path)
    rows = _read_frames(path)
    z = rows[..., 2] / DEPTH_UNITS_PER_METRE
    x = (rows[..., 0] - CENTRE_PX[0]) * z / FOCAL_PX
    y = (CENTRE_PX[1] - rows[..., 1]) * z / FOCAL_PX
    # a joint without depth has no position, whatever its pixel is
    valid = np.isfinite(rows[..., :3]).all(-1) & (rows[..., 2] > 0)
    joints = np.stack([x, y, z], axis=-1)
    return make_motion(path, joints, LAYOUTS["msr20"], layout=layout, valid=valid, rate=15.0)


def _read_frames(path: Path) -> NDArray[np.float64]:
    """Return the numbers of a file of MSRAction3D as [frame, 1, joint, column]."""
    rows = read_rows(path, (4,))
    frames, remainder = divmod(len(rows), 20)
    if remainder:
        raise DataError(
            f"{path}: ends after {remainder} of the 20 rows of frame {frames}; it is cut off or damaged"
        )
    return rows.reshape(-1, 1, 20, 4)


def read_action_pairs(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read 3D Action Pairs or MSR Daily Activity 3D: ``frames joints``, then each frame with its number of rows.

    A body has two rows of four numbers per joint: the world coordinates (metres, y up, unchanged), then the screen
    coordinates. A frame has 0 rows or those of some bodies, in the same order.
    """
    path = Path(path)
    with open_lines(path) as lines:
        number, first = next(
            ((number, line) for number, line in enumerate(lines, 1) if line.strip()), (1, "")
        )
        if not first:
            raise DataError(f"{path}: empty; expected the numbers of frames and joints")
        frames, joints = _parse_integers(path, number, first, 2, "the numbers of frames and joints")
        if not 0 < joints <= MAX_JOINTS:
            raise DataError(f"{path}, line {number}: {joints} joints; expected 20")
        check_size(path, frames, 1, joints)
        counts: list[int] = []
        body = _select_joint_rows(path, lines, number + 1, joints, frames, counts)
        rows = parse_rows(path, body, width=4, first_line=number + 1)
    if len(rows) != 2 * joints * sum(counts) or len(counts) != frames:
        raise DataError(
            f"{path}: {frames} frames announced, the file ends in frame {len(counts)}; "
            "it is cut off or damaged"
        )
    bodies = np.array(counts, dtype=np.int64)
    check_size(path, frames, max(1, int(bodies.max(initial=0))), joints)
    placed_points = np.full((frames, max(1, bodies.max(initial=0)), joints, 3), np.nan)
    placed_points[np.arange(placed_points.shape[1]) < bodies[:, None]] = rows[::2, :3].reshape(-1, joints, 3)
    return make_motion(path, placed_points, LAYOUTS["kinect20"], layout=layout)


def _select_joint_rows(
    path: Path, lines: Iterator[str], number: int, joints: int, frames: int, counts: list[int]
) -> Iterator[str]:
    """Yield the lines with joints, and a blank line for each other line.

    The number of bodies of every frame is appended to ``counts``. ``number`` is that of the first line.
    """
    remaining = 0  # lines of the current frame
    for line_number, line in enumerate(lines, number):
        if remaining or not line.strip():
            remaining -= bool(remaining and line.strip())
            yield line
            continue
        (remaining,) = _parse_integers(path, line_number, line, 1, "a frame's number of rows")
        if remaining % (2 * joints):
            raise DataError(
                f"{path}, line {line_number}: a frame of {remaining} rows; a body has {2 * joints}, "
                "two per joint"
            )
        counts.append(remaining // (2 * joints))
        if len(counts) > frames:
            raise DataError(f"{path}, line {line_number}: {frames} frames declared, but the file has more")
        yield ""


def _parse_integers(path: Path, number: int, line: str, count: int, name: str) -> list[int]:
    """Return the whole numbers of a line."""
    cells = line.split()
    if len(cells) != count or not all(len(cell) < 12 and cell.isdecimal() for cell in cells):
        raise DataError(f"{path}, line {number}: expected {name}, got {line.strip()[:40]!r}")
    return [int(cell) for cell in cells]


def read_nw_ucla(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read Northwestern-UCLA as JSON ``{"file_name", "skeletons": [frame][20][3], "label"}``: metres, y up.

    Tags come from the name of the file, else from ``file_name``; the label is the action number of the name
    (1 to 12, without 7 and 10), and ``label`` (1 to 10) only if no name has it.
    """
    path = Path(path)
    value = expect_type(path, read_json(path), dict, "the file")
    if "skeletons" not in value:
        raise DataError(f"{path}: has no key 'skeletons'; expected frames x 20 x 3 numbers there")
    joints = to_array(path, value["skeletons"], (None, None, 3), "skeletons")
    file_name = value.get("file_name")
    source = Path(file_name) if isinstance(file_name, str) and parse_tags(path) == Tags() else path
    tags, label = parse_tags(source), value.get("label")
    if tags.label is None and isinstance(label, str | int):
        tags = Tags(label=label)
    file_layout = LAYOUTS["kinect20"]
    return make_motion(
        path, joints[:, None], file_layout, layout=layout, tags=tags, name=parse_clip_name(source)
    )


@np.errstate(over="ignore", invalid="ignore")  # an overflow is a missing joint
def read_sbu(path: str | Path, *, layout: Layout | None = None) -> Motion:
    """Read SBU Kinect Interaction: rows ``frame, 30 x (x, y, z)``, 15 joints of each of two persons.

    Metres: X = 1.28 - 2.56 x, Y = 0.96 - 1.92 y (y points down in the file), Z = 1.28 z.
    """
    path = Path(path)
    rows = read_rows(path, (91,))
    raw = rows[:, 1:].reshape(-1, 2, 15, 3)
    valid = np.isfinite(raw).all(-1) & (raw != 0).any(-1)
    joints = SBU_OFFSET + SBU_SCALE * raw
    return make_motion(path, joints, LAYOUTS["sbu15"], layout=layout, valid=valid, rate=15.0)


def open_msraction3d(root: str | Path) -> FileDataset:
    """Open MSRAction3D: the world coordinates, or the screen coordinates if there are no others."""
    try:
        files, read = find_files(root, "*_skeleton3D.txt", "MSRAction3D"), read_msr_world
    except DataError:
        files, read = find_files(root, "*_skeleton.txt", "MSRAction3D"), read_msr_screen
    return list_files("msraction3d", LAYOUTS["msr20"], files, read).exclude(MSR_EMPTY)


def open_action_pairs(root: str | Path) -> FileDataset:
    """Open 3D Action Pairs: ``aAA_sSS_eEE_skeleton.txt`` anywhere below ``root``."""
    files = find_files(root, "a*_s*_e*.txt", "3D Action Pairs")
    return list_files("action-pairs", LAYOUTS["kinect20"], files, read_action_pairs)


def open_nw_ucla(root: str | Path) -> FileDataset:
    """Open Northwestern-UCLA: ``aAA_sSS_eEE_vVV.json`` anywhere below ``root``."""
    files = find_files(root, "a*_s*_e*_v*.json", "Northwestern-UCLA")
    return list_files("nw-ucla", LAYOUTS["kinect20"], files, read_nw_ucla)


def open_sbu(root: str | Path) -> FileDataset:
    """Open SBU Kinect Interaction: ``sXXsYY/AA/TTT/skeleton_pos.txt`` anywhere below ``root``."""
    files = find_files(root, "skeleton_pos.txt", "SBU Kinect Interaction")
    return list_files("sbu", LAYOUTS["sbu15"], files, read_sbu)
