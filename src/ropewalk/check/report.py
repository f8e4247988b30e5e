"""Collect problems and warnings, each with its path in the user's document.

`check.check` makes one Report for a flow. The walk (`walk.py`) and everything that it calls add to it, and `Checked`
holds the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias, TypedDict, Unpack

from ..errors import Problem, Remedy
from ..fast_dataclass import dataclass
from ..ir import Node
from ..problems import MOST_PROBLEMS, MOST_TEXT, more_problems
from ..values import did_you_mean

ExprPath: TypeAlias = tuple["ExprPath | None", str | int] | None
"""The path into an expression, as a linked list: (path of the parent, key). A list costs nothing until a message needs
the text, and most expressions have no problem."""
Owners: TypeAlias = tuple["Owners | None", Node] | None
"""The nodes whose regions enclose this point, as a linked list from the innermost: (owners of the node, the node)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Hold the outcome of a check: `problems` forbid a run, `warnings` do not."""

    # Both are in document order.

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        """Return True if there is no problem; warnings are allowed."""
        return not self.problems


class Details(TypedDict, total=False):
    """Fields of a problem that most problems lack; `Problem` describes them."""

    suggestion: str | None
    column: int | None
    keyword: str | None
    remedy: Remedy | None


class TooManyProblems(Exception):
    """Raised to end the check when no further problem would be reported."""


class Report:
    """Collect problems and warnings."""

    # Each keeps its node, which decides the order at the end.

    def __init__(self) -> None:
        self.problems: list[tuple[Node | None, Problem]] = []
        self.warnings: list[tuple[Node | None, Problem]] = []
        self._size = 0

    def add(
        self,
        message: str,
        *,
        node: Node | None = None,
        owners: Owners = None,
        field: str = "",
        at: ExprPath = None,
        warning: bool = False,
        **details: Unpack[Details],
    ) -> None:
        """Add a problem, or a warning, at a field of a node."""
        if warning and not self.takes_warnings:
            return
        problem = Problem(path=path_of(node, owners, field, at), message=message, **details)
        (self.warnings if warning else self.problems).append((node, problem))
        self._size += len(problem.path) + len(problem.message)
        if self._is_full and not warning:
            raise TooManyProblems

    @property
    def _is_full(self) -> bool:
        return len(self.problems) >= MOST_PROBLEMS or self._size > MOST_TEXT

    @property
    def takes_warnings(self) -> bool:
        """Return True while there is room for warnings; otherwise callers can skip computing suggestions."""
        return len(self.warnings) < MOST_PROBLEMS and self._size < MOST_TEXT

    def checked(self, order: Iterable[Node]) -> Checked:
        """Return everything that was collected."""
        if not self.problems and not self.warnings:
            return Checked()
        position: dict[int, int] = {}
        for node in order:
            position.setdefault(id(node), len(position))
        last = len(position)

        def in_order(entries: list[tuple[Node | None, Problem]]) -> tuple[Problem, ...]:
            entries.sort(key=lambda entry: position.get(id(entry[0]), last))
            return tuple(dict.fromkeys(problem for _, problem in entries))

        problems = in_order(self.problems)
        if problems and self._is_full:
            problems += (more_problems(len(problems)),)
        return Checked(problems=problems, warnings=in_order(self.warnings))


SECRET: Final = "secret"
"""The keyword of problems about secrets that may not be read."""
UNKNOWN_TOOL: Final = "unknown tool"
"""The keyword of problems about tools that do not exist."""


def unknown_tool(tool: str, tools: Any, *, suggest: bool = True) -> tuple[str, str | None, bool]:
    """Describe a tool that `tools` does not know."""
    names, why, certain = (getattr(tools, name, None) for name in ("names", "why", "certain"))
    reason = why(tool) if callable(why) else None
    suggestion = did_you_mean(tool, names()) if callable(names) and reason is None and suggest else None
    message = f"unknown tool {tool!r}" if reason is None else f"tool {tool!r}: {reason}"
    return message, suggestion, bool(certain(tool)) if callable(certain) else False


def path_of(node: Node | None, owners: Owners, field: str, at: ExprPath) -> str:
    """Return the path of a field in its document, such as `nodes[2].params.q`."""

    # It joins the node's own place, the document's name of the field, and the path inside the expression. Nodes without
    # a place are named by their ids: `each/fetch.args.q`. A hidden node with labels represents the document itself
    # (`mode: loop` of a chain), so only its field is named: `until`.
    if node is None:
        base, name = "", field
    else:
        is_document = node.meta.hidden and node.meta.labels
        base = node.meta.source or ("" if is_document else id_path(node, owners))
        name = label_of(node, field)
    inside = ""
    while at is not None:
        outer, key = at
        inside = (f"[{key}]" if isinstance(key, int) else f".{key}" if key.isidentifier() else f"[{key!r}]") + inside
        at = outer
    if node is not None and ":" in node.meta.source and (name or inside):
        return f"{base}: {f'{name}{inside}'.removeprefix('.')}"  # a line of a Python file, not a path in a document
    if base and name and not name.startswith("["):
        return f"{base}.{name}{inside}"
    return f"{base}{name}{inside}" if base or name else inside.removeprefix(".")


def id_path(node: Node, owners: Owners) -> str:
    """Return the ids from the outermost enclosing node to this one, joined by slashes."""
    ids = [node.id]
    while owners is not None:
        owners, owner = owners
        ids.append(owner.id)
    return "/".join(reversed(ids))


def label_of(node: Node, field: str) -> str:
    """Return the document's name of a field: the label of its longest labelled prefix, then the rest."""
    labels = node.meta.labels
    if not labels:
        return field
    end = len(field)
    while end > 0:
        label = labels.get(field[:end])
        if label is None:
            label = labels.get(f"op.{field[:end]}")
        if label is not None:
            rest = field[end:]
            return label + rest if label else rest.removeprefix(".")
        end = max(field.rfind(".", 0, end), field.rfind("[", 0, end))
    return field


def join_names(names: Iterable[str], limit: int = 8) -> str:
    """Join names for a message, with "and N more" after `limit`."""
    names = list(names)
    text = ", ".join(names[:limit])
    return f"{text} and {len(names) - limit:,} more" if len(names) > limit else text
