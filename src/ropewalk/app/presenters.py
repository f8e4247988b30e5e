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
    """Present a run as one item of a list.

    Args:
        row: The row of the run.
        liveness: `queued`, `interrupted` or `answered` for a run that no process executes, else None.
        current: The node that the run is at, if it is known.

    Returns:
        The summary of the run, with its liveness as boolean fields.
    """
    return {**run_summary(row, current), **liveness_flags(liveness)}


def tool_list(toolbox: Toolbox, tools: Iterable[Tool]) -> dict[str, Any]:
    """Present tools, with the servers that could not be reached.

    Args:
        toolbox: The toolbox that the tools are in.
        tools: The tools to present, in their order.

    Returns:
        `tools`, each with its schemas, and `failures`: the reason for each server that is not connected.
    """
    failures = {name: str(reason) for name, reason in toolbox.failures.items()}
    return {"tools": [tool.to_dict() for tool in tools], "failures": failures}


def definition_line(
    kind: str, id: str, name: str, document: Mapping[str, Any] | None, fingerprint: str, created: float
) -> dict[str, Any]:
    """Present a definition as one item of a list, without its document.

    Args:
        kind: The notation of a stored definition; `file` for a flow in a file.
        id: Its id in the list.
        name: Its name.
        document: The document, for its description.
        fingerprint: The digest of what it does.
        created: When it was stored, or when its file was changed, in seconds since the epoch.

    Returns:
        The fields that every definition has in a list.
    """
    return {
        "kind": kind,
        "id": id,
        "name": name,
        "description": (document or {}).get("description", ""),
        "fingerprint": fingerprint,
        "created": iso(created),
    }


def stored_definition_line(stored: Definition) -> dict[str, Any]:
    """Present a stored definition as one item of a list, with the number of its runs as `runCount`.

    Args:
        stored: The definition.

    Returns:
        The fields that every definition has in a list, and `runCount`.
    """
    line = definition_line(stored.kind, stored.id, stored.name, stored.document, stored.fingerprint, stored.created)
    return {**line, "runCount": stored.run_count}
