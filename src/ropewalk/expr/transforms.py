"""The transforms of the documents, as expressions: MAP FILTER REDUCE FLAT_MAP GROUP_BY SORT PICK
OMIT MERGE RENAME CUSTOM.

To add one, write a builder and name it in TRANSFORM_TYPES. Refused: unknown types and keys, a
CUSTOM function that nobody registered; each as a problem with its path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import ExpressionError, Problem
from ..frozen import dataclass
from ..values import Json, closest
from .ast import NULL, Arr, Each, Expr, Fn, Lit, Ref, Var, rebind, refs
from .lift import lift
from .parser import parse
from .paths import walk
from .reshape import TRANSFORMS, unregistered

_BINDS: Final = {"item": "$item", "index": "$index", "acc": "$acc"}
_PLAIN_PATH: Final = re.compile(r"[^\W\d][\w-]*(?:\.[\w-]+|\[\s*(?:[0-9]+|\"[^\"]*\"|'[^']*')\s*\])*")


@dataclass(frozen=True, slots=True)
class _Config:
    """One transform's configuration and where its problems go."""

    values: Mapping[str, Json]
    source: Expr
    roots: frozenset[str]
    path: str
    problems: list[Problem] | None

    def say(self, key: str, message: str, suggestion: str | None = None, column: int | None = None) -> Expr:
        """Report what is wrong at `key`; null stands in."""
        where = ".".join(part for part in (self.path, key) if part)
        if self.problems is None:
            raise ExpressionError(f"{where}: {message}" if where else message, suggestion=suggestion)
        self.problems.append(Problem(path=where, message=message, suggestion=suggestion, column=column))
        return NULL

    def lifted(self, key: str, value: Json, more: frozenset[str] = frozenset()) -> Expr:
        path = f"{self.path}.{key}" if self.path else key
        return lift(value, self.roots | more, path=path, problems=self.problems)

    def body(self, key: str, names: tuple[str, ...], *, paths: bool = False) -> Expr:
        """The expression at `key`, `$item` and the like bound to the macro's names."""
        if key not in self.values:
            return self.say(key, "is required")
        return self.bound(key, self.values[key], names, paths)

    def bound(self, key: str, value: Json, names: tuple[str, ...], paths: bool = False) -> Expr:
        own = frozenset(name[1:] for name in names)
        if type(value) is str:
            tree = self._expression(key, value, own, paths)
        else:
            tree = self.lifted(key, value, own)
        return rebind(tree, lambda ref: Var(_BINDS[ref.root], ref.path) if ref.root in own else ref)

    def _expression(self, key: str, text: str, own: frozenset[str], paths: bool) -> Expr:
        if paths and (tree := _path_of_item(text)) is not None:
            return tree
        try:
            tree = parse(text)
        except ExpressionError as error:
            return self.say(key, error.message, error.suggestion, error.at + 1)
        for ref in refs(tree):
            if ref.root not in self.roots | own or (ref.root == "acc" and "acc" not in own):
                return self.say(key, f"${ref.root} is not known here", column=ref.column)
        return tree


def _path_of_item(text: str) -> Expr | None:
    """`price` and `address.city` mean fields of the element; `item.price` is an expression."""
    if not _PLAIN_PATH.fullmatch(text) or text.startswith(("item.", "item[")):
        return None
    path, end = walk(f".{text}", 0, state=False, loose=True)
    return Ref("item", path) if end == len(text) + 1 else None


def transform_expr(
    spec: Json,
    source: Expr,
    *,
    roots: frozenset[str],
    path: str = "",
    problems: list[Problem] | None = None,
) -> Expr:
    """The expression of one transform `{type, config}` applied to `source`; every problem has its
    path below `path`. The type is read in any letter case."""
    given = _Config({}, source, roots, path, problems)
    if type(spec) is not dict or type(spec.get("type")) is not str:
        return given.say("type", "a transform needs a type")
    if spec["type"].upper() not in TRANSFORM_TYPES:
        near = closest(spec["type"].upper(), TRANSFORM_TYPES)
        known = "" if near else f"; there are {', '.join(TRANSFORM_TYPES)}"
        return given.say("type", f"unknown transform {spec['type']!r}{known}", near)
    for key in spec:
        if key not in ("type", "config"):
            given.say(key, "unknown key", closest(key, ("type", "config")))
    config = spec.get("config", {})
    if type(config) is not dict:
        return given.say("config", "must be an object")
    inside = f"{path}.config" if path else "config"
    return configured(spec["type"], config, source, roots=roots, path=inside, problems=problems)


