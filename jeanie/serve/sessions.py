"""One stream of frames: a thread reads its messages, recognises movements and counts repetitions."""

import asyncio
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import isfinite
from typing import Any, Literal

from jeanie.errors import DataError, JeanieError
from jeanie.recogniser.exercise.counter import RepetitionCounter
from jeanie.recogniser.exercise.repetitions import Repetition
from jeanie.recogniser.library.labels import normalise_label
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.recogniser import Recognition
from jeanie.recogniser.stream.frames import ArrivedFrames, read_frames
from jeanie.recogniser.stream.stream import Event, Stream
from jeanie.serve.problems import describe_problem
from jeanie.serve.service import Service
from jeanie.skeleton.motion import Motion

__all__ = ["StreamSession"]

_POLL_SECONDS = 0.005
_CONTROL_CHARS = 2000  # a longer message is a frame
_CONTROLS = ("threshold", "persons", "count", "end")


class _SessionRecogniser:
    """The recogniser of the owner of a stream, with the threshold of the stream."""

    def __init__(self, service: Service, owner: str) -> None:
        self._lock, self._own = service.lock, service.for_owner(owner)
        self.threshold = self._own.threshold

    @property
    def library(self) -> Library:
        return self._own.library

    @property
    def actions(self) -> Mapping[str, int]:
        return self._own.actions

    def list_examples(self, label: str) -> list[Motion]:
        """Return the examples of an action."""
        return self._own.list_examples(normalise_label(label))

    def recognise_all(self, motions: Iterable[Motion]) -> list[Recognition]:
        """Recognise motions; nothing below the threshold of this stream has a label."""
        with self._lock:
            answers = self._own.recognise_all(motions)
        return [self._apply_threshold(answer) for answer in answers]

    def _apply_threshold(self, answer: Recognition) -> Recognition:
        is_known = answer.nearest is not None and answer.confidence >= max(self.threshold, 1e-6)
        return replace(answer, label=answer.nearest if is_known else None)


class StreamSession:
    """One stream. A thread reads its frames from a bounded queue, because a movement takes a while to recognise.

    Args:
        service: The service.
        owner: Owner of the actions to recognise.
        loop: The event loop that sends answers.
    """

    def __init__(self, service: Service, owner: str, loop: asyncio.AbstractEventLoop) -> None:
        limits = service.config.limits
        self._service, self._loop = service, loop
        self._recogniser = _SessionRecogniser(service, owner)
        self._lines: queue.Queue[str | None] = queue.Queue(limits.waiting)
        self.answers: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._waiting = limits.waiting
        self.is_slow = False
        self._is_cancelled = False
        self._count = 0
        self._persons: Literal["together", "each"] = "together"
        self._counter = _LiveCounter(self._recogniser, self._answer)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def offer(self, text: str | None) -> bool:
        """Add a message, or None for the end; return False if too many are waiting."""
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            return False
        return True

    def cancel(self) -> None:
        """End the thread without further answers."""
        self._is_cancelled = True
        with suppress(queue.Full):
            self._lines.put_nowait(None)

    def _read_lines(self) -> Iterator[str]:
        while not self._is_cancelled and (text := self._lines.get()) is not None:
            control = _parse_control(text)
            if control is None:
                self._count += 1
                self._service.metrics.frames.inc()
                yield text
                self._answer({"type": "ack", "frames": self._count})
            elif "end" in control:
                return
            else:
                self._change(control)

    def _change(self, control: dict[str, Any]) -> None:
        if "threshold" in control:
            self._recogniser.threshold = control["threshold"]
        elif "count" in control:
            self._counter.choose(control["count"])
            return
        elif self._count:
            raise DataError("'persons' is set before the first frame; start a new stream")
        else:
            self._persons = control["persons"]
        ((key, value),) = control.items()
        self._answer({"type": key, key: value})

    def _run(self) -> None:
        """Recognise the frames of the queue until it ends."""
        try:
            self._recognise()
        except JeanieError as error:
            self._answer({**describe_problem(422, str(error)), "type": "problem"})
        except Exception:
            self._answer({**describe_problem(500, "an unexpected error ended the stream"), "type": "problem"})
            raise
        finally:
            self._answer(None)

    def _recognise(self) -> None:
        stream: Stream | None = None
        since = 0.0
        for arrived in read_frames(self._read_lines()):
            if arrived.is_new_stream or stream is None:
                self._report(stream.finish() if stream else [], since)
                stream = Stream(self._recogniser, arrived.layout, rate=arrived.rate, persons=self._persons)
                since = arrived.start_time
            self._counter.push(arrived, self._persons == "each")
            self._report(stream.push(arrived.joints), since)
        if not self._is_cancelled:
            self._report(stream.finish() if stream else [], since)
            self._counter.finish()

    def _report(self, events: list[Event], since: float) -> None:
        for event in events:
            start, end = event.seconds
            self._service.metrics.events.labels(str(event.label is not None).lower()).inc()
            self._answer(
                {
                    "type": "event",
                    "start_s": round(since + start, 3),
                    "end_s": round(since + end, 3),
                    "label": event.label,
                    "confidence": round(event.confidence, 4),
                    "distance": event.distance if isfinite(event.distance) else None,
                }
                | ({} if event.person is None else {"person": event.person})
            )

    def _answer(self, message: dict[str, Any] | None) -> None:
        """Send an answer. A client that reads too slowly makes the thread wait, and after a while is dropped."""
        end = time.monotonic() + self._service.config.limits.send_seconds
        while self.answers.qsize() >= self._waiting and not self._is_cancelled and not self.is_slow:
            self.is_slow = time.monotonic() > end
            time.sleep(_POLL_SECONDS)
        if not self._is_cancelled:
            with suppress(RuntimeError):  # the loop is closed: the service has stopped
                self._loop.call_soon_threadsafe(self.answers.put_nowait, message)


