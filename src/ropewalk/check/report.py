"""What is wrong, told in the user's words: the path of a problem in the document it came from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from ..errors import Problem
from ..errors.collected import MOST_PROBLEMS, MOST_TEXT, more_problems
from ..frozen import dataclass
from ..ir import Node
from ..values import closest

At: TypeAlias = tuple["At | None", str | int] | None
"""The way into an expression, innermost last and built only outwards: (way to the parent, key)."""

Owners: TypeAlias = tuple["Owners | None", Node] | None
"""The nodes whose regions enclose this point, innermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the check found: `problems` forbid a run, `warnings` do not. Both in document order."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


class Enough(Exception):
    """There are as many problems as anybody reads: the check ends."""


class Report:
    """Collects problems and warnings, each with its node for the order at the end."""

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
        at: At = None,
        suggestion: str | None = None,
        column: int | None = None,
        warning: bool = False,
        keyword: str | None = None,
    ) -> None:
        """Add a problem at a field of a node (of the flow itself without one), and a way into it.

        Raises:
            Enough: This was the last problem that is reported. Warnings past the limit are dropped.
        """
        if warning and not self.takes_warnings:
            return
        problem = Problem(
            path=path_of(node, owners, field, at),
            message=message,
            suggestion=suggestion,
            column=column,
            keyword=keyword,
        )
        (self.warnings if warning else self.problems).append((node, problem))
        self._size += len(problem.path) + len(problem.message)
        if self._is_full and not warning:
            raise Enough

    @property
    def _is_full(self) -> bool:
        return len(self.problems) >= MOST_PROBLEMS or self._size > MOST_TEXT

    @property
    def takes_warnings(self) -> bool:
        """Whether a further warning is kept: where not, nobody needs to look for what was meant."""
        return len(self.warnings) < MOST_PROBLEMS and self._size < MOST_TEXT

    def checked(self, order: Iterable[Node]) -> Checked:
        """Everything found, in the order of the nodes given; what belongs to the flow comes last."""
        if not self.problems and not self.warnings:
            return Checked()
        place: dict[int, int] = {}
        for node in order:
            place.setdefault(id(node), len(place))
        last = len(place)

        def sort(found: list[tuple[Node | None, Problem]]) -> tuple[Problem, ...]:
            found.sort(key=lambda entry: place.get(id(entry[0]), last))
            return tuple(dict.fromkeys(problem for _, problem in found))

        problems = sort(self.problems)
        if problems and self._is_full:
            problems += (more_problems(len(problems)),)
        return Checked(problems=problems, warnings=sort(self.warnings))


SECRET: Final = "secret"
"""The keyword of problems about secrets that may not be read."""
UNKNOWN_TOOL: Final = "unknown tool"
"""The keyword of what is told of a tool that is not there."""


def unknown_tool(tool: str, tools: Any, *, suggest: bool = True) -> tuple[str, str | None, bool]:
    """What to say of a tool that `tools` does not know: the message, what may have been meant, and whether it is
    certain that there is none (its server was asked, or its pin refuses it). Without `suggest` nobody reads what was
    meant, and it is not looked for."""
    names, why, certain = (getattr(tools, name, None) for name in ("names", "why", "certain"))
    reason = why(tool) if callable(why) else None
    near = closest(tool, names()) if callable(names) and reason is None and suggest else None
    message = f"unknown tool {tool!r}" if reason is None else f"tool {tool!r}: {reason}"
    return message, near, bool(certain(tool)) if callable(certain) else False


def path_of(node: Node | None, owners: Owners, field: str, at: At) -> str:
    """`nodes[2].params.q`: the node's own place in its document, the document's name of the field,
    the way inside the expression. Nodes without a place are named by their ids: `each/fetch.args.q`; a hidden one
    with labels is the document itself (`mode: loop` of a chain), and only its field is named: `until`."""
    if node is None:
        base, name = "", field
    else:
        whole = node.meta.hidden and node.meta.labels  # a node that stands for the document
        base = node.meta.source or ("" if whole else id_path(node, owners))
        name = label_of(node, field)
    inside = ""
    while at is not None:
        outer, key = at
        inside = (f"[{key}]" if isinstance(key, int) else f".{key}" if key.isidentifier() else f"[{key!r}]") + inside
        at = outer
    if node is not None and ":" in node.meta.source and (name or inside):
        return f"{base}: {f'{name}{inside}'.removeprefix('.')}"  # a line of a Python file, no way into a document
    if base and name and not name.startswith("["):
        return f"{base}.{name}{inside}"
    return f"{base}{name}{inside}" if base or name else inside.removeprefix(".")


def id_path(node: Node, owners: Owners) -> str:
    """The ids from the outermost enclosing node to this one, with slashes."""
    ids = [node.id]
    while owners is not None:
        owners, owner = owners
        ids.append(owner.id)
    return "/".join(reversed(ids))


def label_of(node: Node, field: str) -> str:
    """What the document calls a field: the longest part of its name that has a label, then the rest."""
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


def listing(names: Iterable[str], most: int = 8) -> str:
    """Names for a message, cut when there are many."""
    found = list(names)
    shown = ", ".join(found[:most])
    return f"{shown} and {len(found) - most:,} more" if len(found) > most else shown
