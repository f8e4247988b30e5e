"""The flow files of a project behind HTTP and MCP: nobody runs stale text, and a call looks at its own file only."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest

from ropewalk import App
from ropewalk.app.flow_list import FlowList
from ropewalk.doors.http.flow_files import FlowFiles
from ropewalk.doors.http.site import make_site
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.flows import Flows
from ropewalk.doors.mcp.tool_source import CallContext

pytestmark = pytest.mark.process

MANY, CALLS = 1000, 20


def write(home: Path, file: str, text: str, name: str = "") -> None:
    name = name or file.partition(".")[0]
    (home / file).write_text(f"kind: chain\nname: {name}\nnodes: [{{id: a, type: transform, input: '{text}'}}]\n")


class OverHttp:
    """Runs flow files and reads their runs over HTTP; a flow is named by its file."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def call(self, file: str, name: str = "") -> str | None:
        """Return what a flow says, or None if there is no such flow."""
        body = {"definition": {"kind": "file", "id": file}, "wait": 60}
        answer = await self.client.post("/api/runs", json=body)
        if answer.status_code == 404:
            return None
        run = (await self.client.get(f"/api/runs/{answer.json()['runId']}")).json()
        assert run["definition"] == {"kind": "file", "id": file}
        return str(answer.json()["result"]["a"])

    async def names(self) -> list[str]:
        """Return the names in the list of definitions."""
        return [line["name"] for line in (await self.client.get("/api/definitions")).json()["definitions"]]


class OverMcp:
    """Runs flow files over MCP; a flow is named by its name."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    async def call(self, file: str, name: str = "") -> str | None:
        """Return what a flow says, or None if there is no such flow."""
        tool = await self.catalogue.find(name or file.partition(".")[0])
        return None if tool is None else str((await tool.call({}, CallContext())).structured_content["a"])

    async def names(self) -> list[str]:
        """Return the names in the list of tools."""
        return list(self.catalogue.listed)


Door: TypeAlias = OverHttp | OverMcp
Opened: TypeAlias = Callable[[], AbstractAsyncContextManager[Door]]


@pytest.fixture(params=["http", "mcp"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens one of the doors to the flow files of a directory."""

    @asynccontextmanager
    async def over_http() -> AsyncIterator[Door]:
        async with App("memory") as app:
            transport = httpx2.ASGITransport(make_site(app, None, files_of=lambda app: FlowFiles(app, tmp_path)))
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
                yield OverHttp(client)

    @asynccontextmanager
    async def over_mcp() -> AsyncIterator[Door]:
        async with App("memory") as app:
            yield OverMcp(Catalogue(Finder(app), [Flows(app, ["*.yaml"], tmp_path)], max_listed=2 * MANY))

    return over_http if request.param == "http" else over_mcp


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counter[str]:
    """Counts how often files of the directory are looked at or read; no list is too old to name a file."""
    monkeypatch.setattr("ropewalk.app.flow_list.MAX_AGE", 3600.0)
    monkeypatch.setattr("ropewalk.doors.mcp.catalogue._MAX_AGE", 3600.0)
    counted: Counter[str] = Counter()

    def counting(name: str) -> Any:
        real = getattr(os, name)

        def look(path: Any = ".", *args: Any, **options: Any) -> Any:
            if isinstance(path, (str, os.PathLike)) and str(path).startswith(str(tmp_path)):
                counted[f"{name} {Path(path).name}"] += 1
            return real(path, *args, **options)

        return look

    for name in ("stat", "lstat", "scandir", "listdir", "open"):
        monkeypatch.setattr(os, name, counting(name))
    return counted


def test_a_call_looks_at_its_own_file_of_a_thousand(opened: Opened, tmp_path: Path, looks: Counter[str]) -> None:
    for number in range(MANY):
        write(tmp_path, f"f{number}.yaml", f"text {number}")

    async def case() -> None:
        async with opened() as door:
            assert len(await door.names()) == MANY
            assert looks[f"scandir {tmp_path.name}"] > 0  # the list of flows looks at all
            assert len([look for look in looks if look.startswith("open f")]) == MANY
            looks.clear()
            for _ in range(CALLS):
                assert await door.call("f0.yaml") == "text 0"
            assert looks["stat f0.yaml"] >= CALLS
            assert {name for name in (look.partition(" ")[2] for look in looks) if name[0] == "f"} == {"f0.yaml"}
            assert not any(look.startswith(("scandir", "listdir")) for look in looks)
            # The list looks again, and reads no file that has not changed.
            looks.clear()
            assert len(await door.names()) == MANY
            assert looks["stat f999.yaml"] == 1
            assert not any(look.startswith("open") for look in looks)

    asyncio.run(case())


def test_a_file_runs_as_it_is_right_after_an_edit(opened: Opened, tmp_path: Path) -> None:
    tick = time.time_ns() + 3600 * 10**9  # a tick of the clock of files that lasts for the whole test

    async def case() -> None:
        async with opened() as door:
            for number in range(10, 20):
                write(tmp_path, "f.yaml", f"text {number}")
                os.utime(tmp_path / "f.yaml", ns=(tick, tick))
                assert await door.call("f.yaml") == f"text {number}"

    asyncio.run(case())


