"""Convert flows and expressions to JSON and back, and compute the fingerprint of a flow.

The document is self-contained JSON: `{"ropewalk": 1, "name": .., "body": 2, "regions": [..]}`. Regions are in one flat
list, inner ones first, and a field that holds a region has its position in that list. So a document is never deep,
however deep the flow is nested. Fields with their default value are left out.

Readers are made from the types of dataclass fields, so a new op needs no edit here: list it in `ops.OPS`. Unknown
versions, ops and keys are refused, and so are values of a wrong type and expressions nested deeper than 100 levels.
Every error has its place.
"""

from __future__ import annotations

import dataclasses
import hashlib
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from .errors import InvalidFlow, InvalidValue, Problem
from .expr.ast import Arr, Each, Expr, Fn, Lit, Obj, Ref, Var
from .ir import DERIVED, Flow, Graph, Op
from .journal.ledger import limit_problem
from .ops import OPS
from .values import Json, canonical, check_json, did_you_mean

VERSION: Final = 1
MAX_EXPRESSION_DEPTH: Final = 100
REQUIRED: Final = object()
EXPRESSIONS: Final = frozenset({Lit, Ref, Var, Obj, Arr, Fn, Each})


def _fields(kind: Any) -> list[dataclasses.Field[Any]]:
    """Return the fields of a dataclass that documents have."""
    return [field for field in dataclasses.fields(kind) if field.metadata != DERIVED]


@cache
def field_specs(kind: Any) -> tuple[tuple[str, Any, bool, bool], ...]:
    """Describe the fields of a dataclass for the codec."""
    hints = typing.get_type_hints(kind)
    specs = []
    for f in _fields(kind):
        default = f.default
        if default is dataclasses.MISSING:
            default = f.default_factory() if f.default_factory is not dataclasses.MISSING else REQUIRED
        specs.append((f.name, default, hints[f.name] is Any, hints[f.name] is Op))
    return tuple(specs)


def set_fields(value: Any) -> list[str]:
    """Name the fields of an instance that differ from their defaults."""
    kind: Any = type(value)
    specs = field_specs(kind) if hasattr(kind, "__dataclass_fields__") else ()
    return [name for name, default, _, _ in specs if default is REQUIRED or getattr(value, name) != default]


class Reader:
    """Reads one document."""

    # `regions` holds the regions read so far, because a region can contain only earlier ones.

    def __init__(self) -> None:
        self.regions: list[Graph | None] = []

    def flow(self, document: Json) -> Flow:
        """Read a flow document."""
        if type(document) is not dict or "ropewalk" not in document:
            raise _error("", "not a flow document: it has no key 'ropewalk'")
        if document["ropewalk"] != VERSION:
            raise _error("ropewalk", f"only documents of version {VERSION} are supported, not {document['ropewalk']!r}")
        regions = document.get("regions")
        if type(regions) is not list:
            raise _error("regions", "must be a list")
        for i, region in enumerate(regions):
            graph = self.record(Graph, region, f"regions[{i}]")
            self.regions.append(graph)
        flow_fields = {key: value for key, value in document.items() if key not in ("ropewalk", "regions")}
        flow: Flow = self.record(Flow, flow_fields, "")
        for name, limit in (flow.budget or {}).items():
            if message := limit_problem(name, limit):
                raise _error(f"budget.{name}", message)
        return flow

    def record(self, kind: Any, doc: Json, place: str) -> Any:
        """Read a dataclass from an object with its fields."""
        if type(doc) is not dict:
            raise _error(place, f"must be an object, not {_type_name(doc)}")
        readers = _readers(kind)
        arguments: dict[str, Any] = {}
        for key, value in doc.items():
            read_field = readers.get(key)
            if read_field is None:
                raise _error(_join(place, key), f"unknown key for {kind.__name__}", did_you_mean(str(key), readers))
            arguments[key] = read_field(self, value, _join(place, key))
        try:
            return kind(**arguments)
        except TypeError as error:
            raise _error(place, f"{kind.__name__} needs {', '.join(_required(kind) - set(arguments))}") from error

    def op(self, doc: Json, at: str) -> Any:
        """Read an op from an object with its `kind` and its fields."""
        if type(doc) is not dict or type(doc.get("kind")) is not str:
            raise _error(at, "must be an object with a 'kind'")
        kind = OPS.get(doc["kind"])
        if kind is None:
            raise _error(f"{at}.kind", f"unknown kind of node {doc['kind']!r}", did_you_mean(doc["kind"], OPS))
        return self.record(kind, {key: value for key, value in doc.items() if key != "kind"}, at)

    def graph(self, doc: Json, at: str) -> Graph:
        """Take a region that was read earlier."""
        if type(doc) is not int or not 0 <= doc < len(self.regions):
            raise _error(at, "must be the position of an earlier region")
        graph, self.regions[doc] = self.regions[doc], None
        if graph is None:
            raise _error(at, f"region {doc} is used twice; a region can be in one place only")
        return graph

    def expr(self, doc: Json, at: str, depth: int = 0) -> Expr:
        """Read an expression."""
        if depth > MAX_EXPRESSION_DEPTH:
            raise _error(at, f"expression nested deeper than {MAX_EXPRESSION_DEPTH}")
        if type(doc) is not dict:
            raise _error(at, f"must be an expression object, not {_type_name(doc)}")
        for tag, read in _TAGS.items():
            if tag in doc:
                return read(self, doc, at, depth + 1)
        raise _error(at, f"must have one of the keys {', '.join(_TAGS)}")

    def exprs(self, doc: Json, at: str, depth: int) -> tuple[Expr, ...]:
        """Read a list of expressions."""
        return tuple(self.expr(item, f"{at}[{i}]", depth) for i, item in enumerate(_require_list(doc, at)))


