"""Calls that a program cancelled, and that took effect all the same."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, tool

pytestmark = pytest.mark.anyio
CANCELS = """
import asyncio
task = asyncio.create_task(order(item="late"))
await order(item="first")
task.cancel()
await order(item="last")
"""


class Shop:
    """A shop that takes an order even if the caller gives up."""

    def __init__(self) -> None:
        self.book: list[str] = []

    def tools(self) -> list[Any]:
        @tool
        async def cancel(id: str) -> str:
            """Cancel an order."""
            self.book.append(f"cancel {id}")
            return id

        @tool(undo=cancel)
        async def order(item: str) -> dict[str, str]:
            """Order an item."""
            if item == "late":
                with contextlib.suppress(asyncio.CancelledError):  # the order is on its way
                    await asyncio.Event().wait()
            self.book.append(f"order {item}")
            return {"id": item}

        @tool
        async def fail() -> str:
            """Fail."""
            raise ValueError("no more")

        return [cancel, order, fail]


async def test_a_late_result_is_undone_in_the_order_of_the_rows(tmp_path: Path) -> None:
    shop = Shop()
    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=shop.tools()) as app:
        answer: Any = await app.plans.run_plan(CANCELS + "await fail()", run_id="r")
        assert answer["status"] == "failed"
        ordered = [entry.removeprefix("order ") for entry in shop.book]
        assert sorted(ordered) == ["first", "last", "late"]
        report: Any = await app.plans.undo_run("r")
        assert (report["status"], report["notUndoable"]) == ("undone", [])
        assert shop.book[3:] == [f"cancel {item}" for item in reversed(ordered)]


async def test_corrected_code_knows_a_late_result(tmp_path: Path) -> None:
    shop = Shop()
    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=shop.tools()) as app:
        answer: Any = await app.plans.run_plan(CANCELS + "await fail()")
        before = sorted(shop.book)
        dropped: Any = await app.plans.resume_run(answer["runId"], code='await order(item="first")')
        assert dropped["status"] == "conflict"
        names = [entry.removeprefix("order ") for entry in shop.book]
        code = "\n".join(f"await order(item={name!r})" for name in names)
        done: Any = await app.plans.resume_run(answer["runId"], code=code)
        assert (done["status"], sorted(shop.book)) == ("completed", before)


async def test_a_retry_takes_a_late_result(tmp_path: Path) -> None:
    shop = Shop()
    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=shop.tools()) as app:
        await app.plans.run_plan(CANCELS + "await fail()", run_id="r")
        again: Any = await app.plans.resume_run("r")
        assert (again["status"], sorted(shop.book)) == ("failed", ["order first", "order last", "order late"])


async def test_a_saved_plan_inside_is_undone_with_its_run(tmp_path: Path) -> None:
    shop = Shop()
    async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=shop.tools()) as app:
        saved: Any = await app.plans.save_plan(
            "two", "item: str\nawait order(item=item)\nawait order(item='b')", "Two."
        )
        assert saved["status"] == "saved"
        answer: Any = await app.plans.run_plan(
            "await order(item='x')\nawait plans.two(item='a')\nawait fail()", run_id="r"
        )
        assert (answer["status"], shop.book) == ("failed", ["order x", "order a", "order b"])
        report: Any = await app.plans.undo_run("r")
        assert (report["status"], shop.book[3:]) == ("undone", ["cancel b", "cancel a", "cancel x"])
