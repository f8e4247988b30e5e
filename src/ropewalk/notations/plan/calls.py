"""Effects as nodes: calls of tools, waits, world calls, and local async functions, which are inlined.

`statements.py` calls `emit_effect` for an expression that is one effect, such as `await search(query)`. An effect in
the arguments of another one is first moved into a statement before it (`desugar.py`), so the functions below see pure
arguments only. Each of them adds the nodes of its effect, gives the target of the statement its value (`Effect.bind`),
and returns the exit that the nodes may take (see `emit.py`).

A *world call* reads something that changes outside the program: the clock, chance, or the value of another run. It
calls a built-in tool, so that the journal keeps what it read and a resumed run continues with the same value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from ...expr.ast import NULL, Expr, Fn, Lit, Obj, Ref
from ...expr.python.piece import EXIT
from ...expr.python.scope import parameter_names
from ...expr.python.values import Refused, to_json
from ...ir import OnError, Policy
from ...ops import Block, Call, Compute, Sleep, Wait
from .concurrency import emit_gather, emit_wait_for
from .desugar import Hoister
from .emit import ERROR, UNBOUND, VALUE, Effect, Emitted, Emitter, Environment, Exit, Region, Value, output
from .facts import derived
from .program import PlanError, PlanTool
from .syntax import Rename, assign, at, is_text, load, stored

WORLD_TOOLS: Final[dict[str, str]] = {
    name: f"ropewalk:{name}" for name in ("now", "today", "time", "uuid", "random", "value")
}
"""The built-in tools that read the clock, chance or another run, so that what they give is journaled."""


def emit_effect(effect: Effect, node: ast.expr) -> Emitted:
    """Emit an expression that is one effect with the nodes that it needs, or return simpler statements."""
    emitter, statement = effect.emitter, effect.statement
    world = emitter.program.world_call(node)
    if world is not None:
        return _emit_world_call(effect, world, node)
    call = node.value if isinstance(node, ast.Await) else node
    name = effect.target or emitter.program.fresh("r")
    if isinstance(call, ast.Name) and call.id in emitter.program.kept:
        # The name holds a call that the program made earlier and awaits now.
        kept_call = emitter.program.kept[call.id]
        return [assign(name, at(ast.Await(kept_call), node), statement)]
    if not isinstance(call, ast.Call):
        raise PlanError(call, "await takes a call of a tool or of an async function")
    return _emit_await(effect, call, name, isinstance(node, ast.Await))


def _emit_await(effect: Effect, call: ast.Call, name: str, awaited: bool) -> Emitted:
    """Emit a call of asyncio, a local function, the language or a tool."""

    # Only local functions may lack `await`.
    emitter, statement = effect.emitter, effect.statement
    path = emitter.program.path(call.func)
    if path in ("asyncio.run", "asyncio.create_task", "asyncio.ensure_future") and call.args:
        return [assign(name, at(ast.Await(call.args[0]), statement), statement)]
    if path == "asyncio.gather":
        return emit_gather(effect, call)
    if path == "asyncio.wait_for":
        return emit_wait_for(effect, call, name)
    if isinstance(call.func, ast.Name) and isinstance(emitter.program.functions.get(call.func.id), ast.FunctionDef):
        return _emit_inlined_function(effect, emitter.program.functions[call.func.id], call)
    if not awaited:
        raise PlanError(call, f"{ast.unparse(call)[:60]} is never awaited; write await before it")
    # Effects in the arguments come first.
    before: list[ast.stmt] = []
    hoister = Hoister(emitter.program, before)
    if any(emitter.program.has_effect(part) for part in (*call.args, *(keyword.value for keyword in call.keywords))):
        pure = derived(hoister.pure(derived(call, func=at(load("_"), call))), func=call.func)
        return [*before, assign(name, at(ast.Await(pure), statement), statement)]
    return _emit_call_with_pure_arguments(effect, call, path)


def _emit_call_with_pure_arguments(effect: Effect, call: ast.Call, path: str) -> Emitted:
    """Emit an awaited call whose arguments have no effect."""

    # `path` is the name of the function with imports resolved.
    program = effect.emitter.program
    if path == "asyncio.sleep":
        return _emit_sleep(effect, call)
    if path in ("approve", "wait_for"):
        return _emit_wait(effect, call, path)
    if path == "call_tool":
        return _emit_call_tool(effect, call)
    if isinstance(call.func, ast.Name) and call.func.id in program.functions:
        return _emit_inlined_function(effect, program.functions[call.func.id], call)
    tool = program.tool_name(call.func)
    if tool is None:
        known = program.suggest(ast.unparse(call.func), ())
        raise PlanError(call.func, f"there is no tool or async function '{ast.unparse(call.func)}'", known)
    return emit_tool_call(effect, tool, call)


# --- world, sleep, wait ----------------------------------------------------------------------------


def _emit_world_call(effect: Effect, world: str, node: ast.expr) -> Emitted:
    """Emit a read of the clock, chance or another run; `world` is a key of WORLD_TOOLS."""
    if world == "value":
        return _emit_value_of_run(effect, node)
    id = effect.emitter.node(effect.region, Call(tool=WORLD_TOOLS[world], args=Obj(())), world, node)
    if world in ("now", "today"):
        utc = isinstance(node, ast.Call) and bool(node.args or node.keywords)
        effect.bind(Value(Fn("py:now", (output(id), Lit(world), Lit(utc)))))
    else:
        effect.bind(Value(output(id), raw=True))
    return None


def _emit_value_of_run(effect: Effect, node: ast.expr) -> Emitted:
    """`value("RUN/NODE")` reads a value that another run recorded."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        raise PlanError(node, 'value takes the text of a handle: value("RUN/NODE")')
    place, exit = emit_argument(effect, node.args[0])
    op = Call(tool=WORLD_TOOLS["value"], args=Obj((("place", place),)))
    effect.bind(Value(output(effect.emitter.node(effect.region, op, "value", node)), raw=True))
    return exit


