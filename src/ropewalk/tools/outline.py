"""What a Python tool module defines, read from its text: a check says what is wrong and imports nothing.

Only what is certain is a problem: a name that is assigned, imported, decorated or defined under a condition may be
the function that is asked for. To have another rule told at check, put it into `outline_problem`, and its words where
`module` can use them too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from ..values import closest
from .inside import Impl, WrongPath, read

MOST_BYTES: Final = 10_000_000
_OPEN: Final = frozenset(("globals", "vars", "locals", "exec", "eval", "setattr", "__getattr__"))
"""A module that speaks of these may define names that its text does not show."""


def outline_problem(root: Path, impl: Impl) -> str | None:
    """What is wrong with a Python module as a tool, or None."""
    try:
        tree = ast.parse(read(root, impl.shown, MOST_BYTES))
    except SyntaxError as error:
        return f"{impl.shown}:{error.lineno or 1}: {error.msg}"
    except WrongPath as wrong:
        return str(wrong)
    except (ValueError, RecursionError, MemoryError):
        return None  # too strange to be judged by its text; a run says what importing it says
    surely = [one.name for one in tree.body if isinstance(one, _FUNCTIONS) and not one.decorator_list]
    others = list(_bound(one for one in tree.body if not isinstance(one, _FUNCTIONS) or one.decorator_list))
    names = {*surely, *(name for name, _ in others)}
    if names & _OPEN or any(isinstance(node, ast.Name) and node.id in _OPEN for node in ast.walk(tree)):
        return None
    if impl.function is not None:
        return None if impl.function in names else f"{impl.shown}: {no_function(impl.function, public(surely))}"
    if names & {"run", "main"} or public(name for name, alone in others if alone):
        return None
    found = public(surely)
    return f"{impl.shown}: {which(impl.shown, found)}" if len(found) != 1 else None


def public(names: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def no_function(name: str, there: Iterable[str]) -> str:
    """That the function which `impl` names is not there."""
    near = closest(name, there)
    return f"it has no function {name}" + (f"; did you mean {near}?" if near else "")


def which(shown: str, names: Sequence[str]) -> str:
    """That there is not exactly one function that could be the tool."""
    if not names:
        return "it defines no public function; write `def run(args):` that returns {'state_delta': {...}}"
    return (
        f"which function is the tool? It defines {', '.join(names)}: call one `run`, begin the names of the others "
        f"with an underscore, or name it as {shown}:{names[0]}"
    )


_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_PLAIN: Final = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Set, ast.Dict)


def _bound(statements: Iterable[ast.AST]) -> Iterator[tuple[str, bool]]:
    """The names that statements of a module bind, each with whether it may be a function of the module's own."""
    left = list(statements)
    while left:
        one = left.pop()
        if isinstance(one, (*_FUNCTIONS, ast.ClassDef)):
            yield one.name, not isinstance(one, ast.ClassDef)
        elif isinstance(one, ast.ImportFrom):
            for name in one.names:
                yield ("globals" if name.name == "*" else name.asname or name.name), False
        elif isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
            yield one.id, True
        if isinstance(one, (ast.Assign, ast.AnnAssign)) and isinstance(one.value, _PLAIN):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            yield from ((target.id, False) for target in targets if isinstance(target, ast.Name))
        elif not isinstance(one, (*_FUNCTIONS, ast.ClassDef, ast.Lambda)):
            left.extend(ast.iter_child_nodes(one))
