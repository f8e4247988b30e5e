"""The lines that the tools of a run have printed and logged, from the journal entries of `engine/step_logs.py`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ...journal.protocol import LOG, Entry
from ...values import Json
from ..context import Context
from ..recorded_run import MOST_PARTS, require_run
from .numbered_lines import numbered_lines

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


def _is_of(line: dict[str, Any], node: str) -> bool:
    """Return True if a line is of a node, by its id or by its path, or of a step inside it."""
    path: str = line["path"]
    return node == line["node"] or path == node or (path.startswith(node) and bool(_INSIDE.match(path, len(node))))
