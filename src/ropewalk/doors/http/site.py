"""All routes of an app behind the authentication, as one ASGI app.

- `GET /metrics` gives the counts and times of this process's runs in the format of Prometheus.
- The web UI is served from files built in advance (`doors/web/static`, sources in `page/`). Every path outside the
  API serves it, so its addresses can be opened and reloaded.
- A route ends browser sessions.
- `/healthz` and `/readyz` need no authentication (`health.py`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from ...app.project_versions import ProjectVersions
from ...errors import RopewalkError
from ...events import Event
from ..security import SESSION, SESSIONS, AuthMiddleware, Sessions, Site, at_root, root_of
from . import definitions, overview, plans, runs, tools
from .errors import REFUSALS, Answer, Route, answer_error, answer_fault, answer_misfit, answer_refusal
from .flow_files import FlowFiles
from .health import HealthChecks
from .live_runs import LiveRuns
from .root_path import RootPath
from .served import ServedVersions

if TYPE_CHECKING:
    from ...app.app import App

_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 300)
metrics_router = APIRouter(tags=["metrics"], route_class=Route)


def operation_id(route: APIRoute) -> str:
    """Return the name of a route in generated clients: `start_run`."""
    return re.sub(r" (?:an?|the) | ", "_", route.summary or route.name).lower()


class Metrics:
    """Takes the events of runs."""

    # Labelled by what a project has a bounded number of, never by a run.

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        more: dict[str, Any] = {"registry": self.registry}
        tool: Any = ("tool",)
        self._going = Gauge("ropewalk_runs_going", "Runs that this process executes now.", **more)
        self._runs = Counter("ropewalk_runs", "Runs that have ended in this process, by status.", ("status",), **more)
        message = "Seconds that runs took to their end."
        self._run_time = Histogram("ropewalk_run_duration_seconds", message, buckets=_SECONDS, **more)
        message = (
            "Calls of tools that have ended, by tool and outcome (ok, failed); all attempts of a node are one call."
        )
        self._calls = Counter("ropewalk_tool_calls", message, (*tool, "outcome"), **more)
        message = "Seconds that calls of tools took, with their attempts and the pauses between them."
        self._call_time = Histogram("ropewalk_tool_call_duration_seconds", message, tool, buckets=_SECONDS, **more)
        message = "Failed attempts of nodes that are retried or whose failure is handled, by error."
        self._attempts = Counter("ropewalk_failed_attempts", message, ("error",), **more)
        self._open_nodes: dict[str, dict[str, tuple[str, float]]] = {}

    def take(self, event: Event) -> None:
        data: dict[str, Any] = event.data if isinstance(event.data, dict) else {}
        if event.kind in ("run.started", "run.resumed"):
            self._open_nodes[event.run_id] = {}
            self._going.inc()
            return
        # Events of a run that started before this server are not counted: its beginning is unknown.
        open_nodes = self._open_nodes.get(event.run_id)
        if open_nodes is None:
            return
        if event.kind == "node.started" and data.get("tool") and not data.get("replayed"):
            open_nodes[event.path] = (str(data["tool"]), event.at)
        elif event.kind in ("node.finished", "node.recovered", "node.failed") and event.path in open_nodes:
            tool, at = open_nodes.pop(event.path)
            self._calls.labels(tool, "ok" if event.kind == "node.finished" else "failed").inc()
            self._call_time.labels(tool).observe(max(0.0, event.at - at))
        elif event.kind == "attempt.failed" and not data.get("replayed"):
            self._attempts.labels(str(data.get("kind"))).inc()
        elif event.path == "" and event.kind.startswith("run."):
            del self._open_nodes[event.run_id]
            self._going.dec()
            self._runs.labels(str(data.get("status") or event.kind.partition(".")[2])).inc()
            if "ms" in data:
                self._run_time.observe(data["ms"] / 1000)


@metrics_router.get(
    "/metrics", summary="Get metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}
)
async def metrics(request: Request) -> Response:
    """Counts and times of the runs of this process."""
    counted: Metrics = request.app.state.metrics
    return Response(generate_latest(counted.registry), media_type=CONTENT_TYPE_PLAIN_1_0_0)


STATIC: Final = Path(__file__).parents[1] / "web" / "static"
LOST: Final = STATIC / "token.html"
_LOST_WAY: Final = re.compile(rb"<p>.*?</p>", re.DOTALL)
_EMBEDDED_LOST_WAY: Final = b"<p>Enter the token that this application passes to <code>app.asgi(token=...)</code>.</p>"
_EMBEDDED_WAYS: Final = {
    "way": "send it as Authorization: Bearer TOKEN; it is the one that the application passes to app.asgi(token=...)",
    "host_way": "pass it to app.asgi(hosts=[{host!r}])",
}
_INDEX: Final = (STATIC / "index.html").read_bytes()
_ASSETS: Final = {file.name: file for file in sorted((STATIC / "assets").glob("*"))}
_KINDS: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

page_router = APIRouter(include_in_schema=False)


@page_router.get("/assets/{name}")
async def asset(name: str) -> FileResponse:
    """Return a file of the web UI whose name has a hash of its content, so that browsers may cache it."""
    if name not in _ASSETS:  # a path is never put together from a request
        raise HTTPException(404, f"no file {name!r}")
    file = _ASSETS[name]
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return FileResponse(file, media_type=_KINDS[file.suffix], headers=headers)


@page_router.get("/{path:path}")
async def index(path: str, request: Request) -> Response:
    if path.lstrip("/").partition("/")[0].lower() == "api":
        raise HTTPException(404, "Not Found")
    page = at_root(_INDEX, request.scope)
    if request.scope[SESSION] is None:  # nobody can log out
        page = page.replace(b"<html ", b"<html data-sessionless ", 1)
    return Response(page, media_type="text/html; charset=utf-8", headers={"cache-control": "no-store"})


sessions_router = APIRouter(prefix="/api", tags=["sessions"], route_class=Route, default_response_class=Answer)


class Ended(BaseModel):
    ended: int = Field(description="The number of sessions that were ended.")


@sessions_router.post("/logout", summary="Log out", response_model=Ended)
async def logout(
    request: Request,
    all: Annotated[bool, Query(description="End the sessions of every browser, not only this one.")] = False,
) -> Answer:
    """End the browser session that the request came with, and take its cookie back. The token stays valid."""
    sessions: Sessions = request.scope[SESSIONS]
    session: str | None = request.scope[SESSION]
    ended = 0
    if session is not None:
        sessions.end(session)
        ended = 1
    if all:
        ended += sessions.end_all()
    server: Any = request.scope.get("server")
    cookie = sessions.clear_cookie(server[1] if server else None, root_of(request.scope)).decode()
    return Answer({"ended": ended}, headers={"set-cookie": cookie})


def make_site(
    project: App | ProjectVersions,
    token: str | None,
    *,
    hosts: Iterable[str] = (),
    files_of: Callable[[App], FlowFiles] = FlowFiles,
    root_path: str = "",
    is_embedded: bool = False,
) -> Site:
    """Build the HTTP API and the web UI of an app, or of the present version of a project."""

    # The caller closes the app.
    # `token`: What every request must show as bearer token or cookie; None if another program checks requests.
    # `root_path`: The prefix of a proxy; an app that mounts this one says its own.
    # `is_embedded`: Another program serves it, so refusals name the arguments of `App.asgi` and no command.
    versions = project if isinstance(project, ProjectVersions) else ProjectVersions(project)
    served = ServedVersions(versions, files_of, make_routes(versions, is_embedded=is_embedded))
    lost, ways = LOST.read_bytes(), {}
    if is_embedded:
        lost, ways = _LOST_WAY.sub(_EMBEDDED_LOST_WAY, lost), _EMBEDDED_WAYS
    guarded = AuthMiddleware(served, token, hosts, versions.app.limits.file_size, lost, **ways)
    return RootPath(HealthChecks(versions, guarded), root_path)


def api_of(app: App) -> dict[str, Any]:
    """Build the OpenAPI document."""
    return make_routes(ProjectVersions(app)).openapi()


def make_routes(versions: ProjectVersions, *, is_embedded: bool = False) -> FastAPI:
    """Build the routes, which find the app of a request in its scope."""
    live = LiveRuns(versions, log_failures=is_embedded)

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
    site.state.versions, site.state.live, site.state.metrics = versions, live, Metrics()
    versions.app.watch(site.state.metrics.take)
    routers = (
        runs.actions_router,
        runs.contents_router,
        runs.router,
        definitions.router,
        overview.router,
        tools.stats_router,
        tools.router,
        plans.router,
        sessions_router,
        metrics_router,
    )
    site.state.routes = [route for router in routers for route in router.routes]
    for router in (*routers, page_router):  # the web UI answers every other path, so it comes last
        site.include_router(router)
    return site


def _version() -> str:
    from importlib.metadata import version

    return version("ropewalk")
