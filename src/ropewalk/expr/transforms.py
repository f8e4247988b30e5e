"""Compile the transforms of documents to expressions: MAP FILTER REDUCE FLAT_MAP GROUP_BY SORT PICK
OMIT MERGE RENAME CUSTOM.

To add one, write a builder and add it to TRANSFORM_TYPES. Unknown types and keys, and CUSTOM functions
that are not registered, are problems with their path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..errors import ExpressionError, Problem
from ..fast_dataclass import dataclass
from ..values import Json, did_you_mean
from .ast import NULL, Arr, Each, Expr, Fn, Lit, Ref, Var, rebind, refs
from .lift import lift
from .parser import parse
from .reference_paths import read_path
from .reshape import TRANSFORMS, unregistered_message

_BINDS: Final = {"item": "$item", "index": "$index", "acc": "$acc"}
_PLAIN_PATH: Final = re.compile(r"[^\W\d][\w-]*(?:\.[\w-]+|\[\s*(?:[0-9]+|\"[^\"]*\"|'[^']*')\s*\])*")


@dataclass(frozen=True, slots=True)
class _Config:
    """The configuration of one transform, and the list that collects its problems."""

    values: Mapping[str, Json]
    source: Expr
    roots: frozenset[str]
    path: str
    problems: list[Problem] | None

    def report(self, key: str, message: str, suggestion: str | None = None, column: int | None = None) -> Expr:
        """Report a problem at `key`, and return null in its place."""
        where = ".".join(part for part in (self.path, key) if part)
        if self.problems is None:
            raise ExpressionError(f"{where}: {message}" if where else message, suggestion=suggestion)
        self.problems.append(Problem(path=where, message=message, suggestion=suggestion, column=column))
        return NULL

    def lift_value(self, key: str, value: Json, more: frozenset[str] = frozenset()) -> Expr:
        path = f"{self.path}.{key}" if self.path else key
        return lift(value, self.roots | more, path=path, problems=self.problems)

    def body(self, key: str, names: tuple[str, ...], *, paths: bool = False) -> Expr:
        """Compile the expression at `key`, with `$item` and the like bound to the macro's names."""
        if key not in self.values:
            return self.report(key, "is required")
        return self.bind_items(key, self.values[key], names, paths)

    def bind_items(self, key: str, value: Json, names: tuple[str, ...], paths: bool = False) -> Expr:
        bound_roots = frozenset(name[1:] for name in names)
        if type(value) is str:
            tree = self._expression(key, value, bound_roots, paths)
        else:
            tree = self.lift_value(key, value, bound_roots)
        return rebind(tree, lambda ref: Var(_BINDS[ref.root], ref.path) if ref.root in bound_roots else ref)

    def _expression(self, key: str, text: str, bound_roots: frozenset[str], paths: bool) -> Expr:
        if paths and (tree := _path_of_item(text)) is not None:
            return tree
        try:
            tree = parse(text)
        except ExpressionError as error:
            return self.report(key, error.message, error.suggestion, error.at + 1)
        for ref in refs(tree):
            if ref.root not in self.roots | bound_roots or (ref.root == "acc" and "acc" not in bound_roots):
                return self.report(key, f"${ref.root} is not known here", column=ref.column)
        return tree


def _path_of_item(text: str) -> Expr | None:
    """Return the field of the element that a plain path such as `price` or `address.city` names."""
    if not _PLAIN_PATH.fullmatch(text) or text.startswith(("item.", "item[")):
        return None
    path, end = read_path(f".{text}", 0, state=False, loose=True)
    return Ref("item", path) if end == len(text) + 1 else None


def transform_expr(
    spec: Json,
    source: Expr,
    *,
    roots: frozenset[str],
    path: str = "",
    problems: list[Problem] | None = None,
) -> Expr:
    """Compile a transform `{type, config}` of a source."""
    reporter = _Config({}, source, roots, path, problems)
    if type(spec) is not dict or type(spec.get("type")) is not str:
        return reporter.report("type", "a transform needs a type")
    if spec["type"].upper() not in TRANSFORM_TYPES:
        suggestion = did_you_mean(spec["type"].upper(), TRANSFORM_TYPES)
        known = "" if suggestion else f"; expected one of: {', '.join(TRANSFORM_TYPES)}"
        return reporter.report("type", f"unknown transform {spec['type']!r}{known}", suggestion)
    for key in spec:
        if key not in ("type", "config"):
            reporter.report(key, "unknown key", did_you_mean(key, ("type", "config")))
    config = spec.get("config", {})
    if type(config) is not dict:
        return reporter.report("config", "must be an object")
    inside = f"{path}.config" if path else "config"
    return configure_transform(spec["type"], config, source, roots=roots, path=inside, problems=problems)


