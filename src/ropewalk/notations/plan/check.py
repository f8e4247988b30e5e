"""The types of a plan checked against the schemas of its tools: every misfit at its line and column, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...check.export import Exporter
from ...errors import InvalidFlow, Problem
from ...plans.check.types import Cards, TypeCheck
from ...plans.read.tools import PlanTool
from ...values import Json
from .read import input_schema
from .source import located, parse


class PlanTypes(NamedTuple):
    """The types of a plan."""

    # problems: What can never fit.
    # warnings: What is probably wrong.
    # output: The JSON Schema of the result; None if nothing is known of it.

    problems: list[Problem] = []  # noqa: RUF012 - nobody changes it
    warnings: list[Problem] = []  # noqa: RUF012
    output: dict[str, Json] | None = None


def types_of(document: Mapping[str, Any], cards: Cards) -> PlanTypes:
    """Return the types of the program of a plan."""
    code = document.get("code")
    if not isinstance(code, str):
        return PlanTypes()
    try:
        tree = parse(code)
        inputs = input_schema(code, document)
    except InvalidFlow:
        return PlanTypes()
    tools = {name: PlanTool.read(entry) for name, entry in (document.get("tools") or {}).items()}
    check = TypeCheck(tree, tools, cards, inputs, document.get("values"), document.get("transforms") or ())
    try:
        check.run()
        output = Exporter().schema(check.result) or None
    except RecursionError:
        return PlanTypes()  # what is nested this deep is checked at run time
    found = (
        sorted(some, key=lambda problem: (problem.line, problem.column)) for some in (check.problems, check.warnings)
    )
    problems, warnings = (located(code, some) for some in found)
    return PlanTypes(problems, warnings, output)
