"""The machine in a child does what it does in the process, and its parent survives whatever the child does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from patience import until, wait_until
from ropewalk.plans import messages as m
from ropewalk.plans.boundary.pool import Limits, Pool
from ropewalk.plans.guard import MAX_PRINTED, Forged, Guard, TooMuchPrinted
from ropewalk.plans.program import Program
from ropewalk.plans.rows import Row
from ropewalk.plans.session import Outcome

from . import corpus_world
from .event_host import World, run, run_in_child
from .test_boundary import is_alive

pytestmark = [
    pytest.mark.process,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox of a child is that of Linux"),
]
TOOLS = {"get": ["n"], "other": []}
CHANGING = ("now(", "today(", "uuid", "random", " time.", "sleep", "timeout")
"""Words of programs that depend on the clock or on chance."""


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(limits=Limits(cpu=60, wall=600))
    yield pool
    pool.close()


async def echo(tool: str, arguments: dict[str, Any]) -> Any:
    return arguments.get("n")


async def play(text: str, pool: Pool, perform: Any = echo, rows: list[Row] | None = None, **options: Any) -> Outcome:
    return await run_in_child(m.Begin(text, TOOLS, "{}", 0), World(perform=perform, rows=rows), pool, **options)


def steps_of(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.kind not in ("start", "clock")]


def pids(pool: Pool) -> list[int]:
    return [child.pid for child in pool._all]


# --- the same as in the process ----------------------------------------------------------------


async def test_programs_of_the_corpus_give_in_a_child_what_they_give_in_the_process(pool: Pool) -> None:
    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        return corpus_world.answer(tool, arguments)

    async def answer(question: m.Question) -> Any:
        return {"approved": len(question.text) % 2 == 0}

    different = []
    texts = {key: text for key, text in corpus_world.programs().items() if not any(word in text for word in CHANGING)}
    for number, text in texts.items():
        here: list[Row] = []
        there: list[Row] = []
        expected = await run(Program(text, corpus_world.TOOLS), World(perform=perform, rows=here, answer=answer))
        begin = m.Begin(text, corpus_world.TOOLS, "{}", 0)
        outcome = await run_in_child(begin, World(perform=perform, rows=there, answer=answer), pool)
        if outcome != expected or steps_of(there) != steps_of(here):
            different.append((number, expected, outcome))
    assert different == []
    assert len(texts) > 150


SAME = {
    "invalid": "import difflib\nreturn lenn(nothing)",
    "fails": "x = await get(1)\nreturn 1 / 0",
    "failing tool": "return await other()",
    "caught": "try:\n    await other()\nexcept ValueError as error:\n    return [str(error), type(error).__name__]",
    "stopped": "x = 'a'\nwhile True:\n    x = x + x",
    "zones": (
        "from zoneinfo import ZoneInfo\nfrom datetime import datetime\n"
        "d = datetime(2025, 7, 1, tzinfo=ZoneInfo('Europe/Berlin'))\n"
        "return [str(d), str(d.astimezone(ZoneInfo('Asia/Tokyo'))), str(d.tzinfo), ZoneInfo('UTC') is ZoneInfo('UTC')]"
    ),
    "no zone": "from zoneinfo import ZoneInfo\nreturn ZoneInfo('Europe/Nowhere')",
    "prints": "print(await get(1))\nprint('two')",
    "overlap": "import asyncio\nreturn await asyncio.gather(*[get(n) for n in range(50)])",
    "cancelled": (
        "import asyncio\nt = asyncio.create_task(get(1))\nawait asyncio.sleep(0)\nt.cancel()\nreturn await get(2)"
    ),
    "timer": "import asyncio\ntry:\n    async with asyncio.timeout(0.01):\n        await asyncio.sleep(9)\n"
    "except TimeoutError:\n    return 'late'",
    "deep": "x = []\nfor i in range(197):\n    x = [x]\nreturn await get(x)",
    "too deep": "x = []\nfor i in range(300):\n    x = [x]\nreturn await get(x)",
    "largest number": "return await get([2 ** 63 - 1, -2 ** 63])",
    "too large a number": "return await get(2 ** 63)",
    "no text": "return await get(chr(0))",
    "half a character": "return await get(chr(0xd800))",
    "not a number": "return await get(float('nan'))",
    "same key twice": "return await get({1: 'a', '1': 'b'})",
    "a whole character": "return await get('\U0001f600')",
}


@pytest.mark.parametrize("name", SAME)
async def test_a_program_ends_in_a_child_as_in_the_process(pool: Pool, name: str) -> None:
    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "other":
            raise ValueError("down")
        return arguments["n"]

    here: list[Row] = []
    there: list[Row] = []
    expected = await run(Program(SAME[name], TOOLS), World(perform=perform, rows=here))
    outcome = await play(SAME[name], pool, perform, there)
    assert outcome == expected
    assert [row.name for row in steps_of(there)] == [row.name for row in steps_of(here)]


async def test_a_replay_in_a_child_repeats_no_call_and_gives_the_same(pool: Pool) -> None:
    text = (
        "x = [now().isoformat()]\nfor i in range(600):\n    x.append(await get('a' * i))\nreturn [x, now().isoformat()]"
    )
    rows: list[Row] = []
    outcome = await play(text, pool, rows=rows)
    calls = []

    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        calls.append(arguments)
        return arguments["n"]

    for cut in (1, 2, 300, len(rows) - 1, len(rows)):
        calls.clear()
        again = list(rows[:cut])
        resumed = await play(text, pool, perform, again)
        assert resumed.status == "completed"
        assert len(calls) == 600 - sum(row.kind == "call" for row in rows[:cut])
        assert resumed.result[0][1:] == outcome.result[0][1:]
        assert (resumed.result[0] == outcome.result[0]) is (cut > 1)


# --- children that end ---------------------------------------------------------------------------


async def test_a_program_that_burns_is_stopped_and_the_loop_goes_on(pool: Pool) -> None:
    pool.limits = Limits(cpu=0.05, wall=600)
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    beating = asyncio.create_task(beat())
    rows: list[Row] = []
    outcome = await play("x = await get(1)\nfor i in range(900_000):\n    x += 1\nreturn x", pool, rows=rows)
    beating.cancel()
    assert (outcome.status, outcome.error) == ("stopped", "Limit")
    assert "more than 0.05 seconds of processor time" in outcome.message
    assert beats > 100
    assert [row.status for row in steps_of(rows)] == ["ok"]
    # The rows let another attempt go on.
    pool.limits = Limits(cpu=60, wall=600)
    outcome = await play("x = await get(1)\nfor i in range(900_000):\n    x += 1\nreturn x", pool, None, rows)
    assert outcome.result == 900_001


async def test_a_program_that_eats_memory_is_stopped(pool: Pool) -> None:
    text = "x = []\nwhile True:\n    x.append('a' * 9_000_000 + str(await get(1)))"
    outcome = await play(text, pool)
    assert outcome.status == "stopped"
    assert "too much memory" in outcome.message
    assert (await play("return 1", pool)).result == 1


async def test_a_child_that_is_killed_between_two_deliveries_is_replaced(pool: Pool) -> None:
    calls: list[int] = []

    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        calls.append(arguments["n"])
        if arguments["n"] in (3, 7):
            [pid] = pids(pool)
            os.kill(pid, signal.SIGKILL)
            assert wait_until(lambda: not next(iter(pool._all)).process.is_alive())
        return arguments["n"]

    rows: list[Row] = []
    text = "out = [now().isoformat()]\nfor i in range(10):\n    out.append(await get(i))\nreturn out"
    outcome = await play(text, pool, perform, rows)
    assert (outcome.status, outcome.result[1:]) == ("completed", list(range(10)))
    assert calls == list(range(10))
    assert [row.kind for row in rows].count("clock") == 1


async def test_a_child_that_is_killed_while_it_computes_ends_the_attempt(pool: Pool) -> None:
    calls: list[Any] = []

    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        calls.append(arguments)
        return arguments["n"]

    def kill(row: Row) -> None:
        if row.kind == "clock":  # the child waits for what the clock shows, so it computes
            os.kill(pids(pool)[0], signal.SIGKILL)

    text = "x = await get(1)\ny = now()\nreturn x + await get(2)"
    rows: list[Row] = []
    outcome = await run_in_child(m.Begin(text, TOOLS, "{}", 0), World(perform=perform, rows=rows, on_row=kill), pool)
    assert (outcome.status, outcome.message) == ("stopped", "the program was stopped: it crashed the interpreter")
    assert (await play(text, pool, perform, rows)).result == 3
    assert calls == [{"n": 1}, {"n": 2}]


async def test_a_cancelled_run_kills_the_child_that_computes(pool: Pool) -> None:
    killed: list[int] = []

    def cancel(row: Row) -> None:
        if row.kind == "clock":
            killed.extend(pids(pool))
            os.kill(killed[0], signal.SIGSTOP)  # so that it does not answer before the cancellation arrives
            running.cancel()

    begin = m.Begin("x = await get(1)\ny = now()\nreturn x", TOOLS, "{}", 0)
    running = asyncio.create_task(run_in_child(begin, World(perform=echo, on_row=cancel), pool))
    assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], asyncio.CancelledError)
    assert (len(killed), pids(pool), pool.leases) == (1, [], 0)
    assert wait_until(lambda: not is_alive(killed[0]))


# --- programs that wait --------------------------------------------------------------------------


async def test_a_program_that_waits_gives_its_child_back(pool: Pool) -> None:
    leases = []

    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        leases.append(pool.leases)
        await until(lambda: pool.leases == 0)
        return arguments["n"]

    text = "x = [now().isoformat()]\nfor i in range(3):\n    x.append(await get(i))\nreturn x"
    outcome = await play(text, pool, perform, keep_seconds=0.01)
    assert (outcome.result[1:], leases) == ([0, 1, 2], [1, 1, 1])
    assert len(pids(pool)) == 1


async def test_nested_programs_cannot_deadlock() -> None:
    pool = Pool(most=1, limits=Limits(cpu=60, wall=600))

    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        if arguments["n"] == 0:
            return "innermost"
        inner = await play(f"return ['in', await get({arguments['n'] - 1})]", pool, perform, keep_seconds=0.01)
        return inner.result

    outcome = await play("return await get(3)", pool, perform, keep_seconds=0.01)
    assert json.dumps(outcome.result).count("in") == 4
    pool.close()


async def test_a_run_that_waits_for_an_answer_keeps_no_child(pool: Pool) -> None:
    rows: list[Row] = []
    text = "x = await get(1)\nreturn [x, bool(await approve('Go?'))]"
    outcome = await play(text, pool, rows=rows)
    assert (outcome.status, outcome.waits[0].text, pool.leases) == ("waiting", "Go?", 0)

    async def answer(question: m.Question) -> Any:
        return {"approved": True}

    world = World(perform=echo, rows=rows, answer=answer)
    assert (await run_in_child(m.Begin(text, TOOLS, "{}", 0), world, pool)).result == [1, True]


async def test_a_replay_has_an_allowance_of_its_own(pool: Pool) -> None:
    used = []

    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        used.append(max(child.process.cpu_seconds() for child in pool._all))
        await until(lambda: pool.leases == 0)
        return arguments["n"]

    text = "x = 0\nfor i in range(300_000):\n    x += 1\nfor i in range(3):\n    await get(i)\nreturn x"
    assert (await play(text, pool, perform, keep_seconds=0.01)).result == 300_000
    # Four times the work of one child, of which three are replays.
    pool.limits = Limits(cpu=2 * used[0], wall=600)
    outcome = await play(text, pool, perform, keep_seconds=0.01)
    assert outcome.result == 300_000, outcome


# --- what the parent judges --------------------------------------------------------------------

CALL = {"is": "call", "path": "0/1:0#1", "id": "get", "tool": "get", "arguments": "{}"}
BLOCKED = {"is": "blocked"}
ENDED = {"is": "ended", "status": "completed"}
FORGED = {
    "no list": "turn",
    "no message": [],
    "no end": [CALL],
    "two ends": [CALL, BLOCKED, BLOCKED],
    "blocked by nothing": [BLOCKED],
    "an unknown tool": [{**CALL, "tool": "pay"}, BLOCKED],
    "a path that is none": [{**CALL, "path": "../1"}, BLOCKED],
    "the same path twice": [CALL, CALL, BLOCKED],
    "a long path": [{**CALL, "path": "0" + ".1" * 10_000 + "/1:0#1"}, BLOCKED],
    "arguments that are no object": [{**CALL, "arguments": "[]"}, BLOCKED],
    "arguments that are no JSON": [{**CALL, "arguments": "{"}, BLOCKED],
    "deep arguments": [{**CALL, "arguments": '{"x":' + "[" * 5000 + "]" * 5000 + "}"}, BLOCKED],
    "not a number": [{**CALL, "arguments": '{"x": NaN}'}, BLOCKED],
    "a message of the parent": [{"is": "delivery", "path": "0/1:0#1", "ok": True, "value": "1"}, BLOCKED],
    "a cancelled step that was not requested": [CALL, {"is": "cancel", "path": "0/2:0#1"}, BLOCKED],
    "a timer without end": [{"is": "timer", "path": "0/1:sleep#1", "name": "sleep", "seconds": -1}, BLOCKED],
    "an unknown timer": [{"is": "timer", "path": "0/1:sleep#1", "name": "call", "seconds": 1}, BLOCKED],
    "a question of another kind": [{"is": "question", "path": "0/1:0#1", "name": "call", "text": "x"}, BLOCKED],
    "a text out of order": [{"is": "printed", "number": 1, "text": "x"}, CALL, BLOCKED],
    "a clock in a turn": [{"is": "clock", "path": "0/1:now#1", "name": "now"}, CALL, BLOCKED],
    "an unknown status": [{**ENDED, "status": "waiting"}],
    "a result that is no JSON": [{**ENDED, "result": "lambda"}],
    "a failed step that did not fail": [{**ENDED, "status": "failed", "failed": ["0/1:0#1"]}],
    "a problem that is none": [{**ENDED, "status": "invalid", "problems": [{"line": "1"}]}],
}


@pytest.mark.parametrize("name", FORGED)
def test_the_parent_refuses_what_no_program_can_ask_for(name: str) -> None:
    with pytest.raises(Forged):
        Guard(TOOLS).turn(FORGED[name])


def test_the_parent_decides_the_id_and_writes_the_arguments() -> None:
    first = {**CALL, "id": "delete_everything", "arguments": '{"n":1,  "n": 2}'}
    second = {**CALL, "path": "0/1:0#2"}
    calls = Guard(TOOLS).turn([first, second, BLOCKED])[:2]
    assert [(call.id, call.arguments) for call in calls] == [("get", '{"n": 2}'), ("get-2", "{}")]


def test_a_run_keeps_a_bounded_text() -> None:
    texts = [{"is": "printed", "number": number, "text": "x" * (MAX_PRINTED // 2)} for number in range(3)]
    with pytest.raises(TooMuchPrinted):
        Guard(TOOLS).turn([*texts, CALL, BLOCKED])
