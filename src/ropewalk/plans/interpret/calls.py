"""Calls of tools and questions, which are steps, and the names by which a program reaches them."""

from __future__ import annotations

import ast
import json
import math
from typing import Any, Final

from ...expr.python import calls as base
from ...expr.python import expressions
from ...expr.python.builtins import FUNCTIONS, TYPE_NAMES
from ...expr.python.evaluation import BuiltinFunction
from ...expr.python.expressions import expression, module_entry, module_path
from ...expr.python.failures import EXCEPTIONS, Rejected
from ...expr.python.modules import MODULES
from ...expr.python.scope import Frame, Getter, Scope, Unsupported
from ...expr.python.values import Approval
from ...values import check_json, did_you_mean
from ..read.imports import is_module
from ..read.tools import LANGUAGE_NAMES, VALUE, VALUE_TOOL, called_name
from .copies import to_text
from .futures import Coroutine, Step
from .scope import ProgramScope, root_of

QUESTIONS: Final = {"approve": "approve", "wait_for": "event"}
"""The functions that ask a person or wait for an event, with the names of their requests."""
REFUSED: Final = {
    "eval": "compute the value with an expression",
    "exec": "write the statements themselves",
    "compile": "write the statements themselves",
    "open": "call a tool that reads or writes files",
    "globals": "use a dict",
    "locals": "use a dict",
    "vars": "use the dict itself, or dataclasses.asdict",
    "dir": "name the members that you need",
    "__import__": "write import",
    "id": "compare with `is`",
    "input": "declare an input: name: str",
    "breakpoint": "use print",
    "memoryview": "use str",
    "bytes": "use str",
    "bytearray": "use str",
    "complex": "use float",
    "delattr": "write del value.name",
}
"""Built-in names outside the language, with what to write instead."""


class StepCoroutine(Coroutine):
    """The call of a tool or a question, before it is awaited."""

    # Its arguments are copied when it is awaited.

    __slots__ = ("begin", "is_read")

    def __init__(self, name: str, begin: Any) -> None:
        super().__init__(name, self._run)
        self.begin = begin
        self.is_read = True

    async def _run(self) -> Any:
        return await self.begin()


class Question(StepCoroutine):
    """An approval: refused and not read, it raises Rejected."""

    __slots__ = ()

    async def _run(self) -> Any:
        step = self.begin()
        answer = await step
        answer = answer if isinstance(answer, dict) else {"approved": answer is True}
        if not self.is_read and answer.get("approved") is not True:
            who, note = answer.get("by") or "a person", answer.get("note") or ""
            error = Rejected(f"rejected by {who}: {note}" if note else f"rejected by {who}", "approve", "Rejected")
            error.__dict__["path"] = step.path  # a retry asks again
            raise error
        return Approval(answer)  # true only when approved


def tool_name(node: ast.expr, scope: Scope) -> str | None:
    """Return the tool that an expression names, None if it names none."""
    root = root_of(scope)
    if isinstance(node, ast.Name):
        known = node.id in root.tools and node.id not in scope.imports and node.id not in LANGUAGE_NAMES
        return node.id if known and scope.find(node.id) is None else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and scope.find(node.value.id) is None:
        name = f"{node.value.id}.{node.attr}"
        return name if name in root.tools and not is_module(node.value) else None
    return None


StepCoroutine.__name__ = Question.__name__ = "coroutine"  # as messages name them


def call(node: ast.Call, scope: Scope) -> Getter:
    """Return the closure of a call: of a tool, a question, or anything else."""
    tool = tool_name(node.func, scope)
    place = f"{node.lineno}:{node.col_offset + 1}"
    if tool is not None:
        return _tool_call(node, tool, place, scope)
    if isinstance(node.func, ast.Name) and scope.find(node.func.id) is None and node.func.id not in scope.imports:
        if node.func.id == "call_tool":
            return _named_call(node, place, scope)
        if node.func.id in QUESTIONS:
            return _question(node, node.func.id, place, scope)
        if node.func.id == VALUE:
            return _recorded_value(node, place, scope)
        if node.func.id in REFUSED:
            raise Unsupported(node.func, f"{node.func.id} is not supported; {REFUSED[node.func.id]}")
    path = module_path(node.func, scope)
    if path is not None and module_entry(path, scope) is None:
        raise unknown_member(node.func, path, scope)
    return base._call(node, scope)


