"""The errors that jeanie raises on purpose. Each message says what was expected, what was given, and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "ConfigError",
    "DataError",
    "JeanieError",
    "RecordingError",
    "RecordingWarning",
    "ShapeError",
    "suggest_name",
]


class JeanieError(Exception):
    """Base of every error that jeanie raises on purpose."""


class ShapeError(JeanieError, ValueError):
    """A tensor has the wrong shape, dtype, device or values."""


class ConfigError(JeanieError, ValueError):
    """An option has a value that cannot be used."""


class DataError(JeanieError, ValueError):
    """A file or data set cannot be read; names the file, the line where known, and the cause."""


class RecordingError(DataError):
    """One of several recordings cannot be read; commands may leave it out and go on."""


class RecordingWarning(UserWarning):
    """A recording was read but is implausible; says what to declare about it."""


def suggest_name(name: object, known: Iterable[object]) -> str:
    """Return the end of a message about an unknown name: the most similar known name, or nothing.

    >>> suggest_name("gama", ["gamma", "shift"])
    "; did you mean 'gamma'?"
    """
    near = get_close_matches(str(name), [str(candidate) for candidate in known], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
