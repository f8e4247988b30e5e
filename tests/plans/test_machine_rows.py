"""The rules of rows: order of commit, replay, cancelled calls, timers, retry, fork, correction and diff."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ropewalk.plans import messages as m
from ropewalk.plans import rows as r
from ropewalk.plans.program import Program
from ropewalk.plans.rows import Diverged, Row

from . import journals
from .event_host import World, run
from .oracle import PARAMETERS
from .programs import Writer
from .simulation import START, Cut, Simulation
from .test_machine_oracle import world as oracle_world

TOOLS = {"a": [], "b": [], "get": ["n"], "pay": ["amount"], "check": ["id"], "slow": ["n"]}


def echo(tool: str, arguments: dict[str, Any]) -> Any:
    return next(iter(arguments.values()), tool)


def simulation(answer: Any = echo, **options: Any) -> Simulation:
    return Simulation(TOOLS, answer, **options)


def calls_of(rows: list[Row]) -> list[tuple[str, str]]:
    return [(row.name, row.status) for row in rows if row.kind == "call"]


def fast_tools(*names: str) -> Any:
    return lambda number, tool, arguments: 0.001 * number if tool in names else 0.5 + number / 1000


def test_a_row_whose_step_an_earlier_delivery_cancelled_is_skipped_in_replay() -> None:
    text = "import asyncio\nt = asyncio.create_task(b())\nx = await a()\nt.cancel()\nreturn x"
    _, rows = simulation().run(text)
    assert calls_of(rows) == [("a", "ok"), ("b", "cancelled")]
    # Both calls ended before the program could cancel the second one.
    both = [row for row in rows if row.status != "cancelled"]
    both.append(Row("0.1/2:25#1", "call", "b", "{}", "ok", "2"))
    outcome, again = simulation().run(text, rows=both)
    assert (outcome.status, outcome.result, again) == ("completed", "a", both)


def test_a_cancelled_call_and_its_late_result_are_recorded_and_never_delivered() -> None:
    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "a":
            return 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "late"  # it had happened already

    text = "import asyncio\nt = asyncio.create_task(b())\nx = await a()\nt.cancel()\nreturn [x, t.done()]"
    rows: list[Row] = []
    outcome = asyncio.run(run(Program(text, TOOLS), World(perform=perform, rows=rows)))
    assert outcome.result == [1, False]
    assert calls_of(rows) == [("a", "ok"), ("b", "cancelled"), ("b", "late")]
    replayed = asyncio.run(run(Program(text, TOOLS), World(perform=perform, rows=list(rows))))
    assert replayed == outcome


def test_a_timer_keeps_when_it_is_due() -> None:
    text = "import asyncio\nx = await a()\nawait asyncio.sleep(60)\nreturn x"
    first = simulation()
    outcome, rows = first.run(text)
    assert [(row.kind, row.status) for row in rows[1:]] == [("call", "ok"), ("timer", "due"), ("timer", "ok")]
    due = json.loads(rows[2].value)
    second = simulation()
    second.now = START + 59  # resumed 59 seconds after the start
    again, more = second.run(text, rows=rows[:3])
    assert (again, more) == (outcome, rows)
    assert second.now == pytest.approx(due)


def test_a_timer_that_does_not_fire_leaves_no_delivery() -> None:
    text = "import asyncio\nasync with asyncio.timeout(30):\n    x = await a()\nreturn x"
    outcome, rows = simulation().run(text)
    assert outcome.result == "a"
    assert [(row.kind, row.status) for row in rows[1:]] == [("timer", "due"), ("call", "ok")]


def test_a_retry_removes_the_failed_delivery_alone() -> None:
    broken = [True]

    def answer(tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "check" and broken[0]:
            raise ValueError("down")
        return echo(tool, arguments)

    text = "import asyncio\nt = [asyncio.create_task(pay(amount=n)) for n in (100, 200)]\n"
    text += "await asyncio.gather(*t)\nx = await check(id=1)\nawait pay(amount=300)\nreturn [x, [await u for u in t]]"
    simulated = simulation(answer)
    outcome, rows = simulated.run(text)
    assert (outcome.status, outcome.error, outcome.line) == ("failed", "ToolError", 4)
    broken[0] = False
    again, _ = simulated.run(text, rows=journals.retry(rows, outcome.failed))
    assert again.result == [1, [100, 200]]
    assert sorted(arguments["amount"] for tool, arguments in simulated.performed if tool == "pay") == [100, 200, 300]


def test_a_retry_takes_what_succeeded_after_the_failure() -> None:
    broken = [True]

    def answer(tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "check" and broken[0]:
            raise ValueError("down")
        return echo(tool, arguments)

    text = """
