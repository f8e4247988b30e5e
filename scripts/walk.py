"""Follow one parameter through the source, without running it, and count where it goes.

    python scripts/walk.py [FILE:FUNCTION:PARAMETER] [--list] [--folder FOLDER]
    python scripts/walk.py --check

The value stays the same value under another name, as an element of a tuple, list or dictionary, and where a function
gives it back. Put into a field of a record (or an attribute of an object), it is found again wherever a function reads
that field. What is computed from it is another value, which the walk does not follow, and so are its own parts.

- A place is a function that has the value: it is called with it, or reads it from a field.
- A room is a package, as in the layers of tests/test_house.py; each package of `doors` counts by itself.
- A climb is a step to a place on a higher layer, in the order in which the code is written: back to the caller that
  passes the value on again counts as well. From a field the walk continues with its readers, the highest layer first.

Receivers of calls are known by their annotations. The walk ends at a call that stays unknown, which is listed as lost,
at the method of a protocol, and at an error that names the value. `--check` prints what exceeds
[tool.ropewalk.walks] in pyproject.toml.
"""

from __future__ import annotations

import argparse
import ast
import gc
import itertools
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src" / "ropewalk"
DEFAULT = "app/app.py:App.run:source"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MOST_DEPTH = 12  # of expressions whose type depends on others
_MOST_ROUNDS = 30


@dataclass(eq=False)
class Module:
    """One file."""

    name: str
    file: Path
    tree: ast.Module
    names: dict[str, Function | Class | tuple[str, str | None] | ast.expr] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)


@dataclass(eq=False)
class Class:
    """One class: its methods, and the annotations of its fields in their order."""

    name: str
    module: Module
    node: ast.ClassDef
    methods: dict[str, Function] = field(default_factory=dict)
    fields: dict[str, ast.expr] = field(default_factory=dict)
    values: dict[str, tuple[Function, ast.expr]] = field(default_factory=dict)  # `self.x = value` in a method


@dataclass(eq=False)
class Function:
    """One function or method; functions inside belong to it."""

    name: str
    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: Class | None = None

    def __post_init__(self) -> None:
        arguments = self.node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        decorators = {_last_name(one) for one in self.node.decorator_list}
        self.is_property = bool(decorators & {"property", "cached_property"})
        bound = self.owner is not None and "staticmethod" not in decorators
        self.positional = [one.arg for one in positional[1 if bound else 0 :]]
        self.receiver = positional[0].arg if bound and positional else None
        self.parameters = {one.arg: one.annotation for one in [*positional, *arguments.kwonlyargs]}

    @property
    def path(self) -> str:
        """The name in its module."""
        return f"{self.owner.name}.{self.name}" if self.owner else self.name


