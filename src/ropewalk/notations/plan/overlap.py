"""Calls that overlap: a run of statements whose calls start as soon as the values that they read are there.

Python would make these calls one after another. Their failures are values until all of them have ended; then the first
failure in the order of the program is raised, and the names have the values that Python would have given them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from ...expr.ast import NULL, Arr, Expr, Fn, Lit, Obj, Ref
from ...expr.python.piece import EXIT
from ...ir import Graph, Node, refs_inside, siblings_read
from ...ops import Block
from .calls import emit_tool_call
from .concurrency import raise_unless_guarded
from .emit import UNBOUND, Context, Effect, Emitter, Environment, Exit, Region, Value, output
from .facts import facts_of, walk
from .program import Program

_SIMPLE: Final = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_LEAVING: Final = (ast.Return, ast.Raise, ast.Assert, ast.Break, ast.Continue)


def emit_overlap(
    emitter: Emitter, todo: list[ast.stmt], start: int, env: Environment, region: Region, context: Context
) -> tuple[int, Exit | None]:
    """Emit the longest run of statements whose calls may overlap."""
    end = _end_of_overlap(emitter, todo, start, env, region, context)
    if end == start:
        return start, None
    place, overlap = todo[start], _Overlap(emitter, env, context)
    for step in _steps(emitter.program, todo[start:end]):
        overlap.add(step)
    result, names = overlap.result(env) if context.guarded else overlap.result_of_success()
    block = Block(body=Graph(nodes=tuple(overlap.region.nodes), result=result))
    id = emitter.node(region, block, "overlap", place)
    env.update((name, Value(output(id, name), raw=name in overlap.given and not context.guarded)) for name in names)
    return end, raise_unless_guarded(emitter, Exit(output(id, EXIT), frozenset(("raise",))), region, context, place)


def _end_of_overlap(
    emitter: Emitter, todo: list[ast.stmt], start: int, env: Environment, region: Region, context: Context
) -> int:
    """Return the end of the longest run of statements whose calls may overlap; `start` if fewer than two calls may."""
    program = emitter.program
    if program.parallel == "none" or called_tool(program, todo[start]) is None:
        return start
    index, end, calls = start, start, 0
    while index < len(todo):
        node = todo[index]
        if program.is_pure(node):
            if _may_leave(node):
                break
        elif called_tool(program, node) is not None:
            end, calls = index + 1, calls + 1
        else:
            if not _can_be_simpler(program, node):
                break
            simpler = emitter.emit_statement(emitter, node, env, region, context)
            assert isinstance(simpler, list)
            todo[index : index + 1] = simpler
            continue
        index += 1
    return end if calls > 1 else start


def called_tool(program: Program, node: ast.stmt) -> str | None:
    """Return the tool of a statement `name = await tool(...)` whose call may overlap with others; None otherwise."""
    call = _awaited(node)
    if not isinstance(call, ast.Call) or not (isinstance(node, ast.Expr) or _target_of(node) is not None):
        return None
    name = program.tool_name(call.func)
    if name is None or program.tools[name].approve or not (program.parallel == "all" or program.tools[name].reads):
        return None
    return None if any(map(program.has_effect, (*call.args, *call.keywords))) else name


def _awaited(node: ast.stmt) -> ast.expr | None:
    value = node.value if isinstance(node, _SIMPLE) else None
    return value.value if isinstance(value, ast.Await) else None


def _target_of(node: ast.stmt) -> str | None:
    """Return the name that an assignment binds; None for other statements and targets."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _can_be_simpler(program: Program, node: ast.stmt) -> bool:
    """Return True for a statement that `emit_statement` replaces by simpler ones, without emitting a node."""
    if not isinstance(node, _SIMPLE) or node.value is None:
        return False
    call = _awaited(node)
    if call is None or isinstance(node, (ast.Return, ast.AugAssign)):
        return program.world_call(node.value) is None and not _runs_at_once(program, node.value)
    if isinstance(call, ast.Name):
        return call.id in program.kept
    if isinstance(node, ast.Assign) and _target_of(node) is None:
        return True
    is_tool = isinstance(call, ast.Call) and program.tool_name(call.func) is not None
    return is_tool and any(map(program.has_effect, (*call.args, *call.keywords)))  # type: ignore[attr-defined]


def _runs_at_once(program: Program, node: ast.expr) -> bool:
    """Return True for a call that needs no await, such as that of a function that reads the clock."""
    if not isinstance(node, ast.Call):
        return False
    if program.path(node.func) in ("asyncio.run", "approve", "wait_for"):
        return True
    return isinstance(node.func, ast.Name) and program.reads_world(node.func.id)


def _may_leave(node: ast.stmt) -> bool:
    """Return True if a statement may end the block, other than by an error that Python itself raises."""
    return facts_of(node).returns or any(isinstance(part, _LEAVING) for part in walk(node))


