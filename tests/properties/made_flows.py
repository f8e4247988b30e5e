"""Flows made up by Hypothesis that make sense: every op, nested, in a line and not, with gates,
conditions, writes, retries and stand-ins; and the world their tools live in.

What a run gives may depend on time only where several things fail side by side: the first failure
cancels the others. So where nodes run side by side every failure is handled by its own node; where
they run one after another anything may fail.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from ropewalk.check import check
from ropewalk.expr.ast import Arr, Expr, Fn, Lit, Obj, Ref
from ropewalk.ir import Channel, Flow, Graph, Node, OnError, Policy, Retry
from ropewalk.ops import Block, Branch, Call, Compute, Loop, Map, Sleep
from ropewalk.tools.backends.route import Route
from ropewalk.tools.bound_call import Bound, Rules, bind_route
from ropewalk.values import canonical

CHANNELS = {
    "last": Channel(initial=0),
    "list": Channel(reduce="array_append", initial=[]),
    "some": Channel(reduce="object_merge", present=False),
    "sum": Channel(reduce="sum", initial=0),
    "most": Channel(reduce="max"),
    "set": Channel(reduce="union", initial=[]),
}
FLAKY = {"flaky1": 1, "flaky2": 2}
"""Fail so often for each idempotency key, and then give what `mix` gives."""


def answer(tool: str, args: dict[str, Any], failed: int) -> Any:
    """What a tool gives, or raises, when it has failed so often for its key."""
    if tool == "bad" or failed < FLAKY.get(tool, 0):
        raise RuntimeError(f"{tool} fails")
    number = hashlib.blake2b(canonical(args)).digest()[0] % 5
    return {"none": None, "list": list(range(number % 3)), "echo": args}.get(tool, number)


def spoil(value: Any) -> None:
    """What a tool may do to its arguments, and nobody must see."""
    inner = list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    for item in inner:
        spoil(item)
    if isinstance(value, (dict, list)):
        value.clear()


class World:
    """The tools, and what was asked of them: a caller of the engine. `seed` shuffles their timing
    (None: they never wait). They spoil the arguments they are given. It outlives the process: a
    resumed run meets the same world."""

    version = 0

    def __init__(self, seed: int | None = 0, *, direct: bool = False) -> None:
        self.random = random.Random(seed) if seed is not None else None
        self.direct = direct
        self.failed: Counter[str] = Counter()
        self.started: Counter[str] = Counter()
        self.calls_done: Counter[str] = Counter()

    def bind(self, tool: str) -> Bound:
        async def send(args: Any, key: Any, timeout: Any, on_progress: Any) -> Any:
            await self._pause()
            self.started[key] += 1
            await self._pause()
            self.calls_done[key] += 1
            try:
                return copy.deepcopy(answer(tool, args, self.failed[key]))
            except RuntimeError:
                self.failed[key] += 1
                raise
            finally:
                spoil(args)

        async def direct(**args: Any) -> Any:
            await self._pause()
            try:
                return copy.deepcopy(answer(tool, args, 0))
            finally:
                spoil(args)

        plain = self.direct and tool not in FLAKY
        return bind_route(tool, None, None, Route(send=send, direct=direct if plain else None), Rules())

    async def _pause(self) -> None:
        if self.random is not None:
            for _ in range(self.random.randint(0, 3)):
                await asyncio.sleep(0)


@dataclass(frozen=True)
class Here:
    """What a position may read, and whether things around it run side by side."""

    alone: bool
    depth: int = 0
    sees: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    item: bool = False
    round: bool = False
    prev: bool = False


@dataclass
class Maker:
    """Draws one flow; ids are unique over the whole of it."""

    draw: Any
    most: int = 10
    count: int = 0
    used: list[str] = field(default_factory=list)

    def one(self, *of: Any) -> Any:
        return self.draw(st.sampled_from(of))

    def often(self, tenths: int) -> Any:
        return self.draw(st.integers(0, 9)) >= 10 - tenths  # so that it becomes rarer as an example is made small

    def region(self, here: Here) -> Graph:
        ordered = here.alone or self.often(3)
        here = replace(here, depth=here.depth + 1, prev=here.prev or ordered)
        nodes: list[Node] = []
        for _ in range(self.draw(st.integers(2, 4) if here.depth == 1 else st.integers(1, 3))):
            node = self.node(here, [n.id for n in nodes] if not ordered else [])
            here = replace(here, sees=(*here.sees, node.id))
            if isinstance(node.op, Call) and node.op.tool == "list" and node.policy.on_error is None:
                here = replace(here, lists=(*here.lists, node.id))
            nodes.append(node)
        ids = [node.id for node in nodes]
        result = Obj(
            (
                ("values", Obj(tuple((id, Ref("out", (id,))) for id in ids))),
                ("status", Obj(tuple((id, Ref("status", (id,))) for id in ids))),
                ("prev", Ref("prev") if here.prev else Lit(None)),
                ("state", Arr(tuple(Ref("state", (name,)) for name in CHANNELS))),
            )
        )
        if not ordered and self.often(4):
            nodes = self.draw(st.permutations(nodes))
        limit = None if ordered else self.one(None, 1, 2, 3)
        return Graph(nodes=tuple(nodes), result=result, ordered=ordered, limit=limit)

    def node(self, here: Here, before: list[str]) -> Node:
        self.count += 1
        id = f"n{self.count}"
        deeper = here.depth < 3 and self.count < self.most
        policy = self.policy(here)
        if deeper and self.often(5):
            if not here.alone and self.often(7):
                policy = Policy()  # nothing in it may fail, so that it may run side by side
            if not here.alone and policy.on_error is None:
                policy = Policy()
            op = self.nesting(replace(here, alone=here.alone or policy.on_error is not None))
        else:
            op, policy = self.leaf(here, policy)
        return Node(
            id=id,
            op=op,
            after=frozenset(b for b in before if self.often(3)),
            gate=self.condition(here) if self.often(1) else None,
            when=self.condition(here) if self.often(1) else None,
            writes=self.writes(here, id) if self.often(6) else None,
            policy=policy,
        )

    def policy(self, here: Here) -> Policy:
        stand_in = self.one(Lit(9), Lit(None), Ref("error", ("kind",)), Ref("error", ("message",)))
        on_error = OnError(value=stand_in, reported=self.often(4)) if self.often(4) else None
        return Policy(retry=Retry(attempts=self.one(1, 1, 2, 3)), on_error=on_error)

    def leaf(self, here: Here, policy: Policy) -> tuple[Any, Policy]:
        kind = self.one("compute", "call", "call", "call", "call", "sleep")
        if kind == "compute":
            return Compute(value=self.expr(here)), Policy()
        if kind == "sleep":
            return Sleep(seconds=Lit(0)), Policy()
        tool = self.one("mix", "mix", "list", "echo", "none", "bad", "flaky1", "flaky2")
        fails = tool == "bad" or FLAKY.get(tool, 0) >= policy.retry.attempts
        if fails and not here.alone and policy.on_error is None:
            policy = replace(policy, on_error=OnError(value=Ref("error", ("message",)), reported=self.often(5)))
        if policy.on_error is None and not fails and tool not in FLAKY and self.often(5):
            policy = Policy()
        return Call(tool=tool, args=Obj((("v", self.expr(here)),))), policy

    def nesting(self, here: Here) -> Any:
        kind = self.one(Block, Branch, Map, Map, Loop, Loop)
        if kind is Block:
            return Block(body=self.region(here))
        if kind is Branch:
            arms = tuple((self.condition(here), self.region(here)) for _ in range(self.draw(st.integers(1, 2))))
            return Branch(arms=arms, default=self.region(here) if self.often(5) else None)
        if kind is Map:
            inside = replace(here, item=True)
            limit = 1 if here.alone else self.one(None, 1, 2)
            return Map(items=self.items(here), body=self.region(inside), limit=limit)
        items = self.items(here) if self.often(4) else None
        inside = replace(here, round=True, item=here.item or items is not None)
        body = self.region(inside)
        known = replace(
            inside, sees=(*inside.sees, *(node.id for node in body.nodes)), prev=inside.prev or body.ordered
        )
        return Loop(
            body=body,
            limit=self.one(3, 2, 1),
            items=items,
            again=self.condition(inside) if self.often(2) else None,
            until=self.condition(known) if self.often(3) else None,
            collect=self.often(7),
        )

    def items(self, here: Here) -> Expr:
        if here.lists and self.often(6):
            return Ref("out", (self.one(*here.lists),))
        return Lit(self.one([3, 1], [2, 2, 4], [0], [], None))

    def expr(self, here: Here, depth: int = 1) -> Expr:
        simple: list[Expr] = [Lit(self.draw(st.integers(0, 4)))]
        simple += [Ref("out", (self.one(*here.sees),))] * 3 if here.sees else []
        simple += [Ref("state", (self.one(*CHANNELS),)), Ref("input", ("n",))]
        simple += [Ref("item"), Ref("index")] if here.item else []
        simple += [Ref("round")] if here.round else []
        simple += [Ref("prev")] if here.prev else []
        chosen: Expr = self.one(*simple)
        if depth and self.often(3):
            other = self.expr(here, depth - 1)
            chosen = self.one(Obj((("a", chosen), ("b", other))), Arr((chosen, other)))
        return chosen

    def condition(self, here: Here) -> Expr:
        return Fn(self.one("==", "!=", "!="), (self.expr(here, 0), Lit(self.one(0, 1, 2, 3))))

    def writes(self, here: Here, id: str) -> Expr:
        own = replace(here, sees=(*here.sees, id))
        number = self.one(Lit(1), Lit(None), *([Ref("index")] if here.item else [Lit(2)]))
        given = {
            "last": self.expr(own, 0),
            "list": Arr((self.expr(own, 0),)),
            "some": Obj(((self.one("x", "y"), self.expr(own, 0)),)),
            "sum": number,
            "most": number,
            "set": Arr((number,)),
        }
        chosen = self.draw(st.lists(st.sampled_from(sorted(given)), min_size=1, max_size=2, unique=True))
        return Obj(tuple((name, given[name]) for name in chosen))


@st.composite
def flows(draw: Any, *, most: int = 10) -> Flow:
    """A flow that passes the check."""
    maker = Maker(draw, most=most)
    body = maker.region(Here(alone=maker.often(2)))
    flow = Flow(name="made", body=body, state=CHANNELS)
    found = check(flow)
    assert not found.problems, found.problems
    return flow


def brief(part: Any) -> str:
    """A flow in a few lines, for the report of a failing example."""
    if isinstance(part, Flow):
        return brief(part.body)
    if isinstance(part, Graph):
        kind = "line" if part.ordered else f"graph{'' if part.limit is None else f'<{part.limit}>'}"
        inner = "\n".join(brief(node) for node in part.nodes)
        return kind + "\n" + "\n".join("  " + text for text in inner.splitlines())
    if isinstance(part, Node):
        return f"{part.id} {_extras(part)}= {brief(part.op)}"
    if isinstance(part, Ref):
        return "$" + ".".join(map(str, (part.root, *part.path)))
    if isinstance(part, Lit):
        return repr(part.value)
    if isinstance(part, Arr):
        return f"[{', '.join(map(brief, part.items))}]"
    if isinstance(part, Obj):
        return "{" + ", ".join(f"{key}: {brief(value)}" for key, value in part.fields) + "}"
    if isinstance(part, Fn):
        return f" {part.name} ".join(map(brief, part.args))
    given = {name: getattr(part, name) for name in part.__dataclass_fields__}
    plain = [
        f"{name}={brief(value) if isinstance(value, (Lit, Ref, Obj, Arr, Fn)) else value}"
        for name, value in given.items()
        if name not in ("body", "arms", "default") and value is not None
    ]
    arms = [(brief(test), body) for test, body in given.get("arms", ())]
    bodies = [("", b) for b in (given.get("body"),) if b is not None] + arms
    bodies += [("else", b) for b in (given.get("default"),) if b is not None]
    return f"{type(part).__name__}({', '.join(plain)}) " + " ".join(f"{label} {brief(body)}" for label, body in bodies)


def _extras(node: Node) -> str:
    said = [f"after {' '.join(sorted(node.after))}"] if node.after else []
    said += [f"{name} {brief(e)}" for name in ("gate", "when", "writes") if (e := getattr(node, name)) is not None]
    retry = node.policy.retry
    if retry.attempts > 1:
        pauses = [retry.pause(failed) for failed in range(1, retry.attempts)]
        said.append(f"tries {retry.attempts}" + (f" with pauses of {pauses}" if any(pauses) else ""))
    if node.policy.timeout is not None:
        said.append(f"within {node.policy.timeout:g} s")
    if node.policy.on_error is not None:
        said.append(f"else {brief(node.policy.on_error.value)}{' reported' if node.policy.on_error.reported else ''}")
    return "".join(f"({one}) " for one in said)
