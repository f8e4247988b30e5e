"""Trees to documents: the inverse of `lift`, for whatever writes a notation.

`lift(unlift(e))` means what `e` means. References are those of the document (`$output.search`): the
writer of a notation rebinds what the graph knows first. Refused: what the text of the language
cannot say, as an ExpressionError.
"""

from __future__ import annotations

import re

from ..errors import ExpressionError
from ..values import Json
from .ast import Arr, Expr, Fn, Lit, Obj, Ref
from .lift import read_string
from .parser import parse
from .show import brief, show

_NAME = re.compile(r"[\w-]+")


def unlift(expr: Expr) -> Json:
    """The document whose tree this is: JSON, with references and `${...}` where they are needed."""
    if isinstance(expr, Lit):
        return plain(expr.value)
    if isinstance(expr, Obj):
        return {key: unlift(value) for key, value in expr.fields}
    if isinstance(expr, Arr):
        return [unlift(item) for item in expr.items]
    if isinstance(expr, Ref):
        text = _reference(expr)
        if read_string(text) == expr:
            return text
    elif isinstance(expr, Fn) and expr.name == "${}":
        text = "".join(_part(part) for part in expr.args)
        if len(expr.args) > 1 and read_string(text) == expr:
            return text
    return f"${{{text_of(expr)}}}"


def text_of(expr: Expr) -> str:
    """The text of an expression, where one is expected: `$prev.count > 3`."""
    text = show(expr)
    try:
        same = parse(text) == expr
    except ExpressionError as wrong:
        raise ExpressionError(f"`{brief(expr)}` cannot be written as text: {wrong.message}") from wrong
    if not same:
        raise ExpressionError(f"`{brief(expr)}` cannot be written as text that means the same")
    return text


def plain(value: Json) -> Json:
    """A constant as it stands in a document, texts that look like references escaped."""
    if type(value) is str:
        return _escaped(value, start=True) if "$" in value else value
    if type(value) is dict:
        return {key: plain(item) for key, item in value.items()}
    if type(value) is list:
        return [plain(item) for item in value]
    return value


def _escaped(text: str, *, start: bool) -> str:
    """`$` at the start and `${` anywhere are doubled; `${` at the start is both at once."""
    if not start or not text.startswith("$"):
        return text.replace("${", "$${")
    if text.startswith("${"):
        return "$${" + text[2:].replace("${", "$${")
    return "$$" + text[1:].replace("${", "$${")


def _part(expr: Expr) -> str:
    if isinstance(expr, Lit) and type(expr.value) is str:
        return _escaped(expr.value, start=False)
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
