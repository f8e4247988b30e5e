"""Runs as OpenTelemetry traces and metrics, by the conventions for generative AI and for MCP.

A run is a span, every node that ran a span in it, and what a tool does meanwhile (an MCP request, a call over HTTP
that is instrumented) is traced below the span of its node: the trace goes on in the server that gets the request.
What a span says is what a journal says: paths, names, times, errors; never arguments and results, and no secret.

Refused: a tracer of its own. Spans go where the program's providers send them; `from_environment` sets providers up
for a program that has none, by the variables that every OpenTelemetry program reads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextvars import Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..events import Event
from .sending import Sending

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from ..app import App

NAME: Final = "ropewalk"
_MODEL: Final = "ropewalk:model"
_BEGUN: Final = ("run.started", "run.resumed")
_INSIDE: Final = re.compile(r"\[[^\]]*\]$")
_ATTEMPT: Final = re.compile(r"@\d+$")


def instrument(app: App, *, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> Telemetry:
    """Trace and measure every run of `app` from now on, with the program's global providers unless given."""
    telemetry = Telemetry(tracers, meters)
    app.watch(telemetry.take)
    return telemetry


def from_environment(app: App, environ: Mapping[str, str] | None = None) -> Telemetry | None:
    """Send traces and metrics of `app` where OTEL_EXPORTER_OTLP_ENDPOINT (or the same for one signal) says; None
    where nothing is said or OTEL_SDK_DISABLED is true. Spans of libraries, as of MCP requests, go there, too, unless
    the program has a tracer provider. Raises ModuleNotFoundError without the extra `otel`."""
    environ = os.environ if environ is None else environ
    wanted = [signal for signal in ("TRACES", "METRICS") if _endpoint(environ, signal)]
    if not wanted or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    from opentelemetry.sdk.resources import Resource

    resource = Resource.create({} if environ.get("OTEL_SERVICE_NAME") else {"service.name": NAME})
    tracers: Any = None
    meters: Any = None
    exporters: list[Any] = []
    if "TRACES" in wanted:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporters.append(OTLPSpanExporter())
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(exporters[-1]))
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(tracers)
    if "METRICS" in wanted:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        exporters.append(OTLPMetricExporter())
        reader = PeriodicExportingMetricReader(exporters[-1])
        meters = MeterProvider(resource=resource, metric_readers=[reader], shutdown_on_exit=False)
    telemetry = instrument(app, tracers=tracers, meters=meters)
    where = {_endpoint(environ, signal) or "" for signal in wanted}
    telemetry.sending = Sending([one for one in (tracers, meters) if one is not None], exporters, where)
    return telemetry


def _endpoint(environ: Mapping[str, str], signal: str) -> str | None:
    return environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")


@dataclass(slots=True)
class _Traced:
    """A run that goes on: its span, those of its nodes by path, and what was current before it."""

    span: Span
    name: str
    before: Token[Context]
    nodes: dict[str, tuple[Span, str | None, float]] = field(default_factory=dict)


