"""The stack of a failed tool: where it is kept and shown, what it leaves out, and who does not see it."""

from __future__ import annotations

import asyncio
import copy
import json
import linecache
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from modules.folder import needs_node, written
from ropewalk import App, tool
from ropewalk.agents.scripted import ScriptedModel, wants
from ropewalk.doors.cli.run import summary
from ropewalk.doors.cli.runs import show
from ropewalk.doors.cli.tools import call as call_tool
from ropewalk.doors.http.site import make_site
from ropewalk.doors.mcp.resources import ProjectResources
from ropewalk.doors.mcp.results import flow_failed
from ropewalk.engine import stack_trace
from ropewalk.errors import FlowFailed, StoreError, ToolError
from ropewalk.events import Event
from ropewalk.expr import TRANSFORMS
from ropewalk.journal.memory import MemoryStore
from ropewalk.telemetry import instrument
from ropewalk.telemetry.logs import RunLog
from ropewalk.testing import DyingStore
from ropewalk.tools.backends.http import HttpFailure
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
    def exceptions(self) -> list[dict[str, Any]]:
        """The span events of the exceptions of nodes."""
        events = [event for span in self.exporter.get_finished_spans() for event in span.events]
        return [dict(event.attributes or {}) for event in events if event.name == "exception"]


def checked(doors: Doors, at: str | None, ends: str, cause: type[BaseException] | None) -> str:
    """Check that every interface shows the same stack and the same place, and return the stack."""
    stack = str(doors.error["stack"])
    assert ends in stack
    assert doors.error.get("at") == at
    failures = [doors.error]
    for run in (doors.http, doors.mcp):
        [step] = [step for step in run["nodes"] if step["path"] == doors.error["path"]]
        failures += [run["errors"][0], step["error"]]
    assert {(failure.get("at"), failure["stack"]) for failure in failures} == {(at, stack)}
    assert doors.exceptions[0]["exception.stacktrace"] == stack
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
    assert [event["exception.type"] for event in doors.exceptions] == ["KeyError"]
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


def test_an_http_tool_shows_address_status_and_body(tmp_path: Path, lab: Any) -> None:
    lab.on("/t", {"detail": "x" * 600 + " the end"}, status=503)
    toolbox = Toolbox(providers={"p": {"url": lab.url}})
    toolbox.register(Tool("t", "", {"type": "object"}), backend=ToolBackend.provider("p", "t"))
    doors = Doors(tmp_path, chain("t"), toolbox)
    stack = checked(doors, f"POST {lab.url}/t", "the end", HttpFailure)
    assert stack.startswith("HTTP 503 Service Unavailable\n\n{")
    assert lab.url not in doors.error["message"]  # failures are counted by their messages


async def test_a_failure_inside_libraries_alone_has_a_stack_but_no_place() -> None:
    toolbox = Toolbox()
    toolbox.register(Tool("t", "", {"type": "object"}), json.loads)
    async with App("memory", toolbox=toolbox) as app:
        [error] = (await app.run(chain("t", params={"s": "{"}))).errors
    assert "at" not in error
    assert "JSONDecodeError: Expecting property name" in error["stack"]


@pytest.mark.process
def test_an_mcp_tool_shows_data_and_the_end_of_stderr(tmp_path: Path) -> None:
    toolbox = Toolbox(mcp={"broken": forked("broken.py")})
    nodes = [{"id": name, "type": "tool", "tool": f"broken:{name}"} for name in ("refuse", "report")]
    doors = Doors(tmp_path, {"kind": "chain", "name": "c", "errorStrategy": "continue", "nodes": nodes}, toolbox)
    stack = checked(doors, None, "disk quota exceeded at /var/lib/index", ServerRefused)
    assert 'data: {"table":"orders","row":1180591620717411303424}' in stack
    reported = doors.http["errors"][1]
    assert reported["stack"].startswith("no luck\n\nthe stderr of the server ends with:\ndisk quota exceeded")
    assert "disk quota" not in doors.error["message"] + reported["message"]


@pytest.mark.process
def test_a_tool_call_on_the_command_line_shows_what_the_server_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = forked("broken.py")
    settings = "".join(f"{key} = {json.dumps(value)}\n" for key, value in server.items())
    (tmp_path / "ropewalk.toml").write_text(f"[mcp.broken]\n{settings}")
    with pytest.raises(ToolError, match="no luck"):
        call_tool("broken:report", project=tmp_path)
    assert capsys.readouterr().err == "the stderr of the server ends with:\ndisk quota exceeded at /var/lib/index\n"


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


@pytest.mark.parametrize("durable", [False, True])
async def test_a_registered_transform_that_fails_has_its_stack(durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRANSFORMS, "looks_up", lambda value: look_up("missing"))
    of_type = {"input": [1], "transform": {"type": "CUSTOM", "config": {"function": "looks_up"}}}
    async with App(MemoryStore(durable=durable)) as app:
        for node in (
            of_type,
            {"input": "${custom('looks_up', 1)}"},
            {"input": 1, "condition": "custom('looks_up', 1)"},
        ):
            nodes = [{"id": "b", "type": "transform", **node}]
            [error] = (await app.run({"kind": "chain", "name": "c", "nodes": nodes})).errors
            assert (error["kind"], error["at"]) == ("ExpressionError", LOOK_UP)
            assert error["stack"].endswith(FRAME)


