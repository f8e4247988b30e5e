"""From statements of a plan to the nodes of a flow: the parts that all kinds of statements share.

`compile.py` makes an Emitter for a program and calls `Emitter.block` with its statements. The longest run of statements
without an effect becomes one `Compute` node, a *piece*, which `expr/python/` evaluates. Any other statement goes to
`statements.py`, which emits nodes for it (calls of tools: `calls.py`; calls at the same time: `concurrency.py`) or
returns simpler statements. To *emit* is to add nodes to a Region. The variables of the program live in an Environment,
which maps each name to an expression over nodes that are there already.

**Exits.** Nodes of a flow cannot jump, so `return`, `raise`, `break` and `continue` are values. A node whose statements
may leave their block has an exit in its value, in the field `EXIT`, next to the values of the names. It is null where
the statements came to their end, the *null exit*. Otherwise it is `{"k": "return", "v": value}`,
`{"k": "raise", "e": exception}`, `{"k": "break"}` or `{"k": "continue"}`. For example, `if x: return 1` gives a node
whose `EXIT` is null or a return. An `Exit` in this compiler says where that value is, and which kinds there can be.

The statements after a node with an exit must run only where the exit is null. So they become the arm of a `Branch` on
that condition (`Emitter.unless`); its default arm hands the exit on. At the end of a loop, a function, a `try` or the
plan, the exit is taken: `py:loop_exit`, `py:after_call`, `py:handler` and so on (`expr/python/functions.py`) return
what is left of it.

**Calls inside a `try`** may not fail their nodes, because `except` is still to run. The value of such a node is
`{"v": value, "e": error}` with one of both null (`VALUE`, `ERROR`), and `py:caught` makes an exit of the error.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from ...expr.ast import NULL, Expr, Fn, Lit, Obj, Ref
from ...expr.python.functions import UNBOUND_MARK, piece_text
from ...expr.python.piece import EXIT, HANDLED, PRINTED
from ...fast_dataclass import dataclass
from ...ir import NO_META, Graph, Meta, Node, Op
from ...ops import Branch, Call, Compute, Sleep, Wait
from .facts import Facts, facts_of, facts_of_all, walk
from .program import KNOWN, PlanError, Program
from .syntax import escapes
from .texts import text_of

MAX_NESTING: Final = 60
"""How deep regions may nest."""


@dataclass(frozen=True, slots=True)
class Value:
    """Where the value of a name is."""

    # Pieces encode values that JSON does not have, such as sets and dates (`expr/python/values.pack`).

    expr: Expr
    # Whether it comes from outside the program, and so holds no encoded values.
    raw: bool = False

    @property
    def packed(self) -> Expr:
        """The expression of the value in the encoding of pieces."""
        return Fn("py:raw", (self.expr,)) if self.raw and not isinstance(self.expr, Lit) else self.expr


UNBOUND: Final = Value(Lit(UNBOUND_MARK))
"""The value of a name that the program has not bound yet."""
VALUE: Final = "v"
"""The field for the value of a call, of a list of calls, or of a function, where the node has an error or exit too."""
ERROR: Final = "e"
"""The field for the error of a call inside a `try`."""
Environment: TypeAlias = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Exit:
    """Where the exit of some statements is, and which kinds of exit there can be; see the text of this module."""

    # The exit; null where the statements came to their end.
    expr: Expr
    # Any of `return`, `raise`, `break` and `continue`.
    kinds: frozenset[str]


Emitted: TypeAlias = "Exit | list[ast.stmt] | None"
"""What came of one statement: the exit that its nodes may take, or None if they cannot leave early.

A list holds simpler statements that mean the same, to emit instead; then no nodes were added."""


@dataclass(frozen=True, slots=True)
class Context:
    """Where statements are."""

    # Whether a failure becomes an exit, as inside a `try`.
    guarded: bool = False
    # The exception that an enclosing `except` handles.
    handled: Expr | None = None
    # Whether such an exit fails the run later, because no `try` is around the statements.
    deferred: bool = False

    def collecting(self) -> Context:
        """Return the context of statements whose failures are collected, and raised here once all of them are known."""
        return Context(guarded=True, handled=self.handled, deferred=self.deferred or not self.guarded)


class Region:
    """The nodes of a region while it is made."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []


