"""Count the repetitions of an exercise in a recording or in live frames, from one example and without training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from jeanie.config import Config
from jeanie.recogniser.exercise.angles import compute_angles, measure_ranges
from jeanie.recogniser.exercise.cycle import Cycle, extract_cycle
from jeanie.recogniser.exercise.passes import NEARLY, MeasuredPass, find_least_similarity
from jeanie.recogniser.exercise.poses import sample_poses
from jeanie.recogniser.exercise.search import find_passes, rank_passes
from jeanie.recogniser.stream.pose_sampler import MAX_TICK_RATE
from jeanie.skeleton.inputs import check_motion, list_motions
from jeanie.skeleton.motion import Motion

__all__ = ["CountConfig", "Repetition", "RepetitionCount", "count", "describe_pass"]

_POSES = 24  # of one repetition of the example
_MIN_RATE, _MAX_RATE = 5.0, 60.0  # poses per second
# passes that differ from the example much more than the best third, and by more than this, are other movements
_BEST, _TOLERANCE = 0.34, 0.25
_PHASES = 8  # at which an alternating movement may start
_FACING_SECONDS = 2.0  # around each pose, for the direction in which the person faces
_SMALLEST_USUAL = 0.6  # amplitude: a person whose repetitions are smaller does partial ones


class CountConfig(Config):
    """What counts as a repetition."""

    repetitions: int | None = Field(
        default=None,
        ge=1,
        description="repetitions in the example; null: one, or the periods of a periodic example",
    )
    complete: float = Field(
        default=0.6,
        gt=0,
        le=2,
        description="amplitude, relative to the example and to the usual repetition, below which one is partial",
    )
    smallest: float = Field(
        default=0.25, gt=0, le=1, description="amplitude below which a movement is ignored"
    )
    similarity: float = Field(
        default=0.5, ge=0, le=1, description="smallest correlation of a repetition with the example"
    )
    other: float = Field(
        default=0.5,
        gt=0,
        description="difference from the example, relative to its variance, of other movements",
    )
    mirror: bool = Field(default=True, description="also count repetitions by the other side of the body")


@dataclass(frozen=True)
class Repetition:
    """One repetition, frames ``start`` to ``end`` (exclusive).

    Attributes:
        amplitude: Size of the movement relative to the example.
        is_partial: Whether the amplitude is below ``CountConfig.complete`` times the usual one of the recording.
        similarity: Correlation of the poses with those of the example.
        tempo: Duration relative to one repetition of the example; 2 is half as fast.
        ranges: Smallest and largest angle per joint, in degrees.
        is_mirrored: Whether the other side of the body performs the example.
    """

    start: int
    end: int
    rate: float
    amplitude: float
    is_partial: bool
    similarity: float
    tempo: float
    ranges: dict[str, tuple[float, float]]
    is_mirrored: bool = False

    @property
    def seconds(self) -> tuple[float, float]:
        """Start and end in seconds since the first frame."""
        return self.start / self.rate, self.end / self.rate

    def json(self) -> dict[str, Any]:
        """Return plain values for JSON, with times in seconds and the range of motion per joint."""
        start, end = self.seconds
        motion = {name: round(high - low, 1) for name, (low, high) in self.ranges.items()}
        values = {
            "start_s": round(start, 3),
            "end_s": round(end, 3),
            "is_partial": self.is_partial,
            "is_mirrored": self.is_mirrored,
        }
        numbers = {name: round(getattr(self, name), 3) for name in ("amplitude", "similarity", "tempo")}
        return values | numbers | {"range_of_motion": motion}


@dataclass(frozen=True)
class RepetitionCount:
    """The repetitions of a recording.

    Attributes:
        repetitions: Complete and partial repetitions, in order.
        example_seconds: Duration of one repetition of the example.

    >>> RepetitionCount((), example_seconds=2.0).text
    '0 repetitions'
    """

    repetitions: tuple[Repetition, ...]
    example_seconds: float

    @property
    def count(self) -> int:
        """Number of complete repetitions."""
        return sum(not repetition.is_partial for repetition in self.repetitions)

    @property
    def partial_count(self) -> int:
        """Number of partial repetitions."""
        return len(self.repetitions) - self.count

    @property
    def mirrored_count(self) -> int:
        """Number of complete repetitions by the other side of the body."""
        return sum(repetition.is_mirrored and not repetition.is_partial for repetition in self.repetitions)

    @property
    def text(self) -> str:
        """One line: "8 repetitions and 1 partial, 2.1 s each, 3 mirrored"."""
        total, partial, mirrored = self.count, self.partial_count, self.mirrored_count
        parts = [f"{total} repetition{'s' * (total != 1)}" + f" and {partial} partial" * (partial > 0)]
        if self.repetitions:
            durations = torch.tensor(
                [repetition.seconds[1] - repetition.seconds[0] for repetition in self.repetitions]
            )
            parts.append(f"{float(durations.median()):.1f} s each")
        return ", ".join(parts + [f"{mirrored} mirrored"] * (mirrored > 0))

    def __str__(self) -> str:
        return self.text

    def json(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {
            "text": self.text,
            "count": self.count,
            "partial_count": self.partial_count,
            "mirrored_count": self.mirrored_count,
            "example_seconds": round(self.example_seconds, 3),
            "repetitions": [repetition.json() for repetition in self.repetitions],
        }


def count(
    example: Motion | Sequence[Motion], motion: Motion, config: CountConfig | None = None
) -> RepetitionCount:
    """Count the repetitions of an exercise in a recording.

    Layout, camera, body size and tempo of the example and the recording may differ. Of several persons, the most
    active one counts.

    Args:
        example: A recording of one repetition or more. Of several examples, the one that fits best is used.
        motion: The recording to count in.
        config: What counts as a repetition.

    Returns:
        The repetitions in order, with times, tempo and ranges of motion.

    Raises:
        ConfigError: There is no example, or something is not a ``Motion``.
        DataError: Nobody moves in the example.

    >>> from jeanie.datasets import open_dataset
    >>> clips = open_dataset("synthetic")
    >>> first, second = (clips[clips.names.index(f"bow_s0{subject}_t00_centre")] for subject in (0, 1))
    >>> count(first, second).count
    1
    """
    config = CountConfig() if config is None else config
    examples = list_motions(example, "no example to count; give a recording of one repetition")
    check_motion(motion)
    cycles = [_sample_cycle(recording, config) for recording in examples]
    recordings = [sample_poses(motion, cycle.rate, _FACING_SECONDS) for cycle in cycles]
    candidates = [
        _find_on_both_sides(poses, cycle, config) for poses, cycle in zip(recordings, cycles, strict=True)
    ]
    ranks = [rank_passes([passage for passage, _ in passes]) for passes in candidates]
    best = max(range(len(cycles)), key=ranks.__getitem__)
    cycle, poses, passes = cycles[best], recordings[best], candidates[best]
    complete = _find_complete([passage for passage, _ in passes], config)
    passes = [row for row in passes if row[0].amplitude >= config.smallest]
    least = find_least_similarity([passage for passage, _ in passes], _BEST, _TOLERANCE)
    passes = [row for row in passes if row[0].similarity >= least]
    rate = motion.rate or 30.0
    repetitions = [
        describe_pass(
            passage, poses[passage.start : passage.end], cycle, complete, rate, is_mirrored=is_mirrored
        )
        for passage, is_mirrored in sorted(passes, key=lambda row: row[0].start)
    ]
    return RepetitionCount(tuple(repetitions), cycle.seconds)


def _sample_cycle(example: Motion, config: CountConfig) -> Cycle:
    """Return one repetition of an example at a rate that gives it a fixed number of poses.

    Costs of the search are per tick, so that fast and slow exercises are searched alike.
    """
    seconds = extract_cycle(example, MAX_TICK_RATE, config.repetitions).seconds
    return extract_cycle(example, min(max(_POSES / seconds, _MIN_RATE), _MAX_RATE), config.repetitions)


def _find_on_both_sides(
    poses: Float[Tensor, "tick 15 3"], cycle: Cycle, config: CountConfig
) -> list[tuple[MeasuredPass, bool]]:
    """Return the passes of a recording, each with whether the other side of the body performs the example.

    An alternating movement is its own mirror image half a repetition later, and may start at any phase. Of any other
    movement, the side with more repetitions counts, and those of the other side that are nearly as similar.
    """
    if cycle.is_alternating:
        cycle = cycle.balance_sides()
        starts = [cycle.rotate(at / _PHASES) for at in range(_PHASES)]
        phases = [find_passes(poses, start, config.other, config.similarity) for start in starts]
        return [(passage, False) for passage in max(phases, key=rank_passes)]
    own = find_passes(poses, cycle, config.other, config.similarity)
    reflected = find_passes(poses, cycle.mirror(), config.other, config.similarity) if config.mirror else []
    sides = [(passage, False) for passage in own], [(passage, True) for passage in reflected]
    main, secondary = (
        sides if _count_complete(reflected, config) <= _count_complete(own, config) else sides[::-1]
    )
    usual = sorted(passage.similarity for passage, _ in main)[len(main) // 2] if main else 0.0
    return main + [
        (passage, is_mirrored)
        for passage, is_mirrored in secondary
        # a symmetric movement is its own mirror image
        if passage.similarity >= usual - NEARLY and not any(_overlap(passage, other) for other, _ in main)
    ]


def _find_complete(passes: list[MeasuredPass], config: CountConfig) -> float:
    """Return the amplitude of a complete repetition.

    A person who always moves less than the example does not do partial repetitions only: half of the repetitions are
    complete, if they have a certain size.
    """
    sizes = sorted(passage.amplitude for passage in passes)
    usual = sizes[len(sizes) // 2] if len(sizes) > 1 else 1.0
    return config.complete * min(1.0, max(usual, _SMALLEST_USUAL))


def _overlap(a: MeasuredPass, b: MeasuredPass) -> bool:
    """Return whether two passes have more in common than a fifth of the shorter one."""
    common = min(a.end, b.end) - max(a.start, b.start)
    return common > min(a.end - a.start, b.end - b.start) / 5


def describe_pass(
    passage: MeasuredPass,
    poses: Float[Tensor, "tick 15 3"],
    cycle: Cycle,
    complete: float,
    rate: float,
    since: int = 0,
    is_mirrored: bool = False,
) -> Repetition:
    """Return the repetition of a pass, in frames and with the angles of its poses.

    A tick of the pass is a pose of the cycle. ``since`` is the tick of pose 0, ``complete`` the smallest amplitude of a
    complete repetition.
    """
    return Repetition(
        start=round((since + passage.start) * rate / cycle.rate),
        end=round((since + passage.end) * rate / cycle.rate),
        rate=rate,
        amplitude=passage.amplitude,
        is_partial=passage.amplitude < complete,
        similarity=passage.similarity,
        tempo=(passage.end - passage.start - 1) / cycle.rate / cycle.seconds,
        ranges=measure_ranges(compute_angles(poses), (poses != 0).any(-1).all(0)),
        is_mirrored=is_mirrored,
    )


def _count_complete(passes: list[MeasuredPass], config: CountConfig) -> int:
    return sum(passage.amplitude >= config.complete for passage in passes)
