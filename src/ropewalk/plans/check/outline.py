"""The outline of a program, read from its syntax alone.

Everything that can make a call has an item: a tool or a function that is used as a value is an item that repeats
without a limit, because somebody may call it any number of times.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from ...expr.python.tree import children
from ...outline import (
    MOST,
    Block,
    Branch,
    FunctionCall,
    Group,
    Item,
    Loop,
    Outline,
    Place,
    ToolCall,
    Wait,
    WaitKind,
    items_of,
)
from ..read.imports import is_module
from ..read.overlap import START, is_begun
from ..read.tools import RECORD_TOOL, VALUE, called_name
from .sizes import Sizes

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_MAX_TITLE: Final = 60
_WAITS: Final[Mapping[str, WaitKind]] = {"approve": "approval", "wait_for": "event", "asyncio.sleep": "sleep"}
_AT_ONCE: Final = frozenset(("asyncio.gather", "asyncio.as_completed", "asyncio.wait"))
_TRANSPARENT_DECORATORS: Final = frozenset(
    ("classmethod", "dataclass", "dataclasses.dataclass", "property", "staticmethod")
)
_NO_PARTS: Final = frozenset(("ctx", "op", "ops", "type_comment"))


def outline_of(tree: ast.Module, text: str, tools: Mapping[str, str]) -> Outline:
    """Return the outline of a program, given the ids of its tools by the names that it uses (`crm.lookup`)."""
    return _Reader(tree, text, tools).outline()


class _Reader:
    """Makes items from statements and expressions."""

    def __init__(self, tree: ast.Module, text: str, tools: Mapping[str, str]) -> None:
        self.tree, self.tools = tree, tools
        self._lines = text.encode().split(b"\n")
        self._spaces = {name.partition(".")[0] for name in tools if "." in name}
        self._tools_by_head: dict[str, list[str]] = {}
        for name, tool in tools.items():
            self._tools_by_head.setdefault(name.partition(".")[0], []).append(tool)
        self._functions: dict[str, list[FunctionNode]] = {}
        self._methods: dict[str, list[str]] = {}  # by method name: the keys in `_functions`
        self._properties: set[str] = set()
        self._classes: set[str] = set()
        self._find_functions(tree, "")
        self.sizes = Sizes(tree, lambda func: self._tool(func) is not None)

    def outline(self) -> Outline:
        """Read the program, without items that make no call and never wait."""
        functions = {name: self._functions_block(nodes) for name, nodes in self._functions.items()}
        body = (*self._block(self.tree.body), *self._implicit_calls())
        busy = _busy_functions(functions)
        return Outline(
            _pruned(body, busy), {name: _pruned(functions[name], busy) for name in functions if name in busy}
        )

    def _find_functions(self, node: ast.AST, owner: str) -> None:
        stack = [(node, owner)]
        while stack:
            parent, owner = stack.pop()
            for child in children(parent):
                inner = owner if not isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef)) else ""
                if isinstance(child, ast.ClassDef):
                    self._classes.add(child.name)
                    inner = child.name
                elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_begun(child):
                    name = f"{inner}.{child.name}" if isinstance(parent, ast.ClassDef) else child.name
                    self._functions.setdefault(name, []).append(child)
                    if isinstance(parent, ast.ClassDef):
                        self._methods.setdefault(child.name, []).append(name)
                        if any(ast.unparse(decorator) == "property" for decorator in child.decorator_list):
                            self._properties.add(child.name)
                stack.append((child, inner))

    def _functions_block(self, nodes: list[FunctionNode]) -> Block:
        """Return the items of a function; of several with one name, one runs."""
        blocks = [tuple(self._block(node.body)) for node in nodes]
        if len(blocks) == 1:
            return blocks[0]
        return (Branch("one of", tuple(("definition", block) for block in blocks), _place(nodes[0])),)

    def _implicit_calls(self) -> Iterator[Item]:
        """Yield the methods that Python calls by itself, such as `__eq__` and `__init__`."""
        for method, names in self._methods.items():
            if method.startswith("__"):
                for name in names:
                    place = _place(self._functions[name][0])
                    yield Loop(f"calls of {name}", None, (FunctionCall(name, place),), place)

    # --- statements ----------------------------------------------------------------------------

    def _block(self, nodes: Iterable[ast.stmt]) -> list[Item]:
        items: list[Item] = []
        early: list[Item] = []  # calls that begin with those of the next statement of the program
        for node in nodes:
            if is_begun(node):
                early += self._block(node.body)  # type: ignore[attr-defined]
            elif not early or _is_start(node):
                items += self._statement(node)
            else:
                first = (*self._statement(node), *early)
                items.append(Group("at the same time", first, first[0].place, at_once=True))
                early = []
        return items

    def _statement(self, node: ast.stmt) -> Iterator[Item]:
        match node:
            case ast.If():
                yield from self._if(node)
            case ast.For() | ast.AsyncFor():
                yield from self._expression(node.iter)
                title = f"for {self._title(node.target, node.iter)}"
                body = (*self._expression(node.target), *self._block(node.body))
                yield Loop(title, self._size(node.iter), body, _place(node))
                yield from self._block(node.orelse)
            case ast.While():
                body = (*self._expressions(node.test), *self._block(node.body))
                yield Loop(f"while {self._title(node.test)}", None, body, _place(node))
                yield from self._block(node.orelse)
            case ast.Try() | ast.TryStar():
                yield from self._try(node)
            case ast.With() | ast.AsyncWith():
                yield from self._with(node)
            case ast.Match():
                yield from self._match(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._definition(node)
            case ast.ClassDef():
                yield from self._expressions(*node.bases, *node.decorator_list, *node.keywords)
                yield from self._block(node.body)
            case _:
                yield from self._expressions(*_parts(node))

    def _if(self, node: ast.If) -> Iterator[Item]:
        """Read a chain of `elif`, which may be long, as one branch."""
        arms: list[tuple[str, Block]] = []
        place, first, last = _place(node), self._title(node.test), node
        while True:
            yield from self._expressions(last.test)
            title = "if" if not arms else f"elif {self._title(last.test)}"
            arms.append((title, tuple(self._block(last.body))))
            match last.orelse:
                case [ast.If() as following]:
                    last = following
                case orelse:
                    arms.append(("else", tuple(self._block(orelse))))
                    break
        yield Branch(f"if {first}", tuple(arms), place)

    def _try(self, node: ast.Try | ast.TryStar) -> Iterator[Item]:
        arms = []
        body: list[Item] = self._block(node.body)
        for handler in node.handlers:
            body += self._expressions(*([handler.type] if handler.type else ()))
            title = "except" if handler.type is None else f"except {self._title(handler.type)}"
            arms.append((title, tuple(self._block(handler.body))))
        if isinstance(node, ast.TryStar):  # more than one handler may run
            body += [item for _, arm in arms for item in arm]
        elif arms:
            body.append(Branch("on failure", tuple(arms), _place(node.handlers[0])))
        yield Group("try", (*body, *self._block(node.orelse), *self._block(node.finalbody)), _place(node))

    def _with(self, node: ast.With | ast.AsyncWith) -> Iterator[Item]:
        yield from self._expressions(*node.items)
        title = f"with {self._title(node.items[0].context_expr)}"
        at_once = any(self._is_task_group(item.context_expr) for item in node.items)
        yield Group(title, tuple(self._block(node.body)), _place(node), at_once)

    def _match(self, node: ast.Match) -> Iterator[Item]:
        yield from self._expressions(node.subject)
        arms = []
        for case in node.cases:
            if case.guard is not None:
                yield from self._expressions(case.guard)
            arms.append((f"case {ast.unparse(case.pattern)[:_MAX_TITLE]}", tuple(self._block(case.body))))
        yield Branch(f"match {self._title(node.subject)}", tuple(arms), _place(node))

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Item]:
        """Read the defaults and decorators of a function; a decorator may call the function."""
        yield from self._expressions(*node.decorator_list, node.args, *([node.returns] if node.returns else ()))
        if any(ast.unparse(item).partition("(")[0] not in _TRANSPARENT_DECORATORS for item in node.decorator_list):
            yield self._value_of_function(node.name, _place(node))

    # --- expressions ---------------------------------------------------------------------------

    def _expressions(self, *nodes: ast.AST) -> Iterator[Item]:
        for node in nodes:
            yield from self._expression(node)

    def _expression(self, node: ast.AST) -> Iterator[Item]:
        match node:
            case ast.Call():
                yield from self._call(node)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                yield from self._comprehension(node)
            case ast.Lambda():
                yield from self._expression(node.args)
                body = tuple(self._expression(node.body))
                yield Loop("calls of a lambda", None, body, _place(node))
            case ast.IfExp():
                yield from self._expression(node.test)
                arms = (("if", tuple(self._expression(node.body))), ("else", tuple(self._expression(node.orelse))))
                yield Branch(f"if {self._title(node.test)}", arms, _place(node))
            case ast.Name(ctx=ast.Load()):
                yield from self._name(node)
            case ast.Attribute():
                yield from self._attribute(node)
            case _:
                yield from self._expressions(*_parts(node))

    def _comprehension(self, node: Any) -> Iterator[Item]:
        generators: list[ast.comprehension] = node.generators
        yield from self._expression(generators[0].iter)
        result = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        inner: Block = tuple(self._expressions(*result))
        for index in reversed(range(len(generators))):
            generator = generators[index]
            later = (*self._expressions(generator.target, *generator.ifs), *inner)
            title = f"for each {self._title(generator.target, generator.iter)}"
            inner = (Loop(title, self._size(generator.iter), later, _place(generator.target)),)
            if index:
                inner = (*self._expression(generator.iter), *inner)
        yield from inner

    def _call(self, node: ast.Call) -> Iterator[Item]:
        tool, name, place = self._tool(node.func), self.sizes.function_name(node.func), _place(node)
        arguments = tuple(self._arguments(node, name))
        if name in _AT_ONCE:
            yield Group("at the same time", arguments, place, at_once=True)
            return
        yield from arguments
        kind = _WAITS.get(name or "")
        if kind is not None and tool is None:
            yield Wait(kind, self._words(node), place)
        elif name == "call_tool":
            yield from (ToolCall(tool_id, place) for tool_id in self._named_tools(node))
        else:
            if isinstance(node.func, ast.Name) and node.func.id == VALUE:
                yield ToolCall(RECORD_TOOL, place)  # unless the program has a function of this name
            yield from self._called(node.func, tool, place)

    def _named_tools(self, call: ast.Call) -> Iterable[str]:
        """Return the tool that the first argument names; all tools unless it is a text."""
        match call.args:
            case [ast.Constant(value=str(name)), *_]:
                return (self.tools.get(called_name(name, self.tools), name),)
        return self.tools.values()

    def _called(self, func: ast.expr, tool: str | None, place: Place) -> Iterator[Item]:
        """Yield the call of what an expression names: tools and functions of this name, or a value."""
        if tool is not None:
            yield ToolCall(tool, place)
        match func:
            case ast.Name(id=name) if name in self._functions:
                yield FunctionCall(name, place)
            case ast.Name() if tool is not None or func.id not in self._spaces:
                return  # a built-in function, a class, or a value whose calls count where it was named
            case ast.Attribute(attr=attr):
                if tool is None:
                    yield from self._expression(func.value)
                for name in self._methods.get(attr, ()):
                    yield FunctionCall(name, place)
            case _:
                yield from self._expression(func)

    def _arguments(self, node: ast.Call, name: str | None) -> Iterator[Item]:
        """Yield the items of the arguments; `map`, `filter` and keys call a function once for each item."""
        mapped = node.args[0] if name in ("map", "filter") and len(node.args) > 1 else None
        for argument in node.args:
            if argument is mapped:
                yield from self._passed(argument, self._size(node) if name == "map" else self._size(node.args[1]))
            else:
                yield from self._expression(argument)
        for keyword in node.keywords:
            is_key = keyword.arg == "key" and name in ("sorted", "min", "max") and len(node.args) == 1
            yield from self._passed(keyword.value, self._size(node.args[0]) if is_key else None)

    def _passed(self, node: ast.expr, limit: int | None) -> Iterator[Item]:
        """Yield what a function makes that is called at most `limit` times with the items of an iterable."""
        if limit is None:
            yield from self._expression(node)
            return
        for item in self._expression(node):
            is_value = isinstance(item, Loop) and item.limit is None and item.place == _place(node)
            yield Loop(item.title, limit, item.body, item.place) if is_value and isinstance(item, Loop) else item

    def _name(self, node: ast.Name) -> Iterator[Item]:
        """Yield any number of calls for a tool, a function or a server that is used as a value."""
        place = _place(node)
        if node.id in self._functions:
            yield self._value_of_function(node.id, place)
        if not is_module(node) and (used := self._tools_by_head.get(node.id)):
            yield Loop(f"calls of {node.id} as a value", None, tuple(ToolCall(tool, place) for tool in used), place)
        if node.id == "call_tool" and not self.sizes.bound["call_tool"]:
            yield Loop("calls by name", None, tuple(ToolCall(tool, place) for tool in self.tools.values()), place)

    def _attribute(self, node: ast.Attribute) -> Iterator[Item]:
        place, tool = _place(node), self._tool(node)
        if tool is not None:
            yield Loop(f"calls of {tool} as a value", None, (ToolCall(tool, place),), place)
        else:
            yield from self._expression(node.value)
        for name in self._methods.get(node.attr, ()):
            if node.attr in self._properties:
                yield FunctionCall(name, place)
            yield self._value_of_function(name, place)

    def _value_of_function(self, name: str, place: Place) -> Loop:
        return Loop(f"calls of {name} as a value", None, (FunctionCall(name, place),), place)

    def _tool(self, func: ast.expr) -> str | None:
        match func:
            case ast.Name(id=name) if not is_module(func):
                return self.tools.get(name)
            case ast.Attribute(value=ast.Name(id=server) as head, attr=attr) if not is_module(head):
                return self.tools.get(f"{server}.{attr}")
        return None

    def _is_task_group(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and self.sizes.function_name(node.func) == "asyncio.TaskGroup"

    def _size(self, node: ast.expr) -> int | None:
        """Return the most items that an iterable has, if that is known and of any use."""
        size = self.sizes.size(node)
        return None if size is None or size > MOST else size

    # --- words ---------------------------------------------------------------------------------

    def _words(self, node: ast.Call) -> str:
        """Return the words of a wait: its first argument, as text or as it is written."""
        if not node.args:
            return ""
        first = node.args[0]
        return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else self._title(first)

    def _title(self, node: ast.expr, last: ast.expr | None = None) -> str:
        """Return the text from the beginning of a node to the end of a node, cut to one line."""
        end = last or node
        stop = end.end_col_offset if end.end_lineno == node.lineno else None
        line = self._lines[node.lineno - 1][node.col_offset : stop].decode(errors="replace")
        is_cut = len(line) > _MAX_TITLE or stop is None
        return f"{line[: _MAX_TITLE - 1].rstrip()}…" if is_cut else line


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name not in _NO_PARTS:
            yield from (part for part in (value if isinstance(value, list) else [value]) if isinstance(part, ast.AST))


def _is_start(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Assign) else None
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == START


def _place(node: Any) -> Place:
    return Place(node.lineno, node.col_offset + 1)


def _busy_functions(functions: Mapping[str, Block]) -> set[str]:
    """Return the functions that make a call or wait, themselves or by another function."""
    callers: dict[str, set[str]] = {}
    busy: list[str] = []
    for name, block in functions.items():
        for item in items_of(block):
            if isinstance(item, FunctionCall):
                callers.setdefault(item.function, set()).add(name)
            elif isinstance(item, (ToolCall, Wait)):
                busy.append(name)
    found: set[str] = set()
    while busy:
        name = busy.pop()
        if name not in found:
            found.add(name)
            busy += callers.get(name, ())
    return found


def _pruned(block: Block, busy: set[str]) -> Block:
    """Return a block without items that make no call and never wait."""
    kept: list[Item] = []
    for item in block:
        if isinstance(item, FunctionCall):
            kept += [item] if item.function in busy else []
        elif isinstance(item, (ToolCall, Wait)):
            kept.append(item)
        elif isinstance(item, Branch):
            arms = tuple((title, _pruned(body, busy)) for title, body in item.arms)
            kept += [replace(item, arms=arms)] if any(body for _, body in arms) else []
        elif body := _pruned(item.body, busy):
            kept.append(replace(item, body=body))
    return tuple(kept)
