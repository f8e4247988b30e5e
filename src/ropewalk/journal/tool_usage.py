"""Tool usage: how tools performed for the requests they were used for. The selector learns from it.

Each tool keeps KEPT_USES different requests. Older ones, and uses without a request, are added up in one row per
source with an empty request, so success rates do not change.

A source is the user or client behind a request; learning is limited per source. The store has only a digest of it, no
name or address. A reader of the store can still check a guess against the digest.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Final, Protocol

from ..fast_dataclass import dataclass
from .changes import Changes

KEPT_USES: Final = 16
"""Requests that are remembered of one tool: those that differ most, then the newest, a fair share of each source."""
KEPT_SOURCES: Final = 16
"""Sources whose uses of one tool are counted apart; those of further ones are counted together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """How a tool did for one request of one source: unique by (tool, request, source)."""

    tool: str
    # What it was used for. Empty for uses without a request, and for older ones added up.
    request: str
    # How many uses succeeded.
    successes: int = 0
    # How many uses failed.
    failures: int = 0
    # The latest use, in seconds since the epoch.
    at: float = 0.0
    # Who asked, as a digest (`source.py`). Empty where nobody said.
    source: str = ""

    def plus(self, later: ToolUse) -> ToolUse:
        """Add the numbers of a later use."""
        return ToolUse(
            tool=self.tool,
            request=self.request,
            successes=self.successes + later.successes,
            failures=self.failures + later.failures,
            at=max(self.at, later.at),
            source=self.source,
        )


class UseStore(Protocol):
    """The part of every store that keeps the usage of tools."""

    def put_uses(self, uses: Sequence[ToolUse], /) -> None:
        """Add uses of tools."""

        # Of each tool KEPT_USES different requests are kept; the numbers of the others are added up by source.
        ...

    def list_uses(self, tool: str | None = None, /) -> list[ToolUse]:
        """List uses."""
        ...

    def delete_uses(self, tool: str | None = None, /) -> int:
        """Delete uses."""
        ...


ALIKE: Final = 0.75  # share of common words from which one request repeats another
_WORD: Final = re.compile(r"[^\W\d_]+")

Rows = dict[tuple[str, str], ToolUse]
"""The uses of one tool, by request and source."""


