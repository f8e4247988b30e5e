# ruff: noqa: E501 - files of other programs, in few lines
"""Configuration files of other programs: what is read, what is left out and why, and what never stops a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agreement import AGREED
from ropewalk import App
from ropewalk.config.project import read_config
from ropewalk.config.servers_file import ServersFile, read_servers_file


def read(place: Path, servers: Any, **environ: str) -> Any:
    (place / ".mcp.json").write_text(servers if isinstance(servers, str) else json.dumps({"mcpServers": servers}))
    return read_config(place, environ={**AGREED, **environ})


# A file name, its text, the settings of its servers, and what is said about those that are left out.
PUBLIC: dict[str, tuple[str, str, dict[str, Any], dict[str, str]]] = {
    "claude desktop": (
        "claude_desktop_config.json",
        '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "files", "/srv"]}}, "globalShortcut": "Ctrl+Q"}',
        {"files": {"command": "npx", "args": ["-y", "files", "/srv"]}},
        {},
    ),
    "claude code": (
        ".mcp.json",
        """{"mcpServers": {
          "hub": {"type": "http", "url": "${HUB:-https://hub.example}/mcp?a=1//b", "headers": {"X-Key": "${KEY}"}},
          "old": {"type": "sse", "url": "https://old.example/sse"},
          "sock": {"type": "ws", "url": "wss://sock.example"},
          "slow": {"command": "slow", "request_timeout_ms": 600000, "headersHelper": "x", "alwaysLoad": true},
          "here": {"command": "${CLAUDE_PROJECT_DIR:-.}/bin/x", "args": ["${CLAUDE_PLUGIN_ROOT}/y", "$HOME"]},
          "helped": {"type": "http", "url": "https://h.example", "headersHelper": "touch ran"}}}""",
        {
            "hub": {"url": "${HUB:-https://hub.example}/mcp?a=1//b", "headers": {"X-Key": "${KEY}"}},
            "slow": {"command": "slow", "timeout": 600.0},
            "here": {"command": "HERE/bin/x", "args": ["HERE/y", "$HOME"]},
        },
        {
            "old": "use the server's streamable HTTP address", "sock": "type ws is not supported",
            "helped": "a command makes the headers of this server, and no such command is run",
        },
    ),
    "a plugin of claude code": (".mcp.json", '{"db": {"command": "db", "args": []}}', {"db": {"command": "db", "args": []}}, {}),
    "vs code": (
        ".vscode/mcp.json",
        """// servers of this workspace
        {
          "inputs": [{"type": "promptString", "id": "api-key", "description": "Key // of the API", "password": true},
                     {"type": "pickString", "id": "level", "options": ["a", "b"], "default": "a"},
                     {"type": "command", "id": "c", "command": "run.me"},],
          "servers": { /* two
                          comments */
            "api": {"type": "http", "url": "https://api.example//v1", "headers": {"Authorization": "Bearer ${input:api-key}"},},
            "local": {"type": "stdio", "command": "${workspaceFolder}/bin/x", "args": ["--level", "${input:level}", 8080, true],
                      "env": {"PORT": 80, "HOME_OF": "${env:USER}", "NONE": null}, "dev": {"watch": "*"}},
            "asks": {"command": "x", "args": ["${input:c}"]},
            "configured": {"command": "x", "args": ["${config:python.path}"]},
            "boxed": {"command": "x", "sandboxEnabled": true},
          },
        }""",
        {
            "api": {
                "url": "https://api.example//v1",
                "headers": {"Authorization": "Bearer ${ROPEWALK_SECRET_API_KEY}"},
            },
            "local": {
                "command": "HERE/bin/x",
                "args": ["--level", "${ROPEWALK_INPUT_LEVEL:-a}", "8080", "true"],
                "env": {"PORT": "80", "HOME_OF": "${USER}"},
                "cwd": "HERE",
            },
        },
        {
            "asks": "runs a command of another program",
            "configured": "${config:python.path} is filled in by another program only",
            "boxed": "demands a sandbox",
        },
    ),
    "settings of vs code": (
        "settings.json",
        '{"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"a": {"command": "a"}}}}',
        {"a": {"command": "a"}},
        {},
    ),
    "flat settings of vs code": ("settings.json", '{"mcp.servers": {"a": {"command": "a"}}}', {"a": {"command": "a"}}, {}),
    "cursor": (
        ".cursor/mcp.json",
        '{"mcpServers": {"a": {"command": "a", "envFile": "${workspaceFolder}/.env", "env": {"TWO": "2"}}, '
        '"gone": {"command": "a", "envFile": "gone.env"}}}',
        {"a": {"command": "a", "env": {"ONE": "first # one", "TWO": "2", "THREE": "3"}, "cwd": "HERE"}},
        {"gone": "envFile: 'gone.env' is not a file"},
    ),
    "windsurf": (
        "mcp_config.json",
        '{"mcpServers": {"far": {"serverUrl": "https://far.example/mcp", "disabledTools": ["drop", "wipe"]}, '
        '"off": {"command": "x", "disabled": true}}}',
        {"far": {"url": "https://far.example/mcp", "exclude_tools": ["drop", "wipe"]}},
        {},
    ),
    "cline": (
        "cline_mcp_settings.json",
        '{"mcpServers": {"hour": {"command": "x", "autoApprove": ["a"], "disabled": false, "timeout": 3600}, '
        '"net": {"type": "streamableHttp", "url": "https://h.example", "networkTimeout": 30}}}',
        {"hour": {"command": "x", "timeout": 3600}, "net": {"url": "https://h.example", "timeout": 30}},
        {},
    ),
    "roo": (
        ".roo/mcp.json",
        '{"mcpServers": {"a": {"type": "streamable-http", "url": "https://h.example", "alwaysAllow": [], '
        '"disabledTools": ["b"], "timeout": 60, "watchPaths": ["x"]}}}',
        {"a": {"url": "https://h.example", "exclude_tools": ["b"], "timeout": 60}},
        {},
    ),
    "gemini": (
        ".gemini/settings.json",
        '{"mcp": {"allowed": ["a", "c", "d"], "excluded": ["d"]}, "mcpServers": {'
        '"a": {"httpUrl": "https://a.example/mcp", "url": "https://a.example/sse", "timeout": 500, "trust": true, '
        '"includeTools": ["look", "find"], "excludeTools": ["find"]}, "b": {"command": "b"}, '
        '"c": {"command": "c", "includeTools": ["run(ls)"]}, "d": {"command": "d"}}}',
        {
            "a": {
                "url": "https://a.example/mcp",
                "timeout": 0.5,
                "tools": ["look", "find"],
                "exclude_tools": ["find"],
            }
        },
        {"c": "limits the arguments of a tool"},
    ),
    "variables of gemini": (
        ".gemini/settings.json",
        '{"mcpServers": {"a": {"command": "$HOME/x", "args": ["-c", "for f in *; do echo $f $1; done"], "timeout": 900, '
        '"env": {"KEY": "$KEY_A", "PASS": "pa$word", "FULL": "${B}-$C"}}, '
        '"b": {"url": "https://$HOST/mcp", "headers": {"X": "Bearer $TOKEN"}}, '
        '"e": {"command": "e", "cwd": "$HOME/e"}, "f": {"command": "f", "cwd": "sub"}, "g": {"httpUrl": "https://g.example", "authProviderType": "google_credentials"}}}',
        {
            "a": {
                "command": "${HOME:-$HOME}/x", "args": ["-c", "for f in *; do echo ${f:-$f} $1; done"], "timeout": 0.9,
                "env": {"KEY": "${KEY_A}", "PASS": "pa${word:-$word}", "FULL": "${B}-${C}"}, "cwd": "HERE",
            },
            "b": {"url": "https://${HOST}/mcp", "headers": {"X": "Bearer ${TOKEN}"}},
            "e": {"command": "e", "cwd": "${HOME}/e"},
            "f": {"command": "f", "cwd": "HERE/sub"},
        },
        {"g": "its login is one of another program"},
    ),
    "an extension of gemini": (
        "gemini-extension.json",
        '{"name": "x", "mcpServers": {"a": {"command": "node", "args": ["${extensionPath}${/}a.js", "${workspacePath}"]}}}',
        {"a": {"command": "node", "args": ["HERE/a.js", "HERE"]}},
        {},
    ),
    "copilot": (
        "mcp-config.json",
        '{"mcpServers": {"all": {"type": "local", "command": "a", "tools": ["*"]}, "some": {"type": "http", '
        '"url": "https://s.example", "tools": ["a"], "headers": {"K": "$COPILOT_MCP_K", "L": "$OTHER"}}, '
        '"none": {"command": "n", "tools": []}}}',
        {
            "all": {"command": "a"},
            "some": {"url": "https://s.example", "tools": ["a"], "headers": {"K": "${COPILOT_MCP_K}", "L": "$OTHER"}},
            "none": {"command": "n", "tools": []},
        },
        {},
    ),
    "zed": (
        "settings.json",
        '{"theme": "One", // dark\n "context_servers": {"old": {"command": {"path": "x", "args": ["1"], "env": {"A": "b"}}, '
        '"settings": {}}, "new": {"source": "custom", "command": "y", "args": [], "enabled": true}, '
        '"off": {"enabled": false, "command": "z"}, "ext": {"source": "extension", "settings": {}}}}',
        {"old": {"command": "x", "args": ["1"], "env": {"A": "b"}}, "new": {"command": "y", "args": []}},
        {"ext": "needs either a command or a url"},
    ),
    "opencode": (
        "opencode.jsonc",
        '{"$schema": "s", "mcp": {"l": {"type": "local", "command": ["bun", "x", "srv"], "environment": {"A": "1"}, '
        '"enabled": true}, "r": {"type": "remote", "url": "https://r.example", "timeout": 500, "headers": '
        '{"Authorization": "Bearer {env:KEY}"}}, "f": {"type": "remote", "url": "https://f.example", "headers": '
        '{"K": "{file:~/.key}"}}, "off": {"type": "local", "command": ["o"]}}, "tools": {"r_drop*": false, "off*": false, '
        '"l_*": true}}',
        {
            "l": {"command": "bun", "args": ["x", "srv"], "env": {"A": "1"}},
            "r": {
                "url": "https://r.example", "timeout": 0.5, "headers": {"Authorization": "Bearer ${KEY}"},
                "exclude_tools": ["drop*"],
            },
        },
        {"f": "{file:~/.key} is filled in by another program only"},
    ),
    "opencode 2": (
        "opencode.json",
        '{"mcp": {"servers": {"l": {"type": "local", "command": ["x"], "cwd": ".", "timeout": {"startup": 9000, '
        '"request": 60000}}, "off": {"type": "local", "command": ["y"], "disabled": true}}}}',
        {"l": {"command": "x", "args": [], "cwd": ".", "connect_timeout": 9.0, "timeout": 60.0}},
        {},
    ),
    "amazon q": (
        ".amazonq/mcp.json",
        '{"mcpServers": {"q": {"command": "q", "timeout": 120000, "autoApprove": [], "disabledTools": ["x"]}}}',
        {"q": {"command": "q", "timeout": 120.0, "exclude_tools": ["x"], "cwd": "HERE"}},
        {},
    ),
    "an agent of amazon q": (
        ".amazonq/agent.json",
        '{"name": "a", "mcpServers": {"git": {"command": "g"}, "some": {"command": "s", "timeout": 500}, '
        '"unused": {"command": "u"}}, "tools": ["fs_read", "@git", "@some/look"], "allowedTools": ["@some"]}',
        {
            "git": {"command": "g", "cwd": "HERE"},
            "some": {"command": "s", "timeout": 0.5, "tools": ["look"], "cwd": "HERE"},
        },
        {},
    ),
    "kiro": (
        ".kiro/settings/mcp.json",
        '{"mcpServers": {"a": {"command": "a", "disabledTools": ["x"], "timeout": 600}}}',
        {"a": {"command": "a", "exclude_tools": ["x"], "timeout": 0.6, "cwd": "HERE"}},
        {},
    ),
    "junie": (".junie/mcp/mcp.json", '{"mcpServers": {"a": {"command": "a"}}}', {"a": {"command": "a", "cwd": "HERE"}}, {}),
    "lm studio": (
        "mcp.json",
        '{"mcpServers": {"hf": {"url": "https://h.example/mcp", "headers": {"Authorization": "Bearer t"}}}}',
        {"hf": {"url": "https://h.example/mcp", "headers": {"Authorization": "Bearer t"}}},
        {},
    ),
    "a transport of its own": (
        "mcp.json",
        '{"mcpServers": {"a": {"disabled": false, "transport": {"type": "http", "url": "https://a.example", "headers": {"K": "1"}}}}}',
        {"a": {"url": "https://a.example", "headers": {"K": "1"}}},
        {},
    ),
    "codex": (
        "config.toml",
        '[mcp_servers.a]\ncommand = "a"\nargs = ["1"]\nenv_vars = ["TOKEN", {name = "T2", source = "local"}]\nenabled_tools = ["x", "y"]\n'
        'disabled_tools = ["y"]\nstartup_timeout_sec = 20\ntool_timeout_sec = 45.5\n'
        'default_tools_approval_mode = "approve"\n[mcp_servers.a.tools.x]\napproval_mode = "prompt"\n'
        '[mcp_servers.b]\nurl = "https://b.example"\nbearer_token_env_var = "TOKEN"\n'
        'http_headers = {"X-A" = "1"}\nenv_http_headers = {"X-B" = "B"}\n[mcp_servers.c]\nenabled = false\ncommand = "c"\n',
        {
            "a": {
                "command": "a", "args": ["1"], "env": {"TOKEN": "${TOKEN:-}", "T2": "${T2:-}"}, "tools": ["x", "y"],
                "exclude_tools": ["y"], "connect_timeout": 20, "timeout": 45.5,
            },
            "b": {
                "url": "https://b.example",
                "headers": {"X-A": "1", "X-B": "${B}", "Authorization": "Bearer ${TOKEN}"},
            },
        },
        {},
    ),
    "continue": (
        "config.yaml",
        "name: c\nmcpServers:\n  - name: My Server\n    command: uvx\n    args: [x]\n  - name: local\n    command: y\n"
        "    args: [--token, '${{ secrets.K }}', '{{.Name}}']\n  - name: hidden\n    command: y\n    args: ['${{ inputs.K }}']\n"
        "  - name: web\n    type: streamable-http\n    url: https://w.example\n    apiKey: '${{ secrets.W }}'\n    connectionTimeout: 500\n"
        "    requestOptions: {headers: {X: '1'}, verifySsl: true}\n",
        {
            "My_Server": {"command": "uvx", "args": ["x"]},
            "local": {"command": "y", "args": ["--token", "${K}", "{{.Name}}"]},
            "web": {
                "url": "https://w.example", "headers": {"X": "1", "Authorization": "Bearer ${W}"}, "connect_timeout": 0.5,
            },
        },
        {"hidden": "${{ inputs.K }} is filled in by another program only"},
    ),
    "librechat": (
        "librechat.yaml",
        "mcpServers:\n  a:\n    type: streamable-http\n    url: https://a.example\n    timeout: 60000\n    initTimeout: 15000\n"
        "    headers: {X-K: '${K}'}\n    serverInstructions: true\n  b:\n    url: https://b.example\n"
        "    headers: {X-User: '{{LIBRECHAT_USER_ID}}'}\n  c:\n    url: https://c.example\n    customUserVars: {K: {title: K}}\n",
        {"a": {"url": "https://a.example", "timeout": 60.0, "connect_timeout": 15.0, "headers": {"X-K": "${K}"}}},
        {"b": "{{LIBRECHAT_USER_ID}} is filled in", "c": "belong to the users of another program"},
    ),
    "goose": (
        "config.yaml",
        "extensions:\n  dev: {bundled: true, enabled: true, name: dev, type: builtin}\n"
        "  g: {cmd: uvx, args: [g], enabled: true, envs: {A: b}, type: stdio, timeout: 300, available_tools: [t]}\n",
        {"g": {"command": "uvx", "args": ["g"], "env": {"A": "b"}, "timeout": 300, "tools": ["t"]}},
        {},
    ),
    "names that an id cannot have": (
        ".mcp.json",
        '{"mcpServers": {"my server": {"command": "a"}, "my_server": {"command": "b"}, "io.github.x/y": {"command": "c"}}}',
        {
            "my_server_b129874b": {"command": "a"},
            "my_server": {"command": "b"},
            "io.github.x_y": {"command": "c"},
        },
        {},
    ),
    "wrong parts of other programs": (
        ".mcp.json",
        '{"mcpServers": {"vars": {"command": "x", "env_vars": 5}, "letters": {"command": "x", "env_vars": "TOKEN"}, '
        '"list": {"url": "http://h", "env_http_headers": ["X"]}, "hole": {"url": "http://h", "env_http_headers": {"X": "A}${B"}}, '
        '"key": {"url": "http://h", "apiKey": null, "requestOptions": "x"}, "filter": {"command": "x", "disabledTools": "a, b"}, '
        '"ok": {"type": "http", "url": "http://h", "apiKey": 5}}, "tools": ["read", "write"]}',
        {"ok": {"url": "http://h", "headers": {"Authorization": "Bearer 5"}}},
        {
            "vars": "env_vars must be a list of names", "letters": "env_vars must be a list of names",
            "list": "env_http_headers must be a table of texts", "hole": "must hold names of environment variables",
            "key": "requestOptions must be an object", "filter": "disabledTools must be a list of names",
        },
    ),
    "a filter of servers that cannot be read": (
        ".gemini/settings.json",
        '{"mcp": {"allowed": "a"}, "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}',
        {},
        {"a": "mcp.allowed must be a list of names of servers", "b": "mcp.allowed must be a list of names of servers"},
    ),
    "two forms in one file": (
        ".mcp.json",
        '{"mcpServers": {"a": {"command": "a"}}, "servers": {"a": {"command": "other"}, "b": {"command": "b"}}}',
        {"a": {"command": "a"}, "b": {"command": "b"}},
        {},
    ),
    "wrong parts": (
        ".mcp.json",
        '{"mcpServers": {"n": 5, "e": {}, "env": {"command": "x", "env": ["A"]}, "arg": {"command": "x", "args": [null]}, '
        '"args": {"command": "x", "args": "a b"}, "filter": {"command": "x", "disabledTools": "a, b", "tools": {"t": {}}}, '
        '"off": {"command": "x", "disabled": "yes"}, "two": {"url": "http://a", "serverUrl": "http://b"}, '
        '"time": {"command": "x", "timeout": "5 sec"}, "cwd": {"command": "x", "cwd": 5}, "ok": {"command": "x"}}}',
        {"ok": {"command": "x"}},
        {
            "n": "must be an object", "e": "needs either a command or a url", "env": "env must be a table of texts",
            "arg": "args must hold texts and numbers, not null", "args": "args must be a list",
            "filter": "tools must be a list of names", "off": "disabled must be true or false",
            "two": "two different addresses", "time": "timeout must be a number", "cwd": "cwd must be text",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", PUBLIC)
def test_a_file_of_another_program_is_read_as_it_is_meant(tmp_path: Path, form: str) -> None:
    name, text, servers, left_out = PUBLIC[form]
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    (tmp_path / ".env").write_text("# values\nexport ONE=\"first # one\"\nTWO='two'\nTHREE=3 # three\nno line\n")
    found = read_servers_file(file)
    assert found.fault is None
    read = json.loads(json.dumps(found.servers).replace(json.dumps(str(tmp_path))[1:-1], "HERE"))
    assert read == servers
    assert found.left_out.keys() == left_out.keys()
    for server, said in left_out.items():
        assert said in found.left_out[server]
        assert found.left_out[server].startswith((f"{file}:", "Bearer"))


def test_an_input_is_read_from_the_environment_or_the_server_is_left_out(tmp_path: Path) -> None:
    text = PUBLIC["vs code"][1]
    config = read(tmp_path, text, USER="u")
    assert "environment variable ROPEWALK_SECRET_API_KEY is not set (Key // of the API)" in config.failures["api"]
    assert config.servers["local"].args[1] == "a"
    config = read(tmp_path, text, USER="u", ROPEWALK_SECRET_API_KEY="k", ROPEWALK_INPUT_LEVEL="b")
    assert config.servers["local"].args[1] == "b"
    assert "api" in config.servers
    assert found_inputs(tmp_path) == {"ROPEWALK_SECRET_API_KEY": True, "ROPEWALK_INPUT_LEVEL": False}


def found_inputs(place: Path) -> dict[str, bool]:
    return {name: item.is_secret for name, item in read_servers_file(place / ".mcp.json").inputs.items()}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "x", "evn": {"X": "1"}}, "unknown key 'evn'; did you mean 'env'?"),
        ({"command": "x", "arg": ["--local"]}, "unknown key 'arg'; did you mean 'args'?"),
        ({"comand": "x"}, "unknown key 'comand'; did you mean 'command'?"),
        ({"command": "x", "disable": True}, "unknown key 'disable'; did you mean 'disabled'?"),
        ({"command": "x", "disabledTool": ["y"]}, "unknown key 'disabledTool'; did you mean 'disabledTools'?"),
    ],
)
def test_a_key_near_a_known_one_is_an_error_of_that_server(tmp_path: Path, given: Any, said: str) -> None:
    config = read(tmp_path, {"a": given, "b": {"command": "y"}})
    key = said.split("'")[1]
    column = (tmp_path / ".mcp.json").read_text().index(f'"{key}"') + 1
    assert config.failures == {"a": f"{tmp_path / '.mcp.json'}:1:{column}: {said}"}
    assert list(config.servers) == ["b"]
    assert not config.warnings


def test_a_key_near_one_that_decides_nothing_is_a_warning(tmp_path: Path) -> None:
    keys = ("requestTimeout", "disabledReason", "enabledByDefault", "path", "prompts", "permissions", "startupTimeout")
    found = read(tmp_path, {"a": {"command": "x", **dict.fromkeys(keys, 1)}})
    assert (list(found.servers), found.failures, len(found.warnings)) == (["a"], {}, len(keys))
    assert "unknown key 'requestTimeout' is not read; did you mean 'request_timeout_ms'?" in found.warnings[0]


def test_keys_of_other_programs_and_comments_are_left_alone(tmp_path: Path) -> None:
    foreign = {"type": "stdio", "transport": "stdio", "autoApprove": [], "alwaysAllow": [], "oauth": {}}
    config = read(tmp_path, {"a": {"command": "x", "description": "d", **foreign, "_note": 1, "$schema": "s", "//": 2}})
    assert (config.failures, config.warnings) == ({}, ())
    assert list(config.servers) == ["a"]


def test_any_other_unknown_key_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read(tmp_path, {"a": {"command": "x", "zzz": 1}})
    assert list(config.servers) == ["a"]
    assert config.warnings[0].startswith(
        f"{tmp_path / '.mcp.json'}:1:39: server 'a': unknown key 'zzz' is not read; known are"
    )
    monkeypatch.setenv(*next(iter(AGREED.items())))
    App.open(tmp_path, store="memory")
    assert "unknown key 'zzz'" in caplog.text


def test_a_part_that_is_not_obeyed_is_a_warning(tmp_path: Path) -> None:
    codex = {"command": "x", "default_tools_approval_mode": "prompt", "tools": {"t": {"approval_mode": "approve"}}}
    continued = {
        "url": "https://w.example",
        "requestOptions": {"headers": {"X": "1"}, "proxy": "p", "verifySsl": False},
    }
    found = read(
        tmp_path,
        {
            "codex": codex,
            "continue": continued,
            "quiet": {**codex, "default_tools_approval_mode": "auto"},
            "odd": {"command": "x", "type": "grpc"},
        },
    )
    assert [warning.partition(": server ")[2] for warning in found.warnings] == [
        "'codex': the file wants a person to approve calls; only definitions ask for an approval here",
        "'continue': only headers of requestOptions are read, not proxy, verifySsl",
        "'odd': type 'grpc' is not known; the server is read by its command or its address",
    ]
    assert found.servers["codex"].tools is None


def test_what_stands_twice_is_an_error_of_that_server(tmp_path: Path) -> None:
    twice = '{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}, "a": {"command": "z"}}}'
    config = read(tmp_path, twice)
    assert list(config.servers) == ["b"]
    assert config.failures["a"].endswith(".mcp.json:1:63: is defined twice")
    config = read(tmp_path, '{"mcpServers": {"a": {"command": "x", "env": {"K": "1", "K": "2"}}}}')
    assert config.failures["a"].endswith(".mcp.json:1:57: K is defined twice")
    assert read(tmp_path, '{"other": {"k": 1, "k": 2}, "mcpServers": {"a": {"command": "x"}}}').servers["a"]


def test_a_provider_without_tools_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "ropewalk.toml").write_text('[providers.p]\nurl = "http://127.0.0.1:1"\n')
    assert (
        read_config(tmp_path)
        .warnings[0]
        .endswith("ropewalk.toml:1: [providers.p] has no tools: it needs tools or an openapi document")
    )
    App.open(tmp_path, store="memory")
    assert "[providers.p] has no tools" in caplog.text


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ('{"x": 1}', 1, 1, "lists no MCP servers"),
        ('{"x": 1,\n "mcpServers": 5}', 1, 1, "lists no MCP servers"),
        ('{"mcpServers": {},\n "mcpServers": {}}', 2, 2, "mcpServers is defined twice"),
        ('{"mcpServers": {\n', 2, 1, "expected a key"),
        ('{"mcpServers": {}, /* never closed', 1, 35, "expected a key"),
        ('{"mcpServers": {"a": {"command": "x" "y"}}}', 1, 38, "expected ','"),
        ('{"mcpServers":\n' + "[" * 100_000 + "]" * 100_000 + "}", 2, 64, "nested deeper than 64"),
        ("", 1, 1, "the document is empty"),
        ("{\n\udcff}", 2, 1, "byte 0xff is not UTF-8"),
    ],
)
def test_a_fault_of_the_whole_file_has_its_place_and_stops_nothing(
    tmp_path: Path, text: str, line: int, column: int, said: str
) -> None:
    file = tmp_path / ".mcp.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    (tmp_path / "ropewalk.toml").write_text('[mcp.own]\ncommand = "x"\n')
    config = read_config(tmp_path, environ={})
    assert list(config.servers) == ["own"]
    assert config.failures[str(file)].startswith(f"{file}:{line}:{column}: ")
    assert said in config.failures[str(file)]
    assert said in config.warnings[0]


def test_comments_are_found_outside_of_texts_only_and_in_linear_time(tmp_path: Path) -> None:
    text = '\ufeff{"mcpServers": {"a": {"command": "x//y", "args": ["/* no */", "a\\\\", "\\"//", ",]"], /*,}*/}, }, } // end'
    file = tmp_path / ".mcp.json"
    file.write_text(text)
    assert read_servers_file(file).servers == {"a": {"command": "x//y", "args": ["/* no */", "a\\", '"//', ",]"]}}
    for part in ('"\\', "/*", '"', ", ", ",\n\n", "//", '{"a":', '\\"'):
        file.write_text("{" + part * (200_000 // len(part)))
        assert isinstance(read_servers_file(file), ServersFile)


def test_a_file_made_to_take_long_is_refused_in_part_or_whole(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    server = '{"command": "x"}'
    twice = ",".join(f'"a{n % 900}": {server}' for n in range(20_000))
    file.write_text(f'{{"mcpServers": {{{twice}}}}}')
    assert len(read_servers_file(file).left_out) == 900
    file.write_text(json.dumps({"mcpServers": {str(n): {"command": "x"} for n in range(1_001)}}))
    assert "more than 1,000 servers" in str(read_servers_file(file).fault)
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "x", **{f"k{n}": n for n in range(1_000)}}}}))
    assert "more than 200 keys" in read_servers_file(file).left_out["a"]
    file.write_text(" " * 2_000_001)
    assert "larger than 2,000,000 bytes" in str(read_servers_file(file).fault)
