"""Presenters: runs, waits, tools, definitions, schedules and workers as JSON, the same for every interface.

Each interface renders these objects: the command line as a table, HTTP as a response, MCP as a resource, Python as a
dictionary. `RunService.get` presents a whole run, `runs/steps.py` its steps, `runs/undone.py` its undo, and
`runs/compare.py` the differences of two runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from ..config.secrets import process_redaction
from ..journal.protocol import Definition, RunRow, iso
from ..tools.reserved import PLANS
from ..tools.source import prefix_of
from ..values import Json
from .cron_text import cron_text
from .overview import next_due_times, run_of
from .runs.liveness import current_node, liveness_flags, liveness_of, shown_status, status_of, waiting_run_ids
from .runs.steps import run_summary

if TYPE_CHECKING:
    from ..ir import Flow
    from ..journal.sql.worker_row import WorkerRow
    from ..select.selector import SelectionResult
    from ..source.document import Document
    from ..tools.tool import Tool
    from ..tools.toolbox import Toolbox
    from ..workers.schedules import ScheduleRow
    from .context import Context
    from .jobs import Jobs
    from .overview import FailureGroup, Overview, QueueState

_MAX_MESSAGE: Final = 300  # characters of an error in a list
_MAX_DEFINITIONS: Final = 50  # of an overview
_MAX_FAILURES: Final = 100  # of an overview, by error


def run_line(
    row: RunRow, liveness: str | None, current: str | None = None, *, is_waiting: bool = False
) -> dict[str, Json]:
    """Present a run as one item of a list."""
    status = shown_status(row, liveness, is_waiting)
    executing = row.status == "running" and liveness is None
    return {**run_summary(row, current), "status": status, "executing": executing, **liveness_flags(liveness)}


def run_lines(context: Context, rows: Sequence[RunRow]) -> list[dict[str, Any]]:
    """Present runs as a list, with what they wait for and how far they are undone."""
    from .runs.undone import undo_statuses

    states, undos, waiting = liveness_of(context, rows), undo_statuses(context, rows), waiting_run_ids(context)
    return [
        {
            **run_line(row, states.get(row.id), current_node(context, row), is_waiting=row.id in waiting),
            "errorMessage": _error_message(row),
            "waiting": row.id in waiting,
            "undoStatus": undos.get(row.id),
            **({"damaged": row.damaged} if row.damaged else {}),
        }
        for row in rows
    ]


def _error_message(row: RunRow | ScheduleRow) -> str | None:
    message = row.error.get("message") if isinstance(row.error, dict) else row.error
    return None if message is None else str(message)[:_MAX_MESSAGE]


def run_state(context: Context, row: RunRow, **outcome: Json) -> dict[str, Json]:
    """Present what was done to a run, with the status that the run has now."""
    return {"runId": row.id, "status": status_of(context, row), **outcome}


def named_waits(context: Context, waits: Iterable[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Present waits with the names of their runs."""
    listed = list(waits)
    rows = {id: context.store.get_run(id) for id in {str(wait["runId"]) for wait in listed}}
    return [{**wait, "name": row.name if (row := rows[str(wait["runId"])]) is not None else ""} for wait in listed]


def tool_failures(toolbox: Toolbox) -> dict[str, str]:
    """Present the servers that could not be reached, each with the reason."""
    return {name: str(reason) for name, reason in toolbox.failures.items()}


def tool_list(context: Context, tools: Iterable[Tool]) -> dict[str, Any]:
    """Present tools, with the servers that could not be reached."""
    return {"tools": [tool_line(context, tool) for tool in tools], "failures": tool_failures(context.toolbox)}


def tool_line(context: Context, tool: Tool) -> dict[str, Any]:
    """Present a tool as one item of a list: its definition, what a call of it does, and where it runs."""
    from .facts import facts_of_tool

    facts, backends = facts_of_tool(context, tool.id), context.toolbox.backends(tool.id)
    backend = backends[0] if backends else None
    return {
        **tool.to_dict(),
        "effect": facts.effect,
        "undo": facts.undo,
        "source": "flow" if facts.flow is not None or backend is None else backend.kind,
        "sourceName": None if backend is None else backend.server_name or backend.provider_id or backend.source,
    }


def tool_selection(jobs: Jobs, selection: SelectionResult) -> dict[str, Any]:
    """Present the tools that fit a request, with the servers that could not be reached."""
    data, toolbox = selection.to_dict(), jobs.context.toolbox
    results = [{**row, **_origin(jobs, str(row["name"]))} for row in data["results"]]
    return {**data, "results": results, "failures": tool_failures(toolbox)}


def _origin(jobs: Jobs, tool_id: str) -> dict[str, Json]:
    """Present where a tool comes from; for a flow of the project also the id by which it is run."""
    flow = None if jobs.flow_tools is None else jobs.flow_tools.file_of(tool_id)
    if flow is not None:
        return {"source": "flow", "flow": flow}
    if prefix_of(tool_id) == PLANS:
        return {"source": "plan"}
    backends = jobs.context.toolbox.backends(tool_id)
    return {"source": backends[0].kind if backends else None}