def _emit_sleep(effect: Effect, call: ast.Call) -> Emitted:
    if not call.args:
        raise PlanError(call, "asyncio.sleep takes the seconds")
    seconds, exit = emit_argument(effect, call.args[0])
    effect.emitter.node(effect.region, Sleep(seconds=seconds), "sleep", call)
    effect.bind(Value(NULL, raw=True))
    return exit


def _emit_wait(effect: Effect, call: ast.Call, path: str) -> Emitted:
    """Emit `approve(text)` or `wait_for(event)`, whichever `path` names."""
    if len(call.args) != 1:
        raise PlanError(call, f"{path} takes one text")
    timeout = next((keyword.value for keyword in call.keywords if keyword.arg == "timeout"), None)
    if any(keyword.arg != "timeout" for keyword in call.keywords):
        raise PlanError(call, f"{path} takes a text and timeout, in seconds")
    text, exit = emit_argument(effect, call.args[0])
    limit = emit_argument(effect, timeout)[0] if timeout is not None else None
    op = Wait(approval=text, timeout=limit) if path == "approve" else Wait(event=text, timeout=limit)
    id = effect.emitter.node(effect.region, op, path, call)
    if path == "wait_for":
        effect.bind(Value(output(id), raw=True))
    elif effect.target is not None:
        fields = tuple((name, output(id, name)) for name in ("approved", "by", "note"))
        effect.bind(Value(Fn("py:approval", (Obj(fields),))))
    return exit


def emit_argument(effect: Effect, node: ast.expr) -> tuple[Expr, Exit | None]:
    """Emit a pure argument of an effect: literals and names need no node, anything else is computed by a piece."""
    literal = literal_value(node)
    if literal is not None:
        return literal, None
    if isinstance(node, ast.Name) and node.id in effect.env:
        return as_json(effect.env[node.id], node), None
    name = effect.emitter.program.fresh("a")
    exit = effect.emitter.piece([assign(name, node, node)], effect.env, effect.region, effect.context, "arg")
    return as_json(effect.env[name], node), exit


