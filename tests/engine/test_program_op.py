"""The op `Program`: an interpreted program as a node of a flow, over every store, cut at every write."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine.lab import call, flow, graph, job, line, obj, on, once, out, resumed
from engine.waits_lab import STORES, Started
from patience import until
from ropewalk.codec import flow_from_json, flow_to_json
from ropewalk.engine.engine import Engine
from ropewalk.errors import InvalidFlow, JournalConflict, StoreError
from ropewalk.expr.ast import Lit, Ref
from ropewalk.ir import Graph, Node, Policy, Retry
from ropewalk.journal.memory import MemoryStore
from ropewalk.notations.plan.flow import program_flow
from ropewalk.ops import Call, Program, ProgramTool
from ropewalk.plans.boundary.pool import pool
from ropewalk.plans.read.tools import PlanTool
from ropewalk.testing import DyingStore, ScriptedTools, fails, hangs, in_turn

PARAMETERS = {"get": ("n",), "pay": ("amount",), "slow": ("n",), "fail": ()}


def tool(name: str, policy: Policy, plan: str) -> tuple[ProgramTool, Graph]:
    id = f"{plan}.{name}"
    body = line(Node(id=id, op=Call(tool=name, args=Ref("item")), policy=policy), result=Ref("out", (id,)))
    return ProgramTool(name=name, parameters=PARAMETERS[name]), body


def program(text: str, id: str = "plan", policies: Any = None, **more: Any) -> Node:
    tools = tuple(tool(name, (policies or {}).get(name, Policy()), id) for name in PARAMETERS)
    return Node(id=id, op=Program(text=text, tools=tools, **more))


def alone(text: str, **more: Any) -> Graph:
    return line(program(text, **more), result=Ref("out", ("plan",)))


class Shop:
    """Tools that remember what they did."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tools(self, **more: Any) -> ScriptedTools:
        async def slow(n: int) -> int:
            for _ in range(n):
                await asyncio.sleep(0)
            return n

        def pay(amount: int) -> int:
            self.paid.append(amount)
            return amount

        script = {"get": lambda n: {"n": n, "tags": ["t"]}, "pay": pay, "slow": slow, "fail": fails("no")}
        return ScriptedTools({**script, **more})


