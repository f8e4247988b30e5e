"""How tools did for the requests they were used for: what is kept of them, and the rows in memory.

Of each tool KEPT_USES different requests stay. Requests that repeat a newer one with other numbers go first, then the
oldest. What goes, and uses without a request, is added up in a row whose request is empty, so that success rates stay
what they were.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from .use import KEPT_USES, ToolUse

ALIKE: Final = 0.75  # share of common words from which one request repeats another
_WORD: Final = re.compile(r"[^\W\d_]+")


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
    """Return the uses of one tool that are not kept.

    Each use beyond KEPT_USES, from the oldest to the newest, replaces the older one of the two most alike requests,
    so that many routine requests do not replace different ones. Where no two are alike it replaces the oldest.
    """
    kept: list[ToolUse] = []
    nearest: list[float] = []  # how alike the likest newer request is, for each kept use
    gone: list[ToolUse] = []
    for use in reversed(in_order(use for use in uses if use.request)):
        words = _words(use.request)
        nearest = [max(like, _alike(words, _words(one.request))) for like, one in zip(nearest, kept, strict=True)]
        kept.append(use)
        nearest.append(0.0)
        if len(kept) > KEPT_USES:
            most = max(nearest)
            place = nearest.index(most) if most >= ALIKE else 0
            gone.append(kept.pop(place))
            del nearest[place]
    return gone


@lru_cache(maxsize=4096)
def _words(request: str) -> frozenset[str]:
    """The different words of a request, without numbers: these change from one routine request to the next."""
    return frozenset(_WORD.findall(request.casefold()))


def _alike(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of the words of both that both have."""
    return len(one & other) / max(1, len(one | other))


def without_request(use: ToolUse) -> ToolUse:
    return ToolUse(tool=use.tool, request="", successes=use.successes, failures=use.failures, at=use.at)


def _add(known: dict[str, ToolUse], use: ToolUse) -> None:
    old = known.get(use.request)
    known[use.request] = use if old is None else old.plus(use)
