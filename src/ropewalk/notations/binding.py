"""Bind the references of documents: JSON with references in it, texts of expressions, variables.

The compiler of a notation subclasses `Binder`, names the roots that its documents may use, and
translates each reference in `bind`. Every problem has the path of the text that it is in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, TypeVar

from ..errors import ExpressionError, Problem
from ..expr import lift
from ..expr.ast import NULL, Arr, Expr, Lit, Obj, Ref, rebind, refs, subexpressions
from ..expr.lift import plain_parts, read_string
from ..ir import Channel
from ..problems import MOST_PROBLEMS, Problems, Warnings
from ..values import Json, did_you_mean
from .fields import Report, add_problem, join

_PATH: Final = r"(?:\.[^\W\d][\w-]*|\.[0-9]+|\[[0-9]+\]|\[\"[^\"]*\"\])"
_LIKE_REFERENCE: Final = rf"(?<![$\w])(?<!^)\$([a-z]+)({_PATH}+)|\{{\{{\s*\$?([A-Za-z_]\w*)({_PATH}*)\s*\}}\}}"
"""Text that looks like a reference but is not: `$input.name` inside a longer text, or `{{input.name}}`."""
_UNKNOWN: Final = r"unknown reference \$(\w+)(?:, so \"\$\w+([.\[][^ ]*)\" is text)?"

UNSET: Final = "unset"
"""The first word of the keyword of warnings about variables that no node sets; the variable's name follows."""

STATE: Final = frozenset(("var", "state"))
"""The roots of variables: `$var.NAME`, and `$state.NAME` as experiences write it."""

Within = TypeVar("Within")
"""The surroundings of a node that decide what its references mean."""


class Binder(Generic[Within]):
    """Bind the references of one document; `problems` and `warnings` grow as it is compiled."""

    roots: frozenset[str]
    kind: str
    """The notation, for messages: "chain"."""

    def __init__(self, problems: Iterable[Problem], steps: Sequence[str], variables: Collection[str] = ()) -> None:
        self.problems: Report = Problems(problems)
        self.warnings: Report = Warnings()
        self.strict = False  # True if an unknown reference is a problem, not text
        self.steps, self.variables = steps, variables
        self.names: Collection[str] = steps  # of all nodes, for suggestions
        self.inputs: Collection[str] = ()  # the declared properties of the input
        self._likely: dict[str, tuple[str, bool]] = {}  # references by unknown name
        self.read_variables: dict[str, str] = {}  # variables that are read, and the place of the first read

    def bind(self, ref: Ref, path: str, within: Within) -> Expr:
        """Return the expression in the graph that a reference of the document stands for."""
        raise NotImplementedError

    def value(self, value: Json, path: str, within: Within) -> Expr:
        """Compile JSON with references in it."""
        warnings = None if self.strict else self.warnings
        reports = (self.problems, self.warnings)
        first_new = [len(report) for report in reports]
        expr = lift(value, self.roots, path=path, problems=self.problems, warnings=warnings)
        # Suggest what an unknown root may stand for, in the problems and warnings that `lift` has added.
        for report, first in zip(reports, first_new, strict=True):
            report[first:] = map(self._suggest_root, report[first:])
        warn_of_references(value, path, self.roots, self.warnings, "input")
        return self.bind_all(expr, path, within)

    def _warn_of_variables(self, value: Json, path: str) -> None:
        """Warn of text that looks like a reference in the initial value of a variable."""
        if isinstance(value, dict):
            for key, inner in value.items():
                self._warn_of_variables(inner, join(path, key))
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                self._warn_of_variables(inner, f"{path}[{i}]")
        elif isinstance(value, str) and ("$" in value or "{{" in value) and _is_reference(value, self.roots):
            add_problem(
                self.warnings, path, f"{_shorten(value)} is used unchanged; references in variables are not resolved"
            )

    def expression(self, text: Json, path: str, within: Within) -> Expr:
        """Compile the text of an expression."""
        if isinstance(text, bool):
            return Lit(text)
        if not isinstance(text, str) or not text.strip():
            return NULL  # reported when the document was read
        from ..expr import parse

        try:
            expr = parse(text)
        except ExpressionError as exc:
            problem = Problem(path=path, message=exc.message, column=exc.at + 1, suggestion=exc.suggestion)
            self.problems.append(self._suggest_root(problem))
            return NULL
        if "${" in text and any(isinstance(part, Lit) and "${" in str(part.value) for part in subexpressions(expr)):
            message = "${...} in a quoted string of an expression is not replaced; write the reference without quotes"
            add_problem(self.warnings, path, message)
        return self.bind_all(expr, path, within)

    def _suggest_root(self, problem: Problem) -> Problem:
        """Add the full reference as a suggestion if an unknown `$NAME` resembles the name of a node or variable."""
        match = re.match(_UNKNOWN, problem.message)
        if match is None:
            return problem
        name = match[1]
        if name not in self._likely:
            self._likely[name] = self._find_likely(name)
        reference, is_same = self._likely[name]
        # A name of the document comes before a root of the language, if it is the same or nothing is as similar.
        if not reference or (problem.suggestion and not is_same):
            return problem
        return replace(problem, suggestion=f"{reference}{match[2] or ''}")

    def _find_likely(self, name: str) -> tuple[str, bool]:
        """Return the reference to the node, variable or input that a name stands for; "" if none is similar."""
        known = (("output", self.names), ("var", self.variables), ("input", self.inputs))
        for root, names in known:
            if name in names:
                return f"${root}.{name}", True
        for root, names in known:
            if near := did_you_mean(name, names):
                return f"${root}.{near}", False
        return "", False

    def bind_all(self, expr: Expr, path: str, within: Within) -> Expr:
        """Bind every reference of an expression."""
        if isinstance(expr, Lit):
            return expr
        if isinstance(expr, Obj):
            return Obj(tuple((key, self.bind_all(inner, f"{path}.{key}", within)) for key, inner in expr.fields))
        if isinstance(expr, Arr):
            return Arr(tuple(self.bind_all(inner, f"{path}[{i}]", within) for i, inner in enumerate(expr.items)))
        return rebind(expr, lambda ref: self.bind(ref, path, within))

    # --- what most roots mean in every notation -------------------------------------------------

    def output(self, ref: Ref, path: str, apart: Collection[str] = ()) -> Expr:
        """Bind `$output.ID`, `$steps.ID` or `$steps[0]`."""
        if not ref.path:
            return self.report_reference(ref, path, f"${ref.root} needs the id of a node, such as ${ref.root}.NAME")
        head, rest = ref.path[0], ref.path[1:]
        if isinstance(head, int) and ref.root == "output":
            head = str(head)  # an id that looks like a number; positions are $steps[0]
        if isinstance(head, int):
            if not 0 <= head < len(self.steps):
                return self.report_reference(
                    ref, path, f"step {head} does not exist; the {self.kind} has {len(self.steps)}, counted from 0"
                )
            head = self.steps[head]
        if head in apart:
            return self.report_reference(ref, path, f"{head!r} runs at the same time, so its output may not exist yet")
        return Ref("out", (head, *rest), elide=True, column=ref.column, original=ref)

    def variable(self, ref: Ref, path: str) -> Expr:
        """Bind `$var.NAME` or `$state.NAME` to a channel of the state."""
        if ref.path:
            self.read_variables.setdefault(str(ref.path[0]), path)
        return Ref("state", ref.path, column=ref.column, original=ref)

    def unknown(self, ref: Ref, path: str) -> Expr:
        """Report a root that the notation does not have."""
        return self.report_reference(
            ref, path, f"${ref.root} is not known in {self.kind}s", did_you_mean(ref.root, self.roots)
        )

    def report_reference(self, ref: Ref, path: str, message: str, suggestion: str | None = None) -> Expr:
        """Report a wrong reference."""
        self.problems.append(Problem(path=path, message=message, column=ref.column, suggestion=suggestion))
        return NULL

    def channels(self, variables: Mapping[str, Json], set_names: Collection[str] = ()) -> dict[str, Channel]:
        """Return the channels of all variables that are declared, written or read."""

        # A variable that is only read gets a warning, because the run must begin with a value for it.
        self._warn_of_variables(dict(variables), "variables")
        channels = {name: Channel(initial=value) for name, value in variables.items()}
        for name in sorted({*set_names, *self.read_variables}):
            channels.setdefault(name, Channel(present=False))
        for name, path in self.read_variables.items():
            if name not in variables and name not in set_names:
                if len(self.warnings) >= MOST_PROBLEMS:
                    break  # further warnings would be dropped, so skip the search
                suggestion = did_you_mean(name, [*variables, *set_names])
                message = f"no node sets the variable {name!r}; pass it when you start the run"
                warning = Problem(path=path, message=message, suggestion=suggestion, keyword=f"{UNSET} {name}")
                self.warnings.append(warning)
        return channels


