"""The flows in a Python file: functions with `@plan`, and what `flow(...)` makes. The file is read, and not imported.

A file that calls functions while it is imported is a program: none of its flows is listed, so that a list starts
nothing.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

_MAKERS = ("plan", "flow")
_last_read: dict[str, Mapping[str, str]] = {}
"""The flows of each file when it was last right, by path."""


def python_flows(path: Path) -> Mapping[str, str]:
    """Return the names of the flows in a file, by the variables that hold them; a malformed one keeps those it had."""
    try:
        status = os.stat(path)
    except OSError:
        return {}
    return _flows_in(str(path), status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=4096)
def _flows_in(path: str, changed: int, size: int, number: int) -> Mapping[str, str]:
    try:
        content = Path(path).read_bytes()
        tree = ast.parse(content) if b"ropewalk" in content else ast.Module([], [])
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):  # its reader reports the error
        return _last_read.get(path, {})
    reading = _Reading()
    flows = {} if reading.calls_something(tree.body) else reading.flows
    if flows or path in _last_read:
        _last_read[path] = flows
    return flows


class _Reading:
    """The flows of one file as far as it was read, and what its names mean."""

    def __init__(self) -> None:
        self.flows: dict[str, str] = {}
        self._meanings: dict[str, str] = {}
        """By name in the file: `plan`, `flow`, the package, or `builder` for an open flow."""

    def calls_something(self, statements: Iterable[ast.stmt]) -> bool:
        """Read statements of the file, and return True if one calls a function for its effect."""
        acts = [self._acts(statement) for statement in statements]  # all, since later ones also name flows
        return any(acts)

    def _acts(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.ImportFrom(module="ropewalk", names=names):
                self._meanings.update({each.asname or each.name: each.name for each in names if each.name in _MAKERS})
            case ast.Import(names=names):
                packages = (each.asname or each.name for each in names if each.name == "ropewalk")
                self._meanings.update(dict.fromkeys(packages, "package"))
            case ast.AsyncFunctionDef(name=name, decorator_list=decorators):
                for made in decorators:
                    if self._maker(made) == "plan":
                        self.flows[name] = _named(made) or name
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, value)
            case ast.With(items=items, body=body):
                for item in items:
                    if isinstance(item.optional_vars, ast.Name):
                        self._assign(item.optional_vars.id, item.context_expr)
                return self.calls_something(body)
            case ast.Expr(value=ast.Call() as call):
                return self._meanings.get(_root(call)) != "builder"
            case ast.Expr(value=ast.Await()):
                return True
            case ast.If(test=test, body=body, orelse=other):
                return self.calls_something((*(() if "__name__" in ast.unparse(test) else body), *other))
            case ast.For(body=body) | ast.While(body=body) | ast.Try(body=body):
                return self.calls_something(body)
        return False

    def _assign(self, name: str, value: ast.expr) -> None:
        """Note what a variable holds: an open flow, or one that is done and takes the place of the open one."""
        if self._maker(value) == "flow":
            self._meanings[name] = "builder"
            self.flows[name] = _named(value) or name
        elif isinstance(value, ast.Call) and self._meanings.get(_root(value)) == "builder":
            if isinstance(value.func, ast.Attribute) and value.func.attr == "done":
                self.flows[name] = self.flows.pop(_root(value), name)
            else:
                self._meanings[name] = "builder"  # a part of the flow, such as a block

    def _maker(self, value: ast.expr) -> str | None:
        """Return which function an expression is, or calls."""
        function = value.func if isinstance(value, ast.Call) else value
        match function:
            case ast.Name(id=name):
                return self._meanings.get(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if self._meanings.get(name) == "package":
                return attribute
        return None


def _named(value: ast.expr) -> str | None:
    """Return the name that a call gives a flow: its first argument, or `name=`."""
    if not isinstance(value, ast.Call):
        return None
    given = [*value.args[:1], *(each.value for each in value.keywords if each.arg == "name")]
    return next((str(each.value) for each in given if isinstance(each, ast.Constant)), None)


def _root(value: ast.expr) -> str:
    """Return the variable that an expression of calls and attributes begins with."""
    while isinstance(value, ast.Call | ast.Attribute | ast.Subscript):
        value = value.func if isinstance(value, ast.Call) else value.value
    return value.id if isinstance(value, ast.Name) else ""
