"""One stream of frames: a thread reads its messages, recognises movements and counts repetitions."""

import asyncio
import json
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import isfinite
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from jeanie.errors import DataError, JeanieError
from jeanie.recogniser.exercise.counter import RepetitionCounter
from jeanie.recogniser.exercise.repetitions import Repetition
from jeanie.recogniser.library.labels import normalise_label
from jeanie.recogniser.library.library import Library
from jeanie.recogniser.recogniser import Recognition
from jeanie.recogniser.stream.frames import ArrivedFrames, read_frames
from jeanie.recogniser.stream.stream import Event, Stream
from jeanie.serve.problems import describe_error, describe_problem
from jeanie.serve.service import Service
from jeanie.skeleton.motion import Motion

__all__ = ["StreamSession"]

_POLL_SECONDS = 0.005
_BATCH_SECONDS = 0.04  # two frames of a camera with 30 frames per second
_BATCH = 16  # messages that do not wait for the end of this time
_ACK: dict[str, Any] = {"type": "ack"}
_CONTROL_CHARS = 2000  # a longer message is a frame
_CONTROLS = ("threshold", "persons", "count", "end")
_CONTROL_KEYS = tuple(f'"{key}"' for key in _CONTROLS)


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

    @property
    def stream_threshold(self) -> float:
        """Confidence below which a movement has no label."""
        return self.threshold

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
    """One stream. A thread reads its frames in small batches, because a movement takes a while to recognise.

    The event loop collects messages for ``_BATCH_SECONDS``, then acknowledges the frames among them and wakes the
    thread: two frames of a camera cost one acknowledgement and one change of threads. Every method but
    ``offer``, ``take_answer`` and ``cancel`` runs in the thread.

    Args:
        service: The service.
        owner: Owner of the actions to recognise.
        loop: The event loop that sends answers.
    """

    def __init__(self, service: Service, owner: str, loop: asyncio.AbstractEventLoop) -> None:
        self._service, self._loop = service, loop
        self._recogniser = _SessionRecogniser(service, owner)
        self._most_waiting = service.config.limits.waiting
        self._batches: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
        self._collected: list[str] = []  # messages of the next batch
        self._offered = self._taken = (
            0  # messages that the event loop has added, and that the thread has read
        )
        self._received = 0  # frames
        self._has_timer = self._has_ack = False
        self._answers: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.is_slow = False
        self._is_cancelled = False
        self._persons: Literal["together", "each"] = "together"
        self._has_frames = False
        self._rest: deque[str] = deque()  # messages of the batch that the thread reads
        self._stream: Stream | None = None
        self._since = 0.0  # time of the first frame of the stream
        self._waiting: list[Float[Tensor, "frame person joint 3"]] = []  # frames of this batch
        self._counter = _LiveCounter(self._recogniser, self._answer)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def offer(self, text: str) -> bool:
        """Add a message; return False if too many are waiting."""
        if self._offered - self._taken >= self._most_waiting:
            return False
        self._offered += 1
        self._collected.append(text)
        if not self._has_timer:
            self._has_timer = True
            self._loop.call_later(0 if _may_be_control(text) else _BATCH_SECONDS, self._flush)
        elif _may_be_control(text) or len(self._collected) >= _BATCH:
            self._flush()
        return True

    async def take_answer(self) -> dict[str, Any] | None:
        """Return the next answer, None at the end. An acknowledgement covers all frames received until now."""
        answer = await self._answers.get()
        if answer is _ACK:
            self._has_ack = False
            return {"type": "ack", "frames": self._received}
        return answer

    def cancel(self) -> None:
        """End the thread without further answers."""
        self._is_cancelled = True
        self._batches.put(None)

    def _flush(self) -> None:
        """Acknowledge the collected frames and hand all messages to the thread; in the event loop."""
        self._has_timer = False
        batch, self._collected = self._collected, []
        if not batch or self._is_cancelled:
            return
        frames = sum(not _may_be_control(text) for text in batch)
        self._received += frames
        self._service.metrics.frames.inc(frames)
        if frames and not self._has_ack:  # at most one waits, however slowly the client reads
            self._has_ack = True
            self._answers.put_nowait(_ACK)
        self._batches.put(batch)

    def _read_lines(self) -> Iterator[str]:
        """Yield the frames of the messages; act on the controls among them."""
        while not self._is_cancelled:
            if not self._rest:
                self._push_waiting()
                batch = self._batches.get()
                if batch is None:
                    return
                self._rest.extend(batch)
            text = self._rest.popleft()
            self._taken += 1
            control = _parse_control(text)
            if control is None:
                self._has_frames = True
                yield text
            elif "end" in control:
                return
            else:
                self._push_waiting()
                self._change(control)

    def _change(self, control: dict[str, Any]) -> None:
        if "threshold" in control:
            self._recogniser.threshold = control["threshold"]
        elif "count" in control:
            self._counter.choose(control["count"])
            return
        elif self._has_frames:
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
            self._answer({**describe_error(error, self._recogniser.library.place), "type": "problem"})
        except Exception:
            self._answer({**describe_problem(500, "an unexpected error ended the stream"), "type": "problem"})
            raise
        finally:
            self._answer(None)

    def _recognise(self) -> None:
        for arrived in read_frames(self._read_lines()):
            if arrived.is_new_stream or self._stream is None:
                self._finish_stream()
                self._stream = Stream(
                    self._recogniser, arrived.layout, rate=arrived.rate, persons=self._persons
                )
                self._since = arrived.start_time
            self._counter.push(arrived, self._persons == "each")
            self._waiting.append(arrived.joints)
        if not self._is_cancelled:
            self._finish_stream()
            self._counter.finish()

    def _push_waiting(self) -> None:
        """Process the frames of a batch at once."""
        if self._waiting and self._stream is not None:
            joints, self._waiting = torch.cat(self._waiting), []
            with self._service.lock:  # threads that compute at the same time would only delay each other
                events = self._stream.push(joints)
            self._report(events)

    def _finish_stream(self) -> None:
        self._push_waiting()
        if self._stream is not None:
            with self._service.lock:
                events = self._stream.finish()
            self._report(events)

    def _report(self, events: list[Event]) -> None:
        for event in events:
            start, end = event.seconds
            self._service.metrics.events.labels(str(event.label is not None).lower()).inc()
            self._answer(
                {
                    "type": "event",
                    "start_s": round(self._since + start, 3),
                    "end_s": round(self._since + end, 3),
                    "label": event.label,
                    "confidence": round(event.confidence, 4),
                    "distance": event.distance if isfinite(event.distance) else None,
                    "nearest": event.nearest,
                }
                | ({} if event.person is None else {"person": event.person})
            )

    def _answer(self, message: dict[str, Any] | None) -> None:
        """Send an answer. A client that reads too slowly makes the thread wait, and after a while is dropped."""
        end = time.monotonic() + self._service.config.limits.send_seconds
        while self._answers.qsize() >= self._most_waiting and not self._is_cancelled and not self.is_slow:
            self.is_slow = time.monotonic() > end
            time.sleep(_POLL_SECONDS)
        if not self._is_cancelled:
            with suppress(RuntimeError):  # the loop is closed: the service has stopped
                self._loop.call_soon_threadsafe(self._answers.put_nowait, message)


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
        detail = describe_error(error, self._recogniser.library.place)["detail"]
        self._answer({"type": "count", "label": label, "count": None, "detail": detail})


def _may_be_control(text: str) -> bool:
    """Return whether a message is a control, unless it is damaged."""
    start = text[:24]
    return len(text) <= _CONTROL_CHARS and any(key in start for key in _CONTROL_KEYS)


def _parse_control(text: str) -> dict[str, Any] | None:
    """Return a control message, or None for a frame."""
    if not _may_be_control(text):
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
