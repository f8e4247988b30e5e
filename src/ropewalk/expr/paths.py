"""The paths of references: `.name`, `.0`, `[0]`, `["any key"]`.

Refused: negative positions on any other root than the state.
"""

from __future__ import annotations

import re
from typing import Final

from .ast import Path
from .faults import fault

ROOTS: Final = frozenset(
    ("input", "prev", "steps", "output", "var", "state", "item", "index", "iteration", "error", "secret", "acc")
)
"""Every name that may follow `$`; a notation allows some of them."""

_NAME: Final = re.compile(r"\.([^\W\d]\w*)")
_LOOSE_NAME: Final = re.compile(r"\.([\w-]+)")
_POSITION: Final = re.compile(r"\.([0-9]{1,15})(?!\w)|\[\s*(-?[0-9]{1,15})\s*\]")
_DIGITS: Final = re.compile(r"[0-9]{1,15}")
_KEY: Final = re.compile(r"""\[\s*("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')\s*\]""")
CALL: Final = re.compile(r"\s*\(")
"""What follows the name of a method."""


def walk(text: str, at: int, *, state: bool, loose: bool = False) -> tuple[Path, int]:
    """The constant steps of a path from `at` on, and the position after them.

    Stops before a method call, a computed index and a JSONPath segment. `loose` is for references
    outside expressions: a name may hold a hyphen there, and nothing is a call.
    """
    steps: list[str | int] = []
    name_of = _LOOSE_NAME if loose else _NAME
    while True:
        if found := name_of.match(text, at):
            if not loose and CALL.match(text, found.end()):
                break
            name = found.group(1)
            steps.append(int(name) if loose and _DIGITS.fullmatch(name) else name)
        elif found := _POSITION.match(text, at):
            step = int(found.group(1) or found.group(2))
            if step < 0 and not state:
                raise fault(text, at, "a position in a list is 0 or more; only $state counts from the end")
            steps.append(step)
        elif found := _KEY.match(text, at):
            from .tokens import Token, string_value  # most references name no such key

            steps.append(string_value(text, Token("string", found.group(1), found.start(1))))
        else:
            return tuple(steps), at
        at = found.end()
    return tuple(steps), at
