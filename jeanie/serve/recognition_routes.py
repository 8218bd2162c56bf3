"""Routes that compare a recording with enrolled actions or with an archive."""

import time
from collections.abc import Callable
from math import isfinite
from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Path, Request
from fastapi.responses import HTMLResponse, Response

from jeanie.recogniser.exercise.repetitions import RepetitionCount
from jeanie.recogniser.exercise.score import Score
from jeanie.recogniser.explain.page import render_page
from jeanie.recogniser.hits import rate_matches
from jeanie.recogniser.recogniser import Recogniser, Recognition
from jeanie.recogniser.search.find import find as find_in
from jeanie.serve import schemas
from jeanie.serve.inputs import FormLabel, OwnRecogniser, Upload, check_label, read_request
from jeanie.serve.service import Service
from jeanie.skeleton.motion import Motion

__all__ = ["add_recognition_routes"]

FormThreshold = Annotated[float, Form(ge=0, le=1, description="answers with a lower confidence are unknown")]


def add_recognition_routes(router: APIRouter, service: Service) -> None:
    """Add the routes that recognise, explain, count, score and find."""
    _add_answer_routes(router, service)
    _add_exercise_routes(router, service)
    _add_search_routes(router, service)


def _add_answer_routes(router: APIRouter, service: Service) -> None:
    frames = service.config.limits.frames

    @router.post("/recognise")
    def recognise(recogniser: OwnRecogniser, request: schemas.RecogniseRequest) -> schemas.Answer:
        """Recognise the action of a recording."""
        motion = read_request(request, frames)
        with service.lock:
            return _describe_answer(recogniser.recognise(motion), request.threshold)

    @router.post("/recognise/upload")
    def recognise_file(
        recogniser: OwnRecogniser, upload: Upload, threshold: FormThreshold = 0.5
    ) -> schemas.Answer:
        """Recognise the action of a file."""
        motion = upload.read()
        with service.lock:
            return _describe_answer(recogniser.recognise(motion), threshold)

    @router.post("/explain")
    def explain(recogniser: OwnRecogniser, request: schemas.RecogniseRequest) -> schemas.ExplainAnswer:
        """Explain how a recording differs from its nearest example."""
        motion = read_request(request, frames).replace(name="This movement")
        return _explain(service, recogniser, motion, request.threshold)

    @router.post("/explain/upload")
    def explain_file(
        recogniser: OwnRecogniser, upload: Upload, threshold: FormThreshold = 0.5
    ) -> schemas.ExplainAnswer:
        """Explain how a file differs from its nearest example."""
        return _explain(service, recogniser, upload.read(), threshold)

    @router.get("/explanations/{page}", response_class=HTMLResponse)
    def get_explanation(request: Request, page: Annotated[str, Path(max_length=64)]) -> Response:
        """Return the page of an explanation. Pages are kept for a while."""
        html = service.pages.find(request.scope["identity"].owner, page)
        if html is None:
            raise HTTPException(404, "this explanation is no longer kept; explain the movement again")
        return HTMLResponse(html)


def _add_exercise_routes(router: APIRouter, service: Service) -> None:
    text = "Count the repetitions of an enrolled action in a {}."
    _add_exercise(router, service, "count", Recogniser.count, text)
    text = "Score a performance of an enrolled action in a {} against its examples."
    _add_exercise(router, service, "score", Recogniser.score, text)


def _add_exercise(
    router: APIRouter,
    service: Service,
    name: str,
    measure: Callable[[Recogniser, str, Motion], RepetitionCount | Score],
    description: str,
) -> None:
    """Add the two routes of an exercise: for a recording, and for a file."""

    @router.post(f"/{name}", name=name, description=description.format("recording"))
    def measure_recording(recogniser: OwnRecogniser, request: schemas.ExerciseRequest) -> dict[str, Any]:
        label = check_label(recogniser, request.label)
        return run(recogniser, label, read_request(request, service.config.limits.frames))

    @router.post(f"/{name}/upload", name=f"{name}_file", description=description.format("file"))
    def measure_file(recogniser: OwnRecogniser, label: FormLabel, upload: Upload) -> dict[str, Any]:
        return run(recogniser, check_label(recogniser, label), upload.read())

    def run(recogniser: Recogniser, label: str, motion: Motion) -> dict[str, Any]:
        with service.lock:
            return measure(recogniser, label, motion).json()


def _add_search_routes(router: APIRouter, service: Service) -> None:
    @router.post("/find")
    def find(request: schemas.FindRequest) -> schemas.Found:
        """Find the segments of the archive that are most similar to a recording."""
        motion = read_request(request, service.config.limits.frames)
        return _find(service, motion, request.k, request.threshold)

    @router.post("/find/upload")
    def find_file(
        upload: Upload,
        k: Annotated[int, Form(ge=1, le=100, description="number of segments")] = 10,
        threshold: Annotated[float, Form(ge=0, le=1, description="least confidence of a segment")] = 0.0,
    ) -> schemas.Found:
        """Find the segments of the archive that are most similar to a file."""
        return _find(service, upload.read(), k, threshold)


def _explain(
    service: Service, recogniser: Recogniser, motion: Motion, threshold: float
) -> schemas.ExplainAnswer:
    with service.lock:
        answer = recogniser.recognise(motion)
        result = recogniser.explain(motion, answer)
    values = result.json()
    page = service.pages.keep(recogniser.library.owner, render_page(values, result.bodies))
    return schemas.ExplainAnswer(
        answer=_describe_answer(answer, threshold), explanation=values, page=f"/api/v1/explanations/{page}"
    )


def _find(service: Service, motion: Motion, k: int, threshold: float) -> schemas.Found:
    if service.archive is None:
        raise HTTPException(404, "no archive to search; start jeanie serve with --archive")
    end = time.monotonic() + service.config.limits.search_seconds

    def check_time(done: int, total: int) -> None:
        if time.monotonic() > end or service.is_stopping:
            detail = f"searched {done} of {total} recordings; what was read is kept, so try again"
            raise HTTPException(503, detail, {"retry-after": "5"})

    model, archive = service.recogniser.model, service.archive
    with service.search_lock:
        matches = find_in(model, motion, archive, k, cache=service.cache, skip_bad=True, progress=check_time)
        hits = rate_matches(model, motion, archive, matches)
    rows = [schemas.Hit(**hit.json()) for hit in hits if hit.confidence >= threshold]
    return schemas.Found(
        results=rows, windows=matches.windows, compared=matches.compared, skipped=len(matches.skipped)
    )


def _describe_answer(answer: Recognition, threshold: float) -> schemas.Answer:
    is_known = answer.nearest is not None and answer.confidence >= threshold and answer.confidence > 0
    return schemas.Answer(
        label=answer.nearest if is_known else None,
        confidence=round(answer.confidence, 4),
        distance=answer.distance if isfinite(answer.distance) else None,
        nearest=answer.nearest,
        example=answer.example,
        scores=dict(answer.scores),
    )