import asyncio
t = [asyncio.create_task(f) for f in (check(id=1), pay(amount=100), pay(amount=200))]
await asyncio.wait(t)
return [await u for u in t]
"""
    simulated = simulation(answer, delay=fast_tools("check"))
    outcome, rows = simulated.run(text)
    assert calls_of(rows) == [("check", "failed"), ("pay", "ok"), ("pay", "ok")]
    broken[0] = False
    retried = journals.retry(rows, outcome.failed)
    again, more = simulated.run(text, rows=retried)
    assert again.result == [1, 100, 200]
    assert [tool for tool, _ in simulated.performed].count("pay") == 2
    # The journal of a retry can be cut and resumed like any other.
    for cut in range(len(retried), len(more)):
        resumed, _ = Simulation(TOOLS, answer).run(text, rows=more[:cut])
        assert resumed.result == [1, 100, 200]


def test_a_retry_cannot_help_when_the_program_itself_failed() -> None:
    outcome, rows = simulation().run("x = await a()\nreturn 1 / 0")
    assert (outcome.error, outcome.failed) == ("ZeroDivisionError", ())
    with pytest.raises(journals.Unhelpful):
        journals.retry(rows, outcome.failed)


def test_a_failure_that_a_handler_turned_into_another_one_can_be_retried() -> None:
    def answer(tool: str, arguments: dict[str, Any]) -> Any:
        raise ValueError("down")

    text = "try:\n    await a()\nexcept ToolError as error:\n    raise RuntimeError('no') from error"
    outcome, rows = simulation(answer).run(text)
    assert outcome.error == "RuntimeError"
    assert len(journals.retry(rows, outcome.failed)) == 1


def test_a_replay_that_requests_something_else_stops_before_anything_is_called() -> None:
    _, rows = simulation().run("x = await get(n=1)\nreturn await get(n=2)")
    for text in (
        "x = await get(n=7)\nreturn await get(n=2)",
        "x = await slow(n=1)\nreturn await get(n=2)",
        "return 1",
        "pass\nx = await get(n=1)\nreturn await get(n=2)",
        "import asyncio\nx = await asyncio.sleep(5)\nreturn await get(n=2)",
    ):
        simulated = simulation()
        with pytest.raises(Diverged):
            simulated.run(text, rows=rows)
        assert simulated.calls == []


def test_no_handler_of_the_program_catches_a_divergence() -> None:
    _, rows = simulation().run("x = now()\nreturn await get(n=1)")
    text = "try:\n    x = 1\n    y = now()\nexcept BaseException:\n    pass\nfinally:\n    await pay(amount=1)"
    simulated = simulation()
    with pytest.raises(Diverged, match="the clock now"):
        simulated.run(text, rows=rows)
    assert simulated.calls == []


BLOCKS = {
    "finally": "try:\n    await get(n=1)\nfinally:\n    now()",
    "async with": """
class A:
    async def __aenter__(self):
        pass
    async def __aexit__(self, *rest):
        now()
async with A():
    await get(n=1)
