"""The kinds of node. To add one, add a frozen dataclass here: its data, and a `compile` that
returns the closure doing the work. Checker, codec and drawing read the dataclass fields.

Refused here: looking into a frame, touching the world except through `site.call`, `site.sleep` and `site.wait`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, Final

from .errors import ExpressionError, SchemaMismatch, Unfinished
from .expr.ast import Expr, Fn, Lit, Ref
from .expr.budget import weigh
from .frozen import dataclass
from .ir import Frame, Getter, Graph, Node, Site, Step, Yield, node_parts, whole
from .schema import compile_schema
from .values import Json

MODEL: Final = "ropewalk:model"
"""The tool that is one turn of a model: a loop around it is an agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Invoke `tool` with the object `args`. The only op that touches the world.

    The fields of `also` are laid over `args` as the call is made. They are no part of what a journaled call is
    recognised by, so they may only hold what follows from the rest of the journal (the state, say).
    With `content` the value is `{value, content?}`: beside the value the parts of an MCP result that are no text."""

    tool: str
    args: Expr
    also: Expr | None = None
    content: bool = False

    def compile(self, site: Site, /) -> Step:
        return site.call(self.tool, self.args, self.also, self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Evaluate an expression."""

    value: Expr

    def compile(self, site: Site, /) -> Step:
        get = site.expr(self.value)
        if isinstance(self.value, (Lit, Ref)):
            return Step(get)

        def weighed(frame: Frame) -> Json:
            # Values are built by reference: sixty nodes that each hold the last one twice are small
            # here and past all bounds when written down.
            value = get(frame)
            weigh(value)
            return value

        return Step(weighed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Wait; a restart waits only what is left."""

    seconds: Expr

    def compile(self, site: Site, /) -> Step:
        return site.sleep(self.seconds)


def in_milliseconds(seconds: Expr) -> Expr | None:
    """What `seconds` are a thousandth of, where they are written so: what documents give in milliseconds."""
    if isinstance(seconds, Fn) and seconds.name == "/" and seconds.args[1] == Lit(1000):
        return seconds.args[0]
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait until the `event` of this name is sent to the run, or until somebody says whether what `approval` asks
    is approved; a restart waits only what is left of `timeout`, in seconds. The value is what was sent, or
    `{approved, by, note}`. Time that is over fails the node, and so does a refusal unless something in the flow
    reads `approved` of it."""

    event: Expr | None = None
    approval: Expr | None = None
    timeout: Expr | None = None

    def compile(self, site: Site, /) -> Step:
        text = self.event if self.event is not None else self.approval
        assert text is not None
        return site.wait(text, self.event is None, self.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Run a region as one node, so that a policy can cover all of it."""

    body: Graph

    def compile(self, site: Site, /) -> Step:
        body = site.body(self.body)
        opened, run = body.open, body.run
        return Step(opened, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Run the region of the first arm whose condition holds, else `default`, else give null."""

    arms: tuple[tuple[Expr, Graph], ...]
    default: Graph | None = None

    def compile(self, site: Site, /) -> Step:
        tests = [site.condition(test) for test, _ in self.arms]
        bodies = [site.body(body, label=f"[{i}]") for i, (_, body) in enumerate(self.arms)]
        default = site.body(self.default, label="[else]") if self.default is not None else None

        def choose(frame: Frame) -> int:
            return next((i for i, test in enumerate(tests) if test(frame)), -1)

        chosen = site.remember("branch", choose)

        async def run(frame: Frame) -> Yield:
            arm = chosen(frame)
            body = bodies[arm] if arm >= 0 else default
            return await body.run(body.open(frame)) if body is not None else Yield(None)

        return Step(whole, run)

    def not_taken(self, arm: int) -> Iterator[tuple[str, Node]]:
        """Yield the label and each node of the arms other than this one; -1 is the default. Nodes that nobody wrote,
        such as those of an agent's loop, are left out."""
        bodies = [(str(i), body) for i, (_, body) in enumerate(self.arms)]
        bodies += [("else", self.default)] if self.default is not None else []
        for label, body in bodies:
            if label != ("else" if arm < 0 else str(arm)):
                yield from ((label, node) for node in body.nodes if node.meta.source and not node.meta.hidden)


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Run the body once per item, at most `limit` at once; values and writes keep item order.
    Inside, `item` and `index` are the element and its position. Null counts as no items; of more than `most`
    the first count. With `select` the body is a test, and the value the items that pass it."""

    items: Expr
    body: Graph
    limit: int | None = None
    select: bool = False
    most: int | None = None

    def compile(self, site: Site, /) -> Step:
        listed = site.remember("items", _as_list(site.expr(self.items), self.most))
        many = site.many(site.body(self.body, binds="map"), self.limit)
        select = self.select

        async def run(frame: Frame) -> Yield:
            items = listed(frame)
            done = await many(frame, items)
            values = [item for item, y in zip(items, done, strict=True) if _passes(y.value)] if select else None
            return Yield([y.value for y in done] if values is None else values, [w for y in done for w in y.writes])

        return Step(whole, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Run the body again and again, one round after another: once per element of `items` if given,
    while `again` holds before a round, until `until` holds after one, at most `limit` times.

    Inside, `round` counts from 0 (with items, `item` and `index` too) and each round sees the state
    the last one left. `again` and `until` see all nodes of the body, as the last round left them.
    The value is the list of the rounds' values, or the last when not `collect`. `initial` is what `prev`
    is in the first round, in place of what ran before the loop, and the last value where there is no round.
    """

    body: Graph
    limit: int | None = None
    items: Expr | None = None
    again: Expr | None = None
    until: Expr | None = None
    collect: bool = True
    initial: Expr | None = None

    def compile(self, site: Site, /) -> Step:
        body = site.body(self.body, binds="loop" if self.items is None else "each")
        again = body.expr(self.again, before=True) if self.again is not None else None
        until = body.expr(self.until) if self.until is not None else None
        listed = site.remember("items", _as_list(site.expr(self.items))) if self.items is not None else None
        first = site.expr(self.initial) if self.initial is not None else None
        collect, play, limit = self.collect, body.run, self.limit

        async def run(frame: Frame) -> Yield:
            values: list[Json] = []
            rounds = iter(_rounds(listed(frame) if listed is not None else None, limit))
            given = None if first is None else first(frame)
            one = next(rounds, None)
            if one is None:
                return Yield(values if collect else given)
            inner = body.open(frame, *one)
            if first is not None:
                inner = body.again(inner, one[0], given, one[1])
            if again is not None and not again(inner):
                return Yield(values if collect else given)

            def follow(inner: Frame, value: Json) -> Frame | None:
                if collect:
                    values.append(value)
                if until is not None and until(inner):
                    return None
                following = next(rounds, None)
                if following is None:
                    return None
                count, item = following
                inner = body.again(inner, count, value, item)
                return inner if again is None or again(inner) else None

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
class Validate:
    """Give `value` on when it fits the JSON Schema `schema`, else fail with everything that does not;
    `place` is what the value is called there."""

    value: Expr
    schema: Json
    place: str = "data"

    def compile(self, site: Site, /) -> Step:
        get, schema, place = site.expr(self.value), compile_schema(self.schema), self.place

        def fitting(frame: Frame) -> Json:
            value = get(frame)
            if not schema.is_valid(value):
                raise SchemaMismatch(place, schema.problems(value, place))
            return value

        return Step(fitting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Require:
    """Give `value` on when `holds`, else fail with what `message` says."""

    value: Expr
    holds: Expr
    message: Expr

    def compile(self, site: Site, /) -> Step:
        get, holds, message = site.expr(self.value), site.expr(self.holds), site.expr(self.message)

        def given(frame: Frame) -> Json:
            if not _passes(holds(frame)):
                raise Unfinished("", str(message(frame)))
            return get(frame)

        return Step(given)


def calls_of(body: Graph) -> Iterator[Any]:
    """Every node of a region, and of those inside, that calls a tool."""
    for node in body.nodes:
        if isinstance(node.op, Call):
            yield node
            continue
        for _, part in node_parts(node):
            if isinstance(part, Graph):
                yield from calls_of(part)


def _as_list(items: Getter, most: int | None = None) -> Getter:
    def listed(frame: Frame) -> list[Json]:
        found = items(frame)
        if found is None:
            return []
        if type(found) is not list:
            from .expr.operators import kind_of

            raise ExpressionError(f"items must be a list, not {kind_of(found)}")
        return found if most is None else found[:most]

    return listed


OPS: dict[str, type[Any]] = {
    op.__name__: op for op in (Call, Compute, Sleep, Wait, Block, Branch, Map, Loop, Validate, Require)
}
"""Every kind of node by name, for the codec. A new op is added to this line."""
