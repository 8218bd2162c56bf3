"""Streams: movements found and recognised while frames come in, with a bounded past and bounded work a frame."""

from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from torch import Tensor

from jeanie.errors import ConfigError, ShapeError
from jeanie.recogniser.track import Event, Recognises, StreamConfig, Track
from jeanie.skeleton.layout import Layout
from jeanie.skeleton.motion import Motion

__all__ = ["Event", "Stream", "StreamConfig"]

_CHUNK = 1.0  # seconds that are looked at together


class Stream:
    """Recognition of frames as they come: ``push`` returns the movements that have ended since.

    ``layout`` and ``rate`` say what the frames are; a motion that is pushed first tells both. With ``persons``
    "together" all persons of a frame make one movement, with "each" everybody is followed alone. Memory and
    the work a frame do not grow with the length of the stream.
    """

    def __init__(
        self,
        recogniser: Recognises,
        layout: Layout | None = None,
        *,
        rate: float | int | None = None,
        persons: Literal["together", "each"] = "together",
        config: StreamConfig | None = None,
    ) -> None:
        if persons not in ("together", "each"):
            raise ConfigError(f"persons are followed 'together' or 'each', got {persons!r}")
        if rate is not None and not 0 < rate < float("inf"):
            raise ConfigError(f"rate is frames a second, above 0, got {rate!r}")
        self._recogniser, self._layout = recogniser, layout
        self._rate = None if rate is None else float(rate)
        self._alone = persons == "each"
        self._config = StreamConfig() if config is None else config
        self._tracks: list[Track] = []
        self._persons = 0
        self._over = False
        self.frames = 0

    def push(
        self, frames: Motion | Tensor | ArrayLike, valid: Tensor | ArrayLike | None = None
    ) -> list[Event]:
        """Frames ``[frame, person, joint, 3]`` or ``[frame, joint, 3]``, or a motion; the events that they end.

        Missing joints are NaN, exactly (0, 0, 0), or False in ``valid``. A frame in which nobody is seen is fine.
        """
        if self._over:
            raise ConfigError("this stream was finished; begin another one")
        joints, there = self._checked(frames, valid)
        if not self._tracks:
            self._start(joints.shape[1])
        if joints.shape[1] > self._persons:
            raise ShapeError(
                f"frames of {joints.shape[1]} persons in a stream of {self._persons}; begin another one"
            )
        missing = self._persons - joints.shape[1]
        joints = torch.nn.functional.pad(joints, (0, 0, 0, 0, 0, missing))
        there = torch.nn.functional.pad(there, (0, 0, 0, missing))
        events: list[Event] = []
        step = max(1, round(_CHUNK * (self._rate or 1)))
        for at in range(0, len(joints), step):
            events += self._pushed(joints[at : at + step], there[at : at + step])
        self.frames += len(joints)
        return events

    def finish(self) -> list[Event]:
        """The stream is over: the events of movements that were going on."""
        self._over = True
        return _sorted([event for track in self._tracks for event in track.finish()])

    @property
    def work(self) -> int:
        """Poses that were laid on examples and motions that were recognised so far."""
        return sum(track.work for track in self._tracks)

    def _pushed(self, joints: Tensor, there: Tensor) -> list[Event]:
        if not self._alone:
            return self._tracks[0].push(joints, there)
        found = [
            event
            for person, track in enumerate(self._tracks)
            for event in track.push(joints[:, person : person + 1], there[:, person : person + 1])
        ]
        return _sorted(found)

    def _start(self, persons: int) -> None:
        if self._layout is None:
            raise ConfigError(
                "which joints are these? give layout, such as LAYOUTS['mediapipe33'], or push a Motion"
            )
        self._rate = 30.0 if self._rate is None else self._rate
        self._persons = persons
        whose = range(persons) if self._alone else (None,)
        count = 1 if self._alone else persons
        self._tracks = [
            Track(self._recogniser, self._layout, count, self._rate, self._config, person) for person in whose
        ]

    def _checked(
        self, frames: Motion | Tensor | ArrayLike, valid: Tensor | ArrayLike | None
    ) -> tuple[Float[Tensor, "frame person joint 3"], Bool[Tensor, "frame person joint"]]:
        if isinstance(frames, Motion):
            self._layout = frames.layout if self._layout is None else self._layout
            self._rate = frames.rate if self._rate is None else self._rate
            if frames.layout != self._layout or (frames.rate or self._rate) != self._rate:
                raise ConfigError(
                    f"a stream of {self._layout.name} at {self._rate} frames a second got {frames!r}; "
                    "convert and resample it, or begin another stream"
                )
            return frames.joints, frames.valid
        count = None if self._layout is None else len(self._layout)
        joints = torch.as_tensor(np.asarray(frames) if not isinstance(frames, Tensor) else frames).float()
        joints = joints[:, None] if joints.ndim == 3 else joints
        if joints.ndim != 4 or joints.shape[-1] != 3 or (count is not None and joints.shape[2] != count):
            raise ShapeError(
                f"frames need axes (frame, person, joint, 3) or (frame, joint, 3) with {count or 'the'} joints of "
                f"the layout, got shape {tuple(joints.shape)}"
            )
        there = joints.isfinite().all(-1)
        if valid is None:
            there = there & (joints != 0).any(-1)
        else:
            mask = torch.as_tensor(np.asarray(valid) if not isinstance(valid, Tensor) else valid).bool()
            mask = mask[:, None] if mask.ndim == 2 else mask
            if mask.shape != there.shape:
                raise ShapeError(f"valid needs a bool a joint {tuple(there.shape)}, got {tuple(mask.shape)}")
            there = there & mask
        return torch.where(there[..., None], joints, 0.0), there


def _sorted(events: list[Event]) -> list[Event]:
    return sorted(
        events, key=lambda event: (event.end, event.start, -1 if event.person is None else event.person)
    )
