"""Walk over a flow once, region by region, in an order in which it could run.

A region adds its nodes to the readable ones in the order in which they finish, and removes them
at its end. So the readable nodes are right at every point, without a set of ancestors per node.

To teach the check a new op that binds names in its body, or whose value has a known type, add a rule
to `Walk.rules`. An op without a rule is walked field by field, and its value may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeAlias

from ..deadline import look_at_clock
from ..expr.ast import Expr, Lit, Obj
from ..fast_dataclass import dataclass
from ..ir import NO_POLICY, Channel, Flow, Graph, Node, parts
from ..ops import Block, Branch, Call, Compute, Loop, Map, Program, Require, Sleep, Validate, Wait, in_milliseconds
from ..schema import default_errors, schema_errors
from ..state import REDUCERS
from ..values import Json, did_you_mean
from .arguments import FitChecker
from .references import ReadScope
from .report import UNKNOWN_TOOL, Report, join_names, unknown_tool
from .structure import Layout, Step, Steps, Writers, check_after, check_limit, check_policy, check_timeout, sort_nodes
from .types import (
    ARRAY,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Each,
    Sub,
    Type,
    describe_kinds,
    items_of,
    kinds_of,
    union_type,
)
from .undo import check_undo
from .updates import accepted_by


@dataclass(frozen=True)
class ToolCard:
    """Hold the JSON Schemas of a tool for the check; None for a schema that the tool does not declare.

    `undo` is the undo of the tool, with `tool` and `expr`. The card caches what the check learns about the schemas, so
    hand out the same card again.
    """

    input_schema: Json = None
    output_schema: Json = None
    undo: Any = None

    @cached_property
    def takes(self) -> Sub | None:
        """Return the input schema as a type."""
        return Sub(self.input_schema, self.input_schema) if type(self.input_schema) is dict else None

    @cached_property
    def gives(self) -> Sub | None:
        """Return the output schema as a type."""
        return Sub(self.output_schema, self.output_schema) if type(self.output_schema) is dict else None


Tools: TypeAlias = Callable[[str], ToolCard | None]
"""Finds the card of a tool. Its optional method `.names()` gives the names for "did you mean"."""

_NUMBER_OR_NULL = INTEGER | NUMBER | NULL
_ANSWER: Mapping[str, Type] = {"approved": BOOLEAN, "by": STRING | NULL, "note": STRING | NULL}
_after = attrgetter("after")


class Walk:
    """Walk a flow once with `run`, then read the report."""

    # With `tracks_null`, types include possible nulls.

    scope_type: type[ReadScope] = ReadScope
    tracks_null = False

    def __init__(
        self, flow: Flow, layout: Layout, report: Report, tools: Tools | None, unknown_tools: str = "warning"
    ) -> None:
        self.flow, self.report, self.tools = flow, report, tools
        self.unknown_tools = unknown_tools
        self.scope = self.scope_type(flow, layout, report)
        self.scope.position = self.position
        self.fit_checker = FitChecker(self.scope.add_problem, self.scope.optional_inputs)
        self.writers = Writers(report)
        self.cards: dict[str, tuple[ToolCard | None, str]] = {}
        self._update_schemas: dict[str, Sub | None] = {}
        self.steps: Steps = ()
        self.graph = flow.body
        self.rules: Mapping[type[Any], Callable[[Any], Type]] = {
            Call: self._call, Compute: self._compute, Sleep: self._sleep, Wait: self._wait, Block: self._block,
            Branch: self._branch, Map: self._map, Loop: self._loop, Program: self._program,
            Validate: self._validate, Require: self._require,
        }  # fmt: skip

    def run(self) -> None:
        """Check everything but the shape, which `Layout` has checked."""
        flow = self.flow
        check_timeout("timeout", flow.timeout, self._add_problem)
        if self._check_schema("input_schema", flow.input_schema) and type(flow.input_schema) is dict:
            for place, why in default_errors(flow.input_schema):
                self._add_problem(f"input_schema{place}", f"the default does not fit: {why}")
        has_output_schema = self._check_schema("output_schema", flow.output_schema)
        for name, channel in flow.state.items():
            self._check_channel(name, channel)
        # The body comes after the channels, because its nodes read and write them.
        result = self.region(flow.body, "")
        last = flow.body.nodes[-1].op if flow.body.nodes else None
        # A final validate node with the same schema reports at its own place.
        is_checked_by_node = isinstance(last, Validate) and last.schema is flow.output_schema
        if has_output_schema and type(flow.output_schema) is dict and result is not None and not is_checked_by_node:
            self.scope.field = "result"
            self.fit_checker.check_fit(
                flow.body.result,
                result,
                Sub(flow.output_schema, flow.output_schema),
                None,
                "property",
                " of the output",
            )
        self.writers.check()

    # --- regions and nodes ----------------------------------------------------------------------

    def region(self, graph: Graph, field: str, then: Callable[[], None] | None = None) -> Type:
        """Check one region."""
        scope = self.scope
        # Everything that this region changes is restored at its end.
        owner, outer_graph, steps, prev = scope.node, self.graph, self.steps, scope.prev
        was_ordered, was_doubtful, tested = scope.ordered, scope.doubtful, scope.tested
        check_limit(f"{field}.limit" if field else "limit", graph.limit, self._add_problem)
        if owner is not None:
            self.steps = (*steps, Step(outer_graph, owner, field))
            scope.owners = (scope.owners, owner)
        self.graph = graph
        nodes: Any = graph.nodes
        ordered = graph.ordered
        if any(map(_after, nodes)):
            check_after(graph, self.report, scope.owners)
        # Nodes are walked in an order of running, so that each finds its needs already typed.
        if ordered:
            scope.ordered = True
        else:
            nodes, cyclic = sort_nodes(graph, self.report, scope.owners)
            scope.doubtful = was_doubtful | cyclic if cyclic else was_doubtful
        for node in nodes:
            look_at_clock()
            scope.node, scope.tested = node, tested
            value_type = self._node(node)
            if ordered:
                is_conditional = node.gate is not None or node.when is not None
                scope.prev = union_type(scope.prev, value_type) if is_conditional else value_type
        # The region's result may read all of its nodes; after it they are out of scope.
        scope.node, scope.tested = owner, tested
        if owner is not None:
            scope.owners = scope.owners[0] if scope.owners is not None else None
        scope.field = f"{field}.result" if field else "result"
        result = scope.infer_type(graph.result)
        if then is not None:
            then()
        for node in nodes:
            scope.output_types.pop(node.id, None)
        self.graph, self.steps, scope.prev = outer_graph, steps, prev
        scope.ordered, scope.doubtful = was_ordered, was_doubtful
        return result

    def _node(self, node: Node) -> Type:
        """Check one node, make it readable for later ones, and return the type of its value."""
        scope, value_types = self.scope, self.scope.output_types
        is_conditional = False
        if node.gate is not None:
            self._check_condition("gate", node.gate)
            is_conditional = True
        if node.when is not None:
            self._check_condition("when", node.when)
            is_conditional = True
        rule = self.rules.get(type(node.op))
        value_type = rule(node.op) if rule is not None else self._unknown_op(node.op)
        # The result expression of a node reads the node's own output.
        if node.result is not None:
            value_types[node.id] = value_type
            scope.field = "result"
            value_type = scope.infer_type(node.result)
        if node.policy is not NO_POLICY:
            value_type = self._apply_policy(node, value_type)
        # A node with a condition may be skipped, and its value is then null.
        value_types[node.id] = union_type(value_type, NULL) if is_conditional and self.tracks_null else value_type
        if node.writes is not None:
            self._check_writes(node.writes)
        return value_type

    def _check_condition(self, field: str, expr: Expr) -> None:
        scope = self.scope
        scope.field = field
        bits = kinds_of(scope.infer_type(expr))
        if not bits & (BOOLEAN | NULL):
            scope.add_problem(f"a condition must be true or false; this is {describe_kinds(bits)}", None)

    def _apply_policy(self, node: Node, value_type: Type) -> Type:
        policy, scope = node.policy, self.scope
        check_policy(policy, self._add_problem)
        if policy.on_error is None:
            return value_type
        scope.field, scope.failing = "policy.on_error.value", True
        fallback = scope.infer_type(policy.on_error.value)
        scope.failing = False
        return value_type if type(fallback) is Lit and fallback.value is None else union_type(value_type, fallback)

    def _add_problem(self, field: str, message: str, *, warning: bool = False) -> None:
        scope = self.scope
        self.report.add(message, node=scope.node, owners=scope.owners, field=field, warning=warning)

    def _check_schema(self, field: str, schema: Json) -> bool:
        """Report the errors of a schema; return True if it is valid."""
        problems = schema_errors(schema) if schema is not None else []
        for place, why in problems:
            self._add_problem(f"{field}{place}", why)
        return not problems

    # --- state ----------------------------------------------------------------------------------

    def _check_channel(self, name: str, channel: Channel) -> None:
        if channel.reduce not in REDUCERS:
            suggestion = did_you_mean(channel.reduce, REDUCERS)
            self.report.add(
                f"unknown reducer {channel.reduce!r}; expected one of: {join_names(REDUCERS)}",
                field=f"state.{name}.reduce",
                suggestion=suggestion,
            )
        if not self._check_schema(f"state.{name}.schema", channel.schema):
            self._update_schemas[name] = None  # do not check updates against a broken schema
        elif type(channel.schema) is dict and channel.initial is not None:
            self.scope.field = f"state.{name}.initial"
            self.fit_checker.check_fit(
                Lit(channel.initial), Lit(channel.initial), Sub(channel.schema, channel.schema), None, "property", ""
            )

    def _check_writes(self, expr: Expr) -> None:
        scope = self.scope
        scope.field = "writes"
        updates_type = scope.infer_type(expr)
        if isinstance(expr, Obj):
            updates: list[tuple[str, Expr, Type]] = [(key, inner, updates_type[key]) for key, inner in expr.fields]
        elif isinstance(expr, Lit) and type(expr.value) is dict:
            updates = [(key, Lit(value), Lit(value)) for key, value in expr.value.items()]
        elif type(updates_type) is dict:
            updates = [(key, expr, None) for key in updates_type]
        else:
            if not kinds_of(updates_type) & (OBJECT | NULL):
                scope.add_problem(
                    f"must be an object of state fields; this is {describe_kinds(kinds_of(updates_type))}", None
                )
            assert scope.node is not None
            scope.updates.has_unknown_writes = True
            for i, name in enumerate(scope.node.meta.writes):  # declared by the node, because the expression is dynamic
                if name in self.flow.state and self.flow.state[name].reduce == "set_once":
                    self.writers.add(name, self.position(), scope.owners, (None, i))
            return
        for name, inner, value_type in updates:
            self._check_update(name, inner, value_type)

    def _check_update(self, name: str, expr: Expr, value_type: Type) -> None:
        scope = self.scope
        channel = self.flow.state.get(name)
        if channel is None:
            suggestion = did_you_mean(name, self.flow.state)
            scope.add_problem(f"writes undeclared state field {name!r}", (None, name), suggestion=suggestion)
            return
        assert scope.node is not None
        scope.updates.add(name, self.steps, self.graph, scope.node, value_type)
        if channel.reduce == "set_once":
            self.writers.add(name, self.position(), scope.owners, (None, name))
        if value_type is not None:
            schema = (
                self._update_schemas[name]
                if name in self._update_schemas
                else self._update_schemas.setdefault(name, accepted_by(channel))
            )
            if schema is not None and not self._refuse_single(name, channel, value_type):
                self.fit_checker.check_fit(expr, value_type, schema, (None, name), "property", "")

    def _refuse_single(self, name: str, channel: Channel, value_type: Type) -> bool:
        """Return True, and say how to collect, if items write single values to a list that keeps the last write."""
        node, kinds = self.scope.node, kinds_of(value_type)
        how = node.meta.labels.get("collect") if node is not None and node.meta.labels else None
        declared = channel.schema.get("type") if type(channel.schema) is dict else None
        is_in_map = bool(self.steps) and isinstance(self.steps[-1].node.op, Map)
        if not how or not is_in_map or declared != "array" or channel.reduce != "last_wins" or kinds & (ARRAY | NULL):
            return False
        message = (
            f"must be a list; each item writes {describe_kinds(kinds)}. To collect them, declare {name} with {how}"
        )
        self.scope.add_problem(message, (None, name))
        return True

    def position(self) -> Steps:
        """Return the path from the root to the current node."""
        assert self.scope.node is not None
        return (*self.steps, Step(self.graph, self.scope.node, ""))

    # --- ops ------------------------------------------------------------------------------------

    def _call(self, op: Call) -> Type:
        scope = self.scope
        scope.field = "args"
        arguments_type = scope.infer_type(op.args)
        # Infer `also` only to report its problems: the schema is checked against `args` alone.
        if op.also is not None:
            scope.field = "also"
            scope.infer_type(op.also)
            scope.field = "args"
        # Without known tools, only the definition itself can be checked.
        if self.tools is None:
            if not op.tool:
                self._add_problem("tool", "the name of the tool is missing")
            return None
        # A flow often calls one tool many times, so look it up once.
        if op.tool not in self.cards:
            self.cards[op.tool] = (self.tools(op.tool), f" of tool {op.tool!r}")
        card, suffix = self.cards[op.tool]
        if card is None:
            self._unknown_tool(op.tool)
            return None
        if card.takes is not None:
            self.fit_checker.check_fit(op.args, arguments_type, card.takes, None, "argument", suffix)
        if op.undo is not None or card.undo is not None:
            check_undo(self, op, card, arguments_type)
        return card.gives

    def _unknown_tool(self, tool: str) -> None:
        message, suggestion, certain = unknown_tool(tool, self.tools, suggest=self.report.takes_warnings)
        is_warning = self.unknown_tools != "problem" and not (self.unknown_tools == "certain" and certain)
        remedy = getattr(self.tools, "remedy", None)
        self.report.add(
            message,
            remedy=remedy(tool) if callable(remedy) else None,
            node=self.scope.node,
            owners=self.scope.owners,
            field="tool",
            suggestion=suggestion,
            warning=is_warning,
            keyword=UNKNOWN_TOOL,
        )

    def _compute(self, op: Compute | Require) -> Type:
        self.scope.field = "value"
        return self.scope.infer_type(op.value)

    def _require(self, op: Require) -> Type:
        self._check_condition("holds", op.holds)
        return self._compute(op)

    def _sleep(self, op: Sleep) -> Type:
        milliseconds = in_milliseconds(op.seconds)
        self._check_seconds(
            "seconds", milliseconds or op.seconds, "seconds" if milliseconds is None else "milliseconds"
        )
        return NULL

    def _wait(self, op: Wait) -> Type:
        scope = self.scope
        for field, text in (("event", op.event), ("approval", op.approval)):
            if text is not None:
                scope.field = field
                text_type = scope.infer_type(text)
                if not kinds_of(text_type) & STRING:
                    scope.add_problem(f"must be a string; this is {describe_kinds(kinds_of(text_type))}", None)
        if op.call is not None:
            scope.field = "call.args"
            scope.infer_type(op.call.args)
        if sum(part is not None for part in (op.event, op.approval, op.call)) != 1:
            scope.field = "event"
            scope.add_problem("a wait needs either an event or an approval", None)
        if op.timeout is not None:
            self._check_seconds("timeout", op.timeout, "seconds")
        return None if op.event is not None else dict(_ANSWER)

    def _check_seconds(self, field: str, seconds: Expr, unit: str) -> None:
        scope = self.scope
        scope.field = field
        value_type = scope.infer_type(seconds)
        if not kinds_of(value_type) & _NUMBER_OR_NULL:
            scope.add_problem(f"must be a number of {unit}; this is {describe_kinds(kinds_of(value_type))}", None)
        elif isinstance(seconds, Lit) and type(seconds.value) in (int, float) and not seconds.value >= 0:
            scope.add_problem(f"must not be negative; it is {seconds.value}", None)

    def _block(self, op: Block) -> Type:
        return self.region(op.body, "body")

    def _branch(self, op: Branch) -> Type:
        types: list[Type] = []
        for i, (test, body) in enumerate(op.arms):
            self._check_condition(f"arms[{i}][0]", test)
            types.append(self.region(body, f"arms[{i}][1]"))
        types.append(self.region(op.default, "default") if op.default is not None else NULL)
        return union_type(*types)

    def _items(self, items: Expr) -> Type:
        """Infer the expression that a node iterates over, and return the type of one element."""
        scope = self.scope
        scope.field = "items"
        items_type = scope.infer_type(items)
        if not kinds_of(items_type) & (ARRAY | NULL):
            scope.add_problem(f"must be a list; this is {describe_kinds(kinds_of(items_type))}", None)
            return None
        return items_of(items_type)

    def _map(self, op: Map) -> Type:
        scope = self.scope
        item = self._items(op.items)
        check_limit("limit", op.limit, self._add_problem)
        check_limit("most", op.most, self._add_problem)
        outer = scope.mapped, scope.item, scope.prev
        scope.mapped, scope.item, scope.prev = True, item, None
        result = self.region(op.body, "body")
        scope.mapped, scope.item, scope.prev = outer
        if op.select and not kinds_of(result) & (BOOLEAN | NULL):
            scope.field = "body"
            scope.add_problem(f"a test must give true or false; this gives {describe_kinds(kinds_of(result))}", None)
        return Each(item if op.select else result)

    def _program(self, op: Program) -> Type:
        scope = self.scope
        scope.field = "inputs"
        scope.infer_type(op.inputs)
        outer = scope.mapped, scope.item, scope.prev
        scope.mapped, scope.item, scope.prev = True, None, None
        for i, (_, body) in enumerate(op.tools):
            self.region(body, f"tools[{i}][1]")
        scope.mapped, scope.item, scope.prev = outer
        return None

    def _loop(self, op: Loop) -> Type:
        scope = self.scope
        check_limit("limit", op.limit, self._add_problem)
        outer = scope.looped, scope.prev, scope.mapped, scope.item
        if op.items is not None:
            scope.item, scope.mapped = self._items(op.items), True
        elif op.limit is None:
            self._add_problem("limit", "a loop without items needs a limit on its iterations")
        scope.field = "initial"
        initial = scope.infer_type(op.initial) if op.initial is not None else NULL
        # `prev` is the node before the loop in the first iteration, later the last iteration's result: unknown.
        scope.looped, scope.prev = True, None

        def check_conditions() -> None:
            if op.again is not None:
                self._check_condition("again", op.again)
            if op.until is not None:
                self._check_condition("until", op.until)

        result = self.region(op.body, "body", check_conditions)
        scope.looped, scope.prev, scope.mapped, scope.item = outer
        return Each(result) if op.collect else union_type(result, initial) if op.initial is not None else result

    def _validate(self, op: Validate) -> Type:
        scope = self.scope
        scope.field = "value"
        value_type = scope.infer_type(op.value)
        assert scope.node is not None
        # With an error policy a value that does not fit may be expected, so it is not a mistake.
        is_valid = self._check_schema("schema", op.schema)
        if is_valid and type(op.schema) is dict and scope.node.policy.on_error is None:
            self.fit_checker.check_fit(op.value, value_type, Sub(op.schema, op.schema), None, "property", "")
        return value_type

    def _unknown_op(self, op: Any) -> Type:
        for field, part in parts(op):
            if isinstance(part, Graph):
                self.region(part, field)
            else:
                self.scope.field = field
                self.scope.infer_type(part)
        return None
