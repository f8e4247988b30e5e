"""Paths of an OpenAPI document: read once, checked, and filled with encoded values.

A path can only lead below the configured base. Refused: another host or port, a query, `.` and `..` in any spelling,
empty steps, backslashes. A value is one step of the path, or a part of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from ..errors import InvalidTool
from ..frozen import dataclass
from .http import CannotBeSent

_PARAMETER: Final = re.compile(r"\{([^{}]*)\}")
_LITERAL: Final = "/-._~!$&'()*+,;=:@%"
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN: Final = re.compile(r"[\\?#{}\s\0-\x1f\x7f-\x9f]")
_CLIMBING: Final = frozenset((".", ".."))
_ROUNDS: Final = 5
"""How often a path is decoded when it is checked: servers and proxies may each decode it once."""


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A path with parameters: `parts` alternates between encoded text and the name of a parameter."""

    parts: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The parameters that the path needs."""
        return frozenset(self.parts[1::2])

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the path with each value encoded; CannotBeSent where one is missing or the path would climb."""
        made: list[str] = []
        for i, part in enumerate(self.parts):
            if i % 2 == 0:
                made.append(part)
                continue
            value = values.get(part)
            if value is None:
                raise CannotBeSent(f"path parameter {part!r} has no value")
            if value in ("", *_CLIMBING):
                raise CannotBeSent(f"path parameter {part!r} cannot be {value!r}")
            try:
                made.append(quote(value, safe=""))
            except UnicodeEncodeError:
                raise CannotBeSent(f"path parameter {part!r} is not valid text: it holds a lone surrogate") from None
        path = "".join(made)
        if any(unquote(step) in _CLIMBING for step in path.split("/")):
            raise CannotBeSent(f"the values of {', '.join(sorted(self.names))} would make the path climb")
        return path


def path_template(path: str) -> PathTemplate:
    """Read the path of an operation; InvalidTool says why it cannot be one."""
    parts = _PARAMETER.split(path)
    text = _PARAMETER.sub("x", path)  # a value never begins or ends a step, so any letter stands for it
    if not path.startswith("/"):
        raise InvalidTool("a path begins with /, so that it cannot change the host or the port")
    if (found := _FORBIDDEN.search(text)) is not None:
        raise InvalidTool(f"a path cannot have {found[0]!r}")
    if _BROKEN_ESCAPE.search(text):
        raise InvalidTool("a path has % only before two hexadecimal digits")
    _check_steps(text)
    try:
        return PathTemplate(tuple(quote(part, safe=_LITERAL) if i % 2 == 0 else part for i, part in enumerate(parts)))
    except UnicodeEncodeError:
        raise InvalidTool("a path cannot have a lone surrogate") from None


def _check_steps(text: str) -> None:
    """Refuse what leads upward or elsewhere, however often it is decoded before somebody reads it."""
    steps = text.split("/")[1:]
    if "" in steps[:-1]:
        raise InvalidTool("a path cannot have an empty step (//)")
    for step in steps:
        for _ in range(_ROUNDS):
            # Some servers cut what follows a semicolon before they look at the step.
            if step.partition(";")[0] in _CLIMBING:
                raise InvalidTool("a path cannot have . or .. as a step, also not as %2e")
            if "/" in step or "\\" in step or "\0" in step:
                raise InvalidTool("a path cannot have an encoded slash, backslash or NUL (%2f, %5c, %00)")
            if step == (step := unquote(step)):
                break
        else:
            raise InvalidTool("a path cannot be encoded so many times")
