"""Find and recognise movements while frames come in, with bounded memory and bounded work per frame."""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError
from jeanie.recogniser.stream.candidates import MotionRecogniser
from jeanie.recogniser.stream.event import Event, StreamConfig
from jeanie.recogniser.stream.pose_sampler import MAX_COORDINATE
from jeanie.recogniser.stream.segmenter import Segmenter
from jeanie.recogniser.stream.stream_confidence import StreamCalibration
from jeanie.skeleton.layout import Layout, find_layout
from jeanie.skeleton.motion import Motion

__all__ = ["Event", "Stream", "StreamConfig"]

_CHUNK = 1.0  # seconds that are processed at once


class Stream:
    """Recognise movements in live frames. ``push`` returns the movements that have ended.

    Memory and the work per frame do not grow with the length of the stream.

    Args:
        recogniser: Recogniser with the enrolled actions.
        layout: Layout of the frames, or its name. If None, the first frames must be a ``Motion``.
        rate: Frames per second, by default that of the first motion, else 30.
        persons: "together" treats all persons of a frame as one movement, "each" follows every person separately.
        config: When movements start and end.
        calibration: Calibration of the confidence of events (default: that of the shipped model).
    """

    def __init__(
        self,
        recogniser: MotionRecogniser,
        layout: Layout | str | None = None,
        *,
        rate: float | None = None,
        persons: Literal["together", "each"] = "together",
        config: StreamConfig | None = None,
        calibration: StreamCalibration | None = None,
    ) -> None:
        if persons not in ("together", "each"):
            raise ConfigError(f"persons must be 'together' or 'each', got {persons!r}")
        if rate is not None and not 0 < rate < float("inf"):
            raise ConfigError(f"rate is frames per second and must be above 0, got {rate!r}")
        self._recogniser, self._layout = recogniser, None if layout is None else find_layout(layout)
        self._rate = None if rate is None else float(rate)
        self._is_separate = persons == "each"
        self._config = StreamConfig() if config is None else config
        self._calibration = StreamCalibration.load() if calibration is None else calibration
        self._segmenters: list[Segmenter] = []
        self._persons = 0
        self._is_finished = False
        self.frames = 0

    def push(
        self, frames: Motion | Tensor | ArrayLike, valid: Tensor | ArrayLike | None = None
    ) -> list[Event]:
        """Add frames and return the events that end in them.

        Args:
            frames: ``[frame, person, joint, 3]`` or ``[frame, joint, 3]``, or a motion. Frames may have no
                visible person.
            valid: Mask of the visible joints. Joints that are NaN, infinite, too far away to compute with or, without
                a mask, exactly (0, 0, 0) are missing.
        """
        if self._is_finished:
            raise ConfigError("this stream is finished; start a new one")
        joints, is_valid = self._check_frames(frames, valid)
        if not self._segmenters:
            self._start_segmenters(joints.shape[1])
        if joints.shape[1] > self._persons:
            raise ShapeError(
                f"frames of {joints.shape[1]} persons in a stream of {self._persons}; start a new one"
            )
        missing = self._persons - joints.shape[1]
        joints = torch.nn.functional.pad(joints, (0, 0, 0, 0, 0, missing))
        is_valid = torch.nn.functional.pad(is_valid, (0, 0, 0, missing))
        events: list[Event] = []
        step = max(1, round(_CHUNK * (self._rate or 1)))
        for at in range(0, len(joints), step):
            events += self._push_chunk(joints[at : at + step], is_valid[at : at + step])
        self.frames += len(joints)
        return events

    def finish(self) -> list[Event]:
        """End the stream and return the events of unfinished movements."""
        self._is_finished = True
        return _sort_events([event for track in self._segmenters for event in track.finish()])

    @property
    def work(self) -> int:
        """Number of poses aligned with examples plus number of motions recognised so far."""
        return sum(track.work for track in self._segmenters)

    def _push_chunk(self, joints: Tensor, is_valid: Tensor) -> list[Event]:
        if not self._is_separate:
            return self._segmenters[0].push(joints, is_valid)
        events = [
            event
            for person, track in enumerate(self._segmenters)
            for event in track.push(joints[:, person : person + 1], is_valid[:, person : person + 1])
        ]
        return _sort_events(events)

    def _start_segmenters(self, persons: int) -> None:
        if self._layout is None:
            raise ConfigError(
                "the layout of the joints is unknown; give layout, such as 'mediapipe33', or push a Motion"
            )
        self._rate = 30.0 if self._rate is None else self._rate
        self._persons = persons
        whose = range(persons) if self._is_separate else (None,)
        count = 1 if self._is_separate else persons
        self._segmenters = [
            Segmenter(
                self._recogniser, self._layout, count, self._rate, self._config, person, self._calibration
            )
            for person in whose
        ]

    def _check_frames(
        self, frames: Motion | Tensor | ArrayLike, valid: Tensor | ArrayLike | None
    ) -> tuple[Float[Tensor, "frame person joint 3"], Bool[Tensor, "frame person joint"]]:
        if isinstance(frames, Motion):
            self._layout = frames.layout if self._layout is None else self._layout
            self._rate = frames.rate if self._rate is None else self._rate
            if frames.layout != self._layout or (frames.rate or self._rate) != self._rate:
                raise ConfigError(
                    f"a stream of {self._layout.name} at {self._rate} frames per second got {frames!r}; "
                    "convert and resample it, or start a new stream"
                )
            return frames.joints, frames.valid & _find_usable(frames.joints)
        count = None if self._layout is None else len(self._layout)
        joints = torch.as_tensor(np.asarray(frames) if not isinstance(frames, Tensor) else frames).float()
        joints = joints[:, None] if joints.ndim == 3 else joints
        if joints.ndim != 4 or joints.shape[-1] != 3 or (count is not None and joints.shape[2] != count):
            raise ShapeError(
                f"frames need axes (frame, person, joint, 3) or (frame, joint, 3) with {count or 'the'} joints of "
                f"the layout, got shape {tuple(joints.shape)}"
            )
        is_valid = _find_usable(joints)
        if valid is None:
            is_valid = is_valid & (joints != 0).any(-1)
        else:
            mask = torch.as_tensor(np.asarray(valid) if not isinstance(valid, Tensor) else valid).bool()
            mask = mask[:, None] if mask.ndim == 2 else mask
            if mask.shape != is_valid.shape:
                raise ShapeError(
                    f"valid needs one bool per joint {tuple(is_valid.shape)}, got {tuple(mask.shape)}"
                )
            is_valid = is_valid & mask
        return torch.where(is_valid[..., None], joints, 0.0), is_valid


def _find_usable(joints: Float[Tensor, "frame person joint 3"]) -> Bool[Tensor, "frame person joint"]:
    """Return which joints have coordinates that can be computed with; NaN and infinity have not."""
    return (joints.abs() < MAX_COORDINATE).all(-1)


def _sort_events(events: list[Event]) -> list[Event]:
    return sorted(
        events, key=lambda event: (event.end, event.start, -1 if event.person is None else event.person)
    )
