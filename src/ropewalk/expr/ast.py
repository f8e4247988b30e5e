"""The tree of an expression: seven kinds of nodes, and functions that traverse, change and print them.

Expressions are pure: they have no side effects, no clock, no randomness. Parsing gives references as the
text names them (`Ref("steps", (0, "output"))`). A notation replaces them with references of the graph
(`Ref("out", ("search",))`) through `rebind`. `show` prints a text that parses back to the same tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Final, TypeAlias

import orjson

from ..fast_dataclass import dataclass
from ..values import Json

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal JSON value."""

    value: Json


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to a value of the run: `root` names the source, `path` walks down from it."""

    # In a graph the roots are input, out, status, state, item, index, round, prev, error and secret. The first path
    # element under out, status, state and secret is a name. A path that does not exist gives missing. With `elide`, a
    # leading `output` under the name is skipped if the value has no such key. `column` is the column in the source
    # text. `original` is the reference in the document that this one was bound from; messages show that one.

    root: str
    path: Path = ()
    elide: bool = False
    column: int = field(default=1, compare=False, repr=False)
    original: Ref | None = field(default=None, compare=False, repr=False)


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
    original: Ref | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Each:
    """A macro: evaluates `body` for every element of `source` with `names` bound."""

    # `kind` is all, exists, exists_one, map, filter, flat_map, reduce, group_by, sort ...; `names` are bound in order
    # (element, then index or accumulator as the kind says); `extra` are arguments evaluated once (REDUCE's initial
    # value, a sort's order).

    kind: str
    source: Expr
    names: tuple[str, ...]
    body: Expr
    extra: tuple[Expr, ...] = ()
    column: int = field(default=1, compare=False, repr=False)
    original: Ref | None = field(default=None, compare=False, repr=False)


Expr: TypeAlias = Lit | Ref | Var | Obj | Arr | Fn | Each
NULL = Lit(None)

_CHAINED = frozenset(("&&", "||", "+", "*"))  # associative: one node for a whole chain


def binary(name: str, left: Expr, right: Expr, column: int = 1) -> Expr:
    """Return `left name right`; chains of an associative operator become one node."""
    if name in _CHAINED and isinstance(left, Fn) and left.name == name:
        return Fn(name, (*left.args, right), left.column)
    return Fn(name, (left, right), column)


def select(holder: Expr, key: str | int, column: int = 1) -> Expr:
    """Return the member `key` of the value of an expression."""
    if isinstance(holder, Ref):
        return Ref(holder.root, (*holder.path, key), holder.elide, holder.column)
    if isinstance(holder, Var):
        return Var(holder.name, (*holder.path, key))
    return Fn("[]", (holder, Lit(key)), column)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly inside this one."""
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


def shift_columns(expr: Expr, by: int) -> Expr:
    """Return the expression with its columns increased, for a text that begins `by` characters into a longer one."""
    if isinstance(expr, Ref):
        return replace(expr, column=expr.column + by)
    if isinstance(expr, Obj):
        return Obj(tuple((key, shift_columns(value, by)) for key, value in expr.fields))
    if isinstance(expr, Arr):
        return Arr(tuple(shift_columns(item, by) for item in expr.items))
    if isinstance(expr, Fn):
        return replace(expr, args=tuple(shift_columns(arg, by) for arg in expr.args), column=expr.column + by)
    if isinstance(expr, Each):
        source, body, extra = (
            shift_columns(expr.source, by),
            shift_columns(expr.body, by),
            tuple(shift_columns(e, by) for e in expr.extra),
        )
        return replace(expr, source=source, body=body, extra=extra, column=expr.column + by)
    return expr


def refs(expr: Expr) -> Iterator[Ref]:
    """Yield every reference inside, in the order of the text."""
    return (part for part in subexpressions(expr) if isinstance(part, Ref))


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """Yield an expression and everything in it, in the order of the text."""
    stack = [expr]  # nested generators would take time with the product of size and depth
    while stack:
        part = stack.pop()
        yield part
        stack.extend(reversed(children(part)))


def rebind(expr: Expr, bind: Callable[[Ref], Expr]) -> Expr:
    """Return the expression with each reference replaced by the result of `bind`."""
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


