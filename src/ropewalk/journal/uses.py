"""How tools did for the requests they were used for: the rows, in a database and in memory.

Of each tool the newest KEPT_USES requests stay; the older ones, and uses without a request, are added up in a row
whose request is empty, so that success rates stay what they were.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from .connection import Connection, fetch
from .use import KEPT_USES, ToolUse

if TYPE_CHECKING:
    from .writer import Writer

_COLUMNS: Final = "tool, request, successes, failures, at"
_PUT: Final = f"""
    INSERT INTO tool_use ({_COLUMNS}) VALUES (?, ?, ?, ?, ?) ON CONFLICT (tool, request) DO UPDATE SET
        successes = tool_use.successes + excluded.successes, failures = tool_use.failures + excluded.failures,
        at = CASE WHEN excluded.at > tool_use.at THEN excluded.at ELSE tool_use.at END
"""


class SqlUses:
    """Part of a store on SQL."""

    _writer: Writer

    def put_uses(self, uses: Sequence[ToolUse]) -> None:
        self._writer.run(lambda connection: _put_all(connection, uses))

    def list_uses(self, tool: str | None = None) -> list[ToolUse]:
        where, values = _of(tool)
        rows = self._writer.read(lambda c: fetch(c, f"SELECT {_COLUMNS} FROM tool_use {where}", values))
        return in_order(map(_use, rows))

    def delete_uses(self, tool: str | None = None) -> int:
        where, values = _of(tool)
        return len(self._writer.run(lambda c: fetch(c, f"DELETE FROM tool_use {where} RETURNING 1", values)))


class MemoryUses:
    """Part of a store in memory."""

    def __init__(self) -> None:
        self._tools: dict[str, dict[str, ToolUse]] = {}
        self._using = threading.Lock()

    def put_uses(self, uses: Sequence[ToolUse]) -> None:
        with self._using:
            for use in uses:
                known = self._tools.setdefault(use.tool, {})
                _add(known, use)
                for old in older(known.values()):
                    del known[old.request]
                    _add(known, without_request(old))

    def list_uses(self, tool: str | None = None) -> list[ToolUse]:
        with self._using:
            tools = self._tools if tool is None else [tool]
            return in_order(use for one in tools for use in self._tools.get(one, {}).values())

    def delete_uses(self, tool: str | None = None) -> int:
        gone = len(self.list_uses(tool))
        with self._using:
            for one in list(self._tools) if tool is None else [tool]:
                self._tools.pop(one, None)
        return gone


def in_order(uses: Iterable[ToolUse]) -> list[ToolUse]:
    """By tool, newest first; the row without a request last."""
    return sorted(uses, key=lambda use: (use.tool, not use.request, -use.at, use.request))


def older(uses: Iterable[ToolUse]) -> list[ToolUse]:
    """Those of one tool that are not among the newest."""
    return in_order(use for use in uses if use.request)[KEPT_USES:]


def without_request(use: ToolUse) -> ToolUse:
    return ToolUse(tool=use.tool, request="", successes=use.successes, failures=use.failures, at=use.at)


def _put_all(connection: Connection, uses: Sequence[ToolUse]) -> None:
    """Sent twice, where an answer was lost, a use counts twice: no harm to a rate."""
    for use in uses:
        _put(connection, use)
    for tool in sorted({use.tool for use in uses}):
        rows = fetch(connection, f"SELECT {_COLUMNS} FROM tool_use WHERE tool = ? AND request <> ''", (tool,))
        for old in older(map(_use, rows)):
            connection.execute("DELETE FROM tool_use WHERE tool = ? AND request = ?", (tool, old.request))
            _put(connection, without_request(old))


def _add(known: dict[str, ToolUse], use: ToolUse) -> None:
    old = known.get(use.request)
    known[use.request] = use if old is None else old.plus(use)


def _of(tool: str | None) -> tuple[str, tuple[str, ...]]:
    return ("", ()) if tool is None else ("WHERE tool = ?", (tool,))


def _put(connection: Connection, use: ToolUse) -> None:
    connection.execute(_PUT, (use.tool, use.request, use.successes, use.failures, use.at))


def _use(row: tuple[str, str, int, int, float]) -> ToolUse:
    tool, request, successes, failures, at = row
    return ToolUse(tool=tool, request=request, successes=successes, failures=failures, at=at)
