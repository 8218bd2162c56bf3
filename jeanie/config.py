"""The base of every configuration: typed, frozen, checked when it is made; from keywords, TOML or JSON."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from jeanie.errors import ConfigError, suggest_name

__all__ = ["Config"]

MAX_BYTES = 2**20
Self = TypeVar("Self", bound="Config")  # run-time checkers of hints do not support typing.Self


class _InvalidValues(ConfigError):
    """Wrong names or values of a configuration.

    Args:
        config: Name of the class of the configuration.
        problems: Dotted name and problem of each value; the name is empty for a problem of several values.
    """

    def __init__(self, config: str, problems: list[tuple[str, str]]) -> None:
        super().__init__(config, problems)
        self.config, self.problems = config, problems

    def __str__(self) -> str:
        lines = (f"{name}: {problem}" if name else problem for name, problem in self.problems)
        return f"{self.config}: " + "; ".join(lines)


class Config(BaseModel):
    """Base of every configuration: frozen, and checked when it is made.

    A field can be a union of configurations with a discriminator, such as ``kind``. Values may leave out the
    discriminator; it is then that of the default.

    Raises:
        ConfigError: If a name or a value is wrong. The message names it and the reason.

    >>> class Options(Config):
    ...     gamma: float = 0.01
    >>> Options(gamma=0.1)
    Options(gamma=0.1)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        for name, field in type(self).model_fields.items():
            if isinstance(field.discriminator, str) and isinstance(values.get(name), Mapping):
                default = getattr(field.default, field.discriminator)
                values[name] = {field.discriminator: default, **values[name]}
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise _InvalidValues(type(self).__name__, _list_problems(type(self), error)) from None

    @classmethod
    def from_file(cls: type[Self], path: str | Path) -> Self:
        """Return the configuration in a TOML or JSON file.

        Raises:
            ConfigError: If the file cannot be read, or a name or value in it is wrong.
        """
        values = _read_table(Path(path))
        try:
            return cls(**values)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    def with_file(self: Self, path: str | Path) -> Self:
        """Return a copy that takes the values of a TOML or JSON file; see ``with_values``."""
        values = _read_table(Path(path))
        try:
            return self.with_values(values)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None

    def with_values(self: Self, changes: Mapping[str, Any] | None = None, /, **named: Any) -> Self:
        """Return a checked copy with other values.

        A dotted name or a table changes values of a section: ``{"align.gamma": 0.1}`` or
        ``{"align": {"gamma": 0.1}}``. If a section changes its kind, it starts from the defaults of the new
        kind and keeps the values of fields that both kinds have.

        >>> from jeanie import ModelConfig
        >>> config = ModelConfig().with_values({"encoder.kind": "temporal", "encoder.width": 4}, unit=2.0)
        >>> config.encoder.width, config.encoder.members, config.unit
        (4, 1, 2.0)

        Raises:
            ConfigError: If a name is unknown, also to the new kind, or a value is wrong.
        """
        values, tables = dict(self), dict[str, dict[str, Any]]()
        for key, value in {**(changes or {}), **named}.items():
            name, _, inner_key = key.partition(".")
            if inner_key:
                tables.setdefault(name, {})[inner_key] = value
            elif isinstance(value, Mapping) and isinstance(values.get(name), Config):
                tables.setdefault(name, {}).update(value)
            else:
                values[name] = value
        for name, table in tables.items():
            values[name] = self._change_section(name, values.get(name), table)
        return type(self)(**values)

    def changed_values(self) -> dict[str, Any]:
        """Return the values that differ from the defaults, as JSON; a section with kinds names its kind."""
        values: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value == field.default:
                continue
            values[name] = _dump(value)
            if isinstance(field.discriminator, str):
                values[name] |= {field.discriminator: getattr(value, field.discriminator)}
        return values

    def _change_section(self, name: str, section: Any, table: Mapping[str, Any]) -> Any:
        if isinstance(section, Mapping):
            return {**section, **table}
        if not isinstance(section, Config):
            raise ConfigError(
                f"{type(self).__name__} has no '{name}.{next(iter(table))}': {name} is not a section; "
                f"the options are {', '.join(type(self).model_fields)}"
                f"{suggest_name(name, type(self).model_fields)}"
            )
        try:
            return self._change_kind(name, section, table).with_values(table)
        except ConfigError as error:
            raise _InvalidValues(type(self).__name__, _qualify(name, error)) from None

    def _change_kind(self, name: str, section: "Config", table: Mapping[str, Any]) -> "Config":
        """Return the section as the kind that ``table`` asks for, with the values that both kinds have."""
        field = type(self).model_fields[name]
        tag = field.discriminator
        if not isinstance(tag, str) or table.get(tag, getattr(section, tag)) == getattr(section, tag):
            return section
        members = {kind: member for member in get_args(field.annotation) for kind in _kinds(member, tag)}
        if table[tag] not in members:
            raise ConfigError(f"{tag} needs one of {', '.join(members)}, got {table[tag]!r}")
        member = members[table[tag]]
        shared = {key: value for key, value in section if key in member.model_fields and key not in table}
        kind: Config = member(**{**shared, tag: table[tag]})
        return kind


def _kinds(member: type[Config], tag: str) -> tuple[str, ...]:
    return get_args(member.model_fields[tag].annotation)


def _dump(value: Any) -> Any:
    """Return a value of a configuration as JSON; configurations keep only their changed values."""
    if isinstance(value, Config):
        return value.changed_values()
    if isinstance(value, tuple):
        return [_dump(item) for item in value]
    return value


def _read_table(path: Path) -> dict[str, Any]:
    """Read the names and values of a TOML or JSON file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: over {MAX_BYTES} bytes; a configuration is smaller")
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # of JSON, TOML and UTF-8 alike
        raise ConfigError(f"{path}: neither TOML nor JSON: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: needs a table of names and values, got {type(values).__name__}")
    return values


def _list_problems(cls: type[Config], error: ValidationError) -> list[tuple[str, str]]:
    """Return the dotted name and the problem of every wrong value; an unknown name lists the known ones."""
    problems = []
    for details in error.errors(include_url=False):
        name, context = _name(cls, details["loc"]), details.get("ctx", {})
        cause = context.get("error")
        if isinstance(cause, ConfigError):
            problems += _qualify(name, cause)
        elif details["type"] == "union_tag_invalid":
            tag = context["discriminator"].strip("'")
            problems.append((name, f"{tag} needs one of {context['expected_tags']}, got {context['tag']!r}"))
        elif details["type"] == "extra_forbidden":
            names = cls.model_fields
            hint = suggest_name(details["loc"][-1], names)
            problems.append((name, f"no such option; the options are {', '.join(names)}{hint}"))
        elif isinstance(cause, ValueError):  # of a validator, whose message is complete
            problems.append((name, str(cause)))
        else:
            message = details["msg"]
            problems.append((name, f"{message[:1].lower()}{message[1:]}, got {details['input']!r}"))
    return problems


def _qualify(section: str, error: ConfigError) -> list[tuple[str, str]]:
    """Return the problems of a section with dotted names that begin with its name."""
    if isinstance(error, _InvalidValues):
        return [(f"{section}.{name}".strip("."), problem) for name, problem in error.problems]
    return [(section, str(error))]


def _name(cls: type[Config], location: tuple[int | str, ...]) -> str:
    """Return the dotted name of a value, without the kind that pydantic adds for a union."""
    field = cls.model_fields.get(str(location[0])) if location else None
    if field is not None and field.discriminator is not None:
        location = (location[0], *location[2:])
    return ".".join(map(str, location))
