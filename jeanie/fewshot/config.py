"""What a few-shot model is made of: views, alignment, and the whole, as typed and frozen values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from jeanie.config import Config
from jeanie.encoders import EncoderConfig
from jeanie.errors import ConfigError
from jeanie.fewshot.inputs import InputConfig, PrepareConfig
from jeanie.views import CAMERAS, Camera, CameraViews, EulerSimple, EulerViews

__all__ = ["RAW", "RAWS", "REFERENCE", "AlignConfig", "ModelConfig", "ViewConfig", "check_whole"]


class ViewConfig(Config):
    """Which viewpoints are simulated (METHOD 4)."""

    kind: Literal["none", "euler", "euler-simple", "camera"] = Field(
        default="euler", description="how views are made"
    )
    azimuth: float = Field(default=45, ge=0, le=180, description="largest turn to either side, degrees")
    altitude: float = Field(default=45, ge=0, le=90, description="largest lift up and down, degrees")
    step: float = Field(default=15, gt=0, description="degrees between neighbouring views")
    sides: Literal["query", "both"] = Field(
        default="query", description="who gets views: the query (4-D), or both (6-D)"
    )
    camera: str = Field(default="kinect2", description="sensor whose camera is assumed, for kind 'camera'")
    distance: float | None = Field(
        default=None, gt=0, description="metres to the subject; none: the sensor's usual"
    )

    def build(self) -> EulerViews | EulerSimple | CameraViews | None:
        """The views as a function of joints, or None."""
        angles = (self.azimuth, self.altitude, self.step)
        if self.kind == "none":
            return None
        if self.kind == "euler":
            return EulerViews(*angles)
        if self.kind == "euler-simple":
            return EulerSimple(*angles)
        if self.camera not in CAMERAS:
            raise ConfigError(f"no camera {self.camera!r}; the known ones are {', '.join(CAMERAS)}")
        camera = CAMERAS[self.camera]
        if self.distance is not None:
            camera = Camera(camera.intrinsics, self.distance, camera.height)
        return CameraViews(camera, *angles, units="metres")


class AlignConfig(Config):
    """How two motions are aligned (METHOD 5, 6)."""

    method: Literal["jeanie", "fvm", "pool", "pool-time", "pool-views", "udtw"] = Field(
        default="jeanie",
        description="a smooth path through views, any view anywhere, means over time and views; means over time and "
        "the best view; means over views and a path through time; a path weighted by learnt uncertainty",
    )
    metric: Literal["euclidean", "sqeuclidean", "rbf", "cosine"] = Field(
        default="rbf", description="base distance of blocks; cosine is 2 - 2 cos"
    )
    classes: Literal["supports", "prototype", "attention"] = Field(
        default="supports",
        description="what several supports of a class are: each by itself, their mean, or their summed attention",
    )
    uncertainty: float = Field(default=1.0, ge=0, description="udtw: weight of log sigma^2 along the path")
    sigma: float = Field(default=2.0, gt=0, description="width of the rbf distance")
    gamma: float = Field(default=0.01, ge=0, description="softmin temperature; 0 is the hard minimum")
    view_gamma: float | None = Field(
        default=None, ge=0, description="the same over views, for fvm; none: gamma"
    )
    relative: bool = Field(default=False, description="gamma counts in running means of the base distance")
    shift: int = Field(default=1, ge=0, description="views that one step may turn")
    band: float | None = Field(default=None, gt=0, description="Sakoe-Chiba band on |t/tau - s/tau'|")
    plan: Literal["smooth", "preprint"] = Field(default="smooth", description="moves of the path")
    persons: Literal["mean", "matched"] = Field(
        default="mean",
        description="of several: the mean of their features, or the better matching of two and two",
    )
    normalise: Literal["length", "area", "divergence"] | None = Field(
        default=None, description="of the distance"
    )


class ModelConfig(Config):
    """A model: inputs, views, encoder, alignment; ``beside`` are models whose distances are added."""

    inputs: InputConfig = InputConfig()
    views: ViewConfig = ViewConfig()
    encoder: EncoderConfig = EncoderConfig()
    align: AlignConfig = AlignConfig()
    weight: float = Field(
        default=1.0, ge=0, description="factor of this model's distance where several are added"
    )
    unit: float = Field(default=1.0, gt=0, description="distance that counts as 1 where several are added")
    hubs: float = Field(
        default=0.0,
        ge=0,
        description="power by which supports that are near to all known motions are held back (`among`); 0: not",
    )
    reflection: float | None = Field(
        default=None,
        ge=1,
        description="factor at which a query's distance in a mirror counts, where it is less: people use either hand; "
        "none: never",
    )
    beside: "tuple[ModelConfig, ...]" = ()


RAW = ModelConfig(
    inputs=InputConfig(
        prepare=PrepareConfig(size="bones", frames=32),
        scale="none",
        streams=("joints", "deviation"),
        block=1,
        stride=1.0,
    ),
    views=ViewConfig(kind="none"),
    encoder=EncoderConfig(kind="raw"),
    align=AlignConfig(metric="euclidean", gamma=0.0, normalise="length"),
)
"""DTW on body-sized positions and deviations from the mean pose: no learning, no views."""

_FINE = RAW.but(
    inputs=InputConfig(
        prepare=PrepareConfig(body="normal", frames=32),
        scale="none",
        streams=("joints", "deviation"),
        gains=(1.0, 3.0),
        block=1,
        stride=1.0,
    ),
    align=AlignConfig(metric="sqeuclidean", gamma=0.0, normalise="length", persons="matched"),
)
REFERENCE = _FINE.but(
    unit=1.8,
    reflection=1.2,
    beside=(
        _FINE.but({"inputs.streams": ("velocity",), "inputs.gains": (), "weight": 0.2, "unit": 0.021}),
        _FINE.but(
            {
                "inputs.streams": ("joints",),
                "inputs.gains": (),
                "inputs.block": 8,
                "inputs.stride": 0.5,
                "weight": 0.2,
                "unit": 3.6,
            }
        ),
    ),
)
"""The strongest model without learning: what every learnt one is compared with.

