"""One way to configure everything: typed, frozen, checked at birth, from keywords, a TOML or a JSON file."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from jeanie.errors import ConfigError

__all__ = ["Config", "leaves"]

MAX_BYTES = 2**20
Self = TypeVar("Self", bound="Config")  # typing.Self is more than run-time checkers of hints take


class Config(BaseModel):
    """Base of every configuration. A wrong name or value raises ConfigError that says which and why."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigError(_told(type(self), error)) from None

    @classmethod
    def read(cls: type[Self], path: str | Path) -> Self:
        """The configuration in a TOML or JSON file."""
        values = _table(Path(path))
        try:
            return cls(**values)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    def changed(self: Self, values: Mapping[str, Any]) -> Self:
        """A copy with values changed; a table reaches inside, as does a dot: ``{"align.gamma": 0.1}``."""
        return self.but(dict(leaves(values)))

    def changed_by(self: Self, path: str | Path) -> Self:
        """A copy with the values of a TOML or JSON file in place of its own."""
        values = _table(Path(path))
        try:
            return self.changed(values)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    def but(self: Self, changes: Mapping[str, Any] | None = None, /, **named: Any) -> Self:
        """A checked copy with some values changed; ``"align.gamma"`` reaches into a configuration inside."""
        values = self.model_dump()
        for key, value in {**(changes or {}), **named}.items():
            inner = values
            *above, last = key.split(".")
            for name in above:
                inner = inner.get(name) if isinstance(inner, dict) else None  # type: ignore[assignment]
            if not isinstance(inner, dict):
                raise ConfigError(f"{type(self).__name__} has no {key!r}: {'.'.join(above)} holds no values")
            inner[last] = value.model_dump() if isinstance(value, Config) else value
        return type(self)(**values)


def leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Values inside tables, each under its dotted name."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _table(path: Path) -> dict[str, Any]:
    """The names and values of a TOML or JSON file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: over {MAX_BYTES} bytes; this is no configuration")
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # of JSON, TOML and UTF-8 alike
        raise ConfigError(f"{path}: neither TOML nor JSON: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: needs a table of names and values, got {type(values).__name__}")
    return values


def _told(cls: type[Config], error: ValidationError) -> str:
    """Every problem as "name: what is wrong, got value", with the names there are where one is unknown."""
    lines = []
    for problem in error.errors(include_url=False):
        place = ".".join(str(part) for part in problem["loc"]) or cls.__name__
        inner = problem.get("ctx", {}).get("error")
        if isinstance(inner, ConfigError):  # of a configuration inside, which has said it all
            lines.append(f"{place}: {inner}")
            continue
        if problem["type"] == "extra_forbidden":
            said = "no such option"
            if len(problem["loc"]) == 1:
                said += f"; the options are {', '.join(cls.model_fields)}"
        else:
            said = f"{problem['msg'][:1].lower()}{problem['msg'][1:]}, got {problem['input']!r}"
        lines.append(f"{place}: {said}")
    return f"{cls.__name__}: " + "; ".join(lines)
