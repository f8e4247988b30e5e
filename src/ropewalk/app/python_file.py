"""Flows in Python files by their place: `reports.py:overspenders`."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any

from ..config.modules import describe_import_error, printing_to_stderr
from ..config.python_flows import python_flows
from ..errors import InvalidFlow, NotFound, Place, Problem
from ..values import did_you_mean, digest

_PLACE = re.compile(r"(.+\.py):([^\W\d]\w*)", re.DOTALL)
_LOOP_STARTERS = ("asyncio.run", "anyio.run", "trio.run", "uvloop.run")
NOT_IMPORTED = "not imported"
"""The keyword of a problem of a flow that is not imported, because no code of the project runs."""
_modules: dict[str, tuple[Any, Any]] = {}


def python_place(source: object) -> tuple[Path, str] | None:
    """Return the file and the name of `FILE.py:NAME`; None for anything else."""
    match = _PLACE.fullmatch(str(source))
    return (Path(match[1]), match[2]) if match is not None else None


def load_from_python(file: Path, name: str) -> Any:
    """Import a Python file and return a flow of it."""
    if not file.is_file():
        near = did_you_mean(file.name, sorted(path.name for path in file.parent.glob("*.py")))
        raise NotFound("file", str(file), suggestion=None if near is None else f"{file.with_name(near)}:{name}")
    # `asyncio.run` fails in a running loop, after whatever the file does before it. Without one, it works.
    if asyncio._get_running_loop() is not None:
        refuse_program(file, name)
    module = _import(file)
    flows = [key for key, value in vars(module).items() if is_flow(value)]
    value = getattr(module, name, None)
    if value is not None and is_flow(value):
        return value
    if value is not None:
        message = f"{name} is a {type(value).__name__}, not a flow; put @plan above it, or make it with flow(...)"
        raise InvalidFlow([Problem(path="", message=f"{file}: {message}")])
    raise NotFound("flow", f"{file}:{name}", suggestion=did_you_mean(name, flows) or (flows[0] if flows else None))


def refuse_program(file: Path, name: str) -> None:
    """Raise InvalidFlow for a file that starts an event loop while it is imported."""
    if (start := _find_loop_start(_tree_of(file))) is not None:
        raise InvalidFlow([_describe_program(file, start, f"{file}:{name}")])


def describe_python_file(file: str) -> Problem:
    """Say how to use a Python file that was passed as a definition."""

    # The file is read, and not executed.
    tree = _tree_of(Path(file))
    functions = (item for item in tree.body if isinstance(item, ast.AsyncFunctionDef))
    plans = [item.name for item in functions if any(map(_is_plan_decorator, item.decorator_list))]
    if (start := _find_loop_start(tree)) is not None:
        return _describe_program(
            Path(file), start, f"{file}:{plans[0] if len(plans) == 1 else 'NAME'}" if plans else ""
        )
    if plans or not any(map(_is_plan_statement, tree.body)):
        lines = _lines_of_names(tree)
        flows = [f"{file}:{name} (line {lines[name]})" for name in python_flows(Path(file)) or plans if name in lines]
        named = f"one of its flows: {', '.join(flows)}" if len(flows) > 1 else f"the flow in it: {file}:NAME"
        if len(plans) == len(flows) == 1:
            named = f"the flow in it: {file}:{plans[0]}"
        message = f"a Python file is not a document; name {named}"
    else:
        name = re.sub(r"\W", "_", Path(file).stem)
        message = (
            "this file has the statements of a plan, but no function; indent them below `code: |` in a YAML file with "
            f"`kind: plan` and `name: {name}`, or move them into a function with @plan and name it as {file}:{name}"
        )
    return Problem(path="", message=f"{file}: {message}")


def _describe_program(file: Path, start: ast.Call, flow: str) -> Problem:
    """Say that a file starts an event loop while it is imported, and where; `flow` is a flow in it, "" without one."""
    advice = f'move this line below `if __name__ == "__main__":`, and name the flow: {flow}'
    if not flow:
        advice = f"it has no flow with @plan; start it with: python {file}"
    line = file.read_text(encoding="utf-8", errors="replace").splitlines()[start.lineno - 1]
    place = Place(str(file), start.lineno, start.col_offset + 1, line)
    return Problem(path="", message=f"{ast.unparse(start)[:60]} starts the program of this file; {advice}", place=place)


def _tree_of(file: Path) -> ast.Module:
    """Read the syntax tree of a Python file without executing it; an empty one if it has errors."""
    try:
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree: ast.Module = compile(file.read_bytes(), str(file), "exec", flags)
    except (SyntaxError, ValueError, OSError):
        return ast.Module([], [])
    return tree


def _lines_of_names(tree: ast.Module) -> dict[str, int]:
    """Return the line that first binds each name of a file: a function, or a variable."""
    lines: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef):
            lines.setdefault(node.name, node.lineno)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            lines.setdefault(node.id, node.lineno)
    return lines


def _find_loop_start(tree: ast.Module) -> ast.Call | None:
    """Return the call of `asyncio.run`, or of its like, that every import of a file makes; None without one."""
    for statement in tree.body:
        if isinstance(statement, ast.Expr | ast.Assign) and isinstance(statement.value, ast.Call):
            for node in ast.walk(statement.value):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in _LOOP_STARTERS:
                    return node
    return None


def _is_plan_decorator(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(called).rpartition(".")[2] == "plan"


def _is_plan_statement(statement: ast.stmt) -> bool:
    """Return True for a statement that only a plan has outside of functions: `await`, `return`, or `name: type`."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    is_input = isinstance(statement, ast.AnnAssign) and statement.value is None
    return is_input or any(isinstance(node, ast.Await | ast.Return) for node in ast.walk(statement))


def is_flow(value: object) -> bool:
    """Return True for what `flow(...)` or `@plan` made."""
    kind = type(value)
    return hasattr(kind, "document_for") or (hasattr(kind, "done") and kind.__module__.startswith("ropewalk."))


def _import(file: Path) -> Any:
    """Import a file, again if it has changed."""
    path = os.path.realpath(file)
    stamp = os.stat(path).st_mtime_ns
    # A name of its own, so that no file hides a module.
    own_name = f"ropewalk_file_{digest(path)[:12]}_{file.stem}"
    known = _modules.get(path)
    if known is not None and known[0] == stamp and sys.modules.get(own_name) is known[1]:
        return known[1]
    spec = importlib.util.spec_from_file_location(own_name, path)
    if spec is None or spec.loader is None:
        raise NotFound("file", str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    folder = os.path.dirname(path)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        with printing_to_stderr():
            spec.loader.exec_module(module)
    except InvalidFlow:
        raise
    except Exception as error:
        del sys.modules[own_name]
        why, place = describe_import_error(error, Path(folder))
        named = "" if place is not None else f"{file} "
        raise InvalidFlow([Problem(path="", message=f"{named}cannot be imported: {why}", place=place)]) from error
    _modules[path] = stamp, module
    return module
