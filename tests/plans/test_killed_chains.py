"""A process that is killed between the reservation of a call and its settlement, in a chain of corrections."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk import App, tool

pytestmark = [pytest.mark.process, pytest.mark.anyio]
ORDER = "await order(item={})"
PAY = "await pay(amount=7)"
FAIL = "raise ValueError('no')"
CODES = {
    "first": [ORDER.format(1), PAY, FAIL],
    "second": [ORDER.format(1), PAY, ORDER.format(2), FAIL],
    "other": [ORDER.format(1), PAY, *(ORDER.format(i) for i in range(2, 6))],
}
"""The first program, and two corrections of it. The last one wants more calls than the budget has."""
CHILD = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from plans.test_killed_chains import Shop, advance
asyncio.run(advance(Shop(Path({folder!r}), {die_at}, {after})))
"""


class Shop:
    """Two tools that write down their calls; the process dies at one of them, before or after its effect."""

    def __init__(self, folder: Path, die_at: int = -1, after: bool = False) -> None:
        self.folder, self.die_at, self.after = folder, die_at, after

    def lines(self, name: str) -> list[Any]:
        file = self.folder / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def add(self, name: str, line: object) -> None:
        with (self.folder / name).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def call(self, name: str, value: int) -> int:
        is_last = len(self.lines("calls")) == self.die_at
        if is_last and not self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        self.add("calls", [name, value])
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    def app(self) -> App:
        @tool
        async def order(item: int) -> int:
            """Order an item."""
            return self.call("order", item)

        @tool(annotations={"destructiveHint": True})
        async def pay(amount: int) -> int:
            """Pay. This cannot be undone."""
            return self.call("pay", amount)

        return App(f"sqlite:///{self.folder / 'runs.db'}", tools=[order, pay])


async def advance(shop: Shop) -> Any:
    """Start, correct and continue the runs of the chain from where they are, and return the answer of the last one."""
    answer: Any = None
    async with shop.app() as app:
        plans = app.plans.for_models()
        for run, lines in CODES.items():
            code, row = "\n".join(lines), app.store.get_run(run)
            if row is not None:
                answer = await plans.resume_run(run) if row.status in ("running", "waiting") else None
            elif run == "first":
                answer = await plans.run_plan(code, run_id=run, budget={"calls": 4})
            else:
                answer = await plans.resume_run("first", code=code, new_id=run)
            while answer is not None and answer["status"] == "waiting":
                shop.add("approvals", answer["runId"])
                answer = await plans.resume_run(run, {"approved": True})
    return answer


@pytest.mark.parametrize(("die_at", "after"), [(1, True), (2, False), (3, True)])
async def test_a_killed_chain_makes_no_call_more_than_allowed_and_repeats_none(
    die_at: int, after: bool, tmp_path: Path
) -> None:
    code = CHILD.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path), die_at=die_at, after=after)
    killed = fork_server.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    shop = Shop(tmp_path)
    before = shop.lines("calls")
    async with shop.app() as app:
        store: Any = app.store
        assert store.used("run:first")["calls"] == die_at + 1  # the call is reserved, whether it took effect or not
    answer = await advance(shop)
    every = [["order", 1], ["pay", 7], ["order", 2], ["order", 3]]
    # Nobody knows whether the call took effect, so it alone is made again, under its idempotency key.
    assert shop.lines("calls") == [*before, *every[die_at:]]
    assert before == every[: die_at + after]
    assert (answer["status"], answer["error"]["kind"], len(shop.lines("approvals"))) == ("failed", "BudgetExceeded", 1)
    async with shop.app() as app:
        plans = app.plans.for_models()
        again: Any = await plans.resume_run("second", code="\n".join([*CODES["other"][:4], PAY]))
        assert again["status"] == "waiting"  # the approval is spent
        refused: Any = await plans.resume_run(again["runId"], {"approved": True})
        assert (refused["status"], len(shop.lines("calls"))) == ("failed", len(before) + 4 - die_at)
        later: Any = app.store
        assert later.used("run:first")["calls"] == 4