POWERS: Final[dict[str, int]] = {
    "?:": 1,
    "||": 2,
    "&&": 3,
    "!": 4,
    "in": 5,
    "==": 5,
    "!=": 5,
    "<": 5,
    "<=": 5,
    ">": 5,
    ">=": 5,
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "%": 7,
    "neg": 8,
}
"""The binding power of each operator; the parser uses this table too."""

_TIGHT: Final = 9
_NAME: Final = re.compile(r"[^\W\d]\w*")


def show_in_document(expr: Expr) -> str:
    """Return the text of an expression in the words of its document, for messages."""
    return show(rebind(expr, lambda ref: ref.original or ref))


def brief(expr: Expr, limit: int = 60) -> str:
    """Return the text of an expression for a message, cut to `limit` characters."""
    text = show_in_document(expr)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def show(expr: Expr) -> str:
    """Return the text of an expression; `parse(show(e)) == e` for every tree that parsing returns."""
    return _show(expr, 0)


def _show(expr: Expr, power: int) -> str:
    if isinstance(expr, Lit):
        text = _literal(expr.value)
        return f"({text})" if text.startswith("-") and power >= _TIGHT else text
    if isinstance(expr, Ref):
        return f"${expr.root}{_path(expr.path)}"
    if isinstance(expr, Var):
        return f"{expr.name}{_path(expr.path)}"
    if isinstance(expr, Obj):
        return "{" + ", ".join(f"{_literal(key)}: {_show(value, 0)}" for key, value in expr.fields) + "}"
    if isinstance(expr, Arr):
        return "[" + ", ".join(_show(item, 0) for item in expr.items) + "]"
    if isinstance(expr, Each):
        return _each(expr)
    return _fn(expr, power)


def _fn(expr: Fn, power: int) -> str:
    name, args = expr.name, expr.args
    own_power = POWERS.get(name)
    if own_power is None:
        return _call(name, args)
    if name == "?:":
        text = f"{_show(args[0], own_power + 1)} ? {_show(args[1], own_power)} : {_show(args[2], own_power)}"
    elif name == "!":
        # `!` binds less tightly than a comparison, which few readers expect, so use parentheses.
        denied = args[0]
        bare = not isinstance(denied, Fn) or denied.name not in POWERS or denied.name == "!"
        text = f"!{_show(denied, own_power)}" if bare else f"!({_show(denied, 0)})"
    elif name == "neg":
        # A number right after `-` is read as a negative literal: keep them apart.
        inner = _show(args[0], own_power)
        text = f"-({inner})" if inner[0] in "-.0123456789" else f"-{inner}"
    else:
        first, *rest = args
        text = f" {name} ".join([_show(first, own_power), *(_show(arg, own_power + 1) for arg in rest)])
    return f"({text})" if own_power < power else text


def _call(name: str, args: tuple[Expr, ...]) -> str:
    if name == "[]":
        holder, key = args
        base = _show(holder, _TIGHT)
        if isinstance(key, Lit) and type(key.value) is str and _NAME.fullmatch(key.value):
            return f"{base}.{key.value}"
        return f"{base}[{_show(key, 0)}]"
    if name == "${}":
        return "interpolate(" + ", ".join(_show(arg, 0) for arg in args) + ")"
    return f"{name}(" + ", ".join(_show(arg, 0) for arg in args) + ")"


def _each(expr: Each) -> str:
    names = [] if expr.names[:1] == ("$item",) else list(expr.names)
    if expr.kind == "reduce" and names:
        names = [names[1], names[0]]
    parts = [*names, _show(expr.body, 0), *(_show(e, 0) for e in expr.extra)]
    return f"{_show(expr.source, _TIGHT)}.{expr.kind}({', '.join(parts)})"


def _path(path: Path) -> str:
    out = []
    for step in path:
        if type(step) is int:
            out.append(f"[{step}]")
        elif _NAME.fullmatch(str(step)):
            out.append(f".{step}")
        else:
            out.append(f"[{_literal(step)}]")
    return "".join(out)


def _literal(value: Json) -> str:
    return orjson.dumps(value).decode()
