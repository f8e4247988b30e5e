"""Replay a run in memory from its journal, with a stub in place of every tool.

A replay calls no tool, waits for nothing and writes nothing. It answers two questions:

- With which arguments did a run call its tools? The journal has only the digest of arguments.
- What is the result of a run that was stopped while no process executed it? Nobody recorded such a result. The replay
  runs to the end of the journal and computes it.

`queries.py` (the service `app.runs`) asks both questions; `prepare_replay` is their common part.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...config.secrets import process_redaction
from ...engine.engine import Engine, Job
from ...errors import RopewalkError
from ...events import Event
from ...journal.address import run_sync_in_thread
from ...journal.memory import MemoryStore
from ...journal.protocol import BEGUN, Entry, RunRow
from ...redaction import Redaction
from ...tools.backends.route import Args, OnProgress, Route
from ...tools.bound_call import Bound, Rules, bind_route
from ...values import Json, fresh
from ..recorded_run import require_run
from ..start import Start
from .program_rows import arguments_in_rows, row_entries
from .steps import late_attempts

if TYPE_CHECKING:
    from ..jobs import Jobs

MAX_SECONDS: Final = 5.0
"""Seconds that a replay may take. After them, callers get what it has found out."""


class ToolStub:
    """Replaces every tool: a subclass answers each call in `send`."""

    version = 0

    def bind(self, tool_id: str) -> Bound:
        """Bind a tool to `send`."""
        return bind_route(tool_id, None, None, Route(send=self.send), Rules())

    async def send(self, args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        """Answer a call."""
        raise NotImplementedError

    async def __call__(self, tool_id: str, args: Args) -> Json:
        raise NotImplementedError("the engine calls bound tools only: `send` needs the key of the call")


class Replay(NamedTuple):
    """A run that is ready to be replayed."""

    job: Job
    store: MemoryStore
    execution: Awaitable[dict[str, Json]]


async def prepare_replay(jobs: Jobs, row: RunRow, tools: ToolStub, past: Iterable[Entry], start: Start) -> Replay:
    """Prepare a run as a job on a store in memory, with a record that the engine does not repeat."""
    job = await jobs.for_replay(row, replace(start, executor=tools, definition=jobs.context.definitions.get(row)))
    job.caller, job.secrets = tools, Redaction()
    store = MemoryStore(durable=True)
    log = await store.open(job.new)
    log.past.update({(entry.path, entry.kind): entry for entry in past})
    return Replay(job, store, Engine(store).drive(job, log))


_ATTEMPT: Final = re.compile(r"@\d+")
_FAILURE_KINDS: Final = ("call_failed", "attempt")
_END_KINDS: Final = ("call", "node", "ending", "offer")


class _ArgumentRecorder(ToolStub):
    """Answers with the recorded values, and keeps the arguments of each call."""

    def __init__(self, run_id: str, history: Iterable[Entry]) -> None:
        self._run_id = run_id
        self._results: dict[str, Any] = {}
        self._failures: dict[str, Any] = {}
        for entry in history:
            if entry.kind in ("call", "call_failed"):
                known = self._results if entry.kind == "call" else self._failures
                known[_ATTEMPT.sub("", entry.path)] = entry.data
        self.arguments: dict[str, Args] = {}

    async def send(self, args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        path = (key or "").removeprefix(f"{self._run_id}/")
        self.arguments[path] = fresh(args)
        if path not in self._results:
            raise _RecordedFailure(self._failures.get(path, {}).get("message", "not recorded"))
        return fresh(self._results[path])


class _RecordedFailure(Exception):
    """Fail a call that has failed or has not ended; it is not retried."""

    retryable = False


async def recorded_arguments(jobs: Jobs, run_id: str) -> Mapping[str, Json]:
    """Return the arguments of every call that a run has made or is making."""
    row = await run_sync_in_thread(jobs.context.store, lambda: require_run(jobs.context.store, run_id))
    history = await run_sync_in_thread(jobs.context.store, lambda: jobs.context.history(run_id))
    recorder = _ArgumentRecorder(run_id, history)
    replay = await prepare_replay(jobs, row, recorder, _decisions(history), Start(park=True))
    # The replay may end early, because the journal ends or no longer fits: the calls until then are still right.
    with contextlib.suppress(TimeoutError, RopewalkError):
        async with asyncio.timeout(MAX_SECONDS):
            await replay.execution
    secrets, found = replay.job.secrets, {**arguments_in_rows(history), **recorder.arguments}
    known = process_redaction()
    return {path: known.value(secrets.value(args) if secrets else args) for path, args in found.items()}


def _decisions(history: Iterable[Entry]) -> Iterable[Entry]:
    """Return the entries that the replay does not repeat: decisions, and the failed attempts before the last one."""

    # Each call is repeated at its last attempt, which shows its arguments.
    listed = list(history)
    late_paths = late_attempts(listed)
    last_failures = {
        _ATTEMPT.sub("", entry.path): entry.path
        for entry in listed
        if entry.kind == "call_failed" or (entry.kind == "attempt" and entry.path in late_paths)
    }
    repeated = set(last_failures.values())
    # The rows of a program have the arguments of its calls, so these are not repeated.
    programs = tuple(f"{program}[" for program in row_entries(listed))
    decisions = [entry for entry in listed if entry.kind not in _END_KINDS or entry.path.startswith(programs)]
    return [entry for entry in decisions if entry.kind not in _FAILURE_KINDS or entry.path not in repeated]


_IDLE_TURNS: Final = 100
"""Turns of the loop in which nothing happens, before all that is recorded has been gone through."""
_IGNORED_KINDS: Final = (BEGUN, "ending", "offer")


class _NeverReturns(ToolStub):
    """Answers nothing: a call that is not recorded never returns."""

    def __init__(self) -> None:
        self.calls = 0

    async def send(self, args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
        self.calls += 1
        await asyncio.Event().wait()


def was_abandoned(row: RunRow) -> bool:
    """Return True for a run that was stopped while no process executed it: it has no result."""
    return row.status == "stopped" and row.result is None


def stopped_result_sync(jobs: Jobs, row: RunRow) -> dict[str, Json] | None:
    """Return what `stopped_result` gives, for callers that are not coroutines."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _on_own_loop(jobs, row)
    with ThreadPoolExecutor(1) as thread:  # this thread's loop is busy with the caller, and a thread has only one
        return thread.submit(_on_own_loop, jobs, row).result()


