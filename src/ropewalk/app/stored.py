"""Stored definitions: create, list, copy, export and execute them. Every kind of them shares this implementation.

A stored kind subclasses `StoredDefinitions`, sets its records and the field of its results that holds the id of the
definition, and gives the functions their documented names. Only the one that executes is a coroutine. A subclass of
`AsyncFace` lists those that it offers as coroutines.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Final, Generic, ParamSpec, TypeVar

from ..engine.engine import Job, check_run_id
from ..errors import InvalidFlow, InvalidValue, JournalConflict, NotFound, Problem
from ..journal.address import Lookups, run_sync_in_thread
from ..journal.protocol import Definition, RunRow, Store, iso
from ..notations.fields import normalize_keys, type_name
from ..notations.records import Record, copy_containers
from ..notations.registry import notation_of
from ..values import Json, did_you_mean
from .lookup import can_be
from .start import DEFAULT, Start

if TYPE_CHECKING:
    from .context import Context
    from .jobs import Jobs
    from .runs.queries import RunService

_CONTEXT: Final = ("variables", "input", "request", "executionId")
"""What the context of an execution may hold."""

P = ParamSpec("P")
T = TypeVar("T")
Stored = TypeVar("Stored", bound=Record)
Line = TypeVar("Line", bound=Record)
Result = TypeVar("Result", bound=Record)


class StoredDefinitions(Generic[Stored, Line, Result]):
    """The definitions of one kind in an app's store."""

    kind: ClassVar[str]
    key: ClassVar[str]
    """What a result calls the id of the definition: `chainId`."""
    record_type: type[Stored]
    summary_type: type[Line]
    result_type: type[Result]

    def __init__(self, runs: RunService) -> None:
        self.runs = runs
        self.context: Context = runs.context
        self.jobs: Jobs = runs.jobs
        self._lookups = Lookups(runs.store)

    @property
    def store(self) -> Store:
        """The store of the definitions."""
        return self.context.store

    def create(self, config: Mapping[str, Any] | None = None, /, **more: Any) -> Stored:
        """Check and store a definition; one with the same id is replaced."""
        if config is not None and not isinstance(config, Mapping):
            raise InvalidFlow([Problem(path="", message=f"a {self.kind} is an object, not {type_name(config)}")])
        arguments = {**(config or {}), **more}
        if arguments.get("kind") is not None and (named := notation_of(arguments).kind) != self.kind:
            message = f"this is {_article(named)} {named}, not {_article(self.kind)} {self.kind}"
            raise InvalidFlow([Problem(path="kind", message=message)])
        if arguments.get("id") is None:
            # Not one made of its name: a definition with the same id would be replaced.
            arguments = {**arguments, "id": str(uuid.uuid4())}
        loaded = self.context.definitions.get({**arguments, "kind": self.kind})
        self.context.definitions.ensure(loaded)
        document = loaded.document
        definition = Definition(
            kind=self.kind,
            id=str(document["id"]),
            name=loaded.name,
            document=document,
            fingerprint=loaded.fingerprint,
            created=time.time(),
        )
        self.store.put_definition(definition)
        return self._record(self.store.get_definition(self.kind, definition.id) or definition)

    def get(self, id: str) -> Stored | None:
        """Return a stored definition, or None if there is none with this id."""
        result = self.store.get_definition(self.kind, id) if can_be(id) else None
        return None if result is None else self._record(result)

    def list(self) -> list[Line]:
        """Return a summary of every stored definition."""
        return [self._line(definition) for definition in self.store.list_definitions(self.kind)]

    def delete(self, id: str) -> bool:
        """Delete a definition and keep its executions."""

        # Return False if there is none with this id.
        return can_be(id) and bool(self.store.delete_definition(self.kind, id))

    async def job(self, id: str, context: Mapping[str, Any] | None, start: Start = DEFAULT) -> Job:
        """Prepare an execution of a definition."""
        definition = await self._lookups.ask(lambda: self.stored(id))
        arguments = read_context(context)
        filled = Start(
            executor=start.executor,
            on_event=start.on_event,
            park=start.park,
            definition=self.context.definitions.get(definition),
            definition_id=id,
            run_id=arguments.get("executionId"),
            input=arguments.get("input"),
            variables=arguments.get("variables"),
            request=arguments.get("request"),
        )
        return await self.jobs.new(filled)

    async def execution_result(self, job: Job, result: dict[str, Json]) -> Result:
        """Turn what the engine returned into the result record of this kind."""
        new = job.new
        await self.context.selection.learn(job, result)
        if not result:
            row = await run_sync_in_thread(self.store, lambda: self.store.get_run(new.id))
            assert row is not None  # just ran
            result = self.stopped(row, await self.runs.ended(row))
        if result.get(self.key) != new.definition_id:
            message = f"an execution of the {self.kind} {result.get(self.key)!r} has this id"
            raise JournalConflict(new.id, "", message)
        return self.result_type(result)

    def without_result(self, row: RunRow) -> dict[str, Json]:
        """Return the result of a run that was stopped while no process executed it, without any values."""
        raise NotImplementedError

    def stopped(self, row: RunRow, values: Any) -> dict[str, Json]:
        """Return the result of a run that was stopped while no process executed it."""
        return {**self.without_result(row), **(values or {}), self.key: row.definition_id}

    def stored(self, id: str) -> Definition:
        """Return the definition with this id."""
        result: Definition | None = self.store.get_definition(self.kind, id) if can_be(id) else None
        if result is None:
            ids = [definition.id for definition in self.store.list_definitions(self.kind)]
            raise NotFound(self.kind, id, suggestion=did_you_mean(str(id), ids))
        return result

    def _record(self, definition: Definition) -> Stored:
        return self.record_type({**definition.document, "metadata": metadata_of(definition)})

    def _line(self, definition: Definition) -> Line:
        document = definition.document
        return self.summary_type(
            {
                "id": definition.id,
                "name": document.get("name", ""),
                "description": document.get("description", ""),
                **({"mode": document["mode"]} if "mode" in document else {}),
                "nodeCount": len(document.get("nodes", [])),
                "runCount": definition.run_count,
                "created": iso(definition.created),
            }
        )