class _LiveCounter:
    """Counts the repetitions of the chosen action, for each person, and answers when a number changes."""

    def __init__(self, recogniser: _SessionRecogniser, answer: Callable[[dict[str, Any]], None]) -> None:
        self._recogniser, self._answer = recogniser, answer
        self._label: str | None = None
        self._examples: list[Motion] = []
        self._counters: list[RepetitionCounter] = []
        self._counts: list[int] = []

    def choose(self, label: str | None) -> None:
        """Start to count an action from zero, or stop."""
        self._label, self._examples, self._counters, self._counts = None, [], [], []
        if label is None:
            self._answer({"type": "count", "label": None, "count": 0})
            return
        try:
            self._examples = self._recogniser.list_examples(label)
        except JeanieError as error:
            self._fail(label, error)
            return
        self._label = label
        self._answer({"type": "count", "label": label, "count": 0})

    def push(self, arrived: ArrivedFrames, is_separate: bool) -> None:
        """Count the repetitions that end in these frames."""
        if self._label is None:
            return
        persons = arrived.joints.shape[1] if is_separate else 1
        try:
            if arrived.is_new_stream or not self._counters:
                self._counts = [
                    done + counter.count for done, counter in zip(self._counts, self._counters, strict=False)
                ] or [0] * persons
                self._counters = [
                    RepetitionCounter(self._examples, arrived.layout, rate=arrived.rate)
                    for _ in range(persons)
                ]
            for person, counter in enumerate(self._counters):
                self._report(person, counter.push(arrived.joints[:, person]))
        except JeanieError as error:
            self._fail(self._label, error)

    def finish(self) -> None:
        """Count what has ended with the stream."""
        for person, counter in enumerate(self._counters):
            self._report(person, counter.finish())

    def _report(self, person: int, repetitions: list[Repetition]) -> None:
        if repetitions:
            count = self._counts[person] + self._counters[person].count
            about = {"person": person} if len(self._counters) > 1 else {}
            self._answer({"type": "count", "label": self._label, "count": count} | about)

    def _fail(self, label: str, error: JeanieError) -> None:
        self._label = None
        self._answer({"type": "count", "label": label, "count": None, "detail": str(error)})


def _parse_control(text: str) -> dict[str, Any] | None:
    """Return a control message, or None for a frame."""
    if len(text) > _CONTROL_CHARS or not any(f'"{key}"' in text[:24] for key in _CONTROLS):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or len(values) != 1:
        return None
    ((key, value),) = values.items()
    if key not in _CONTROLS or (key == "persons" and not isinstance(value, str)):
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if key == "threshold" and not (is_number and 0 <= value <= 1):
        raise DataError(f"'threshold' is a confidence from 0 to 1, got {str(value)[:40]!r}")
    if key == "persons" and value not in ("together", "each"):
        raise DataError(f"'persons' is 'together' or 'each', got {value[:40]!r}")
    if key == "count" and not (value is None or isinstance(value, str)):
        raise DataError(f"'count' is the name of an action or null, got {str(value)[:40]!r}")
    return {key: value}
