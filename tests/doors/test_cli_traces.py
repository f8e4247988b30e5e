"""A command whose environment names a collector sends it traces and metrics."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import fork_server

pytestmark = pytest.mark.process


class Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.path, body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def collector() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Collector)
    server.got = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_run_is_sent_to_the_collector(project, collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    done = project("run", "shout.yaml", "--input", '{"text": "a"}')
    assert done.code == 0, done.err
    sent = {}
    for path, body in collector.got:
        sent[path] = sent.get(path, b"") + body
    assert b"invoke_workflow shout" in sent["/v1/traces"]
    assert b"execute_tool upper" in sent["/v1/traces"]
    assert b"ropewalk.run.duration" in sent["/v1/metrics"]


def test_a_collector_that_is_not_there_changes_nothing(project, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    tools = project.home / "rw_cli_tools.py"
    tools.write_text(f"{tools.read_text()}\nfrom ropewalk import telemetry\ntelemetry.SHUTDOWN_TIMEOUT = 0.2\n")
    done = project("run", "shout.yaml", "--input", '{"text": "a"}')
    assert done.code == 0
    assert done.err.count("could not export traces and metrics to http://127.0.0.1:9; they were dropped: ") == 1
    assert "Transient" not in done.err


@pytest.mark.campaign("faults", only=True)
def test_a_collector_that_never_answers_is_not_waited_for(project, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "50")
        done = project("run", "shout.yaml", "--log", "json", "--input", '{"text": "a"}')
    assert done.code == 0
    [line] = [json.loads(line) for line in done.err.splitlines() if "ropewalk.telemetry" in line]
    assert line["message"].endswith("they were dropped: no answer within 2 s")


def test_requests_to_mcp_servers_are_spans_below_those_of_their_nodes(project, collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    server = fork_server.program("python")
    project.write("ropewalk.toml", f"[mcp.time]\ncommand = '{server}'\nargs = ['-m', 'mcp_server_time']\n")
    call = "{id: now, type: tool, tool: 'time:get_current_time', params: {timezone: UTC}}"
    project.write("time.yaml", f"kind: chain\nname: c\nnodes: [{call}]\n")
    done = project("run", "time.yaml")
    assert done.code == 0, done.err
    spans = {}
    for path, body in collector.got:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    spans |= {span.name: span for span in scope.spans}
    asked = spans["MCP send tools/call get_current_time"]
    node = spans["execute_tool time:get_current_time"]
    assert (asked.parent_span_id, asked.trace_id) == (node.span_id, spans["invoke_workflow c"].trace_id)
    assert asked.kind == asked.SPAN_KIND_CLIENT
    assert "tools/call" in [one.value.string_value for one in asked.attributes if one.key == "mcp.method.name"]
