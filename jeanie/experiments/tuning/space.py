"""What a search may change, and how far: one dimension for each value of a recipe."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ConfigDict, Field, model_validator

from jeanie.config import Config
from jeanie.errors import ConfigError
from jeanie.experiments.recipes import Recipe

__all__ = ["SPACE", "Dimension", "read_space", "settled", "space_of", "started", "suggested"]

Value = bool | int | float | str


class Dimension(Config):
    """The values that one option may take: a range, or choices."""

    low: float | None = Field(default=None, description="smallest value of a range")
    high: float | None = Field(default=None, description="largest value of a range")
    step: float | None = Field(default=None, gt=0, description="grid of a range; none: any value")
    log: bool = Field(default=False, description="whether a range is searched by factors")
    whole: bool = Field(default=False, description="whether a range has whole numbers only")
    choices: tuple[Value, ...] = Field(default=(), description="values, in place of a range")

    @model_validator(mode="after")
    def _check(self) -> "Dimension":
        ranged = self.low is not None and self.high is not None
        if ranged == bool(self.choices) or (self.low is None) != (self.high is None):
            raise ConfigError("a dimension has low and high, or choices")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise ConfigError(f"low is below high, got {self.low} and {self.high}")
        if self.log and (self.step is not None or (self.low or 0) <= 0):
            raise ConfigError("a range that is searched by factors lies above 0 and has no step")
        return self

    def suggest(self, trial: Any, name: str) -> Value:
        """The value of an Optuna trial."""
        if self.choices:
            return trial.suggest_categorical(name, list(self.choices))  # type: ignore[no-any-return]
        low, high = float(self.low or 0), float(self.high or 0)
        if self.whole:
            step = int(self.step or 1)
            return int(trial.suggest_int(name, int(low), int(high), step=step, log=self.log))
        return float(trial.suggest_float(name, low, high, step=self.step, log=self.log))

    def holds(self, value: Any) -> bool:
        """Whether a trial could have this value."""
        if self.choices:
            return value in self.choices
        low, high = float(self.low or 0), float(self.high or 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            return False
        step = self.step or (1 if self.whole else None)
        return step is None or abs((value - low) / step - round((value - low) / step)) < 1e-9


# Around the paper's and our own values; angles are brought to whole steps by `settled`.
SPACE: Mapping[str, Dimension] = MappingProxyType(
    {
        "views.azimuth": Dimension(low=0, high=90, step=15),
        "views.altitude": Dimension(low=0, high=60, step=15),
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
        "loss.target": Dimension(low=0.25, high=4, log=True),
        "rate": Dimension(low=1e-4, high=1e-2, log=True),
        "weight_decay": Dimension(low=1e-7, high=1e-2, log=True),
    }
)
"""All dimensions; `space_of` takes those that a recipe has a use for."""


class _Space(Config):
    """A file of dimensions; tables inside tables are dotted names."""

    model_config = ConfigDict(extra="allow")


def read_space(path: str | Path) -> dict[str, Dimension]:
    """The dimensions of a TOML or JSON file, such as ``align.gamma = { low = 0.01, high = 1, log = true }``."""
    found = dict(_dimensions(_Space.read(path).model_dump(), ""))
    if not found:
        raise ConfigError(
            f"{path}: no dimension in it; write such as align.gamma = {{ low = 0.01, high = 1 }}"
        )
    return found


def _dimensions(values: Mapping[str, Any], above: str) -> Sequence[tuple[str, Dimension]]:
    found: list[tuple[str, Dimension]] = []
    for key, value in values.items():
        name = f"{above}{key}"
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name} needs a table with low and high, or choices, got {value!r}")
        if value.keys() & Dimension.model_fields.keys():
            found.append((name, Dimension(**value)))
        else:
            found += _dimensions(value, f"{name}.")
    return found


def space_of(recipe: Recipe, only: Sequence[str] = ()) -> dict[str, Dimension]:
    """The dimensions that matter to a recipe, or those of them that are named."""
    model, loss = recipe.model, recipe.train.loss.kind
    aligned = model.align.method in ("jeanie", "fvm")
    useful = {
        "views.azimuth": model.views.kind != "none",
        "views.altitude": model.views.kind != "none",
        "views.step": model.views.kind != "none",
        "align.gamma": aligned,
        "align.sigma": model.align.metric == "rbf",
        "align.shift": model.views.kind != "none" and model.align.method == "jeanie",
        "encoder.layers": model.encoder.kind == "graph",
        "encoder.alpha": model.encoder.kind == "graph" and model.encoder.graph in ("appnp", "s2gc"),
        "encoder.dropout": model.encoder.kind == "graph",
        "loss.beta": loss == "similarity",
        "loss.target": loss in ("squared", "absolute"),
    }
    space = {name: one for name, one in SPACE.items() if useful.get(name, True)}
    unknown = [name for name in only if name not in space]
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is not searched for this recipe; there are {', '.join(space)}")
    return {name: one for name, one in space.items() if not only or name in only}


def suggested(trial: Any, space: Mapping[str, Dimension]) -> dict[str, Value]:
    """The changes of a recipe that an Optuna trial stands for."""
    return {name: one.suggest(trial, name) for name, one in space.items()}


def started(recipe: Recipe, space: Mapping[str, Dimension]) -> dict[str, Value]:
    """The recipe's own values, where the space holds them: what a search starts from."""
    values = recipe.model_dump()
    own = {name: _inside(values, name) for name in space}
    return {name: value for name, value in own.items() if space[name].holds(value)}


def _inside(values: Mapping[str, Any], name: str) -> Any:
    """The value of a dotted name, which lies in the model or in the training."""
    for part in (values["model"], values["train"], values):
        inner: Any = part
        for key in name.split("."):
            inner = inner.get(key) if isinstance(inner, Mapping) else None
        if inner is not None:
            return inner
    return None


def settled(recipe: Recipe, changes: Mapping[str, Value]) -> Recipe:
    """The recipe of a trial; angles are rounded to whole steps, as views come in whole steps."""
    step = float(changes.get("views.step", recipe.model.views.step))
    whole = dict(changes)
    for name in ("views.azimuth", "views.altitude"):
        if name in whole or "views.step" in whole:
            angle = float(whole.get(name, _inside(recipe.model_dump(), name)))
            whole[name] = step * round(angle / step)
    return recipe.changed(whole)
