"""How tools did for the requests they were used for: what is kept of them, and the rows in memory.

Of each tool the newest KEPT_USES requests stay; the older ones, and uses without a request, are added up in a row
whose request is empty, so that success rates stay what they were.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from .use import KEPT_USES, ToolUse


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


def _add(known: dict[str, ToolUse], use: ToolUse) -> None:
    old = known.get(use.request)
    known[use.request] = use if old is None else old.plus(use)