PROGRAMS = {
    "loop": ("total = 0\nfor n in range(4):\n    total += (await get(n)).n\nreturn total", 6),
    "gather": ("import asyncio\nreturn await asyncio.gather(*[slow(n) for n in (9, 1, 5)])", [9, 1, 5]),
    "order": (
        "import asyncio\nseen = []\nasync def one(n):\n    seen.append(await slow(n))\n    await pay(n)\n"
        "await asyncio.gather(*[one(n) for n in (7, 2, 4)])\nreturn seen",
        [2, 4, 7],
    ),
    "handler": ("try:\n    await fail()\nexcept ToolError as e:\n    await pay(3)\n    return str(e)", "no"),
    "clock and chance": (
        "import random\nt = now()\nawait get(1)\nr = random.random()\nreturn now() >= t and r < 1",
        True,
    ),
    "sleep": ("import asyncio\nawait asyncio.sleep(0.001)\nawait pay(1)\nreturn 1", 1),
    "cancelled": (
        "import asyncio\nt = asyncio.create_task(slow(99))\nawait slow(3)\nt.cancel()\nawait pay(1)\nreturn 2",
        2,
    ),
    "timeout": (
        "import asyncio\ntry:\n    async with asyncio.timeout(0.001):\n        await slow(10**6)\n"
        "except TimeoutError:\n    await pay(1)\n    return 'late'",
        "late",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("kept", [*STORES, "nowhere"])
async def test_a_program_gives_pythons_result(name: str, kept: str, tmp_path: Path) -> None:
    text, result = PROGRAMS[name]
    if kept == "nowhere":
        ending = await once(alone(text), Shop().tools())
        assert (ending.status, ending.value) == ("completed", result)
        return
    done = await on(STORES[kept](tmp_path), alone(text), Shop().tools())
    assert (done["status"], done["value"]) == ("completed", result)


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_contained_program_gives_pythons_result(name: str) -> None:
    text, result = PROGRAMS[name]
    done = await on(None, alone(text, contained=True), Shop().tools())
    assert (done["status"], done["value"]) == ("completed", result)


async def test_a_contained_program_that_burns_is_stopped() -> None:
    done = await on(None, alone("await pay(1)\nwhile True:\n    pass", contained=True), Shop().tools())
    assert done["status"] == "failed"
    assert "line 2: Limit: the program computes for too many steps" in done["error"]


async def test_a_contained_program_whose_child_dies_during_a_call_goes_on_in_another() -> None:
    shop = Shop()

    async def kills(n: int) -> int:
        children = [*pool()._all]
        for child in children:
            child.process.kill()
        await until(lambda: not any(child.process.is_alive() for child in children))
        return n

    text = "import random\nx = random.random()\nawait pay(1)\nfirst = await slow(2)\nawait pay(3)\nreturn first"
    done = await on(None, alone(text, contained=True), shop.tools(slow=kills))
    assert (done["value"], shop.paid) == (2, [1, 3])


@pytest.mark.parametrize("contained", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("written", [True, False])
async def test_a_program_cut_at_every_write_ends_as_without_a_cut(name: str, written: bool, contained: bool) -> None:
    text, result = PROGRAMS[name]
    body = alone(text, contained=contained)
    for cut in range(1, 100):
        shop = Shop()
        tools = shop.tools()
        dying = DyingStore(MemoryStore(durable=True), cut, written=written)
        try:
            await Engine(dying).run(job(body, tools))
        except StoreError:
            pass
        else:
            assert cut > 3
            return
        recorded = [entry for entry in dying.appended if entry.kind == "call" and entry.node == "plan.pay"]
        before = len(shop.paid)
        rest = await resumed(await dying.survivor(), body, shop.tools())
        assert (rest["status"], rest["value"]) == ("completed", result), cut
        # What was recorded is not repeated; other calls may have been in progress.
        assert before - len(recorded) <= tools.peak
        assert len(shop.paid) - before == len(set(shop.paid)) - len(recorded)
    raise AssertionError("the store never stopped dying")


async def test_steps_that_end_in_another_order_are_replayed_in_the_recorded_one() -> None:
    """The order in which concurrent calls ended is what the program saw; after a cut they would end in another one."""
    text = PROGRAMS["order"][0]
    for cut in range(2, 40):
        shop = Shop()

        async def first(n: int) -> int:
            for _ in range({7: 1, 2: 9, 4: 5}[n]):
                await asyncio.sleep(0)
            return n

        dying = DyingStore(MemoryStore(durable=True), cut)
        try:
            done = await Engine(dying).run(job(alone(text), shop.tools(slow=first)))
        except StoreError:
            survivor = await dying.survivor()
        else:
            assert (cut > 10, done["value"]) == (True, [7, 4, 2])
            return
        told = told_of(survivor, "slow")
        done = await resumed(survivor, alone(text), shop.tools())
        again = told_of(survivor, "slow")
        assert again[: len(told)] == told
        assert (done["status"], done["value"]) == ("completed", [int(json.loads(x)["n"]) for x in again])


def told_of(store: Any, tool: str) -> list[Any]:
    return [entry.data[3] for entry in store.history("r") if entry.kind == "row" and entry.data[2] == tool]


async def test_a_sequential_call_is_one_commit() -> None:
    store = DyingStore(MemoryStore(durable=True))
    await Engine(store).run(job(alone("for n in range(5):\n    await pay(n)"), Shop().tools()))
    kinds = [(entry.kind, entry.data[1] if entry.kind == "row" else "") for entry in store.appended]
    assert kinds[0] == ("row", "start")
    assert kinds[1:11] == [("call", ""), ("row", "call")] * 5
    assert all(len(entry.data) == 6 for entry in store.appended if entry.kind == "row" and entry.data[1] == "call")


async def test_a_program_reads_the_flow_and_the_flow_its_result() -> None:
    body = line(
        call("get", args=obj(n=Lit(2))),
        program(
            "found = await get(n)\nreturn {'sum': found.n + start}", inputs=obj(n=out("get", "n"), start=Ref("input"))
        ),
        call("pay", args=obj(amount=out("plan", "sum"))),
        result=out("pay"),
    )
    shop = Shop()
    done = await on(None, body, shop.tools(), input=40)
    assert (done["value"], shop.paid) == (42, [42])


async def test_programs_run_beside_each_other() -> None:
    texts = {"one": "return (await get(1)).n", "two": "import asyncio\nreturn await asyncio.gather(slow(1), slow(2))"}
    nodes = [program(text, id=name) for name, text in texts.items()]
    done = await on(None, graph(*nodes, result=obj(one=out("one"), two=out("two"))), Shop().tools())
    assert done["value"] == {"one": 1, "two": [1, 2]}


@pytest.mark.parametrize("kept", STORES)
async def test_a_program_waits_for_people_and_events(kept: str, tmp_path: Path) -> None:
    text = "a = await approve('Pay?')\nif a:\n    await pay(1)\ne = await wait_for('go')\nreturn [bool(a), a.note, e]"
    shop = Shop()
    run = Started(STORES[kept](tmp_path), alone(text), shop.tools())
    await run.waits("plan[0-1:11.1]/approve")
    run.approve("plan[0-1:11.1]/approve", note="fine")
    await run.waits("plan[0-4:11.1]/event")
    run.send("go", {"x": 1})
    done = await run.task
    assert (done["value"], shop.paid) == ([True, "fine", {"x": 1}], [1])


@pytest.mark.parametrize("contained", [False, True])
async def test_a_call_that_needs_an_approval_waits_for_one_of_these_arguments(contained: bool) -> None:
    shop = Shop()
    tools = {"pay": PlanTool(id="pay", parameters=("amount",), approve=True)}
    made = program_flow("f", "for n in (1, 2):\n    await pay(n)", tools, (), contained=contained)
    run = Started(MemoryStore(durable=True), made, shop.tools())
    for number in (1, 2):
        path = f"program[0-2:11.{number}]/approve_pay"
        await run.waits(path)
        assert len(shop.paid) == number - 1
        run.approve(path)
    done = await run.task
    assert (done["status"], shop.paid) == ("completed", [1, 2])


@pytest.mark.parametrize("contained", [False, True])
async def test_neighbouring_reads_of_a_program_begin_together(contained: bool) -> None:
    tools = {name: PlanTool(id=name, parameters=("n",), reads=True) for name in ("get", "slow")}
    text = "a = await slow(3)\nb = await get(a)\nc = await slow(5)\nreturn [a, b.n, c]"
    for overlap, most in ((True, 2), (False, 1)):
        made = program_flow("f", text, tools, (), contained=contained, overlap=overlap)
        scripted = Shop().tools()
        done = await on(None, made, scripted)
        assert (done["value"], scripted.peak) == ([3, 3, 5], most)


@pytest.mark.parametrize("durable", [False, True])
async def test_a_call_that_is_cancelled_at_once_has_begun_as_in_python(durable: bool) -> None:
    begun: list[int] = []

    async def slow(n: int) -> int:
        begun.append(n)
        await asyncio.Event().wait()
        return n

    text = "t = asyncio.create_task(slow(1))\nawait asyncio.sleep(0)\nt.cancel()\nasyncio.create_task(slow(2))"
    store = MemoryStore(durable=durable)
    done = await on(store, alone(f"import asyncio\n{text}\nreturn 3"), Shop().tools(slow=slow))
    assert (done["value"], begun) == (3, [1, 2])
    rows = [entry.data for entry in store.history("r") if entry.kind == "row"]
    assert [row[4] for row in rows[1:]] == (["cancelled", "cancelled"] if durable else [])


async def test_a_rejection_that_the_program_does_not_read_fails_it() -> None:
    run = Started(MemoryStore(durable=True), alone("await approve('Pay?')\nawait pay(1)"), Shop().tools())
    await run.waits("plan[0-1:7.1]/approve")
    run.send("approval:plan[0-1:7.1]/approve", {"approved": False, "by": "ann"})
    done = await run.task
    assert done["status"] == "failed"
    assert "rejected by ann" in str(done["failures"])


async def test_a_failed_tool_ends_the_program_as_its_own_failure() -> None:
    done = await on(None, alone("await get(1)\nawait fail()"), Shop().tools())
    assert (done["status"], done["failures"]) == ("failed", ["plan[0-2:7.1]/plan.fail: no"])


async def test_a_failure_that_is_replayed_is_still_that_of_its_step() -> None:
    body = alone("try:\n    await fail()\nfinally:\n    await pay(2)")
    for cut in range(1, 20):
        dying = DyingStore(MemoryStore(durable=True), cut, written=True)
        try:
            await Engine(dying).run(job(body, Shop().tools()))
        except StoreError:
            rest = await resumed(await dying.survivor(), body, Shop().tools())
            assert (rest["status"], rest["failures"]) == ("failed", ["plan[0-2:11.1]/plan.fail: no"]), cut
        else:
            break
    assert cut > 4


async def test_an_exception_of_the_program_names_its_line() -> None:
    done = await on(None, alone("x = await get(1)\nreturn x['missing']"), Shop().tools())
    assert done["failures"] == ["plan: line 2: KeyError: 'missing'"]


async def test_another_text_does_not_continue_the_run() -> None:
    dying = DyingStore(MemoryStore(durable=True), 4)
    with pytest.raises(StoreError):
        await Engine(dying).run(job(alone("await pay(1)\nawait pay(2)"), Shop().tools()))
    with pytest.raises(JournalConflict, match=r"line 1: the run recorded pay .*, and the program now requests get "):
        await resumed(await dying.survivor(), alone("await get(1)\nawait pay(2)"), Shop().tools())


async def test_a_stopped_run_leaves_no_step_behind() -> None:
    tools = Shop().tools(slow=hangs())
    store = MemoryStore(durable=True)
    text = "import asyncio\nreturn await asyncio.gather(slow(1), slow(2))"
    running = asyncio.ensure_future(on(store, alone(text), tools))
    await tools.called("slow", 2)
    store.request_stop("r")
    done = await running
    assert (done["status"], tools.running) == ("stopped", 0)


async def test_the_timeout_of_the_node_reaches_its_steps() -> None:
    tools = Shop().tools(slow=hangs())
    node = program("import asyncio\nreturn await asyncio.gather(slow(1), slow(2))")
    body = line(Node(id="plan", op=node.op, policy=Policy(timeout=0.02)))
    done = await on(None, body, tools)
    assert (done["status"], done["failures"], tools.running) == ("failed", ["plan: not done within 0.02 s"], 0)


async def test_a_flow_with_a_program_is_read_back_from_its_document() -> None:
    made = flow(alone("return (await get(1)).n"))
    again = flow_from_json(flow_to_json(made))
    assert again == made
    assert (await on(None, again, Shop().tools()))["value"] == 1


async def test_what_the_language_lacks_is_a_problem_with_its_line() -> None:
    with pytest.raises(InvalidFlow, match=r"plan:2:\d+: "):
        await on(None, alone("x = 1\nimport socket"), Shop().tools())


async def test_a_call_with_attempts_is_told_once() -> None:
    tools = Shop().tools(fail=in_turn(fails("no"), 7))
    done = await on(None, alone("return await fail()", policies={"fail": Policy(retry=Retry(attempts=2))}), tools)
    assert done["value"] == 7


class DyingLedger(DyingStore):
    """A dying store with the ledger of its store."""

    # Newer versions of Python do not find delegated methods when they look for those of a ledger.
    reserve = property(lambda self: self.store.reserve)
    settle = property(lambda self: self.store.settle)
    used = property(lambda self: self.store.used)
    join = property(lambda self: self.store.join)
    members = property(lambda self: self.store.members)


@pytest.mark.parametrize("written", [False, True])
async def test_a_budget_that_is_used_up_is_not_caught_after_a_cut(written: bool) -> None:
    body = alone("for n in range(9):\n    try:\n        await pay(n)\n    except Exception:\n        return 'caught'")
    for cut in range(1, 40):
        shop = Shop()
        dying = DyingLedger(MemoryStore(durable=True), cut, written=written)
        try:
            await Engine(dying).run(job(body, shop.tools(), budget={"calls": 2}))
        except StoreError:
            survivor = await dying.survivor()  # its ledger is empty
            rest = await resumed(survivor, body, shop.tools())
            called = {entry.node for entry in survivor.history("r") if entry.kind in ("call", "call_failed")}
            assert (rest["status"], len(rest["failures"]), called) == ("failed", 1, {"plan.pay"}), cut
            assert "budget of 2 calls is used up" in rest["failures"][0]
        else:
            assert cut > 5
            return
    raise AssertionError("the store never stopped dying")
