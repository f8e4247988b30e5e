"""What the runs in a store say of tools: how often each was called, how often it failed, how long it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..errors import RopewalkError
from ..ops import calls_of
from ..values import Json
from .steps import too_late

if TYPE_CHECKING:
    from ..app import App
    from ..journal.journal import RunRow

RUNS: Final = 1000
"""The newest runs that are looked at, unless asked for more."""
_PAGE: Final = 200
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass(slots=True)
class _Tally:
    times: list[float] = field(default_factory=list)
    failed: int = 0
    tokens: int = 0
    last: float = 0.0
    error: str = ""


def tool_stats(app: App, *, since: float | None = None, limit: int = RUNS) -> dict[str, Json]:
    """`tools`: for each tool `calls`, `failed`, `p50Ms`, `p95Ms`, `tokens` (of models) and `lastError`, those called
    most first; `runs` that were looked at, and those among them (`unread`) whose definition cannot be read any more."""
    found: dict[str, _Tally] = {}
    known: dict[str, Mapping[str, str]] = {}
    looked = unread = 0
    for row in _rows(app, since, limit):
        looked += 1
        tools = _tools_in(app, row, known)
        if tools is None:
            unread += 1
            continue
        history = app.runs.history(row.id)
        late = too_late(history)
        calls = [e for e in history if e.kind == "call_failed" or (e.kind == "call" and e.path not in late)]
        for entry in [*calls, *late.values()]:
            if entry.node in tools:
                _count(found.setdefault(tools[entry.node], _Tally()), entry)
    order = sorted(found, key=lambda tool: (-len(found[tool].times), tool))
    return {"tools": [_line(tool, found[tool]) for tool in order], "runs": looked, "unread": unread}


def _rows(app: App, since: float | None, limit: int) -> Iterator[RunRow]:
    after: str | None = None
    while limit > 0:
        page = app.store.list_runs(since=since, after=after, limit=min(limit, _PAGE))
        yield from page
        if len(page) < _PAGE:
            return
        after, limit = page[-1].id, limit - len(page)


def _tools_in(app: App, row: RunRow, known: dict[str, Mapping[str, str]]) -> Mapping[str, str] | None:
    """The tools of a run's definition by the ids of the nodes that call them."""
    mark = str(row.fingerprint)
    if mark not in known or not mark:
        whole = app.store.get_run(row.id)
        try:
            document: Any = whole.document if whole is not None else None
            loaded = app.definitions.loaded({**document, "kind": row.kind}, root=(row.context or {}).get("root"))
        except (RopewalkError, TypeError):
            return None  # of a notation that is not there any more, say
        known[mark] = {node.id: node.op.tool for node in calls_of(loaded.flow.body)}
    return known[mark]


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
