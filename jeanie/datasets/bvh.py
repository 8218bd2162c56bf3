"""BVH motion capture: our own parser, and forward kinematics batched over frames."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.naming import CMU_NAMES, MAX_JOINTS, hierarchy_layout
from jeanie.datasets.table import check_size, metres, number_rows, rate_of, text_lines
from jeanie.datasets.text import make_motion
from jeanie.errors import DataError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["CMU_UNIT", "Hierarchy", "forward_kinematics", "parse_bvh", "read_bvh"]

CMU_UNIT = 0.0254 / 0.45  # metres: CMU's files count in inches / 0.45
_CMU_LEG = (9.0, 24.0)  # thigh + shin in CMU's units: half a metre to 1.35 metres

_AXES = "xyz"
_CHANNEL = re.compile(r"([xyz])(position|rotation)", re.IGNORECASE)
_MAX_CHANNELS = 12  # of one joint: nobody writes more than 6
_MAX_DEPTH = 128  # of joints within joints: fingers of a detailed rig reach 20
_POINTS_AT_ONCE = 2**17  # joints x frames that are turned together: about 50 MB of matrices


@dataclass
class Hierarchy:
    """The skeleton of a BVH file: joints and End Sites in file order, parents before children.

    ``channels[j]`` holds (column of a frame's row, "position" or "rotation", axis 0 to 2) in file order.
    """

    names: list[str] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    offsets: list[list[float]] = field(default_factory=list)
    channels: list[list[tuple[int, str, int]]] = field(default_factory=list)
    ends: list[bool] = field(default_factory=list)
    width: int = 0


def read_bvh(path: str | Path, *, unit: str | float | None = None, layout: Layout | None = None) -> Motion:
    """The joint positions of a BVH file as a motion in metres, End Sites included.

    ``unit`` is a name (m, dm, cm, mm, in, ft), or metres for one unit of the file, or None: then a skeleton
    with CMU's names and size counts in units of 56.44 mm, any other in centimetres. A motion-capture volume
    has no camera, so its axes are kept as they are: right-handed, +y up. ``layout`` picks joints by our name;
    without it a CMU skeleton gets ``cmu31``, any other its own hierarchy.
    """
    path = Path(path)
    hierarchy, rows, rate = parse_bvh(path)
    check_size(path, len(rows), 1, len(hierarchy.names))
    own, order = hierarchy_layout(
        hierarchy.names, hierarchy.parents, hierarchy.ends, wanted=layout, path=path
    )
    scale = _hinted_unit(hierarchy) if unit is None else metres(unit)
    positions = forward_kinematics(hierarchy, rows, scale)[:, order]
    valid = np.isfinite(positions).all(-1) & (order >= 0)
    return make_motion(path, positions[:, None], own, valid=valid[:, None], rate=rate)


def forward_kinematics(
    hierarchy: Hierarchy, rows: NDArray[np.float64], scale: float = 1.0
) -> NDArray[np.float32]:
    """Positions [frame, joint, 3] of all joints and End Sites from a file's rows [frame, channel].

    With column vectors, angles in degrees and the rotations of a joint in file order,
    G[j] = G[parent] R_1 R_2 R_3 and p[j] = p[parent] + G[parent] (offset or position channels).
    A position channel takes the place of that coordinate of the OFFSET.
    """
    frames, joints = len(rows), len(hierarchy.names)
    positions = np.empty((frames, joints, 3), np.float32)
    step = max(1, _POINTS_AT_ONCE // joints)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows becomes inf or NaN: a missing joint
        for start in range(0, frames, step):
            portion = _positions(hierarchy, rows[start : start + step])
            positions[start : start + step] = (portion * scale).astype(np.float32)
    return positions


def parse_bvh(path: str | Path) -> tuple[Hierarchy, NDArray[np.float64], float | None]:
    """Hierarchy, channel rows [frame, channel] and frames a second (None where the frame time is 0)."""
    path = Path(path)
    with text_lines(path) as file:
        lines = enumerate(file, 1)
        hierarchy = _hierarchy(path, lines)
        frames, seconds, first = _frames(path, lines)
        if frames == 0 or hierarchy.width == 0:
            raise DataError(f"{path}: {frames} frames of {hierarchy.width} channels hold no motion")
        rest = (line for _, line in lines)
        rows = number_rows(path, rest, width=hierarchy.width, first_line=first, most=frames)
    if len(rows) != frames:
        more = "more" if len(rows) > frames else str(len(rows))
        raise DataError(f"{path}: 'Frames: {frames}' but {more} rows follow; the file may be cut or joined")
    return hierarchy, rows, rate_of(seconds)


def _positions(hierarchy: Hierarchy, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positions [frame, joint, 3] of a portion of frames, one level of the tree at a time."""
    parents = np.array(hierarchy.parents)
    local, shift = _local(hierarchy, rows)
    turned, placed = local, shift.copy()  # roots stay where their own channels put them
    for level in _levels(parents):
        above = parents[level]
        placed[:, level] = placed[:, above] + np.einsum("fjab,fjb->fja", turned[:, above], shift[:, level])
        turned[:, level] = turned[:, above] @ local[:, level]
    return placed


def _local(
    hierarchy: Hierarchy, rows: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each joint's own rotation [frame, joint, 3, 3] and its shift from its parent [frame, joint, 3]."""
    frames, joints = len(rows), len(hierarchy.names)
    shift = np.broadcast_to(np.array(hierarchy.offsets), (frames, joints, 3)).copy()
    moved = [(j, axis, column) for j, own in enumerate(hierarchy.channels) for column, kind, axis in own
             if kind == "position"]  # fmt: skip
    if moved:
        joint, axis, column = np.array(moved).T
        shift[:, joint, axis] = rows[:, column]
    turns = [
        [(column, axis) for column, kind, axis in own if kind == "rotation"] for own in hierarchy.channels
    ]
    rotation = np.broadcast_to(np.eye(3), (frames, joints, 3, 3)).copy()
    for slot in range(max(map(len, turns))):
        turning = [(j, *own[slot]) for j, own in enumerate(turns) if slot < len(own)]
        joint, column, axis = np.array(turning).T
        rotation[:, joint] = rotation[:, joint] @ _axis_rotations(np.deg2rad(rows[:, column]), axis)
    return rotation, shift


def _axis_rotations(angle_rad: NDArray[np.float64], axis: NDArray[np.int64]) -> NDArray[np.float64]:
    """Right-handed rotations [frame, joint, 3, 3] about each joint's ``axis`` (0 to 2); column vectors."""
    joint, following, last = np.arange(len(axis)), (axis + 1) % 3, (axis + 2) % 3
    cosine, sine = np.cos(angle_rad), np.sin(angle_rad)
    matrices = np.zeros((*angle_rad.shape, 3, 3))
    matrices[:, joint, axis, axis] = 1
    matrices[:, joint, following, following] = cosine
    matrices[:, joint, last, last] = cosine
    matrices[:, joint, following, last] = -sine
    matrices[:, joint, last, following] = sine
    return matrices


def _levels(parents: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Joints at depth 1, 2, ... of the tree."""
    depth = np.zeros(len(parents), int)
    for joint in np.flatnonzero(parents >= 0):  # parents come first
        depth[joint] = depth[parents[joint]] + 1
    return (np.flatnonzero(depth == level) for level in range(1, depth.max() + 1))


def _hinted_unit(hierarchy: Hierarchy) -> float:
    """Metres per unit: CMU's own unit for a skeleton with CMU's names and size, else a centimetre."""
    if set(CMU_NAMES) <= set(hierarchy.names):
        shin, foot = (hierarchy.names.index(name) for name in ("LeftLeg", "LeftFoot"))
        leg = sum(float(np.linalg.norm(hierarchy.offsets[joint])) for joint in (shin, foot))
        if _CMU_LEG[0] < leg < _CMU_LEG[1]:
            return CMU_UNIT
    return 0.01


def _hierarchy(path: Path, lines: Iterable[tuple[int, str]]) -> Hierarchy:
    """The skeleton, up to and including the line ``MOTION``."""
    tree = Hierarchy()
    above: list[int] = []  # the open braces
    waiting = False  # a joint was named and its brace must follow
    number = 0
    for number, words in _statements(lines):
        where = f"{path}, line {number}"
        keyword = words[0].upper()
        if waiting != (keyword == "{"):
            raise DataError(f"{where}: expected '{{' after a joint's name, got {' '.join(words)[:40]!r}")
        if keyword == "{":
            above.append(len(tree.names) - 1)
            waiting = False
        elif keyword == "}" and above:
            above.pop()
        elif keyword in ("ROOT", "JOINT", "END"):
            _add_joint(where, tree, words, above)
            waiting = True
        elif keyword == "OFFSET" and above:
            tree.offsets[above[-1]] = _vector(where, words)
        elif keyword == "CHANNELS" and above:
            _add_channels(where, tree, words, above[-1])
        elif keyword == "MOTION" and tree.names and not above:
            return tree
        elif keyword != "HIERARCHY" or tree.names:
            raise DataError(f"{where}: {' '.join(words)[:40]!r} does not belong here in a BVH hierarchy")
    raise DataError(f"{path}, line {number}: the file ends without HIERARCHY, its joints and MOTION")


def _statements(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """(line, words) with every brace a statement of its own; blank lines are passed over."""
    pieces = ((number, piece.split()) for number, line in lines for piece in re.split(r"([{}])", line))
    return ((number, words) for number, words in pieces if words)


def _add_joint(where: str, tree: Hierarchy, words: list[str], above: list[int]) -> None:
    keyword, end = words[0].upper(), words[0].upper() == "END"
    if (keyword == "ROOT") == bool(above) or (keyword == "ROOT" and tree.names):
        raise DataError(f"{where}: expected one ROOT with all JOINTs inside it, got {' '.join(words)[:40]!r}")
    if above and tree.ends[above[-1]]:
        raise DataError(f"{where}: an End Site has no joints below it")
    if len(tree.names) >= MAX_JOINTS or len(above) >= _MAX_DEPTH:
        raise DataError(f"{where}: more than {MAX_JOINTS} joints, or {_MAX_DEPTH} within each other")
    name = f"{tree.names[above[-1]]}_end" if end else " ".join(words[1:])
    if not name or (name in tree.names and not end):
        raise DataError(f"{where}: every joint needs its own name, got {name!r}")
    tree.names.append(name)
    tree.parents.append(above[-1] if above else -1)
    tree.offsets.append([0.0, 0.0, 0.0])
    tree.channels.append([])
    tree.ends.append(end)


def _vector(where: str, words: list[str]) -> list[float]:
    try:
        x, y, z = (float(word) for word in words[1:])
    except ValueError:
        raise DataError(f"{where}: OFFSET needs three numbers, got {' '.join(words[1:])[:40]!r}") from None
    return [x, y, z]


def _add_channels(where: str, tree: Hierarchy, words: list[str], joint: int) -> None:
    found = [_CHANNEL.fullmatch(word) for word in words[2:]]
    if words[1:2] != [str(len(found))] or None in found or len(found) > _MAX_CHANNELS:
        raise DataError(
            f"{where}: expected CHANNELS, their number and as many of Xposition ... Zrotation, "
            f"got {' '.join(words)[:120]!r}"
        )
    if tree.channels[joint] or tree.ends[joint]:
        raise DataError(f"{where}: a joint has one line of CHANNELS and an End Site none")
    for match in filter(None, found):
        axis, kind = match.group(1).lower(), match.group(2).lower()
        tree.channels[joint].append((tree.width, kind, _AXES.index(axis)))
        tree.width += 1


def _frames(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[int, float, int]:
    """Number of frames, seconds a frame, and the number of the line after them."""
    forms = (("Frames:", r"Frames:\s*(\d{1,12})"), ("Frame Time:", r"Frame\s+Time:\s*(\S+)"))
    found: list[str] = []
    number = 0
    for wanted, form in forms:
        number, line = next(((number, line) for number, line in lines if line.strip()), (number, ""))
        match = re.fullmatch(form, line.strip(), re.IGNORECASE)
        if match is None:
            raise DataError(
                f"{path}, line {number}: expected {wanted!r} and a number, got {line.strip()[:40]!r}"
            )
        found.append(match.group(1))
    try:
        return int(found[0]), float(found[1]), number + 1
    except ValueError:
        raise DataError(f"{path}, line {number}: frame time {found[1][:40]!r} is not a number") from None
