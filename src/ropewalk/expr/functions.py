"""Every function of the language, one decorated definition each: this is the place to add one.

    @function("double", 1, returns="number")
    def _double(value): ...

Arguments are JSON; a missing one comes as null unless `raw`. A function that builds text or lists
takes the budget first and asks it for room. A secret is refused as an argument, unless the definition
says `keeps` or `asks` (see `table.Function`). Refused: side effects, clocks, randomness; raise
ExpressionError (through `wants`) for a wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

from ..errors import ExpressionError
from ..values import Json, closest
from .ast import Expr, Lit
from .budget import LIST_ELEMENT, LONG_TEXT, Budget, grow
from .identity import identity
from .operators import MISSING, divide, is_number, json_text, kind_of, number, same, text_of
from .patterns import matched, pattern_of
from .table import EVERY, MANY, function, listed, wants


def _text(name: str, value: Json) -> str:
    if type(value) is str:
        return value
    raise wants(name, "a string", value)


def check_constants(name: str, args: list[Expr]) -> None:
    """Raise ExpressionError for a constant argument that can never work: a bad pattern or query, a transform that
    nobody registered, what is no order of a sort (whose arguments are the list, the key and the order)."""
    first, last = args[0] if args else None, args[-1] if len(args) > 1 else None
    if name == "custom" and isinstance(first, Lit):
        from .reshape import registered

        registered(first.value)
    elif name == "sort" and len(args) == 3 and isinstance(last, Lit):
        descending(last.value)
    if isinstance(last, Lit) and type(last.value) is str:
        if name == "matches":
            pattern_of(last.value)
        elif name == "query":
            from .query import compiled

            compiled(last.value)


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
    raise wants("length", "a string, a list or an object", value)


# --- texts -----------------------------------------------------------------------------------


@function("contains", 2, returns="boolean", budget=True, asks=EVERY)
def _contains(budget: Budget | None, holder: Json, part: Json) -> bool:
    if type(holder) is str:
        return _text("contains", part) in holder
    return any(same(item, part, budget) for item in listed("contains", holder))


@function("startsWith", 2, returns="boolean", asks=EVERY)
def _starts_with(text: Json, part: Json) -> bool:
    return text is not None and _text("startsWith", text).startswith(_text("startsWith", part))


@function("endsWith", 2, returns="boolean", asks=EVERY)
def _ends_with(text: Json, part: Json) -> bool:
    return text is not None and _text("endsWith", text).endswith(_text("endsWith", part))


@function("lower", 1, returns="string", budget=True)
def _lower(budget: Budget | None, text: Json) -> Json:
    return _mapped("lower", budget, text, str.lower)


@function("upper", 1, returns="string", budget=True)
def _upper(budget: Budget | None, text: Json) -> Json:
    return _mapped("upper", budget, text, str.upper)


@function("trim", 1, returns="string", budget=True)
def _trim(budget: Budget | None, text: Json) -> Json:
    return _mapped("trim", budget, text, str.strip)


def _mapped(name: str, budget: Budget | None, text: Json, run: Callable[[str], str]) -> Json:
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
    whole = _text("split", text)
    parts = len(whole) if by == "" else len(whole) // 2 if by is None else whole.count(_text("split", by))
    grow(budget, 60 * (parts + 1) + len(whole))
    return list(whole) if by == "" else whole.split(by)


@function("join", 1, 2, returns="string", budget=True, keeps=EVERY)
def _join(budget: Budget | None, items: Json, by: Json = "") -> str:
    between = _text("join", "" if by is None else by)
    parts = listed("join", items)
    grow(budget, max(0, len(parts) - 1) * len(between))
    texts = []
    for item in parts:
        if type(item) is list or type(item) is dict:
            raise wants("join", "strings, numbers and booleans", item)
        texts.append(text_of(item, budget))
    return between.join(texts)


@function("matches", 2, returns="boolean", budget=True, asks=(0,))
def _matches(budget: Budget | None, text: Json, pattern: Json) -> bool:
    return matched(budget, None if text is None else _text("matches", text), _text("matches", pattern))


# --- numbers ---------------------------------------------------------------------------------

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}")
_FLOAT: Final = re.compile(r"[+-]?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,4})?")


def _numbers(name: str, items: Json) -> list[int | float]:
    for item in listed(name, items):
        if not is_number(item):
            raise wants(name, "a list of numbers", item)
    return items or []


@function("sum", 1, returns="number")
def _sum(items: Json) -> int | float:
    return number(sum(_numbers("sum", items)))


@function("avg", 1, returns="number")
def _avg(items: Json) -> Json:
    found = _numbers("avg", items)
    return divide(number(sum(found)), len(found), Lit(None)) if found else None


@function("min", 1, MANY, budget=True, keeps=EVERY)
def _min(budget: Budget | None, *items: Json) -> Json:
    return _extreme("min", budget, items, min)


@function("max", 1, MANY, budget=True, keeps=EVERY)
def _max(budget: Budget | None, *items: Json) -> Json:
    return _extreme("max", budget, items, max)


def _letters(items: list[Json]) -> int:
    """What comparing the texts among these takes, in steps."""
    return sum([len(item) for item in items if type(item) is str]) >> LONG_TEXT


def _extreme(name: str, budget: Budget | None, items: tuple[Json, ...], pick: Callable[[list[Json]], Json]) -> Json:
    found = listed(name, items[0]) if len(items) == 1 else list(items)
    first = found[0] if found else None
    fits = is_number if is_number(first) else (lambda item: type(item) is str)
    for item in found:
        if not fits(item):
            raise ExpressionError(f"{name} needs only numbers or only strings, not {kind_of(first)} and {kind_of(item)}"
                                  if is_number(first) or type(first) is str else
                                  f"{name} needs numbers or strings, not {kind_of(item)}")  # fmt: skip
    if budget is not None:
        budget.spend(_letters(found))
    return pick(found) if found else None


@function("abs", 1, returns="number")
def _abs(value: Json) -> int | float:
    if not is_number(value):
        raise wants("abs", "a number", value)
    return number(abs(value))


@function("round", 1, 2, returns="number")
def _round(value: Json, digits: Json = 0) -> int | float:
    """To the nearest, halves away from zero, by the digits the number is written with."""
    if not is_number(value) or not is_number(digits):
        raise wants("round", "numbers", digits if is_number(value) else value)
    if digits != int(digits) or not 0 <= digits <= 15:
        raise ExpressionError("round needs 0 to 15 digits")
    if type(value) is int:
        return value
    from decimal import ROUND_HALF_UP, Context, Decimal

    exact = Decimal(repr(value)).quantize(Decimal(1).scaleb(-int(digits)), ROUND_HALF_UP, Context(prec=400))
    return number(float(exact) if digits else int(exact))


@function("int", 1, returns="integer")
def _int(value: Json) -> Json:
    if type(value) is str and _INTEGER.fullmatch(value):
        return number(int(value))
    if is_number(value):
        return number(int(value))
    if type(value) is bool or value is None:
        return None if value is None else int(value)
    raise ExpressionError(f"int cannot read {value[:40]!r}" if type(value) is str else _unfit("int", value))


@function("float", 1, returns="number")
def _float(value: Json) -> Json:
    if type(value) is str and _FLOAT.fullmatch(value):
        return number(float(value))
    if is_number(value):
        return float(value)
    if value is None:
        return None
    raise ExpressionError(f"float cannot read {value[:40]!r}" if type(value) is str else _unfit("float", value))


def _unfit(name: str, value: Json) -> str:
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
    told = repr(value[:40]) if type(value) is str else kind_of(value)
    raise ExpressionError(f'bool needs a boolean, "true" or "false", not {told}')


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
        raise wants("keys", "an object", value)
    grow(budget, LIST_ELEMENT * len(value or ()))
    return list(value or ())


@function("values", 1, returns="array", budget=True, keeps=EVERY)
def _values(budget: Budget | None, value: Json) -> list[Json]:
    if type(value) is not dict and value is not None:
        raise wants("values", "an object", value)
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
    for item in listed(name, items):
        if type(item) is not bool and item is not None:
            raise wants(name, "a list of booleans", item)
        out.append(item is True)
    return out


@function("unique", 1, returns="array", budget=True, keeps=EVERY)
def _unique(budget: Budget | None, items: Json) -> list[Json]:
    found = listed("unique", items)
    grow(budget, LIST_ELEMENT * len(found))
    seen: dict[str | bytes, Json] = {}
    for item in found:
        seen.setdefault(identity(item, budget), item)
    return list(seen.values())


@function("flatten", 1, returns="array", budget=True, keeps=EVERY)
def _flatten(budget: Budget | None, items: Json) -> list[Json]:
    found = listed("flatten", items)
    grow(budget, LIST_ELEMENT * sum(len(item) if type(item) is list else 1 for item in found))
    return list(chain.from_iterable(item if type(item) is list else (item,) for item in found))


@function("sort", 1, returns="array", budget=True, keeps=EVERY)
def _sort(budget: Budget | None, items: Json) -> list[Json]:
    found = listed("sort", items)
    grow(budget, LIST_ELEMENT * len(found))
    if budget is not None:
        budget.spend(_letters(found))
    return sorted(found, key=rank)


def rank(value: Json) -> tuple[int, Any]:
    """Where a value sorts: null, then booleans, numbers, strings, then all else as it stands."""
    kind = type(value)
    if kind is int or kind is float:
        return (2, value)
    if kind is str:
        return (3, value)
    if kind is bool:
        return (1, value)
    return (0, 0) if value is None or value is MISSING else (4, 0)


def descending(order: Json) -> bool:
    """Whether the order of a sort is "desc" and not "asc", in any letter case; ExpressionError for what is neither."""
    word = order.lower() if type(order) is str else ""
    if word not in ("asc", "desc"):
        raise ExpressionError('the order of a sort is "asc" or "desc"', suggestion=closest(word, ("asc", "desc")))
    return word == "desc"


@function("query", 2, returns="array", budget=True, keeps=(0,))
def _query(budget: Budget | None, value: Json, path: Json) -> list[Json]:
    """Everything an RFC 9535 JSONPath selects below `value`."""
    from .query import compiled

    return compiled(_text("query", path))(budget, value)
