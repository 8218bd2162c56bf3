"""Errors as problem details (RFC 9457), with the texts of the command line."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as StarletteHTTPException

from jeanie.errors import ConfigError, DataError, JeanieError, ShapeError

__all__ = ["MEDIA_TYPE", "PROBLEMS", "Problem", "add_problem_handlers", "describe_problem", "make_problem"]

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
    status = (
        422 if isinstance(error, DataError | ShapeError) else 400 if isinstance(error, ConfigError) else 500
    )
    return make_problem(status, str(error))


def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    headers = dict(error.headers) if isinstance(error, HTTPException) and error.headers else None
    if error.status_code == 405 and isinstance(error.headers, dict):
        headers = dict(error.headers)
    return make_problem(error.status_code, str(error.detail), headers)


def _answer_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    parts = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:5]]
    return make_problem(422, "; ".join(parts)[:1000])


def _answer_unexpected_error(request: Request, error: Exception) -> Response:
    return make_problem(500, "an unexpected error; the log of the service has the details")
