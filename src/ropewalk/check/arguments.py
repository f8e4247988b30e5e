"""Check expressions against schemas: arguments of tools, updates of state, the flow's result.

Only certain mistakes are problems: a missing required property, a property that the schema forbids, a
value of the wrong kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from ..errors import UnsupportedSchema
from ..expr.ast import Arr, Expr, Fn, Lit, Obj, Ref
from ..schema import Schema, compile_schema
from ..values import Json, canonical, did_you_mean
from .references import OptionalInputs
from .report import ExprPath, join_names
from .types import (
    ARRAY,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    Missing,
    Sub,
    Type,
    describe_kinds,
    element_type,
    kinds_of,
)


class AddProblem(Protocol):
    """Add a problem at a path inside the expression that is being checked."""

    def __call__(
        self,
        message: str,
        at: ExprPath,
        *,
        suggestion: str | None = None,
        column: int | None = None,
        warning: bool = False,
    ) -> None:
        """Add the problem."""


_NUMBERS: Final = INTEGER | NUMBER
_PLAIN_WORDS: Final = frozenset(
    (
        "type",
        "title",
        "description",
        "default",
        "examples",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "$schema",
        "$defs",
        "deprecated",
    )
)


class FitChecker:
    """Check expressions against schemas, and keep compiled validators for the duration of one check."""

    def __init__(self, add_problem: AddProblem, optional_inputs: OptionalInputs) -> None:
        self.add_problem, self.optional_inputs = add_problem, optional_inputs
        self._validators: dict[int, tuple[Json, Callable[[Json], list[Any]] | None]] = {}

    def check_fit(self, expr: Expr, value_type: Type, target: Sub, at: ExprPath, noun: str, suffix: str) -> None:
        """Report where an expression cannot fit a schema."""
        if value_type is None:
            return
        if type(expr) is Lit and type(expr.value) in (dict, list):
            # Treat the literal like an expression, so that each part has its own place and message.
            expr, value_type = _as_expression(expr.value)
        if not self._kind_fits(expr, value_type, target, at):
            return
        # An optional input is null when the caller leaves it out, which is worth a warning.
        if type(expr) is Ref and expr.root == "input" and not target.kinds() & NULL:
            name = self.optional_inputs.first_optional(expr.path)
            if name is not None:
                message = f"input {name!r} is optional, so this may be null, but it must be"
                advice = f"make {name!r} required, or give it a default"
                self.add_problem(
                    f"{message} {describe_kinds(target.kinds())}; {advice}", at, column=expr.column, warning=True
                )
        # Objects and lists are compared part by part; of other expressions only the inferred type is known.
        if isinstance(expr, Obj):
            self._check_size(expr, target, at)
            self._check_object(expr, value_type, target, at, noun, suffix)
        elif isinstance(expr, Arr):
            self._check_size(expr, target, at)
            for i, item in enumerate(expr.items):
                is_known, inner = target.items(i)
                if is_known and inner is not None:
                    self.check_fit(item, value_type[i], inner, (at, i), "property", "")
        elif isinstance(expr, Lit):
            self._check_literal(expr.value, target, at)
        elif kinds_of(value_type) == OBJECT:
            for name in target.required():
                missing = element_type(value_type, name)
                if type(missing) is Missing:
                    has = f"; it has: {join_names(missing.known)}" if missing.known else ""
                    self.add_problem(
                        f"this value has no {name!r}, which is a required {noun}{suffix}{has}",
                        at,
                        suggestion=did_you_mean(name, missing.known),
                        column=_column(expr),
                    )

    def _kind_fits(self, expr: Expr, value_type: Type, target: Sub, at: ExprPath) -> bool:
        allowed, actual = target.kinds(), kinds_of(value_type)
        # A value that may be null is neither certainly wrong nor certainly right, so compare its other kinds.
        certain = actual & ~NULL or actual
        if actual == NULL and not isinstance(expr, Lit):
            return True
        if certain & allowed or (certain & _NUMBERS and allowed & _NUMBERS and not isinstance(expr, Lit)):
            return True
        message = f"must be {describe_kinds(allowed)}; this is {describe_kinds(actual)}"
        if allowed & STRING and not certain & ~(OBJECT | ARRAY) and not isinstance(expr, Lit):
            message += '; inside a longer text, such as "Data: ${...}", it becomes JSON'
        self.add_problem(message, at, column=_column(expr))
        return False

    def _check_object(
        self, expr: Obj, member_types: dict[str, Type], target: Sub, at: ExprPath, noun: str, suffix: str
    ) -> None:
        for key, inner in expr.fields:
            is_declared, sub = target.property(key)
            if is_declared:
                if sub is not None:
                    self.check_fit(inner, member_types[key], sub, (at, key), "property", "")
                continue
            closed = target.is_closed_to(key)
            names = target.names()
            more = f"; expected one of: {join_names(names)}" if names else ""
            self.add_problem(
                f"unknown {noun}{suffix}{more}", (at, key), suggestion=did_you_mean(key, names), warning=not closed
            )
        for name in target.required():
            if name not in member_types:
                near = did_you_mean(name, (key for key in member_types if not target.property(key)[0]))
                advice = f"; rename {near!r} to {name!r}?" if near else ""
                self.add_problem(f"required {noun} {name!r}{suffix} is missing{advice}", at)

    def _check_size(self, expr: Arr | Obj, target: Sub, at: ExprPath) -> None:
        """Report a list or an object of the wrong size, and repeated items."""
        size_words = target.size_words()
        if not size_words:
            return
        if isinstance(expr, Arr):
            count, noun, word_suffix = len(expr.items), "item", "Items"
        else:
            count, noun, word_suffix = len(expr.fields), "property", "Properties"
        minimum, maximum = size_words.get(f"min{word_suffix}"), size_words.get(f"max{word_suffix}")
        if isinstance(minimum, (int, float)) and count < minimum:
            self.add_problem(f"needs at least {format_count(minimum, noun)}; this has {count}", at)
        if isinstance(maximum, (int, float)) and count > maximum:
            self.add_problem(f"takes at most {format_count(maximum, noun)}; this has {count}", at)
        if size_words.get("uniqueItems") is True and isinstance(expr, Arr):
            first_by_value: dict[bytes, int] = {}
            for i, item in enumerate(expr.items):
                value = constant_value(item)
                first = first_by_value.setdefault(canonical(value.value), i) if value is not None else i
                if first != i:
                    self.add_problem(f"items must be unique; item {i} equals item {first}", (at, i))

    def _check_literal(self, value: Json, target: Sub, at: ExprPath) -> None:
        """Validate a literal against the whole schema, because its value is known."""
        if value is None and target.kinds() & NULL:
            return  # `nullable` is an extension that our validator does not know
        judge = self._validator(target)
        for problem in judge(value) if judge is not None else ():
            self.add_problem(problem.message, at, suggestion=problem.suggestion)

    def _validator(self, target: Sub) -> Callable[[Json], list[Any]] | None:
        known = self._validators.get(id(target.node))
        if known is None:
            known = self._validators[id(target.node)] = (target.node, _compile_validator(target))
        return known[1]


def _compile_validator(target: Sub) -> Callable[[Json], list[Any]] | None:
    node = target.node
    if type(node) is not dict or _PLAIN_WORDS.issuperset(node):
        return None  # these words constrain a scalar's kind only, which is checked already
    rest = {key: target.root[key] for key in ("$defs", "definitions", "$schema") if key in (target.root or ())}
    try:
        schema: Schema = compile_schema({**rest, **node})
    except UnsupportedSchema:
        return None  # registering the tool reports this; here the schema is merely unknown
    return schema.problems


def format_count(count: float, noun: str) -> str:
    """Return a count with its noun: `1 item`, `2 properties`."""
    several = "properties" if noun == "property" else f"{noun}s"
    return f"{count:g} {noun if count == 1 else several}"


def constant_value(expr: Expr) -> Lit | None:
    """Return an expression without references as a literal; None for any other expression."""
    if isinstance(expr, Lit):
        return expr
    if isinstance(expr, Arr):
        items = [constant_value(item) for item in expr.items]
        return None if None in items else Lit([item.value for item in items if item is not None])
    if isinstance(expr, Obj):
        values = {key: constant_value(part) for key, part in expr.fields}
        known = {key: value.value for key, value in values.items() if value is not None}
        return Lit(known) if len(known) == len(values) else None
    return None


def _as_expression(value: dict[str, Json] | list[Json]) -> tuple[Expr, Type]:
    if isinstance(value, list):
        items = tuple(map(Lit, value))
        return Arr(items), list(items)
    fields = {key: Lit(inner) for key, inner in value.items()}
    return Obj(tuple(fields.items())), fields


def _column(expr: Expr) -> int | None:
    return expr.column if isinstance(expr, (Ref, Fn)) else None
