"""The types of names at a point of a program, and the scopes that bind them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias

from ...check.types import Opaque, Type
from ..read.names import own_names, own_nodes
from .sizes import bound_names

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class ScopeNames:
    """The names of a function, of a class, or of the program itself."""

    # names: The names that it binds.
    # stable: The names that it binds once, so that a function that reads them later finds this value.

    __slots__ = ("names", "stable")

    def __init__(self, body: list[ast.stmt], more: Iterable[str] = ()) -> None:
        first = list(more)
        self.names = frozenset((*first, *own_names(body)))
        counts = Counter((*first, *bound_names(own_nodes(body))))
        self.stable = frozenset(name for name in self.names if counts[name] <= 1)


class Env(dict[str, Type]):
    """The types of the names of a scope that have a value at a point of the program."""

    # scope: The names of the scope.
    # outer: The environment around the function; None for the program itself.

    __slots__ = ("outer", "scope")

    def __init__(self, scope: ScopeNames, outer: Env | None, types: dict[str, Type]) -> None:
        super().__init__(types)
        self.scope, self.outer = scope, outer

    def copy(self) -> Env:
        """Return another environment of the same scope."""
        return Env(self.scope, self.outer, self)

    def forget(self, names: Iterable[str]) -> Env:
        """Return an environment in which these names may be anything."""
        inner = self.copy()
        inner.update(dict.fromkeys(names))
        return inner

    def owner(self, name: str) -> Env | None:
        """Return the environment whose scope binds a name; None if the program does not bind it."""
        env: Env | None = self
        while env is not None and name not in env.scope.names and name not in env:
            env = env.outer
        return env

    def find(self, name: str) -> Type:
        """Return the type of a name; what other code may bind again is anything."""
        env = self.owner(name)
        if env is None or (env is not self and name not in env.scope.stable):
            return None
        return env.get(name)


class Task(Opaque):
    """A call that is not awaited yet, or a task; `of` is the type of its result."""

    __slots__ = ("is_started", "of")

    def __init__(self, of: Type, is_started: bool = False) -> None:
        self.of, self.is_started = of, is_started


class Function(Opaque):
    """A local function, with the environment in which it is defined."""

    __slots__ = ("env", "node")

    def __init__(self, node: FunctionNode, env: Env) -> None:
        self.node, self.env = node, env


OPAQUE: Final = Opaque()
"""A value that is not JSON, such as a class, and of which nothing else is known."""
