"""What the calls of a run were given. A journal keeps of arguments only their digest, so they are found by running the
definition once more, in memory, with what the journal has: no tool is called, nothing is waited for or written down.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..errors import RopewalkError
from ..journal.journal import Entry
from ..journal.offloop import off_loop
from ..tools.route import Args, OnProgress
from ..values import Json, fresh
from .pinned import known
from .played import PATIENCE, Instead, play
from .steps import too_late

if TYPE_CHECKING:
    from ..app import App

_ATTEMPT: Final = re.compile(r"@\d+")
_FAILED: Final = ("call_failed", "attempt")
_DONE: Final = ("call", "node", "ending", "offer")


class _Listener(Instead):
    """Gives what is recorded, and keeps what it was asked with."""

    def __init__(self, run_id: str, history: Iterable[Entry]) -> None:
        self._run_id = run_id
        self._gives: dict[str, Any] = {}
        self._fails: dict[str, Any] = {}
        for entry in history:
            if entry.kind in ("call", "call_failed"):
                known = self._gives if entry.kind == "call" else self._fails
                known[_ATTEMPT.sub("", entry.path)] = entry.data
        self.asked: dict[str, Args] = {}

    async def send(self, args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        path = (key or "").removeprefix(f"{self._run_id}/")
        self.asked[path] = fresh(args)
        if path not in self._gives:
            raise _Failure(self._fails.get(path, {}).get("message", "not recorded"))
        return fresh(self._gives[path])


class _Failure(Exception):
    """Of a call that failed, or has not ended yet; it is not tried again."""

    retryable = False


async def arguments(app: App, run_id: str) -> Mapping[str, Json]:
    """The arguments of every call that the run has made or is making, by its path without attempts; secrets are
    references. Raises NotFound for an unknown run."""
    row = await off_loop(app.store, lambda: known(app.store, run_id))
    history = await off_loop(app.store, lambda: app.runs.history(run_id))
    listener = _Listener(run_id, history)
    job, _, playing = await play(app, row, listener, _past(history), park=True)
    try:
        async with asyncio.timeout(PATIENCE):
            await playing
    except (TimeoutError, RopewalkError):
        pass  # where the journal ends, or what it has no longer fits: what was asked until then stands
    return {path: job.secrets.value(args) if job.secrets else args for path, args in listener.asked.items()}


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
