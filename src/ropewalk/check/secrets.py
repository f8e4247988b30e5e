"""What an expression may do with a secret: pass it on whole, or ask about it.

A run takes out of what it writes down the texts of its secrets as they are. What a function makes of one (its upper
case, its parts) is a text that redaction cannot recognise, so it is refused here, and at the run (`expr/calls.py`).
A tool may change a secret: what the tool is given is never written down. A function of the language refuses secrets
unless its definition declares otherwise (`expr/table.py`); the operators are listed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..expr.table import EVERY, FUNCTIONS, Positions, makes_another
from .schemas import ALL
from .types import Secret, Type, secret_in

_KEEP: Final[dict[str, Positions]] = {"+": EVERY, "?:": (1, 2), "[]": (0,)}
"""The operators whose result holds texts of the arguments at these positions, as they were."""
_ASK: Final = frozenset(("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in"))
"""The operators that give true or false."""
_OPERATORS: Final = (*_KEEP, *_ASK, "-", "*", "/", "%", "neg")


def passed(name: str, args: Sequence[Type], kinds: int | None) -> Secret | None:
    """The type of what a function gives, of these kinds, when its arguments may leave a secret in it; else None."""
    if name in _OPERATORS:
        kept = _KEEP.get(name, () if name in _ASK else EVERY)
    else:
        known = FUNCTIONS.get(name)
        # What is refused is reported once, but what comes of it is no less secret.
        kept = EVERY if known is None else () if known.asks is EVERY else (*known.keeps, *known.refuses)
    if name == "keys" and type(args[0]) is dict:
        return None  # whose keys the definition says
    found = next(filter(None, (secret_in(arg) for i, arg in enumerate(args) if i in kept)), None)
    return None if found is None else Secret(found.name, ALL if kinds is None else kinds)


def refusal(name: str, args: Sequence[Type]) -> str | None:
    """What is to be said of a function that makes something else of a secret."""
    if name in _OPERATORS:
        refused: Positions = () if name in _KEEP or name in _ASK else EVERY
    else:
        known = FUNCTIONS.get(name)
        refused = EVERY if known is None else known.refuses
    found = next(filter(None, (secret_in(arg) for i, arg in enumerate(args) if i in refused)), None)
    return None if found is None else makes_another(name, f"$secret.{found.name}")
