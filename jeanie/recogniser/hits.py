"""Hits: segments or clips of an archive with a calibrated confidence, in the vocabulary of all results."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import Any, TypeVar

from jeanie.datasets.dataset import Dataset
from jeanie.errors import DataError
from jeanie.fewshot.model import FewShotModel
from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.search.find import Match
from jeanie.skeleton.motion import Motion

__all__ = ["Hit", "cut_segments", "describe_result", "rate_matches"]

_LABEL = "example"
Segment = TypeVar("Segment", "Match", "Hit")


def describe_result(
    file: str,
    label: str | int | None,
    confidence: float,
    distance: float | None,
    seconds: tuple[float, float] | None,
) -> dict[str, Any]:
    """Return a result about a recording or a part of it as plain values; unknown values are None.

    >>> describe_result("a.bvh", "wave", 0.91234, 0.5, (1.0, 2.5))
    {'file': 'a.bvh', 'start_s': 1.0, 'end_s': 2.5, 'label': 'wave', 'confidence': 0.9123, 'distance': 0.5}
    """
    start, end = (None, None) if seconds is None else (round(seconds[0], 3), round(seconds[1], 3))
    return {
        "file": file,
        "start_s": start,
        "end_s": end,
        "label": label,
        "confidence": round(confidence, 4),
        "distance": distance if distance is not None and isfinite(distance) else None,
    }


@dataclass(frozen=True)
class Hit:
    """A segment of a clip, frames ``start`` to ``end`` (exclusive), with the confidence that it shows the example.

    ``label`` is the label that the clip had before.
    """

    clip: int
    file: str
    label: str | int | None
    start: int
    end: int
    rate: float | None
    confidence: float
    distance: float

    @property
    def seconds(self) -> tuple[float, float] | None:
        """Start and end in seconds, or None if the frame rate is unknown."""
        return None if self.rate is None else (self.start / self.rate, self.end / self.rate)

    def json(self) -> dict[str, Any]:
        """Return the hit as plain values."""
        result = describe_result(self.file, self.label, self.confidence, self.distance, self.seconds)
        return result | {"clip": self.clip, "start_frame": self.start, "end_frame": self.end}


def cut_segments(archive: Dataset, segments: Iterable[Segment]) -> Iterator[tuple[Segment, Motion]]:
    """Yield the matches or hits with their motions, clip by clip, so that every clip is read once."""
    for clip, group in groupby(
        sorted(segments, key=lambda segment: segment.clip), lambda segment: segment.clip
    ):
        motion = archive.motions[clip]
        for segment in group:
            yield segment, motion[segment.start : segment.end]


def rate_matches(
    model: FewShotModel, example: Motion, archive: Dataset, matches: Sequence[Match]
) -> list[Hit]:
    """Return the matches of a search with the confidence of ``Recogniser`` that they show the action of the example.

    A segment that cannot be recognised, for example because hardly anybody is visible, has confidence 0.
    """
    confidences = {}
    with Recogniser.load(model=model) as recogniser:
        recogniser.enrol(_LABEL, example)
        for match, segment in cut_segments(archive, matches):
            try:
                confidences[match] = recogniser.recognise(segment).confidence
            except DataError:
                confidences[match] = 0.0
    return [
        Hit(
            match.clip,
            match.name or f"clip {match.clip}",
            match.label,
            match.start,
            match.end,
            match.rate,
            confidences[match],
            match.distance,
        )
        for match in matches
    ]
