"""The undo of a tool: the call that takes a finished call back, such as `cancel_order` for `order`.

The arguments of an undo are made from the recorded call: `$args.x` is an argument of it, `$result.x` a member of its
result. A tool names its undo (`@tool(undo=...)`), the project can set one for any tool (`[undo.tools]`), and a
definition can set one for a single call. The most specific one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import ExpressionError, InvalidTool, InvalidValue
from ..expr.ast import Expr
from ..fast_dataclass import dataclass
from ..values import Json, check_json, did_you_mean
from .signature import describe

ROOTS: Final = frozenset(("args", "result"))
"""What the arguments of an undo may refer to: the arguments and the result of the call that it takes back."""
FIELDS: Final = ("tool", "args")
"""The fields of an undo as an object."""
TOOL_ATTRIBUTE: Final = "__ropewalk_tool__"
"""The attribute of a function that holds its Tool, once `@tool` has decorated it."""


@dataclass(frozen=True, slots=True, eq=False)
class Undo:
    """The undo of a tool."""

    # The tool that takes a call back: its id, or a function.
    tool: Any
    # The arguments of that tool. Texts such as `$result.id` and `$args.item` refer to the recorded call. None: each
    # parameter takes the member of the result with its name, otherwise the argument with its name.
    args: Mapping[str, Json] | None = None
    # `args`, compiled; it is made from `args`.
    expr: Expr | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool", _tool_id(self.tool))
        if self.args is None:
            return
        if not isinstance(self.args, Mapping):
            raise InvalidTool(f"undo: its arguments must be an object, not {type(self.args).__qualname__}")
        from ..expr import lift  # few tools have an undo

        try:
            args = check_json(dict(self.args), "undo.args")
            expr = lift(args, ROOTS)
        except (InvalidValue, ExpressionError) as error:
            raise InvalidTool(f"undo: {error}") from error
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "expr", expr)

    def to_dict(self) -> dict[str, Json]:
        """Return the undo as JSON."""
        return {"tool": self.tool} if self.args is None else {"tool": self.tool, "args": dict(self.args)}


def read_undo(value: Any, label: str = "") -> Undo | None:
    """Read an undo in any form that a tool accepts."""
    try:
        if value is None or isinstance(value, Undo):
            return value
        if not isinstance(value, Mapping):
            return Undo(value)
        if unknown := [str(key) for key in value if key not in FIELDS]:
            near = did_you_mean(unknown[0], FIELDS)
            hint = f"; did you mean {near}?" if near else ""
            raise InvalidTool(f"undo: unknown key {unknown[0]!r}, expected tool and args{hint}")
        if "tool" not in value:
            raise InvalidTool("undo: the tool is missing")
        return Undo(value["tool"], value.get("args"))
    except InvalidTool as error:
        raise InvalidTool(f"{label}: {error}" if label else str(error)) from None


def undo_of(tool: Any, configured: Mapping[str, Undo]) -> Undo | None:
    """Return the undo of a Tool: the one that the project sets for its id, otherwise its own; None for None."""
    return None if tool is None else configured.get(tool.id) or tool.undo


def _tool_id(tool: Any) -> str:
    decorated = getattr(tool, TOOL_ATTRIBUTE, tool)
    id = getattr(decorated, "id", None) if not isinstance(decorated, str) else decorated
    if isinstance(id, str) and id:
        return id
    if callable(tool):
        return describe(tool).name  # a plain function, as a toolbox registers it
    raise InvalidTool(f"undo: must be a function or the id of a tool, not {tool!r}")
