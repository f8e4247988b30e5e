"""Whether a flow fits its surroundings: the tools there are, and the input it is given."""

from __future__ import annotations

from .check import ToolCard
from .errors import InvalidInput, InvalidValue, Problem, ToolError
from .ir import Flow, Graph, node_parts
from .ops import Call
from .schema import compile_schema
from .tools.toolbox import Toolbox
from .values import Json, check_json


class Cards:
    """The toolbox as the check sees it: schemas by tool id."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.toolbox = toolbox

    def __call__(self, tool_id: str) -> ToolCard | None:
        try:
            found = self.toolbox.get(tool_id)
        except ToolError:
            return None
        return None if found is None else ToolCard(found.input_schema, found.output_schema)

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
