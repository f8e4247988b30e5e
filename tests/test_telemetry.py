"""Runs as traces and metrics: what the spans are, which is below which, and what they never hold."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import fork_server
from ropewalk import App
from ropewalk.agents.scripted import ScriptedModel, wants
from ropewalk.errors import ConfigError
from ropewalk.telemetry import from_environment, instrument

pytestmark = pytest.mark.anyio


# The names of the conventions for generative AI, release 0.1.0, that Ropewalk uses. The package of names in Python
# still has those of semantic conventions 1.41.
CONVENTIONS = {
    "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model",
    "gen_ai.response.finish_reasons", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_write.input_tokens", "gen_ai.tool.name",
    "gen_ai.tool.call.id", "gen_ai.tool.type", "gen_ai.agent.name",
}  # fmt: skip


class Seen:
    """An app whose runs are traced into memory."""

    def __init__(self, *tools: Any, store: str = "memory", model: Any = None) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.app = App(store, tools=tools, model=model, secrets=["API_KEY"])
        self.tracers = tracers
        instrument(self.app, tracers=tracers, meters=MeterProvider(metric_readers=[self.reader]))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def tree(self) -> set[tuple[str, str | None]]:
        """(span, the one above it), by name or path."""
        named = {s.context.span_id: _name(s) for s in self.spans if s.context}
        return {(_name(s), named.get(s.parent.span_id) if s.parent else None) for s in self.spans}

    def points(self, metric: str) -> list[tuple[dict[str, Any], int]]:
        found = self.reader.get_metrics_data()
        assert found is not None
        return [
            (dict(point.attributes or {}), point.count)  # type: ignore[union-attr]
            for resource in found.resource_metrics
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]


def _name(span: ReadableSpan) -> str:
    return str((span.attributes or {}).get("ropewalk.node.path") or span.name)


def call(id: str, tool: str, **params: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": tool, "params": params}


async def later(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1


def fails() -> None:
    raise RuntimeError("no luck")


async def test_a_run_is_a_span_and_its_nodes_are_below_it_as_they_are_nested() -> None:
    seen = Seen(later)
    loop = {"id": "l", "type": "loop", "items": [1, 2], "concurrency": 2, "nodes": [call("in", "later", x="$item")]}
    async with seen.app as app:
        await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "later", x=1), loop]}, run_id="r")
    assert seen.tree() == {
        ("invoke_workflow c", None),
        ("a", "invoke_workflow c"),
        ("l", "invoke_workflow c"),
        ("l[0]/in", "l"),
        ("l[1]/in", "l"),
    }
    spans = {_name(s): s for s in seen.spans}
    assert spans["l[1]/in"].name == "execute_tool later"
    attributes = dict(spans["l[1]/in"].attributes or {})
    assert attributes["gen_ai.operation.name"] == "execute_tool"
    assert attributes["gen_ai.tool.name"] == "later"
    assert attributes["gen_ai.tool.call.id"] == "r/l[1]/in"
    run = dict(spans["invoke_workflow c"].attributes or {})
    assert "gen_ai.workflow.name" not in run
    assert run["gen_ai.operation.name"] == "invoke_workflow"
    assert (run["gen_ai.agent.name"], run["ropewalk.run.id"], run["ropewalk.run.status"]) == ("c", "r", "completed")


async def test_spans_of_a_tool_are_below_its_node_also_when_nodes_run_at_once() -> None:
    seen = Seen()
    tracer = trace.get_tracer("tool", tracer_provider=seen.tracers)

    async def traced(x: int) -> int:
        with tracer.start_as_current_span(f"inside {x}"):
            for _ in range(x):
                await asyncio.sleep(0)
            with tracer.start_as_current_span(f"deeper {x}"):
                await asyncio.sleep(0)
        return x

    seen.app.toolbox.register(traced)
    nodes = [{"id": "p", "type": "parallel", "nodes": [call(f"n{x}", "traced", x=x) for x in range(4)]}]
    async with seen.app as app:
        await app.run({"kind": "chain", "name": "c", "nodes": nodes})
    assert {(f"inside {x}", f"p/n{x}") for x in range(4)} <= seen.tree()
    assert {(f"deeper {x}", f"inside {x}") for x in range(4)} <= seen.tree()


async def test_what_was_current_before_a_run_is_current_after_it() -> None:
    seen = Seen(later)
    with trace.get_tracer("caller", tracer_provider=seen.tracers).start_as_current_span("outer") as outer:
        async with seen.app as app:
            await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "later", x=1)]})
        assert trace.get_current_span() is outer
    assert ("invoke_workflow c", "outer") in seen.tree()


async def test_failures_and_attempts_are_told() -> None:
    seen = Seen(fails)
    node = {**call("f", "fails"), "maxRetries": 1, "retryDelay": 1, "errorStrategy": "retry"}
    async with seen.app as app:
        await app.run({"kind": "chain", "name": "c", "nodes": [node]})
    spans = {_name(s): s for s in seen.spans}
    assert spans["f"].status.status_code is trace.StatusCode.ERROR
    assert (spans["f"].attributes or {})["error.type"] == "ExecutionFailed"
    assert [event.name for event in spans["f"].events] == ["attempt.failed"] * 2 + ["exception"]
    assert spans["invoke_workflow c"].status.status_code is trace.StatusCode.ERROR


async def test_a_composed_tool_is_a_run_below_the_call_of_it() -> None:
    seen = Seen(later)
    async with seen.app as app:
        inner = {"kind": "chain", "name": "inner", "nodes": [call("b", "later", x=1)]}
        app.toolbox.register(app.as_tool(inner, name="composed"))
        await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "composed")]})
    assert ("invoke_workflow inner", "a") in seen.tree()
    assert ("b", "invoke_workflow inner") in seen.tree()


async def test_a_turn_of_a_model_says_what_it_took() -> None:
    seen = Seen(later, model=ScriptedModel(wants("later", {"x": 1}), "done"))
    async with seen.app as app:
        done = await app.run({"kind": "agent", "name": "helper", "model": "m1", "prompt": "go", "tools": ["later"]})
    assert done.status == "completed", done.to_dict()
    chats = [s for s in seen.spans if s.name == "chat m1"]
    assert [s.kind for s in chats] == [trace.SpanKind.CLIENT] * 2
    attributes = dict(chats[0].attributes or {})
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.response.finish_reasons"] == ("tool_use",)
    assert (attributes["gen_ai.provider.name"], attributes["gen_ai.request.model"]) == ("scripted", "m1")
    assert isinstance(attributes["gen_ai.usage.input_tokens"], int)
    assert not [name for name in attributes if name.startswith("gen_ai.") and name not in CONVENTIONS]
    (point, _) = seen.points("gen_ai.client.inference.duration")[0]
    assert (point["gen_ai.operation.name"], point["gen_ai.request.model"]) == ("chat", "m1")
    assert "invoke_agent helper" in {span.name for span in seen.spans}


async def test_a_stopped_run_leaves_no_open_span(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    seen = Seen(hang, store=str(tmp_path / "s.db"))
    telemetry = instrument(seen.app, tracers=seen.tracers)
    async with seen.app as app:
        task = asyncio.create_task(app.run({"kind": "chain", "name": "c", "nodes": [call("h", "hang")]}))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert telemetry._runs == {}
    spans = {_name(s): s for s in seen.spans}
    assert (spans["invoke_workflow c"].attributes or {})["ropewalk.run.status"] == "interrupted"
    assert "h" in spans


async def test_durations_are_measured() -> None:
    seen = Seen(later, fails)
    async with seen.app as app:
        for _ in range(2):
            await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "later", x=1), call("b", "later", x=1)]})
        await app.run({"kind": "chain", "name": "d", "nodes": [{**call("f", "fails"), "maxRetries": 0}]})
    runs = seen.points("ropewalk.run.duration")
    assert ({"gen_ai.agent.name": "c", "ropewalk.run.status": "completed"}, 2) in runs
    workflows = seen.points("gen_ai.invoke_agent.duration")
    named = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.agent.name": "c"}
    assert (named, 2) in workflows
    assert ({**named, "gen_ai.agent.name": "d", "error.type": "failed"}, 1) in workflows
    tools = seen.points("gen_ai.execute_tool.duration")
    assert ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "later"}, 4) in tools
    failed = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "fails", "error.type": "ExecutionFailed"}
    assert (failed, 1) in tools


async def test_no_secret_is_in_a_span(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "correct horse")

    def leaks(key: str) -> None:
        raise RuntimeError(f"{key} was refused")

    seen = Seen(leaks)
    node = {**call("f", "leaks", key="$secret.API_KEY"), "maxRetries": 1, "retryDelay": 1, "errorStrategy": "retry"}
    async with seen.app as app:
        await app.run({"kind": "chain", "name": "c", "nodes": [node]})
    told = "\n".join(span.to_json() for span in seen.spans)
    assert "was refused" in told
    assert "correct horse" not in told


async def test_the_trace_goes_on_in_an_mcp_server() -> None:
    """The server is asked with the trace of the node that calls it."""
    seen = Seen()
    server = Path(__file__).parent / "mcp_servers" / "odd.py"
    seen.app.toolbox.add_mcp("t", {"command": fork_server.program("python"), "args": [str(server)]})
    trace.set_tracer_provider(seen.tracers)  # that of the MCP library
    async with seen.app as app:
        done = await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "t:meta")]})
    (span,) = [s for s in seen.spans if _name(s) == "a"]
    (request,) = [s for s in seen.spans if (s.attributes or {}).get("mcp.method.name") == "tools/call"]
    assert span.context
    assert request.context
    assert request.parent
    assert request.parent.span_id == span.context.span_id
    wanted = f"00-{span.context.trace_id:032x}-{request.context.span_id:016x}-"
    assert done["results"]["a"]["traceparent"].startswith(wanted)


async def test_nothing_is_sent_unless_the_environment_says_where() -> None:
    async with App("memory") as app:
        assert from_environment(app, {}) is None
        disabled = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}
        assert from_environment(app, disabled) is None
        assert app.engine.watchers == []


async def test_a_watcher_that_raises_keeps_the_others_from_nothing() -> None:
    seen = Seen(later)
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about["exception"]))

    def broken(event: Any) -> None:
        raise ValueError(event.kind)

    async with seen.app as app:
        app.engine.watchers.insert(0, broken)
        await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "later", x=1)]})
    assert ("a", "invoke_workflow c") in seen.tree()
    assert [str(exc) for exc in told][:1] == ["run.started"]


async def test_exporters_are_named_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider())  # not to leave ours behind
    environ = {"OTEL_TRACES_EXPORTER": "console,jaeger", "OTEL_METRICS_EXPORTER": "console"}
    async with App("memory", tools=[later]) as app:
        telemetry = from_environment(app, environ)
        assert telemetry is not None
        await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "later", x=1)]})
        telemetry.close()
        assert (
            from_environment(app, {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "x"}) is None
        )
    out, err = capsys.readouterr()
    assert out == ""
    for name in ("execute_tool later", "invoke_workflow c", "gen_ai.execute_tool.duration"):
        assert f'"name": "{name}"' in err, name
    assert "OTEL_TRACES_EXPORTER: 'jaeger' is not supported; use otlp, console, none" in caplog.text


async def test_an_address_without_a_scheme_is_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider())
    environ = {"OTEL_METRICS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:9"}
    async with App("memory") as app:
        telemetry = from_environment(app, environ)
        assert telemetry is not None
        telemetry.close()
    message = "OTEL_EXPORTER_OTLP_ENDPOINT: the address has no scheme; write http:// or https:// before it"
    assert caplog.messages == [message]


async def test_the_environment_names_the_protocol_to_the_collector(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", TracerProvider())
    sent: list[Any] = []

    class Exporter(InMemorySpanExporter):
        def export(self, spans: Any) -> Any:
            sent.extend(span.name for span in spans)
            return super().export(spans)

    otlp = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9"}
    module = "opentelemetry.exporter.otlp.proto.grpc"
    async with App("memory", tools=[later]) as app:
        monkeypatch.setitem(sys.modules, module, None)
        missing = "^OTEL_EXPORTER_OTLP_PROTOCOL=grpc needs the package opentelemetry-exporter-otlp-proto-grpc: pip"
        with pytest.raises(ConfigError, match=missing):
            from_environment(app, {**otlp, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
        from_environment(app, {**otlp, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})
        warning = "OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' is not supported; use http/protobuf, grpc"
        assert caplog.text.count(warning) == 1  # for traces and metrics together
        monkeypatch.setitem(sys.modules, f"{module}.trace_exporter", SimpleNamespace(OTLPSpanExporter=Exporter))
        app.engine.watchers.clear()
        protocols = {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        telemetry = from_environment(app, {**otlp, **protocols})
        await app.run({"kind": "chain", "name": "c", "nodes": [call("a", "later", x=1)]})
        telemetry.close()  # type: ignore[union-attr]
    assert sent == ["execute_tool later", "invoke_workflow c"]
