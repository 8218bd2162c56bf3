"""What routes take from a request: the recogniser of its owner, recordings, labels and numbers of examples."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, File, Form, HTTPException, Path, Query, Request, UploadFile

from jeanie.errors import ConfigError
from jeanie.recogniser.library.labels import normalise_label
from jeanie.recogniser.recogniser import Recogniser
from jeanie.serve import schemas
from jeanie.serve.recordings import find_movement, read_take
from jeanie.serve.service import Service
from jeanie.serve.uploads import make_upload_folder, save_upload
from jeanie.skeleton.motion import Motion

__all__ = [
    "FormLabel",
    "Id",
    "Label",
    "OwnRecogniser",
    "Upload",
    "check_example",
    "check_label",
    "read_request",
    "read_whole",
]

Id = Annotated[int, Path(ge=1, le=2**63 - 1, description="number of an example")]
Label = Annotated[str, Query(max_length=1000, description="name of an action")]
FormLabel = Annotated[str, Form(min_length=1, max_length=200, description="name of the action")]


def _find_own(request: Request) -> Recogniser:
    """Return the recogniser of the owner whom the outer layer has identified; without one, the request fails."""
    service: Service = request.app.state.service
    return service.for_owner(request.scope["identity"].owner)


OwnRecogniser = Annotated[Recogniser, Depends(_find_own)]
"""The actions of whoever sends the request. Routes have no other way to actions and examples."""


@dataclass(frozen=True)
class _Upload:
    service: Service
    file: UploadFile
    form: str | None
    layout: str | None

    def read(self) -> Motion:
        """Read the recording in the worker process for uploads."""
        limit = self.service.config.limits.upload_bytes
        with make_upload_folder() as folder:
            path = save_upload(self.file.file, self.file.filename or "upload", folder, limit)
            return self.service.uploads.read(path, self.form, self.layout)


def _receive_upload(
    request: Request,
    file: Annotated[UploadFile, File(description="a recording in any known format")],
    format: Annotated[str | None, Form(description="file format, if it cannot be detected")] = None,
    layout: Annotated[str | None, Form(description="joint layout, if it cannot be detected")] = None,
) -> _Upload:
    return _Upload(request.app.state.service, file, format, layout)


Upload = Annotated[_Upload, Depends(_receive_upload)]
"""An uploaded recording."""


def read_whole(request: schemas.Take, frames: int) -> Motion:
    """Return the recording of a request, with rest at both ends; more than ``frames`` frames are refused."""
    if len(request.frames) > frames:
        raise HTTPException(
            413, f"{len(request.frames)} frames, at most {frames} are allowed; cut the recording"
        )
    return read_take(request.frames, request.rate)


def read_request(request: schemas.Take, frames: int) -> Motion:
    """Return the recording of a request, without rest if the request says so."""
    motion = read_whole(request, frames)
    if request.trim:
        start, end = find_movement(motion)
        motion = motion[start:end]
    return motion


def check_label(recogniser: Recogniser, label: str) -> str:
    """Return the label of an action in normal form; the answer is 404 if the owner has no such action."""
    try:
        normalised = normalise_label(label)
        recogniser.library.examples(normalised)  # raises if there is no such action
    except ConfigError as error:
        raise HTTPException(404, str(error)) from None
    return normalised


def check_example(recogniser: Recogniser, example: int) -> None:
    """Answer 404 if the owner has no example of this number."""
    if example not in recogniser.library.index():
        raise HTTPException(404, f"{recogniser.library.place}: no example {example}")
