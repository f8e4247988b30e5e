"""Effects as nodes: calls of tools, waits, world calls, and local async functions, which are inlined."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

from ...expr.ast import NULL, Expr, Fn, Lit, Obj, Ref
from ...expr.python.piece import EXIT
from ...expr.python.scope import parameter_names
from ...expr.python.values import Refused, to_json
from ...ir import OnError, Policy
from ...ops import Block, Call, Compute, Sleep, Wait
from .concurrency import emit_gather, emit_wait_for
from .desugar import Hoister
from .emit import UNBOUND, Context, Emitter, Environment, Exit, Region, Request, Value, output
from .facts import derived
from .program import PlanError, PlanTool
from .syntax import Rename, assign, at, is_text, load, stored

Result: TypeAlias = "Exit | list[ast.stmt] | None"

WORLD_TOOLS: Final[dict[str, str]] = {
    name: f"ropewalk:{name}" for name in ("now", "today", "time", "uuid", "random", "value")
}
"""The built-in tools that read the clock, chance or another run, so that what they give is journaled."""


def emit_effect(
    emitter: Emitter,
    node: ast.expr,
    target: str | None,
    env: Environment,
    region: Region,
    context: Context,
    statement: ast.stmt,
) -> Result:
    """Emit `target = node`, where the expression is one effect, or return simpler statements.

    Raises:
        PlanError: The effect is outside the language.
    """
    request = Request(emitter, target, env, region, context, statement)
    world = emitter.program.world_call(node)
    if world is not None:
        return _world(request, world, node)
    call = node.value if isinstance(node, ast.Await) else node
    name = target or emitter.program.fresh("r")
    if isinstance(call, ast.Name) and call.id in emitter.program.kept:
        held = emitter.program.kept[call.id]
        return [assign(name, at(ast.Await(held), node), statement)]
    if not isinstance(call, ast.Call):
        raise PlanError(call, "await takes a call of a tool or of an async function")
    return _call(request, call, name, isinstance(node, ast.Await))


def _call(request: Request, call: ast.Call, name: str, awaited: bool) -> Result:
    emitter, statement = request.emitter, request.statement
    path = emitter.program.path(call.func)
    if path in ("asyncio.run", "asyncio.create_task", "asyncio.ensure_future") and call.args:
        return [assign(name, at(ast.Await(call.args[0]), statement), statement)]
    if path == "asyncio.gather":
        return emit_gather(request, call)
    if path == "asyncio.wait_for":
        return emit_wait_for(request, call, name)
    if isinstance(call.func, ast.Name) and isinstance(emitter.program.functions.get(call.func.id), ast.FunctionDef):
        return _inline(request, emitter.program.functions[call.func.id], call)
    if not awaited:
        raise PlanError(call, f"{ast.unparse(call)[:60]} is never awaited; write await before it")
    # Effects in the arguments come first.
    before: list[ast.stmt] = []
    hoister = Hoister(emitter.program, before)
    if any(emitter.program.has_effect(part) for part in (*call.args, *(keyword.value for keyword in call.keywords))):
        pure = derived(hoister.pure(derived(call, func=at(load("_"), call))), func=call.func)
        return [*before, assign(name, at(ast.Await(pure), statement), statement)]
    return _effect_with_pure_arguments(request, call, path)


def _effect_with_pure_arguments(request: Request, call: ast.Call, path: str) -> Result:
    program = request.emitter.program
    if path == "asyncio.sleep":
        return _sleep(request, call)
    if path in ("approve", "wait_for"):
        return _wait(request, call, path)
    if path == "call_tool":
        return _named_tool(request, call)
    if isinstance(call.func, ast.Name) and call.func.id in program.functions:
        return _inline(request, program.functions[call.func.id], call)
    tool = program.tool_name(call.func)
    if tool is None:
        known = program.suggest(ast.unparse(call.func), ())
        raise PlanError(call.func, f"there is no tool or async function '{ast.unparse(call.func)}'", known)
    return emit_tool(request, tool, call)


# --- world, sleep, wait ----------------------------------------------------------------------------


def _world(request: Request, world: str, node: ast.expr) -> Result:
    if world == "value":
        return _value_of_run(request, node)
    id = request.emitter.node(request.region, Call(tool=WORLD_TOOLS[world], args=Obj(())), world, node)
    if world in ("now", "today"):
        utc = isinstance(node, ast.Call) and bool(node.args or node.keywords)
        request.bind(Value(Fn("py:now", (output(id), Lit(world), Lit(utc)))))
    else:
        request.bind(Value(output(id), raw=True))
    return None


def _value_of_run(request: Request, node: ast.expr) -> Result:
    """`value("RUN/NODE")` reads a value that another run recorded."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        raise PlanError(node, 'value takes the text of a handle: value("RUN/NODE")')
    place, exit = argument(request, node.args[0])
    op = Call(tool=WORLD_TOOLS["value"], args=Obj((("place", place),)))
    request.bind(Value(output(request.emitter.node(request.region, op, "value", node)), raw=True))
    return exit


