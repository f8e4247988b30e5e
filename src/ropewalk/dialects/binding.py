"""What compilers of documents share: JSON with references in it, texts of expressions, variables.

A notation subclasses `Binder`, says which roots its documents may name, and in `bind` what each
reference is in the graph. Every problem has the path of the text that it is in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar

from ..errors import ExpressionError, Problem
from ..errors.collected import Problems, Warnings
from ..expr import lift
from ..expr.ast import NULL, Arr, Expr, Lit, Obj, Ref, children, rebind, refs
from ..expr.lift import plain_parts, read_string
from ..ir import Channel
from ..values import Json, closest
from .fields import Report, join, say

_PATH: Final = r"(?:\.[^\W\d][\w-]*|\.[0-9]+|\[[0-9]+\]|\[\"[^\"]*\"\])"
_SEEMS_MEANT: Final = rf"(?<![$\w])(?<!^)\$([a-z]+)({_PATH}+)|\{{\{{\s*\$?([a-z]+)({_PATH}*)\s*\}}\}}"
"""`$input.name` in the middle of a text (at its start it is one), `{{input.name}}` as in templates of others."""
_UNKNOWN: Final = r"unknown reference \$(\w+)"

UNSET: Final = "unset"
"""Begins the keyword of a warning of a variable that has to come with the execution; its name is the rest."""

Within = TypeVar("Within")
"""What surrounds a node, as far as the meaning of references depends on it."""


class Binder(Generic[Within]):
    """Reads what documents say in references; `problems` and `warnings` grow as it goes.

    `steps` are the ids that `$steps[0]` and on stand for, `variables` those that are declared.
    """

    roots: frozenset[str]
    kind: str
    """The notation, for messages: "chain"."""

    def __init__(self, problems: Iterable[Problem], steps: Sequence[str], variables: Collection[str] = ()) -> None:
        self.problems: Report = Problems(problems)
        self.warnings: Report = Warnings()
        self.steps, self.variables = steps, variables
        self.names: dict[str, str] = {}  # variables that are read, and where first

    def bind(self, ref: Ref, path: str, within: Within) -> Expr:
        """What a reference of the document is in the graph."""
        raise NotImplementedError

    def value(self, value: Json, path: str, within: Within) -> Expr:
        """JSON with references in it."""
        begun = len(self.problems)
        found = lift(value, self.roots, path=path, problems=self.problems)
        self.problems[begun:] = map(self._meant, self.problems[begun:])
        self._texts(value, path)
        return self.bound(found, path, within)

    def _texts(self, value: Json, path: str) -> None:
        """Warn of what looks like a reference and stands in a longer text without `${}`, where it is text."""
        if isinstance(value, dict):
            for key, inner in value.items():
                if "$" in key and self._seems_read(key):
                    say(self.warnings, path, f"the key {key!r} is taken as it is; references are not resolved in keys")
                self._texts(inner, join(path, key))
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                self._texts(inner, f"{path}[{i}]")
        elif isinstance(value, str) and ("$" in value[1:] or "{{" in value):  # else it is not read a second time
            for text in plain_parts(value):
                for found in re.finditer(_SEEMS_MEANT, text):
                    root, rest = found[1] or found[3], found[2] or found[4] or ""
                    if root in self.roots:
                        meant = f"${{${root}{rest}}}"
                        say(self.warnings, path, f"{found[0]} is text here; inside a longer text write {meant}")

    def _seems_read(self, text: str) -> bool:
        """Whether a text that is taken as it is looks like a reference, or has one in it."""
        try:
            found = read_string(text)
        except ExpressionError:
            found = None
        if found is not None and any(ref.root in self.roots for ref in refs(found)):
            return True
        return any((one[1] or one[3]) in self.roots for one in re.finditer(_SEEMS_MEANT, text))

    def _as_it_is(self, value: Json, path: str) -> None:
        """Warn of what looks like a reference in the starting value of a variable."""
        if isinstance(value, dict):
            for key, inner in value.items():
                self._as_it_is(inner, join(path, key))
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                self._as_it_is(inner, f"{path}[{i}]")
        elif isinstance(value, str) and ("$" in value or "{{" in value) and self._seems_read(value):
            say(self.warnings, path, f"{_short(value)} is taken as it is; references are not resolved in variables")

    def expression(self, text: Json, path: str, within: Within) -> Expr:
        """An expression's text."""
        if isinstance(text, bool):
            return Lit(text)
        if not isinstance(text, str) or not text.strip():
            return NULL  # which has been reported
        from ..expr import parse

        try:
            found = parse(text)
        except ExpressionError as exc:
            told = Problem(path=path, message=exc.message, column=exc.at + 1, suggestion=exc.suggestion)
            self.problems.append(self._meant(told))
            return NULL
        if "${" in text and any(isinstance(part, Lit) and "${" in str(part.value) for part in _parts(found)):
            said = "text in an expression is itself: ${...} in it is not filled in; write the reference without quotes"
            say(self.warnings, path, said)
        return self.bound(found, path, within)

    def _meant(self, problem: Problem) -> Problem:
        """The same with the reference that was meant, where `$NAME` is the name of a node or a variable."""
        unknown = re.match(_UNKNOWN, problem.message)
        if unknown is None:
            return problem
        roots = (("output", self.steps), ("var", self.variables))
        meant = [f"${root}.{unknown[1]}" for root, names in roots if root in self.roots and unknown[1] in names]
        return replace(problem, suggestion=meant[0]) if meant else problem

    def bound(self, expr: Expr, path: str, within: Within) -> Expr:
        """The expression with its references bound."""
        if isinstance(expr, Lit):
            return expr
        if isinstance(expr, Obj):
            return Obj(tuple((key, self.bound(inner, f"{path}.{key}", within)) for key, inner in expr.fields))
        if isinstance(expr, Arr):
            return Arr(tuple(self.bound(inner, f"{path}[{i}]", within) for i, inner in enumerate(expr.items)))
        return rebind(expr, lambda ref: self.bind(ref, path, within))

    # --- what most roots mean in every notation -------------------------------------------------

    def output(self, ref: Ref, path: str, apart: Collection[str] = ()) -> Expr:
        """`$output.ID`, `$steps.ID`, `$steps[0]`: `apart` are the nodes that run at the same time."""
        if not ref.path:
            return self.wrong(ref, path, f"${ref.root} needs the id of a node, such as ${ref.root}.NAME")
        head, rest = ref.path[0], ref.path[1:]
        if isinstance(head, int) and ref.root == "output":
            head = str(head)  # an id that looks like a number; positions are $steps[0]
        if isinstance(head, int):
            if not 0 <= head < len(self.steps):
                return self.wrong(ref, path, f"there is no step {head}; the {self.kind} has {len(self.steps)}")
            head = self.steps[head]
        if head in apart:
            return self.wrong(ref, path, f"{head!r} runs at the same time, so it may not be finished before this")
        return Ref("out", (head, *rest), elide=True, column=ref.column, said=ref)

    def variable(self, ref: Ref, path: str) -> Expr:
        """`$var.NAME`, a channel of the state."""
        if ref.path:
            self.names.setdefault(str(ref.path[0]), path)
        return Ref("state", ref.path, column=ref.column, said=ref)

    def unknown(self, ref: Ref, path: str) -> Expr:
        """A root that the notation does not have."""
        return self.wrong(ref, path, f"${ref.root} is not known in {self.kind}s", closest(ref.root, self.roots))

    def wrong(self, ref: Ref, path: str, message: str, suggestion: str | None = None) -> Expr:
        self.problems.append(Problem(path=path, message=message, column=ref.column, suggestion=suggestion))
        return NULL

    def channels(self, variables: Mapping[str, Json], written: Collection[str] = ()) -> dict[str, Channel]:
        """The channels of all variables that are declared, written or read; a warning for those that
        have to come with the execution."""
        self._as_it_is(dict(variables), "variables")
        channels = {name: Channel(initial=value) for name, value in variables.items()}
        for name in sorted({*written, *self.names}):
            channels.setdefault(name, Channel(present=False))
        for name, path in self.names.items():
            if name not in variables and name not in written:
                hint = closest(name, [*variables, *written])
                message = f"nothing here sets the variable {name!r}; it has to come with the execution"
                told = Problem(path=path, message=message, suggestion=hint, keyword=f"{UNSET} {name}")
                self.warnings.append(told)
        return channels


def output_of(id: str) -> Ref:
    """The output of a node, as a notation itself reads it."""
    return Ref("out", (id,), said=Ref("output", (id,)))


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}...")


def _parts(expr: Expr) -> Iterator[Expr]:
    """An expression and everything in it."""
    stack = [expr]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(children(part))
