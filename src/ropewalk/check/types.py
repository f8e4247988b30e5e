"""Types of values that do not exist yet, and queries on JSON Schemas without a value.

A type is one of: None (anything), an int (a set of JSON kinds as bits), a Lit (this very value), a
dict (an object with exactly these keys), a list (a list of exactly these elements), `Sub` (a JSON
Schema), `Each` (a list of one type), `Values` (an object whose members are all of one type), `Either` (one of several),
`Secret` (a value that contains the
text of a secret). When in doubt a type is None, so the check never raises a false alarm.

Queries follow references inside the schema. Under `anyOf` and `oneOf` any branch may answer, under
`allOf` any part. Keywords that are not understood leave the answer open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from ..expr.ast import Lit
from ..schema_defaults import at_pointer
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
_SIZE_WORDS: Final = ("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties")
_MAX_REFS: Final = 16
_MAX_STEPS: Final = 500
_MAX_CACHED: Final = 1000
# Any of these keywords may declare or allow keys that `properties` does not list.
_OPEN_KEYWORDS: Final = (
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
    "$dynamicRef",
    "$recursiveRef",
    "extends",
)

_ANNOTATIONS: Final = frozenset(
    ("anyOf", "oneOf", "title", "description", "default", "examples", "$defs", "definitions")
)
"""Keywords next to which a schema allows exactly what its branches allow."""

# A schema's answer about a key, weakest first: no answer, forbidden, any key is allowed, declared.
_UNDECLARED, _ABSENT, _OPEN, _DECLARED = 0, 1, 2, 3


class _SchemaQuery:
    """Bound the work of one query: `steps_left` counts down, because references can double at every step."""

    __slots__ = ("root", "steps_left")

    def __init__(self, root: Json) -> None:
        self.root, self.steps_left = root, _MAX_STEPS

    def into(self, node: Json, depth: int) -> dict[str, Any] | None:
        """Return the schema with its references followed; None if it constrains nothing or the bound is reached."""
        self.steps_left -= 1
        if self.steps_left < 0 or depth > _MAX_REFS:
            return None
        schema = resolve_schema(self.root, node)
        return schema if type(schema) is dict else None


class Sub:
    """A schema inside a root schema, whose `$defs` its references name."""

    __slots__ = (
        "_branches",
        "_declared",
        "_items",
        "_kinds",
        "_properties",
        "_required",
        "_size_words",
        "_values",
        "node",
        "root"
    )  # fmt: skip

    def __init__(self, root: Json, node: Json) -> None:
        self.root, self.node = root, node
        self._kinds: int | None = None
        self._required: tuple[str, ...] | None = None
        self._size_words: dict[str, Any] | None = None
        self._declared: dict[str, tuple[bool, Any]] = {}
        self._properties: dict[str | int, tuple[bool, Any]] = {}
        self._items: dict[int | None, tuple[bool, Any]] = {}
        self._values: tuple[Any] | None = None
        self._branches: tuple[Any, ...] | None = None

    def kinds(self) -> int:
        """Return the kinds of JSON value that the schema allows, as bits."""
        if self._kinds is None:
            self._kinds = _kinds(_SchemaQuery(self.root), self.node, 0)
        return self._kinds

    def element_type(self, key: str | int) -> tuple[bool, Any]:
        """Return the type of the element at a key or position."""
        known = self._properties.get(key)
        if known is None:
            if len(self._properties) >= _MAX_CACHED:  # keys come from untrusted definitions, so the cache is bounded
                self._properties.clear()
            known = self._properties[key] = self._element(key)
        return known

    def _element(self, key: str | int) -> tuple[bool, Any]:
        kinds = self.kinds()
        if not kinds & (OBJECT if type(key) is str else ARRAY):
            return (True, None) if kinds == NULL else (False, ())
        if type(key) is int:
            return self.items(key)
        tag, node, _ = self._property(str(key))
        if tag == _DECLARED and node is not True:
            return True, Sub(self.root, node)
        return (False, self.names()) if tag == _ABSENT else (True, None)

    def is_closed_to(self, key: str) -> bool:
        """Return True if `additionalProperties: false` forbids the key."""
        tag, _, strict = self._property(key)
        return tag == _ABSENT and strict

    def property(self, key: str) -> tuple[bool, Any]:
        """Return (True, type) of a property that is declared or allowed, else (False, None)."""
        known = self._declared.get(key)
        if known is None:
            tag, node, _ = self._property(key)
            inner = Sub(self.root, node) if tag == _DECLARED and node is not True else None
            if len(self._declared) >= _MAX_CACHED:
                self._declared.clear()
            known = self._declared[key] = (tag != _ABSENT, inner)
        return known

    def _property(self, key: str) -> tuple[int, Json, bool]:
        return _property(_SchemaQuery(self.root), self.node, key, 0)

    def items(self, at: int | None = None) -> tuple[bool, Any]:
        """Return (True, type) of the elements of an array: the element `at` a position, or any element."""
        known = self._items.get(at)
        if known is None:
            if len(self._items) >= _MAX_CACHED:
                self._items.clear()
            node = _items(_SchemaQuery(self.root), self.node, at, 0)
            known = self._items[at] = (True, None if node is True else Sub(self.root, node))
        return known

    def values(self) -> Any:
        """Return the type of the members of an object, whatever their keys are; None if anything is allowed."""
        if self._values is None:
            node = _values(_SchemaQuery(self.root), self.node, 0)
            self._values = (None if node is True else Sub(self.root, node),)
        return self._values[0]

    def branches(self) -> tuple[Any, ...]:
        """Return the alternatives if the schema is nothing more than a list of them, else the schema itself."""
        node = resolve_schema(self.root, self.node)
        if self._branches is None:
            self._branches = (self,)
            if type(node) is dict and not node.keys() - _ANNOTATIONS:
                for word in ("anyOf", "oneOf"):
                    branches = _list(node.get(word))
                    if 0 < len(branches) <= _MAX_VARIANTS and len(node.keys() & {"anyOf", "oneOf"}) == 1:
                        self._branches = tuple(Sub(self.root, branch) for branch in branches)
        return self._branches

    def size_words(self) -> dict[str, Any]:
        """Return the constraints on size and uniqueness that always apply."""
        size_words = self._size_words
        if size_words is None:
            size_words = self._size_words = {}
            for node in _parts(_SchemaQuery(self.root), self.node, 0):
                size_words |= {word: node[word] for word in _SIZE_WORDS if word in node and word not in size_words}
        return size_words

    def names(self) -> tuple[str, ...]:
        """Return the declared properties, in their order."""
        names: dict[str, None] = {}
        for node in _parts(_SchemaQuery(self.root), self.node, 0, branches=True):
            if type(node.get("properties")) is dict:
                names.update(dict.fromkeys(node["properties"]))
        return tuple(names)

    def required(self) -> tuple[str, ...]:
        """Return the properties that are always required and have no default."""
        if self._required is not None:
            return self._required
        required: dict[str, None] = {}
        for node in _parts(_SchemaQuery(self.root), self.node, 0):
            names, declared = node.get("required"), node.get("properties")
            for name in names if type(names) is list else ():
                property = declared.get(name) if type(declared) is dict else None
                if type(name) is str and not (type(property) is dict and "default" in property):
                    required[name] = None
        self._required = tuple(required)
        return self._required


def resolve_schema(root: Json, node: Json) -> Json:
    """Follow a schema that is only a reference; return True if the reference cannot be found here."""
    for _ in range(_MAX_REFS):
        if type(node) is not dict or type(node.get("$ref")) is not str:
            return node
        if len(node) > 1 and any(key in node for key in ("properties", "allOf", "anyOf", "oneOf", "type")):
            return node  # it constrains more than the reference does; `_parts` yields both
        node = reference_target(root, node["$ref"])
    return True


def reference_target(root: Json, ref: str) -> Json:
    """Return the schema that a reference names, such as `#/$defs/name`."""
    if ref == "#":
        return root
    return at_pointer(root, ref[1:]) if ref.startswith("#/") else True


def _parts(query: _SchemaQuery, node: Json, depth: int, branches: bool = False) -> Iterator[dict[str, Any]]:
    """Yield a schema and every schema that applies with it: its reference and its `allOf`."""

    # With `branches`, also yield those that may apply (`anyOf`, `oneOf`).
    node = query.into(node, depth)
    if node is None:
        return
    yield node
    if type(node.get("$ref")) is str:
        yield from _parts(query, reference_target(query.root, node["$ref"]), depth + 1, branches)
    for word in ("allOf", "anyOf", "oneOf") if branches else ("allOf",):
        for inner in _list(node.get(word)):
            yield from _parts(query, inner, depth + 1, branches)


def _kinds(query: _SchemaQuery, node: Json, depth: int) -> int:
    """Return the kinds of value that a schema allows: the intersection of all keywords."""
    node = query.into(node, depth)
    if node is None:
        return ALL
    bits = ALL
    types = node.get("type")
    if type(types) is str:
        bits = _BITS.get(types, ALL)
    elif type(types) is list and types:
        bits = 0
        for name in types:
            bits |= _BITS.get(name, ALL) if type(name) is str else ALL
    # Every further keyword narrows the set.
    values = [node["const"]] if "const" in node else _list(node.get("enum"))
    if values:
        bits &= _kinds_of_values(values)
    if type(node.get("$ref")) is str:
        bits &= _kinds(query, reference_target(query.root, node["$ref"]), depth + 1)
    for inner in _list(node.get("allOf")):
        bits &= _kinds(query, inner, depth + 1)
    for word in ("anyOf", "oneOf"):
        branches = _list(node.get(word))
        if branches:
            branch_bits = 0
            for inner in branches:
                branch_bits |= _kinds(query, inner, depth + 1)
            bits &= branch_bits
    if node.get("nullable") is True:
        bits |= NULL
    return bits or ALL  # a schema that nothing fits was probably misread


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


def _property(query: _SchemaQuery, node: Json, key: str, depth: int) -> tuple[int, Json, bool]:
    """Return (answer, schema, is strict) about a key; strict means that other keys are forbidden."""
    node = query.into(node, depth)
    if node is None:
        return _UNDECLARED, True, False
    best = _own_property(node, key)
    parts = _list(node.get("allOf"))
    if type(node.get("$ref")) is str:
        parts = [*parts, reference_target(query.root, node["$ref"])]
    for inner in parts:
        best = _stronger(best, _property(query, inner, key, depth + 1))
    for word in ("anyOf", "oneOf"):
        branches = _list(node.get(word))
        if branches:
            best = _stronger(best, _any_branch(query, branches, key, depth + 1))
    return best


def _own_property(node: dict[str, Any], key: str) -> tuple[int, Json, bool]:
    """Return the answer of a schema's own keywords, without its references and branches."""
    declared = node.get("properties")
    if type(declared) is dict and key in declared:
        return _DECLARED, declared[key], False
    if any(word in node for word in _OPEN_KEYWORDS) or node.get("patternProperties"):
        return _OPEN, True, False
    for word in ("additionalProperties", "unevaluatedProperties"):
        more = node.get(word)
        if type(more) is dict:
            return _DECLARED, more, False
        if more is True:
            return _OPEN, True, False
        if more is False:
            return _ABSENT, True, True
    return (_ABSENT if declared and type(declared) is dict else _UNDECLARED), True, False


