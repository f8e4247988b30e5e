"""The functions and macros of the language. Add a function here, as one decorated definition:

    @function("double", 1, returns="number")
    def _double(value): ...

Arguments are JSON; missing values are null unless `raw` is set. A function that builds text or lists takes the budget
first and reserves room. Secrets are refused as arguments unless the definition has `keeps` or `asks` (`Function` in
`function_registry.py` explains both). Functions have no side effects, no clock and no randomness. They raise
ExpressionError (through `wrong_type`) for a wrong type.

A macro evaluates a body for every element of a list. `list.map(e, e.x)` names the element; `list.map($item.x)` uses
`$item` and `$index` (and `$acc`). To add a macro, add its forms to MACROS and its builder to RUNNERS (`calls.py`).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from ..content import about_of, content_bytes
from ..errors import ExpressionError, InvalidValue, NotFound
from ..fast_dataclass import dataclass
from ..values import Json, did_you_mean
from .ast import Each, Expr, Lit
from .function_registry import EVERY, MANY, function, list_argument, wrong_type
from .operators import (
    LIST_ELEMENT,
    LONG_TEXT,
    MISSING,
    Budget,
    check_number,
    divide,
    grow,
    identity_key,
    is_equal,
    is_number,
    json_text,
    kind_of,
    text_of,
)
from .patterns import is_match, pattern_of


def _text(name: str, value: Json) -> str:
    if type(value) is str:
        return value
    raise wrong_type(name, "a string", value)


def check_constants(name: str, args: list[Expr]) -> None:
    """Raise ExpressionError for a constant argument that can never work."""

    # These are bad patterns and queries, transforms that are not registered, and wrong orders of a sort.
    first, last = args[0] if args else None, args[-1] if len(args) > 1 else None
    if name == "custom" and isinstance(first, Lit):
        from .reshape import registered_transform

        registered_transform(first.value)
    elif name == "sort" and len(args) == 3 and isinstance(last, Lit):
        is_descending(last.value)
    if isinstance(last, Lit) and type(last.value) is str:
        if name == "matches":
            pattern_of(last.value)
        elif name == "query":
            from .jsonpath import compile_query

            compile_query(last.value)


# --- about values ----------------------------------------------------------------------------


@function("has", 1, returns="boolean", raw=True, asks=EVERY)
def _has(value: Json) -> bool:
    return value is not MISSING


@function("exists", 1, returns="boolean", raw=True, asks=EVERY)
def _exists(value: Json) -> bool:
    return value is not MISSING and value is not None


@function("coalesce", 1, MANY, raw=True, keeps=EVERY)
def _coalesce(*values: Json) -> Json:
    for value in values:
        if value is not None and value is not MISSING:
            return value
    return None


@function("length", "size", 1, returns="integer", asks=EVERY)
def _length(value: Json) -> int:
    if type(value) in (str, list, dict):
        return len(value)
    if value is None:
        return 0
    raise wrong_type("length", "a string, a list or an object", value)


# --- texts -----------------------------------------------------------------------------------


@function("contains", 2, returns="boolean", budget=True, asks=EVERY)
def _contains(budget: Budget | None, holder: Json, part: Json) -> bool:
    if type(holder) is str:
        return _text("contains", part) in holder
    return any(is_equal(item, part, budget) for item in list_argument("contains", holder))


@function("startsWith", 2, returns="boolean", asks=EVERY)
def _starts_with(text: Json, part: Json) -> bool:
    return text is not None and _text("startsWith", text).startswith(_text("startsWith", part))


@function("endsWith", 2, returns="boolean", asks=EVERY)
def _ends_with(text: Json, part: Json) -> bool:
    return text is not None and _text("endsWith", text).endswith(_text("endsWith", part))


@function("lower", 1, returns="string", budget=True)
def _lower(budget: Budget | None, text: Json) -> Json:
    return _convert_text("lower", budget, text, str.lower)


@function("upper", 1, returns="string", budget=True)
def _upper(budget: Budget | None, text: Json) -> Json:
    return _convert_text("upper", budget, text, str.upper)


@function("trim", 1, returns="string", budget=True)
def _trim(budget: Budget | None, text: Json) -> Json:
    return _convert_text("trim", budget, text, str.strip)


def _convert_text(name: str, budget: Budget | None, text: Json, run: Callable[[str], str]) -> Json:
    if text is None:
        return None
    grow(budget, len(_text(name, text)))
    return run(text)


@function("replace", 3, returns="string", budget=True, keeps=(2,), asks=(1,))
def _replace(budget: Budget | None, text: Json, old: Json, new: Json) -> Json:
    if text is None:
        return None
    text, before, after = _text("replace", text), _text("replace", old), _text("replace", new)
    hits = text.count(before) if before else len(text) + 1
    grow(budget, len(text) + hits * max(0, len(after) - len(before)))
    return text.replace(before, after)


@function("split", 1, 2, returns="array", budget=True)
def _split(budget: Budget | None, text: Json, by: Json = None) -> Json:
    if text is None:
        return []
    string = _text("split", text)
    parts = len(string) if by == "" else len(string) // 2 if by is None else string.count(_text("split", by))
    grow(budget, 60 * (parts + 1) + len(string))
    return list(string) if by == "" else string.split(by)


@function("join", 1, 2, returns="string", budget=True, keeps=EVERY)
def _join(budget: Budget | None, items: Json, by: Json = "") -> str:
    between = _text("join", "" if by is None else by)
    parts = list_argument("join", items)
    grow(budget, max(0, len(parts) - 1) * len(between))
    texts = []
    for item in parts:
        if type(item) is list or type(item) is dict:
            raise wrong_type("join", "strings, numbers and booleans", item)
        texts.append(text_of(item, budget))
    return between.join(texts)


@function("matches", 2, returns="boolean", budget=True, asks=(0,))
def _matches(budget: Budget | None, text: Json, pattern: Json) -> bool:
    return is_match(budget, None if text is None else _text("matches", text), _text("matches", pattern))


# --- numbers ---------------------------------------------------------------------------------

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}")
_FLOAT: Final = re.compile(r"[+-]?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")


def _numbers(name: str, items: Json) -> list[int | float]:
    for item in list_argument(name, items):
        if not is_number(item):
            raise wrong_type(name, "a list of numbers", item)
    return items or []


@function("sum", 1, returns="number")
def _sum(items: Json) -> int | float:
    return check_number(sum(_numbers("sum", items)))


@function("avg", 1, returns="number")
def _avg(items: Json) -> Json:
    numbers = _numbers("avg", items)
    return divide(check_number(sum(numbers)), len(numbers), Lit(None)) if numbers else None


@function("min", 1, MANY, budget=True, keeps=EVERY)
def _min(budget: Budget | None, *items: Json) -> Json:
    return _extreme("min", budget, items, min)


@function("max", 1, MANY, budget=True, keeps=EVERY)
def _max(budget: Budget | None, *items: Json) -> Json:
    return _extreme("max", budget, items, max)


def _comparison_steps(items: list[Json]) -> int:
    """Return the steps that comparing the texts among these values costs."""
    return sum([len(item) for item in items if type(item) is str]) >> LONG_TEXT


def _extreme(name: str, budget: Budget | None, items: tuple[Json, ...], pick: Callable[[list[Json]], Json]) -> Json:
    values = list_argument(name, items[0]) if len(items) == 1 else list(items)
    first = values[0] if values else None
    fits = is_number if is_number(first) else (lambda item: type(item) is str)
    for item in values:
        if not fits(item):
            raise ExpressionError(
                f"{name} needs only numbers or only strings, not {kind_of(first)} and {kind_of(item)}"
                if is_number(first) or type(first) is str
                else f"{name} needs numbers or strings, not {kind_of(item)}"
            )
    if budget is not None:
        budget.spend(_comparison_steps(values))
    return pick(values) if values else None


@function("abs", 1, returns="number")
def _abs(value: Json) -> int | float:
    if not is_number(value):
        raise wrong_type("abs", "a number", value)
    return check_number(abs(value))


@function("round", 1, 2, returns="number")
def _round(value: Json, digits: Json = 0) -> int | float:
    """Round to the nearest number, halves away from zero, by the digits that the number is written with."""
    if not is_number(value) or not is_number(digits):
        raise wrong_type("round", "numbers", digits if is_number(value) else value)
    if digits != int(digits) or not 0 <= digits <= 15:
        raise ExpressionError("round needs 0 to 15 digits")
    if type(value) is int:
        return value
    from decimal import ROUND_HALF_UP, Context, Decimal

    exact = Decimal(repr(value)).quantize(Decimal(1).scaleb(-int(digits)), ROUND_HALF_UP, Context(prec=400))
    return check_number(float(exact) if digits else int(exact))


@function("int", 1, returns="integer")
def _int(value: Json) -> Json:
    if type(value) is str and _INTEGER.fullmatch(value):
        return check_number(int(value))
    if is_number(value):
        return check_number(int(value))
    if type(value) is bool or value is None:
        return None if value is None else int(value)
    raise ExpressionError(
        f"int cannot read {value[:40]!r}" if type(value) is str else _conversion_message("int", value)
    )


@function("float", 1, returns="number")
def _float(value: Json) -> Json:
    if type(value) is str and _FLOAT.fullmatch(value):
        return check_number(float(value))
    if is_number(value):
        return float(value)
    if value is None:
        return None
    raise ExpressionError(
        f"float cannot read {value[:40]!r}" if type(value) is str else _conversion_message("float", value)
    )


def _conversion_message(name: str, value: Json) -> str:
    return f"{name} needs a number or a string that holds one, not {kind_of(value)}"


_TRUE: Final = ("true", "TRUE", "True", "t", "1")
_FALSE: Final = ("false", "FALSE", "False", "f", "0")


@function("bool", 1, returns="boolean")
def _bool(value: Json) -> bool:
    if type(value) is bool:
        return value
    if value is None or (type(value) is str and value in _FALSE):
        return False
    if type(value) is str and value in _TRUE:
        return True
    shown_value = repr(value[:40]) if type(value) is str else kind_of(value)
    raise ExpressionError(f'bool needs a boolean, "true" or "false", not {shown_value}')


@function("string", 1, returns="string", budget=True, keeps=EVERY, writes_json=True)
def _string(budget: Budget | None, value: Json) -> str:
    return value if type(value) is str else json_text(value, budget)


@function("${}", 0, MANY, returns="string", budget=True, keeps=EVERY, writes_json=True)
def _interpolate(budget: Budget | None, *parts: Json) -> str:
    return "".join([text_of(part, budget) for part in parts])


# --- lists and objects -----------------------------------------------------------------------


@function("keys", 1, returns="array", budget=True, keeps=EVERY)
def _keys(budget: Budget | None, value: Json) -> list[Json]:
    if type(value) is not dict and value is not None:
        raise wrong_type("keys", "an object", value)
    grow(budget, LIST_ELEMENT * len(value or ()))
    return list(value or ())


@function("values", 1, returns="array", budget=True, keeps=EVERY)
def _values(budget: Budget | None, value: Json) -> list[Json]:
    if type(value) is not dict and value is not None:
        raise wrong_type("values", "an object", value)
    grow(budget, LIST_ELEMENT * len(value or ()))
    return list(value.values()) if value else []


@function("any", 1, returns="boolean", asks=EVERY)
def _any(items: Json) -> bool:
    return True in _booleans("any", items)


@function("all", 1, returns="boolean", asks=EVERY)
def _all(items: Json) -> bool:
    return False not in _booleans("all", items)


def _booleans(name: str, items: Json) -> list[bool]:
    out = []
    for item in list_argument(name, items):
        if type(item) is not bool and item is not None:
            raise wrong_type(name, "a list of booleans", item)
        out.append(item is True)
    return out


@function("unique", 1, returns="array", budget=True, keeps=EVERY)
def _unique(budget: Budget | None, items: Json) -> list[Json]:
    elements = list_argument("unique", items)
    grow(budget, LIST_ELEMENT * len(elements))
    first_by_key: dict[str | bytes, Json] = {}
    for item in elements:
        first_by_key.setdefault(identity_key(item, budget), item)
    return list(first_by_key.values())


@function("flatten", 1, returns="array", budget=True, keeps=EVERY)
def _flatten(budget: Budget | None, items: Json) -> list[Json]:
    elements = list_argument("flatten", items)
    grow(budget, LIST_ELEMENT * sum(len(item) if type(item) is list else 1 for item in elements))
    return list(chain.from_iterable(item if type(item) is list else (item,) for item in elements))


@function("sort", 1, returns="array", budget=True, keeps=EVERY)
def _sort(budget: Budget | None, items: Json) -> list[Json]:
    elements = list_argument("sort", items)
    grow(budget, LIST_ELEMENT * len(elements))
    if budget is not None:
        budget.spend(_comparison_steps(elements))
    return sorted(elements, key=rank)


def rank(value: Json) -> tuple[int, Any]:
    """Return the sort key of a value: null, booleans, numbers, strings, then everything else in its order."""
    kind = type(value)
    if kind is int or kind is float:
        return (2, value)
    if kind is str:
        return (3, value)
    if kind is bool:
        return (1, value)
    return (0, 0) if value is None or value is MISSING else (4, 0)


def is_descending(order: Json) -> bool:
    """Return True for "desc", False for "asc", in any letter case; raise ExpressionError otherwise."""
    word = order.lower() if type(order) is str else ""
    if word not in ("asc", "desc"):
        raise ExpressionError('the order of a sort is "asc" or "desc"', suggestion=did_you_mean(word, ("asc", "desc")))
    return word == "desc"


@function("query", 2, returns="array", budget=True, keeps=(0,))
def _query(budget: Budget | None, value: Json, path: Json) -> list[Json]:
    """Return everything that an RFC 9535 JSONPath selects in a value."""
    from .jsonpath import compile_query

    return compile_query(_text("query", path))(budget, value)


@function("base64", 1, returns="string", budget=True)
def _base64(budget: Budget | None, value: Json) -> Json:
    return None if value is None else _encode_content("base64", budget, value)


@function("dataUri", 1, returns="string", budget=True)
def _data_uri(budget: Budget | None, value: Json) -> Json:
    if value is None:
        return None
    about = about_of(value)
    if about is None:
        raise wrong_type("dataUri", "a part of content", value)
    return (
        f"data:{about.get('mimeType') or 'application/octet-stream'};base64,{_encode_content('dataUri', budget, value)}"
    )


def _encode_content(name: str, budget: Budget | None, value: Json) -> str:
    if type(value) is str:
        data = value.encode()
    elif about_of(value) is None:
        raise wrong_type(name, "a string or a part of content", value)
    else:
        try:
            data = content_bytes(value)
        except (InvalidValue, NotFound) as error:
            raise ExpressionError(f"{name}: {error}") from error
    grow(budget, len(data) * 4 // 3)
    return base64.b64encode(data).decode()


_ELEMENT: Final = ("$item", "$index")


@dataclass(frozen=True, slots=True)
class Form:
    """One way to call a macro: the number of names, bodies and further arguments, in that order."""

    kind: str
    names: int
    bodies: int = 1
    extra: int = 0
    implicit: tuple[str, ...] = _ELEMENT

    @property
    def count(self) -> int:
        return self.names + self.bodies + self.extra

    def build(
        self, source: Expr, names: tuple[str, ...], bodies: tuple[Expr, ...], extra: tuple[Expr, ...], column: int
    ) -> Expr:
        """Return the tree of a call in this form."""
        if self.bodies == 2:  # CEL's map(e, condition, value)
            source = Each("filter", source, names, bodies[0], (), column)
        if self.kind == "reduce" and self.names:
            names = (names[1], names[0])
        return Each(self.kind, source, names, bodies[-1], extra, column)


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro: its name, its forms, an example for messages, and the JSON type of its result."""

    name: str
    forms: tuple[Form, ...]
    example: str
    returns: str | None


