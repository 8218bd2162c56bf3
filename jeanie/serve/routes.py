"""The REST interface under /api/v1: actions, examples, recognition and explanations."""

from importlib.metadata import version
from math import isfinite
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, HTTPException, Path, Query, UploadFile
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.background import BackgroundTask

from jeanie.errors import ConfigError
from jeanie.recogniser.explain.page import render_page
from jeanie.recogniser.library.labels import NEGATIVE_PREFIX, count_examples, normalise_label
from jeanie.recogniser.recogniser import Recognition
from jeanie.serve import schemas
from jeanie.serve.problems import PROBLEMS
from jeanie.serve.recordings import describe_poses, find_movement, read_take
from jeanie.serve.service import Service
from jeanie.serve.uploads import make_upload_folder, save_upload
from jeanie.skeleton.motion import Motion

__all__ = ["STATIC", "make_router"]

STATIC = FilePath(__file__).parent / "static"
_POSE_MODEL = STATIC / "vendor" / "pose_landmarker_lite.task"

Id = Annotated[int, Path(ge=1, le=2**63 - 1, description="number of an example")]
Label = Annotated[str, Query(max_length=1000, description="name of an action")]
FormLabel = Annotated[str, Form(min_length=1, max_length=200)]
Upload = Annotated[UploadFile, File(description="a recording in any known format")]
FormatName = Annotated[str | None, Form(description="file format, if it cannot be detected")]
LayoutName = Annotated[str | None, Form(description="joint layout, if it cannot be detected")]


def make_router(service: Service) -> APIRouter:
    """Return the routes of a service."""
    router = APIRouter(prefix="/api/v1", responses=PROBLEMS)
    _add_library_routes(router, service)
    _add_example_routes(router, service)
    _add_recognition_routes(router, service)
    return router


def _add_library_routes(router: APIRouter, service: Service) -> None:
    recogniser = service.recogniser

    @router.get("/status")
    def get_status() -> schemas.Status:
        """Return facts about the service."""
        return schemas.Status(
            version=version("jeanie"),
            library=recogniser.library.place,
            status="ready",
            has_pose_model=_POSE_MODEL.exists(),
            frames=service.config.limits.frames,
        )

    @router.get("/actions")
    def list_actions() -> schemas.Actions:
        """List the enrolled actions."""
        counts, negatives = count_examples(recogniser.library)
        rows = [
            schemas.Action(label=label, examples=count, negative=negatives.get(label, 0))
            for label, count in counts.items()
        ]
        return schemas.Actions(actions=rows)

    @router.patch("/actions")
    def rename_action(label: Label, request: schemas.RenameRequest) -> schemas.Action:
        """Rename an action, or merge it with another one."""
        known = _check_label(service, label)
        new = normalise_label(request.label)
        if new != known and new in recogniser.actions and not request.merge:
            raise HTTPException(409, f"an action {new!r} exists already; merge=true adds {known!r} to it")
        recogniser.rename(known, new, merge=request.merge)
        counts, negatives = count_examples(recogniser.library)
        return schemas.Action(label=new, examples=counts.get(new, 0), negative=negatives.get(new, 0))

    @router.delete("/actions")
    def delete_action(label: Label) -> schemas.Removed:
        """Delete an action with all its examples."""
        return schemas.Removed(removed=recogniser.forget(_check_label(service, label)))

    @router.get("/library", response_class=Response, responses={200: {"content": {"application/zip": {}}}})
    def export_library() -> Response:
        """Download the whole library as one file."""
        folder = make_upload_folder()
        path = FilePath(folder.name) / "actions.jeanie"
        recogniser.save(path)
        return FileResponse(
            path,
            media_type="application/zip",
            filename="actions.jeanie",
            background=BackgroundTask(folder.cleanup),
        )

    @router.post("/library")
    def import_library(
        file: Annotated[UploadFile, File(description="a file of GET /api/v1/library")],
    ) -> schemas.Imported:
        """Add the actions of an exported library."""
        with make_upload_folder() as folder:
            path = save_upload(file.file, "actions.jeanie", folder, service.config.limits.upload_bytes)
            result = recogniser.merge(path)
        return schemas.Imported(new=result.new, already=result.already)


def _add_example_routes(router: APIRouter, service: Service) -> None:
    recogniser, limits = service.recogniser, service.config.limits

    @router.get("/examples")
    def list_examples(label: Label) -> schemas.Examples:
        """List the numbers of the examples of an action."""
        known = _check_label(service, label)
        found: dict[str, list[int]] = {known: [], NEGATIVE_PREFIX + known: []}
        for number, own in recogniser.library.index().items():
            if own in found:
                found[own].append(number)
        return schemas.Examples(label=known, examples=found[known], negative=found[NEGATIVE_PREFIX + known])

    @router.get("/examples/{example}")
    def get_example(example: Id) -> schemas.ExampleFacts:
        """Return an example with its poses to draw."""
        _check_example(service, example)
        found = recogniser.library.example(example)
        motion = found.motion
        return schemas.ExampleFacts(
            id=example,
            label=found.label.removeprefix(NEGATIVE_PREFIX),
            layout=motion.layout.name,
            frames=len(motion),
            rate=motion.rate,
            **describe_poses(motion),
        )

    @router.delete("/examples/{example}")
    def delete_example(example: Id) -> schemas.Removed:
        """Delete one example. An action is deleted with its last example."""
        _check_example(service, example)
        recogniser.library.remove_example(example)
        return schemas.Removed(removed=1)

    @router.post("/examples", status_code=201)
    def enrol(request: schemas.EnrolRequest) -> schemas.Added:
        """Enrol a recording as an example, or as a negative example."""
        motion = _read_request(request, limits.frames)
        return _add_example(service, request.label, motion, request.negative)

    @router.post("/examples/upload", status_code=201)
    def enrol_file(
        label: FormLabel,
        file: Upload,
        negative: Annotated[bool, Form()] = False,
        format: FormatName = None,
        layout: LayoutName = None,
    ) -> schemas.Added:
        """Enrol a file as an example, or as a negative example."""
        return _add_example(service, label, _read_upload(service, file, format, layout), negative)

    @router.post("/preview")
    def preview(request: schemas.Take) -> schemas.Preview:
        """Find the movement in a take, without the rest at both ends, and return its poses to draw."""
        motion = _read_take(request, limits.frames)
        start, end = find_movement(motion) if request.trim else (0, len(motion))
        return schemas.Preview(
            start=start, end=end, frames=len(motion), rate=motion.rate, **describe_poses(motion[start:end])
        )


