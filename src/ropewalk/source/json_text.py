"""JSON text: strict, repeated keys and NaN refused, and where every value stands.

The values come from the standard library's reader; positions are scanned only when something is
wrong, so a good document is read once.
"""

from __future__ import annotations

import json
import re

from ..values import Json, integer
from .fault import MOST_FAULTS, SYNTAX, Fault, Refused
from .limits import Limits
from .spot import Spot

_TOKEN = re.compile(r'"[^"\\]*(?:\\[\s\S][^"\\]*)*"|[{}\[\]]|[^\s{}\[\],:"]+')


class _Repeated(Exception):
    """A key stands twice in an object; the scan finds where."""


def read(text: str, limits: Limits) -> Json:
    """The value of a JSON text; raises Refused with every fault and its offset."""
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
    """Refuses what is no JSON behind a repeated key: the reader stopped there, and the scan takes only what is JSON."""
    try:
        json.loads(text, parse_int=integer)
    except json.JSONDecodeError as error:
        raise Refused([_syntax(error, text)]) from None
    except RecursionError:
        return  # the scan ends where it is too deep


def spots(text: str) -> Spot:
    """Where everything in a valid JSON text stands."""
    return _scan(text, None)


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise _Repeated
    return made


def _deeper(value: Json, levels: int) -> bool:
    if type(value) is dict:
        return not levels or any(_deeper(v, levels - 1) for v in value.values() if type(v) in (dict, list))
    if type(value) is list:
        return not levels or any(_deeper(v, levels - 1) for v in value if type(v) in (dict, list))
    return False


def _scan(text: str, limits: Limits | None) -> Spot:
    """All positions of a text the standard reader took; with `limits` refuses depth, and repeated keys that those do
    not let pass."""
    nesting = limits.nesting if limits is not None else None
    unique = limits is not None and not limits.repeats
    stack: list[Spot] = []
    keys: list[tuple[str, int] | None] = []
    faults: list[Fault] = []
    root = Spot(0, len(text), "")
    for found in _TOKEN.finditer(text):
        token, start = found[0], found.start()
        if token in "}]":
            done = stack.pop()
            keys.pop()
            done.end = found.end()
            continue
        key = keys[-1] if keys else None
        if stack and text[stack[-1].start] == "{" and key is None:
            keys[-1] = (json.loads(token) if "\\" in token else token[1:-1], start)
            continue
        spot = Spot(start, found.end(), None if token in "{[" else '"' if token[0] == '"' else "")
        if not stack:
            root = spot
        elif key is None:
            stack[-1].items.append(spot)
        else:
            name, spot.key = key
            if name in stack[-1].fields:
                stack[-1].again.setdefault(name, spot.key)
            if unique and name in stack[-1].fields:
                faults.append(Fault(spot.key, f"repeated key {name!r}", first=stack[-1].fields[name].key))
                if len(faults) >= MOST_FAULTS:
                    raise Refused(faults)
            stack[-1].fields.setdefault(name, spot)
            keys[-1] = None
        if token in "{[":
            if nesting is not None and len(stack) >= nesting:
                raise Refused([*faults, Fault(start, f"nested deeper than {nesting}")])
            stack.append(spot)
            keys.append(None)
    if faults:
        raise Refused(faults)
    return root


def _syntax(error: json.JSONDecodeError, text: str) -> Fault:
    at, message = _said(error, text)
    return Fault(at, message, keyword=SYNTAX)


def _said(error: json.JSONDecodeError, text: str) -> tuple[int, str]:
    """Where and what, in words that help."""
    at, said = error.pos, error.msg
    before = text[:at].rstrip()
    here = text[at : at + 2]
    if here[:1] == "'":
        return at, "JSON text stands in double quotes, not single ones"
    if here in ("//", "/*") or here[:1] == "#":
        return at, "JSON has no comments; remove it, or save the file as YAML"
    if "trailing comma" in said or (here[:1] in ("}", "]") and before.endswith(",")):
        return (
            len(before) - 1 if before.endswith(",") else at,
            f"a comma before {text[at:].lstrip(',').strip()[:1]!r} is not JSON; remove it",
        )
    if said.startswith("Unterminated string"):
        return at, "quoted text that begins here is never closed"
    if said.startswith("Extra data"):
        return at, "text after the end of the document"
    if said.startswith("Expecting ',' delimiter") and at >= len(text.rstrip()):
        return at, "the text ends before every { and [ is closed"
    if said.startswith("Expecting value") and at >= len(text.rstrip()):
        return at, "the text ends where a value is expected"
    return at, _friendly(said)


def _friendly(said: str) -> str:
    return {
        "Expecting ',' delimiter": "expected ',' or the closing bracket",
        "Expecting ':' delimiter": "expected ':' after the key",
        "Expecting value": "expected a value: an object, a list, text in double quotes, a number, true, false or null",
        "Expecting property name enclosed in double quotes": "expected a key in double quotes",
        "Invalid control character at": "a line break or control character inside text; write it as \\n or \\u00XX",
    }.get(said, said[:1].lower() + said[1:])
