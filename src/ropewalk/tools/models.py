"""Python objects as JSON: models, dataclasses, enums and what they hold.

`to_json` converts results whose type hint declares a model. `with_models` converts the models inside results that
have no such hint. Neither refuses a value: what they do not know stays as it is, and the check of results reports it.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from typing import Any

from ..values import MAX_DEPTH


def to_json(value: Any) -> Any:
    """Convert a result of a declared type: models and dataclasses to objects, enums to their values, tuples and sets
    to lists, dates and times to ISO 8601, UUIDs and decimals to text."""
    return _converted(value, MAX_DEPTH + 1)


def _converted(value: Any, depth: int) -> Any:
    if depth == 0:
        return value  # too deep, or within itself: the check of the result says so
    if isinstance(value, enum.Enum):
        return _converted(value.value, depth - 1)
    if is_dataclass(value):
        return {f.name: _converted(getattr(value, f.name), depth - 1) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {_converted(key, depth - 1): _converted(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_converted(item, depth - 1) for item in value]
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    dump = getattr(type(value), "model_dump", None)
    return dump(value, mode="json") if dump else value


def with_models(value: Any) -> Any:
    """Convert the models, dataclasses, enums and named tuples anywhere inside lists and objects.

    Returns:
        A converted copy, or `value` itself if it holds none of them or one cannot be converted.
    """
    try:
        return _with_models(value, MAX_DEPTH + 1)
    except Exception:  # noqa: BLE001 - code of the tool's own classes; the check reports the value as it is
        return value


def _with_models(value: Any, depth: int) -> Any:
    if depth == 0:
        return value
    kind = type(value)
    if kind is dict:
        made = {_with_models(key, depth - 1): _with_models(item, depth - 1) for key, item in value.items()}
        same = all(a is b and made[a] is value[b] for a, b in zip(made, value, strict=False)) and len(made) == len(
            value
        )
        return value if same else made
    if kind is list:
        items = [_with_models(item, depth - 1) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return to_json(value) if is_model(value) else value


def is_dataclass(value: Any) -> bool:
    """Return True for an instance of a dataclass, False for the class itself."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def is_model(value: Any) -> bool:
    """Return True for an instance of a type that states its own fields or JSON form."""
    if isinstance(value, tuple):
        return hasattr(type(value), "_fields")
    return isinstance(value, enum.Enum) or is_dataclass(value) or hasattr(type(value), "model_dump")
