"""Text and JSON files read within bounds; every failure names the file, the line and the cause."""

import json
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.names import Tags, clip_name, tags_of
from jeanie.datasets.table import check_size, number_rows
from jeanie.errors import DataError, ShapeError
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = [
    "MAX_JSON_BYTES",
    "MAX_TEXT_BYTES",
    "as_array",
    "expect",
    "foreign",
    "make_motion",
    "read_bytes",
    "read_json",
    "read_lines",
    "read_rows",
]

# Far above any clip of the known sets (some MB); what a parser may need is a multiple of it.
MAX_TEXT_BYTES = 2**28
MAX_JSON_BYTES = 2**27

# how C's printf on Windows spells NaN and infinity
_WINDOWS_NAN = re.compile(rb"[-+]?\d*\.#(?:IND|QNAN|SNAN|INF)\d*", re.IGNORECASE)


def read_bytes(path: Path, limit: int) -> bytes:
    """The whole of a regular file of at most ``limit`` bytes."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataError(f"{path}: not a regular file; give the path of a recording")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a NUL within the path
        raise DataError(f"{str(path)!r}: cannot be read: {error}") from error
    if len(data) > limit:
        raise DataError(f"{path}: larger than {limit} bytes, too much for one recording; cut it into clips")
    return data


def read_lines(path: Path) -> list[str]:
    """Lines of a text file; the spellings of NaN and infinity that Windows programs write become ``nan``."""
    data = read_bytes(path, MAX_TEXT_BYTES)
    if b"#" in data:
        data = _WINDOWS_NAN.sub(b"nan", data)
    return data.decode("utf-8-sig", errors="replace").split("\n")


def read_rows(path: Path, widths: tuple[int, ...]) -> NDArray[np.float64]:
    """Numbers [row, column] of a text file, separated by white space or commas; blank lines are passed over.

    The first row's count of numbers must be one of ``widths``, and every other row has as many.
    """
    lines = read_lines(path)
    at, first = next(((at, line) for at, line in enumerate(lines) if line.strip()), (0, ""))
    if not first:
        raise DataError(f"{path}: no numbers in it; expected rows of {_either(widths)} numbers")
    comma = "," if "," in first else None
    width = len(first.rstrip(", \t\r\n").split(comma))
    if width not in widths:
        raise DataError(f"{path}, line {at + 1}: expected {_either(widths)} numbers in a row, got {width}")
    if comma:
        lines = [line.rstrip(", \t\r\n") for line in lines]
    return number_rows(path, lines, width=width, first_line=1, delimiter=comma)


def _either(widths: tuple[int, ...]) -> str:
    return " or ".join(map(str, widths))


def read_json(path: Path) -> Any:
    """The value of a JSON file."""
    data = read_bytes(path, MAX_JSON_BYTES)
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except ValueError as error:  # bytes that are no text, or an integer of thousands of digits
        raise DataError(f"{path}: not JSON: {error}") from None
    except RecursionError:
        raise DataError(f"{path}: JSON nested too deeply for a recording") from None


def expect(path: Path, value: Any, kind: type, what: str) -> Any:
    """``value`` if it is of the JSON type that ``what`` has to be."""
    if not isinstance(value, kind):
        raise DataError(f"{path}: {what} must be a {kind.__name__}, got {type(value).__name__}")
    return value


def as_array(path: Path, value: Any, shape: tuple[int | None, ...], what: str) -> NDArray[np.float64]:
    """Nested lists as an array of numbers; None in ``shape`` is any length. A null is NaN."""
    wanted = " x ".join("any" if size is None else str(size) for size in shape)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: {what} must be {wanted} numbers: {str(error)[:120]}") from None
    fits = array.ndim == len(shape) and all(
        size in (None, got) for size, got in zip(shape, array.shape, strict=True)
    )
    if not fits:
        got = " x ".join(map(str, array.shape)) or "a single number"
        raise DataError(f"{path}: {what} must be {wanted} numbers, got {got}")
    return array


@contextmanager
def foreign(path: Path, what: str) -> Iterator[None]:
    """Whatever another library raises on a damaged file becomes a DataError that names the file."""
    try:
        yield
    except DataError:
        raise
    except ImportError as error:
        raise DataError(
            f"{path}: a {what} is read by {error.name}; install it: pip install {error.name}"
        ) from None
    except Exception as error:
        raise DataError(f"{path}: not a readable {what}: {str(error)[:200]}") from None


def make_motion(
    path: Path,
    joints: NDArray[np.floating[Any]],
    own: Layout,
    *,
    layout: Layout | None = None,
    valid: NDArray[np.bool_] | None = None,
    rate: float | None = None,
    name: str | None = None,
    tags: Tags | None = None,
) -> Motion:
    """A motion of the joints [frame, person, joint, 3] of a file, name and tags from the file's name.

    ``own`` is the layout of the format; a caller's ``layout`` with as many joints replaces it.
    """
    layout = layout or own
    if joints.shape[2] != len(layout):
        raise DataError(
            f"{path}: holds {joints.shape[2]} joints, layout {layout.name!r} has {len(layout)}; "
            "give a layout that names the joints of this file"
        )
    check_size(path, *joints.shape[:3])
    tags = tags_of(path) if tags is None else tags
    try:
        return Motion(
            joints,
            layout,
            valid=valid,
            rate=rate,
            name=name or clip_name(path),
            label=tags.label,
            subject=tags.subject,
            view=tags.view,
            setup=tags.setup,
            take=tags.take,
        )
    except (DataError, ShapeError) as error:
        raise DataError(f"{path}: {error}") from None