def _on_own_loop(jobs: Jobs, row: RunRow) -> dict[str, Json] | None:
    # With a factory, so that the runner leaves the thread's current loop as it is.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(stopped_result(jobs, row))


async def ended_result(jobs: Jobs, row: RunRow) -> Json:
    """Return the result of a run that has ended, in the fields of its notation."""
    return await stopped_result(jobs, row) if was_abandoned(row) else row.result


async def stopped_result(jobs: Jobs, row: RunRow) -> dict[str, Json] | None:
    """Compute the result of a run that was stopped while no process executed it, on the running event loop."""
    stub = _NeverReturns()
    events: list[Event] = []
    try:
        history = await run_sync_in_thread(jobs.context.store, lambda: jobs.context.history(row.id))
        recorded = (entry for entry in history if entry.kind not in _IGNORED_KINDS)
        replay = await prepare_replay(jobs, row, stub, recorded, Start(on_event=events.append))
        execution = asyncio.ensure_future(replay.execution)
        # The end of the journal is reached when neither events nor calls come for many turns of the loop.
        idle_turns, last_activity = 0, 0
        deadline = time.monotonic() + MAX_SECONDS
        while idle_turns < _IDLE_TURNS and not execution.done() and time.monotonic() < deadline:
            await asyncio.sleep(0)
            activity = len(events) + stub.calls
            idle_turns = idle_turns + 1 if activity == last_activity else 0
            last_activity = activity
        # Stop the replay where the run was stopped, which gives the result; the time is that of the recorded run.
        replay.store.request_stop(row.id)
        return {**await execution, "duration": round(row.spent * 1000, 3)}
    except RopewalkError:
        return None  # such as after a change of a file that the definition uses
