"""`--log json`: nothing but JSON lines on standard error."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from typing import Any

import pytest
from mcp_project import COMMAND, Served, served

import fork_server

pytestmark = pytest.mark.process

__all__ = ["served"]
QUIET = """
import logging
from ropewalk import tool

@tool
def hum(text: str) -> str:
    for level in ("debug", "info", "warning"):
        getattr(logging.getLogger("hum"), level)("%s at %s", text, level)
    return text
"""
HUM = "kind: chain\nname: h\nnodes: [{id: a, type: tool, tool: hum, params: {text: la}}]\n"


@pytest.fixture
def quiet(project: Any) -> Any:
    """A project whose tools print nothing."""
    project.write("rw_cli_tools.py", QUIET)
    project.write("hum.yaml", HUM)
    return project


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_is_told_as_lines_and_its_result_is_where_it_was(project: Any) -> None:
    done = project("run", "shout.yaml", "--input", '{"text": "a"}', "--log", "json", "--json", "--id", "r")
    assert (done.code, done.data["result"]) == (0, {"up": "A!"})
    told = [line for line in done.err.splitlines() if line.startswith("{")]
    assert [json.loads(line)["message"] for line in told] == [
        "run.started", "noise on stdout", "node.finished", "run.finished",
    ]  # fmt: skip
    assert {json.loads(line)["runId"] for line in told} == {"r"}
    rest = [line for line in done.err.splitlines() if not line.startswith("{")]
    assert set(rest) <= {"tools imported", "noise of a child"}  # what the tools themselves print


def test_plain_lines_stay_as_they_were(project: Any) -> None:
    done = project("run", "shout.yaml", "--input", '{"text": "a"}')
    assert "✓ up" in done.err
    assert "run.started" not in done.err


def test_a_call_by_mcp_is_logged(served: Served) -> None:
    served.write("wrapped.sh", "exec ropewalk mcp --log json 2>log\n")
    config = {**served.config(), "command": "sh", "args": ["wrapped.sh"]}

    async def case() -> None:
        from ropewalk.tools.mcp.servers import McpServers

        servers = McpServers()
        servers.add("here", config)
        async with servers:
            assert (await servers.call_tool("here", "broken", {})).is_error

    asyncio.run(case())
    told = [line for line in (served.home / "log").read_text().splitlines() if line.startswith("{")]
    failed = next(json.loads(line) for line in told if json.loads(line)["message"] == "node.failed")
    assert (failed["flow"], failed["node"], failed["error"]) == ("broken", "off", "the mill is closed")


@pytest.mark.parametrize(
    ("more", "runs", "hums"),
    [
        ((), ["run.started", "node.finished", "run.finished"], ["la at info", "la at warning"]),
        (("--log-level", "warning"), [], ["la at warning"]),
        (("--log-level", "error"), [], []),
    ],
)
def test_the_level_is_that_of_all_loggers(quiet: Any, more: tuple[str, ...], runs: list[str], hums: list[str]) -> None:
    told = lines(quiet("run", "hum.yaml", "--log", "json", *more).err)
    assert [line["message"] for line in told if line["logger"] == "ropewalk.runs"] == runs
    assert [line["message"] for line in told if line["logger"] == "hum"] == hums


def test_the_level_is_that_of_the_environment_unless_said_and_holds_for_plain_lines(quiet: Any) -> None:
    told = lines(quiet("run", "hum.yaml", "--log", "json", ROPEWALK_LOG_LEVEL="debug").err)
    assert "node.started" in [line["message"] for line in told]
    assert "la at debug" in [line["message"] for line in told]
    for words, env, said in (
        ((), {}, ["la at warning"]),
        (("--log-level", "info"), {}, ["la at info", "la at warning"]),
        ((), {"ROPEWALK_LOG_LEVEL": "INFO"}, ["la at info", "la at warning"]),
        (("--log-level", "error"), {"ROPEWALK_LOG_LEVEL": "info"}, []),
    ):
        err = quiet("run", "hum.yaml", *words, **env).err
        assert [line for line in err.splitlines() if line.startswith("la at")] == said
    wrong = quiet("run", "hum.yaml", ROPEWALK_LOG_LEVEL="loud")
    assert (wrong.code, "ROPEWALK_LOG_LEVEL=loud: one of debug, info, warning, error" in wrong.err) == (2, True)


@pytest.mark.parametrize("level", ["info", "error"])
def test_what_is_wrong_is_a_line_too(quiet: Any, level: str) -> None:
    quiet.write("wrong.yaml", HUM.replace("tool: hum", "tool: hem"))
    quiet.write("broken.toml/ropewalk.toml", "[stor]\n")
    for words, code, kind in (
        (("run", "wrong.yaml"), 3, "InvalidFlow"),
        (("run", "hum.yaml", "--nonsense"), 2, "UsageError"),
        (("mcp", "-C", "broken.toml"), 2, "ConfigError"),
    ):
        done = quiet(*words, "--log", "json", "--log-level", level)
        [line] = lines(done.err)
        assert (done.code, line["level"], line["errorKind"], line["exitCode"]) == (code, "error", kind, code)


def test_every_event_is_a_line_with_watch(quiet: Any) -> None:
    told = lines(quiet("run", "hum.yaml", "--log", "json", "--log-level", "error", "--watch", "--id", "r").err)
    assert {line["runId"] for line in told} == {"r"}
    assert [line["message"] for line in told][-2:] == ["node.finished", "run.finished"]


@pytest.mark.parametrize("words", [("mcp", "--http", "0"), ("serve", "--port", "0")])
def test_servers_say_nothing_but_json_on_standard_error(quiet: Any, words: tuple[str, ...]) -> None:
    log, out = quiet.home / "log", quiet.home / "out"
    with log.open("w") as err, out.open("w") as std:
        server = fork_server.Popen(
            [COMMAND, *words, "--log", "json", "--log-level", "error"],
            cwd=quiet.home,
            env=quiet.env(),
            stdin=subprocess.DEVNULL,
            stdout=std,
            stderr=err,
        )
    try:
        while "http" not in log.read_text() + out.read_text():
            assert server.poll() is None
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(50) == 0
    told = [line["message"] for line in lines(log.read_text())]
    if words[0] == "mcp":
        assert told[0].startswith("offering 1 flow: ")
        assert told[1].startswith("not offered: shout.yaml; ")
        assert told[2].startswith("MCP server at http://127.0.0.1:")
        assert told[3].startswith("clients send: Authorization: Bearer ")
    else:
        assert told == []
