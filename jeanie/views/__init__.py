"""Simulated views of a motion: Euler rotations, simulated cameras, and estimated camera positions."""

from jeanie.views.calibration import calibrate, fit_intrinsics
from jeanie.views.camera import CAMERAS, Camera, CameraViews
from jeanie.views.camera_position import NTU_SETUPS, estimate_camera_positions, estimate_positions_by
from jeanie.views.euler import EulerSimple, EulerViews

__all__ = [
    "CAMERAS",
    "NTU_SETUPS",
    "Camera",
    "CameraViews",
    "EulerSimple",
    "EulerViews",
    "calibrate",
    "estimate_camera_positions",
    "estimate_positions_by",
    "fit_intrinsics",
]
