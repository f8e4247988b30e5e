"""Servers of a `.mcp.json` start only after a person has agreed to exactly these, and nothing else needs it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

import fork_server
from agreement import AGREED, agree
from ropewalk import App
from ropewalk.config.project import read_config
from ropewalk.config.servers_file import read_servers_file
from ropewalk.config.trust import answer_of, distrust, remember_answer, trust_folder
from ropewalk.errors import ConfigError, NotFound, RopewalkError, ToolNotFound
from ropewalk.tools.mcp.config import server_config

SHIFTY = Path(__file__).parent / "mcp_servers" / "shifty.py"


def write(place: Path, **servers: Any) -> Path:
    file = place / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers or {"s": {"command": "x"}}}))
    return file


def used(place: Path, **environ: str) -> list[str]:
    return list(read_config(place, environ=environ).servers)


def test_servers_are_left_out_until_a_person_agrees(tmp_path: Path) -> None:
    write(tmp_path)
    config = read_config(tmp_path, environ={})
    assert list(config.servers) == []
    assert "nobody has agreed" in config.failures["s"]
    assert config.untrusted is not None
    agree(tmp_path)
    assert used(tmp_path) == ["s"]
    assert (trust_folder().stat().st_mode & 0o777, (trust_folder() / "trusted.json").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )
    assert distrust(tmp_path / ".mcp.json") == 1
    assert used(tmp_path) == []


def test_a_setting_agrees_for_a_project_and_a_variable_for_a_process(tmp_path: Path) -> None:
    write(tmp_path)
    assert used(tmp_path, **AGREED) == ["s"]
    assert used(tmp_path, ROPEWALK_TRUST="s") == []
    toml = tmp_path / "ropewalk.toml"
    toml.write_text("[mcp]\nimport = true\n")
    assert used(tmp_path) == ["s"]
    toml.write_text("[mcp]\nimport = false\n")
    assert used(tmp_path) == []
    toml.write_text('[mcp]\nfile = ".mcp.json"\n')  # the project names it itself
    assert used(tmp_path) == ["s"]
    toml.write_text('[mcp]\nimport = "yes"\n')
    with pytest.raises(ConfigError, match=r"ropewalk\.toml:2:1: \[mcp\] import: must be true or false"):
        read_config(tmp_path, environ={})
    toml.write_text('[mcp.s]\ncommand = "mine"\n')  # the own table replaces the server
    assert read_config(tmp_path, environ={}).servers["s"].command == "mine"
    assert read_config(tmp_path, environ={}).failures == {}


@pytest.mark.parametrize(
    "change",
    [
        {"s": {"command": "y"}},
        {"s": {"command": "x", "args": ["--evil"]}},
        {"s": {"command": "x", "env": {"LD_PRELOAD": "x.so"}}},
        {"s": {"command": "x", "disabledTools": []}},
        {"s": {"command": "x"}, "t": {"command": "z"}},
    ],
)
def test_any_change_of_the_entries_needs_a_new_agreement(tmp_path: Path, change: Any) -> None:
    write(tmp_path)
    agree(tmp_path)
    write(tmp_path, **change)
    assert used(tmp_path) == []
    (tmp_path / ".mcp.json").write_text('{"mcpServers": // the same again\n {"s": {"command": "x"}}, "theme": 1}')
    assert used(tmp_path) == ["s"]
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"s": {"command": "x"}}, "tools": ["*"]}')
    assert used(tmp_path) == []  # a list of the tools of each server


def test_the_same_entries_elsewhere_need_a_new_agreement(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        place.mkdir()
        write(place, s={"command": "./server"})
    agree(here)
    assert (used(here), used(there)) == (["s"], [])
    (tmp_path / "link").symlink_to(here)
    assert used(tmp_path / "link") == ["s"]


def test_a_refusal_is_remembered_and_is_no_agreement(tmp_path: Path) -> None:
    file = write(tmp_path)
    assert answer_of(read_servers_file(file)) is None
    remember_answer(read_servers_file(file), False)
    assert answer_of(read_servers_file(file)) is False
    assert used(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="there are no such permissions there")
@pytest.mark.parametrize("fault", ["a link", "writable", "a writable folder", "not JSON", "other JSON", "a folder"])
def test_a_list_of_agreements_that_somebody_else_can_write_counts_for_nothing(tmp_path: Path, fault: str) -> None:
    write(tmp_path)
    agree(tmp_path)
    folder, file = trust_folder(), trust_folder() / "trusted.json"
    if fault == "a link":
        file.rename(tmp_path / "real.json")
        file.symlink_to(tmp_path / "real.json")
    elif fault == "writable":
        file.chmod(0o666)
    elif fault == "a writable folder":
        folder.chmod(0o777)
    elif fault == "a folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_text("{" if fault == "not JSON" else '{"trusted": [1]}')
    assert used(tmp_path) == []


@pytest.mark.parametrize("value", ["relative", ""])
def test_a_relative_configuration_folder_is_never_one_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", value)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert trust_folder() == tmp_path / "home" / ".config" / "ropewalk"


def test_nothing_of_an_untrusted_file_runs_and_its_tools_say_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = tmp_path / "ran"
    write(tmp_path, s={"command": "/bin/sh", "args": ["-c", f"touch {mark}"]})

    async def case() -> None:
        async with App.open(tmp_path, store="memory") as app:
            await app.connect()
            assert "nobody has agreed" in app.toolbox.failures["s"]
            with pytest.raises(RopewalkError, match="nobody has agreed"):
                await app.call_tool("s:x", {})

    asyncio.run(case())
    assert not mark.exists()


def test_tools_that_the_file_switches_off_are_neither_listed_nor_called(tmp_path: Path) -> None:
    tools = [{"name": name, "description": "", "inputSchema": {"type": "object"}} for name in ("look", "drop", "find")]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    python = {"command": fork_server.program("python"), "args": [str(SHIFTY), str(tmp_path / "tools.json")]}
    write(
        tmp_path,
        s={**python, "disabledTools": ["drop"]},
        t={**python, "includeTools": ["find", "drop"], "excludeTools": ["drop"]},
    )
    agree(tmp_path)

    async def case() -> None:
        async with App.open(tmp_path, store="memory") as app:
            await app.connect()
            assert {"s:look", "s:find", "t:find"} <= set(app.toolbox.ids())
            assert {"s:drop", "t:drop", "t:look"}.isdisjoint(app.toolbox.ids())
            with pytest.raises(RopewalkError, match="s:drop: tool not found"):
                await app.call_tool("s:drop", {})
            with pytest.raises(ToolNotFound, match="switch it off"):
                await app.toolbox.mcp.call_tool("s", "drop", {})

    asyncio.run(case())


def test_a_misspelt_tool_of_a_filter_is_reported_with_its_line(tmp_path: Path) -> None:
    tools = [{"name": name, "description": "", "inputSchema": {"type": "object"}} for name in ("look", "drop", "find")]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    python = {"command": fork_server.program("python"), "args": [str(SHIFTY), str(tmp_path / "tools.json")]}
    write(tmp_path, s={**python, "disabledTools": ["dorp", "f*"]}, t={**python, "includeTools": ["fnd", "x_*"]})
    agree(tmp_path)
    line = f"[mcp.u]\ncommand = {json.dumps(python['command'])}\nargs = {json.dumps(python['args'])}\n"
    (tmp_path / "ropewalk.toml").write_text(f'{line}tools = [\n  "look",\n  "drpo",\n]\n')

    async def case() -> None:
        async with App.open(tmp_path, store="memory") as app:
            await app.connect()
            failures, file = app.toolbox.failures, (tmp_path / ".mcp.json").read_text()
            assert set(failures) == {"s:dorp", "t:fnd", "t:x_*", "u:drpo"}
            assert "'dorp' matches no tool of the server; did you mean 'drop'?" in failures["s:dorp"]
            for id, text in (("s:dorp", '"dorp"'), ("t:x_*", '"x_*"')):
                assert f".mcp.json:1:{file.index(text) + 1}: " in failures[id]
            assert "ropewalk.toml:6:3: 'drpo' matches no tool" in failures["u:drpo"]
            assert set(app.toolbox.ids()) >= {"s:look", "s:drop", "u:look"}
            # A tool that the misspelt name means says why it is missing.
            with pytest.raises(NotFound, match=r"switch it off .*; .*ropewalk.toml:6:3: 'drpo' matches no tool"):
                await app.toolbox.find("u:drop")

    asyncio.run(case())


def test_filters_of_tools_take_names_and_patterns() -> None:
    config = server_config("s", {"command": "x", "tools": ["get_*", "put"], "exclude_tools": ["get_secret*"]})
    assert [name for name in ("get_a", "put", "puts", "get_secret_b") if config.offers(name)] == ["get_a", "put"]
    assert not server_config("s", {"command": "x", "tools": []}).offers("a")


def test_an_empty_list_of_tools_allows_none(tmp_path: Path) -> None:
    (tmp_path / "ropewalk.toml").write_text('[mcp.s]\ncommand = "x"\ntools = []\n')
    assert read_config(tmp_path, environ={}).servers["s"].exclude_tools == ("*",)