def _last_name(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


class Index:
    """The files of a package by the names of their modules; each is parsed when it is first needed."""

    def __init__(self, root: Path) -> None:
        self.root, self._modules = root, dict[str, Module]()
        self.texts: dict[str, tuple[Path, str]] = {}
        for file in sorted(path for path in root.rglob("*.py") if "node_modules" not in path.parts):
            parts = file.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.texts[name] = file, file.read_text("utf-8")

    def module(self, name: str) -> Module:
        """Return a module of the package."""
        if name not in self._modules:
            file, text = self.texts[name]
            module = self._modules[name] = Module(name, file, ast.parse(text))
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ImportFrom):
                    self._read_import(module, node)
            self._read_block(module, module.tree.body)
            module.functions = list(_functions_of(module))
        return self._modules[name]

    def functions(self, words: str) -> Iterator[Function]:
        """Return the functions of all modules that contain these words."""
        for name, (_, text) in self.texts.items():
            if words in text:
                yield from self.module(name).functions

    def _read_block(self, module: Module, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, _FUNCTIONS):
                module.names[node.name] = Function(node.name, module, node)
            elif isinstance(node, ast.ClassDef):
                module.names[node.name] = _read_class(module, node)
            elif isinstance(node, ast.If):
                self._read_block(module, node.body)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                is_alias = _last_name(node.annotation) == "TypeAlias"
                module.names[node.target.id] = (node.value or node.annotation) if is_alias else node.annotation
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                module.names[node.targets[0].id] = node.value

    def _read_import(self, module: Module, node: ast.ImportFrom) -> None:
        base: list[str] | None = None
        if node.level:
            parts = module.name.split(".") if module.name else []
            package = parts if module.file.name == "__init__.py" else parts[:-1]
            base = package[: len(package) - (node.level - 1)]
        elif node.module and node.module.partition(".")[0] == self.root.name:
            base = []
        if base is None:
            return
        dotted = (node.module or "") if node.level else (node.module or "").partition(".")[2]
        source = ".".join([*base, *filter(None, [dotted])])
        for alias in node.names:
            inner = f"{source}.{alias.name}".strip(".")
            found = (inner, None) if inner in self.texts else (source, alias.name)
            module.names.setdefault(alias.asname or alias.name, found)

    def find(self, module: Module, name: str, depth: int = 0) -> Function | Class | Module | ast.expr | None:
        """Return what a name means in a module, wherever it is imported from."""
        found = module.names.get(name)
        if not isinstance(found, tuple):
            return found
        target, attribute = found
        if target not in self.texts or depth > _MOST_DEPTH:
            return None
        module = self.module(target)
        return module if attribute is None else self.find(module, attribute, depth + 1)

    def bases(self, one: Class) -> Iterator[Class]:
        """Return a class and those that it extends."""
        yield one
        for base in one.node.bases:
            found = self.find(one.module, _last_name(base.value if isinstance(base, ast.Subscript) else base))
            if isinstance(found, Class) and found is not one:
                yield from self.bases(found)

    def method(self, one: Class, name: str) -> Function | None:
        """Return a method of a class or of a class that it extends."""
        return next((each.methods[name] for each in self.bases(one) if name in each.methods), None)

    def is_error(self, one: Class) -> bool:
        """Return True for an exception."""
        return any(
            _last_name(base) in {"Exception", "BaseException"} for each in self.bases(one) for base in each.node.bases
        )

    def record_fields(self, one: Class) -> list[str]:
        """Return the fields of a class without `__init__`, those of its bases first."""
        return list(dict.fromkeys(name for each in reversed(list(self.bases(one))) for name in each.fields))


def _read_class(module: Module, node: ast.ClassDef) -> Class:
    made = Class(node.name, module, node)
    for child in node.body:
        if isinstance(child, _FUNCTIONS):
            known = made.methods.get(child.name)
            if known is None or not known.is_property:  # of overloads the last, of a property the one that reads
                made.methods[child.name] = Function(child.name, module, child, made)
        elif isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name):
            made.fields[child.target.id] = child.annotation
    for method in made.methods.values():
        for inner in ast.walk(method.node):
            targets = inner.targets if isinstance(inner, ast.Assign) else [getattr(inner, "target", None)]
            value = getattr(inner, "annotation", None) or getattr(inner, "value", None)
            for target, part in _pairs(targets, value):
                if isinstance(target, ast.Attribute) and _is_name(target.value, method.receiver):
                    made.values.setdefault(target.attr, (method, part))
    return made


def _pairs(targets: Sequence[ast.expr | None], value: ast.expr | None) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    for target in targets if value is not None else []:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, part in zip(target.elts, value.elts, strict=True):
                yield from _pairs([one], part)
        elif value is not None:
            yield target, value


def _is_name(node: ast.expr, name: str | None) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _functions_of(module: Module) -> Iterator[Function]:
    for found in module.names.values():
        if isinstance(found, Function):
            yield found
        elif isinstance(found, Class):
            yield from found.methods.values()


