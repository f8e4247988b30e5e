"""A host without an app: tools of its own, an engine in memory, nothing left when it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..dialects.agent import compile_document
from ..dialects.notation import Compiled
from ..engine.engine import Engine, Job, new_run_id
from ..events import Event
from ..journal.journal import NewRun
from ..journal.memory import MemoryStore
from ..tools.runner import Runner
from ..tools.toolbox import Toolbox
from ..values import Json
from .approval import approval_tool
from .client import ClaudeClient
from .model import ModelClient
from .settings import settings
from .turn import model_tool


def install(toolbox: Toolbox, client: Callable[[], ModelClient]) -> None:
    """Give a toolbox the tools that conversations are made of."""
    for tool in (model_tool(client, toolbox), approval_tool()):
        if toolbox.get(tool.id) is None:
            toolbox.register(tool)


class MemoryHost:
    """Runs conversations in memory."""

    def __init__(self, client: ModelClient | None = None) -> None:
        self.toolbox = Toolbox()
        self._client = client
        install(self.toolbox, lambda: self.client)
        self._engine = Engine(MemoryStore())
        self._runner = Runner(index=self.toolbox, flows=lambda: self._engine)

    @property
    def client(self) -> ModelClient:
        if self._client is None:
            self._client = ClaudeClient(settings())
        return self._client

    def loaded(self, document: Mapping[str, Any], /) -> Compiled:
        return compile_document(document)

    async def execute(
        self,
        loaded: Compiled,
        /,
        *,
        input: Json,
        run_id: str | None,
        request: str | None,
        on_event: Callable[[Event], None] | None,
    ) -> dict[str, Json]:
        """Run it; connections that were opened for it are closed. Nothing here learns from a request."""
        own = self._client is None
        new = NewRun(id=run_id or new_run_id(), kind=loaded.kind, name=loaded.name, input=input)
        job = Job(new=new, flow=loaded.flow, caller=self._runner, render=loaded.render, input=input, watcher=on_event)
        try:
            return await self._engine.run(job)
        finally:
            if own and self._client is not None:
                await self._client.close()
