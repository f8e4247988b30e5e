"""Documents to trees: which strings are references, which are interpolated, which are text.

A string that begins with `$` is a reference, one that contains `${` is interpolated, `$$` at the
start and `$${` anywhere are escapes; every other value is itself. Refused: unknown roots and bad
syntax, each with the path of the string in its document.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from ..deadline import look_at_clock
from ..errors import ExpressionError, Problem
from ..values import MAX_DEPTH, Json, closest
from .ast import NULL, Arr, Expr, Fn, Lit, Obj, Ref, moved, refs
from .faults import MAX_TEXT, fault
from .paths import ROOTS, walk

Unknown: TypeAlias = Literal["problem", "literal"]

_ROOT: Final = re.compile(r"\$([^\W\d]\w*)?")
_SEEMS_EXPRESSION: Final = r"\s*(?:[-+*/%<>=!&|?]|in\b|and\b|or\b|\()"
_STRANGE_NAME: Final = r"(\$\w+)\.([^\s.\[\]/@\"\\,;:!?()]+)([.\[].*)?$"
"""A reference to a node whose id has characters that end a name elsewhere."""
_KEPT: Final = Lit(None)
"""Stands for "nothing inside is a reference": the value itself is the constant."""


def lift(
    value: Json,
    roots: frozenset[str],
    *,
    unknown: Unknown = "problem",
    path: str = "",
    problems: list[Problem] | None = None,
) -> Expr:
    """The tree of a document with references; what holds none becomes one constant.

    `roots` are the names that may follow `$`. A problem is appended with its path in the document
    (below `path`) and the column in the string, and null stands in; without a list the first one
    raises ExpressionError. With `unknown="literal"` a string that is no reference here is itself,
    and the problem, then marked by the keyword `unresolved`, is only told to the list.
    """
    reader = _Reader(roots, unknown, path, problems)
    found = reader.read(value, None, 0)
    return Lit(value) if found is _KEPT else found


Where: TypeAlias = "tuple[Any, str | int] | None"


class _Reader:
    __slots__ = ("literal", "path", "problems", "roots")

    def __init__(self, roots: frozenset[str], unknown: Unknown, path: str, problems: list[Problem] | None) -> None:
        self.roots, self.literal, self.path, self.problems = roots, unknown == "literal", path, problems

    def read(self, value: Json, where: Where, depth: int) -> Expr:
        kind = type(value)
        if kind is str:
            return self._string(value, where) if "$" in value else _KEPT
        if kind is dict or kind is list:
            if depth > MAX_DEPTH:
                return self._problem(ExpressionError(f"nested deeper than {MAX_DEPTH}"), where, "")
            return self._fields(value, where, depth) if kind is dict else self._items(value, where, depth)
        return _KEPT

    def _fields(self, value: dict[str, Json], where: Where, depth: int) -> Expr:
        kept = constant = True
        fields: list[tuple[str, Expr]] = []
        for key, item in value.items():
            found = _KEPT if item is None else self.read(item, (where, key), depth + 1)
            if found is _KEPT:
                found = Lit(item)
            else:
                kept = False
                constant = constant and type(found) is Lit
            fields.append((key, found))
        if kept:
            return _KEPT
        if constant:
            return Lit({key: one.value for key, one in fields if isinstance(one, Lit)})
        return Obj(tuple(fields))

    def _items(self, value: list[Json], where: Where, depth: int) -> Expr:
        kept = constant = True
        items: list[Expr] = []
        for i, item in enumerate(value):
            found = _KEPT if item is None else self.read(item, (where, i), depth + 1)
            if found is _KEPT:
                found = Lit(item)
            else:
                kept = False
                constant = constant and type(found) is Lit
            items.append(found)
        if kept:
            return _KEPT
        if constant:
            return Lit([one.value for one in items if isinstance(one, Lit)])
        return Arr(tuple(items))

    def _string(self, text: str, where: Where) -> Expr:
        look_at_clock()
        try:
            found = read_string(text)
            if found is None:
                return _KEPT
            self._known(found, text)
        except ExpressionError as error:
            return self._problem(error, where, text)
        return found

    def _known(self, found: Expr, text: str) -> None:
        if text == "$" and "state" not in self.roots:
            raise _no_reference(text)  # it is the state where there is one
        strange = [ref for ref in ((found,) if isinstance(found, Ref) else refs(found)) if ref.root not in self.roots]
        _raise_all([_unknown(ref.root, self.roots, text, ref.column - 1) for ref in strange])

    def _problem(self, error: ExpressionError, where: Where, text: str) -> Expr:
        if self.literal and text:
            if self.problems is not None:
                message = f'Unresolved reference "{text}" treated as literal'
                self.problems.append(self._told(message, error, where, "unresolved"))
            return Lit(text)
        if self.problems is None:
            raise error
        self.problems += [self._told(one.message, one, where, None) for one in (error, *error.others)]
        return Lit(None)

    def _told(self, message: str, error: ExpressionError, where: Where, keyword: str | None) -> Problem:
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


def _raise_all(found: list[ExpressionError]) -> None:
    """Raise the first of what is wrong with one text, with the others."""
    if found:
        found[0].others = tuple(found[1:])
        raise found[0]


def _unknown(name: str, roots: frozenset[str], text: str, at: int) -> ExpressionError:
    near = closest(name, roots)
    known = ", ".join(f"${root}" for root in sorted(roots))
    message = f"${name} is not known here" if name in ROOTS else f"unknown reference ${name}"
    return fault(text, max(at, 0), f"{message}; known: {known}", f"${near}" if near else None)


@lru_cache(maxsize=8192)
def read_string(text: str) -> Expr | None:
    """What a string of a document stands for; None when it is just text. Raises ExpressionError."""
    if text.startswith("$") and not text.startswith(("$$", "${")):
        return _reference(text)
    if "${" not in text and not text.startswith("$$"):
        return None
    return _interpolated(text)


def plain_parts(text: str) -> list[str]:
    """What of a string of a document is plain text, as it will stand there; nothing of one that cannot be read."""
    if "$" not in text:
        return [text]
    try:
        found = read_string(text)
    except ExpressionError:
        return []
    if found is None:
        return [text]
    parts = found.args if isinstance(found, Fn) and found.name == "${}" else (found,)
    return [part.value for part in parts if isinstance(part, Lit) and type(part.value) is str]


def _no_reference(text: str) -> ExpressionError:
    return fault(text, 0, "not a reference; for the text itself write $$ at its start", "$" + text)


def _reference(text: str) -> Expr:
    found = _ROOT.match(text)
    name = found[1] if found is not None else None
    at = found.end() if found is not None else 1
    if len(text) > MAX_TEXT:
        raise fault(text, 0, f"the reference has more than {MAX_TEXT:,} characters")
    if name is None:
        if at < len(text) and text[at] not in ".[":
            raise _no_reference(text)
        name = "state"
    elif name not in ROOTS:
        near = closest(name, ROOTS)
        raise fault(text, 0, f"unknown reference ${name}", f"${near}{text[at:]}" if near else None)
    state = name == "state"
    path, end = walk(text, at, state=state, loose=True)
    if end == len(text):
        return Ref(name, path)
    from .segments import is_query

    if is_query(text, end):
        if not state:
            raise fault(text, end, "JSONPath works on $state only; elsewhere use ${...} with map, filter and the like")
        from .parser import query_tree

        tree, end = query_tree(text, at, end, path, 1)
        if end == len(text):
            return tree
    if re.match(_SEEMS_EXPRESSION, text[end:]) and _fits(f"${{{text}}}"):
        raise fault(text, end, "a reference ends here; an expression belongs in ${...}", f"${{{text}}}"[:80])
    if text[end:] == ".":
        raise fault(text, end, "a name is missing after the dot", text[:end])
    if text[end] == "[" and "]" not in text[end:]:
        raise fault(text, end, "[ is not closed", f"{text}]" if _fits(f"{text}]") else None)
    unexpected = f"unexpected {text[end]!r} in a reference"
    named = re.match(_STRANGE_NAME, text)
    quoted = f'{named[1]}["{named[2]}"]{named[3] or ""}' if named is not None else ""
    if quoted and _fits(quoted):
        raise fault(text, end, f"{unexpected}; a name with such characters is written in quotes", quoted)
    meant = f"${{{text[:end]}}}"
    longer = f"{meant}{text[end:]}"
    raise fault(
        text,
        end,
        f"{unexpected}; inside a longer text write {meant}",
        longer if len(longer) <= 80 and _fits(longer) else None,
    )


def _fits(text: str) -> bool:
    try:
        return len(text) <= MAX_TEXT and read_string(text) is not None
    except ExpressionError:
        return False


def _interpolated(text: str) -> Expr:
    parts: list[Expr] = []
    plain: list[str] = []
    wrong: list[ExpressionError] = []
    at = 0
    if text.startswith("$$"):
        plain.append("$")
        at = 2
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
            inner = _inner(text, start + 2, end)
        except ExpressionError as error:
            wrong.append(error)
            inner = NULL
        if start == 0 and end + 1 == len(text):
            _raise_all(wrong)
            return inner
        if before := "".join(plain):
            parts.append(Lit(before))
        plain.clear()
        parts.append(inner)
        at = end + 1
    _raise_all(wrong)
    if after := "".join(plain):
        parts.append(Lit(after))
    if all(isinstance(part, Lit) and type(part.value) is str for part in parts):
        return Lit("".join(part.value for part in parts if isinstance(part, Lit)))
    return Fn("${}", tuple(parts))


_TWO_BRACES: Final = re.compile(r"\{\s*(\$?[^\W\d][^\"'{}:,]*)\}")
"""What stands in `${{ input.url }}`, as other notations have it; an object has keys in quotes. The spaces at its end
are left to `rstrip`: looked for here, a run of spaces would be gone through from each of them."""


def _inner(text: str, start: int, end: int) -> Expr:
    from .parser import parse  # plain references do without the parser and its functions

    if not text[start:end].strip():
        raise fault(text, start, "${} needs an expression; for the text itself write $${}")
    braces = _TWO_BRACES.fullmatch(text, start, end)
    if braces is not None:
        meant = f"{text[: start - 2]}${{{braces[1].rstrip()}}}{text[end + 1 :]}"
        raise fault(text, start, "an expression stands in one pair of braces", meant if _fits(meant) else None)
    try:
        tree = parse(text[start:end])
    except ExpressionError as error:
        raise fault(text, start + error.at, error.message, error.suggestion) from error
    return moved(tree, start)


def _unclosed(text: str, start: int, at: int, long: bool) -> ExpressionError:
    """Why no brace closes the expression that begins at `start`; what is read of it ends at `at`."""
    if "}" not in text[at:]:
        return fault(text, start - 2, "${ is not closed; for the text itself write $${")
    if long:
        return fault(text, start - 2, f"the expression in ${{...}} has more than {MAX_TEXT:,} characters")
    return fault(text, text.index("//", at), "the comment goes on to the end of the line, and takes in the } of ${...}")


def _expression_end(text: str, start: int) -> int:
    """The position of the brace that closes the expression beginning at `start`."""
    from .tokens import next_token

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