def unknown_member(node: ast.AST, path: str, scope: Scope) -> Unsupported:
    """Return the error for a member that a module does not have for programs."""
    module, _, name = path.rpartition(".")
    close = did_you_mean(name, sorted({*MODULES.get(module, ()), *scope.language.modules.get(module, ())}))
    advice = "" if close else "; write it with what the module has here, or call a tool"
    return Unsupported(node, f"{path} is not supported{advice}", close)


def _tool_call(node: ast.Call, tool: str, place: str, scope: Scope) -> Getter:
    arguments = base._arguments(node, scope)
    parameters = root_of(scope).tools[tool]

    def run(frame: Frame) -> StepCoroutine:
        values, keywords = arguments(frame)
        return tool_step(frame[0].machine, tool, parameters, values, keywords, place)

    return run


def tool_step(
    machine: Any, tool: str, parameters: Any, values: list[Any], keywords: dict[str, Any], place: str
) -> StepCoroutine:
    """Return the coroutine of a call, with its arguments by name."""
    if values:
        if parameters is None or len(values) > len(parameters):
            allowed = 0 if parameters is None else len(parameters)
            raise TypeError(f"{tool}() takes {allowed} positional arguments but {len(values)} were given")
        named = dict(zip(parameters, values, strict=False))
        twice = named.keys() & keywords.keys()
        if twice:
            raise TypeError(f"{tool}() got multiple values for argument '{min(twice)}'")
        keywords = {**named, **keywords}

    def begin() -> Step:
        step: Step = machine.call(tool, to_text(machine.evaluation, keywords), place)
        return step

    return StepCoroutine(tool, begin)


def _named_call(node: ast.Call, place: str, scope: Scope) -> Getter:
    """Compile `call_tool("name", {...})`."""
    root = root_of(scope)
    first = node.args[0] if node.args else None
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        raise Unsupported(node, "call_tool takes a literal name; use `if` with a call for each tool")
    tool = called_name(first.value, root.tools)
    if tool not in root.tools:
        close = did_you_mean(tool, sorted(root.tools))
        raise Unsupported(first, f"there is no tool '{first.value}'", close)
    given = expression(node.args[1], scope) if len(node.args) > 1 else None
    named = [(keyword.arg, expression(keyword.value, scope)) for keyword in node.keywords]

    def run(frame: Frame) -> StepCoroutine:
        arguments = dict(given(frame)) if given is not None else {}
        for name, get in named:
            value = get(frame)
            arguments.update(value if name in (None, "args", "arguments") else {name: value})
        return tool_step(frame[0].machine, tool, None, [], arguments, place)

    return run


def _question(node: ast.Call, function: str, place: str, scope: Scope) -> Getter:
    """Compile `approve("...", timeout=seconds)` and `wait_for("...", timeout=seconds)`."""
    texts = [*node.args, *(keyword for keyword in node.keywords if keyword.arg != "timeout")]
    if len(texts) != 1:
        raise Unsupported(node, f'{function} takes a text and timeout, in seconds; write await {function}("...")')
    name, arguments = QUESTIONS[function], base._arguments(node, scope)

    def run(frame: Frame) -> StepCoroutine:
        values, keywords = arguments(frame)
        seconds = keywords.pop("timeout", None)
        text, *others = [*values, *keywords.values()] or [None]
        if not isinstance(text, str) or others:
            raise TypeError(f"{function} takes a text, not {type(text).__name__}")
        if seconds is not None and (type(seconds) not in (int, float) or not 0 <= seconds < math.inf):
            raise TypeError(f"{function} takes a timeout in seconds, not {seconds!r}")
        machine = frame[0].machine
        made = Question if function == "approve" else StepCoroutine
        return made(name, lambda: machine.question(name, text, seconds, place))

    return run


def is_recorded_value(node: ast.expr, scope: Scope) -> bool:
    """Return True for `value("RUN/NODE")`, which reads what a run recorded."""
    is_named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == VALUE
    return is_named and scope.find(VALUE) is None and VALUE not in scope.imports


