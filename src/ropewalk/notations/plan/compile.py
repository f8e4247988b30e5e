"""The text of a plan compiled to a flow, with every problem at its line and column."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from ...errors import Problem
from ...expr.ast import NULL, Expr, Fn, Lit, Obj, Ref
from ...expr.python.exits import named_exit
from ...expr.python.piece import PRINTED
from ...expr.python.scope import Unsupported
from ...ir import Flow
from ...ops import Compute
from .emit import Context, Emitter, Environment, Region, Value, output
from .overlap import emit_overlap
from .program import PlanError, PlanTool, Program
from .statements import emit_statement
from .subset import problems_in
from .syntax import assign, at, load

TOO_DEEP: Final = "this is nested too deeply; split it into statements with names"
MAX_CODE: Final = 200_000
"""How many characters a program may have."""


class Rejected(Exception):
    """A program that cannot be compiled."""

    # `problems`: Everything that is wrong with it, each with `path` "code", and its column in the whole text.

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


@lru_cache(maxsize=32)
def parse(code: str) -> ast.Module:
    """Return the syntax of a program, which nobody changes."""
    if len(code) > MAX_CODE:
        raise Rejected(
            [Problem(path="code", message=f"the program has {len(code):,} characters; the limit is {MAX_CODE:,}")]
        )
    try:
        return ast.parse(code, feature_version=sys.version_info[:2])
    except SyntaxError as error:
        line, column = error.lineno or 1, max(error.offset or 1, 1)
        raise Rejected([problem_at(code, line, column, f"not valid Python: {error.msg}")]) from None
    except (RecursionError, MemoryError):
        # Python does not say where; what nests deepest is on the longest line.
        lines = code.split("\n")
        longest = max(range(len(lines)), key=lambda number: len(lines[number]))
        raise Rejected([problem_at(code, longest + 1, 1, TOO_DEEP)]) from None
    except ValueError as error:
        raise Rejected([problem_at(code, 1, 1, f"not valid Python: {error}")]) from None


def problem_at(code: str, line: int, column: int, message: str, suggestion: str | None = None) -> Problem:
    """Return a problem at a line and column of a program, both from 1."""
    lines = code.split("\n")
    before = sum(len(text) + 1 for text in lines[: line - 1])
    if 0 < line <= len(lines):  # ast counts bytes, places count characters
        column = len(lines[line - 1].encode()[: column - 1].decode(errors="ignore")) + 1
    return Problem(path="code", message=f"line {line}: {message}", suggestion=suggestion, column=before + column)


def compile_program(
    name: str,
    code: str,
    tools: Mapping[str, PlanTool],
    inputs: Iterable[str],
    *,
    inside: bool = False,
    parallel: str = "none",
) -> Flow:
    """Compile a program to a flow."""
    tree = parse(code)
    try:
        return _compile(name, code, tree, Program(code, tree, tools, inputs, inside, parallel))
    except RecursionError:
        raise Rejected([problem_at(code, *deepest(tree), TOO_DEEP)]) from None


def deepest(tree: ast.Module) -> tuple[int, int]:
    """Return the line and column of the part of a program that nests deepest."""
    place, level = (1, 1), [*ast.iter_child_nodes(tree)]
    while level:
        parts = [part for part in level if isinstance(part, (ast.stmt, ast.expr))]
        place = (parts[0].lineno, parts[0].col_offset + 1) if parts else place
        level = [inner for part in level for inner in ast.iter_child_nodes(part)]
    return place


def _compile(name: str, code: str, tree: ast.Module, program: Program) -> Flow:
    """Compile a parsed program to a flow."""
    # Collect all problems first, because emitting stops at one.
    problems = [
        problem_at(code, found.line, found.column, found.message, found.suggestion) for found in problems_in(program)
    ]
    if problems:
        raise Rejected(problems)
    emitter, region = Emitter(program, emit_statement, emit_overlap), Region()
    # The input comes from outside, so its values are not encoded: `raw`.
    env: Environment = {name: Value(Ref("input", (name,)), raw=True) for name in program.inputs}
    if program.prints:
        # The printed text passes from piece to piece like a variable.
        env[PRINTED] = Value(Lit([]))
    try:
        result = _emit_with_result(emitter, tree, env, region)
        if program.prints:
            result = Obj((("result", result), ("printed", env[PRINTED].expr)))
        id = emitter.node(region, Compute(value=result), "result", 1)
        return Flow(name=name, body=emitter.graph(region, output(id)))
    except PlanError as error:
        raise Rejected([problem_at(code, error.line, error.column, error.message, error.suggestion)]) from None
    except Unsupported as error:
        raise Rejected([problem_at(code, error.line, error.column, str(error))]) from None


def _emit_with_result(emitter: Emitter, tree: ast.Module, env: Environment, region: Region) -> Expr:
    """Emit the program and return the expression of its result: that of the last expression, or of `return`."""
    body = _with_return(tree, emitter.program)
    last = body[-1]
    if isinstance(last, ast.Return) and isinstance(last.value, ast.Name):
        # What a tool gave is the result itself, so that its schema is that of the plan.
        exit = emitter.block(body[:-1], env, region, Context())
        value = env.get(last.value.id)
        if exit is None and value is not None and value.raw:
            return value.expr
        exit = (
            emitter.unless(exit, [last], env, region, Context())
            if exit
            else emitter.block([last], env, region, Context())
        )
    else:
        exit = emitter.block(body, env, region, Context())
    return Fn("py:json", (Fn("py:returned", (exit.expr, NULL)), Lit(""), Lit(1))) if exit is not None else NULL


def _with_return(tree: ast.Module, program: Program) -> list[ast.stmt]:
    """Return the statements with the last expression as the result; an awaited one gets a name first."""
    body = list(tree.body) or [ast.Pass(lineno=1, col_offset=0)]
    last = body[-1]
    value = last.value if isinstance(last, (ast.Expr, ast.Return)) else None
    if isinstance(value, ast.Await):
        name = program.fresh("r")
        body[-1:] = [assign(name, value, last), at(ast.Return(load(name)), last)]
    elif isinstance(last, ast.Expr) and named_exit(last) is None:
        body[-1] = at(ast.Return(last.value), last)
    return body
