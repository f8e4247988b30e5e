"""JSON -> Flow: one reader per field, made from the field's type; every error has its place."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from ..errors import InvalidFlow, InvalidValue, Problem
from ..expr.ast import Arr, Each, Expr, Fn, Lit, Obj, Ref, Var
from ..ir import Flow, Graph, Op
from ..ops import OPS
from ..values import Json, check_json, closest
from .shape import EXPRESSIONS, MAX_EXPRESSION_DEPTH, NONE, VERSION, fields_of


class Reader:
    """Reads one document. `regions` holds those read so far: a region can only hold earlier ones."""

    def __init__(self) -> None:
        self.regions: list[Graph | None] = []

    def flow(self, doc: Json) -> Flow:
        if type(doc) is not dict or "ropewalk" not in doc:
            raise _wrong("", "not a flow document: it has no key 'ropewalk'")
        if doc["ropewalk"] != VERSION:
            raise _wrong("ropewalk", f"this version reads documents of version {VERSION}, not {doc['ropewalk']!r}")
        regions = doc.get("regions")
        if type(regions) is not list:
            raise _wrong("regions", "must be a list")
        for i, region in enumerate(regions):
            graph = self.record(Graph, region, f"regions[{i}]")
            self.regions.append(graph)
        rest = {key: value for key, value in doc.items() if key not in ("ropewalk", "regions")}
        flow: Flow = self.record(Flow, rest, "")
        return flow

    def record(self, kind: Any, doc: Json, at: str) -> Any:
        """A dataclass from its written fields."""
        if type(doc) is not dict:
            raise _wrong(at, f"must be an object, not {_name(doc)}")
        readers = _readers(kind)
        given: dict[str, Any] = {}
        for key, value in doc.items():
            read = readers.get(key)
            if read is None:
                raise _wrong(_join(at, key), f"unknown key for {kind.__name__}", closest(str(key), readers))
            given[key] = read(self, value, _join(at, key))
        try:
            return kind(**given)
        except TypeError as missing:
            raise _wrong(at, f"{kind.__name__} lacks {', '.join(_required(kind) - set(given))}") from missing

    def op(self, doc: Json, at: str) -> Any:
        if type(doc) is not dict or type(doc.get("kind")) is not str:
            raise _wrong(at, "must be an object with a 'kind'")
        kind = OPS.get(doc["kind"])
        if kind is None:
            raise _wrong(f"{at}.kind", f"unknown kind of node {doc['kind']!r}", closest(doc["kind"], OPS))
        return self.record(kind, {key: value for key, value in doc.items() if key != "kind"}, at)

    def graph(self, doc: Json, at: str) -> Graph:
        if type(doc) is not int or not 0 <= doc < len(self.regions):
            raise _wrong(at, "must be the position of an earlier region")
        graph, self.regions[doc] = self.regions[doc], None
        if graph is None:
            raise _wrong(at, f"region {doc} is already used: a region has one place")
        return graph

    def expr(self, doc: Json, at: str, depth: int = 0) -> Expr:
        if depth > MAX_EXPRESSION_DEPTH:
            raise _wrong(at, f"expression nested deeper than {MAX_EXPRESSION_DEPTH}")
        if type(doc) is not dict:
            raise _wrong(at, f"must be an expression object, not {_name(doc)}")
        for tag, read in _TAGS.items():
            if tag in doc:
                return read(self, doc, at, depth + 1)
        raise _wrong(at, f"must have one of the keys {', '.join(_TAGS)}")

    def exprs(self, doc: Json, at: str, depth: int) -> tuple[Expr, ...]:
        return tuple(self.expr(item, f"{at}[{i}]", depth) for i, item in enumerate(_list(doc, at)))


def _read_ref(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _keys(doc, at, "ref", "elide", "column")
    root, path = _named_path(doc["ref"], f"{at}.ref")
    elide = doc.get("elide", False)
    if type(elide) is not bool:
        raise _wrong(f"{at}.elide", "must be true or false")
    return Ref(root, path, elide, _column(doc, at))


def _read_var(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _keys(doc, at, "var")
    return Var(*_named_path(doc["var"], f"{at}.var"))


def _read_lit(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _keys(doc, at, "lit")
    return Lit(_plain(doc["lit"], f"{at}.lit"))


def _read_obj(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _keys(doc, at, "obj")
    fields = []
    for i, pair in enumerate(_list(doc["obj"], f"{at}.obj")):
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) is not str:
            raise _wrong(f"{at}.obj[{i}]", "must be a pair of key and expression")
        fields.append((pair[0], reader.expr(pair[1], f"{at}.obj[{i}][1]", depth)))
    return Obj(tuple(fields))


def _read_arr(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _keys(doc, at, "arr")
    return Arr(reader.exprs(doc["arr"], f"{at}.arr", depth))


def _read_fn(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _keys(doc, at, "fn", "args", "column")
    args = reader.exprs(doc.get("args"), f"{at}.args", depth)
    return Fn(_text(reader, doc["fn"], f"{at}.fn"), args, _column(doc, at))


def _read_each(reader: Reader, doc: Json, at: str, depth: int) -> Expr:
    _keys(doc, at, "each", "source", "names", "body", "extra", "column")
    return Each(
        kind=_text(reader, doc["each"], f"{at}.each"),
        source=reader.expr(doc.get("source"), f"{at}.source", depth),
        names=tuple(_text(reader, n, f"{at}.names") for n in _list(doc.get("names"), f"{at}.names")),
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
    return {f.name: _reader_of(hints[f.name]) for f in dataclasses.fields(kind)}


def _required(kind: Any) -> set[str]:
    return {name for name, default, _, _ in fields_of(kind) if default is NONE}


def _reader_of(hint: Any) -> _Read:
    """What reads a field of this type."""
    if hint is Any:
        return lambda reader, doc, at: _plain(doc, at)
    if hint is Op:
        return Reader.op
    if hint is Graph:
        return Reader.graph
    if hint in _SCALARS:
        return _SCALARS[hint]
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
        each = _reader_of(args[0])
        return lambda reader, doc, at: tuple(each(reader, item, f"{at}[{i}]") for i, item in enumerate(_list(doc, at)))
    if origin is tuple:
        return _tuple_reader(tuple(map(_reader_of, args)))
    if origin is frozenset:
        one = _reader_of(args[0])
        return lambda reader, doc, at: frozenset(one(reader, item, at) for item in _list(doc, at))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        value = _reader_of(args[1])
        return lambda reader, doc, at: {k: value(reader, v, _join(at, k)) for k, v in _object(doc, at).items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        kind = hint
        return lambda reader, doc, at: reader.record(kind, doc, at)
    raise TypeError(f"cannot read {hint}")


def _tuple_reader(each: tuple[_Read, ...]) -> _Read:
    def read(reader: Reader, doc: Json, at: str) -> Any:
        if len(_list(doc, at)) != len(each):
            raise _wrong(at, f"must have {len(each)} elements")
        return tuple(one(reader, item, f"{at}[{i}]") for i, (one, item) in enumerate(zip(each, doc, strict=True)))

    return read


def _text(reader: Reader, doc: Json, at: str) -> str:
    if type(doc) is not str:
        raise _wrong(at, f"must be a string, not {_name(doc)}")
    return doc


def _flag(reader: Reader, doc: Json, at: str) -> bool:
    if type(doc) is not bool:
        raise _wrong(at, f"must be true or false, not {_name(doc)}")
    return doc


def _whole(reader: Reader, doc: Json, at: str) -> int:
    if type(doc) is not int:
        raise _wrong(at, f"must be a whole number, not {_name(doc)}")
    return doc


def _number(reader: Reader, doc: Json, at: str) -> float:
    if type(doc) not in (int, float):
        raise _wrong(at, f"must be a number, not {_name(doc)}")
    return typing.cast(float, doc)


_SCALARS: Final[dict[Any, _Read]] = {str: _text, bool: _flag, int: _whole, float: _number}


def _plain(doc: Json, at: str) -> Json:
    try:
        return check_json(doc, at)
    except InvalidValue as wrong:
        raise _wrong(wrong.place, wrong.message) from wrong


def _list(doc: Json, at: str) -> list[Json]:
    if type(doc) is not list:
        raise _wrong(at, f"must be a list, not {_name(doc)}")
    return doc


def _object(doc: Json, at: str) -> dict[str, Json]:
    if type(doc) is not dict:
        raise _wrong(at, f"must be an object, not {_name(doc)}")
    return doc


def _named_path(doc: Json, at: str) -> tuple[str, tuple[str | int, ...]]:
    name, *path = _list(doc, at) or [None]
    if type(name) is not str or any(type(key) not in (str, int) for key in path):
        raise _wrong(at, "must be a list of a name, then keys and positions")
    return name, tuple(path)


def _column(doc: dict[str, Json], at: str) -> int:
    return _whole(typing.cast(Any, None), doc.get("column", 1), f"{at}.column")


def _keys(doc: dict[str, Json], at: str, *known: str) -> None:
    for key in doc:
        if key not in known:
            raise _wrong(_join(at, key), f"unknown key beside {known[0]!r}", closest(str(key), known))


def _wrong(at: str, message: str, suggestion: str | None = None) -> InvalidFlow:
    return InvalidFlow([Problem(path=at, message=message, suggestion=suggestion)])


def _join(at: str, key: str) -> str:
    return f"{at}.{key}" if at else str(key)


def _name(doc: Json) -> str:
    return {dict: "an object", list: "a list", str: "a string", type(None): "null"}.get(type(doc), f"{doc!r}")
