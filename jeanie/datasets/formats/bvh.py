"""BVH motion capture: a parser, and forward kinematics batched over frames."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.build import make_motion
from jeanie.datasets.formats.files import get_point_limit
from jeanie.datasets.formats.rows import open_lines, parse_rows
from jeanie.datasets.formats.units import compute_frame_rate, get_metres_per_unit
from jeanie.datasets.joint_names import CMU_NAMES, MAX_JOINTS, find_hierarchy_layout
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["CMU_UNIT", "Hierarchy", "forward_kinematics", "parse_bvh", "read_bvh"]

CMU_UNIT = 0.0254 / 0.45  # metres; the unit of CMU's files is inches / 0.45
_CMU_LEG = (9.0, 24.0)  # thigh + shin in CMU's units: half a metre to 1.35 metres

_AXES = "xyz"
_CHANNEL = re.compile(r"([xyz])(position|rotation)", re.IGNORECASE)
_MAX_CHANNELS = 12  # per joint; usual files have 3 or 6
_MAX_DEPTH = 128  # of nested joints; the fingers of a detailed rig reach 20
_CHUNK_POINTS = 2**17  # joints x frames per batch: about 50 MB of matrices


@dataclass
class Hierarchy:
    """The skeleton of a BVH file: joints and End Sites in file order, parents before children.

    ``channels[j]`` has (column of a frame's row, "position" or "rotation", axis 0 to 2) in file order.
    """

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    offsets: list[list[float]] = field(default_factory=list)
    channels: list[list[tuple[int, str, int]]] = field(default_factory=list)
    ends: list[bool] = field(default_factory=list)
    width: int = 0


def read_bvh(
    path: str | Path,
    *,
    unit: str | float | None = None,
    layout: Layout | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Motion:
    """Read the joint positions of a BVH file as a motion in metres, including End Sites.

    The axes are unchanged: right-handed, +y up. A motion-capture volume has no camera.

    Args:
        path: The file.
        unit: Name of a unit (m, dm, cm, mm, in, ft) or its length in metres. By default 56.44 mm for a skeleton
            with CMU's names and size, centimetres for any other.
        layout: Selects joints by name. By default ``cmu31`` for a CMU skeleton, the hierarchy of the file for any
            other.
        aliases: Name in the file -> joint; "" keeps the name of the file.
    """
    path = Path(path)
    hierarchy, rows, rate = parse_bvh(path)
    file_layout, order = find_hierarchy_layout(
        hierarchy.names, hierarchy.parents, hierarchy.ends, layout=layout, path=path, aliases=aliases
    )
    scale = _guess_unit(hierarchy) if unit is None else get_metres_per_unit(unit)
    positions = forward_kinematics(hierarchy, rows, scale)[:, order]
    valid = np.isfinite(positions).all(-1) & (order >= 0)
    return make_motion(path, positions[:, None], file_layout, valid=valid[:, None], rate=rate)


def forward_kinematics(
    hierarchy: Hierarchy, rows: NDArray[np.float64], scale: float = 1.0
) -> NDArray[np.float32]:
    """Compute positions [frame, joint, 3] of all joints and End Sites from the rows [frame, channel] of a file.

    With column vectors, angles in degrees and the rotations of a joint in file order,
    G[j] = G[parent] R_1 R_2 R_3 and p[j] = p[parent] + G[parent] (offset or position channels).
    A position channel replaces that coordinate of the OFFSET.
    """
    frames, joints = len(rows), len(hierarchy.names)
    positions = np.empty((frames, joints, 3), np.float32)
    step = max(1, _CHUNK_POINTS // joints)
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow becomes inf or NaN: a missing joint
        for start in range(0, frames, step):
            chunk = _compute_positions(hierarchy, rows[start : start + step])
            positions[start : start + step] = (chunk * scale).astype(np.float32)
    return positions


def parse_bvh(path: str | Path) -> tuple[Hierarchy, NDArray[np.float64], float | None]:
    """Return hierarchy, rows [frame, channel] and frames per second (None if the frame time is 0)."""
    path = Path(path)
    with open_lines(path) as file:
        lines = enumerate(file, 1)
        hierarchy = _parse_hierarchy(path, lines)
        frames, seconds, first = _parse_frames(path, lines)
        if frames == 0 or hierarchy.width == 0:
            raise DataError(f"{path}: {frames} frames of {hierarchy.width} channels contain no motion")
        if 2 * frames * len(hierarchy.names) > get_point_limit(path):  # forward kinematics takes time
            raise DataError(
                f"{path}: {frames} frames x {len(hierarchy.names)} joints is more than a BVH file may hold "
                f"({get_point_limit(path) // 2} points); cut the recording into clips"
            )
        data_lines = (line for _, line in lines)
        rows = parse_rows(path, data_lines, width=hierarchy.width, first_line=first, max_rows=frames)
    if len(rows) != frames:
        more = "more" if len(rows) > frames else str(len(rows))
        raise DataError(f"{path}: 'Frames: {frames}' but {more} rows follow; the file may be cut or joined")
    return hierarchy, rows, compute_frame_rate(seconds)


def _compute_positions(hierarchy: Hierarchy, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute positions [frame, joint, 3], one level of the tree at a time."""
    parents = np.array(hierarchy.parents)
    local, shift = _compute_local_transforms(hierarchy, rows)
    rotation, position = local, shift.copy()  # roots stay where their own channels put them
    for level in _split_levels(parents):
        above = parents[level]
        offset = np.einsum("fjab,fjb->fja", rotation[:, above], shift[:, level])
        position[:, level] = position[:, above] + offset
        rotation[:, level] = rotation[:, above] @ local[:, level]
    return position


def _compute_local_transforms(
    hierarchy: Hierarchy, rows: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the local rotation [frame, joint, 3, 3] and the shift from the parent [frame, joint, 3]."""
    frames, joints = len(rows), len(hierarchy.names)
    shift = np.broadcast_to(np.array(hierarchy.offsets), (frames, joints, 3)).copy()
    shifts = [(j, axis, column) for j, channels in enumerate(hierarchy.channels) for column, kind, axis in channels
              if kind == "position"]  # fmt: skip
    if shifts:
        joint, axis, column = np.array(shifts).T
        shift[:, joint, axis] = rows[:, column]
    turns = [
        [(column, axis) for column, kind, axis in channels if kind == "rotation"]
        for channels in hierarchy.channels
    ]
    rotation = np.broadcast_to(np.eye(3), (frames, joints, 3, 3)).copy()
    for slot in range(max(map(len, turns))):
        turns_in_slot = [(j, *channels[slot]) for j, channels in enumerate(turns) if slot < len(channels)]
        joint, column, axis = np.array(turns_in_slot).T
        rotation[:, joint] = rotation[:, joint] @ _make_axis_rotations(np.deg2rad(rows[:, column]), axis)
    return rotation, shift


def _make_axis_rotations(angle_rad: NDArray[np.float64], axis: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return right-handed rotations [frame, joint, 3, 3] about the ``axis`` (0 to 2) of each joint."""
    joint, following, last = np.arange(len(axis)), (axis + 1) % 3, (axis + 2) % 3
    cosine, sine = np.cos(angle_rad), np.sin(angle_rad)
    matrices = np.zeros((*angle_rad.shape, 3, 3))
    matrices[:, joint, axis, axis] = 1
    matrices[:, joint, following, following] = cosine
    matrices[:, joint, last, last] = cosine
    matrices[:, joint, following, last] = -sine
    matrices[:, joint, last, following] = sine
    return matrices


def _split_levels(parents: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Return the joints at depth 1, 2, ... of the tree."""
    depth = np.zeros(len(parents), int)
    for joint in np.flatnonzero(parents >= 0):  # parents come first
        depth[joint] = depth[parents[joint]] + 1
    return (np.flatnonzero(depth == level) for level in range(1, depth.max() + 1))


def _guess_unit(hierarchy: Hierarchy) -> float:
    """Return metres per unit: CMU's unit for a skeleton with CMU's names and size, otherwise a centimetre."""
    if set(CMU_NAMES) <= set(hierarchy.names):
        shin, foot = (hierarchy.names.index(name) for name in ("LeftLeg", "LeftFoot"))
        leg = sum(float(np.linalg.norm(hierarchy.offsets[joint])) for joint in (shin, foot))
        if _CMU_LEG[0] < leg < _CMU_LEG[1]:
            return CMU_UNIT
    return 0.01


def _parse_hierarchy(path: Path, lines: Iterable[tuple[int, str]]) -> Hierarchy:
    """Parse the skeleton, up to and including the line ``MOTION``."""
    tree = Hierarchy()
    above: list[int] = []  # the open braces
    expects_brace = False  # after the name of a joint
    number = 0
    for number, words in _split_statements(lines):
        where = f"{path}, line {number}"
        keyword = words[0].upper()
        if expects_brace != (keyword == "{"):
            raise DataError(f"{where}: expected '{{' after a joint's name, got {' '.join(words)[:40]!r}")
        if keyword == "{":
            above.append(len(tree.names) - 1)
            expects_brace = False
        elif keyword == "}" and above:
            above.pop()
        elif keyword in ("ROOT", "JOINT", "END"):
            _add_joint(where, tree, words, above)
            expects_brace = True
        elif keyword == "OFFSET" and above:
            tree.offsets[above[-1]] = _parse_vector(where, words)
        elif keyword == "CHANNELS" and above:
            _add_channels(where, tree, words, above[-1])
        elif keyword == "MOTION" and tree.names and not above:
            return tree
        elif keyword != "HIERARCHY" or tree.names:
            raise DataError(f"{where}: {' '.join(words)[:40]!r} does not belong here in a BVH hierarchy")
    raise DataError(f"{path}, line {number}: the file ends without HIERARCHY, its joints and MOTION")


def _split_statements(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, words); every brace is a statement of its own, and blank lines are skipped."""
    pieces = ((number, piece.split()) for number, line in lines for piece in re.split(r"([{}])", line))
    return ((number, words) for number, words in pieces if words)


def _add_joint(where: str, tree: Hierarchy, words: list[str], above: list[int]) -> None:
    keyword, end = words[0].upper(), words[0].upper() == "END"
    if (keyword == "ROOT") == bool(above) or (keyword == "ROOT" and tree.names):
        raise DataError(f"{where}: expected one ROOT with all JOINTs inside it, got {' '.join(words)[:40]!r}")
    if above and tree.ends[above[-1]]:
        raise DataError(f"{where}: an End Site has no joints below it")
    if len(tree.names) >= MAX_JOINTS or len(above) >= _MAX_DEPTH:
        raise DataError(f"{where}: more than {MAX_JOINTS} joints, or more than {_MAX_DEPTH} levels")
    name = f"{tree.names[above[-1]]}_end" if end else " ".join(words[1:])
    if not name or (name in tree.names and not end):
        raise DataError(f"{where}: every joint needs its own name, got {name!r}")
    tree.names.append(name)
    tree.parents.append(above[-1] if above else -1)
    tree.offsets.append([0.0, 0.0, 0.0])
    tree.channels.append([])
    tree.ends.append(end)


def _parse_vector(where: str, words: list[str]) -> list[float]:
    try:
        x, y, z = (float(word) for word in words[1:])
    except ValueError:
        raise DataError(f"{where}: OFFSET needs three numbers, got {' '.join(words[1:])[:40]!r}") from None
    return [x, y, z]


def _add_channels(where: str, tree: Hierarchy, words: list[str], joint: int) -> None:
    matches = [_CHANNEL.fullmatch(word) for word in words[2:]]
    if words[1:2] != [str(len(matches))] or None in matches or len(matches) > _MAX_CHANNELS:
        raise DataError(
            f"{where}: expected CHANNELS, a number and as many of Xposition ... Zrotation, "
            f"got {' '.join(words)[:120]!r}"
        )
    if tree.channels[joint] or tree.ends[joint]:
        raise DataError(f"{where}: a joint has one line of CHANNELS and an End Site none")
    for match in filter(None, matches):
        axis, kind = match.group(1).lower(), match.group(2).lower()
        tree.channels[joint].append((tree.width, kind, _AXES.index(axis)))
        tree.width += 1


def _parse_frames(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[int, float, int]:
    """Return the number of frames, seconds per frame, and the number of the line after them."""
    forms = (("Frames:", r"Frames:\s*(\d{1,12})"), ("Frame Time:", r"Frame\s+Time:\s*(\S+)"))
    values: list[str] = []
    number = 0
    for expected, form in forms:
        number, line = next(((number, line) for number, line in lines if line.strip()), (number, ""))
        match = re.fullmatch(form, line.strip(), re.IGNORECASE)
        if match is None:
            raise DataError(
                f"{path}, line {number}: expected {expected!r} and a number, got {line.strip()[:40]!r}"
            )
        values.append(match.group(1))
    try:
        return int(values[0]), float(values[1]), number + 1
    except ValueError:
        raise DataError(f"{path}, line {number}: frame time {values[1][:40]!r} is not a number") from None
