"""Neighbouring calls of tools that only read begin together (`parallel: reads`): a pass over the syntax tree.

    a = await search("x")          async def ‹1›(): return await fetch(2)
    b = await fetch(2)      ->     ‹t1› = ‹start›(‹1›())
                                   a = await search("x")
                                   b = await ‹t1›

A call begins with the first one of its group only if its arguments can be evaluated there: they are quiet, and read no
name that the group binds before. Its failure is raised where the program awaits it, so the first failure of the program
counts, even if a later one is faster.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Any, Final

from ...expr.python.scope import bound_names
from ...expr.python.tree import walk

START: Final = "start task"
"""The name of the function that makes a task; no program can write it."""
_QUIET: Final = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.List, ast.Tuple, ast.Dict, ast.Starred),
    *(ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.UnaryOp, ast.Compare, ast.keyword),
    *(ast.operator, ast.unaryop, ast.cmpop, ast.expr_context),
)
"""What an argument may consist of: it calls nothing, so nothing but a failure tells when it is evaluated."""
_STRICT: Final = (*_QUIET, ast.Await, ast.Call, ast.Return, ast.Assign, ast.AnnAssign, ast.Expr)
"""The nodes between a statement and an await that is always reached."""
_BLOCKS: Final = ("body", "orelse", "finalbody")


def overlap_reads(tree: ast.Module, reads: Collection[str]) -> None:
    """Let neighbouring calls of these tools begin together."""
    if not reads:
        return
    known = set(reads) - {name.id for name in walk(tree) if isinstance(name, ast.Name) and not _is_load(name)}
    known -= {argument.arg for argument in walk(tree) if isinstance(argument, ast.arg)}
    known -= set(bound_names(tree.body))
    if not known:
        return
    groups = _Groups(known)
    for node in list(walk(tree)):
        for field in _BLOCKS:
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, list(groups.rewritten(block)))


def _is_load(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def is_begun(node: ast.AST) -> bool:
    """Return True for the function that the pass made of a call which begins early."""
    return isinstance(node, ast.AsyncFunctionDef) and " " in node.name


class _Groups:
    """The groups of one program."""

    def __init__(self, reads: Collection[str]) -> None:
        self._reads = reads
        self._count = 0

    def rewritten(self, block: list[ast.stmt]) -> Iterator[ast.stmt]:
        """Yield the statements of a block, and before each group what begins its calls."""
        at = 0
        while at < len(block):
            end = self._end_of_group(block, at)
            if end > at:
                yield from self._begun(block[at:end])
            yield from block[at : max(end, at + 1)]
            at = max(end, at + 1)

    def _end_of_group(self, block: list[ast.stmt], start: int) -> int:
        """Return the end of the group that begins at a statement; `start` if none does."""
        end = start
        while end < len(block) and self._is_plain(block[end]):
            end += 1
        if end < len(block) and self._calls(block[end]):
            end += 1
        return end

    def _is_plain(self, statement: ast.stmt) -> bool:
        """Return True for a statement that is nothing but one call, whose result may get a name."""
        if isinstance(statement, ast.Assign):
            is_named = len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)
        else:
            is_named = isinstance(statement, ast.Expr) or (
                isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
            )
        return is_named and isinstance(statement.value, ast.Await) and self._is_read(statement.value)  # type: ignore[attr-defined]

    def _is_read(self, node: ast.Await) -> bool:
        call = node.value
        if not isinstance(call, ast.Call) or ast.unparse(call.func) not in self._reads:
            return False
        return not any(isinstance(inner, ast.Await) for inner in ast.walk(call))

    def _calls(self, statement: ast.stmt) -> list[ast.Await]:
        """Return the calls that a statement always makes, in their order; none if it awaits anything else."""
        if not isinstance(statement, (ast.Return, ast.Assign, ast.AnnAssign, ast.Expr)) or statement.value is None:
            return []
        found: list[ast.Await] = []
        todo: list[ast.AST] = [statement.value]
        while todo:
            node = todo.pop(0)
            if isinstance(node, ast.Await):
                if not self._is_read(node):
                    return []
                found.append(node)
            elif isinstance(node, _STRICT):
                todo[:0] = ast.iter_child_nodes(node)
            elif any(isinstance(inner, ast.Await) for inner in ast.walk(node)):
                return []
        return found

    def _begun(self, group: list[ast.stmt]) -> Iterator[ast.stmt]:
        """Yield the statements that begin the calls of a group after its first one."""
        bound: set[str] = set()
        is_first = True
        for statement in group:
            for awaited in self._calls(statement):
                if not is_first and _is_quiet(awaited.value, bound):
                    yield from self._started(awaited)
                is_first = False
            bound |= set(bound_names([statement]))

    def _started(self, awaited: ast.Await) -> Iterator[ast.stmt]:
        """Yield the statements that begin a call in a task, and let the program await the task."""
        self._count += 1
        function, task = f"call {self._count}", f"task {self._count}"
        no_parameters = ast.arguments([], [], None, [], [], None, [])
        returned = ast.Return(ast.Await(awaited.value))
        start = ast.Call(ast.Name(START, ast.Load()), [ast.Call(ast.Name(function, ast.Load()), [], [])], [])
        for made in (
            ast.AsyncFunctionDef(function, no_parameters, [returned], []),
            ast.Assign([ast.Name(task, ast.Store())], start),
        ):
            yield ast.fix_missing_locations(ast.copy_location(made, awaited))
        awaited.value = ast.copy_location(ast.Name(task, ast.Load()), awaited)


def _is_quiet(call: Any, bound: Collection[str]) -> bool:
    """Return True if the arguments of a call can be evaluated before these names are bound."""
    parts = [node for argument in (*call.args, *call.keywords) for node in ast.walk(argument)]
    return all(isinstance(node, _QUIET) and not (isinstance(node, ast.Name) and node.id in bound) for node in parts)
