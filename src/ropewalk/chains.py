"""Tool chains as users call them: create, execute, look at, stop. Stored, so they survive a restart.

`ChainService` is the one synchronous core; `Chains` (`app.chains`) is its async face, and
`ropewalk.toolchain` its plain functions over a default app.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .dialects.fields import count
from .dialects.records import ChainObject, ChainSummary, ExecutionDetails, ExecutionResult, ExecutionStatus
from .errors import InvalidInput, Problem
from .journal.offloop import off_loop
from .runs import events_of, iso, steps
from .runs.remains import let_go, remains
from .runs.untaken import with_untaken
from .stored import Executor, StoredDefinitions, can_be
from .values import Json


class ChainService(StoredDefinitions[ChainObject, ChainSummary, ExecutionResult]):
    """The chains of an app. Every method but `execute_chain` is synchronous and short."""

    kind, key = "chain", "chainId"
    made, line, result = ChainObject, ChainSummary, ExecutionResult

    create_chain = StoredDefinitions.create
    get_chain = StoredDefinitions.get
    list_chains = StoredDefinitions.list
    delete_chain = StoredDefinitions.delete
    clone_chain = StoredDefinitions.clone
    export_chain = StoredDefinitions.export
    import_chain = StoredDefinitions.take

    async def execute_chain(
        self,
        chain_id: str,
        context: Mapping[str, Any] | None = None,
        tool_executor: Executor | None = None,
        *,
        on_event: Callable[[Any], None] | None = None,
    ) -> ExecutionResult:
        """Run a stored chain. `context` holds variables, input, request and executionId; an unknown chain
        raises NotFound. What went wrong in a tool is in the result, not raised."""
        job = await self.job(chain_id, context, tool_executor, on_event)
        return await self.told(job, await self.app.engine.run(job))

    def get_execution_status(self, execution_id: str) -> ExecutionStatus | None:
        row = self._run(execution_id)
        return None if row is None else ExecutionStatus(self._status(row))

    def get_execution_details(self, execution_id: str) -> ExecutionDetails | None:
        """The status and everything recorded: results, attempts, events."""
        row = self._run(execution_id)
        if row is None:
            return None
        decided = with_untaken(self.app, row, self.app.runs.history(execution_id))
        result = row.result or (self.without_result(row) if let_go(row) else {})
        return ExecutionDetails(
            {
                **self._status(row),
                "input": row.input,
                "context": row.context,
                **({"resultCount": len(result["results"]), "errorCount": len(result["errors"])} if let_go(row) else {}),
                "results": result.get("results", {}),
                "variables": result.get("variables", {}),
                "errors": result.get("errors", []),
                "duration": result.get("duration"),
                "nodes": steps(decided, row),
                "events": [event.to_dict() for _, event in events_of(execution_id, decided)],
            }
        )

    def without_result(self, row: Any) -> dict[str, Json]:
        error = {"message": f"run {row.id} was stopped", "kind": "RunStopped", "attempts": 1}
        stopped: dict[str, Json] = {
            "success": False,
            "executionId": row.id,
            "chainId": row.definition_id,
            "status": row.status,
            "results": {},
            "variables": {},
            "errors": [{"nodeId": None, "path": None, "tool": None, **error}],
            "duration": round(row.spent * 1000, 3),
        }
        return {**stopped, **(remains(self.app, row) or {}), "chainId": row.definition_id}

    def list_executions(self, chain_id: str | None = None, *, limit: int | None = None) -> list[ExecutionStatus]:
        """Newest first; of one chain, or of all chains. At most `limit`, without one all."""
        most = sys.maxsize if limit is None else limit
        problems: list[Problem] = []
        count(most, "limit", problems)
        if problems:
            raise InvalidInput(problems)
        if chain_id is not None and not can_be(chain_id):
            return []
        rows = self.store.list_runs(kind="chain", definition_id=chain_id, limit=min(most, sys.maxsize))
        return [ExecutionStatus(self._status(row)) for row in rows]

    def stop_execution(self, execution_id: str) -> bool:
        """Mark a running execution as stopped at once, in whatever process it runs."""
        return can_be(execution_id) and self.app.runs.stop(execution_id)

    def _run(self, execution_id: str) -> Any:
        return self.store.get_run(execution_id, so_far=True) if can_be(execution_id) else None

    def _status(self, row: Any) -> dict[str, Json]:
        return {
            "id": row.id,
            "chainId": row.definition_id,
            "status": row.status,
            "startTime": iso(row.started_at),
            "endTime": iso(row.ended_at),
            "currentNode": self.app.runs.current(row),
            "resultCount": row.result_count,
            "errorCount": row.error_count,
        }


class Chains:
    """`app.chains`: the documented functions as coroutines."""

    def __init__(self, core: ChainService) -> None:
        self.core = core
        # As it is, not wrapped: every suspension of every tool goes through all coroutines that stand around it.
        self.execute_chain = core.execute_chain

    async def create_chain(self, config: Mapping[str, Any] | None = None, /, **more: Any) -> ChainObject:
        return await off_loop(self.core.store, lambda: self.core.create_chain(config, **more))

    async def get_chain(self, chain_id: str) -> ChainObject | None:
        return await off_loop(self.core.store, lambda: self.core.get_chain(chain_id))

    async def list_chains(self) -> list[ChainSummary]:
        return await off_loop(self.core.store, lambda: self.core.list_chains())

    async def delete_chain(self, chain_id: str) -> bool:
        return await off_loop(self.core.store, lambda: self.core.delete_chain(chain_id))

    async def get_execution_status(self, execution_id: str) -> ExecutionStatus | None:
        return await off_loop(self.core.store, lambda: self.core.get_execution_status(execution_id))

    async def get_execution_details(self, execution_id: str) -> ExecutionDetails | None:
        # Always on a thread: what is left of a stopped run is found by running its definition once more.
        return await asyncio.to_thread(self.core.get_execution_details, execution_id)

    async def list_executions(self, chain_id: str | None = None, *, limit: int | None = None) -> list[ExecutionStatus]:
        return await off_loop(self.core.store, lambda: self.core.list_executions(chain_id, limit=limit))

    async def stop_execution(self, execution_id: str) -> bool:
        return await off_loop(self.core.store, lambda: self.core.stop_execution(execution_id))

    async def clone_chain(
        self, chain_id: str, overrides: Mapping[str, Any] | None = None, /, **more: Any
    ) -> ChainObject:
        return await off_loop(self.core.store, lambda: self.core.clone_chain(chain_id, overrides, **more))

    async def export_chain(self, chain_id: str) -> str:
        return await off_loop(self.core.store, lambda: self.core.export_chain(chain_id))

    async def import_chain(self, json: str | bytes | Mapping[str, Any]) -> ChainObject:
        return await off_loop(self.core.store, lambda: self.core.import_chain(json))