class Types:
    """The classes that an expression of a function can have, by annotations."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._locals: dict[Function, dict[str, list[ast.expr]]] = {}

    def of(self, node: ast.expr | None, place: Function, depth: int = 0) -> list[Class]:
        """Return the classes of an expression; none if they are unknown."""
        if node is None or depth > _MOST_DEPTH:
            return []
        deeper = depth + 1
        if isinstance(node, ast.Name):
            return self._of_name(node.id, place, deeper)
        if isinstance(node, ast.Attribute):
            owners = self.of(node.value, place, deeper)
            return [found for one in owners for found in self._of_field(one, node.attr, deeper)]
        if isinstance(node, ast.Call):
            made = self.targets(node.func, place, deeper)
            if not made and _last_name(node.func) == "replace" and node.args:
                return self.of(node.args[0], place, deeper)
            return [found for one in made for found in self._of_result(one)]
        parts: list[ast.expr] = []
        if isinstance(node, (ast.Await, ast.NamedExpr)):
            parts = [node.value]
        elif isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, ast.BoolOp):
            parts = node.values
        return [found for part in parts for found in self.of(part, place, deeper)]

    def _of_result(self, target: Function | Class) -> list[Class]:
        if isinstance(target, Class):
            return [target]
        return self.of_annotation(target.node.returns, target.module, target.owner)

    def _of_name(self, name: str, place: Function, depth: int) -> list[Class]:
        if name == place.receiver and place.owner is not None:
            return [place.owner]
        if name in place.parameters:
            return self.of_annotation(place.parameters[name], place.module, place.owner)
        return [found for value in self.locals_of(place).get(name, ()) for found in self.of(value, place, depth)]

    def locals_of(self, place: Function) -> dict[str, list[ast.expr]]:
        """Return the variables of a function with what is assigned to each."""
        if place not in self._locals:
            self._locals[place] = {}
            for child in ast.walk(place.node):
                self._note_local(child, self._locals[place])
        return self._locals[place]

    def _note_local(self, child: ast.AST, known: dict[str, list[ast.expr]]) -> None:
        if isinstance(child, ast.Assign):
            for target, part in _pairs(child.targets, child.value):
                if isinstance(target, ast.Name):
                    known.setdefault(target.id, []).append(part)
        elif isinstance(child, (ast.NamedExpr, ast.AnnAssign)) and isinstance(child.target, ast.Name) and child.value:
            known.setdefault(child.target.id, []).append(child.value)
        elif isinstance(child, ast.withitem) and isinstance(child.optional_vars, ast.Name):
            known.setdefault(child.optional_vars.id, []).append(child.context_expr)

    def _of_field(self, one: Class, name: str, depth: int) -> list[Class]:
        for each in self.index.bases(one):
            if name in each.methods and each.methods[name].is_property:
                return self._of_result(each.methods[name])
            if name in each.fields:
                return self.of_annotation(each.fields[name], each.module, each)
            if name in each.values:
                method, value = each.values[name]
                return self.of(value, method, depth) or self.of_annotation(value, method.module, each)
        return []

    def of_annotation(self, node: ast.expr | None, module: Module, owner: Class | None, depth: int = 0) -> list[Class]:
        """Return the classes that an annotation names: of unions all, of awaitables and the like the last argument."""
        if node is None or depth > _MOST_DEPTH:
            return []
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.of_annotation(ast.parse(node.value, mode="eval").body, module, owner, depth + 1)
        if isinstance(node, ast.BinOp):
            sides = [self.of_annotation(side, module, owner, depth + 1) for side in (node.left, node.right)]
            return sides[0] + sides[1]
        if isinstance(node, ast.Subscript):
            if _last_name(node.value) in {"Optional", "Union", "Awaitable", "Coroutine", "AsyncIterator", "Iterator",
                                          "AsyncGenerator", "Generator", "Annotated", "Final"}:  # fmt: skip
                inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                return [one for part in inner for one in self.of_annotation(part, module, owner, depth + 1)]
            node = node.value
        if _last_name(node) == "Self":
            return [owner] if owner else []
        found = self.index.find(module, node.id) if isinstance(node, ast.Name) else None
        if isinstance(found, ast.expr):
            return self.of_annotation(found, module, owner, depth + 1)
        return [found] if isinstance(found, Class) else []

    def targets(self, node: ast.expr, place: Function, depth: int = 0) -> Sequence[Function | Class]:
        """Return the functions and classes that a call of this expression can mean."""
        if isinstance(node, ast.Name):
            found = self.index.find(place.module, node.id)
            return [found] if isinstance(found, (Function, Class)) else []
        if not isinstance(node, ast.Attribute):
            return []
        if isinstance(node.value, ast.Name):
            found = self.index.find(place.module, node.value.id)
            if isinstance(found, Module):
                inner = self.index.find(found, node.attr)
                return [inner] if isinstance(inner, (Function, Class)) else []
            if isinstance(found, Class):
                method = self.index.method(found, node.attr)
                return [method] if method else []
        if isinstance(node.value, ast.Call) and _is_name(node.value.func, "super") and place.owner is not None:
            later = list(self.index.bases(place.owner))[1:]
            return [one.methods[node.attr] for one in later if node.attr in one.methods][:1]
        methods = [self.index.method(one, node.attr) for one in self.of(node.value, place, depth + 1)]
        return list(dict.fromkeys(one for one in methods if one is not None and not one.is_property))


@dataclass
class Route:
    """Where the value goes: each stay in a place, the fields that hold it, and the calls that are lost."""

    stays: list[Function] = field(default_factory=list)
    fields: set[tuple[Class, str]] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    @property
    def places(self) -> list[Function]:
        """Each place once, in the order of the first visits."""
        return list(dict.fromkeys(self.stays))


class Walk:
    """Follows a parameter until no field, returned value or place is added."""

    def __init__(self, index: Index, layers: list[set[str]]) -> None:
        self.index, self.types, self.layers = index, Types(index), layers
        self._fields: set[tuple[Class, str]] = set()
        self.gives_back: set[tuple[Function, str]] = set()

    def layer(self, place: Function) -> int:
        """Return the number of a place's layer, the lowest is 0."""
        first = place.module.name.partition(".")[0]
        return next((number for number, names in enumerate(self.layers) if first in names), -1)

    def follow(self, start: Function, parameter: str) -> Route:
        """Follow a parameter of a function."""
        for _ in range(_MOST_ROUNDS):
            known = len(self._fields), len(self.gives_back)
            self._route, self._seen, self._done = Route(), set[tuple[Function, str]](), set[tuple[Class, str]]()
            self._visit(start, parameter)
            # What was found at the end can matter at the beginning.
            if known == (len(self._fields), len(self.gives_back)):
                break
        self._route.fields = set(self._done)
        return self._route

    def _visit(self, place: Function, parameter: str) -> None:
        """Enter a place with the value as a parameter, or as a field ("")."""
        if (place, parameter) in self._seen:
            return
        self._seen.add((place, parameter))
        self._route.stays.append(place)
        visit = _Visit(self, place, parameter)
        visit.run()
        for holder, name in sorted(visit.fields, key=lambda one: (one[0].module.name, one[0].name, one[1])):
            if not self.index.is_error(holder):
                self._fields.add((holder, name))
                self._read_again(holder, name)

    def _read_again(self, holder: Class, name: str) -> None:
        if (holder, name) in self._done:
            return
        self._done.add((holder, name))
        readers = [one for one in self.index.functions(f".{name}") if self._reads(one, holder, name)]
        for reader in sorted(readers, key=lambda one: (-self.layer(one), one.module.name, one.node.lineno)):
            self._visit(reader, "")

    def _reads(self, place: Function, holder: Class, name: str) -> bool:
        return any(
            isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr == name
            and self.holds(node, place, {(holder, name)})
            for node in ast.walk(place.node)
        )  # fmt: skip

    def holds(self, node: ast.Attribute, place: Function, fields: set[tuple[Class, str]] | None = None) -> bool:
        """Return True if an attribute is a field that holds the value."""
        fields = self._fields if fields is None else fields
        if not any(name == node.attr for _, name in fields):
            return False
        owners = [one for found in self.types.of(node.value, place) for one in self.index.bases(found)]
        return any((one, node.attr) in fields for one in owners)

    def enter(self, caller: Function, target: Function, parameter: str) -> bool:
        """Go to a place and return True if it gives the value back."""
        if (target, parameter) not in self._seen:
            if self._route.stays[-1] is not caller:
                self._route.stays.append(caller)
            self._visit(target, parameter)
        return (target, parameter) in self.gives_back

    def lose(self, place: Function, node: ast.Call) -> None:
        """Note a call that the walk cannot follow."""
        self._route.lost.add(f"{place.module.name}:{node.lineno}: {ast.unparse(node.func)}")


