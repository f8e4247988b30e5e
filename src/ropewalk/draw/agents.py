"""Agents as those know them who wrote them: a prompt, tools, limits; not the nodes of the loop they are made of."""

from __future__ import annotations

from typing import Any

from ..errors import ExpressionError
from ..expr.ast import Arr, Expr, Lit, Obj
from ..expr.show import brief
from ..expr.unlift import unlift
from ..frozen import dataclass
from ..ir import Graph, bodies
from ..ops import MODEL, Branch, Call, Loop, Map

_MOST = 60


@dataclass(frozen=True, slots=True)
class Agent:
    """What an agent is told, what it may call, and which of its tools somebody is asked about first."""

    options: dict[str, Any]
    tools: tuple[str, ...]
    asks: frozenset[str]
    start: Expr | None

    @property
    def details(self) -> tuple[str, ...]:
        """Its fields in words."""
        given = {key: value for key, value in self.options.items() if key not in ("max_rounds", "must_end")}
        plain = [f"{key}: {value}" for key, value in given.items() if isinstance(value, (str, int, float))]
        shown = [key for key, value in given.items() if isinstance(value, (dict, list))]
        return (
            *(f"{role}: {_written(said)}" for role, said in self._said()),
            f"at most {self.options.get('max_rounds')} rounds",
            *plain,
            *(f"with {key}" for key in shown),
        )

    @property
    def calls(self) -> tuple[str, ...]:
        """A line for each tool."""
        return tuple(f"{tool}, when somebody has approved it" if tool in self.asks else tool for tool in self.tools)

    def _said(self) -> list[tuple[str, Expr]]:
        if isinstance(self.start, Arr):
            messages = [dict(item.fields) for item in self.start.items if isinstance(item, Obj)]
            roles = {"user": "prompt"}
            return [
                (roles.get(role.value, str(role.value)), one["content"])
                for one in messages
                if isinstance(role := one.get("role"), Lit) and "content" in one
            ]
        return [("messages", self.start)] if self.start is not None else []


def _written(expr: Expr) -> str:
    """A text as it stands in the document, cut."""
    try:
        text = unlift(expr)
    except ExpressionError:
        text = None
    if not isinstance(text, str):
        return brief(expr, _MOST)
    line, _, more = text.strip().partition("\n")
    return f"{line[: _MOST - 1]}…" if more or len(line) > _MOST else line


def agent_in(op: Any) -> Agent | None:
    """The agent that a loop is; None for every other op."""
    if not isinstance(op, Loop):
        return None
    asked = next((one.op.args for one in op.body.nodes if isinstance(one.op, Call) and one.op.tool == MODEL), None)
    fields = dict(asked.fields) if isinstance(asked, Obj) else {}
    options, tools = fields.get("options"), fields.get("tools")
    if not isinstance(options, Lit) or not isinstance(tools, Lit) or not isinstance(op.initial, Obj):
        return None
    start = dict(op.initial.fields).get("messages")
    return Agent(options.value, tuple(tools.value), frozenset(_asked(op.body)), start)


def _asked(body: Graph) -> list[str]:
    """The tools whose arms do not begin with their call."""
    arms = [
        (test, arm)
        for node in body.nodes
        if isinstance(node.op, Map)
        for inner in bodies(node)
        for use in inner.nodes
        if isinstance(use.op, Branch)
        for test, arm in use.op.arms
    ]
    return [
        str(part.value)
        for test, arm in arms
        if len(arm.nodes) > 1
        for part in getattr(test, "args", ())
        if isinstance(part, Lit)
    ]
