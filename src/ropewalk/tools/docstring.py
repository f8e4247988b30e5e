"""A function's docstring read for a tool: the description and a line per parameter.

Understands Google (`Args:`), NumPy (`Parameters` underlined) and Sphinx (`:param x:`). Everything
it does not understand stays in the description: no text is lost, nothing is refused.
"""

from __future__ import annotations

import inspect
import re
from typing import Final

_SECTIONS: Final = frozenset(("args", "arguments", "parameters", "params", "returns", "return", "yields", "raises",
                              "example", "examples", "note", "notes"))  # fmt: skip
_PARAMETERS: Final = frozenset(("args", "arguments", "parameters", "params"))
_DROPPED: Final = _PARAMETERS | {"returns", "return", "yields", "raises"}
_GOOGLE: Final = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY: Final = re.compile(r"^\*{0,2}(\w+)\s*(?::.*)?$")
_SPHINX: Final = re.compile(r"^:(\w+)(?:\s+[^:]*?)?\s*(\w+)?:\s*(.*)$")


def read_docstring(text: str | None) -> tuple[str, dict[str, str]]:
    """The description, and what is said about each parameter."""
    lines = inspect.cleandoc(text or "").splitlines()
    kept: list[str] = []
    params: dict[str, str] = {}
    i = 0
    while i < len(lines):
        line = lines[i]
        title = line.strip().rstrip(":").lower()
        underlined = i + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[i + 1].strip()) is not None
        if line.startswith(":") and _SPHINX.match(line):
            i = _sphinx(lines, i, params)
        elif title in _SECTIONS and underlined:
            i = _numpy(lines, i + 2, params if title in _PARAMETERS else None, kept, title)
        elif title in _DROPPED and line.strip().endswith(":") and not line.startswith(" "):
            i = _google(lines, i + 1, params if title in _PARAMETERS else None)
        else:
            kept.append(line)
            i += 1
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return description, params


def _google(lines: list[str], i: int, params: dict[str, str] | None) -> int:
    indent: int | None = None
    name = None
    while i < len(lines) and (not lines[i].strip() or lines[i].startswith(" ")):
        line = lines[i]
        i += 1
        if params is None or not line.strip():
            continue
        found = _GOOGLE.match(line)
        depth = len(line) - len(line.lstrip())
        if found and (indent is None or depth <= indent):
            indent, name = depth, found[2]
            params[name] = found[3].strip()
        elif name is not None:
            params[name] = f"{params[name]} {line.strip()}".strip()
    return i


def _numpy(lines: list[str], i: int, params: dict[str, str] | None, kept: list[str], title: str) -> int:
    name = None
    if params is None and title not in _DROPPED:
        kept.append(f"{title.capitalize()}:")
    while i < len(lines):
        line = lines[i]
        if i + 1 < len(lines) and line.strip().lower() in _SECTIONS and re.fullmatch(r"-{3,}", lines[i + 1].strip()):
            break
        i += 1
        if params is None:
            if title not in _DROPPED:
                kept.append(line)
        elif line.strip() and not line.startswith(" "):
            found = _NUMPY.match(line)
            name = found[1] if found else None
            if name:
                params[name] = ""
        elif name and line.strip():
            params[name] = f"{params[name]} {line.strip()}".strip()
    return i


def _sphinx(lines: list[str], i: int, params: dict[str, str]) -> int:
    found = _SPHINX.match(lines[i])
    i += 1
    more: list[str] = []
    while i < len(lines) and lines[i].startswith(" ") and lines[i].strip():
        more.append(lines[i].strip())
        i += 1
    if found and found[1] in ("param", "parameter", "arg", "argument") and found[2]:
        params[found[2]] = " ".join([found[3].strip(), *more]).strip()
    return i
