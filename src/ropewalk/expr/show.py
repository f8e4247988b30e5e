"""An expression as text that parses back to the same tree: for messages, drawings and tests."""

from __future__ import annotations

import re
from typing import Final

import orjson

from ..values import Json
from .ast import Arr, Each, Expr, Fn, Lit, Obj, Path, Ref, Var, rebind

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
"""How tightly each operator binds; `parse` reads this table too."""

_TIGHT: Final = 9
_NAME: Final = re.compile(r"[^\W\d]\w*")


def told(expr: Expr) -> str:
    """The expression as text in the words of the document that it is from, for people."""
    return show(rebind(expr, lambda ref: ref.said or ref))


def brief(expr: Expr, most: int = 60) -> str:
    """The same, cut for a message."""
    text = told(expr)
    return text if len(text) <= most else text[: most - 1] + "…"


def show(expr: Expr) -> str:
    """The expression as text; `parse(show(e)) == e` for every tree that parsing makes."""
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
    own = POWERS.get(name)
    if own is None:
        return _call(name, args)
    if name == "?:":
        text = f"{_show(args[0], own + 1)} ? {_show(args[1], own)} : {_show(args[2], own)}"
    elif name == "!":
        # `!` binds less tightly than a comparison, which few readers expect: brackets say what is denied.
        denied = args[0]
        bare = not isinstance(denied, Fn) or denied.name not in POWERS or denied.name == "!"
        text = f"!{_show(denied, own)}" if bare else f"!({_show(denied, 0)})"
    elif name == "neg":
        # A number right after `-` is read as a negative literal: keep them apart.
        inner = _show(args[0], own)
        text = f"-({inner})" if inner[0] in "-.0123456789" else f"-{inner}"
    else:
        first, *rest = args
        text = f" {name} ".join([_show(first, own), *(_show(arg, own + 1) for arg in rest)])
    return f"({text})" if own < power else text


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
