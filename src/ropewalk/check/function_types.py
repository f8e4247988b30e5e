"""The types of what functions and operators return, and the operands that they can never work with.

To add a function whose result depends on its arguments, add its rule to RESULTS; a function with a fixed result needs
none. A rule may return too wide a type, never too narrow a type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..expr.ast import Lit
from .type_parts import list_of, spliced_items, values_of, variants, without_null
from .types import (
    ALL,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Each,
    Missing,
    Type,
    Values,
    describe_kinds,
    element_type,
    is_empty_list,
    items_of,
    kinds_of,
    union_type,
)

_NUMERIC: Final = INTEGER | NUMBER
_SUMMANDS: Final = (_NUMERIC, STRING, ARRAY)
_ORDERED: Final = (_NUMERIC, STRING, BOOLEAN)


def elements_of(source_type: Type) -> Type:
    """Return the type of the elements over which a macro iterates: of a list, or the keys of an object."""
    if source_type is None or kinds_of(source_type) == ALL:
        return items_of(source_type)
    added: list[Type] = []
    for part in without_null(source_type):
        bits = kinds_of(part)
        if bits & ARRAY and not is_empty_list(part):
            added.append(items_of(part))
        if bits & OBJECT:
            added.append(STRING)
    return union_type(*added) if added else None


def _items_as_list(argument_types: Sequence[Type]) -> Type:
    """Return a list of the elements of the first argument; its size and order are unknown."""
    parts = [part for part in without_null(argument_types[0]) if kinds_of(part) & ARRAY and not is_empty_list(part)]
    return list_of(items_of(part) for part in parts)


def _sum(argument_types: Sequence[Type]) -> Type:
    bits = [kinds_of(argument_type) & ~NULL for argument_type in argument_types]
    possible = [group for group in _SUMMANDS if all(kinds & group for kinds in bits)]
    if not possible:  # it never returns, so the operand alone decides what later problems say
        possible = [group for group in _SUMMANDS if bits[0] & group]
    if possible != [ARRAY]:
        return sum(possible) or sum(_SUMMANDS)
    return _items_as_list([union_type(*argument_types)])


def _choice(argument_types: Sequence[Type]) -> Type:
    return union_type(*argument_types[1:])


def _coalesce(argument_types: Sequence[Type]) -> Type:
    *first, last = argument_types
    if any(argument_type is None for argument_type in argument_types):
        return union_type(*argument_types)
    return union_type(*(part for argument_type in first for part in without_null(argument_type)), last)


def _extreme(argument_types: Sequence[Type]) -> Type:
    if len(argument_types) > 1:
        return union_type(*argument_types)
    item = items_of(argument_types[0])
    return None if item is None else union_type(item, NULL)


def _concat(argument_types: Sequence[Type]) -> Type:
    return list_of(part for argument_type in argument_types for part in spliced_items(argument_type))


def _flatten(argument_types: Sequence[Type]) -> Type:
    item = items_of(argument_types[0])
    if item is None:
        return ARRAY
    nulls = [NULL] if kinds_of(item) & NULL else []
    return list_of([*spliced_items(item), *nulls])


def _zip(argument_types: Sequence[Type]) -> Type:
    row: list[Type] = []
    for argument_type in argument_types:
        item = items_of(argument_type)
        row.append(None if item is None else union_type(item, NULL))
    return Each(row)


RESULTS: Final[dict[str, Callable[[Sequence[Type]], Type]]] = {
    "+": _sum,
    "?:": _choice,
    "coalesce": _coalesce,
    "min": _extreme,
    "max": _extreme,
    "sort": _items_as_list,
    "unique": _items_as_list,
    "flatten": _flatten,
    "concat": _concat,
    "zip": _zip,
    "values": lambda argument_types: Each(values_of(argument_types[0])),
    "keys": lambda _: Each(STRING),
    "split": lambda _: Each(STRING),
}
"""The rule for the result of each function whose result depends on its arguments."""


def macro_result(kind: str, item: Type, body: Type) -> Type:
    """Return the type of the value of a macro over a list, without reductions."""
    if kind == "map":
        return Each(body)
    if kind in ("filter", "sort"):
        return Each(item)
    if kind == "group_by":
        return Values(Each(item))
    if kind == "flat_map":
        return list_of(spliced_items(body)) if body is not None else ARRAY
    return BOOLEAN if kind in ("all", "exists", "exists_one", "any") else None


def indexed_type(holder: Type, key: Type) -> Type | Missing:
    """Return the type of `holder[key]`."""

    # With a constant key it is that of one member, otherwise of any.
    if type(key) is Lit and type(key.value) in (str, int):
        return element_type(holder, key.value)
    bits = kinds_of(key)
    if not bits & ~(_NUMERIC | NULL):
        return items_of(union_type(*(part for part in variants(holder) if kinds_of(part) & ARRAY)))
    if not bits & ~(STRING | NULL):
        return values_of(union_type(*(part for part in variants(holder) if kinds_of(part) & OBJECT)))
    return None


_TEXT: Final = STRING | NULL
_LIST: Final = ARRAY | NULL
_CONDITION: Final = BOOLEAN | NULL
ACCEPTS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(("lower", "upper", "trim", "split", "replace", "startsWith", "endsWith", "matches"), (_TEXT,) * 3),
    **dict.fromkeys(("sum", "avg", "join", "any", "all", "flatten", "unique", "sort"), (_LIST,)),
    **dict.fromkeys(("keys", "values"), (OBJECT | NULL,)),
    **dict.fromkeys(("abs", "round"), (_NUMERIC | NULL,)),
    **dict.fromkeys(("&&", "||", "!", "?:"), (_CONDITION,)),
    "length": (STRING | ARRAY | OBJECT | NULL,),
    "size": (STRING | ARRAY | OBJECT | NULL,),
    "in": (ALL, ARRAY | OBJECT | NULL),
}
"""The kinds that each argument may have; further arguments may have any kind."""

_ITEMS: Final = {
    "sum": _NUMERIC,
    "avg": _NUMERIC,
    "any": _CONDITION,
    "all": _CONDITION,
    "join": ALL & ~(ARRAY | OBJECT),
}
"""The kinds that the elements of a list may have."""


def operand_problem(name: str, argument_types: Sequence[Type]) -> tuple[int, str] | None:
    """Return the first operand that a function or an operator can never work with, and what is wrong with it."""
    if name in ("<", "<=", ">", ">="):
        return _mixed_kinds(name, argument_types, _ORDERED, "order")
    if name == "+":
        return _mixed_kinds(name, argument_types, _SUMMANDS, "add")
    accepted = ACCEPTS.get(name, ())
    if name in ("&&", "||"):
        accepted = accepted * len(argument_types)
    for position, (argument_type, kinds) in enumerate(zip(argument_types, accepted, strict=False)):
        bits = kinds_of(argument_type)
        if not bits & kinds:
            return position, f"{name!r} needs {describe_kinds(kinds & ~NULL)}; this is {describe_kinds(bits)}"
    if name in _ITEMS:
        bits = kinds_of(items_of(argument_types[0]))
        if not bits & (_ITEMS[name] | NULL):
            return 0, f"{name!r} cannot use a list whose elements are each {describe_kinds(bits)}"
    return None


def _mixed_kinds(name: str, argument_types: Sequence[Type], groups: Iterable[int], verb: str) -> tuple[int, str] | None:
    """Return the first operand that has no kind in common with the operands before it; null is left to the run."""
    possible = ALL
    earlier = 0
    for position, argument_type in enumerate(argument_types):
        bits = kinds_of(argument_type) & ~NULL
        if not bits:
            continue
        allowed = 0
        for group in groups:
            if bits & group & possible:
                allowed |= group
        if not allowed:
            kinds_text = describe_kinds(bits)
            both = f"{describe_kinds(earlier)} and {kinds_text}" if earlier else kinds_text
            return position, f"{name!r} cannot {verb} {both}"
        possible, earlier = allowed, earlier or bits
    return None
