"""The mcpServers JSON that other programs share: what is wrong in it, what is odd, what is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.config import read_config
from ropewalk.errors import ConfigError


def read(place: Path, servers: Any) -> Any:
    (place / ".mcp.json").write_text(servers if isinstance(servers, str) else json.dumps({"mcpServers": servers}))
    return read_config(place, environ={})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "x", "evn": {"X": "1"}}, "unknown key 'evn'; did you mean 'env'?"),
        ({"command": "x", "arg": ["--local"]}, "unknown key 'arg'; did you mean 'args'?"),
        ({"comand": "x"}, "unknown key 'comand'; did you mean 'command'?"),
        ({"command": "x", "disable": True}, "unknown key 'disable'; did you mean 'disabled'?"),
    ],
)
def test_a_key_near_a_known_one_is_an_error_of_that_server(tmp_path, given, said):
    config = read(tmp_path, {"a": given, "b": {"command": "y"}})
    assert config.broken == {"a": f"{tmp_path / '.mcp.json'}: {said}"}
    assert list(config.servers) == ["b"]
    assert not config.doubts


def test_keys_of_other_programs_and_comments_are_left_alone(tmp_path):
    foreign = {"type": "stdio", "transport": "stdio", "autoApprove": [], "alwaysAllow": [], "envFile": ".env"}
    config = read(tmp_path, {"a": {"command": "x", "description": "d", **foreign, "_note": 1, "$schema": "s", "//": 2}})
    assert (config.broken, config.doubts) == ({}, ())
    assert list(config.servers) == ["a"]


def test_any_other_unknown_key_is_a_warning(tmp_path, caplog):
    config = read(tmp_path, {"a": {"command": "x", "zzz": 1}})
    assert list(config.servers) == ["a"]
    assert config.doubts[0].startswith(
        f"{tmp_path / '.mcp.json'}: server 'a': unknown key 'zzz' is not read; known are"
    )
    App.open(tmp_path, store="memory")
    assert "unknown key 'zzz'" in caplog.text


def test_what_stands_twice_is_an_error(tmp_path):
    twice = '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "a": {"command": "z"}}}'
    config = read(tmp_path, twice)
    assert list(config.servers) == ["b"]
    assert config.broken["a"].endswith(".mcp.json: stands twice")
    config = read(tmp_path, '{"mcpServers": {"a": {"command": "x", "env": {"K": "1", "K": "2"}}}}')
    assert config.broken["a"].endswith(".mcp.json: K stands twice")
    with pytest.raises(ConfigError, match="mcpServers stands twice"):
        read(tmp_path, '{"mcpServers": {}, "mcpServers": {}}')
    assert "must be an object" in read(tmp_path, {"a": None}).broken["a"]
    assert read(tmp_path, '{"other": {"k": 1, "k": 2}, "mcpServers": {"a": {"command": "x"}}}').servers["a"]


def test_a_provider_without_tools_is_told(tmp_path, caplog):
    (tmp_path / "ropewalk.toml").write_text('[providers.p]\nurl = "http://127.0.0.1:1"\n')
    assert (
        read_config(tmp_path)
        .doubts[0]
        .endswith("ropewalk.toml:1: [providers.p] has no tools: it needs tools or an openapi document")
    )
    App.open(tmp_path, store="memory")
    assert "[providers.p] has no tools" in caplog.text
