"""Compositions as users call them: create, execute, list, and three ways to make one from less.

`CompositionService` implements every function. `Compositions` (`app.compositions`) has them as coroutines, and
`ropewalk.toolchain` as plain functions over a default app.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ..errors import InvalidFlow, InvalidInput, Problem
from ..journal.protocol import RunRow
from ..notations.composition.render import failed_result, mismatch_entries
from ..notations.fields import normalize_keys, type_name
from ..notations.records import CompositionObject, CompositionResult, CompositionSummary
from ..values import Json
from .start import Executor, Start
from .stored import AsyncFace, StoredDefinitions, off_loop_method

_NOT_NAME: Final = re.compile(r"[^\w-]+")


class CompositionService(StoredDefinitions[CompositionObject, CompositionSummary, CompositionResult]):
    """The compositions of an app."""

    # Every method but `execute_composition` is synchronous.

    kind, key = "composition", "compositionId"
    record_type, summary_type, result_type = CompositionObject, CompositionSummary, CompositionResult

    def create_composition(self, config: Mapping[str, Any] | None = None, /, **more: Any) -> CompositionObject:
        """Check and store a composition; one with the same id is replaced.

        Args:
            config: The composition's document.
            more: Fields of the document, which win over those of `config`.

        Returns:
            The stored composition, with its id.

        Raises:
            InvalidFlow: The document is wrong. The text and `.problems` hold every problem.
        """
        return self.create(config, **more)

    def get_composition(self, composition_id: str) -> CompositionObject | None:
        """Return a stored composition.

        Args:
            composition_id: The id of the composition.

        Returns:
            The composition, or None if there is none with this id.
        """
        return self.get(composition_id)

    def list_compositions(self) -> list[CompositionSummary]:
        """List the stored compositions.

        Returns:
            A summary of each composition.
        """
        return self.list()

    def delete_composition(self, composition_id: str) -> bool:
        """Delete a composition. Its executions are kept.

        Args:
            composition_id: The id of the composition.

        Returns:
            True if the composition existed.
        """
        return self.delete(composition_id)

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
        """Run a stored composition.

        Args:
            composition_id: The id of the composition.
            input: What the first node reads.
            tool_executor: `async (tool_name, params) -> result`; the app's toolbox unless given.
            variables: The composition's variables.
            execution_id: The id of the execution. Default: a new one.
            on_event: Receives each event of the run.

        Returns:
            The result. It holds the errors of nodes, and those of an input that does not match the schema: they
            are not raised. Nothing is recorded of an input that does not match.

        Raises:
            NotFound: The composition does not exist.
            InvalidFlow: The variables or the execution id are wrong.
        """
        context: dict[str, Any] = {"input": input, "executionId": execution_id}
        if variables is not None:
            context["variables"] = variables
        try:
            job = await self.job(composition_id, context, Start(executor=tool_executor, on_event=on_event))
            return await self.execution_result(job, await self.context.engine.run(job))
        except InvalidInput as exc:
            message, errors = f"the input does not fit: {exc}", mismatch_entries(exc.problems)
            return CompositionResult(failed_result(composition_id, execution_id or str(uuid.uuid4()), message, errors))

    def without_result(self, row: RunRow) -> dict[str, Json]:
        """Return the result of a run that was stopped and has none."""
        duration = round(row.spent * 1000, 3)
        message = f"run {row.id} was stopped"
        return failed_result(str(row.definition_id), row.id, message, [], status=row.status, duration=duration)

    def compose_tools(
        self, tool_names: Sequence[str], config: Mapping[str, Any] | None = None, /, **more: Any
    ) -> CompositionObject:
        """Create a composition that calls tools one after another.

        Args:
            tool_names: The tools, in their order. A node has the name of its tool as its id; a number follows from
                its second appearance on.
            config: Fields of the composition: `name`, `description`, `inputSchema`, `outputSchema`, and `mappings`,
                a list with `{input, output}` for each tool.
            more: Further such fields, which win over those of `config`.

        Returns:
            The stored composition.

        Raises:
            InvalidFlow: A name, a mapping or a field is wrong; with every problem.
        """
        if config is not None and not isinstance(config, Mapping):
            raise InvalidFlow([Problem(path="config", message=f"must be an object, not {type_name(config)}")])
        arguments = {**(config or {}), **more}
        mappings = arguments.pop("mappings", None) or []
        names = _listed(tool_names, "tool_names", "tool names", str)
        result = _listed(mappings, "mappings", "objects with input and output", Mapping)
        problems = [
            Problem(
                path=f"mappings[{i}]", message=f"there is no tool at this position; the number of tools is {len(names)}"
            )
            for i in range(len(names), len(result))
        ]
        # A tool without a mapping of its own reads the output of the tool before it.
        nodes: list[dict[str, Json]] = []
        for name, id in zip(names, _ids(names), strict=True):
            mapping = result[len(nodes)] if len(nodes) < len(result) else {}
            at = f"mappings[{len(nodes)}]"
            read = normalize_keys(mapping, {"input": None, "output": None}, at, problems)
            node = {"inputMapping": read.get("input"), "outputMapping": read.get("output")}
            nodes.append({"id": id, "type": "tool", "tool": name, **node})
        if problems:
            raise InvalidFlow(problems)
        arguments.setdefault("name", " -> ".join(names))
        return self._create_from(
            arguments,
            nodes,
            {"inputMapping": "mappings[{}].input", "outputMapping": "mappings[{}].output", "": "tool_names[{}]"},
        )

    def create_validation_chain(
        self, validators: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, /, **more: Any
    ) -> CompositionObject:
        """Create a composition of VALIDATE nodes with the ids `validate_1`, `validate_2`, ...

        Args:
            validators: `{schema, required}` for each node.
            config: Fields of the composition.
            more: Further such fields, which win over those of `config`.

        Returns:
            The stored composition.

        Raises:
            InvalidFlow: A validator or a field is wrong; with every problem.
        """
        nodes = [
            {**item, "id": f"validate_{i}", "type": "validate"}
            for i, item in enumerate(_listed(validators, "validators", "objects with a schema", Mapping), 1)
        ]
        arguments = {"name": "validation", **(config or {}), **more}
        return self._create_from(arguments, nodes, {"": "validators[{}]"})

    def create_transform_pipeline(
        self, transforms: Sequence[Mapping[str, Any]], config: Mapping[str, Any] | None = None, /, **more: Any
    ) -> CompositionObject:
        """Create a composition of TRANSFORM nodes with the ids `transform_1`, `transform_2`, ...

        Args:
            transforms: `{type, config}` for each node.
            config: Fields of the composition.
            more: Further such fields, which win over those of `config`.

        Returns:
            The stored composition.

        Raises:
            InvalidFlow: A transform or a field is wrong; with every problem.
        """
        nodes = [
            {"id": f"transform_{i}", "type": "transform", "transform": item}
            for i, item in enumerate(_listed(transforms, "transforms", "objects with type and config", Mapping), 1)
        ]
        arguments = {"name": "transforms", **(config or {}), **more}
        return self._create_from(arguments, nodes, {"transform": "transforms[{}]", "": "transforms[{}]"})

    def _create_from(
        self, config: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], places: Mapping[str, str]
    ) -> CompositionObject:
        """Create a composition of generated nodes; problems are reported at the places of the caller's arguments."""
        if "nodes" in config:
            raise InvalidFlow([Problem(path="nodes", message="are generated; leave them out")])
        try:
            return self.create(config, nodes=nodes)
        except InvalidFlow as exc:
            raise InvalidFlow([replace(p, path=_argument_place(p.path, places)) for p in exc.problems]) from None


