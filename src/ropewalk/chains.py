"""Tool chains as users call them: create, execute, look at, stop. Stored, so they survive a restart.

`ChainService` is the one synchronous core; `Chains` (`app.chains`) is its async face, and
`ropewalk.toolchain` its plain functions over a default app.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from .dialects.fields import camel, kind
from .dialects.records import (
    ChainObject,
    ChainSummary,
    ExecutionDetails,
    ExecutionResult,
    ExecutionStatus,
    copied,
)
from .errors import InvalidFlow, JournalConflict, NotFound, Problem
from .journal.journal import Definition
from .runs import event_of, iso, step
from .values import Json, closest, is_json

if TYPE_CHECKING:
    from .app import App

Executor = Callable[[str, dict[str, Json]], Awaitable[Json]]
OWN = ("id", "metadata", "created")


class ChainService:
    """The chains of an app. Every method but `execute_chain` is synchronous and short."""

    def __init__(self, app: App) -> None:
        self.app = app

    @property
    def store(self) -> Any:
        return self.app.store

    def create_chain(self, config: Mapping[str, Any] | None = None, /, **more: Any) -> ChainObject:
        """Check and store a chain; raises InvalidFlow with every problem. The same id replaces."""
        if config is not None and not isinstance(config, Mapping):
            raise InvalidFlow([Problem(path="", message=f"a chain is an object, not {kind(config)}")])
        loaded = self.app.loaded({**(config or {}), **more, "kind": "chain"})
        self.app.ensure(loaded)
        document = loaded.document
        definition = Definition(
            kind="chain",
            id=str(document["id"]),
            name=loaded.name,
            document=document,
            fingerprint=loaded.fingerprint,
            created=time.time(),
        )
        self.store.put_definition(definition)
        return _chain(self.store.get_definition("chain", definition.id) or definition)

    def get_chain(self, chain_id: str) -> ChainObject | None:
        found = self.store.get_definition("chain", chain_id) if _can_be(chain_id) else None
        return None if found is None else _chain(found)

    def list_chains(self) -> list[ChainSummary]:
        return [_summary(definition) for definition in self.store.list_definitions("chain")]

    def delete_chain(self, chain_id: str) -> bool:
        """Forget a chain; its executions stay. False when there is none."""
        return _can_be(chain_id) and bool(self.store.delete_definition("chain", chain_id))

    def clone_chain(self, chain_id: str, overrides: Mapping[str, Any] | None = None, /, **more: Any) -> ChainObject:
        """A deep copy under a new id, some properties replaced."""
        source = self._stored(chain_id)
        config = {key: value for key, value in source.document.items() if key not in OWN}
        for key, value in {**(overrides or {}), **more}.items():
            # Either spelling replaces what is there, which is always in the documented one.
            config[camel(key) if camel(key) in config else key] = value
        return self.create_chain(config)

    def export_chain(self, chain_id: str) -> str:
        """The chain as JSON text that `import_chain` reads back."""
        source = self._stored(chain_id)
        metadata = {"created": iso(source.created), "runCount": source.run_count}
        document = {"kind": "chain", **source.document, "metadata": metadata}
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()

    def import_chain(self, json: str | bytes | Mapping[str, Any]) -> ChainObject:
        """Store an exported chain under a new id."""
        document: Any = json
        if isinstance(json, (str, bytes)):
            try:
                document = orjson.loads(json)
            except orjson.JSONDecodeError as exc:
                message = f"not JSON: {exc.msg} (line {exc.lineno}, column {exc.colno})"
                raise InvalidFlow([Problem(path="", message=message)]) from exc
        if not isinstance(document, Mapping):
            raise InvalidFlow([Problem(path="", message="an exported chain is a JSON object")])
        return self.create_chain({key: value for key, value in document.items() if key not in OWN})

    async def execute_chain(
        self,
        chain_id: str,
        context: Mapping[str, Any] | None = None,
        tool_executor: Executor | None = None,
        *,
        on_event: Callable[[Any], None] | None = None,
    ) -> ExecutionResult:
        """Run a stored chain. `context` holds variables, input and executionId; an unknown chain
        raises NotFound. What went wrong in a tool is in the result, not raised."""
        definition = self._stored(chain_id)
        given = _context(context)
        result = await self.app.execute(
            self.app.definitions.stored(definition),
            definition_id=chain_id,
            run_id=given.get("executionId"),
            input=given.get("input"),
            variables=given.get("variables"),
            executor=tool_executor,
            on_event=on_event,
        )
        if not result:
            result = self._without_result(str(given.get("executionId")))
        if result.get("chainId") != chain_id:
            message = f"an execution of the chain {result.get('chainId')!r} has this id"
            raise JournalConflict(str(given.get("executionId")), "", message)
        return ExecutionResult(result)

    def get_execution_status(self, execution_id: str) -> ExecutionStatus | None:
        row = self._run(execution_id)
        return None if row is None else ExecutionStatus(self._status(row))

    def get_execution_details(self, execution_id: str) -> ExecutionDetails | None:
        """The status and everything recorded: results, attempts, events."""
        row = self._run(execution_id)
        if row is None:
            return None
        history = self.app.runs.history(execution_id)
        result = row.result or {}
        return ExecutionDetails(
            {
                **self._status(row),
                "input": row.input,
                "context": row.context,
                "results": result.get("results", {}),
                "variables": result.get("variables", {}),
                "errors": result.get("errors", []),
                "duration": result.get("duration"),
                "nodes": [step(entry) for entry in history],
                "events": [event_of(execution_id, entry).to_dict() for entry in history],
            }
        )

    def _without_result(self, execution_id: str) -> dict[str, Json]:
        """What is to be said of a run that was stopped while nobody ran it."""
        row = self.store.get_run(execution_id)
        error = {"nodeId": None, "tool": None, "message": f"run {execution_id} was stopped", "kind": "RunStopped"}
        return {
            "success": False,
            "executionId": execution_id,
            "chainId": row.definition_id,
            "status": row.status,
            "results": {},
            "variables": {},
            "errors": [{**error, "attempts": 1}],
            "duration": round(row.spent * 1000, 3),
        }

    def list_executions(self, chain_id: str | None = None, *, limit: int = 100) -> list[ExecutionStatus]:
        """Newest first; of one chain, or of all."""
        if chain_id is not None and not _can_be(chain_id):
            return []
        rows = self.store.list_runs(kind="chain", definition_id=chain_id, limit=limit)
        return [ExecutionStatus(self._status(row)) for row in rows]

    def stop_execution(self, execution_id: str) -> bool:
        """Mark a running execution as stopped at once, in whatever process it runs."""
        return _can_be(execution_id) and self.app.runs.stop(execution_id)

    def _run(self, execution_id: str) -> Any:
        return self.store.get_run(execution_id) if _can_be(execution_id) else None

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

    def _stored(self, chain_id: str) -> Definition:
        found: Definition | None = self.store.get_definition("chain", chain_id) if _can_be(chain_id) else None
        if found is None:
            ids = [definition.id for definition in self.store.list_definitions("chain")]
            raise NotFound("chain", chain_id, suggestion=closest(str(chain_id), ids))
        return found


def _can_be(id: Any) -> bool:
    """Whether anything can have this id: a store is not asked about what it cannot hold."""
    return isinstance(id, str) and is_json(id)


def _chain(definition: Definition) -> ChainObject:
    metadata = {"created": iso(definition.created), "runCount": definition.run_count}
    return ChainObject({**definition.document, "metadata": metadata})


def _summary(definition: Definition) -> ChainSummary:
    document = definition.document
    return ChainSummary(
        {
            "id": definition.id,
            "name": document.get("name", ""),
            "description": document.get("description", ""),
            "mode": document.get("mode"),
            "nodeCount": len(document.get("nodes", [])),
            "runCount": definition.run_count,
            "created": iso(definition.created),
        }
    )


CONTEXT = {"variables": "variables", "input": "input", "executionId": "executionId", "execution_id": "executionId"}


def _context(context: Mapping[str, Any] | None) -> dict[str, Any]:
    given: dict[str, Any] = {}
    problems = []
    if context is not None and not isinstance(context, Mapping):
        message = f"is an object with variables, input and executionId, not {kind(context)}"
        raise InvalidFlow([Problem(path="context", message=message)])
    for key, value in (context or {}).items():
        name = CONTEXT.get(key)
        if name is None:
            problems.append(Problem(path=f"context.{key}", message="unknown key", suggestion=closest(key, CONTEXT)))
        else:
            given[name] = copied(value)  # what the caller does to it later is no part of the run
    variables = given.get("variables")
    if variables is not None and not isinstance(variables, Mapping):
        problems.append(Problem(path="context.variables", message="must be an object"))
    run_id = given.get("executionId")
    if run_id is not None and (not isinstance(run_id, str) or not run_id or not is_json(run_id)):
        message = "must be a non-empty string without NUL characters and lone surrogates"
        problems.append(Problem(path="context.executionId", message=message))
    if problems:
        raise InvalidFlow(problems)
    return given


class Chains:
    """`app.chains`: the documented functions as coroutines."""

    def __init__(self, core: ChainService) -> None:
        self.core = core

    async def create_chain(self, config: Mapping[str, Any] | None = None, /, **more: Any) -> ChainObject:
        return self.core.create_chain(config, **more)

    async def execute_chain(
        self,
        chain_id: str,
        context: Mapping[str, Any] | None = None,
        tool_executor: Executor | None = None,
        *,
        on_event: Callable[[Any], None] | None = None,
    ) -> ExecutionResult:
        return await self.core.execute_chain(chain_id, context, tool_executor, on_event=on_event)

    async def get_chain(self, chain_id: str) -> ChainObject | None:
        return self.core.get_chain(chain_id)

    async def list_chains(self) -> list[ChainSummary]:
        return self.core.list_chains()

    async def delete_chain(self, chain_id: str) -> bool:
        return self.core.delete_chain(chain_id)

    async def get_execution_status(self, execution_id: str) -> ExecutionStatus | None:
        return self.core.get_execution_status(execution_id)

    async def get_execution_details(self, execution_id: str) -> ExecutionDetails | None:
        return self.core.get_execution_details(execution_id)

    async def list_executions(self, chain_id: str | None = None, *, limit: int = 100) -> list[ExecutionStatus]:
        return self.core.list_executions(chain_id, limit=limit)

    async def stop_execution(self, execution_id: str) -> bool:
        return self.core.stop_execution(execution_id)

    async def clone_chain(
        self, chain_id: str, overrides: Mapping[str, Any] | None = None, /, **more: Any
    ) -> ChainObject:
        return self.core.clone_chain(chain_id, overrides, **more)

    async def export_chain(self, chain_id: str) -> str:
        return self.core.export_chain(chain_id)

    async def import_chain(self, json: str | bytes | Mapping[str, Any]) -> ChainObject:
        return self.core.import_chain(json)
