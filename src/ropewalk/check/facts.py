"""Facts about a flow in any notation, read from its graph and the outlines of its programs before anything runs.

They say which tools it calls, with which effect and which undo, how many calls it makes at most, which loops have no
fixed bound, which secrets it reads, and what it waits for. Refused here: the toolbox. The caller says what is known of
a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias

from ..errors import ExpressionError
from ..expr.ast import Arr, Expr, Lit, Obj, Ref, show_in_document
from ..expr.unlift import unlift
from ..fast_dataclass import dataclass
from ..ir import Flow, Graph, Node, bodies, nodes_of, refs_inside
from ..ops import MODEL, Call, Compute, Loop, Map, Program, Wait
from ..values import Json
from .program_facts import (
    Calls,
    before_each_call,
    calls_of_outline,
    loops_of_outline,
    most,
    plus,
    times,
    waits_of_outline,
)

Effect: TypeAlias = Literal["read", "write", "destructive"]
EFFECTS: Final[tuple[Effect, ...]] = ("read", "write", "destructive")
"""The effects of tools, the mildest first."""
UNKNOWN: Final[Any] = object()
_DEEPEST: Final = 16  # flows that call flows
_APPROVAL_OF_AGENT: Final = "approval."  # begins the id of the wait before a call that an agent makes


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFacts:
    """The facts about a tool."""

    # The effect of a call, by trusted hints or configuration; "write" without either.
    effect: Effect = "write"
    # The flow that a call runs, if the tool is one.
    flow: Flow | None = None
    # The tool that takes a call back, if there is one.
    undo: str | None = None
    # A call can run a program that makes any number of calls.
    runs_programs: bool = False
    # The tool is known here; of others only the configuration says something.
    known: bool = True


Known: TypeAlias = Callable[[str], ToolFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The tools, loops, secrets and waits of a flow."""

    # The tools as `{tool, effect, undo, isFlow, known, calls}`; `calls` is an upper bound, or None. `undo` names the
    # tools that take the calls back; None if some call has no undo. The steps of a flow without an undo are undone
    # instead.
    tools: tuple[dict[str, Json], ...] = ()
    # The most calls of tools in one run, those of inner flows included; None without a bound.
    max_calls: int | None = 0
    # The loops whose number of iterations only the run knows, as `{node, at, limit}`.
    loops: tuple[dict[str, Json], ...] = ()
    # The names of the secrets that the flow reads.
    secrets: tuple[str, ...] = ()
    # What it waits for, as `{node, approval}` or `{node, event}`.
    waits: tuple[dict[str, Json], ...] = ()
    # The transforms that its programs call in Python.
    transforms: tuple[str, ...] = ()
    _effects: dict[str, Effect] = field(default_factory=dict, repr=False, compare=False)

    @property
    def effect(self) -> Effect:
        """The strongest effect of any call; "read" for a flow without calls."""
        return max(self._effects.values(), key=EFFECTS.index, default="read")

    def to_dict(self) -> dict[str, Json]:
        """Return the facts as JSON."""
        return {
            "tools": list(self.tools),
            "effect": self.effect,
            "maxCalls": self.max_calls,
            "loops": list(self.loops),
            "secrets": list(self.secrets),
            "waits": list(self.waits),
            **({"transforms": list(self.transforms)} if self.transforms else {}),
        }

    def text(self) -> str:
        """Return the facts as lines for people."""
        return facts_text(self.to_dict())


def facts_text(facts: Mapping[str, Any]) -> str:
    """Return facts as lines for people."""
    most = facts["maxCalls"]
    lines = [f"Calls: {'no fixed bound' if most is None else f'at most {most:,}'}"]
    for tool in facts["tools"]:
        limit = "unbounded" if tool["calls"] is None else f"at most {tool['calls']:,}"
        lines.append(f"  {tool['tool']}  {tool_text(tool)}, {limit}")
    if facts["loops"]:
        lines.append("Loops without a fixed bound:")
        lines += [f"  {_place(loop)}" + _limit(loop) for loop in facts["loops"]]
    if facts["secrets"]:
        lines.append(f"Secrets: {', '.join(facts['secrets'])}")
    if facts.get("transforms"):
        lines.append(f"Transforms: {', '.join(facts['transforms'])}")
    if facts["waits"]:
        lines.append("Waits:")
        lines += [
            f"  {wait['node']}  {'approval' if 'approval' in wait else 'event'} "
            f"{wait.get('approval', wait.get('event'))}"
            for wait in facts["waits"]
        ]
    return "\n".join(lines) + "\n"


def tool_text(tool: Mapping[str, Any]) -> str:
    """Return the effect of a tool and its undo in words."""
    return f"{tool['effect']}{_undo_text(tool)}"


