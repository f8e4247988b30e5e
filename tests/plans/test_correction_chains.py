"""Corrections of corrections: a write that any run of the chain made is neither made again nor forgotten."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from patience import until
from ropewalk import App, tool
from ropewalk.errors import JournalConflict, NothingToRetry, RunBusy
from ropewalk.journal.protocol import Entry, NewRun
from ropewalk.values import digest

pytestmark = [pytest.mark.process, pytest.mark.anyio]
ORDER = "await order(item={})"
FAIL = "raise ValueError('no')"


class Shop:
    """A write, a destructive write and a read, what was ordered and paid, and the next calls of the write that fail."""

    def __init__(self) -> None:
        self.ordered: list[int] = []
        self.paid: list[int] = []
        self.failures: list[bool] = []
        self.ends_after: dict[int, int] = {}

    def tools(self) -> list[Any]:
        @tool
        async def order(item: int) -> int:
            """Order an item."""
            if self.failures and self.failures.pop():
                raise ValueError("out of stock")
            if item in self.ends_after:
                await until(lambda: self.ends_after[item] in self.ordered)
            self.ordered.append(item)
            return item

        @tool(annotations={"destructiveHint": True})
        async def pay(amount: int) -> int:
            """Pay. This cannot be undone."""
            self.paid.append(amount)
            return amount

        @tool(annotations={"readOnlyHint": True})
        async def wait(item: int) -> int:
            """Wait until an item is ordered."""
            await until(lambda: item in self.ordered)
            return item

        @tool(annotations={"readOnlyHint": True})
        async def look(item: int) -> int:
            """Look at an item."""
            return item

        return [order, pay, wait, look]


@pytest.fixture
def shop() -> Shop:
    return Shop()


def open_app(path: Path, shop: Shop) -> App:
    return App(f"sqlite:///{path / 'runs.db'}", tools=shop.tools())


def program(*parts: object) -> str:
    return "\n".join(ORDER.format(part) if isinstance(part, int) else str(part) for part in parts)


async def correct(shop: Shop, path: Path, *codes: str) -> Any:
    """Run the first program and correct it with each of the others, in a new process for each."""
    answer: Any = None
    for code in codes:
        async with open_app(path, shop) as app:
            if answer is None:
                answer = await app.plans.run_plan(code)
            else:
                answer = await app.plans.resume_run(answer["runId"], code=code)
    return answer


async def test_a_correction_knows_the_writes_that_the_one_before_did_not_reach(shop: Shop, tmp_path: Path) -> None:
    last = program(1, 2, 3, "return 'done'")
    answer = await correct(shop, tmp_path, program(1, 2, FAIL), program(1, FAIL), program(FAIL), last)
    assert (answer["status"], shop.ordered) == ("completed", [1, 2, 3])


async def test_a_write_of_the_first_run_that_the_last_one_drops_is_a_conflict(shop: Shop, tmp_path: Path) -> None:
    answer = await correct(shop, tmp_path, program(1, 2, FAIL), program(1, FAIL), program(1, "return 'done'"))
    assert (answer["status"], answer["changed"], shop.ordered) == ("conflict", None, [1, 2])
    assert answer["recorded"] == {"tool": "order", "line": 2, "effect": "write", "result": 2}


async def test_a_correction_that_drops_a_write_does_not_complete(shop: Shop, tmp_path: Path) -> None:
    answer = await correct(shop, tmp_path, program(1, FAIL), "return 5")
    async with open_app(tmp_path, shop) as app:
        row = app.store.get_run(answer["runId"])
        assert row is not None
        assert (answer["status"], row.status, row.result) == ("conflict", "stopped", None)
        assert (await app.resume(answer["runId"])).status == "stopped"


async def test_a_correction_that_drops_a_write_after_it_waited_does_not_complete(shop: Shop, tmp_path: Path) -> None:
    async with open_app(tmp_path, shop) as app:
        first: Any = await app.plans.run_plan(program(1, FAIL))
        waiting: Any = await app.plans.resume_run(first["runId"], code=program("await wait_for('go')", "return 5"))
        app.runs.send(waiting["runId"], "go")
        with pytest.raises(JournalConflict, match="the new code does not make it"):
            await app.resume(waiting["runId"])
        answer: Any = await app.plans.resume_run(waiting["runId"])
        row = app.store.get_run(waiting["runId"])
        assert row is not None
        assert (answer["status"], row.status) == ("conflict", "stopped")


async def test_a_correction_after_a_conflict_knows_the_writes(shop: Shop, tmp_path: Path) -> None:
    answer = await correct(shop, tmp_path, program(1, 2, FAIL), program(2, "return 'done'"), program(1, 2, 3))
    assert (answer["status"], shop.ordered) == ("completed", [1, 2, 3])


async def test_two_equal_calls_are_offered_twice(shop: Shop, tmp_path: Path) -> None:
    codes = [program(1, 1, FAIL), program(1, FAIL), program(1, 1, 1, FAIL), program(1, 1, 1, 1)]
    answer = await correct(shop, tmp_path, *codes)
    assert (answer["status"], shop.ordered) == ("completed", [1, 1, 1, 1])


async def test_calls_that_overlapped_are_offered_in_any_order(shop: Shop, tmp_path: Path) -> None:
    shop.ends_after = {1: 2, 2: 3}
    both = "r = await asyncio.gather(*[order(item=i) for i in (1, 2, 3)])"
    answer = await correct(shop, tmp_path, program(both, FAIL), program(FAIL), program(both, "return r"))
    assert (answer["status"], answer["result"], shop.ordered) == ("completed", [1, 2, 3], [3, 2, 1])


async def test_calls_of_one_gather_have_no_order_also_where_one_began_after_the_other_had_ended(
    shop: Shop, tmp_path: Path
) -> None:
    late = "async def late():\n    await wait(item=1)\n    await order(item=2)"
    first = program(late, "await asyncio.gather(order(item=1), late())", FAIL)
    both = "r = await asyncio.gather(*[order(item=i) for i in (2, 1)])"
    answer = await correct(shop, tmp_path, first, program(both, "return r"))
    assert (answer["status"], shop.ordered) == ("completed", [1, 2])


@pytest.mark.parametrize(("order", "status"), [((3, 1, 4, 2), "completed"), ((1, 4), "conflict")])
async def test_calls_inside_one_of_several_that_overlap_keep_their_order(
    shop: Shop, tmp_path: Path, order: tuple[int, ...], status: str
) -> None:
    pair = "async def pair(i):\n    await order(item=i)\n    await order(item=i + 1)"
    first = program(pair, "await asyncio.gather(pair(1), pair(3))", FAIL)
    answer = await correct(shop, tmp_path, first, program(*order, "return 1"))
    assert (answer["status"], sorted(shop.ordered)) == (status, [1, 2, 3, 4])


@pytest.mark.parametrize(("last", "status"), [((10, 11), "completed"), ((11, 10), "conflict")])
async def test_calls_of_a_loop_keep_their_order(shop: Shop, tmp_path: Path, last: tuple[int, ...], status: str) -> None:
    loop = "for i in range(12):\n    await order(item=i)"
    answer = await correct(shop, tmp_path, program(loop, FAIL), program(*range(10), *last, "return 1"))
    assert (answer["status"], shop.ordered) == (status, [*range(12)])


async def test_calls_one_after_another_keep_their_order(shop: Shop, tmp_path: Path) -> None:
    answer = await correct(shop, tmp_path, program(1, 2, FAIL), program(FAIL), program(2, 1, "return 1"))
    assert (answer["status"], answer["changed"]["arguments"], shop.ordered) == ("conflict", {"item": 2}, [1, 2])


async def test_a_call_that_an_earlier_run_had_approved_is_not_asked_again(shop: Shop, tmp_path: Path) -> None:
    async with open_app(tmp_path, shop) as app:
        plans = app.plans.for_models()
        pay = "await pay(amount=7)"
        answer: Any = await plans.run_plan(f"{pay}\n{FAIL}")
        answer = await plans.resume_run(answer["runId"], {"approved": True}, by="ann")
        for code in (FAIL, f"{FAIL}\n# again", f"{pay}\n{FAIL}"):
            answer = await plans.resume_run(answer["runId"], code=code)
            assert (answer["status"], shop.paid) == ("failed", [7])
        answer = await plans.resume_run(answer["runId"], code=f"{pay}\n{pay}")
        assert (answer["status"], shop.paid) == ("waiting", [7])


async def test_a_resumed_correction_is_offered_only_what_it_has_not_taken(shop: Shop, tmp_path: Path) -> None:
    waits = program(1, "await wait_for('go')", 2, 1)
    answer = await correct(shop, tmp_path, program(1, 2, FAIL), program(1, FAIL), waits)
    assert (answer["status"], shop.ordered) == ("waiting", [1, 2])
    async with open_app(tmp_path, shop) as app:
        done = await app.plans.resume_run(answer["runId"], {"event": "go", "payload": 1})
    assert (done["status"], shop.ordered) == ("completed", [1, 2, 1])


async def test_another_correction_of_the_same_run_knows_the_writes_of_the_first_one(shop: Shop, tmp_path: Path) -> None:
    async with open_app(tmp_path, shop) as app:
        first: Any = await app.plans.run_plan(program(1, 2, FAIL))
        await app.plans.resume_run(first["runId"], code=program(1, 2, 3, FAIL))
        dropped: Any = await app.plans.resume_run(first["runId"], code=program(1, 2, "return 1"))
        assert (dropped["status"], dropped["recorded"]["result"]) == ("conflict", 3)
        other: Any = await app.plans.resume_run(first["runId"], code=program(1, 2, 3, 4, "return 1"))
        assert (other["status"], other["corrects"], shop.ordered) == ("completed", first["runId"], [1, 2, 3, 4])


async def test_a_correction_stops_the_others_of_the_same_run_that_wait(shop: Shop, tmp_path: Path) -> None:
    async with open_app(tmp_path, shop) as app:
        first: Any = await app.plans.run_plan(program(1, FAIL))
        waits: Any = await app.plans.resume_run(first["runId"], code=program(1, 2, "await wait_for('go')", 3))
        other: Any = await app.plans.resume_run(first["runId"], code=program(1, 2, 3, "return 1"))
        assert (waits["status"], other["status"], shop.ordered) == ("waiting", "completed", [1, 2, 3])
        stopped: Any = app.runs.get(waits["runId"])
        assert stopped["status"] == "stopped"


async def test_a_retry_of_the_first_run_knows_the_writes_of_its_corrections(shop: Shop, tmp_path: Path) -> None:
    shop.failures = [True]
    last = "await order(item=9)\nreturn 1"
    async with open_app(tmp_path, shop) as app:
        first: Any = await app.plans.run_plan(f"await look(item=1)\n{last}")
        assert (first["status"], shop.ordered) == ("failed", [])
        corrected: Any = await app.plans.resume_run(first["runId"], code=program(9, FAIL))
        assert (corrected["status"], shop.ordered) == ("failed", [9])
        again: Any = await app.plans.resume_run(first["runId"])
        assert (again["status"], shop.ordered) == ("completed", [9])


async def test_a_retry_that_drops_a_write_of_a_correction_is_a_conflict(shop: Shop, tmp_path: Path) -> None:
    shop.failures = [True]
    async with open_app(tmp_path, shop) as app:
        first: Any = await app.plans.run_plan(program(1, "return 1"))
        await app.plans.resume_run(first["runId"], code=program(1, 2, FAIL))
        again: Any = await app.plans.resume_run(first["runId"])
        assert (again["status"], again["recorded"]["result"], shop.ordered) == ("conflict", 2, [1, 2])


async def test_a_run_is_not_retried_while_another_one_of_its_chain_executes(shop: Shop, tmp_path: Path) -> None:
    shop.failures, shop.ends_after = [True], {2: 99}
    async with open_app(tmp_path, shop) as app:
        first: Any = await app.plans.run_plan(program(1, "return 1"))
        corrects = asyncio.ensure_future(app.plans.resume_run(first["runId"], code=program(1, 2), new_id="s"))
        await until(lambda: shop.ordered == [1])
        with pytest.raises(RunBusy, match="run s "):
            await app.plans.resume_run(first["runId"])
        shop.ordered.append(99)  # lets the second call end
        assert (await corrects)["status"] == "completed"
    assert shop.ordered == [1, 99, 2]


async def test_a_retry_takes_the_approval_of_a_call_that_a_correction_made(shop: Shop, tmp_path: Path) -> None:
    shop.failures = [True]
    async with open_app(tmp_path, shop) as app:
        plans = app.plans.for_models()
        pay = "await pay(amount=7)"
        first: Any = await plans.run_plan(program(1, pay, pay))
        answer: Any = await plans.resume_run(first["runId"], code=program(1, pay, FAIL))
        answer = await plans.resume_run(answer["runId"], {"approved": True}, by="ann")
        assert (answer["status"], shop.paid) == ("failed", [7])
        again: Any = await plans.resume_run(first["runId"])
        assert (again["status"], shop.ordered, shop.paid) == ("waiting", [1], [7])
        done: Any = await plans.resume_run(first["runId"], {"approved": True})
        assert (done["status"], shop.paid) == ("completed", [7, 7])


@pytest.mark.parametrize("seed", range(12))
async def test_no_chain_of_corrections_makes_a_write_more_often_than_one_program_asks(
    shop: Shop, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    items = [chance.randint(1, 3) for _ in range(5)]
    most: Counter[int] = Counter()
    answer: Any = None
    runs: list[str] = []
    statuses: Counter[str] = Counter()
    async with open_app(tmp_path, shop) as app:
        for number in range(12):
            shop.failures = [chance.random() < 0.2 for _ in range(9)]
            # Most programs ask for the same writes in the same order; some swap, drop or repeat one.
            asked = items[: chance.randint(0, 5)]
            if asked and chance.random() < 0.3:
                asked[chance.randrange(len(asked))] = chance.randint(1, 3)
            reads = [f"await look(item={chance.randint(1, 2)})" for _ in range(chance.randint(0, 2))]
            body: list[object] = [*reads, *asked, chance.choice([FAIL, FAIL, "return 1"]), f"# {number}"]
            if answer is None:
                most |= Counter(asked)
                answer = await app.plans.run_plan(program(*body))
            else:
                # Any run of the chain is corrected, or retried.
                code = program(*body) if chance.random() < 0.8 or answer["status"] != "failed" else None
                most |= Counter(asked) if code else Counter()
                run = answer["runId"] if chance.random() < 0.6 else chance.choice(runs)
                try:
                    answer = await app.plans.resume_run(run, code=code)
                except NothingToRetry:  # the program of the run failed by itself
                    assert code is None
            runs.append(answer["runId"])
            statuses[answer["status"]] += 1
            assert Counter(shop.ordered) <= most
        shop.failures = []
        answer = await app.plans.resume_run(answer["runId"], code=program(*shop.ordered, 9, "return 1"))
    assert (answer["status"], shop.ordered.count(9)) == ("completed", 1)
    assert statuses["failed"] > 0


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_of_two_corrections_that_begin_together_one_is_refused(
    shop: Shop, tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}" if store == "sqlite" else request.getfixturevalue("postgres_url")
    async with App(url, tools=shop.tools()) as one, App(url, tools=shop.tools()) as other:
        first: Any = await one.plans.run_plan(program(1, FAIL))
        answers = await asyncio.gather(
            *(app.plans.resume_run(first["runId"], code=program(1, 2, "return 1")) for app in (one, other)),
            return_exceptions=True,
        )
        refused = [answer for answer in answers if isinstance(answer, RunBusy)]
        done: list[Any] = [answer for answer in answers if isinstance(answer, dict)]
        # Either they began with the same record, or the last one found the calls of the other one.
        assert all(answer["status"] == "completed" for answer in done)
        assert (len(refused) + len(done), shop.ordered) == (2, [1, 2])
        again: Any = await other.plans.resume_run(first["runId"], code=program(1, 2, 3, "return 1"))
        assert (again["status"], shop.ordered) == ("completed", [1, 2, 3])


async def test_a_run_that_executes_is_not_corrected(shop: Shop, tmp_path: Path) -> None:
    shop.ends_after = {1: 99}
    async with open_app(tmp_path, shop) as app:
        runs = asyncio.ensure_future(app.plans.run_plan(program(1, "return 1"), run_id="r"))
        await until(lambda: app.store.get_run("r") is not None)
        with pytest.raises(RunBusy, match="run r "):
            await app.plans.resume_run("r", code=program(1, 2))
        shop.ordered.append(99)  # lets the call end
        assert (await runs)["status"] == "completed"


async def record_compiled(app: App, status: str, calls: list[tuple[str, int, float, float]]) -> None:
    """Record a run as the first design of plans did: each call at a node of the tool's name and line."""
    code = program(1, 2, "await wait_for('go')", 3, "return 'done'")
    tools = {"order": {"id": "order", "parameters": ["item"], "required": ["item"]}}
    document = {"name": "plan", "code": code, "tools": tools, "origin": "model"}
    log = await app.store.open(NewRun(id="old", kind="plan", name="plan", document=document, input={}, fingerprint="f"))
    for path, item, started, ended in calls:
        digested = digest(["order", {"item": item}])
        await log.append(Entry(path, "call", path.rpartition("/")[2], item, digested, started, ended))
    if status == "waiting":
        wait = {"event": "go", "node": "wait_for", "timeout": None, "due": None}
        await log.append(Entry("wait_for_3", "wait", "wait_for_3", wait))
        await log.park(None, ["go"])
    else:
        await log.finish(status, None)