def _stronger(a: tuple[int, Json, bool], b: tuple[int, Json, bool]) -> tuple[int, Json, bool]:
    if a[0] == b[0]:
        return a[0], a[1], a[2] or b[2]
    return a if a[0] > b[0] else b


def _any_branch(query: _SchemaQuery, branches: list[Json], key: str, depth: int) -> tuple[int, Json, bool]:
    """Return the answer of alternatives: a key is absent only if every branch that allows objects forbids it."""
    answers = []
    declared = []
    for inner in branches:
        if not _kinds(query, inner, depth) & OBJECT:
            continue
        tag, node, strict = _property(query, inner, key, depth)
        if tag == _DECLARED:
            declared.append(node)
        answers.append((tag, strict))
    if declared:
        return _DECLARED, (declared[0] if len(declared) == 1 else {"anyOf": declared}), False
    if not answers or any(tag == _UNDECLARED for tag, _ in answers):
        return _UNDECLARED, True, False
    if any(tag == _OPEN for tag, _ in answers):
        return _OPEN, True, False
    return _ABSENT, True, all(strict for _, strict in answers)


def _items(query: _SchemaQuery, node: Json, at: int | None, depth: int) -> Json:
    """Return the schema of the elements of an array, at a position or at any; True if anything is allowed."""
    node = query.into(node, depth)
    if node is None:
        return True
    declared = _own_items(node, at)
    if declared is not True:
        return declared
    for inner in _conjuncts(query, node):
        inherited = _items(query, inner, at, depth + 1)
        if inherited is not True:
            return inherited
    return _in_branches(query, node, ARRAY, lambda branch: _items(query, branch, at, depth + 1), depth)


