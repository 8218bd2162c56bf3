"""Events of a stream, and its configuration."""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from jeanie.config import Config
from jeanie.skeleton.motion import Motion

__all__ = ["Event", "StreamConfig"]


class StreamConfig(Config):
    """When a movement starts and ends.

    A speed is the root mean square of the four fastest joints, in body units per second (about 1.3 units per body
    height).
    """

    start_speed: float = Field(default=0.3, gt=0, description="speed that starts a movement")
    stop_speed: float = Field(default=0.2, gt=0, description="speed below which a movement may end")
    quiet: float = Field(default=0.4, gt=0, description="seconds below stop_speed that end a movement")
    margin: float = Field(default=0.2, ge=0, description="seconds kept before and after a movement")
    shortest: float = Field(default=0.4, gt=0, description="minimum duration of a movement in seconds")
    longest: float = Field(default=20.0, gt=0, le=600, description="seconds of past frames in memory")
    provisional: float | None = Field(
        default=None,
        ge=0.1,
        description="seconds between provisional events while a movement goes on; null: none",
    )


@dataclass(frozen=True)
class Event:
    """A movement, frames ``start`` to ``end`` (exclusive), and its action, None if no action matches.

    ``nearest`` is the nearest action, also if its confidence is too low for a label; None if there is none. ``person``
    is the index of the person if persons are followed separately. ``motion`` has the frames of the movement: it can be
    enrolled, rejected or explained. A "provisional" event describes a movement that goes on, with the frames so far and
    its ``progress`` through the example. It replaces the one before it. A "final" event with its label that overlaps it
    confirms it, and a "withdrawn" event takes it back.
    """

    start: int
    end: int
    rate: float
    label: str | None
    confidence: float
    distance: float
    person: int | None = None
    motion: Motion | None = field(default=None, repr=False, compare=False)
    kind: Literal["final", "provisional", "withdrawn"] = "final"
    progress: float = 1.0
    nearest: str | None = None

    @property
    def seconds(self) -> tuple[float, float]:
        """Start and end in seconds since the first frame."""
        return self.start / self.rate, self.end / self.rate
