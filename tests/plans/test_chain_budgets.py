"""One budget for a run with its corrections and parts, a definition and a project; kept over crashes."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from patience import until
from ropewalk import App, IdempotencyKey, tool
from ropewalk.app.run_budget import accounts_of_correction
from ropewalk.codec import flow_from_json, flow_to_json
from ropewalk.config.settings import BudgetSettings
from ropewalk.doors.http.site import make_site
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.flows import Flows
from ropewalk.doors.mcp.tasks import Tasks
from ropewalk.doors.mcp.tool_source import CallContext
from ropewalk.errors import InvalidFlow, InvalidInput, NothingToRetry
from ropewalk.journal.protocol import RunRow
from ropewalk.journal.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio
ORDERS = "for i in range({}):\n    await order(item=i)\nraise ValueError('again')"
CHAIN: dict[str, Any] = {
    "kind": "chain",
    "name": "five",
    "nodes": [{"id": f"n{i}", "type": "tool", "tool": "order", "params": {"item": i}} for i in range(5)],
}

SLOW: dict[str, Any] = {"kind": "chain", "name": "slow", "nodes": [{"id": "d", "type": "delay", "delay": 60_000}]}


class Store:
    """A tool, the calls of it, and whether the next one fails or kills its run."""

    def __init__(self) -> None:
        self.made: list[int] = []
        self.keys: set[str] = set()
        self.failures = 0
        self.started = asyncio.Event()
        self.hold: asyncio.Event | None = None
        self.on_call: Callable[[], None] = lambda: None

    def tools(self) -> list[Any]:
        @tool
        async def order(item: int, key: IdempotencyKey) -> int:
            """Order an item."""
            self.made.append(item)
            self.keys.add(key)
            self.on_call()
            self.started.set()
            if self.hold is not None:
                await self.hold.wait()
            if self.failures:
                self.failures -= 1
                raise ValueError("out of stock")
            return item

        @tool(annotations={"destructiveHint": True})
        async def pay(amount: int) -> int:
            """Pay. This cannot be undone."""
            self.made.append(amount)
            return amount

        return [order, pay]


@pytest.fixture
def shop() -> Store:
    return Store()


def open_app(path: Path, shop: Store, budget: BudgetSettings | None = None) -> App:
    app = App(f"sqlite:///{path / 'runs.db'}", tools=shop.tools())
    if budget is not None:
        app.context.budget = budget
    return app


async def test_a_chain_of_corrections_shares_one_budget(shop: Store, tmp_path: Path) -> None:
    async with open_app(tmp_path, shop) as app:
        plans = app.plans.for_models()
        answer: Any = await plans.run_plan(ORDERS.format(2), budget={"calls": 3})
        first = answer["runId"]
        for count in (3, 6, 9, 12, 15):
            answer = await plans.resume_run(answer["runId"], code=ORDERS.format(count))
            assert answer["status"] == "failed"
        assert shop.made == [0, 1, 2]
        assert "the budget of 3 calls is used up" in answer["error"]["message"]
        shown = [{"account": f"run:{first}", "limits": {"calls": 3}, "used": {"calls": 3}}]
        assert answer["error"]["budgets"] == shown
        details: Any = app.runs.get(answer["runId"])
        assert details["budgets"] == shown


async def test_a_retry_has_no_budget_of_its_own(shop: Store, tmp_path: Path) -> None:
    shop.failures = 9
    async with open_app(tmp_path, shop) as app:
        answer: Any = await app.plans.run_plan("await order(item=1)", budget={"calls": 2})
        for _ in range(4):
            answer = await app.plans.resume_run(answer["runId"])
        assert (answer["status"], shop.made) == ("failed", [1, 1])


@pytest.mark.parametrize("limit", [1, 7, 30])
async def test_parallel_calls_use_exactly_the_budget(shop: Store, tmp_path: Path, limit: int) -> None:
    code = "r = await asyncio.gather(*[order(item=i) for i in range(40)], return_exceptions=True)\nreturn len(r)"
    async with open_app(tmp_path, shop) as app:
        await app.plans.run_plan(code, budget={"calls": limit})
    assert len(shop.made) == limit


async def test_a_call_that_a_crash_interrupts_keeps_its_reservation_and_counts_once(
    shop: Store, tmp_path: Path
) -> None:
    shop.hold = asyncio.Event()
    async with open_app(tmp_path, shop) as app:
        code = "await order(item=1)\nawait order(item=2)\nawait order(item=3)"
        task = asyncio.ensure_future(app.plans.run_plan(code, run_id="cut", budget={"calls": 2}))
        await shop.started.wait()
        account = "run:cut"
        store: Any = app.store
        assert store.used(account)["calls"] == 1
        task.cancel()  # between reserve and settle
        await asyncio.gather(task, return_exceptions=True)
    shop.hold = None
    async with open_app(tmp_path, shop) as app:
        later: Any = app.store
        assert later.used(account)["calls"] == 1
        answer: Any = await app.plans.resume_run("cut")
        assert (answer["status"], shop.made) == ("failed", [1, 1, 2])
        assert later.used(account)["calls"] == 2


@pytest.mark.parametrize("last", [0, 1, 2])
async def test_a_process_that_dies_between_reserve_and_settle_leaves_one_reservation(
    shop: Store, tmp_path: Path, last: int
) -> None:
    left = tmp_path / "left"
    left.mkdir()

    def die() -> None:
        # A killed process leaves what it has committed. The call is not settled yet, whether it had an effect or not.
        if shop.made[-1] == last:
            with (
                closing(sqlite3.connect(tmp_path / "runs.db")) as one,
                closing(sqlite3.connect(left / "runs.db")) as two,
            ):
                one.backup(two)
                two.execute("UPDATE lease SET owner = NULL")  # this process, which lives
                two.commit()

    shop.on_call = die
    async with open_app(tmp_path, shop) as app:
        await app.plans.run_plan(ORDERS.format(5), run_id="cut", budget={"calls": 3})
    assert shop.made == [0, 1, 2]
    shop.made, shop.on_call = [], lambda: None
    async with open_app(left, shop) as app:
        store: Any = app.store
        assert store.used("run:cut")["calls"] == last + 1
        answer: Any = await app.plans.resume_run("cut")
        assert (answer["status"], shop.made) == ("failed", list(range(last, 3)))
        assert store.used("run:cut")["calls"] == 3
        corrected: Any = await app.plans.resume_run(answer["runId"], code=ORDERS.format(9))
        assert (corrected["status"], shop.made, store.used("run:cut")["calls"]) == ("failed", list(range(last, 3)), 3)


async def test_the_project_and_a_definition_have_budgets_for_a_day(shop: Store, tmp_path: Path) -> None:
    settings = BudgetSettings(calls=9, definitions={"five": {"calls": 7}})
    async with open_app(tmp_path, shop, settings) as app:
        outcomes = [(await app.run(CHAIN)).status for _ in range(2)]
        assert (outcomes, len(shop.made)) == (["completed", "failed"], 7)
        other = await app.run({**CHAIN, "name": "other"})
        assert (other.status, len(shop.made)) == ("failed", 9)
        assert "the budget of 9 calls is used up" in str(other.errors)


async def test_the_project_limits_each_run_with_its_parts(shop: Store, tmp_path: Path) -> None:
    async with open_app(tmp_path, shop, BudgetSettings(calls=4, per="run")) as app:
        app.toolbox.register(app.as_tool(CHAIN))
        code = "await five()"
        for total in (3, 6):  # the call of the flow counts, too
            answer: Any = await app.plans.run_plan(code)
            assert (answer["status"], len(shop.made)) == ("failed", total)


async def test_a_budget_of_seconds_covers_the_corrections(shop: Store, tmp_path: Path) -> None:
    async with open_app(tmp_path, shop) as app:
        code = "await asyncio.sleep(30)"
        answer: Any = await app.plans.run_plan(code, budget={"seconds": 0.05})
        assert answer["status"] == "timeout"
        assert "the budget of 0.05 seconds is used up" in answer["error"]["message"]
        answer = await app.plans.resume_run(answer["runId"], code="await asyncio.sleep(20)")
        assert answer["status"] == "timeout"
        answer = await app.plans.resume_run(answer["runId"], code="await order(item=1)")
        assert (answer["status"] in ("failed", "timeout"), shop.made) == (True, [])


@pytest.mark.parametrize(
    "budget",
    [
        {"seconds": 1e308}, {"seconds": -1}, {"seconds": True}, {"seconds": float("nan")}, {"seconds": float("inf")},
        {"seconds": 0}, {"calls": True}, {"calls": -1}, {"calls": 1.5}, {"calls": 10**400}, {"cost": float("nan")},
        {"tokens": "9"}, {"weeks": 1},
    ],
)  # fmt: skip
async def test_a_limit_that_is_none_is_refused(shop: Store, tmp_path: Path, budget: Any) -> None:
    async with open_app(tmp_path, shop) as app:
        with pytest.raises(InvalidInput):
            await app.plans.run_plan("await order(item=1)", budget=budget)
        with pytest.raises(InvalidInput):
            await app.run(CHAIN, budget=budget)
    assert shop.made == []


async def test_budgets_over_http(shop: Store, tmp_path: Path) -> None:
    async with open_app(tmp_path, shop) as app:
        transport = httpx2.ASGITransport(make_site(app, "t"))
        head = {"Authorization": "Bearer t"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=head) as client:
            body = {"document": CHAIN, "wait": 30, "runId": "one"}
            for wrong in ({"seconds": 1e308}, {"calls": -1}, {"calls": True}):
                refused = await client.post("/api/runs", json={**body, "budget": wrong})
                assert refused.status_code == 422, refused.text
                plan = await client.post("/api/plans/run", json={"code": "return 1", "budget": wrong})
                assert plan.status_code == 422, plan.text
            failed = await client.post("/api/runs", json={**body, "budget": {"calls": 2, "seconds": 600}})
            error = failed.json()["errors"][-1]
            assert "the budget of 2 calls is used up" in error["message"]
            assert error["budgets"] == [{"account": "run:one", "limits": {"calls": 2}, "used": {"calls": 2}}]
            late = await client.post("/api/runs", json={"document": SLOW, "wait": 30, "budget": {"seconds": 0.05}})
            [reached] = late.json()["errors"][-1]["budgets"]
            assert (late.json()["status"], reached["limits"]) == ("timeout", {"seconds": 0.05})
            budgets = (await client.get("/api/runs/one")).json()["budgets"]
    assert budgets[0]["account"] == "run:one"
    assert budgets[0]["limits"] == {"calls": 2, "seconds": 600}
    assert budgets[0]["used"]["calls"] == 2
    assert shop.made == [0, 1]


async def test_budgets_over_mcp(shop: Store, tmp_path: Path) -> None:
    (tmp_path / "five.json").write_text(json.dumps(CHAIN))
    async with open_app(tmp_path, shop, BudgetSettings(calls=3, per="run")) as app:
        offered: Any = Catalogue(Finder(app), [Flows(app, ["*.json"], tmp_path)], []).known("five")
        failed: Any = await offered.call({}, CallContext())
        error = failed.meta["ropewalk/error"]
        [reached] = error["budgets"]
        account = f"project run:{error['runId']}"
        assert reached == {"account": account, "limits": {"calls": 3}, "used": {"calls": 3}}
        assert shop.made == [0, 1, 2]
        tasks = Tasks(app)
        task = await tasks.create(offered, {}, "key")
        store: Any = app.store
        await until(lambda: store.get_run(task["taskId"]).status == "failed")
        state = await tasks.get(task["taskId"])
        await tasks.close()
        assert "the budget of 3 calls is used up" in str(state)
    assert shop.made == [0, 1, 2] * 2


@pytest.mark.parametrize("seed", range(6))
async def test_no_sequence_of_operations_exceeds_a_budget_or_reuses_an_approval(
    shop: Store, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    limit, approvals = chance.randint(1, 4), 0
    async with open_app(tmp_path, shop) as app:
        plans = app.plans.for_models()

        def program() -> str:
            calls = [f"await pay(amount={chance.randint(1, 2)})" for _ in range(chance.randint(1, 4))]
            return "\n".join([*calls, chance.choice(["raise ValueError('no')", "return 1"])])

        answer: Any = await plans.run_plan(program(), budget={"calls": limit})
        for _ in range(10):
            run = answer.get("runId")
            if run is None or answer["status"] in ("completed", "conflict"):
                break
            if answer["status"] == "waiting" and chance.random() < 0.7:
                answer = await plans.resume_run(run, {"approved": True})
                approvals += 1
            else:
                code = program() if chance.random() < 0.7 else None
                try:
                    answer = await plans.resume_run(run, code=code)
                except NothingToRetry:  # the program of the run failed by itself
                    assert code is None
            assert len(shop.made) <= min(limit, approvals)


async def test_two_stores_of_one_file_share_the_ledger(tmp_path: Path) -> None:
    one, two = (SqliteStore(tmp_path / "runs.db") for _ in range(2))
    limits = {"a": {"calls": 5}, "b": {"calls": 99}}
    results = await asyncio.gather(
        *(asyncio.to_thread((one, two)[i % 2].reserve, f"key{i}", limits) for i in range(30))
    )
    assert (results.count(None), one.used("a")["calls"], two.used("b")["calls"]) == (5, 5, 5)
    one.close()
    two.close()


async def test_corrections_keep_the_budgets_of_a_run_whoever_started_it(shop: Store, tmp_path: Path) -> None:
    settings = BudgetSettings(per="run", definitions={"orders": {"calls": 4}})
    plan = {"kind": "plan", "name": "orders", "code": ORDERS.format(2)}
    async with open_app(tmp_path, shop, settings) as app:
        for number, (budget, most) in enumerate([({"calls": 3}, 3), (None, 4)]):
            shop.made.clear()
            first = await app.run(plan, budget=budget, run_id=f"r{number}")
            answer: Any = await app.plans.resume_run(first.run_id, code=ORDERS.format(9))
            answer = await app.plans.resume_run(answer["runId"], code=ORDERS.format(10))
            assert (answer["error"]["kind"], shop.made) == ("BudgetExceeded", list(range(most)))


async def test_corrections_keep_the_budget_of_a_day(shop: Store, tmp_path: Path) -> None:
    settings = BudgetSettings(definitions={"orders": {"calls": 3}})
    plan = {"kind": "plan", "name": "orders", "code": ORDERS.format(2)}
    async with open_app(tmp_path, shop, settings) as app:
        first = await app.run(plan, run_id="r")
        answer: Any = await app.plans.resume_run("r", code=ORDERS.format(9))
        assert (first.status, answer["error"]["kind"], shop.made) == ("failed", "BudgetExceeded", [0, 1, 2])


async def test_the_correction_of_a_part_keeps_the_budget_of_the_outer_run(shop: Store, tmp_path: Path) -> None:
    plan = {"kind": "plan", "name": "orders", "code": ORDERS.format(2)}
    outer = {"kind": "chain", "name": "outer", "nodes": [{"id": "n", "type": "tool", "tool": "orders"}]}
    async with open_app(tmp_path, shop) as app:
        app.toolbox.register(app.as_tool(plan))
        await app.run(outer, budget={"calls": 4}, run_id="r")
        [part] = app.store.list_runs(parent="r")
        answer: Any = await app.plans.resume_run(part.id, code=ORDERS.format(9))
        # The call of the plan counts, too.
        assert (answer["error"]["kind"], shop.made) == ("BudgetExceeded", [0, 1, 2])


def test_a_correction_counts_for_the_day_on_which_it_begins() -> None:
    today = datetime.now(UTC).date().isoformat()
    kept = ["run:a 2020-01-01", "project run:b", "definition x run:b"]
    accounts = {name: {"calls": 1.0} for name in ("project 2020-01-01", "definition a b 2020-01-01", *kept)}
    row = RunRow(id="a", kind="plan", context={"budgets": accounts})
    assert list(accounts_of_correction(row)) == [f"project {today}", f"definition a b {today}", *kept]


TWO_CALLS: list[dict[str, Any]] = [
    {**CHAIN, "kind": "chain"},
    {
        "kind": "composition",
        "name": "two",
        "nodes": [{"id": f"n{i}", "type": "tool", "tool": "order", "inputMapping": {"item": i}} for i in range(2)],
    },
    {"mode": "compose", "name": "two", "steps": [{"tool": "order", "inputMapping": {"item": i}} for i in range(2)]},
    {"kind": "runchain", "name": "two", "steps": [{"toolId": "order", "args": {"item": i}} for i in range(2)]},
    {"kind": "plan", "name": "two", "code": ORDERS.format(2)},
    {
        "kind": "experience",
        "name": "two",
        "version": "0.1.0",
        "state": {"schema": {}},
        "graph": {"nodes": [{"id": f"n{i}", "kind": "call", "tool": "order", "args": {"item": i}} for i in range(2)]},
    },
]


@pytest.mark.parametrize("document", TWO_CALLS, ids=lambda document: document.get("kind", "composite"))
async def test_a_definition_limits_each_of_its_runs_in_every_notation(
    document: dict[str, Any], shop: Store, tmp_path: Path
) -> None:
    async with open_app(tmp_path, shop) as app:
        limited = {**document, "budget": {"calls": 1}}
        for _ in range(2):
            shop.made.clear()
            failed = await app.run(limited)
            assert ("the budget of 1 call is used up" in str(failed.errors), len(shop.made)) == (True, 1)
        checked = await app.validate({**document, "budget": {"calls": -1, "weeks": 1}})
        assert sorted(problem.path for problem in checked.problems) == ["budget.calls", "budget.weeks"]
        flow = app.load(limited).flow
        assert flow.budget == {"calls": 1}
        assert flow_from_json(flow_to_json(flow)).budget == {"calls": 1}


async def test_the_lower_limit_of_a_run_and_its_definition_counts(shop: Store, tmp_path: Path) -> None:
    limited = {**CHAIN, "budget": {"calls": 3, "seconds": 600}}
    async with open_app(tmp_path, shop) as app:
        for calls, most in ((2, 2), (4, 3)):
            shop.made.clear()
            failed = await app.run(limited, budget={"calls": calls})
            details: Any = app.runs.get(failed.run_id)
            assert (details["budgets"][0]["limits"], len(shop.made)) == ({"calls": most, "seconds": 600}, most)


async def test_a_definition_limits_its_runs_as_parts(shop: Store, tmp_path: Path) -> None:
    async with open_app(tmp_path, shop) as app:
        app.toolbox.register(app.as_tool({**CHAIN, "budget": {"calls": 3}}))
        answer: Any = await app.plans.run_plan("await five()")
        assert (answer["status"], len(shop.made)) == ("failed", 3)


async def test_a_correction_keeps_the_budget_of_the_definition(shop: Store, tmp_path: Path) -> None:
    async with open_app(tmp_path, shop) as app:
        plan = {"kind": "plan", "name": "orders", "code": ORDERS.format(2), "budget": {"calls": 3}}
        await app.run(plan, run_id="r", budget={"calls": 9})
        answer: Any = await app.plans.resume_run("r", code=ORDERS.format(9))
        assert (answer["error"]["kind"], shop.made) == ("BudgetExceeded", [0, 1, 2])


def test_a_wrong_budget_of_a_flow_document_is_refused() -> None:
    with pytest.raises(InvalidFlow, match=r"budget\.weeks"):
        flow_from_json({"ropewalk": 1, "name": "f", "body": 0, "regions": [{"nodes": []}], "budget": {"weeks": 1}})


CATCHES = {
    "except": "try:\n        await order(item=1)\n    except BaseException:\n        pass",
    "finally": "try:\n        await order(item=1)\n    finally:\n        continue",
    "gather": "await asyncio.gather(order(item=1), order(item=1), return_exceptions=True)",
    "task": "await asyncio.wait([asyncio.create_task(order(item=1))])",
}


@pytest.mark.parametrize("catch", CATCHES.values(), ids=CATCHES)
async def test_a_program_cannot_catch_that_its_budget_is_used_up(shop: Store, tmp_path: Path, catch: str) -> None:
    async with open_app(tmp_path, shop) as app:
        code = f"import asyncio\nwhile True:\n    {catch}"
        answer: Any = await app.plans.run_plan(code, budget={"calls": 5})
        error = answer["error"]
        assert (answer["status"], error["kind"], error["budgets"][0]["used"]) == (
            "failed",
            "BudgetExceeded",
            {"calls": 5},
        )
        own = {"kind": "plan", "name": "own", "code": code, "budget": {"calls": 5}}
        in_process = await app.run(own)
        assert (in_process.status, in_process.errors[0]["kind"]) == ("failed", "BudgetExceeded")
        assert shop.made == [1] * 10
        again: Any = await app.plans.resume_run(answer["runId"])
        # A call that was in progress as its run ended is repeated with its key, and counts once.
        assert (again["status"], again["error"]["kind"], len(shop.keys)) == ("failed", "BudgetExceeded", 10)


async def test_a_program_can_catch_the_budget_of_a_part(shop: Store, tmp_path: Path) -> None:
    part = {"kind": "plan", "name": "part", "code": "await order(item=1)\nawait order(item=2)", "budget": {"calls": 1}}
    code = "try:\n    await part()\nexcept Exception:\n    return await order(item=3)"
    async with open_app(tmp_path, shop) as app:
        app.toolbox.register(app.as_tool({**part, "description": "Order."}))
        answer: Any = await app.plans.run_plan(code, budget={"calls": 5})
        assert (answer["status"], answer.get("result"), shop.made) == ("completed", 3, [1, 3])
