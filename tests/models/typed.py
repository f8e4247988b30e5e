"""The makers' own types as a judge: unknown parameters, and values of a wrong type."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_type_hints


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def type_problems(kind: Any, body: Mapping[str, Any], unknown: str) -> Iterator[str]:
    """What a TypedDict of an SDK says against a body; `unknown` is the maker's message about an unknown parameter."""
    from pydantic import ValidationError

    for name in sorted(set(body) - set(get_type_hints(kind))):
        yield unknown.format(name)
    try:
        _consume(_adapter(kind).validate_python(json.loads(json.dumps(body))))
    except ValidationError as error:
        first = error.errors()[0]
        yield f"Invalid value for '{'.'.join(map(str, first['loc'][:3]))}': {first['msg']}"


def _consume(value: Any) -> None:
    """Have every part looked at: an Iterable is only checked as it is gone through."""
    if isinstance(value, Mapping):
        for inner in value.values():
            _consume(inner)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for inner in value:
            _consume(inner)
