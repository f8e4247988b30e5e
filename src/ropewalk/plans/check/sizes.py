"""How many items an iterable has at most, where the text of a program says it.

A size is only given when nothing in the program can make it larger: a name counts if it is assigned once, and a list
behind a name only if no use of the name can change the list or give it another name.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any, Final

from ...expr.python.tree import walk

SAME_SIZE: Final = frozenset(("enumerate", "filter", "frozenset", "iter", "list", "reversed", "set", "sorted", "tuple"))
"""Functions whose result has at most as many items as their argument."""
COPYING: Final = SAME_SIZE | {"all", "any", "bool", "dict", "len", "max", "min", "print", "str", "sum", "zip"}
"""Functions that neither change their argument nor keep it."""
READING_METHODS: Final = frozenset(("copy", "count", "get", "index", "items", "keys", "values"))
_VIEWS: Final = frozenset(("items", "keys", "values"))
_OF_SEQUENCES: Final = frozenset(("__getitem__", "__iter__", "__len__", "__next__"))
_SHOWN: Final = (ast.List, ast.Tuple, ast.Set)
_TESTS: Final = (ast.If, ast.While, ast.Compare, ast.UnaryOp, ast.FormattedValue, ast.BinOp, ast.Starred, ast.Assert)


class Sizes:
    """The sizes of the iterables of one program."""

    def __init__(self, tree: ast.Module, is_tool: Callable[[ast.expr], bool]) -> None:
        self._is_tool = is_tool
        nodes = walk(tree)
        self.bound = Counter(bound_names(nodes))
        self._has_sequences = any(isinstance(node, ast.FunctionDef) and node.name in _OF_SEQUENCES for node in nodes)
        self._imports = {name: path for name, path in imported_names(nodes) if self.bound[name] == 1}
        self._names = self._fixed_names(nodes)
        self._open: set[str] = set()  # names whose size is being looked up

    def is_builtin(self, name: str) -> bool:
        """Return True if a name means the built-in function everywhere in the program."""
        return not self.bound[name]

    def size(self, node: ast.expr) -> int | None:
        """Return the most items that an iterable gives; None if the text does not say it."""
        match node:
            case ast.List() | ast.Tuple() | ast.Set():
                return _sum(self._size_of_element(item) for item in node.elts)
            case ast.Dict():
                return _sum(1 if key is not None else self.size(value) for key, value in zip(node.keys, node.values))  # noqa: B905
            case ast.Constant(value=str(text)):
                return len(text)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.iterations(node.generators)
            case ast.Name():
                return self._size_of_name(node.id)
            case ast.Starred():
                return self.size(node.value)
            case ast.Await(value=ast.Call() as call):
                return self._size_of_call(call) if self.function_name(call.func) == "asyncio.gather" else None
            case ast.Call():
                return self._size_of_call(node)
            case ast.Subscript(slice=ast.Slice()):
                return self._size_of_slice(node)
            case ast.BinOp(op=ast.Add()):
                return _sum((self.size(node.left), self.size(node.right)))
            case ast.BinOp(op=ast.Mult(), left=ast.List() as items, right=count):
                return _product((self.size(items), self.largest(count)))
            case ast.IfExp():
                return _largest((self.size(node.body), self.size(node.orelse)))
        return None

    def iterations(self, generators: Iterable[ast.comprehension]) -> int | None:
        """Return how often a comprehension evaluates its element at most."""
        return _product(self.size(generator.iter) for generator in generators)

    def largest(self, node: ast.expr) -> int | None:
        """Return an upper bound of an integer, at least 0; None if the text does not say it."""
        match node:
            case ast.Constant(value=int(number)):
                return max(0, number)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
                return 0
            case ast.Call(func=ast.Name(id="len"), args=[items]) if self.is_builtin("len"):
                return self.size(items)
            case ast.Call(func=ast.Name(id="min"), args=[_, _, *_]) if self.is_builtin("min") and not node.keywords:
                known = [bound for item in node.args if (bound := self.largest(item)) is not None]
                return min(known, default=None)
            case ast.Call(func=ast.Name(id="max"), args=[_, _, *_]) if self.is_builtin("max") and not node.keywords:
                return _largest(self.largest(item) for item in node.args)
            case ast.BinOp(op=ast.Add()):
                return _sum((self.largest(node.left), self.largest(node.right)))
        return None

    def _size_of_element(self, item: ast.expr) -> int | None:
        return self.size(item.value) if isinstance(item, ast.Starred) else 1

    def _size_of_name(self, name: str) -> int | None:
        value = self._names.get(name)
        if value is None or name in self._open:
            return None
        self._open.add(name)
        size = self.size(value)
        self._open.discard(name)
        return size

    def _size_of_call(self, call: ast.Call) -> int | None:
        name, args = self.function_name(call.func), call.args
        starred = any(isinstance(item, ast.Starred) for item in args)
        if name == "asyncio.gather":
            return _sum(self._size_of_element(item) for item in args)
        if not args or starred:
            return self._size_of_view(call)
        if name == "range":
            return self._size_of_range(args)
        if name in SAME_SIZE:
            return self.size(args[-1] if name == "filter" else args[0])
        if name == "asyncio.as_completed":
            return self.size(args[0])
        if name in ("zip", "map"):
            known = [size for item in args[name == "map" :] if (size := self.size(item)) is not None]
            return min(known, default=None)
        if name == "itertools.islice" and len(args) in (2, 3):
            return self.largest(args[-1])
        if name in ("itertools.chain", "itertools.product"):
            return (_sum if name.endswith("chain") else _product)(map(self.size, args)) if not call.keywords else None
        if name == "random.sample" and len(args) == 2:
            return self.largest(args[1])
        return self._size_of_view(call)

    def _size_of_view(self, call: ast.Call) -> int | None:
        """Return the size of `d.items()` and the like, and of a split constant."""
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Dict() as owner, attr=attr), args=[]) if (
                attr in _VIEWS
            ):
                return self.size(owner)
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="split"), args=[]):
                return len(text.split())
        return None

    def _size_of_range(self, args: list[ast.expr]) -> int | None:
        if len(args) == 1:
            return self.largest(args[0])
        numbers = [_constant_int(item) for item in args]
        if None not in numbers and 0 not in numbers[2:]:
            return len(range(*numbers))  # type: ignore[arg-type]
        start, stop = numbers[0], self.largest(args[1])
        if len(args) == 2 and start is not None and stop is not None:
            return max(0, stop - start)
        return None

    def _size_of_slice(self, node: ast.Subscript) -> int | None:
        """Return the size of `x[:n]`; a class of the program could make anything of it, so it must have none."""
        part = node.slice
        if self._has_sequences or not isinstance(part, ast.Slice):
            return None
        low = 0 if part.lower is None else _constant_int(part.lower)
        high = None if part.upper is None else _constant_int(part.upper)
        known = [self.size(node.value)]
        if low is not None and low >= 0 and high is not None and high >= 0:
            known.append(max(0, high - low))
        elif low is not None and low < 0 and (part.upper is None or (high is not None and high < 0)):
            known.append(-low)
        return min((size for size in known if size is not None), default=None)

    def function_name(self, func: ast.expr) -> str | None:
        """Return the dotted name of a function of Python that a call names, if nothing in the program hides it."""
        match func:
            case ast.Name(id=name):
                return self._imports.get(name, name if self.is_builtin(name) else None)
            case ast.Attribute(value=ast.Name(id=module), attr=attr):
                known = self._imports.get(module, module if self.is_builtin(module) else None)
                return None if known is None else f"{known}.{attr}"
        return None

    def _fixed_names(self, nodes: list[ast.AST]) -> dict[str, ast.expr]:
        """Return the names with one assignment, whose values stay what they are."""
        values: dict[str, ast.expr] = {}
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if self.bound[name] == 1:
                    values[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if self.bound[name] == 1:
                    values[name] = value
        changeable = {name for name, value in values.items() if not _is_unchangeable(value)}
        for parent in nodes if changeable else ():
            for field, child in parent.__dict__.items():
                for part in child if isinstance(child, list) else [child]:
                    is_read = isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
                    if is_read and part.id in changeable and not self._only_reads(parent, field, part):
                        values.pop(part.id, None)
        return values

    def _only_reads(self, parent: ast.AST, field: str, name: ast.Name) -> bool:
        """Return True if the use of a name can neither change its value nor make it known by another name."""
        match parent:
            case ast.For() | ast.comprehension():
                return field == "iter"
            case ast.Attribute(attr=attr):
                return attr in READING_METHODS
            case ast.Subscript():
                return field == "value" and isinstance(parent.ctx, ast.Load)
            case ast.Call() if field == "args":
                called = self.function_name(parent.func)
                plain = called in COPYING or (called in ("map", "filter") and parent.args[0] is not name)
                return plain or (called or "").startswith("asyncio.") or self._is_tool(parent.func)
            case ast.keyword():
                return False
        return isinstance(parent, _TESTS)


_BINDING: Final = frozenset(
    [
        *(ast.Name, ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom),
        *(ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping, ast.Global, ast.Nonlocal),
    ]
)


def bound_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the name of every binding in a program, in every scope."""
    for node in nodes:
        if type(node) not in _BINDING:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
            case ast.Global() | ast.Nonlocal():
                yield from node.names * 2  # bound in another scope, too


def imported_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield what the imports of a program bind, as `("m", "math")` and `("Counter", "collections.Counter")`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _is_unchangeable(value: ast.expr) -> bool:
    if isinstance(value, ast.Tuple):
        return True
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Call) and ast.unparse(value.func) == "range")


def _constant_int(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    return None


def _sum(sizes: Iterable[int | None]) -> int | None:
    known: list[Any] = list(sizes)
    return None if None in known else sum(known)


def _product(sizes: Iterable[int | None]) -> int | None:
    known: list[Any] = list(sizes)
    return 0 if 0 in known else None if None in known else prod(known)


def _largest(sizes: Iterable[int | None]) -> int | None:
    known: list[Any] = list(sizes)
    return None if None in known else max(known, default=0)
