"""Measures of a stream: movements that are named in place, false names, and delays of events."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jeanie.recogniser import Recogniser
from jeanie.recogniser.stream.stream import Event, Stream
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
    recogniser: Recogniser, motion: Motion, truth: Sequence[Movement], sums: Mapping[float, StreamMeasures]
) -> None:
    """Push a motion frame by frame and add what was found, for each threshold of ``sums``.

    A movement of an enrolled action is found if the intersection over union with an event is at least 0.5, and named if
    such an event has its label. Every other name is false. The recogniser has the threshold 0: which events a stream
    returns does not depend on the threshold.
    """
    recogniser.recognise(motion[:_WARM_UP])  # encodes the examples and the background set, once per program
    stream = Stream(recogniser, motion.layout, rate=motion.rate)
    arrivals: list[tuple[int, Event]] = []
    start = time.process_time()
    for frame in range(0, len(motion), _PORTION):
        events = stream.push(motion.joints[frame : frame + _PORTION], motion.valid[frame : frame + _PORTION])
        arrivals += [(min(len(motion), frame + _PORTION), event) for event in events]
    last = stream.finish()
    cpu = time.process_time() - start
    arrivals += [(len(motion), event) for event in last]
    rate = motion.rate or 30.0
    for threshold, own in sums.items():
        names = [event.label if event.confidence >= threshold else None for _, event in arrivals]
        matched = set()
        for first, end, label in truth:
            if label not in recogniser.actions:
                continue
            places = [
                row
                for row, (_, event) in enumerate(arrivals)
                if compute_share((event.start, event.end), (first, end)) >= 0.5
            ]
            named = [row for row in places if names[row] == label]
            own.movements += 1
            own.found += bool(places)
            own.named += bool(named)
            if named:
                matched.add(named[0])
                own.delays.append((arrivals[named[0]][0] - end) / rate)
        own.false_names += sum(name is not None and row not in matched for row, name in enumerate(names))
        own.seconds += len(motion) / rate
        own.frames += len(motion)
        own.cpu += cpu


def compute_share(one: tuple[int, int], other: tuple[int, int]) -> float:
    common = min(one[1], other[1]) - max(one[0], other[0])
    return max(0, common) / (max(one[1], other[1]) - min(one[0], other[0]))
