"""A build as one run: a call of `n8n-builder:build`, whose phases and questions are runs that are part of it.

So a build is one line of `runs ls`, is stopped as one, and goes on as one: what had ended of it is not asked again.
A build whose result is not valid has failed, whatever is written of it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ..engine.engine import new_run_id
from ..errors import Unfinished
from ..events import Event
from ..frozen import dataclass
from ..journal.journal import RunRow
from ..journal.offloop import off_loop
from ..tools.route import Args, Flows, OnProgress, Route, Routed
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
Work = Callable[["Parts", Mapping[str, Any]], Awaitable[tuple[dict[str, Json], str | None]]]
"""Builds, from the parts and what is asked for: what is recorded, and why it is no result, where it is none."""


class Parts:
    """The runs that are part of a build, `RUN/build/NAME`: conversations and questions run in it as in an app."""

    def __init__(self, app: Any, engine: Callable[[], Any], key: str) -> None:
        self._app, self._engine, self._key = app, engine, key
        self.toolbox: Toolbox = app.toolbox

    @property
    def run(self) -> str:
        """The id of the build."""
        return self._key.rpartition("/")[0] or self._key

    def id(self, name: str) -> str:
        return f"{self._key}/{name}"

    def loaded(self, document: Mapping[str, Any], /) -> Any:
        return self._app.loaded(document)

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
        """Run a part; one that had begun goes on, one that had ended gives what it gave. Nothing learns from it."""
        job = await self._app.jobs.new(loaded, run_id=self.id(run_id), input=input, on_event=on_event)
        result: dict[str, Json] = await self._engine().run_part(job, job.new.id)
        return result

    async def row(self, name: str) -> RunRow | None:
        """The run of a part that had begun before."""
        store = self._app.store
        found: RunRow | None = await off_loop(store, lambda: store.get_run(self.id(name)))
        return found


@dataclass(frozen=True, slots=True)
class BuildTool(Routed):
    """The handler of `n8n-builder:build`. It keeps its own time: a build takes as long as it takes."""

    app: Any
    work: Work

    async def __call__(self, **args: Json) -> Json:
        return await self.made(args, new_run_id(), None)

    def route(self, flows: Flows, /) -> Route:
        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Json:
            return await self.made(args, key or new_run_id(), flows)

        return Route(send=send, timeout=math.inf)

    async def made(self, args: Args, key: str, flows: Flows) -> Json:
        made, why = await self.work(Parts(self.app, flows or (lambda: self.app.engine), key), args)
        if why is not None:
            raise Unfinished("", why)
        return made


def register(app: Any, work: Work) -> None:
    """Have the app's toolbox build."""
    id = BUILD.rpartition(":")
    app.toolbox.register(
        Tool(id[2], "Builds a workflow for n8n.", {"type": "object"}, namespace=id[0], handler=BuildTool(app, work))
    )
