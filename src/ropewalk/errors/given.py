"""What somebody gave is wrong: a definition, an expression, a value, a configuration, a name; and where it is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ..frozen import dataclass

_MOST_IN_TEXT: Final = 20


def install(part: str) -> str:
    """How an optional part is installed, as README.md says it."""
    return f'pip install "/path/to/clone[{part}]"'


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file: 1-based line and column, and the text of that line for the caret."""

    file: str
    line: int
    column: int
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a definition or a value. `path` says where in the document (`nodes[2].tool`);
    `column` is the 1-based position in the whole text at that path, line breaks counted; `place` is where in a file."""

    path: str
    message: str
    suggestion: str | None = None
    column: int | None = None
    place: Place | None = None
    keyword: str | None = None

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text}; did you mean {self.suggestion}?" if self.suggestion else text


def listed(problems: Sequence[Problem]) -> str:
    """What the first of them say, in a line."""
    text = "; ".join(map(str, problems[:_MOST_IN_TEXT]))
    return text if len(problems) <= _MOST_IN_TEXT else f"{text}; and {len(problems) - _MOST_IN_TEXT} more"


class RopewalkError(Exception):
    """Base class: catch this to catch everything raised on purpose."""


class InvalidFlow(RopewalkError):
    """The definition is wrong; nothing of it has run. `flow` is what could be made of it, `file` its document."""

    retryable = False
    file: Any = None
    warnings: tuple[Problem, ...] = ()

    def __init__(self, problems: Iterable[Problem], flow: Any = None) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.flow = flow
        super().__init__("\n".join(map(str, self.problems)))


class UnresolvedReference(InvalidFlow):
    """A `$` expression of a strict composite means nothing; the text is that of the problem or problems."""

    def __str__(self) -> str:
        return self.problems[0].message if len(self.problems) == 1 else "\n".join(map(str, self.problems))


class InvalidInput(RopewalkError):
    """The input of a run does not fit the definition's input schema: `.problems` lists each."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def wants(path: str, what: str, given: object) -> InvalidInput:
    """What is raised of an argument of another type than it must have."""
    kind = type(given)
    name = "None" if given is None else kind.__name__ if kind.__module__ == "builtins" else kind.__qualname__
    return InvalidInput([Problem(path=path, message=f"must be {what}, not {name}")])


def must_be(kind: type, **given: object) -> None:
    """Raise InvalidInput unless each of these arguments is of a type."""
    for path, one in given.items():
        if not isinstance(one, kind):
            raise wants(path, f"a {kind.__name__}", one)


def having(method: str, **given: Any) -> Any:
    """The one argument, or InvalidInput where it has no such method."""
    [(path, one)] = given.items()
    if isinstance(one, type) or not callable(getattr(one, method, None)):
        raise wants(path, f"an object with the method {method}", one)
    return one


class ExpressionError(RopewalkError):
    """An expression cannot be read (at parse time) or evaluated (at run time). `at` is the offset in `text`, `line`
    and `column` are the same for people; `others` are what else is wrong with the same text of a document."""

    others: tuple[ExpressionError, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        at: int | None = None,
        line: int = 1,
        column: int = 1,
        suggestion: str | None = None,
    ) -> None:
        self.message, self.text, self.line, self.column, self.suggestion = message, text, line, column, suggestion
        self.at = column - 1 if at is None else at
        shown = text if len(text) <= 80 else text[:79] + "…"
        where = f" (line {line}, column {column} of {shown!r})" if text else ""
        hint = f"; did you mean {suggestion}?" if suggestion else ""
        super().__init__(f"{message}{hint}{where}")


class InvalidValue(RopewalkError):
    """A value is not JSON or is past a limit; `place` names it (`result.rows[3].price`)."""

    def __init__(self, place: str, message: str) -> None:
        self.place, self.message = place, message
        super().__init__(f"{place}: {message}" if place else message)


class SchemaMismatch(InvalidValue):
    """A value does not fit the schema it is held against: `.problems` lists each place and keyword."""

    def __init__(self, place: str, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("", "\n".join(map(str, self.problems)))  # each of which says where
        self.place = place


class UnsupportedSchema(RopewalkError):
    """A JSON Schema of another draft than 2020-12 or draft-07, or one that does not compile."""


class ConfigError(RopewalkError):
    """The configuration is wrong; `problems` has all that is, `place` says where the first is when it is in a file."""

    def __init__(self, message: str | Sequence[Problem], *, place: Place | None = None) -> None:
        found = (Problem(path="", message=message, place=place),) if isinstance(message, str) else tuple(message)
        self.problems: tuple[Problem, ...] = found
        self.place = found[0].place if found else None
        places = (f"{at.file}:{at.line}:{at.column}: " if (at := one.place) else "" for one in found)
        super().__init__("\n".join(f"{place}{one}" for place, one in zip(places, found, strict=True)))


class InvalidCursor(RopewalkError):
    """A page cursor is stale or garbled: start again from the first page."""


class NotFound(RopewalkError):
    """Nothing of this kind has this id."""

    def __init__(self, what: str, id: str, *, suggestion: str | None = None, why: str | None = None) -> None:
        self.what, self.id, self.suggestion, self.why = what, id, suggestion, why
        hint = f"; did you mean {suggestion!r}?" if suggestion else ""
        super().__init__(f"no {what} {id!r}{hint}" + (f": {why}" if why else ""))