def _own_items(node: dict[str, Any], at: int | None) -> Json:
    prefix, items = node.get("prefixItems"), node.get("items")
    if type(prefix) is not list:
        return items if type(items) is dict else True
    if at is None:
        more = [] if items is False else [items]
        return True if not prefix or (more and type(items) is not dict) else {"anyOf": [*prefix, *more]}
    if 0 <= at < len(prefix):
        return prefix[at]
    return items if type(items) is dict and at >= 0 else True


def _values(query: _SchemaQuery, node: Json, depth: int) -> Json:
    """Return the schema that every member of an object fits; True if anything is allowed."""
    node = query.into(node, depth)
    if node is None:
        return True
    more = node.get("additionalProperties")
    if type(more) is dict or more is False:
        members = []
        for word in ("properties", "patternProperties"):
            declared = node.get(word)
            members += list(declared.values()) if type(declared) is dict else []
        members += [more] if type(more) is dict else []
        if members:
            return members[0] if len(members) == 1 else {"anyOf": members}
    for inner in _conjuncts(query, node):
        known = _values(query, inner, depth + 1)
        if known is not True:
            return known
    return _in_branches(query, node, OBJECT, lambda branch: _values(query, branch, depth + 1), depth)


def _conjuncts(query: _SchemaQuery, node: dict[str, Any]) -> list[Json]:
    """Return the schemas that apply together with a schema."""
    parts = _list(node.get("allOf"))
    return [*parts, reference_target(query.root, node["$ref"])] if type(node.get("$ref")) is str else parts


