"""The errors that jeanie raises on purpose. Each says what was expected, what came, and what to do."""

__all__ = ["ConfigError", "DataError", "JeanieError", "ShapeError"]


class JeanieError(Exception):
    """Base of every error that jeanie raises on purpose."""


class ShapeError(JeanieError, ValueError):
    """A tensor has the wrong shape, dtype, device or values."""


class ConfigError(JeanieError, ValueError):
    """An option has a value that cannot be used."""


class DataError(JeanieError, ValueError):
    """A file or data set cannot be read; names the file, the line where known, and the cause."""
