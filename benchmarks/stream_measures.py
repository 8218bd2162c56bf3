"""Measures of a stream: movements that are named in place, false names, and delays of events."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from jeanie.recogniser import Recogniser
from jeanie.recogniser.stream.stream import Stream, StreamConfig
from jeanie.skeleton import Motion

Movement = tuple[int, int, str]  # first frame, end, label
_PORTION = 3  # frames per push
_WARM_UP = 30  # frames


@dataclass
class StreamMeasures:
    """Sums over streams. Delays are seconds from the end of a movement to its event."""

    movements: int = 0
    found: int = 0
    named: int = 0
    false_names: int = 0
    seconds: float = 0.0
    frames: int = 0
    cpu: float = 0.0
    delays: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        delay = sorted(self.delays)[int(0.9 * len(self.delays))] if self.delays else float("nan")
        cells = (
            f"{100 * self.found / self.movements:.0f} %",
            f"{100 * self.named / self.movements:.0f} %",
            f"{60 * self.false_names / self.seconds:.1f}",
            f"{sum(self.delays) / max(1, len(self.delays)):.2f} s",
            f"{delay:.2f} s",
            f"{1e3 * self.cpu / self.frames:.2f}",
        )
        return " | ".join(cells)


def measure_stream(
    recogniser: Recogniser,
    motion: Motion,
    truth: Sequence[Movement],
    sums: StreamMeasures,
    config: StreamConfig | None = None,
) -> None:
    """Push a motion frame by frame and add what was found.

    A movement is found if the intersection over union with an event is at least 0.5, and named if such an event has its
    label. Every other name is false.
    """
    recogniser.recognise(motion[:_WARM_UP])  # encodes the examples and the background set, once per program
    stream = Stream(recogniser, motion.layout, rate=motion.rate, config=config)
    events, at = [], []
    start = time.process_time()
    for frame in range(0, len(motion), _PORTION):
        new = stream.push(motion.joints[frame : frame + _PORTION], motion.valid[frame : frame + _PORTION])
        events += new
        at += [min(len(motion), frame + _PORTION)] * len(new)
    last = stream.finish()
    sums.cpu += time.process_time() - start
    events, at = events + last, at + [len(motion)] * len(last)
    rate = motion.rate or 30.0
    matched = set()
    for first, end, label in truth:
        places = [
            index
            for index, event in enumerate(events)
            if _share((event.start, event.end), (first, end)) >= 0.5
        ]
        named = [index for index in places if events[index].label == label]
        sums.movements += 1
        sums.found += bool(places)
        sums.named += bool(named)
        if named:
            matched.add(named[0])
            sums.delays.append((at[named[0]] - end) / rate)
    sums.false_names += sum(
        event.label is not None and index not in matched for index, event in enumerate(events)
    )
    sums.seconds += len(motion) / rate
    sums.frames += len(motion)


def _share(one: tuple[int, int], other: tuple[int, int]) -> float:
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, common) / (max(one[1], other[1]) - min(one[0], other[0]))
