"""Looking into a JSON Schema without a value: what is under a key, which kinds it allows.

References inside the schema are followed, `anyOf` and `oneOf` give what any branch gives, `allOf`
what any part gives. Whatever is not understood leaves the answer open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ..schema.pointer import at_pointer
from ..values import Json

NULL, BOOLEAN, INTEGER, NUMBER, STRING, ARRAY, OBJECT = 1, 2, 4, 8, 16, 32, 64
ALL: Final = 127
KINDS: Final = {
    STRING: "a string", INTEGER: "an integer", NUMBER: "a number", BOOLEAN: "a boolean", ARRAY: "a list",
    OBJECT: "an object", NULL: "null",
}  # fmt: skip
_BITS: Final = {
    "null": NULL, "boolean": BOOLEAN, "integer": INTEGER, "number": INTEGER | NUMBER, "string": STRING,
    "array": ARRAY, "object": OBJECT,
}  # fmt: skip
_WHOLE: Final = ("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties")
_HOPS: Final = 16
_MOST_STEPS: Final = 500
_MOST_KEPT: Final = 1000
# Any of these may declare or admit keys that plain `properties` do not show.
_CLOUDED: Final = ("if", "then", "else", "dependentSchemas", "dependencies", "$dynamicRef", "$recursiveRef", "extends")

# What a schema says of a key, weakest first: nothing at all, no such key, every key goes, this.
_SILENT, _ABSENT, _OPEN, _FOUND = 0, 1, 2, 3


class _Look:
    """One question to a schema: `left` bounds the work, since references can double at every step."""

    __slots__ = ("left", "root")

    def __init__(self, root: Json) -> None:
        self.root, self.left = root, _MOST_STEPS

    def into(self, node: Json, depth: int) -> dict[str, Any] | None:
        """The schema to look at, its bare references followed; None when it says nothing or it is enough."""
        self.left -= 1
        if self.left < 0 or depth > _HOPS:
            return None
        found = resolve(self.root, node)
        return found if type(found) is dict else None


class Sub:
    """One schema inside a root schema, whose `$defs` its references name."""

    __slots__ = ("_declared", "_kinds", "_required", "_seen", "_words", "node", "root")

    def __init__(self, root: Json, node: Json) -> None:
        self.root, self.node = root, node
        self._kinds: int | None = None
        self._required: tuple[str, ...] | None = None
        self._words: dict[str, Any] | None = None
        self._declared: dict[str, tuple[bool, Any]] = {}
        self._seen: dict[str | int, tuple[bool, Any]] = {}

    def kinds(self) -> int:
        """The kinds of JSON value it allows, as bits."""
        if self._kinds is None:
            self._kinds = _kinds(_Look(self.root), self.node, 0)
        return self._kinds

    def element(self, key: str | int) -> tuple[bool, Any]:
        """(True, type) of what is at `key`: a Sub, or None where anything goes; (False, names) when
        it declares its keys and this is none of them, or it allows nothing that has elements."""
        known = self._seen.get(key)
        if known is None:
            if len(self._seen) >= _MOST_KEPT:  # the keys come from definitions, which may come from anywhere
                self._seen.clear()
            known = self._seen[key] = self._element(key)
        return known

    def _element(self, key: str | int) -> tuple[bool, Any]:
        kinds = self.kinds()
        if not kinds & (OBJECT if type(key) is str else ARRAY):
            return (True, None) if kinds == NULL else (False, ())
        if type(key) is int:
            return self.items(key)
        tag, node, _ = self._property(str(key))
        if tag == _FOUND and node is not True:
            return True, Sub(self.root, node)
        return (False, self.names()) if tag == _ABSENT else (True, None)

    def closed_to(self, key: str) -> bool:
        """Whether `additionalProperties: false` forbids the key."""
        tag, _, strict = self._property(key)
        return tag == _ABSENT and strict

    def property(self, key: str) -> tuple[bool, Any]:
        """(True, type) of a property it declares or admits, (False, None) when it lists others only."""
        known = self._declared.get(key)
        if known is None:
            tag, node, _ = self._property(key)
            inner = Sub(self.root, node) if tag == _FOUND and node is not True else None
            if len(self._declared) >= _MOST_KEPT:
                self._declared.clear()
            known = self._declared[key] = (tag != _ABSENT, inner)
        return known

    def _property(self, key: str) -> tuple[int, Json, bool]:
        return _property(_Look(self.root), self.node, key, 0)

    def items(self, at: int | None = None) -> tuple[bool, Any]:
        """(True, type) of the elements of an array: of the one `at` a position, or of any."""
        for node in _parts(_Look(self.root), self.node, 0):
            prefix, items = node.get("prefixItems"), node.get("items")
            if type(prefix) is list:
                if at is not None and 0 <= at < len(prefix):
                    return True, Sub(self.root, prefix[at])
                return True, None
            if type(items) is dict:
                return True, Sub(self.root, items)
        return True, None

    def words(self) -> dict[str, Any]:
        """Return what it says of the size of lists and objects in every case, and whether items must differ."""
        words = self._words
        if words is None:
            words = self._words = {}
            for node in _parts(_Look(self.root), self.node, 0):
                words |= {word: node[word] for word in _WHOLE if word in node and word not in words}
        return words

    def names(self) -> tuple[str, ...]:
        """The properties it declares, in their order."""
        found: dict[str, None] = {}
        for node in _parts(_Look(self.root), self.node, 0, branches=True):
            if type(node.get("properties")) is dict:
                found.update(dict.fromkeys(node["properties"]))
        return tuple(found)

    def required(self) -> tuple[str, ...]:
        """Properties that must be there and have no default, in every case that it allows."""
        if self._required is not None:
            return self._required
        found: dict[str, None] = {}
        for node in _parts(_Look(self.root), self.node, 0):
            names, declared = node.get("required"), node.get("properties")
            for name in names if type(names) is list else ():
                here = declared.get(name) if type(declared) is dict else None
                if type(name) is str and not (type(here) is dict and "default" in here):
                    found[name] = None
        self._required = tuple(found)
        return self._required


def resolve(root: Json, node: Json) -> Json:
    """What a schema stands for when it is only a reference; True when it cannot be found here."""
    for _ in range(_HOPS):
        if type(node) is not dict or type(node.get("$ref")) is not str:
            return node
        if len(node) > 1 and any(key in node for key in ("properties", "allOf", "anyOf", "oneOf", "type")):
            return node  # it says more than the reference: see _parts
        node = target(root, node["$ref"])
    return True


def target(root: Json, ref: str) -> Json:
    """What `#/$defs/name` names in this root; True (anything) for other references."""
    if ref == "#":
        return root
    return at_pointer(root, ref[1:]) if ref.startswith("#/") else True


def _parts(look: _Look, node: Json, depth: int, branches: bool = False) -> Iterator[dict[str, Any]]:
    """A schema and everything that holds beside it: its reference, its `allOf`; with `branches` also
    what may hold (`anyOf`, `oneOf`)."""
    node = look.into(node, depth)
    if node is None:
        return
    yield node
    if type(node.get("$ref")) is str:
        yield from _parts(look, target(look.root, node["$ref"]), depth + 1, branches)
    for word in ("allOf", "anyOf", "oneOf") if branches else ("allOf",):
        for inner in _list(node.get(word)):
            yield from _parts(look, inner, depth + 1, branches)


def _kinds(look: _Look, node: Json, depth: int) -> int:
    node = look.into(node, depth)
    if node is None:
        return ALL
    bits = ALL
    named = node.get("type")
    if type(named) is str:
        bits = _BITS.get(named, ALL)
    elif type(named) is list and named:
        bits = 0
        for name in named:
            bits |= _BITS.get(name, ALL) if type(name) is str else ALL
    values = [node["const"]] if "const" in node else _list(node.get("enum"))
    if values:
        bits &= _kinds_of_values(values)
    if type(node.get("$ref")) is str:
        bits &= _kinds(look, target(look.root, node["$ref"]), depth + 1)
    for inner in _list(node.get("allOf")):
        bits &= _kinds(look, inner, depth + 1)
    for word in ("anyOf", "oneOf"):
        branches = _list(node.get(word))
        if branches:
            some = 0
            for inner in branches:
                some |= _kinds(look, inner, depth + 1)
            bits &= some
    if node.get("nullable") is True:
        bits |= NULL
    return bits or ALL  # a schema that nothing fits is not understood


def _kinds_of_values(values: list[Json]) -> int:
    bits = 0
    for value in values:
        kind = type(value)
        if value is None:
            bits |= NULL
        elif kind is float:
            bits |= INTEGER | NUMBER
        else:
            bits |= {bool: BOOLEAN, int: INTEGER, str: STRING, list: ARRAY, dict: OBJECT}.get(kind, ALL)
    return bits


def _property(look: _Look, node: Json, key: str, depth: int) -> tuple[int, Json, bool]:
    """(what it says of the key, its schema, whether other keys are forbidden)."""
    node = look.into(node, depth)
    if node is None:
        return _SILENT, True, False
    best = _own_property(node, key)
    parts = _list(node.get("allOf"))
    if type(node.get("$ref")) is str:
        parts = [*parts, target(look.root, node["$ref"])]
    for inner in parts:
        best = _stronger(best, _property(look, inner, key, depth + 1))
    for word in ("anyOf", "oneOf"):
        branches = _list(node.get(word))
        if branches:
            best = _stronger(best, _any_branch(look, branches, key, depth + 1))
    return best


def _own_property(node: dict[str, Any], key: str) -> tuple[int, Json, bool]:
    declared = node.get("properties")
    if type(declared) is dict and key in declared:
        return _FOUND, declared[key], False
    if any(word in node for word in _CLOUDED) or node.get("patternProperties"):
        return _OPEN, True, False
    for word in ("additionalProperties", "unevaluatedProperties"):
        more = node.get(word)
        if type(more) is dict:
            return _FOUND, more, False
        if more is True:
            return _OPEN, True, False
        if more is False:
            return _ABSENT, True, True
    return (_ABSENT if declared and type(declared) is dict else _SILENT), True, False


def _stronger(a: tuple[int, Json, bool], b: tuple[int, Json, bool]) -> tuple[int, Json, bool]:
    if a[0] == b[0]:
        return a[0], a[1], a[2] or b[2]
    return a if a[0] > b[0] else b


def _any_branch(look: _Look, branches: list[Json], key: str, depth: int) -> tuple[int, Json, bool]:
    """A key is fine when any branch has it; it is absent when every branch that can be an object says so."""
    said = []
    found = []
    for inner in branches:
        if not _kinds(look, inner, depth) & OBJECT:
            continue
        tag, node, strict = _property(look, inner, key, depth)
        if tag == _FOUND:
            found.append(node)
        said.append((tag, strict))
    if found:
        return _FOUND, (found[0] if len(found) == 1 else {"anyOf": found}), False
    if not said or any(tag == _SILENT for tag, _ in said):
        return _SILENT, True, False
    if any(tag == _OPEN for tag, _ in said):
        return _OPEN, True, False
    return _ABSENT, True, all(strict for _, strict in said)


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []
