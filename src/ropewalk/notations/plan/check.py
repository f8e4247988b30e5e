"""The types of a plan checked against the schemas of its tools: every misfit at its line and column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import InvalidFlow, Problem
from .program import PlanError, PlanTool, Program
from .read import input_schema
from .source import parse, problem_at
from .types import Cards, TypeCheck


def type_problems(document: Mapping[str, Any], cards: Cards) -> tuple[list[Problem], list[Problem]]:
    """Return what can never fit in the program of a plan."""
    code = document.get("code")
    if not isinstance(code, str):
        return [], []
    try:
        tree = parse(code)
        inputs = input_schema(code, document)
    except InvalidFlow:
        return [], []
    tools = {name: PlanTool.read(entry) for name, entry in (document.get("tools") or {}).items()}
    program = Program(code, tree, tools, (inputs or {}).get("properties", {}), document.get("function") is True)
    check = TypeCheck(program, cards, inputs, document.get("values"))
    try:
        check.run()
    except RecursionError:
        return [], []  # what is nested this deep is checked at run time
    return _located(code, check.problems), _located(code, check.warnings)


def _located(code: str, found: Sequence[PlanError]) -> list[Problem]:
    ordered = sorted(found, key=lambda error: (error.line, error.column))
    return [problem_at(code, error.line, error.column, error.message, error.suggestion) for error in ordered]
