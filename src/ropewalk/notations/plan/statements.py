"""Statements with an effect, each rewritten as simpler statements or emitted as nodes.

`Emitter.block` (`emit.py`, which explains exits, regions and environments) calls `emit_statement` for every statement
that is not part of a piece. Loops become `Loop` nodes, `if` and `except` become `Branch` nodes; awaited calls go to
`calls.py`. Most statements are first rewritten, so that an effect stands alone: `return await f()` becomes `r = await
f()` and `return r`.

To add a statement, write a function that takes the emitter, the node, the environment, the region and the context, and
name it in STATEMENTS. It returns a list of statements that mean the same, or the exit that it may take.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import groupby
from typing import Any, Final, TypeAlias

from ...expr.ast import NULL, Expr, Fn, Lit, Ref
from ...expr.python.failures import EXCEPTIONS
from ...expr.python.piece import EXIT
from ...ir import Graph
from ...ops import Compute, Loop
from .accumulators import collected_lists
from .calls import emit_effect
from .concurrency import completed_loop, emit_async_with, keep_call, kept_loop
from .desugar import hoist_statement, is_effect
from .emit import UNBOUND, Context, Effect, Emitted, Emitter, Environment, Exit, Region, Value, equals, is_null, output
from .facts import derived, facts_of_all, walk
from .program import PlanError
from .syntax import assign, at, inner_blocks, load, mutations, names_read, store, stored

WHILE_LIMIT: Final = 1000
"""How many iterations a `while` loop may make unless the document says another number."""

Statement: TypeAlias = Callable[[Emitter, Any, Environment, Region, Context], Emitted]
"""Emits the statements of one type."""


def emit_statement(emitter: Emitter, node: ast.stmt, env: Environment, region: Region, context: Context) -> Emitted:
    """Emit one statement that is not part of a piece, or return simpler statements."""
    emit = STATEMENTS.get(type(node))
    if emit is None:
        raise PlanError(node, f"{type(node).__name__} is not supported here")
    return emit(emitter, node, env, region, context)


# --- simple statements -----------------------------------------------------------------------------


def _emit_function(
    emitter: Emitter, node: ast.FunctionDef | ast.AsyncFunctionDef, env: Environment, region: Region, context: Context
) -> Emitted:
    emitter.program.functions[node.name] = node
    return None


def _emit_import(emitter: Emitter, node: ast.stmt, env: Environment, region: Region, context: Context) -> Emitted:
    return None  # what imports mean is known from the start


def _emit_expression(emitter: Emitter, node: ast.Expr, env: Environment, region: Region, context: Context) -> Emitted:
    if is_effect(emitter.program, node.value):
        return emit_effect(Effect(emitter, None, env, region, context, node), node.value)
    if emitter.program.is_coroutine(node.value):
        raise PlanError(node, f"{ast.unparse(node.value)[:60]} is never awaited; write await before it")
    kept = _keep_appended_call(emitter, node)
    return kept if kept is not None else hoist_statement(emitter.program, node, "value")


def _keep_appended_call(emitter: Emitter, node: ast.Expr) -> list[ast.stmt] | None:
    """`calls.append(f(x))` outside of a loop adds a call to a kept list of calls."""
    call = node.value
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append"):
        return None
    if (
        not isinstance(call.func.value, ast.Name)
        or len(call.args) != 1
        or not emitter.program.is_coroutine(call.args[0])
    ):
        return None
    name = call.func.value.id
    kept_list = emitter.program.kept.get(name)
    added = keep_call(emitter.program, ast.List([call.args[0]], ast.Load()), node)
    earlier_calls = kept_list.elts if isinstance(kept_list, ast.List) else []
    added_calls = added.call.elts if added is not None and isinstance(added.call, ast.List) else []
    emitter.program.kept[name] = at(ast.List([*earlier_calls, *added_calls], ast.Load()), node)
    return added.before if added is not None else []


def _emit_assign(
    emitter: Emitter, node: ast.Assign | ast.AnnAssign, env: Environment, region: Region, context: Context
) -> Emitted:
    program = emitter.program
    value = node.value
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if value is None:
        return []
    target = targets[0]
    # A semaphore is not a value at run time: it becomes the limit of the calls that use it.
    if program.is_semaphore(value):
        if not (len(targets) == 1 and isinstance(target, ast.Name) and target.id in program.semaphores):
            raise PlanError(node, "a semaphore has a name and a literal limit: limit = asyncio.Semaphore(5)")
        return []
    # Only a single name can take the value of an effect, or stand for calls that are awaited later.
    if len(targets) == 1 and isinstance(target, ast.Name):
        if isinstance(value, ast.Lambda) and not program.has_effect(value):
            return [_as_function(target.id, value)]
        if is_effect(program, value):
            return emit_effect(Effect(emitter, target.id, env, region, context, node), value)
        kept = keep_call(program, value, node)
        if kept is not None:
            program.kept[target.id] = kept.call
            return kept.before
        # From here on the name holds another value, no longer calls to await.
        program.kept.pop(target.id, None)
    if isinstance(value, ast.Lambda) and len(targets) > 1:
        raise PlanError(node, "give a lambda one name")
    return hoist_statement(program, node, "value")


def _as_function(name: str, node: ast.Lambda) -> ast.stmt:
    """Return `name = lambda ...` as a local function, which later pieces may call."""
    return at(ast.FunctionDef(name, node.args, [ast.Return(node.body)], [], None), node)


def _emit_return(emitter: Emitter, node: ast.Return, env: Environment, region: Region, context: Context) -> Emitted:
    assert node.value is not None
    if emitter.program.is_coroutine(node.value) and not is_effect(emitter.program, node.value):
        raise PlanError(node, f"{ast.unparse(node.value)[:60]} is never awaited; write await before it")
    name = emitter.program.fresh("r")
    return [assign(name, node.value, node), at(ast.Return(load(name)), node)]


def _emit_assert(emitter: Emitter, node: ast.Assert, env: Environment, region: Region, context: Context) -> Emitted:
    error = ast.Call(load("AssertionError"), [node.msg] if node.msg is not None else [], [])
    return [at(ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Raise(error, None)], []), node)]


def _hoist(field: str) -> Statement:
    return lambda emitter, node, env, region, context: hoist_statement(emitter.program, node, field)


# --- if, match -------------------------------------------------------------------------------------


def _emit_if(emitter: Emitter, node: ast.If, env: Environment, region: Region, context: Context) -> Emitted:
    if _is_main_test(node.test):
        return list(node.body)
    if not isinstance(node.test, ast.Name) or node.test.id not in env or not node.test.id.startswith("_test·"):
        # The test becomes a name first, true or false, in a piece or by statements of its own.
        name = emitter.program.fresh("test")
        test = assign(name, ast.Call(load("bool"), [node.test], []), node.test)
        return [test, at(ast.If(load(name), node.body, node.orelse), node)]
    arm = equals(env[node.test.id].expr, True)
    return emitter.branch(
        [(arm, emitter.arm(node.body, context))],
        emitter.arm(node.orelse, context),
        env,
        region,
        node,
    )


def _is_main_test(node: ast.expr) -> bool:
    """Return True for `__name__ == "__main__"`."""
    return isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "__name__"


def _emit_match(emitter: Emitter, node: ast.Match, env: Environment, region: Region, context: Context) -> Emitted:
    program = emitter.program
    if program.has_effect(node.subject):
        return hoist_statement(program, node, "subject")
    if any(case.guard is not None and program.has_effect(case.guard) for case in node.cases):
        raise PlanError(node, "a guard of a case cannot await; await before the match")
    # A match in a piece finds the number of the case and binds its names; the bodies follow as if statements.
    number = program.fresh("case")
    cases = [derived(case, body=[assign(number, ast.Constant(index), node)]) for index, case in enumerate(node.cases)]
    finder = derived(node, cases=cases)
    chain: list[ast.stmt] = []
    for index, case in reversed(list(enumerate(node.cases))):
        test = ast.Compare(load(number), [ast.Eq()], [ast.Constant(index)])
        chain = [at(ast.If(test, case.body, chain), node)]
    return [assign(number, ast.Constant(-1), node), finder, *chain]


# --- loops -----------------------------------------------------------------------------------------


def _emit_for(emitter: Emitter, node: ast.For, env: Environment, region: Region, context: Context) -> Emitted:
    program = emitter.program
    completed = completed_loop(program, node)
    if completed is not None:
        return completed
    kept = kept_loop(program, node)
    if kept is not None:
        return kept
    if program.has_effect(node.iter):
        return hoist_statement(program, node, "iter")
    if not isinstance(node.iter, ast.Name) or not node.iter.id.startswith("_items·"):
        return _with_named_items(emitter, node)
    return _LoopEmitter(emitter, node, node.target, Fn("py:items", (env[node.iter.id].expr,)), context).emit(
        env, region
    )


def _with_named_items(emitter: Emitter, node: ast.For) -> list[ast.stmt]:
    """Return the loop over a list of its own, so that later changes of the source are not seen."""
    program = emitter.program
    source, target, body = node.iter, node.target, node.body
    if isinstance(source, ast.Name):
        changed = mutations(node.body)
        if 0 in changed.get(source.id, ()) or (
            source.id in stored(node.body) and _rebinds_by_change(node.body, source.id)
        ):
            raise PlanError(node, f"{source.id} changes while the loop goes over it; loop over list({source.id})")
        if isinstance(target, ast.Name) and target.id in changed and target.id not in stored(node.body):
            # `for user in users: user["x"] = ...` changes the elements of users: they are written back.
            index = program.fresh("index")
            body = _with_write_back(body, target.id, source.id, index)
            target = ast.Tuple([store(index), target], ast.Store())
            source = ast.Call(load("enumerate"), [source], [])
    name = program.fresh("items")
    listed = assign(name, ast.Call(load("list"), [source], []), node.iter)
    return [listed, at(ast.For(target, load(name), body, node.orelse), node)]


def _rebinds_by_change(body: list[ast.stmt], name: str) -> bool:
    return any(
        isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name) and part.target.id == name
        for part in walk(body)
    )


def _with_write_back(body: list[ast.stmt], name: str, source: str, index: str) -> list[ast.stmt]:
    """Return statements that also put a changed element back in its list."""
    result: list[ast.stmt] = []
    for node in body:
        if name not in mutations(node):
            result.append(node)
        elif isinstance(node, (ast.If, ast.For, ast.While, ast.Try)):
            changes: dict[str, Any] = {
                field: _with_write_back(getattr(node, field), name, source, index)
                for field in ("body", "orelse", "finalbody")
                if getattr(node, field, None)
            }
            if isinstance(node, ast.Try):
                changes["handlers"] = [
                    derived(handler, body=_with_write_back(handler.body, name, source, index))
                    for handler in node.handlers
                ]
            result.append(derived(node, **changes))
        else:
            place = ast.Subscript(load(source), load(index), ast.Store())
            result += [node, at(ast.Assign([place], load(name)), node)]
    return result


def _emit_while(emitter: Emitter, node: ast.While, env: Environment, region: Region, context: Context) -> Emitted:
    program = emitter.program
    if isinstance(node.test, ast.Constant) and node.test.value:
        return _LoopEmitter(emitter, node, None, None, context).emit(env, region)
    # The test is the first statement of the body; `else` runs where the test ended the loop.
    ended: list[ast.stmt] = [ast.Break()]
    before: list[ast.stmt] = []
    after: list[ast.stmt] = []
    if node.orelse:
        flag = program.fresh("ended")
        ended = [assign(flag, ast.Constant(True), node), ast.Break()]
        before = [assign(flag, ast.Constant(False), node)]
        after = [at(ast.If(load(flag), node.orelse, []), node)]
    stop = at(ast.If(ast.UnaryOp(ast.Not(), node.test), ended, []), node)
    return [*before, at(ast.While(ast.Constant(True), [stop, *node.body], []), node), *after]


class _MoreCarriedNames(Exception):
    """The body of a loop changes names that are not carried yet from one iteration to the next."""

    def __init__(self, names: set[str]) -> None:
        self.names = names


class _LoopEmitter:
    """One loop while it is emitted."""

    # Nodes cannot assign variables, so the names that the body changes are *carried*: the last node of an iteration
    # gives their values, and the first node of the next one reads them. The exit of an iteration ends the loop, except
    # `continue`.
    #
    # `node`: The loop.
    # `target`: The target of a `for` loop; None for a `while` loop.
    # `items`: The elements of a `for` loop; None for a `while` loop.
    # `context`: Where the loop is.

    def __init__(
        self, emitter: Emitter, node: ast.For | ast.While, target: ast.expr | None, items: Expr | None, context: Context
    ) -> None:
        self.emitter, self.node, self.target, self.items, self.context = emitter, node, target, items, context

    def emit(self, env: Environment, region: Region) -> Exit | None:
        """Emit the loop, once more with more names as long as its body changes names that are not carried."""
        more_names = self._changed_through_others(env)
        while True:
            checkpoint = self.emitter.program.checkpoint()
            count = len(region.nodes)
            try:
                return self._emit(env, region, more_names)
            except _MoreCarriedNames as missing:
                more_names |= missing.names
                self.emitter.program.restore(checkpoint)
                del region.nodes[count:]

    def _changed_through_others(self, env: Environment) -> set[str]:
        """Return names that the body most likely changes through other names, so that it is emitted only once."""
        program, names = self.emitter.program, set[str]()
        todo: list[list[ast.stmt]] = [self.node.body]
        while todo:
            for is_pure, run in groupby(todo.pop(), program.is_pure):
                statements = list(run)
                if is_pure:
                    facts = facts_of_all(statements)
                    names |= self.emitter.outputs(facts, facts.bound, facts.names & env.keys(), env)
                else:
                    todo += [block for statement in statements for block in inner_blocks(statement)]
        return names & env.keys()

    def _emit(self, env: Environment, region: Region, more_names: set[str]) -> Exit | None:
        emitter, node = self.emitter, self.node
        names = self._carried(env, more_names)
        inner_region, inner_env = Region(), dict(env)
        collected = collected_lists(emitter.program, node) & set(names) & env.keys()
        carried = [name for name in names if name not in collected]
        emitter.bind(inner_env, emitter.node(inner_region, Compute(value=Ref("prev")), "carried", node), carried)
        # A list that the body only appends to is not carried: each iteration begins with an empty one.
        inner_env |= dict.fromkeys(collected, Value(Lit([])))
        exit = self._emit_iteration(inner_env, inner_region)
        # An assignment through another name may show only now; then the loop is emitted again.
        missed = {name for name in inner_env if name in env and inner_env[name] is not env[name] and name not in names}
        if missed:
            raise _MoreCarriedNames(missed)
        # The last node of an iteration gives what the next one begins with, and whether there is a next one.
        leaves = NULL if exit is None else Fn("py:loop_exit", (exit.expr,))
        state = emitter.state(inner_env, names, Exit(leaves, frozenset()))
        last = emitter.node(inner_region, Compute(value=state), "next", node)
        stops = exit is not None and bool(exit.kinds - {"continue"})
        loop = Loop(
            body=Graph(nodes=tuple(inner_region.nodes), ordered=True, result=output(last)),
            items=self.items,
            limit=WHILE_LIMIT if self.items is None else None,
            collect=bool(collected),
            initial=emitter.state(env, carried, None),
            until=Fn("!=", (output(last, EXIT), NULL)) if stops else None,
        )
        id = emitter.node(region, loop, "for" if self.items is not None else "while", node)
        if collected:
            before = emitter.state(env, names, None)
            joined = Fn("py:collected", (before, output(id), Lit(sorted(collected))))
            id = emitter.node(region, Compute(value=joined), "collected", node)
        emitter.bind(env, id, names)
        return self._emit_after_loop(id, exit, env, region)

    def _carried(self, env: Environment, more_names: set[str]) -> list[str]:
        """Return the names to carry: the body binds them or changes values through them."""
        functions = self.emitter.program.functions
        body = self.node.body
        names = stored(body) | more_names | (stored(self.target) if self.target is not None else set())
        changed = mutations(body)
        todo, seen = names_read(body), set[str]()
        while todo:
            name = todo.pop()
            if name in functions and name not in seen:
                seen.add(name)
                changed |= mutations([functions[name]])
                todo |= names_read([functions[name]])
        names |= {name for name in changed if name in env}
        if self.emitter.program.prints:
            from ...expr.python.piece import PRINTED

            names.add(PRINTED)
        return sorted(name for name in names if name not in functions)

    def _emit_iteration(self, env: Environment, region: Region) -> Exit | None:
        """Emit one iteration: the element, then the body."""
        emitter, node, context = self.emitter, self.node, self.context
        kept = dict(emitter.program.kept)
        exit: Exit | None = None
        if self.target is not None:
            item = emitter.program.fresh("item")
            env[item] = Value(output(emitter.node(region, Compute(value=Ref("item")), "item", node)))
            if isinstance(self.target, ast.Name):
                env[self.target.id] = env[item]
            else:
                unpack = at(ast.Assign([self.target], load(item)), node)
                exit = emitter.piece([unpack], env, region, context, "unpack")
        if exit is None:
            result = emitter.block(node.body, env, region, context)
        else:
            result = emitter.unless(exit, node.body, env, region, context)
        emitter.program.kept = kept
        return result

    def _emit_after_loop(self, id: str, exit: Exit | None, env: Environment, region: Region) -> Exit | None:
        """Emit what follows the loop: its `else`, and the exits that continue."""
        emitter, node = self.emitter, self.node
        left: Expr = output(id, EXIT)
        if self.items is None:
            limit = Fn("py:limit", (left, Lit(node.lineno), Lit(WHILE_LIMIT)))
            left = output(emitter.node(region, Compute(value=limit), "limit", node))
        kinds = (exit.kinds if exit is not None else frozenset()) - {"break", "continue"}
        handed_on = Fn("py:after_loop", (left,))
        if node.orelse:
            return emitter.branch(
                [(is_null(left), emitter.arm(node.orelse, self.context))],
                lambda arm_env, arm_region: Exit(handed_on, kinds) if kinds else None,
                env,
                region,
                node,
                "else",
            )
        if not kinds:
            return None
        return Exit(output(emitter.node(region, Compute(value=handed_on), "after", node)), kinds)


# --- try -------------------------------------------------------------------------------------------


def _emit_try(emitter: Emitter, node: ast.Try, env: Environment, region: Region, context: Context) -> Emitted:
    inside = Context(guarded=True, handled=context.handled)
    # An exception in a handler must not skip `finally`, so then the handlers are guarded too.
    in_handlers = inside if node.finalbody else context
    exit = emitter.block(node.body, env, region, inside) or Exit(NULL, frozenset())
    clauses = [_caught_names(emitter, handler) for handler in node.handlers]
    exit_after: Exit | None = exit
    if clauses or node.orelse:
        # One node chooses the handler, so each arm of the branch only compares a number.
        number = output(
            emitter.node(region, Compute(value=Fn("py:handler", (exit.expr, Lit(clauses)))), "caught", node)
        )
        arms = [
            (equals(number, index), _handler_emitter(emitter, handler, exit, in_handlers))
            for index, handler in enumerate(node.handlers)
        ]
        # The number is -2 if the body ended normally.
        if node.orelse:
            arms.append(
                (
                    equals(number, -2),
                    emitter.arm(node.orelse, in_handlers),
                )
            )
        # No exception passes a handler for Exception; exits such as `return` always do.
        catches_all = any({"Exception", "BaseException"} & set(names) for names in clauses)
        left = exit.kinds - {"raise"} if catches_all else exit.kinds
        exit_after = emitter.branch(
            arms, lambda arm_env, arm_region: Exit(exit.expr, left) if left else None, env, region, node, "except"
        )
    if node.finalbody:
        exit_after = _emit_finally(emitter, node, exit_after, env, region, context)
    return _exit_after_try(emitter, node, exit_after, region, context)


def _caught_names(emitter: Emitter, handler: ast.ExceptHandler) -> list[str]:
    """Return the names of the classes that an `except` catches."""
    if handler.type is None:
        return ["Exception"]
    nodes = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = []
    for node in nodes:
        name = emitter.program.path(node).split(".")[-1]
        if name not in EXCEPTIONS:
            known = emitter.program.suggest(name, EXCEPTIONS)
            raise PlanError(node, f"{ast.unparse(node)} is not a known exception", known)
        names.append(name)
    return names


def _handler_emitter(
    emitter: Emitter, handler: ast.ExceptHandler, exit: Exit, context: Context
) -> Callable[[Environment, Region], Exit | None]:
    def emit(env: Environment, region: Region) -> Exit | None:
        error = output(emitter.node(region, Compute(value=Fn("py:exception", (exit.expr,))), "error", handler))
        if handler.name:
            env[handler.name] = Value(error)
        result = emitter.block(handler.body, env, region, Context(context.guarded, error))
        if handler.name:
            env[handler.name] = UNBOUND
        return result

    return emit


def _emit_finally(
    emitter: Emitter, node: ast.Try, exit: Exit | None, env: Environment, region: Region, context: Context
) -> Exit | None:
    """Emit the `finally` block, which runs for every exit; an exit of its own wins."""
    own = emitter.block(node.finalbody, env, region, context)
    kinds = (exit.kinds if exit is not None else frozenset()) | (own.kinds if own is not None else frozenset())
    if not kinds:
        return None
    left = exit.expr if exit is not None else NULL
    if own is not None:
        left = Fn("py:either", (own.expr, left))
    return Exit(output(emitter.node(region, Compute(value=left), "finally", node)), kinds)


def _exit_after_try(
    emitter: Emitter, node: ast.Try, exit: Exit | None, region: Region, context: Context
) -> Exit | None:
    """Return the exits that continue after a `try`; an exception that nothing around it catches fails the run."""
    if exit is None or not exit.kinds:
        return None
    if "raise" in exit.kinds and not context.guarded:
        id = emitter.node(region, Compute(value=Fn("py:raise", (exit.expr,))), "raise", node)
        kinds = exit.kinds - {"raise"}
        return Exit(output(id), kinds) if kinds else None
    return exit


def _refuse(message: str) -> Statement:
    def refuse(emitter: Emitter, node: Any, env: Environment, region: Region, context: Context) -> Emitted:
        raise PlanError(node, message)

    return refuse


STATEMENTS: Final[dict[type[ast.AST], Statement]] = {
    ast.AnnAssign: _emit_assign,
    ast.Assert: _emit_assert,
    ast.Assign: _emit_assign,
    ast.AsyncFor: _refuse("async for over a list, which Python refuses; write for"),
    ast.AsyncFunctionDef: _emit_function,
    ast.AsyncWith: emit_async_with,
    ast.AugAssign: _hoist("value"),
    ast.Delete: _refuse("del cannot await; give the key a name first"),
    ast.Expr: _emit_expression,
    ast.For: _emit_for,
    ast.FunctionDef: _emit_function,
    ast.If: _emit_if,
    ast.Import: _emit_import,
    ast.ImportFrom: _emit_import,
    ast.Match: _emit_match,
    ast.Raise: _hoist("exc"),
    ast.Return: _emit_return,
    ast.Try: _emit_try,
    ast.While: _emit_while,
}
"""Every kind of statement that may have an effect."""
