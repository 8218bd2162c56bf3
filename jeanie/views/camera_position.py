"""Estimate the position of the camera from the recorded skeletons (paper, "Stereo projections").

Clips are grouped by the position of the subject: three equal ranges of x (left, centre, right) and three of y
(bottom, centre, top). The mean distance and height of a group give its camera. Camera space is right-handed, in
metres, +y up, +z away from the camera; left is the smaller x, as in the image of the sensor.

The paper does not say how to measure the height. People are upright on average: the longest axis of the mean
poses of a group is the vertical, and the lowest joint along it is taken for the floor. The y axis of a camera that
looks down is tilted and would give a wrong height. Such heights are about 0.1 m low; ``correct_height`` corrects them.
"""

import csv
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from jeanie.errors import DataError
from jeanie.skeleton.motion import Motion
from jeanie.views.camera import CAMERAS, Camera

__all__ = [
    "NTU_SETUPS",
    "CameraPositions",
    "Position",
    "compute_mean_pose",
    "correct_height",
    "estimate_camera_positions",
    "estimate_positions_by",
    "find_mean_torso",
    "group_setups_by_height",
    "read_setups",
    "split_into_thirds",
]

Key = TypeVar("Key", bound=Hashable)

LOWEST_JOINT = 0.09  # metres from the floor to the lowest joint of a mean pose; see correct_height

_COLUMNS = ("left", "centre", "right")
_ROWS = ("bottom", "centre", "top")

_HEIGHTS_AND_DISTANCES = (
    (1.7, 3.5), (1.7, 2.5), (1.4, 2.5), (1.2, 3.0), (1.2, 3.0), (0.8, 3.5), (0.5, 4.5), (1.4, 3.5), (0.8, 2.0),
    (1.8, 3.0), (1.9, 3.0), (2.0, 3.0), (2.1, 3.0), (2.2, 3.0), (2.3, 3.5), (2.7, 3.5), (2.5, 3.0),
)  # fmt: skip

NTU_SETUPS: Mapping[int, Camera] = MappingProxyType(
    {
        setup: Camera(CAMERAS["kinect2"].intrinsics, distance, height)
        for setup, (height, distance) in enumerate(_HEIGHTS_AND_DISTANCES, start=1)
    }
)
"""Cameras of NTU RGB+D 60 by setup number, S001 to S017. The three cameras of a setup share height and distance.

The table of the data set (Shahroudy et al., CVPR 2016), as reprinted in the README of
github.com/anthony-kobanda/human-action-recognition. S018 to S032 of NTU RGB+D 120 are not included:
``jeanie setups`` estimates them, ``read_setups`` reads them from a file.
"""


@dataclass(frozen=True)
class Position:
    """The position of a camera: ``distance`` from lens to torso and ``height`` from floor to lens, in metres.

    ``tilt`` is the downward angle of the camera in degrees; ``clips`` is the number of clips of the estimate.
    """

    distance: float
    height: float
    tilt: float
    clips: int

    def camera(self, intrinsics: Tensor | NDArray[Any] | Sequence[Sequence[float]]) -> Camera:
        """Return a camera with these intrinsics at this position."""
        return Camera(intrinsics, self.distance, self.height)


@dataclass(frozen=True)
class CameraPositions:
    """Camera positions of a data set: over all clips, per column and per row of subject positions.

    Columns and rows without a clip are left out. ``column_of`` and ``row_of`` name the group of every clip.
    ``x_borders`` and ``y_borders`` are the two borders between the three ranges of the torso, in metres.
    """

    overall: Position
    columns: Mapping[str, Position]
    rows: Mapping[str, Position]
    column_of: tuple[str, ...]
    row_of: tuple[str, ...]
    x_borders: tuple[float, float]
    y_borders: tuple[float, float]


