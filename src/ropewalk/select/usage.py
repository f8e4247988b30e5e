"""What was learnt from use: which requests a tool answered, and how often it succeeds.

Bounded: KEPT_USES different requests of a tool. It is kept where the selector's owner says (a `UseStore`, which
every store of the journal is) or, without one, in this process. Refused: guessing the request of a use whose
request is not known; that one counts for the success rate alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidValue
from ..frozen import dataclass
from ..journal.use import KEPT_USES, ToolUse, UseStore
from ..journal.uses import older
from ..values import check_json

if TYPE_CHECKING:
    from .memory import Memory

LONGEST: Final = 500  # characters of a request that are kept
SWING: Final = 0.2  # by how much of it a success rate moves a score at most, either way
_USE: Final[dict[str, Any]] = {"tool": str, "request": str, "successes": int, "failures": int, "at": (int, float)}
_MOST_COUNTED: Final = 10**12
_MOST: Final = {"successes": _MOST_COUNTED, "failures": _MOST_COUNTED, "at": 250_000_000_000}  # the year 9892
_DOUBT: Final = 10.0  # as if so many uses had been seen before, half of them successes


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a tool was used and succeeded."""

    successes: int
    failures: int

    @property
    def smoothed(self) -> float:
        """The success rate, drawn to one half while little is known."""
        return (self.successes + _DOUBT / 2) / (self.successes + self.failures + _DOUBT)

    @property
    def factor(self) -> float:
        """What a score is multiplied with: 0.8 to 1.2."""
        return 1.0 + 2.0 * SWING * (self.smoothed - 0.5)

    @property
    def setback(self) -> float:
        """What a score is multiplied with where success must not count against unused tools: 0.8 to 1."""
        return 1.0 - SWING * self.failures / (self.successes + self.failures + _DOUBT)


class Usage:
    """The memory of uses. Whoever calls holds the selector's lock."""

    def __init__(self, keeper: Callable[[], UseStore] | None = None) -> None:
        self._keeper = keeper  # called when it is first needed: opening a store is work
        self._loaded = False
        self._requests: dict[str, dict[str, ToolUse]] = {}
        self._rates: dict[str, Rate] = {}
        self._memory: Memory | None = None

    def _load(self) -> None:
        if not self._loaded:
            if self._keeper is not None:
                for use in reversed(self._keeper().list_uses()):
                    self._keep(use)
            self._loaded = True

    def record(self, query: str | None, tool: str, success: bool) -> None:
        """Note one use, and keep it. Without a request only the success rate learns from it."""
        use = ToolUse(
            tool=tool, request=_kept(query or ""), successes=int(success), failures=int(not success), at=time.time()
        )
        self.take([use])

    def _keep(self, use: ToolUse) -> None:
        rate = self._rates.get(use.tool, Rate(0, 0))
        self._rates[use.tool] = Rate(rate.successes + use.successes, rate.failures + use.failures)
        known = self._requests.setdefault(use.tool, {})
        if not use.request:
            return
        old = known.pop(use.request, None)
        known[use.request] = kept = use if old is None else old.plus(use)
        if self._memory is not None and kept.successes:
            self._memory.put(kept)
        if len(known) > KEPT_USES:
            for gone in older(known.values()):
                del known[gone.request]
                if self._memory is not None:
                    self._memory.drop(gone.tool, gone.request)

    def rate(self, tool: str) -> Rate | None:
        """How a tool did so far; None when it was never used."""
        self._load()
        return self._rates.get(tool)

    def rates(self) -> dict[str, Rate]:
        """Of every tool that was used, by name."""
        self._load()
        return self._rates

    def learnt(self, tool: str | None = None) -> list[ToolUse]:
        """What is remembered, of one tool or of all, by tool and newest first."""
        self._load()
        tools = [tool] if tool is not None else sorted(self._requests)
        return [use for one in tools for use in sorted(self._requests.get(one, {}).values(), key=lambda u: -u.at)]

    def take(self, uses: Iterable[ToolUse]) -> int:
        """Keep uses, and note them; gives how many. Where they cannot be kept, nothing is noted."""
        self._load()
        taken = list(uses)
        if self._keeper is not None:
            self._keeper().put_uses(taken)
        for use in taken:
            self._keep(use)
        return len(taken)

    def forget(self, tool: str | None = None) -> int:
        """Delete what was learnt, of one tool or of all; gives how many requests went."""
        self._load()
        gone = len(self.learnt(tool))
        for one in [tool] if tool is not None else list(self._requests):
            self._requests.pop(one, None)
            self._rates.pop(one, None)
            if self._memory is not None:
                self._memory.forget(one)
        if self._keeper is not None:
            self._keeper().delete_uses(tool)
        return gone

    def memory(self) -> Memory | None:
        """The requests that tools answered; None when there are none."""
        self._load()
        if self._memory is None and any(self._requests.values()):
            from .memory import Memory

            uses = [use for known in self._requests.values() for use in known.values()]
            self._memory = Memory([use for use in uses if use.successes])
        return self._memory


def _kept(query: str) -> str:
    """What is kept of a request: its beginning, in characters that every store takes."""
    text = " ".join(query.replace("\0", " ").split())[:LONGEST]
    return text.encode("utf-8", "replace").decode()


def _said(key: str) -> str:
    kinds = {"tool": "a string", "request": "a string", "at": "a time in seconds since 1970"}
    return kinds.get(key, f"a whole number from 0 to {_MOST_COUNTED}")


def use_of(given: Mapping[str, Any]) -> ToolUse:
    """A use as it was exported; InvalidValue names what is wrong with it."""
    if not isinstance(given, Mapping):
        raise InvalidValue("", f"must be an object, not {type(given).__name__}")
    for key, kinds in _USE.items():
        value = given.get(key)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise InvalidValue(key, f"must be {_said(key)}, not {value!r}")
        if kinds is not str and not 0 <= value <= _MOST[key]:
            raise InvalidValue(key, f"must be {_said(key)}, not {value!r}")
    if not check_json(given["tool"], "tool"):
        raise InvalidValue("tool", "must be the id of a tool, not ''")
    return ToolUse(
        tool=given["tool"],
        request=_kept(given["request"]),
        successes=given["successes"],
        failures=given["failures"],
        at=float(given["at"]),
    )
