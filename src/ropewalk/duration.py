"""Durations as people write them: `500ms`, `10s`, `5m`, `2h`, `1d`, `1w`, and several in a row such as `1h30m`."""

from __future__ import annotations

import re
from typing import Any, Final

MILLISECOND: Final = 0.001
SECOND: Final = 1.0
DAY: Final = 86_400.0
PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+$"
"""The regular expression of a duration in text, for JSON Schemas."""
EXAMPLES: Final = "a duration such as 10s, 5m or 2h"
_MILLISECONDS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")


def read_duration(value: Any, unit: float = SECOND) -> Any:
    """Return a duration in text as a number of units of `unit` seconds, and any other value as it is."""
    if not isinstance(value, str) or len(value) > 100:
        return value
    text = value.strip()
    if re.fullmatch(PATTERN, text) is None:
        return value
    milliseconds = sum(float(number) * _MILLISECONDS[name] for number, name in _PART.findall(text))
    # Rounded, because 0.1 and most other fractions are not exact in binary.
    amount = round(milliseconds / (unit * 1000), 9)
    return int(amount) if amount.is_integer() else amount
