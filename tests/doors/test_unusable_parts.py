"""What a server says of the parts of its project that cannot be used, and of requests that it refuses or that fail."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from patience import until
from ropewalk import App, Tool
from ropewalk.doors.cli.unusable_parts import UnusableParts
from ropewalk.doors.mcp.catalogue import Catalogue, Finder
from ropewalk.doors.mcp.gateway import Tools
from ropewalk.doors.mcp.server import McpDoor
from ropewalk.doors.security import AuthMiddleware
from ropewalk.errors import ConfigError

SETTINGS = """
[mcp.time]
command = "no-such-program"
[providers.pets]
openapi = "http://127.0.0.1:1/pets.json"
[selector]
model = "rw_no_such_module:Model"
"""


@pytest.mark.anyio
async def test_each_unusable_part_has_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ropewalk.toml").write_text(SETTINGS)
    async with App.open(tmp_path, store="memory") as app:
        parts, written = UnusableParts(app), ""

        def is_complete() -> bool:
            nonlocal written
            written += capsys.readouterr().err
            return "! pets" in written and "[selector] model" in written

        async with parts.watching(connect=True):
            await until(is_complete)
        parts.report()  # writes nothing twice
        lines = (written + capsys.readouterr().err).splitlines()
    assert (
        sum(
            line.startswith("! time: ") and ": MCP server 'time': no program 'no-such-program'" in line
            for line in lines
        )
        == 1
    )
    assert sum(line.startswith("! pets: provider 'pets' at http://127.0.0.1:1: ") for line in lines) == 1
    assert sum("ropewalk.toml:7:1: [selector] model: " in line for line in lines) == 1


@pytest.mark.process
@pytest.mark.parametrize("words", [["worker"], ["mcp", "--http", "0"]])
def test_a_command_that_stays_names_a_dead_server_at_its_start(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "ropewalk.toml").write_text('[mcp.time]\ncommand = "no-such-program"\n')
    command = [sys.executable, "-m", "ropewalk", *words]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        try:
            assert any(line.startswith("! time: MCP server 'time': no program") for line in child.stderr)
        finally:
            child.kill()


def test_a_model_without_its_package_is_found_without_loading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.select.embedders._PACKAGES", {"minilm": "rw_no_such_package"})
    app = App("memory", selector_model="minilm")
    with pytest.raises(ConfigError, match="rw_no_such_package is missing; install it with"):
        app.context.selection.check_model()
    App("memory").context.selection.check_model()


def test_failed_calls_and_refused_requests_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("bad day")

    schema: dict[str, Any] = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}

    async def case() -> None:
        async with App("memory") as app:
            app.toolbox.register(Tool("slow", "Fail", schema, handler=lambda a: fail()))
            connected = asyncio.Event()
            door = McpDoor(Catalogue(Finder(app), [Tools(app)], []), on_connected=connected.set)
            async with door.open(), Client(door.server) as client:
                await connected.wait()
                await client.call_tool("slow", {"a": 1})
                await client.call_tool("slow", {})
                with pytest.raises(MCPError, match="did you mean slow"):
                    await client.call_tool("slwo", {})
                with pytest.raises(MCPError):
                    await client.call_tool(f"\u202e{'x' * 3_000}", {})

        async def send(_: Any) -> None: ...

        guard: Any = AuthMiddleware(None, "t")  # type: ignore[arg-type]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": [(b"host", b"localhost")]}
        await guard({**scope, "client": ("127.0.0.1", 1), "query_string": b"token=wrong"}, None, send)

    asyncio.run(case())
    failed, invalid, unknown, long, refused = (
        record.getMessage() for record in caplog.records if record.levelname == "WARNING"
    )
    assert failed == "a call of slow failed: bad day"
    assert invalid.startswith("a call of slow failed: the arguments do not match the input schema: ")
    assert unknown == "refused tools/call: Unknown tool: slwo; did you mean slow?"
    assert long.startswith("refused tools/call: Unknown tool: \\u202exxx")
    assert len(long) < 2_200
    assert refused == "refused POST /mcp from 127.0.0.1: the token is wrong"
