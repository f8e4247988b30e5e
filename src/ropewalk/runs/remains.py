"""What is left of a chain that was stopped while nobody ran it: what its journal holds of the nodes that had finished.

Of a block whose value no journal keeps there is nothing, nor of a fallback that stood in for a call.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..frozen import dataclass
from ..journal.journal import Entry, RunRow
from ..values import Json
from .instances import without_attempts
from .steps import steps


@dataclass(frozen=True, slots=True)
class Remains:
    """The outputs of finished nodes, and the variables as these left them."""

    results: dict[str, Json]
    variables: dict[str, Json]


def remains(row: RunRow, history: Iterable[Entry]) -> Remains:
    """Read off the journal of a run that has its document."""
    document = row.document if isinstance(row.document, dict) else {}
    listed = document.get("nodes")
    nodes = [node for node in listed if isinstance(node, dict)] if isinstance(listed, list) else []
    outer = {str(node.get("id")) for node in nodes}
    into = dict(_variables(nodes))
    results: dict[str, Json] = {}
    written: list[tuple[str, str, Json]] = []
    taken = list(steps(history, row))
    for step in taken:
        name, done = str(step["node"]), step["status"] in ("ok", "skipped") and step["kind"] in ("call", "node", "skip")
        if not done or "value" not in step:
            continue
        if name in outer:
            results[name] = step["value"]
        if name in into and step["status"] == "ok":
            written.append((_outermost(str(step["path"]), outer), into[name], step["value"]))
    finished = {str(step["node"]) for step in taken if step["status"] == "ok"}
    variables = {**_given(document), **_given(row.context)}
    variables |= {name: value for around, name, value in written if around in finished}
    return Remains(results, variables)


def _variables(nodes: list[dict[str, Json]]) -> Iterable[tuple[str, str]]:
    """The nodes that write a variable, wherever they stand, each with its variable."""
    for node in nodes:
        if isinstance(node.get("outputVar"), str) and node["outputVar"]:
            yield str(node.get("id")), str(node["outputVar"])
        for key in ("nodes", "then", "else"):
            inner = node.get(key)
            if isinstance(inner, list):
                yield from _variables([one for one in inner if isinstance(one, dict)])


def _outermost(path: str, outer: set[str]) -> str:
    """The node of the chain itself that a path is in, or is."""
    names = [part.partition("[")[0] for part in without_attempts(path).split("/")]
    return next((name for name in names if name in outer), names[-1])


def _given(holder: Json) -> dict[str, Json]:
    found = holder.get("variables") if isinstance(holder, dict) else None
    return found if isinstance(found, dict) else {}
