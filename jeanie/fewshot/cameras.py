"""Positions of the recording cameras of a data set: by the place of the subject, or by setup number.

The paper estimates them from each data set ("Stereo projections"). A configuration stores them, so that a saved model
simulates the same views.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.errors import ConfigError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion
from jeanie.views.camera import NEAREST, CameraViews
from jeanie.views.camera_position import CameraPositions, correct_height, find_mean_torso

__all__ = [
    "CameraGroupsConfig",
    "ClipViews",
    "HiddenJoints",
    "check_has_depth",
    "describe_hidden_joints",
    "measure_views",
]

_DECIMALS = 3  # millimetres: estimates do not depend on the rounding of a machine


@runtime_checkable
class ClipViews(Protocol):
    """Settings of simulated views that a clip needs."""

    @property
    def kind(self) -> str: ...
    def find_camera(self, motion: Motion) -> tuple[float, float] | None: ...


def check_has_depth(layout: Layout, views: str) -> None:
    """Raise ConfigError unless joints have depth; views turn joints in space (paper, Table 4)."""
    if layout.dims == 2:
        raise ConfigError(
            f"views {views!r} need 3-D joints, got 2-D key points ({layout.name}): lift them first, with "
            "jeanie lift apply, or set views.kind to 'none'"
        )


class CameraGroupsConfig(Config):
    """Camera positions by the place of the subject: left, centre, right and bottom, centre, top."""

    distance: float = Field(gt=0, description="mean distance to the subject over all clips, metres")
    height: float = Field(description="mean height of the camera over all clips, metres")
    x: tuple[float, float] = Field(
        description="x of the torso between left and centre, and centre and right, metres"
    )
    y: tuple[float, float] = Field(description="y of the torso between bottom and centre, and centre and top")
    distances: tuple[float, float, float] = Field(
        description="distance of the left, centre and right clips, metres"
    )
    heights: tuple[float, float, float] = Field(
        description="height of the camera for the bottom, centre and top clips"
    )

    @classmethod
    def from_positions(cls, positions: CameraPositions) -> "CameraGroupsConfig":
        """Return the distances of the columns and the heights of the rows; a group without clips has the mean."""
        overall = correct_height(positions.overall)
        columns = [positions.columns.get(name, overall).distance for name in ("left", "centre", "right")]
        rows = [
            correct_height(positions.rows.get(name, positions.overall)).height
            for name in ("bottom", "centre", "top")
        ]
        values: dict[str, Any] = {
            "distance": overall.distance,
            "height": overall.height,
            "x": positions.x_borders,
            "y": positions.y_borders,
            "distances": columns,
            "heights": rows,
        }
        return cls(**{name: np.round(value, _DECIMALS).tolist() for name, value in values.items()})

    def find_position(self, motion: Motion) -> tuple[float, float]:
        """Return distance and height of the camera of a motion; the means if the motion is not in metres."""
        torso = find_mean_torso(motion) if motion.layout.unit == "m" else None
        if torso is None or not bool(torso.isfinite().all()):
            return self.distance, self.height
        column, row = bisect_right(self.x, float(torso[0])), bisect_right(self.y, float(torso[1]))
        return self.distances[column], self.heights[row]


class HiddenJoints:
    """Counts joints that simulated cameras do not see: behind a camera, or too near to it.

    Copies of a model share one count.
    """

    def __init__(self) -> None:
        # tensors on the device of the joints, because a number would have to wait for it
        self._hidden: int | Tensor = 0
        self._valid: int | Tensor = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> "HiddenJoints":
        return self

    def add(
        self,
        visible: Bool[Tensor, "clip person azimuth altitude frame joint"],
        valid: Bool[Tensor, "clip person #azimuth #altitude frame joint"],
    ) -> None:
        """Add the valid joints of a batch in every view, and those that are not seen."""
        self._valid = self._valid + valid.sum() * (visible.shape[2] * visible.shape[3])
        self._hidden = self._hidden + torch.logical_and(~visible, valid).sum()

    @property
    def valid(self) -> int:
        """Number of valid joints in all views."""
        return int(self._valid)

    @property
    def hidden(self) -> int:
        """Number of valid joints that a simulated camera did not see."""
        return int(self._hidden)


def describe_hidden_joints(counts: Mapping[str, int]) -> str:
    """Return a sentence on the joints that simulated cameras did not see; empty if they saw all.

    Args:
        counts: Numbers ``hidden`` and ``valid``, or nothing if no camera was simulated.
    """
    if not counts.get("hidden"):
        return ""
    share = 100 * counts["hidden"] / counts["valid"]
    return (
        f"{counts['hidden']} of {counts['valid']} joints in simulated views ({share:.2g} %) were behind a camera or "
        f"nearer than {NEAREST} m, and missing in that view"
    )


def measure_views(
    joints: Float[Tensor, "clip person frame joint 3"],
    valid: Bool[Tensor, "clip person frame joint"],
    views: CameraViews,
    cameras: Float[Tensor, "clip 2"] | None,
    hidden: HiddenJoints | None,
) -> tuple[
    Float[Tensor, "clip person azimuth altitude frame joint 3"],
    Bool[Tensor, "clip person #azimuth #altitude frame joint"],
]:
    """Return the measurements of every simulated camera, and the valid joints that it sees.

    Args:
        joints, valid: Centred joints in metres, and their mask.
        views: The simulated cameras.
        cameras: Distance of the recording camera of each clip in metres, and its elevation in degrees (default: those
            of ``views``).
        hidden: Counts the joints that are not seen.
    """
    places = () if cameras is None else cameras[:, None].unbind(-1)
    measured, is_visible = views.measure(joints, *places)
    valid = valid[:, :, None, None]
    if hidden is not None:
        hidden.add(is_visible, valid)
    is_complete = is_visible.device.type == "cpu" and bool(is_visible.all())
    return measured, valid if is_complete else valid & is_visible
