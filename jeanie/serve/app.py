"""The application of ``jeanie serve``."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Form, Request
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.concurrency import run_in_threadpool

from jeanie.datasets.dataset import Dataset
from jeanie.recogniser.recogniser import Recogniser
from jeanie.serve.access import COOKIE, COOKIE_SECONDS, AccessRules
from jeanie.serve.middleware import Protection
from jeanie.serve.problems import PROBLEMS, Problem, add_problem_handlers, make_problem
from jeanie.serve.routes import STATIC, make_router
from jeanie.serve.service import Service
from jeanie.serve.settings import ServeConfig
from jeanie.serve.streams import make_stream_router

__all__ = ["make_app"]


def make_app(
    recogniser: Recogniser,
    config: ServeConfig | None = None,
    *,
    archive: Dataset | None = None,
    cache: Path | None = None,
    close: bool = False,
) -> FastAPI:
    """Return the application.

    Args:
        recogniser: The enrolled actions.
        config: Settings of the service.
        archive: Recordings to search.
        cache: Folder that keeps the features of the archive.
        close: Whether to close the recogniser when the application ends.
    """
    service = Service(recogniser, ServeConfig() if config is None else config, archive, cache)
    rules = AccessRules(service.config, service.users)

    @asynccontextmanager
    async def run_service(app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(service.start)
        try:
            yield
        finally:
            await run_in_threadpool(service.stop)
            if close:
                recogniser.close()

    app = FastAPI(
        title="jeanie", version=version("jeanie"), lifespan=run_service, docs_url=None, redoc_url=None,
        openapi_url="/api/v1/openapi.json",
    )  # fmt: skip
    app.state.service = service
    app.include_router(make_router(service))
    app.include_router(make_stream_router(service, rules))
    _add_operation_routes(app, service)
    _add_page_routes(app)
    _add_login_routes(app, rules)
    add_problem_handlers(app)
    app.add_middleware(Protection, service=service, rules=rules)
    _document_problems(app)
    return app


def _add_operation_routes(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", include_in_schema=False)
    async def check_health() -> PlainTextResponse:
        """Answer as long as the process runs."""
        return PlainTextResponse("ok")

    @app.get("/readyz", include_in_schema=False)
    def check_readiness() -> Response:
        """Answer 200 if requests can be served: the model is warm and the library answers."""
        if not service.is_ready:
            return make_problem(503, "the service is starting or stopping; try again")
        _ = service.recogniser.library.revision
        return PlainTextResponse("ready")

    @app.get("/metrics", include_in_schema=False)
    def get_metrics() -> Response:
        """Return the metrics for Prometheus."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4")


def _add_page_routes(app: FastAPI) -> None:
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/", include_in_schema=False)
    async def get_page() -> FileResponse:
        """Return the page."""
        return FileResponse(STATIC / "index.html")

    @app.get("/favicon.ico", include_in_schema=False)
    async def get_icon() -> FileResponse:
        """Return the icon of the page."""
        return FileResponse(STATIC / "icon.svg", media_type="image/svg+xml")


def _add_login_routes(app: FastAPI, rules: AccessRules) -> None:
    form = (STATIC / "login.html").read_text(encoding="utf-8")

    @app.get("/login", include_in_schema=False)
    async def get_login() -> HTMLResponse:
        """Return the form that asks for the access token."""
        return HTMLResponse(form.replace("$message", ""))

    @app.post("/login", include_in_schema=False)
    def log_in(request: Request, token: Annotated[str, Form(max_length=4096)]) -> Response:
        """Exchange the access token for a cookie."""
        identity = rules.accept_token(token)
        if identity is None:
            return HTMLResponse(form.replace("$message", "This is not an access token."), 401)
        response = RedirectResponse("/", 303)
        response.set_cookie(
            COOKIE,
            rules.make_cookie(identity),
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    @app.post("/logout", include_in_schema=False)
    async def log_out() -> Response:
        """Delete the cookie."""
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response


def _document_problems(app: FastAPI) -> None:
    """Make OpenAPI describe errors as they are: problem details."""
    schema = app.openapi()
    schema["components"]["schemas"]["Problem"] = Problem.model_json_schema()
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"]["422"] = PROBLEMS[422]
    app.openapi_schema = schema
