"""Convert Python values to expressions, and report mistakes at the line of the user's file.

References inside lists, objects and texts become part of the expression. Values that are not JSON are reported with
their path.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import enum
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import iscoroutine, signature
from typing import Any, ParamSpec, TypeVar, cast

import orjson

from ..codec import expr_from_json, expr_to_json
from ..duration import read_duration
from ..errors import InvalidFlow, InvalidValue, Place, Problem
from ..expr.ast import Arr, Expr, Fn, Lit, Obj, Ref, rebind, show
from ..values import check_json, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
_OURS = (os.path.dirname(os.path.dirname(__file__)) + os.sep, contextlib.__file__)


def place() -> Place:
    """Return the innermost executed line outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line)
    column = len(text) - len(text.lstrip()) + 1
    if os.path.isabs(file) and file.startswith(os.getcwd() + os.sep):
        file = os.path.relpath(file)
    return Place(file, line, column, text.rstrip("\n"))


def mistake(message: str, word: str = "", known: Iterable[str] = ()) -> InvalidFlow:
    """Return the error for the current line."""
    where = place()
    near = did_you_mean(word, known) if word else None
    return InvalidFlow([Problem(path=where.spot, message=message, suggestion=near, place=where)])


def close_coroutine(value: Any) -> None:
    """Close a coroutine that is reported, so that Python does not report it again as never awaited."""
    if iscoroutine(value):
        value.close()


_NUMBERS = ("timeout", "delay", "factor", "max_delay")
_DURATIONS = ("timeout", "delay", "max_delay")
_INTEGER_OPTIONS = ("attempts", "limit")


def named_arguments_only(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method that takes named arguments only, and check their names and types."""
    known = [name for name in signature(method).parameters if name != "self"]

    @wraps(method)
    def call_with_checks(*args: Any, **named: Any) -> R:
        if len(args) > 1:
            raise mistake(f"{method.__name__} takes its arguments by name: {', '.join(known)}")
        for name, value in named.items():
            if name not in known:
                message = f"{method.__name__} has no {name!r}; it takes {', '.join(known)}"
                raise mistake(message, name, known)
            if name in _DURATIONS:
                value = read_duration(value)
            expected = "a number" if name in _NUMBERS else "a whole number" if name in _INTEGER_OPTIONS else ""
            kinds = (int, float) if name in _NUMBERS else int
            if expected and value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
                raise mistake(f"{name} is {expected}, not {value!r}")
        return cast(Any, method)(*args, **named)  # type: ignore[no-any-return]

    return call_with_checks


_MARK = re.compile("\0([^\0]*)\0")


def expression(value: object, at: str = "") -> Expr:
    """Return the expression of a Python value: a reference, or JSON with references in it."""
    inner = getattr(type(value), "_expr", None)
    if inner is not None:
        expr: Expr = value._expr  # type: ignore[attr-defined]
        return expr
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
    except InvalidValue as error:
        raise mistake(f"{at}: {_why(value, error)}" if at else _why(value, error)) from error


def _object(value: dict[Any, Any], at: str) -> Expr:
    fields = []
    for key, item in value.items():
        if type(key) is not str or "\0" in key:
            raise mistake(f"{at or 'object'}: the key {key!r} is not known before the run; use a plain string")
        fields.append((key, expression(item, f"{at}.{key}" if at else key)))
    if all(type(item) is Lit for _, item in fields):
        return Lit({key: item.value for key, item in fields if isinstance(item, Lit)})
    return Obj(tuple(fields))


def _why(value: object, error: InvalidValue) -> str:
    kind = type(value).__name__
    if callable(value):
        name = getattr(value, "__name__", kind)
        return f"{name} is a function, not a value; to call it as a tool: flow.call({name}, ...)"
    if hasattr(value, "__await__"):
        close_coroutine(value)
        return f"a {kind} has already been called; pass the function and its arguments: flow.call(function, ...)"
    return f"{value!r}: {error.message}" if len(repr(value)) < 60 else error.message


# --- texts with references -------------------------------------------------------------------------


def marked(expr: Expr) -> str:
    """Return a reference as text for an f-string, which `expression` reads back."""

    # It contains a NUL, which no JSON value may, so that a marked text in a wrong place is always refused.
    return f"\0{base64.b64encode(orjson.dumps(expr_to_json(expr))).decode()}\0"


def _text(text: str) -> Expr:
    parts: list[Expr] = []
    at = 0
    for match in _MARK.finditer(text):
        if match.start() > at:
            parts.append(Lit(text[at : match.start()]))
        try:
            parts.append(expr_from_json(orjson.loads(base64.b64decode(match[1], validate=True))))
        except (binascii.Error, ValueError, InvalidFlow) as error:
            raise mistake(
                "a text that contains references cannot be changed, because their values exist only in a run"
            ) from error
        at = match.end()
    if at < len(text):
        parts.append(Lit(text[at:]))
    if any(isinstance(part, Lit) and "\0" in part.value for part in parts):
        raise mistake("a text that contains references cannot be cut, because their values exist only in a run")
    return Fn("${}", tuple(parts))


def readable(expr: Expr) -> str:
    """Write an expression for a message, references without the scopes they belong to."""
    return show(rebind(expr, lambda ref: Ref(ref.root.partition("#")[0], ref.path)))
