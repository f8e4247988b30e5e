"""Flow -> JSON: every value by its type, regions into one flat list."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidFlow, Problem
from ..expr.ast import Arr, Expr, Fn, Lit, Obj, Ref, Var
from ..ir import Graph
from ..values import Json
from .shape import EXPRESSIONS, MAX_EXPRESSION_DEPTH, NONE, fields_of


class Writer:
    """Writes values as JSON. `named` writes what a fingerprint is made of: no meta, no columns,
    object expressions in order of their keys."""

    def __init__(self, *, named: bool) -> None:
        self.named = named
        self.regions: list[Json] = []

    def value(self, value: Any) -> Json:
        kind = type(value)
        if value is None or kind in (str, int, float, bool):
            return value
        if kind in EXPRESSIONS:
            return self.expr(value, 0)
        if kind is Graph:
            # Inner regions first: numbering after the walk puts them before this one.
            written = self.record(value)
            self.regions.append(written)
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
        """The fields of a dataclass that differ from their defaults."""
        kind: Any = type(value)
        done: dict[str, Json] = {}
        for name, default, holds_json, is_op in fields_of(kind):
            inner = getattr(value, name)
            if inner is default or (name == "meta" and self.named):
                continue
            if holds_json:
                if inner != default or type(inner) is not type(default):
                    done[name] = inner
            elif is_op:
                done[name] = {"kind": type(inner).__name__, **self.record(inner)}
            elif default is NONE or inner != default:
                done[name] = self.value(inner)
        return done

    def expr(self, expr: Expr, depth: int) -> dict[str, Json]:
        if depth > MAX_EXPRESSION_DEPTH:
            message = f"expression nested deeper than {MAX_EXPRESSION_DEPTH}"
            raise InvalidFlow([Problem(path="", message=message)])
        depth += 1
        if isinstance(expr, Ref):
            done: dict[str, Json] = {"ref": [expr.root, *expr.path]}
            if expr.elide:
                done["elide"] = True
        elif isinstance(expr, Lit):
            return {"lit": expr.value}
        elif isinstance(expr, Obj):
            if self.named:  # the last of equal keys wins, as it does in a run
                return {"obj": {key: self.expr(inner, depth) for key, inner in expr.fields}}
            return {"obj": [[key, self.expr(inner, depth)] for key, inner in expr.fields]}
        elif isinstance(expr, Var):
            return {"var": [expr.name, *expr.path]}
        elif isinstance(expr, Arr):
            return {"arr": [self.expr(item, depth) for item in expr.items]}
        elif isinstance(expr, Fn):
            done = {"fn": expr.name, "args": [self.expr(arg, depth) for arg in expr.args]}
        else:
            done = {
                "each": expr.kind,
                "source": self.expr(expr.source, depth),
                "names": list(expr.names),
                "body": self.expr(expr.body, depth),
            }
            if expr.extra:
                done["extra"] = [self.expr(inner, depth) for inner in expr.extra]
        if expr.column != 1 and not self.named:
            done["column"] = expr.column
        return done
