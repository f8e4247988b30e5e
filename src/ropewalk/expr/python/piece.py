"""A piece of a program: statements without a call of a tool, evaluated as one value.

A piece takes names with their values and gives the names that it assigned or changed, together with its exit: None, or
how it left (`return`, `break`, `continue`, `raise`). Evaluation is pure: nothing outside is read or changed, and the
same input gives the same result in every process, so a resumed run computes it again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ...errors import ExpressionError
from ...values import Json
from ..operators import OverBudget
from .evaluation import Evaluation
from .exits import ProgramExit
from .failures import exception_from, exception_record
from .method_table import MUTATING, changed_argument
from .scope import Frame, Scope, bound_names
from .statements import Leave, Run, block
from .values import UNBOUND, Refused, copied, is_plain, pack, unpack

EXIT: Final = "!"
"""The field of a piece's value that holds its exit. No name of a program can be spelled like this."""
PRINTED: Final = ">"
"""The field that holds the texts that the piece printed; absent where it printed nothing."""
HANDLED: Final = "!handled"
"""The input that holds the exception that an enclosing `except` handles, for a bare `raise`."""

Evaluate = Callable[[Mapping[str, Json]], dict[str, Json]]


class ProgramFailed(ExpressionError):
    """A program raised an exception that it did not catch."""

    # `record`: What is kept of the exception (`failures.exception_record`).
    # `line`: The line that raised it, from 1.
    # `tool`: The id of the tool whose call failed; None for other exceptions.
    # `kind`: The kind of that failure; None for other exceptions.

    def __init__(self, record: dict[str, Any]) -> None:
        self.record = record
        self.line: int = record.get("line") or 0
        self.tool: str | None = record.get("id")
        self.kind: str | None = record.get("kind") if self.tool is not None else None
        message = record["message"]
        super().__init__(f"line {self.line}: {record['type']}{': ' if message else ''}{message}")


@lru_cache(maxsize=4096)
def compile_piece(
    code: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    guarded: bool,
    lines: tuple[int, ...],
    raw: frozenset[str] = frozenset(),
    inside: bool = False,
) -> Evaluate:
    """Return the function that evaluates a piece."""
    tree = ast.parse(code)
    if lines:
        _renumber(tree, lines)
    # These two inputs are not names of the program: the caught exception and the printed text.
    names = [name for name in inputs if name not in (HANDLED, PRINTED)]
    scope = Scope([*names, *bound_names(tree.body), *outputs], inside=inside)
    run = block(tree.body, scope)
    slots = scope.slots
    # Nodes share values, so copy the inputs that the piece may change, and no others.
    copies = how_to_copy(tree.body, names)
    given = [(slots[name], name, _same if name in raw else unpack, copies[name]) for name in names]
    wanted = [(name, slots[name]) for name in outputs]

    def evaluate(values: Mapping[str, Json]) -> dict[str, Json]:
        evaluation = Evaluation()
        frame = scope.new_frame(evaluation, None, UNBOUND)
        for slot, name, read, copy in given:
            frame[slot] = copy(read(values[name]))
        if PRINTED in values:
            evaluation.printed = list(values[PRINTED])
        if HANDLED in values:
            evaluation.handling.append(unpack(values[HANDLED]))
        result = _executed(run, frame, wanted, guarded)
        # Text that an earlier piece printed continues to the next one, even if this piece prints nothing.
        if evaluation.printed or PRINTED in values:
            result[PRINTED] = list(evaluation.printed)
        return result

    return evaluate


def _executed(run: Run, frame: Frame, wanted: Sequence[tuple[str, int]], guarded: bool) -> dict[str, Json]:
    """Execute statements in a frame and return the exit with the wanted names."""
    evaluation: Evaluation = frame[0]
    try:
        leave = run(frame)
        return {
            EXIT: None if leave is None else _exit_of(leave),
            **{name: pack(frame[slot]) for name, slot in wanted},
        }
    except OverBudget as error:
        raise _at_line(error, evaluation.line) from None
    except Refused as error:
        raise Refused(f"line {evaluation.line}: {error}") from None
    except RecursionError:
        raise Refused(f"line {evaluation.line}: the value is nested too deeply") from None
    except ProgramExit as error:
        raise ProgramFailed(error.record(evaluation.line)) from None
    except Exception as error:  # noqa: BLE001 - programs raise anything
        record = exception_record(error, evaluation.line)
        if not guarded:
            raise ProgramFailed(record) from None
        # What was assigned before the failure survives, as in Python.
        return {EXIT: {"k": "raise", "e": pack(error)}, **{name: pack(frame[slot]) for name, slot in wanted}}


def _at_line(error: OverBudget, line: int) -> OverBudget:
    return error if type(error) is not OverBudget else OverBudget(f"line {line}: {error}")


def _exit_of(leave: Leave) -> dict[str, Json]:
    return {"k": leave.kind, "v": pack(leave.value)} if leave.kind == "return" else {"k": leave.kind}


def _renumber(tree: ast.AST, lines: Sequence[int]) -> None:
    for node in ast.walk(tree):
        line = getattr(node, "lineno", None)
        if line is not None:
            node.lineno = lines[min(line, len(lines)) - 1]  # type: ignore[attr-defined]


def _same(value: Any) -> Any:
    return value


def _shallow(value: Any) -> Any:
    if type(value) is list or type(value) is dict:
        return value.copy()
    return copied(value)


def _deep(value: Any) -> Any:
    return copied(value) if is_plain(value) else value  # other values were made anew by `unpack`


def how_to_copy(statements: Sequence[ast.stmt], inputs: Sequence[str]) -> dict[str, Callable[[Any], Any]]:
    """Return for each input how it is copied before the piece may change it."""

    # Values are shared between nodes, so a piece changes copies only. Where nothing is changed, nothing is copied;
    # where only an input itself is changed (`items.append(x)`, `counts[k] = v`), its outermost container is.
    changed: dict[str, int] = {}
    for node in (part for statement in statements for part in ast.walk(statement)):
        holder = _changed_holder(node)
        if holder is None:
            continue
        if not isinstance(holder, ast.Name):
            return dict.fromkeys(inputs, _deep)
        changed[holder.id] = 1
    if changed.keys() - set(inputs):  # another name may hold an input
        return dict.fromkeys(inputs, _deep)
    return {name: _shallow if name in changed else _same for name in inputs}


def _changed_holder(node: ast.AST) -> ast.expr | None:
    """Return the expression whose value `node` may change, if it changes one."""
    if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return node.value
    if isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Name):
            return None if _is_scalar(node.value) else node.target
        return node.target  # what the entry holds may change in place
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATING:
        return node.func.value
    return changed_argument(node) if isinstance(node, ast.Call) else None


def _is_scalar(node: ast.expr) -> bool:
    return isinstance(node, (ast.Constant, ast.JoinedStr))


def raised(record: Json) -> BaseException:
    """Return the exception of the exit `raise`."""
    error = unpack(record)
    return error if isinstance(error, BaseException) else exception_from(error)
