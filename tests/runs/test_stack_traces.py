"""The stack of a failed tool: where it is kept and shown, what it leaves out, and who does not see it."""

from __future__ import annotations

import asyncio
import json
import linecache
import os
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from modules.folder import needs_node, written
from ropewalk import App, tool
from ropewalk.doors.cli.run import summary
from ropewalk.doors.cli.runs import show
from ropewalk.doors.http.site import make_site
from ropewalk.doors.mcp.resources import ProjectResources
from ropewalk.doors.mcp.results import flow_failed
from ropewalk.engine import stack_trace
from ropewalk.errors import FlowFailed
from ropewalk.telemetry import instrument
from ropewalk.tools.backends.http import HttpFailure
from ropewalk.tools.backends.route import ToolReported
from ropewalk.tools.mcp.requests import ServerRefused
from ropewalk.tools.tool import Tool, ToolBackend
from ropewalk.tools.toolbox import Toolbox
from tools.conftest import lab as lab
from tools.mcp_lab import forked

HERE = os.path.relpath(__file__)
RECORD = {"a": 1}


def look_up(key: str) -> int:
    return RECORD[key]


@tool
def in_thread(x: int) -> int:
    """Fails in a thread."""
    return look_up("missing") + x


@tool
async def in_loop(x: int) -> int:
    """Fails in the event loop."""
    await asyncio.sleep(0)
    return look_up("missing") + x


@tool
async def group(x: int) -> int:
    """Fails in a task of its own, with a note and a cause."""

    async def child() -> None:
        try:
            look_up("missing")
        except KeyError as error:
            raise ValueError("no record") from error

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child())
    except ExceptionGroup as error:
        error.add_note("asked for x")
        raise
    return x


MODULE = """\
export default async function count (args) {
  return await total(null)
}
async function total (rows) {
  return rows.length
}
"""
EXPERIENCE = """\
name: broken
version: 0.1.0
state: {schema: {n: {type: number}}}
graph:
  nodes: [{id: b, kind: tool, impl: ./tools/LANGUAGE, writes: [n]}]
"""
PYTHON_MODULE = """\
def count(args):
    return {"state_delta": {"n": args["missing"]}}
"""


def line_of(text: str, file: str = __file__) -> int:
    return next(number for number, line in enumerate(linecache.getlines(file), 1) if text in line)


LOOK_UP = f"{HERE}:{line_of('return RECORD[key]')} in look_up"
FRAME = (
    f"  File \"{HERE}\", line {line_of('return RECORD[key]')}, in look_up\n    return RECORD[key]\nKeyError: 'missing'"
)


def chain(name: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "chain",
        "name": "c",
        "nodes": [{"id": "b", "type": "tool", "tool": name, "params": {"x": 1}, **more}],
    }


class Doors:
    """What each interface shows of one failed run."""

    def __init__(self, folder: Path, definition: Any, toolbox: Toolbox) -> None:
        self.store = f"sqlite:///{folder / 'runs.db'}"
        self.exporter = InMemorySpanExporter()
        asyncio.run(self._run(definition, toolbox))
        asyncio.run(self._read_again())
        self.shown = str(show("r", store=self.store).text)

    async def _run(self, definition: Any, toolbox: Toolbox) -> None:
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        async with toolbox, App(self.store, toolbox=toolbox) as app:
            instrument(app, tracers=tracers)
            outcome = await app.run(definition, run_id="r")
        self.error = outcome.errors[0]
        self.line = summary(outcome.to_dict(), {})
        with pytest.raises(FlowFailed) as caught:
            outcome.raise_if_failed()
        self.failed = caught.value

    async def _read_again(self) -> None:
        """Read what is recorded, as another process would."""
        async with App(self.store) as app:
            transport = httpx2.ASGITransport(make_site(app, "t"))
            head = {"Authorization": "Bearer t"}
            async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=head) as client:
                self.http = (await client.get("/api/runs/r")).json()
            resource = await ProjectResources(app, dict, ["runs"]).read("ropewalk://runs/r")
            self.mcp = json.loads(resource.contents[0].text)

    @property
    def exception(self) -> dict[str, Any]:
        """The span event of the node's exception."""
        events = [event for span in self.exporter.get_finished_spans() for event in span.events]
        [event] = [event for event in events if event.name == "exception"]
        return dict(event.attributes or {})