""",
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_program_that_is_dropped_executes_nothing_more(name: str) -> None:
    executed: list[str] = []

    class World(Simulation):
        def clock(self, name: str) -> float:
            executed.append(name)
            return 0.0

    with pytest.raises(Cut):
        World(TOOLS, echo).run(BLOCKS[name], cut_after=2)
    gc.collect()
    assert executed == []


def test_corrected_code_takes_recorded_calls_and_reports_writes_it_does_not_ask_for() -> None:
    simulated = simulation()
    _, rows = simulated.run("await pay(amount=1)\nx = await get(n=2)\nawait pay(amount=3)\nreturn [][0]")
    simulated.calls.clear()
    outcome, more = simulated.run(
        "x = await get(n=2)\ny = await pay(amount=1)\nreturn [x, y]", rows=journals.correct(rows)
    )
    assert (outcome.result, simulated.calls) == ([2, 1], [])
    conflict = journals.unclaimed(more, lambda tool: tool == "pay")
    assert [(row.name, row.arguments) for row in conflict] == [("pay", '{"amount": 3}')]
    # A second correction still knows every call, also the one that nobody asked for.
    third, _ = simulated.run("return [await pay(amount=n) for n in (3, 1)]", rows=journals.correct(more))
    assert (third.result, simulated.calls) == ([3, 1], [])


def test_a_fork_says_which_writes_it_repeats() -> None:
    simulated = simulation()
    text = "x = await get(n=1)\nawait pay(amount=2)\nreturn x"
    _, rows = simulated.run(text)
    kept, repeated = journals.fork(rows, 2, lambda tool: tool == "pay")
    assert [row.name for row in repeated] == ["pay"]
    simulated.calls.clear()
    outcome, _ = simulated.run(text, rows=kept)
    assert (outcome.result, simulated.calls) == (1, [("pay", {"amount": 2})])


def test_a_diff_aligns_rows() -> None:
    _, before = simulation().run("x = await get(n=1)\nawait pay(amount=2)\nreturn x")
    _, after = simulation().run("x = await get(n=1)\nawait pay(amount=5)\nawait slow(n=1)\nreturn x")
    pairs = [(left and left.arguments, right and right.arguments) for left, right in r.diff(before, after)]
    assert pairs == [('{"n": 1}', '{"n": 1}'), ('{"amount": 2}', '{"amount": 5}'), (None, '{"n": 1}')]


def test_arguments_and_results_are_copies() -> None:
    held: list[Any] = []

    async def perform(tool: str, arguments: dict[str, Any]) -> Any:
        held.append(arguments)
        return arguments["n"]

    text = "box = {1: [2], None: (3,)}\ngiven = await get(n=box)\ngiven['1'].append(9)\nbox[1].append(8)\nreturn given"
    outcome = asyncio.run(run(Program(text, TOOLS), World(perform=perform)))
    assert outcome.result == {"1": [2, 9], "null": [3]}
    assert held == [{"n": {"1": [2], "null": [3]}}]


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "{1, 2}", "2 ** 70", "lambda: 1"])
def test_what_is_not_json_is_refused_with_advice(value: str) -> None:
    simulated = simulation()
    outcome, _ = simulated.run(f"try:\n    x = await get(n={value})\nexcept Exception:\n    return 'caught'")
    assert (outcome.status, outcome.line, simulated.calls) == ("stopped", 2, [])


def test_clock_and_chance_are_rows_and_the_same_in_a_replay() -> None:
    text = """
import random, time, uuid
from datetime import datetime, date
x = [now().isoformat(), str(date.today()), datetime.now().isoformat(), time.time(), time.monotonic() >= 0]
x += [random.random(), random.choice([1, 2, 3]), str(uuid.uuid4()), uuid.uuid4().hex, uuid4()]
await a()
return x
""".replace("uuid4()]", "str(uuid.uuid4())]")
    outcome, rows = simulation().run(text)
    later = simulation()
    later.now = START + 10_000
    again, more = later.run(text, rows=rows)
    assert outcome.status == "completed", outcome
    assert (again, more) == (outcome, rows)
    assert outcome.result[0] == "1970-01-12T13:46:40+00:00"
    assert sum(row.kind == "clock" for row in rows) == 5


def test_the_first_row_names_the_versions_that_a_resumed_run_needs() -> None:
    text = "return await get(n=1)"
    outcome, rows = simulation().run(text)
    start = json.loads(rows[0].value)
    assert start["language"] == r.LANGUAGE
    assert start["python"] == ".".join(map(str, sys.version_info[:2]))
    assert start["tzdata"][:2] == "20"
    assert start["digests"] == r.digests_of(text) != r.digests_of(text + " ")
    for change, resumes in (({"python": "3.99"}, True), ({"tzdata": "1999a"}, True), ({"language": 99}, False)):
        changed = [Row("", "start", "", "null", "ok", json.dumps({**start, **change})), *rows[1:]]
        if resumes:
            assert simulation().run(text, rows=changed)[0] == outcome
        else:
            with pytest.raises(r.UnknownLanguage, match="version 99"):
                simulation().run(text, rows=changed)


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the system has no tzset")
def test_the_time_zone_of_the_machine_is_not_used(new_york: None) -> None:
    text = """
