"""The part of an example that a command uses: its option, and the frames that it names."""

from math import isfinite
from typing import Annotated

import typer

from jeanie.errors import ConfigError
from jeanie.skeleton import Motion

__all__ = ["ExamplePart", "select_part"]

ExamplePart = Annotated[
    str | None,
    typer.Option("--part", help="Part of the example to use, in seconds, for example 2.5-4."),
]


def select_part(motion: Motion, part: str | None) -> Motion:
    """Return a part of a motion in seconds, such as "2.5-4"; None is the whole."""
    return motion if part is None else motion[_parse_part(part, motion.rate or 30.0, len(motion))]


def _parse_part(part: str, rate: float, frames: int) -> slice:
    """Return the frames of a part in seconds, such as "2.5-4"."""
    first, dash, last = part.partition("-")
    try:
        start, end = float(first or 0), float(last) if last else frames / rate
    except ValueError:
        start, end, dash = 0.0, 0.0, ""
    cut = slice(round(start * rate), round(end * rate))
    if not dash or not isfinite(start + end) or not 0 <= cut.start < min(cut.stop, frames):
        raise ConfigError(
            f"--part must be START-END in seconds within the {frames / rate:.1f} s of the example, got {part!r}"
        )
    return cut
