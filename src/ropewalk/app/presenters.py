"""Presenters: the lists of runs, tools and definitions as JSON, the same for every interface.

Each interface renders these objects: the command line as a table, HTTP as a response, Python as a dictionary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..journal.protocol import Definition, RunRow, iso
from ..values import Json
from .runs.liveness import liveness_flags
from .runs.steps import run_summary

if TYPE_CHECKING:
    from ..tools.tool import Tool
    from ..tools.toolbox import Toolbox


def run_line(row: RunRow, liveness: str | None, current: str | None = None) -> dict[str, Json]:
    """Present a run as one item of a list."""
    return {**run_summary(row, current), **liveness_flags(liveness)}


def tool_list(toolbox: Toolbox, tools: Iterable[Tool]) -> dict[str, Any]:
    """Present tools, with the servers that could not be reached."""
    failures = {name: str(reason) for name, reason in toolbox.failures.items()}
    return {"tools": [tool.to_dict() for tool in tools], "failures": failures}


def definition_line(
    kind: str, id: str, name: str, document: Mapping[str, Any] | None, fingerprint: str, created: float
) -> dict[str, Any]:
    """Present a definition as one item of a list, without its document."""

    # `created`: When it was stored, or when its file was changed, in seconds since the epoch.
    return {
        "kind": kind,
        "id": id,
        "name": name,
        "description": (document or {}).get("description", ""),
        "fingerprint": fingerprint,
        "created": iso(created),
    }


def stored_definition_line(stored: Definition) -> dict[str, Any]:
    """Present a stored definition as one item of a list, with the number of its runs as `runCount`."""
    line = definition_line(stored.kind, stored.id, stored.name, stored.document, stored.fingerprint, stored.created)
    return {**line, "runCount": stored.run_count}