def test_a_file_runs_right_after_it_is_added_and_not_after_it_is_deleted(
    opened: Opened, tmp_path: Path, looks: Counter[str]
) -> None:
    write(tmp_path, "f.yaml", "first")

    async def case() -> None:
        async with opened() as door:
            assert await door.call("f.yaml") == "first"
            assert await door.call("g.yaml") is None
            write(tmp_path, "g.yaml", "second")
            assert await door.call("g.yaml") == "second"
            assert await door.names() == ["f", "g"]
            (tmp_path / "g.yaml").unlink()
            assert await door.call("g.yaml") is None
            assert await door.names() == ["f"]
            write(tmp_path, "g.yaml", "third")
            assert await door.call("g.yaml") == "third"
            (tmp_path / "g.yaml").rename(tmp_path / "h.yaml")
            assert await door.call("h.yaml", "g") == "third"

    asyncio.run(case())


def test_a_new_name_in_a_file_counts_at_once(opened: Opened, tmp_path: Path, looks: Counter[str]) -> None:
    write(tmp_path, "f.yaml", "text", name="old")

    async def case() -> None:
        async with opened() as door:
            assert await door.call("f.yaml", "old") == "text"
            write(tmp_path, "f.yaml", "text", name="new")
            assert await door.call("f.yaml", "new") == "text"
            assert await door.names() == ["new"]
            if isinstance(door, OverMcp):
                assert await door.call("f.yaml", "old") is None

    asyncio.run(case())


def test_two_files_with_one_name_stay_apart(opened: Opened, tmp_path: Path, looks: Counter[str]) -> None:
    write(tmp_path, "f.yaml", "first", name="same")
    write(tmp_path, "g.yaml", "second", name="same")

    async def case() -> None:
        async with opened() as door:
            names = await door.names()
            assert [await door.call("f.yaml", names[0]), await door.call("g.yaml", names[1])] == ["first", "second"]
            (tmp_path / "g.yaml").unlink()
            assert await door.names() == ["same"]
            assert await door.call("f.yaml", "same") == "first"

    asyncio.run(case())


def test_a_flow_that_becomes_a_recorded_test_is_no_flow_any_more(
    opened: Opened, tmp_path: Path, looks: Counter[str]
) -> None:
    write(tmp_path, "f.yaml", "text")

    async def case() -> None:
        async with opened() as door:
            assert await door.call("f.yaml") == "text"
            (tmp_path / "f.yaml").write_text("kind: test\nname: f\nflow: other.yaml\n")
            assert await door.call("f.yaml") is None
            write(tmp_path, "f.yaml", "again")
            assert await door.call("f.yaml") == "again"

    asyncio.run(case())


def test_the_pages_of_runs_look_at_the_files_at_most_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("ropewalk.app.flow_list.time.monotonic", lambda: now)
    write(tmp_path, "f.yaml", "text")
    flows = FlowList(tmp_path)
    assert flows.id_of(str(tmp_path / "f.yaml")) == "f.yaml"
    write(tmp_path, "g.yaml", "text")
    assert flows.id_of(str(tmp_path / "g.yaml")) is None
    now += 1.0
    assert flows.id_of(str(tmp_path / "g.yaml")) == "g.yaml"


def test_an_edited_python_flow_is_changed(tmp_path: Path) -> None:
    (tmp_path / "flows.py").write_text("a = 1\n")
    flows = FlowList(tmp_path, ["flows.py:a", "missing.py:a"])
    assert list(flows.look()) == ["flows.py:a", "missing.py:a"]
    assert flows.find("missing.py:a") is None
    before = flows.find("flows.py:a")
    assert before is not None
    assert flows.find("flows.py:a") == before
    (tmp_path / "flows.py").write_text("a = 2\n")
    assert flows.find("flows.py:a") != before


def test_the_list_has_the_names_of_flows_and_reads_a_file_again_only_when_it_has_changed(
    tmp_path: Path, looks: Counter[str]
) -> None:
    write(tmp_path, "f.yaml", "text", name="shout it")
    write(tmp_path, "g.yaml", "text")
    (tmp_path / "broken.yaml").write_text("name: [")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "experience.yaml").write_text("name: house\ngraph: {}\n")
    flows = FlowList(tmp_path, ["*.yaml", "home", "flows.py:made"])
    names = {id: file.name for id, file in flows.look().items()}
    expected = {"f.yaml": "shout_it", "g.yaml": "g", "broken.yaml": "broken", "home": "house", "flows.py:made": "made"}
    assert names == expected
    write(tmp_path, "f.yaml", "text", name="whisper")
    looks.clear()
    assert flows.look()["f.yaml"].name == "whisper"
    assert [look for look in looks if look.startswith("open")] == ["open f.yaml"]
