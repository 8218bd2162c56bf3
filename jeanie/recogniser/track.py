"""One subject of a stream: when it moves, and which enrolled action each movement is."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.errors import DataError
from jeanie.recogniser.subsequence import Templates, places
from jeanie.recogniser.ticks import Clock
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["Event", "Recognises", "StreamConfig", "Track"]

_TEMPLATES = 3  # examples an action that are laid on a movement, the newest
_CUTS = 3  # places in a movement that are recognised, beside the whole
_ALIKE = 0.8  # share of both that makes two candidates one
_WHOLE = 0.7  # log odds by which a part must be better than the whole movement
_CERTAIN = 1e-6  # doubt that counts as none
_BEYOND = 1.5  # times as long as the longest example is more than one action


class StreamConfig(Config):
    """When a movement begins and ends. Speeds are in body units (about 1.3 a body's height) a second."""

    start_speed: float = Field(default=0.25, gt=0, description="speed that begins a movement")
    stop_speed: float = Field(default=0.15, gt=0, description="speed below which a movement may end")
    quiet: float = Field(default=0.4, gt=0, description="seconds below it that end a movement")
    margin: float = Field(default=0.2, ge=0, description="seconds kept before and after a movement")
    shortest: float = Field(default=0.4, gt=0, description="seconds; what is shorter is no movement")
    longest: float = Field(default=20.0, gt=0, le=600, description="seconds of the past that are kept")


@dataclass(frozen=True)
class Event:
    """A movement: frames from ``start`` to before ``end`` of the stream, and its action, None where none fits.

    ``person`` says whose it is where persons are followed one by one.
    """

    start: int
    end: int
    rate: float
    label: str | None
    confidence: float
    distance: float
    person: int | None = None

    @property
    def seconds(self) -> tuple[float, float]:
        """From when to when, since the first frame."""
        return self.start / self.rate, self.end / self.rate


@runtime_checkable
class Answer(Protocol):
    """What a recogniser says of a motion."""

    @property
    def label(self) -> str | None: ...
    @property
    def confidence(self) -> float: ...
    @property
    def distance(self) -> float: ...


@runtime_checkable
class Enrolled(Protocol):
    """An example of a library."""

    @property
    def label(self) -> str: ...
    @property
    def motion(self) -> Motion: ...


@runtime_checkable
class Examples(Protocol):
    """A library: its examples, and a number that changes when they do."""

    @property
    def revision(self) -> int: ...
    def examples(self) -> Iterator[Enrolled]: ...


@runtime_checkable
class Recognises(Protocol):
    """What a stream needs of a recogniser."""

    @property
    def library(self) -> Examples: ...
    @property
    def actions(self) -> Mapping[str, int]: ...
    def recognise(self, motion: Motion) -> Answer: ...


class Past:
    """The last ``keep`` rows of a stream, or up to twice as many, by their number since its beginning."""

    def __init__(self, keep: int) -> None:
        self._keep, self._rows = keep, torch.zeros(0)
        self.end = 0

    def add(self, rows: Tensor) -> None:
        """Append rows; the oldest are forgotten."""
        self._rows = torch.cat([self._rows, rows]) if self.end else rows.clone()
        self.end += len(rows)
        if len(self._rows) > 2 * self._keep:
            self._rows = self._rows[-self._keep :].clone()

    def read(self, start: int, end: int) -> Tensor:
        """Rows by their numbers."""
        first = self.end - len(self._rows)
        return self._rows[max(0, start - first) : max(0, end - first)]


class Track:
    """Frames in, events out.

    A movement begins where speed exceeds ``start_speed`` and ends where it stays below ``stop_speed``. Of a movement
    that has ended, the whole and the places where examples lie best in it are recognised, and the most confident
    answer counts; what remains before and after it is looked at again. A movement that goes on for longer than
    any single action is cut at such places while it lasts.
    """

    def __init__(
        self,
        recogniser: Recognises,
        layout: Layout,
        persons: int,
        rate: float,
        config: StreamConfig,
        person: int | None,
    ) -> None:
        self._recogniser, self._layout, self._rate, self._config = recogniser, layout, rate, config
        self._person = person
        self._clock = Clock(layout, persons, rate)
        kept = self._ticks(config.longest + config.margin + config.quiet) + 2 * self._clock.lag
        self._poses = Past(kept)
        self._joints, self._valid = Past(kept * self._clock.frames), Past(kept * self._clock.frames)
        self._templates = Templates.of((), self._clock.rate, rate)
        self._revision: int | None = None
        self._tick = 0
        self._rise: int | None = None  # since when speed is above stop_speed
        self._begin: int | None = None  # of the movement that goes on
        self._active = 0  # last tick above stop_speed
        self._decided = 0  # ticks before this one belong to earlier events
        self.work = 0  # poses laid on templates and motions recognised, for who wants to know what it costs

    def push(
        self, joints: Float[Tensor, "frame person joint 3"], valid: Bool[Tensor, "frame person joint"]
    ) -> list[Event]:
        """Events that these frames end."""
        self._joints.add(joints)
        self._valid.add(valid)
        ticks = self._clock.push(joints, valid)
        who = ticks.speeds.argmax(1)  # of several, the pose of the liveliest
        self._poses.add(ticks.poses[torch.arange(len(ticks)), who])
        events: list[Event] = []
        for speed in ticks.speeds.amax(1).tolist():
            events += self._follow(speed)
            self._tick += 1
        return events

    def finish(self) -> list[Event]:
        """The event of a movement that was going on when the stream ended."""
        return [] if self._begin is None else self._close(self._tick)

    def _ticks(self, seconds: float) -> int:
        return max(1, round(seconds * self._clock.rate))

    def _follow(self, speed: float) -> list[Event]:
        """One tick on: begin, go on, cut or end a movement."""
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
        if now - self._active >= self._ticks(config.quiet):
            return self._close(self._active - self._clock.lag + 1)
        if now + 1 - self._begin >= self._limit():
            return self._cut(now + 1)
        return []

    def _limit(self) -> int:
        """Ticks that are more than one action."""
        longest = max(round(_BEYOND * self._templates.longest), self._ticks(3.0))
        return min(longest, self._ticks(self._config.longest))

    def _close(self, end: int) -> list[Event]:
        """A movement has ended."""
        assert self._begin is not None
        begin, self._begin, self._rise = self._begin, None, None
        margin = self._ticks(self._config.margin) if self._config.margin else 0
        start, end = max(self._decided, begin - margin), min(self._tick, end + margin)
        if end - start - 2 * margin < self._ticks(self._config.shortest):
            return []
        self._decided = end
        self._refresh()
        events = self._events(start, end)
        return events or [self._event(start, end, None, self._recognised(start, end))]

    def _cut(self, now: int) -> list[Event]:
        """A movement goes on for too long: what is complete in it is cut out, else its first quarter is let go."""
        assert self._begin is not None
        self._refresh()
        if now - self._begin < self._limit():
            return []
        ready = now - self._ticks(self._config.quiet)
        found = self._best(self._begin, ready, whole=False)
        if found is None:
            self._begin += max(1, self._limit() // 4)
            return []
        begin, (start, end, answer) = self._begin, found
        self._begin = self._decided = end
        return [*self._events(begin, start), self._event(start, end, answer.label, answer)]

    def _events(self, start: int, end: int) -> list[Event]:
        """All actions in a stretch, in order: the best one, then those before and after it."""
        if end - start < self._ticks(self._config.shortest):
            return []
        found = self._best(start, end, whole=end - start <= self._limit())
        if found is None:
            return []
        first, last, answer = found
        event = self._event(first, last, answer.label, answer)
        return [*self._events(start, first), event, *self._events(last, end)]

    def _best(self, start: int, end: int, *, whole: bool) -> tuple[int, int, Answer] | None:
        """(first tick, behind-last tick, answer) of the most confident candidate in a stretch, if one has a label."""
        poses = self._poses.read(start, end)
        self.work += len(poses)
        candidates = [(start, end)] if whole else []
        for place in places(poses, self._templates):
            one = (start + place.start, start + place.end)
            long = place.end - place.start >= self._ticks(self._config.shortest)
            if long and not any(_alike(one, other) for other in candidates):
                candidates.append(one)
            if len(candidates) == _CUTS + whole:
                break
        answers = [(self._recognised(*one), one) for one in candidates]
        good = [(answer, one) for answer, one in answers if answer.label is not None]
        if not good:
            return None
        # the whole comes first, and a part must be clearly better
        best = max(good, key=lambda pair: _log_odds(pair[0]) + _WHOLE * (whole and pair[1] == (start, end)))
        return *best[1], best[0]

    def _recognised(self, start: int, end: int) -> Answer:
        self.work += 1
        frames = self._clock.frames
        joints, valid = (past.read(start * frames, end * frames) for past in (self._joints, self._valid))
        try:
            return self._recogniser.recognise(Motion(joints, self._layout, valid=valid, rate=self._rate))
        except DataError:  # too little was seen
            return _Nothing()

    def _event(self, start: int, end: int, label: str | None, answer: Answer) -> Event:
        frames = self._clock.frames
        return Event(
            start * frames, end * frames, self._rate, label, answer.confidence, answer.distance, self._person
        )

    def _refresh(self) -> None:
        """Templates of the library as it is now."""
        revision = self._recogniser.library.revision
        if revision == self._revision:
            return
        known: dict[str, list[Motion]] = {label: [] for label in self._recogniser.actions}
        for example in self._recogniser.library.examples():
            if example.label in known:
                known[example.label] = [*known[example.label][1 - _TEMPLATES :], example.motion]
        pairs = [(label, motion) for label, motions in known.items() for motion in motions]
        self._templates, self._revision = Templates.of(pairs, self._clock.rate, self._rate), revision


@dataclass(frozen=True)
class _Nothing:
    """The answer where nothing can be said."""

    label: str | None = None
    confidence: float = 0.0
    distance: float = float("inf")


def _log_odds(answer: Answer) -> float:
    """Of confidence: near certainty it still tells a good candidate from a better one."""
    sure = min(max(answer.confidence, _CERTAIN), 1 - _CERTAIN)
    return math.log(sure / (1 - sure))


def _alike(one: tuple[int, int], other: tuple[int, int]) -> bool:
    common = min(one[1], other[1]) - max(one[0], other[0])
    return common >= _ALIKE * (max(one[1], other[1]) - min(one[0], other[0]))
