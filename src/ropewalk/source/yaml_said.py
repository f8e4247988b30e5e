"""What the YAML reader complains about, in words that say what would be right."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from .fault import Fault

_REFERENCE: Final = re.compile(r"\$[\w.-]+\Z")
_REST: Final = re.compile(r"\$(?:[\w.-]|\[[^\]\n]*\])+")


def said(error: yaml.YAMLError, text: str) -> Fault:
    """One fault for a YAML error, at the place where the mistake is, not where it was noticed."""
    mark: Any = getattr(error, "problem_mark", None)
    context_mark: Any = getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or error)
    context = str(getattr(error, "context", None) or "")
    at = mark.index if mark is not None else 0
    begun = context_mark.index if context_mark is not None else at
    opened = f"that begins on line {context_mark.line + 1}" if context_mark is not None else "before it"
    char = text[at : at + 1]
    if "end of stream" in problem and "quoted" in context:
        return Fault(begun, "quoted text that begins here is never closed")
    if char == "\t" or "tab" in problem:
        return Fault(at, "a tab cannot indent YAML; use spaces")
    if "cannot start any token" in problem:
        return Fault(at, f"text cannot begin with {char!r}; put it in quotes")
    if "alphabetic or numeric" in problem:
        sign = text[begun : begun + 1]
        return Fault(
            begun,
            f"{sign!r} begins {'an alias' if sign == '*' else 'an anchor'}; put text that starts with it in quotes",
        )
    if "mapping values are not allowed" in problem:
        return Fault(at, "unexpected ': '; put text that holds a colon in quotes, or check the indentation")
    if "expected ':'" in problem:
        return Fault(begun, "expected ': ' after this key")
    if char == ":" and "block mapping" in context:
        return Fault(at, "a key is missing before ':'")
    if "block mapping" in context:
        return Fault(
            at, f"this does not continue the object {opened}; check the indentation, or put the text in quotes"
        )
    if "block collection" in context:
        return Fault(at, f"this does not continue the list {opened}; check the indentation and the '-'")
    if "flow " in context and char == "{" and text[at - 1 : at] == "$":
        return Fault(at - 1, "text with ${...} inside { } or [ ] needs quotes around it: there braces mean objects")
    if "flow " in context and char == "[" and (begin := _REFERENCE.search(text, 0, at)) is not None:
        meant = _REST.match(text, begin.start())
        what = "a reference with [ ] inside { } or [ ] needs quotes around it: there brackets mean lists"
        return Fault(begin.start(), what, suggestion=f'"{meant[0]}"' if meant and '"' not in meant[0] else None)
    if "flow mapping" in context:
        return Fault(at, f"expected ',' or '}}' to go on with the object {opened}")
    if "flow sequence" in context:
        return Fault(at, f"expected ',' or ']' to go on with the list {opened}")
    return Fault(at, f"{problem} {context}".strip())