Emit: TypeAlias = Callable[[Environment, Region], "Exit | None"]
"""Emits the nodes of an arm of a choice, with an environment and a region of its own."""
EmitStatement: TypeAlias = "Callable[[Emitter, ast.stmt, Environment, Region, Context], Emitted]"
"""Emits one statement with an effect."""
EmitOverlap: TypeAlias = (
    "Callable[[Emitter, list[ast.stmt], int, Environment, Region, Context], tuple[int, Exit | None]]"
)
"""Emits the statements from a position on whose calls may overlap (`overlap.py`). Returns the position after them and
the exit that they may take; the same position if there are none."""


class EmittedArm(NamedTuple):
    """An arm of a choice after its statements were emitted; the default arm has no test."""

    test: Expr | None
    env: Environment
    region: Region
    exit: Exit | None


def output(id: str, *path: str) -> Ref:
    """Return the reference to the value of a node, or a member of it."""
    return Ref("out", (id, *path))


class Emitter:
    """Emits the statements of one program."""

    def __init__(self, program: Program, emit_statement: EmitStatement, emit_overlap: EmitOverlap) -> None:
        self.program, self.emit_statement, self._emit_overlap = program, emit_statement, emit_overlap
        self.inlining: list[str] = []
        self._depth = 0

    def node(self, region: Region, op: Op, hint: str, place: ast.AST | int, **more: object) -> str:
        """Add a node to a region and return its id."""
        line = place if isinstance(place, int) else getattr(place, "lineno", 1)
        id = self.program.node_id(hint.replace(".", "_"), line)
        # Values that can be computed again are neither journaled nor shown.
        hidden = not isinstance(op, (Call, Wait, Sleep))
        meta = Meta(source=f"code:{line}", hidden=hidden) if hidden else Meta(source=f"code:{line}", name=hint)
        region.nodes.append(Node(id=id, op=op, **{"meta": meta or NO_META, **more}))  # type: ignore[arg-type]
        return id

    def graph(self, region: Region, result: Expr) -> Graph:
        """Return the finished region."""

        # Its nodes run in the order of the program.
        return Graph(nodes=tuple(region.nodes), ordered=True, result=result)

    # --- blocks --------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt], env: Environment, region: Region, context: Context) -> Exit | None:
        """Emit statements in order; return the exit that they may take."""
        todo, index = list(statements), 0
        while index < len(todo):
            if self.program.is_pure(todo[index]):
                end = index + 1
                while end < len(todo) and self.program.is_pure(todo[end]):
                    end += 1
                exit = self.piece(todo[index:end], env, region, context)
                index = end
            elif (overlap := self._emit_overlap(self, todo, index, env, region, context))[0] > index:
                index, exit = overlap
            else:
                result = self.emit_statement(self, todo[index], env, region, context)
                if isinstance(result, list):  # simpler statements that mean the same
                    todo[index : index + 1] = result
                    continue
                exit = result
                index += 1
            if exit is not None:
                rest = todo[index:]
                return self.unless(exit, rest, env, region, context) if rest else exit
        return None

    def arm(self, statements: Sequence[ast.stmt], context: Context) -> Emit:
        """Return the function that emits statements as an arm of a choice."""
        return lambda env, region: self.block(statements, env, region, context)

    def unless(
        self, exit: Exit, rest: Sequence[ast.stmt], env: Environment, region: Region, context: Context
    ) -> Exit | None:
        """Emit statements that run where an exit is not taken."""
        return self.when_null(exit, self.arm(rest, context), env, region, rest[0])

    def when_null(self, exit: Exit, emit: Emit, env: Environment, region: Region, place: ast.AST) -> Exit | None:
        """Emit nodes that run where an exit is not taken; where it is, it is handed on."""
        return self.branch([(is_null(exit.expr), emit)], lambda arm_env, arm_region: exit, env, region, place, "then")

    def branch(
        self,
        arms: Sequence[tuple[Expr, Emit]],
        default: Emit | None,
        env: Environment,
        region: Region,
        place: ast.AST,
        hint: str = "if",
    ) -> Exit | None:
        """Emit a choice."""

        # Every arm works on a copy of the environment; names that differ afterwards come out of it.
        if self._depth >= MAX_NESTING:
            raise PlanError(place, f"blocks nest more than {MAX_NESTING} deep; split the program into functions")
        emitted: list[EmittedArm] = []
        self._depth += 1
        for test, emit in (*arms, (None, default)):
            arm_env, arm_region = dict(env), Region()
            exit = emit(arm_env, arm_region) if emit is not None else None
            emitted.append(EmittedArm(test, arm_env, arm_region, exit))
        self._depth -= 1
        # A choice that changes nothing, calls nothing and cannot leave needs no node.
        changed = sorted({name for arm in emitted for name in arm.env if arm.env[name] is not env.get(name)})
        kinds = frozenset[str]().union(*(arm.exit.kinds for arm in emitted if arm.exit is not None))
        if not changed and not kinds and not any(arm.region.nodes for arm in emitted):
            return None
        # Every arm gives the same fields, so that the names can be read from the node of the choice.
        graphs = [self.graph(arm.region, self.state(arm.env, changed, arm.exit)) for arm in emitted]
        tested = [(arm.test, graph) for arm, graph in zip(emitted, graphs, strict=True) if arm.test is not None]
        id = self.node(region, Branch(arms=tuple(tested), default=graphs[-1]), hint, place)
        for name in changed:
            env[name] = Value(output(id, name))
        return Exit(output(id, EXIT), kinds) if kinds else None

    def state(self, env: Environment, names: Iterable[str], exit: Exit | None) -> Obj:
        """Return the value of a region: its exit, and names with their values."""
        fields = [(name, env.get(name, UNBOUND).packed) for name in names]
        return Obj(((EXIT, NULL if exit is None else exit.expr), *fields))

    def bind(self, env: Environment, id: str, names: Iterable[str]) -> None:
        """Let names have the values that the node of a region gives them."""
        for name in names:
            env[name] = Value(output(id, name))

    # --- pieces --------------------------------------------------------------------------------

    def piece(
        self, statements: Sequence[ast.stmt], env: Environment, region: Region, context: Context, hint: str = "let"
    ) -> Exit | None:
        """Emit statements without an effect as one node, and return the exit that they may take."""
        program = self.program
        # The text of a piece includes the local functions that it calls.
        functions = self._functions_used(statements)
        code = [*functions, *statements]
        own = facts_of_all(statements)
        facts = facts_of_all(code) if functions else own
        bound, read = own.bound, facts.names
        self._check_names(code, facts, env, bound)
        # A loop carries a name before its body defines it as a function; the piece has the definition then.
        inputs = sorted(name for name in read if name in env and name not in program.functions)
        outputs = self.outputs(facts, bound, inputs, env)
        # How the statements may leave their block.
        kinds = set(escapes(statements))
        if own.returns:
            kinds.add("return")
        if context.guarded and not _cannot_fail(statements):
            kinds.add("raise")
        # The piece gets its inputs by name, and with them the text printed so far and the exception being handled.
        fields = [(name, env[name].expr) for name in inputs]
        raw = [name for name in inputs if env[name].raw]
        prints = program.prints and "print" in read
        if prints:
            fields.append((PRINTED, env[PRINTED].expr))
        if context.handled is not None and own.reraises:
            fields.append((HANDLED, context.handled))
        text, lines = self._code(code, read)
        spec = piece_text(text, sorted(outputs), context.guarded, lines, raw, prints, program.inside)
        id = self.node(region, Compute(value=Fn("py:piece", (Lit(spec), Obj(tuple(fields))))), hint, statements[0])
        self.bind(env, id, outputs)
        if prints:
            env[PRINTED] = Value(output(id, PRINTED))
        return Exit(output(id, EXIT), frozenset(kinds)) if kinds else None

    def outputs(self, facts: Facts, bound: set[str], inputs: Iterable[str], env: Environment) -> set[str]:
        """Return the names whose values a piece gives: those that it binds, and those whose values it may change."""
        changed = facts.changes
        outputs = (bound - self.program.functions.keys()) | {name for name in changed if name in env}
        # A change through a name that the piece binds may be one of any input that the name was taken from.
        if any(name not in env or name in bound for name in changed):
            outputs |= set(inputs)
        return outputs

    def _functions_used(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the local functions that statements use, those that they use included, in the order of definition."""
        functions = self.program.functions
        if not functions:
            return []
        needed: set[str] = set()
        todo = list(statements)
        while todo:
            statement = todo.pop()
            for name in functions.keys() & facts_of(statement).names - needed:
                function = functions[name]
                if isinstance(function, ast.AsyncFunctionDef):
                    node = next(part for part in walk(statement) if isinstance(part, ast.Name) and part.id == name)
                    raise PlanError(node, f"{name} is an async function; write await {name}(...)")
                needed.add(name)
                todo.append(function)
        return [function for name, function in functions.items() if name in needed]

    def _check_names(self, code: Sequence[ast.stmt], facts: Facts, env: Environment, bound: set[str]) -> None:
        """Raise PlanError for a name that nothing binds."""
        program = self.program
        known = (env, bound, KNOWN, program.functions, program.names, program.imports)
        unknown = {name for name in facts.names if not any(name in names for names in known)}
        if not unknown:
            return
        for node in walk(code):
            if not isinstance(node, ast.Name) or node.id not in unknown:
                continue
            if program.tool_name(node) is not None:
                raise PlanError(node, f"{node.id} is a tool, not a value; call it with await {node.id}(...)")
            raise PlanError(node, f"name '{node.id}' is not defined", program.suggest(node.id, env))

    def _code(self, statements: Sequence[ast.stmt], names: set[str]) -> tuple[str, list[int]]:
        """Return statements as text with their imports, and for each line of the text the line of the program."""
        imports = self.program.imports
        used = {name: imports[name] for name in sorted(names & imports.keys())}
        lines, texts = [], []
        for name, path in used.items():
            module, _, member = path.partition(".")
            texts.append(f"from {module} import {member} as {name}" if member else f"import {module} as {name}")
            lines.append(1)
        for statement in statements:
            text, own_lines = text_of(statement, self.program.source)
            texts.append(text)
            lines += own_lines
        return "\n".join(texts), lines


def is_null(expr: Expr) -> Expr:
    """Return the condition that an exit is not taken."""
    return Fn("==", (expr, NULL))


def equals(expr: Expr, value: bool | int) -> Expr:
    """Return the condition that a value is this one."""
    return Fn("==", (expr, Lit(value)))


def _cannot_fail(statements: Sequence[ast.stmt]) -> bool:
    """Return True if statements only give names constants, so that no exception needs a way out."""
    return all(
        isinstance(node, ast.Pass)
        or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_literal(node.value))
        for node in statements
    )


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, (ast.List, ast.Dict)):
        return not list(ast.iter_child_nodes(node))[1:]
    return isinstance(node, ast.Constant)


class Effect:
    """An effect to emit, such as the call of a tool, with everything that its nodes depend on."""

    # `emitter`: The emitter of the program.
    # `target`: The name that gets the value, if any.
    # `env`: The variables at this point.
    # `context`: Whether the statement is in a `try`, and the exception being handled.
    # `statement`: The statement that contains the effect.

    def __init__(
        self,
        emitter: Emitter,
        target: str | None,
        env: Environment,
        region: Region,
        context: Context,
        statement: ast.stmt,
    ) -> None:
        self.emitter, self.target, self.env, self.region = emitter, target, env, region
        self.context, self.statement = context, statement

    def bind(self, value: Value) -> None:
        """Give the target its value."""
        if self.target is not None:
            self.env[self.target] = value
