"""Split a stream into movements and recognise each of them."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.recogniser.stream.action_decoder import ActionDecoder, ActionTemplates
from jeanie.recogniser.stream.candidates import (
    Candidate,
    CandidateReader,
    MotionRecogniser,
    is_same_candidate,
)
from jeanie.recogniser.stream.event import Event, StreamConfig
from jeanie.recogniser.stream.motion_buffer import MotionBuffer
from jeanie.recogniser.stream.pose_sampler import PoseSampler
from jeanie.recogniser.stream.stream_confidence import StreamCalibration, measure_stream_evidence
from jeanie.recogniser.stream.subsequence import Templates, measure_progress
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["Segmenter"]

_TEMPLATES = 3  # newest examples of an action that are laid on a movement
_BEYOND = 1.5  # times as long as the longest example is more than one action
_SHORT = 2.0  # seconds that one action may always take
_PAUSE = 0.7  # seconds; after a shorter pause a long movement goes on
_SETTLE = 0.3  # seconds that a pass must remain part of the cheapest explanation
_EVERY = 2  # ticks between two looks at the explanation


class Segmenter:
    """Convert frames of one subject to events.

    A movement starts when the speed exceeds ``start_speed`` and ends when it stays below ``stop_speed``. Meanwhile a
    decoder explains it by passes through the examples. At its end, the whole movement and the passes are recognised,
    and the more confident answer wins. A movement that lasts longer than a single action is cut: every pass becomes an
    event as soon as the explanation has settled.
    """

    def __init__(
        self,
        recogniser: MotionRecogniser,
        layout: Layout,
        persons: int,
        rate: float,
        config: StreamConfig,
        person: int | None,
        calibration: StreamCalibration | None = None,
    ) -> None:
        self._recogniser, self._rate, self._config = recogniser, rate, config
        self._calibration = StreamCalibration.load() if calibration is None else calibration
        self._sampler = PoseSampler(layout, persons, rate)
        ticks = self._count_ticks(config.longest + config.margin + config.quiet) + 2 * self._sampler.lag
        self._poses = MotionBuffer(ticks)
        frames = self._sampler.frames
        self._joints, self._valid = MotionBuffer(ticks * frames), MotionBuffer(ticks * frames)
        past = self._joints, self._valid
        self._reader = CandidateReader(recogniser, layout, rate, frames, past, person)
        self._examples: tuple[tuple[str, Motion], ...] = ()
        self._templates = ActionTemplates.from_motions((), self._sampler.rate, rate)
        self._progress_templates: Templates | None = None
        self._decoder: ActionDecoder | None = None  # explains the current movement
        self._revision: int | None = None
        self._limit = 0  # number of ticks that is too long for one action
        self._tick = 0
        self._rise: int | None = None  # since when speed is above stop_speed
        self._begin: int | None = None  # start of the current movement
        self._active = 0  # last tick above stop_speed
        self._active_before = 0  # the same of the movement before
        self._decided = 0  # ticks before this one belong to earlier events
        self._decoded = 0  # number of ticks that the decoder has seen
        self._is_long = False  # whether the current movement is more than one action
        self._provisional: Event | None = None
        self._aligned = 0  # poses compared with templates

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

    @property
    def work(self) -> int:
        """Number of poses compared with templates plus number of motions recognised."""
        return self._aligned + self._reader.recognised

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
                self._is_long = self._is_long and self._rise - self._active_before < self._count_ticks(_PAUSE)
                self._begin = self._rise
                self._start_decoder(max(self._decided, self._begin - self._margin))
            return []
        if now - self._active >= self._count_ticks(config.quiet):
            return self._confirm(self._end_movement(self._active - self._sampler.lag + 1))
        self._is_long = self._is_long or now + 1 - self._begin >= self._limit
        if self._is_long and now % _EVERY == 0:
            events = self._cut_movement(now + 1)
            if events:
                return self._confirm(events)
        return self._check_movement(now + 1)

    @property
    def _margin(self) -> int:
        return self._count_ticks(self._config.margin) if self._config.margin else 0

    def _end_movement(self, end: int) -> list[Event]:
        """End the current movement and return its events."""
        assert self._begin is not None
        begin, self._begin, self._rise = self._begin, None, None
        self._active_before = self._active
        start, end = max(self._decided, begin - self._margin), min(self._tick, end + self._margin)
        if end - start - 2 * self._margin < self._count_ticks(self._config.shortest):
            return []
        self._decided = end
        passes = self._list_passes(start, end, finish=True)
        if end - start > self._limit and passes:
            return self._recognise_parts(passes)
        parts = [part for part in passes if not is_same_candidate(part, (start, end))]
        whole_answer, *others = self.judge([(start, end), *parts], passes=len(parts), has_whole=True)
        best = max((other.confidence for other in others), default=0.0)
        chosen = others if best > whole_answer.confidence else [whole_answer]
        return [self._reader.make_final_event(candidate) for candidate in chosen]

    def _cut_movement(self, now: int) -> list[Event]:
        """Return the events of the passes that have settled; drop the first part if nothing matches for long."""
        assert self._begin is not None
        passes = self._list_passes(self._decided, now - self._count_ticks(_SETTLE))
        if passes:
            self._begin = self._decided = passes[-1][1]
            events = self._recognise_parts(passes)
        elif now - self._begin >= self._limit:
            self._begin += max(1, self._limit // 4)
            events = []
        else:
            return []
        self._start_decoder(self._begin)
        return events

    def _recognise_parts(self, parts: list[tuple[int, int]]) -> list[Event]:
        return [self._reader.make_final_event(candidate) for candidate in self.judge(parts)]

    def judge(
        self, spans: list[tuple[int, int]], *, passes: int = 0, has_whole: bool = False
    ) -> list[Candidate]:
        """Recognise parts of the stream and return how certain each answer is.

        ``passes`` is the number of passes in a movement that has ended; ``has_whole`` says that the first span is this
        movement.
        """
        candidates = []
        for row, (span, answer) in enumerate(zip(spans, self._reader.recognise(spans), strict=True)):
            evidence, confidence = None, 0.0
            if answer.nearest is not None and answer.confidence > 0:
                lengths = self._templates.lengths[
                    [label == answer.nearest for label in self._templates.labels]
                ]
                duration, example = span[1] - span[0], int(lengths.max(initial=1))
                is_whole = has_whole and row == 0
                evidence = measure_stream_evidence(
                    answer.confidence, answer.scores, duration, example, passes, is_whole
                )
                confidence = self._calibration.compute_confidence(evidence)
            candidates.append(Candidate(*span, answer, evidence, confidence))
        return candidates

    def _start_decoder(self, start: int) -> None:
        """Decode anew from a tick that is still in memory."""
        self._refresh_templates()
        self._decoded = max(start, self._poses.start)
        has_examples = len(self._templates.labels) > 0
        self._decoder = ActionDecoder(self._templates, self._decoded) if has_examples else None

    def _list_passes(self, start: int, end: int, *, finish: bool = False) -> list[tuple[int, int]]:
        """Return the passes between two ticks, after decoding all ticks so far."""
        if self._decoder is None:
            return []
        now = min(self._tick + 1, self._poses.end)
        if now > self._decoded:
            first = max(self._decoded - 1, self._poses.start)
            poses = self._poses.read(first, now).double().numpy()
            costs = self._templates.compute_costs(poses[self._decoded - first :], poses[:1])
            self._decoder.push(costs)
            self._aligned += now - self._decoded
            self._decoded = now
        least = self._count_ticks(self._config.shortest)
        spans = [
            (passage.start, min(passage.end, end) if finish else passage.end)
            for passage in self._decoder.list_passes(finish=finish)
        ]
        return [
            (first, last) for first, last in spans if first >= start and last <= end and last - first >= least
        ]

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
        start = max(self._decided, self._begin - self._margin)
        (answer,) = self._reader.recognise([(start, now)])
        before, self._provisional = self._provisional, None
        if answer.label is not None:
            event = self._reader.make_event(start, now, answer)
            progress = self._measure_progress(start, now, answer.label)
            if before is not None and (before.label, before.start) == (event.label, event.start):
                progress = max(progress, before.progress)
            self._provisional = replace(event, kind="provisional", progress=progress)
        new = [] if self._provisional is None else [self._provisional]
        is_same = before is None or (bool(new) and new[0].label == before.label)
        return new if is_same or before is None else [replace(before, kind="withdrawn"), *new]

    def _measure_progress(self, start: int, now: int, label: str) -> float:
        if self._progress_templates is None:
            self._progress_templates = Templates.from_motions(self._examples, self._sampler.rate, self._rate)
        self._aligned += now - start
        return measure_progress(self._poses.read(start, now), self._progress_templates, label)

    def _confirm(self, events: list[Event]) -> list[Event]:
        """Return final events, after the withdrawal of a provisional event that none of them confirms."""
        before, self._provisional = self._provisional, None
        if before is None or any(
            event.label == before.label and event.start < before.end and before.start < event.end
            for event in events
        ):
            return events
        return [replace(before, kind="withdrawn"), *events]

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
        self._revision, self._progress_templates = revision, None
        self._examples = tuple(
            (label, motion) for label, motions in motions_by_label.items() for motion in motions
        )
        clock = self._sampler.rate
        self._templates = ActionTemplates.from_motions(self._examples, clock, self._rate)
        longest = int(self._templates.lengths.max(initial=0))
        self._limit = min(
            max(round(_BEYOND * longest), self._count_ticks(_SHORT)), self._count_ticks(self._config.longest)
        )
