"""Find everything that the language refuses, in one walk. Each problem says what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...expr.python.chance import CHOICES
from ...expr.python.exits import named_exit
from ...expr.python.method_table import CHANGES_OF_HEAPS
from ...expr.python.modules import MODULES
from ...values import did_you_mean
from .aliases import problems_of_sharing
from .calls import named_arguments
from .facts import facts_of
from .program import ASYNCIO, FUNCTIONS_OF_PROGRAMS, KNOWN, WORLD, WORLD_MODULES, PlanError, Program
from .syntax import inner_blocks

_EXIT = "only the main part of a program, outside of functions and `try`, may end it; write return or raise here"
_REFUSED_CALLS = {
    "eval": "compute the value with an expression",
    "exec": "write the statements themselves",
    "compile": "write the statements themselves",
    "open": "call a tool that reads or writes files",
    "getattr": "write value.name or value.get('name')",
    "setattr": "write value['name'] = ...",
    "hasattr": "write 'name' in value",
    "delattr": "write del value['name']",
    "globals": "use a dict",
    "locals": "use a dict",
    "vars": "use the dict itself",
    "dir": "use the keys of the dict",
    "__import__": "write import",
    "id": "compare with ==",
    "hash": "compare with ==",
    "input": "declare an input: name: str",
    "super": "use functions",
    "object": "use a dict",
    "memoryview": "use str",
    "bytes": "use str",
    "bytearray": "use str",
    "complex": "use float",
    "breakpoint": "use print",
    "exit": _EXIT,
    "quit": _EXIT,
    "SystemExit": _EXIT,
}
_REFUSED_NODES: dict[type[ast.AST], str] = {
    ast.ClassDef: "classes are not supported; use dicts and functions",
    ast.Global: "global is not supported; pass the value as an argument and return it",
    ast.Nonlocal: "nonlocal is not supported; return the value",
    ast.Yield: "yield is not supported; build and return a list",
    ast.YieldFrom: "yield is not supported; build and return a list",
    ast.With: "with is not supported; call the tool itself",
    ast.TryStar: "except* is not supported; write except",
    ast.AsyncFor: "async for over a list, which Python refuses; write for",
}
_ASYNCIO_ADVICE = {
    "Queue": "keep the items in a list, and gather calls over it",
    "wait": "gather the calls",
    "Event": "await the call itself",
    "Lock": "no two pieces of a plan run at the same time",
}
_TYPES_OF_ASYNCIO = frozenset(("TaskGroup", "Semaphore", "BoundedSemaphore"))
_MAX_INT = 2**63


def problems_in(program: Program) -> list[PlanError]:
    """Return everything in a program that the language refuses, in the order of the text."""
    functions = list(program.all(*FUNCTIONS_OF_PROGRAMS))
    program.functions.update((node.name, node) for node in functions)
    found = [
        *_refused(program),
        *_recursions(functions),
        *_wrong_names(program),
        *_wrong_calls(program),
        *_wrong_heaps(program),
    ]
    if not found:
        found = list(problems_of_sharing(program))
    program.functions.clear()
    found.sort(key=lambda problem: (problem.line, problem.column))
    return found


def _exits(program: Program) -> frozenset[int]:
    """Return the names by which statements end the program, outside of functions and `try`."""
    known: frozenset[int] | None = program.__dict__.get("_exits")
    if known is None:
        names, todo = [], [] if program.inside else [program.tree.body]
        while todo:
            for node in todo.pop():
                names.append(named_exit(node))
                if not isinstance(node, (ast.Try, *FUNCTIONS_OF_PROGRAMS)):
                    todo += inner_blocks(node)
        known = program.__dict__["_exits"] = frozenset(id(name) for name in names if name is not None)
    return known


def _refused(program: Program) -> Iterator[PlanError]:
    for kind, nodes in program.nodes.items():
        message = _REFUSED_NODES.get(kind)
        if message is not None:
            yield from (PlanError(node, message) for node in nodes)
        check = _CHECKS.get(kind)
        if check is not None:
            for node in nodes:
                yield from check(node, program)


def _import(node: ast.Import, program: Program) -> Iterator[PlanError]:
    for alias in node.names:
        if alias.name not in MODULES and alias.name not in WORLD_MODULES:
            yield _unknown_module(node, alias.name)


def _import_from(node: ast.ImportFrom, program: Program) -> Iterator[PlanError]:
    module = node.module or ""
    if module in ("typing", "__future__", "collections.abc"):
        return
    if node.level or (module not in MODULES and module not in WORLD_MODULES):
        yield _unknown_module(node, "." * node.level + module)
        return
    for alias in node.names:
        known = MODULES.get(module, {}).keys() | (ASYNCIO | _TYPES_OF_ASYNCIO if module == "asyncio" else set())
        known |= set(CHOICES) if module == "random" else set()
        if alias.name not in known and f"{module}.{alias.name}" not in WORLD:
            yield PlanError(node, f"{module}.{alias.name} is not supported", did_you_mean(alias.name, sorted(known)))


def _unknown_module(node: ast.stmt, name: str) -> PlanError:
    listed = ", ".join(sorted(name for name in (*MODULES, *WORLD_MODULES) if not name.startswith("_")))
    return PlanError(node, f"import of {name} is not supported; call a tool, or use one of {listed}")


def _name(node: ast.Name, program: Program) -> Iterator[PlanError]:
    if isinstance(node.ctx, ast.Load) and id(node) not in _exits(program):
        advice = _REFUSED_CALLS.get(node.id)
        bound = node.id in program.names or node.id in program.inputs or node.id in program.functions
        if advice is not None and not bound:
            yield PlanError(node, f"{node.id} is not supported; {advice}")
    elif node.id in program.tools and "." not in node.id:
        yield PlanError(node, f"{node.id} is a tool; give the variable another name")


def _attribute(node: ast.Attribute, program: Program) -> Iterator[PlanError]:
    if program.path(node) == "sys.exit" and id(node) not in _exits(program):
        yield PlanError(node, f"sys.exit is not supported here; {_EXIT}")
    if node.attr.startswith("_") and node.attr not in ("__name__", "__class__", "__qualname__"):
        yield PlanError(node, f"members that begin with an underscore are not supported: {node.attr}")
        return
    path = program.path(node)
    module, _, name = path.partition(".")
    is_module = isinstance(node.value, ast.Name) and program.imports.get(node.value.id) == module
    if not is_module or "." in name or node.value.id in program.names or path in WORLD:  # type: ignore[attr-defined]
        return
    if module == "random" and name in CHOICES:
        return
    if module == "asyncio" and name not in ASYNCIO | _TYPES_OF_ASYNCIO | {"TimeoutError", "CancelledError"}:
        advice = _ASYNCIO_ADVICE.get(name)
        close = None if advice else did_you_mean(name, sorted(ASYNCIO))
        yield PlanError(node, f"asyncio.{name} is not supported{f'; {advice}' if advice else ''}", close)
    elif module in MODULES and module != "asyncio" and name not in MODULES[module] and path not in program.tools:
        yield PlanError(node, f"{path} is not supported", did_you_mean(name, sorted(MODULES[module])))
    elif module in WORLD_MODULES and path not in program.tools:
        yield PlanError(node, f"{path} is not supported; write now(), uuid(), random() or random.choice(...)")


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, program: Program) -> Iterator[PlanError]:
    if node.decorator_list:
        yield PlanError(node.decorator_list[0], "decorators are not supported; call the function yourself")


def _constant(node: ast.Constant, program: Program) -> Iterator[PlanError]:
    if type(node.value) is int and abs(node.value) >= _MAX_INT:
        yield PlanError(node, "integers of more than 64 bits cannot be kept; use a float or a string")
    elif isinstance(node.value, bytes):
        yield PlanError(node, "bytes are not supported; use str")
    elif isinstance(node.value, complex):
        yield PlanError(node, "complex numbers are not supported; use float")


def _binary(node: ast.BinOp, program: Program) -> Iterator[PlanError]:
    if isinstance(node.op, ast.MatMult):
        yield PlanError(node, "the operator @ is not supported")
    left = node.left.value if isinstance(node.left, ast.Constant) else None
    right = node.right.value if isinstance(node.right, ast.Constant) else None
    if type(left) is not int or type(right) is not int or right < 0:
        return
    if isinstance(node.op, ast.Pow):
        bits = left.bit_length() * right
    else:
        bits = left.bit_length() + right if isinstance(node.op, ast.LShift) else 0
    # The product of the digits is only a bound: up to it the number itself is looked at.
    if bits > 4096 or (bits > 62 and abs(_computed(left, node.op, right)) >= _MAX_INT):
        yield PlanError(node, "integers of more than 64 bits cannot be kept; use a float")


def _computed(left: int, operator: ast.operator, right: int) -> int:
    return int(left**right) if isinstance(operator, ast.Pow) else left << right


def _compare(node: ast.Compare, program: Program) -> Iterator[PlanError]:
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(operator, (ast.Is, ast.IsNot)):
            left_is_type = (
                isinstance(node.left, ast.Call) and isinstance(node.left.func, ast.Name) and node.left.func.id == "type"
            )
            singleton = isinstance(right, ast.Constant) and (right.value is None or isinstance(right.value, bool))
            if not singleton and not left_is_type:
                yield PlanError(right, "is compares only with None, True and False; write ==")


def _wrong_heaps(program: Program) -> Iterator[PlanError]:
    """Yield functions that change a heap and that are not called by their own names, so that the change is not seen."""
    called = {id(node.func) for node in program.all(ast.Call)}
    for node in program.all(ast.Name, ast.Attribute):
        module, _, name = program.path(node).partition(".")
        if module == "heapq" and name in CHANGES_OF_HEAPS:
            own = node.id if isinstance(node, ast.Name) else node.attr
            if id(node) not in called or own != name:
                yield PlanError(node, f"heapq.{name} is not a value here; call it by this name")


def _call(node: ast.Call, program: Program) -> Iterator[PlanError]:
    for part in node.args:
        is_tool = isinstance(part, ast.Name) and part.id in program.tools and part.id not in program.names
        if is_tool and program.path(node.func) != "map":
            assert isinstance(part, ast.Name)
            yield PlanError(part, f"{part.id} is a tool, not a value; write an async def that calls it")


def _wrong_names(program: Program) -> Iterator[PlanError]:
    """Yield the names that nothing binds, each once."""
    spaces = {tool.split(".")[0] for tool in program.tools}
    known = {*program.names, *program.functions, *program.imports, *program.inputs, *KNOWN, *spaces, *_REFUSED_CALLS}
    for node in program.all(ast.Name):
        if node.id not in known:
            known.add(node.id)
            near = program.suggest(node.id, [*program.names, *program.inputs])
            yield PlanError(node, f"name '{node.id}' is not defined", near)


def _wrong_calls(program: Program) -> Iterator[PlanError]:
    """Yield the calls of tools that do not fit their parameters, and members that no server has."""
    spaces = {tool.split(".")[0] for tool in program.tools if "." in tool}
    for node in program.all(ast.Call):
        tool = program.tool_name(node.func)
        if tool is not None:
            try:
                named_arguments(tool, program.tools[tool], node)
            except PlanError as error:
                yield error
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            name = program.path(node.func)
            if node.func.value.id in spaces - program.names and name not in WORLD:
                yield PlanError(node.func, f"there is no tool '{name}'", did_you_mean(name, program.tools))


def _recursions(functions: Sequence[ast.FunctionDef | ast.AsyncFunctionDef]) -> Iterator[PlanError]:
    """Yield the functions that call themselves, directly or by others."""
    known = {node.name: node for node in functions}
    calls = {name: facts_of(node).names & known.keys() for name, node in known.items()}
    for name, node in known.items():
        reached, todo = set[str](), list(calls[name])
        while todo:
            other = todo.pop()
            if other not in reached:
                reached.add(other)
                todo.extend(calls[other])
        if name in reached:
            yield PlanError(node, f"{name} calls itself; recursion is not supported, write a loop")


_CHECKS: dict[type[ast.AST], Callable[[Any, Program], Iterator[PlanError]]] = {
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Constant: _constant,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.Call: _call,
}
