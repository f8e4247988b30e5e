"""Counts and times of the runs of this process, as Prometheus reads them: `GET /metrics`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0

from ...events import Event
from .answers import Route

_SECONDS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 300)
router = APIRouter(tags=["metrics"], route_class=Route)


class Metrics:
    """Takes the events of runs. Labelled by what a project has a bounded number of, never by a run."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        more: dict[str, Any] = {"registry": self.registry}
        tool: Any = ("tool",)
        self._going = Gauge("ropewalk_runs_going", "Runs that this process executes now.", **more)
        self._runs = Counter("ropewalk_runs", "Runs that have ended in this process, by status.", ("status",), **more)
        said = "Seconds that runs took to their end."
        self._run_time = Histogram("ropewalk_run_duration_seconds", said, buckets=_SECONDS, **more)
        said = "Calls of tools that have ended, by tool and outcome (ok, failed); all attempts of a node are one call."
        self._calls = Counter("ropewalk_tool_calls", said, (*tool, "outcome"), **more)
        said = "Seconds that calls of tools took, with their attempts and the pauses between them."
        self._call_time = Histogram("ropewalk_tool_call_duration_seconds", said, tool, buckets=_SECONDS, **more)
        said = "Attempts that failed, of nodes that are tried again or whose failure is handled, by error."
        self._attempts = Counter("ropewalk_failed_attempts", said, ("error",), **more)
        self._begun: dict[str, dict[str, tuple[str, float]]] = {}

    def take(self, event: Event) -> None:
        data: dict[str, Any] = event.data if isinstance(event.data, dict) else {}
        if event.kind in ("run.started", "run.resumed"):
            self._begun[event.run_id] = {}
            self._going.inc()
            return
        begun = self._begun.get(event.run_id)
        if begun is None:
            return
        if event.kind == "node.started" and data.get("tool") and not data.get("replayed"):
            begun[event.path] = (str(data["tool"]), event.at)
        elif event.kind in ("node.finished", "node.recovered", "node.failed") and event.path in begun:
            tool, at = begun.pop(event.path)
            self._calls.labels(tool, "ok" if event.kind == "node.finished" else "failed").inc()
            self._call_time.labels(tool).observe(max(0.0, event.at - at))
        elif event.kind == "attempt.failed" and not data.get("replayed"):
            self._attempts.labels(str(data.get("kind"))).inc()
        elif event.path == "" and event.kind.startswith("run."):
            del self._begun[event.run_id]
            self._going.dec()
            self._runs.labels(str(data.get("status") or event.kind.partition(".")[2])).inc()
            if "ms" in data:
                self._run_time.observe(data["ms"] / 1000)


@router.get(
    "/metrics", summary="Get metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}
)
def metrics(request: Request) -> Response:
    """Counts and times of the runs of this process."""
    counted: Metrics = request.app.state.metrics
    return Response(generate_latest(counted.registry), media_type=CONTENT_TYPE_PLAIN_1_0_0)
