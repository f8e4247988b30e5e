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
        if entry.kind != LOG:
            continue
        data: Any = entry.data
        gap, left_out = data.get("after", 0), data.get("leftOut", 0)
        about = {"path": prefix + entry.path, "node": entry.node}
        for index, line in enumerate(data["lines"]):
            if left_out and index == gap:
                yield {**about, "number": index + left_out, "at": line["at"], "leftOut": left_out}
            yield {**about, "number": index + 1 + (left_out if index >= gap else 0), **line}
        if left_out and gap >= len(data["lines"]):
            yield {**about, "number": gap + left_out, "at": round(entry.ended, 3), "leftOut": left_out}


def _is_of(line: dict[str, Any], node: str) -> bool:
    """Return True if a line is of a node, by its id or by its path, or of a step inside it."""
    path: str = line["path"]
    return node == line["node"] or path == node or (path.startswith(node) and bool(_INSIDE.match(path, len(node))))
