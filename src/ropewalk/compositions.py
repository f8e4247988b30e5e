"""Compositions as users call them: create, execute, list, and three ways to make one from less.

`CompositionService` is the one synchronous core; `Compositions` (`app.compositions`) is its async face, and
`ropewalk.toolchain` its plain functions over a default app.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from .dialects.composition_result import failure, mismatches
from .dialects.fields import kind, known_keys
from .dialects.records import CompositionObject, CompositionResult, CompositionSummary
from .errors import InvalidFlow, InvalidInput, Problem
from .journal.offloop import off_loop
from .runs.remains import remains
from .stored import Executor, StoredDefinitions
from .values import Json

_NOT_NAME: Final = re.compile(r"[^\w-]+")


class CompositionService(StoredDefinitions[CompositionObject, CompositionSummary, CompositionResult]):
    """The compositions of an app. Every method but `execute_composition` is synchronous and short."""

    kind, key = "composition", "compositionId"
    made, line, result = CompositionObject, CompositionSummary, CompositionResult

    create_composition = StoredDefinitions.create
    get_composition = StoredDefinitions.get
    list_compositions = StoredDefinitions.list
    delete_composition = StoredDefinitions.delete

    async def execute_composition(
        self,
        composition_id: str,
        input: Json = None,
        tool_executor: Executor | None = None,
        *,
        variables: Mapping[str, Json] | None = None,
        execution_id: str | None = None,
        on_event: Callable[[Any], None] | None = None,
    ) -> CompositionResult:
        """Run a stored composition; an unknown one raises NotFound. An input that does not fit, and what
        went wrong in a node, is in the result, not raised. Nothing is kept of an input that does not fit."""
        context: dict[str, Any] = {"input": input, "executionId": execution_id}
        if variables is not None:
            context["variables"] = variables
        try:
            return await self.execute(composition_id, context, tool_executor, on_event=on_event)
        except InvalidInput as exc:
            said, errors = f"the input does not fit: {exc}", mismatches(exc.problems)
            return CompositionResult(failure(composition_id, execution_id or str(uuid.uuid4()), said, errors))

    def without_result(self, row: Any) -> dict[str, Json]:
        message = f"run {row.id} was stopped"
        duration = round(row.spent * 1000, 3)
        stopped = failure(row.definition_id, row.id, message, [], status=row.status, duration=duration)
        return {**stopped, **(remains(self.app, row) or {}), self.key: row.definition_id}

    def compose_tools(
        self, tool_names: Sequence[str], config: Mapping[str, Any] | None = None, /, **more: Any
    ) -> CompositionObject:
        """A composition that calls some tools one after another. `config` has name, description, inputSchema,
        outputSchema and `mappings: [{input, output}]`, of which the i-th belongs to the i-th tool. The id of
        each node is the name of its tool, with a number from its second appearance on."""
        if config is not None and not isinstance(config, Mapping):
            raise InvalidFlow([Problem(path="config", message=f"must be an object, not {kind(config)}")])
        given = {**(config or {}), **more}
        mappings = given.pop("mappings", None) or []
        names = _listed(tool_names, "tool_names", "tool names", str)
        found = _listed(mappings, "mappings", "objects with input and output", Mapping)
        problems = [
            Problem(path=f"mappings[{i}]", message=f"belongs to no tool; there are {len(names)}")
            for i in range(len(names), len(found))
        ]
        nodes: list[dict[str, Json]] = []
        for name, id in zip(names, _ids(names), strict=True):
            mapping = found[len(nodes)] if len(nodes) < len(found) else {}
            at = f"mappings[{len(nodes)}]"
            read = known_keys(mapping, {"input": None, "output": None}, at, problems)
            node = {"inputMapping": read.get("input"), "outputMapping": read.get("output")}
            nodes.append({"id": id, "type": "tool", "tool": name, **node})
        if problems:
            raise InvalidFlow(problems)
        given.setdefault("name", " -> ".join(names))
        return self._create_from(given, nodes, {"inputMapping": "mappings[{}].input", "outputMapping":
                                                "mappings[{}].output", "": "tool_names[{}]"})  # fmt: skip

    def create_validation_chain(
        self, validators: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, /, **more: Any
    ) -> CompositionObject:
        """A composition of VALIDATE nodes, one for each `{schema, required}`: validate_1, validate_2 ..."""
        nodes = [
            {**one, "id": f"validate_{i}", "type": "validate"}
            for i, one in enumerate(_listed(validators, "validators", "objects with a schema", Mapping), 1)
        ]
        given = {"name": "validation", **(config or {}), **more}
        return self._create_from(given, nodes, {"": "validators[{}]"})

    def create_transform_pipeline(
        self, transforms: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, /, **more: Any
    ) -> CompositionObject:
        """A composition of TRANSFORM nodes, one for each `{type, config}`: transform_1, transform_2 ..."""
        nodes = [
            {"id": f"transform_{i}", "type": "transform", "transform": one}
            for i, one in enumerate(_listed(transforms, "transforms", "objects with type and config", Mapping), 1)
        ]
        given = {"name": "transforms", **(config or {}), **more}
        return self._create_from(given, nodes, {"transform": "transforms[{}]", "": "transforms[{}]"})

    def _create_from(
        self, config: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], places: Mapping[str, str]
    ) -> CompositionObject:
        """Create a composition of nodes that were made here; problems are told in the caller's words."""
        if "nodes" in config:
            raise InvalidFlow([Problem(path="nodes", message="are made here from what is given; leave them out")])
        try:
            return self.create(config, nodes=nodes)
        except InvalidFlow as exc:
            raise InvalidFlow([replace(p, path=_given(p.path, places)) for p in exc.problems]) from None