def configure_transform(
    kind: str,
    config: Mapping[str, Json],
    source: Expr,
    *,
    roots: frozenset[str],
    path: str = "",
    problems: list[Problem] | None = None,
) -> Expr:
    """Compile a transform of a known type."""
    kind = kind.upper()
    settings = _Config(config, source, roots, path, problems)
    for key in config:
        if key not in _KEYS[kind]:
            suggestion = did_you_mean(key, _KEYS[kind])
            settings.report(
                key,
                f"{kind} has no such setting" + ("" if suggestion else f"; expected {' or '.join(_KEYS[kind])}"),
                suggestion,
            )
    return TRANSFORM_TYPES[kind](settings)


def _per_item(kind: str) -> Callable[[_Config], Expr]:
    def build(config: _Config) -> Expr:
        names = ("$item", "$index")
        return Each(kind, config.source, names, config.body("expression", names))

    return build


def _reduce(config: _Config) -> Expr:
    names = ("$item", "$acc", "$index")
    initial = config.lift_value("initial", config.values.get("initial"))
    return Each("reduce", config.source, names, config.body("expression", names), (initial,))


def _group_by(config: _Config) -> Expr:
    names = ("$item", "$index")
    return Each("group_by", config.source, names, config.body("key", names, paths=True))


def _sort(config: _Config) -> Expr:
    names = ("$item", "$index")
    order = config.values.get("order", "asc")
    if type(order) is not str or order.lower() not in ("asc", "desc"):
        return config.report("order", 'must be "asc" or "desc"', did_you_mean(str(order).lower(), ("asc", "desc")))
    # `key` is another name of `by`, as in GROUP_BY.
    name = "key" if "key" in config.values else "by"
    if name == "key" and "by" in config.values:
        return config.report("key", "means the same as by; remove one of them")
    by = config.values.get(name)
    body: Expr
    if by is None:
        body = Var("$item")
    elif type(by) is list:
        body = Arr(tuple(config.bind_items(f"{name}[{i}]", key, names, paths=True) for i, key in enumerate(by)))
    else:
        body = config.body(name, names, paths=True)
    return Each("sort", config.source, names, body, (Lit(order.lower()),))


def _fields(name: str) -> Callable[[_Config], Expr]:
    def build(config: _Config) -> Expr:
        fields = config.values.get("fields")
        if type(fields) is str:
            fields = [fields]
        if type(fields) is not list or not all(type(field) is str and field for field in fields):
            return config.report("fields", "must be a list of field names")
        return Fn(name, (config.source, Lit(fields)))

    return build


def _merge(config: _Config) -> Expr:
    if "with" not in config.values:
        return config.report("with", "is required")
    deep = config.values.get("deep", False)
    if type(deep) is not bool:
        return config.report("deep", "must be true or false")
    return Fn("deep_merge" if deep else "merge", (config.source, config.lift_value("with", config.values["with"])))


def _rename(config: _Config) -> Expr:
    fields = config.values.get("fields")
    if type(fields) is not dict or not all(type(new) is str for new in fields.values()):
        return config.report("fields", "must be an object of old and new names")
    return Fn("rename", (config.source, Lit(fields)))


def _custom(config: _Config) -> Expr:
    name = config.values.get("function")
    if type(name) is not str:
        return config.report("function", "must be the name of a function registered with @transform")
    if name not in TRANSFORMS:
        return config.report("function", *unregistered_message(name))
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
"""By transform type, the function that builds its expression."""

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "MAP": ("expression",),
    "FILTER": ("expression",),
    "FLAT_MAP": ("expression",),
    "REDUCE": ("expression", "initial"),
    "GROUP_BY": ("key",),
    "SORT": ("by", "key", "order"),
    "PICK": ("fields",),
    "OMIT": ("fields",),
    "MERGE": ("with", "deep"),
    "RENAME": ("fields",),
    "CUSTOM": ("function",),
}
