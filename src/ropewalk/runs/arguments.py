"""What the calls of a run were given. A journal keeps of arguments only their digest, so they are found by running the
definition once more, in memory, with what the journal has: no tool is called, nothing is waited for or written down.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..engine.engine import Engine
from ..errors import RopewalkError
from ..journal.journal import Entry
from ..journal.memory import MemoryStore
from ..tools.bound import Bound, Rules, bind_route
from ..tools.route import Args, OnProgress, Route
from ..values import Json, fresh, replaced
from .pinned import known, pinned
from .steps import too_late

if TYPE_CHECKING:
    from ..app import App

PATIENCE: Final = 5.0
"""Seconds; what is known by then is told."""
_ATTEMPT: Final = re.compile(r"@\d+")
_FAILED: Final = ("call_failed", "attempt")
_DONE: Final = ("call", "node", "ending", "offer")


class _Listener:
    """In the place of every tool: gives what is recorded, and keeps what it was asked with."""

    version = 0

    def __init__(self, run_id: str, history: Iterable[Entry]) -> None:
        self._run_id = run_id
        self._gives: dict[str, Any] = {}
        self._fails: dict[str, Any] = {}
        for entry in history:
            if entry.kind in ("call", "call_failed"):
                known = self._gives if entry.kind == "call" else self._fails
                known[_ATTEMPT.sub("", entry.path)] = entry.data
        self.asked: dict[str, Args] = {}

    def bind(self, tool_id: str) -> Bound:
        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            path = (key or "").removeprefix(f"{self._run_id}/")
            self.asked[path] = fresh(args)
            if path not in self._gives:
                raise _Failure(self._fails.get(path, {}).get("message", "not recorded"))
            return fresh(self._gives[path])

        return bind_route(tool_id, None, None, Route(send=send), Rules())

    async def __call__(self, tool_id: str, args: Args) -> Json:
        raise NotImplementedError("calls are bound here, so that it is known which one is meant")


class _Failure(Exception):
    """Of a call that failed, or has not ended yet; it is not tried again."""

    retryable = False


async def arguments(app: App, run_id: str) -> Mapping[str, Json]:
    """The arguments of every call that the run has made or is making, by its path without attempts; secrets are
    references. Raises NotFound for an unknown run."""
    row = known(app.store, run_id)
    history = app.runs.history(run_id)
    listener = _Listener(run_id, history)
    job = await app.jobs.again(row, executor=listener, loaded=pinned(app, row))
    job.caller, job.park, job.secrets = listener, True, {}
    store = MemoryStore(durable=True)
    log = await store.open(job.new)
    log.past.update({(entry.path, entry.kind): entry for entry in _past(history)})
    try:
        async with asyncio.timeout(PATIENCE):
            await Engine(store).drive(job, log)
    except (TimeoutError, RopewalkError):
        pass  # where the journal ends, or what it has no longer fits: what was asked until then stands
    return {path: replaced(args, job.secrets) for path, args in listener.asked.items()}


def _past(history: Iterable[Entry]) -> Iterable[Entry]:
    """What time has decided: everything but ends. The last failure of a call is made again, for what it was given."""
    listed = list(history)
    late = too_late(listed)
    last = {
        _ATTEMPT.sub("", entry.path): entry.path
        for entry in listed
        if entry.kind == "call_failed" or (entry.kind == "attempt" and entry.path in late)
    }
    again = set(last.values())
    return [e for e in listed if e.kind not in _DONE and not (e.kind in _FAILED and e.path in again)]
