"""What an expression is: seven kinds of node, total, pure, without clock or randomness.

Parsing gives references as the text names them (`Ref("steps", (0, "output"))`); a notation
rebinds them to what the graph knows (`Ref("out", ("search",))`) with `rebind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import TypeAlias

from ..frozen import dataclass
from ..values import Json

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal JSON value."""

    value: Json


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the run: `root` names what is read, `path` walks down from it.

    In a graph the roots are input, out, status, state, item, index, round, prev, error and
    secret; the first path element under out, status, state and secret is the name there.
    A path that does not exist gives missing. With `elide`, a leading `output` under the name
    is skipped where the value has no such key. `column` is where it stands in its text, `said` the
    reference of the document that this one was made from: what people know it by.
    """

    root: str
    path: Path = ()
    elide: bool = False
    column: int = field(default=1, compare=False, repr=False)
    said: Ref | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Var:
    """A name bound by an enclosing `Each`, and a path below it."""

    name: str
    path: Path = ()


@dataclass(frozen=True, slots=True)
class Obj:
    fields: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Arr:
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Fn:
    """A function or an operator (`+`, `&&`, `?:`, `[]`, `${}` for interpolation, `length` ...)."""

    name: str
    args: tuple[Expr, ...]
    column: int = field(default=1, compare=False, repr=False)
    said: Ref | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Each:
    """A macro: evaluates `body` for every element of `source` with `names` bound.

    `kind` is all, exists, exists_one, map, filter, flat_map, reduce, group_by, sort ...;
    `names` are bound in order (element, then index or accumulator as the kind says);
    `extra` are arguments evaluated once (REDUCE's initial value, a sort's order).
    """

    kind: str
    source: Expr
    names: tuple[str, ...]
    body: Expr
    extra: tuple[Expr, ...] = ()
    column: int = field(default=1, compare=False, repr=False)
    said: Ref | None = field(default=None, compare=False, repr=False)


Expr: TypeAlias = Lit | Ref | Var | Obj | Arr | Fn | Each
NULL = Lit(None)

_CHAINED = frozenset(("&&", "||", "+", "*"))  # associative: one node for a whole chain


def binary(name: str, left: Expr, right: Expr, column: int = 1) -> Expr:
    """`left name right`, where `name` is an operator of two sides."""
    if name in _CHAINED and isinstance(left, Fn) and left.name == name:
        return Fn(name, (*left.args, right), left.column)
    return Fn(name, (left, right), column)


def select(holder: Expr, key: str | int, column: int = 1) -> Expr:
    """The member `key` of what `holder` gives."""
    if isinstance(holder, Ref):
        return Ref(holder.root, (*holder.path, key), holder.elide, holder.column)
    if isinstance(holder, Var):
        return Var(holder.name, (*holder.path, key))
    return Fn("[]", (holder, Lit(key)), column)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside this one."""
    kind = type(expr)
    if kind is Lit or kind is Ref or kind is Var:
        return ()
    if isinstance(expr, Obj):
        return tuple(value for _, value in expr.fields)
    if isinstance(expr, Arr):
        return expr.items
    if isinstance(expr, Fn):
        return expr.args
    assert isinstance(expr, Each)
    return (expr.source, expr.body, *expr.extra)


def moved(expr: Expr, by: int) -> Expr:
    """The same expression where its text begins `by` characters further on in a longer one."""
    if isinstance(expr, Ref):
        return replace(expr, column=expr.column + by)
    if isinstance(expr, Obj):
        return Obj(tuple((key, moved(value, by)) for key, value in expr.fields))
    if isinstance(expr, Arr):
        return Arr(tuple(moved(item, by) for item in expr.items))
    if isinstance(expr, Fn):
        return replace(expr, args=tuple(moved(arg, by) for arg in expr.args), column=expr.column + by)
    if isinstance(expr, Each):
        source, body, extra = moved(expr.source, by), moved(expr.body, by), tuple(moved(e, by) for e in expr.extra)
        return replace(expr, source=source, body=body, extra=extra, column=expr.column + by)
    return expr


def refs(expr: Expr) -> Iterator[Ref]:
    """Every reference inside, in order of the text."""
    if isinstance(expr, Ref):
        yield expr
        return
    for inner in children(expr):
        yield from refs(inner)


def rebind(expr: Expr, bind: Callable[[Ref], Expr]) -> Expr:
    """The same expression with each reference replaced by what `bind` makes of it."""
    kind = type(expr)
    if kind is Lit or kind is Var:
        return expr
    if isinstance(expr, Ref):
        return bind(expr)
    if isinstance(expr, Obj):
        return Obj(tuple((key, rebind(value, bind)) for key, value in expr.fields))
    if isinstance(expr, Arr):
        return Arr(tuple(rebind(item, bind) for item in expr.items))
    if isinstance(expr, Fn):
        return replace(expr, args=tuple(rebind(arg, bind) for arg in expr.args))
    assert isinstance(expr, Each)
    return replace(
        expr,
        source=rebind(expr.source, bind),
        body=rebind(expr.body, bind),
        extra=tuple(rebind(e, bind) for e in expr.extra),
    )
