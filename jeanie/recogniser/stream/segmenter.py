"""Split a stream into movements and recognise each of them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.errors import DataError
from jeanie.recogniser.stream.motion_buffer import MotionBuffer
from jeanie.recogniser.stream.pose_sampler import PoseSampler
from jeanie.recogniser.stream.subsequence import Templates, match_templates, measure_progress
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["Event", "MotionRecogniser", "Segmenter", "StreamConfig"]

_TEMPLATES = 3  # examples an action that are laid on a movement, the newest
_CUTS = 3  # parts of a movement that are recognised in addition to the whole
_ALIKE = 0.8  # share of both that makes two candidates one
_WHOLE = 0.7  # log odds by which a part must be better than the whole movement
_CERTAIN = 1e-6  # doubt that counts as none
_BEYOND = 1.5  # times as long as the longest example is more than one action


class StreamConfig(Config):
    """When a movement starts and ends.

    A speed is the root mean square of the four fastest joints, in body units per second (about 1.3 units per body
    height).
    """

    start_speed: float = Field(default=0.3, gt=0, description="speed that starts a movement")
    stop_speed: float = Field(default=0.2, gt=0, description="speed below which a movement may end")
    quiet: float = Field(default=0.4, gt=0, description="seconds below stop_speed that end a movement")
    margin: float = Field(default=0.2, ge=0, description="seconds kept before and after a movement")
    shortest: float = Field(default=0.4, gt=0, description="minimum duration of a movement in seconds")
    longest: float = Field(default=20.0, gt=0, le=600, description="seconds of past frames in memory")
    provisional: float | None = Field(
        default=None,
        ge=0.1,
        description="seconds between provisional events while a movement goes on; null: none",
    )


@dataclass(frozen=True)
class Event:
    """A movement, frames ``start`` to ``end`` (exclusive), and its action, None if no action matches.

    ``person`` is the index of the person if persons are followed separately. ``motion`` has the frames of the movement:
    it can be enrolled, rejected or explained. A "provisional" event describes a movement that goes on, with the frames
    so far and its ``progress`` through the example. It replaces the one before it. A "final" event with its label that
    overlaps it confirms it, and a "withdrawn" event takes it back.
    """

    start: int
    end: int
    rate: float
    label: str | None
    confidence: float
    distance: float
    person: int | None = None
    motion: Motion | None = field(default=None, repr=False, compare=False)
    kind: Literal["final", "provisional", "withdrawn"] = "final"
    progress: float = 1.0

    @property
    def seconds(self) -> tuple[float, float]:
        """Start and end in seconds since the first frame."""
        return self.start / self.rate, self.end / self.rate


@runtime_checkable
class Answer(Protocol):
    """Answer of a recogniser for one motion."""

    @property
    def label(self) -> str | None: ...
    @property
    def confidence(self) -> float: ...
    @property
    def distance(self) -> float: ...


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
    """Interface of a recogniser for streams."""

    @property
    def library(self) -> ExampleLibrary: ...
    @property
    def actions(self) -> Mapping[str, int]: ...
    def recognise_all(self, motions: Iterable[Motion]) -> Sequence[Answer]: ...


class Segmenter:
    """Convert frames of one subject to events.

    A movement starts when the speed exceeds ``start_speed`` and ends when it stays below ``stop_speed``. Then the
    whole movement and its best template matches are recognised. The most confident answer wins, and the parts
    before and after it are searched again. A movement that lasts longer than a single action is cut at template
    matches before it ends.
    """

    def __init__(
        self,
        recogniser: MotionRecogniser,
        layout: Layout,
        persons: int,
        rate: float,
        config: StreamConfig,
        person: int | None,
    ) -> None:
        self._recogniser, self._layout, self._rate, self._config = recogniser, layout, rate, config
        self._person = person
        self._sampler = PoseSampler(layout, persons, rate)
        ticks = self._count_ticks(config.longest + config.margin + config.quiet) + 2 * self._sampler.lag
        self._poses = MotionBuffer(ticks)
        self._joints, self._valid = (
            MotionBuffer(ticks * self._sampler.frames),
            MotionBuffer(ticks * self._sampler.frames),
        )
        self._templates = Templates.from_motions((), self._sampler.rate, rate)
        self._revision: int | None = None
        self._tick = 0
        self._rise: int | None = None  # since when speed is above stop_speed
        self._begin: int | None = None  # start of the current movement
        self._active = 0  # last tick above stop_speed
        self._decided = 0  # ticks before this one belong to earlier events
        self._provisional: Event | None = None
        self.work = 0  # poses aligned with templates plus motions recognised

    def push(
        self, joints: Float[Tensor, "frame person joint 3"], valid: Bool[Tensor, "frame person joint"]
    ) -> list[Event]:
        """Add frames and return the events that end in them."""
        self._joints.add(joints)
        self._valid.add(valid)
        ticks = self._sampler.push(joints, valid)
        who = ticks.speeds.argmax(1)  # of several, the pose of the liveliest
        self._poses.add(ticks.poses[torch.arange(len(ticks)), who])
        events: list[Event] = []
        for speed in ticks.speeds.amax(1).tolist():
            events += self._update_state(speed)
            self._tick += 1
        return events

    def finish(self) -> list[Event]:
        """Return the events of a movement that is unfinished at the end of the stream."""
        return [] if self._begin is None else self._confirm(self._end_movement(self._tick))

    def _count_ticks(self, seconds: float) -> int:
        return max(1, round(seconds * self._sampler.rate))

    def _update_state(self, speed: float) -> list[Event]:
        """Process the speed of one tick: start, continue, cut or end a movement."""
        now, config = self._tick, self._config
        if speed >= config.stop_speed:
            self._active = now
            self._rise = now if self._rise is None else self._rise
        elif self._begin is None:
            self._rise = None
        if self._begin is None:
            if speed >= config.start_speed and self._rise is not None:
                self._begin = self._rise
            return []
        if now - self._active >= self._count_ticks(config.quiet):
            return self._confirm(self._end_movement(self._active - self._sampler.lag + 1))
        if now + 1 - self._begin >= self._compute_limit():
            events = self._cut_movement(now + 1)
            if events:
                return self._confirm(events)
        return self._check_movement(now + 1)

    def _compute_limit(self) -> int:
        """Return the number of ticks that is too long for one action."""
        longest = max(round(_BEYOND * self._templates.longest), self._count_ticks(3.0))
        return min(longest, self._count_ticks(self._config.longest))

    def _end_movement(self, end: int) -> list[Event]:
        """End the current movement and return its events."""
        assert self._begin is not None
        begin, self._begin, self._rise = self._begin, None, None
        margin = self._count_ticks(self._config.margin) if self._config.margin else 0
        start, end = max(self._decided, begin - margin), min(self._tick, end + margin)
        if end - start - 2 * margin < self._count_ticks(self._config.shortest):
            return []
        self._decided = end
        self._refresh_templates()
        events = self._find_events(start, end)
        return events or [self._make_event(start, end, None, self._recognise([(start, end)])[0])]

    def _cut_movement(self, now: int) -> list[Event]:
        """Cut a long movement at its best match, or drop its first quarter if nothing matches."""
        assert self._begin is not None
        self._refresh_templates()
        if now - self._begin < self._compute_limit():
            return []
        ready = now - self._count_ticks(self._config.quiet)
        best = self._find_best(self._begin, ready, whole=False)
        if best is None:
            self._begin += max(1, self._compute_limit() // 4)
            return []
        begin, (start, end, answer) = self._begin, best
        self._begin = self._decided = end
        return [*self._find_events(begin, start), self._make_event(start, end, answer.label, answer)]

    def _check_movement(self, now: int) -> list[Event]:
        """Return the provisional event of a movement that goes on, if one is due and an action matches."""
        config = self._config
        assert self._begin is not None
        lasted = now - self._begin
        if (
            config.provisional is None
            or lasted < self._count_ticks(config.shortest)
            or lasted % self._count_ticks(config.provisional)
        ):
            return []
        self._refresh_templates()
        margin = self._count_ticks(config.margin) if config.margin else 0
        start = max(self._decided, self._begin - margin)
        (answer,) = self._recognise([(start, now)])
        before, self._provisional = self._provisional, None
        if answer.label is not None:
            self.work += now - start
            progress = measure_progress(self._poses.read(start, now), self._templates, answer.label)
            if (
                before is not None
                and before.label == answer.label
                and before.start == start * self._sampler.frames
            ):
                progress = max(progress, before.progress)
            event = self._make_event(start, now, answer.label, answer)
            self._provisional = replace(event, kind="provisional", progress=progress)
        new = [] if self._provisional is None else [self._provisional]
        is_same = before is None or (bool(new) and new[0].label == before.label)
        return new if is_same or before is None else [replace(before, kind="withdrawn"), *new]

    def _confirm(self, events: list[Event]) -> list[Event]:
        """Return final events, after the withdrawal of a provisional event that none of them confirms."""
        before, self._provisional = self._provisional, None
        if before is None or any(
            event.label == before.label and event.start < before.end and before.start < event.end
            for event in events
        ):
            return events
        return [replace(before, kind="withdrawn"), *events]

    def _find_events(self, start: int, end: int) -> list[Event]:
        """Return all actions between two ticks, in order: the best one and those before and after it."""
        if end - start < self._count_ticks(self._config.shortest):
            return []
        best = self._find_best(start, end, whole=end - start <= self._compute_limit())
        if best is None:
            return []
        first, last, answer = best
        event = self._make_event(first, last, answer.label, answer)
        return [*self._find_events(start, first), event, *self._find_events(last, end)]

    def _find_best(self, start: int, end: int, *, whole: bool) -> tuple[int, int, Answer] | None:
        """Return (start, end, answer) of the most confident candidate with a label, or None."""
        poses = self._poses.read(start, end)
        self.work += len(poses)
        candidates = [(start, end)] if whole else []
        for place in match_templates(poses, self._templates):
            candidate = (start + place.start, start + place.end)
            long = place.end - place.start >= self._count_ticks(self._config.shortest)
            if long and not any(_is_same_candidate(candidate, other) for other in candidates):
                candidates.append(candidate)
            if len(candidates) == _CUTS + whole:
                break
        answers = zip(self._recognise(candidates), candidates, strict=True)
        good = [(answer, candidate) for answer, candidate in answers if answer.label is not None]
        if not good:
            return None
        # the whole comes first, and a part must be clearly better
        best = max(
            good, key=lambda pair: _compute_log_odds(pair[0]) + _WHOLE * (whole and pair[1] == (start, end))
        )
        return *best[1], best[0]

    def _recognise(self, candidates: Sequence[tuple[int, int]]) -> list[Answer]:
        """Return one answer per candidate; all are encoded and compared in one call."""
        self.work += len(candidates)
        motions = [self._read_motion(*candidate) for candidate in candidates]
        visible = [motion for motion in motions if motion is not None]
        try:
            found = iter(self._recogniser.recognise_all(visible))
        except DataError:  # too few visible joints in one of them
            found = iter([self._recognise_alone(motion) for motion in visible])
        return [_NoAnswer() if motion is None else next(found) for motion in motions]

    def _recognise_alone(self, motion: Motion) -> Answer:
        try:
            return self._recogniser.recognise_all([motion])[0]
        except DataError:
            return _NoAnswer()

    def _read_motion(self, start: int, end: int) -> Motion | None:
        """Return the frames of some ticks, or None if nobody is visible in them."""
        frames = self._sampler.frames
        joints, valid = (past.read(start * frames, end * frames) for past in (self._joints, self._valid))
        return Motion(joints, self._layout, valid=valid, rate=self._rate) if bool(valid.any()) else None

    def _make_event(self, start: int, end: int, label: str | None, answer: Answer) -> Event:
        frames = self._sampler.frames
        return Event(
            start * frames,
            end * frames,
            self._rate,
            label,
            answer.confidence,
            answer.distance,
            self._person,
            self._read_motion(start, end),
        )

    def _refresh_templates(self) -> None:
        """Update the templates if the library has changed."""
        revision = self._recogniser.library.revision
        if revision == self._revision:
            return
        motions_by_label: dict[str, list[Motion]] = {label: [] for label in self._recogniser.actions}
        for example in self._recogniser.library.examples():
            if example.label in motions_by_label:
                motions_by_label[example.label] = [
                    *motions_by_label[example.label][1 - _TEMPLATES :],
                    example.motion,
                ]
        pairs = [(label, motion) for label, motions in motions_by_label.items() for motion in motions]
        self._templates, self._revision = (
            Templates.from_motions(pairs, self._sampler.rate, self._rate),
            revision,
        )


@dataclass(frozen=True)
class _NoAnswer:
    """Answer for a motion with too few visible joints."""

    label: str | None = None
    confidence: float = 0.0
    distance: float = float("inf")


def _compute_log_odds(answer: Answer) -> float:
    """Return the log odds of the confidence, which separate candidates of almost certain confidence."""
    sure = min(max(answer.confidence, _CERTAIN), 1 - _CERTAIN)
    return math.log(sure / (1 - sure))


def _is_same_candidate(first: tuple[int, int], second: tuple[int, int]) -> bool:
    common = min(first[1], second[1]) - max(first[0], second[0])
    return common >= _ALIKE * (max(first[1], second[1]) - min(first[0], second[0]))
