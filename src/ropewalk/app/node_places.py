"""Places of nodes: the path of each node of a definition, and the line of the file that defines it.

Each error of a run records a `place`, such as `flows/ship.yaml:7`. The process that executes the run has its
definition, so it looks the places up when the run ends, and every interface reads them from the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from os.path import abspath
from typing import TYPE_CHECKING, Any

from ..config.secrets import process_redaction
from ..deadline import in_thread
from ..engine.stack_trace import shown_path
from ..errors import Place, RopewalkError, errors_in, storable_text
from ..ir import Graph, node_parts
from ..ops import Program
from .recorded_calls import line_at
from .runs.instances import SEGMENT, body_at

if TYPE_CHECKING:
    from ..values import Json
    from .context import Context
    from .prepared import Prepared

_SMALL = 32_768  # characters of a file that is read at once: some milliseconds
_PROGRAM_LINE = re.compile(r"line (\d+): ")
"""The beginning of the message of a failure of a program itself."""


async def add_places(context: Context, loaded: Prepared, result: Mapping[str, Json]) -> None:
    """Add to each error of a result the line of the file that defines what failed."""

    def work() -> None:
        with suppress(RopewalkError, OSError):  # a result without places is better than none
            located = context.definitions.with_file(loaded)
            # A text has no directory. A Python file is always one.
            if located is None or getattr(located.file, "directory", "") is None:
                return
            for error in errors_in(result):
                at = error.get("at")
                # The message of a program in Python that fails itself begins with the line.
                is_own = at and str(error.get("message")).startswith(f"{at}: ")
                error["place"] = at if is_own else shown_place(_place_of(located, error), context.project)

    if len(getattr(loaded.file, "text", "")) <= _SMALL and loaded.file is not None:
        work()
    else:
        await in_thread(work)


def shown_place(place: Place, project: str | None) -> str:
    """Return `FILE:LINE` without secrets, from the directory of the project."""
    shown = f"{shown_path(abspath(place.file), project or '')}:{place.line}"
    return process_redaction().text(storable_text(shown))


def place_of_line(loaded: Prepared, line: int) -> Place:
    """Return the place of a line of a plan's program in the file of the plan."""
    [program] = [node.op for node in loaded.flow.body.nodes if isinstance(node.op, Program)]
    if program.places:
        return program.places[min(line, len(program.places)) - 1]
    lines = program.text.split("\n")[:line]
    indent = len(lines[-1]) - len(lines[-1].lstrip())
    return loaded.file.locate("code", sum(len(text) + 1 for text in lines[:-1]) + indent + 1)  # type: ignore[no-any-return]


def _place_of(loaded: Prepared, error: Mapping[str, Any]) -> Place:
    """Return the place of the node of an error; that of the definition for a failure outside of nodes."""
    path, message = str(error.get("path") or "").partition("@")[0], str(error.get("message"))
    node = str(error.get("nodeId") or path)
    if loaded.kind == "agent":
        # An agent has no nodes: a failed turn is about its model, everything else about its prompt.
        prompt = next((key for key in ("prompt", "messages") if key in loaded.document), "")
        key = "model" if node == "turn" and "model" in loaded.document else prompt
    elif loaded.kind == "plan":
        line = _PROGRAM_LINE.match(message)
        number = line_at(path) if line is None else int(line[1])
        if number is not None:
            return place_of_line(loaded, number)
        key = ""
    elif not node and message.startswith("result: "):
        key = loaded.compiled.typed_at
    else:
        key = _source_of(loaded.flow.body, path, node) or node
    return loaded.file.locate(key)  # type: ignore[no-any-return]


def _source_of(body: Graph, path: str, node: str) -> str:
    """Return the place in the document of the innermost node on a path, or of the only node with an id."""
    source = ""
    inside: Graph | None = body
    for id, _, label in SEGMENT.findall(path):
        found = None if inside is None else next((item for item in inside.nodes if item.id == id), None)
        if found is None:
            break
        source, inside = found.meta.source or source, body_at(found, label)
    # Compositions have the id of a node for its path, also of one inside others.
    named = [] if source else [place for path, place in node_sources(body, "") if path.rpartition("/")[2] == node]
    return named[0] if len(named) == 1 else source


def node_sources(body: Graph, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each node, made of ids, and its place in the document."""
    for node in body.nodes:
        yield f"{path}{node.id}", node.meta.source
        for _, part in node_parts(node):
            if isinstance(part, Graph):
                yield from node_sources(part, f"{path}{node.id}/")
