"""The REST interface under /api/v1: status, actions, examples, export and import."""

from importlib.metadata import version
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, File, Form, HTTPException, Request, UploadFile
from fastapi.responses import FileResponse, Response
from starlette.background import BackgroundTask

from jeanie.recogniser.library.labels import NEGATIVE_PREFIX, count_examples, normalise_label
from jeanie.recogniser.recogniser import Recogniser
from jeanie.recogniser.stream.stream_confidence import StreamCalibration
from jeanie.serve import schemas
from jeanie.serve.inputs import (
    FormLabel,
    Id,
    Label,
    OwnRecogniser,
    Upload,
    check_example,
    check_label,
    read_request,
    read_whole,
)
from jeanie.serve.problems import PROBLEMS
from jeanie.serve.recognition_routes import add_recognition_routes
from jeanie.serve.recordings import describe_poses, find_movement
from jeanie.serve.service import Service
from jeanie.serve.uploads import hide_folder, make_upload_folder, save_upload
from jeanie.skeleton.motion import Motion

__all__ = ["STATIC", "make_router"]

STATIC = FilePath(__file__).parent / "static"
POSE_MODELS = {name: STATIC / "vendor" / f"pose_landmarker_{name}.task" for name in ("lite", "full")}


def make_router(service: Service) -> APIRouter:
    """Return the routes of a service."""
    router = APIRouter(prefix="/api/v1", responses=PROBLEMS)
    _add_library_routes(router, service)
    _add_example_routes(router, service)
    add_recognition_routes(router, service)
    return router


def _add_library_routes(router: APIRouter, service: Service) -> None:
    table = StreamCalibration.load().thresholds
    false_alarms = sorted([threshold, share] for share, threshold in table)

    @router.get("/status")
    def get_status(recogniser: OwnRecogniser, request: Request) -> schemas.Status:
        """Return facts about the service and about who uses it."""
        user = request.scope["identity"].owner
        return schemas.Status(
            version=version("jeanie"),
            library=f"actions of {user}" if user else recogniser.library.place,
            user=user or None,
            status="ready",
            pose_models=[name for name, path in POSE_MODELS.items() if path.exists()],
            has_archive=service.archive is not None,
            frames=service.config.limits.frames,
            false_alarms=false_alarms,
        )

    @router.get("/actions")
    def list_actions(recogniser: OwnRecogniser) -> schemas.Actions:
        """List the enrolled actions."""
        counts, negatives = count_examples(recogniser.library)
        rows = [
            schemas.Action(label=label, examples=count, negative=negatives.get(label, 0))
            for label, count in counts.items()
        ]
        return schemas.Actions(actions=rows)

    @router.patch("/actions")
    def rename_action(
        recogniser: OwnRecogniser, label: Label, request: schemas.RenameRequest
    ) -> schemas.Action:
        """Rename an action, or merge it with another one."""
        label_of_action = check_label(recogniser, label)
        new = normalise_label(request.label)
        if new != label_of_action and new in recogniser.actions and not request.merge:
            raise HTTPException(
                409, f"an action {new!r} exists already; merge=true adds {label_of_action!r} to it"
            )
        recogniser.rename(label_of_action, new, merge=request.merge)
        counts, negatives = count_examples(recogniser.library)
        return schemas.Action(label=new, examples=counts.get(new, 0), negative=negatives.get(new, 0))

    @router.delete("/actions")
    def delete_action(recogniser: OwnRecogniser, label: Label) -> schemas.Removed:
        """Delete an action with all its examples."""
        return schemas.Removed(removed=recogniser.forget(check_label(recogniser, label)))

    @router.get("/library", response_class=Response, responses={200: {"content": {"application/zip": {}}}})
    def export_library(recogniser: OwnRecogniser) -> Response:
        """Download all actions as one file."""
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
        recogniser: OwnRecogniser,
        file: Annotated[UploadFile, File(description="a file of GET /api/v1/library")],
    ) -> schemas.Imported:
        """Add the actions of an exported library."""
        with make_upload_folder() as folder:
            path = save_upload(
                file.file, file.filename or "actions.jeanie", folder, service.config.limits.upload_bytes
            )
            with hide_folder(folder):
                result = recogniser.merge(path)
        return schemas.Imported(new=result.new, already=result.already)


