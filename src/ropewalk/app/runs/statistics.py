"""Tool statistics from recorded runs: number of calls, failures and duration of each tool."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...errors import RopewalkError
from ...journal.protocol import ENDS, SCHEDULE, iso
from ...ops import calls_of
from ...select.outcomes import tool_outcomes
from ...select.usage import Rate
from ...values import Json
from .steps import late_attempts

if TYPE_CHECKING:
    from ...ir import Flow
    from ...journal.protocol import Entry, RunRow
    from ..context import Context

DEFAULT_RUNS: Final = 1000
"""Default number of runs to read, newest first."""
_RATING_SECONDS: Final = 0.03
DEFAULT_RATED: Final = 200
"""Number of runs from which the selection knows how reliable tools are."""
_PAGE: Final = 200
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(slots=True)
class _ToolCounts:
    durations_ms: list[float] = field(default_factory=list)
    failed: int = 0
    tokens: int = 0
    last_failure_at: float = 0.0
    last_error: str = ""
    last_failed_run: str | None = None


def tool_stats(context: Context, *, since: float | None = None, limit: int = DEFAULT_RUNS) -> dict[str, Json]:
    """Compute the statistics of every tool that the newest runs called."""

    # `since`: Read only runs that started at this time or later, in seconds since the epoch.
    counts: dict[str, _ToolCounts] = {}
    runs_read = unread = 0
    for run_id, calls in _calls_by_run(context, since, limit):
        runs_read += 1
        unread += calls is None
        for tool, entry in calls or ():
            _count_call(counts.setdefault(tool, _ToolCounts()), entry, run_id)
    order = sorted(counts, key=lambda tool: (-len(counts[tool].durations_ms), tool))
    return {"tools": [_present_tool(tool, counts[tool]) for tool in order], "runs": runs_read, "unread": unread}


def success_rates(context: Context, limit: int = DEFAULT_RATED) -> dict[str, Rate]:
    """Return in how many of the newest runs each tool succeeded, as runs with a request teach it."""
    # A selection waits for this, so it ends with the run after which it has used its time, of the processor since a
    # busy machine should not change what is known. Results are not read: they may be large.
    end = time.thread_time() + _RATING_SECONDS
    counts: dict[str, tuple[int, int]] = {}
    flows: dict[str, Flow | None] = {}
    for row in _rows(context, None, limit):
        if time.thread_time() > end:
            break
        if row.status not in ENDS:
            continue
        fingerprint = str(row.fingerprint)
        if fingerprint not in flows or not fingerprint:
            full_row = context.store.get_run(row.id)
            flows[fingerprint] = None if full_row is None else _flow_of(context, full_row)
        flow = flows[fingerprint]
        outcomes = {} if flow is None else tool_outcomes(flow, context.history(row.id), {})
        for tool, success in outcomes.items():
            successes, failures = counts.get(tool, (0, 0))
            counts[tool] = successes + success, failures + (not success)
    return {tool: Rate(successes, failures) for tool, (successes, failures) in counts.items()}


def _calls_by_run(
    context: Context, since: float | None, limit: int
) -> Iterator[tuple[str, list[tuple[str, Entry]] | None]]:
    """Yield the recorded calls of each run with their tools; None for a run whose definition cannot be read."""
    tools_by_fingerprint: dict[str, Mapping[str, str]] = {}
    for row in _rows(context, since, limit):
        tools = _tools_of_nodes(context, row, tools_by_fingerprint)
        if tools is None:
            yield row.id, None
            continue
        history = context.history(row.id)
        late_calls = late_attempts(history)
        calls = [e for e in history if e.kind == "call_failed" or (e.kind == "call" and e.path not in late_calls)]
        yield (
            row.id,
            [(tools[entry.node], entry) for entry in [*calls, *late_calls.values()] if entry.node in tools],
        )


def _rows(context: Context, since: float | None, limit: int) -> Iterator[RunRow]:
    after: str | None = None
    while limit > 0:
        page = context.store.list_runs(since=since, after=after, limit=min(limit, _PAGE))
        yield from (row for row in page if row.kind != SCHEDULE)  # they could not begin, and called nothing
        if len(page) < _PAGE:
            return
        after, limit = page[-1].id, limit - len(page)


def _tools_of_nodes(
    context: Context, row: RunRow, tools_by_fingerprint: dict[str, Mapping[str, str]]
) -> Mapping[str, str] | None:
    """Return the tool that each node of a run calls, by node id; None if the definition can no longer be read."""
    fingerprint = str(row.fingerprint)
    if fingerprint not in tools_by_fingerprint or not fingerprint:
        full_row = context.store.get_run(row.id)
        flow = None if full_row is None else _flow_of(context, full_row)
        if flow is None:
            return None
        tools_by_fingerprint[fingerprint] = {node.id: node.op.tool for node in calls_of(flow.body)}
    return tools_by_fingerprint[fingerprint]


def _flow_of(context: Context, row: RunRow) -> Flow | None:
    """Return the flow of a run; None if its definition can no longer be read."""
    document: Any = row.document
    try:
        return context.definitions.get({**document, "kind": row.kind}, root=(row.context or {}).get("root")).flow
    except (RopewalkError, TypeError):
        return None  # for example, its notation is no longer installed


def _count_call(counts: _ToolCounts, entry: Any, run_id: str) -> None:
    counts.durations_ms.append((entry.ended - entry.started) * 1000)
    if entry.kind != "call":
        counts.failed += 1
        if entry.ended >= counts.last_failure_at:
            counts.last_failure_at, counts.last_failed_run = entry.ended, run_id
            counts.last_error = str(entry.data.get("message", ""))
    elif isinstance(entry.data, dict) and isinstance(entry.data.get("usage"), dict):
        counts.tokens += sum(entry.data["usage"].get(key, 0) for key in _TOKENS)


def _present_tool(tool: str, counts: _ToolCounts) -> dict[str, Json]:
    durations = sorted(counts.durations_ms)
    return {
        "tool": tool,
        "calls": len(durations),
        "failed": counts.failed,
        "p50Ms": round(durations[len(durations) // 2], 3),
        "p95Ms": round(durations[min(len(durations) - 1, len(durations) * 95 // 100)], 3),
        "tokens": counts.tokens,
        "lastError": counts.last_error or None,
        "lastFailure": iso(counts.last_failure_at or None),
        "lastFailedRun": counts.last_failed_run,
    }