class _Visit:
    """One function with the value in it."""

    def __init__(self, walk: Walk, place: Function, parameter: str) -> None:
        self.walk, self.place, self.parameter = walk, place, parameter
        self.names = {parameter} - {""}
        self.fields: set[tuple[Class, str]] = set()
        self._results: dict[ast.Call, bool] = {}

    def run(self) -> None:
        """Pass the value on to everything that gets it, in the order of the code."""
        nodes = list(_in_order(self.place.node))
        while True:
            known = len(self.names), sum(self._results.values())
            for node in nodes:
                self._step(node)
            if known == (len(self.names), sum(self._results.values())):
                return

    def _step(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call):
            if not self._results.get(node):
                self._results[node] = self._call(node)
        elif isinstance(node, ast.Assign):
            for target, part in _pairs(node.targets, node.value):
                self._assign(target, part)
        elif isinstance(node, (ast.NamedExpr, ast.AnnAssign)):
            self._assign(node.target, node.value)
        elif isinstance(node, (ast.Return, ast.Yield)) and node.value is not None and self.carries(node.value):
            self.walk.gives_back.add((self.place, self.parameter))
            if not self.parameter and self.place.owner is not None:
                self.fields.add((self.place.owner, self.place.name))  # a method or property that gives a field

    def _assign(self, target: ast.expr | None, value: ast.expr | None) -> None:
        if value is None or not self.carries(value):
            return
        if isinstance(target, ast.Name):
            self.names.add(target.id)
        elif isinstance(target, ast.Attribute):
            self.fields |= {(one, target.attr) for one in self.walk.types.of(target.value, self.place)}

    def carries(self, node: ast.expr | None) -> bool:
        """Return True if an expression is the value, or may be, or holds it in a display."""
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Attribute):
            return self.walk.holds(node, self.place)
        if isinstance(node, ast.Call):
            return self._results.get(node, False)
        if isinstance(node, (ast.Await, ast.NamedExpr, ast.Starred)):
            return self.carries(node.value)
        if isinstance(node, ast.IfExp):
            return self.carries(node.body) or self.carries(node.orelse)
        if isinstance(node, ast.BoolOp):
            return any(map(self.carries, node.values))
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return any(map(self.carries, node.elts))
        return isinstance(node, ast.Dict) and any(map(self.carries, node.values))

    def _call(self, node: ast.Call) -> bool:
        """Pass the value on to what a call means, and return True if the call gives it back."""
        given = [number for number, one in enumerate(node.args) if self.carries(one)]
        named = [one.arg for one in node.keywords if one.arg is not None and self.carries(one.value)]
        targets = self.walk.types.targets(node.func, self.place)
        if not given and not named:
            # A method or a property may read a field that holds the value, and return it.
            return any((one, "") in self.walk.gives_back for one in targets if isinstance(one, Function))
        if not targets:
            return self._call_of_another(node, given, named)
        results = [self._pass(one, given, named) for one in targets]  # all, also after the first that gives it back
        return any(results)

    def _call_of_another(self, node: ast.Call, given: list[int], named: list[str]) -> bool:
        """Follow `partial(function, value)` and the like, and `cast(type, value)`; lose other unknown calls."""
        name = _last_name(node.func)
        if name == "cast":
            return given == [1]
        if name == "replace" and node.args:
            self.fields |= {(one, key) for one in self.walk.types.of(node.args[0], self.place) for key in named}
            return 0 in given
        for number, one in enumerate(node.args):
            functions = self.walk.types.targets(one, self.place) if number not in given else []
            if functions:
                later = [other - number - 1 for other in given if other > number]
                results = [self._pass(each, later, named) for each in functions]
                return any(results)
        if isinstance(node.func, ast.Attribute) and not self.walk.types.of(node.func.value, self.place):
            root = node.func.value
            while isinstance(root, (ast.Attribute, ast.Subscript)):
                root = root.value
            # Names of the module that are no class or function of the package belong to libraries.
            if not isinstance(root, ast.Name) or not self._is_of_module(root.id):
                self.walk.lose(self.place, node)
        return False

    def _is_of_module(self, name: str) -> bool:
        return name not in self.place.parameters and name not in self.walk.types.locals_of(self.place)

    def _pass(self, target: Function | Class, given: list[int], named: list[str]) -> bool:
        if isinstance(target, Class):
            made = self.walk.index.method(target, "__init__")
            if made is None:
                fields = self.walk.index.record_fields(target)
                names = [*(fields[at] for at in given if at < len(fields)), *(name for name in named if name in fields)]
                self.fields |= {(target, name) for name in names}
                return False
            self._pass(made, given, named)
            return False
        names = [*(target.positional[at] for at in given if at < len(target.positional))]
        names += [name for name in named if name in target.parameters]
        results = [self.walk.enter(self.place, target, name) for name in names]
        return any(results)


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes of a function as they are executed: the parts of an expression before the expression."""
    for child in ast.iter_child_nodes(node):
        yield from _in_order(child)
    yield node


def read_layers(test: Path) -> list[set[str]]:
    """Return the layers that tests/test_house.py lists, the lowest first."""
    for node in ast.parse(test.read_text("utf-8")).body:
        if isinstance(node, ast.AnnAssign) and _is_name(node.target, "LAYERS") and node.value is not None:
            return list(ast.literal_eval(node.value))
    raise SystemExit(f"{test}: it lists no LAYERS")


def room(place: Function) -> str:
    """Return the package of a place; each package of `doors` counts by itself."""
    parts = place.module.name.split(".")
    return ".".join(parts[:2]) if parts[0] == "doors" else parts[0]


@dataclass(frozen=True)
class Figures:
    """What a walk counts."""

    places: int
    rooms: int
    climbs: int


def walk(root: Path, entry: str, layers: list[set[str]]) -> tuple[Walk, Route, Figures]:
    """Follow `file.py:Class.function:parameter` through the package in a folder."""
    file, path, parameter = entry.split(":")
    index = Index(root)
    name = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    starts = [one for one in index.module(name).functions if one.path == path] if name in index.texts else []
    if not starts or parameter not in starts[0].parameters:
        raise SystemExit(f"{entry}: there is no such parameter in {root}")
    made = Walk(index, layers)
    route = made.follow(starts[0], parameter)
    heights = [made.layer(one) for one in route.stays]
    climbs = sum(later > earlier for earlier, later in itertools.pairwise(heights))
    return made, route, Figures(len(route.places), len({room(one) for one in route.places}), climbs)


def over_budget(root: Path, settings: Path, layers: list[set[str]]) -> list[str]:
    """Return a message for each figure that exceeds its budget in pyproject.toml."""
    budgets = tomllib.loads(settings.read_text("utf-8"))["tool"]["ropewalk"]["walks"]
    found = []
    for entry, budget in budgets.items():
        figures = walk(root, entry, layers)[2]
        for name, most in budget.items():
            if (count := getattr(figures, name)) > most:
                found.append(f"{entry}: {count} {name} for {most}; python scripts/walk.py {entry} --list shows them")
    return found


def main() -> int:
    """Print a walk, or check the budgets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entry", nargs="?", default=DEFAULT, help=f"FILE:FUNCTION:PARAMETER; default: {DEFAULT}")
    parser.add_argument("--folder", type=Path, default=SOURCE)
    parser.add_argument("--list", action="store_true", help="print every stay, field and lost call")
    parser.add_argument("--check", action="store_true", help="print what exceeds its budget in pyproject.toml")
    options = parser.parse_args()
    gc.disable()  # trees hold no garbage, and to look at them takes as long as to make them
    layers = read_layers(PROJECT / "tests" / "test_house.py")
    if options.check:
        lines = over_budget(options.folder, PROJECT / "pyproject.toml", layers)
        print("\n".join(lines) or "Every walk is within its budget.")  # noqa: T201
        return int(bool(lines))

    made, route, figures = walk(options.folder, options.entry, layers)
    if options.list:
        for place in route.stays:
            print(f"{made.layer(place):3} {place.module.name}:{place.node.lineno} {place.path}")  # noqa: T201
        for holder, name in sorted((one.name, name) for one, name in route.fields):
            print(f"field {holder}.{name}")  # noqa: T201
        for line in sorted(route.lost):
            print(f"lost {line}")  # noqa: T201
    files = len({place.module for place in route.places})
    print(f"{figures.places} places, {figures.rooms} rooms ({files} files), {figures.climbs} climbs")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