class _Step:
    """A call, or a run of statements without a call, in the order of the program."""

    # `exit`: The expression of its failure, null where it succeeded.
    # `names`: The names that it binds or changes, with their values.
    # `needs`: The steps before it whose values it reads, directly or through others.
    # `is_call`: Whether it is a call, which binds nothing when it fails.

    def __init__(self, exit: Expr, names: dict[str, Value], needs: set[int], is_call: bool) -> None:
        self.exit, self.names, self.needs, self.is_call = exit, names, needs, is_call


class _Overlap:
    """The statements of one overlap while they are emitted."""

    def __init__(self, emitter: Emitter, env: Environment, context: Context) -> None:
        self.emitter, self.context = emitter, context.collecting()
        self.env, self.region = dict(env), Region()
        self.steps: list[_Step] = []
        self.given: dict[str, Ref] = {}  # for each name that holds what a tool gave, that value
        self._step_of: dict[str, int] = {}
        self._held: dict[str, Value] = {}

    def add(self, statements: list[ast.stmt]) -> None:
        """Emit one step: a call, or statements without one."""
        before, count = dict(self.env), len(self.region.nodes)
        is_call = called_tool(self.emitter.program, statements[0]) is not None
        emit = self._call if is_call else self._piece
        exit = emit(statements)
        nodes = self.region.nodes[count:]
        needs = self._needs_of(nodes)
        self.region.nodes[count:] = [self._gated(node, needs) for node in nodes]
        self._note_given(statements[0] if is_call else None, count)
        self._step_of |= dict.fromkeys((node.id for node in nodes), len(self.steps))
        names = {name: value for name, value in self.env.items() if value is not before.get(name)}
        self.steps.append(_Step(NULL if exit is None else exit.expr, names, needs, is_call))

    def _piece(self, statements: list[ast.stmt]) -> Exit | None:
        return self.emitter.piece(statements, self.env, self.region, self.context)

    def _call(self, statements: list[ast.stmt]) -> Exit | None:
        (statement,) = statements
        call, program = _awaited(statement), self.emitter.program
        assert isinstance(call, ast.Call)
        name = program.tool_name(call.func)
        assert name is not None
        # The call gets a name of its own, so that it does not wait for the old value of its target.
        own = program.fresh("r")
        effect = Effect(self.emitter, own, self.env, self.region, self.context, statement)
        exit = emit_tool_call(effect, name, call)
        assert not isinstance(exit, list)
        value, target = self.env.pop(own), _target_of(statement)
        if target is not None:
            self.env[target] = value
        return exit

    def _note_given(self, statement: ast.stmt | None, count: int) -> None:
        """Note that the target of a call holds what the tool gave, so that its schema stays known."""
        target = _target_of(statement) if statement is not None else None
        if target is None:
            self.given = {name: value for name, value in self.given.items() if self.env[name] is self._held[name]}
            return
        self.given.pop(target, None)
        for index, node in enumerate(self.region.nodes[count:], count):
            if self.env[target].expr == output(node.id, "v") and isinstance(node.result, Obj):
                given = ("given", output(node.id))
                self.region.nodes[index] = replace(node, result=Obj((*node.result.fields, given)))
                self.given[target] = output(node.id, "given")
        self._held[target] = self.env[target]

    def _needs_of(self, nodes: list[Node]) -> set[int]:
        read = {id for node in nodes for id in siblings_read(refs_inside(node))}
        direct = {self._step_of[id] for id in read if id in self._step_of}
        return direct.union(*(self.steps[step].needs for step in direct))

    def _gated(self, node: Node, needs: set[int]) -> Node:
        """Return a node that does not run where a value that it needs is missing."""
        exits = [self.steps[step].exit for step in sorted(needs) if self.steps[step].exit != NULL]
        return replace(node, gate=Fn("py:no_exit", (Arr(tuple(exits)),))) if exits else node

    def result_of_success(self) -> tuple[Obj, list[str]]:
        """Return the value of the region where a failure fails the run: the first failure, and the names at the end."""
        names = sorted({name for step in self.steps for name in step.names})
        exit = Fn("py:first_exit", (Arr(tuple(step.exit for step in self.steps)),))
        values = [(name, self.given.get(name) or self.env[name].packed) for name in names]
        return Obj(((EXIT, exit), *values)), names

    def result(self, old: Environment) -> tuple[Obj | Fn, list[str]]:
        """Return the value of the region, the first failure with the names at that moment, and the names."""
        names = sorted({name for step in self.steps for name in step.names})
        rows = []
        for name in names:
            values: list[Expr] = [Arr((Lit(0), old.get(name, UNBOUND).packed))]
            for index, step in enumerate(self.steps):
                if name in step.names:
                    values.append(Arr((Lit(index + step.is_call), step.names[name].packed)))
            rows.append((name, Arr(tuple(values))))
        exits = Arr(tuple(step.exit for step in self.steps))
        return Fn("py:overlapped", (exits, Obj(tuple(rows)))), names


def _steps(program: Program, statements: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield each call by itself, and the runs of statements between them."""
    for is_pure, run in groupby(statements, program.is_pure):
        part = list(run)
        yield from [part] if is_pure else ([node] for node in part)
