"""Read an `async def` as a plan: its text, what it uses of its module, and where each character comes from.

The function is never executed. Its body becomes the program of a document of kind `plan`. Before the body stand the
constants, imports and plain functions of the module that it uses, as statements of the program.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from math import isfinite
from typing import Any, Final

from ..errors import InvalidFlow, InvalidTool, Place, Problem, Rejected, ToolError
from ..expr.python.modules import MODULES
from ..expr.reshape import TRANSFORMS
from ..fast_dataclass import dataclass
from ..plans import MODULE as PLANS
from ..plans import language_name
from ..plans.check.changes import changed_names
from ..plans.interpret.language import KNOWN_NAMES, MODULE_NAMES
from ..plans.read.names import own_names
from ..servers import MODULE, name_of
from ..tools.signature import describe, is_async
from ..tools.tool import Tool, tool_of
from ..values import did_you_mean

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef
PLAN: Final = "__ropewalk_plan__"
"""The attribute of a plan that holds its function."""
_CALLABLE: Final = "put @tool or @transform above it, so that the plan can call it"
_TYPING: Final = frozenset(("typing", "collections.abc", "__future__"))


@dataclass(slots=True)
class _Line:
    """A line of the program: its text, and the column of each character in the file."""

    text: str
    columns: list[int]
    file: str
    number: int
    source: str

    def insert(self, at: int, text: str) -> None:
        """Insert text before the character in column `at` of the file."""
        index = next((i for i, column in enumerate(self.columns) if column >= at), len(self.text))
        self.text = self.text[:index] + text + self.text[index:]
        self.columns[index:index] = [at] * len(text)


class FunctionSource:
    """The text of a function or class in its file."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.name = function, getattr(function, "__name__", "plan")
        try:
            self.lines, first = inspect.getsourcelines(function)
            self.file = inspect.getsourcefile(function) or "<unknown>"
        except (OSError, TypeError) as error:
            raise _refused(
                f"the source of {self.name} cannot be read ({error}); write the function in a file"
            ) from None
        self.first = max(first, 1)
        self.indent = len(self.lines[0]) - len(self.lines[0].lstrip())
        # A block around an indented function keeps its columns, and the texts in it as they are.
        shift = bool(self.indent)
        tree = ast.parse(("if True:\n" if shift else "") + "".join(self.lines))
        outer: Any = tree.body[0].body[0] if shift else tree.body[0]  # type: ignore[attr-defined]
        if not isinstance(outer, _Definition):
            raise self.problem(self.first, 1, f"{self.name} is not a function with def; write async def")
        if shift:
            ast.increment_lineno(outer, -1)
        self.node: _Definition = outer

    def problem(self, line: int, column: int, message: str) -> InvalidFlow:
        """Return the error of one problem at a line and column of the file, both from 1."""
        place = self.place(line, column)
        return InvalidFlow([Problem(path=place.spot, message=message, place=place)])

    def place(self, line: int, column: int) -> Place:
        """Return a place in the file of the function."""
        index = line - self.first
        text = self.lines[index].rstrip("\n") if 0 <= index < len(self.lines) else ""
        return Place(self.file, line, column, text)

    def at(self, node: ast.AST) -> tuple[int, int]:
        """Return line and column of a node in the file, both from 1."""
        line = getattr(node, "lineno", 1)
        text = self.lines[line - 1].encode()[: getattr(node, "col_offset", 0)]
        return self.first + line - 1, len(text.decode(errors="ignore")) + 1

    @cached_property
    def body(self) -> list[ast.stmt]:
        """The statements, without the docstring."""
        has_text = ast.get_docstring(self.node, clean=False) is not None
        return self.node.body[1:] if has_text else self.node.body

    def program(self, edits: list[tuple[ast.AST, bool]], *, with_def: bool) -> list[_Line]:
        """Return the lines of the function for a program."""
        statements = [self.node] if with_def else self.body
        if not statements:
            return []
        first, start = statements[0].lineno, statements[0].col_offset
        if with_def and isinstance(self.node, ast.ClassDef):
            first = min([first, *(decorator.lineno for decorator in self.node.decorator_list)])
        last = self.node.end_lineno or len(self.lines)
        inside = _lines_inside_texts(self.node)
        lines: list[_Line] = []
        for number in range(first, last + 1):
            text = self.lines[number - 1].rstrip("\n")
            cut = 0
            if number == first:
                cut = len(text.encode()[:start].decode(errors="ignore"))
            elif number not in inside:
                # Lines of an expression may have less indentation than the statement that they are in.
                cut = min(len(text) - len(text.lstrip()), start)
            columns = list(range(cut + 1, len(text) + 1))
            lines.append(_Line(text[cut:], columns, self.file, self.first + number - 1, text))
        for node, is_end in sorted(edits, key=_edit_position, reverse=True):
            line = getattr(node, "end_lineno" if is_end else "lineno")
            offset = getattr(node, "end_col_offset" if is_end else "col_offset")
            column = len(self.lines[line - 1].encode()[:offset].decode(errors="ignore")) + 1
            lines[line - first].insert(column, ")" if is_end else "(await ")
        return lines


