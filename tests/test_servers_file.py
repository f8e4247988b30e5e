"""The mcpServers JSON that other programs share: what is wrong in it, what is odd, what is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.config.project import read_config
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
    key = said.split("'")[1]
    column = (tmp_path / ".mcp.json").read_text().index(f'"{key}"') + 1
    assert config.failures == {"a": f"{tmp_path / '.mcp.json'}:1:{column}: {said}"}
    assert list(config.servers) == ["b"]
    assert not config.warnings


def test_keys_of_other_programs_and_comments_are_left_alone(tmp_path):
    foreign = {"type": "stdio", "transport": "stdio", "autoApprove": [], "alwaysAllow": [], "envFile": ".env"}
    config = read(tmp_path, {"a": {"command": "x", "description": "d", **foreign, "_note": 1, "$schema": "s", "//": 2}})
    assert (config.failures, config.warnings) == ({}, ())
    assert list(config.servers) == ["a"]


def test_any_other_unknown_key_is_a_warning(tmp_path, caplog):
    config = read(tmp_path, {"a": {"command": "x", "zzz": 1}})
    assert list(config.servers) == ["a"]
    assert config.warnings[0].startswith(
        f"{tmp_path / '.mcp.json'}:1:39: server 'a': unknown key 'zzz' is not read; known are"
    )
    App.open(tmp_path, store="memory")
    assert "unknown key 'zzz'" in caplog.text


def test_what_stands_twice_is_an_error(tmp_path):
    twice = '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "a": {"command": "z"}}}'
    config = read(tmp_path, twice)
    assert list(config.servers) == ["b"]
    assert config.failures["a"].endswith(".mcp.json:1:63: is defined twice")
    config = read(tmp_path, '{"mcpServers": {"a": {"command": "x", "env": {"K": "1", "K": "2"}}}}')
    assert config.failures["a"].endswith(".mcp.json:1:57: K is defined twice")
    with pytest.raises(ConfigError, match="mcpServers is defined twice"):
        read(tmp_path, '{"mcpServers": {}, "mcpServers": {}}')
    assert "must be an object" in read(tmp_path, {"a": None}).failures["a"]
    assert read(tmp_path, '{"other": {"k": 1, "k": 2}, "mcpServers": {"a": {"command": "x"}}}').servers["a"]


def test_a_provider_without_tools_is_told(tmp_path, caplog):
    (tmp_path / "ropewalk.toml").write_text('[providers.p]\nurl = "http://127.0.0.1:1"\n')
    assert (
        read_config(tmp_path)
        .warnings[0]
        .endswith("ropewalk.toml:1: [providers.p] has no tools: it needs tools or an openapi document")
    )
    App.open(tmp_path, store="memory")
    assert "[providers.p] has no tools" in caplog.text


SERVERS = """{"mcpServers": {
  "many": {
    "command": "x",
    "env": {"K": 1}
  },
  "number": 5,
  "both": {"command": "x", "url": "http://x"},
  "old": {"url": "http://x",
          "type": "sse"},
  "again": {"command": "x"},
  "again": {"command": "x"},
  "good": {"command": "x"}
}}
"""


def test_every_fault_of_a_server_has_its_place(tmp_path):
    config = read(tmp_path, SERVERS)
    file = tmp_path / ".mcp.json"
    assert list(config.servers) == ["good"]
    assert dict(config.failures) == {
        "many": f"{file}:4:5: env must be a table of texts",
        "number": f"{file}:6:3: must be an object with a command or a url",
        "both": f"{file}:7:3: needs either a command or a url",
        "old": f"{file}:9:11: type sse is the transport of 2024; use the server's streamable HTTP address",
        "again": f"{file}:11:3: is defined twice",
    }


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ('{"x": 1}', 1, 1, "needs {"),
        ('{"x": 1,\n "mcpServers": []}', 2, 2, "needs {"),
        ('{"mcpServers": {},\n "mcpServers": {}}', 2, 2, "mcpServers is defined twice"),
        ('{"mcpServers": {\n},}', 2, 2, "a comma before"),
        ('{"mcpServers":\n' + "[" * 100_000 + "]" * 100_000 + "}", 2, 64, "nested deeper than 64"),
        ("", 1, 1, "the document is empty"),
    ],
)
def test_a_file_that_lists_no_servers_is_an_error_with_its_place(tmp_path, text, line, column, said):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert caught.value.place is not None
    assert (caught.value.place.line, caught.value.place.column) == (line, column)
    assert said in str(caught.value)


def test_a_byte_order_mark_is_no_fault_and_other_bytes_have_their_place(tmp_path):
    servers = b'{"mcpServers": {"a": {"command": "x"}}}'
    (tmp_path / ".mcp.json").write_bytes(b"\xef\xbb\xbf" + servers)
    assert list(read_config(tmp_path, environ={}).servers) == ["a"]
    (tmp_path / ".mcp.json").write_bytes(b"{\n" + b"\xff}")
    with pytest.raises(ConfigError, match=r"\.mcp\.json:2:1: byte 0xff is not UTF-8"):
        read_config(tmp_path, environ={})
