"""How tools did for the requests they were used for: the rows in a database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from .connection import Connection, fetch
from .use import ToolUse
from .uses import in_order, older, without_request

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


def _put_all(connection: Connection, uses: Sequence[ToolUse]) -> None:
    """Sent twice, where an answer was lost, a use counts twice: no harm to a rate."""
    for use in uses:
        _put(connection, use)
    for tool in sorted({use.tool for use in uses}):
        rows = fetch(connection, f"SELECT {_COLUMNS} FROM tool_use WHERE tool = ? AND request <> ''", (tool,))
        for old in older(map(_use, rows)):
            connection.execute("DELETE FROM tool_use WHERE tool = ? AND request = ?", (tool, old.request))
            _put(connection, without_request(old))


def _of(tool: str | None) -> tuple[str, tuple[str, ...]]:
    return ("", ()) if tool is None else ("WHERE tool = ?", (tool,))


def _put(connection: Connection, use: ToolUse) -> None:
    connection.execute(_PUT, (use.tool, use.request, use.successes, use.failures, use.at))


def _use(row: tuple[str, str, int, int, float]) -> ToolUse:
    tool, request, successes, failures, at = row
    return ToolUse(tool=tool, request=request, successes=successes, failures=failures, at=at)
