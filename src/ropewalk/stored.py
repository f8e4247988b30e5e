"""Stored definitions: created, listed, copied, written out and executed. What every kind has in common.

A kind that is stored subclasses `StoredDefinitions` with its records and the name its results give the
definition's id, and names the functions as its documents do. Every method but `execute` is synchronous and short.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import orjson

from .dialects.fields import camel, kind
from .dialects.notation import notation_of
from .dialects.records import ChainObject, CompositionObject, Record, copied
from .engine.engine import Job, check_run_id
from .errors import InvalidFlow, InvalidValue, JournalConflict, NotFound, Problem
from .journal.journal import Definition
from .journal.offloop import Lookups
from .runs import iso
from .values import Json, closest, is_json

if TYPE_CHECKING:
    from .app import App

Executor = Callable[[str, dict[str, Json]], Awaitable[Json]]
STORED: Final = ("chain", "composition")
"""The kinds of definitions that a store holds by id."""
_KIND_OF_RECORD: Final[dict[type, str]] = {ChainObject: "chain", CompositionObject: "composition"}
_PATH: Final = r"[/\\\n]|\.(ya?ml|json|py|md)$"
OWN = ("id", "metadata", "created")
CONTEXT = {"variables": "variables", "input": "input", "executionId": "executionId", "execution_id": "executionId"}
CONTEXT["request"] = "request"

Made = TypeVar("Made", bound=Record)
Line = TypeVar("Line", bound=Record)
Result = TypeVar("Result", bound=Record)


class StoredDefinitions(Generic[Made, Line, Result]):
    """The definitions of one kind in an app's store."""

    kind: ClassVar[str]
    key: ClassVar[str]
    """What a result calls the id of the definition: `chainId`."""
    made: type[Made]
    line: type[Line]
    result: type[Result]

    def __init__(self, app: App) -> None:
        self.app = app
        self._lookups = Lookups(app.store)

    @property
    def store(self) -> Any:
        return self.app.store

    def create(self, config: Mapping[str, Any] | None = None, /, **more: Any) -> Made:
        """Check and store a definition; raises InvalidFlow with every problem. The same id replaces."""
        if config is not None and not isinstance(config, Mapping):
            raise InvalidFlow([Problem(path="", message=f"a {self.kind} is an object, not {kind(config)}")])
        given = {**(config or {}), **more}
        if given.get("kind") is not None and (named := notation_of(given).kind) != self.kind:
            said = f"this is {_article(named)} {named}, not {_article(self.kind)} {self.kind}"
            raise InvalidFlow([Problem(path="kind", message=said)])
        if given.get("id") is None:
            given = {**given, "id": str(uuid.uuid4())}  # not that of its name: what has the same id is replaced
        loaded = self.app.loaded({**given, "kind": self.kind})
        self.app.ensure(loaded)
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
        return self._made(self.store.get_definition(self.kind, definition.id) or definition)

    def get(self, id: str) -> Made | None:
        """A stored definition, None when there is none with this id."""
        found = self.store.get_definition(self.kind, id) if can_be(id) else None
        return None if found is None else self._made(found)

    def list(self) -> list[Line]:
        """Every stored definition in a line each."""
        return [self._line(definition) for definition in self.store.list_definitions(self.kind)]

    def delete(self, id: str) -> bool:
        """Forget a definition; its executions stay. False when there is none."""
        return can_be(id) and bool(self.store.delete_definition(self.kind, id))

    def clone(self, id: str, overrides: Mapping[str, Any] | None = None, /, **more: Any) -> Made:
        """A deep copy under a new id, some properties replaced; InvalidFlow where that id is taken."""
        source = self.stored(id)
        if overrides is not None and not isinstance(overrides, Mapping):
            message = f"are an object with what is to be replaced, not {kind(overrides)}"
            raise InvalidFlow([Problem(path="overrides", message=message)])
        given = {**(overrides or {}), **more}
        new = given.get("id")
        if can_be(new) and self.store.get_definition(self.kind, new) is not None:
            message = f"there is {_article(self.kind)} {self.kind} {new!r} already; a copy needs an id of its own"
            raise InvalidFlow([Problem(path="id", message=message)])
        # Either spelling replaces what is there, which is always in the documented one.
        replaced = {*OWN, *given, *(camel(key) for key in given if isinstance(key, str))}
        kept = {key: value for key, value in source.document.items() if key not in replaced}
        return self.create({**kept, **given})

    def export(self, id: str) -> str:
        """A definition as JSON text that `take` reads back."""
        source = self.stored(id)
        document = {"kind": self.kind, **source.document, "metadata": _metadata(source)}
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()

    def take(self, json: str | bytes | Mapping[str, Any]) -> Made:
        """Store an exported definition under a new id."""
        document: Any = json
        if isinstance(json, (str, bytes)):
            try:
                text = json if isinstance(json, str) else json.decode("utf-8")
            except UnicodeDecodeError as error:
                raise InvalidFlow([Problem(path="", message=f"not UTF-8: {error.reason} at {error.start}")]) from error
            from .source import load  # files and their places: most who store definitions have none

            document = load(text, form="json").data
        if not isinstance(document, Mapping):
            raise InvalidFlow([Problem(path="", message=f"an exported {self.kind} is a JSON object")])
        return self.create({key: value for key, value in document.items() if key not in OWN})

    async def execute(
        self,
        id: str,
        context: Mapping[str, Any] | None = None,
        tool_executor: Executor | None = None,
        *,
        on_event: Callable[[Any], None] | None = None,
    ) -> Result:
        """Run a stored definition. `context` holds variables, input, request and executionId; an unknown id
        raises NotFound. What went wrong in a tool is in the result, not raised."""
        job = await self.job(id, context, tool_executor, on_event)
        return await self.told(job, await self.app.engine.run(job))

    async def job(
        self,
        id: str,
        context: Mapping[str, Any] | None,
        executor: Executor | None,
        on_event: Callable[[Any], None] | None,
    ) -> Job:
        """What the engine is to run."""
        definition = await self._lookups.ask(lambda: self.stored(id))
        given = read_context(context)
        return await self.app.jobs.new(
            self.app.definitions.stored(definition),
            definition_id=id,
            run_id=given.get("executionId"),
            input=given.get("input"),
            variables=given.get("variables"),
            request=given.get("request"),
            executor=executor,
            on_event=on_event,
        )

    async def told(self, job: Job, result: dict[str, Json]) -> Result:
        """What the engine gave, as the users of this kind read it."""
        new = job.new
        await self.app.learn(job, result)
        if not result:
            # On a thread: what is left of a stopped run is found by running its definition once more.
            result = await asyncio.to_thread(lambda: self.without_result(self.store.get_run(new.id)))
        if result.get(self.key) != new.definition_id:
            message = f"an execution of the {self.kind} {result.get(self.key)!r} has this id"
            raise JournalConflict(new.id, "", message)
        return self.result(result)

    def without_result(self, row: Any) -> dict[str, Json]:
        """What is to be said of a run that was stopped while nobody ran it."""
        raise NotImplementedError

    def stored(self, id: str) -> Definition:
        """The definition with this id; NotFound, with what was probably meant, when there is none."""
        found: Definition | None = self.store.get_definition(self.kind, id) if can_be(id) else None
        if found is None:
            ids = [definition.id for definition in self.store.list_definitions(self.kind)]
            raise NotFound(self.kind, id, suggestion=closest(str(id), ids))
        return found

    def _made(self, definition: Definition) -> Made:
        return self.made({**definition.document, "metadata": _metadata(definition)})

    def _line(self, definition: Definition) -> Line:
        document = definition.document
        return self.line(
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


def _metadata(definition: Definition) -> dict[str, Json]:
    return {"created": iso(definition.created), "runCount": definition.run_count}


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" else "a"


def stored_kind(app: App, source: Mapping[str, Any]) -> str | None:
    """Return the kind of the stored definition that an object describes, or None if it is some other document.

    Args:
        app: The app whose store is searched.
        source: What `create` or `get` of a stored kind returned, or its `to_dict()`, which does not name its kind.
    """
    kind = _KIND_OF_RECORD.get(type(source))
    metadata = source["metadata"]
    if kind is None and isinstance(metadata, Mapping) and "runCount" in metadata:
        same = [known for known in _with_id(app, source.get("id")) if known.document["nodes"] == source.get("nodes")]
        kind = same[0].kind if len(same) == 1 else None
    return kind


def find_definition(app: App, source: Any, missing: NotFound) -> Definition:
    """Return the stored definition with an id.

    Args:
        app: The app whose store is searched.
        source: The id, or anything else that could not be loaded.
        missing: Why it could not be loaded.

    Raises:
        NotFound: No stored definition has this id; `missing` itself where the source is a path.
        InvalidFlow: A chain and a composition both have this id.
    """
    check_id(source, missing)
    found = _with_id(app, source)
    if len(found) > 1:
        said = f"a chain and a composition have the id {source!r}; pass the object of one of them instead"
        raise InvalidFlow([Problem(path="", message=said)])
    if not found:
        ids = [definition.id for kind in STORED for definition in app.store.list_definitions(kind)]
        raise NotFound("file or stored definition", source, suggestion=missing.suggestion or closest(source, ids))
    return found[0]


def check_id(source: Any, missing: NotFound) -> None:
    """Raise `missing` if this is a path: no store is created to look for a file."""
    if not isinstance(source, str) or re.search(_PATH, source):
        raise missing


def _with_id(app: App, id: Any) -> list[Definition]:
    if not can_be(id):
        return []
    found = (app.store.get_definition(kind, id) for kind in STORED)
    return [definition for definition in found if definition is not None]


def can_be(id: Any) -> bool:
    """Whether anything can have this id: a store is not asked about what it cannot hold."""
    return isinstance(id, str) and is_json(id)


def read_context(context: Mapping[str, Any] | None) -> dict[str, Any]:
    """What an execution is given: variables, input, executionId; InvalidFlow with every problem."""
    given: dict[str, Any] = {}
    if not context and (context is None or isinstance(context, Mapping)):
        return given
    problems = []
    if context is not None and not isinstance(context, Mapping):
        message = f"is an object with variables, input, request and executionId, not {kind(context)}"
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
    try:
        check_run_id(run_id, "context.executionId")
    except InvalidValue as exc:
        problems.append(Problem(path="context.executionId", message=exc.message))
    if not isinstance(given.get("request", ""), str):
        problems.append(Problem(path="context.request", message="must be a string: what the run is to do"))
    if problems:
        raise InvalidFlow(problems)
    return given
