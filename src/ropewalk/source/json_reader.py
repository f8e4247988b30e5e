"""Read strict JSON text: NaN and repeated keys are refused, and every value has a position.

The standard library reads the values. Positions are scanned only after a mistake, so a valid document is read once.
"""

from __future__ import annotations

import json
import re

from ..values import Json, integer
from .locations import MOST_FAULTS, SYNTAX, Fault, Limits, Refused, Spot

_TOKEN = re.compile(r'"[^"\\]*(?:\\[\s\S][^"\\]*)*"|[{}\[\]]|[^\s{}\[\],:"]+')


# Quotes and comments that are never closed match up to the end, so that each character is read once.
_COMMENTS = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//[^\r\n]*|/\*[\s\S]*?(?:\*/|\Z)')
_COMMAS = re.compile(r'"(?:[^"\\\n]|\\.)*"?|,(?=\s*[}\]])')


def without_comments(text: str) -> str:
    """Return JSON with comments and trailing commas (JSONC) as strict JSON, in which every value has its place."""
    blank = lambda match: match[0] if match[0][0] == '"' else re.sub(r"[^\r\n]", " ", match[0])  # noqa: E731
    return _COMMAS.sub(blank, _COMMENTS.sub(blank, text))


class _Repeated(Exception):
    """An object has a key twice."""

    # The scan finds the place.


def read(text: str, limits: Limits) -> Json:
    """Read a JSON text."""
    try:
        data = json.loads(text, object_pairs_hook=None if limits.repeats else _object, parse_int=integer)
    except json.JSONDecodeError as error:
        raise Refused([_syntax(error, text)]) from None
    except (_Repeated, RecursionError) as error:
        if isinstance(error, _Repeated):
            _read_on(text)
        _scan(text, limits)
        raise
    if _deeper(data, limits.nesting):
        _scan(text, limits)
    return data


def _read_on(text: str) -> None:
    """Refuse a syntax error after a repeated key."""

    # The reader stopped at the key, and the scan needs valid JSON.
    try:
        json.loads(text, parse_int=integer)
    except json.JSONDecodeError as error:
        raise Refused([_syntax(error, text)]) from None
    except RecursionError:
        return  # the scan refuses the nesting


def spots(text: str) -> Spot:
    """Return the positions of all values in a valid JSON text."""
    return _scan(text, None)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _Repeated
    return result


def _deeper(value: Json, levels: int) -> bool:
    if type(value) is dict:
        return not levels or any(_deeper(v, levels - 1) for v in value.values() if type(v) in (dict, list))
    if type(value) is list:
        return not levels or any(_deeper(v, levels - 1) for v in value if type(v) in (dict, list))
    return False


def _scan(text: str, limits: Limits | None) -> Spot:
    """Return the positions of all values in valid JSON."""

    # With `limits`, refuse values that are nested too deep, and repeated keys unless these are allowed.
    nesting = limits.nesting if limits is not None else None
    unique = limits is not None and not limits.repeats
    stack: list[Spot] = []
    keys: list[tuple[str, int] | None] = []
    faults: list[Fault] = []
    root = Spot(0, len(text), "")
    for match in _TOKEN.finditer(text):
        token, start = match[0], match.start()
        # The end of an object or a list.
        if token in "}]":
            closed = stack.pop()
            keys.pop()
            closed.end = match.end()
            continue
        key = keys[-1] if keys else None
        # A key of an object: its value follows.
        if stack and text[stack[-1].start] == "{" and key is None:
            keys[-1] = (json.loads(token) if "\\" in token else token[1:-1], start)
            continue
        spot = Spot(start, match.end(), None if token in "{[" else '"' if token[0] == '"' else "")
        if not stack:
            root = spot
        elif key is None:
            stack[-1].items.append(spot)
        else:
            name, spot.key = key
            if name in stack[-1].fields:
                stack[-1].repeats.setdefault(name, spot.key)
            if unique and name in stack[-1].fields:
                faults.append(Fault(spot.key, f"repeated key {name!r}", first=stack[-1].fields[name].key))
                if len(faults) >= MOST_FAULTS:
                    raise Refused(faults)
            stack[-1].fields.setdefault(name, spot)
            keys[-1] = None
        # Later tokens belong to the object or list that begins here.
        if token in "{[":
            if nesting is not None and len(stack) >= nesting:
                raise Refused([*faults, Fault(start, f"nested deeper than {nesting}")])
            stack.append(spot)
            keys.append(None)
    if faults:
        raise Refused(faults)
    return root


def _syntax(error: json.JSONDecodeError, text: str) -> Fault:
    at, message = _explain(error, text)
    return Fault(at, message, keyword=SYNTAX)


def _explain(error: json.JSONDecodeError, text: str) -> tuple[int, str]:
    """Return the offset and the text of a syntax error, with what to write instead."""
    at, reason = error.pos, error.msg
    before = text[:at].rstrip()
    position = text[at : at + 2]
    # Mistakes of people who write JavaScript or Python.
    if position[:1] == "'":
        return at, "JSON text needs double quotes, not single quotes"
    if position in ("//", "/*") or position[:1] == "#":
        return at, "JSON has no comments; remove it, or save the file as YAML"
    if "trailing comma" in reason or (position[:1] in ("}", "]") and before.endswith(",")):
        return (
            len(before) - 1 if before.endswith(",") else at,
            f"a comma before {text[at:].lstrip(',').strip()[:1]!r} is not JSON; remove it",
        )
    if reason.startswith("Unterminated string"):
        return at, "quoted text that begins here is never closed"
    if reason.startswith("Extra data"):
        return at, "text after the end of the document"
    if reason.startswith("Expecting ',' delimiter") and at >= len(text.rstrip()):
        return at, "the text ends before every { and [ is closed"
    if reason.startswith("Expecting value") and at >= len(text.rstrip()):
        return at, "the text ends where a value is expected"
    return at, _friendly(reason)


def _friendly(reason: str) -> str:
    return {
        "Expecting ',' delimiter": "expected ',' or the closing bracket",
        "Expecting ':' delimiter": "expected ':' after the key",
        "Expecting value": "expected a value: an object, a list, text in double quotes, a number, true, false or null",
        "Expecting property name enclosed in double quotes": "expected a key in double quotes",
        "Invalid control character at": "a line break or control character inside text; write it as \\n or \\u00XX",
    }.get(reason, reason[:1].lower() + reason[1:])
