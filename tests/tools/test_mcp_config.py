"""What a server's configuration may say; every mistake is told with what would be right."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.config.secrets import Secrets
from ropewalk.errors import ConfigError
from ropewalk.tools.mcp.config import child_environment, resolved, server_config
from ropewalk.tools.mcp.servers import McpServers


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({}, "needs either command (a program) or url (an address), and not both"),
        ({"command": "x", "url": "http://x"}, "and not both"),
        ({"comand": "x"}, "unknown key 'comand'; did you mean 'command'?"),
        ({"command": "x", "zzz": 1}, "unknown key 'zzz'; known keys: command, args"),
        ({"command": "x", "headers": {}}, "headers cannot be combined with command"),
        ({"url": "http://x/", "env": {}}, "env cannot be combined with url"),
        ({"command": ""}, "command must be the name or path of one program"),
        ({"command": ["npx", "x"]}, "command must be the name or path of one program"),
        ({"command": "x", "args": "-y server"}, "args must be a list of strings (no shell reads them)"),
        ({"command": "x", "args": ["a", 1]}, "args[1] must be a string"),
        ({"command": "x", "args": ["a\0b"]}, "args[0] must be a string without NUL"),
        ({"command": "x", "env": {"A": 1}}, "env.A must be a string, not int"),
        ({"command": "x", "env": {"A=B": "c"}}, "env: 'A=B' cannot be a name"),
        ({"command": "x", "env": ["A"]}, "env must be a table of strings, not list"),
        ({"command": "x", "cwd": 3}, "cwd must be a path"),
        ({"command": "x", "timeout": 0}, "timeout must be a number of seconds above 0"),
        ({"command": "x", "connect_timeout": True}, "connect_timeout must be a number of seconds above 0"),
        ({"command": "x", "timeout": float("nan")}, "timeout must be a number of seconds above 0"),
        ({"command": "x", "mode": "legcy"}, "is not one of auto, legacy, 2026-07-28; did you mean legacy?"),
        ({"url": "ftp://x/"}, "url must be an http or https address"),
        ({"url": "file:///etc/passwd"}, "url must be an http or https address"),
        ({"url": "javascript:alert(1)"}, "url must be an http or https address"),
        ({"url": "http:///mcp"}, "url must be an http or https address"),
        ({"url": "http://x:99999/"}, "url must be an http or https address"),
        ({"url": "http://x/\r\nHost: y"}, "url must be an http or https address"),
        ({"url": None}, "url must be an http or https address"),
        ({"url": "http://x/", "headers": {"A B": "c"}}, "headers: 'A B' is not a valid header"),
        ({"url": "http://x/", "headers": {"A": "b\r\nC: d"}}, "headers: 'A' is not a valid header"),
        ("npx", "expected a table of settings, not str"),
    ],
)
def test_a_mistake_is_named(config: Any, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        McpServers().add("git", config)
    assert str(caught.value).startswith("MCP server 'git': ")
    assert complaint in str(caught.value)


def test_adding_twice_is_fine_only_when_it_says_the_same() -> None:
    mcp = McpServers()
    mcp.add("git", {"command": "x"})
    mcp.add("git", {"command": "x", "timeout": 60})
    with pytest.raises(ConfigError, match="already configured with other settings"):
        mcp.add("git", {"command": "y"})
    with pytest.raises(ConfigError, match="needs a name"):
        mcp.add("", {"command": "y"})
    assert mcp.names == ["git"]


def test_variables_are_read_late_and_a_missing_one_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    config = server_config("web", {"url": "https://x/", "headers": {"Authorization": "Bearer ${WEB_TOKEN}"}})
    with pytest.raises(ConfigError, match=r"headers.Authorization reads \$\{WEB_TOKEN\}, which is not set"):
        resolved(config, "headers")
    monkeypatch.setenv("WEB_TOKEN", "abcdef")
    secrets = Secrets(read=frozenset({"abcdef"}), named=frozenset({"abcdef"}))
    assert resolved(config, "headers") == ({"Authorization": "Bearer abcdef"}, secrets)
    monkeypatch.setenv("WEB_TOKEN", "abc\r\nHost: evil")
    with pytest.raises(ConfigError, match="line break"):
        resolved(config, "headers")


def test_a_value_from_the_environment_is_not_read_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "${INNER}")
    monkeypatch.setenv("INNER", "secret")
    config = server_config("x", {"command": "x", "env": {"A": "${OUTER}", "B": "${NONE:-${OUTER}}", "C": "$OUTER"}})
    env, _ = child_environment(config)
    assert (env["A"], env["C"]) == ("${INNER}", "$OUTER")
    assert "secret" not in str(env)


def test_secrets_are_not_shown_by_repr() -> None:
    config = server_config("x", {"command": "x", "env": {"TOKEN": "s3cret"}})
    assert "s3cret" not in repr(config)
