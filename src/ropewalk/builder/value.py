"""Python values as expressions: references inside lists, objects and texts become part of them.

Refused, with the way to it: whatever is no JSON.
"""

from __future__ import annotations

import base64
import binascii
import enum
import re
from typing import Any

import orjson

from ..codec import expr_from_json, expr_to_json
from ..errors import InvalidFlow, InvalidValue
from ..expr.ast import Arr, Expr, Fn, Lit, Obj, Ref, rebind
from ..expr.show import show
from ..values import check_json
from .mistake import mistake

_MARK = re.compile("\0([^\0]*)\0")


def expression(value: object, at: str = "") -> Expr:
    """The expression of a Python value: a reference, or JSON with references anywhere in it."""
    own = getattr(type(value), "_expr", None)
    if own is not None:
        found: Expr = value._expr  # type: ignore[attr-defined]
        return found
    if isinstance(value, enum.Enum):
        return expression(value.value, at)
    if type(value) is str and "\0" in value:
        return _text(value)
    if isinstance(value, dict):
        return _object(value, at)
    if isinstance(value, (list, tuple)):
        items = [expression(item, f"{at}[{i}]") for i, item in enumerate(value)]
        if all(type(item) is Lit for item in items):
            return Lit([item.value for item in items if isinstance(item, Lit)])
        return Arr(tuple(items))
    try:
        return Lit(check_json(value, at))
    except InvalidValue as wrong:
        raise mistake(f"{at}: {_why(value, wrong)}" if at else _why(value, wrong)) from wrong


def _object(value: dict[Any, Any], at: str) -> Expr:
    fields = []
    for key, item in value.items():
        if type(key) is not str or "\0" in key:
            raise mistake(f"{at or 'object'}: the key {key!r} is no text that is known now; a key is a plain string")
        fields.append((key, expression(item, f"{at}.{key}" if at else key)))
    if all(type(item) is Lit for _, item in fields):
        return Lit({key: item.value for key, item in fields if isinstance(item, Lit)})
    return Obj(tuple(fields))


def _why(value: object, wrong: InvalidValue) -> str:
    kind = type(value).__name__
    if callable(value):
        name = getattr(value, "__name__", kind)
        return f"{name} is a function, no value; to call it as a tool: flow.call({name}, ...)"
    if hasattr(value, "__await__"):
        return f"a {kind} has already been called; hand over the function and its arguments: flow.call(function, ...)"
    return f"{value!r}: {wrong.message}" if len(repr(value)) < 60 else wrong.message


# --- texts with references -------------------------------------------------------------------------


def marked(expr: Expr) -> str:
    """What a reference becomes inside an f-string: text that `expression` reads back. It holds a NUL,
    which no JSON value may, so that one that goes astray is refused wherever it ends up."""
    return f"\0{base64.b64encode(orjson.dumps(expr_to_json(expr))).decode()}\0"


def _text(text: str) -> Expr:
    parts: list[Expr] = []
    at = 0
    for found in _MARK.finditer(text):
        if found.start() > at:
            parts.append(Lit(text[at : found.start()]))
        try:
            parts.append(expr_from_json(orjson.loads(base64.b64decode(found[1], validate=True))))
        except (binascii.Error, ValueError, InvalidFlow) as broken:
            raise mistake("a text made from references was changed; their values are not there yet") from broken
        at = found.end()
    if at < len(text):
        parts.append(Lit(text[at:]))
    if any(isinstance(part, Lit) and "\0" in part.value for part in parts):
        raise mistake("a text made from references was cut; their values are not there yet")
    return Fn("${}", tuple(parts))


def written(expr: Expr) -> str:
    """An expression for a message, references without the scopes they belong to."""
    return show(rebind(expr, lambda ref: Ref(ref.root.partition("#")[0], ref.path)))