def checked(doors: Doors, at: str | None, ends: str, cause: type[BaseException] | None) -> str:
    """Check that every interface shows the same stack and the same place, and return the stack."""
    stack = str(doors.error["stack"])
    assert ends in stack
    assert doors.error.get("at") == at
    failures = [doors.error]
    for run in (doors.http, doors.mcp):
        failures += [run["errors"][0], run["nodes"][-1]["error"]]
    assert {(failure.get("at"), failure["stack"]) for failure in failures} == {(at, stack)}
    assert doors.exception["exception.stacktrace"] == stack
    assert stack.replace("\n", "\n  ") in doors.shown
    if at is not None:
        assert at.partition(" ")[0] in doors.line
        assert doors.line.count(at.partition(" ")[0]) == 1
    if cause is not None:
        assert type(doors.failed.__cause__) is cause
    # An MCP client that called the flow, which may be a model, sees only the message.
    answer = flow_failed(doors.failed).model_dump_json()
    assert stack.splitlines()[-1] not in answer or stack.splitlines()[-1] == doors.error["message"]
    assert "stack" not in answer
    assert '"at"' not in answer
    return stack


@pytest.mark.parametrize("function", [in_thread, in_loop])
def test_a_function_shows_its_frames_at_every_door(tmp_path: Path, function: Any) -> None:
    toolbox = Toolbox()
    toolbox.register_all([function])
    name = function.__name__
    doors = Doors(tmp_path, chain(name), toolbox)
    stack = checked(doors, LOOK_UP, FRAME, KeyError)
    assert f", in {name}\n" in stack
    assert "frames of Ropewalk" in stack or "frame of Ropewalk" in stack
    assert "src/ropewalk" not in stack
    assert doors.exception["exception.type"] == "KeyError"
    # The traceback of the cause begins in the tool, as if Ropewalk had not called it.
    assert doors.failed.__cause__ is not None
    trace = doors.failed.__cause__.__traceback__
    assert trace is not None
    assert trace.tb_frame.f_code.co_name == name


def test_groups_causes_and_notes_are_part_of_the_stack(tmp_path: Path) -> None:
    toolbox = Toolbox()
    toolbox.register_all([group])
    place = f"{HERE}:{line_of('raise ValueError(')} in child"
    stack = checked(Doors(tmp_path, chain("group"), toolbox), place, "ValueError: no record", ExceptionGroup)
    assert "The above exception was the direct cause" in stack
    assert FRAME.splitlines()[-1] in stack
    assert "asked for x" in stack
    assert "exception 1 of 1:" in stack


@needs_node
def test_a_javascript_module_shows_the_frames_of_javascript(tmp_path: Path) -> None:
    files = {"experience.yaml": EXPERIENCE.replace("LANGUAGE", "count.mjs"), "tools/count.mjs": MODULE}
    doors = Doors(tmp_path, written(tmp_path / "broken", files), Toolbox())
    stack = checked(doors, "tools/count.mjs:5:15 in total", "at total (tools/count.mjs:5:15)", None)
    assert "at count (tools/count.mjs:2:16)" in stack
    assert "host.mjs" not in stack


def test_a_python_module_shows_its_frames(tmp_path: Path) -> None:
    files = {"experience.yaml": EXPERIENCE.replace("LANGUAGE", "count.py"), "tools/count.py": PYTHON_MODULE}
    doors = Doors(tmp_path, written(tmp_path / "broken", files), Toolbox())
    at = str(doors.error["at"])
    assert at.endswith("tools/count.py:2 in count")
    assert type(doors.failed.__cause__) is KeyError
    assert "KeyError: 'missing'" in doors.http["nodes"][-1]["error"]["stack"]


def test_an_http_tool_shows_status_and_body(tmp_path: Path, lab: Any) -> None:
    lab.on("/t", {"detail": "x" * 600 + " the end"}, status=503)
    toolbox = Toolbox(providers={"p": {"url": lab.url}})
    toolbox.register(Tool("t", "", {"type": "object"}), backend=ToolBackend.provider("p", "t"))
    doors = Doors(tmp_path, chain("t"), toolbox)
    assert checked(doors, None, "the end", HttpFailure).startswith("HTTP 503 Service Unavailable\n\n{")