def _argument_place(path: str, places: Mapping[str, str]) -> str:
    """Return the place in the caller's arguments for a place in the generated nodes."""
    at = re.match(r"nodes\[(\d+)\]\.?([^.\[]*)", path)
    if at is None:
        return places[""].partition("[")[0] if path == "nodes" else path
    name = at[2] if at[2] in places else ""
    rest = path[at.end() :] if name else path[at.start(2) :]
    return places[name].format(at[1]) + ("." if rest and rest[0] not in ".[" else "") + rest


def _ids(names: Sequence[str]) -> list[str]:
    """Return a readable id for each tool: its name without namespace, numbered from its second appearance on."""
    result: list[str] = []
    for name in names:
        base = name.split(":")[1 if name.count(":") else 0]
        base = _NOT_NAME.sub("_", base).strip("_") or "tool"
        id, count = base, 1
        while id in result:
            count += 1
            id = f"{base}_{count}"
        result.append(id)
    return result


def _listed(value: Any, path: str, what: str, each: type[Any]) -> list[Any]:
    """Return a list argument, or raise InvalidFlow with every item of another type."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidFlow([Problem(path=path, message=f"must be a list of {what}, not {type_name(value)}")])
    problems = [
        Problem(path=f"{path}[{i}]", message=f"must be one of {what}, not {type_name(item)}")
        for i, item in enumerate(value)
        if not isinstance(item, each)
    ]
    if problems:
        raise InvalidFlow(problems)
    return list(value)


class Compositions(AsyncFace[CompositionService]):
    """`app.compositions`: the functions of `CompositionService` as coroutines."""

    def __init__(self, core: CompositionService) -> None:
        super().__init__(core)
        self.execute_composition = core.execute_composition

    create_composition = off_loop_method(CompositionService.create_composition)
    get_composition = off_loop_method(CompositionService.get_composition)
    list_compositions = off_loop_method(CompositionService.list_compositions)
    delete_composition = off_loop_method(CompositionService.delete_composition)
    compose_tools = off_loop_method(CompositionService.compose_tools)
    create_validation_chain = off_loop_method(CompositionService.create_validation_chain)
    create_transform_pipeline = off_loop_method(CompositionService.create_transform_pipeline)
