"""The kinds of node.

To add one, add a frozen dataclass here: its data, and a `compile` that returns the closure that does the work. Checker,
codec and drawing read the dataclass fields. An op never looks into a frame, and it touches the world only through
`site.call`, `site.sleep` and `site.wait`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import repeat
from typing import Any, Final

from .errors import ExpressionError, Place, SchemaMismatch, Unfinished
from .expr.ast import Expr, Fn, Lit, Obj, Ref
from .expr.operators import weigh
from .fast_dataclass import dataclass
from .ir import DERIVED, Frame, Getter, Graph, Node, Site, Step, Yield, node_parts, whole
from .outline import Outline
from .schema import compile_schema
from .values import Json

_ASKS: Final = re.compile(r"\b(approve|wait_for)\b")
MODEL: Final = "ropewalk:model"
"""The tool that is one turn of a model: a loop around it is an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The call that takes a finished call back: `tool` with the object `args`."""

    # The references of `args` are `args`, the arguments of the finished call, and `result`. Without `args`, each
    # parameter of `tool` takes the member of the result with its name, otherwise the argument with its name.

    tool: str
    args: Expr | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Call `tool` with the object `args`: the only op that touches the world."""

    # The fields of `also` replace those of `args` when the call is made. They are not part of the journaled arguments,
    # so they may only hold what follows from the rest of the journal, such as the state. With `content` the value is
    # `{value, content?}`, with the parts of an MCP result that are not text. `undo` replaces the undo of the tool.

    tool: str
    args: Expr
    also: Expr | None = None
    content: bool = False
    undo: Undo | None = None

    def compile(self, site: Site, /) -> Step:
        """Compile to a tool call."""
        return site.call(self.tool, self.args, self.also, self.content, self.undo)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Evaluate an expression."""

    value: Expr

    def compile(self, site: Site, /) -> Step:
        """Compile to the value of the expression, which needs no task."""
        get = site.expr(self.value)
        if isinstance(self.value, (Lit, Ref)):
            return Step(get)

        def weighed(frame: Frame) -> Json:
            # Values share their parts: sixty nodes that each hold the last one twice are small in memory and
            # huge as JSON.
            value = get(frame)
            weigh(value)
            return value

        return Step(weighed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Pause; after a restart only for the rest of the time."""

    seconds: Expr

    def compile(self, site: Site, /) -> Step:
        """Compile to a pause, which survives a restart."""
        return site.sleep(self.seconds)