def definition_line(
    kind: str, id: str, name: str, document: Mapping[str, Any] | None, fingerprint: str, created: float
) -> dict[str, Any]:
    """Present a definition as one item of a list, without its document."""

    # `created`: When it was stored, or when its file was changed, in seconds since the epoch.
    return {
        "kind": kind,
        "id": id,
        "name": name,
        "description": (document or {}).get("description", ""),
        "fingerprint": fingerprint,
        "created": iso(created),
    }


def stored_definition_line(stored: Definition) -> dict[str, Any]:
    """Present a stored definition as one item of a list, with the number of its runs as `runCount`."""
    line = definition_line(stored.kind, stored.id, stored.name, stored.document, stored.fingerprint, stored.created)
    return {**line, "runCount": stored.run_count}


def definition_content(document: Mapping[str, Any], flow: Flow) -> dict[str, Any]:
    """Present the document of a definition and the schema of its input."""
    return {"document": document, "inputSchema": flow.input_schema}


def definition_details(
    line: Mapping[str, Any], document: Mapping[str, Any], flow: Flow, file: Document | None = None
) -> dict[str, Any]:
    """Present a whole definition: its item of a list, its document, the text of its file, and its graph."""
    from ..draw import graph_data

    source = None if file is None else file.text
    name = None if file is None else PurePath(file.file).name
    content = definition_content(document, flow)
    return {**line, **content, "source": source, "sourceName": name, "graph": graph_data(flow)}


def schedule_line(row: ScheduleRow) -> dict[str, Any]:
    """Present a schedule as one item of a list."""
    is_wrong = row.next is None and not row.paused and row.error is not None  # its times are wrong
    return {
        "name": row.name,
        "cron": row.cron,
        "times": None if is_wrong else cron_text(row.cron),
        "timezone": row.timezone,
        "flow": row.flow,
        "input": process_redaction().value(row.input),
        "paused": row.paused,
        "last": row.last.isoformat() if row.last else None,
        "status": row.status,
        "error": _error_message(row),
        "runId": run_of(row),
        "next": row.next.isoformat() if row.next else None,
        "upcoming": [due.isoformat() for due in next_due_times(row)],
        "catchUp": row.catch_up,
        "missed": [
            {"due": datetime.fromtimestamp(item.due, UTC).isoformat(), "became": item.outcome, "runId": item.run}
            for item in row.missed
        ],
    }


def worker_line(row: WorkerRow) -> dict[str, Any]:
    """Present a worker as one item of a list."""
    return {"id": row.id, "began": row.began, "silent": row.silent, **row.about}


def overview_data(overview: Overview) -> dict[str, Any]:
    """Present an overview: numbers of runs by period, status and definition, failures, and what is in progress."""
    periods, total = len(overview.edges) - 1, 0
    statuses: dict[str, list[int]] = {}
    definitions: dict[tuple[str, str | None, str], tuple[list[int], Counter[str]]] = {}
    for run in overview.runs:
        statuses.setdefault(run.status, [0] * periods)[run.period] += run.count
        identity = (run.kind, run.definition_id, run.name)
        by_period, by_status = definitions.setdefault(identity, ([0] * periods, Counter()))
        by_period[run.period] += run.count
        by_status[run.status] += run.count
        total += run.count
    waits = Counter(
        "questions" if "question" in wait else "approvals" if "approval" in wait else "events"
        for wait in overview.waits
    )
    order = sorted(definitions, key=lambda identity: (-sum(definitions[identity][0]), identity[2]))
    return {
        "since": iso(overview.edges[0]),
        "until": iso(overview.edges[-1]),
        "periods": [iso(edge) for edge in overview.edges[:-1]],
        "runs": total,
        "statuses": statuses,
        "definitions": [
            {
                "kind": kind,
                "id": id,
                "name": name,
                "runs": sum(definitions[kind, id, name][0]),
                "periods": definitions[kind, id, name][0],
                "statuses": dict(definitions[kind, id, name][1]),
            }
            for kind, id, name in order[:_MAX_DEFINITIONS]
        ],
        "definitionCount": len(order),
        "failures": [_failure_line(failure) for failure in overview.failures[:_MAX_FAILURES]],
        "failureCount": len(overview.failures),
        "waiting": {name: waits[name] for name in ("approvals", "events", "questions")},
        "schedules": [schedule_line(row) for row in overview.schedules.rows],
        "queues": [_queue_line(queue) for queue in overview.work.queues],
        "workers": None if overview.work.workers is None else list(map(worker_line, overview.work.workers)),
    }


def _failure_line(failure: FailureGroup) -> dict[str, Any]:
    return {
        "kind": failure.kind,
        "id": failure.definition_id,
        "name": failure.name,
        "node": failure.node,
        "errorKind": failure.error_kind,
        "message": failure.message,
        "count": failure.count,
        "last": iso(failure.last),
        "runId": failure.run_id,
    }


def _queue_line(queue: QueueState) -> dict[str, Any]:
    limits = queue.limits
    return {
        "name": queue.name,
        "waiting": queue.waiting,
        "running": queue.running,
        "concurrency": limits.concurrency,
        "workerConcurrency": limits.worker_concurrency,
        "limit": limits.limit,
        "period": limits.period if limits.limit is not None else None,
    }