def _sleep(request: Request, call: ast.Call) -> Result:
    if not call.args:
        raise PlanError(call, "asyncio.sleep takes the seconds")
    seconds, exit = argument(request, call.args[0])
    request.emitter.node(request.region, Sleep(seconds=seconds), "sleep", call)
    request.bind(Value(NULL, raw=True))
    return exit


def _wait(request: Request, call: ast.Call, path: str) -> Result:
    if len(call.args) != 1:
        raise PlanError(call, f"{path} takes one text")
    timeout = next((keyword.value for keyword in call.keywords if keyword.arg == "timeout"), None)
    if any(keyword.arg != "timeout" for keyword in call.keywords):
        raise PlanError(call, f"{path} takes a text and timeout, in seconds")
    text, exit = argument(request, call.args[0])
    limit = argument(request, timeout)[0] if timeout is not None else None
    op = Wait(approval=text, timeout=limit) if path == "approve" else Wait(event=text, timeout=limit)
    id = request.emitter.node(request.region, op, path, call)
    if path == "wait_for":
        request.bind(Value(output(id), raw=True))
    elif request.target is not None:
        fields = tuple((name, output(id, name)) for name in ("approved", "by", "note"))
        request.bind(Value(Fn("py:approval", (Obj(fields),))))
    return exit


def argument(request: Request, node: ast.expr) -> tuple[Expr, Exit | None]:
    """Return a pure expression as JSON for an effect, and the exit that computing it may take."""
    literal = literal_value(node)
    if literal is not None:
        return literal, None
    if isinstance(node, ast.Name) and node.id in request.env:
        return as_json(request.env[node.id], node), None
    name = request.emitter.program.fresh("a")
    exit = request.emitter.piece([assign(name, node, node)], request.env, request.region, request.context, "arg")
    return as_json(request.env[name], node), exit


def as_json(value: Value, node: ast.expr) -> Expr:
    """Return the expression of a value as an argument; values from outside are JSON already."""
    if value.raw:
        return value.expr
    name = node.id if isinstance(node, ast.Name) else ""
    return Fn("py:json", (value.expr, Lit(name), Lit(node.lineno)))


def literal_value(node: ast.expr) -> Lit | None:
    """Return the JSON of a literal, which the check of the graph can see; None for anything else.

    Raises:
        PlanError: JSON cannot represent the literal.
    """
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    try:
        return Lit(to_json(value))
    except Refused as error:
        raise PlanError(node, str(error)) from None


# --- tools -----------------------------------------------------------------------------------------


def _named_tool(request: Request, call: ast.Call) -> Result:
    """`call_tool("server.tool", {...})` is a call of that tool."""
    program = request.emitter.program
    name = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    if not isinstance(name, str):
        raise PlanError(call, 'call_tool takes the name of the tool as a text: call_tool("server.tool", {...})')
    found = next((tool for tool, entry in program.tools.items() if name in (tool, entry.id)), None)
    if found is None:
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
    return emit_tool(request, found, at(ast.Call(call.func, [], keywords), call))


