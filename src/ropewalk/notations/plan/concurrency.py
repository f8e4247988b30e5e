"""Calls at the same time, calls that are kept and awaited later, and time limits.

In Python, `task = f(x)` makes a coroutine that a later statement awaits, often many at once with `asyncio.gather`. A
flow has no value for a call that was not made. So such a call is *kept*: its arguments are computed where the program
makes the coroutine, and the call itself is emitted where it is awaited. `Program.kept` has the kept calls by name.

`asyncio.gather` becomes a Block whose nodes have no order, with one region for each call. A task group is rewritten as
a gather. A time limit becomes a Block with a timeout.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any, NamedTuple

from ...expr.ast import NULL, Arr, Expr, Fn, Lit, Obj, Ref
from ...expr.python.builtins import SETTLED
from ...expr.python.piece import EXIT, PRINTED
from ...ir import Graph, OnError, Policy
from ...ops import Block, Compute, Map
from .emit import UNBOUND, VALUE, Context, Effect, Emitted, Emitter, Environment, Exit, Region, Value, output
from .facts import derived, facts_of, walk
from .program import PlanError, Program
from .syntax import Rename, assign, at, load, store, stored


class KeptCall(NamedTuple):
    """A call that is awaited later: the statements that fix its arguments now, and the expression to await then."""

    before: list[ast.stmt]
    call: ast.expr


class GatheredCall(NamedTuple):
    """An argument of `asyncio.gather`: one call, or a comprehension that makes a call for each element of a list."""

    is_list: bool
    call: ast.expr


class GroupTask(NamedTuple):
    """A task of a task group, or a list of tasks from a comprehension; `name` is None if nothing refers to it."""

    name: str | None
    is_list: bool
    call: ast.expr


# --- calls that are kept ---------------------------------------------------------------------------


def keep_call(program: Program, node: ast.expr, place: ast.AST) -> KeptCall | None:
    """Return what fixes the arguments of a call now, and the call to make where it is awaited."""

    # `task = f(x)`, `tasks = [f(x) for x in xs]` and `[f(x), g(y)]` are such calls, with or without `create_task`.
    node = program.makes_task(node) or node
    if isinstance(node, ast.Call) and program.is_coroutine(node):
        path = program.path(node.func)
        if path in ("approve", "wait_for", "asyncio.run", "asyncio.gather", "asyncio.wait_for"):
            return KeptCall([], node) if path.startswith("asyncio.") and not _reads_names(node) else None
        return _with_fixed_arguments(program, node, place)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and _is_call(program, node.elt):
        before: list[ast.stmt] = []
        calls = listed_calls(program, node, before, place)
        return KeptCall(before, calls)
    if isinstance(node, ast.List) and node.elts and all(_is_call(program, part) for part in node.elts):
        statements: list[ast.stmt] = []
        elements: list[ast.expr] = []
        for part in node.elts:
            kept = keep_call(program, part, place)
            assert kept is not None
            statements += kept.before
            elements.append(kept.call)
        return KeptCall(statements, at(ast.List(elements, ast.Load()), place))
    return None


def _reads_names(node: ast.Call) -> bool:
    return bool(facts_of(node).names)


def _is_call(program: Program, node: ast.expr) -> bool:
    return program.is_coroutine(program.makes_task(node) or node)


def _with_fixed_arguments(program: Program, node: ast.Call, place: ast.AST) -> KeptCall:
    before: list[ast.stmt] = []

    def fixed(part: ast.expr) -> ast.expr:
        name = program.fresh("k")
        before.append(assign(name, part, place))
        return at(load(name), place)

    args = [fixed(part) for part in node.args]
    keywords = [derived(keyword, value=fixed(keyword.value)) for keyword in node.keywords]
    return KeptCall(before, derived(node, args=args, keywords=keywords))


def listed_calls(
    program: Program, node: ast.ListComp | ast.GeneratorExp, before: list[ast.stmt], place: ast.AST
) -> ast.ListComp:
    """Return the comprehension of calls over a list, made now, of the values that its clauses give."""
    names = sorted(name for part in node.generators for name in stored(part.target))
    items = program.fresh("xs")
    element = program.makes_task(node.elt) or node.elt
    values = ast.Tuple([load(name) for name in names], ast.Load())
    before.append(assign(items, at(ast.ListComp(values, node.generators), place), place))
    target = ast.Tuple([store(name) for name in names], ast.Store())
    return at(ast.ListComp(element, [ast.comprehension(target, load(items), [], 0)]), place)


def kept_loop(program: Program, node: ast.For) -> list[ast.stmt] | None:
    """Return the statements for loops that only collect calls: `for x in xs: calls.append(f(x))`."""
    clauses: list[ast.comprehension] = []
    inner: ast.stmt = node
    # Loops and tests around the only statement are the clauses of a comprehension.
    while isinstance(inner, (ast.For, ast.If)) and len(inner.body) == 1 and not inner.orelse:
        if isinstance(inner, ast.For):
            clauses.append(ast.comprehension(inner.target, inner.iter, [], 0))
        else:
            clauses[-1].ifs.append(inner.test)
        inner = inner.body[0]
    call = inner.value if isinstance(inner, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append"):
        return None
    if not isinstance(call.func.value, ast.Name) or len(call.args) != 1 or not _is_call(program, call.args[0]):
        return None
    if any(program.has_effect(part) for clause in clauses for part in (clause.iter, *clause.ifs)):
        return None
    before: list[ast.stmt] = []
    made = ast.ListComp(call.args[0], clauses)
    program.kept[call.func.value.id] = listed_calls(program, at(made, node), before, node)
    return before


def completed_loop(program: Program, node: ast.For) -> list[ast.stmt] | None:
    """Return the statements for `for task in asyncio.as_completed(tasks)`: the calls end, then the loop takes each."""

    # The order in which calls end is open in Python, too. Here it is the order of the list.
    call, target = node.iter, node.target
    if not isinstance(call, ast.Call) or program.path(call.func) != "asyncio.as_completed" or not call.args:
        return None
    if len(call.args) > 1 or call.keywords or not isinstance(target, ast.Name):
        raise PlanError(call, "as_completed takes a list of calls here: for task in asyncio.as_completed(tasks)")
    task = target.id
    awaited = [part for part in walk(node.body) if isinstance(part, ast.Await) and _is_named(part.value, task)]
    if sum(_is_named(part, task) for part in walk(node.body)) != len(awaited):
        raise PlanError(node, f"{task} may only be awaited: write `x = await {task}` and use x")
    body = [_with_settled(statement, task) for statement in node.body]
    gather = at(ast.Attribute(load("asyncio"), "gather", ast.Load()), call)
    flag = ast.keyword("return_exceptions", ast.Constant(True))
    ended = at(ast.Call(gather, [ast.Starred(call.args[0], ast.Load())], [flag]), call)
    return [derived(node, iter=at(ast.Await(ended), call), body=body)]


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _with_settled(node: Any, task: str) -> Any:
    """Return a copy of a node in which the result of an ended call replaces `await task`."""
    if isinstance(node, list):
        return [_with_settled(part, task) for part in node]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.Await) and _is_named(node.value, task):
        return at(ast.Call(load(SETTLED), [load(task)], []), node)
    return derived(node, **{field: _with_settled(node.__dict__.get(field), task) for field in node._fields})


# --- gather ----------------------------------------------------------------------------------------


def emit_gather(effect: Effect, call: ast.Call) -> Emitted:
    """Emit `await asyncio.gather(...)`: every call is a region of its own, and all of them end."""
    emitter, statement = effect.emitter, effect.statement
    returns = _returns_exceptions(call)
    before: list[ast.stmt] = []
    parts = _gathered_parts(emitter.program, call, before)
    if before:
        # Statements have to run first: return them, and the gather with what they give.
        args = [ast.Starred(part.call, ast.Load()) if part.is_list else part.call for part in parts]
        rewritten = at(ast.Call(call.func, args, call.keywords), call)
        return [*before, assign(effect.target or emitter.program.fresh("r"), at(ast.Await(rewritten), call), statement)]
    # One node for each call, all in a Block without an order.
    inner = Region()
    context = effect.context.collecting()
    context = replace(context, deferred=context.deferred and not returns)
    groups = [(part.is_list, _emit_gathered_call(effect, part, inner, context)) for part in parts]
    results = Obj(tuple((id, output(id)) for _, id in groups))
    block = emitter.node(
        effect.region, Block(body=Graph(nodes=tuple(inner.nodes), result=results)), "gather", statement
    )
    # Put the results together: a list of values, or the exit of the first call that raised.
    rows = Arr(tuple(Arr((Lit(is_list), output(block, id))) for is_list, id in groups))
    old = effect.env.get(effect.target, UNBOUND).packed if effect.target is not None else NULL
    gathered = Fn("py:gathered", (rows, Lit(returns), old))
    id = emitter.node(effect.region, Compute(value=gathered), "gathered", statement)
    effect.bind(Value(output(id, VALUE)))
    if emitter.program.prints:
        printed = Fn("py:printed", (effect.env[PRINTED].expr, rows))
        made = emitter.node(effect.region, Compute(value=Obj(((PRINTED, printed),))), "printed", statement)
        effect.env[PRINTED] = Value(output(made, PRINTED))
    if returns:
        return None
    return raise_unless_guarded(
        emitter, Exit(output(id, EXIT), frozenset(("raise",))), effect.region, effect.context, statement
    )


def raise_unless_guarded(emitter: Emitter, exit: Exit, region: Region, context: Context, place: ast.AST) -> Exit | None:
    """Return the exit of statements that ended together."""

    # Outside of a `try`, an exception fails the run here.
    if context.guarded:
        return exit
    id = emitter.node(region, Compute(value=Fn("py:raise", (exit.expr,))), "raise", place)
    kinds = exit.kinds - {"raise"}
    return Exit(output(id), kinds) if kinds else None


def _returns_exceptions(call: ast.Call) -> bool:
    for keyword in call.keywords:
        if keyword.arg != "return_exceptions" or not isinstance(keyword.value, ast.Constant):
            raise PlanError(call, "gather takes calls and return_exceptions=True or False")
        return bool(keyword.value.value)
    return False


def _gathered_parts(program: Program, call: ast.Call, before: list[ast.stmt]) -> list[GatheredCall]:
    """Return the calls of a gather, each with whether it is a comprehension over a named list."""
    parts: list[GatheredCall] = []
    for node in call.args:
        is_list = isinstance(node, ast.Starred)
        part = node.value if isinstance(node, ast.Starred) else node
        if isinstance(part, ast.Name) and part.id in program.kept:
            part = program.kept[part.id]
        if not is_list:
            parts.append(GatheredCall(False, program.makes_task(part) or part))
            continue
        if isinstance(part, ast.Call) and program.path(part.func) == "map" and len(part.args) == 2:
            part = _map_as_comprehension(program, part, node)
        if isinstance(part, (ast.List, ast.Tuple)):
            parts += [GatheredCall(False, program.makes_task(element) or element) for element in part.elts]
            continue
        if not isinstance(part, (ast.ListComp, ast.GeneratorExp)):
            raise PlanError(node, "gather takes calls, or a list of calls that a comprehension makes")
        if not _is_over_named_list(part):
            part = listed_calls(program, part, before, node)
        parts.append(GatheredCall(True, part))
    return parts


def _map_as_comprehension(program: Program, call: ast.Call, place: ast.AST) -> ast.ListComp:
    """Return `map(f, xs)` as a comprehension of calls."""
    name = program.fresh("x")
    program.names.add(name)
    made = ast.ListComp(ast.Call(call.args[0], [load(name)], []), [ast.comprehension(store(name), call.args[1], [], 0)])
    return at(made, place)


def _is_over_named_list(node: ast.ListComp | ast.GeneratorExp) -> bool:
    only = node.generators[0]
    return len(node.generators) == 1 and isinstance(only.iter, ast.Name) and only.iter.id.startswith("_xs·")


def _emit_gathered_call(effect: Effect, part: GatheredCall, region: Region, context: Context) -> str:
    """Emit one call of a gather, or one call for each element of a list, and return the id of its node."""
    emitter, statement, env = effect.emitter, effect.statement, effect.env
    inner_region, inner_env, name = Region(), dict(env), emitter.program.fresh("r")
    items: Expr = NULL
    call = part.call
    if part.is_list:
        assert isinstance(call, (ast.ListComp, ast.GeneratorExp))
        assert isinstance(call.generators[0].iter, ast.Name)
        items = Fn("py:items", (env[call.generators[0].iter.id].expr,))
        call = _bind_element(effect, call, inner_env, inner_region)
    if not emitter.program.is_coroutine(call):
        raise PlanError(call, "gather takes calls of tools or async functions")
    awaited = assign(name, at(ast.Await(call), statement), statement)
    if emitter.program.prints:
        inner_env[PRINTED] = Value(Lit([]))  # each call collects its own text
    exit = emitter.block([awaited], inner_env, inner_region, context)
    # Calls at the same time must not depend on each other through a variable.
    changed = [known for known in env if inner_env[known] is not env[known] and known != PRINTED]
    if changed:
        raise PlanError(statement, f"{changed[0]} is changed by calls that run at the same time; return the values")
    fields = [(EXIT, NULL if exit is None else exit.expr), (VALUE, inner_env.get(name, UNBOUND).packed)]
    if emitter.program.prints:
        fields.append((PRINTED, inner_env[PRINTED].expr))
    result = Obj(tuple(fields))
    body = emitter.graph(inner_region, result)
    if part.is_list:
        limit = min(emitter.program.semaphores.values(), default=None)
        return emitter.node(region, Map(items=items, body=body, limit=limit), "each", statement)
    return emitter.node(region, Block(body=body), "one", statement)


def _bind_element(effect: Effect, part: ast.ListComp | ast.GeneratorExp, env: Environment, region: Region) -> ast.expr:
    """Emit the assignment of an element to the target of a comprehension, under names of its own; return the call."""
    emitter, statement = effect.emitter, effect.statement
    target = part.generators[0].target
    prefix = emitter.program.fresh("g")
    names = {name: f"{prefix}_{name}" for name in stored(target)}
    emitter.program.names |= set(names.values())
    rename = Rename(names)
    item = emitter.program.fresh("item")
    env[item] = Value(output(emitter.node(region, Compute(value=Ref("item")), "item", statement)))
    unpack = at(ast.Assign([rename.renamed(target)], load(item)), statement)
    emitter.piece([unpack], env, region, Context(), "unpack")
    return rename.renamed(part.elt)


# --- time limits and task groups ---------------------------------------------------------------------


def emit_wait_for(effect: Effect, call: ast.Call, name: str) -> Emitted:
    """Emit `await asyncio.wait_for(call, timeout)`."""
    seconds = call.args[1] if len(call.args) > 1 else None
    for keyword in call.keywords:
        if keyword.arg == "timeout":
            seconds = keyword.value
    if not call.args or seconds is None:
        raise PlanError(call, "wait_for takes a call and a timeout in seconds")
    if isinstance(seconds, ast.Constant) and seconds.value is None:
        return [assign(name, at(ast.Await(call.args[0]), call), effect.statement)]
    awaited = assign(name, at(ast.Await(call.args[0]), call), effect.statement)
    return _emit_time_limit(
        effect.emitter, seconds, [awaited], effect.env, effect.region, effect.context, effect.statement
    )


def _emit_time_limit(
    emitter: Emitter,
    seconds: ast.expr,
    body: list[ast.stmt],
    env: Environment,
    region: Region,
    context: Context,
    place: ast.stmt,
) -> Exit | None:
    """Emit statements with a limit in time."""

    # Failures inside are values, so only the time can fail the node.
    limit = seconds.value if isinstance(seconds, ast.Constant) else None
    if type(limit) not in (int, float):
        raise PlanError(seconds, "a timeout is a number of seconds, such as 5 or 0.5")
    inner_region, inner_env = Region(), dict(env)
    inner_context = context.collecting()
    exit = emitter.block(body, inner_env, inner_region, inner_context)
    changed = sorted(name for name in inner_env if inner_env[name] is not env.get(name))
    _refuse_lost_names(body, changed, env, place)
    # When the time is up, the names keep their values, and the exit is a TimeoutError.
    late = Obj(
        (
            (EXIT, Fn("py:timeout", (Lit(place.lineno),))),
            *((name, env.get(name, UNBOUND).packed) for name in changed),
        )
    )
    on_error = OnError(value=late, deferred=inner_context.deferred)
    policy = Policy(timeout=float(limit), on_error=on_error)  # type: ignore[arg-type]
    block = Block(body=emitter.graph(inner_region, emitter.state(inner_env, changed, exit)))
    id = emitter.node(region, block, "timeout", place, policy=policy)
    emitter.bind(env, id, changed)
    kinds = (exit.kinds if exit is not None else frozenset()) | {"raise"}
    return raise_unless_guarded(emitter, Exit(output(id, EXIT), kinds), region, context, place)


def _refuse_lost_names(body: list[ast.stmt], changed: list[str], env: Environment, place: ast.stmt) -> None:
    """Refuse a block whose names would differ from Python's when the time is up in its middle."""
    if len(body) > 1 and any(name in env and not name.startswith("_") for name in changed[:-1]):
        lost = next(name for name in changed if name in env)
        raise PlanError(place, f"{lost} is assigned inside a time limit; assign it after, or use asyncio.wait_for")


