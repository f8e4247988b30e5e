"""From a `ropewalk.toml` to an app: what was written reaches the part it is for."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ropewalk.app import App

ODD = Path(__file__).parent / "mcp_servers" / "odd.py"


def project(directory: Path, text: str) -> Path:
    (directory / "ropewalk.toml").write_text(text, encoding="utf-8")
    return directory


def test_a_variable_that_reads_like_another_reaches_the_server_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTER", "${INNER}")
    monkeypatch.setenv("INNER", "secret")
    where = project(
        tmp_path,
        f"""
[mcp.odd]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(ODD))}]
env = {{TOKEN = "${{OUTER}}"}}
connect_timeout = 20
mode = "legacy"
""",
    )

    async def case() -> Any:
        async with App.open(where, store="memory") as app:
            await app.connect()
            assert app.toolbox.failures == {}
            config = app.toolbox.mcp._link("odd").config
            assert (config.connect_timeout, config.mode) == (20, "legacy")
            return await app.call_tool("odd:environment")

    assert asyncio.run(case())["TOKEN"] == "${INNER}"


def test_a_server_that_cannot_be_used_is_named_and_stops_no_other(tmp_path: Path) -> None:
    where = project(
        tmp_path,
        """
[mcp.web]
url = "http://127.0.0.1:1/mcp"
[mcp.ftp]
url = "ftp://127.0.0.1/mcp"
[mcp.mixed]
command = "x"
headers = {A = "b"}
""",
    )
    app = App.open(where, store="memory")
    assert set(app.toolbox.failures) == {"ftp", "mixed"}
    assert "headers does not go with command" in app.toolbox.failures["mixed"]
    assert app.toolbox.mcp.names == ["web"]