def _undo_text(tool: Mapping[str, Any]) -> str:
    text = "" if tool["known"] else ", not known here"
    if tool["undo"]:
        return f"{text}, undo with {tool['undo']}"
    # Nothing of a read is to undo, and a flow has the undos of its steps.
    return text if text or tool["effect"] == "read" or tool["isFlow"] else ", no undo"


def facts_of(flow: Flow, known: Known) -> Facts:
    """Return the facts of a flow."""
    reader = _Reader(known)
    # This walk also collects loops and undos, so it comes before everything that reads them.
    calls = reader.region(flow.body)
    rows: tuple[dict[str, Json], ...] = tuple(
        {
            "tool": tool,
            "effect": known(tool).effect,
            "undo": reader.undo_of(tool),
            "isFlow": known(tool).flow is not None,
            "known": known(tool).known,
            "calls": calls[tool],
        }
        for tool in sorted(calls)
    )
    return Facts(
        tools=rows,
        max_calls=_sum(calls.values()),
        loops=tuple(reader.loops),
        secrets=tuple(sorted(set(_secrets(flow.body)))),
        waits=tuple(_waits(flow.body)),
        transforms=tuple(sorted({name for op in _programs(flow.body) for _, name in op.transforms})),
        _effects={tool: known(tool).effect for tool in calls},
    )


def _programs(body: Graph) -> Iterator[Program]:
    return (node.op for node in nodes_of(body) if isinstance(node.op, Program))


