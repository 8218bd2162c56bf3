"""Read one recording: ``read_motion``, with what the user declares about it, and a check that it is plausible."""

import inspect
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from jeanie.datasets.format_table import FORMATS, detect_format
from jeanie.datasets.formats.compressed import decompress, is_compressed
from jeanie.datasets.formats.marker_sets import MARKER_SETS
from jeanie.datasets.formats.units import check_up, get_metres_per_unit, rotate_to_y_up
from jeanie.datasets.layout_files import Declaration, NameCollector, resolve_layout
from jeanie.errors import ConfigError, DataError, JeanieError, RecordingWarning, suggest_name
from jeanie.skeleton.convert import map_joints
from jeanie.skeleton.layout import LAYOUTS, Layout
from jeanie.skeleton.motion import Motion
from jeanie.skeleton.plausibility import assume_unit, is_misplaced, keep_suggestions, list_warnings

_MARKER_FORMATS = ("c3d", "trc", "motive", "nexus", "qualisys")  # also the names of their layouts
_MIN_JOINTS = 6  # core joints; with fewer, nothing can be recognised

__all__ = ["ReadOptions", "collect_names", "declare", "read_motion"]


@dataclass(frozen=True)
class ReadOptions:
    """The arguments of ``read_motion``, to read many recordings alike."""

    format: str | None = None
    layout: "Layout | Declaration | str | Path | None" = None
    unit: str | float | None = None
    up: str | None = None
    rate: float | None = None
    mirror: bool = False
    strict: bool = False

    def read(self, path: str | Path) -> Motion:
        """Read one recording with these options."""
        return read_motion(path, **{field.name: getattr(self, field.name) for field in fields(self)})

    def list_declared(self) -> list[str]:
        """Return the names of the options that differ from their defaults.

        >>> ReadOptions(unit="cm", up="z").list_declared()
        ['unit', 'up']
        """
        return [field.name for field in fields(self) if getattr(self, field.name) != field.default]

    def merge(self, other: "ReadOptions | None") -> "ReadOptions":
        """Return these options, replaced by those that ``other`` declares.

        >>> ReadOptions(unit="cm", up="z").merge(ReadOptions(unit="mm"))
        ReadOptions(format=None, layout=None, unit='mm', up='z', rate=None, mirror=False, strict=False)
        """
        if other is None:
            return self
        return replace(self, **{name: getattr(other, name) for name in other.list_declared()})


