"""Where the camera stood, estimated from the skeletons that it recorded (paper, "Stereo projections").

Clips are grouped by where the subject stands: three equal ranges of x (left, centre, right) and three of y
(bottom, centre, top); the average distance and height of a group give its camera. Camera space as everywhere:
right-handed, metres, +y up, +z away from the camera; left is the smaller x, as in the sensor's own image.

The paper does not say how it measured height. People are upright on average, so the longest axis of a group's
mean poses is taken as the vertical, and the lowest joint along it as the floor: a camera that looks down is
tilted, and its own y axis would give a wrong height.
"""

import csv
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    "camera_positions",
    "mean_pose",
    "positions_by",
    "read_setups",
    "setups_by_height",
    "thirds",
]

Key = TypeVar("Key", bound=Hashable)

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
"""Cameras of NTU RGB+D 60 by setup number, S001 to S017; the three cameras of a setup have one height and distance.

The data set's own table (Shahroudy et al., CVPR 2016), as the README of
github.com/anthony-kobanda/human-action-recognition reprints it. S018 to S032 of NTU RGB+D 120 are not here:
``jeanie setups`` measures them, ``read_setups`` takes them from a file.
"""


@dataclass(frozen=True)
class Position:
    """A camera's place: ``distance`` from lens to torso and ``height`` from lens to floor, metres.

    ``tilt`` is how far the camera looks down, degrees; ``clips`` is how many clips say so.
    """

    distance: float
    height: float
    tilt: float
    clips: int

    def camera(self, intrinsics: Tensor | NDArray[Any] | Sequence[Sequence[float | int]]) -> Camera:
        """A camera of these intrinsics at this place."""
        return Camera(intrinsics, self.distance, self.height)


@dataclass(frozen=True)
class CameraPositions:
    """Camera places of a data set: over all clips, for each column and for each row that holds a clip.

    ``column_of`` and ``row_of`` name the group of every clip, in the order of the data set.
    """

    overall: Position
    columns: Mapping[str, Position]
    rows: Mapping[str, Position]
    column_of: tuple[str, ...]
    row_of: tuple[str, ...]


def camera_positions(motions: Iterable[Motion]) -> CameraPositions:
    """Average distance and height of the camera for three ranges of x and three of y (paper, Sec. 4).

    A clip lies in the range of its mean torso position. Memory: one mean pose a clip.
    """
    poses, torsos, _ = _poses(motions, lambda motion: None)
    column_of = tuple(_COLUMNS[i] for i in thirds(torsos[:, 0]).tolist())
    row_of = tuple(_ROWS[i] for i in thirds(torsos[:, 1]).tolist())
    return CameraPositions(
        overall=_position(poses, torsos),
        columns=_in_order(_COLUMNS, _grouped(poses, torsos, column_of)),
        rows=_in_order(_ROWS, _grouped(poses, torsos, row_of)),
        column_of=column_of,
        row_of=row_of,
    )


def positions_by(motions: Iterable[Motion], key: Callable[[Motion], Key]) -> dict[Key, Position]:
    """Average distance and height of the camera for every value of ``key``.

    NTU RGB+D names its cameras, so its places need no ranges: ``key=lambda m: (m.setup, m.view)``.
    """
    poses, torsos, keys = _poses(motions, key)
    return _grouped(poses, torsos, keys)


def mean_pose(motion: Motion) -> Float[Tensor, "joint 3"]:
    """Where each joint was on average over frames and persons, float64; NaN for one that was never seen."""
    seen = motion.valid.sum((0, 1))
    total = torch.where(motion.valid[..., None], motion.joints, 0).sum((0, 1), dtype=torch.float64)
    return total / torch.where(seen > 0, seen, math.nan)[:, None]


def thirds(values: Float[Tensor, " clip"]) -> Int[Tensor, " clip"]:
    """0, 1 or 2: which third of the range of ``values`` each lies in; 1 for all where there is no range.

    >>> thirds(torch.tensor([0.0, 0.9, 1.5, 2.1, 3.0])).tolist()
    [0, 0, 1, 2, 2]
    """
    low, high = values.aminmax()
    if low == high:
        return torch.ones_like(values, dtype=torch.int64)
    return (3 * (values - low) / (high - low)).long().clamp(0, 2)


def read_setups(path: str | Path, sensor: Camera = CAMERAS["kinect2"]) -> dict[int, Camera]:
    """Cameras by setup number from a CSV file with the columns ``setup, height, distance`` (metres).

    For setups that ``NTU_SETUPS`` does not hold: those of NTU RGB+D 120, whose table is printed in the data
    set's paper (Liu et al.), or your own. The intrinsics are those of ``sensor``.
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


def setups_by_height(cameras: Mapping[int, Camera]) -> dict[str, tuple[int, ...]]:
    """Setup numbers of the bottom, centre and top cameras: three equal ranges of height (paper, Suppl.)."""
    unknown = [setup for setup, camera in cameras.items() if camera.height is None]
    if unknown or not cameras:
        raise DataError(f"setups need heights, got none for {unknown or 'any setup'}")
    heights = torch.tensor([camera.height for camera in cameras.values()], dtype=torch.float64)
    groups = thirds(heights).tolist()
    return {
        name: tuple(setup for setup, group in zip(cameras, groups, strict=True) if group == i)
        for i, name in enumerate(_ROWS)
    }


def _poses(
    motions: Iterable[Motion], key: Callable[[Motion], Key]
) -> tuple[Float[Tensor, "clip joint 3"], Float[Tensor, "clip 3"], tuple[Key, ...]]:
    """Mean poses, mean torso positions and keys of all clips, read one by one."""
    poses: list[Tensor] = []
    keys: list[Key] = []
    layout = None
    for motion in motions:
        layout = layout or motion.layout
        name = motion.name or f"motion {len(poses)}"
        if motion.layout.unit != "m" or motion.layout.dims != 3:
            raise DataError(
                f"{name}: a camera's place needs 3-D joints in metres, got layout {motion.layout.name} "
                f"in {motion.layout.unit}, {motion.layout.dims}-D; give the camera's distance yourself"
            )
        if motion.layout != layout:
            raise DataError(
                f"{name}: expected layout {layout.name} as in the clips before, got {motion.layout.name}; "
                "convert the motions to one layout first"
            )
        poses.append(mean_pose(motion))
        keys.append(key(motion))
    if layout is None:
        raise DataError("a camera's place needs at least one motion, got none")
    stacked = torch.stack(poses)
    torsos = stacked[:, list(layout.centre)].mean(1)
    torsos = torch.where(torsos.isnan(), stacked.nanmean(1), torsos)
    return stacked, torsos, tuple(keys)


def _grouped(
    poses: Float[Tensor, "clip joint 3"], torsos: Float[Tensor, "clip 3"], names: Sequence[Key]
) -> dict[Key, Position]:
    members: dict[Key, list[int]] = {}
    for clip, name in enumerate(names):
        members.setdefault(name, []).append(clip)
    return {name: _position(poses[clips], torsos[clips]) for name, clips in members.items()}


def _in_order(names: Sequence[str], groups: Mapping[str, Position]) -> dict[str, Position]:
    return {name: groups[name] for name in names if name in groups}


def _position(poses: Float[Tensor, "clip joint 3"], torsos: Float[Tensor, "clip 3"]) -> Position:
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
