"""Health checks for load balancers and containers: `/healthz` of the process, `/readyz` of its store and its workers.

They need no token and allow every Host, because a probe knows neither, so they say nothing but `ok` or `not ok`. A
read of the store answers every request of the next second, so strangers cannot burden it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse

from ...journal.address import run_sync_in_thread
from ..security import Receive, Scope, Send, Site
from .root_path import route_path

if TYPE_CHECKING:
    from ...app.project_versions import ProjectVersions

LIVE, READY = "/healthz", "/readyz"
_MAX_AGE: Final = 1.0  # seconds for which an answer of the store counts
_PATIENCE: Final = 5.0  # seconds for the store to answer


class HealthChecks:
    """An ASGI app that answers the two checks, in front of one that answers everything else."""

    def __init__(self, versions: ProjectVersions, site: Site) -> None:
        self._versions, self._site = versions, site
        self._read: asyncio.Task[bool] | None = None
        self._began = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_check = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        path = route_path(scope) if is_check else ""
        if path not in (LIVE, READY):
            await self._site(scope, receive, send)
            return
        is_well = path == LIVE or await self._is_ready()
        response = PlainTextResponse(
            "ok" if is_well else "not ok", 200 if is_well else 503, headers={"cache-control": "no-store"}
        )
        await response(scope, receive, send)

    async def _is_ready(self) -> bool:
        """Return True if the store answers in time, and a worker is alive if the app needs one."""

        # One read at a time: a store that hangs would otherwise take a thread for each request.
        loop = asyncio.get_running_loop()
        if self._read is None or (self._read.done() and loop.time() - self._began >= _MAX_AGE):
            self._read, self._began = loop.create_task(self._look()), loop.time()
        done, _ = await asyncio.wait([self._read], timeout=_PATIENCE)
        return bool(done) and self._read.result()

    async def _look(self) -> bool:
        app = self._versions.app

        def look() -> Any:
            app.store.get_run("")
            return app.workers.registry.live_workers() if app.distributed else True

        try:
            return bool(await run_sync_in_thread(app.store, look))
        except Exception:  # noqa: BLE001 - whatever keeps the store from answering; its text is not for strangers
            return False
