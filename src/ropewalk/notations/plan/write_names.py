"""Names and lines of a written plan."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from ...plans.interpret.language import KNOWN_MODULES, KNOWN_NAMES
from ...plans.read.tools import python_name
from .write_functions import FUNCTIONS

_RESERVED: Final = frozenset((*keyword.kwlist, *keyword.softkwlist, *KNOWN_NAMES, *KNOWN_MODULES, *dir(builtins)))
_IN_FUNCTIONS: Final = frozenset(re.findall(r"[A-Za-z_]\w*", "\n".join(FUNCTIONS.values())))
_USED: Final = frozenset(
    [
        *(_IN_FUNCTIONS & {*dir(builtins), "json", "math", "re"}),
        *("asyncio", "approve", "wait_for", "ToolError", "Rejected", "TimeoutError", "ValueError", "Exception"),
        *("enumerate", "range", "sorted", "zip", "print"),
    ]
)
"""The names of Python that written programs use themselves."""
_MOST_COLUMNS: Final = 110
_INDENT: Final = "    "


def is_name(text: str) -> bool:
    """Return True for a text that a plan can have as the name of an input."""
    return text.isidentifier() and not keyword.iskeyword(text) and text not in _USED


class Names:
    """Makes the names of variables of one program, each once."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = {*taken, *_RESERVED}

    def fresh(self, hint: str) -> str:
        """Return a name that is not in use, made of a text such as the id of a node."""
        name = re.sub(r"\W", "_", hint, flags=re.ASCII).strip("_") or "value"
        if name[0].isdigit():
            name = f"n{name}"
        unique, count = name, 1
        while unique in self.taken:
            count += 1
            unique = f"{name}_{count}"
        self.taken.add(unique)
        return unique


def tool_names(ids: Iterable[str], inputs: Iterable[str]) -> dict[str, str]:
    """Return how a program names each tool, by the id of the tool."""
    taken = {*_RESERVED, *_IN_FUNCTIONS, *inputs}
    names: dict[str, str] = {}
    for id in dict.fromkeys(ids):
        head, dot, rest = python_name(id).partition(".")
        head = f"tool_{head}" if not head.isidentifier() else f"{head}_tool" if head in taken else head
        if dot and (not rest.isidentifier() or keyword.iskeyword(rest) or rest.startswith("_")):
            rest = f"tool_{rest.strip('_')}"
        name = f"{head}{dot}{rest}"
        while name in names.values() or head in taken:
            head, name = f"{head}_", f"{name}_"
        names[id] = name
    return names


class Lines:
    """The lines of a program while they are written."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def add(self, text: str) -> None:
        """Add a line; one that is too long is broken at the arguments of its call."""
        indent = _INDENT * self.depth
        self.lines += [indent + line for line in _broken(text, _MOST_COLUMNS - len(indent))]

    def set(self, name: str | None, value: ast.expr) -> None:
        """Add an assignment, or the expression itself where no name gets its value."""
        text = ast.unparse(value)
        if text != name:
            self.add(text if name is None else f"{name} = {text}")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add the head of a block, and indent the lines that are added inside; an empty block gets `pass`."""
        is_function = not self.depth and head.startswith(("async def ", "def "))
        if is_function and self.lines and self.lines[-1]:
            self.lines.append("")
        self.add(head)
        self.depth += 1
        count = len(self.lines)
        yield
        if len(self.lines) == count:
            self.add("pass")
        self.depth -= 1
        if is_function:
            self.lines.append("")


def _broken(text: str, width: int) -> list[str]:
    """Return a statement as lines that fit, where its last call or display can be broken at its commas."""
    if len(text) <= width or "\n" in text:
        return [text]
    value = ast.parse(text if not text.endswith(":") else "pass").body[0]
    node = getattr(value, "value", None)
    while isinstance(node, (ast.Await, ast.Starred)):
        node = node.value
    if not isinstance(node, (ast.Call, ast.Dict, ast.List)) or node.end_col_offset != len(text.encode()):
        return [text]
    if isinstance(node, ast.Call):
        parts = [ast.unparse(part) for part in (*node.args, *node.keywords)]
    elif isinstance(node, ast.Dict):
        keys = [ast.unparse(key) if key is not None else "" for key in node.keys]
        parts = [f"{key}: {ast.unparse(part)}" for key, part in zip(keys, node.values, strict=True)]
    else:
        parts = [ast.unparse(part) for part in node.elts]
    inside = f"{', '.join(parts)}"
    if not parts or not text.endswith(f"{inside}{text[-1]}"):
        return [text]
    head = text[: -len(inside) - 1]
    return [head, *(f"{_INDENT}{part}," for part in parts), text[-1]]