def _edit_position(edit: tuple[ast.AST, bool]) -> tuple[int, int]:
    node, is_end = edit
    if is_end:
        return getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _lines_inside_texts(node: ast.AST) -> set[int]:
    """Return the lines that begin inside a string, whose indentation is part of the string."""
    return {
        line
        for part in ast.walk(node)
        if isinstance(part, (ast.Constant, ast.JoinedStr)) and part.end_lineno is not None
        for line in range(part.lineno + 1, part.end_lineno + 1)
    }


class PlanProgram:
    """The program of a function, and the tools that it calls."""

    # `tools`: Each tool by the name that the program uses.
    # `transforms`: The registered name of each transform by the name that the program uses.
    # `refused_names`: Names of the module that a program cannot have, each with a problem of its own.

    def __init__(self, function: Callable[..., Any]) -> None:
        self.tools: dict[str, Tool] = {}
        self.transforms: dict[str, str] = {}
        self._lines: list[_Line] = []
        self._values: dict[str, Any] = {}
        self._problems: list[Problem] = []
        source = FunctionSource(function)
        self.source = source
        if not isinstance(source.node, ast.AsyncFunctionDef):
            line, column = source.at(source.node)
            raise source.problem(line, column, f"a plan is an async function; write async def {source.name}(...)")
        self.refused_names: dict[str, None] = {}
        self._add(source, with_def=False)
        self.code = "\n".join(line.text for line in self._lines) or "pass"

    def with_places(self, prepared: Any) -> Any:
        """Return the prepared plan with the place of each line of its program in the file."""
        places = tuple(self.place_of(f"code:{number + 1}") for number in range(len(self._lines)))
        body = prepared.flow.body
        [node] = body.nodes
        node = dataclasses.replace(node, op=dataclasses.replace(node.op, places=places))
        body = dataclasses.replace(body, nodes=(node,))
        return dataclasses.replace(prepared, flow=dataclasses.replace(prepared.flow, body=body))

    @contextmanager
    def located_problems(self) -> Iterator[None]:
        """Raise the problems of the function and those of an InvalidFlow of the block, at their places in its file."""
        try:
            yield
        except InvalidFlow as error:
            located = InvalidFlow([*self._problems, *map(self.located, error.problems)], error.flow)
            located.warnings = tuple(map(self.located, error.warnings))
            located.unlisted, located.unknown = error.unlisted, error.unknown
            raise located from None
        if self._problems:
            raise InvalidFlow(self._problems)

    def located(self, problem: Problem) -> Problem:
        """Return a problem of the program with its place in the file of the function, with which its path begins."""
        if problem.place is not None:
            return problem
        if problem.path != "code" or problem.column is None:
            place, rest = self.place_of(problem.path), re.sub(r"^code:\d+[.: ]*", "", problem.path)
            return dataclasses.replace(problem, path=f"{place.spot}: {rest}" if rest else place.spot, place=place)
        before = self.code[: problem.column - 1]
        line = self._lines[min(before.count("\n"), len(self._lines) - 1)]
        offset = len(before) - (before.rfind("\n") + 1)
        column = line.columns[offset] if offset < len(line.columns) else len(line.source) + 1
        # The message names the line of the program, which is not that of the file.
        message = problem.message.partition(": ")[2] if problem.message.startswith("line ") else problem.message
        place = Place(line.file, line.number, max(column, 1), line.source)
        near = self._near_tool(message, problem.suggestion)
        return dataclasses.replace(problem, path=place.spot, column=None, message=message, place=place, suggestion=near)

    def _near_tool(self, message: str, suggestion: str | None) -> str | None:
        """Return the suggestion for a name that is not defined, or a tool of the module that is nearer."""
        unknown = re.fullmatch(r"name '(\w+)' is not defined", message)
        if unknown is None:
            return suggestion
        tools = (name for name, value in _scope_of(self.source.function).items() if tool_of(value) is not None)
        return did_you_mean(unknown[1], (*tools, suggestion or ""))

    def place_of(self, path: str) -> Place:
        """Return the place of `code:LINE`, with which the paths of problems begin; of any other path that of `def`."""
        match = re.match(r"code:(\d+)", path)
        if match is None or not 0 < int(match[1]) <= len(self._lines):
            return self.source.place(*self.source.at(self.source.node))
        line = self._lines[int(match[1]) - 1]
        indent = len(line.text) - len(line.text.lstrip())
        return Place(line.file, line.number, line.columns[indent] if indent < len(line.columns) else 1, line.source)

    def as_document(self, data: dict[str, Any]) -> PythonDocument:
        """Return the document of the plan, whose places are those of the Python file."""
        return PythonDocument(data, self)

    def _add(self, source: FunctionSource, *, with_def: bool) -> None:
        """Add the text of a function, after all that it uses."""
        scope = _scope_of(source.function)
        edits: list[tuple[ast.AST, bool]] = []
        free = list(_free_names(source))
        for node in free:
            name = node.id
            if name in scope:
                self._use(name, scope[name], node, source)
            elif name not in KNOWN_NAMES and not hasattr(builtins, name):
                continue  # a tool of the app, or a name that the compiler reports
        changed = changed_names(source.body)
        for name in sorted(changed & self._values.keys() & {node.id for node in free}):
            node = next(node for node in free if node.id == name)
            if isinstance(self._values[name], (list, dict)):
                self._report(source, node, f"{name} belongs to the module; copy it before you change it")
        for call in (part for part in ast.walk(source.node) if isinstance(part, ast.Call)):
            if not self._is_plain_tool(call.func):
                continue
            if isinstance(source.node, ast.FunctionDef):
                self._report(source, call, f"{source.name} calls a tool; write async def {source.name}(...)")
            elif not _is_awaited(source.node, call):
                edits += [(call, False), (call, True)]
        self._lines += source.program(edits, with_def=with_def)

    def _is_plain_tool(self, function: ast.expr) -> bool:
        """Return True for the name of a tool whose function has no `async`, and so is called without `await`."""
        name = ast.unparse(function) if isinstance(function, (ast.Name, ast.Attribute)) else ""
        return name in self.tools and not is_async(self._values[name])

    def _use(self, name: str, value: Any, node: ast.Name, source: FunctionSource) -> None:
        """Add what a name of the module means to the program."""
        if name in self._values:
            if self._values[name] is not value:
                self._report(source, node, f"{name} means different things in two modules; rename one of them")
            return
        # What executes outside of the program comes first; its text is not needed.
        self._values[name] = value
        tool, plan = tool_of(value), getattr(value, PLAN, None)
        if tool is not None:
            self.tools[name] = tool
        elif (registered := _registered_name(value)) is not None:
            self.transforms[name] = registered
        elif (path := name_of(value)) is not None:
            server, _, tool_name = path.partition(".")
            text = f"from {MODULE} import {server}"
            text += f"; {name} = {path}" if tool_name else f" as {name}" if name != server else ""
            self._lines.append(_made_line(text, source, node))
        elif (known := language_name(value)) is not None:
            self._use_language(name, known, node, source)
        elif isinstance(value, types.ModuleType):
            self._use_module(name, value, source)
        # The rest becomes text of the program: an import, a function, or a constant.
        elif (imported := _import_of(name, value)) is not None:
            if imported:
                self._lines.append(_made_line(imported, source, node))
        elif plan is not None or isinstance(value, types.FunctionType):
            self._inline(name, plan or value, node, source)
        elif getattr(builtins, name, None) is value:
            del self._values[name]
        elif value is ToolError or value is Rejected:  # programs have them, under these names
            if name != value.__name__:
                self._lines.append(_made_line(f"{name} = {value.__name__}", source, node))
        elif _is_literal(value):
            self._lines.append(_made_line(f"{name} = {value!r}", source, node))
        elif isinstance(value, type):
            constructor = _constructor(name, value)
            if constructor is not None:
                self._lines.append(_made_line(constructor, source, node))
            elif (base := _unknown_class(value)) is not None:
                what = f"the class {base.__name__} is not known to plans"
                self._refuse(name, source, node, f"{what}; a plan has dicts: write {{'name': value}}")
            else:
                self._inline(name, value, node, source)
        else:
            kind = type(value).__name__
            self._refuse(name, source, node, f"{name} is a {kind}, which is not JSON; pass it as an argument of a tool")

    def _use_language(self, name: str, known: str, node: ast.Name, source: FunctionSource) -> None:
        """Add another name of a function that every program has; its own name needs no text."""
        if name == known:
            return
        if known in inspect.signature(self.source.function).parameters:
            message = f"{name} is another name of {known}, which is a parameter; rename the parameter"
            self._refuse(name, source, node, message)
            return
        self._lines.append(_made_line(f"from {PLANS} import {known} as {name}", source, node))

    def _inline(self, name: str, function: Any, node: ast.Name, source: FunctionSource) -> None:
        if getattr(function, "__name__", name) != name:
            self._refuse(name, source, node, f"{name} is another name of {function.__name__}; use {function.__name__}")
            return
        try:
            inner = FunctionSource(function)
        except InvalidFlow:
            self._refuse(name, source, node, f"{name} has no source; {_CALLABLE}")
            return
        is_function = not isinstance(inner.node, ast.ClassDef)
        if is_function and inner.node.decorator_list and not hasattr(self._values[name], PLAN):
            self._refuse(name, source, node, f"{name} has a decorator; {_CALLABLE}")
            return
        self._add(inner, with_def=True)

    def _use_module(self, name: str, module: types.ModuleType, source: FunctionSource) -> None:
        known = module.__name__
        if known in MODULE_NAMES:
            self._lines.append(
                _made_line(f"import {known}" + (f" as {name}" if name != known else ""), source, source.node)
            )
            return
        for part in ast.walk(source.node):
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == name:
                path, value = f"{name}.{part.attr}", getattr(module, part.attr, None)
                if (tool := tool_of(value)) is not None:
                    self.tools[path], self._values[path] = tool, value
                else:
                    can_be_tool = callable(value) and name_of(value) is None and language_name(value) is None
                    advice = "put @tool above it" if can_be_tool else f"write from {known} import {part.attr}"
                    self._refuse(name, source, part, f"{path} is not a tool; {advice}")

    def _refuse(self, name: str, source: FunctionSource, node: ast.AST, message: str) -> None:
        """Report a name that the program cannot have; the check takes it for a value of any type."""
        self.refused_names[name] = None
        self._report(source, node, message)

    def _report(self, source: FunctionSource, node: ast.AST, message: str) -> None:
        place = source.place(*source.at(node))
        if not any(problem.place == place and problem.message == message for problem in self._problems):
            self._problems.append(Problem(path=place.spot, message=message, place=place))


