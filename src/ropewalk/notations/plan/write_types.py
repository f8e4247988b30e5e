"""Facts about the values of a plan that hold in every run: types, members and elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from ...fast_dataclass import dataclass
from ...values import Json


@dataclass(frozen=True, slots=True)
class Certain:
    """The facts about a value that hold in every run."""

    # `kinds` are the names of Python's types that it may have, None for any. `fields` are members that it has for
    # certain, `items` describes each element of a list.

    kinds: frozenset[str] | None = None
    fields: Mapping[str, Certain] = field(default_factory=dict)
    items: Certain | None = None

    def is_a(self, *kinds: str) -> bool:
        """Return True if the value has one of these types for certain."""
        return self.kinds is not None and self.kinds <= set(kinds)

    def may_be(self, kind: str) -> bool:
        """Return False if the value certainly does not have a type."""
        return self.kinds is None or kind in self.kinds

    @property
    def is_number(self) -> bool:
        """True if the value is a number for certain."""
        return self.is_a("int", "float")


UNKNOWN: Final = Certain()


def of_kind(*kinds: str) -> Certain:
    """Return the facts about a value that has one of these types."""
    return Certain(frozenset(kinds))


BOOL: Final = of_kind("bool")
INT: Final = of_kind("int")
NUMBER: Final = of_kind("int", "float")
TEXT: Final = of_kind("str")
NONE: Final = of_kind("NoneType")
LIST: Final = of_kind("list")


def of_value(value: Json) -> Certain:
    """Return the facts about a constant."""
    kind = type(value).__name__
    if isinstance(value, dict):
        return Certain(frozenset((kind,)), {str(key): of_value(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return Certain(frozenset((kind,)), items=either(map(of_value, value)))
    return of_kind(kind)


def either(values: Iterable[Certain]) -> Certain:
    """Return what is certain of a value that is one of several."""
    listed = list(values)
    if not listed:
        return UNKNOWN
    first = listed[0]
    if all(value == first for value in listed[1:]):
        return first
    kinds: frozenset[str] | None = frozenset()
    for value in listed:
        kinds = None if kinds is None or value.kinds is None else kinds | value.kinds
    names = [name for name in first.fields if all(name in value.fields for value in listed)]
    fields = {name: either(value.fields[name] for value in listed) for name in names}
    parts = [value.items for value in listed if value.items is not None]
    return Certain(kinds, fields, either(parts) if len(parts) == len(listed) else None)


_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("str",),
    "integer": ("int", "float"),
    "number": ("int", "float"),
    "boolean": ("bool",),
    "array": ("list",),
    "object": ("dict",),
    "null": ("NoneType",),
}


def of_schema(schema: Json) -> Certain:
    """Return the facts about a value that fits a JSON Schema."""
    if not isinstance(schema, dict):
        return UNKNOWN
    declared: Any = schema.get("anyOf")
    if isinstance(declared, list):
        return either(map(of_schema, declared))
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else declared if isinstance(declared, list) else []
    if not names or any(name not in _KINDS for name in names):
        return UNKNOWN
    kinds = frozenset(kind for name in names for kind in _KINDS[name])
    fields: dict[str, Certain] = {}
    properties: Any = schema.get("properties")
    if kinds == {"dict"} and isinstance(properties, dict):
        required: Any = schema.get("required") or ()
        fields = {name: of_schema(properties[name]) for name in properties if name in required}
    return Certain(kinds, fields, of_schema(schema.get("items")) if kinds == {"list"} else None)