def _add_recognition_routes(router: APIRouter, service: Service) -> None:
    recogniser, limits = service.recogniser, service.config.limits

    @router.post("/recognise")
    def recognise(request: schemas.RecogniseRequest) -> schemas.Answer:
        """Recognise the action of a recording."""
        motion = _read_request(request, limits.frames)
        with service.lock:
            return _describe_answer(recogniser.recognise(motion), request.threshold)

    @router.post("/recognise/upload")
    def recognise_file(
        file: Upload,
        threshold: Annotated[float, Form(ge=0, le=1)] = 0.5,
        format: FormatName = None,
        layout: LayoutName = None,
    ) -> schemas.Answer:
        """Recognise the action of a file."""
        motion = _read_upload(service, file, format, layout)
        with service.lock:
            return _describe_answer(recogniser.recognise(motion), threshold)

    @router.post("/explain")
    def explain(request: schemas.RecogniseRequest) -> schemas.ExplainAnswer:
        """Explain how a recording differs from its nearest example."""
        motion = _read_request(request, limits.frames).replace(name="This movement")
        with service.lock:
            found = recogniser.recognise(motion)
            result = recogniser.explain(motion, found)
        values = result.json()
        page = service.keep_page(render_page(values, result.bodies))
        return schemas.ExplainAnswer(
            answer=_describe_answer(found, request.threshold),
            explanation=values,
            page=f"/api/v1/explanations/{page}",
        )

    @router.post("/count")
    def count(request: schemas.ExerciseRequest) -> dict[str, Any]:
        """Count the repetitions of an enrolled action in a recording."""
        motion, label = _read_request(request, limits.frames), _check_label(service, request.label)
        with service.lock:
            return recogniser.count(label, motion).json()

    @router.post("/score")
    def score(request: schemas.ExerciseRequest) -> dict[str, Any]:
        """Score a performance of an enrolled action against its examples."""
        motion, label = _read_request(request, limits.frames), _check_label(service, request.label)
        with service.lock:
            return recogniser.score(label, motion).json()

    @router.get("/explanations/{page}", response_class=HTMLResponse)
    def get_explanation(page: Annotated[str, Path(max_length=64)]) -> Response:
        """Return the page of an explanation. Pages are kept in memory for a while."""
        html = service.find_page(page)
        if html is None:
            raise HTTPException(404, "this explanation is no longer kept; explain the movement again")
        return HTMLResponse(html)


def _read_take(request: schemas.Take, frames: int) -> Motion:
    if len(request.frames) > frames:
        raise HTTPException(
            413, f"{len(request.frames)} frames, at most {frames} are allowed; cut the recording"
        )
    return read_take(request.frames, request.rate)


def _read_request(request: schemas.Take, frames: int) -> Motion:
    motion = _read_take(request, frames)
    if request.trim:
        start, end = find_movement(motion)
        motion = motion[start:end]
    return motion


def _read_upload(service: Service, file: UploadFile, form: str | None, layout: str | None) -> Motion:
    with make_upload_folder() as folder:
        path = save_upload(file.file, file.filename or "upload", folder, service.config.limits.upload_bytes)
        return service.uploads.read(path, form, layout)


def _add_example(service: Service, label: str, motion: Motion, negative: bool) -> schemas.Added:
    recogniser = service.recogniser
    if negative:
        _check_label(service, label)
    with service.lock:
        added = (recogniser.reject if negative else recogniser.enrol)(label, motion)
    known = normalise_label(label)
    return schemas.Added(
        label=known,
        example=added.ids[0],
        new=added.new[0],
        examples=count_examples(recogniser.library)[negative].get(known, 0),
    )


def _check_label(service: Service, label: str) -> str:
    """Return the label of an action in normal form; the answer is 404 if there is no such action."""
    known = normalise_label(label)
    try:
        service.recogniser.library.examples(known)  # raises if there is no such action
    except ConfigError as error:
        raise HTTPException(404, str(error)) from None
    return known


def _check_example(service: Service, example: int) -> None:
    if example not in service.recogniser.library.index():
        raise HTTPException(404, f"{service.recogniser.library.place}: no example {example}")


def _describe_answer(found: Recognition, threshold: float) -> schemas.Answer:
    is_known = found.nearest is not None and found.confidence >= threshold and found.confidence > 0
    values: dict[str, Any] = {
        "label": found.nearest if is_known else None,
        "confidence": round(found.confidence, 4),
        "distance": found.distance if isfinite(found.distance) else None,
        "nearest": found.nearest,
        "example": found.example,
        "scores": dict(found.scores),
    }
    return schemas.Answer(**values)
