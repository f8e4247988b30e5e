"""Record which requests a tool answered, and how often it succeeded.

At most KEPT_USES different requests of a tool are kept, with a fair share for each source. A `UseStore` keeps them
(every store of the journal is one), or this process does. A use without a known request only changes the success
rate.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidValue
from ..fast_dataclass import dataclass
from ..journal.tool_usage import Rows, ToolUse, UseStore, add, current_source, in_order, surplus_rows
from ..values import check_json

if TYPE_CHECKING:
    from .memory import Memory

MAX_REQUEST: Final = 500  # characters of a request that are kept
SWING: Final = 0.2  # the share of a score by which a success rate moves it at most
_SOURCE: Final = re.compile(r"(?:[0-9a-f]{16})?")
_USE: Final[dict[str, Any]] = {"tool": str, "request": str, "successes": int, "failures": int, "at": (int, float)}
_MAX_COUNT: Final = 10**12
_LIMITS: Final = {"successes": _MAX_COUNT, "failures": _MAX_COUNT, "at": 250_000_000_000}  # the year 9892
MOST_OF_ONE: Final = 20  # uses by one source that count, unless others together have more
_DOUBT: Final = 10.0  # imaginary earlier uses, half of them successes


@dataclass(frozen=True, slots=True)
class Rate:
    """The number of successes and failures of a tool."""

    # `counted` has the weighted (successes, failures) that move scores, where a source with many uses counts for less
    # (`rate_of`). None: everything counts.

    successes: int
    failures: int
    counted: tuple[float, float] | None = None

    @property
    def smoothed(self) -> float:
        """Return the success rate, drawn to one half while there are few uses."""
        successes, failures = self._weighted_counts
        return (successes + _DOUBT / 2) / (successes + failures + _DOUBT)

    @property
    def factor(self) -> float:
        """Return the factor for scores: 0.8 to 1.2."""
        return 1.0 + 2.0 * SWING * (self.smoothed - 0.5)

    @property
    def setback(self) -> float:
        """Return the factor for scores where success must not count against unused tools: 0.8 to 1."""
        successes, failures = self._weighted_counts
        return 1.0 - SWING * failures / (successes + failures + _DOUBT)

    @property
    def failure_share(self) -> float:
        """Return the share of failures, drawn to 0 while there are few uses; it orders tools that fit equally."""
        return self.failures / (self.successes + self.failures + _DOUBT)

    @property
    def _weighted_counts(self) -> tuple[float, float]:
        return (self.successes, self.failures) if self.counted is None else self.counted


def rate_of(uses: Iterable[ToolUse]) -> Rate:
    """Return the rate of the uses of one tool."""

    # A source that is alone counts in full. Of several, each counts at most MOST_OF_ONE uses or as many as all others
    # together, so that none outweighs the others by asking more.
    sources: dict[str, tuple[int, int]] = {}
    for use in uses:
        successes, failures = sources.get(use.source, (0, 0))
        sources[use.source] = successes + use.successes, failures + use.failures
    everything = sum(map(sum, sources.values()))
    counted = [0.0, 0.0]
    for successes, failures in sources.values():
        total = successes + failures
        limit = max(MOST_OF_ONE, everything - total)
        share = min(1.0, limit / total) if total and len(sources) > 1 else 1.0
        counted[0] += share * successes
        counted[1] += share * failures
    return Rate(
        successes=sum(successes for successes, _ in sources.values()),
        failures=sum(failures for _, failures in sources.values()),
        counted=(counted[0], counted[1]),
    )


class Usage:
    """The recorded uses."""

    # The caller holds the selector's lock.

    def __init__(self, keeper: Callable[[], UseStore] | None = None) -> None:
        self._keeper = keeper  # called at the first use, because opening a store takes time
        self._loaded = False
        self._rows: dict[str, Rows] = {}
        self._rates: dict[str, Rate] = {}
        self._memory: Memory | None = None

    def _load(self) -> None:
        if not self._loaded:
            if self._keeper is not None:
                for use in reversed(self._keeper().list_uses()):
                    add(self._rows.setdefault(use.tool, {}), use)
            self._rates = {tool: rate_of(rows.values()) for tool, rows in self._rows.items()}
            self._loaded = True

    def record(self, query: str | None, tool: str, success: bool, source: str | None = None) -> None:
        """Record one use."""
        use = ToolUse(
            tool=tool,
            request=_shorten_request(query or ""),
            successes=int(success),
            failures=int(not success),
            at=time.time(),
            source=current_source() if source is None else source,
        )
        self.take([use])

    def _apply(self, use: ToolUse) -> None:
        rows = self._rows.setdefault(use.tool, {})
        merged = add(rows, use)
        if self._memory is not None and merged.request and merged.successes:
            self._memory.remember(merged)
        for dropped, sum_row in surplus_rows(rows.values()):
            del rows[dropped.request, dropped.source]
            add(rows, sum_row)
            if self._memory is not None and dropped.request:
                self._memory.forget_request(dropped.tool, dropped.request, dropped.source)
        self._rates[use.tool] = rate_of(rows.values())

    def rate(self, tool: str) -> Rate | None:
        """Return the rate of a tool; None if it was never used."""
        self._load()
        return self._rates.get(tool)

    def rates(self) -> dict[str, Rate]:
        """Return the rates of all used tools, by id."""
        self._load()
        return self._rates

    def learnt(self, tool: str | None = None) -> list[ToolUse]:
        """Return the recorded uses of one tool or of all, by tool and newest first."""
        self._load()
        tools = [tool] if tool is not None else list(self._rows)
        return in_order(use for name in tools for use in self._rows.get(name, {}).values() if use.request)

    def take(self, uses: Iterable[ToolUse]) -> int:
        """Record uses, and return their number."""

        # If the store fails, nothing changes.
        self._load()
        recorded = list(uses)
        if self._keeper is not None:
            self._keeper().put_uses(recorded)
        for use in recorded:
            self._apply(use)
        return len(recorded)

    def forget(self, tool: str | None = None) -> int:
        """Delete the uses of one tool or of all, and return the number of deleted requests."""
        self._load()
        count = len(self.learnt(tool))
        for name in [tool] if tool is not None else list(self._rows):
            self._rows.pop(name, None)
            self._rates.pop(name, None)
            if self._memory is not None:
                self._memory.forget_tool(name)
        if self._keeper is not None:
            self._keeper().delete_uses(tool)
        return count

    def memory(self) -> Memory | None:
        """Return the memory of answered requests; None if there are none."""
        self._load()
        if self._memory is None:
            uses = [use for rows in self._rows.values() for use in rows.values() if use.request]
            if uses:
                from .memory import Memory

                self._memory = Memory([use for use in uses if use.successes])
        return self._memory


def _shorten_request(query: str) -> str:
    """Return the beginning of a request, with characters that every store accepts."""
    text = " ".join(query.replace("\0", " ").split())[:MAX_REQUEST]
    return text.encode("utf-8", "replace").decode()


def _expected(key: str) -> str:
    kinds = {"tool": "a string", "request": "a string", "at": "a time in seconds since 1970"}
    return kinds.get(key, f"an integer from 0 to {_MAX_COUNT}")


def use_of(item: Mapping[str, Any]) -> ToolUse:
    """Read an exported use."""
    if not isinstance(item, Mapping):
        raise InvalidValue("", f"must be an object, not {type(item).__name__}")
    for key, kinds in _USE.items():
        value = item.get(key)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise InvalidValue(key, f"must be {_expected(key)}, not {value!r}")
        if kinds is not str and not 0 <= value <= _LIMITS[key]:
            raise InvalidValue(key, f"must be {_expected(key)}, not {value!r}")
    # The store accepts only JSON texts.
    if not check_json(item["tool"], "tool"):
        raise InvalidValue("tool", "must be the id of a tool, not ''")
    source = item.get("source", "")
    if not isinstance(source, str) or not _SOURCE.fullmatch(source):
        raise InvalidValue("source", f"must be 16 hexadecimal digits, or empty, not {source!r}")
    return ToolUse(
        tool=item["tool"],
        request=_shorten_request(item["request"]),
        successes=item["successes"],
        failures=item["failures"],
        at=float(item["at"]),
        source=source,
    )
