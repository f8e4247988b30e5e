"""The scopes of a program: the root knows its tools, and collects problems that do not stop the reading."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...expr.python.scope import FIRST_SLOT, Language, Scope, Unsupported
from ..read.problems import Problem, problem_at


class ProgramScope(Scope):
    """The root scope of a program."""

    # names: The names that the program binds outside of functions, and its inputs.
    # tools: The names of its tools as it writes them, with their parameters; None where these are unknown.
    # language: The language of programs.
    # transforms: Functions of Python that it calls, by name.
    # inside: Whether the program is the body of a function.

    def __init__(
        self,
        names: Iterable[str],
        tools: Mapping[str, Sequence[str] | None],
        language: Language,
        inside: bool = False,
        transforms: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        super().__init__(
            names, imports={"asyncio": "asyncio", "json": "json", "math": "math", "re": "re"}, language=language
        )
        self.is_function = inside
        self.tools, self.transforms = tools, transforms or {}
        self.namespaces = {name.partition(".")[0] for name in tools if "." in name}
        self.problems: list[Problem] = []
        self.recursive: set[str] = set()
        self.unknown: set[str] = set()  # names that were reported

    def refuse(self, node: ast.AST, message: str, suggestion: str | None = None) -> None:
        """Collect a problem at a node."""
        self._collect(problem_at(node, message, suggestion))

    def report(self, error: Unsupported) -> None:
        """Collect syntax outside the language."""
        self._collect(Problem(error.line, error.column, str(error), error.suggestion))

    def _collect(self, problem: Problem) -> None:
        if problem not in self.problems:  # some nodes are compiled twice
            self.problems.append(problem)


class FunctionScope(Scope):
    """The scope of a function with names that it declares global."""

    def __init__(self, names: Iterable[str], parent: Scope, globals_: Iterable[str] = ()) -> None:
        super().__init__(names, parent)
        self._globals = frozenset(globals_)

    def find(self, name: str) -> tuple[int, int] | None:
        """Return where a name is; a global one is in the root."""
        if name not in self._globals:
            return super().find(name)
        scope: Scope = self
        hops = 0
        while scope.parent is not None:
            scope, hops = scope.parent, hops + 1
        slot = scope.slots.get(name)
        return None if slot is None else (hops, slot)


def root_of(scope: Scope) -> ProgramScope:
    """Return the root scope of a program."""
    while scope.parent is not None:
        scope = scope.parent
    assert isinstance(scope, ProgramScope)
    return scope


def hidden_slot(scope: Scope) -> tuple[str, int]:
    """Return a new name that no program has, and its slot."""
    name = f"·{len(scope.slots)}"
    slot = scope.slots[name] = FIRST_SLOT + len(scope.slots)
    return name, slot


def load_of(name: str, node: ast.AST) -> ast.expr:
    """Return a node that reads a name, at the place of another node."""
    made: Any = ast.copy_location(ast.Name(name, ast.Load()), node)
    return made  # type: ignore[no-any-return]


def store_of(name: str, node: ast.AST) -> ast.expr:
    """Return a node that binds a name, at the place of another node."""
    made: Any = ast.copy_location(ast.Name(name, ast.Store()), node)
    return made  # type: ignore[no-any-return]