def _in_branches(
    query: _SchemaQuery, node: dict[str, Any], container: int, of_branch: Callable[[Json], Json], depth: int
) -> Json:
    """Return the union of what the alternatives that allow the container say; True if one of them says nothing."""
    for word in ("anyOf", "oneOf"):
        answers: list[Json] = []
        for branch in _list(node.get(word)):
            if _kinds(query, branch, depth + 1) & container:
                answers.append(of_branch(branch))
        if answers and all(answer is not True for answer in answers):
            return answers[0] if len(answers) == 1 else {"anyOf": answers}
    return True


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


Type: TypeAlias = Any

_MAX_VARIANTS: Final = 8


class Each:
    """A list whose elements are all of one type."""

    __slots__ = ("item",)

    def __init__(self, item: Type) -> None:
        self.item = item


class Values:
    """An object whose members are all of one type, under any key."""

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


class Missing:
    """There is no such element: `known` are the existing keys, or the value is of `kinds`, which
    have no elements of that sort."""

    __slots__ = ("kinds", "known")

    def __init__(self, known: Iterable[str] = (), kinds: int = 0) -> None:
        self.known, self.kinds = tuple(known), kinds


class Opaque:
    """A value that no JSON Schema describes, such as a function: the check takes it for any value."""

    __slots__ = ()


