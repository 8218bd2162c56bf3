"""Count repetitions while frames come in, with bounded memory and bounded work per frame."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError
from jeanie.recogniser.exercise.cycle import Cycle, extract_cycle
from jeanie.recogniser.exercise.decoder import CycleDecoder, Pass, compute_costs
from jeanie.recogniser.exercise.passes import measure_pass
from jeanie.recogniser.exercise.repetitions import CountConfig, Repetition, describe_pass
from jeanie.recogniser.stream.motion_buffer import MotionBuffer
from jeanie.recogniser.stream.pose_sampler import MAX_COORDINATE, PoseSampler
from jeanie.skeleton.inputs import list_motions
from jeanie.skeleton.layout import Layout, find_layout
from jeanie.skeleton.motion import Motion

__all__ = ["RepetitionCounter"]

_WAIT = 0.3  # seconds that a repetition must remain part of the cheapest explanation before it is reported
_LONGEST = 60.0  # seconds of past poses in memory; a repetition takes at most as long
_WIDER = 2.0  # the tilt of the sensor and the proportions of the person are unknown: a wide limit


class RepetitionCounter:
    """Count repetitions in live frames of one person. ``push`` returns the repetitions that have ended.

    ``count`` reads a whole recording first and corrects for the tilt of its sensor; this class cannot.

    Args:
        example: A recording of one repetition or more. Of several examples, the newest one is used.
        layout: Layout of the frames, or its name.
        rate: Frames per second.
        config: What counts as a repetition; mirror images are not counted.
    """

    def __init__(
        self,
        example: Motion | Sequence[Motion],
        layout: Layout | str,
        *,
        rate: float = 30.0,
        config: CountConfig | None = None,
    ) -> None:
        if not 0 < rate < float("inf"):
            raise ConfigError(f"rate is frames per second and must be above 0, got {rate!r}")
        layout = find_layout(layout)
        self._config = CountConfig() if config is None else config
        self._rate, self._joints = float(rate), len(layout)
        self._sampler = PoseSampler(layout, 1, self._rate)
        newest = list_motions(example, "no example to count; give a recording of one repetition")[-1]
        self._cycle: Cycle = extract_cycle(newest, self._sampler.rate, self._config.repetitions)
        self._decoder = CycleDecoder(len(self._cycle), _WIDER * self._config.other)
        self._poses = MotionBuffer(round(_LONGEST * self._sampler.rate))
        self._report_end = 0  # ticks before this one belong to repetitions that were reported or refused
        self._is_finished = False
        self.count = 0

    def push(
        self, joints: Float[Tensor, "frame joint 3"], valid: Bool[Tensor, "frame joint"] | None = None
    ) -> list[Repetition]:
        """Add frames and return the repetitions that have ended. Joints that are NaN or (0, 0, 0) are missing.

        Raises:
            ConfigError: The stream is finished.
            ShapeError: The frames do not have the joints of the layout.
        """
        if self._is_finished:
            raise ConfigError("this counter is finished; make a new one")
        shape = tuple(getattr(joints, "shape", ()))
        if not isinstance(joints, Tensor) or joints.ndim != 3 or shape[1:] != (self._joints, 3):
            raise ShapeError(
                f"frames need axes (frame, joint, 3) with {self._joints} joints, as a tensor of one person, got "
                f"{type(joints).__name__} {shape}; of a motion: motion.joints[:, 0]"
            )
        is_valid = (joints.abs() < MAX_COORDINATE).all(-1)
        is_valid = is_valid & ((joints != 0).any(-1) if valid is None else valid)
        ticks = self._sampler.push(torch.where(is_valid[..., None], joints, 0.0)[:, None], is_valid[:, None])
        if not len(ticks):
            return []
        poses = ticks.poses[:, 0].double()
        self._poses.add(poses)
        self._decoder.push(compute_costs(poses, self._cycle))
        now = self._poses.end - round(_WAIT * self._sampler.rate)
        return self._report([passage for passage in self._decoder.list_passes() if passage.end <= now])

    def finish(self) -> list[Repetition]:
        """End the stream and return the last repetitions."""
        self._is_finished = True
        return self._report(self._decoder.list_passes(finish=True))

    def _report(self, passes: list[Pass]) -> list[Repetition]:
        repetitions = []
        first = max(self._report_end, self._poses.start)
        for passage in passes:
            if passage.start < first or passage.end - passage.start < 2:
                continue
            first = self._report_end = passage.end
            poses = self._poses.read(passage.start, passage.end)
            measured = measure_pass(poses, self._cycle, Pass(0, len(poses)))
            if measured.similarity >= self._config.similarity and measured.amplitude >= self._config.smallest:
                repetitions.append(
                    describe_pass(
                        measured, poses[measured.start : measured.end], self._cycle, self._config.complete,
                        self._rate, since=passage.start,
                    )
                )  # fmt: skip
        self._decoder.forget_before(self._report_end)
        self.count += sum(not repetition.is_partial for repetition in repetitions)
        return repetitions