def read_motion(
    path: str | Path,
    *,
    format: str | None = None,
    layout: "Layout | Declaration | str | Path | None" = None,
    unit: str | float | None = None,
    up: str | None = None,
    rate: float | None = None,
    mirror: bool = False,
    strict: bool = False,
) -> Motion:
    """Read one recording from a file, or from a folder with one OpenPose file per frame.

    An implausible recording, such as a body of 170 m, gives a ``RecordingWarning`` that says what to declare.

    Args:
        path: The file or folder.
        format: A key of ``FORMATS``. By default it is detected from the content and the name of the file.
        layout: Layout of the joints, its name, or a layout file (.toml or .json), which may also declare unit, up axis
            and rate. Needed if the format does not define one.
        unit: Unit of the coordinates in the file: m, dm, cm, mm, in, ft, or its length in metres.
        up: Axis that points up in the file: x, y, z, -x, -y or -z.
        rate: Frames per second; overrides that of the file.
        mirror: Whether the coordinates are left-handed, as in Unity: x is negated.
        strict: Raise a DataError instead of a warning if the recording is implausible.

    Returns:
        The motion, in metres if the unit is known, +y up.

    Raises:
        DataError: The file cannot be read. The message names the file, the line of a text file, and the cause.
        ConfigError: An argument is unknown, or an optional library is missing.

    >>> import tempfile
    >>> table = "head_x,head_y,head_z,left_hand_x,left_hand_y,left_hand_z\\n0,3,162,-30,3,90\\n"
    >>> with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # two joints are not a body
    ...     _ = Path(folder, "a.csv").write_text(table)
    ...     read_motion(f"{folder}/a.csv", unit="cm", up="z", rate=30).joints[0, 0, 0].tolist()
    [0.0, 1.6200000047683716, -0.029999999329447746]
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise ConfigError(
            f"no format {format!r}; the known ones are {', '.join(FORMATS)}{suggest_name(format, FORMATS)}"
        )
    declaration = resolve_layout(layout)
    unit, up = declaration.unit if unit is None else unit, declaration.up if up is None else up
    rate, mirror = declaration.rate if rate is None else rate, mirror or declaration.mirror
    if unit is not None:
        get_metres_per_unit(unit)
    if up is not None:
        check_up(up)
    declarations = {"unit": unit, "up": up, "aliases": declaration.aliases or None}
    if is_compressed(path):
        reader_arguments = {"format": format, "layout": layout, "unit": unit, "up": up}
        return _read_compressed(path, **reader_arguments, rate=rate, mirror=mirror, strict=strict)
    try:
        form = FORMATS[format or detect_format(path)]
        read = form.read
        accepted = inspect.signature(read).parameters
        options = {key: value for key, value in declarations.items() if value is not None and key in accepted}
        motion = read(path, layout=declaration.layout, **options)
    except JeanieError:
        raise
    except MemoryError:
        raise DataError(f"{path}: too large for the memory of this machine; cut it into clips") from None
    unused = {key: value for key, value in declarations.items() if key not in accepted}
    motion = declare(motion, unit=unused.get("unit"), up=unused.get("up"), rate=rate, mirror=mirror)
    motion = _complete_layout(path, motion, declaration)
    if unit is None and form.assumes_unit:
        assume_unit(motion)
    if is_misplaced(motion):
        keep_suggestions(motion, _read_as_stored(path, read, layout=declaration.layout, **options))
    if layout is None:
        _check_markers(path, motion)
    for problem in list_warnings(motion):
        if strict:
            raise DataError(f"{path}: {problem}")
        warnings.warn(f"implausible recording {path}: {problem}", RecordingWarning, stacklevel=2)
    return motion


def _read_compressed(path: Path, **options: Any) -> Motion:
    """Read a recording that is compressed with gzip, from a copy; errors and warnings name the compressed file."""
    with tempfile.TemporaryDirectory(prefix="jeanie") as folder:
        copy = decompress(path, Path(folder))
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", RecordingWarning)
                motion = read_motion(copy, **options)
        except JeanieError as error:
            raise type(error)(str(error).replace(str(copy), str(path))) from None
    for warning in caught:
        warnings.warn(str(warning.message).replace(str(copy), str(path)), warning.category, stacklevel=3)
    return motion


def declare(
    motion: Motion, *, unit: Any = None, up: Any = None, rate: float | None = None, mirror: bool = False
) -> Motion:
    """Return a motion whose coordinates have another unit, up axis, rate or handedness than it says."""
    joints, layout, is_turned = motion.joints, motion.layout, False
    if unit is not None:
        joints = joints * get_metres_per_unit(unit)
        layout = replace(layout, unit="m")
    if up is not None:
        layout, is_turned = replace(layout, up="y"), up != "y"
    if is_turned:
        joints = joints.new_tensor(rotate_to_y_up(joints.numpy().astype(np.float64), up))
    if mirror:
        joints = joints * joints.new_tensor([-1.0, 1.0, 1.0])
    if joints is motion.joints and layout is motion.layout and rate is None:
        return motion
    return motion.replace(
        joints=joints, valid=motion.valid, layout=layout, rate=motion.rate if rate is None else rate
    )


def _complete_layout(path: Path, motion: Motion, declaration: Declaration) -> Motion:
    try:
        layout = declaration.complete_layout(motion.layout)
    except ConfigError as error:
        raise DataError(f"{path}: {error}") from None
    return motion if layout is motion.layout else motion.replace(layout=layout)


def _check_markers(path: Path, motion: Motion) -> None:
    """Raise DataError if the markers of a laboratory are not a known set, so that hardly any joint is known."""
    joints = motion.layout.joints
    if motion.layout.name not in _MARKER_FORMATS or len(joints) < _MIN_JOINTS:
        return
    core = LAYOUTS["core15"].joints
    known = len(core) - len(map_joints(motion.layout, LAYOUTS["core15"]).missing)
    if known < _MIN_JOINTS:
        raise DataError(
            f"{path}: {known} of the {len(core)} core joints are known, because its markers are not a known set "
            f"({', '.join(MARKER_SETS)}); it has {', '.join(joints[:40])}{', ...' if len(joints) > 40 else ''}; "
            "write a layout file with: jeanie layout FILE, edit it and give it as layout (--layout)"
        )


def _read_as_stored(path: Path, read: Callable[..., Motion], **options: Any) -> Motion:
    """Read a recording with the numbers and axes of its file: no scaling, no rotation."""
    accepted = inspect.signature(read).parameters
    stored_axes = {key: value for key, value in (("unit", "m"), ("up", "y")) if key in accepted}
    return read(path, **{**options, **stored_axes})


def collect_names(path: str | Path, format: str | None = None) -> tuple[Motion, list[str]]:
    """Read a recording with the numbers and axes of its file.

    Returns:
        The motion, and the names of its joints as the file spells them; no names if the file has none.
    """
    path = Path(path)
    if is_compressed(path):
        with tempfile.TemporaryDirectory(prefix="jeanie") as folder:
            return collect_names(decompress(path, Path(folder)), format)
    read = FORMATS[format or detect_format(path)].read
    if "aliases" not in inspect.signature(read).parameters:
        return _read_as_stored(path, read), []
    collector = NameCollector()
    return _read_as_stored(path, read, aliases=collector), list(collector.names)
