"""Tool statistics from recorded runs: number of calls, failures and duration of each tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...errors import RopewalkError
from ...ops import calls_of
from ...values import Json
from .steps import late_attempts

if TYPE_CHECKING:
    from ...journal.protocol import RunRow
    from ..context import Context

DEFAULT_RUNS: Final = 1000
"""Default number of runs to read, newest first."""
_PAGE: Final = 200
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(slots=True)
class _ToolCounts:
    durations_ms: list[float] = field(default_factory=list)
    failed: int = 0
    tokens: int = 0
    last_failure_at: float = 0.0
    last_error: str = ""


def tool_stats(context: Context, *, since: float | None = None, limit: int = DEFAULT_RUNS) -> dict[str, Json]:
    """Compute the statistics of every tool that the newest runs called."""

    # `since`: Read only runs that started at this time or later, in seconds since the epoch.
    counts: dict[str, _ToolCounts] = {}
    tools_by_fingerprint: dict[str, Mapping[str, str]] = {}
    runs_read = unread = 0
    for row in _rows(context, since, limit):
        runs_read += 1
        tools = _tools_of_nodes(context, row, tools_by_fingerprint)
        if tools is None:
            unread += 1
            continue
        history = context.history(row.id)
        late_calls = late_attempts(history)
        calls = [e for e in history if e.kind == "call_failed" or (e.kind == "call" and e.path not in late_calls)]
        for entry in [*calls, *late_calls.values()]:
            if entry.node in tools:
                _count_call(counts.setdefault(tools[entry.node], _ToolCounts()), entry)
    order = sorted(counts, key=lambda tool: (-len(counts[tool].durations_ms), tool))
    return {"tools": [_present_tool(tool, counts[tool]) for tool in order], "runs": runs_read, "unread": unread}


def _rows(context: Context, since: float | None, limit: int) -> Iterator[RunRow]:
    after: str | None = None
    while limit > 0:
        page = context.store.list_runs(since=since, after=after, limit=min(limit, _PAGE))
        yield from page
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
        try:
            document: Any = full_row.document if full_row is not None else None
            loaded = context.definitions.get({**document, "kind": row.kind}, root=(row.context or {}).get("root"))
        except (RopewalkError, TypeError):
            return None  # for example, its notation is no longer installed
        tools_by_fingerprint[fingerprint] = {node.id: node.op.tool for node in calls_of(loaded.flow.body)}
    return tools_by_fingerprint[fingerprint]


def _count_call(counts: _ToolCounts, entry: Any) -> None:
    counts.durations_ms.append((entry.ended - entry.started) * 1000)
    if entry.kind != "call":
        counts.failed += 1
        if entry.ended >= counts.last_failure_at:
            counts.last_failure_at, counts.last_error = entry.ended, str(entry.data.get("message", ""))
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
    }
