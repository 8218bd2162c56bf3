"""Configurations of a few-shot model: simulated views, comparison, and the whole model."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from jeanie._internal.import_path import is_import_path
from jeanie.config import Config
from jeanie.encoders import EncoderConfig, GraphEncoderConfig, RawEncoderConfig
from jeanie.errors import ConfigError
from jeanie.fewshot.cameras import CameraGroupsConfig
from jeanie.fewshot.inputs import InputConfig, PrepareConfig
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion
from jeanie.views import CAMERAS, Camera, CameraViews, EulerSimple, EulerViews
from jeanie.views.camera import SENSORS, compute_elevation
from jeanie.views.euler import Order

__all__ = [
    "METRICS",
    "RAW",
    "RAWS",
    "REFERENCE",
    "AlignConfig",
    "CameraViewsConfig",
    "EulerViewsConfig",
    "FvmConfig",
    "JeanieConfig",
    "ModelConfig",
    "NoViewsConfig",
    "PoolConfig",
    "PoolTimeConfig",
    "PoolViewsConfig",
    "UncertainConfig",
    "ViewConfig",
    "check_model_config",
]


class NoViewsConfig(Config):
    """No simulated views: motions are compared as recorded.

    >>> NoViewsConfig().kind
    'none'
    """

    kind: Literal["none"] = "none"
    sides: ClassVar[Literal["query", "both"]] = "query"

    def build(self, layout: Layout | None = None) -> None:
        """Return None: there is nothing to simulate."""


class _GridConfig(Config):
    azimuth: float = Field(
        default=45, ge=0, le=180, description="largest angle to the left and right, degrees"
    )
    altitude: float = Field(default=45, ge=0, le=90, description="largest angle up and down, degrees")
    step: float = Field(default=15, gt=0, description="degrees between neighbouring views")
    sides: Literal["query", "both"] = Field(
        default="query", description="motions that get views: the query (4-D), or query and support (6-D)"
    )

    def find_camera(self, motion: Motion) -> tuple[float, float] | None:
        """Return distance and elevation of the camera that recorded a motion; None if they have no influence."""
        return None


class EulerViewsConfig(_GridConfig):
    """Views by rotation (paper, Eq. 1): a grid of both angles, or one row per angle (euler-simple).

    >>> EulerViewsConfig(azimuth=30, altitude=0).build().shape
    (5, 1)
    """

    kind: Literal["euler", "euler-simple"] = "euler"
    order: Order = Field(
        default="xyz",
        description="order of the rotations: xyz is R_x(altitude) R_y(azimuth), yxz the reverse",
    )

    def build(self, layout: Layout | None = None) -> EulerViews | EulerSimple:
        """Return the views as a function of joints."""
        views = EulerViews if self.kind == "euler" else EulerSimple
        return views(self.azimuth, self.altitude, self.step, self.order)


class CameraViewsConfig(_GridConfig):
    """Views by simulated cameras (paper, "Stereo projections").

    >>> CameraViewsConfig(azimuth=30, altitude=0).build().shape
    (5, 1)
    """

    kind: Literal["camera"] = "camera"
    camera: str = Field(
        default="dataset", description="sensor whose camera is assumed; dataset: that of the training data"
    )
    distance: float | None = Field(
        default=None,
        gt=0,
        description="metres to the subject for all clips; null: from groups or setups, or the default of the sensor",
    )
    height: float | None = Field(
        default=None,
        description="metres from the floor to the camera for all clips; null: as for the distance",
    )
    distortion: tuple[float, ...] = Field(
        default=(), max_length=2, description="radial lens distortion (k1, k2) of a calibration"
    )
    groups: CameraGroupsConfig | None = Field(
        default=None,
        description="camera positions by the place of the subject; null: training estimates them",
    )
    setups: tuple[tuple[int, float, float], ...] = Field(
        default=(),
        description="(setup, height, distance) of every camera setup, metres; takes precedence over groups",
    )

    @property
    def is_placed(self) -> bool:
        """Whether the camera positions are known and need not be estimated."""
        return self.distance is not None or self.groups is not None or bool(self.setups)

    def build(self, layout: Layout | None = None) -> CameraViews:
        """Return the views as a function of joints; ``layout`` selects the sensor of the data set.

        Raises:
            ConfigError: If the camera is unknown.
        """
        name = self.camera
        if name == "dataset":
            name = SENSORS.get("" if layout is None else layout.name, "kinect2")
        if name not in CAMERAS:
            raise ConfigError(f"no camera {name!r}; the known cameras are dataset, {', '.join(CAMERAS)}")
        sensor = CAMERAS[name]
        distance, height = sensor.distance, sensor.height
        if self.groups is not None:
            distance, height = self.groups.distance, self.groups.height
        if self.setups:
            height, distance = (sum(row[i] for row in self.setups) / len(self.setups) for i in (1, 2))
        camera = Camera(
            sensor.intrinsics,
            distance if self.distance is None else self.distance,
            height if self.height is None else self.height,
            self.distortion,
        )
        return CameraViews(camera, self.azimuth, self.altitude, self.step, units="metres")

    def find_camera(self, motion: Motion) -> tuple[float, float] | None:
        """Return distance and elevation of the camera that recorded a motion; None if all clips have the same."""
        if self.distance is not None:
            return None
        if self.setups:
            rows = [row for row in self.setups if row[0] == motion.setup] or self.setups
            height, distance = (sum(row[i] for row in rows) / len(rows) for i in (1, 2))
        elif self.groups is not None:
            distance, height = self.groups.find_position(motion)
        else:
            return None
        return distance, compute_elevation(height if self.height is None else self.height, distance)


ViewConfig = Annotated[NoViewsConfig | EulerViewsConfig | CameraViewsConfig, Field(discriminator="kind")]
"""Simulated viewpoints; ``kind`` selects the class."""


METRICS = ("euclidean", "sqeuclidean", "rbf", "cosine")
"""Base distances by name."""


class _ComparisonConfig(Config):
    metric: str = Field(
        default="rbf",
        description="base distance of blocks: euclidean, sqeuclidean, rbf, cosine (2 - 2 cos), or the import path of a "
        "function, package.module:name",
    )
    classes: Literal["supports", "prototype", "attention"] = Field(
        default="supports",
        description="how the supports of a class are combined: not at all, by their mean, or by summed attention",
    )
    sigma: float = Field(default=2.0, gt=0, description="width of the rbf distance")
    gamma: float = Field(default=0.01, ge=0, description="softmin temperature; 0 is the hard minimum")
    relative: bool = Field(
        default=False, description="multiply gamma by the running mean of the base distance"
    )
    persons: Literal["mean", "matched"] = Field(
        default="mean",
        description="how persons are combined: the mean of their features, or the best match of two persons with two",
    )

    @field_validator("metric")
    @classmethod
    def _check_metric(cls, value: str) -> str:
        if value not in METRICS and not is_import_path(value):
            raise ConfigError(
                f"metric needs one of {', '.join(METRICS)}, or an import path package.module:name, got {value!r}"
            )
        return value


class _PathConfig(_ComparisonConfig):
    band: float | None = Field(default=None, gt=0, description="Sakoe-Chiba band on |t/tau - s/tau'|")
    normalise: Literal["length", "area", "divergence"] | None = Field(
        default=None, description="normalisation of the distance"
    )


class JeanieConfig(_PathConfig):
    """A smooth path through time and views (paper, Alg. 1); without views it is soft-DTW.

    >>> JeanieConfig(gamma=0.1).shift
    1
    """

    method: Literal["jeanie"] = "jeanie"
    shift: int = Field(default=1, ge=0, description="largest change of view per step")
    plan: Literal["smooth", "preprint"] = Field(default="smooth", description="moves of the path")


class FvmConfig(_PathConfig):
    """Free viewpoint matching: a path through time, any view at every step (paper, Eq. 12).

    >>> FvmConfig(gamma=0.1).method
    'fvm'
    """

    method: Literal["fvm"] = "fvm"
    view_gamma: float | None = Field(
        default=None, ge=0, description="softmin temperature over views; null: gamma"
    )


class UncertainConfig(_PathConfig):
    """uDTW: a path weighted by a learnt uncertainty per block."""

    method: Literal["udtw"] = "udtw"
    shift: int = Field(default=1, ge=0, description="largest change of view per step")
    plan: Literal["smooth", "preprint"] = Field(default="smooth", description="moves of the path")
    uncertainty: float = Field(default=1.0, ge=0, description="weight of log sigma^2 along the path")


class PoolViewsConfig(_PathConfig):
    """A path through time over features that are means over views."""

    method: Literal["pool-views"] = "pool-views"


class PoolTimeConfig(_ComparisonConfig):
    """The best view of features that are means over time."""

    method: Literal["pool-time"] = "pool-time"
    normalise: Literal["length", "area", "divergence"] | None = Field(
        default=None, description="normalisation of the distance"
    )


class PoolConfig(_ComparisonConfig):
    """Means over time and views; ``gamma`` only affects the path that ``FewShotModel.trace`` returns."""

    method: Literal["pool"] = "pool"


AlignConfig = Annotated[
    JeanieConfig | FvmConfig | UncertainConfig | PoolViewsConfig | PoolTimeConfig | PoolConfig,
    Field(discriminator="method"),
]
"""How features are compared; ``method`` selects the class."""


class ModelConfig(Config):
    """A few-shot model: inputs, simulated views, encoder, and comparison.

    ``components`` are further models whose distances are added: d = sum over models of weight * d_model / unit.

    >>> ModelConfig().with_values({"views.kind": "none", "align.gamma": 0.1}).align.gamma
    0.1
    """

    inputs: InputConfig = Field(
        default=InputConfig(), description="preparation, streams and blocks of the motions"
    )
    views: ViewConfig = Field(default=EulerViewsConfig(), description="simulated viewpoints")
    encoder: EncoderConfig = Field(
        default=GraphEncoderConfig(), description="network that computes features of blocks"
    )
    align: AlignConfig = Field(
        default=JeanieConfig(), description="comparison of the features of two motions"
    )
    weight: float = Field(default=1.0, ge=0, description="factor of this model's distance in a sum")
    unit: float = Field(default=1.0, gt=0, description="divisor of this model's distance in a sum")
    hubness: float = Field(default=0.0, ge=0, description="exponent of the hubness correction; 0 disables it")
    mirror_penalty: float | None = Field(
        default=None,
        ge=1,
        description="penalty factor for matching the mirror image of a query; null disables mirroring",
    )
    components: "tuple[ModelConfig, ...]" = Field(
        default=(), description="further models whose distances are added"
    )


RAW = ModelConfig(
    inputs=InputConfig(
        prepare=PrepareConfig(size="bones", frames=32),
        scale="none",
        streams=("joints", "deviation"),
        block=1,
        stride=1.0,
    ),
    views=NoViewsConfig(),
    encoder=RawEncoderConfig(),
    align=JeanieConfig(metric="euclidean", gamma=0.0, normalise="length"),
)
"""DTW on positions in units of body size and on deviations from the mean pose; without learning and views."""

_FINE = RAW.with_values(
    inputs=InputConfig(
        prepare=PrepareConfig(body="canonical", frames=32),
        scale="none",
        streams=("joints", "deviation"),
        gains=(1.0, 3.0),
        block=1,
        stride=1.0,
    ),
    align=JeanieConfig(metric="sqeuclidean", gamma=0.0, normalise="length", persons="matched"),
)
REFERENCE = _FINE.with_values(
    unit=1.8,
    mirror_penalty=1.2,
    components=(
        _FINE.with_values(
            {"inputs.streams": ("velocity",), "inputs.gains": (), "weight": 0.2, "unit": 0.021}
        ),
        _FINE.with_values(
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
"""The reference: the best model without learning, the baseline of every learnt one.

