"""Questions of MCP servers on a terminal: forms, field by field, and addresses to open.

A server asks during a call (elicitation). The person answers each field, declines, or closes the question. Text of
the server is shown without control characters. An answer that does not fit the schema is asked again.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import orjson

from ...schema import compile_schema
from ...source.document import escape_invisible
from ...tools.mcp.local_client import Elicitation
from ...tools.output import uncaptured
from ...values import Json
from .output import notify

if TYPE_CHECKING:
    from ...app.app import App

CANCEL: Final = "cancel"
DECLINE: Final = "decline"
_NO: Final = ("n", "no")
_YES: Final = ("y", "yes", "true")
_UNSET: Final[Any] = object()
_CLOSED: Final[Any] = object()

_BOUNDS: Final = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "minLength": "length at least",
    "maxLength": "length at most",
    "minItems": "items at least",
    "maxItems": "items at most",
    "pattern": "pattern",
}
"""The limits of a field that a form shows, by their key in the schema."""

ReadLine = Callable[[str], Awaitable[str | None]]
"""Shows a sign and returns the line that the person types; None at the end of input (Ctrl-D)."""


async def answer_question(question: Elicitation, read: ReadLine, show: Callable[[str], None]) -> Any:
    """Ask a person what a server wants to know."""
    show(f"? {escape_invisible(question.server)} asks: {escape_invisible(question.message)}")
    if question.url is not None:
        show(f"  open this address: {escape_invisible(question.url)}")
        return await _read_consent("y (done)", _YES, read, show) or True
    refusal = await _read_consent("Enter to answer", ("", *_YES), read, show)
    if refusal is not None:
        return refusal
    schema: Mapping[str, Any] = question.schema or {}
    fields: dict[str, Json] = {}
    for name, field in (schema.get("properties") or {}).items():
        value = await _ask_field(name, field, name in (schema.get("required") or ()), read, show)
        if value is _CLOSED:
            return CANCEL
        if value is not _UNSET:
            fields[name] = value
    return fields


async def _read_consent(
    offer: str, consents: tuple[str, ...], read: ReadLine, show: Callable[[str], None]
) -> str | None:
    """Ask until the line is a consent, which gives None, or a refusal."""

    # Any other line is neither of the two.
    sign = f"  {offer}, n (decline), Ctrl-D (cancel): "
    while True:
        line = await read(sign)
        if line is None:
            return CANCEL
        word = line.strip().lower()
        if word in _NO:
            return DECLINE
        if word in consents:
            return None
        show(f"  ! {offer}, or n, or Ctrl-D")


async def _ask_field(
    name: str, field: Mapping[str, Any], required: bool, read: ReadLine, show: Callable[[str], None]
) -> Any:
    """Ask one field until its answer fits."""

    # Return _CLOSED at the end of input, _UNSET for a field that is left out.
    choices = _choices(field)
    # The texts come from a server, so control characters must not reach the terminal.
    if field.get("description"):
        show(f"  {escape_invisible(str(field['description']))}")
    for number, (value, title) in enumerate(choices, 1):
        show(
            f"    {number}. {escape_invisible(title)}"
            + (f" ({escape_invisible(str(value))})" if title != value else "")
        )
    sign = f"  {escape_invisible(str(field.get('title') or name))}{_hint(field, choices, required)}: "
    fits = compile_schema(dict(field))
    while True:
        line = await read(sign)
        if line is None:
            return _CLOSED
        text = line.strip()
        # An empty line is an answer only if the field has a default or is optional.
        if not text and "default" in field:
            return field["default"]
        if not text and not required:
            return _UNSET
        value = _read(text, field, choices)
        problems = fits.problems(value)
        if text and not problems:
            return value
        why = problems[0].message if problems and text else "this field is required"
        show(f"  ! {escape_invisible(why)}")


def _hint(field: Mapping[str, Any], choices: list[tuple[Json, str]], required: bool, boolean: str = "y or n") -> str:
    """Return what a person needs to know of a field, in brackets; `boolean` says how to answer yes or no."""
    kind = str(field.get("type", "text")).replace("string", "text").replace("boolean", boolean)
    several = field.get("type") == "array"
    hints = [("numbers, with commas" if several else "number") if choices else str(field.get("format") or kind)]
    hints += [f"{words} {_shown(field[key])}" for key, words in _BOUNDS.items() if key in field]
    if "default" in field:
        hints.append(f"default {_shown(field['default'])}")
    elif not required:
        hints.append("optional")
    return f" ({escape_invisible(', '.join(hints))})"


def form_lines(question: Mapping[str, Any]) -> list[str]:
    """Return what a person needs to know to answer a question: the address, or a line for each field of the form."""
    others = 'or "decline", or "cancel"'
    if "url" in question:
        return [f"open this address: {question['url']}", f"payload: true (the address was opened), {others}"]
    schema: Mapping[str, Any] = question.get("schema") or {}
    lines = []
    for name, field in (schema.get("properties") or {}).items():
        choices = _choices(field)
        about = f": {field['description']}" if field.get("description") else ""
        values = f": {', '.join(_shown(value) for value, _ in choices)}" if choices else ""
        hint = _hint(field, [], name in (schema.get("required") or ()), "true or false")
        lines.append(f"{name}{hint}{about}{values}")
    return [*lines, f"payload: an object with these fields, {others}"]


def example_answer(question: Mapping[str, Any]) -> Json:
    """Return an answer to a question that a person can start from: the fields that the form requires."""
    if "url" in question:
        return True
    schema: Mapping[str, Any] = question.get("schema") or {}
    properties = schema.get("properties") or {}
    return {name: _example(properties.get(name) or {}) for name in schema.get("required") or ()}


def _example(field: Mapping[str, Any]) -> Json:
    choices = _choices(field)
    if "default" in field:
        return field["default"]
    if field.get("type") == "array":
        return [value for value, _ in choices[:1]]
    if choices:
        return choices[0][0]
    examples: dict[str, Json] = {"boolean": True, "integer": 1, "number": 1}
    return examples.get(str(field.get("type")), "...")


def _choices(field: Mapping[str, Any]) -> list[tuple[Json, str]]:
    """Return the values that a field can have, each with its title; none for a free one."""
    inner: Mapping[str, Any] = field.get("items") or {} if field.get("type") == "array" else field
    titled = inner.get("oneOf") or inner.get("anyOf") or ()
    if titled:
        return [(item.get("const"), str(item.get("title", item.get("const")))) for item in titled]
    values = inner.get("enum") or ()
    names = inner.get("enumNames") or ()
    return [(value, str(names[i] if i < len(names) else value)) for i, value in enumerate(values)]


def _read(text: str, field: Mapping[str, Any], choices: list[tuple[Json, str]]) -> Json:
    """Return a line as the value of a field; text that has no such value stays text, which does not fit."""
    kind = field.get("type")
    if kind == "array":
        return [_chosen(part.strip(), choices) for part in text.split(",") if part.strip()]
    if choices:
        return _chosen(text, choices)
    if kind == "boolean":
        word = text.lower()
        return True if word in _YES else False if word in (*_NO, "false") else text
    if kind in ("integer", "number"):
        with contextlib.suppress(ValueError):
            number = orjson.loads(text)
            return number if isinstance(number, (int, float)) else text
    return text


def _chosen(text: str, choices: list[tuple[Json, str]]) -> Json:
    """Return the choice that a number, a title or a value names."""
    for number, (value, title) in enumerate(choices, 1):
        if text in (str(number), title, str(value)):
            return value
    return text


def _shown(value: Json) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


class Pausable(Protocol):
    """A display that can leave the terminal to a question."""

    def paused(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which nothing is drawn."""
        ...


