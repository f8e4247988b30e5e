"""Export runs as OpenTelemetry traces and metrics, with the semantic conventions for generative AI and MCP.

A run is a span, and every node that ran is a span in it. Requests of a tool (MCP, instrumented HTTP clients) are spans
below that of its node, and the trace continues in the server. Spans have paths, names, times, errors, and what tools
print and log where that is captured, never arguments, results or secrets.

Spans go to the program's own providers. `from_environment` sets up providers for a program that has none, from the
standard `OTEL_*` variables. If the collector is not reachable, one warning is logged and the program still ends soon.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Token
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ..errors import ConfigError
from ..events import Event

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from ..app.app import App

SHUTDOWN_TIMEOUT: Final = 2.0  # seconds for the last export when a program ends
log = logging.getLogger("ropewalk.telemetry")


class ExportPipeline:
    """The providers and exporters that were created for one app."""

    def __init__(self, providers: Sequence[Any], exporters: Sequence[Any], addresses: Iterable[str]) -> None:
        self._providers, self._exporters = providers, exporters
        self._addresses = ", ".join(sorted(addresses))
        self._has_warned = False
        # The exporter for gRPC logs in the module of its base class.
        for module in {kind.__module__ for exporter in exporters for kind in type(exporter).__mro__}:
            if module.startswith("opentelemetry.exporter."):
                logging.getLogger(module).addFilter(self._replace_log)

    def close(self) -> None:
        """Shut down all providers at once, within SHUTDOWN_TIMEOUT seconds."""

        # They export what is left.
        end = time.monotonic() + SHUTDOWN_TIMEOUT
        threads = [threading.Thread(target=provider.shutdown, daemon=True) for provider in self._providers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            self._warn_once(f"no answer within {SHUTDOWN_TIMEOUT:g} s")
            for exporter in self._exporters:
                exporter.shutdown()  # ends the pauses between its retries

    def _replace_log(self, record: logging.LogRecord) -> bool:
        """Replace the exporters' own log, which repeats every failure, by one warning."""
        message = record.getMessage()
        if record.levelno >= logging.WARNING and "already shutdown" not in message:
            # "Transient error %s encountered while exporting %s batch, retrying in %.2fs."
            self._warn_once(
                str(record.args[0]) if message.startswith("Transient") and isinstance(record.args, tuple) else message
            )
        return False

    def _warn_once(self, reason: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning("could not export traces and metrics to %s; they were dropped: %s", self._addresses, reason)


NAME: Final = "ropewalk"
_MAX_LINES: Final = 100  # of one report; a span of the SDK keeps 128 events
_MODEL_TOOL: Final = "ropewalk:model"
_DIMENSIONS: Final = (
    "gen_ai.operation.name",
    "gen_ai.tool.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
)
"""The attributes of a node's span that its duration is measured by."""
_START_EVENTS: Final = ("run.started", "run.resumed")
_INDEX: Final = re.compile(r"\[[^\]]*\]$")
_ATTEMPT_NUMBER: Final = re.compile(r"@\d+$")


def instrument(app: App, *, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> Telemetry:
    """Trace and measure every run of an app from now on.

    Args:
        app: The app.
        tracers: The provider of tracers; None uses the global one.
        meters: The provider of meters; None uses the global one.

    Returns:
        The watcher of the app's events.
    """
    telemetry = Telemetry(tracers, meters)
    app.watch(telemetry.take)
    return telemetry


def from_environment(app: App, environ: Mapping[str, str] | None = None) -> Telemetry | None:
    """Export traces and metrics of an app as the `OTEL_*` variables say.

    Spans of libraries, such as MCP requests, are exported as well, unless the program has a tracer provider.

    Args:
        app: The app.
        environ: The environment. OTEL_TRACES_EXPORTER and OTEL_METRICS_EXPORTER name exporters: `otlp`, `console`
            (on standard error), several with commas, or `none`. OTEL_EXPORTER_OTLP_ENDPOINT, or that of one signal, is
            the address for `otlp`, which is the default where there is one. OTEL_EXPORTER_OTLP_PROTOCOL, or that of one
            signal, is `http/protobuf` (default) or `grpc`.

    Returns:
        The watcher of the app's events; None without an exporter or with OTEL_SDK_DISABLED.

    Raises:
        ModuleNotFoundError: The extra `otel` is not installed.
        ConfigError: The protocol is `grpc`, and its exporter is not installed.
    """
    environ = os.environ if environ is None else environ
    names = {signal: _exporter_names(environ, signal) for signal in _SIGNALS}
    if not any(names.values()) or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    _warn_of_endpoints(environ, [signal for signal in _SIGNALS if "otlp" in names[signal]])
    from opentelemetry.sdk.resources import Resource

    # The app gets providers of its own; `shutdown_on_exit` is off because `close` has a time limit.
    resource = Resource.create({} if environ.get("OTEL_SERVICE_NAME") else {"service.name": NAME})
    exporters: list[Any] = []
    makers = {signal: _otlp_exporter(environ, signal) for signal in _SIGNALS if "otlp" in names[signal]}
    tracers = meters = None
    if names["TRACES"]:
        tracers = _tracer_provider(names["TRACES"], resource, makers.get("TRACES"), exporters)
    if names["METRICS"]:
        meters = _meter_provider(names["METRICS"], resource, makers.get("METRICS"), exporters)
    telemetry = instrument(app, tracers=tracers, meters=meters)
    addresses = {_endpoint(environ, signal) or "the collector" for signal in _SIGNALS if "otlp" in names[signal]}
    telemetry.pipeline = ExportPipeline(
        [provider for provider in (tracers, meters) if provider is not None], exporters, addresses
    )
    return telemetry


def _tracer_provider(names: Sequence[str], resource: Any, make_otlp: Any, exporters: list[Any]) -> Any:
    """Return a provider with the named exporters, and add those that send to a collector to the list."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in names:
        if name == "console":
            exporter: Any = ConsoleSpanExporter(out=sys.stderr)
        else:
            exporter = make_otlp()
            exporters.append(exporter)
        tracers.add_span_processor(BatchSpanProcessor(exporter))
    # Spans of libraries are exported as well.
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(tracers)
    return tracers


def _meter_provider(names: Sequence[str], resource: Any, make_otlp: Any, exporters: list[Any]) -> Any:
    """Return a provider with the named exporters, and add those that send to a collector to the list."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader

    readers = []
    for name in names:
        if name == "console":
            exporter: Any = ConsoleMetricExporter(out=sys.stderr)
        else:
            exporter = make_otlp()
            exporters.append(exporter)
        readers.append(PeriodicExportingMetricReader(exporter))
    return MeterProvider(resource=resource, metric_readers=readers, shutdown_on_exit=False)


_SIGNALS: Final = ("TRACES", "METRICS")
_EXPORTERS: Final = ("otlp", "console", "none")


def _exporter_names(environ: Mapping[str, str], signal: str) -> list[str]:
    """Return the exporters of a signal; one that is not supported is left out with a warning."""
    variable = f"OTEL_{signal}_EXPORTER"
    listed = [name.strip().lower() for name in environ.get(variable, "").split(",")]
    names = [name for name in dict.fromkeys(listed) if name] or (["otlp"] if _endpoint(environ, signal) else [])
    for name in names:
        if name not in _EXPORTERS:
            log.warning("%s: %r is not supported; use %s", variable, name, ", ".join(_EXPORTERS))
    return [name for name in names if name in _EXPORTERS and name != "none"]


def _endpoint(environ: Mapping[str, str], signal: str) -> str | None:
    return environ.get(_endpoint_variable(environ, signal))


def _endpoint_variable(environ: Mapping[str, str], signal: str) -> str:
    own = f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"
    return own if environ.get(own) else "OTEL_EXPORTER_OTLP_ENDPOINT"


_PROTOCOLS: Final = {"http/protobuf": "http", "grpc": "grpc"}
"""The protocols to a collector, each with the module of its exporters."""
_OTLP_CLASSES: Final = {
    "TRACES": ("trace_exporter", "OTLPSpanExporter"),
    "METRICS": ("metric_exporter", "OTLPMetricExporter"),
}


def _warn_of_endpoints(environ: Mapping[str, str], signals: Sequence[str]) -> None:
    """Warn of each protocol that is not supported, and of each address without a scheme, which only gRPC can use."""
    for protocol, variable in sorted({_protocol(environ, signal) for signal in signals}):
        if protocol not in _PROTOCOLS:
            known = ", ".join(_PROTOCOLS)
            log.warning("%s: %r is not supported; use %s. Ropewalk uses http/protobuf", variable, protocol, known)
    for variable in {
        _endpoint_variable(environ, signal) for signal in signals if _protocol(environ, signal)[0] != "grpc"
    }:
        if not environ.get(variable, "http://").startswith(("http://", "https://")):
            log.warning("%s: the address has no scheme; write http:// or https:// before it", variable)


def _protocol(environ: Mapping[str, str], signal: str) -> tuple[str, str]:
    """Return the name of the protocol that sends a signal, and the variable that names it."""
    variables = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    variable = next((name for name in variables if environ.get(name, "").strip()), "")
    return environ.get(variable, "").strip().lower() or "http/protobuf", variable


def _otlp_exporter(environ: Mapping[str, str], signal: str) -> Any:
    """Return the class of the exporter that sends a signal by the protocol that the environment names."""
    protocol, variable = _protocol(environ, signal)
    if protocol not in _PROTOCOLS:
        protocol = "http/protobuf"
    module, name = _OTLP_CLASSES[signal]
    package = f"opentelemetry.exporter.otlp.proto.{_PROTOCOLS[protocol]}"
    try:
        return getattr(import_module(f"{package}.{module}"), name)
    except ModuleNotFoundError:
        if protocol != "grpc":
            raise
        name = package.replace(".", "-")
        raise ConfigError(f"{variable}=grpc needs the package {name}: pip install {name}") from None


@dataclass(slots=True)
class _RunTrace:
    """A run in progress: its span, the previous context, and the spans of its nodes by path."""

    span: Span
    operation: str
    name: str
    previous: Token[Context]
    nodes: dict[str, tuple[Span, str | None, float]] = field(default_factory=dict)


class Telemetry:
    """Makes spans and metrics from the events of runs. Each event arrives in the task of its node.

    Args:
        tracers: The provider of tracers; None uses the global one.
        meters: The provider of meters; None uses the global one.
    """

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        from opentelemetry import metrics, trace

        self._trace = trace
        self._tracer = trace.get_tracer(NAME, tracer_provider=tracers)
        meter = metrics.get_meter(NAME, meter_provider=meters)
        self._run_time = meter.create_histogram("ropewalk.run.duration", "s", "Duration of runs.")
        self._agent_time = meter.create_histogram(
            "gen_ai.invoke_agent.duration", "s", "Duration of runs of workflows and agents."
        )
        self._tool_time = meter.create_histogram("gen_ai.execute_tool.duration", "s", "Duration of calls of tools.")
        self._model_time = meter.create_histogram(
            "gen_ai.client.inference.duration", "s", "Duration of calls of models."
        )
        self._runs: dict[str, _RunTrace] = {}
        self.pipeline: ExportPipeline | None = None

    def close(self) -> None:
        """Export what is left, if this app has providers of its own."""
        if self.pipeline is not None:
            self.pipeline.close()

    def take(self, event: Event) -> None:
        """Handle an event of a run.

        Args:
            event: The event of a run.
        """
        run = self._runs.get(event.run_id)
        if event.kind in _START_EVENTS:
            self._start_run(event)
        elif run is None:
            return
        elif event.kind == "node.started":
            self._start_node(run, event)
        elif event.kind in ("node.finished", "node.recovered", "node.failed"):
            self._end_node(run, event)
        elif event.kind == "attempt.failed":
            self._record_attempt(run, event)
        elif event.kind == "node.log" and event.path in run.nodes:
            self._record_lines(run.nodes[event.path][0], event)
        elif event.path == "" and event.kind.startswith("run."):
            self._end_run(run, event)

    # --- runs ---------------------------------------------------------------------------------

    def _start_run(self, event: Event) -> None:
        from opentelemetry import context

        data: Mapping[str, Any] = event.data if isinstance(event.data, dict) else {}
        name, agent = str(data.get("name") or ""), data.get("kind") == "agent"
        operation = "invoke_agent" if agent else "invoke_workflow"
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.agent.name": name,
            "ropewalk.run.id": event.run_id,
            "ropewalk.run.kind": str(data.get("kind") or ""),
            "ropewalk.run.resumed": event.kind == "run.resumed",
        }
        span = self._tracer.start_span(
            f"{operation} {name}".strip(), attributes=attributes, start_time=_nanoseconds(event.at)
        )
        previous = context.attach(self._trace.set_span_in_context(span))
        self._runs[event.run_id] = _RunTrace(span, operation, name, previous)

    def _end_run(self, run: _RunTrace, event: Event) -> None:
        from opentelemetry import context

        del self._runs[event.run_id]
        status = str((event.data or {}).get("status", "")) if isinstance(event.data, dict) else ""
        status = status or event.kind.partition(".")[2]
        for span, _, _ in run.nodes.values():
            span.end(_nanoseconds(event.at))  # the run ended before these nodes did
        run.span.set_attribute("ropewalk.run.status", status)
        is_failed = status in ("failed", "timeout", "interrupted")
        if is_failed:
            run.span.set_attribute("error.type", status)
            run.span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, status))
        run.span.end(_nanoseconds(event.at))
        took = event.data.get("ms") if isinstance(event.data, dict) else None
        if isinstance(took, (int, float)):
            attributes = {"gen_ai.agent.name": run.name, "ropewalk.run.status": status}
            self._run_time.record(took / 1000, attributes)
            attributes = {"gen_ai.operation.name": run.operation, "gen_ai.agent.name": run.name}
            self._agent_time.record(took / 1000, attributes | ({"error.type": status} if is_failed else {}))
        context.detach(run.previous)

    # --- nodes --------------------------------------------------------------------------------

    def _start_node(self, run: _RunTrace, event: Event) -> None:
        from opentelemetry import context

        data: Mapping[str, Any] = event.data if isinstance(event.data, dict) else {}
        if data.get("replayed"):
            return  # recorded earlier, not executed now
        tool = data.get("tool")

        # The span of a tool or a model has the name that the conventions require.
        attributes: dict[str, Any] = {"ropewalk.run.id": event.run_id, "ropewalk.node.path": event.path}
        name, kind = event.node, self._trace.SpanKind.INTERNAL
        if tool == _MODEL_TOOL:
            # The turn adds the model to the name.
            name, kind = "chat", self._trace.SpanKind.CLIENT
            attributes |= {"gen_ai.operation.name": "chat"}
        elif tool:
            name = f"execute_tool {tool}"
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
            attributes |= {"gen_ai.tool.call.id": f"{event.run_id}/{event.path}", "gen_ai.tool.type": "function"}
        if data.get("phase"):
            attributes["ropewalk.phase"] = data["phase"]
        parent = self._trace.set_span_in_context(self._parent_span(run, event.path))
        span = self._tracer.start_span(name, parent, kind, attributes, start_time=_nanoseconds(event.at))
        run.nodes[event.path] = (span, tool, event.at)

        # Spans that the tool makes in this task and its child tasks belong to this node. The context is not detached:
        # parents are found by path, and the end of the run restores the previous context.
        context.attach(self._trace.set_span_in_context(span, parent))

    def _parent_span(self, run: _RunTrace, path: str) -> Span:
        """Return the span of the innermost node around a path; that of the run if there is none."""
        while path:
            path = _INDEX.sub("", path.rpartition("/")[0])
            for candidate in (path, _ATTEMPT_NUMBER.sub("", path)):
                if candidate in run.nodes:
                    return run.nodes[candidate][0]
        return run.span

    def _end_node(self, run: _RunTrace, event: Event) -> None:
        started = run.nodes.pop(event.path, None)
        if started is None:
            return
        span, tool, start = started
        failed = event.kind == "node.failed" and isinstance(event.data, dict)
        call_failed = event.kind != "node.finished" and isinstance(
            event.data, dict
        )  # a recovered node's call failed as well
        kind = str(event.data.get("kind")) if call_failed else ""
        if failed:
            span.set_attribute("error.type", kind)
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(event.data.get("message"))))
        if call_failed:
            span.add_event("exception", _exception_attributes(event.data), _nanoseconds(event.at))
        span.end(_nanoseconds(event.at))
        if tool:
            recorded: Mapping[str, Any] = getattr(span, "attributes", None) or {}
            attributes = {name: recorded[name] for name in _DIMENSIONS if name in recorded}
            attributes |= {"error.type": kind} if call_failed else {}
            timer = self._model_time if tool == _MODEL_TOOL else self._tool_time
            timer.record(event.at - start, attributes)

    def _record_lines(self, span: Span, event: Event) -> None:
        lines: Any = event.data["lines"] if isinstance(event.data, dict) else []
        for line in lines[:_MAX_LINES]:
            attributes = {"log.iostream": line["stream"], "body": line["text"]}
            attributes |= {"severity": line["level"]} if "level" in line else {}
            span.add_event("log", attributes, _nanoseconds(line["at"]))

    def _record_attempt(self, run: _RunTrace, event: Event) -> None:
        node = run.nodes.get(event.path) or run.nodes.get(_ATTEMPT_NUMBER.sub("", event.path))
        data: Mapping[str, Any] = event.data if isinstance(event.data, dict) else {}
        if data.get("replayed"):
            return
        span = node[0] if node is not None else run.span
        attributes = {"ropewalk.attempt": data.get("attempt") or 1, "error.type": str(data.get("kind"))}
        attributes |= {**_exception_attributes(data), "ropewalk.node.path": event.path}
        span.add_event("attempt.failed", attributes, _nanoseconds(event.at))


def _exception_attributes(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return type, message and stack of an exception, as the conventions name them."""
    classes = data.get("classes") or [str(data.get("kind"))]
    attributes = {"exception.type": classes[0], "exception.message": str(data.get("message"))}
    return {**attributes, "exception.stacktrace": data["stack"]} if data.get("stack") else attributes


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)