def in_milliseconds(seconds: Expr) -> Expr | None:
    """Find the expression that `seconds` divides by 1000, as compiled documents do."""

    # `seconds`: An expression for a number of seconds.
    if isinstance(seconds, Fn) and seconds.name == "/" and seconds.args[1] == Lit(1000):
        return seconds.args[0]
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedCall:
    """A call that a person approves: that of `tool` with the object `args`, which the node `made_by` makes."""

    # The node is in the same region. With a `version`, the call needs this version of the tool.

    tool: str
    args: Expr
    made_by: str
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait for an `event` of this name, for an answer to the text of an `approval`, or for the approval of a `call`."""

    # After a restart it waits only for the rest of `timeout`, in seconds. The value is the payload of the event, or
    # `{approved, by, note}`. A passed timeout fails the node, and so does a rejection unless something in the flow
    # reads its `approved`.

    event: Expr | None = None
    approval: Expr | None = None
    timeout: Expr | None = None
    call: ApprovedCall | None = None

    def compile(self, site: Site, /) -> Step:
        """Compile to a wait for an event or an approval."""
        return site.wait(self)

    @property
    def asks(self) -> bool:
        """Return True if a person answers."""
        return self.event is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Run a region as one node, so that a policy can cover all of it."""

    body: Graph

    def compile(self, site: Site, /) -> Step:
        """Compile to one run of the region."""
        body = site.body(self.body)
        opened, run = body.open, body.run
        return Step(opened, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Run the region of the first arm whose condition is true, otherwise `default`; else the value is null."""

    arms: tuple[tuple[Expr, Graph], ...]
    default: Graph | None = None

    def compile(self, site: Site, /) -> Step:
        """Compile to the first arm whose condition is true."""

        # The choice is journaled.
        tests = [site.condition(test) for test, _ in self.arms]
        bodies = [site.body(body, label=f"[{i}]") for i, (_, body) in enumerate(self.arms)]
        default = site.body(self.default, label="[else]") if self.default is not None else None

        def choose(frame: Frame) -> int:
            return next((i for i, test in enumerate(tests) if test(frame)), -1)

        recorded_choice = site.remember("branch", choose)

        async def run(frame: Frame) -> Yield:
            arm = recorded_choice(frame)
            body = bodies[arm] if arm >= 0 else default
            return await body.run(body.open(frame)) if body is not None else Yield(None)

        return Step(whole, run)

    def not_taken(self, arm: int) -> Iterator[tuple[str, Node]]:
        """Yield the label and each node of the arms other than this one; -1 is the default."""

        # Nodes without a source, such as those of an agent's loop, are left out.
        bodies = [(str(i), body) for i, (_, body) in enumerate(self.arms)]
        bodies += [("else", self.default)] if self.default is not None else []
        for label, body in bodies:
            if label != ("else" if arm < 0 else str(arm)):
                yield from ((label, node) for node in body.nodes if node.meta.source and not node.meta.hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Run the body once per item, at most `limit` at once; values and writes are in the order of the items."""

    # In the body, `item` and `index` are the element and its position. Null counts as no items. Of more than `most`
    # items only the first ones count. With `select` the body is a test, and the value is the list of the items that
    # pass it.

    items: Expr
    body: Graph
    limit: int | None = None
    select: bool = False
    most: int | None = None

    def compile(self, site: Site, /) -> Step:
        """Compile to one run of the region per item, up to `limit` at once."""

        # The items are journaled.
        journaled_items = site.remember("items", _as_list(site.expr(self.items), self.most))
        run_items = site.many(site.body(self.body, binds="map"), self.limit)
        select = self.select

        async def run(frame: Frame) -> Yield:
            items = journaled_items(frame)
            results = await run_items(frame, items)
            if select:
                values = [item for item, result in zip(items, results, strict=True) if _passes(result.value)]
            else:
                values = [result.value for result in results]
            return Yield(values, [write for result in results for write in result.writes])

        return Step(whole, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Run the body one iteration after another."""

    # There is an iteration per element of `items`, while `again` is true before it, until `until` is true after it, and
    # at most `limit` of them. In the body, `round` counts from 0 (with items, `item` and `index` too), and each
    # iteration sees the state that the last one left. `again` and `until` see all nodes of the body as the last
    # iteration left them. The value is the list of the iterations' values, or the last one without `collect`. `initial`
    # is `prev` in the first iteration, and the value if there is none.

    body: Graph
    limit: int | None = None
    items: Expr | None = None
    again: Expr | None = None
    until: Expr | None = None
    collect: bool = True
    initial: Expr | None = None

    def compile(self, site: Site, /) -> Step:
        """Compile to iterations one after another."""

        # The items are journaled.
        body = site.body(self.body, binds="loop" if self.items is None else "each")
        must_continue = body.expr(self.again, before=True) if self.again is not None else None
        until = body.expr(self.until) if self.until is not None else None
        journaled_items = site.remember("items", _as_list(site.expr(self.items))) if self.items is not None else None
        initial_value = site.expr(self.initial) if self.initial is not None else None
        collect, play, limit = self.collect, body.run, self.limit

        async def run(frame: Frame) -> Yield:
            values: list[Json] = []
            rounds = iter(_rounds(journaled_items(frame) if journaled_items is not None else None, limit))
            initial = None if initial_value is None else initial_value(frame)
            iteration = next(rounds, None)
            if iteration is None:
                return Yield(values if collect else initial)
            inner = body.open(frame, *iteration)
            if initial_value is not None:
                inner = body.next_frame(inner, iteration[0], initial, iteration[1])
            if must_continue is not None and not must_continue(inner):
                return Yield(values if collect else initial)

            # The region runs every iteration in one call, and asks for the frame of the next one.
            def follow(inner: Frame, value: Json) -> Frame | None:
                if collect:
                    values.append(value)
                if until is not None and until(inner):
                    return None
                following = next(rounds, None)
                if following is None:
                    return None
                count, item = following
                inner = body.next_frame(inner, count, value, item)
                return inner if must_continue is None or must_continue(inner) else None

            last = await play(inner, follow)
            return Yield(values, last.writes) if collect else last

        return Step(whole, run)


def _rounds(items: list[Json] | None, limit: int | None) -> Iterable[tuple[int, Json]]:
    if items is not None:
        return enumerate(items if limit is None else items[:limit])
    if limit is None:
        raise ExpressionError("a loop without items needs a limit")
    return zip(range(limit), repeat(None))


def _passes(value: Json) -> bool:
    if value is not None and type(value) is not bool:
        raise ExpressionError(f"a test gives true or false, not {type(value).__name__}")
    return bool(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTool:
    """A tool as a program knows it: its name, and its parameters in order; None if they are unknown."""

    name: str
    parameters: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Interpret a program in Python; each call that it awaits runs the region of its tool."""

    # The region of a tool has the object of its arguments as `item`. `inputs` is an object: the names that have a value
    # when the program begins. `function` says that the text is the body of a function. The text of a `contained`
    # program is read and computed in children only. Calls of the tools in `reads` may begin together. `transforms` are
    # names in the program, each with the name under which the function is registered.
    # `outline` is None where nobody has read the text. `places` has the place of each line of the text in the file that
    # it was made of.

    text: str
    tools: tuple[tuple[ProgramTool, Graph], ...] = ()
    inputs: Expr = Obj(())
    function: bool = False
    contained: bool = False
    reads: tuple[str, ...] = ()
    transforms: tuple[tuple[str, str], ...] = ()
    outline: Outline | None = field(default=None, compare=False, metadata=DERIVED)
    places: tuple[Place, ...] = field(default=(), compare=False, metadata=DERIVED)

    def compile(self, site: Site, /) -> Step:
        """Compile to a run of the program."""
        return site.interpret(self)

    @property
    def asks(self) -> bool:
        """Return True if the program may wait for a person or for an event."""
        return _ASKS.search(self.text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate:
    """Pass `value` on if it fits the JSON Schema `schema`, otherwise fail with every mismatch."""

    # `place` is the name of the value in the problems.

    value: Expr
    schema: Json
    place: str = "data"

    def compile(self, site: Site, /) -> Step:
        """Compile to the value, checked with the compiled schema."""
        get, schema, place = site.expr(self.value), compile_schema(self.schema), self.place

        def get_valid(frame: Frame) -> Json:
            value = get(frame)
            if not schema.is_valid(value):
                raise SchemaMismatch(place, schema.problems(value, place))
            return value

        return Step(get_valid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Require:
    """Pass `value` on if `holds` is true, otherwise fail with `message`."""

    value: Expr
    holds: Expr
    message: Expr

    def compile(self, site: Site, /) -> Step:
        """Compile to the value, behind the check of `holds`."""
        get, holds, message = site.expr(self.value), site.expr(self.holds), site.expr(self.message)

        def get_if_held(frame: Frame) -> Json:
            if not _passes(holds(frame)):
                raise Unfinished("", str(message(frame)))
            return get(frame)

        return Step(get_if_held)


def calls_of(body: Graph) -> Iterator[Any]:
    """Yield every node that calls a tool, of a region and the regions inside it."""
    for node in body.nodes:
        if isinstance(node.op, Call):
            yield node
        if isinstance(node.op, (Call, Compute, Sleep, Wait)):
            continue
        for _, part in node_parts(node):
            if isinstance(part, Graph):
                yield from calls_of(part)


def _as_list(items: Getter, limit: int | None = None) -> Getter:
    def listed(frame: Frame) -> list[Json]:
        value = items(frame)
        if value is None:
            return []
        if type(value) is not list:
            from .expr.operators import kind_of

            raise ExpressionError(f"items must be a list, not {kind_of(value)}")
        return value if limit is None else value[:limit]

    return listed


OPS: dict[str, type[Any]] = {
    op.__name__: op for op in (Call, Compute, Sleep, Wait, Block, Branch, Map, Loop, Program, Validate, Require)
}
"""Every kind of node by name, for the codec. Add a new op to this line."""
