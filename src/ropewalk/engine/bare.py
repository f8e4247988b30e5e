"""A flow run by itself: no store, nothing recorded beyond the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir import Flow
from ..journal.journal import Entry, Key, Wanted
from ..values import Json
from .caller import Caller
from .program import Program, compile_flow
from .run import Ending, Run, Watcher


class NoLog:
    """The journal of a run that keeps none."""

    past: Mapping[Key, Entry] = {}
    on_stop: Callable[[], None] | None = None
    on_signal: Callable[[], None] | None = None

    def append(self, entry: Entry, /) -> asyncio.Future[None]:
        raise AssertionError("a run without a journal appends nothing")

    async def take(self, waits: Sequence[Wanted], /) -> list[Entry]:
        """Nobody can send anything."""
        return []

    def touch(self, current_node: str, spent: float, /) -> None:
        """Nobody looks from outside."""


async def run_program(
    program: Program, input: Json = None, *, run_id: str = "run", watcher: Watcher | None = None
) -> Ending:
    """Run a compiled program once, in the caller's task."""
    log: Any = NoLog()
    return await Run(program, run_id, input, log, watcher=watcher, listener=watcher).execute()


async def run_flow(flow: Flow, caller: Caller, input: Json = None) -> Ending:
    """Compile and run a checked flow once."""
    return await run_program(compile_flow(flow, caller), input)