@tool
async def late_in_loop() -> None:
    """Never ends."""
    await asyncio.Event().wait()


@tool
def late_in_thread() -> None:
    """Ends when nobody waits any more."""
    threading.Event().wait(0.1)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("name", ["late_in_loop", "late_in_thread"])
async def test_a_call_that_does_not_end_in_time_has_the_place_of_its_function(durable: bool, name: str) -> None:
    flow = {"kind": "chain", "name": "c", "nodes": [{"id": "b", "type": "tool", "tool": name, "timeout": 5}]}
    async with App(MemoryStore(durable=durable), tools=[late_in_loop, late_in_thread]) as app:
        [error] = (await app.run(flow)).errors
    assert (error["kind"], error["at"], "stack" in error) == (
        "ToolTimeout", f"{HERE}:{line_of(f'def {name}')} in {name}", False
    )  # fmt: skip


@pytest.mark.parametrize("durable", [False, True])
async def test_the_message_of_an_exception_has_no_secret_of_the_environment(
    durable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAY_TOKEN", "s3cret-value")

    async def pay() -> int:
        """Fails with a secret that no flow reads."""
        raise RuntimeError(f"refused: {os.environ['PAY_TOKEN']}")

    node = {"id": "b", "type": "tool", "tool": "pay", "errorStrategy": "continue", "fallback": "$error.message"}
    flow = {"kind": "chain", "name": "c", "nodes": [node, {**node, "id": "c", "errorStrategy": "fallback"}]}
    events: list[Event] = []
    async with App(MemoryStore(durable=durable), tools=[pay]) as app:
        outcome = await app.run(flow, on_event=events.append, run_id="r")
        kept = [entry.data for entry in app.context.history("r")]
    assert (outcome.errors[0]["message"], outcome.results["c"]) == ("refused: ***", "refused: ***")
    assert "s3cret" not in str((outcome, kept, events))


async def test_a_failure_that_is_read_from_the_journal_keeps_its_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = {"kind": "chain", "name": "c", "nodes": [{"id": "b", "type": "tool", "tool": "in_loop", "params": {"x": 1}}]}
    store = DyingStore(MemoryStore(durable=True), at=2)  # the failed call is recorded, but not the end of the run
    with pytest.raises(StoreError):
        await App(store, tools=[in_loop]).run(flow, run_id="r")
    assert [entry.kind for entry in store.appended] == ["call_failed"]
    monkeypatch.setitem(RECORD, "missing", 1)  # another call would succeed
    outcome = await App(await store.survivor(), tools=[in_loop]).resume("r")
    [error] = outcome.errors
    assert (error["at"], error["stack"].endswith(FRAME)) == (LOOK_UP, True)


def test_after_many_stacks_a_run_keeps_only_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_trace, "MAX_RUN_BYTES", 1_000)
    nodes = [{"id": f"n{i}", "type": "tool", "tool": "in_loop", "params": {"x": 1}} for i in range(10)]
    flow = {"kind": "chain", "name": "c", "errorStrategy": "continue", "nodes": nodes}
    errors = outcome_of(flow, in_loop).errors
    assert [error["at"] for error in errors] == [LOOK_UP] * 10
    assert 0 < sum("stack" in error for error in errors) < 10


def test_flows_and_models_get_the_message_alone() -> None:
    fallback = chain("in_loop", errorStrategy="fallback", fallback="$error")
    assert set(outcome_of(fallback, in_loop).results["b"]) == {"node", "tool", "message", "kind", "ran", "classes"}

    async def body() -> None:
        model = ScriptedModel([wants("in_loop", {"x": 1})], "done")
        async with App("memory", tools=[in_loop], model=model) as app:
            agent = await app.run({"kind": "agent", "name": "a", "prompt": "p", "tools": ["in_loop"]})
            recorded = json.dumps(app.runs.get(agent.run_id))
        assert "KeyError: 'missing'" in str(model.requests[-1].messages)
        assert "look_up" not in str(model.requests)
        assert LOOK_UP in recorded

    asyncio.run(body())