class PythonDocument:
    """A plan as a document whose places are in a Python file."""

    # `name`: The name of the function in it.

    def __init__(self, data: dict[str, Any], program: PlanProgram) -> None:
        self.data, self._program = data, program
        self.file, self.name = program.source.file, program.source.name

    def locate(self, path: str, column: int | None = None, *, at_key: bool = False) -> Place:
        """Return the place of a path."""
        return self._program.place_of(path)

    def with_place(self, problem: Problem) -> Problem:
        """Return a problem with its place."""
        return self._program.located(problem)


def _made_line(text: str, source: FunctionSource, node: ast.AST) -> _Line:
    """Return a line that is not in the file, at the place of what it was made for."""
    line, column = source.at(node)
    return _Line(text, [column] * len(text), source.file, line, source.place(line, column).text)


def _scope_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what the names outside of a function mean: its module's, and those of the functions around it."""
    scope = dict(getattr(function, "__globals__", None) or vars(sys.modules[function.__module__]))
    code = getattr(function, "__code__", None)
    for name, cell in zip(getattr(code, "co_freevars", ()), getattr(function, "__closure__", None) or (), strict=False):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return scope


def _free_names(source: FunctionSource) -> Iterator[ast.Name]:
    """Yield the names that a function reads and does not bind, in the order of the text, without annotations."""
    bound = {*own_names(source.node.body), source.name}
    ignored: set[int] = set()
    for node in ast.walk(source.node):
        if isinstance(node, _Function):
            bound.add(node.name)
            if node is source.node:  # the decorators of the function itself are no part of its text
                ignored.update(id(part) for decorator in node.decorator_list for part in ast.walk(decorator))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
        for field in ("annotation", "returns"):
            if (annotation := getattr(node, field, None)) is not None:
                ignored.update(id(part) for part in ast.walk(annotation))
    yielded: set[str] = set()
    for node in ast.walk(source.node):
        if isinstance(node, ast.Name) and id(node) not in ignored and node.id not in bound and node.id not in yielded:
            yielded.add(node.id)
            yield node


