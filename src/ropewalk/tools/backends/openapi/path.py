"""The path of an operation, which leads only below the configured address.

Another host or port, a query, `.` and `..` in any spelling, empty segments and backslashes are refused. A value is one
segment of the path, or a part of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, unquote

from ....errors import InvalidTool
from ....fast_dataclass import dataclass
from ..http import InvalidRequest

_PARAMETER_PATTERN: Final = re.compile(r"\{([^{}]*)\}")
_SAFE_CHARACTERS: Final = "/-._~!$&'()*+,;=:@%"
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN: Final = re.compile(r"[\\?#{}\s\0-\x1f\x7f-\x9f]")
_DOT_SEGMENTS: Final = frozenset((".", ".."))
_MAX_DECODINGS: Final = 5
"""How often a path is decoded when it is checked: servers and proxies may each decode it once."""


_SLASH: Final = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A path with parameters: `parts` alternates between encoded text and the name of a parameter."""

    parts: tuple[str, ...]

    @property
    def names(self) -> frozenset[str]:
        """The parameters that the path needs."""
        return frozenset(self.parts[1::2])

    def fill(self, steps: Mapping[str, str]) -> str:
        """Return the path with the encoded texts of its parameters."""

        # Raises InvalidRequest for a missing text or one that climbs.
        encoded: list[str] = []
        for i, part in enumerate(self.parts):
            if i % 2 == 0:
                encoded.append(part)
                continue
            text = steps.get(part)
            if text is None:
                raise InvalidRequest(f"path parameter {part!r} has no value")
            if text in ("", *_DOT_SEGMENTS):
                raise InvalidRequest(f"path parameter {part!r} cannot be {text!r}")
            encoded.append(text)
        path = "".join(encoded)  # values that are harmless alone may complete a `..` with the text around them
        if any(unquote(step) in _DOT_SEGMENTS for step in path.split("/")):
            raise InvalidRequest(
                f"the values of {', '.join(sorted(self.names))} would leave the path of the operation (`..`)"
            )
        return path


def check_value(name: str, texts: Iterable[str]) -> None:
    """Raise InvalidRequest if a text of a path parameter climbs."""
    for text in texts:
        if _climbs(text):
            raise InvalidRequest(f"path parameter {name!r} cannot have .. as a step: {text!r}")


def _climbs(value: str) -> bool:
    """Return True if a server that decodes slashes before it looks at steps would leave the path at this value."""
    for _ in range(_MAX_DECODINGS):
        if any(step.partition(";")[0] == ".." for step in _SLASH.split(value)):
            return True
        if value == (value := unquote(value)):
            break
    return False


def path_template(path: str) -> PathTemplate:
    """Parse the path of an operation."""

    # Raises InvalidTool if it is not allowed.
    parts = _PARAMETER_PATTERN.split(path)
    text = _PARAMETER_PATTERN.sub("x", path)  # values contain no slash, so any letter can represent them
    if not path.startswith("/"):
        raise InvalidTool("a path must begin with /, so that it cannot change the host or the port")
    if (match := _FORBIDDEN.search(text)) is not None:
        raise InvalidTool(f"a path cannot have {match[0]!r}")
    if _BROKEN_ESCAPE.search(text):
        raise InvalidTool("a path can contain % only before two hexadecimal digits")
    _check_steps(text)
    try:
        return PathTemplate(
            tuple(quote(part, safe=_SAFE_CHARACTERS) if i % 2 == 0 else part for i, part in enumerate(parts))
        )
    except UnicodeEncodeError:
        raise InvalidTool("a path cannot have a lone surrogate") from None


def _check_steps(text: str) -> None:
    """Raise InvalidTool if a path could climb, even if servers decode it several times."""
    steps = text.split("/")[1:]
    if "" in steps[:-1]:
        raise InvalidTool("a path cannot have an empty step (//)")
    for step in steps:
        for _ in range(_MAX_DECODINGS):
            # Some servers remove everything after a semicolon first.
            if step.partition(";")[0] in _DOT_SEGMENTS:
                raise InvalidTool("a path cannot have . or .. as a step, also not as %2e")
            if "/" in step or "\\" in step or "\0" in step:
                raise InvalidTool("a path cannot have an encoded slash, backslash or NUL (%2f, %5c, %00)")
            if step == (step := unquote(step)):
                break
        else:
            raise InvalidTool(f"a path cannot be encoded more than {_MAX_DECODINGS} times")