def test_events_and_debug_logs_have_the_stack(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[Any]:
        events: list[Event] = []
        async with App("memory", tools=[in_loop]) as app:
            app.watch(RunLog().take)
            await app.run(chain("in_loop", errorStrategy="retry", maxRetries=1, retryDelay=1), on_event=events.append)
        return [event for event in events if event.kind in ("attempt.failed", "node.failed")]

    with caplog.at_level("DEBUG", "ropewalk.runs"):
        failures = asyncio.run(run())
    logged = [record.fields for record in caplog.records if record.message in ("attempt.failed", "node.failed")]
    assert len(logged) == len(failures) == 3
    for shown in (*logged, *(event.data for event in failures)):
        assert (shown["at"], shown["stack"].endswith(FRAME)) == (LOOK_UP, True)
    caplog.clear()
    with caplog.at_level("INFO", "ropewalk.runs"):
        asyncio.run(run())
    assert not any("stack" in record.fields for record in caplog.records)


def test_the_cause_of_a_restored_failure_is_gone(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    outcome_of(chain("in_loop"), in_loop, store=store)

    async def body() -> None:
        async with App(store, tools=[in_loop]) as app:
            restored = await app.resume("r")
        assert restored.errors[0]["at"] == LOOK_UP
        with pytest.raises(FlowFailed) as caught:
            restored.raise_if_failed()
        assert caught.value.__cause__ is None

    asyncio.run(body())


def test_a_resumed_run_reads_the_stack_from_its_journal(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    nodes = [*chain("in_loop")["nodes"], {"id": "ask", "type": "wait", "approval": "Go?"}]

    async def body() -> None:
        async with App(store, tools=[in_loop]) as app:
            flow = {"kind": "chain", "name": "c", "errorStrategy": "continue", "nodes": nodes}
            assert (await app.run(flow, run_id="r", park=True)).status == "waiting"
        async with App(store, tools=[in_loop]) as app:
            app.runs.approve("r")
            [error] = (await app.resume("r")).errors
        assert (error["at"], error["stack"].endswith(FRAME)) == (LOOK_UP, True)

    asyncio.run(body())


class Closed(Exception):
    """Its attributes cannot be read."""

    @property
    def trace(self) -> str:
        raise RuntimeError("no trace")


class Silent(Exception):
    """Its text cannot be made, its notes are not a list, and it is its own cause."""

    def __init__(self) -> None:
        self.__cause__, self.__notes__ = self, 5  # type: ignore[assignment]

    def __str__(self) -> str:
        raise RuntimeError("no text")


def long_chain() -> Exception:
    error = ValueError(0)
    for number in range(2_000):
        after = ValueError(number)
        after.__cause__ = error
        error = after
    return error


def nested_groups() -> Exception:
    error: Exception = ExceptionGroup("inner", [ValueError(str(number)) for number in range(100)])
    for _ in range(2_000):
        error = ExceptionGroup("outer", [error])
    return error


@pytest.mark.parametrize(
    "make", [Silent, Closed, long_chain, nested_groups, lambda: ValueError("\ud800\0"), lambda: ValueError("x" * 10**6)]
)
def test_an_odd_exception_has_a_bounded_stack(make: Any, tmp_path: Path) -> None:
    @tool
    async def odd() -> None:
        """Raises it."""
        raise make()

    flow = {"kind": "chain", "name": "c", "nodes": [{"id": "b", "type": "tool", "tool": "odd"}]}
    [error] = outcome_of(flow, odd, store=f"sqlite:///{tmp_path / 'runs.db'}").errors
    assert error["at"] == f"{HERE}:{line_of('raise make()')} in odd"
    assert len(error["stack"].encode()) < stack_trace.MAX_BYTES + 100


class Unreadable:
    def __str__(self) -> str:
        raise KeyError("no text")


def unreadable(name: str) -> type[Exception]:
    """Return a class of exceptions that cannot be asked for an attribute."""

    def fail(_: Any) -> Any:
        raise KeyError(name)

    return type("Unreadable", (Exception,), {name: property(fail)})


def noted() -> Exception:
    error = ValueError("bad row")
    error.__notes__ = ["row 7", Unreadable()]  # type: ignore[list-item]
    return error


def paced() -> Exception:
    error = ValueError("bad row")
    error.retry_after = 10**400  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize("make", [noted, paced, lambda: RuntimeError(Unreadable()), *(
    lambda name=name: unreadable(name)("bad row")
    for name in ("retry_after", "retryable", "ran", "ran_at", "__dict__")
)])  # fmt: skip
def test_an_exception_that_cannot_be_read_is_still_the_failure_of_the_tool(make: Any) -> None:
    @tool
    async def odd() -> None:
        """Raises it."""
        raise make()

    [error] = outcome_of(
        {"kind": "chain", "name": "c", "nodes": [{"id": "b", "type": "tool", "tool": "odd"}]}, odd
    ).errors
    assert error["message"] == ("RuntimeError" if "RuntimeError" in error["message"] else "bad row")
    assert make is not noted or error["stack"].endswith("ValueError: bad row\nrow 7\n<note: its str() failed>")


def test_a_failed_outcome_can_be_copied() -> None:
    class Bound(Exception):
        def __init__(self, *, lock: Any) -> None:
            super().__init__("bad row")
            self.lock = lock

    @tool
    async def odd() -> None:
        """Raises what nobody can copy."""
        raise Bound(lock=threading.Lock())

    outcome = outcome_of(chain("odd") | {"nodes": [{"id": "b", "type": "tool", "tool": "odd"}]}, odd)
    for same in (pickle.loads(pickle.dumps(outcome)), copy.deepcopy(outcome)):
        assert same == outcome
        with pytest.raises(FlowFailed, match="bad row"):
            same.raise_if_failed()
    with pytest.raises(FlowFailed) as caught:
        outcome.raise_if_failed()
    assert type(caught.value.__cause__) is Bound


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
