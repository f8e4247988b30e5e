"""The kinds of node. To add one, add a frozen dataclass here: its data, and a `compile` that
returns the closure doing the work. Checker, codec and drawing read the dataclass fields.

Refused here: looking into a frame, touching the world except through `site.call`/`site.sleep`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import ExpressionError
from .expr.ast import Expr, Lit
from .ir import Frame, Graph, Site, Step, Writes, Yield
from .values import Json


def _whole(frame: Frame) -> Frame:
    return frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Invoke `tool` with the object `args`. The only op that touches the world."""

    tool: str
    args: Expr

    def compile(self, site: Site, /) -> Step:
        return site.call(self.tool, self.args)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Evaluate an expression."""

    value: Expr

    def compile(self, site: Site, /) -> Step:
        return Step(site.expr(self.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Wait; a restart waits only what is left."""

    seconds: Expr

    def compile(self, site: Site, /) -> Step:
        return site.sleep(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Run a region as one node, so that a policy can cover all of it."""

    body: Graph

    def compile(self, site: Site, /) -> Step:
        return Step(_whole, site.region(self.body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Run the region of the first arm whose condition holds, else `default`, else give null."""

    arms: tuple[tuple[Expr, Graph], ...]
    default: Graph | None = None

    def compile(self, site: Site, /) -> Step:
        arms = [(site.expr(test), site.region(body, label=f"[{i}]")) for i, (test, body) in enumerate(self.arms)]
        default = site.region(self.default, label="[else]") if self.default is not None else None

        async def run(frame: Frame) -> Yield:
            for test, enter in arms:
                if test(frame) is True:
                    return await enter(frame)
            return await default(frame) if default else Yield(None)

        return Step(_whole, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """Run the body once per item, at most `limit` at once; values and writes keep item order.
    Inside, `item` and `index` are the element and its position. Null counts as no items."""

    items: Expr
    body: Graph
    limit: int | None = None

    def compile(self, site: Site, /) -> Step:
        listed = site.remember("items", _as_list(site.expr(self.items)))
        many = site.many(site.region(self.body, binds="map"), self.limit)

        async def run(frame: Frame) -> Yield:
            done = await many(frame, await listed(frame))
            return Yield([y.value for y in done], tuple(w for y in done for w in y.writes))

        return Step(_whole, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Run the body again and again: while `again` holds before a round, until `until` holds after
    one, at most `limit` times. Inside, `round` counts from 0 and each round sees the state the
    last one left. The value is the list of the rounds' values, or the last when not `collect`.
    """

    body: Graph
    limit: int
    again: Expr | None = None
    until: Expr | None = None
    collect: bool = True

    def compile(self, site: Site, /) -> Step:
        enter = site.region(self.body, binds="loop")
        again = site.expr_inside(self.again, self.body, "loop") if self.again is not None else None
        until = site.expr_inside(self.until, self.body, "loop") if self.until is not None else None
        limit, collect = self.limit, self.collect

        async def run(frame: Frame) -> Yield:
            values: list[Json] = []
            last: Json = None
            writes: Writes = ()
            for count in range(limit):
                if again is not None and again(frame, count, last, writes) is not True:
                    break
                got = await enter(frame, count, None, last, writes)
                last = got.value
                if got.writes:
                    writes += got.writes
                if collect:
                    values.append(last)
                if until is not None and until(frame, count, last, writes) is True:
                    break
            return Yield(values if collect else last, writes)

        return Step(_whole, run)


def _as_list(items: Any) -> Any:
    def listed(frame: Frame) -> list[Json]:
        found = items(frame)
        if found is None:
            return []
        if type(found) is not list:
            raise ExpressionError(f"items must be a list, not {type(found).__name__}")
        return found

    return listed


OPS: dict[str, type[Any]] = {op.__name__: op for op in (Call, Compute, Sleep, Block, Branch, Map, Loop)}
"""Every kind of node by name, for the codec. A new op is added to this line."""

TRUE = Lit(True)