It compares canonical bodies, so the result does not depend on size, position and direction. Two persons are matched.
It adds three distances: of positions with deviations from the mean pose, of velocities, and of positions over quarters
of the clip. Each distance is divided by its median on motion capture and gestures. A query also matches by its mirror
image. Gains, weights and the mirror penalty were chosen on held-out subjects of CMU, on procedural gestures and on the
embedded data set.
"""

RAWS: Mapping[str, ModelConfig] = MappingProxyType({"dtw": RAW, "reference": REFERENCE})
"""Models without learning by name."""


def check_model_config(config: ModelConfig) -> None:
    """Check the rules that concern several sections.

    Raises:
        ConfigError: If two sections do not fit together. The message says what to set.
    """
    prepare, views = config.inputs.prepare, config.views
    if views.kind == "camera" and (prepare.size != "none" or prepare.body != "recorded"):
        raise ConfigError("simulated cameras need joints in metres: set inputs.prepare.size to 'none'")
    if views.kind == "euler-simple" and views.sides == "both":
        raise ConfigError("views 'euler-simple' are for the query only: set views.sides to 'query'")
    if config.encoder.kind == "temporal" and prepare.frames is None and prepare.body == "recorded":
        raise ConfigError("a temporal encoder needs motions of one length: set inputs.prepare.frames")
    if config.hubness and (prepare.frames is None or views.sides == "both"):
        raise ConfigError(
            "a hubness correction needs motions of one length and supports as recorded: set inputs.prepare.frames "
            "and views.sides to 'query', or hubness to 0"
        )
    if config.align.persons == "matched" and prepare.persons > 2:
        raise ConfigError("at most two persons can be matched: set inputs.prepare.persons to 1 or 2")
    if config.align.persons == "matched" and config.align.classes == "prototype":
        raise ConfigError("two matched persons have no mean: set align.persons to 'mean' for prototypes")
    if config.align.classes == "attention" and config.align.metric != "cosine":
        raise ConfigError("attention needs cosine distances: set align.metric to 'cosine'")
    if isinstance(config.align, UncertainConfig) and config.align.normalise == "divergence":
        raise ConfigError("uDTW has no divergence: set align.normalise to 'length', 'area' or null")
