"""Recognise parts of a stream: the frames in memory, and the answers of the recogniser for some of them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from jeanie.errors import DataError
from jeanie.recogniser.stream.event import Event
from jeanie.recogniser.stream.motion_buffer import MotionBuffer
from jeanie.recogniser.stream.stream_confidence import StreamEvidence
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["Answer", "Candidate", "CandidateReader", "MotionRecogniser", "is_same_candidate"]

_ALIKE = 0.8  # intersection over union from which two candidates are one


@runtime_checkable
class Answer(Protocol):
    """Answer of a recogniser for one motion."""

    @property
    def label(self) -> str | None: ...
    @property
    def nearest(self) -> str | None: ...
    @property
    def confidence(self) -> float: ...
    @property
    def distance(self) -> float: ...
    @property
    def scores(self) -> Mapping[str, float]: ...


@runtime_checkable
class EnrolledExample(Protocol):
    """An example of a library."""

    @property
    def label(self) -> str: ...
    @property
    def motion(self) -> Motion: ...


@runtime_checkable
class ExampleLibrary(Protocol):
    """A library: its examples, and a number that changes when they do."""

    @property
    def revision(self) -> int: ...
    def examples(self) -> Iterator[EnrolledExample]: ...


@runtime_checkable
class MotionRecogniser(Protocol):
    """Interface of a recogniser for streams. ``stream_threshold`` is the confidence below which nothing has a name."""

    @property
    def stream_threshold(self) -> float: ...
    @property
    def library(self) -> ExampleLibrary: ...
    @property
    def actions(self) -> Mapping[str, int]: ...
    def recognise_all(self, motions: Iterable[Motion]) -> Sequence[Answer]: ...


@dataclass(frozen=True)
class _NoAnswer:
    """Answer for a motion with too few visible joints."""

    label: str | None = None
    nearest: str | None = None
    confidence: float = 0.0
    distance: float = float("inf")
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """Ticks ``start`` to ``end`` (exclusive) of a stream, the answer for them, and its confidence in the stream."""

    start: int
    end: int
    answer: Answer
    evidence: StreamEvidence | None
    confidence: float


class CandidateReader:
    """Read and recognise parts of a stream, by ticks of ``frames`` frames each. ``past`` has joints and their mask."""

    def __init__(
        self,
        recogniser: MotionRecogniser,
        layout: Layout,
        rate: float,
        frames: int,
        past: tuple[MotionBuffer, MotionBuffer],
        person: int | None,
    ) -> None:
        self._recogniser, self._layout, self._rate = recogniser, layout, rate
        self._frames, self._past, self._person = frames, past, person
        self.recognised = 0  # motions

    def recognise(self, candidates: Sequence[tuple[int, int]]) -> list[Answer]:
        """Return one answer per candidate; all are encoded and compared in one call."""
        self.recognised += len(candidates)
        motions = [self.read_motion(*candidate) for candidate in candidates]
        visible = [motion for motion in motions if motion is not None]
        try:
            answers = iter(self._recogniser.recognise_all(visible))
        except DataError:  # too few visible joints in one of them
            answers = iter([self._recognise_alone(motion) for motion in visible])
        return [_NoAnswer() if motion is None else next(answers) for motion in motions]

    def _recognise_alone(self, motion: Motion) -> Answer:
        try:
            return self._recogniser.recognise_all([motion])[0]
        except DataError:
            return _NoAnswer()

    def read_motion(self, start: int, end: int) -> Motion | None:
        """Return the frames of some ticks, or None if nobody is visible in them."""
        joints, valid = (rows.read(start * self._frames, end * self._frames) for rows in self._past)
        return Motion(joints, self._layout, valid=valid, rate=self._rate) if bool(valid.any()) else None

    def make_event(self, start: int, end: int, answer: Answer) -> Event:
        """Return the event of an answer for the ticks between ``start`` and ``end``."""
        return self._make_event(start, end, answer, answer.label, answer.confidence)

    def make_final_event(self, candidate: Candidate) -> Event:
        """Return the event of a candidate; it has a name if its confidence reaches the threshold of the recogniser."""
        answer = candidate.answer
        is_known = candidate.confidence > 0 and candidate.confidence >= self._recogniser.stream_threshold
        label = answer.nearest if is_known else None
        return self._make_event(candidate.start, candidate.end, answer, label, candidate.confidence)

    def _make_event(
        self, start: int, end: int, answer: Answer, label: str | None, confidence: float
    ) -> Event:
        return Event(
            start * self._frames,
            end * self._frames,
            self._rate,
            label,
            confidence,
            answer.distance,
            self._person,
            self.read_motion(start, end),
            nearest=answer.nearest,
        )


def is_same_candidate(first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Return whether two candidates are almost the same part of the stream."""
    common = min(first[1], second[1]) - max(first[0], second[0])
    return common >= _ALIKE * (max(first[1], second[1]) - min(first[0], second[0]))