def as_json(value: Value, node: ast.expr) -> Expr:
    """Return the expression of a value as an argument; values from outside are JSON already."""
    if value.raw:
        return value.expr
    name = node.id if isinstance(node, ast.Name) else ""
    return Fn("py:json", (value.expr, Lit(name), Lit(node.lineno)))


def literal_value(node: ast.expr) -> Lit | None:
    """Return the JSON of a literal, which the check of the graph can see; None for anything else."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    try:
        return Lit(to_json(value))
    except Refused as error:
        raise PlanError(node, str(error)) from None


# --- tools -----------------------------------------------------------------------------------------


def _emit_call_tool(effect: Effect, call: ast.Call) -> Emitted:
    """`call_tool("server.tool", {...})` is a call of that tool."""
    program = effect.emitter.program
    name = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    if not isinstance(name, str):
        raise PlanError(call, 'call_tool takes the name of the tool as a text: call_tool("server.tool", {...})')
    tool = next((tool for tool, entry in program.tools.items() if name in (tool, entry.id)), None)
    if tool is None:
        raise PlanError(call.args[0], f"there is no tool '{name}'", program.suggest(name, ()))
    fields = call.args[1] if len(call.args) > 1 else ast.Dict([], [])
    if len(call.args) > 2 or call.keywords:
        raise PlanError(call, "call_tool takes the name and one dict of arguments")
    keywords = [ast.keyword(None, fields)]
    if isinstance(fields, ast.Dict) and all(isinstance(key, ast.Constant) for key in fields.keys):
        keywords = [
            ast.keyword(str(key.value), value)  # type: ignore[union-attr]
            for key, value in zip(fields.keys, fields.values, strict=True)
        ]
    return emit_tool_call(effect, tool, at(ast.Call(call.func, [], keywords), call))


def emit_tool_call(effect: Effect, name: str, call: ast.Call) -> Emitted:
    """Emit the call of a tool whose arguments have no effect."""
    tool = effect.emitter.program.tools[name]
    named = named_arguments(name, tool, call)
    args, exit = _emit_arguments(effect, named)

    # Where an argument raises, the call is not made.
    def emit(env: Environment, region: Region) -> Exit | None:
        inner = Effect(effect.emitter, effect.target, env, region, effect.context, effect.statement)
        return _emit_tool_node(inner, name, tool, args, call)

    if exit is None:
        return emit(effect.env, effect.region)
    return effect.emitter.when_null(exit, emit, effect.env, effect.region, call)


def named_arguments(name: str, tool: PlanTool, call: ast.Call) -> list[tuple[str | None, ast.expr]]:
    """Return the arguments of a call by the name of the parameter; None stands for `**fields`."""
    from ...values import did_you_mean

    for part in call.args:
        if isinstance(part, ast.Starred):
            raise PlanError(part, f"a call of a tool takes no *arguments; write {name}(name=value)")
    if len(call.args) > len(tool.parameters):
        most = len(tool.parameters)
        raise PlanError(call, f"{name} takes at most {most} argument{'s' * (most != 1)}, {len(call.args)} were given")
    named: list[tuple[str | None, ast.expr]] = list(zip(tool.parameters, call.args, strict=False))
    for keyword in _split_literal_dicts(call.keywords):
        if keyword.arg is not None and any(keyword.arg == known for known, _ in named):
            raise PlanError(keyword.value, f"{name} gets the argument '{keyword.arg}' twice")
        # A schema without properties that is not closed accepts any field.
        if keyword.arg not in (None, *tool.parameters) and (tool.parameters or tool.closed):
            near = did_you_mean(str(keyword.arg), tool.parameters)
            raise PlanError(keyword, f"{name} has no parameter '{keyword.arg}'", near)
        named.append((keyword.arg, keyword.value))
    names = [parameter for parameter, _ in named]
    # `**fields` may contain the missing arguments, which only the call can check.
    if None not in names:
        missing = [required for required in tool.required if required not in names]
        if missing:
            listed = ", ".join(repr(required) for required in missing)
            raise PlanError(call, f"{name} needs the argument{'s' * (len(missing) > 1)} {listed}")
    return named


def _split_literal_dicts(keywords: Iterable[ast.keyword]) -> Iterator[ast.keyword]:
    """Yield keyword arguments with the entries of `**{"from": x}` one by one, so that the check sees each of them."""
    for keyword in keywords:
        fields = keyword.value
        if keyword.arg is None and isinstance(fields, ast.Dict) and all(map(is_text_literal, fields.keys)):
            for key, value in zip(fields.keys, fields.values, strict=True):
                yield at(ast.keyword(ast.literal_eval(key), value), value)  # type: ignore[arg-type]
        else:
            yield keyword


def is_text_literal(node: ast.expr | None) -> bool:
    """Return True for a literal text."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _emit_arguments(effect: Effect, named: list[tuple[str | None, ast.expr]]) -> tuple[Expr, Exit | None]:
    """Return the object of arguments."""

    # Literals and names stand for themselves; the rest is computed in one piece.
    fields: dict[str, Expr] = {}
    computed: list[tuple[str | None, ast.expr]] = []
    for name, node in named:
        literal = literal_value(node)
        if name is not None and literal is not None:
            fields[name] = literal
        elif name is not None and isinstance(node, ast.Name) and node.id in effect.env:
            fields[name] = as_json(effect.env[node.id], node)
        else:
            computed.append((name, node))
    if not computed:
        return Obj(tuple((name, fields[name]) for name, _ in named if name is not None)), None
    # One piece computes all that is left, in Python's order.
    place = computed[0][1]
    variable = effect.emitter.program.fresh("a")
    keys: list[ast.expr | None] = [None if name is None else ast.Constant(name) for name, _ in computed]
    display = at(ast.Dict(keys, [node for _, node in computed]), place)
    exit = effect.emitter.piece([assign(variable, display, place)], effect.env, effect.region, effect.context, "args")
    value = as_json(effect.env[variable], place)
    if any(name is None for name, _ in computed):
        return Fn("py:merge", (value, Obj(tuple(fields.items())))), exit
    for name, _ in computed:
        if name is not None:
            fields[name] = Fn("py:member", (value, Lit(name)))
    return Obj(tuple((name, fields[name]) for name, _ in named if name is not None)), exit