class MemoryUses(Changes):
    """The usage of tools in a store in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._tools: dict[str, Rows] = {}

    def put_uses(self, uses: Sequence[ToolUse]) -> None:
        """Add uses, and fold the rows that exceed the limits.

        Args:
            uses: The uses to add.
        """
        with self._changing:
            for use in uses:
                rows = self._tools.setdefault(use.tool, {})
                add(rows, use)
                for old, sum_row in surplus_rows(rows.values()):
                    del rows[old.request, old.source]
                    add(rows, sum_row)
            for tool in {use.tool for use in uses}:
                self._changed("uses", tool)

    def list_uses(self, tool: str | None = None) -> list[ToolUse]:
        """List the uses.

        Args:
            tool: Id of a tool; None for all.

        Returns:
            The rows as `in_order` sorts them.
        """
        with self._lock:
            tools = self._tools if tool is None else [tool]
            return in_order(use for name in tools for use in self._tools.get(name, {}).values())

    def delete_uses(self, tool: str | None = None) -> int:
        """Delete the uses.

        Args:
            tool: Id of a tool; None for all.

        Returns:
            Number of deleted rows.
        """
        count = len(self.list_uses(tool))
        with self._changing:
            for name in list(self._tools) if tool is None else [tool]:
                self._tools.pop(name, None)
                self._changed("uses", name)
        return count


def in_order(uses: Iterable[ToolUse]) -> list[ToolUse]:
    """Sort uses by tool, newest first."""

    # Rows without a request come last.
    return sorted(uses, key=lambda use: (use.tool, not use.request, -use.at, use.request, use.source))


def add(rows: Rows, use: ToolUse) -> ToolUse:
    """Add a use to the row of its request and source, and return that row."""
    old = rows.pop((use.request, use.source), None)
    rows[use.request, use.source] = row = use if old is None else old.plus(use)
    return row


def surplus_rows(uses: Iterable[ToolUse]) -> list[tuple[ToolUse, ToolUse]]:
    """Find the rows of a tool that are over the limits."""

    # A request that goes is added to the sum of its source. If there are more than KEPT_SOURCES sums, the oldest are
    # added to the sum of the unknown source. So the rows of a tool are bounded, however many sources there are.
    rows = list(uses)
    replaced = [(old, without_request(old)) for old in older(rows)]
    sums: dict[str, ToolUse] = {}
    for use in (*(use_ for use_ in rows if not use_.request), *(sum_row for _, sum_row in replaced)):
        before = sums.get(use.source)
        sums[use.source] = use if before is None else before.plus(use)
    sums.pop("", None)
    oldest = sorted(sums.values(), key=lambda use: (use.at, use.source))[: max(0, len(sums) - KEPT_SOURCES)]
    return replaced + [(use, without_request(use, source="")) for use in oldest]


def older(uses: Iterable[ToolUse]) -> list[ToolUse]:
    """Find the requests of a tool that are over the limit."""

    # Each use beyond KEPT_USES, from the oldest to the newest, takes the place of one from the source with the most
    # places. So a source has all places while it is alone, and with k sources each keeps KEPT_USES // k. Of the uses of
    # that source, the one most similar to a newer request goes, so that many routine requests do not replace different
    # ones. If no two are similar, the oldest goes.
    requests = [use for use in uses if use.request]
    if len(requests) <= KEPT_USES:
        return []
    remaining: list[ToolUse] = []
    nearest: list[float] = []  # by remaining use: similarity of the most similar newer request
    surplus: list[ToolUse] = []
    # Add the requests from the oldest to the newest; each one beyond the limit displaces an older one.
    for use in reversed(in_order(requests)):
        words = _words(use.request)
        similarities = [_similarity(words, _words(other.request)) for other in remaining]
        nearest = list(map(max, nearest, similarities))
        remaining.append(use)
        nearest.append(0.0)
        if len(remaining) > KEPT_USES:
            counts = Counter(kept_use.source for kept_use in remaining)
            largest = max(counts.values())
            places = [place for place, kept_use in enumerate(remaining) if counts[kept_use.source] == largest]
            likest = max(places, key=lambda place: (nearest[place], -place))
            place = likest if nearest[likest] >= ALIKE else places[0]
            surplus.append(remaining.pop(place))
            del nearest[place]
    return surplus


@lru_cache(maxsize=4096)
def _words(request: str) -> frozenset[str]:
    """Return the words of a request without numbers, which change from one routine request to the next."""
    return frozenset(_WORD.findall(request.casefold()))


def _similarity(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the share of common words among all words of two requests, from 0 to 1."""
    return len(first & second) / max(1, len(first | second))


def without_request(use: ToolUse, source: str | None = None) -> ToolUse:
    """Return the numbers of a use without its request, for its own source or another one."""
    source = use.source if source is None else source
    return ToolUse(tool=use.tool, request="", successes=use.successes, failures=use.failures, at=use.at, source=source)


_IPV6_OF_ONE: Final = 64  # leading bits of an IPv6 address; a customer gets at least all addresses with them

_source: ContextVar[str] = ContextVar("ropewalk_source", default="")


def source_digest(*parts: str) -> str:
    """Name a source by a digest."""
    return hashlib.sha256("\0".join(("ropewalk source", *parts)).encode("utf-8", "replace")).hexdigest()[:16]


@contextmanager
def use_source(name: str) -> Iterator[None]:
    """Attribute everything that the selector learns inside the block to one source."""
    with as_source(source_digest("named", name)):
        yield


@contextmanager
def as_source(digest: str | None) -> Iterator[None]:
    """Attribute everything inside the block to the source with this digest; None changes nothing."""
    if digest is None:
        yield
        return
    before = _source.set(digest)
    try:
        yield
    finally:
        _source.reset(before)


def current_source() -> str:
    """Return the digest of the current source; "" if none was set."""
    return _source.get()


def local_source() -> str:
    """Return the digest of the user of this machine that the process belongs to."""
    user = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    return source_digest("local", socket.gethostname(), user)


def address_source(host: str, secret: str) -> str | None:
    """Return the digest of a client's address, None for a client on this machine."""
    import ipaddress  # imported only by servers

    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None  # a socket file
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_loopback:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return source_digest("address", secret, str(ipaddress.ip_network((address, _IPV6_OF_ONE), strict=False)))
    return source_digest("address", secret, str(address))
