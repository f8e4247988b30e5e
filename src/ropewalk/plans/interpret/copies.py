"""Arguments and results as JSON texts. Both places pass them, so no object is shared with a tool."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterable
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, Final

from ...expr.python.values import Approval, Refused, to_json
from ...values import is_json
from .limits import measure

if TYPE_CHECKING:
    from .evaluation import PlanEvaluation

_SUSPECT: Final = re.compile(r"\d{19}|\\u0000|\\ud")
"""What may be an integer of more than 64 bits, or a character that not every store keeps."""


def to_text(evaluation: PlanEvaluation, value: Any) -> str:
    """Return a value as JSON text; keys become texts as `json.dumps` makes them."""
    evaluation.reserve(8 * measure(evaluation.budget, value))
    try:
        text = "".join(_encode(value, 0))
    except ValueError:
        raise Refused("NaN and infinity are not JSON; use None or a string") from None
    except TypeError:
        raise Refused("the keys of a dict are not JSON; use strings as keys") from None
    evaluation.reserve(len(text))
    if _SUSPECT.search(text):
        _check_integers(value)
        if not is_json(json.loads(text)):
            raise Refused("a text with NUL or half of a surrogate pair is not JSON; remove these characters")
    return text


def _other(value: Any) -> Any:
    if isinstance(value, (range, deque)):
        return list(value)
    if type(value) is Approval:
        return value.answer
    if hasattr(type(value), "fields_"):
        raise Refused(f"an instance of {type(value).__name__} is not JSON; write dataclasses.asdict(...)")
    return to_json(value)  # raises Refused with advice


def _encoder() -> Callable[[Any, int], Iterable[str]]:
    """Return the encoder of `json.dumps`, which takes half of the time when it is made once."""
    made = json.JSONEncoder(allow_nan=False, default=_other, check_circular=False)  # `measure` refused cycles
    if c_make_encoder is None:
        return lambda value, level: made.encode(value)
    encode: Callable[[Any, int], Iterable[str]] = c_make_encoder(
        None, _other, encode_basestring_ascii, None, ": ", ", ", False, False, False
    )
    return encode


_encode: Final = _encoder()


def _check_integers(value: Any) -> None:
    """Refuse integers of more than 64 bits, which many JSON readers would round."""
    todo = [value]
    while todo:
        part = todo.pop()
        if type(part) is int:
            to_json(part)
        elif isinstance(part, dict):
            todo += part.values()
        elif isinstance(part, (list, tuple, deque)):
            todo += part