def _emit_tool_node(effect: Effect, name: str, tool: PlanTool, args: Expr, call: ast.Call) -> Exit | None:
    """Add the node of a call of a tool, and give the target its value."""
    emitter, env, region, target = effect.emitter, effect.env, effect.region, effect.target
    op: Call | Block = Call(tool=tool.id, args=args)
    if tool.approve:
        op = _approved_call(emitter, name, Call(tool=tool.id, args=args), call, tool.version)
    if not effect.context.guarded:
        id = emitter.node(region, op, name, call)
        effect.bind(Value(output(id), raw=True))
        return None
    # Inside a `try` the node does not fail: its value is {VALUE: value, ERROR: error}. After a failure the target keeps
    # the value that it had, as in Python.
    old_value = (env.get(target, UNBOUND) if target is not None else UNBOUND).packed
    after_failure = Obj(((VALUE, old_value), (ERROR, Ref("error"))))
    on_error = OnError(value=after_failure, deferred=effect.context.deferred)
    id = emitter.node(region, op, name, call, policy=Policy(on_error=on_error))
    after_success = Obj(((VALUE, Fn("py:raw", (output(id),))), (ERROR, NULL)))
    region.nodes[-1] = replace(region.nodes[-1], result=after_success)
    # The error becomes the exit of the call.
    caught = Fn("py:caught", (output(id, ERROR), Lit(name), Lit(call.lineno)))
    exit = output(emitter.node(region, Compute(value=caught), "caught", call))
    effect.bind(Value(output(id, VALUE)))
    return Exit(exit, frozenset(("raise",)))