def emit_tool(request: Request, name: str, call: ast.Call) -> Result:
    """Emit the call of a tool whose arguments have no effect."""
    tool = request.emitter.program.tools[name]
    named = named_arguments(name, tool, call)
    args, exit = _argument_object(request, named)

    def emit(env: Environment, region: Region) -> Exit | None:
        own = Request(request.emitter, request.target, env, region, request.context, request.statement)
        return _emit_call(own, name, tool, args, call)

    if exit is None:
        return emit(request.env, request.region)
    return request.emitter.when_null(exit, emit, request.env, request.region, call)


def named_arguments(name: str, tool: PlanTool, call: ast.Call) -> list[tuple[str | None, ast.expr]]:
    """Return the arguments of a call by the name of the parameter; None stands for `**fields`.

    Raises:
        PlanError: The call does not fit the parameters.
    """
    from ...values import did_you_mean

    for part in call.args:
        if isinstance(part, ast.Starred):
            raise PlanError(part, f"a call of a tool takes no *arguments; write {name}(name=value)")
    if len(call.args) > len(tool.parameters):
        most = len(tool.parameters)
        raise PlanError(call, f"{name} takes at most {most} argument{'s' * (most != 1)}, {len(call.args)} were given")
    named: list[tuple[str | None, ast.expr]] = list(zip(tool.parameters, call.args, strict=False))
    for keyword in _spread(call.keywords):
        if keyword.arg is not None and any(keyword.arg == known for known, _ in named):
            raise PlanError(keyword.value, f"{name} gets the argument '{keyword.arg}' twice")
        if keyword.arg not in (None, *tool.parameters) and (tool.parameters or tool.closed):
            near = did_you_mean(str(keyword.arg), tool.parameters)
            raise PlanError(keyword, f"{name} has no parameter '{keyword.arg}'", near)
        named.append((keyword.arg, keyword.value))
    names = [given for given, _ in named]
    if None not in names:
        missing = [required for required in tool.required if required not in names]
        if missing:
            listed = ", ".join(repr(required) for required in missing)
            raise PlanError(call, f"{name} needs the argument{'s' * (len(missing) > 1)} {listed}")
    return named


def _spread(keywords: Iterable[ast.keyword]) -> Iterator[ast.keyword]:
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


def _argument_object(request: Request, named: list[tuple[str | None, ast.expr]]) -> tuple[Expr, Exit | None]:
    """Return the object of arguments. Literals and names stand for themselves; the rest is computed in one piece."""
    fields: dict[str, Expr] = {}
    computed: list[tuple[str | None, ast.expr]] = []
    for name, node in named:
        literal = literal_value(node)
        if name is not None and literal is not None:
            fields[name] = literal
        elif name is not None and isinstance(node, ast.Name) and node.id in request.env:
            fields[name] = as_json(request.env[node.id], node)
        else:
            computed.append((name, node))
    if not computed:
        return Obj(tuple((name, fields[name]) for name, _ in named if name is not None)), None
    # One piece computes all that is left, in Python's order.
    place = computed[0][1]
    variable = request.emitter.program.fresh("a")
    keys: list[ast.expr | None] = [None if name is None else ast.Constant(name) for name, _ in computed]
    display = at(ast.Dict(keys, [node for _, node in computed]), place)
    exit = request.emitter.piece(
        [assign(variable, display, place)], request.env, request.region, request.context, "args"
    )
    value = as_json(request.env[variable], place)
    if any(name is None for name, _ in computed):
        return Fn("py:merge", (value, Obj(tuple(fields.items())))), exit
    for name, _ in computed:
        if name is not None:
            fields[name] = Fn("py:member", (value, Lit(name)))
    return Obj(tuple((name, fields[name]) for name, _ in named if name is not None)), exit


