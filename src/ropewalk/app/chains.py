"""Tool chains as users call them: create, execute, inspect, stop. They are stored, so they survive a restart.

`ChainService` implements every function. `Chains` (`app.chains`) has them as coroutines, and `ropewalk.toolchain` as
plain functions over a default app.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import InvalidFlow, Problem
from ..journal.address import run_sync_in_thread
from ..journal.protocol import RunRow
from ..notations.fields import camel, type_name
from ..notations.records import ChainObject, ChainSummary, ExecutionDetails, ExecutionResult, ExecutionStatus
from ..source.document import json_text
from ..values import Json
from .lookup import can_be
from .runs.argument_checks import require
from .runs.pages import with_untaken
from .runs.simulate import was_abandoned
from .runs.steps import events_of, run_summary, steps
from .start import Executor, Start
from .stored import AsyncFace, StoredDefinitions, metadata_of, off_loop_method

_OWN: Final = ("id", "metadata", "created")
"""What a copy of a chain does not have of it."""
_STATUS: Final = ("status", "startTime", "endTime", "currentNode", "resultCount", "errorCount")
"""What a status has of the line of a run."""


class ChainService(StoredDefinitions[ChainObject, ChainSummary, ExecutionResult]):
    """The chains of an app."""

    # Every method but `execute_chain` is synchronous.

    kind, key = "chain", "chainId"
    record_type, summary_type, result_type = ChainObject, ChainSummary, ExecutionResult

    def create_chain(self, config: Mapping[str, Any] | None = None, /, **more: Any) -> ChainObject:
        """Check and store a chain; one with the same id is replaced.

        Args:
            config: The chain's document.
            more: Fields of the document, which win over those of `config`.

        Returns:
            The stored chain, with its id.

        Raises:
            InvalidFlow: The document is wrong. The text and `.problems` hold every problem.
        """
        return self.create(config, **more)

    async def execute_chain(
        self,
        chain_id: str,
        context: Mapping[str, Any] | None = None,
        tool_executor: Executor | None = None,
        *,
        on_event: Callable[[Any], None] | None = None,
    ) -> ExecutionResult:
        """Run a stored chain.

        Args:
            chain_id: The id of the chain.
            context: May hold `variables`, `input`, `request` and `executionId`.
            tool_executor: `async (tool_name, params) -> result`; the app's toolbox unless given.
            on_event: Receives each event of the run.

        Returns:
            The result. It holds the errors of the tools, too: they are not raised.

        Raises:
            NotFound: The chain does not exist.
            InvalidFlow: The context is wrong.
        """
        job = await self.job(chain_id, context, Start(executor=tool_executor, on_event=on_event))
        return await self.execution_result(job, await self.context.engine.run(job))

    def get_chain(self, chain_id: str) -> ChainObject | None:
        """Return a stored chain.

        Args:
            chain_id: The id of the chain.

        Returns:
            The chain, or None if there is none with this id.
        """
        return self.get(chain_id)

    def list_chains(self) -> list[ChainSummary]:
        """List the stored chains.

        Returns:
            A summary of each chain.
        """
        return self.list()

    def delete_chain(self, chain_id: str) -> bool:
        """Delete a chain. Its executions are kept.

        Args:
            chain_id: The id of the chain.

        Returns:
            True if the chain existed.
        """
        return self.delete(chain_id)

    def clone_chain(self, chain_id: str, overrides: Mapping[str, Any] | None = None, /, **more: Any) -> ChainObject:
        """Store a deep copy of a chain under a new id.

        Args:
            chain_id: The id of the chain to copy.
            overrides: Fields of the copy that replace those of the chain.
            more: Further such fields, which win over those of `overrides`.

        Returns:
            The new chain, with its own id.

        Raises:
            NotFound: The chain does not exist.
            InvalidFlow: The new id is taken, or the copy is wrong.
        """
        source = self.stored(chain_id)
        if overrides is not None and not isinstance(overrides, Mapping):
            message = f"must be an object of the fields to replace, not {type_name(overrides)}"
            raise InvalidFlow([Problem(path="overrides", message=message)])
        arguments = {**(overrides or {}), **more}
        new = arguments.get("id")
        if isinstance(new, str) and self.get(new) is not None:
            message = f"there is a chain {new!r} already; a copy needs an id of its own"
            raise InvalidFlow([Problem(path="id", message=message)])
        # Either spelling replaces what is there, which is always in the documented one.
        replaced_keys = {*_OWN, *arguments, *(camel(key) for key in arguments if isinstance(key, str))}
        remaining = {key: value for key, value in source.document.items() if key not in replaced_keys}
        return self.create({**remaining, **arguments})

    def export_chain(self, chain_id: str) -> str:
        """Export a chain for `import_chain`.

        Args:
            chain_id: The id of the chain.

        Returns:
            The chain as JSON text.

        Raises:
            NotFound: There is no chain with this id.
        """
        source = self.stored(chain_id)
        document = {"kind": "chain", **source.document, "metadata": metadata_of(source)}
        return json_text(document)

    def import_chain(self, json: str | bytes | Mapping[str, Any]) -> ChainObject:
        """Store an exported chain under a new id.

        Args:
            json: The chain as JSON text or as an object.

        Returns:
            The stored chain.

        Raises:
            InvalidFlow: The chain is wrong; with every problem.
        """
        document: Any = json
        if isinstance(json, (str, bytes)):
            try:
                text = json if isinstance(json, str) else json.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InvalidFlow([Problem(path="", message=f"not UTF-8: {error.reason} at {error.start}")]) from error
            from ..source.load import load  # files and their places: most who store definitions have none

            document = load(text, form="json").data
        if not isinstance(document, Mapping):
            raise InvalidFlow([Problem(path="", message="this is not an exported chain: it must be a JSON object")])
        return self.create({key: value for key, value in document.items() if key not in _OWN})

    def get_execution_status(self, execution_id: str) -> ExecutionStatus | None:
        """Return the status of an execution.

        Args:
            execution_id: The id of the execution.

        Returns:
            The status, or None if there is no execution with this id.
        """
        row = self.row(execution_id)
        return None if row is None else ExecutionStatus(self._status(row))

    def get_execution_details(self, execution_id: str) -> ExecutionDetails | None:
        """Return everything recorded of an execution: results, attempts and events.

        Args:
            execution_id: The id of the execution.

        Returns:
            The details, or None if there is no execution with this id.
        """
        row = self.row(execution_id)
        return None if row is None else self.details(row, self.runs.result(row))

    def details(self, row: RunRow, result: Json) -> ExecutionDetails:
        """Return everything recorded of an execution."""
        decided = with_untaken(self.context, row, self.runs.history(row.id))
        ending: Any = result or {}
        counts = {}
        if was_abandoned(row):
            ending = self.stopped(row, result)
            counts = {"resultCount": len(ending["results"]), "errorCount": len(ending["errors"])}
        return ExecutionDetails(
            {
                **self._status(row),
                "input": row.input,
                "context": row.context,
                **counts,
                "results": ending.get("results", {}),
                "variables": ending.get("variables", {}),
                "errors": ending.get("errors", []),
                "duration": ending.get("duration"),
                "nodes": steps(decided, row),
                "events": [event.to_dict() for _, event in events_of(row.id, decided)],
            }
        )

    def without_result(self, row: RunRow) -> dict[str, Json]:
        """Return the result of a run that was stopped and has none."""
        error = {"message": f"run {row.id} was stopped", "kind": "RunStopped", "attempts": 1}
        return {
            "success": False,
            "executionId": row.id,
            "chainId": row.definition_id,
            "status": row.status,
            "results": {},
            "variables": {},
            "errors": [{"nodeId": None, "path": None, "tool": None, **error}],
            "duration": round(row.spent * 1000, 3),
        }

    def list_executions(self, chain_id: str | None = None, *, limit: int | None = None) -> list[ExecutionStatus]:
        """Return the executions of a chain, or of all chains, newest first.

        Args:
            chain_id: The id of the chain. Default: all chains.
            limit: Maximum number of executions. Default: all.

        Returns:
            The status of each execution.

        Raises:
            InvalidInput: The limit is not a whole number of 0 or more.
        """
        require([("limit", "int | None", limit)])
        if chain_id is not None and not can_be(chain_id):
            return []
        rows = self.store.list_runs(kind="chain", definition_id=chain_id, limit=sys.maxsize if limit is None else limit)
        return [ExecutionStatus(self._status(row)) for row in rows]

    def stop_execution(self, execution_id: str) -> bool:
        """Stop a running or waiting execution, in any process.

        Args:
            execution_id: The id of the execution.

        Returns:
            True if it was running or waiting, False otherwise.
        """
        return can_be(execution_id) and self.runs.stop(execution_id)

    def row(self, execution_id: str) -> RunRow | None:
        """Return the row of an execution with its result so far."""
        return self.store.get_run(execution_id, so_far=True) if can_be(execution_id) else None

    def _status(self, row: RunRow) -> dict[str, Json]:
        line = run_summary(row, self.runs.current(row))
        return {"id": row.id, "chainId": row.definition_id, **{name: line[name] for name in _STATUS}}


class Chains(AsyncFace[ChainService]):
    """`app.chains`: the functions of `ChainService` as coroutines."""

    def __init__(self, core: ChainService) -> None:
        super().__init__(core)
        self.execute_chain = core.execute_chain

    create_chain = off_loop_method(ChainService.create_chain)
    get_chain = off_loop_method(ChainService.get_chain)
    list_chains = off_loop_method(ChainService.list_chains)
    delete_chain = off_loop_method(ChainService.delete_chain)
    clone_chain = off_loop_method(ChainService.clone_chain)
    export_chain = off_loop_method(ChainService.export_chain)
    import_chain = off_loop_method(ChainService.import_chain)
    get_execution_status = off_loop_method(ChainService.get_execution_status)
    list_executions = off_loop_method(ChainService.list_executions)
    stop_execution = off_loop_method(ChainService.stop_execution)

    async def get_execution_details(self, execution_id: str) -> ExecutionDetails | None:
        """Return everything recorded of an execution: results, attempts and events.

        Args:
            execution_id: The id of the execution.

        Returns:
            The details, or None if there is no execution with this id.
        """
        core = self.core
        row = await run_sync_in_thread(core.store, lambda: core.row(execution_id))
        if row is None:
            return None
        result = await core.runs.ended(row)
        return await run_sync_in_thread(core.store, lambda: core.details(row, result))
