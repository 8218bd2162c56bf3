"""Layout files: declarations about recordings whose files do not contain them.

A layout file is TOML or JSON. It carries the unit, the axis that points up, the frame rate, the joints under the names
of the file (``aliases``), and bones. ``jeanie layout FILE`` writes one from the names in a recording.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jeanie.datasets.formats.units import UPS, check_up, get_metres_per_unit
from jeanie.datasets.joint_names import connect_joints, make_named_layout
from jeanie.errors import ConfigError, DataError, suggest_name
from jeanie.skeleton.layout import LAYOUTS, Layout

__all__ = [
    "Declaration",
    "NameCollector",
    "format_joint_list",
    "format_layout_file",
    "read_layout_file",
    "resolve_layout",
]

MAX_LAYOUT_BYTES = 2**20
_READERS = {".json": json.loads, ".toml": tomllib.loads}
_LAYOUT_KEYS = ("joints", "bones", "pairs", "root", "torso", "centre", "dims")
_KEYS = ("name", "unit", "up", "rate", "mirror", "aliases", *_LAYOUT_KEYS)


@dataclass(frozen=True)
class Declaration:
    """Declarations about a recording; None or empty for what the file contains.

    Attributes:
        layout: The joints, in the order of the data or by name.
        aliases: Name in the file -> joint; "" leaves a point out.
        bones: (parent, child) joints, for a file whose joints have names.
        unit, up, rate, mirror: As in ``read_motion``.
        name: Name of the layout.
    """

    layout: Layout | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    bones: tuple[tuple[str, str], ...] = ()
    unit: str | float | None = None
    up: str | None = None
    rate: float | None = None
    mirror: bool = False
    name: str | None = None

    def complete_layout(self, layout: Layout) -> Layout:
        """Return the layout that a reader found, with the declared name and bones."""
        changes: dict[str, Any] = {"name": self.name} if self.name and not self.layout else {}
        if self.bones and not self.layout:
            changes["bones"] = tuple(
                (layout.index(parent), layout.index(child)) for parent, child in self.bones
            )
        return replace(layout, **changes) if changes else layout


class NameCollector(Mapping[str, str]):
    """Aliases that translate nothing and collect the names that a reader looks up."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def __getitem__(self, name: str) -> str:
        self.names[name] = None
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def resolve_layout(layout: "Layout | Declaration | str | Path | None") -> Declaration:
    """Return the declaration of a layout, of its name, or of a layout file.

    Raises:
        ConfigError: There is no layout of this name and no such file.
        DataError: The layout file cannot be read.
    """
    if layout is None or isinstance(layout, Layout):
        return Declaration(layout)
    if isinstance(layout, Declaration):
        return layout
    if str(layout) in LAYOUTS:
        return Declaration(LAYOUTS[str(layout)])
    if isinstance(layout, Path) or Path(layout).suffix.lower() in _READERS:
        return read_layout_file(layout)
    raise ConfigError(
        f"no layout {layout!r}; the known ones are {', '.join(LAYOUTS)}; or give a layout file (.toml or .json)"
        f"{suggest_name(layout, LAYOUTS)}"
    )


