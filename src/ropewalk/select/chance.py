"""How much remembered requests say for a tool by chance: the bound below which they say nothing against unused tools.

A tool that was never used has no requests to compare. So the memory asks itself: had the tool of a remembered request
never been used, how much would the other requests say for a wrong tool? Requests for unused tools get answers of the
same kind, so a high quantile of them is the bound: only the share above it can take a place from an unused tool,
whatever the tools and however alike their requests are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

SHARE: Final = 0.97  # of the requests that stay below the bound
SAMPLED: Final = 128  # remembered requests that are asked about
_FIRST, _MORE = 4.0, 1.4  # the bound for one request before anything is known, and more for e times as many,
_KNOWN: Final = 3.0  # counts as much as this number of values


class Sample:
    """What requests say for wrong tools, of some of the remembered ones. `measure` gives it of a row, or None."""

    def __init__(self, measure: Callable[[int], float | None]) -> None:
        self._measure = measure
        self._values: dict[int, float] = {}  # by row, the one measured longest ago first
        self._seen: float | None = None

    def fill(self, rows: Sequence[int]) -> None:
        """Measure rows at even distances."""
        for n in range(min(SAMPLED, len(rows))):
            self._take(rows[n * len(rows) // min(SAMPLED, len(rows))])

    def refresh(self, row: int) -> None:
        """Measure a new row, and the one measured longest ago again: both in constant time."""
        self._values.pop(row, None)
        if self._values:
            oldest = next(iter(self._values))
            del self._values[oldest]
            if len(self._values) < SAMPLED - 1:
                self._take(oldest)
        self._take(row)

    def _take(self, row: int) -> None:
        value = self._measure(row)
        if value is not None:
            self._values[row] = value
        self._seen = None

    def bound(self, remembered: int) -> float:
        """The bound when so many requests are remembered, for a tool that has very many of them; others have less."""
        known = len(self._values)
        if self._seen is None:
            values = sorted(self._values.values())
            self._seen = values[min(known - 1, int(SHARE * known))] if values else 0.0
        expected = _FIRST + _MORE * math.log(max(1, remembered))
        return (self._seen * known + expected * _KNOWN) / (known + _KNOWN)
