"""JSON files and JSON lines, read within limits. Errors name the file and the cause."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jeanie.datasets.formats.files import read_bytes
from jeanie.datasets.formats.text_encoding import convert_to_utf8
from jeanie.errors import DataError, RecordingWarning

__all__ = ["expect_type", "list_numbered", "read_json", "read_json_lines", "to_array"]

MAX_JSON_BYTES = 2**27
MAX_PARSED_BYTES = 3 * 2**27
# bytes of memory that Python needs for a list, a dict of a few keys, and a number with its place in a list
_LIST_BYTES, _DICT_BYTES, _VALUE_BYTES = 64, 232, 32


def read_json(path: Path) -> Any:
    """Read the value of a JSON file."""
    return _parse(path, _read_limited(path))


def read_json_lines(path: Path) -> Any:
    """Read the value of a JSON file, or the list of values of a file with one value per line.

    An incomplete last line, of a recorder that was stopped, is left out with a ``RecordingWarning``.
    """
    data = _read_limited(path)
    lines = data.split(b"\n")
    if sum(map(bool, map(bytes.strip, lines))) > 1 and _is_whole(lines[0]):
        if not _is_whole(lines[-1]) and lines[-1].strip():
            warnings.warn(f"{path}: its last line is cut off and left out", RecordingWarning, stacklevel=2)
            del lines[-1]
        return [_parse(path, line, number) for number, line in enumerate(lines, 1) if line.strip()]
    return _parse(path, data)


def _is_whole(line: bytes) -> bool:
    """Return whether a line is a JSON list or object that ends on this line."""
    text = line.strip()
    return text[:1] + text[-1:] in (b"{}", b"[]")


def _read_limited(path: Path) -> bytes:
    data = convert_to_utf8(read_bytes(path, MAX_JSON_BYTES))
    if _estimate_parsed_bytes(data) > MAX_PARSED_BYTES:
        raise DataError(
            f"{path}: contains more lists and values than a recording ({data.count(b',')} commas); "
            "cut it into clips"
        )
    return data


def _parse(path: Path, data: bytes, first_line: int = 1) -> Any:
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise DataError(f"{path}, line {line}, column {error.colno}: not JSON: {error.msg}") from None
    except ValueError as error:  # invalid UTF-8, or an integer with thousands of digits
        raise DataError(f"{path}: not JSON: {error}") from None
    except RecursionError:
        raise DataError(f"{path}: JSON nested too deeply for a recording") from None


def list_numbered(value: Any) -> list[Any] | None:
    """Return the values of a dict whose keys are all numbers, in their order; None for anything else.

    >>> list_numbered({"10": "b", "2": "a"})
    ['a', 'b']
    """
    if not isinstance(value, dict) or not value:
        return None
    numbers = [re.sub(r"\D", "", key)[:18] for key in value]
    if not all(numbers) or any(re.search(r"[A-Za-z]{12}", key) for key in value):
        return None
    order = sorted(zip(map(int, numbers), value, strict=True))
    return [value[key] for _, key in order]


def _estimate_parsed_bytes(data: bytes) -> int:
    lists, dicts, values = data.count(b"["), data.count(b"{"), data.count(b",")
    return _LIST_BYTES * lists + _DICT_BYTES * dicts + _VALUE_BYTES * values


def expect_type(path: Path, value: Any, kind: type, name: str) -> Any:
    """Return ``value`` if it has the type ``kind``, else raise DataError; ``name`` says which value it is."""
    if not isinstance(value, kind):
        raise DataError(f"{path}: {name} must be a {kind.__name__}, got {type(value).__name__}")
    return value


def to_array(path: Path, value: Any, shape: tuple[int | None, ...], name: str) -> NDArray[np.float64]:
    """Convert nested lists into an array of numbers. None in ``shape`` is any length; null becomes NaN."""
    expected = " x ".join("any" if size is None else str(size) for size in shape)
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path}: {name} must be {expected} numbers: {str(error)[:120]}") from None
    fits = array.ndim == len(shape) and all(
        size in (None, length) for size, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        actual = " x ".join(map(str, array.shape)) or "a single number"
        raise DataError(f"{path}: {name} must be {expected} numbers, got {actual}")
    return array