def _recorded_value(node: ast.Call, place: str, scope: Scope) -> Getter:
    if len(node.args) != 1 or node.keywords:
        raise Unsupported(node, 'value takes the text of a handle: value("RUN/NODE")')
    if not getattr(node, "is_awaited", False):
        what = "value(...) waits for a record, as only async functions can; write async def, or a list: [value(...)]"
        raise Unsupported(node, what)
    get = expression(node.args[0], scope)
    return lambda frame: tool_step(frame[0].machine, VALUE_TOOL, ("place",), [get(frame)], {}, place)


def attribute(node: ast.Attribute, scope: Scope) -> Getter:
    """Return the closure of a member; `server.tool` is a tool as a value."""
    tool = tool_name(node, scope)
    if tool is not None:
        return tool_value(tool, scope)
    if isinstance(node.value, ast.Name) and scope.find(node.value.id) is None:
        root = root_of(scope)
        if node.value.id in root.namespaces and node.value.id not in scope.imports:
            wanted = f"{node.value.id}.{node.attr}"
            close = did_you_mean(wanted, sorted(root.tools))
            raise Unsupported(node, f"there is no tool '{wanted}'", close)
    return expressions._attribute(node, scope)


def name(node: ast.Name, scope: Scope) -> Getter:
    """Return the closure of a name: of the program, a tool as a value, or a name of the language."""
    if scope.find(node.id) is not None:
        return expressions._name(node, scope)
    tool = tool_name(node, scope)
    if tool is not None:
        return tool_value(tool, scope)
    if node.id in root_of(scope).transforms:
        return _transform_value(node.id, root_of(scope).transforms[node.id])
    path = scope.imports.get(node.id)
    if path is not None and "." not in path and path in MODULES_AS_VALUES:
        raise Unsupported(node, f"the module {path} is not a value; call one of its functions")
    if node.id in REFUSED:
        raise Unsupported(node, f"{node.id} is not supported; {REFUSED[node.id]}")
    if path is None and node.id in GLOBALS:
        return GLOBALS[node.id]
    if path is None and node.id not in _KNOWN:
        _unknown(node, scope, root_of(scope))
    return expressions._global(node, scope)


MODULES_AS_VALUES = frozenset(("asyncio", "json", "math", "re", "random", "time", "uuid"))
GLOBALS: dict[str, Getter] = {}
"""Names of the language in addition to those of `expr/python`; `language.py` fills it."""


def _unknown(node: ast.Name, scope: Scope, root: ProgramScope) -> None:
    """Report a name that nothing binds, once."""
    if node.id in root.unknown:
        return
    root.unknown.add(node.id)
    names = {*root.tools, *_KNOWN, *GLOBALS}
    current: Scope | None = scope
    while current is not None:
        names.update(name for name in current.slots if not name.startswith("·"))
        current = current.parent
    is_server = getattr(node, "is_server", False)
    if node.id in LANGUAGE_NAMES:
        root.refuse(node, f"{node.id} can only be called: {node.id}(...)")
        return
    message = f"there is no server '{node.id}'" if is_server else f"name '{node.id}' is not defined"
    root.refuse(node, message, did_you_mean(node.id, sorted(root.namespaces if is_server else names)))


_KNOWN: Final = frozenset((*TYPE_NAMES, *EXCEPTIONS, *FUNCTIONS, "__name__"))


def tool_value(tool: str, scope: Scope) -> Getter:
    """Return the closure of a tool as a value."""
    parameters = root_of(scope).tools[tool]

    def make(evaluation: Any, *values: Any, **keywords: Any) -> StepCoroutine:
        place = f"{evaluation.line}:value"
        return tool_step(evaluation.machine, tool, parameters, list(values), keywords, place)

    return lambda frame: ToolFunction(tool, make, frame[0])


def _transform_value(name: str, function: Any) -> Getter:
    """Return the closure of a transform, which gets a copy of its argument, and gives JSON."""

    def run(evaluation: Any, value: Any) -> Any:
        made = check_json(function(json.loads(to_text(evaluation, value))), f"the result of {name}")
        return json.loads(to_text(evaluation, made))

    return lambda frame: BuiltinFunction(name, run, frame[0])


class ToolFunction(BuiltinFunction):
    """A tool as a value."""

    __slots__ = ()


ToolFunction.__name__ = "function"


def is_module_function(node: ast.expr, scope: Scope, path: str) -> bool:
    """Return True if an expression names this function of a module."""
    if isinstance(node, ast.Name):
        return scope.find(node.id) is None and scope.imports.get(node.id) == path
    return module_path(node, scope) == path
