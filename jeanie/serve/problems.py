"""Errors as problem details (RFC 9457), with the texts of the command line."""

import sqlite3
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException as StarletteHTTPException

from jeanie.errors import ConfigError, DataError, JeanieError, ShapeError
from jeanie.serve.logs import LOGGER

__all__ = [
    "MEDIA_TYPE",
    "PROBLEMS",
    "Problem",
    "add_problem_handlers",
    "describe_error",
    "describe_problem",
    "make_problem",
]

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """A problem (RFC 9457)."""

    type: str = Field("about:blank", description="kind of the problem")
    title: str = Field(description="name of the status")
    status: int = Field(description="HTTP status")
    detail: str = Field(description="what was expected, what was given, and what to do")


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status in (400, 401, 403, 404, 405, 408, 409, 411, 413, 421, 422, 429, 503)
}
"""The error responses of every route, for OpenAPI."""


def describe_problem(status: int, detail: str) -> dict[str, Any]:
    """Return a problem as plain values."""
    return Problem(
        type="about:blank", title=HTTPStatus(status).phrase, status=status, detail=detail
    ).model_dump()


def describe_error(error: JeanieError, place: str) -> dict[str, Any]:
    """Return an error as a problem. Clients need not know the place of the library, which may be a file or a server."""
    if isinstance(error.__cause__, SQLAlchemyError | sqlite3.Error):
        status = 503
    elif isinstance(error, ConfigError):
        status = 400
    else:
        status = 422 if isinstance(error, DataError | ShapeError) else 500
    return describe_problem(status, _hide(place, str(error)))


def make_problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Return a problem as a response."""
    return JSONResponse(describe_problem(status, detail), status, headers, MEDIA_TYPE)


def add_problem_handlers(app: FastAPI) -> None:
    """Answer every error of the application with problem details."""
    app.add_exception_handler(JeanieError, _answer_jeanie_error)
    app.add_exception_handler(StarletteHTTPException, _answer_http_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid_request)
    app.add_exception_handler(Exception, _answer_unexpected_error)


def _answer_jeanie_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, JeanieError)
    problem = describe_error(error, _find_place(request))
    if problem["status"] == 503:
        LOGGER.error("the library does not answer", extra={"facts": {"detail": str(error)}})
    return JSONResponse(problem, problem["status"], media_type=MEDIA_TYPE)


def _find_place(request: Request) -> str:
    place: str = request.app.state.service.recogniser.library.place
    return place


def _hide(place: str, text: str) -> str:
    return text.replace(place, "the library")


def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    headers = dict(error.headers) if isinstance(error, HTTPException) and error.headers else None
    if error.status_code == 405 and isinstance(error.headers, dict):
        headers = dict(error.headers)
    return make_problem(error.status_code, _hide(_find_place(request), str(error.detail)), headers)


def _answer_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    parts = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:5]]
    return make_problem(422, "; ".join(parts)[:1000])


def _answer_unexpected_error(request: Request, error: Exception) -> Response:
    return make_problem(500, "an unexpected error; the log of the service has the details")
