"""Runs and saved plans of the first design of plans, which compiled programs to graphs: how they continue.

`first_design.json` has five runs as an earlier version of Ropewalk recorded them.
"""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, InvalidFlow, tool
from ropewalk.errors import JournalConflict
from ropewalk.journal.protocol import Definition, Entry, NewRun, Store

pytestmark = pytest.mark.anyio
RUNS: dict[str, Any] = json.loads(Path(__file__).with_name("first_design.json").read_text("utf-8"))


class Shop:
    """The tools of the runs, and the calls that were made."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def tools(self) -> list[Any]:
        @tool(annotations={"readOnlyHint": True})
        async def get_order(id: int) -> dict[str, Any]:
            """Look up an order."""
            self.calls.append(("get_order", id))
            return {"id": id, "total": id * 10.5}

        @tool
        async def note(order: int, text: str) -> str:
            """Write a note."""
            self.calls.append(("note", text))
            return f"{order}: {text}"

        @tool(annotations={"destructiveHint": True})
        async def cancel_order(id: int) -> bool:
            """Cancel."""
            self.calls.append(("cancel_order", id))
            return True

        return [get_order, note, cancel_order]


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def record(store: Store, name: str, **changes: Any) -> None:
    """Write a run into a store as the earlier version did."""
    run = {**RUNS[name]["run"], **changes}
    ending = {name: run.pop(name) for name in ("status", "result", "error", "spent")}
    log = await store.open(NewRun(**run))
    for entry in RUNS[name]["entries"]:
        await log.append(Entry(*entry))
    if ending["status"] == "waiting":
        await log.park(None)
    else:
        await log.finish(ending["status"], ending["result"], ending["error"])


def opened(shop: Shop, path: Path) -> App:
    return App(str(path / "runs.db"), tools=shop.tools())


async def test_a_waiting_run_continues_as_a_correction_by_its_own_program(shop: Shop, tmp_path: Path) -> None:
    async with opened(shop, tmp_path) as app:
        await record(app.store, "waits")
        done: Any = await app.plans.resume_run("waits", {"approved": True, "note": "ok"}, by="Ann")
        assert (done["status"], done["result"], done["printed"]) == ("completed", ["7: a", "7: b", "7: end"], "done\n")
        assert (done["corrects"], done["runId"] != "waits") == ("waits", True)
        assert app.store.get_run("waits").status == "stopped"  # type: ignore[union-attr]
    assert shop.calls == [("note", "end")]


async def test_an_approval_answers_for_the_same_call_only(shop: Shop, tmp_path: Path) -> None:
    document = RUNS["asks"]["run"]["document"]
    other = {**document, "code": document["code"].replace("id=order.id", "id=2")}
    async with opened(shop, tmp_path) as app:
        await record(app.store, "asks")
        await record(app.store, "asks", id="other", document=other)
        done: Any = await app.plans.resume_run("asks", {"approved": True}, by="Ann")
        assert (done["status"], done["result"]) == ("completed", [10.5, True])
        assert shop.calls == [("cancel_order", 1)]
        asks: Any = await app.plans.resume_run("other", {"approved": True}, by="Ann")
        assert asks["status"] == "waiting"
    assert shop.calls == [("cancel_order", 1)]


async def test_an_approval_does_not_answer_for_another_version_of_the_tool(shop: Shop, tmp_path: Path) -> None:
    document = RUNS["asks"]["run"]["document"]
    tools = {**document["tools"], "cancel_order": {**document["tools"]["cancel_order"], "version": "another"}}
    async with opened(shop, tmp_path) as app:
        await record(app.store, "asks", document={**document, "tools": tools})
        asks: Any = await app.plans.resume_run("asks", {"approved": True}, by="Ann")
        assert asks["status"] == "waiting"
    assert shop.calls == []


async def test_an_event_reaches_the_run_that_continues(shop: Shop, tmp_path: Path) -> None:
    async with opened(shop, tmp_path) as app:
        await record(app.store, "event")
        await record(app.store, "person")
        done: Any = await app.plans.resume_run("event", {"event": "paid", "payload": "yes"})
        assert (done["status"], done["result"]) == ("completed", "3: yes")
        app.runs.send("person", "paid", "sent before")
        outcome = await app.resume("person")
        assert (outcome.status, outcome.value) == ("completed", "3: sent before")
    assert shop.calls == [("note", "yes"), ("note", "sent before")]


async def test_a_run_without_its_answer_waits_again(shop: Shop, tmp_path: Path) -> None:
    async with opened(shop, tmp_path) as app:
        await record(app.store, "event")
        waiting: Any = await app.plans.resume_run("event")
        assert (waiting["status"], waiting["waitingFor"][0]["event"]) == ("waiting", "paid")
        await record(app.store, "person")
        outcome = await app.resume("person", park=True)
        assert outcome.status == "waiting"
        app.runs.send(outcome.run_id, "paid", "later")
        assert (await app.resume(outcome.run_id)).value == "3: later"
    assert shop.calls == [("note", "later")]


async def test_a_failed_run_is_retried_without_repeating_a_call(shop: Shop, tmp_path: Path) -> None:
    async with opened(shop, tmp_path) as app:
        await record(app.store, "fails")
        again: Any = await app.plans.resume_run("fails")
        assert (again["status"], again["error"]["line"], again["corrects"]) == ("failed", 3, "fails")
        await record(app.store, "fails", id="retried")
        outcome = await app.runs.retry("retried")
        assert (outcome.status, outcome.run_id != "retried") == ("failed", True)
    assert shop.calls == []


async def test_a_worker_calls_nothing_for_a_run_of_the_first_design(shop: Shop, tmp_path: Path) -> None:
    async with opened(shop, tmp_path) as app:
        await record(app.store, "event")
        app.runs.send("event", "paid", "yes")
        row = app.store.get_run("event")
        assert row is not None
        with pytest.raises(JournalConflict, match="an earlier version of Ropewalk recorded it"):
            await app.jobs.for_existing(row)
    assert shop.calls == []


async def test_a_program_that_the_language_refuses_now_is_reported(shop: Shop, tmp_path: Path) -> None:
    document = {
        **RUNS["person"]["run"]["document"],
        "code": "a = await get_order(id=3)\nawait wait_for('paid')\nopen('x')",
    }
    async with opened(shop, tmp_path) as app:
        await record(app.store, "person", document=document)
        answer: Any = await app.plans.resume_run("person", {"event": "paid"})
        assert (answer["status"], answer["problems"][0]["line"]) == ("invalid", 3)
        with pytest.raises(InvalidFlow, match="open is not supported"):
            await app.resume("person")
    assert shop.calls == []


async def test_saved_plans_are_checked_again(shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tools = {"get_order": {"id": "get_order", "parameters": ["id"], "required": ["id"], "reads": True}}
    codes = {
        "total": "id: int\norder = await get_order(id=id)\nreturn order.total",
        "refused": "id: int\nopen('x')\nreturn id",
    }
    async with opened(shop, tmp_path) as app:
        for name, code in codes.items():
            document = {"kind": "plan", "name": name, "id": name, "code": code, "tools": tools, "origin": "model"}
            app.store.put_definition(
                Definition(kind="plan", id=name, name=name, document=document, fingerprint=name, created=time.time())
            )
        with caplog.at_level(logging.WARNING, "ropewalk.plans"):
            found: Any = await app.plans.find_tools("look up the total")
        assert "plans.total" in found["stubs"]
        assert "refused" not in found["stubs"]
        assert "the plan refused is not offered: " in caplog.text
        assert "open is not supported" in caplog.text
        assert await app.call_tool("plans:total", {"id": 2}) == 21.0
