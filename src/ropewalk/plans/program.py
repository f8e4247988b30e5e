"""A program that can run: read, checked for what the language lacks, and compiled to closures."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from ..expr.python.scope import Unsupported
from ..expr.python.tree import walk
from ..expr.python.values import UNBOUND
from ..outline import NO_OUTLINE
from . import messages as m
from .check.outline import outline_of
from .interpret.language import PLANS
from .interpret.machine import Machine
from .interpret.scope import ProgramScope
from .interpret.statements import suspending_block
from .read.misplaced import misplaced
from .read.names import global_names, mark_closed, mark_recursion, mark_values, own_names, own_nodes, set_suspends
from .read.overlap import overlap_reads
from .read.problems import Problem, Unreadable
from .read.source import parse, read, too_deep


class Program:
    """The text of a program with its tools, compiled."""

    # text: The text.
    # problems: What is wrong with it; it can run only if there are none.
    # text: Statements; the value of the last expression, or of `return`, is the result.
    # tools: The names of tools as the program writes them (`search`, `git.log`), with their parameters in order, or
    #   None where these are unknown.
    # inputs: Names that have a value when it begins.
    # function: Whether the text is the body of a function.
    # reads: The tools whose neighbouring calls begin together.
    # transforms: Functions of Python of one JSON value that it calls, by name.
    # ids: The ids of tools by their names; with them the program has an outline, unless its text cannot be read.

    def __init__(
        self,
        text: str,
        tools: Mapping[str, Sequence[str] | None],
        inputs: Iterable[str] = (),
        *,
        function: bool = False,
        reads: Iterable[str] = (),
        transforms: Mapping[str, Callable[[Any], Any]] | None = None,
        ids: Mapping[str, str] | None = None,
    ) -> None:
        self.text, self.outline = text, NO_OUTLINE
        self.problems: list[Problem] = []
        tree = ast.Module([], [])
        try:
            # A tree that nobody changes is read once for all who ask about the text.
            tree = parse(text) if reads else read(text)
            overlap_reads(tree, set(reads))
            if ids is not None:
                self.outline = outline_of(tree, text, ids)
            nodes = walk(tree)
            names = [*inputs, *own_names(tree.body), *global_names(nodes)]
            self._compile(tree, nodes, ProgramScope(names, tools, PLANS, function, transforms))
        except Unreadable as error:
            self.problems = error.problems
        except Unsupported as error:
            self.problems.append(Problem(error.line, error.column, str(error), error.suggestion))
        except RecursionError:
            self.problems.append(too_deep(tree))

    def _compile(self, tree: ast.Module, nodes: list[ast.AST], scope: ProgramScope) -> None:
        _mark_unread(nodes)
        mark_recursion(nodes)
        mark_values(tree, nodes)
        mark_closed(nodes)
        body = list(tree.body)
        if body and isinstance(body[-1], ast.Expr):
            last = body[-1].value
            last.unread = False  # type: ignore[attr-defined]
            body[-1] = ast.copy_location(ast.Return(last), body[-1])
        returns = (node.value for node in own_nodes(body) if isinstance(node, ast.Return))
        self._only_prints = not scope.is_function and all(
            isinstance(value, ast.Call | ast.Await | None) for value in returns
        )
        self._scope = scope
        try:
            self._run = suspending_block(body, scope)
            if not scope.problems:
                scope.problems += misplaced(tree)
        finally:
            self.problems = sorted(scope.problems, key=lambda problem: (problem.line, problem.column))

    def start(
        self,
        inputs: Mapping[str, Any],
        seed: int,
        read: Callable[[m.Clock], m.Reading],
        zone: Callable[[str], ZoneInfo] = ZoneInfo,
    ) -> tuple[Machine, list[m.Message]]:
        """Begin a run, and return its machine, which the host closes, with the first messages."""
        # inputs: The values of inputs, of which the program gets copies.
        # seed: Decides what `random` and `uuid` give.
        # read: Returns what a clock shows.
        # zone: Returns a time zone.
        machine = Machine(seed, read, zone)
        frame = self._scope.new_frame(machine.evaluation, None, UNBOUND)
        for name, value in json.loads(json.dumps(dict(inputs))).items():
            slot = self._scope.slots.get(name)
            if slot is not None:
                frame[slot] = value

        async def main() -> Any:
            leave = await self._run(frame)
            value = leave.value if leave is not None else None
            # A program that only prints gives what it printed.
            return "".join(machine.evaluation.printed) or None if value is None and self._only_prints else value

        try:
            return machine, machine.start(main())
        except BaseException:
            machine.close()
            raise


def _mark_unread(nodes: Iterable[ast.AST]) -> None:
    """Mark awaits whose value nobody reads, and calls of `asyncio.run`, which await."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Await):
            node.value.unread = True  # type: ignore[attr-defined]
        elif isinstance(node, ast.Call) and _is_run(node.func):
            set_suspends(node, True)


def _is_run(node: ast.expr) -> bool:
    is_member = isinstance(node, ast.Attribute) and node.attr == "run" and isinstance(node.value, ast.Name)
    return is_member and node.value.id == "asyncio"  # type: ignore[attr-defined]
