"""Statements that suspend: a block runs its plain statements as they are, and awaits the others."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence
from typing import Any, Final

from ...expr.python.evaluation import UNCATCHABLE, Members, catches
from ...expr.python.expressions import assign_target, expression
from ...expr.python.failures import RAISED, exception_record
from ...expr.python.patterns import compile_pattern
from ...expr.python.scope import Frame, Scope, Unsupported
from ...expr.python.statements import BREAK, CONTINUE, Leave, Run, block
from ...expr.python.values import UNBOUND
from ..read.names import set_suspends, suspends
from .futures import raised
from .scope import load_of, store_of
from .suspending import END, Elements, Part, Parts, Suspending, part, suspending, target_part


def nothing(frame: Frame) -> None:
    """Do nothing, as `pass`."""
    return


def block_part(nodes: Sequence[ast.stmt], scope: Scope) -> Part:
    """Return the closure of a block that may suspend, and whether it does."""
    if not nodes:
        return False, nothing
    if any(suspends(node) for node in nodes):
        return True, suspending_block(nodes, scope)
    return False, block(nodes, scope)


def suspending_block(nodes: Sequence[ast.stmt], scope: Scope) -> Suspending:
    """Return the closure of a block; neighbouring statements that do not suspend run as one."""
    runs: list[tuple[int, bool, Callable[[Frame], Any]]] = []
    plain: list[ast.stmt] = []

    def add_plain() -> None:
        if plain:
            runs.append((plain[0].lineno, False, block(list(plain), scope)))
            plain.clear()

    for node in nodes:
        if isinstance(node, ast.Pass):
            continue
        if suspends(node):
            add_plain()
            try:
                runs.append((node.lineno, True, _statement(node, scope)))
            except Unsupported as error:
                scope.report(error)
        else:
            plain.append(node)
    add_plain()

    async def execute(frame: Frame) -> Leave | None:
        evaluation = frame[0]
        for line, waits, run in runs:
            evaluation.line = line
            leave: Leave | None = await run(frame) if waits else run(frame)
            if leave is not None:
                return leave
        return None

    return execute


def _function(node: Any, scope: Scope) -> Suspending:
    """Compile a function whose decorators, default values or annotations suspend."""
    before, new = Parts(scope), set_suspends(copy.copy(node), False)
    new.decorator_list = [before.put(decorator) for decorator in node.decorator_list]
    return before.then(block([before.with_first_values(new)], scope))


def _class(node: ast.ClassDef, scope: Scope) -> Suspending:
    """Compile a class whose decorators or bases suspend."""
    before, new = Parts(scope), set_suspends(copy.copy(node), False)
    # What is only named has no effect, and `dataclass` and the like are known by their names.
    new.decorator_list = [before.put(item) if suspends(item) else item for item in node.decorator_list]
    new.bases = [before.put(item) if suspends(item) else item for item in node.bases]
    return before.then(block([new], scope))


def _statement(node: ast.stmt, scope: Scope) -> Suspending:
    compile_node = SUSPENDING.get(type(node))
    if compile_node is None:
        raise Unsupported(node, f"await in {type(node).__name__} is not supported; assign the value to a name first")
    return compile_node(node, scope)


# --- simple statements -----------------------------------------------------------------------------


def _expression(node: ast.Expr, scope: Scope) -> Suspending:
    get = suspending(node.value, scope)

    async def run(frame: Frame) -> None:
        await get(frame)

    return run


def _return(node: ast.Return, scope: Scope) -> Suspending:
    assert node.value is not None
    get = suspending(node.value, scope)

    async def run(frame: Frame) -> Leave:
        return Leave("return", await get(frame))

    return run


def _strict(node: Any, scope: Scope) -> Suspending:
    """Compile `raise`: its parts, then the ordinary statement."""
    before = Parts(scope)
    return before.then(block([before.replaced(node)], scope))


def _delete(node: ast.Delete, scope: Scope) -> Suspending:
    """Compile `del`: each target is deleted before the next one is evaluated."""
    runs = []
    for target in node.targets:
        before = Parts(scope)
        new = ast.copy_location(ast.Delete([_target(target, before)]), node)
        runs.append(before.then(block([new], scope)))

    async def run(frame: Frame) -> None:
        for delete in runs:
            await delete(frame)

    return run


def _assert(node: ast.Assert, scope: Scope) -> Suspending:
    """Compile `assert`, whose message is evaluated only if the test fails."""
    raised = ast.Raise(ast.Call(load_of("AssertionError", node), [node.msg] if node.msg is not None else [], []), None)
    test = ast.UnaryOp(ast.Not(), node.test)
    made = ast.copy_location(ast.If(test, [raised], []), node)
    return _if(ast.fix_missing_locations(made), scope)


def _assign(node: Any, scope: Scope) -> Suspending:
    """Compile an assignment: the value, then the targets from left to right."""
    value_waits, get = part(node.value, scope)
    targets = [target_part(item, scope) for item in (node.targets if isinstance(node, ast.Assign) else [node.target])]

    async def run(frame: Frame) -> None:
        value = await get(frame) if value_waits else get(frame)
        for waits, assign in targets:
            if waits:
                await assign(frame, value)
            else:
                assign(frame, value)

    return run


def _annotated(node: ast.AnnAssign, scope: Scope) -> Suspending:
    """Compile an annotated assignment, whose annotation is for readers."""
    if node.value is None:
        raise Unsupported(node, "an annotation of an entry or a member without a value; assign a value to it")
    return _assign(node, scope)


def _target(node: Any, before: Parts) -> Any:
    return before.replaced(node) if suspends(node) else node


def _augmented(node: ast.AugAssign, scope: Scope) -> Suspending:
    """Compile `target += value`: the holder and the key, the old value, and then the new one."""
    before, target = Parts(scope), node.target
    place: Any = target
    if isinstance(target, ast.Subscript):
        place = ast.Subscript(before.put(target.value), before.put(target.slice), ast.Store())
    elif isinstance(target, ast.Attribute):
        place = ast.Attribute(before.put(target.value), target.attr, ast.Store())
    place = ast.copy_location(place, target)
    load = copy.copy(place)
    load.ctx = ast.Load()
    old = before.put(load)
    assert isinstance(old, ast.Name)
    change = ast.AugAssign(ast.Name(old.id, ast.Store()), node.op, before.put(node.value))
    back = ast.Assign([place], old)
    return before.then(
        block([ast.fix_missing_locations(ast.copy_location(new, node)) for new in (change, back)], scope)
    )


# --- control flow ----------------------------------------------------------------------------------


def _if(node: ast.If, scope: Scope) -> Suspending:
    """Compile `if` with its `elif`s as one list of branches, so that many of them need no deep stack."""
    branches: list[tuple[Part, Part]] = []
    rest: list[ast.stmt] = [node]
    while len(rest) == 1 and isinstance(rest[0], ast.If):
        branch = rest[0]
        branches.append((part(branch.test, scope), block_part(branch.body, scope)))
        rest = branch.orelse
    other_waits, other = block_part(rest, scope)

    async def run(frame: Frame) -> Leave | None:
        leave: Leave | None
        for (test_waits, test), (waits, body) in branches:
            if await test(frame) if test_waits else test(frame):
                leave = await body(frame) if waits else body(frame)
                return leave
        leave = await other(frame) if other_waits else other(frame)
        return leave

    return run


def plain_if(node: ast.If, scope: Scope) -> Run:
    """Compile an `if` that does not suspend, in the same way."""
    branches = []
    rest: list[ast.stmt] = [node]
    while len(rest) == 1 and isinstance(rest[0], ast.If):
        branch = rest[0]
        branches.append((expression(branch.test, scope), block(branch.body, scope)))
        rest = branch.orelse
    other: Run = block(rest, scope) if rest else nothing

    def run(frame: Frame) -> Leave | None:
        for test, body in branches:
            if test(frame):
                return body(frame)
        return other(frame)

    return run


def _for(node: Any, scope: Scope) -> Suspending:
    source_waits, source = part(node.iter, scope)
    assign_waits, assign = target_part(node.target, scope)
    line = node.lineno
    body_waits, body = block_part(node.body, scope)
    other_waits, other = block_part(node.orelse, scope)
    is_async = isinstance(node, ast.AsyncFor)

    async def run(frame: Frame) -> Leave | None:
        evaluation = frame[0]
        values = Elements(evaluation, await source(frame) if source_waits else source(frame), is_async)
        leave: Leave | None
        try:
            while True:
                evaluation.line = line
                value = await values.next()
                if value is END:
                    break
                if assign_waits:
                    await assign(frame, value)
                else:
                    assign(frame, value)
                leave = await body(frame) if body_waits else body(frame)
                if leave is BREAK:
                    return None
                if leave is not None and leave is not CONTINUE:
                    return leave
        finally:
            del values  # a generator ends with its loop, before an exception is handled
        leave = await other(frame) if other_waits else other(frame)
        return leave

    return run


def _while(node: ast.While, scope: Scope) -> Suspending:
    test_waits, test = part(node.test, scope)
    body_waits, body = block_part(node.body, scope)
    other_waits, other = block_part(node.orelse, scope)
    line = node.lineno

    async def run(frame: Frame) -> Leave | None:
        evaluation = frame[0]
        leave: Leave | None
        while await test(frame) if test_waits else test(frame):
            evaluation.step()
            leave = await body(frame) if body_waits else body(frame)
            if leave is BREAK:
                return None
            if leave is not None and leave is not CONTINUE:
                return leave
            evaluation.line = line
        leave = await other(frame) if other_waits else other(frame)
        return leave

    return run


def _match(node: ast.Match, scope: Scope) -> Suspending:
    subject_waits, subject = part(node.subject, scope)
    cases = [
        (
            compile_pattern(case.pattern, scope),
            part(case.guard, scope) if case.guard is not None else None,
            block_part(case.body, scope),
        )
        for case in node.cases
    ]

    async def run(frame: Frame) -> Leave | None:
        value = await subject(frame) if subject_waits else subject(frame)
        for matches, guard, (waits, body) in cases:
            frame[0].step()
            if not matches(frame, value):
                continue
            if guard is None or (await guard[1](frame) if guard[0] else guard[1](frame)):
                leave: Leave | None = await body(frame) if waits else body(frame)
                return leave
        return None

    return run


# --- exceptions ------------------------------------------------------------------------------------


def _try(node: ast.Try, scope: Scope) -> Suspending:
    protected = _with_handlers(node, scope)
    if not node.finalbody:
        return protected
    final_waits, final = block_part(node.finalbody, scope)

    async def run(frame: Frame) -> Leave | None:
        instead: Leave | None
        try:
            leave: Leave | None = await protected(frame)
        except UNCATCHABLE:
            raise
        except (*RAISED, GeneratorExit) as error:
            if isinstance(error, GeneratorExit) and frame[0].is_over:
                raise
            line = frame[0].line
            instead = await final(frame) if final_waits else final(frame)
            if instead is not None:
                return instead
            frame[0].line = line
            raise
        instead = await final(frame) if final_waits else final(frame)
        return leave if instead is None else instead

    return run


def _with_handlers(node: ast.Try, scope: Scope) -> Suspending:
    body_waits, body = block_part(node.body, scope)
    other_waits, other = block_part(node.orelse, scope)
    handlers = [
        (
            part(handler.type, scope) if handler.type is not None else None,
            assign_target(store_of(handler.name, handler), scope) if handler.name else None,
            block_part(handler.body, scope),
        )
        for handler in node.handlers
    ]

    async def run(frame: Frame) -> Leave | None:
        evaluation = frame[0]
        leave: Leave | None
        try:
            leave = await body(frame) if body_waits else body(frame)
        except UNCATCHABLE:
            raise
        except RAISED as failure:
            error = raised(failure)
            exception_record(error, evaluation.line)
            for kinds, assign, handle in handlers:
                if kinds is None or catches(error, await kinds[1](frame) if kinds[0] else kinds[1](frame)):
                    return await _handle(frame, error, assign, handle)
            raise
        if leave is not None:
            return leave
        leave = await other(frame) if other_waits else other(frame)
        return leave

    return run


def try_star(node: ast.TryStar, scope: Scope) -> Any:
    """Refuse `except*`."""
    raise Unsupported(node, "except* is not supported; write except ExceptionGroup and look at its exceptions")


async def _handle(frame: Frame, error: BaseException, assign: Any, handle: Part) -> Leave | None:
    """Execute a handler; its name is unbound afterwards, as in Python."""
    if assign is not None:
        assign(frame, error)
    waits, body = handle
    handling = frame[0].handling  # of this task; while it waits, others have their own
    handling.append(error)
    try:
        leave: Leave | None = await body(frame) if waits else body(frame)
        return leave
    finally:
        handling.pop()
        if assign is not None:
            assign(frame, UNBOUND)


# --- with ------------------------------------------------------------------------------------------


def _with(node: Any, scope: Scope) -> Suspending:
    if len(node.items) > 1:  # a block inside of a block
        inner = ast.copy_location(type(node)(node.items[1:], node.body), node)
        return _with(ast.copy_location(type(node)(node.items[:1], [inner]), node), scope)
    item = node.items[0]
    manager_waits, manager = part(item.context_expr, scope)
    target = item.optional_vars
    assign_waits, assign = target_part(target, scope) if target is not None else (False, _forget)
    body_waits, body = block_part(node.body, scope)
    is_async = isinstance(node, ast.AsyncWith)

    async def run(frame: Frame) -> Leave | None:
        holder = await manager(frame) if manager_waits else manager(frame)
        enter, leave_block = context_of(frame[0], holder, is_async)
        value = await enter()
        try:
            if assign_waits:
                await assign(frame, value)
            else:
                assign(frame, value)
            leave: Leave | None = await body(frame) if body_waits else body(frame)
        except UNCATCHABLE:
            raise
        except (*RAISED, GeneratorExit) as error:
            if isinstance(error, GeneratorExit) and frame[0].is_over:
                raise
            line = frame[0].line
            exception_record(error, line)
            if await leave_block(raised(error)):
                return None
            frame[0].line = line
            raise
        await leave_block(None)
        return leave

    return run


def _forget(frame: Frame, value: Any) -> Any:
    """Do nothing with the value of a `with` that has no name."""


def context_of(evaluation: Any, holder: Any, is_async: bool) -> tuple[Any, Any]:
    """Return the functions that enter and leave a `with` block."""
    # Raises TypeError if the value has none.
    if isinstance(holder, Members):
        return holder.context(evaluation, is_async)
    return Members.context(holder, evaluation, is_async)


SUSPENDING: Final[dict[type[ast.AST], Callable[[Any, Scope], Suspending]]] = {
    ast.AnnAssign: _annotated,
    ast.Assert: _assert,
    ast.Assign: _assign,
    ast.AsyncFor: _for,
    ast.AsyncFunctionDef: _function,
    ast.AsyncWith: _with,
    ast.AugAssign: _augmented,
    ast.ClassDef: _class,
    ast.Delete: _delete,
    ast.Expr: _expression,
    ast.For: _for,
    ast.FunctionDef: _function,
    ast.If: _if,
    ast.Match: _match,
    ast.Raise: _strict,
    ast.Return: _return,
    ast.Try: _try,
    ast.TryStar: try_star,
    ast.While: _while,
    ast.With: _with,
}
"""How statements that suspend are compiled."""
