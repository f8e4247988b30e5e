"""Whether what an expression gives fits a schema: arguments, updates of state, the flow's result.

Only what cannot fit is a problem: a required property that is certainly missing, a property that
is certainly refused, a value that is certainly of another kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from ..errors import UnsupportedSchema
from ..expr.ast import Arr, Expr, Fn, Lit, Obj, Ref
from ..schema import Schema, compile_schema
from ..values import Json, canonical, closest
from .absence import Absence
from .report import At, listing
from .schemas import INTEGER, NULL, NUMBER, OBJECT, Sub
from .types import Nothing, Type, element, kinds_of, say


class Tell(Protocol):
    """Reports at a way into the expression being judged."""

    def __call__(
        self, message: str, at: At, *, suggestion: str | None = None, column: int | None = None, warning: bool = False
    ) -> None: ...


_NUMBERS: Final = INTEGER | NUMBER
_PLAIN_WORDS: Final = frozenset(("type", "title", "description", "default", "examples", "properties", "required",
                                 "items", "additionalProperties", "$schema", "$defs", "deprecated"))  # fmt: skip


class Fitting:
    """Judges expressions against schemas; keeps what it compiles for the time of one check."""

    def __init__(self, tell: Tell, absence: Absence) -> None:
        self.tell, self.absence = tell, absence
        self._compiled: dict[int, tuple[Json, Callable[[Json], list[Any]] | None]] = {}

    def fit(self, expr: Expr, got: Type, wanted: Sub, at: At, noun: str, whose: str) -> None:
        """Report where `expr`, known to give `got`, cannot fit; `noun` is what a property is called
        here (`argument`), `whose` ends the sentence (` of tool 'search'`)."""
        if got is None:
            return
        if type(expr) is Lit and type(expr.value) in (dict, list):
            # Looked into like an expression, so that each part has its own place and its own message.
            expr, got = _opened(expr.value)
        if not self._kind_fits(expr, got, wanted, at):
            return
        if type(expr) is Ref and expr.root == "input" and not wanted.kinds() & NULL:
            name = self.absence.of(expr.path)
            if name is not None:
                message = f"the input may be without {name!r}, and this is null then, where it must be"
                advice = f"make {name!r} required, or give it a default"
                self.tell(f"{message} {say(wanted.kinds())}; {advice}", at, column=expr.column, warning=True)
        if isinstance(expr, Obj):
            self._whole(expr, wanted, at)
            self._object(expr, got, wanted, at, noun, whose)
        elif isinstance(expr, Arr):
            self._whole(expr, wanted, at)
            for i, item in enumerate(expr.items):
                found, inner = wanted.items(i)
                if found and inner is not None:
                    self.fit(item, got[i], inner, (at, i), "property", "")
        elif isinstance(expr, Lit):
            self._literal(expr.value, wanted, at)
        elif kinds_of(got) == OBJECT:
            for name in wanted.required():
                missing = element(got, name)
                if type(missing) is Nothing:
                    has = f"; it has: {listing(missing.known)}" if missing.known else ""
                    self.tell(f"this gives no {name!r}, which is a required {noun}{whose}{has}", at,
                              suggestion=closest(name, missing.known), column=_column(expr))  # fmt: skip

    def _kind_fits(self, expr: Expr, got: Type, wanted: Sub, at: At) -> bool:
        allowed, here = wanted.kinds(), kinds_of(got)
        # A value that may be null for once is not certainly wrong, and not certainly right: look at the rest.
        certain = here & ~NULL or here
        if here == NULL and not isinstance(expr, Lit):
            return True
        if certain & allowed or (certain & _NUMBERS and allowed & _NUMBERS and not isinstance(expr, Lit)):
            return True
        self.tell(f"must be {say(allowed)}; this is {say(here)}", at, column=_column(expr))
        return False

    def _object(self, expr: Obj, got: dict[str, Type], wanted: Sub, at: At, noun: str, whose: str) -> None:
        for key, inner in expr.fields:
            known, sub = wanted.property(key)
            if known:
                if sub is not None:
                    self.fit(inner, got[key], sub, (at, key), "property", "")
                continue
            closed = wanted.closed_to(key)
            names = wanted.names()
            more = f"; there are: {listing(names)}" if names else ""
            self.tell(f"unknown {noun}{whose}{more}", (at, key), suggestion=closest(key, names), warning=not closed)
        for name in wanted.required():
            if name not in got:
                near = closest(name, (key for key in got if not wanted.property(key)[0]))
                spelt = f"; is {near!r} meant for it?" if near else ""
                self.tell(f"required {noun} {name!r}{whose} is missing{spelt}", at)

    def _whole(self, expr: Arr | Obj, wanted: Sub, at: At) -> None:
        """Report a list or an object of the wrong size, and items that repeat others."""
        words = wanted.words()
        if not words:
            return
        if isinstance(expr, Arr):
            many, noun, sort = len(expr.items), "item", "Items"
        else:
            many, noun, sort = len(expr.fields), "property", "Properties"
        least, most = words.get(f"min{sort}"), words.get(f"max{sort}")
        if isinstance(least, (int, float)) and many < least:
            self.tell(f"needs at least {counted(least, noun)}; this has {many}", at)
        if isinstance(most, (int, float)) and many > most:
            self.tell(f"takes at most {counted(most, noun)}; this has {many}", at)
        if words.get("uniqueItems") is True and isinstance(expr, Arr):
            seen: dict[bytes, int] = {}
            for i, item in enumerate(expr.items):
                value = literal_in(item)
                first = seen.setdefault(canonical(value.value), i) if value is not None else i
                if first != i:
                    self.tell(f"items must differ; item {i} is the same as item {first}", (at, i))

    def _literal(self, value: Json, wanted: Sub, at: At) -> None:
        """A literal is judged by the whole schema, since it will never change."""
        if value is None and wanted.kinds() & NULL:
            return  # `nullable`, which some validators know and ours does not
        judge = self._judge(wanted)
        for problem in judge(value) if judge is not None else ():
            self.tell(problem.message, at, suggestion=problem.suggestion)

    def _judge(self, wanted: Sub) -> Callable[[Json], list[Any]] | None:
        known = self._compiled.get(id(wanted.node))
        if known is None:
            known = self._compiled[id(wanted.node)] = (wanted.node, _compiled(wanted))
        return known[1]


def _compiled(wanted: Sub) -> Callable[[Json], list[Any]] | None:
    node = wanted.node
    if type(node) is not dict or _PLAIN_WORDS.issuperset(node):
        return None  # the kind is all it asks of a scalar
    rest = {key: wanted.root[key] for key in ("$defs", "definitions", "$schema") if key in (wanted.root or ())}
    try:
        schema: Schema = compile_schema({**rest, **node})
    except UnsupportedSchema:
        return None  # who registers the tool is told; here it only means not knowing
    return schema.problems


def counted(count: float, noun: str) -> str:
    """Return a count with its noun: `1 item`, `2 properties`."""
    several = "properties" if noun == "property" else f"{noun}s"
    return f"{count:g} {noun if count == 1 else several}"


def literal_in(expr: Expr) -> Lit | None:
    """Return an expression without references as the value it gives; None for any other."""
    if isinstance(expr, Lit):
        return expr
    if isinstance(expr, Arr):
        items = [literal_in(item) for item in expr.items]
        return None if None in items else Lit([item.value for item in items if item is not None])
    if isinstance(expr, Obj):
        values = {key: literal_in(part) for key, part in expr.fields}
        known = {key: value.value for key, value in values.items() if value is not None}
        return Lit(known) if len(known) == len(values) else None
    return None


def _opened(value: dict[str, Json] | list[Json]) -> tuple[Expr, Type]:
    if isinstance(value, list):
        items = tuple(map(Lit, value))
        return Arr(items), list(items)
    fields = {key: Lit(inner) for key, inner in value.items()}
    return Obj(tuple(fields.items())), fields


def _column(expr: Expr) -> int | None:
    return expr.column if isinstance(expr, (Ref, Fn)) else None
