"""Expressions as the transforms of documents: the inverse of `configured`, where there is one."""

from __future__ import annotations

from typing import Final

from ..errors import ExpressionError
from ..values import Json
from .ast import Arr, Each, Expr, Fn, Lit, Obj, Var, children
from .paths import ROOTS
from .show import show
from .transforms import configured
from .unlift import unlift

_PER_ITEM: Final = {"map": "MAP", "filter": "FILTER", "flat_map": "FLAT_MAP", "group_by": "GROUP_BY", "sort": "SORT"}
_FIELDS: Final = {"pick": "PICK", "omit": "OMIT", "rename": "RENAME"}


def untransform(expr: Expr) -> tuple[str, dict[str, Json], Expr] | None:
    """The type and the config of the transform that `expr` is, and what it is applied to; None when it is
    none. References are those of the document."""
    if isinstance(expr, Each):
        return _each(expr)
    if not isinstance(expr, Fn) or len(expr.args) != 2:
        return None
    source, other = expr.args
    if expr.name in _FIELDS and isinstance(other, Lit):
        return _same(_FIELDS[expr.name], {"fields": other.value}, source, expr)
    if expr.name in ("merge", "deep_merge"):
        deep = {"deep": True} if expr.name == "deep_merge" else {}
        return _same("MERGE", {"with": unlift(other), **deep}, source, expr)
    if expr.name == "custom" and isinstance(source, Lit):
        return _same("CUSTOM", {"function": source.value}, other, expr)
    return None


def _each(expr: Each) -> tuple[str, dict[str, Json], Expr] | None:
    names = ("$item", "$acc", "$index") if expr.kind == "reduce" else ("$item", "$index")
    body = _renamed(expr.body, dict(zip(expr.names, names, strict=False)))
    if body is None:
        return None
    if expr.kind == "reduce":
        made = Each("reduce", expr.source, names, body, expr.extra)
        return _same("REDUCE", {"expression": show(body), "initial": unlift(expr.extra[0])}, expr.source, made)
    if expr.kind not in _PER_ITEM:
        return None
    extra = expr.extra
    config: dict[str, Json] = {"expression": show(body)}
    if expr.kind == "group_by":
        config = {"key": show(body)}
    elif expr.kind == "sort":
        extra = extra or (Lit("asc"),)
        config = {} if body == Var("$item") else {"by": show(body)}
        if isinstance(body, Arr):
            config = {"by": [show(item) for item in body.items]}
        if extra != (Lit("asc"),):
            config["order"] = unlift(extra[0])
    return _same(_PER_ITEM[expr.kind], config, expr.source, Each(expr.kind, expr.source, names, body, extra))


def _same(type_: str, config: dict[str, Json], source: Expr, expr: Expr) -> tuple[str, dict[str, Json], Expr] | None:
    """What was found, when it is read as the same expression."""
    try:
        read = configured(type_, config, source, roots=ROOTS)
    except ExpressionError:
        return None
    return (type_, config, source) if read == expr else None


def _renamed(expr: Expr, names: dict[str, str]) -> Expr | None:
    """The same with other names for its variables; None where something inside has these names too."""
    if isinstance(expr, Var):
        return Var(names.get(expr.name, expr.name), expr.path)
    if not children(expr):
        return expr
    if isinstance(expr, Each) and set(expr.names) & {*names, *names.values()}:
        return None
    inner = [_renamed(part, names) for part in children(expr)]
    kept = tuple(part for part in inner if part is not None)
    if len(kept) < len(inner):
        return None
    if isinstance(expr, Each):
        return Each(expr.kind, kept[0], expr.names, kept[1], kept[2:], expr.column)
    if isinstance(expr, Obj):
        return Obj(tuple(zip((key for key, _ in expr.fields), kept, strict=True)))
    if isinstance(expr, Arr):
        return Arr(kept)
    assert isinstance(expr, Fn)
    return Fn(expr.name, kept, expr.column)
