"""A command whose environment names a collector sends it traces and metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest


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
    thread = threading.Thread(target=server.serve_forever, daemon=True)
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
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    assert project("run", "shout.yaml", "--input", '{"text": "a"}').code == 0
