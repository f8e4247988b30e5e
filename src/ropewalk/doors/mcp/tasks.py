"""Flows as tasks: a durable run is the task, and its id is the task's.

A task survives its server: the next one resumes it from its journal. Its result is the recorded result of the run, for
as long as the store keeps runs. Refused: tasks of tools other than flows, and runs that were not started as a task.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from ...app.runs.recovery import Recovery
from ...engine.flow_tool import value_of_run
from ...errors import FlowFailed, RopewalkError, RunBusy, message_of
from ...journal.address import run_sync_in_thread
from ...journal.protocol import ENDS, RunRow, iso
from ...tools.mcp.call_client import CLIENT
from ...values import Json, digest
from .results import failed, flow_failed, given, missed
from .tool_source import ExposedTool
from .waits import answer_waits, open_waits, questions_of

if TYPE_CHECKING:
    from ...app.app import App
    from ...engine.engine import Job

log = logging.getLogger("ropewalk.mcp.server")

PREFIX: Final = "task-"
"""Prefix of the ids of runs that are tasks."""
_AT_ONCE: Final = 64  # runs of tasks that are executed at the same time
_MAX_LISTED: Final = 1000
_POLL: Final = 0.1  # seconds between looks of a client that waits for the result
POLL_INTERVAL: Final = 1000
"""Milliseconds that a client should wait between two looks."""
TERMINAL: Final = ("completed", "failed", "cancelled")


class _TaskRecovery(Recovery):
    """Resumes the tasks whose process died, and no other run."""

    def _is_ours(self, run_id: str) -> bool:
        return run_id.startswith(PREFIX) and super()._is_ours(run_id)


class Tasks:
    """The tasks of an app."""

    def __init__(self, app: App, at_once: int = _AT_ONCE) -> None:
        self._app = app
        self._recovery = _TaskRecovery(app, at_once=at_once)
        self._places = asyncio.Semaphore(at_once)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, str] = {}  # why a run cannot be continued here, by its id

    def start(self) -> None:
        """Begin to resume the tasks of servers that died."""
        self._recovery.start()

    async def close(self) -> None:
        """Hand the running tasks back: the next server resumes them."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._recovery.close()

    async def create(self, tool: ExposedTool, args: dict[str, Json], key: str | None) -> dict[str, Any]:
        """Create a task."""

        # When this returns, the run is in the store.
        assert tool.task is not None
        run_id = PREFIX + (secrets.token_hex(16) if key is None else digest([tool.id, key]))
        if run_id not in self._running:
            job = await tool.task(args, run_id)
            job.park = True
            if self._app.distributed:
                await self._app.workers.enqueue(job)
            else:
                await self._begin(job)
        return await self.get(run_id)

    async def get(self, id: str) -> dict[str, Any]:
        """Return the state of a task."""
        row = await self._row(id)
        shown: dict[str, Any] = {
            "taskId": id,
            "createdAt": iso(row.started_at),
            "lastUpdatedAt": iso(row.ended_at or row.started_at),
            "ttlMs": None,
            "pollIntervalMs": POLL_INTERVAL,
        }
        if row.status == "stopped" and row.stop_requested:
            return {**shown, "status": "cancelled", "statusMessage": "The task was cancelled."}
        if row.status == "parked" or id in self._refused:
            why = self._refused.get(id, "the run is parked: processes died while they executed it")
            return {**shown, "status": "failed", "error": _internal_error(f"run {id}: {why}"), "statusMessage": why}
        if row.status in ENDS:
            return {**shown, "status": "completed", "result": _dumped(await self._result(row))}
        waits = await open_waits(self._app, id)
        if waits:
            requests = await questions_of(self._app, id, waits)
            return {**shown, "status": "input_required", "inputRequests": requests}
        if row.status == "waiting":  # answered, or its time is over
            self._continue(id)
        return {**shown, "status": "working"}

    async def update(self, id: str, responses: dict[str, Any]) -> None:
        """Give answers to what a task waits for, and continue it."""
        row = await self._row(id)
        if row.status not in ENDS and await answer_waits(self._app, id, responses):
            self._continue(id)

    async def cancel(self, id: str) -> None:
        """Stop the run of a task."""

        # A task that has ended stays as it is.
        row = await self._row(id)
        if row.status not in ENDS:
            await run_sync_in_thread(self._app.store, lambda: self._app.runs.stop(id))

    async def result(self, id: str) -> dict[str, Any]:
        """Return a task when it has ended or needs input."""
        while True:
            task = await self.get(id)
            if task["status"] != "working":
                return task
            await asyncio.sleep(_POLL)

    async def list(self) -> list[dict[str, Any]]:
        """Return the newest tasks, newest first, without results."""
        rows = await run_sync_in_thread(self._app.store, lambda: self._app.runs.list(text=PREFIX, limit=_MAX_LISTED))
        tasks = [await self.get(row.id) for row in rows if row.id.startswith(PREFIX)]
        return [{key: value for key, value in task.items() if key not in _DETAILS} for task in tasks]

    # --- inside

    async def _row(self, id: str) -> RunRow:
        row = None
        if id.startswith(PREFIX):
            row = await run_sync_in_thread(self._app.store, lambda: self._app.store.get_run(id))
        if row is None or row.parent is not None:
            raise KeyError(id)
        return row

    async def _begin(self, job: Job) -> None:
        """Open the run of a task, so that it is in the store, and execute it in the background."""
        try:
            opened = await self._app.engine.open(job)
        except RunBusy:  # the same task, made by another server
            return
        if opened.finished is not None:
            return
        self._start(job.new.id, lambda: self._app.jobs.continue_run(job, opened))

    def _continue(self, id: str) -> None:
        """Resume a run that was answered, unless it is being executed."""
        if id not in self._running and id not in self._app.engine.live:
            self._start(id, lambda: self._app.resume(id, park=True))

    def _start(self, id: str, execute: Any) -> None:
        # The client's request is over when the run goes on: nobody can be asked in it.
        context = copy_context()
        context.run(CLIENT.set, None)
        self._running[id] = asyncio.get_running_loop().create_task(self._execute(id, execute), context=context)

    async def _execute(self, id: str, execute: Any) -> None:
        try:
            async with self._places:
                await execute()
        except RunBusy:  # another server was faster
            pass
        except RopewalkError as error:
            log.warning("task %s cannot be continued here: %s", id, error)
            self._refused[id] = "it cannot be continued here; the log of the server says why"
        except Exception:
            log.exception("task %s ended by an internal error", id)
            self._refused[id] = "internal error; the log of the server has it"
        finally:
            del self._running[id]

    async def _result(self, row: RunRow) -> Any:
        """Return the recorded result of a run as the result of its tool."""
        values: Any = await self._app.runs.ended(row)
        result: dict[str, Any] = {**(values or {}), "status": row.status, "executionId": row.id}
        about: dict[str, Json] = {"runId": row.id, "status": row.status}
        try:
            value = value_of_run(result, row.kind)
        except FlowFailed as error:
            return flow_failed(error)
        except RopewalkError as error:
            return failed(message_of(error), about)
        schema: Any = (row.context or {}).get("output")
        return given(value, schema, about=about, note=missed(result))


_DETAILS: Final = ("result", "error", "inputRequests")


def _internal_error(message: str) -> dict[str, Any]:
    return {"code": -32603, "message": message}


def _dumped(result: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dumped
