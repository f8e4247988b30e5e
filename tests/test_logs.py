"""Logs as JSON lines: what happens in runs, and which run, flow, node and trace any other line belongs to."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from ropewalk import App
from ropewalk.telemetry import instrument
from ropewalk.telemetry.logs import JsonLines, RedactingFormatter, log_as_json

pytestmark = pytest.mark.anyio


class Lines:
    """What is logged, as objects."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def of(self, logger: str) -> list[dict[str, Any]]:
        return [line for line in self.all() if line["logger"] == logger]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """The handler is taken off again, and levels are as before."""
    root, ours = logging.getLogger(), logging.getLogger("ropewalk")
    handlers, level, roots = list(root.handlers), ours.level, root.level
    yield Lines()
    for handler in [one for one in root.handlers if one not in handlers]:
        root.removeHandler(handler)
    ours.setLevel(level)
    root.setLevel(roots)


async def murmur(x: int) -> int:
    await asyncio.sleep(0)
    logging.getLogger("murmur").warning("at %d", x)
    return x


def shrug() -> None:
    raise RuntimeError("no luck")


def call(id: str, tool: str, **params: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": tool, "params": params}


async def test_a_run_is_logged_from_its_start_to_its_end(lines: Lines) -> None:
    flaky = {**call("b", "shrug"), "errorStrategy": "retry", "maxRetries": 1, "retryDelay": 1}
    async with App("memory", tools=[murmur, shrug]) as app:
        log_as_json(app, lines.stream)
        await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "murmur", x=1), flaky]}, run_id="r")
    told = lines.of("ropewalk.runs")
    assert [(line["message"], line.get("node"), line["level"]) for line in told] == [
        ("run.started", None, "info"),
        ("node.finished", "a", "info"),
        ("attempt.failed", "b", "warning"),
        ("attempt.failed", "b@2", "warning"),
        ("node.failed", "b", "warning"),
        ("run.finished", None, "error"),
    ]
    assert {(line["runId"], line["flow"]) for line in told} == {("r", "c")}
    assert (told[0]["notation"], told[1]["tool"], told[-1]["status"]) == ("chain", "murmur", "failed")
    assert (told[4]["error"], told[4]["errorKind"], told[4]["tool"]) == ("no luck", "ExecutionFailed", "shrug")
    assert told[1]["durationMs"] >= 0
    assert told[0]["time"].endswith("Z")


async def test_what_a_tool_logs_says_of_which_run_flow_and_node_it_is(lines: Lines) -> None:
    loop = {"id": "l", "type": "loop", "items": [1, 2, 3], "concurrency": 3, "nodes": [call("in", "murmur", x="$item")]}
    async with App("memory", tools=[murmur]) as app:
        log_as_json(app, lines.stream)
        one = app.run({"kind": "chain", "name": "one", "nodes": [loop]}, run_id="r1")
        two = app.run({"kind": "chain", "name": "two", "nodes": [call("a", "murmur", x=9)]}, run_id="r2")
        await asyncio.gather(one, two)
        logging.getLogger("murmur").warning("outside")
    told = {line["message"]: (line.get("runId"), line.get("flow"), line.get("node")) for line in lines.of("murmur")}
    assert told == {
        "at 1": ("r1", "one", "l[0]/in"),
        "at 2": ("r1", "one", "l[1]/in"),
        "at 3": ("r1", "one", "l[2]/in"),
        "at 9": ("r2", "two", "a"),
        "outside": (None, None, None),
    }


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.WARNING])
async def test_everybody_is_heard_from_the_level_on_and_libraries_beneath_from_warnings_on(
    lines: Lines, level: int
) -> None:
    log_as_json(None, lines.stream, level=level)
    for name in ("mytools", "httpx2"):
        for said in (logging.DEBUG, logging.INFO, logging.WARNING):
            logging.getLogger(name).log(said, "x")
    wanted = [one for one in ("debug", "info", "warning") if getattr(logging, one.upper()) >= level]
    assert [line["level"] for line in lines.of("mytools")] == wanted
    assert [line["level"] for line in lines.of("httpx2")] == (wanted if level == logging.DEBUG else ["warning"])


async def test_lines_carry_the_trace(lines: Lines) -> None:
    async with App("memory", tools=[murmur]) as app:
        instrument(app, tracers=TracerProvider())
        log_as_json(app, lines.stream)
        for id in ("r1", "r2"):
            await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "murmur", x=1)]}, run_id=id)
    traces = {line["runId"]: set() for line in lines.all()}  # type: ignore[var-annotated]
    for line in lines.all():
        traces[line["runId"]].add(line["traceId"])
    assert [len(found) for found in traces.values()] == [1, 1]
    assert traces["r1"] != traces["r2"]
    assert all(len(line["spanId"]) == 16 for line in lines.of("murmur"))


async def test_secrets_are_in_no_line_whoever_logs_them(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWN_API_KEY", "named-by-the-environment")
    monkeypatch.setenv("QUIET", "only-used-by-a-run")

    def says(text: str) -> str:
        logging.getLogger("says").warning("was given %s", text, extra={"fields": {"also": [text]}})
        return text

    async with App("memory", tools=[says], secrets=["QUIET"]) as app:
        log_as_json(app, lines.stream)
        await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "says", text="$secret.QUIET")]})
    logging.getLogger("says").error("key %s", "named-by-the-environment", exc_info=ValueError("only-used-by-a-run"))
    first, second = lines.of("says")
    assert (first["message"], first["also"]) == ("was given ***", ["***"])
    assert second["message"] == "key ***"
    assert second["exception"].endswith("ValueError: ***")


async def test_of_secrets_inside_each_other_no_rest_is_logged(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "tok-12345")
    monkeypatch.setenv("B_KEY", "tok-12345-extended-PRIVATE")
    monkeypatch.setenv("C_KEY", "PRIVATE-too")
    async with App("memory") as app:
        log_as_json(app, lines.stream)
        log = logging.getLogger("says")
        log.warning("one %s, two %s", "tok-12345", "tok-12345-extended-PRIVATE")
        log.warning("together %s", "tok-12345-extended-PRIVATE-too")
        log.warning("in JSON %s", json.dumps({"x": "tok-12345-extended-PRIVATE"}))
    assert [line["message"] for line in lines.of("says")] == [
        "one ***, two ***", "together ******", 'in JSON {"x": "***"}'
    ]  # fmt: skip


async def test_what_a_resumed_run_has_from_its_record_is_not_logged_again(lines: Lines, tmp_path: Any) -> None:
    chain = {"kind": "chain", "name": "c", "nodes": [call("a", "murmur", x=1), call("b", "shrug")]}
    async with App(str(tmp_path / "s.db"), tools=[murmur, shrug]) as app:
        await app.run(chain, run_id="r")
        log_as_json(app, lines.stream)
        await app.runs.retry("r")
    told = [(line["message"], line.get("node")) for line in lines.of("ropewalk.runs")]
    assert told == [("run.resumed", None), ("node.failed", "b"), ("run.finished", None)]


@pytest.mark.parametrize("formatter", [RedactingFormatter("%(message)s"), JsonLines()], ids=["text", "json"])
def test_text_of_a_server_in_a_log_is_escaped(formatter: logging.Formatter) -> None:
    text = "evil: \u202etxt.exe \x9b31m \x1b[2J"
    line = formatter.format(logging.makeLogRecord({"msg": "%s", "args": (text,), "levelname": "INFO"}))
    assert {"\u202e", "\x9b", "\x1b"}.isdisjoint(line)
    assert "\\u202etxt.exe" in line
