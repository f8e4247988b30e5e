"""Undo in documents: the undo of a call, and the policy that says when a run is undone.

The undo of a call is `{tool: cancel_order, args: {id: $result.id}}`, or the name of the tool. `$args` and `$result` are
the arguments and the result of the finished call. No other reference is known in an undo. An agent, whose calls a model
makes, has one undo for each of its tools (`undos`). The policy is the field `undo` of the document itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ..config.settings import POLICIES
from ..errors import Problem
from ..expr import lift
from ..ops import Undo
from ..tools.undo import FIELDS, ROOTS
from ..values import Json, did_you_mean
from .fields import Checker, Report, add_problem, join, one_of, type_name

check_undo_policy: Final[Checker] = one_of(POLICIES)
"""Checks the field `undo` of a document: when its runs are undone."""


def check_undo(value: Json, path: str, report: Report) -> Json:
    """Report an undo of a wrong form; return the value."""
    if isinstance(value, str) and value:
        return value
    if not isinstance(value, Mapping):
        add_problem(report, path, f"must be the name of a tool or an object of tool and args, not {type_name(value)}")
        return value
    for key in value:
        if key not in FIELDS:
            add_problem(report, join(path, str(key)), "unknown key", did_you_mean(str(key), FIELDS))
    if not isinstance(value.get("tool"), str) or not value["tool"]:
        add_problem(report, join(path, "tool"), "required: the name of the tool that undoes the call")
    if not isinstance(value.get("args", {}), Mapping):
        add_problem(report, join(path, "args"), f"must be an object, not {type_name(value['args'])}")
    return value


def check_undos(value: Json, path: str, report: Report) -> Json:
    """Report the undos of an agent's tools that have a wrong form; return the value."""
    if not isinstance(value, Mapping):
        add_problem(report, path, f"must be an object of undos by tool, not {type_name(value)}")
        return {}
    return {str(tool): check_undo(undo, join(path, str(tool)), report) for tool, undo in value.items()}


def compile_undos(value: Json, tools: Iterable[str], path: str, problems: list[Problem]) -> dict[str, Undo]:
    """Return the undos of an agent's tools; report those of tools that the agent does not have."""
    known = list(tools)
    undos: dict[str, Undo] = {}
    for tool, item in value.items() if isinstance(value, Mapping) else ():
        if tool not in known:
            add_problem(problems, join(path, tool), f"{tool!r} is not one of the tools", did_you_mean(tool, known))
        elif (undo := compile_undo(item, join(path, tool), problems)) is not None:
            undos[tool] = undo
    return undos


def compile_undo(value: Json, path: str, problems: list[Problem]) -> Undo | None:
    """Return the undo of a call; None without one, or if its form is wrong, which `check_undo` has reported."""
    if isinstance(value, str) and value:
        return Undo(tool=value)
    if not isinstance(value, Mapping) or not isinstance(value.get("tool"), str):
        return None
    args = value.get("args")
    expr = lift(dict(args), ROOTS, path=join(path, "args"), problems=problems) if isinstance(args, Mapping) else None
    return Undo(tool=str(value["tool"]), args=expr)


def write_undos(undos: Mapping[str, Undo]) -> dict[str, Json]:
    """Return the field `undos` of an agent in a document; no field without any."""
    written: dict[str, Any] = {tool: write_undo(undo)["undo"] for tool, undo in undos.items()}
    return {"undos": written} if written else {}


def write_undo(undo: Undo | None) -> dict[str, Json]:
    """Return the field `undo` of a call in a document; no field without an undo."""
    if undo is None:
        return {}
    if undo.args is None:
        return {"undo": undo.tool}
    from ..expr.unlift import unlift  # only a writer needs it

    return {"undo": {"tool": undo.tool, "args": unlift(undo.args)}}