def find_secret(known: Type) -> Secret | None:
    """Return the first secret that a value of this type contains, or None."""
    kind = type(known)
    if kind is Secret:
        assert isinstance(known, Secret)
        return known
    if kind is Each or kind is Values:
        return find_secret(known.item)
    inside = known.values() if kind is dict else known if kind is list else known.of if kind is Either else ()
    for part in inside:
        secret = find_secret(part)
        if secret is not None:
            return secret
    return None


def _any_or_secret(types: Iterable[Type]) -> Secret | None:
    """Return the type of any value; if one of these types contains a secret, so may the value."""
    secret = next(filter(None, map(find_secret, types)), None)
    return None if secret is None else Secret(secret.name)


def union_type(*types: Type) -> Type:
    """Return the type of a value that has one of these types; null if there are none."""
    if any(type_ is None for type_ in types):
        return _any_or_secret(types)
    parts = [part for type_ in types for part in (type_.of if type(type_) is Either else (type_,))] or [Lit(None)]
    distinct = list({_identity(part): part for part in parts}.values())
    if len(distinct) > _MAX_VARIANTS:
        return _any_or_secret(distinct)
    return distinct[0] if len(distinct) == 1 else Either(tuple(distinct))


def _identity(known: Type) -> Any:
    """Return equal keys for equal kinds and for equal constants, which are one variant of a union."""
    kind = type(known)
    if kind is Lit and type(known.value) in (str, int, float, bool, type(None)):
        return type(known.value), repr(known.value)
    return known if kind is int else ("", id(known))


def kinds_of(known: Type) -> int:
    """Return the kinds of JSON value that a type allows, as bits."""
    if known is None:
        return ALL
    kind = type(known)
    if kind is int:
        return int(known)
    if kind is Lit:
        return kind_of_value(known.value)
    if kind is dict or kind is Values:
        return OBJECT
    if kind is list or kind is Each:
        return ARRAY
    if kind is Sub:
        return int(known.kinds())
    if kind is Secret:
        return int(known.kinds)
    if kind is not Either:
        return ALL
    bits = 0
    for part in known.of:
        bits |= kinds_of(part)
    return bits


def kind_of_value(value: Json) -> int:
    """Return the kind of a value, as one bit."""
    if value is None:
        return NULL
    kind = type(value)
    if kind is float:
        return INTEGER if value.is_integer() else NUMBER
    return {bool: BOOLEAN, int: INTEGER, str: STRING, list: ARRAY}.get(kind, OBJECT)


def element_type(known: Type, key: str | int) -> Type | Missing:
    """Return the type of the element at a key or position."""
    kind = type(known)
    if known is None:
        return None
    if kind is Secret:
        return Secret(known.name)  # the secret may be anywhere in the value
    if kind is Sub:
        return _schema_element(known, key)
    if kind is dict:
        if type(key) is not str:
            return Missing(kinds=OBJECT)
        return known[key] if key in known else Missing(known)
    if kind is Lit:
        return _literal_element(known.value, key)
    if kind is Either:
        return _variant_element(known, key)
    if kind is int:
        return None if known == NULL or known & _container_kind(key) else Missing(kinds=known)
    if kind is Values:
        return known.item if type(key) is str else Missing(kinds=OBJECT)
    if kind is not Each and kind is not list:
        return None
    if type(key) is not int:
        return Missing(kinds=ARRAY)
    if kind is Each:
        return known.item
    return known[key] if -len(known) <= key < len(known) else None


