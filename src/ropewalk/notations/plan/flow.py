"""The flow of a plan: one node that interprets the program, with a region for each tool."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ...expr.ast import Obj, Ref
from ...ir import Flow, Graph, Node
from ...ops import ApprovedCall, Call, Program, ProgramTool, Wait
from ...outline import Outline
from ...plans.read.tools import RECORD_TOOL, VALUE_TOOL, PlanTool

PROGRAM: Final = "program"
"""The id of the node that interprets the program."""
_READS_RECORD: Final = re.compile(r"\bvalue\s*\(")
_ITEM: Final = Ref("item")


def program_flow(
    name: str,
    code: str,
    tools: Mapping[str, PlanTool],
    inputs: Iterable[str],
    *,
    function: bool = False,
    contained: bool = False,
    overlap: bool = False,
    transforms: Mapping[str, str] | None = None,
    outline: Outline | None = None,
) -> Flow:
    """Return the flow that interprets a program, which is not read here."""

    # overlap: Whether neighbouring calls of tools that only read begin together.
    # transforms: The registered name of each transform that it calls, by its name in the program.
    if _READS_RECORD.search(code) is not None:
        tools = {**tools, VALUE_TOOL: PlanTool(id=RECORD_TOOL, parameters=("place",), reads=True)}
    known = {tool: ProgramTool(name=tool, parameters=facts.parameters) for tool, facts in tools.items()}
    op = Program(
        text=code,
        tools=tuple((known[tool], _region(tool, facts)) for tool, facts in tools.items()),
        inputs=Obj(tuple((input, Ref("input", (input,))) for input in inputs)),
        function=function,
        contained=contained,
        reads=tuple(tool for tool, facts in tools.items() if facts.reads) if overlap else (),
        transforms=tuple((transforms or {}).items()),
        outline=outline,
    )
    node = Node(id=PROGRAM, op=op)
    return Flow(name=name, body=Graph(nodes=(node,), ordered=True, result=Ref("out", (PROGRAM,))))


def _region(name: str, tool: PlanTool) -> Graph:
    """Return the region that calls a tool, after an approval of these very arguments where the tool needs one."""
    call = Node(id=name, op=Call(tool=tool.id, args=_ITEM))
    nodes: tuple[Node, ...] = (call,)
    if tool.approve:
        approved = ApprovedCall(tool=tool.id, args=_ITEM, made_by=name, version=tool.version or None)
        nodes = (Node(id=f"approve_{name}", op=Wait(call=approved)), call)
    return Graph(nodes=nodes, ordered=True, result=Ref("out", (name,)))