def _add_example_routes(router: APIRouter, service: Service) -> None:
    limits = service.config.limits

    @router.get("/examples")
    def list_examples(recogniser: OwnRecogniser, label: Label) -> schemas.Examples:
        """List the numbers of the examples of an action."""
        label_of_action = check_label(recogniser, label)
        numbers: dict[str, list[int]] = {label_of_action: [], NEGATIVE_PREFIX + label_of_action: []}
        for number, label_of_number in recogniser.library.index().items():
            if label_of_number in numbers:
                numbers[label_of_number].append(number)
        return schemas.Examples(
            label=label_of_action,
            examples=numbers[label_of_action],
            negative=numbers[NEGATIVE_PREFIX + label_of_action],
        )

    @router.get("/examples/{example}")
    def get_example(recogniser: OwnRecogniser, example: Id) -> schemas.ExampleFacts:
        """Return an example with its poses to draw."""
        check_example(recogniser, example)
        stored = recogniser.library.example(example)
        motion = stored.motion
        return schemas.ExampleFacts(
            id=example,
            label=stored.label.removeprefix(NEGATIVE_PREFIX),
            layout=motion.layout.name,
            frames=len(motion),
            rate=motion.rate,
            **describe_poses(motion),
        )

    @router.delete("/examples/{example}")
    def delete_example(recogniser: OwnRecogniser, example: Id) -> schemas.Removed:
        """Delete one example. An action is deleted with its last example."""
        check_example(recogniser, example)
        recogniser.library.remove_example(example)
        return schemas.Removed(removed=1)

    @router.post("/examples", status_code=201)
    def enrol(recogniser: OwnRecogniser, request: schemas.EnrolRequest) -> schemas.Added:
        """Enrol a recording as an example, or as a negative example."""
        return _add_example(
            service, recogniser, request.label, read_request(request, limits.frames), request.negative
        )

    @router.post("/examples/upload", status_code=201)
    def enrol_file(
        recogniser: OwnRecogniser, label: FormLabel, upload: Upload, negative: Annotated[bool, Form()] = False
    ) -> schemas.Added:
        """Enrol a file as an example, or as a negative example."""
        return _add_example(service, recogniser, label, upload.read(), negative)

    @router.post("/calibration", status_code=201)
    def calibrate(recogniser: OwnRecogniser, request: schemas.CalibrateRequest) -> schemas.Calibrated:
        """Add a recording of any movements of your camera, so that the confidence fits this camera."""
        motion = read_request(request, limits.frames)
        with service.lock:
            return schemas.Calibrated(recordings=recogniser.calibrate(motion, replace=request.replace))

    @router.get("/calibration")
    def get_calibration(recogniser: OwnRecogniser) -> schemas.Calibrated:
        """Return the number of calibration recordings."""
        return schemas.Calibrated(recordings=len(recogniser.library.calibration_ids()))

    @router.post("/preview")
    def preview(request: schemas.Take) -> schemas.Preview:
        """Find the movement in a take, without the rest at both ends, and return its poses to draw."""
        motion = read_whole(request, limits.frames)
        start, end = find_movement(motion) if request.trim else (0, len(motion))
        return schemas.Preview(
            start=start, end=end, frames=len(motion), rate=motion.rate, **describe_poses(motion[start:end])
        )


def _add_example(
    service: Service, recogniser: Recogniser, label: str, motion: Motion, negative: bool
) -> schemas.Added:
    if negative:
        check_label(recogniser, label)
    with service.lock:
        added = (recogniser.reject if negative else recogniser.enrol)(label, motion)
    label_of_action = normalise_label(label)
    return schemas.Added(
        label=label_of_action,
        example=added.ids[0],
        new=added.new[0],
        examples=count_examples(recogniser.library)[negative].get(label_of_action, 0),
    )