def _schema_element(known: Sub, key: str | int) -> Type | Missing:
    is_possible, inner = known.element_type(key)
    if is_possible:
        return inner
    kinds = known.kinds()
    if kinds & (OBJECT if type(key) is str else ARRAY):
        return Missing(inner or ())
    return Missing(kinds=kinds)


def _literal_element(value: Json, key: str | int) -> Type | Missing:
    if type(value) is dict:
        if type(key) is not str:
            return Missing(kinds=OBJECT)
        return Lit(value[key]) if key in value else Missing(value)
    if type(value) is list:
        if type(key) is not int:
            return Missing(kinds=ARRAY)
        return Lit(value[key]) if -len(value) <= key < len(value) else None
    return None if value is None else Missing(kinds=kind_of_value(value))


def _variant_element(known: Either, key: str | int) -> Type | Missing:
    types: list[Type] = []
    missing: list[Missing] = []
    for variant in known.of:
        member = element_type(variant, key)
        if type(member) is Missing:
            missing.append(member)
        elif kinds_of(variant) != NULL and not _is_out_of_range(variant, key):
            types.append(member)  # null and a list that is too short do not contradict the others
    if types or not missing:
        return union_type(*types) if types else None
    names = [name for miss in missing for name in miss.known]
    bits = 0
    for miss in missing:
        bits |= miss.kinds
    return Missing(dict.fromkeys(names), 0 if names else bits)


def _is_out_of_range(known: Type, key: str | int) -> bool:
    """Return True for a list of known length that has no element at this position."""
    elements = known.value if type(known) is Lit else known
    return type(elements) is list and type(key) is int and not -len(elements) <= key < len(elements)


def merge_types(types: Iterable[Type], deep: bool) -> Type:
    """Return the type of objects merged into one; any object unless the members of each are known."""
    result: dict[str, Type] = {}
    for type_ in types:
        own_members = _members(type_)
        if own_members is None:
            return OBJECT
        for key, inner in own_members.items():
            earlier = result.get(key)
            if not deep or key not in result or not kinds_of(earlier) & OBJECT or not kinds_of(inner) & OBJECT:
                result[key] = inner
            elif _members(earlier) is not None and _members(inner) is not None:
                result[key] = merge_types((earlier, inner), deep)
            else:
                result[key] = None  # unknown: merged if both are objects, else replaced
    return result


def _members(known: Type) -> dict[str, Type] | None:
    """Return the types of an object's members if these are all of them; null has none."""
    if type(known) is Lit and (known.value is None or type(known.value) is dict):
        return {key: Lit(value) for key, value in (known.value or {}).items()}
    return known if type(known) is dict else None


def items_of(known: Type) -> Type:
    """Return the type of a list's elements."""
    kind = type(known)
    if kind is Each:
        return known.item
    if kind is list:
        return union_type(*known) if known else None
    if kind is Lit and type(known.value) is list and known.value:
        return union_type(*map(Lit, known.value))
    if kind is Sub:
        is_known, item = known.items()
        return item if is_known else None
    if kind is Either:
        lists = [variant for variant in known.of if kinds_of(variant) & ARRAY and not is_empty_list(variant)]
        return union_type(*map(items_of, lists)) if lists else None
    return Secret(known.name) if kind is Secret else None


def is_empty_list(known: Type) -> bool:
    """Return True for the type of a list that certainly has no elements."""
    return (known.value if type(known) is Lit else known) == [] if type(known) in (Lit, list) else False


def _container_kind(key: str | int) -> int:
    return OBJECT if type(key) is str else ARRAY


def describe_kinds(bits: int) -> str:
    """Describe kinds in words: `a string or a number`."""
    if bits & NUMBER and bits & INTEGER:
        bits &= ~INTEGER
    size_words = [word for bit, word in KINDS.items() if bits & bit]
    return " or ".join(size_words) if size_words else "nothing"
