"""The match of one query with one support."""

from dataclasses import dataclass

from jeanie.alignment import Alignment

__all__ = ["PairMatch"]


@dataclass(frozen=True, eq=False)
class PairMatch:
    """How a model matches one query with one support.

    ``persons`` are the compared (query, support) persons. If ``is_mirrored``, the mirror image of the query is closer,
    and ``alignment`` is that of the image.
    """

    distance: float
    persons: tuple[tuple[int, int], ...]
    is_mirrored: bool
    alignment: Alignment
