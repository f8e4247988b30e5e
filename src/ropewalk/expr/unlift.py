"""Convert trees to values of documents: the inverse of `lift`, for the writers of notations.

`lift(unlift(e))` means the same as `e`. References must be those of the document (`$output.search`), so a writer
rebinds those of the graph first. A tree that no text can express raises ExpressionError. `untransform` is the inverse
of `configure_transform`, for the trees that are transforms.
"""

from __future__ import annotations

import re
from typing import Final

from ..errors import ExpressionError
from ..values import Json
from .ast import Arr, Each, Expr, Fn, Lit, Obj, Ref, Var, brief, children, show
from .lift import read_string
from .reference_paths import ROOTS
from .transforms import configure_transform

_NAME = re.compile(r"[\w-]+")


def unlift(expr: Expr) -> Json:
    """Return the document's value of a tree: JSON, with references and `${...}` where they are needed."""
    if isinstance(expr, Lit):
        return escape_constant(expr.value)
    if isinstance(expr, Obj):
        return {key: unlift(value) for key, value in expr.fields}
    if isinstance(expr, Arr):
        return [unlift(item) for item in expr.items]
    if isinstance(expr, Ref):
        text = _reference(expr)
        if read_string(text) == expr:
            return text
    elif isinstance(expr, Fn) and expr.name == "${}":
        text = "".join(_interpolation_part(part) for part in expr.args)
        if len(expr.args) > 1 and read_string(text) == expr:
            return text
    return f"${{{text_of(expr)}}}"


def text_of(expr: Expr) -> str:
    """Return the text of an expression, such as `$prev.count > 3`."""
    from .parser import parse  # only writers need it

    text = show(expr)
    try:
        is_same = parse(text) == expr
    except ExpressionError as error:
        raise ExpressionError(f"`{brief(expr)}` cannot be written as text: {error.message}") from error
    if not is_same:
        raise ExpressionError(f"`{brief(expr)}` cannot be written as text that means the same")
    return text


def escape_constant(value: Json) -> Json:
    """Return a constant as the document has it, with texts that look like references escaped."""
    if type(value) is str:
        return _escape(value, start=True) if "$" in value else value
    if type(value) is dict:
        return {key: escape_constant(item) for key, item in value.items()}
    if type(value) is list:
        return [escape_constant(item) for item in value]
    return value


def _escape(text: str, *, start: bool) -> str:
    """Escape a text: double `$` at the start and `${` anywhere; `${` at the start is both at once."""
    if not start or not text.startswith("$"):
        return text.replace("${", "$${")
    if text.startswith("${"):
        return "$${" + text[2:].replace("${", "$${")
    return "$$" + text[1:].replace("${", "$${")


def _interpolation_part(expr: Expr) -> str:
    if isinstance(expr, Lit) and type(expr.value) is str:
        return _escape(expr.value, start=False)
    return f"${{{text_of(expr)}}}"


def _reference(ref: Ref) -> str:
    steps = []
    for step in ref.path:
        if type(step) is int:
            steps.append(f"[{step}]")
        elif _NAME.fullmatch(str(step)) and not str(step).isdigit():
            steps.append(f".{step}")
        else:
            steps.append(show(Ref("", (step,)))[1:])
    return f"${ref.root}{''.join(steps)}"


_PER_ITEM: Final = {"map": "MAP", "filter": "FILTER", "flat_map": "FLAT_MAP", "group_by": "GROUP_BY", "sort": "SORT"}
_FIELDS: Final = {"pick": "PICK", "omit": "OMIT", "rename": "RENAME"}


def untransform(expr: Expr) -> tuple[str, dict[str, Json], Expr] | None:
    """Return the type, the config and the source of the transform that `expr` is; None if it is none."""
    if isinstance(expr, Each):
        return _macro_transform(expr)
    if not isinstance(expr, Fn) or len(expr.args) != 2:
        return None
    source, argument = expr.args
    if expr.name in _FIELDS and isinstance(argument, Lit):
        return _if_equal(_FIELDS[expr.name], {"fields": argument.value}, source, expr)
    if expr.name in ("merge", "deep_merge"):
        deep = {"deep": True} if expr.name == "deep_merge" else {}
        return _if_equal("MERGE", {"with": unlift(argument), **deep}, source, expr)
    if expr.name == "custom" and isinstance(source, Lit):
        return _if_equal("CUSTOM", {"function": source.value}, argument, expr)
    return None


def _macro_transform(expr: Each) -> tuple[str, dict[str, Json], Expr] | None:
    names = ("$item", "$acc", "$index") if expr.kind == "reduce" else ("$item", "$index")
    body = _rename_variables(expr.body, dict(zip(expr.names, names, strict=False)))
    if body is None:
        return None
    if expr.kind == "reduce":
        transform = Each("reduce", expr.source, names, body, expr.extra)
        return _if_equal("REDUCE", {"expression": show(body), "initial": unlift(expr.extra[0])}, expr.source, transform)
    # Each type has its expression under another key.
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
    return _if_equal(_PER_ITEM[expr.kind], config, expr.source, Each(expr.kind, expr.source, names, body, extra))


def _if_equal(
    type_: str, config: dict[str, Json], source: Expr, expr: Expr
) -> tuple[str, dict[str, Json], Expr] | None:
    """Return the transform if reading it gives the same expression."""
    try:
        read = configure_transform(type_, config, source, roots=ROOTS)
    except ExpressionError:
        return None
    return (type_, config, source) if read == expr else None


def _rename_variables(expr: Expr, names: dict[str, str]) -> Expr | None:
    """Return the expression with other names for its variables; None if inner names would collide."""
    if isinstance(expr, Var):
        return Var(names.get(expr.name, expr.name), expr.path)
    if not children(expr):
        return expr
    if isinstance(expr, Each) and set(expr.names) & {*names, *names.values()}:
        return None
    inner = [_rename_variables(part, names) for part in children(expr)]
    renamed = tuple(part for part in inner if part is not None)
    if len(renamed) < len(inner):
        return None
    if isinstance(expr, Each):
        return Each(expr.kind, renamed[0], expr.names, renamed[1], renamed[2:], expr.column)
    if isinstance(expr, Obj):
        return Obj(tuple(zip((key for key, _ in expr.fields), renamed, strict=True)))
    if isinstance(expr, Arr):
        return Arr(renamed)
    assert isinstance(expr, Fn)
    return Fn(expr.name, renamed, expr.column)
