"""Camera positions of a data set for simulated camera views: estimated once, then part of the model's settings."""

from collections.abc import Sequence

from jeanie.datasets import Dataset
from jeanie.errors import ConfigError
from jeanie.evaluation.protocols.camera_heights import measure_setups, read_known_setups, setup_numbers
from jeanie.fewshot.cameras import CameraGroupsConfig
from jeanie.fewshot.config import CameraViewsConfig, ModelConfig
from jeanie.skeleton import Motion
from jeanie.views.camera import SENSORS
from jeanie.views.camera_position import estimate_camera_positions

__all__ = ["place_cameras"]

_MAX_CLIPS = 2000  # of an estimate, evenly spaced
_NTU = ("ntu60", "ntu120")


def place_cameras(config: ModelConfig, dataset: Dataset) -> ModelConfig:
    """Return the settings of a model with the sensor and the camera positions of a data set.

    NTU RGB+D has a position per setup: as published, from ``setups.csv``, or measured. For other data sets, clips are
    grouped by the place of the subject (paper, "Stereo projections"). Views that are not by camera, and cameras that
    are already placed, stay as they are.

    Raises:
        ConfigError: Joints are not in metres.
    """
    components = tuple(place_cameras(part, dataset) for part in config.components)
    views = config.views
    if isinstance(views, CameraViewsConfig) and not views.is_placed:
        views = _place_views(views, dataset)
    if views is config.views and components == config.components:
        return config
    return config.with_values(views=views, components=components)


def _place_views(views: CameraViewsConfig, dataset: Dataset) -> CameraViewsConfig:
    layout = dataset.layout
    if layout.dims == 3 and layout.unit != "m":
        raise ConfigError(
            f"simulated cameras need joints in metres, data set {dataset.name!r} has them in {layout.unit}; "
            "set views.kind to 'euler'"
        )
    if layout.dims == 2:
        return views  # the model refuses 2-D key points
    sensor = SENSORS.get(layout.name, "kinect2") if views.camera == "dataset" else views.camera
    setups = _list_setups(dataset) if dataset.name in _NTU else ()
    if setups:
        return views.with_values(camera=sensor, setups=setups)
    groups = CameraGroupsConfig.from_positions(estimate_camera_positions(_select_motions(dataset)))
    return views.with_values(camera=sensor, groups=groups)


def _list_setups(dataset: Dataset) -> tuple[tuple[int, float, float], ...]:
    """Return (setup, height, distance) of every setup of a data set."""
    recorded = {setup for setup in setup_numbers(dataset) if setup is not None}
    known = read_known_setups(getattr(dataset, "root", None))
    rows = {setup: (camera.height or 0.0, camera.distance) for setup, camera in known.items()}
    if recorded - rows.keys():
        measured = measure_setups(dataset, without=rows.keys())
        rows |= {setup: (place.height, place.distance) for setup, place in measured.items()}
    return tuple((setup, round(rows[setup][0], 3), round(rows[setup][1], 3)) for setup in sorted(recorded))


def _select_motions(dataset: Dataset) -> Sequence[Motion]:
    count = min(len(dataset), _MAX_CLIPS)
    return [dataset.motions[number * len(dataset) // count] for number in range(count)]