def emit_async_with(
    emitter: Emitter, node: ast.AsyncWith, env: Environment, region: Region, context: Context
) -> Emitted:
    """Emit `async with` on `asyncio.timeout(seconds)`, `asyncio.TaskGroup()` or a semaphore."""
    item = node.items[0]
    call = item.context_expr
    path = emitter.program.path(call.func) if isinstance(call, ast.Call) else ""
    if len(node.items) == 1 and isinstance(call, ast.Call):
        if path == "asyncio.TaskGroup" and isinstance(item.optional_vars, ast.Name):
            return _task_group_as_gather(emitter.program, node, item.optional_vars.id)
        if path == "asyncio.timeout" and len(call.args) == 1:
            return _emit_time_limit(emitter, call.args[0], node.body, env, region, context, node)
    if len(node.items) == 1 and isinstance(call, ast.Name) and call.id in emitter.program.semaphores:
        return node.body  # the calls of each gather keep the limit
    raise PlanError(node, "async with takes asyncio.timeout(seconds), asyncio.TaskGroup() or a semaphore")


def _task_group_as_gather(program: Program, node: ast.AsyncWith, group: str) -> list[ast.stmt]:
    """Return the statements for a task group: its tasks are made, then gathered at its end."""

    def call_of_task(value: ast.AST) -> ast.expr | None:
        is_call = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and bool(value.args)
        if is_call and ast.unparse(value.func) == f"{group}.create_task":  # type: ignore[attr-defined]
            return value.args[0]  # type: ignore[attr-defined,no-any-return]
        return None

    before: list[ast.stmt] = []
    tasks: list[GroupTask] = []
    for statement in node.body:
        value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
        name = None
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
        call = call_of_task(value) if value is not None else None
        if call is not None:
            tasks.append(GroupTask(name, False, call))
        elif isinstance(value, ast.ListComp) and (call := call_of_task(value.elt)) is not None and name is not None:
            tasks.append(GroupTask(name, True, at(ast.ListComp(call, value.generators), statement)))
        # In asyncio a new task starts at the next await, so these statements run before all tasks.
        elif program.is_pure(statement):
            before.append(statement)
        else:
            raise PlanError(statement, "inside a TaskGroup, make tasks with create_task and await them after it")
    return [*before, *_gather_tasks(program, tasks, node)]


def _gather_tasks(program: Program, tasks: list[GroupTask], node: ast.stmt) -> list[ast.stmt]:
    """Return the gather of the tasks of a group, and the statements that give each task's name its result."""
    if not tasks:
        return [at(ast.Pass(), node)]
    if len(tasks) > 1 and any(task.is_list for task in tasks):
        raise PlanError(node, "a TaskGroup takes one list of tasks, or single tasks")
    results = program.fresh("tasks")
    args: list[ast.expr] = [ast.Starred(task.call, ast.Load()) if task.is_list else task.call for task in tasks]
    gather = ast.Call(ast.Attribute(load("asyncio"), "gather", ast.Load()), args, [])
    rows: list[ast.stmt] = [assign(results, at(ast.Await(gather), node), node)]
    if tasks[0].is_list:
        rows.append(assign(tasks[0].name or program.fresh("t"), load(results), node))
    else:
        for index, task in enumerate(tasks):
            if task.name is not None:
                rows.append(assign(task.name, ast.Subscript(load(results), ast.Constant(index), ast.Load()), node))
    return rows