@pytest.mark.parametrize(("name", "cause"), [("report", ToolReported), ("refuse", ServerRefused)])
def test_an_mcp_tool_shows_data_and_the_end_of_stderr(tmp_path: Path, name: str, cause: type[BaseException]) -> None:
    toolbox = Toolbox(mcp={"broken": forked("broken.py")})
    doors = Doors(tmp_path, chain(f"broken:{name}"), toolbox)
    stack = checked(doors, None, "disk quota exceeded at /var/lib/index", cause)
    assert ('data: {"table":"orders"}' in stack) is (name == "refuse")
    assert "disk quota" not in str(doors.error["message"])


def outcome_of(definition: Any, *tools: Any, **options: Any) -> Any:
    async def body() -> Any:
        async with App(options.pop("store", "memory"), tools=tools, **options) as app:
            return await app.run(definition, run_id="r")

    return asyncio.run(body())


def test_a_flow_inside_a_flow_and_the_items_of_a_loop_keep_the_place() -> None:
    async def body() -> Any:
        async with App("memory", tools=[in_loop]) as app:
            app.toolbox.register(app.as_tool({**chain("in_loop"), "name": "inner"}))
            outer = await app.run(chain("inner"))
            items = {"id": "each", "type": "loop", "items": "${input}", "nodes": chain("in_loop")["nodes"]}
            loop = await app.run({"kind": "chain", "name": "l", "nodes": [items]}, [1])
            return outer, loop

    for outcome in asyncio.run(body()):
        [error] = outcome.errors
        assert (error["at"], error["stack"].endswith(FRAME)) == (LOOK_UP, True)
        with pytest.raises(FlowFailed) as caught:
            outcome.raise_if_failed()
        assert type(caught.value.__cause__) is KeyError


def test_a_stack_is_bounded_and_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACK_KEY", "s3cret-value")

    @tool
    def deep(x: str) -> int:
        """Calls itself 300 times with a secret, and fails."""

        def fall(left: int) -> int:
            if left == 0:
                raise ValueError("y" * 20_000 + x)
            return fall(left - 1)

        try:
            raise RuntimeError(f"first {x}")
        except RuntimeError:
            return fall(300)

    node = {"id": "b", "type": "tool", "tool": "deep", "params": {"x": "${secret.STACK_KEY}"}}
    flow = {"kind": "chain", "name": "c", "nodes": [node]}
    [error] = outcome_of(flow, deep, secrets=["STACK_KEY"]).errors
    assert "Previous line repeated" in error["stack"]
    assert len(error["stack"].encode()) < stack_trace.MAX_BYTES + 100
    assert "bytes are left out" in error["stack"]
    assert "first $secret.STACK_KEY" in error["stack"]
    assert "s3cret" not in json.dumps(error)


def test_after_many_stacks_a_run_keeps_only_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_trace, "MAX_RUN_BYTES", 1_000)
    nodes = [{"id": f"n{i}", "type": "tool", "tool": "in_loop", "params": {"x": 1}} for i in range(10)]
    flow = {"kind": "chain", "name": "c", "errorStrategy": "continue", "nodes": nodes}
    errors = outcome_of(flow, in_loop).errors
    assert [error["at"] for error in errors] == [LOOK_UP] * 10
    assert 0 < sum("stack" in error for error in errors) < 10


def test_what_reads_an_error_in_a_flow_gets_no_stack() -> None:
    fallback = chain("in_loop", errorStrategy="fallback", fallback="$error")
    assert set(outcome_of(fallback, in_loop).results["b"]) == {"node", "tool", "message", "kind", "ran", "classes"}


def test_success_formats_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a stack was made of a run that did not fail")

    monkeypatch.setattr(stack_trace, "trace_of", refuse)
    monkeypatch.setattr(stack_trace, "_python_trace", refuse)

    @tool
    async def fine(x: int) -> int:
        """Works."""
        return x

    assert outcome_of(chain("fine"), fine).status == "completed"