def estimate_camera_positions(motions: Iterable[Motion]) -> CameraPositions:
    """Return the mean distance and height of the camera for three ranges of x and three of y (paper, Sec. 5).

    The mean torso position of a clip decides its range. Memory: one mean pose per clip.
    """
    poses, torsos, _ = _collect_poses(motions, lambda motion: None)
    column_of = tuple(_COLUMNS[i] for i in split_into_thirds(torsos[:, 0]).tolist())
    row_of = tuple(_ROWS[i] for i in split_into_thirds(torsos[:, 1]).tolist())
    return CameraPositions(
        overall=_estimate_position(poses, torsos),
        columns=_order_groups(_COLUMNS, _group_positions(poses, torsos, column_of)),
        rows=_order_groups(_ROWS, _group_positions(poses, torsos, row_of)),
        column_of=column_of,
        row_of=row_of,
        x_borders=_find_borders(torsos[:, 0]),
        y_borders=_find_borders(torsos[:, 1]),
    )


def estimate_positions_by(motions: Iterable[Motion], key: Callable[[Motion], Key]) -> dict[Key, Position]:
    """Return the mean distance and height of the camera for every value of ``key``.

    NTU RGB+D names its cameras and needs no ranges: ``key=lambda m: (m.setup, m.view)``.
    """
    poses, torsos, keys = _collect_poses(motions, key)
    return _group_positions(poses, torsos, keys)


def correct_height(position: Position) -> Position:
    """Return a position whose height is measured from the floor, not from the lowest joint of the mean pose.

    Feet are joints inside the body, and people lift them: the lowest joint of a mean pose lies above the floor.
    ``benchmarks/camera_height.py`` measures how far: 274 labelled clips of CMU, whose floor is y = 0, seen by simulated
    cameras at heights from 0.5 to 2.5 m, give heights that are 0.08 to 0.11 m low for the layouts of Kinect v1 and v2.
    """
    return replace(position, height=position.height + LOWEST_JOINT)


def compute_mean_pose(motion: Motion) -> Float[Tensor, "joint 3"]:
    """Return the mean position of each joint over frames and persons in float64; NaN if it is never valid."""
    visible_frames = motion.valid.sum((0, 1))
    total = torch.where(motion.valid[..., None], motion.joints, 0).sum((0, 1), dtype=torch.float64)
    return total / torch.where(visible_frames > 0, visible_frames, math.nan)[:, None]


def find_mean_torso(motion: Motion) -> Float[Tensor, " 3"]:
    """Return the mean position of the torso over frames and persons; of all joints if it is never valid."""
    pose = compute_mean_pose(motion)
    torso = pose[list(motion.layout.centre)].mean(0)
    return torch.where(torso.isnan(), pose.nanmean(0), torso)


def _find_borders(values: Float[Tensor, " clip"]) -> tuple[float, float]:
    """Return the two values between three equal ranges."""
    low, high = (bound.item() for bound in values.aminmax())
    return low + (high - low) / 3, low + 2 * (high - low) / 3


def split_into_thirds(values: Float[Tensor, " clip"]) -> Int[Tensor, " clip"]:
    """Return for each value its third of the range: 0, 1 or 2. If all values are equal, all are in 1.

    >>> split_into_thirds(torch.tensor([0.0, 0.9, 1.5, 2.1, 3.0])).tolist()
    [0, 0, 1, 2, 2]
    """
    low, high = values.aminmax()
    if low == high:
        return torch.ones_like(values, dtype=torch.int64)
    return (3 * (values - low) / (high - low)).long().clamp(0, 2)


