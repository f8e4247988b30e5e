"""JSON out of an answer: found in the text, mended where it is cut or has a comma too many, checked against its schema.

Mending only closes what is open and drops commas that JSON does not have; it never makes up a value. What does not
fit after that is told to the model, and in the end to the caller: there is no default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from ..errors import InvalidValue
from ..schema import Schema, compile_schema
from ..values import Json, check_json, parsed

_FENCE: Final = re.compile(r"```[A-Za-z0-9_-]*\s*\n(.*?)(?:```|\Z)", re.DOTALL)
_STARTS: Final = 50
_NOTHING: Final[Any] = object()
_MOST_SAID: Final = 20


def read_json(text: str, schema: Json) -> tuple[Json, list[str]]:
    """The value in an answer, and what is wrong with it: nothing when it fits the schema."""
    compiled = compile_schema(schema)
    first: Json = None
    wrong: list[str] | None = None
    for value in _candidates(text):
        problems = _problems(compiled, value)
        if not problems:
            return value, []
        if wrong is None:
            first, wrong = value, problems[:_MOST_SAID]
    if wrong is None:
        return None, ["the answer holds no JSON" if text.strip() else "the answer is empty"]
    return first, wrong


def _problems(compiled: Schema, value: Any) -> list[str]:
    try:
        check_json(value, "answer")
    except InvalidValue as error:
        return [str(error)]  # an integer past 64 bits, say, which the model can write as text
    return [str(problem) for problem in compiled.problems(value, "answer")]


def correction(problems: list[str]) -> str:
    """What the model is told of an answer that does not fit."""
    listed = "\n".join(f"- {problem}" for problem in problems)
    return f"The answer does not fit the JSON Schema:\n{listed}\nAnswer again, with the corrected JSON only."


def instruction(schema: Json) -> str:
    """What a model that has no structured output of its own is told beforehand."""
    return (
        f"Answer with JSON only, without any other text, that fits this JSON Schema:\n{orjson.dumps(schema).decode()}"
    )


def _candidates(text: str) -> Iterator[Json]:
    """Everything in the text that is JSON, what is most likely meant first."""
    for piece in (text, *(found[1] for found in _FENCE.finditer(text))):
        value = _parsed(piece.strip())
        if value is not _NOTHING:
            yield value
    for count, found in enumerate(re.finditer(r"[{\[]", text)):
        if count == _STARTS:
            return
        piece, whole = _balanced(text, found.start())
        for mended in (piece, _mended(piece)) if whole else (_mended(piece),):
            value = _parsed(mended)
            if value is not _NOTHING:
                yield value
                break


def _parsed(text: str) -> Any:
    try:
        return parsed(text)
    except (orjson.JSONDecodeError, InvalidValue):
        return _NOTHING


def _tokens(text: str, at: int) -> Iterator[tuple[int, str]]:
    """The marks of JSON from a place on: brackets and commas outside of strings, and `"` where a string ends."""
    quoted = escaped = False
    for i in range(at, len(text)):
        char = text[i]
        if quoted:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                quoted = False
                yield i, '"'
        elif char == '"':
            quoted = True
        elif char in "{}[],":
            yield i, char
    if quoted:
        yield len(text), "open"


def _balanced(text: str, at: int) -> tuple[str, bool]:
    """From a bracket to the one that closes it; to the end where none does."""
    level = 0
    for i, mark in _tokens(text, at):
        if mark in "{[":
            level += 1
        elif mark in "}]":
            level -= 1
            if not level:
                return text[at : i + 1], True
    return text[at:], False


def _mended(text: str) -> str:
    """The piece with what is open closed, and without commas before a closing bracket."""
    opened: list[str] = []
    comma = -1  # the last one, until another mark follows: then it is not before a closing bracket
    drop: set[int] = set()
    cut_in_string = False
    for i, mark in _tokens(text, 0):
        if mark in ("{", "["):
            opened.append("}" if mark == "{" else "]")
        elif mark in ("}", "]"):
            if comma >= 0 and not text[comma + 1 : i].strip():
                drop.add(comma)
            if opened:
                opened.pop()
        elif mark == "open":
            cut_in_string = True
        comma = i if mark == "," else -1
    body = "".join(char for i, char in enumerate(text) if i not in drop)
    if cut_in_string:
        body = body.rstrip("\\") + '"'
    body = body.rstrip()
    if opened:
        body = _without_half(body)
    return body + "".join(reversed(opened))


def _without_half(text: str) -> str:
    """The text without a last member that has no value yet: `, "key":`, `, "key"` in an object, or a comma."""
    text = re.sub(r",\s*$", "", text)
    return re.sub(r'([{,])\s*"(?:[^"\\]|\\.)*"\s*:\s*$', lambda m: "" if m[1] == "," else "{", text)