A normal body (so size, place and facing are gone, two persons face and are matched with each other); positions with
deviations from the mean pose, and velocities, moment by moment, and positions over quarters of the clip; every
distance in units of its median on motion capture and gestures; a mirror. Gains, weights and factor were chosen on
held-out subjects of CMU, on procedural gestures and on the embedded data set.
"""

RAWS: Mapping[str, ModelConfig] = MappingProxyType({"dtw": RAW, "reference": REFERENCE})
"""Models without learning by name."""


def check_whole(config: ModelConfig) -> None:
    """What no single part of the configuration can see."""
    prepare, views = config.inputs.prepare, config.views
    if views.kind == "camera" and (prepare.size != "none" or prepare.body != "recorded"):
        raise ConfigError("simulated cameras need joints in metres: set inputs.prepare.size to 'none'")
    if views.kind == "euler-simple" and views.sides == "both":
        raise ConfigError("views 'euler-simple' are for the query only: set views.sides to 'query'")
    if config.encoder.kind == "temporal" and prepare.frames is None and prepare.body == "recorded":
        raise ConfigError("a temporal encoder needs motions of one length: set inputs.prepare.frames")
    if config.hubs and (prepare.frames is None or views.sides == "both"):
        raise ConfigError(
            "a usual course needs motions of one length and supports as recorded: set inputs.prepare.frames and "
            "views.sides to 'query', or hubs to 0"
        )
    if config.align.persons == "matched" and prepare.persons > 2:
        raise ConfigError("persons are matched two and two: set inputs.prepare.persons to 1 or 2")
    if config.align.persons == "matched" and config.align.classes == "prototype":
        raise ConfigError("two matched persons have no mean: set align.persons to 'mean' for prototypes")
    if config.align.classes == "attention" and config.align.metric != "cosine":
        raise ConfigError("attention is over cosines: set align.metric to 'cosine'")
    if config.align.method == "udtw" and config.align.normalise == "divergence":
        raise ConfigError("uncertainty has no self-distance: set align.normalise to 'length', 'area' or null")