def _given(path: str, places: Mapping[str, str]) -> str:
    """The place in what the caller gave of a place in the nodes that were made of it."""
    at = re.match(r"nodes\[(\d+)\]\.?([^.\[]*)", path)
    if at is None:
        return places[""].partition("[")[0] if path == "nodes" else path
    name = at[2] if at[2] in places else ""
    rest = path[at.end() :] if name else path[at.start(2) :]
    return places[name].format(at[1]) + ("." if rest and rest[0] not in ".[" else "") + rest


def _ids(names: Sequence[str]) -> list[str]:
    """A readable id for each tool: its name without namespace, numbered from its second appearance on."""
    found: list[str] = []
    for name in names:
        base = name.split(":")[1 if name.count(":") else 0]
        base = _NOT_NAME.sub("_", base).strip("_") or "tool"
        id, count = base, 1
        while id in found:
            count += 1
            id = f"{base}_{count}"
        found.append(id)
    return found


def _listed(value: Any, path: str, what: str, each: type[Any]) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidFlow([Problem(path=path, message=f"must be a list of {what}, not {kind(value)}")])
    problems = [
        Problem(path=f"{path}[{i}]", message=f"must be one of {what}, not {kind(one)}")
        for i, one in enumerate(value)
        if not isinstance(one, each)
    ]
    if problems:
        raise InvalidFlow(problems)
    return list(value)


class Compositions:
    """`app.compositions`: the documented functions as coroutines."""

    def __init__(self, core: CompositionService) -> None:
        self.core = core

    async def create_composition(self, config: Mapping[str, Any] | None = None, /, **more: Any) -> CompositionObject:
        return await off_loop(self.core.store, lambda: self.core.create(config, **more))

    async def execute_composition(
        self, composition_id: str, input: Json = None, tool_executor: Executor | None = None, **more: Any
    ) -> CompositionResult:
        return await self.core.execute_composition(composition_id, input, tool_executor, **more)

    async def get_composition(self, composition_id: str) -> CompositionObject | None:
        return await off_loop(self.core.store, lambda: self.core.get(composition_id))

    async def list_compositions(self) -> list[CompositionSummary]:
        return await off_loop(self.core.store, lambda: self.core.list())

    async def delete_composition(self, composition_id: str) -> bool:
        return await off_loop(self.core.store, lambda: self.core.delete(composition_id))

    async def compose_tools(
        self, tool_names: Sequence[str], config: Mapping[str, Any] | None = None, /, **more: Any
    ) -> CompositionObject:
        return await off_loop(self.core.store, lambda: self.core.compose_tools(tool_names, config, **more))

    async def create_validation_chain(
        self, validators: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, /, **more: Any
    ) -> CompositionObject:
        return await off_loop(self.core.store, lambda: self.core.create_validation_chain(validators, config, **more))

    async def create_transform_pipeline(
        self, transforms: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, /, **more: Any
    ) -> CompositionObject:
        return await off_loop(self.core.store, lambda: self.core.create_transform_pipeline(transforms, config, **more))