Service = TypeVar("Service", bound=StoredDefinitions[Any, Any, Any])


class AsyncFace(Generic[Service]):
    """The functions of a service as coroutines; `core` is the service."""

    def __init__(self, core: Service) -> None:
        self.core = core


def off_loop_method(
    method: Callable[Concatenate[Service, P], T],
) -> Callable[Concatenate[AsyncFace[Service], P], Coroutine[Any, Any, T]]:
    """Return a coroutine method for an `AsyncFace` that calls `method` of its service without holding the event
    loop."""

    @wraps(method)
    async def call(face: AsyncFace[Service], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run_sync_in_thread(face.core.store, lambda: method(face.core, *args, **kwargs))

    return call


def metadata_of(definition: Definition) -> dict[str, Json]:
    """Return the metadata that stored definitions have."""
    return {"created": iso(definition.created), "runCount": definition.run_count}


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def read_context(context: Mapping[str, Any] | None) -> dict[str, Any]:
    """Check the context of an execution."""
    if context is None:
        return {}
    if not isinstance(context, Mapping):
        message = f"is an object with variables, input, request and executionId, not {type_name(context)}"
        raise InvalidFlow([Problem(path="context", message=message)])
    problems: list[Problem] = []
    fields = normalize_keys(context, dict.fromkeys(_CONTEXT), "context", problems)
    # What the caller does to the values later is no part of the run.
    arguments: dict[str, Any] = {name: copy_containers(value) for name, value in fields.items()}
    variables = arguments.get("variables")
    if variables is not None and not isinstance(variables, Mapping):
        problems.append(Problem(path="context.variables", message="must be an object"))
    run_id = arguments.get("executionId")
    try:
        check_run_id(run_id, "context.executionId")
    except InvalidValue as exc:
        problems.append(Problem(path="context.executionId", message=exc.message))
    if not isinstance(arguments.get("request", ""), str):
        problems.append(Problem(path="context.request", message="must be a string that describes the task of the run"))
    if problems:
        raise InvalidFlow(problems)
    return arguments
