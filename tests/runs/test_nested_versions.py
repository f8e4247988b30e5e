"""A nested run keeps the definition it began with, as its outer run does; `retry` of its node takes the present one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from patience import until
from ropewalk import App
from ropewalk.journal.sqlite.store import SqliteStore

pytestmark = pytest.mark.anyio
OUTER = {"kind": "chain", "id": "o", "name": "o", "nodes": [{"id": "flow", "type": "tool", "tool": "inner"}]}


def inner(*tools: str) -> dict[str, Any]:
    nodes = [{"id": f"n{i}", "type": "tool", "tool": tool} for i, tool in enumerate(tools)]
    return {"kind": "chain", "id": "inner", "name": "inner", "nodes": nodes}


class Project:
    """An app on one store, opened once per deployment of the inner flow."""

    def __init__(self, path: Path) -> None:
        self.path = path / "s.db"
        self.calls: list[str] = []
        self.gate = asyncio.Event()
        self.broken = False

    def app(self, definition: Any) -> App:
        async def first() -> str:
            self.calls.append("first")
            return "first"

        async def waits() -> str:
            self.calls.append("waits")
            await self.gate.wait()
            return "old"

        async def fails() -> str:
            self.calls.append("fails")
            if self.broken:
                raise RuntimeError("boom")
            return "old"

        async def new() -> str:
            self.calls.append("new")
            return "new"

        app = App(SqliteStore(self.path, poll=0.05), tools=[first, waits, fails, new])
        app.toolbox.register(app.as_tool(definition))
        return app


@pytest.fixture
def project(tmp_path: Path) -> Any:
    return Project(tmp_path)


async def interrupted(project: Project, definition: Any) -> None:
    """A run whose process is gone while its nested run is in the middle of a call."""
    async with project.app(definition) as app:
        run = asyncio.ensure_future(app.run(OUTER, run_id="r"))
        await until(lambda: "waits" in project.calls)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
    project.gate.set()


async def test_resume_after_the_inner_flow_was_changed(project: Project) -> None:
    await interrupted(project, inner("first", "waits"))
    async with project.app(inner("new", "new")) as app:
        done = await app.resume("r")
        assert (done.status, done.results) == ("completed", {"flow": {"n0": "first", "n1": "old"}})
        assert project.calls == ["first", "waits", "waits"]  # the interrupted call again, nothing of the new version
        later = await app.run(OUTER, run_id="later")
        assert later.results == {"flow": {"n0": "new", "n1": "new"}}


async def test_a_finished_part_is_used_though_the_flow_was_changed(project: Project) -> None:
    """The nested run has ended, and the process died before the outer run recorded its result."""
    async with project.app(inner("first")) as app:
        await app.run(OUTER, run_id="r")
        log = await app.store.reopen("r", again=True)
        await log.forget(
            [key for key, entry in log.past.items() if entry.kind in ("call", "ending", "node", "attempt")]
        )
        await log.release()
    async with project.app(inner("new")) as app:
        done = await app.resume("r")
        assert (done.status, done.results) == ("completed", {"flow": {"n0": "first"}})
        assert project.calls == ["first"]


async def test_retry_continues_the_version_that_failed(project: Project) -> None:
    project.broken = True
    async with project.app(inner("first", "fails")) as app:
        assert (await app.run(OUTER, run_id="r")).status == "failed"
    project.broken = False
    async with project.app(inner("new")) as app:
        done = await app.runs.retry("r")
        assert (done.status, done.results) == ("completed", {"flow": {"n0": "first", "n1": "old"}})
        assert project.calls == ["first", "fails", "fails"]


async def test_retry_with_the_node_takes_the_present_version(project: Project) -> None:
    project.broken = True
    async with project.app(inner("first", "fails")) as app:
        assert (await app.run(OUTER, run_id="r")).status == "failed"
    async with project.app(inner("first", "new")) as app:
        done = await app.runs.retry("r", ["flow"])
        assert (done.status, done.results) == ("completed", {"flow": {"n0": "first", "n1": "new"}})
        assert project.calls == ["first", "fails", "first", "new"]
        part = app.store.get_run("r/flow")
        assert part is not None
        assert [node["tool"] for node in part.document["nodes"]] == ["first", "new"]  # type: ignore[index, union-attr]
