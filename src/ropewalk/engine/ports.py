"""Protocols between the modules of the engine that need each other's types.

Only type checkers import this module. It knows frames and plain types, and never imports a
module that uses it, so that no import cycle appears even between types. Add a member here when
a user of the protocol needs it, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ..expr.scope import SecretsOf
from ..ir import Flow, Yield
from ..journal.protocol import Log
from ..values import Json
from .compile.calls import Lease
from .frame import NodeSlot, Region
from .timeouts import Timer


class MapChunks(Protocol):
    """Runs the chunks of a large map in other processes."""

    def wants(self, run: Any, path: str, count: int, limit: int | None, /) -> bool:
        """Decide whether a map runs in chunks."""
        ...

    async def __call__(
        self, run: Any, path: str, place: str, count: int, limit: int | None, scope: Json, /
    ) -> list[Any]:
        """Run every chunk of the map at `path`."""
        ...


class FlowBuilder(Protocol):
    """The builder of a program, as the compiler of one node sees it."""

    approvals: frozenset[str]
    chunk_plans: dict[str, Any]
    durable: bool
    last_call: NodeSlot | None
    lease: Lease | None
    secrets: bool
    secrets_of: SecretsOf | None
    spread: MapChunks | None
    uses_prev: bool
    waits: bool
    watched: bool

    def bind(self, tool_id: str, /) -> Any:
        """Resolve a tool, once per program."""
        ...

    def runs_in_loop(self, node_slot: NodeSlot) -> bool:
        """Check whether a node needs no wrapper around its tool call."""
        ...

    def inner_region(self, region: Region) -> Callable[..., Awaitable[Yield]]:
        """Compile a region inside a node."""
        ...

    def lower_shortest_timeout(self, timeout: float | None) -> None:
        """Lower the shortest timeout of the program."""
        ...


class CompiledFlow(Protocol):
    """A program, as the waits of its run see it."""

    @property
    def flow(self) -> Flow:
        """The flow that was compiled."""
        ...


class LiveRun(Timer, Protocol):
    """A run in progress, as its waits see it."""

    ending: bool
    halted: float | None
    loop: asyncio.AbstractEventLoop
    playing: bool
    spent: float
    task: asyncio.Task[Any]

    @property
    def id(self) -> str:
        """The id of the run."""
        ...

    @property
    def log(self) -> Log:
        """The journal of the run."""
        ...

    @property
    def parent(self) -> LiveRun | None:
        """The run that this run is part of."""

    @property
    def program(self) -> CompiledFlow:
        """The program of the run."""
        ...

    @property
    def waits(self) -> Any:
        """The `Waits` of the run; None if its flow does not wait."""

    @property
    def watcher(self) -> Callable[..., None] | None:
        """Gets the events of the run."""

    def begins(self, node: str, at: float) -> float:
        """Record the current node of a durable run."""
        ...

    def now(self) -> float:
        """Read the clock of the run."""
        ...

    def outermost(self) -> tuple[str, str]:
        """Find the run that people resume."""
        ...

    def report(self, kind: str, path: str = "", node: str = "", data: Json = None) -> None:
        """Emit an event to the watcher of the run."""
        ...
