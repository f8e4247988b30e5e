"""What a tool module gives back: an object with `state_delta`, and perhaps `edge_output` and `metrics`.

The same for Python and JavaScript. Every complaint names the file; the engine adds the node. Which fields may be
written is not judged here: the state knows.
"""

from __future__ import annotations

from typing import Any, Final

from ..errors import InvalidValue
from ..values import NOT_JSON, Json, check_json, closest, own
from .snapshot import plain

_METRICS: Final = ("tokens_in", "tokens_out", "cost_usd")
_WORDS: Final = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "nothing"}


class ModuleFailed(Exception):
    """A tool module failed, or gave what is no result; the text begins with the file.

    `retryable` is false where the same call would fail again: the module itself is at fault."""

    def __init__(self, text: str, *, retryable: bool = True) -> None:
        self.retryable = retryable
        super().__init__(text)


def checked(result: Any, file: str) -> dict[str, Json]:
    """A result in containers of our own; ModuleFailed or InvalidValue says what is wrong with it."""
    place = f"{file}: result"
    try:
        found = own(result)
        if found is NOT_JSON:
            found = check_json(plain(result), place)
    except RecursionError:
        raise InvalidValue(place, "nested too deep, or within itself") from None
    if type(found) is not dict:
        raise ModuleFailed(f"{file}: gave {_said(found)}, not an object with state_delta")
    if "state_delta" not in found:
        near = closest("state_delta", found) or next((key for key in found if key.lower() == "statedelta"), None)
        has = f"; did you mean it by {near!r}?" if near else f"; it has {', '.join(found)}" if found else ""
        raise ModuleFailed(f"{file}: its result has no state_delta (give {{}} to write nothing){has}")
    if type(found["state_delta"]) is not dict:
        raise ModuleFailed(f"{file}: state_delta is {_said(found['state_delta'])}, not an object of state fields")
    _check_metrics(found.get("metrics"), file)
    return found


def _check_metrics(metrics: Json, file: str) -> None:
    if metrics is None:
        return
    if type(metrics) is not dict:
        raise ModuleFailed(f"{file}: metrics is {_said(metrics)}, not an object of {', '.join(_METRICS)}")
    for name in _METRICS:
        if name in metrics and type(metrics[name]) not in (int, float, type(None)):
            raise ModuleFailed(f"{file}: metrics.{name} is {_said(metrics[name])}, not a number")


def _said(value: Any) -> str:
    return _WORDS.get(type(value), f"a number ({value})")