class TerminalQuestions:
    """Asks the person at the terminal, one question at a time."""

    # It is the `on_elicit` of a toolbox.

    def __init__(self) -> None:
        self.display: Pausable | None = None
        """What is drawn meanwhile."""
        self._asking = asyncio.Lock()

    async def __call__(self, question: Elicitation) -> Any:
        from .keyboard import Keyboard  # there are no terminals of this kind on Windows

        async with self._asking:
            paused = self.display.paused() if self.display is not None else contextlib.nullcontext()
            with paused, uncaptured():
                keyboard = Keyboard(sys.stdin.fileno(), sys.stdin.encoding)

                async def read(sign: str) -> str | None:
                    sys.stderr.write(sign)
                    sys.stderr.flush()
                    return await keyboard.line()

                try:
                    keyboard.discard()  # whoever typed ahead has not seen this question
                    return await answer_question(question, read, notify)
                finally:
                    keyboard.close()


def ask_on_terminal(app: App) -> TerminalQuestions | None:
    """Let the person at the terminal answer questions of MCP servers, if there is a terminal."""
    questions = app.toolbox.on_elicit
    if questions is None and sys.stdin.isatty() and sys.stderr.isatty():
        questions = app.toolbox.on_elicit = TerminalQuestions()
    return questions if isinstance(questions, TerminalQuestions) else None


@contextlib.contextmanager
def shown_with(app: App, display: Pausable) -> Iterator[None]:
    """Pause a display while a question is asked."""
    questions = ask_on_terminal(app)
    if questions is not None:
        questions.display = display
    try:
        yield
    finally:
        if questions is not None:
            questions.display = None
