"""What an expression may do with a secret: pass it on whole, or ask about it.

A run takes out of what it writes down the texts of its secrets as they are. What a function makes of one (its upper
case, its parts) is a text that nobody knows to be secret, so it is refused here. A tool may change a secret: what the
tool is given is never written down. To add a function that leaves texts whole, name it in `_WHOLE`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .schemas import ALL
from .types import Each, Either, Secret, Type

_WHOLE: Final = frozenset(
    ("${}", "+", "?:", "[]", "coalesce", "string", "join", "replace", "merge", "deep_merge", "pick", "omit", "rename",
     "concat", "zip", "flatten", "unique", "sort", "min", "max", "keys", "values", "query")
)  # fmt: skip
"""What they give holds their texts as they were."""
_ASKS: Final = frozenset(
    ("&&", "||", "!", "==", "!=", "<", "<=", ">", ">=", "in", "has", "exists", "any", "all", "contains", "startsWith",
     "endsWith", "matches", "length", "size")
)  # fmt: skip
"""What they give is true or false, or a length. `bool` is none of them: it tells what it cannot read."""
_PLACES: Final = {"+", "${}", "string", "join", "replace", "coalesce", "?:"}
"""Those of `_WHOLE` whose result is a text that may be looked at further."""


def secret_in(known: Type) -> Secret | None:
    """The first secret that a value of this type holds."""
    kind = type(known)
    if kind is Secret:
        assert isinstance(known, Secret)
        return known
    if kind is Each:
        return secret_in(known.item)
    inside = known.values() if kind is dict else known if kind is list else known.of if kind is Either else ()
    for one in inside:
        found = secret_in(one)
        if found is not None:
            return found
    return None


def passed(name: str, args: Sequence[Type], kinds: int | None) -> Secret | None:
    """What a function gives of arguments one of which holds a secret, and which is of these kinds; None where it is
    not known to hold one."""
    inside = args[1:] if name == "?:" else args
    found = next(filter(None, map(secret_in, inside)), None) if name in _PLACES else None
    return None if found is None else Secret(found.name, ALL if kinds is None else kinds)


def refusal(name: str, args: Sequence[Type]) -> str | None:
    """What is to be said of a function that makes something else of a secret."""
    if name in _ASKS or (name in _WHOLE and not (name == "replace" and type(args[0]) is Secret)):
        return None
    found = next(filter(None, map(secret_in, args)), None)
    if found is None:
        return None
    what = f"{name!r} would make another text of $secret.{found.name}, which is not known to be secret and written down"
    return f"{what}; give the secret as it is, and let the tool change it"
