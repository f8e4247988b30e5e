"""The tools of a program: what a plan knows of each, and which tools a text can mean."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Mapping
from typing import Final

from ...expr.python.tree import walk
from ...fast_dataclass import dataclass
from ...values import Json
from .problems import Unreadable
from .source import read

VALUE: Final = "value"
"""The function that reads what a run recorded."""
RECORD_TOOL: Final = "ropewalk:value"
VALUE_TOOL: Final = "ropewalk.value"
"""The tool that it calls: its id, and its name in the rows of a run."""
LANGUAGE_NAMES: Final = frozenset(("approve", "wait_for", VALUE, "print", "now", "uuid", "random", "call_tool"))
"""Names of the language that win over tools of the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTool:
    """The facts that a plan needs to call a tool."""

    # Its id in the toolbox.
    id: str
    # The names of its parameters, in order.
    parameters: tuple[str, ...]
    # The parameters without which it cannot be called.
    required: tuple[str, ...] = ()
    # Whether a trusted hint says that it only reads.
    reads: bool = False
    # Whether each call waits for an approval that shows its arguments.
    approve: bool = False
    # Whether it takes no other parameters, though it may have none.
    closed: bool = False
    # The version of the tool that approvals of its calls name; "" for none.
    version: str = ""

    @classmethod
    def read(cls, entry: Mapping[str, Json]) -> PlanTool:
        """Return the tool of an entry in a document."""
        parameters, required = (tuple(map(str, entry.get(name) or ())) for name in ("parameters", "required"))
        flags = {flag: entry.get(flag) is True for flag in ("reads", "approve", "closed")}
        version = str(entry.get("version") or "")
        return cls(id=str(entry["id"]), parameters=parameters, required=required, version=version, **flags)


def python_name(tool_id: str) -> str:
    """Return how a plan names a tool: `server:my-tool` is `server.my_tool`."""
    return ".".join(re.sub(r"\W", "_", part) for part in tool_id.split(":", 1))


def called_name(text: str, names: Container[str]) -> str:
    """Return the name in a program of the tool that `call_tool` is given: by this name, or by its id."""
    return text if text in names else python_name(text)


def names_in(text: str) -> set[str]:
    """Return every name and `name.member` in a program, and the texts that `call_tool` is given."""
    names = set()
    for node in _nodes(text):
        if isinstance(node, ast.Name):
            names.add(node.id)
            continue
        match node:
            case ast.Attribute(value=ast.Name(id=holder), attr=member):
                names.add(f"{holder}.{member}")
            case ast.Call(func=ast.Name(id="call_tool"), args=[ast.Constant(value=str(tool)), *_]):
                names.add(python_name(tool))
    return names


def values_in(text: str) -> set[str]:
    """Return the places of recorded values that a program reads by literal texts: `value("RUN/NODE")`."""
    texts = set()
    for node in _nodes(text):
        match node:
            case ast.Call(func=ast.Name(id="value"), args=[ast.Constant(value=str(place)), *_]):
                texts.add(place)
    return texts


def _nodes(text: str) -> list[ast.AST]:
    """Return the nodes of a program; none if it cannot be read, which its compilation reports."""
    try:
        return walk(read(text))
    except Unreadable:
        return []
