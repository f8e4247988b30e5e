"""Statements of Python as closures over a frame (`__init__.py` of this folder explains both).

The function for a kind of statement, such as `_for`, returns the closure that executes the statement. The closure
returns None, or how the statement leaves its block: `BREAK`, `CONTINUE`, or a Leave with the value of a `return`. To
add a kind of statement, write a function that takes the node and the scope, and name it in STATEMENTS.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from .evaluation import UNCATCHABLE, Evaluation, catches
from .expressions import assign_target, expression
from .failures import CancelledError, exception_record
from .operations import IN_PLACE, delete_item, delete_member, member, set_item, set_member, subscript
from .patterns import compile_pattern
from .scope import Frame, Scope, Setter, Unsupported
from .values import UNBOUND, Refused


class Leave:
    """A way to leave a block other than by its end."""

    # `kind`: `return`, `break` or `continue`.
    # `value`: The value of a `return`.

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: Any = None) -> None:
        self.kind, self.value = kind, value


BREAK: Final = Leave("break")
CONTINUE: Final = Leave("continue")
Run: TypeAlias = Callable[[Frame], Leave | None]
"""Executes a statement or a block in a frame; returns how it leaves, or None at its end."""


def block(nodes: Sequence[ast.stmt], scope: Scope) -> Run:
    """Return the closure that executes statements in order, and keeps the line of the one that is executed."""
    runs = [(node.lineno, statement(node, scope)) for node in nodes if not isinstance(node, ast.Pass)]
    if len(runs) == 1:
        line, only = runs[0]

        def execute_one(frame: Frame) -> Leave | None:
            frame[0].line = line
            return only(frame)

        return execute_one

    def execute(frame: Frame) -> Leave | None:
        evaluation = frame[0]
        for line, run in runs:
            evaluation.line = line
            leave = run(frame)
            if leave is not None:
                return leave
        return None

    return execute


def statement(node: ast.stmt, scope: Scope) -> Run:
    """Return the closure that executes a statement."""
    try:
        return _statement(node, scope)
    except Unsupported as error:
        scope.report(error)
        return lambda frame: None  # a program with problems does not run


def _statement(node: ast.stmt, scope: Scope) -> Run:
    compile_node = scope.language.statements.get(type(node))
    if compile_node is not None:
        return compile_node(node, scope)
    compile_node = STATEMENTS.get(type(node))
    if compile_node is None:
        raise Unsupported(node, f"{type(node).__name__} is not supported here")
    return compile_node(node, scope)


# --- simple statements -----------------------------------------------------------------------------


def _expression(node: ast.Expr, scope: Scope) -> Run:
    get = expression(node.value, scope)

    def run(frame: Frame) -> None:
        get(frame)

    return run


def _assign(node: ast.Assign, scope: Scope) -> Run:
    get = expression(node.value, scope)
    setters = [assign_target(target, scope) for target in node.targets]
    if len(setters) == 1:
        only = setters[0]

        def run(frame: Frame) -> None:
            only(frame, get(frame))

        return run

    def run_all(frame: Frame) -> None:
        value = get(frame)
        for setter in setters:
            setter(frame, value)

    return run_all


def _annotated(node: ast.AnnAssign, scope: Scope) -> Run:
    if node.value is None:
        return _nothing
    get, setter = expression(node.value, scope), assign_target(node.target, scope)

    def run(frame: Frame) -> None:
        setter(frame, get(frame))

    return run


def _augmented(node: ast.AugAssign, scope: Scope) -> Run:
    operate = IN_PLACE.get(type(node.op).__name__)
    if operate is None:
        raise Unsupported(node, "the operator @ is not supported")
    right = expression(node.value, scope)
    target = node.target
    if isinstance(target, ast.Name):
        get = expression(ast.copy_location(ast.Name(target.id, ast.Load()), target), scope)
        setter = assign_target(target, scope)

        def run_name(frame: Frame) -> None:
            setter(frame, operate(frame[0], get(frame), right(frame)))

        return run_name
    # The holder and the key are evaluated once, as in Python.
    holder = expression(target.value, scope)
    if isinstance(target, ast.Subscript):
        key = expression(target.slice, scope)

        def run_item(frame: Frame) -> None:
            value, place = holder(frame), key(frame)
            set_item(frame[0], value, place, operate(frame[0], subscript(frame[0], value, place), right(frame)))

        return run_item
    name = target.attr

    def run_member(frame: Frame) -> None:
        value = holder(frame)
        set_member(frame[0], value, name, operate(frame[0], member(frame[0], value, name), right(frame)))

    return run_member


def _delete(node: ast.Delete, scope: Scope) -> Run:
    deletions = [_deletion(target, scope) for target in node.targets]

    def run(frame: Frame) -> None:
        for delete in deletions:
            delete(frame)

    return run


def _deletion(node: ast.expr, scope: Scope) -> Callable[[Frame], None]:
    if isinstance(node, ast.Name):
        get, setter = (
            expression(ast.copy_location(ast.Name(node.id, ast.Load()), node), scope),
            assign_target(node, scope),
        )

        def delete_name(frame: Frame) -> None:
            get(frame)  # raises NameError if the name is unbound
            setter(frame, UNBOUND)

        return delete_name
    if isinstance(node, ast.Subscript):
        holder, key = expression(node.value, scope), expression(node.slice, scope)
        return lambda frame: delete_item(holder(frame), key(frame))
    if isinstance(node, ast.Attribute):
        owner, name = expression(node.value, scope), node.attr
        return lambda frame: delete_member(owner(frame), name)
    raise Unsupported(node, f"cannot delete {type(node).__name__}")


def _nothing(frame: Frame) -> None:
    return None


# --- control flow --------------------------------------------------------------------------------


def _for(node: ast.For, scope: Scope) -> Run:
    source, assign = expression(node.iter, scope), assign_target(node.target, scope)
    body, otherwise = block(node.body, scope), block(node.orelse, scope) if node.orelse else _nothing
    line = node.lineno

    def run(frame: Frame) -> Leave | None:
        for value in frame[0].iterate(source(frame)):
            frame[0].line = line
            assign(frame, value)
            leave = body(frame)
            if leave is BREAK:
                return None
            if leave is not None and leave is not CONTINUE:
                return leave
        return otherwise(frame)

    return run


def _while(node: ast.While, scope: Scope) -> Run:
    test, body = expression(node.test, scope), block(node.body, scope)
    otherwise = block(node.orelse, scope) if node.orelse else _nothing
    line = node.lineno

    def run(frame: Frame) -> Leave | None:
        evaluation: Evaluation = frame[0]
        while test(frame):
            evaluation.step()
            leave = body(frame)
            if leave is BREAK:
                return None
            if leave is not None and leave is not CONTINUE:
                return leave
            evaluation.line = line
        return otherwise(frame)

    return run


def _return(node: ast.Return, scope: Scope) -> Run:
    if node.value is None:
        return lambda frame: Leave("return")
    get = expression(node.value, scope)
    return lambda frame: Leave("return", get(frame))


def _match(node: ast.Match, scope: Scope) -> Run:
    subject = expression(node.subject, scope)
    cases = [
        (
            compile_pattern(case.pattern, scope),
            expression(case.guard, scope) if case.guard is not None else None,
            block(case.body, scope),
        )
        for case in node.cases
    ]

    def run(frame: Frame) -> Leave | None:
        value = subject(frame)
        for matches, guard, body in cases:
            frame[0].step()
            if matches(frame, value) and (guard is None or guard(frame)):
                return body(frame)
        return None

    return run


# --- exceptions ----------------------------------------------------------------------------------


def _raise(node: ast.Raise, scope: Scope) -> Run:
    if node.exc is None:

        def reraise(frame: Frame) -> Leave | None:
            if not frame[0].handling:
                raise RuntimeError("No active exception to reraise")
            raise frame[0].handling[-1]

        return reraise
    get = expression(node.exc, scope)
    cause = expression(node.cause, scope) if node.cause is not None else None

    def run(frame: Frame) -> Leave | None:
        error = get(frame)
        if isinstance(error, type) and issubclass(error, BaseException):
            error = error()
        if not isinstance(error, BaseException):
            raise TypeError("exceptions must derive from BaseException")
        if not isinstance(error, (Exception, CancelledError)):  # it would pass through the engine and end the process
            raise Refused("raise of a BaseException; raise an Exception")
        if cause is not None:
            raise error from cause(frame)
        raise error

    return run


def _assert(node: ast.Assert, scope: Scope) -> Run:
    test = expression(node.test, scope)
    message = expression(node.msg, scope) if node.msg is not None else None

    def run(frame: Frame) -> None:
        if not test(frame):
            raise AssertionError(message(frame)) if message is not None else AssertionError

    return run


def _try(node: ast.Try, scope: Scope) -> Run:
    protected = _with_handlers(node, scope)
    if not node.finalbody:
        return protected
    final = block(node.finalbody, scope)

    def run(frame: Frame) -> Leave | None:
        try:
            leave = protected(frame)
        except UNCATCHABLE:
            raise
        except (Exception, CancelledError):
            instead = final(frame)
            if instead is not None:
                return instead
            raise
        instead = final(frame)
        return leave if instead is None else instead

    return run


def _with_handlers(node: ast.Try, scope: Scope) -> Run:
    body = block(node.body, scope)
    otherwise = block(node.orelse, scope) if node.orelse else _nothing
    handlers = [
        (
            expression(handler.type, scope) if handler.type is not None else None,
            assign_target(ast.copy_location(ast.Name(handler.name, ast.Store()), handler), scope)
            if handler.name
            else None,
            block(handler.body, scope),
        )
        for handler in node.handlers
    ]

    def run(frame: Frame) -> Leave | None:
        evaluation: Evaluation = frame[0]
        try:
            leave = body(frame)
        # A refused value, an exceeded limit and the end of the program pass every handler, even `except Exception`.
        except UNCATCHABLE:
            raise
        except (Exception, CancelledError) as error:
            # Record the line before a handler runs, because its statements change the current line.
            exception_record(error, evaluation.line)
            for kinds, assign, handle in handlers:
                if kinds is None or catches(error, kinds(frame)):
                    return _handle(frame, error, assign, handle)
            raise
        # `else` runs outside the `try`: the handlers do not catch its exceptions.
        return leave if leave is not None else otherwise(frame)

    return run


def _handle(frame: Frame, error: BaseException, assign: Setter | None, handle: Run) -> Leave | None:
    """Execute a handler; its name is unbound afterwards, as in Python."""
    evaluation: Evaluation = frame[0]
    if assign is not None:
        assign(frame, error)
    evaluation.handling.append(error)
    try:
        return handle(frame)
    finally:
        evaluation.handling.pop()
        if assign is not None:
            assign(frame, UNBOUND)


def _leave(leave: Leave) -> Callable[[ast.stmt, Scope], Run]:
    return lambda node, scope: lambda frame: leave


STATEMENTS: Final[dict[type[ast.AST], Callable[[Any, Scope], Run]]] = {
    ast.AnnAssign: _annotated,
    ast.Assert: _assert,
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.Break: _leave(BREAK),
    ast.Continue: _leave(CONTINUE),
    ast.Delete: _delete,
    ast.Expr: _expression,
    ast.For: _for,
    ast.Match: _match,
    ast.Pass: lambda node, scope: _nothing,
    ast.Raise: _raise,
    ast.Return: _return,
    ast.Try: _try,
    ast.While: _while,
}
"""Every kind of statement of the language that needs no call of a tool."""