@pytest.mark.parametrize("status", ["failed", "waiting"])
async def test_a_run_that_was_compiled_continues_as_corrected_code(shop: Shop, tmp_path: Path, status: str) -> None:
    async with open_app(tmp_path, shop) as app:
        await record_compiled(app, status, [("order_1", 1, 1.0, 2.0), ("for_2[0]/order_2_2", 2, 3.0, 4.0)])
        answer: Any = await app.plans.resume_run("old")
        assert (answer["status"], answer["corrects"], shop.ordered) == ("waiting", "old", [])
        done: Any = await app.plans.resume_run(answer["runId"], {"event": "go", "payload": 1})
        assert (done["status"], shop.ordered) == ("completed", [3])


@pytest.mark.parametrize(("ends", "status"), [(4.0, "completed"), (2.5, "conflict")])
async def test_calls_of_a_compiled_run_that_overlapped_have_no_order(
    shop: Shop, tmp_path: Path, ends: float, status: str
) -> None:
    async with open_app(tmp_path, shop) as app:
        await record_compiled(app, "failed", [("order_1", 1, 1.0, ends), ("order_2", 2, 3.0, 5.0)])
        answer: Any = await app.plans.resume_run("old", code=program(2, 1, "return 1"))
        assert (answer["status"], shop.ordered) == (status, [])
