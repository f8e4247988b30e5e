"""The lines of one step in its journal entry, with their numbers: what a list and an event show of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...journal.protocol import Entry


def numbered_lines(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield the lines of a step with their numbers; in the place of those that are not kept, their count."""
    data: Any = entry.data
    lines, left_out = data["lines"], data.get("leftOut", 0)
    gap = data.get("after", 0)
    for index, line in enumerate(lines[:gap]):
        yield {"number": index + 1, **line}
    if left_out:
        at = lines[gap]["at"] if gap < len(lines) else round(entry.ended, 3)
        yield {"number": gap + left_out, "at": at, "leftOut": left_out}
    for index, line in enumerate(lines[gap:]):
        yield {"number": gap + left_out + index + 1, **line}


def new_lines(entry: Entry, reported: int = 0) -> dict[str, Any]:
    """Return the data of an event with the lines of a step behind those that are reported."""
    lines = [line for line in numbered_lines(entry) if line["number"] > reported]
    left_out = sum(min(line["leftOut"], line["number"] - reported) for line in lines if "leftOut" in line)
    data = {"lines": [line for line in lines if "leftOut" not in line]}
    return {**data, "leftOut": left_out} if left_out else data
