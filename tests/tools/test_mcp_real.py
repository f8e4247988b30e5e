"""Real servers, as people install them: over stdio, and over streamable HTTP where they offer it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk.tools.mcp.requests import ServerRefused
from ropewalk.tools.tool import ProgressEvent

from .mcp_lab import HttpServer, free_port, gone, node, node_script, said, servers

pytestmark = pytest.mark.process


def module(name: str, *args: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-m", name, *args]}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    def git(*args: str) -> None:
        author = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A"}
        env = {**os.environ, **author, "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run(["git", *args], cwd=tmp_path, check=True, capture_output=True, env=env)

    git("init", "-q", "-b", "main")
    (tmp_path / "rope.txt").write_text("three strands\n")
    git("add", ".")
    git("commit", "-q", "-m", "Lay the rope")
    return tmp_path


def test_git_reads_a_repository(repository: Path) -> None:
    async def case() -> None:
        async with servers(git=module("mcp_server_git", "--repository", str(repository))) as mcp:
            await mcp.connect("git")
            assert {"git_log", "git_status"} <= {tool.name for tool in mcp.tools("git")}
            assert all(tool.input_schema["type"] == "object" for tool in mcp.tools("git"))
            log = await mcp.call_tool("git", "git_log", {"repo_path": str(repository), "max_count": 1})
            assert "Lay the rope" in said(log)
            outside = await mcp.call_tool("git", "git_log", {"repo_path": "/"})
            assert outside.is_error

    asyncio.run(case())


def test_time_converts(tmp_path: Path) -> None:
    async def case() -> None:
        async with servers(time=module("mcp_server_time", "--local-timezone", "UTC")) as mcp:
            args = {"source_timezone": "Europe/Zurich", "time": "12:00", "target_timezone": "Asia/Tokyo"}
            told = json.loads(said(await mcp.call_tool("time", "convert_time", args)))
            assert told["target"]["timezone"] == "Asia/Tokyo"

    asyncio.run(case())


@pytest.fixture(scope="module")
def everything_http() -> Iterator[HttpServer]:
    port = free_port()
    script = node_script("server-everything")
    server = HttpServer(["node", script, "streamableHttp"], "listening on port", port, PORT=str(port))
    yield server
    server.kill()


@pytest.fixture(params=["stdio", "http"])
def everything(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "stdio":
        return node("server-everything")
    return {"url": request.getfixturevalue("everything_http").url}


@pytest.mark.node
def test_everything_gives_text_structure_and_images(everything: dict[str, Any]) -> None:
    async def case() -> None:
        async with servers(all=everything) as mcp:
            assert said(await mcp.call_tool("all", "echo", {"message": "hi"})) == "Echo: hi"
            weather = await mcp.call_tool("all", "get-structured-content", {"location": "Chicago"})
            assert set(weather.structured_content) == {"temperature", "conditions", "humidity"}
            image = await mcp.call_tool("all", "get-tiny-image")
            assert [part.type for part in image.content] == ["text", "image", "text"]
            wrong = await mcp.call_tool("all", "get-sum", {"a": "x", "b": 1})
            assert wrong.is_error
            tool = next(tool for tool in mcp.tools("all") if tool.name == "get-structured-content")
            assert tool.output_schema["type"] == "object"

    asyncio.run(case())


@pytest.mark.node
def test_everything_reports_progress_and_can_be_cancelled(everything: dict[str, Any]) -> None:
    async def case() -> None:
        name, seen = "trigger-long-running-operation", []
        async with servers(all=everything) as mcp:
            args = {"duration": 0.3, "steps": 3}
            done = await mcp.call_tool("all", name, args, on_progress=lambda event: seen.append(event))
            assert "completed" in said(done)
            assert [(event.progress, event.total) for event in seen] == [(1, 3), (2, 3), (3, 3)]
            began = asyncio.Event()

            def watch(_: ProgressEvent) -> None:
                began.set()

            long = asyncio.create_task(mcp.call_tool("all", name, {"duration": 60, "steps": 600}, on_progress=watch))
            await began.wait()
            long.cancel()
            with pytest.raises(asyncio.CancelledError):
                await long
            assert said(await mcp.call_tool("all", "echo", {"message": "still here"})) == "Echo: still here"

    asyncio.run(case())


@pytest.mark.node
@pytest.mark.campaign("faults", only=True)
def test_everything_restarted_gets_a_new_session_unasked() -> None:
    port = free_port()
    argv = ["node", node_script("server-everything"), "streamableHttp"]
    web = HttpServer(argv, "listening on port", port, PORT=str(port))

    async def case() -> None:
        async with servers(all={"url": web.url}) as mcp:
            assert said(await mcp.call_tool("all", "echo", {"message": "a"})) == "Echo: a"
            web.kill()
            web.start()
            assert said(await mcp.call_tool("all", "echo", {"message": "b"})) == "Echo: b"
            began = asyncio.Event()
            args = {"duration": 60, "steps": 600}
            call = asyncio.create_task(
                mcp.call_tool("all", "trigger-long-running-operation", args, on_progress=lambda _: began.set())
            )
            await began.wait()
            web.kill()
            with pytest.raises(ConnectionError, match="MCP server 'all' lost the connection"):
                await call

    try:
        asyncio.run(case())
    finally:
        web.kill()


@pytest.mark.node
def test_filesystem_reads_and_refuses_to_leave_its_folder(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("hello")

    async def case() -> None:
        async with servers(files=node("server-filesystem", str(tmp_path))) as mcp:
            read = await mcp.call_tool("files", "read_text_file", {"path": str(tmp_path / "note.txt")})
            assert read.structured_content == {"content": "hello"}
            outside = await mcp.call_tool("files", "read_text_file", {"path": "/etc/passwd"})
            assert outside.is_error

    asyncio.run(case())


@pytest.mark.node
def test_memory_keeps_what_it_is_told_and_leaves_no_process(tmp_path: Path) -> None:
    async def case() -> list[int]:
        config = node("server-memory", env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")})
        async with servers(memory=config) as mcp:
            rope = {"name": "rope", "entityType": "thing", "observations": ["three strands"]}
            await mcp.call_tool("memory", "create_entities", {"entities": [rope]})
            found = await mcp.call_tool("memory", "search_nodes", {"query": "rope"})
            assert found.structured_content["entities"] == [rope]
            with pytest.raises((ServerRefused, AssertionError)):
                assert not (await mcp.call_tool("memory", "nonesuch")).is_error
            return [
                line._child.pid for link in mcp._links.values() for line in link._connections.values() if line._child
            ]

    [pid] = asyncio.run(case())
    assert gone(pid)
