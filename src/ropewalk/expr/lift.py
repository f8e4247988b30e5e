"""Convert values of documents to trees: strings are references, interpolated, or plain text.

A string that begins with `$` is a reference. One that contains `${` is interpolated. `$$` at the start and
`$${` anywhere are escapes. Every other value is a constant. Unknown roots and bad syntax are reported, each
with the path of the string in its document. With `warnings` a reference with an unknown root is text, and a warning.
With `unknown="literal"` each reference that cannot be read is text, and a problem with the keyword `UNRESOLVED`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from ..deadline import look_at_clock
from ..errors import ExpressionError, Problem
from ..values import MAX_DEPTH, Json, did_you_mean
from .ast import NULL, Arr, Expr, Fn, Lit, Obj, Ref, refs, shift_columns
from .faults import MAX_TEXT, fault
from .reference_paths import ROOTS, read_path

Unknown: TypeAlias = Literal["problem", "literal"]

UNRESOLVED: Final = "unresolved"
"""The keyword of problems and warnings about references that are used as text."""
_MAX_SHOWN: Final = 80  # characters of a text in a message
_ROOT: Final = re.compile(r"\$([^\W\d]\w*)?")
_LIKE_EXPRESSION: Final = r"\s*(?:[-+*/%<>=!&|?]|in\b|and\b|or\b|\()"
_NAME_TO_QUOTE: Final = r"(\$\w+)\.([^\s.\[\]/@\"\\,;:!?()]+)([.\[].*)?$"
"""A reference to a node with characters in its id that must be quoted."""
_NO_REFERENCE: Final = Lit(None)
"""The marker for a value without references inside, which becomes one constant."""


def lift(
    value: Json,
    roots: frozenset[str],
    *,
    unknown: Unknown = "problem",
    path: str = "",
    problems: list[Problem] | None = None,
    warnings: list[Problem] | None = None,
) -> Expr:
    """Convert a value of a document to a tree; a value without references becomes one constant."""
    reader = _Reader(roots, unknown, path, problems, warnings)
    expr = reader.read(value, None, 0)
    return Lit(value) if expr is _NO_REFERENCE else expr


Where: TypeAlias = "tuple[Any, str | int] | None"


class _Reader:
    __slots__ = ("literal", "path", "problems", "roots", "warnings")

    def __init__(
        self,
        roots: frozenset[str],
        unknown: Unknown,
        path: str,
        problems: list[Problem] | None,
        warnings: list[Problem] | None,
    ) -> None:
        self.roots, self.literal, self.path = roots, unknown == "literal", path
        self.problems, self.warnings = problems, warnings

    def read(self, value: Json, where: Where, depth: int) -> Expr:
        kind = type(value)
        if kind is str:
            return self._string(value, where) if "$" in value else _NO_REFERENCE
        if kind is dict or kind is list:
            if depth > MAX_DEPTH:
                return self._report(ExpressionError(f"nested deeper than {MAX_DEPTH}"), where, "")
            return self._fields(value, where, depth) if kind is dict else self._items(value, where, depth)
        return _NO_REFERENCE

    def _fields(self, value: dict[str, Json], where: Where, depth: int) -> Expr:
        has_no_reference = all_literals = True
        fields: list[tuple[str, Expr]] = []
        for key, item in value.items():
            inner = _NO_REFERENCE if item is None else self.read(item, (where, key), depth + 1)
            if inner is _NO_REFERENCE:
                inner = Lit(item)
            else:
                has_no_reference = False
                all_literals = all_literals and type(inner) is Lit
            fields.append((key, inner))
        if has_no_reference:
            return _NO_REFERENCE
        if all_literals:
            return Lit({key: field.value for key, field in fields if isinstance(field, Lit)})
        return Obj(tuple(fields))

    def _items(self, value: list[Json], where: Where, depth: int) -> Expr:
        has_no_reference = all_literals = True
        items: list[Expr] = []
        for i, item in enumerate(value):
            inner = _NO_REFERENCE if item is None else self.read(item, (where, i), depth + 1)
            if inner is _NO_REFERENCE:
                inner = Lit(item)
            else:
                has_no_reference = False
                all_literals = all_literals and type(inner) is Lit
            items.append(inner)
        if has_no_reference:
            return _NO_REFERENCE
        if all_literals:
            return Lit([element.value for element in items if isinstance(element, Lit)])
        return Arr(tuple(items))

    def _string(self, text: str, where: Where) -> Expr:
        look_at_clock()
        try:
            expr = read_string(text)
            if expr is None:
                return _NO_REFERENCE
            self._check_roots(expr, text)
        except ExpressionError as error:
            return self._report(error, where, text)
        return expr

    def _check_roots(self, expr: Expr, text: str) -> None:
        if text == "$" and ("state" not in self.roots or "prev" in self.roots):
            raise _not_a_reference(text)  # `$` alone is the state only in experiences; elsewhere it is meant as text
        unknown = [ref for ref in ((expr,) if isinstance(expr, Ref) else refs(expr)) if ref.root not in self.roots]
        _raise_together([_unknown_root(ref.root, self.roots, text, ref.column - 1) for ref in unknown])

    def _report(self, error: ExpressionError, where: Where, text: str) -> Expr:
        if self.literal and text:
            if self.problems is not None:
                message = f'Unresolved reference "{text}" treated as literal'
                self.problems.append(self._problem_of(message, error, where, UNRESOLVED))
            return Lit(text)
        if self.warnings is not None and (error.is_of_text or self._has_unknown_root(text)):
            reason = error.message.partition(";")[0]
            shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
            message = f'{reason}, so "{shown}" is text; if you mean text, write "${shown}"'
            problem = self._problem_of(message, error, where, UNRESOLVED)
            self.warnings.append(replace(problem, suggestion=None) if error.suggestion == f"${text}" else problem)
            return Lit(text)
        if self.problems is None:
            raise error
        self.problems += [self._problem_of(each.message, each, where, None) for each in (error, *error.others)]
        return Lit(None)

    def _has_unknown_root(self, text: str) -> bool:
        """Return True for `$other.x` and `$5`, but not for a known root with a wrong path, nor for `${...}`."""
        match = _ROOT.match(text)
        if match is None or text.startswith(("${", "$$")):
            return False
        return match[1] not in self.roots if match[1] else not text.startswith(("$.", "$["))

    def _problem_of(self, message: str, error: ExpressionError, where: Where, keyword: str | None) -> Problem:
        return Problem(
            path=self._path_of(where),
            message=message,
            suggestion=error.suggestion,
            column=error.at + 1,
            keyword=keyword,
        )

    def _path_of(self, where: Where) -> str:
        steps: list[str] = []
        while where is not None:
            where, key = where
            steps.append(f"[{key}]" if type(key) is int else f".{key}")
        text = self.path + "".join(reversed(steps))
        return text[1:] if text.startswith(".") else text


def _raise_together(errors: list[ExpressionError]) -> None:
    """Raise the first error of a text, with the others attached."""
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]


def _unknown_root(name: str, roots: frozenset[str], text: str, at: int) -> ExpressionError:
    near = did_you_mean(name, roots)
    known = ", ".join(f"${root}" for root in sorted(roots))
    message = f"${name} is not known here" if name in ROOTS else f"unknown reference ${name}"
    return fault(text, max(at, 0), f"{message}; known: {known}", f"${near}" if near else None)


@lru_cache(maxsize=8192)
def read_string(text: str) -> Expr | None:
    """Return the tree of a string in a document; None if it is plain text."""

    # Raises ExpressionError.
    if text.startswith("$") and not text.startswith(("$$", "${")):
        return _reference(text)
    if "${" not in text and not text.startswith("$$"):
        return None
    return _interpolated(text)


def plain_parts(text: str) -> list[str]:
    """Return the parts of a string in a document that are outside of `${...}`; [] if it cannot be read."""
    if "$" not in text:
        return [text]
    try:
        if read_string(text) is None:
            return [text]
    except ExpressionError:
        return []
    if not text.startswith("$$") and "${" not in text:
        return []  # a reference
    parts, at = [], 2 if text.startswith("$$") else 0
    while (start := text.find("${", at)) >= 0:
        if start > at and text[start - 1] == "$":  # an escape
            parts.append(text[at : start - 1])
            at = start + 2
        else:
            parts.append(text[at:start])
            at = _expression_end(text, start + 2) + 1
    return [*parts, text[at:]]


def _not_a_reference(text: str) -> ExpressionError:
    return fault(text, 0, "not a reference; for the text itself write $$ at its start", "$" + text)


def _reference(text: str) -> Expr:
    match = _ROOT.match(text)
    name = match[1] if match is not None else None
    at = match.end() if match is not None else 1
    if len(text) > MAX_TEXT:
        raise fault(text, 0, f"the reference has more than {MAX_TEXT:,} characters")
    if name is None:
        if at < len(text) and text[at] not in ".[":
            raise _not_a_reference(text)
        name = "state"
    elif name not in ROOTS:
        near = did_you_mean(name, ROOTS)
        raise fault(text, 0, f"unknown reference ${name}", f"${near}{text[at:]}" if near else None)
    state = name == "state"
    # Read the constant path; if it ends before the text does, find the reason.
    path, end = read_path(text, at, state=state, loose=True)
    if end == len(text):
        return Ref(name, path)
    from .reference_paths import is_query

    if is_query(text, end):
        if not state:
            raise fault(text, end, "JSONPath works on $state only; elsewhere use ${...} with map, filter and the like")
        from .parser import query_tree

        tree, end = query_tree(text, at, end, path, 1)
        if end == len(text):
            return tree
    raise _explain_bad_reference(text, end)


def _explain_bad_reference(text: str, end: int) -> ExpressionError:
    """Return the error for a reference that ends at `end`, before its text does."""

    # Its suggestion is what the author probably meant, if that can be read.
    if re.match(_LIKE_EXPRESSION, text[end:]) and _is_readable(f"${{{text}}}"):
        return fault(text, end, "a reference ends here; an expression belongs in ${...}", f"${{{text}}}"[:80])
    if text[end:] == ".":
        return fault(text, end, "a name is missing after the dot", text[:end])
    if text[end] == "[" and "]" not in text[end:]:
        return fault(text, end, "[ is not closed", f"{text}]" if _is_readable(f"{text}]") else None)
    unexpected = f"unexpected {text[end]!r} in a reference"
    quotable = re.match(_NAME_TO_QUOTE, text)
    quoted = f'{quotable[1]}["{quotable[2]}"]{quotable[3] or ""}' if quotable is not None else ""
    if quoted and _is_readable(quoted):
        return fault(text, end, f"{unexpected}; put a name with such characters in quotes", quoted)
    reference = f"${{{text[:end]}}}"
    longer = f"{reference}{text[end:]}"
    error = fault(
        text,
        end,
        f"{unexpected}; inside a longer text write {reference}",
        longer if len(longer) <= 80 and _is_readable(longer) else None,
    )
    error.is_of_text = text[end] in " \t\n,;:!?"
    return error


def _is_readable(text: str) -> bool:
    try:
        return len(text) <= MAX_TEXT and read_string(text) is not None
    except ExpressionError:
        return False


def _interpolated(text: str) -> Expr:
    parts: list[Expr] = []
    plain: list[str] = []
    errors: list[ExpressionError] = []
    at = 0
    if text.startswith("$$"):
        plain.append("$")
        at = 2
    # Alternate between plain text and `${...}`; collect the errors of all expressions.
    while True:
        start = text.find("${", at)
        if start < 0:
            plain.append(text[at:])
            break
        if start > at and text[start - 1] == "$":
            plain.append(text[at : start - 1] + "${")
            at = start + 2
            continue
        plain.append(text[at:start])
        end = _expression_end(text, start + 2)
        try:
            inner = _parse_inner(text, start + 2, end)
        except ExpressionError as error:
            errors.append(error)
            inner = NULL
        # A single `${...}` keeps the type of its value; anything else is text.
        if start == 0 and end + 1 == len(text):
            _raise_together(errors)
            return inner
        if before := "".join(plain):
            parts.append(Lit(before))
        plain.clear()
        parts.append(inner)
        at = end + 1
    _raise_together(errors)
    if after := "".join(plain):
        parts.append(Lit(after))
    if all(isinstance(part, Lit) and type(part.value) is str for part in parts):
        return Lit("".join(part.value for part in parts if isinstance(part, Lit)))
    return Fn("${}", tuple(parts))


_DOUBLE_BRACES: Final = re.compile(r"\{\s*(\$?[^\W\d][^\"'{}:,]*)\}")
"""The inside of `${{ input.url }}`, as other tools write it; the keys of an object are quoted. `rstrip` removes the
spaces at the end, because matching them here would take quadratic time."""


def _parse_inner(text: str, start: int, end: int) -> Expr:
    from .parser import parse  # loaded late: plain references need no parser

    if not text[start:end].strip():
        raise fault(text, start, "${} needs an expression; for the text itself write $${}")
    braces = _DOUBLE_BRACES.fullmatch(text, start, end)
    if braces is not None:
        corrected = f"{text[: start - 2]}${{{braces[1].rstrip()}}}{text[end + 1 :]}"
        raise fault(
            text, start, "an expression needs only one pair of braces", corrected if _is_readable(corrected) else None
        )
    try:
        tree = parse(text[start:end])
    except ExpressionError as error:
        raise fault(text, start + error.at, error.message, error.suggestion) from error
    return shift_columns(tree, start)


def _unclosed(text: str, start: int, at: int, long: bool) -> ExpressionError:
    """Return the error for a `${` without a closing brace."""
    if "}" not in text[at:]:
        return fault(text, start - 2, "${ is not closed; for the text itself write $${")
    if long:
        return fault(text, start - 2, f"the expression in ${{...}} has more than {MAX_TEXT:,} characters")
    return fault(text, text.index("//", at), "the comment extends to the end of the line and hides the } of ${...}")


def _expression_end(text: str, start: int) -> int:
    """Return the position of the brace that closes the expression beginning at `start`."""
    from .lexer import next_token

    level, at = 0, start
    while True:
        token = next_token(text, at, lenient=True)
        if token.kind == "end" or token.at - start > MAX_TEXT:
            raise _unclosed(text, start, at, token.kind != "end")
        if token.kind == "op" and token.text == "{":
            level += 1
        elif token.kind == "op" and token.text == "}":
            if not level:
                return token.at
            level -= 1
        at = token.at + len(token.text)
