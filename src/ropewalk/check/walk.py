"""One pass over a flow, region by region, in an order in which it could run.

A region adds its nodes to what can be read, one by one as they would finish, and takes them away
at its end; so what is readable is right at every point without a set of ancestors per node.

To teach the check about a new op that binds something in its body, or whose value is known, add a
rule to `Walk.rules`; an op without one is walked by its fields and its value may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeAlias

from ..deadline import look_at_clock
from ..expr.ast import Expr, Lit, Obj
from ..frozen import dataclass
from ..ir import NO_POLICY, Channel, Flow, Graph, Node, parts
from ..ops import Block, Branch, Call, Compute, Loop, Map, Require, Sleep, Validate, Wait, in_milliseconds
from ..schema import flaws, misfits
from ..state import REDUCERS
from ..values import Json, closest
from .arguments import Fitting
from .policies import check_limit, check_policy, check_timeout
from .reading import Reading
from .report import UNKNOWN_TOOL, Report, listing, unknown_tool
from .schemas import ARRAY, BOOLEAN, INTEGER, NULL, NUMBER, OBJECT, STRING, Sub
from .structure import Layout, check_after, sort
from .types import Each, Type, either, items_of, kinds_of, say
from .updates import accepted_by
from .writers import Steps, Writers


@dataclass(frozen=True)
class ToolCard:
    """What the check needs of a tool: its JSON Schemas; None for one that declares none.

    What is found out about the schemas stays with the card: hand out the same card again.
    """

    input_schema: Json = None
    output_schema: Json = None

    @cached_property
    def takes(self) -> Sub | None:
        """The input schema, to look into."""
        return Sub(self.input_schema, self.input_schema) if type(self.input_schema) is dict else None

    @cached_property
    def gives(self) -> Sub | None:
        """The output schema, to look into."""
        return Sub(self.output_schema, self.output_schema) if type(self.output_schema) is dict else None


Tools: TypeAlias = Callable[[str], ToolCard | None]
"""Finds the card of a tool. A `.names()` on it, if there is one, is asked for "did you mean"."""

_NUMBER_OR_NULL = INTEGER | NUMBER | NULL
_ANSWER: Mapping[str, Type] = {"approved": BOOLEAN, "by": STRING | NULL, "note": STRING | NULL}
_after = attrgetter("after")


class Walk:
    """The pass itself: `run` once, then read the report. With `nulls` types say where a value may be null."""

    reading: type[Reading] = Reading
    nulls = False

    def __init__(
        self, flow: Flow, layout: Layout, report: Report, tools: Tools | None, unknown_tools: str = "warning"
    ) -> None:
        self.flow, self.report, self.tools = flow, report, tools
        self.unknown_tools = unknown_tools
        self.read = self.reading(flow, layout, report)
        self.read.position = self.position
        self.fitting = Fitting(self.read.tell, self.read.absence)
        self.writers = Writers(report)
        self.cards: dict[str, tuple[ToolCard | None, str]] = {}
        self._taken: dict[str, Sub | None] = {}
        self.steps: Steps = ()
        self.graph = flow.body
        self.rules: Mapping[type[Any], Callable[[Any], Type]] = {
            Call: self._call, Compute: self._compute, Sleep: self._sleep, Wait: self._wait, Block: self._block,
            Branch: self._branch, Map: self._map, Loop: self._loop, Validate: self._validate,
            Require: self._require,
        }  # fmt: skip

    def run(self) -> None:
        """Check everything but the shape, which `Layout` has done."""
        flow = self.flow
        check_timeout("timeout", flow.timeout, self._say)
        if self._compiles("input_schema", flow.input_schema) and type(flow.input_schema) is dict:
            for place, why in misfits(flow.input_schema):
                self._say(f"input_schema{place}", f"the default does not fit: {why}")
        typed = self._compiles("output_schema", flow.output_schema)
        for name, channel in flow.state.items():
            self._channel(name, channel)
        result = self.region(flow.body, "")
        last = flow.body.nodes[-1].op if flow.body.nodes else None
        held = isinstance(last, Validate) and last.schema is flow.output_schema  # which says it at its place
        if typed and type(flow.output_schema) is dict and result is not None and not held:
            self.read.field = "result"
            self.fitting.fit(
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
        """Check one region and give the type of its value. `then` runs while its nodes can be read."""
        read = self.read
        owner, outer_graph, steps, prev = read.node, self.graph, self.steps, read.prev
        was_ordered, was_doubtful, asked = read.ordered, read.doubtful, read.asked
        check_limit(f"{field}.limit" if field else "limit", graph.limit, self._say)
        if owner is not None:
            self.steps = (*steps, (outer_graph, owner, field))
            read.owners = (read.owners, owner)
        self.graph = graph
        nodes: Any = graph.nodes
        ordered = graph.ordered
        if any(map(_after, nodes)):
            check_after(graph, self.report, read.owners)
        if ordered:
            read.ordered = True
        else:
            nodes, cyclic = sort(graph, self.report, read.owners)
            read.doubtful = was_doubtful | cyclic if cyclic else was_doubtful
        done, rules = read.done, self.rules
        for node in nodes:
            look_at_clock()
            read.node, read.asked = node, asked
            op = node.op
            soft = False
            if node.gate is not None:
                self._condition("gate", node.gate)
                soft = True
            if node.when is not None:
                self._condition("when", node.when)
                soft = True
            rule = rules.get(type(op))
            got = rule(op) if rule is not None else self._unknown_op(op)
            if node.result is not None:
                done[node.id] = got
                read.field = "result"
                got = read.look(node.result)
            if node.policy is not NO_POLICY:
                got = self._policy(node, got)
            done[node.id] = either(got, NULL) if soft and self.nulls else got
            if node.writes is not None:
                self._writes(node.writes)
            if ordered:
                read.prev = either(read.prev, got) if soft else got
        read.node, read.asked = owner, asked
        if owner is not None:
            read.owners = read.owners[0] if read.owners is not None else None
        read.field = f"{field}.result" if field else "result"
        result = read.look(graph.result)
        if then is not None:
            then()
        for node in nodes:
            done.pop(node.id, None)
        self.graph, self.steps, read.prev = outer_graph, steps, prev
        read.ordered, read.doubtful = was_ordered, was_doubtful
        return result

    def _condition(self, field: str, expr: Expr) -> None:
        read = self.read
        read.field = field
        bits = kinds_of(read.look(expr))
        if not bits & (BOOLEAN | NULL):
            read.tell(f"a condition must be true or false; this is {say(bits)}", None)

    def _policy(self, node: Node, got: Type) -> Type:
        policy, read = node.policy, self.read
        check_policy(policy, self._say)
        if policy.on_error is None:
            return got
        read.field, read.failing = "policy.on_error.value", True
        fallback = read.look(policy.on_error.value)
        read.failing = False
        return got if type(fallback) is Lit and fallback.value is None else either(got, fallback)

    def _say(self, field: str, message: str, *, warning: bool = False) -> None:
        read = self.read
        self.report.add(message, node=read.node, owners=read.owners, field=field, warning=warning)

    def _compiles(self, field: str, schema: Json) -> bool:
        wrong = flaws(schema) if schema is not None else []
        for place, why in wrong:
            self._say(f"{field}{place}", why)
        return not wrong

    # --- state ----------------------------------------------------------------------------------

    def _channel(self, name: str, channel: Channel) -> None:
        if channel.reduce not in REDUCERS:
            near = closest(channel.reduce, REDUCERS)
            self.report.add(f"unknown reducer {channel.reduce!r}; there are: {listing(REDUCERS)}",
                            field=f"state.{name}.reduce", suggestion=near)  # fmt: skip
        if not self._compiles(f"state.{name}.schema", channel.schema):
            self._taken[name] = None  # no word about updates
        elif type(channel.schema) is dict and channel.initial is not None:
            self.read.field = f"state.{name}.initial"
            self.fitting.fit(Lit(channel.initial), Lit(channel.initial), Sub(channel.schema, channel.schema), None,
                             "property", "")  # fmt: skip

    def _writes(self, expr: Expr) -> None:
        read = self.read
        read.field = "writes"
        got = read.look(expr)
        if isinstance(expr, Obj):
            updates: list[tuple[str, Expr, Type]] = [(key, inner, got[key]) for key, inner in expr.fields]
        elif isinstance(expr, Lit) and type(expr.value) is dict:
            updates = [(key, Lit(value), Lit(value)) for key, value in expr.value.items()]
        elif type(got) is dict:
            updates = [(key, expr, None) for key in got]
        else:
            if not kinds_of(got) & (OBJECT | NULL):
                read.tell(f"must be an object of state fields; this is {say(kinds_of(got))}", None)
            assert read.node is not None
            read.updates.open = True
            for i, name in enumerate(read.node.meta.writes):  # what cannot be read off the expression, but was said
                if name in self.flow.state and self.flow.state[name].reduce == "set_once":
                    self.writers.add(name, self.position(), read.owners, (None, i))
            return
        for name, inner, known in updates:
            self._update(name, inner, known)

    def _update(self, name: str, expr: Expr, got: Type) -> None:
        read = self.read
        channel = self.flow.state.get(name)
        if channel is None:
            near = closest(name, self.flow.state)
            read.tell(f"writes undeclared state field {name!r}", (None, name), suggestion=near)
            return
        assert read.node is not None
        read.updates.add(name, self.steps, self.graph, read.node, got)
        if channel.reduce == "set_once":
            self.writers.add(name, self.position(), read.owners, (None, name))
        if got is not None:
            wanted = self._taken[name] if name in self._taken else self._taken.setdefault(name, accepted_by(channel))
            if wanted is not None:
                self.fitting.fit(expr, got, wanted, (None, name), "property", "")

    def position(self) -> Steps:
        """The way from the root to the present node."""
        assert self.read.node is not None
        return (*self.steps, (self.graph, self.read.node, ""))

    # --- ops ------------------------------------------------------------------------------------

    def _call(self, op: Call) -> Type:
        read = self.read
        read.field = "args"
        got = read.look(op.args)
        if op.also is not None:
            read.field = "also"
            read.look(op.also)
            read.field = "args"
        if self.tools is None:
            if not op.tool:
                self._say("tool", "the name of the tool is missing")
            return None
        if op.tool not in self.cards:
            self.cards[op.tool] = (self.tools(op.tool), f" of tool {op.tool!r}")
        card, whose = self.cards[op.tool]
        if card is None:
            self._unknown_tool(op.tool)
            return None
        if card.takes is not None:
            self.fitting.fit(op.args, got, card.takes, None, "argument", whose)
        return card.gives

    def _unknown_tool(self, tool: str) -> None:
        message, near, certain = unknown_tool(tool, self.tools, suggest=self.report.takes_warnings)
        warning = self.unknown_tools != "problem" and not (self.unknown_tools == "certain" and certain)
        self.report.add(message, node=self.read.node, owners=self.read.owners, field="tool", suggestion=near,
                        warning=warning, keyword=UNKNOWN_TOOL)  # fmt: skip

    def _compute(self, op: Compute | Require) -> Type:
        self.read.field = "value"
        return self.read.look(op.value)

    def _require(self, op: Require) -> Type:
        self._condition("holds", op.holds)
        return self._compute(op)

    def _sleep(self, op: Sleep) -> Type:
        given = in_milliseconds(op.seconds)
        self._seconds("seconds", given or op.seconds, "seconds" if given is None else "milliseconds")
        return NULL

    def _wait(self, op: Wait) -> Type:
        read = self.read
        for field, text in (("event", op.event), ("approval", op.approval)):
            if text is not None:
                read.field = field
                got = read.look(text)
                if not kinds_of(got) & STRING:
                    read.tell(f"must be a text; this is {say(kinds_of(got))}", None)
        if (op.event is None) == (op.approval is None):
            read.field = "event"
            read.tell("a wait is for either an event or an approval", None)
        if op.timeout is not None:
            self._seconds("timeout", op.timeout, "seconds")
        return None if op.event is not None else dict(_ANSWER)

    def _seconds(self, field: str, seconds: Expr, unit: str) -> None:
        read = self.read
        read.field = field
        got = read.look(seconds)
        if not kinds_of(got) & _NUMBER_OR_NULL:
            read.tell(f"must be a number of {unit}; this is {say(kinds_of(got))}", None)
        elif isinstance(seconds, Lit) and type(seconds.value) in (int, float) and not seconds.value >= 0:
            read.tell(f"must not be negative; it is {seconds.value}", None)

    def _block(self, op: Block) -> Type:
        return self.region(op.body, "body")

    def _branch(self, op: Branch) -> Type:
        found: list[Type] = []
        for i, (test, body) in enumerate(op.arms):
            self._condition(f"arms[{i}][0]", test)
            found.append(self.region(body, f"arms[{i}][1]"))
        found.append(self.region(op.default, "default") if op.default is not None else NULL)
        return either(*found)

    def _items(self, items: Expr) -> Type:
        """The type of one element of what a node goes over."""
        read = self.read
        read.field = "items"
        found = read.look(items)
        if not kinds_of(found) & (ARRAY | NULL):
            read.tell(f"must be a list; this is {say(kinds_of(found))}", None)
            return None
        return items_of(found)

    def _map(self, op: Map) -> Type:
        read = self.read
        item = self._items(op.items)
        check_limit("limit", op.limit, self._say)
        check_limit("most", op.most, self._say)
        before = read.mapped, read.item, read.prev
        read.mapped, read.item, read.prev = True, item, None
        each = self.region(op.body, "body")
        read.mapped, read.item, read.prev = before
        if op.select and not kinds_of(each) & (BOOLEAN | NULL):
            read.field = "body"
            read.tell(f"a test gives true or false; this gives {say(kinds_of(each))}", None)
        return Each(item if op.select else each)

    def _loop(self, op: Loop) -> Type:
        read = self.read
        check_limit("limit", op.limit, self._say)
        before = read.looped, read.prev, read.mapped, read.item
        if op.items is not None:
            read.item, read.mapped = self._items(op.items), True
        elif op.limit is None:
            self._say("limit", "a loop without items needs a limit on its rounds")
        read.field = "initial"
        first = read.look(op.initial) if op.initial is not None else NULL
        # In the first round this is what ran before, later what the last round gave.
        read.looped, read.prev = True, None

        def tests() -> None:
            if op.again is not None:
                self._condition("again", op.again)
            if op.until is not None:
                self._condition("until", op.until)

        last = self.region(op.body, "body", tests)
        read.looped, read.prev, read.mapped, read.item = before
        return Each(last) if op.collect else either(last, first) if op.initial is not None else last

    def _validate(self, op: Validate) -> Type:
        read = self.read
        read.field = "value"
        got = read.look(op.value)
        assert read.node is not None
        # What does not fit may be just what a policy waits for; a schema says little of what else there is.
        compiles = self._compiles("schema", op.schema)
        if compiles and type(op.schema) is dict and read.node.policy.on_error is None:
            self.fitting.fit(op.value, got, Sub(op.schema, op.schema), None, "property", "")
        return got

    def _unknown_op(self, op: Any) -> Type:
        for field, part in parts(op):
            if isinstance(part, Graph):
                self.region(part, field)
            else:
                self.read.field = field
                self.read.look(part)
        return None