def read_layout_file(path: str | Path) -> Declaration:
    """Read a layout file.

    Raises:
        DataError: The file cannot be read, or a value is invalid.
    """
    path = Path(path)
    if path.suffix.lower() not in _READERS:
        raise DataError(f"{path}: a layout file ends in .json or .toml, got {path.suffix!r}")
    try:
        if path.stat().st_size > MAX_LAYOUT_BYTES:
            raise DataError(f"{path}: larger than {MAX_LAYOUT_BYTES} bytes, too much for a layout file")
        row = _READERS[path.suffix.lower()](path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: cannot be read as a layout: {error}") from error
    if not isinstance(row, dict):
        raise DataError(f"{path}: a layout file holds one table of keys, got {type(row).__name__}")
    try:
        return _parse_declaration({"name": path.stem, **row})
    except (ConfigError, TypeError) as error:
        raise DataError(f"{path}: {error}") from error


def _parse_declaration(row: Mapping[str, Any]) -> Declaration:
    unknown = sorted(set(row) - set(_KEYS))
    if unknown:
        raise ConfigError(
            f"unknown {', '.join(unknown)}; the keys are {', '.join(_KEYS)}{suggest_name(unknown[0], _KEYS)}"
        )
    aliases = row.get("aliases", {})
    if not isinstance(aliases, dict) or not all(isinstance(joint, str) for joint in aliases.values()):
        raise ConfigError(
            f'aliases is a table of names in the file and joints, "Kopf" = "head", got {aliases!r}'
        )
    unit, up, rate = row.get("unit"), row.get("up"), row.get("rate")
    image_unit = unit if unit in ("px", "relative") else None
    if unit is not None and image_unit is None:
        get_metres_per_unit(unit)
    if up is not None:
        check_up(up)
    if rate is not None and (not isinstance(rate, int | float) or not 0 < rate < float("inf")):
        raise ConfigError(f"rate is frames per second, above 0, got {rate!r}")
    mirror = row.get("mirror", False)
    if not isinstance(mirror, bool):
        raise ConfigError(f"mirror is true or false, got {mirror!r}")
    layout = _parse_layout(row, image_unit) if "joints" in row else None
    bones = row.get("bones", ()) if layout is None else ()
    if not all(
        isinstance(bone, list) and len(bone) == 2 and all(isinstance(j, str) for j in bone) for bone in bones
    ):
        raise ConfigError(f"bones is a list of [parent, child], got {bones!r}")
    return Declaration(
        layout=layout,
        aliases=aliases,
        bones=tuple((parent, child) for parent, child in bones),
        unit=None if image_unit else unit,
        up=up,
        rate=None if rate is None else float(rate),
        mirror=mirror,
        name=str(row["name"]),
    )


def _parse_layout(row: Mapping[str, Any], image_unit: str | None) -> Layout:
    """Return the layout of a file with ``joints``; bones, root and torso default to those of the vocabulary."""
    joints = row["joints"]
    if not isinstance(joints, list) or not joints or not all(isinstance(joint, str) for joint in joints):
        raise ConfigError(f"joints is a list of names, got {joints!r}")
    layout = make_named_layout("file", joints)
    values = {key: row[key] for key in ("name", *_LAYOUT_KEYS) if key in row}
    defaults = {
        "bones": [list(bone) for bone in connect_joints(joints)],
        "root": layout.root,
        "torso": layout.torso,
    }
    if "torso" not in row:
        defaults["centre"] = list(layout.centre)
    return Layout.from_dict({**defaults, **values, "unit": image_unit or "m"})


def format_layout_file(
    source: Path, suggested: Mapping[str, str], *, unit: str | None, up: str | None, rate: float | None
) -> str:
    """Return a layout file (TOML) with the names of a recording and what they probably stand for.

    Args:
        source: The recording.
        suggested: Name in the file -> joint, "" if unknown.
        unit, up, rate: What the recording suggests; None if it suggests nothing.
    """
    unclear = sum(not joint for joint in suggested.values())
    lines = [
        f"# Layout of {source.name}. Give this file with: --layout FILE",
        f"name = {_quote(source.stem)}",
        _comment_out(f'unit = "{unit or "cm"}"', unit, "unit of the coordinates: m, dm, cm, mm, in or ft"),
        _comment_out(f'up = "{up or "z"}"', up, f"axis that points up: {', '.join(UPS)}"),
        _comment_out(f"rate = {rate or 30.0:g}", None, "frames per second, if the recording does not say it"),
        "# mirror = true  # for left-handed coordinates, such as those of Unity",
        "",
        "# Name in the recording = joint. A point with an empty joint is left out.",
        "# Joints: head neck spine_shoulder chest spine torso hip_center, and left_ or right_ with shoulder elbow",
        "# wrist hand hip knee ankle foot.",
    ]
    lines += [f"# {unclear} of {len(suggested)} names are unknown: fill them in."] if unclear else []
    lines += ["[aliases]", *(f"{_quote(name)} = {_quote(joint)}" for name, joint in suggested.items())]
    return "\n".join(lines) + "\n"


def format_joint_list(source: Path, layout: Layout) -> str:
    """Return a layout file (TOML) for a recording without names: its joints in their order."""
    lines = [
        f"# Layout of {source.name}. Give this file with: --layout FILE",
        f"name = {_quote(source.stem)}",
        '# unit = "cm"  # unit of the coordinates: m, dm, cm, mm, in or ft',
        f'# up = "z"  # axis that points up: {", ".join(UPS)}',
        "# The joints in the order of the recording.",
        "joints = [",
        *(f"  {_quote(joint)}," for joint in layout.joints),
        "]",
    ]
    return "\n".join(lines) + "\n"


def _comment_out(line: str, known: object, meaning: str) -> str:
    return f"{'' if known is not None else '# '}{line}  # {meaning}"


def _quote(text: str) -> str:
    """Return a TOML string: JSON escapes are TOML escapes, except for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
