"""The `undo` of a call in documents: `{tool: cancel_order, args: {id: $result.id}}`, or the name of the tool.

`$args` and `$result` are the arguments and the result of the finished call. No other reference is known in an undo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..errors import Problem
from ..expr import lift
from ..ops import Undo
from ..values import Json, did_you_mean
from .fields import Report, add_problem, join, type_name

_ROOTS: Final = frozenset(("args", "result"))
_KEYS: Final = ("tool", "args")


def check_undo(value: Json, path: str, report: Report) -> Json:
    """Report an undo of a wrong form; return the value."""
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, Mapping):
        add_problem(report, path, f"must be the name of a tool or an object of tool and args, not {type_name(value)}")
        return value
    for key in value:
        if key not in _KEYS:
            add_problem(report, join(path, str(key)), "unknown key", did_you_mean(str(key), _KEYS))
    if not isinstance(value.get("tool"), str) or not value["tool"]:
        add_problem(report, join(path, "tool"), "required: the name of the tool that takes the call back")
    if not isinstance(value.get("args", {}), Mapping):
        add_problem(report, join(path, "args"), f"must be an object, not {type_name(value['args'])}")
    return value


def compile_undo(value: Json, path: str, problems: list[Problem]) -> Undo | None:
    """Return the undo of a call; None without one, or if its form is wrong, which `check_undo` has reported."""
    if isinstance(value, str) and value:
        return Undo(tool=value)
    if not isinstance(value, Mapping) or not isinstance(value.get("tool"), str):
        return None
    args = value.get("args")
    expr = lift(dict(args), _ROOTS, path=join(path, "args"), problems=problems) if isinstance(args, Mapping) else None
    return Undo(tool=str(value["tool"]), args=expr)


def write_undo(undo: Undo | None) -> dict[str, Json]:
    """Return the field `undo` of a call in a document; no field without an undo."""
    if undo is None:
        return {}
    if undo.args is None:
        return {"undo": undo.tool}
    from ..expr.unlift import unlift  # only a writer needs it

    return {"undo": {"tool": undo.tool, "args": unlift(undo.args)}}