def _approved_call(emitter: Emitter, name: str, op: Call, call: ast.Call, version: str) -> Block:
    """Return a block that makes a call once a person approves these very arguments."""

    # The recorded wait describes the call: the approval fits no other arguments and no other version of the tool.
    inner = Region()
    about = (Lit(op.tool), op.args, *((Lit(version),) if version else ()))
    approval = Wait(approval=Fn("py:question", about), call=Fn("py:approved_call", about))
    emitter.node(inner, approval, f"approve_{name}", call)
    made = emitter.node(inner, op, name, call)
    inner.nodes[0] = replace(inner.nodes[0], op=replace(approval, made_by=made))
    return Block(body=emitter.graph(inner, output(made)))


# --- local functions -------------------------------------------------------------------------------


def _emit_inlined_function(effect: Effect, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> Emitted:
    """Emit the body of a local function in place of its call, with names of its own."""
    emitter, env, region, context = effect.emitter, effect.env, effect.region, effect.context
    if function.name in emitter.inlining:
        raise PlanError(call, f"{function.name} calls itself; recursion is not supported, write a loop")
    # The variables of the function get names that no other part of the program has.
    arguments = _bind_parameters(function, call)
    local_names = arguments.keys() | stored(function.body)
    new_names = {name: f"{emitter.program.fresh(function.name)}_{name}" for name in local_names}
    emitter.program.names |= set(new_names.values())
    body = [Rename(new_names).renamed(statement) for statement in function.body if not is_text(statement)]
    body = body or [at(ast.Pass(), function)]
    before: list[ast.stmt] = [assign(new_names[name], value, call) for name, value in arguments.items()]
    emitter.inlining.append(function.name)
    try:
        exit = emitter.block([*before, *body], env, region, context)
    finally:
        emitter.inlining.pop()
    if exit is None:
        effect.bind(Value(NULL, raw=True))
        return None
    # A `return` ends here: its value is that of the call. Any other exit leaves the statement with the call.
    old_value = env.get(effect.target, UNBOUND).packed if effect.target is not None else NULL
    value = Obj(((EXIT, Fn("py:after_call", (exit.expr,))), (VALUE, Fn("py:returned", (exit.expr, old_value)))))
    id = emitter.node(region, Compute(value=value), function.name, call)
    effect.bind(Value(output(id, VALUE)))
    kinds = exit.kinds - {"return"}
    return Exit(output(id, EXIT), kinds) if kinds else None


def _bind_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """Return the expression that each parameter of a local function gets."""
    parameters: Any = function.args
    if parameters.vararg or parameters.kwarg:
        raise PlanError(function, f"{function.name} calls tools, so it cannot take * or ** parameters; name them")
    if any(isinstance(part, ast.Starred) for part in call.args) or any(key.arg is None for key in call.keywords):
        raise PlanError(call, f"write the arguments of {function.name} one by one")
    positional = [part.arg for part in (*parameters.posonlyargs, *parameters.args)]
    if len(call.args) > len(positional):
        raise PlanError(
            call, f"{function.name} takes {len(positional)} positional arguments, {len(call.args)} were given"
        )
    arguments: dict[str, ast.expr] = dict(zip(positional, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in parameter_names(parameters):
            raise PlanError(keyword, f"{function.name} has no parameter '{keyword.arg}'")
        arguments[str(keyword.arg)] = keyword.value
    # The defaults of positional parameters belong to the last ones.
    with_default = positional[len(positional) - len(parameters.defaults) :]
    defaults: dict[str, ast.expr] = dict(zip(with_default, parameters.defaults, strict=True))
    for part, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
        if default is not None:
            defaults[part.arg] = default
    for name in parameter_names(parameters):
        if name not in arguments:
            if name not in defaults:
                raise PlanError(call, f"{function.name} needs the argument '{name}'")
            arguments[name] = defaults[name]
    return arguments
