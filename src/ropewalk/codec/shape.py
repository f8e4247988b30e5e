"""What the codec knows of a dataclass: its fields, their defaults, which of them hold plain JSON."""

from __future__ import annotations

import dataclasses
import typing
from functools import cache
from typing import Any, Final

from ..expr.ast import Arr, Each, Fn, Lit, Obj, Ref, Var
from ..ir import Op

VERSION: Final = 1
MAX_EXPRESSION_DEPTH: Final = 100
NONE: Final = object()
EXPRESSIONS: Final = frozenset({Lit, Ref, Var, Obj, Arr, Fn, Each})


@cache
def fields_of(kind: Any) -> tuple[tuple[str, Any, bool, bool], ...]:
    """(name, default, holds plain JSON, holds an op) for each field of a dataclass."""
    hints = typing.get_type_hints(kind)
    found = []
    for f in dataclasses.fields(kind):
        default = f.default
        if default is dataclasses.MISSING:
            default = f.default_factory() if f.default_factory is not dataclasses.MISSING else NONE
        found.append((f.name, default, hints[f.name] is Any, hints[f.name] is Op))
    return tuple(found)


def set_fields(value: Any) -> list[str]:
    """The fields of a dataclass's instance that differ from their defaults; none for another value."""
    kind: Any = type(value)
    known = fields_of(kind) if hasattr(kind, "__dataclass_fields__") else ()
    return [name for name, default, _, _ in known if default is NONE or getattr(value, name) != default]