class _Reader:
    """Counts the calls of a flow and of the flows that it calls."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.loops: list[dict[str, Json]] = []
        self._inside: list[str] = []
        self._undos: dict[str, set[str | None]] = {}  # by tool: the undos of its calls
        self.constants: dict[str, Json] = {}  # the values of nodes that follow from the definition alone

    def undo_of(self, tool: str) -> str | None:
        """Return the tools that take the calls of a tool back; None if some call has no undo."""
        undos = [undo for undo in self._undos.get(tool, {None}) if undo is not None]
        return ", ".join(sorted(undos)) if undos and None not in self._undos[tool] else None

    def region(self, body: Graph) -> Calls:
        """Return the most calls of each tool in one run of a region."""
        total: Calls = {}
        for node in body.nodes:
            if isinstance(node.op, Compute) and (value := _constant(node.op.value, self.constants)) is not UNKNOWN:
                self.constants[node.id] = value
            for tool, count in self._node(node).items():
                total[tool] = plus(total.get(tool, 0), count)
        return total

    def _node(self, node: Node) -> Calls:
        op: Any = node.op
        attempts = node.policy.retry.attempts
        if isinstance(op, Call):
            undo = self.known(op.tool).undo if op.undo is None else op.undo.tool
            self._undos.setdefault(op.tool, set()).add(undo)
            return times(self.call(op.tool), attempts)
        if isinstance(op, Loop) and (limit := _agent_limit(op)) is not None:
            return times(self._agent(op, limit), attempts)
        if isinstance(op, Program):
            return times(self._program(op), attempts)
        # Of the arms of a branch one runs.
        calls = most([self.region(body) for body in bodies(node)])
        if isinstance(op, (Map, Loop)):
            calls = times(calls, self._iterations(node, bool(calls)))
        return times(calls, attempts)

    def _program(self, op: Program) -> Calls:
        """Count the calls of a program, each of which runs the region of its tool."""
        by_tool = {id: self.region(body) for _, body in op.tools for id in _tools_of(body)}
        if op.outline is None:
            return {tool: None for calls in by_tool.values() for tool in calls}
        self.loops += loops_of_outline(op.outline)
        return calls_of_outline(op.outline, lambda tool: by_tool[tool] if tool in by_tool else self.call(tool))

    def _agent(self, op: Loop, limit: int) -> Calls:
        """Count the calls of an agent that makes at most `limit` calls in all its turns."""
        calls: Calls = {}
        for node in op.body.nodes:
            if isinstance(node.op, Map):
                calls |= times(self.region(node.op.body), limit)
            else:
                calls |= times(self._node(node), op.limit)
        return calls

    def call(self, tool: str) -> Calls:
        """Return the most calls that one call of a tool makes, those of inner flows included."""
        known = self.known(tool)
        calls: Calls = {tool: None if known.runs_programs else 1}
        flow = known.flow
        if flow is None:
            return calls
        if tool in self._inside or len(self._inside) >= _DEEPEST:
            return {tool: None}
        self._inside.append(tool)
        outer_loop_count = len(self.loops)
        for name, count in self.region(flow.body).items():
            calls[name] = plus(calls.get(name, 0), count)
        del self.loops[outer_loop_count:]  # the loops of inner flows are not nodes of this one
        self._inside.pop()
        return calls

    def _length(self, items: Expr) -> int | None:
        """Return how many items an expression has, if that follows from the definition."""
        if isinstance(items, Arr):
            return len(items.items)
        value = _constant(items, self.constants)
        return len(value) if isinstance(value, list) else None

    def _iterations(self, node: Node, has_calls: bool) -> int | None:
        op: Any = node.op
        items = self._length(op.items) if op.items is not None else None
        limit = op.most if isinstance(op, Map) else op.limit
        if items is not None:
            return items if limit is None else min(items, limit)
        if has_calls or (bodies(node) and not _is_pure(node)):
            # The loop of an agent has more iterations than turns, because refused calls of the model take some.
            turns = _agent_limit(op, "max_rounds") if isinstance(op, Loop) else None
            self.loops.append({"node": node.meta.name or node.id, "at": node.meta.source, "limit": turns or limit})
        return int(limit) if limit is not None else None


def _agent_limit(op: Loop, option: str = "max_calls") -> int | None:
    """Return a limit of the agent that a loop is; None for one without this limit, and for other loops."""
    for node in op.body.nodes:
        if isinstance(node.op, Call) and node.op.tool == MODEL and isinstance(node.op.args, Obj):
            options = dict(node.op.args.fields).get("options")
            limit: Any = options.value.get(option) if isinstance(options, Lit) else None
            return limit if isinstance(limit, int) else None
    return None


def _is_pure(node: Node) -> bool:
    return not any(isinstance(inner.op, (Call, Wait)) for body in bodies(node) for inner in nodes_of(body))


def _constant(expr: Expr, known: dict[str, Json]) -> Any:
    """Return the value of an expression that follows from the definition alone, else UNKNOWN."""
    if isinstance(expr, Lit):
        return expr.value
    if isinstance(expr, Arr):
        items = [_constant(item, known) for item in expr.items]
        return UNKNOWN if UNKNOWN in items else items
    if isinstance(expr, Obj):
        fields = {name: _constant(inner, known) for name, inner in expr.fields}
        return UNKNOWN if UNKNOWN in fields.values() else fields
    if isinstance(expr, Ref):
        value: Any = known.get(str(expr.path[0]), UNKNOWN) if expr.root == "out" and expr.path else UNKNOWN
        for key in expr.path[1:]:
            value = value.get(key, UNKNOWN) if isinstance(value, dict) else UNKNOWN
        return value
    return UNKNOWN


def _sum(counts: Any) -> int | None:
    total: int | None = 0
    for count in counts:
        total = plus(total, count)
    return total


def _secrets(body: Graph) -> Iterator[str]:
    for graph in (body, *(inner for node in nodes_of(body) for inner in bodies(node))):
        for ref in refs_inside(graph):
            if ref.root == "secret" and ref.path:
                yield str(ref.path[0])


def _tools_of(region: Graph) -> Iterator[str]:
    return (node.op.tool for node in region.nodes if isinstance(node.op, Call))


def _waits(body: Graph) -> Iterator[dict[str, Json]]:
    for node in body.nodes:
        if isinstance(node.op, Program) and node.op.outline is not None:
            yield from waits_of_outline(node.op.outline, _asking_tools(node.op), node.op.places)
            continue
        if isinstance(node.op, Wait):
            name = node.meta.name or node.id
            if name.startswith(_APPROVAL_OF_AGENT):
                yield {"node": name, "approval": before_each_call(name.removeprefix(_APPROVAL_OF_AGENT))}
            elif node.op.call is not None:
                yield {"node": name, "approval": before_each_call(node.op.call.tool)}
            elif node.op.approval is not None:
                yield {"node": name, "approval": _words(node.op.approval)}
            elif node.op.event is not None:
                yield {"node": name, "event": _words(node.op.event)}
        for inner in bodies(node):
            yield from _waits(inner)


def _asking_tools(op: Program) -> set[str]:
    """Return the tools each call of which waits for an approval."""
    asking = (body for _, body in op.tools if any(isinstance(node.op, Wait) for node in body.nodes))
    return {tool for body in asking for tool in _tools_of(body)}


def _words(expr: Expr) -> str:
    if isinstance(expr, Lit):
        return str(expr.value)
    try:
        words = unlift(expr)
    except ExpressionError:  # a program computes it
        words = None
    return words if isinstance(words, str) else str(show_in_document(expr))


def _place(loop: dict[str, Json]) -> str:
    return f"{loop['node']} ({loop['at']})" if loop["at"] else str(loop["node"])


def _limit(loop: dict[str, Json]) -> str:
    return "" if loop["limit"] is None else f"  stops after {loop['limit']:,} iterations"
