"""The search space: one dimension per value of a recipe that a search may change."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from jeanie.config import Config
from jeanie.errors import ConfigError
from jeanie.fewshot.config import NoViewsConfig
from jeanie.training.recipes import Recipe

__all__ = [
    "SPACE",
    "Dimension",
    "apply_changes",
    "initial_values",
    "read_space",
    "select_space",
    "suggest_changes",
]

Value = bool | int | float | str


class Dimension(Config):
    """The values of one option: a range, or choices."""

    low: float | None = Field(default=None, description="smallest value of a range")
    high: float | None = Field(default=None, description="largest value of a range")
    step: float | None = Field(default=None, gt=0, description="step of the range; null: any value")
    log: bool = Field(default=False, description="whether the range is searched on a logarithmic scale")
    whole: bool = Field(default=False, description="whether the range has whole numbers only")
    choices: tuple[Value, ...] = Field(default=(), description="values, instead of a range")

    @model_validator(mode="after")
    def _check(self) -> "Dimension":
        ranged = self.low is not None and self.high is not None
        if ranged == bool(self.choices) or (self.low is None) != (self.high is None):
            raise ConfigError("a dimension has low and high, or choices")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ConfigError(f"low is below high, got {self.low} and {self.high}")
        if self.log and (self.step is not None or (self.low or 0) <= 0):
            raise ConfigError("a logarithmic range must be above 0 and have no step")
        return self

    def suggest(self, trial: Any, name: str) -> Value:
        """Return the value that an Optuna trial suggests."""
        if self.choices:
            return trial.suggest_categorical(name, list(self.choices))  # type: ignore[no-any-return]
        low, high = float(self.low or 0), float(self.high or 0)
        if self.whole:
            step = int(self.step or 1)
            return int(trial.suggest_int(name, int(low), int(high), step=step, log=self.log))
        return float(trial.suggest_float(name, low, high, step=self.step, log=self.log))

    def contains(self, value: Any) -> bool:
        """Return whether a trial can have this value."""
        if self.choices:
            return value in self.choices
        low, high = float(self.low or 0), float(self.high or 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            return False
        step = self.step or (1 if self.whole else None)
        return step is None or abs((value - low) / step - round((value - low) / step)) < 1e-9


# Around the values of the paper and ours; `apply_changes` rounds angles to whole steps.
SPACE: Mapping[str, Dimension] = MappingProxyType(
    {
        "views.azimuth": Dimension(low=0, high=90, step=15),
        "views.altitude": Dimension(low=0, high=90, step=15),
        "views.step": Dimension(choices=(10.0, 15.0, 30.0)),
        "align.gamma": Dimension(low=1e-4, high=1, log=True),
        "align.sigma": Dimension(low=0.5, high=16, log=True),
        "align.shift": Dimension(low=0, high=4, whole=True),
        "encoder.layers": Dimension(low=1, high=10, whole=True),
        "encoder.alpha": Dimension(low=0, high=1, step=0.1),
        "encoder.dropout": Dimension(low=0, high=0.5, step=0.1),
        "inputs.block": Dimension(low=1, high=15, whole=True),
        "inputs.stride": Dimension(low=0.2, high=1, step=0.2),
        "loss.beta": Dimension(low=1, high=8, whole=True),
        "loss.target": Dimension(low=0.25, high=32, log=True),
        "rate": Dimension(low=1e-4, high=1e-2, log=True),
        "weight_decay": Dimension(low=1e-7, high=1e-2, log=True),
    }
)
"""All dimensions; `select_space` returns those that matter to a recipe."""


class _Space(Config):
    """A file of dimensions; nested tables form dotted names."""

    model_config = ConfigDict(extra="allow")


def read_space(path: str | Path) -> dict[str, Dimension]:
    """Read the dimensions of a TOML or JSON file, such as ``align.gamma = { low = 0.01, high = 1, log = true }``."""
    space = dict(_parse_dimensions(_Space.from_file(path).model_dump(), ""))
    if not space:
        raise ConfigError(
            f"{path}: the file has no dimension; write for example align.gamma = {{ low = 0.01, high = 1 }}"
        )
    return space


def _parse_dimensions(values: Mapping[str, Any], prefix: str) -> Sequence[tuple[str, Dimension]]:
    dimensions: list[tuple[str, Dimension]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name} needs a table with low and high, or choices, got {value!r}")
        if value.keys() & Dimension.model_fields.keys():
            dimensions.append((name, Dimension(**value)))
        else:
            dimensions += _parse_dimensions(value, f"{name}.")
    return dimensions


def select_space(recipe: Recipe, only: Sequence[str] = ()) -> dict[str, Dimension]:
    """Return the dimensions that matter to a recipe, or only those that are named."""
    model, loss = recipe.model, recipe.train.loss.kind
    has_gamma = model.align.method in ("jeanie", "fvm")
    useful = {
        "views.azimuth": model.views.kind != "none",
        "views.altitude": model.views.kind != "none",
        "views.step": model.views.kind != "none",
        "align.gamma": has_gamma,
        "align.sigma": model.align.metric == "rbf",
        "align.shift": model.views.kind != "none" and model.align.method == "jeanie",
        "encoder.layers": model.encoder.kind == "graph",
        "encoder.alpha": model.encoder.kind == "graph" and model.encoder.graph in ("appnp", "s2gc"),
        "encoder.dropout": model.encoder.kind == "graph",
        "loss.beta": loss == "similarity",
        "loss.target": loss in ("squared", "absolute"),
    }
    space = {name: dimension for name, dimension in SPACE.items() if useful.get(name, True)}
    unknown = [name for name in only if name not in space]
    if unknown:
        raise ConfigError(
            f"{unknown[0]!r} is not searched for this recipe; the options are {', '.join(space)}"
        )
    return {name: dimension for name, dimension in space.items() if not only or name in only}


def suggest_changes(trial: Any, space: Mapping[str, Dimension]) -> dict[str, Value]:
    """Return the changes of a recipe that an Optuna trial suggests."""
    return {name: dimension.suggest(trial, name) for name, dimension in space.items()}


def initial_values(recipe: Recipe, space: Mapping[str, Dimension]) -> dict[str, Value]:
    """Return the values of the recipe that lie in the space; the search starts from them."""
    values = recipe.model_dump()
    initial = {name: _find_value(values, name) for name in space}
    return {name: value for name, value in initial.items() if space[name].contains(value)}


def _find_value(values: Mapping[str, Any], name: str) -> Any:
    """Return the value of a dotted name in the model or the training, or None."""
    for part in (values["model"], values["train"], values):
        inner: Any = part
        for key in name.split("."):
            inner = inner.get(key) if isinstance(inner, Mapping) else None
        if inner is not None:
            return inner
    return None


def apply_changes(recipe: Recipe, changes: Mapping[str, Value]) -> Recipe:
    """Return the recipe of a trial; view angles are rounded to whole steps."""
    rounded, views = dict(changes), recipe.model.views
    if isinstance(views, NoViewsConfig):
        return recipe.with_values(rounded)
    step = float(changes.get("views.step", views.step))
    for name in ("views.azimuth", "views.altitude"):
        if name in rounded or "views.step" in rounded:
            angle = float(rounded.get(name, _find_value(recipe.model_dump(), name)))
            rounded[name] = step * round(angle / step)
    return recipe.with_values(rounded)
