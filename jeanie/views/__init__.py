"""Viewpoints around a motion: Euler rotations, simulated cameras, and where the camera stood."""

from jeanie.views.calibration import calibrate, fit_intrinsics
from jeanie.views.camera import CAMERAS, Camera, CameraViews
from jeanie.views.euler import EulerSimple, EulerViews
from jeanie.views.position import NTU_SETUPS, camera_positions, positions_by

__all__ = [
    "CAMERAS",
    "NTU_SETUPS",
    "Camera",
    "CameraViews",
    "EulerSimple",
    "EulerViews",
    "calibrate",
    "camera_positions",
    "fit_intrinsics",
    "positions_by",
]
