"""MemoryHost: runs conversations without an app, with its own toolbox and an engine in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ..engine.engine import Engine, Job, new_run_id
from ..events import Event
from ..journal.memory import MemoryStore
from ..journal.protocol import NewRun
from ..notations.agent import compile_document
from ..notations.registry import Compiled
from ..tools.runner import Runner
from ..tools.toolbox import Toolbox
from ..values import Json
from .decision import approval_tool
from .model import ModelClient
from .models import create_models
from .turn import model_tool


def install(
    toolbox: Toolbox, client: Callable[[], ModelClient], cache_ttl: Mapping[str, float] = MappingProxyType({})
) -> None:
    """Register the tools `ropewalk:model` and `ropewalk:approval`, which conversations call."""
    for tool in (model_tool(client, toolbox, cache_ttl), approval_tool()):
        if toolbox.get(tool.id) is None:
            toolbox.register(tool)


class MemoryHost:
    """A Host that keeps its runs in memory."""

    def __init__(self, client: ModelClient | None = None) -> None:
        self.toolbox = Toolbox()
        self._client = client
        install(self.toolbox, lambda: self.client)
        self._engine = Engine(MemoryStore())
        self._runner = Runner(index=self.toolbox, get_engine=lambda: self._engine)

    @property
    def client(self) -> ModelClient:
        """The model."""
        if self._client is None:
            self._client = create_models({})
        return self._client

    def load(self, document: Mapping[str, Any], /) -> Compiled:
        """Compile the document of an agent."""
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
        """Run a compiled agent and close the connections that were opened for it."""

        # `request` is ignored.
        opens_client = self._client is None
        new = NewRun(id=run_id or new_run_id(), kind=loaded.kind, name=loaded.name, input=input)
        job = Job(new=new, flow=loaded.flow, caller=self._runner, render=loaded.render, input=input, watcher=on_event)
        try:
            return await self._engine.run(job)
        finally:
            if opens_client and self._client is not None:
                await self._client.close()
