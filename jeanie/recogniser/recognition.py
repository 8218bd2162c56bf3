"""The answer of a recogniser for one motion."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf

from jeanie.alignment import Alignment

__all__ = ["NO_MATCH", "Recognition"]


@dataclass(frozen=True, eq=False)
class Recognition:
    """The answer for a motion.

    Attributes:
        label: The recognised action, or None if the confidence is below the threshold.
        distance: Distance to the nearest example of ``nearest``.
        confidence: Probability that ``nearest`` is right.
        scores: Distance to the nearest example of each action, smallest first.
        nearest: The nearest action, also if ``label`` is None; None if nothing is enrolled.
        example: Id of the nearest example of ``nearest``.
        warnings: Implausible properties of the motion, such as a body of 170 m; the answer is then unreliable.

    >>> from jeanie import Recogniser, open_synthetic
    >>> with Recogniser.load() as recogniser:
    ...     recogniser.recognise(open_synthetic()[0]).label is None  # nothing is enrolled
    True
    """

    label: str | None
    distance: float
    confidence: float
    scores: Mapping[str, float]
    nearest: str | None = None
    example: int | None = None
    warnings: tuple[str, ...] = ()
    _align: Callable[[], Alignment] | None = field(default=None, repr=False)

    @cached_property
    def alignment(self) -> Alignment | None:
        """Alignment of the motion with its nearest example, computed at the first access."""
        return None if self._align is None else self._align()


NO_MATCH = Recognition(None, inf, 0.0, {})
