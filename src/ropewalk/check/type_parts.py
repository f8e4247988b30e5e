"""Parts of types: the members of objects, the variants of unions, and whether one type includes another."""

from __future__ import annotations

from collections.abc import Iterable

from ..expr.ast import Lit
from .types import (
    ARRAY,
    NULL,
    OBJECT,
    Each,
    Either,
    Secret,
    Sub,
    Type,
    Values,
    is_empty_list,
    items_of,
    kinds_of,
    union_type,
)


def values_of(known: Type) -> Type:
    """Return the type of an object's members, whatever their keys are."""
    kind = type(known)
    if kind is Values:
        return known.item
    if kind is dict:
        return union_type(*known.values()) if known else None
    if kind is Lit and type(known.value) is dict and known.value:
        return union_type(*map(Lit, known.value.values()))
    if kind is Sub:
        return known.values()
    if kind is Either:
        objects = [variant for variant in known.of if kinds_of(variant) & OBJECT and variant != {}]
        return union_type(*map(values_of, objects)) if objects else None
    return Secret(known.name) if kind is Secret else None


def variants(known: Type) -> tuple[Type, ...]:
    """Return the types that a value of this type may have: the parts of a union, the branches of a schema."""
    kind = type(known)
    if kind is Either:
        return tuple(part for variant in known.of for part in variants(variant))
    return known.branches() if kind is Sub else (known,)


def without_null(known: Type) -> tuple[Type, ...]:
    """Return the variants of a type that are not null."""
    return tuple(part & ~NULL if type(part) is int else part for part in variants(known) if kinds_of(part) != NULL)


def spliced_items(known: Type) -> tuple[Type, ...]:
    """Return the types of the elements that a value adds to a list: those of a list, or the value itself."""
    added: list[Type] = []
    for part in without_null(known):
        bits = kinds_of(part)
        if bits & ARRAY and not is_empty_list(part):
            added.append(items_of(part))
        if bits & ~(ARRAY | NULL):
            added.append(part)
    return tuple(added)


def list_of(items: Iterable[Type]) -> Type:
    """Return the type of a list whose elements have one of these types."""
    items = tuple(items)
    return Each(union_type(*items)) if items else []


def includes(known: Type, other: Type, depth: int = 12) -> bool:
    """Return True if every value of the type `other` certainly has the type `known`."""
    if known is None or known is other:
        return True
    if other is None or not depth:
        return False
    # Unions first: every part of the other type must be covered, by any part of the known one.
    if type(other) is Either:
        return all(includes(known, part, depth) for part in other.of)
    if type(known) is Either:
        return any(includes(part, other, depth) for part in known.of) or _covers_kinds(known, other)
    if type(known) is int:
        return not kinds_of(other) & ~known
    # Lists and objects with one type for all members cover those with a type per member.
    if type(known) is Each and type(other) in (Each, list):
        items = [other.item] if type(other) is Each else other
        return all(includes(known.item, item, depth - 1) for item in items)
    if type(known) is Values and type(other) in (Values, dict):
        members = [other.item] if type(other) is Values else other.values()
        return all(includes(known.item, member, depth - 1) for member in members)
    # Otherwise both must be of the same form.
    if type(known) is not type(other):
        return type(known) is Each and is_empty_list(other)
    if type(known) is Sub:
        return known.root is other.root and known.node is other.node
    if type(known) is dict:
        return known.keys() == other.keys() and all(includes(known[key], other[key], depth - 1) for key in known)
    if type(known) is list:
        return len(known) == len(other) and all(map(includes, known, other))
    return type(known) is Lit and type(known.value) is type(other.value) and known.value == other.value


def _covers_kinds(known: Either, other: Type) -> bool:
    """Return True if the parts of a union that are kinds alone cover the kinds of a type."""
    bits = 0
    for part in known.of:
        if type(part) is int:
            bits |= part
    return not kinds_of(other) & ~bits