def _is_awaited(node: ast.AST, call: ast.Call) -> bool:
    return any(isinstance(part, ast.Await) and part.value is call for part in ast.walk(node))


def _import_of(name: str, value: Any) -> str | None:
    """Return the import that binds a member of a supported module; "" for what only annotations use."""
    module = getattr(value, "__module__", None)
    if module in _TYPING:
        return ""
    for known in sorted(MODULE_NAMES):
        if known.startswith("_") or known not in sys.modules:
            continue
        members = vars(sys.modules[known])
        if not callable(value):
            member = name if members.get(name) is value and name in MODULES.get(known, ()) else None
        else:
            member = next((key for key, item in members.items() if item is value and not key.startswith("_")), None)
        if member is not None and not hasattr(builtins, member):
            return f"from {known} import {member}" + (f" as {name}" if name != member else "")
    return None


def _registered_name(value: Any) -> str | None:
    """Return the name under which a function is registered as a transform; None for any other value."""
    return next((name for name, run in TRANSFORMS.items() if run is value), None)


def _constructor(name: str, kind: type) -> str | None:
    """Return a function that makes the dict of a dataclass, a TypedDict or a pydantic model; None for other classes."""
    if typing.is_typeddict(kind):
        if kind.__optional_keys__:  # type: ignore[attr-defined]
            return None
        fields = dict.fromkeys(kind.__annotations__, inspect.Parameter.empty)
    elif (dataclasses.is_dataclass(kind) and not _has_methods(kind)) or hasattr(kind, "model_fields"):
        fields = {key: parameter.default for key, parameter in inspect.signature(kind).parameters.items()}
    else:
        return None
    parameters = []
    for key, default in fields.items():
        if default is inspect.Parameter.empty:
            parameters.append(key)
        elif _is_literal(default):
            parameters.append(f"{key}={default!r}")
        else:
            return None
    members = ", ".join(f"{key!r}: {key}" for key in fields)
    return f"def {name}({', '.join(parameters)}): return {{{members}}}"