def read_setups(path: str | Path, sensor: Camera = CAMERAS["kinect2"]) -> dict[int, Camera]:
    """Read cameras by setup number from a CSV file with the columns ``setup, height, distance`` (metres).

    For setups that are not in ``NTU_SETUPS``: NTU RGB+D 120 (its table is in the paper of Liu et al.) or your
    own. The cameras have the intrinsics of ``sensor``.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file, skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot read a table of setups: {error}") from error
    cameras: dict[int, Camera] = {}
    for line, row in enumerate(rows, start=2):
        try:
            setup = int(row["setup"])
            cameras[setup] = Camera(sensor.intrinsics, float(row["distance"]), float(row["height"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}, line {line}: expected setup, height, distance (a number, metres, metres), "
                f"got {row}: {error}"
            ) from error
    if not cameras:
        raise DataError(f"{path}: no setups; the first line must name the columns setup, height, distance")
    return cameras


def group_setups_by_height(cameras: Mapping[int, Camera]) -> dict[str, tuple[int, ...]]:
    """Return the setup numbers of the bottom, centre and top cameras: three equal ranges of height (paper, Suppl.)."""
    unknown = [setup for setup, camera in cameras.items() if camera.height is None]
    if unknown or not cameras:
        raise DataError(f"setups need heights, got none for {unknown or 'any setup'}")
    heights = torch.tensor([camera.height for camera in cameras.values()], dtype=torch.float64)
    groups = split_into_thirds(heights).tolist()
    return {
        name: tuple(setup for setup, group in zip(cameras, groups, strict=True) if group == i)
        for i, name in enumerate(_ROWS)
    }


def _collect_poses(
    motions: Iterable[Motion], key: Callable[[Motion], Key]
) -> tuple[Float[Tensor, "clip joint 3"], Float[Tensor, "clip 3"], tuple[Key, ...]]:
    """Return the mean poses, mean torso positions and keys of all clips; reads one clip at a time."""
    poses: list[Tensor] = []
    keys: list[Key] = []
    layout = None
    for motion in motions:
        layout = layout or motion.layout
        name = motion.name or f"motion {len(poses)}"
        if motion.layout.unit != "m" or motion.layout.dims != 3:
            raise DataError(
                f"{name}: a camera position needs 3-D joints in metres, got layout {motion.layout.name} "
                f"in {motion.layout.unit}, {motion.layout.dims}-D; pass the distance of the camera"
            )
        if motion.layout != layout:
            raise DataError(
                f"{name}: expected layout {layout.name} of the previous clips, got {motion.layout.name}; "
                "convert the motions to one layout first"
            )
        poses.append(compute_mean_pose(motion))
        keys.append(key(motion))
    if layout is None:
        raise DataError("a camera position needs at least one motion, got none")
    stacked = torch.stack(poses)
    torsos = stacked[:, list(layout.centre)].mean(1)
    torsos = torch.where(torsos.isnan(), stacked.nanmean(1), torsos)
    return stacked, torsos, tuple(keys)


def _group_positions(
    poses: Float[Tensor, "clip joint 3"], torsos: Float[Tensor, "clip 3"], names: Sequence[Key]
) -> dict[Key, Position]:
    members: dict[Key, list[int]] = {}
    for clip, name in enumerate(names):
        members.setdefault(name, []).append(clip)
    return {name: _estimate_position(poses[clips], torsos[clips]) for name, clips in members.items()}


def _order_groups(names: Sequence[str], groups: Mapping[str, Position]) -> dict[str, Position]:
    return {name: groups[name] for name in names if name in groups}


def _estimate_position(poses: Float[Tensor, "clip joint 3"], torsos: Float[Tensor, "clip 3"]) -> Position:
    limbs = (poses - torsos[:, None]).nan_to_num(0).flatten(0, 1)
    up = torch.linalg.eigh(limbs.mT @ limbs).eigenvectors[:, -1]
    up = torch.where(up[1] < 0, -up, up)
    floor = (poses @ up).nan_to_num(math.inf).amin(1)
    return Position(
        distance=torch.linalg.vector_norm(torsos, dim=-1).mean().item(),
        height=-floor.mean().item(),
        tilt=math.degrees(math.atan2(-up[2].item(), up[1].item())),
        clips=len(poses),
    )