from datetime import date, datetime
noon = datetime(2025, 7, 1, 12)
assert noon.timestamp() == 1751371200
assert datetime.fromtimestamp(0).hour == datetime.utcfromtimestamp(0).hour == 0
assert date.fromtimestamp(0).year == 1970
return str(noon.astimezone())
"""
    outcome, _ = simulation().run(text)
    assert outcome.result == "2025-07-01 12:00:00+00:00", outcome
    for local in ("noon.strftime('%s')", "f'{noon:%s}'", "noon.strftime('%-s')"):
        outcome, _ = simulation().run(text.replace("str(noon.astimezone())", local))
        assert (outcome.status, "time zone" in outcome.message) == ("stopped", True)


def test_a_text_is_logged_once() -> None:
    simulated = simulation()
    text = "print('one')\nawait a()\nprint('two')\nawait b()\nprint('three')"
    with pytest.raises(Cut):
        simulated.run(text, cut_after=3)
    outcome, _ = simulated.run(text, rows=simulated.rows)
    assert simulated.printed == ["one\n", "two\n", "three\n"]
    assert outcome.printed == "one\ntwo\nthree\n"


def test_a_question_without_an_answer_lets_the_run_wait() -> None:
    text = "answer = await approve('Go?')\nif not answer:\n    return answer.note\nreturn await get(n=1)"
    simulated = simulation()
    outcome, rows = simulated.run(text)
    assert outcome.status == "waiting"
    assert outcome.waits == (m.Question(outcome.waits[0].path, "approve", "Go?"),)
    simulated.answers = {"Go?": {"approved": False, "note": "no", "by": "ann"}}
    refused, _ = simulated.run(text, rows=rows)
    assert refused.result == "no"
    unread, _ = simulated.run("await approve('Go?')\nreturn 1")
    assert (unread.error, unread.message) == ("Rejected", "rejected by ann: no")


def test_a_deadlock_is_an_error_at_once() -> None:
    outcome, _ = simulation().run("import asyncio\nlock = asyncio.Lock()\nawait lock.acquire()\nawait lock.acquire()")
    assert (outcome.status, outcome.error) == ("failed", "Deadlock")


def test_deliveries_keep_their_order_when_answers_come_in_another_order() -> None:
    text = """
import asyncio
out = []
sem = asyncio.Semaphore(3)
async def one(i):
    async with sem:
        out.append(['a', await slow(n=i)])
    for j in range(i % 3):
        out.append([i, j, await slow(n=j)])
await asyncio.gather(*[one(i) for i in range(8)])
return out
"""
    outcome, rows = simulation().run(text)
    for cut in range(1, len(rows)):
        other = simulation(delay=lambda number, tool, arguments: 1 / (number + 3))
        resumed, more = other.run(text, rows=rows[:cut])
        assert more[:cut] == rows[:cut]
        replayed, _ = simulation().run(text, rows=more)
        assert replayed == resumed
        assert len(resumed.result) == len(outcome.result)


@pytest.mark.parametrize("seed", range(20))
def test_a_run_that_is_cut_anywhere_makes_each_call_once(seed: int) -> None:
    text = Writer(70_000 + seed).program()
    program = Program(text, PARAMETERS, function=True)
    outcome, rows = Simulation(PARAMETERS, oracle_world()).run(program)
    for cut in range(1, len(rows)):
        answer = oracle_world()
        simulated = Simulation(PARAMETERS, answer)
        with pytest.raises(Cut):
            simulated.run(program, cut_after=cut)
        resumed, more = simulated.run(program, rows=simulated.rows[:cut])
        assert resumed == outcome
        succeeded = [(row.name, json.loads(row.arguments)) for row in more if row.kind == "call" and row.status == "ok"]
        assert len(succeeded) == len([row for row in rows if row.kind == "call" and row.status == "ok"])


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("t = now()\nx = await a()\ny = now()\nreturn x", "t = now()\nx = await a()\nawait b()\nreturn x"),
        ("x = await a()\nawait asyncio.sleep(60)\nreturn x", "x = await a()\nawait b()\nreturn x"),
        ("x = await a()\ny = now()\nreturn x", "x = await a()\nreturn x"),
    ],
)
def test_what_a_replay_does_not_ask_for_stops_the_run_before_a_new_call(text: str, other: str) -> None:
    _, rows = simulation().run(f"import asyncio\n{text}")
    kept = [row for row in rows if (row.kind, row.status) != ("timer", "ok")]
    again = simulation()
    with pytest.raises(Diverged, match="does not request it"):
        again.run(f"import asyncio\n{other}", rows=kept)
    assert again.calls == []
