"""The result of a tool module, in Python or JavaScript: its form, and the error of a module that fails.

A result is an object with `state_delta`, and optionally `edge_output` and `metrics`. Messages name the file;
the engine adds the node, and the state checks which fields may be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import InvalidValue, StackTrace
from ..values import NOT_JSON, Json, check_json, copy_json, did_you_mean
from .snapshots import copy_plain

_METRICS: Final = ("tokens_in", "tokens_out", "cost_usd")
_TYPE_NAMES: Final = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "nothing"}


class ModuleFailed(Exception):
    """A tool module failed, or returned an invalid result; the text begins with the file."""

    # `retryable`: False if the module itself is at fault, so that the same call would fail again.
    # `trace`: The stack in JavaScript.

    trace: StackTrace | None = None

    def __init__(self, text: str, *, retryable: bool = True) -> None:
        self.retryable = retryable
        super().__init__(text)


def checked(result: Any, file: str) -> dict[str, Json]:
    """Check the result of a tool module and copy it."""
    place = f"{file}: result"
    try:
        module_result = copy_json(result)
        if module_result is NOT_JSON:
            module_result = check_json(copy_plain(result), place)
    except RecursionError:
        raise InvalidValue(place, "nested too deep, or within itself") from None
    if type(module_result) is not dict:
        raise ModuleFailed(f"{file}: gave {_describe_type(module_result)}, not an object with state_delta")
    if "state_delta" not in module_result:
        hint = _missing_delta_hint(module_result)
        raise ModuleFailed(f"{file}: its result has no state_delta (give {{}} to write nothing){hint}")
    delta = module_result["state_delta"]
    if type(delta) is not dict:
        raise ModuleFailed(f"{file}: state_delta is {_describe_type(delta)}, not an object of state fields")
    _check_metrics(module_result.get("metrics"), file)
    return module_result


def _missing_delta_hint(module_result: Mapping[str, Json]) -> str:
    similar = did_you_mean("state_delta", module_result)
    for key in module_result:
        if similar is None and key.lower() == "statedelta":
            similar = key
    if similar:
        return f"; rename {similar!r} to state_delta?"
    return f"; it has {', '.join(module_result)}" if module_result else ""


def _check_metrics(metrics: Json, file: str) -> None:
    if metrics is None:
        return
    if type(metrics) is not dict:
        raise ModuleFailed(f"{file}: metrics is {_describe_type(metrics)}, not an object of {', '.join(_METRICS)}")
    for name in _METRICS:
        if name in metrics and type(metrics[name]) not in (int, float, type(None)):
            raise ModuleFailed(f"{file}: metrics.{name} is {_describe_type(metrics[name])}, not a number")


def _describe_type(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), f"a number ({value})")
