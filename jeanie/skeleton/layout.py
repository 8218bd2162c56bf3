"""Layouts: the joints of a skeleton with bones, left and right, root and torso, up axis and unit."""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.errors import ConfigError, DataError
from jeanie.skeleton.layouts import ROWS

__all__ = ["LAYOUTS", "Layout", "find_layout"]

UPS = ("y", "z")
UNITS = ("m", "px", "relative")
_KEYS = ("name", "joints", "bones", "pairs", "root", "torso", "centre", "up", "unit", "dims")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Layout:
    """The joints of a skeleton. Layouts are converted by joint names (vocabulary: ``docs/motions.md``).

    Args:
        name: Name of the layout.
        joints: Joint names in snake_case, in the order of the data.
        bones: (parent, child) indices: one tree from ``root``, or several trees.
        pairs: (left, right) indices, from the view of the person.
        root: Index of the root joint.
        torso: Index of the joint that centring moves to the origin.
        centre: Joints whose mean is the origin, for layouts without a torso joint; default ``(torso,)``.
        up: The axis that points up in camera space, "y" or "z".
        unit: "m", "px" or "relative".
        dims: 3, or 2 for key points of images; their z is 0.

    Raises:
        ConfigError: A name, index, bone or pair is invalid.

    >>> LAYOUTS["ntu25"].index("head")
    3
    """

    name: str
    joints: tuple[str, ...]
    bones: tuple[tuple[int, int], ...]
    pairs: tuple[tuple[int, int], ...]
    root: int
    torso: int
    up: str = "y"
    unit: str = "m"
    dims: int = 3
    centre: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.centre:
            object.__setattr__(self, "centre", (self.torso,))
        for problem in _find_problems(self):
            raise ConfigError(f"layout {self.name!r}: {problem}")

    def __len__(self) -> int:
        return len(self.joints)

    def index(self, joint: str) -> int:
        """Return the index of a joint by its name."""
        try:
            return self.joints.index(joint)
        except ValueError:
            raise ConfigError(
                f"layout {self.name!r} has no joint {joint!r}; its joints are {', '.join(self.joints)}"
            ) from None

    @property
    def parents(self) -> tuple[int, ...]:
        """The parent of every joint; -1 for the root of a tree."""
        parent_of = {child: parent for parent, child in self.bones}
        return tuple(parent_of.get(joint, -1) for joint in range(len(self)))

    @property
    def mirror_indices(self) -> tuple[int, ...]:
        """The joint on the other side for every joint; joints without a side map to themselves."""
        opposite = {a: b for left, right in self.pairs for a, b in ((left, right), (right, left))}
        return tuple(opposite.get(joint, joint) for joint in range(len(self)))

    def mirror_joints(self, joints: Float[Tensor, "*batch joint 3"]) -> Float[Tensor, "*batch joint 3"]:
        """Return the mirror image of joints: left and right swapped, x negated."""
        return joints[..., list(self.mirror_indices), :] * joints.new_tensor([-1.0, 1.0, 1.0])

    @property
    def adjacency(self) -> Float[Tensor, "joint joint"]:
        """1 if two joints share a bone, otherwise 0: symmetric, no self-loops."""
        matrix = torch.zeros(len(self), len(self))
        if self.bones:
            parent, child = torch.tensor(self.bones).T
            matrix[parent, child] = 1
            matrix[child, parent] = 1
        return matrix

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> "Layout":
        """Create a layout from plain values, as in a layout file or the result of ``to_dict``.

        Joints are given by name or by index. ``name``, ``joints``, ``bones``, ``root`` and ``torso`` are required.
        Without ``pairs``, every ``left_x`` is paired with its ``right_x``.
        """
        name = row.get("name")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"a layout needs a name, got {name!r}; add for example name = 'my_sensor'")
        where = f"layout {name!r}"
        unknown = sorted(set(row) - set(_KEYS))
        if unknown:
            raise ConfigError(f"{where}: unknown {', '.join(unknown)}; the keys are {', '.join(_KEYS)}")
        missing = [key for key in ("joints", "bones", "root", "torso") if key not in row]
        if missing:
            raise ConfigError(
                f"{where}: {', '.join(missing)} missing; a layout needs joints, bones, root and torso"
            )
        joints = _parse_names(row["joints"], where)
        pairs = row.get("pairs")
        return cls(
            name=name,
            joints=joints,
            bones=_parse_pairs(row["bones"], joints, where, "bones"),
            pairs=pair_sides(joints) if pairs is None else _parse_pairs(pairs, joints, where, "pairs"),
            root=_parse_joint(row["root"], joints, where, "root"),
            torso=_parse_joint(row["torso"], joints, where, "torso"),
            centre=_parse_centre(row.get("centre", ()), joints, where),
            **{key: row[key] for key in ("up", "unit", "dims") if key in row},
        )

    @classmethod
    def from_file(cls, path: str | Path) -> "Layout":
        """Read a layout from a .json or .toml file."""
        path = Path(path)
        readers = {".json": json.loads, ".toml": tomllib.loads}
        if path.suffix.lower() not in readers:
            raise DataError(f"{path}: a layout file ends in .json or .toml, got {path.suffix!r}")
        try:
            row = readers[path.suffix.lower()](path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(f"{path}: cannot be read as a layout: {error}") from error
        if not isinstance(row, dict):
            raise DataError(f"{path}: a layout file must be one table of keys, got {type(row).__name__}")
        try:
            return cls.from_dict(row)
        except ConfigError as error:
            raise DataError(f"{path}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, with joints by name; ``from_dict`` restores the layout."""
        name_of = self.joints.__getitem__
        return {
            "name": self.name,
            "joints": list(self.joints),
            "bones": [[name_of(parent), name_of(child)] for parent, child in self.bones],
            "pairs": [[name_of(left), name_of(right)] for left, right in self.pairs],
            "root": name_of(self.root),
            "torso": name_of(self.torso),
            "centre": [name_of(joint) for joint in self.centre],
            "up": self.up,
            "unit": self.unit,
            "dims": self.dims,
        }


def pair_sides(joints: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return (left, right) indices of the joints whose names differ only in ``left_`` and ``right_``."""
    index_of = {joint: index for index, joint in enumerate(joints)}
    return tuple(
        (index, index_of["right_" + joint.removeprefix("left_")])
        for joint, index in index_of.items()
        if joint.startswith("left_") and "right_" + joint.removeprefix("left_") in index_of
    )


def _find_problems(layout: Layout) -> Iterable[str]:
    """Yield the problems of a layout, the most serious first."""
    count = len(layout.joints)
    if not count:
        yield "it has no joints; list at least one name"
    for joint in layout.joints:
        if not _NAME.fullmatch(joint):
            yield f"joint {joint!r} needs a snake_case name such as 'left_hand'"
    duplicates = sorted({joint for joint in layout.joints if layout.joints.count(joint) > 1})
    if duplicates:
        yield f"joint {', '.join(duplicates)} is listed more than once; every joint needs its own name"
    for field, indices in _list_indices(layout):
        for index in indices:
            if not 0 <= index < count:
                yield f"{field} points at joint {index}, outside 0 to {count - 1}"
    yield from _find_tree_problems(layout)
    sided = [joint for pair in layout.pairs for joint in pair]
    if len(set(sided)) != len(sided):
        yield "a joint is in two pairs, or paired with itself; each joint has at most one opposite"
    if layout.up not in UPS:
        yield f"up is {layout.up!r}; it is one of {', '.join(UPS)}"
    if layout.unit not in UNITS:
        yield f"unit is {layout.unit!r}; it is one of {', '.join(UNITS)}"
    if layout.dims not in (2, 3) or not isinstance(layout.dims, int):
        yield f"dims is {layout.dims!r}; it is 3, or 2 for key points of images"


def _list_indices(layout: Layout) -> Iterable[tuple[str, Iterable[int]]]:
    yield "root", (layout.root,)
    yield "torso", (layout.torso,)
    yield "centre", layout.centre
    yield "a bone", (joint for bone in layout.bones for joint in bone)
    yield "a pair", (joint for pair in layout.pairs for joint in pair)


def _find_tree_problems(layout: Layout) -> Iterable[str]:
    parents: dict[int, int] = {}
    for parent, child in layout.bones:
        if child in parents:
            yield f"joint {layout.joints[child]!r} has two parents; bones are (parent, child), a tree"
        parents[child] = parent
    for joint in range(len(layout)):
        ancestor, steps = joint, 0
        while ancestor in parents and steps <= len(layout):
            ancestor, steps = parents[ancestor], steps + 1
        if steps > len(layout):
            yield f"the bones form a cycle through joint {layout.joints[joint]!r}; bones form a tree"


def _parse_names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(joint, str) for joint in value):
        raise ConfigError(f"{where}: joints is a list of names, got {value!r}")
    return tuple(value)


def _parse_centre(value: Any, joints: tuple[str, ...], where: str) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where}: centre is a list of joints, got {value!r}")
    return tuple(_parse_joint(joint, joints, where, "centre") for joint in value)


def _parse_joint(value: Any, joints: tuple[str, ...], where: str, what: str) -> int:
    """Return the index of a joint given by name or by index."""
    if isinstance(value, str) and value in joints:
        return joints.index(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(joints):
        return value
    raise ConfigError(f"{where}: {what} names {value!r}, which is not one of its {len(joints)} joints")


def _parse_pairs(value: Any, joints: tuple[str, ...], where: str, what: str) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{where}: {what} is a list of [joint, joint], got {value!r}")
    for entry in value:
        if not isinstance(entry, list | tuple) or len(entry) != 2:
            raise ConfigError(f"{where}: an entry of {what} is [joint, joint], got {entry!r}")
    return tuple(
        (_parse_joint(a, joints, where, what), _parse_joint(b, joints, where, what)) for a, b in value
    )


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {name: Layout.from_dict({"name": name, **row}) for name, row in ROWS.items()}
)


def find_layout(layout: Layout | str) -> Layout:
    """Return a layout that is given by its name, or as it is.

    Raises:
        ConfigError: If there is no such layout.
    """
    if isinstance(layout, Layout):
        return layout
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ConfigError(f"no layout {layout!r}; the known layouts are {', '.join(LAYOUTS)}")
    return LAYOUTS[layout]
