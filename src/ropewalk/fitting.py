"""Whether a flow fits its surroundings: the tools there are, and the input it is given."""

from __future__ import annotations

from typing import Final

from .check import ToolCard
from .errors import InvalidInput, InvalidValue, Problem, ToolError
from .ir import Flow, Graph, node_parts
from .ops import Call
from .schema import compile_schema
from .tools.tool import Tool
from .tools.toolbox import Toolbox
from .values import Json, check_json

KEPT: Final = 10_000  # cards


class Cards:
    """The toolbox as the check sees it: schemas by tool id. A tool has the same card for as long as
    it is the same tool, so that what a check finds out about its schemas serves the next one."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox
        self._known: dict[str, tuple[Tool, ToolCard]] = {}

    def __call__(self, tool_id: str) -> ToolCard | None:
        try:
            found = self.toolbox.get(tool_id)
        except ToolError:
            return None
        if found is None:
            return None
        known = self._known.get(tool_id)
        if known is None or known[0] is not found:
            if len(self._known) >= KEPT:  # tools come and go; those in use are back at once
                self._known.clear()
            known = self._known[tool_id] = (found, ToolCard(found.input_schema, found.output_schema))
        return known[1]

    def why(self, tool_id: str) -> str | None:
        """Why a tool is not there, when that is known: its server cannot be reached."""
        return self.toolbox.failures.get(tool_id) or self.toolbox.failures.get(tool_id.partition(":")[0])

    def names(self) -> list[str]:
        return [tool.id for tool in self.toolbox.list()]


def tools_of(body: Graph) -> set[str]:
    """The ids of all tools that a region calls."""
    found: set[str] = set()
    for node in body.nodes:
        if isinstance(node.op, Call):
            found.add(node.op.tool)
            continue
        for _, part in node_parts(node):
            if isinstance(part, Graph):
                found |= tools_of(part)
    return found


def check_input(flow: Flow, input: Json) -> Json:
    """The input in containers of our own; InvalidInput, with every problem, when it is no JSON or
    does not fit the schema. No input counts as `{}` where the schema asks for an object."""
    if input is None and isinstance(flow.input_schema, dict) and flow.input_schema.get("type") == "object":
        input = {}
    try:
        input = check_json(input, "input")
    except InvalidValue as exc:
        raise InvalidInput([Problem(path=exc.place, message=exc.message)]) from exc
    if flow.input_schema is not None:
        problems = compile_schema(flow.input_schema).problems(input, "input")
        if problems:
            raise InvalidInput(problems)
    return input
