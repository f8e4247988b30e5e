"""The notation `plan` for the registry: `fits`, `write` and `compile_document`, and the result of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...errors import ExpressionError, InvalidFlow, Problem
from ...expr.reshape import registered_transform
from ...ir import Flow
from ...outline import Outline
from ...plans.program import Program
from ...plans.read.tools import PlanTool
from ...values import Json
from .. import fields as f
from ..fields import read_document
from ..registry import Compiled, failures
from .flow import program_flow
from .read import FIELDS, input_schema, is_readable
from .source import located


def fits(document: Mapping[str, Json]) -> bool:
    """Return True for a document whose `code` is a text and that has no nodes or steps."""
    return isinstance(document.get("code"), str) and not {"nodes", "steps", "graph"} & document.keys()


def write(flow: Flow, losses: list[Problem] | None = None) -> dict[str, Json]:
    """Write a flow as a plan."""
    from .write import PlanWriter  # loaded late: reading a plan does not need it

    return PlanWriter.write(flow, losses)


def compile_document(config: Mapping[str, Json]) -> Compiled:
    """Read and compile a plan."""
    given, report = _read(config)
    if not is_readable(report):
        raise InvalidFlow(report)
    code = str(given["code"])
    schema = input_schema(code, given)
    program = _program(given, schema)
    if report or program.problems:
        raise InvalidFlow([*report, *located(code, program.problems)])
    return plan_of(given, schema, program.outline)


def read_fields(config: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fields of a document, whose program is not read."""
    given, report = _read(config)
    if report:
        raise InvalidFlow(report)
    return given


def _read(config: Mapping[str, Json]) -> tuple[dict[str, Json], f.Report]:
    given, report = read_document(config, FIELDS, "plan")
    if not isinstance(given.get("code"), str) and all(problem.path != "code" for problem in report):
        f.add_problem(report, "code", "must be the text of a program")
    if "origin" in given and "transforms" in given:
        f.add_problem(report, "transforms", "are functions of this process, which programs of models cannot call")
    return given, report


def _program(given: Mapping[str, Json], schema: Any) -> Program:
    """Return the program of a document, whose problems are what the language lacks for it."""
    entries: Any = given.get("tools") or {}
    tools = {name: tuple(entry.get("parameters") or ()) for name, entry in entries.items()}
    named: Any = given.get("transforms") or {}
    try:
        transforms = {name: registered_transform(registered) for name, registered in named.items()}
    except ExpressionError as error:
        raise InvalidFlow([Problem(path="transforms", message=str(error), suggestion=error.suggestion)]) from None
    return Program(
        str(given["code"]),
        tools,
        (schema or {}).get("properties", {}),
        function=given.get("function") is True,
        reads=[name for name, entry in entries.items() if entry.get("reads") is True] if _overlaps(given) else (),
        transforms=transforms,
        ids={name: str(entry["id"]) for name, entry in entries.items()},
    )


def _overlaps(given: Mapping[str, Json]) -> bool:
    """Return True if neighbouring calls of tools that only read begin together."""
    return given.get("parallel") == "reads"


def plan_of(given: Mapping[str, Json], schema: Any, outline: Outline) -> Compiled:
    """Return the plan of a document with this schema of its input and this outline, without reading its program."""
    raw_tools: Any = given.get("tools") or {}
    tools = {tool: PlanTool.read(entry) for tool, entry in raw_tools.items()}
    names = [*(schema or {}).get("properties", {})]
    name = str(given.get("name", given.get("id", "plan")))
    transforms: Any = given.get("transforms")
    flow = program_flow(
        name,
        str(given["code"]),
        tools,
        names,
        function=given.get("function") is True,
        contained="origin" in given,
        overlap=_overlaps(given),
        transforms=transforms,
        outline=outline,
    )
    return compiled_plan(given, flow, schema)


def compiled_plan(given: Mapping[str, Json], flow: Flow, schema: Json) -> Compiled:
    """Return a compiled plan."""
    name = str(given.get("name", given.get("id", "plan")))
    # Documents count milliseconds, the engine seconds. The variable still holds milliseconds.
    seconds: Any = given.get("timeout")
    flow = replace(
        flow,
        name=name,
        input_schema=schema,
        output_schema=given.get("output"),
        timeout=float(seconds) / 1000 if seconds is not None else None,
        undo=given.get("undo"),
        budget=given.get("budget"),
    )
    return Compiled(
        kind="plan",
        id=str(given.get("id", name)),
        name=name,
        document={"name": name, **given},
        flow=flow,
        warnings=(),
        output_schema=given.get("output"),
        render=_render,
    )


def _render(ending: Any) -> dict[str, Json]:
    """Return an ending in the words of plans: the result, and what the program printed."""
    result: dict[str, Json] = {
        "success": ending.status == "completed",
        "executionId": ending.run_id,
        "status": ending.status,
        "result": ending.value,
        "errors": failures(ending),
        "duration": round(ending.duration * 1000, 3),
    }
    if ending.printed:
        result["printed"] = ending.printed
    return result
