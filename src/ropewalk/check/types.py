"""What is known of a value before it exists.

A type is one of: None (anything), an int (a set of JSON kinds as bits), a Lit (this very value), a
dict (an object with exactly these keys), a list (a list of exactly these elements), `Sub` (what a
JSON Schema says), `Each` (a list of one type), `Either` (one of several), `Secret` (what has the text
of a secret in it). When in doubt a type is None: the check never raises a false alarm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from ..expr.ast import Lit
from ..values import Json
from .schemas import ALL, ARRAY, BOOLEAN, INTEGER, KINDS, NULL, NUMBER, OBJECT, STRING, Sub

Type: TypeAlias = Any

_MOST: Final = 8


class Each:
    """A list whose elements are all of one type."""

    __slots__ = ("item",)

    def __init__(self, item: Type) -> None:
        self.item = item


class Either:
    """One of several types."""

    __slots__ = ("of",)

    def __init__(self, of: tuple[Type, ...]) -> None:
        self.of = of


class Secret:
    """A value of these kinds with the secret `name` in its text."""

    __slots__ = ("kinds", "name")

    def __init__(self, name: str, kinds: int = ALL) -> None:
        self.name, self.kinds = name, kinds


class Nothing:
    """There is no such element: `known` are the keys there are; or the value is of `kinds`, which
    have no elements of that sort."""

    __slots__ = ("kinds", "known")

    def __init__(self, known: Iterable[str] = (), kinds: int = 0) -> None:
        self.known, self.kinds = tuple(known), kinds


def secret_in(known: Type) -> Secret | None:
    """The first secret that a value of this type holds."""
    kind = type(known)
    if kind is Secret:
        assert isinstance(known, Secret)
        return known
    if kind is Each:
        return secret_in(known.item)
    inside = known.values() if kind is dict else known if kind is list else known.of if kind is Either else ()
    for one in inside:
        found = secret_in(one)
        if found is not None:
            return found
    return None


def _anything(types: Iterable[Type]) -> Secret | None:
    """The type of any value; where one of these types holds a secret, so may the value."""
    secret = next(filter(None, map(secret_in, types)), None)
    return None if secret is None else Secret(secret.name)


def either(*types: Type) -> Type:
    """The type of a value that is of one of these; anything when one is, or when they are too many."""
    found: list[Type] = []
    for one in types:
        if one is None:
            return _anything(types)
        for part in one.of if type(one) is Either else (one,):
            if not any(part is known for known in found):
                found.append(part)
    if len(found) > _MOST:
        return _anything(found)
    return found[0] if len(found) == 1 else Either(tuple(found))


def kinds_of(known: Type) -> int:
    """The kinds of JSON value it can be, as bits."""
    if known is None:
        return ALL
    kind = type(known)
    if kind is int:
        return int(known)
    if kind is Lit:
        return kind_of_value(known.value)
    if kind is dict:
        return OBJECT
    if kind is list or kind is Each:
        return ARRAY
    if kind is Sub:
        return int(known.kinds())
    if kind is Secret:
        return int(known.kinds)
    bits = 0
    for one in known.of:
        bits |= kinds_of(one)
    return bits


def kind_of_value(value: Json) -> int:
    """The kind of a value, as one bit."""
    if value is None:
        return NULL
    kind = type(value)
    if kind is float:
        return INTEGER if value.is_integer() else NUMBER
    return {bool: BOOLEAN, int: INTEGER, str: STRING, list: ARRAY}.get(kind, OBJECT)


def element(known: Type, key: str | int) -> Type | Nothing:
    """The type of the element at `key`, or Nothing when there can be none."""
    kind = type(known)
    if known is None:
        return None
    if kind is Secret:
        return Secret(known.name)  # a function may have put the secret anywhere in its result
    if kind is Sub:
        return _of_schema(known, key)
    if kind is dict:
        if type(key) is not str:
            return Nothing(kinds=OBJECT)
        return known[key] if key in known else Nothing(known)
    if kind is Lit:
        return _of_literal(known.value, key)
    if kind is Either:
        return _of_either(known, key)
    if kind is int:
        return None if known == NULL or known & _holder(key) else Nothing(kinds=known)
    if type(key) is not int:
        return Nothing(kinds=ARRAY)
    if kind is Each:
        return known.item
    return known[key] if -len(known) <= key < len(known) else None


def _of_schema(known: Sub, key: str | int) -> Type | Nothing:
    found, inner = known.element(key)
    if found:
        return inner
    kinds = known.kinds()
    if kinds & (OBJECT if type(key) is str else ARRAY):
        return Nothing(inner or ())
    return Nothing(kinds=kinds)


def _of_literal(value: Json, key: str | int) -> Type | Nothing:
    if type(value) is dict:
        if type(key) is not str:
            return Nothing(kinds=OBJECT)
        return Lit(value[key]) if key in value else Nothing(value)
    if type(value) is list:
        if type(key) is not int:
            return Nothing(kinds=ARRAY)
        return Lit(value[key]) if -len(value) <= key < len(value) else None
    return None if value is None else Nothing(kinds=kind_of_value(value))


def _of_either(known: Either, key: str | int) -> Type | Nothing:
    found: list[Type] = []
    missed: list[Nothing] = []
    for one in known.of:
        got = element(one, key)
        if type(got) is Nothing:
            missed.append(got)
        elif kinds_of(one) != NULL:  # what is null has no element, and says nothing against the others
            found.append(got)
    if found or not missed:
        return either(*found) if found else None
    names = [name for miss in missed for name in miss.known]
    bits = 0
    for miss in missed:
        bits |= miss.kinds
    return Nothing(dict.fromkeys(names), 0 if names else bits)


def items_of(known: Type) -> Type:
    """The type of the elements of a list."""
    kind = type(known)
    if kind is Each:
        return known.item
    if kind is list:
        return either(*known) if known else None
    if kind is Lit and type(known.value) is list and known.value:
        return either(*map(Lit, known.value))
    if kind is Sub:
        found, item = known.items()
        return item if found else None
    if kind is Either:
        return either(*(items_of(one) for one in known.of if kinds_of(one) & ARRAY))
    return Secret(known.name) if kind is Secret else None


def _holder(key: str | int) -> int:
    return OBJECT if type(key) is str else ARRAY


def say(bits: int) -> str:
    """The kinds in words: `a string or a number`."""
    if bits & NUMBER and bits & INTEGER:
        bits &= ~INTEGER
    words = [word for bit, word in KINDS.items() if bits & bit]
    return " or ".join(words) if words else "nothing"