def _emit_call(request: Request, name: str, tool: PlanTool, args: Expr, call: ast.Call) -> Exit | None:
    emitter, env, region, target = request.emitter, request.env, request.region, request.target
    op: Call | Block = Call(tool=tool.id, args=args)
    if tool.approve:
        op = _with_approval(emitter, name, Call(tool=tool.id, args=args), call)
    if not request.context.guarded:
        id = emitter.node(region, op, name, call)
        request.bind(Value(output(id), raw=True))
        return None
    # Inside a try the failure is a value; the target then keeps what it had.
    old = (env.get(target, UNBOUND) if target is not None else UNBOUND).packed
    failed = Obj((("v", old), ("e", Ref("error"))))
    on_error = OnError(value=failed, deferred=request.context.deferred)
    id = emitter.node(region, op, name, call, policy=Policy(on_error=on_error))
    region.nodes[-1] = replace(region.nodes[-1], result=Obj((("v", Fn("py:raw", (output(id),))), ("e", NULL))))
    caught = Fn("py:caught", (output(id, "e"), Lit(name), Lit(call.lineno)))
    exit = output(emitter.node(region, Compute(value=caught), "caught", call))
    request.bind(Value(output(id, "v")))
    return Exit(exit, frozenset(("raise",)))


def _with_approval(emitter: Emitter, name: str, op: Call, call: ast.Call) -> Block:
    """Return a block that makes a call once a person approves these very arguments.

    The question holds the arguments and their digest. It is recorded, so that the approval fits no other arguments.
    """
    inner = Region()
    question = Fn("py:question", (Lit(op.tool), op.args))
    emitter.node(inner, Wait(approval=question), f"approve_{name}", call)
    made = emitter.node(inner, op, name, call)
    return Block(body=emitter.graph(inner, output(made)))


# --- local functions -------------------------------------------------------------------------------


def _inline(request: Request, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> Result:
    """Emit the body of a local function in place of its call, with names of its own."""
    emitter, env, region, context = request.emitter, request.env, request.region, request.context
    if function.name in emitter.inlining:
        raise PlanError(call, f"{function.name} calls itself; recursion is not supported, write a loop")
    given = _bound_arguments(function, call)
    own = {name: f"{emitter.program.fresh(function.name)}_{name}" for name in given.keys() | stored(function.body)}
    emitter.program.names |= set(own.values())
    body = [Rename(own).renamed(statement) for statement in function.body if not is_text(statement)]
    body = body or [at(ast.Pass(), function)]
    before: list[ast.stmt] = [assign(own[name], value, call) for name, value in given.items()]
    emitter.inlining.append(function.name)
    try:
        exit = emitter.block([*before, *body], env, region, context)
    finally:
        emitter.inlining.pop()
    if exit is None:
        request.bind(Value(NULL, raw=True))
        return None
    old = env.get(request.target, UNBOUND).packed if request.target is not None else NULL
    value = Obj(((EXIT, Fn("py:after_call", (exit.expr,))), ("v", Fn("py:returned", (exit.expr, old)))))
    id = emitter.node(region, Compute(value=value), function.name, call)
    request.bind(Value(output(id, "v")))
    kinds = exit.kinds - {"return"}
    return Exit(output(id, EXIT), kinds) if kinds else None


def _bound_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call) -> dict[str, ast.expr]:
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
    given: dict[str, ast.expr] = dict(zip(positional, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg not in parameter_names(parameters):
            raise PlanError(keyword, f"{function.name} has no parameter '{keyword.arg}'")
        given[str(keyword.arg)] = keyword.value
    defaults: dict[str, ast.expr] = dict(
        zip(positional[len(positional) - len(parameters.defaults) :], parameters.defaults, strict=True)
    )
    for part, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
        if default is not None:
            defaults[part.arg] = default
    for name in parameter_names(parameters):
        if name not in given:
            if name not in defaults:
                raise PlanError(call, f"{function.name} needs the argument '{name}'")
            given[name] = defaults[name]
    return given
