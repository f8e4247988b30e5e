"""Tool statistics from recorded runs: number of calls, failures and duration of each tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...errors import RopewalkError
from ...ops import calls_of
from ...values import Json
from .steps import too_late

if TYPE_CHECKING:
    from ...journal.protocol import RunRow
    from ..context import Context

RUNS: Final = 1000
"""Default number of runs to read, newest first."""
_PAGE: Final = 200
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(slots=True)
class _Tally:
    times: list[float] = field(default_factory=list)
    failed: int = 0
    tokens: int = 0
    last: float = 0.0
    error: str = ""


def tool_stats(context: Context, *, since: float | None = None, limit: int = RUNS) -> dict[str, Json]:
    """Compute the statistics of every tool that the newest runs called.

    Args:
        context: The services of the app.
        since: Read only runs that started at this time or later, in seconds since the epoch.
        limit: Maximum number of runs to read, newest first.

    Returns:
        `tools`, most called first: for each tool `calls`, `failed`, `p50Ms`, `p95Ms`, `tokens` (of models) and
        `lastError`. `runs` is the number of runs read; `unread` counts those with a definition that can no longer be
        read.
    """
    result: dict[str, _Tally] = {}
    known: dict[str, Mapping[str, str]] = {}
    looked = unread = 0
    for row in _rows(context, since, limit):
        looked += 1
        tools = _tools_in(context, row, known)
        if tools is None:
            unread += 1
            continue
        history = context.history(row.id)
        late = too_late(history)
        calls = [e for e in history if e.kind == "call_failed" or (e.kind == "call" and e.path not in late)]
        for entry in [*calls, *late.values()]:
            if entry.node in tools:
                _count(result.setdefault(tools[entry.node], _Tally()), entry)
    order = sorted(result, key=lambda tool: (-len(result[tool].times), tool))
    return {"tools": [_line(tool, result[tool]) for tool in order], "runs": looked, "unread": unread}


def _rows(context: Context, since: float | None, limit: int) -> Iterator[RunRow]:
    after: str | None = None
    while limit > 0:
        page = context.store.list_runs(since=since, after=after, limit=min(limit, _PAGE))
        yield from page
        if len(page) < _PAGE:
            return
        after, limit = page[-1].id, limit - len(page)


def _tools_in(context: Context, row: RunRow, known: dict[str, Mapping[str, str]]) -> Mapping[str, str] | None:
    """Return the tool that each node of a run calls, by node id; None if the definition can no longer be read."""
    fingerprint = str(row.fingerprint)
    if fingerprint not in known or not fingerprint:
        full_row = context.store.get_run(row.id)
        try:
            document: Any = full_row.document if full_row is not None else None
            loaded = context.definitions.loaded({**document, "kind": row.kind}, root=(row.context or {}).get("root"))
        except (RopewalkError, TypeError):
            return None  # for example, its notation is no longer installed
        known[fingerprint] = {node.id: node.op.tool for node in calls_of(loaded.flow.body)}
    return known[fingerprint]


def _count(tally: _Tally, entry: Any) -> None:
    tally.times.append((entry.ended - entry.started) * 1000)
    if entry.kind != "call":
        tally.failed += 1
        if entry.ended >= tally.last:
            tally.last, tally.error = entry.ended, str(entry.data.get("message", ""))
    elif isinstance(entry.data, dict) and isinstance(entry.data.get("usage"), dict):
        tally.tokens += sum(entry.data["usage"].get(key, 0) for key in _TOKENS)


def _line(tool: str, tally: _Tally) -> dict[str, Json]:
    times = sorted(tally.times)
    return {
        "tool": tool,
        "calls": len(times),
        "failed": tally.failed,
        "p50Ms": round(times[len(times) // 2], 3),
        "p95Ms": round(times[min(len(times) - 1, len(times) * 95 // 100)], 3),
        "tokens": tally.tokens,
        "lastError": tally.error or None,
    }
