"""Names of a program: which function owns them, and where their values are in a frame.

A frame is a flat list: the evaluation, the frame of the enclosing function, and one slot for each name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from ...errors import ExpressionError
from .tree import children

Frame: TypeAlias = list[Any]
Getter: TypeAlias = Callable[[Frame], Any]
Setter: TypeAlias = Callable[[Frame, Any], None]

FIRST_SLOT: Final = 2
"""The slots before hold the evaluation and the frame of the enclosing function."""

FUNCTION_NODES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES: Final = (*FUNCTION_NODES, ast.ClassDef)
COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Unsupported(ExpressionError):
    """Syntax outside the language, with its place."""

    def __init__(self, node: ast.AST, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.suggestion = suggestion
        self.line: int = getattr(node, "lineno", 1)
        self.column: int = getattr(node, "col_offset", 0) + 1


class Language:
    """The tables of a language that add to those of this folder."""

    # expressions: How kinds of expressions are compiled; they win over EXPRESSIONS.
    # statements: How kinds of statements are compiled; they win over STATEMENTS.
    # modules: What modules have in addition to MODULES.
    # members: The names with two underscores at their beginning that programs may read.
    # has_classes: Whether programs define classes, whose members may begin with one underscore.

    def __init__(self) -> None:
        self.expressions: dict[type[ast.AST], Callable[[Any, Any], Getter]] = {}
        self.statements: dict[type[ast.AST], Callable[[Any, Any], Callable[[Frame], Any]]] = {}
        self.modules: dict[str, dict[str, Any]] = {}
        self.has_classes = False
        self.members: set[str] = set(_KNOWN_MEMBERS)

    def check_member(self, node: ast.Attribute) -> None:
        """Raise Unsupported if the member is not for programs."""
        name = node.attr
        if name.startswith("__" if self.has_classes else "_") and name not in self.members:
            raise Unsupported(node, f"members that begin with an underscore are not supported: {name}")


_KNOWN_MEMBERS: Final = ("__name__", "__class__", "__qualname__")
BASE: Final = Language()
"""The language of this folder alone."""


class Scope:
    """The names of a function, a comprehension or the program itself."""

    is_class = False
    """True in the body of a class, whose names only that body sees."""

    def __init__(
        self,
        names: Iterable[str],
        parent: Scope | None = None,
        imports: dict[str, str] | None = None,
        comprehension: bool = False,
        inside: bool = False,
        language: Language = BASE,
    ) -> None:
        self.slots = {name: FIRST_SLOT + index for index, name in enumerate(dict.fromkeys(names))}
        self.parent = parent
        self.language: Language = parent.language if parent is not None else language
        self.imports: dict[str, str] = imports if imports is not None else (parent.imports if parent else {})
        self.comprehension = comprehension
        self.prefix: str = parent.prefix if parent is not None else ""
        """What messages write before the name of a function that this scope defines."""
        self.is_function = inside or (parent is not None and not comprehension)
        """True in a function, where an unbound name raises UnboundLocalError."""

    def find(self, name: str) -> tuple[int, int] | None:
        """Return how many frames outward a name is, and its slot there; None if no scope owns it."""
        scope: Scope | None = self
        hops = 0
        while scope is not None:
            slot = None if hops and scope.is_class else scope.slots.get(name)
            if slot is not None:
                return hops, slot
            scope, hops = scope.parent, hops + 1
        return None

    def report(self, error: Unsupported) -> None:
        """Report syntax outside the language; raise it unless the program collects its problems."""
        if self.parent is None:
            raise error
        self.parent.report(error)

    def owner(self, hops: int) -> Scope:
        """Return the scope whose frame is `hops` frames outward."""
        scope = self
        for _ in range(hops):
            assert scope.parent is not None
            scope = scope.parent
        return scope

    def new_frame(self, evaluation: Any, outer: Frame | None, unbound: Any) -> Frame:
        """Return a frame in which every name is unbound."""
        return [evaluation, outer, *[unbound] * len(self.slots)]


def bound_names(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the names that statements bind in their own function, in order of their first appearance."""
    names: dict[str, None] = {}
    for node in nodes:
        _collect_bound(node, names, inside=False)
    return list(names)


def _collect_bound(node: ast.AST, names: dict[str, None], inside: bool) -> None:
    """Add the names that `node` binds; `inside` a comprehension only `:=` binds in the function."""
    if isinstance(node, ast.Name):
        if not inside and not isinstance(node.ctx, ast.Load):
            names.setdefault(node.id)
        return
    if isinstance(node, _SCOPES):
        if not isinstance(node, ast.Lambda):
            names.setdefault(node.name)
        for value in outer_values(node):
            _collect_bound(value, names, inside)
        return
    if isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
        names.setdefault(node.target.id)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        names.setdefault(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        names.setdefault(node.rest)
    inside = inside or isinstance(node, COMPREHENSIONS)
    for child in children(node):
        _collect_bound(child, names, inside)


def outer_values(node: Any) -> list[ast.expr]:
    """Return what a function or class evaluates around itself: decorators, default values, annotations, bases."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
    defaults = [*node.args.defaults, *(default for default in node.args.kw_defaults if default is not None)]
    return [*getattr(node, "decorator_list", ()), *defaults, *annotations_of(node)]


def annotations_of(node: Any) -> list[ast.expr]:
    """Return the annotations of a function that compute something, in Python's order."""
    return [annotation for annotation in every_annotation(node) if not names_type(annotation)]


def every_annotation(node: Any) -> list[ast.expr]:
    """Return the annotations of a function in the order in which Python evaluates them."""
    parameters = node.args
    rows = [*parameters.args, *parameters.posonlyargs, parameters.vararg, *parameters.kwonlyargs, parameters.kwarg]
    found = [row.annotation for row in rows if row is not None] + [getattr(node, "returns", None)]
    return [item for item in found if item is not None]


def names_type(node: ast.expr) -> bool:
    """Return True if an annotation only names a type, for readers."""
    return all(isinstance(part, _TYPE_PARTS) for part in ast.walk(node))


_TYPE_PARTS: Final = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.Subscript, ast.Tuple, ast.List, ast.Starred),
    *(ast.BinOp, ast.BitOr, ast.expr_context),
)


def parameter_names(arguments: ast.arguments) -> list[str]:
    """Return the names of the parameters of a function, in the order of their slots."""
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [argument.arg for argument in every]
