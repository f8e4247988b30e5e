"""What a call is given beyond what it is recognised by, and the end of a run told to its caller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.lab import Way, each, every_way, flow, graph, job, line, lit, node, obj, on, resumed
from ropewalk.check import check
from ropewalk.codec import fingerprint, flow_from_json, flow_to_json
from ropewalk.draw import text
from ropewalk.engine.engine import Engine
from ropewalk.errors import JournalConflict, StoreError
from ropewalk.expr.ast import Expr, Lit, Ref
from ropewalk.ir import Flow, Graph, Node
from ropewalk.journal.memory import MemoryStore
from ropewalk.ops import Call
from ropewalk.testing import DyingStore, ScriptedTools, fails, hangs

STATE = obj(_state=Ref("state", ()))


def tells(id: str, args: Expr, also: Expr | None = STATE, **more: Any) -> Node:
    return node(id, Call(tool="t", args=args, also=also), **more)


@every_way
async def test_what_is_added_is_laid_over_the_arguments(way: Way) -> None:
    tools = ScriptedTools(t=lambda **args: args)
    body = line(tells("a", obj(x=lit(1), y=lit(2)), obj(y=lit(3), s=Ref("state", ("n",)))), result=Ref("out", ("a",)))
    ended = await way(flow(body, state={"n": 7}), tools)
    assert ended["value"] == {"x": 1, "y": 3, "s": 7}


@every_way
async def test_every_round_gets_the_state_it_sees(way: Way) -> None:
    tools = ScriptedTools(t=lambda **args: args["_state"]["n"])
    body = line(
        tells("a", obj(), writes=obj(n=lit(5))), each("m", [1, 2], tells("b", obj())), result=Ref("out", ("a",))
    )
    await way(flow(body, state={"n": 4}), tools)
    assert [call.args["_state"]["n"] for call in tools.calls] == [4, 5, 5]


async def test_a_recorded_call_is_known_again_whatever_is_added_and_not_by_other_arguments() -> None:
    def body(x: int, added: int) -> Graph:
        return line(tells("a", obj(x=lit(x)), obj(s=lit(added))), Node(id="b", op=Call(tool="u", args=obj())))

    dying = DyingStore(MemoryStore(durable=True), 2)
    with pytest.raises(StoreError):
        await Engine(dying).run(job(body(1, 1), ScriptedTools(t=1, u=2)))
    store = await dying.survivor()
    with pytest.raises(JournalConflict, match="other arguments"):
        await resumed(store, body(2, 1), ScriptedTools(t=1, u=2))
    tools = ScriptedTools(t=1, u=2)
    assert (await resumed(store, body(1, 99), tools))["status"] == "completed"
    assert [call.tool for call in tools.calls] == ["u"]


def test_check_codec_and_drawing_know_the_field() -> None:
    made = Flow(name="f", body=graph(tells("a", obj(), obj(s=Ref("state", ("nope",))))))
    assert [(p.path, p.message.split(";")[0]) for p in check(made).problems] == [
        ("a.also.s", "reads undeclared state field 'nope'")
    ]
    assert flow_from_json(flow_to_json(made)) == made
    assert fingerprint(made) != fingerprint(Flow(name="f", body=graph(tells("a", obj(), None))))
    assert "also" not in text(made)
    assert graph(tells("a", obj()), tells("b", obj(), obj(i=Ref("out", ("a",))))).needs["b"] == {"a"}


class Told(ScriptedTools):
    """Notes which runs have begun and ended."""

    begun_runs: tuple[str, ...] = ()
    ended_runs: tuple[str, ...] = ()

    def began(self, run_id: str) -> None:
        self.begun_runs += (run_id,)

    async def ended(self, run_id: str) -> None:
        await asyncio.sleep(0)
        self.ended_runs += (run_id,)


@pytest.mark.parametrize("durable", [False, True])
async def test_the_caller_is_told_once_that_a_run_has_begun_and_ended(durable: bool) -> None:
    store = MemoryStore(durable=durable)
    good, bad = Told(t=1), Told(t=fails("no"))
    await on(store, line(tells("a", obj(x=Lit(1)))), good, "good")
    await on(store, line(tells("a", obj(x=Lit(1)))), good, "good")  # its result is read back
    await on(store, line(tells("a", obj(x=Lit(1)))), bad, "bad")
    assert (good.ended_runs, bad.ended_runs) == (("good",), ("bad",))
    assert (good.begun_runs, bad.begun_runs) == (("good",), ("bad",))


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("how", ["stopped", "cancelled"])
async def test_the_caller_is_told_of_runs_that_are_cut_short(durable: bool, how: str) -> None:
    engine, tools = Engine(MemoryStore(durable=durable)), Told(t=hangs())
    task = asyncio.ensure_future(engine.run(job(line(tells("a", obj())), tools, "r")))
    await tools.called("t")
    assert engine.stop("r") if how == "stopped" else task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() == (how == "cancelled")
    assert tools.begun_runs == tools.ended_runs == ("r",)


async def test_the_caller_is_told_when_the_store_breaks() -> None:
    tools = Told(t=1)
    with pytest.raises(StoreError):
        await Engine(DyingStore(MemoryStore(durable=True), 1)).run(job(line(tells("a", obj())), tools))
    assert tools.begun_runs == tools.ended_runs == ("r",)