def _has_methods(kind: type) -> bool:
    """Return True if a class has functions that its author wrote."""
    made = (types.FunctionType, property, classmethod, staticmethod)
    return any(isinstance(value, made) and not name.startswith("__") for name, value in vars(kind).items())


def _unknown_class(kind: type) -> type | None:
    """Return the first of a class and those that it derives from whose text no plan can have."""
    own = set() if kind.__module__.partition(".")[0] in sys.stdlib_module_names else {kind.__module__}
    known = {"builtins", *own, *MODULE_NAMES}
    return next((base for base in kind.__mro__ if base.__module__ not in known), None)


def _is_literal(value: Any) -> bool:
    """Return True for a value that is JSON, and so can be written into the program."""
    if value is None or type(value) in (bool, int, str):
        return True
    if type(value) is float:
        return isfinite(value)
    if type(value) in (list, tuple):
        return all(map(_is_literal, value))
    return type(value) is dict and all(type(key) is str and _is_literal(item) for key, item in value.items())


def _refused(message: str) -> InvalidFlow:
    return InvalidFlow([Problem(path="", message=message)])


def signature_of(function: Callable[..., Any]) -> Any:
    """Return the schemas and the description of a function, as those of a tool."""
    try:
        described = describe(function)
    except InvalidTool as error:
        raise _refused(str(error).replace("tool ", "plan ", 1)) from error
    properties: Any = described.input_schema["properties"]
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not parameter.empty and "default" not in properties.get(parameter.name, {}):
            raise _refused(f"{described.name}: the default of {parameter.name} is not JSON")
    return described
