"""Keys under which equal JSON values meet in a dict, made of text and bytes only.

Python hashes numbers without a secret: -1 and -2 have one hash, and so have tuples and frozensets made of them. Data
from outside can make a set of numbers take time with the square of its length. The hashes of `str` and `bytes`
are keyed with a random number of the process, so a key of those cannot be prepared.
"""

from __future__ import annotations

import hashlib
from typing import Final

import orjson

from ..values import MAX_DEPTH, Json
from .budget import LONG_TEXT, Budget, OverBudget

_LONG_JSON: Final = LONG_TEXT - 2  # of JSON that is written, 2 to the power of this many bytes are a step
_LEAST, _MOST = float(-(2**63)), float(2**63)


def identity(value: Json, budget: Budget | None) -> str | bytes:
    """Return a key that two values share exactly when `==` of the language holds between them.

    Args:
        value: A JSON value.
        budget: Pays one step for each element inside `value`, and for the bytes of its JSON.

    Returns:
        The text itself for a text, otherwise bytes: a number or a constant as Python writes it, or a digest of JSON.

    Raises:
        OverBudget: The value is too large to compare or nested too deep.
    """
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is list or kind is dict:
        written = orjson.dumps(_comparable(value, budget, MAX_DEPTH), option=orjson.OPT_SORT_KEYS)
        if budget is not None:
            budget.spend(len(written) >> _LONG_JSON)
        return hashlib.blake2b(written, digest_size=32).digest()
    # At most 24 bytes, so never a digest. (What orjson writes keeps a kilobyte, however short it is.)
    if kind is int:
        return b"%d" % value
    return repr(_integral(value) if kind is float else value).encode()


def _comparable(value: Json, budget: Budget | None, depth: int) -> Json:
    """Return `value` with 1.0 written as 1, since both are the same number."""
    if not depth:
        raise OverBudget(f"values nested deeper than {MAX_DEPTH} cannot be compared")
    if budget is not None:
        budget.spend(len(value) + 1)
    if type(value) is dict:
        return {key: _element(item, budget, depth) for key, item in value.items()}
    return [_element(item, budget, depth) for item in value]


def _element(item: Json, budget: Budget | None, depth: int) -> Json:
    kind = type(item)
    if kind is list or kind is dict:
        return _comparable(item, budget, depth - 1)
    return _integral(item) if kind is float else item


def _integral(number: float) -> int | float:
    # Past 64 bits there are no integers of JSON that it could be equal to.
    return int(number) if _LEAST <= number < _MOST and number.is_integer() else number