def _read_ref(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _check_keys(doc, at, "ref", "elide", "column")
    root, path = _named_path(doc["ref"], f"{at}.ref")
    elide = doc.get("elide", False)
    if type(elide) is not bool:
        raise _error(f"{at}.elide", "must be true or false")
    return Ref(root, path, elide, _column(doc, at))


def _read_var(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _check_keys(doc, at, "var")
    return Var(*_named_path(doc["var"], f"{at}.var"))


def _read_lit(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _check_keys(doc, at, "lit")
    return Lit(_json(doc["lit"], f"{at}.lit"))


def _read_obj(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _check_keys(doc, at, "obj")
    fields = []
    for i, pair in enumerate(_require_list(doc["obj"], f"{at}.obj")):
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:
            raise _error(f"{at}.obj[{i}]", "must be a pair of key and expression")
        fields.append((pair[0], reader.expr(pair[1], f"{at}.obj[{i}][1]", depth)))
    return Obj(tuple(fields))


def _read_arr(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _check_keys(doc, at, "arr")
    return Arr(reader.exprs(doc["arr"], f"{at}.arr", depth))


def _read_fn(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _check_keys(doc, at, "fn", "args", "column")
    args = reader.exprs(doc.get("args"), f"{at}.args", depth)
    return Fn(_string(reader, doc["fn"], f"{at}.fn"), args, _column(doc, at))


def _read_each(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _check_keys(doc, at, "each", "source", "names", "body", "extra", "column")
    return Each(
        kind=_string(reader, doc["each"], f"{at}.each"),
        source=reader.expr(doc.get("source"), f"{at}.source", depth),
        names=tuple(_string(reader, n, f"{at}.names") for n in _require_list(doc.get("names"), f"{at}.names")),
        body=reader.expr(doc.get("body"), f"{at}.body", depth),
        extra=reader.exprs(doc.get("extra", []), f"{at}.extra", depth),
        column=_column(doc, at),
    )


_TAGS: Final[dict[str, Callable[[Reader, Json, str, int], Expr]]] = {
    "ref": _read_ref,
    "lit": _read_lit,
    "obj": _read_obj,
    "var": _read_var,
    "arr": _read_arr,
    "fn": _read_fn,
    "each": _read_each,
}

_Read: typing.TypeAlias = Callable[[Reader, Json, str], Any]


@cache
def _readers(kind: Any) -> Mapping[str, _Read]:
    hints = typing.get_type_hints(kind)
    return {f.name: _reader_of(hints[f.name]) for f in _fields(kind)}


def _required(kind: Any) -> set[str]:
    return {name for name, default, _, _ in field_specs(kind) if default is REQUIRED}


def _reader_of(hint: Any) -> _Read:
    """Make the reader of a field from its type."""
    if hint is Any:
        return lambda reader, doc, at: _json(doc, at)
    if hint is Op:
        return Reader.op
    if hint is Graph:
        return Reader.graph
    if hint in _SCALARS:
        return _SCALARS[hint]

    # A union is an expression, or one type or null.
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        members = set(args) - {type(None)}
        if members != EXPRESSIONS and len(members) > 1:
            raise TypeError(f"cannot read {hint}")
        read: _Read = Reader.expr if members == EXPRESSIONS else _reader_of(members.pop())
        if type(None) not in args:
            return read
        return lambda reader, doc, at: None if doc is None else read(reader, doc, at)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        read_item = _reader_of(args[0])
        return lambda reader, doc, at: tuple(
            read_item(reader, item, f"{at}[{i}]") for i, item in enumerate(_require_list(doc, at))
        )
    if origin is tuple:
        return _tuple_reader(tuple(map(_reader_of, args)))
    if origin is frozenset:
        read_item = _reader_of(args[0])
        return lambda reader, doc, at: frozenset(read_item(reader, item, at) for item in _require_list(doc, at))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        read_value = _reader_of(args[1])
        return lambda reader, doc, at: {
            k: read_value(reader, v, _join(at, k)) for k, v in _require_object(doc, at).items()
        }
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        kind = hint
        return lambda reader, doc, at: reader.record(kind, doc, at)
    raise TypeError(f"cannot read {hint}")


def _tuple_reader(readers: tuple[_Read, ...]) -> _Read:
    def read(reader: Reader, doc: Json, at: str) -> Any:
        if len(_require_list(doc, at)) != len(readers):
            raise _error(at, f"must have {len(readers)} elements")
        return tuple(
            read_item(reader, item, f"{at}[{i}]") for i, (read_item, item) in enumerate(zip(readers, doc, strict=True))
        )

    return read


def _string(reader: Reader, doc: Json, at: str) -> str:
    if type(doc) is not str:
        raise _error(at, f"must be a string, not {_type_name(doc)}")
    return doc


def _boolean(reader: Reader, doc: Json, at: str) -> bool:
    if type(doc) is not bool:
        raise _error(at, f"must be true or false, not {_type_name(doc)}")
    return doc


def _integer(reader: Reader, doc: Json, at: str) -> int:
    if type(doc) is not int:
        raise _error(at, f"must be an integer, not {_type_name(doc)}")
    return doc


def _number(reader: Reader, doc: Json, at: str) -> float:
    if type(doc) not in (int, float):
        raise _error(at, f"must be a number, not {_type_name(doc)}")
    return typing.cast(float, doc)


_SCALARS: Final[dict[Any, _Read]] = {str: _string, bool: _boolean, int: _integer, float: _number}


def _json(doc: Json, at: str) -> Json:
    try:
        return check_json(doc, at)
    except InvalidValue as error:
        raise _error(error.place, error.message) from error


def _require_list(doc: Json, at: str) -> list[Json]:
    if type(doc) is not list:
        raise _error(at, f"must be a list, not {_type_name(doc)}")
    return doc


def _require_object(doc: Json, at: str) -> dict[str, Json]:
    if type(doc) is not dict:
        raise _error(at, f"must be an object, not {_type_name(doc)}")
    return doc


def _named_path(doc: Json, at: str) -> tuple[str, tuple[str | int, ...]]:
    name, *path = _require_list(doc, at) or [None]
    if type(name) is not str or any(type(key) not in (str, int) for key in path):
        raise _error(at, "must be a list of a name, then keys and positions")
    return name, tuple(path)


def _column(doc: dict[str, Json], at: str) -> int:
    return _integer(typing.cast(Any, None), doc.get("column", 1), f"{at}.column")


def _check_keys(doc: dict[str, Json], at: str, *known: str) -> None:
    for key in doc:
        if key not in known:
            raise _error(_join(at, key), f"unknown key next to {known[0]!r}", did_you_mean(str(key), known))


def _error(at: str, message: str, suggestion: str | None = None) -> InvalidFlow:
    return InvalidFlow([Problem(path=at, message=message, suggestion=suggestion)])


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else str(key)


def _type_name(doc: Json) -> str:
    return {dict: "an object", list: "a list", str: "a string", type(None): "null"}.get(type(doc), f"{doc!r}")


class Writer:
    """Writes values as JSON."""

    def __init__(self, *, for_fingerprint: bool) -> None:
        self.for_fingerprint = for_fingerprint
        self.regions: list[Json] = []

    def value(self, value: Any) -> Json:
        """Write a member of a flow as JSON."""
        kind = type(value)
        if value is None or kind in (str, int, float, bool):
            return value
        if kind in EXPRESSIONS:
            return self.expr(value, 0)
        if kind is Graph:
            # Inner regions first: numbering after the walk puts them before this one.
            region = self.record(value)
            self.regions.append(region)
            return len(self.regions) - 1
        if kind is tuple:
            return [self.value(item) for item in value]
        if kind is frozenset:
            return sorted(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        if dataclasses.is_dataclass(value):
            return self.record(value)
        raise TypeError(f"cannot write {kind.__qualname__}")

    def record(self, value: Any) -> dict[str, Json]:
        """Write the fields of a dataclass that differ from their defaults."""
        kind: Any = type(value)
        fields: dict[str, Json] = {}
        for name, default, holds_json, is_op in field_specs(kind):
            member = getattr(value, name)
            if member is default or (name == "meta" and self.for_fingerprint):
                continue
            if holds_json:
                if member != default or type(member) is not type(default):
                    fields[name] = member
            elif is_op:
                fields[name] = {"kind": type(member).__name__, **self.record(member)}
            elif default is REQUIRED or member != default:
                fields[name] = self.value(member)
        return fields

    def expr(self, expr: Expr, depth: int) -> dict[str, Json]:
        """Write an expression as JSON."""
        if depth > MAX_EXPRESSION_DEPTH:
            message = f"expression nested deeper than {MAX_EXPRESSION_DEPTH}"
            raise InvalidFlow([Problem(path="", message=message)])
        depth += 1

        # The key of the object is the tag under which `Reader.expr` finds its reader.
        if isinstance(expr, Ref):
            fields: dict[str, Json] = {"ref": [expr.root, *expr.path]}
            if expr.elide:
                fields["elide"] = True
        elif isinstance(expr, Lit):
            return {"lit": expr.value}
        elif isinstance(expr, Obj):
            if self.for_fingerprint:  # the last of equal keys wins, as in a run
                return {"obj": {key: self.expr(inner, depth) for key, inner in expr.fields}}
            return {"obj": [[key, self.expr(inner, depth)] for key, inner in expr.fields]}
        elif isinstance(expr, Var):
            return {"var": [expr.name, *expr.path]}
        elif isinstance(expr, Arr):
            return {"arr": [self.expr(item, depth) for item in expr.items]}
        elif isinstance(expr, Fn):
            fields = {"fn": expr.name, "args": [self.expr(arg, depth) for arg in expr.args]}
        else:
            fields = {
                "each": expr.kind,
                "source": self.expr(expr.source, depth),
                "names": list(expr.names),
                "body": self.expr(expr.body, depth),
            }
            if expr.extra:
                fields["extra"] = [self.expr(inner, depth) for inner in expr.extra]
        if expr.column != 1 and not self.for_fingerprint:
            fields["column"] = expr.column
        return fields


def flow_to_json(flow: Flow) -> dict[str, Json]:
    """Return a flow as a JSON document, from which `flow_from_json` makes an equal flow."""
    return _document(flow, Writer(for_fingerprint=False))


def flow_from_json(doc: Json) -> Flow:
    """Read a flow from its document."""

    # `check` finds wrong flows; only the form is checked here.
    return Reader().flow(doc)


def expr_to_json(expr: Expr) -> dict[str, Json]:
    """Return an expression as JSON, in the form of a flow document."""
    return Writer(for_fingerprint=False).expr(expr, 0)


def expr_from_json(doc: Json) -> Expr:
    """Read the expression that `expr_to_json` wrote."""
    return Reader().expr(doc, "")


def fingerprint(flow: Flow) -> str:
    """Identify what a flow does."""

    # The result is computed once per flow.
    # Meta, positions in expression texts and the order of object keys do not count.
    digest: str | None = flow.__dict__.get("_fingerprint")
    if digest is None:
        document = _document(flow, Writer(for_fingerprint=True))
        try:
            text = canonical(document)
        except TypeError as error:  # raised by orjson for a value that is not JSON, or too deep
            raise InvalidFlow([Problem(path="", message=f"a value in the flow is not JSON: {error}")]) from error
        digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        # Flows are frozen, so the result stays valid.
        flow.__dict__["_fingerprint"] = digest
    return digest


def _document(flow: Flow, writer: Writer) -> dict[str, Json]:
    doc: dict[str, Json] = {"ropewalk": VERSION, **writer.record(flow)}
    doc["regions"] = writer.regions
    return doc