def configured(
    kind: str,
    config: Mapping[str, Json],
    source: Expr,
    *,
    roots: frozenset[str],
    path: str = "",
    problems: list[Problem] | None = None,
) -> Expr:
    """The same for a type that is known and settings of which each has its path below `path`."""
    kind = kind.upper()
    given = _Config(config, source, roots, path, problems)
    for key in config:
        if key not in _KEYS[kind]:
            near = closest(key, _KEYS[kind])
            given.say(key, f"{kind} has no such setting" + ("" if near else f", but {' and '.join(_KEYS[kind])}"), near)
    return TRANSFORM_TYPES[kind](given)


def _per_item(kind: str) -> Callable[[_Config], Expr]:
    def build(config: _Config) -> Expr:
        names = ("$item", "$index")
        return Each(kind, config.source, names, config.body("expression", names))

    return build


def _reduce(config: _Config) -> Expr:
    names = ("$item", "$acc", "$index")
    initial = config.lifted("initial", config.values.get("initial"))
    return Each("reduce", config.source, names, config.body("expression", names), (initial,))


def _group_by(config: _Config) -> Expr:
    names = ("$item", "$index")
    return Each("group_by", config.source, names, config.body("key", names, paths=True))


def _sort(config: _Config) -> Expr:
    names = ("$item", "$index")
    order = config.values.get("order", "asc")
    if type(order) is not str or order.lower() not in ("asc", "desc"):
        return config.say("order", 'must be "asc" or "desc"', closest(str(order).lower(), ("asc", "desc")))
    by = config.values.get("by")
    body: Expr
    if by is None:
        body = Var("$item")
    elif type(by) is list:
        body = Arr(tuple(config.bound(f"by[{i}]", one, names, paths=True) for i, one in enumerate(by)))
    else:
        body = config.body("by", names, paths=True)
    return Each("sort", config.source, names, body, (Lit(order.lower()),))


def _fields(name: str) -> Callable[[_Config], Expr]:
    def build(config: _Config) -> Expr:
        fields = config.values.get("fields")
        if type(fields) is str:
            fields = [fields]
        if type(fields) is not list or not all(type(field) is str and field for field in fields):
            return config.say("fields", "must be a list of field names")
        return Fn(name, (config.source, Lit(fields)))

    return build


def _merge(config: _Config) -> Expr:
    if "with" not in config.values:
        return config.say("with", "is required")
    deep = config.values.get("deep", False)
    if type(deep) is not bool:
        return config.say("deep", "must be true or false")
    return Fn("deep_merge" if deep else "merge", (config.source, config.lifted("with", config.values["with"])))


def _rename(config: _Config) -> Expr:
    fields = config.values.get("fields")
    if type(fields) is not dict or not all(type(new) is str for new in fields.values()):
        return config.say("fields", "must be an object of old and new names")
    return Fn("rename", (config.source, Lit(fields)))


def _custom(config: _Config) -> Expr:
    name = config.values.get("function")
    if type(name) is not str:
        return config.say("function", "must be the name of a function registered with @transform")
    if name not in TRANSFORMS:
        return config.say("function", *unregistered(name))
    return Fn("custom", (Lit(name), config.source))


TRANSFORM_TYPES: Final[dict[str, Callable[[Any], Expr]]] = {
    "MAP": _per_item("map"),
    "FILTER": _per_item("filter"),
    "REDUCE": _reduce,
    "FLAT_MAP": _per_item("flat_map"),
    "GROUP_BY": _group_by,
    "SORT": _sort,
    "PICK": _fields("pick"),
    "OMIT": _fields("omit"),
    "MERGE": _merge,
    "RENAME": _rename,
    "CUSTOM": _custom,
}
"""Every transform type, and what builds its expression."""

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "MAP": ("expression",),
    "FILTER": ("expression",),
    "FLAT_MAP": ("expression",),
    "REDUCE": ("expression", "initial"),
    "GROUP_BY": ("key",),
    "SORT": ("by", "order"),
    "PICK": ("fields",),
    "OMIT": ("fields",),
    "MERGE": ("with", "deep"),
    "RENAME": ("fields",),
    "CUSTOM": ("function",),
}
