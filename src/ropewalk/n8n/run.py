"""A build as one run: a call of the tool `n8n-builder:build`. Its phases and questions are runs that are part of it.

So a build is listed, stopped and resumed as one run, and finished parts are not repeated. A build with an invalid
workflow is a failed run.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ..engine.engine import new_run_id
from ..errors import Unfinished
from ..events import Event
from ..fast_dataclass import dataclass
from ..journal.address import run_sync_in_thread
from ..journal.protocol import RunRow
from ..tools.backends.route import Args, EngineGetter, OnProgress, Route, Routed
from ..tools.tool import Tool
from ..tools.toolbox import Toolbox
from ..values import Json
from .node_tools import NAMESPACE

BUILD: Final = f"{NAMESPACE}:build"
DOCUMENT: Final[dict[str, Any]] = {
    "kind": "composition",
    "name": "n8n-build",
    "nodes": [
        {
            "id": "build",
            "type": "tool",
            "tool": BUILD,
            "inputMapping": {key: f"$input.{key}" for key in ("task", "tools", "options")},
        }
    ],
}
BuildFunction = Callable[["BuildParts", Mapping[str, Any]], Awaitable[tuple[dict[str, Json], str | None]]]
"""Gets the parts and the request of a build; returns the result to record, and the reason if the build failed."""


class BuildParts:
    """Runs the parts of a build, `RUN/build/NAME`."""

    # It is a Host, so that conversations run in it as in an app.

    def __init__(self, app: Any, engine: Callable[[], Any], key: str) -> None:
        self._app, self._engine, self._key = app, engine, key
        self.toolbox: Toolbox = app.toolbox

    @property
    def run(self) -> str:
        """The id of the build's run."""
        return self._key.rpartition("/")[0] or self._key

    def id(self, name: str) -> str:
        """Return the run id of a part."""
        return f"{self._key}/{name}"

    def load(self, document: Mapping[str, Any], /) -> Any:
        """Compile a document."""
        return self._app.load(document)

    async def execute(
        self,
        loaded: Any,
        /,
        *,
        input: Json,
        run_id: str,
        request: str | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> dict[str, Json]:
        """Run a part."""

        # An interrupted part is resumed, and a finished one returns its recorded result.
        job = await self._app.jobs.make(loaded, run_id=self.id(run_id), input=input, on_event=on_event)
        result: dict[str, Json] = await self._engine().run_part(job, job.new.id)
        return result

    async def row(self, name: str) -> RunRow | None:
        """Return the run of a part; None if it has not begun."""
        store = self._app.store
        row: RunRow | None = await run_sync_in_thread(store, lambda: store.get_run(self.id(name)))
        return row


@dataclass(frozen=True, slots=True)
class BuildTool(Routed):
    """The handler of `n8n-builder:build`."""

    # A build has no timeout.

    app: Any
    work: BuildFunction

    async def __call__(self, **args: Json) -> Json:
        return await self.build(args, new_run_id(), None)

    def route(self, get_engine: EngineGetter | None, /) -> Route:
        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Json:
            return await self.build(args, key or new_run_id(), get_engine)

        return Route(send=send, timeout=math.inf)

    async def build(self, args: Args, key: str, get_engine: EngineGetter | None) -> Json:
        result, reason = await self.work(BuildParts(self.app, get_engine or (lambda: self.app.engine), key), args)
        if reason is not None:
            raise Unfinished("", reason)
        return result


def register(app: Any, work: BuildFunction) -> None:
    """Register the tool `n8n-builder:build`."""
    parts = BUILD.rpartition(":")
    app.toolbox.register(
        Tool(
            parts[2], "Builds a workflow for n8n.", {"type": "object"}, namespace=parts[0], handler=BuildTool(app, work)
        )
    )
