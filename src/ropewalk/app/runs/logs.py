"""The lines that the tools of a run have printed and logged, from the journal entries of `engine/step_logs.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ...journal.protocol import LOG, Entry
from ...values import Json
from ..context import Context
from ..recorded_run import MOST_PARTS, require_run

_INSIDE: Final = re.compile(r"[@\[/]")


def log_lines(context: Context, run_id: str, node: str | None = None) -> list[dict[str, Json]]:
    """Return the lines that the steps of a run and its parts have printed and logged, in the order of their times."""
    require_run(context.store, run_id)
    lines = [line for line in _lines(context, run_id, "") if node is None or _is_of(line, node)]
    return sorted(lines, key=lambda line: (line["at"], line["path"], line["number"]))


def _lines(context: Context, run_id: str, prefix: str) -> Iterator[dict[str, Any]]:
    yield from _lines_of(context.history(run_id), prefix)
    for part in context.store.list_runs(parent=run_id, limit=MOST_PARTS):
        yield from _lines(context, part.id, f"{prefix}{part.id.removeprefix(f'{run_id}/')}/")


def _lines_of(history: Iterable[Entry], prefix: str) -> Iterator[dict[str, Any]]:
    for entry in history:
        if entry.kind == LOG:
            for line in numbered_lines(entry):
                yield {"path": prefix + entry.path, "node": entry.node, **line}


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


def _is_of(line: dict[str, Any], node: str) -> bool:
    """Return True if a line is of a node, by its id or by its path, or of a step inside it."""
    path: str = line["path"]
    return node == line["node"] or path == node or (path.startswith(node) and bool(_INSIDE.match(path, len(node))))
