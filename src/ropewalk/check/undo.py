"""Check the undo of a call: its tool exists, and the recorded arguments and result give what that tool needs.

An undo that the definition sets is reported at its own place. One that a tool brings is reported at the name of the
tool, because the definition does not contain it.
"""

from __future__ import annotations

from typing import Any, Final

from ..expr.ast import Expr
from ..ops import Call
from .report import UNKNOWN_TOOL, Report, join_names, unknown_tool
from .types import OBJECT, Missing, Type, element_type, kinds_of

_FIELD: Final = "undo.args"


def check_undo(walk: Any, op: Call, card: Any, got: Type) -> None:
    """Report what is wrong with the undo of a call."""
    if op.undo is not None:
        _check(walk, op.undo.tool, op.undo.args, card, got)
        return
    own = card.undo
    if own is None:
        return
    # Collected first, because every problem is reported at the name of the tool.
    scope, field = walk.scope, walk.scope.field
    outer, walk.report = walk.report, Report()
    scope.report = walk.report
    try:
        _check(walk, own.tool, own.expr, card, card.takes)
    finally:
        result, walk.report = walk.report, outer
        scope.report = outer
    for listed, warning in ((result.problems, False), (result.warnings, True)):
        for _, problem in listed:
            place = problem.path.rpartition(_FIELD)[2].removeprefix(".") if _FIELD in problem.path else ""
            outer.add(
                f"the undo of tool {op.tool!r}{f', argument {place!r}' if place else ''}: {problem.message}",
                node=scope.node,
                owners=scope.owners,
                field="tool",
                suggestion=problem.suggestion,
                warning=warning,
                keyword=problem.keyword,
            )
    scope.field = field


def _check(walk: Any, tool: str, args: Expr | None, card: Any, got: Type) -> None:
    scope = walk.scope
    target = walk.tools(tool)
    scope.field = _FIELD
    if args is not None:
        # The recorded call is all that an undo can read.
        scope.undone = {"args": got, "result": card.gives}
        try:
            made = scope.infer_type(args)
        finally:
            scope.undone = None
    if target is None:
        message, suggestion, certain = unknown_tool(tool, walk.tools, suggest=walk.report.takes_warnings)
        is_warning = walk.unknown_tools != "problem" and not (walk.unknown_tools == "certain" and certain)
        walk.report.add(
            message,
            node=scope.node,
            owners=scope.owners,
            field="undo.tool",
            suggestion=suggestion,
            warning=is_warning,
            keyword=UNKNOWN_TOOL,
        )
    elif args is not None:
        if target.takes is not None:
            walk.fit_checker.check_fit(args, made, target.takes, None, "argument", f" of tool {tool!r}")
    elif target.takes is not None:
        _check_names(scope, tool, target.takes.required(), got, card.gives)


def _check_names(scope: Any, tool: str, required: Any, got: Type, result: Type) -> None:
    """Report a required parameter that neither the result nor the arguments have."""
    for name in required:
        if _may_have(result, name) or _may_have(got, name):
            continue
        known = sorted({*_names(result, name), *_names(got, name)})
        has = f"; they have: {join_names(known)}" if known else ""
        message = (
            f"neither the result nor the arguments have {name!r}, which tool {tool!r} needs{has}; write the args of "
            "the undo"
        )
        scope.field = "undo"
        scope.add_problem(message, None)


def _may_have(known: Type, name: str) -> bool:
    if known is None:
        return True
    return bool(kinds_of(known) & OBJECT) and type(element_type(known, name)) is not Missing


def _names(known: Type, name: str) -> tuple[str, ...]:
    member = element_type(known, name) if known is not None and kinds_of(known) & OBJECT else None
    return tuple(member.known) if type(member) is Missing else ()
