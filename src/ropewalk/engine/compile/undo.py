"""Record how a finished call can be undone: the tool and the arguments of its undo, next to its result.

The journal has only a digest of a call's arguments. So the arguments of the undo are made when the call returns, from
its arguments and its result, and recorded before its result is. A call whose result is recorded therefore has its undo
recorded, too. Secrets are never recorded: an undo whose arguments contain one cannot be made later, and the entry says
so instead. A call that was answered from the record of another run is recorded with the place of that call: the two
have one effect, which is undone once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, TypeAlias

from ...errors import ExpressionError, InvalidFlow, InvalidValue, Problem, ToolError, message_of
from ...expr.ast import Expr, Path, Ref
from ...expr.compile import compile_expr
from ...journal.protocol import Entry
from ...values import Json
from ..frame import Frame, NodeSlot, path_of

MakeArgs: TypeAlias = Callable[[dict[str, Json], Json], Json]
"""Makes the arguments of an undo from the arguments and the result of a call."""
_SECRET: Final = "its arguments contain a secret, which is never recorded"
_GETTERS: Final = {"args": itemgetter(0), "result": itemgetter(1)}


Origin: TypeAlias = Callable[[str], tuple[str, str] | None]
"""Returns the run and the path of the call that answered the call with an idempotency key."""
_ATTEMPT: Final = re.compile(r"@\d+")


class CallUndo:
    """The undo of the calls of a node: the tool that takes one back, and how its arguments are made."""

    # Without `tool`, only calls with an origin are recorded.

    __slots__ = ("content", "make", "of", "origin", "tool")

    def __init__(self, of: str, tool: str | None, make: MakeArgs, content: bool, origin: Origin | None) -> None:
        self.of, self.tool, self.make, self.content, self.origin = of, tool, make, content, origin

    def entry(self, run: Any, path: str, node: str, args: dict[str, Json], value: Any, began: float) -> Entry | None:
        """Return the journal entry of the undo of a call; None for none."""

        # `began`: When it began, in seconds since the epoch.
        data: dict[str, Json] = {"of": self.of}
        if (made_at := self._made_at(run.id, path)) is not None:
            data["made"] = {"run": made_at[0], "path": made_at[1]}
        if self.tool is None:
            return Entry(path, "undo", node, data, "", began, _next_moment(run)) if made_at is not None else None
        data["tool"] = self.tool
        try:
            made = self.make(args, value.get("value") if self.content and type(value) is dict else value)
            if run.secrets and run.redact(made) != made:
                data["error"] = _SECRET
            elif type(made) is not dict:
                data["error"] = f"its arguments must be an object, not {type(made).__name__}"
            else:
                data["args"] = made
        except ExpressionError as error:
            data["error"] = str(run.redact(message_of(error)))
        return Entry(path, "undo", node, data, "", began, _next_moment(run))

    def _made_at(self, run_id: str, path: str) -> tuple[str, str] | None:
        if self.origin is None:
            return None
        return self.origin(f"{run_id}/{path}") or self.origin(f"{run_id}/{_ATTEMPT.sub('', path)}")

    def note(
        self, run: Any, frame: Frame, node_slot: NodeSlot, args: dict[str, Json], value: Json, began: float
    ) -> None:
        """Keep the undo of a call in a run without a journal."""
        entry = self.entry(run, path_of(frame, node_slot), node_slot.id, args, value, began)
        if entry is not None:
            run.undos.append(entry)

    def record(self, run: Any, call: Entry, args: dict[str, Json], value: Json) -> None:
        """Journal the undo of a call before the call itself, in the same batch."""
        entry = self.entry(run, call.path, call.node, args, value, call.started)
        if entry is None:
            return
        try:
            run.log.append(entry)
        except InvalidValue as error:
            entry.data = {"of": self.of, "tool": self.tool, "error": message_of(error)}
            run.log.append(entry)


def call_undo(builder: Any, of: str, undo: Any, bound: Any, content: bool) -> CallUndo | None:
    """Return the undo of the calls of a node."""
    origin = getattr(bound, "origin", None)
    if undo is not None:
        tool, expr = undo.tool, undo.args
    elif (own := getattr(bound, "undo", None)) is not None:
        tool, expr = own.tool, own.expr
    else:
        return None if origin is None else CallUndo(of, None, _by_name(None), content, origin)
    make = _by_name(_parameters(builder, tool)) if expr is None else _made_by(expr)
    return CallUndo(of, tool, make, content, origin)


def _next_moment(run: Any) -> float:
    """Return a time that no earlier call of the outermost run has."""

    # It orders the calls of a run and its parts.
    while run.parent is not None:
        run = run.parent
    run.undo_clock = max(run.now(), run.undo_clock + 1e-6)
    return float(run.undo_clock)


def _made_by(expr: Expr) -> MakeArgs:
    get = compile_expr(expr, _resolve)
    return lambda args, value: get((args, value))


def _resolve(ref: Ref) -> tuple[Callable[[Any], Json], Path]:
    getter = _GETTERS.get(ref.root)
    if getter is None:
        message = f"an undo can read only $args and $result of the call that it undoes, not ${ref.root}"
        raise InvalidFlow([Problem(path="undo", message=message)])
    return getter, ref.path


def _parameters(builder: Any, tool: str) -> list[str] | None:
    """Return the names of a tool's required parameters; None if its parameters are unknown."""

    # A field of a result must not set an optional flag: the result may be what a foreign server said.
    try:
        known = builder.bind(tool).tool
    except ToolError:
        return None
    schema = known.input_schema if known is not None else {}
    return list(schema.get("required") or ()) if isinstance(schema.get("properties"), dict) else None


def _by_name(names: list[str] | None) -> MakeArgs:
    def make(args: dict[str, Json], value: Json) -> Json:
        if names is None:
            return dict(args)
        members = value if type(value) is dict else {}
        known = {**args, **members}
        return {name: known[name] for name in names if name in known}

    return make
