"""Flows with waits: death at every write, parked or not, then resume: the same answer, and every signal taken once."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from engine.lab import block, call, each, flow, graph, job, line, lit, node, out, resumed
from ropewalk.engine.engine import Engine
from ropewalk.errors import StoreError
from ropewalk.events import Event
from ropewalk.expr.ast import Fn, Obj, Ref
from ropewalk.ir import Flow, Graph, Node
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.open_waits import open_waits
from ropewalk.journal.protocol import Store
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.ops import Wait
from ropewalk.testing import DyingStore, ScriptedTools
from tiers import examples

pytestmark = pytest.mark.timeout(1800)


@st.composite
def nodes(draw: Any, prefix: str, depth: int) -> list[Node]:
    """One to three nodes: waits and calls, blocks of such in a line or at once, and maps."""
    found = []
    for i in range(draw(st.integers(1, 3))):
        id = f"{prefix}{'abc'[i]}"
        kind = draw(st.sampled_from(["wait", "wait", "call", "line", "graph", "map"] if depth else ["wait", "call"]))
        if kind == "wait":
            found.append(node(id, Wait(event=lit(id))))
        elif kind == "call":
            found.append(call(id, "echo", Obj((("id", lit(id)),))))
        elif kind == "map":
            named = Fn("${}", (lit(f"{id}-"), Ref("item")))
            inner = node(f"{id}w", Wait(event=named))
            limit = draw(st.sampled_from([None, 1, 2]))
            found.append(each(id, ["x", "y"], inner, limit=limit, result=out(f"{id}w")))
        else:
            inside = draw(nodes(id, depth - 1))
            result = Obj(tuple((n.id, out(n.id)) for n in inside))
            found.append(block(id, *inside, ordered=kind == "line", result=result))
    return found


@st.composite
def waiting_flows(draw: Any) -> Flow:
    inside = draw(nodes("", 2))
    if not any(isinstance(n.op, Wait) for n in inside):
        inside.append(node("z", Wait(event=lit("z"))))
    result = Obj(tuple((n.id, out(n.id)) for n in inside))
    made: Graph = line(*inside, result=result) if draw(st.booleans()) else graph(*inside, result=result)
    return flow(made)


class World:
    """Calls are answered with their arguments, and every wait with its name, as long as the store lives."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.tools = ScriptedTools(echo=lambda id: f"did {id}")

    def take(self, event: Event) -> None:
        if event.kind == "wait.started" and not getattr(self.store, "dead", False):
            name = event.data["event"]
            if not any((e.path, e.kind) == (event.path, "signal") for e in self.store.history("r")):
                self.store.send("r", name, f"got {name}", id=event.path)

    def job(self, what: Flow, **more: Any) -> Any:
        return job(what, self.tools, watcher=self.take, **more)


async def expected(what: Flow) -> dict[str, Any]:
    store = MemoryStore(durable=True)
    result = await Engine(store).run(World(store).job(what))
    assert result["status"] == "completed"
    return result


def hold(store: Store, result: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert (result["status"], result["value"]) == ("completed", wanted["value"])
    taken = Counter(e.digest for e in store.history("r") if e.kind == "signal")
    assert set(taken.values()) == {1}
    assert [s for s in store.signals("r") if s.taken is None] == []
    assert open_waits(store.history("r")) == []


async def dies_everywhere(what: Flow, make: Any) -> None:
    wanted = await expected(what)
    whole = DyingStore(MemoryStore(durable=True))
    await Engine(whole).run(World(whole).job(what))  # type: ignore[arg-type]
    for at in range(1, whole.writes + 1):
        for written in (False, True) if at < whole.writes else (False,):
            note(f"dies at write {at} of {whole.writes}, {'after' if written else 'before'} it is written")
            dying = DyingStore(make(), at, written=written)
            world = World(dying)
            with pytest.raises(StoreError):
                await Engine(dying).run(world.job(what))  # type: ignore[arg-type]
            known = [e.path for e in dying.store.history("r") if e.kind == "call"]
            survivor = await dying.survivor()
            again = World(survivor)
            result = await resumed(survivor, what, again.tools, watcher=again.take)
            hold(survivor, result, wanted)
            called = [c.args["id"] for c in again.tools.calls]
            assert not {path.rpartition("/")[2] for path in known} & set(called), "called again"


@examples(25)
@given(waiting_flows())
def test_a_run_that_waits_goes_on_from_any_write(what: Flow) -> None:
    """DUR-9, DUR-10"""
    asyncio.run(dies_everywhere(what, lambda: MemoryStore(durable=True)))


@examples(25)
@given(waiting_flows(), st.randoms(use_true_random=False))
def test_a_parked_run_comes_to_the_same_end_whatever_comes_when(what: Flow, random: Any) -> None:
    """Parked, sent any of what it waits for, resumed, until it has ended. DUR-11"""

    async def test(store: Store) -> None:
        wanted = await expected(what)
        tools = World(store).tools
        result = await Engine(store).run(job(what, tools, park=True))
        while result["status"] == "waiting":
            waits = open_waits(store.history("r"))
            assert waits
            row = store.get_run("r")
            assert row is not None
            assert row.status == "waiting"
            for wait in random.sample(waits, random.randint(1, len(waits))):
                store.send("r", wait.data["event"], f"got {wait.data['event']}", id=wait.path)
            assert [r.id for r in store.orphans()] == ["r"]
            result = await resumed(store, what, tools, park=True)
        hold(store, result, wanted)
        assert max(Counter(c.args["id"] for c in tools.calls).values(), default=1) == 1

    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "s.db") if random.random() < 0.3 else MemoryStore(durable=True)
        try:
            asyncio.run(test(store))
        finally:
            store.close()
