"""Which version of the project answers a request: the present one, from the beginning of the request to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..security import Receive, Scope, Send, Site

if TYPE_CHECKING:
    from ...app.app import App
    from ...app.project_versions import ProjectVersions
    from .flow_files import FlowFiles

SERVED: Final = "ropewalk.app"
"""Where the scope of a request has its app, and under FILES the project's flows in files."""
FILES: Final = "ropewalk.files"


class ServedVersions:
    """An ASGI app that hands each request the present version of the project."""

    def __init__(self, versions: ProjectVersions, files_of: Callable[[App], FlowFiles], routes: Site) -> None:
        self._versions, self._routes, self._files_of = versions, routes, files_of
        versions.follow(self._take)

    def _take(self, app: App) -> None:
        self._files = self._files_of(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the lifespan of the server, which no version may outlast
            await self._routes(scope, receive, send)
            return
        with self._versions.use() as app:
            scope[SERVED], scope[FILES] = app, self._files
            await self._routes(scope, receive, send)
