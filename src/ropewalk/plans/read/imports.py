"""Imports of a program, by the scoping of Python: an import in a function is local to it, one outside is global.

Servers come from `ropewalk.servers`, names of the language from `ropewalk.plans`. A program has both anyway, and the
imports are for type checkers and editors: the tree that everything else sees has no such import, and one name for each
server and each name of the language.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from ...expr.python.scope import COMPREHENSIONS, FUNCTION_NODES, every_annotation, outer_values
from ...expr.python.tree import children, walk
from ...fast_dataclass import dataclass
from ...values import did_you_mean
from .. import MODULE
from .. import __all__ as NAMES
from .problems import Problem, problem_at

SERVERS: Final = "ropewalk.servers"
PLANS: Final = MODULE
IMPORTS: Final = {module: f"from {module} import NAME" for module in (SERVERS, PLANS)}
"""How a program imports from each module."""
MODULES: Final = ("asyncio", "json", "math", "re")
"""The modules that a program has without an import."""
_Position: TypeAlias = tuple[int, int]
"""Line and column."""
_START, _LAST = (0, 0), (2**31, 0)


def use_imports(tree: ast.Module, text: str) -> Iterator[Problem]:
    """Remove the imports of servers and of the language from a tree, and replace the other names that they give."""
    if "import" not in text:
        return
    nodes = walk(tree)
    names = _Names(tree, nodes)
    problems = [*_wrong_names(names.imports), *names.conflicts(), *names.resolve()]
    for block, node in _statements(nodes):
        if _is_ours(node):
            block[block.index(node)] = ast.copy_location(ast.Pass(), node)
    yield from sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.column))


def is_module(node: ast.AST) -> bool:
    """Return True if a name means what an import of a module gives, and so no tool or server."""
    return getattr(node, "is_module", False)


@dataclass(frozen=True, slots=True, eq=False)
class _Import:
    """A name that an import binds."""

    # What it means: `ropewalk.servers.fs`, `math`, `math.sqrt`.
    path: str
    # The module it is imported from, if that is one of IMPORTS; otherwise "".
    module: str
    alias: ast.alias
    # Where Python has executed it: from its statement to the end of the block that it is in.
    start: _Position
    end: _Position

    @property
    def name(self) -> str:
        """The name that it binds."""
        return self.alias.asname or (self.alias.name if self.module else self.alias.name.partition(".")[0])

    @property
    def is_needless(self) -> bool:
        """True if a program has this module under this name without the import."""
        return self.name == self.path and self.path in MODULES

    def has_run(self, at: _Position) -> bool:
        return self.start < at <= self.end


class _Scope:
    """The names that the program, a function, a class or a comprehension binds."""

    def __init__(self, parent: _Scope | None = None, *, is_class: bool = False, is_comprehension: bool = False) -> None:
        self.parent, self.is_class, self.is_comprehension = parent, is_class, is_comprehension
        self.imports: dict[str, list[_Import]] = {}
        self.others: dict[str, list[ast.AST]] = {}
        self.declared: dict[str, type[ast.AST]] = {}  # names that it declares global or nonlocal

    def visible(self) -> Iterator[_Scope]:
        """Yield this scope and those around it whose names it sees."""
        scope: _Scope | None = self
        while scope is not None:
            if scope is self or not scope.is_class:
                yield scope
            scope = scope.parent

    def owner(self, name: str) -> _Scope | None:
        """Return the scope that a name belongs to; None if nothing binds it."""
        is_global = False
        for scope in self.visible():
            is_global = is_global or scope.declared.get(name) is ast.Global
            if name in scope.declared or (is_global and scope.parent is not None):
                continue
            if name in scope.imports or name in scope.others:
                return scope
        return None


class _Names:
    """The names of a program: what binds them, and what each use of them means."""

    def __init__(self, tree: ast.Module, nodes: list[ast.AST]) -> None:
        self.scopes: list[_Scope] = []
        self.imports: list[_Import] = []
        self._ends = {id(node): _end(block) for block, node in _statements(nodes)}
        self._loads: list[tuple[ast.Name, _Scope, _Position]] = []
        # A use in an annotation is not executed; its place is before everything.
        self._todo: list[tuple[Any, _Scope, _Position]] = []
        self._push(tree.body, self._scope(), _START)
        while self._todo:
            self._visit(*self._todo.pop())
        for scope in self.scopes:
            for name in scope.declared:
                self._move_to_owner(scope, name)

    def conflicts(self) -> Iterator[Problem]:
        """Yield the names that an import of IMPORTS binds, and that have another meaning in the same scope."""
        for scope in self.scopes:
            for name, imports in scope.imports.items():
                ours = [item for item in imports if item.module]
                if not ours:
                    continue
                meanings = {item.path: item.alias for item in imports}
                if len(meanings) > 1:
                    message = f"{name} is imported as {' and as '.join(meanings)}; import each under a name of its own"
                    yield from (problem_at(alias, message) for alias in meanings.values())
                if scope.is_class:
                    yield from (problem_at(item.alias, f"import {name} outside of the class") for item in ours)
                known = ours[0].alias.name
                why = f"{name} is another name of {known}" if known != name else f"{name} is imported"
                for node in scope.others.get(name, ()):
                    yield problem_at(node, f"{why}; use another name here")

    def resolve(self) -> Iterator[Problem]:
        """Give each use of an imported name its meaning; yield those that have none."""
        modules = {item.name: item for item in self.imports if not item.module}
        for node, scope, at in self._loads:
            name, owner = node.id, scope.owner(node.id)
            imports = owner.imports.get(name, []) if owner is not None else []
            module = modules.get(name)
            if owner is None and module is not None and not module.is_needless and at != _START:
                line = module.alias.lineno
                yield problem_at(node, f"line {line} imports {name} in another function; import it here")
            if not imports:
                continue
            item = imports[0]
            if at != _START and not item.is_needless and not any(other.has_run(at) for other in imports):
                line = item.alias.lineno
                yield problem_at(node, f"line {line}, which imports {name}, may not have run yet; move it up")
            if not item.module:
                node.is_module = True  # type: ignore[attr-defined]
                continue
            known = item.alias.name
            node.id, node.is_server = known, item.module == SERVERS  # type: ignore[attr-defined]
            hiding = next((other.others[known] for other in scope.visible() if known in other.others), [])
            hiding = [*hiding, *([modules[known].alias] if known in modules else [])]
            why = f"{known} is imported under the name {name}" if known != name else f"{known} is imported"
            yield from (problem_at(other, f"{why}; use another name here") for other in hiding)

    # --- reading ------------------------------------------------------------------------------

    def _scope(self, parent: _Scope | None = None, **kind: bool) -> _Scope:
        self.scopes.append(_Scope(parent, **kind))
        return self.scopes[-1]

    def _push(self, nodes: Iterable[ast.AST | None], scope: _Scope, at: _Position) -> None:
        self._todo += [(node, scope, at) for node in nodes if node is not None][::-1]

    def _visit(self, node: Any, scope: _Scope, at: _Position) -> None:
        at = (node.lineno, node.col_offset) if isinstance(node, ast.stmt) else at
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                self._loads.append((node, scope, at))
            case ast.Import() | ast.ImportFrom():
                self._import(node, scope, at)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                scope.declared.update(dict.fromkeys(names, type(node)))
            case ast.ClassDef():
                self._bind(node.name, node, scope)
                self._push(outer_values(node), scope, at)
                self._push(node.body, self._scope(scope, is_class=True), at)
            case _ if isinstance(node, FUNCTION_NODES):
                self._function(node, scope, at)
            case _ if isinstance(node, COMPREHENSIONS):
                inner, first = self._scope(scope, is_comprehension=True), node.generators[0]
                self._push([first.iter], scope, at)  # the only part that the scope around it evaluates
                parts = [part for part in children(node) if part is not first]
                self._push([*parts, first.target, *first.ifs], inner, at)
            case ast.NamedExpr(target=target, value=value):
                function = next(each for each in scope.visible() if not each.is_comprehension)
                self._bind(target.id, target, function)
                self._push([value], scope, at)
            case ast.AnnAssign(annotation=annotation):
                self._push([annotation], scope, _START)
                self._push([node.target, node.value], scope, at)
            case _:
                for name in _bound(node):
                    self._bind(name, node, scope)
                self._push(children(node), scope, at)

    def _function(self, node: Any, scope: _Scope, at: _Position) -> None:
        inner = self._scope(scope)
        if not isinstance(node, ast.Lambda):
            self._bind(node.name, node, scope)
        arguments = node.args
        for argument in (
            *(*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs),
            *(other for other in (arguments.vararg, arguments.kwarg) if other is not None),
        ):
            self._bind(argument.arg, argument, inner)
        annotations = every_annotation(node)
        self._push(annotations, scope, _START)
        self._push([part for part in outer_values(node) if part not in annotations], scope, at)
        self._push(node.body if isinstance(node.body, list) else [node.body], inner, at)

    def _import(self, node: Any, scope: _Scope, at: _Position) -> None:
        module = node.module if _is_ours(node) else ""
        for alias in node.names:
            path = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            end = self._ends[id(node)] if module else _LAST
            item = _Import(path, module, alias, at, end)
            self.imports.append(item)
            scope.imports.setdefault(item.name, []).append(item)

    def _bind(self, name: str, node: ast.AST, scope: _Scope) -> None:
        scope.others.setdefault(name, []).append(node)

    def _move_to_owner(self, scope: _Scope, name: str) -> None:
        """Move what binds a global or nonlocal name to the scope that has it."""
        imports, others = scope.imports.pop(name, []), scope.others.pop(name, [])
        owner = self.scopes[0] if scope.declared[name] is ast.Global else scope.owner(name) or self.scopes[0]
        if imports:
            owner.imports.setdefault(name, []).extend(imports)
        if others:
            owner.others.setdefault(name, []).extend(others)


def _wrong_names(imports: Iterable[_Import]) -> Iterator[Problem]:
    """Yield what `ropewalk.servers` and `ropewalk.plans` cannot give."""
    for item in imports:
        name = item.alias.name
        if item.module and name == "*":
            yield problem_at(item.alias, f"name what you import: {IMPORTS[item.module]}")
        elif item.module == PLANS and name not in NAMES:
            near = did_you_mean(name, NAMES)
            hint = f"; did you mean {near}?" if near else f"; it has {', '.join(NAMES)}"
            yield problem_at(item.alias, f"{PLANS} has no {name!r}{hint}")


def _statements(nodes: list[ast.AST]) -> Iterator[tuple[list[Any], Any]]:
    """Yield every statement with the block that it is in."""
    for node in nodes:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield from ((block, statement) for statement in block)


def _end(block: list[Any]) -> _Position:
    return block[-1].end_lineno, block[-1].end_col_offset


def _is_ours(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module in IMPORTS and not node.level


def _bound(node: Any) -> Iterator[str]:
    """Yield the names that a node binds itself."""
    match node:
        case ast.Name(id=name) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