def output_ref(id: str) -> Ref:
    """Return a reference to a node's output, as if the document had it."""
    return Ref("out", (id,), original=Ref("output", (id,)))


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}...")


def warn_of_references(value: Json, path: str, roots: Collection[str], report: Report, default: str = "") -> None:
    """Warn of text that looks like a reference inside a longer text without `${}`."""

    # `default`: The root that `{{name}}` means where `name` is none, but not `{{$name}}`, which is of another program.
    if isinstance(value, dict):
        for key, inner in value.items():
            if "$" in key and _is_reference(key, roots):
                add_problem(report, path, f"the key {key!r} is used unchanged; references in keys are not resolved")
            warn_of_references(inner, join(path, key), roots, report, default)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            warn_of_references(inner, f"{path}[{i}]", roots, report, default)
    elif isinstance(value, str) and ("$" in value[1:] or "{{" in value):  # a fast test for the common case
        for text in plain_parts(value):
            for match in re.finditer(_LIKE_REFERENCE, text):
                root, rest = match[1] or match[3], match[2] or match[4] or ""
                if root not in roots and match[3] and default and "$" not in match[0]:
                    root, rest = default, f".{root}{rest}"
                if root in roots:
                    reference = f"${{${root}{rest}}}"
                    escaped = f"${{'{match[0]}'}}"
                    message = f"{match[0]} is text here; if you mean text, write {escaped}"
                    add_problem(report, path, f"{message}; inside a longer text write {reference}")


def _is_reference(text: str, roots: Collection[str]) -> bool:
    """Return True if a text that is used unchanged looks like a reference, or contains one."""
    try:
        expr = read_string(text)
    except ExpressionError:
        expr = None
    if expr is not None and text != "$" and any(ref.root in roots for ref in refs(expr)):
        return True
    return any((match[1] or match[3]) in roots for match in re.finditer(_LIKE_REFERENCE, text))
