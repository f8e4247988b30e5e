"""The values of a written plan: what references mean at a node, and calls of tools with their arguments."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping
from typing import Any, Final

from ...check.approvals import approvals_read
from ...errors import ExpressionError
from ...expr.ast import Expr, Lit, Obj, Ref
from ...ir import Flow, Graph, Node, refs_inside
from ...ops import Call, calls_of
from ...problems import Warnings
from ..writing import FlowWriter
from .write_expressions import ExpressionWriter, Typed, called
from .write_names import Lines, Names, is_name, tool_names
from .write_types import NONE, TEXT, UNKNOWN, Certain, either, of_schema

_MODEL: Final = "ropewalk:"
_KEYWORDS: Final = frozenset(keyword.kwlist)


class Here:
    """The surroundings of a node: what references mean there."""

    # `path`: The path of the region in the flow.
    # `names`: The variables of nodes, by id.
    # `prev`: The value of the last node that ran.
    # `item`: The element of the nearest loop over items.
    # `index`: The position in the nearest loop over items.
    # `round`: The number of the iteration of the nearest loop.
    # `error`: True in a fallback whose failure is that of a call.
    # `in_function`: True inside a local function, which cannot set outer variables.

    def __init__(self) -> None:
        self.path = ""
        self.names: dict[str, Typed] = {}
        self.prev = Typed(ast.Constant(None), NONE)
        self.item: Typed | None = None
        self.index: Typed | None = None
        self.round: Typed | None = None
        self.error = ""
        self.in_function = False

    def inside(self, path: str = "", **changes: Any) -> Here:
        """Return the surroundings in a region inside, with its own names."""
        inner = Here()
        inner.__dict__.update({**self.__dict__, "names": dict(self.names), "error": "", **changes})
        if path:
            inner.path = f"{path}/"
        return inner


class ValueWriter(FlowWriter[Here]):
    """Writes expressions and calls of one flow; a subclass writes its nodes."""

    kind = "plan"

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self.schema: Mapping[str, Any] = flow.input_schema if isinstance(flow.input_schema, dict) else {}
        self.tools: dict[str, str] = {}
        self.read = {str(ref.path[0]) for ref in refs_inside(flow.body) if ref.root == "out" and ref.path}
        self.reads_state = channels_read(flow.body)
        self.answers = approvals_read(flow)
        self.start(set())

    def region(self, body: Graph, here: Here, result: str, target: str | None = None) -> Typed:
        """Write the nodes of a region and return its value."""
        raise NotImplementedError

    def start(self, needed: set[str]) -> None:
        """Begin the program, knowing the local functions that it turned out to need."""
        self.problems, self.refusals, self.incomplete = Warnings(), 0, set[str]()
        inputs = [*self.schema.get("properties", {}), *self.inputs_read()]
        self.tools = tool_names((node.op.tool for node in calls_of(self.flow.body)), inputs)
        heads = [name.split(".")[0] for name in self.tools.values()]
        self.names = Names([*inputs, *heads, *needed])
        self.lines, self.needed = Lines(), set[str]()
        self.state = {name: self.names.fresh(name) for name in self.flow.state}

    def inputs_read(self) -> list[str]:
        paths = [ref.path for ref in refs_inside(self.flow.body) if ref.root == "input"]
        return list(dict.fromkeys([*(str(path[0]) for path in paths if path), *self.flow.seeds]))

    def is_kept(self, channel: str) -> bool:
        """Return True if a variable is read, or if an update of it may be refused."""
        declared = self.flow.state[channel]
        return channel in self.reads_state or declared.reduce != "last_wins" or declared.schema is not None

    # --- calls ------------------------------------------------------------------------------------

    def timed_call(self, node: Node, path: str, here: Here) -> ast.expr:
        """Return the call of a tool, with its limit in time."""
        op: Any = node.op
        call = self.call(op, path, here)
        if node.policy.timeout is None or not is_bare_call(node):
            return call
        return timed(call, node.policy.timeout)

    def call(self, op: Call, path: str, here: Here) -> ast.expr:
        """Return the call of a tool with keyword arguments."""
        if op.tool.startswith(_MODEL):
            self.refuse(path, "a plan cannot hold the loop of an agent", decisive=True)
        args = op.args
        # A literal object has fields too, which become keyword arguments.
        if isinstance(args, Lit) and isinstance(args.value, dict):
            args = Obj(tuple((key, Lit(value)) for key, value in args.value.items()))
        keywords = []
        if isinstance(args, Obj):
            with self.entire(f"{path}.args"):
                fields = dict(args.fields)
                # A field whose name is not an identifier cannot be a keyword; `**{...}` takes it.
                odd = {key: value for key, value in fields.items() if not key.isidentifier() or key in _KEYWORDS}
                for key, value in fields.items():
                    if key not in odd:
                        keywords.append(ast.keyword(key, self.expr(value, f"{path}.args", here).node))
                if odd:
                    spread = self.expr(Obj(tuple(odd.items())), f"{path}.args", here)
                    keywords.append(ast.keyword(None, spread.node))
        else:
            spread = self.expr(args, f"{path}.args", here)
            # `**` fails for null, which means no arguments in a flow.
            if not spread.certain.is_a("dict"):
                self.needed.add("fields_of")
                spread = Typed(called("fields_of", spread.node))
            keywords.append(ast.keyword(None, spread.node))
        head, _, rest = self.tools[op.tool].partition(".")
        function: ast.expr = ast.Name(head, ast.Load())
        if rest:
            function = ast.Attribute(function, rest, ast.Load())
        return ast.Call(function, [], keywords)

    # --- expressions ------------------------------------------------------------------------------

    def writer(self, here: Here, path: str) -> ExpressionWriter:
        return ExpressionWriter(lambda ref: self._resolve(ref, here), self.needed, self.names.fresh)

    def expr(self, expr: Expr, path: str, here: Here) -> Typed:
        """Return the value of an expression in Python; None if it is refused."""
        with self.entire(path):
            try:
                return self.writer(here, path).value(expr)
            except ExpressionError as wrong:
                self.refuse(path, wrong.message)
                return Typed(ast.Constant(None), NONE)

    def test(self, expr: Expr, path: str, here: Here) -> ast.expr:
        """Return a condition in Python; False if it is refused."""
        with self.entire(path):
            try:
                return self.writer(here, path).test(expr)
            except ExpressionError as wrong:
                self.refuse(path, wrong.message)
                return ast.Constant(False)

    def _resolve(self, ref: Ref, here: Here) -> tuple[Typed, tuple[str | int, ...]]:
        """Return the variable that a reference starts from, and the rest of its path."""
        path = ref.path
        # A case whose guard is false reaches the error at the end.
        match ref.root:
            case "input":
                return self.input(path)
            case "out" if path and str(path[0]) in here.names:
                return here.names[str(path[0])], path[1:]
            case "state" if path and str(path[0]) in self.state:
                channel = self.flow.state[str(path[0])]
                name = self.state[str(path[0])]
                return Typed(ast.Name(name, ast.Load()), UNKNOWN, not channel.present), path[1:]
            case "item" | "index" | "round" if getattr(here, ref.root) is not None:
                return getattr(here, ref.root), path
            case "prev":
                return here.prev, path
            case "error" if here.error and path in (("message",), ("kind",)):
                error = ast.Name(here.error, ast.Load())
                node = called("str", error) if path == ("message",) else ast.Attribute(error, "kind", ast.Load())
                return Typed(node, TEXT), ()
            case "secret":
                raise ExpressionError("a plan reads no secrets; give the secret to the tool")
            case "status":
                raise ExpressionError(f"a plan cannot read how {path[0]!r} ended")
        # Name the reference as the author wrote it.
        shown = (ref.original or ref).root
        raise ExpressionError(f"a plan cannot read ${shown} as a whole here" if not path else f"no ${shown} here")

    def input(self, path: tuple[str | int, ...]) -> tuple[Typed, tuple[str | int, ...]]:
        properties: Mapping[str, Any] = self.schema.get("properties", {})
        required = self.schema.get("required", ())
        if path:
            name = str(path[0])
            if not is_name(name):
                raise ExpressionError(f"the input {name!r} cannot be a name in Python")
            certain = of_schema(properties.get(name))
            if name not in required:
                certain = either([certain, NONE])
            return Typed(ast.Name(name, ast.Load()), certain, name not in required), path[1:]
        is_closed = self.schema.get("additionalProperties") is False and set(properties) <= set(required)
        if not (is_closed and properties and all(map(is_name, properties))):
            raise ExpressionError(
                "a plan reads its input by names: declare every member as required, with additionalProperties: false"
            )
        fields = {name: self.input((name,))[0] for name in properties}
        keys: list[ast.expr | None] = [ast.Constant(name) for name in fields]
        node = ast.Dict(keys, [value.node for value in fields.values()])
        return Typed(node, Certain(frozenset(("dict",)), {key: value.certain for key, value in fields.items()})), ()


def is_bare_call(node: Node) -> bool:
    """Return True for a call without conditions."""
    return isinstance(node.op, Call) and node.gate is None and node.when is None


def is_plain_call(node: Node) -> bool:
    """Return True for a call without conditions, retries, a fallback or a value of its own."""
    has_policy = node.policy.on_error is not None or node.policy.retry.attempts > 1
    return is_bare_call(node) and node.result is None and not has_policy


def timed(call: ast.expr, seconds: float) -> ast.expr:
    """Return a call with a limit in time."""
    function = ast.Attribute(ast.Name("asyncio", ast.Load()), "wait_for", ast.Load())
    return ast.Call(function, [call, ast.Constant(plain(seconds))], [])


def plain(seconds: float) -> float:
    """Return seconds as an integer where they are one."""
    return int(seconds) if float(seconds).is_integer() else seconds


def variable(name: str, certain: Certain) -> Typed:
    return Typed(ast.Name(name, ast.Load()), certain)


def channels_read(body: Graph) -> set[str]:
    return {str(ref.path[0]) for ref in refs_inside(body) if ref.root == "state" and ref.path}
