"""Bodies of requests and responses."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "Action",
    "Actions",
    "Added",
    "Answer",
    "CalibrateRequest",
    "Calibrated",
    "EnrolRequest",
    "ExampleFacts",
    "Examples",
    "ExerciseRequest",
    "ExplainAnswer",
    "FindRequest",
    "Found",
    "Hit",
    "Imported",
    "Poses",
    "Preview",
    "RecogniseRequest",
    "Removed",
    "RenameRequest",
    "Status",
    "Take",
]

Label = Annotated[str, Field(min_length=1, max_length=200, description="name of the action")]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Take(_Request):
    """A recording as frames."""

    frames: list[dict[str, Any]] = Field(
        min_length=2,
        max_length=7200,
        description='frames as for "jeanie watch -": {"t": seconds, "layout": name, "joints": [[x, y, z] or null]}',
    )
    rate: float | None = Field(
        None, gt=0, le=1000, description="frames per second, if the frames have no times"
    )
    trim: bool = Field(False, description="leave out rest at both ends")


class EnrolRequest(Take):
    """A recording to enrol."""

    label: Label
    negative: bool = Field(False, description="enrol a movement that is not the action")


class RecogniseRequest(Take):
    """A recording to recognise."""

    threshold: float = Field(0.5, ge=0, le=1, description="answers with a lower confidence are unknown")


class ExerciseRequest(Take):
    """A recording of an exercise."""

    label: Label


class CalibrateRequest(Take):
    """A recording of any movements of your camera."""

    replace: bool = Field(False, description="delete older calibration recordings")


class FindRequest(Take):
    """A recording to search for."""

    k: int = Field(10, ge=1, le=100, description="number of segments")
    threshold: float = Field(0.0, ge=0, le=1, description="leave out segments with a lower confidence")


class RenameRequest(_Request):
    """A new name for an action."""

    label: Label
    merge: bool = Field(False, description="merge with an existing action of this name")


class Action(BaseModel):
    """An enrolled action."""

    label: str
    examples: int
    negative: int


class Actions(BaseModel):
    """The enrolled actions."""

    actions: list[Action]


class Poses(BaseModel):
    """Poses to draw: ``poses[moment][person][joint]`` in thousandths, null for a joint that was never seen."""

    bones: list[list[int]]
    head: int = Field(description="index of the joint head")
    seconds: float
    poses: list[Any]


class ExampleFacts(Poses):
    """An example and its poses to draw."""

    id: int
    label: str
    layout: str
    frames: int
    rate: float | None


class Examples(BaseModel):
    """Numbers of the examples of an action."""

    label: str
    examples: list[int]
    negative: list[int]


class Added(BaseModel):
    """Result of an enrolment."""

    label: str
    example: int = Field(description="number of the example")
    new: bool = Field(description="whether the action did not have this recording yet")
    examples: int = Field(description="number of examples of the action")


class Removed(BaseModel):
    """Result of a deletion."""

    removed: int


class Calibrated(BaseModel):
    """The calibration recordings."""

    recordings: int


class Imported(BaseModel):
    """Result of an import."""

    new: int
    already: int


class Preview(Poses):
    """The movement in a take, and its poses to draw."""

    start: int = Field(description="first frame of the movement")
    end: int = Field(description="frame after the last one of the movement")
    frames: int
    rate: float | None


class Answer(BaseModel):
    """Answer for a recording."""

    label: str | None = Field(description="recognised action; null if unknown")
    confidence: float
    distance: float | None
    nearest: str | None = Field(description="nearest action, also if the answer is unknown")
    example: int | None = Field(description="number of the nearest example")
    scores: dict[str, float]


class ExplainAnswer(BaseModel):
    """How a recording differs from its nearest example."""

    answer: Answer
    explanation: dict[str, Any]
    page: str = Field(description="address of a page that plays both movements")


class Hit(BaseModel):
    """A segment of the archive."""

    file: str
    start_s: float | None
    end_s: float | None
    label: str | int | None = Field(description="label that the recording has in the archive")
    confidence: float
    distance: float | None
    clip: int
    start_frame: int
    end_frame: int


class Found(BaseModel):
    """The segments of the archive that are most similar to a recording, nearest first."""

    results: list[Hit]
    windows: int = Field(description="windows of the archive")
    compared: int = Field(description="windows that were aligned")
    skipped: int = Field(description="recordings that could not be read")


class Status(BaseModel):
    """Facts about the service."""

    version: str
    library: str
    user: str | None = Field(description="name of the user; null without users")
    status: Literal["ready"]
    pose_models: list[str] = Field(description="pose models that the page can use")
    has_archive: bool = Field(description="whether there is an archive to search")
    frames: int = Field(description="largest number of frames of one recording")
    false_alarms: list[list[float]] = Field(
        description="[threshold, share of movements of no action that get a name], by threshold"
    )
