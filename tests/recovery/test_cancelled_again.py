"""A run whose task is cancelled several times in a row is released all the same, and can be resumed at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from patience import until
from ropewalk import App
from ropewalk.engine import engine
from ropewalk.journal.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio
INNER = {"kind": "chain", "id": "inner", "name": "inner", "nodes": [{"id": "n", "type": "tool", "tool": "hold"}]}
OUTER = {"kind": "chain", "id": "outer", "name": "outer", "nodes": [{"id": "call", "type": "tool", "tool": "inner"}]}
WAITING = {"kind": "chain", "id": "ask", "name": "ask", "nodes": [{"id": "ask", "type": "wait", "approval": "?"}]}


@pytest.mark.parametrize("document", [INNER, OUTER, WAITING], ids=["call", "nested", "wait"])
@pytest.mark.parametrize("times", [1, 2, 3, 50])
async def test_a_run_cancelled_again_is_released(tmp_path: Path, document: dict[str, Any], times: int) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def hold() -> str:
        begun.set()
        await gate.wait()
        return "held"

    store = SqliteStore(tmp_path / "s.db", poll=0.05)
    async with App(store, tools=[hold]) as app:
        app.toolbox.register(app.as_tool(INNER))
        run = asyncio.ensure_future(app.run(document, run_id="r"))
        if document is WAITING:
            await until(lambda: app.runs.waiting())
            await until(lambda: app.engine.live["r"].halted)  # the run sees that it does nothing but wait
        else:
            await begun.wait()
        for _ in range(times):
            run.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await run
        for row in store.list_runs():
            assert not row.owner
        gate.set()
        if document is WAITING:
            assert store.get_run("r").status == "waiting"  # type: ignore[union-attr]
            app.runs.approve("r", "ask")
        done = await app.resume("r")
        assert done.status == "completed"


async def test_a_clean_up_that_never_ends_is_given_up_after_the_second_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "PATIENCE", 0.05)
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    task = asyncio.ensure_future(engine.complete(forever()))
    await asyncio.wait([task], timeout=0.1)
    assert not task.done()
    task.cancel()
    await task
    assert ended == ["cancelled"]


async def test_the_error_of_a_clean_up_is_raised() -> None:
    async def fails() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await engine.complete(fails())