def _macro(name: str, returns: str | None, *, kind: str = "", ordered: bool = False, pairs: bool = False) -> Macro:
    kind = kind or name
    forms = [Form(kind, 0), Form(kind, 1)]
    if pairs:
        forms.append(Form(kind, 1, bodies=2))
    if ordered:
        forms += [Form(kind, 0, extra=1), Form(kind, 1, extra=1)]
    return Macro(name, tuple(forms), f"list.{name}(e, ...)", returns)


MACROS: Final[dict[str, Macro]] = {
    macro.name: macro
    for macro in (
        _macro("all", "boolean"),
        _macro("exists", "boolean"),
        _macro("any", "boolean", kind="exists"),
        _macro("exists_one", "boolean"),
        _macro("map", "array", pairs=True),
        _macro("filter", "array"),
        _macro("flat_map", "array"),
        _macro("group_by", "object"),
        _macro("sort", "array", ordered=True),
        Macro(
            "reduce",
            (
                Form("reduce", 0, extra=1, implicit=("$item", "$acc", "$index")),
                Form("reduce", 2, extra=1),
            ),
            "list.reduce(acc, e, acc + e, 0)",
            None,
        ),
    )
}
"""Every macro by name. `FUNCTIONS` may have the same name for a call without a body."""

KINDS: Final = frozenset(find_form.kind for macro in MACROS.values() for find_form in macro.forms)
"""Every kind of Each."""


def find_form(name: str, count: int, has_name: bool | None) -> Form | None:
    """Return the form of a macro with a number of arguments after the list; None if there is none."""
    fitting = [form for form in MACROS[name].forms if form.count == count]
    for form in fitting:
        if has_name is None or has_name == bool(form.names):
            return form
    return fitting[0] if fitting else None