class Telemetry:
    """Takes the events of runs; every call comes in the task of the node that it is about."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        from opentelemetry import metrics, trace

        self._trace = trace
        self._tracer = trace.get_tracer(NAME, tracer_provider=tracers)
        meter = metrics.get_meter(NAME, meter_provider=meters)
        self._run_time = meter.create_histogram("ropewalk.run.duration", "s", "How long runs took.")
        self._tool_time = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", "How long calls of tools and models took."
        )
        self._runs: dict[str, _Traced] = {}
        self.sending: Sending | None = None

    def close(self) -> None:
        """Send what has not been sent yet; only for providers that were made for this app."""
        if self.sending is not None:
            self.sending.close()

    def take(self, event: Event) -> None:
        run = self._runs.get(event.run_id)
        if event.kind in _BEGUN:
            self._begin(event)
        elif run is None:
            return
        elif event.kind == "node.started":
            self._node(run, event)
        elif event.kind in ("node.finished", "node.recovered", "node.failed"):
            self._node_ended(run, event)
        elif event.kind == "attempt.failed":
            self._attempt(run, event)
        elif event.path == "" and event.kind.startswith("run."):
            self._end(run, event)

    # --- runs ---------------------------------------------------------------------------------

    def _begin(self, event: Event) -> None:
        from opentelemetry import context

        about: Mapping[str, Any] = event.data if isinstance(event.data, dict) else {}
        name, agent = str(about.get("name") or ""), about.get("kind") == "agent"
        operation = "invoke_agent" if agent else "invoke_workflow"
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.agent.name" if agent else "gen_ai.workflow.name": name,
            "ropewalk.run.id": event.run_id,
            "ropewalk.run.kind": str(about.get("kind") or ""),
            "ropewalk.run.resumed": event.kind == "run.resumed",
        }
        span = self._tracer.start_span(
            f"{operation} {name}".strip(), attributes=attributes, start_time=_nanoseconds(event.at)
        )
        before = context.attach(self._trace.set_span_in_context(span))
        self._runs[event.run_id] = _Traced(span, name, before)

    def _end(self, run: _Traced, event: Event) -> None:
        from opentelemetry import context

        del self._runs[event.run_id]
        status = str((event.data or {}).get("status", "")) if isinstance(event.data, dict) else ""
        status = status or event.kind.partition(".")[2]
        for span, _, _ in run.nodes.values():
            span.end(_nanoseconds(event.at))  # cut off with the run
        run.span.set_attribute("ropewalk.run.status", status)
        if status in ("failed", "timeout", "interrupted"):
            run.span.set_attribute("error.type", status)
            run.span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, status))
        run.span.end(_nanoseconds(event.at))
        took = event.data.get("ms") if isinstance(event.data, dict) else None
        if isinstance(took, (int, float)):
            attributes = {"gen_ai.workflow.name": run.name, "ropewalk.run.status": status}
            self._run_time.record(took / 1000, attributes)
        context.detach(run.before)

    # --- nodes --------------------------------------------------------------------------------

    def _node(self, run: _Traced, event: Event) -> None:
        from opentelemetry import context

        about: Mapping[str, Any] = event.data if isinstance(event.data, dict) else {}
        if about.get("replayed"):
            return  # it did not run now
        tool = about.get("tool")
        attributes: dict[str, Any] = {"ropewalk.run.id": event.run_id, "ropewalk.node.path": event.path}
        name = event.node
        if tool == _MODEL:
            name = "chat"
            attributes |= {"gen_ai.operation.name": "chat"}
        elif tool:
            name = f"execute_tool {tool}"
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
            attributes |= {"gen_ai.tool.call.id": f"{event.run_id}/{event.path}", "gen_ai.tool.type": "function"}
        if about.get("phase"):
            attributes["ropewalk.phase"] = about["phase"]
        above = self._trace.set_span_in_context(self._above(run, event.path))
        span = self._tracer.start_span(name, above, attributes=attributes, start_time=_nanoseconds(event.at))
        run.nodes[event.path] = (span, tool, event.at)
        # For what the tool does in this task and those it starts. Never detached: which node is below which is
        # read off the paths, and the end of the run brings back what was current before it.
        context.attach(self._trace.set_span_in_context(span, above))

    def _above(self, run: _Traced, path: str) -> Span:
        """The span of the node that a path is inside of, that of the run for those outside."""
        while path:
            path = _INSIDE.sub("", path.rpartition("/")[0])
            for known in (path, _ATTEMPT.sub("", path)):
                if known in run.nodes:
                    return run.nodes[known][0]
        return run.span

    def _node_ended(self, run: _Traced, event: Event) -> None:
        found = run.nodes.pop(event.path, None)
        if found is None:
            return
        span, tool, began = found
        failed = event.kind == "node.failed" and isinstance(event.data, dict)
        called = event.kind != "node.finished" and isinstance(event.data, dict)  # of one that recovered the call failed
        kind = str(event.data.get("kind")) if called else ""
        if failed:
            span.set_attribute("error.type", kind)
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(event.data.get("message"))))
        span.end(_nanoseconds(event.at))
        if tool:
            attributes = {"gen_ai.operation.name": "chat" if tool == _MODEL else "execute_tool"}
            attributes |= {} if tool == _MODEL else {"gen_ai.tool.name": tool}
            attributes |= {"error.type": kind} if called else {}
            self._tool_time.record(event.at - began, attributes)

    def _attempt(self, run: _Traced, event: Event) -> None:
        found = run.nodes.get(event.path) or run.nodes.get(_ATTEMPT.sub("", event.path))
        about: Mapping[str, Any] = event.data if isinstance(event.data, dict) else {}
        if about.get("replayed"):
            return
        span = found[0] if found is not None else run.span
        said = {"ropewalk.attempt": about.get("attempt") or 1, "error.type": str(about.get("kind"))}
        said |= {"exception.message": str(about.get("message")), "ropewalk.node.path": event.path}
        span.add_event("attempt.failed", said, _nanoseconds(event.at))


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)
