"""All routes of an app behind the guard, as one ASGI app."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from ...errors import RopewalkError
from ...guard import Guard
from . import again, contents, definitions, metrics, page, runs, sessions, tools
from .answers import REFUSALS, Answer, answer_error, answer_fault, answer_misfit, answer_refusal
from .flow_files import FlowFiles
from .live import Live
from .metrics import Metrics
from .wording import operation_id

if TYPE_CHECKING:
    from ...app import App


def make_site(
    app: App, token: str, *, hosts: Iterable[str] = (), home: Path | None = None, flows: Sequence[str] = ()
) -> Guard:
    """The HTTP API of `app`, an ASGI app. Every request must show `token` and come by 127.0.0.1, localhost or one
    of `hosts`. Closing the app is left to whoever opened it. `flows` are the files that are
    listed as definitions, beside `home`; with none, the documents that are there."""
    return Guard(_routes(app, FlowFiles(app, home, flows)), token, hosts, app.limits.file_size, page.LOST.read_bytes())


def api_of(app: App) -> dict[str, Any]:
    """The OpenAPI document."""
    return _routes(app, FlowFiles(app)).openapi()


def _routes(app: App, files: FlowFiles) -> FastAPI:
    live = Live(app)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await live.close()

    site = FastAPI(
        title="Ropewalk",
        version=_version(),
        summary="Compose, check and run tool chains.",
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,  # pages that load scripts from elsewhere
        redoc_url=None,
        default_response_class=Answer,
        responses=REFUSALS,
        generate_unique_id_function=operation_id,
        dependencies=[Depends(HTTPBearer(auto_error=False))],  # for the document; the guard is who looks
    )
    site.add_exception_handler(Exception, answer_fault)
    site.add_exception_handler(RopewalkError, answer_error)
    site.add_exception_handler(HTTPException, answer_refusal)
    site.add_exception_handler(RequestValidationError, answer_misfit)
    site.state.served, site.state.live, site.state.metrics = app, live, Metrics()
    site.state.files = files
    app.watch(site.state.metrics.take)
    nouns = (again, contents, runs, definitions, tools, sessions, metrics)
    site.state.routes = [route for noun in nouns for route in noun.router.routes]
    for noun in (*nouns, page):  # the page is what all other paths are
        site.include_router(noun.router)
    return site


def _version() -> str:
    from importlib.metadata import version

    return version("ropewalk")
