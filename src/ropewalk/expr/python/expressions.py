"""Expressions of Python as closures over a frame (`__init__.py` of this folder explains both).

The function for a kind of expression returns the closure that evaluates it. `frame[0]` is the Evaluation, which keeps
the budget.

To add a kind of expression, write a function that takes the node and the scope, and name it in EXPRESSIONS.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from .builtins import FUNCTIONS, TYPE_NAMES
from .evaluation import BuiltinFunction, Evaluation
from .failures import EXCEPTIONS
from .formatting import converted, format_value
from .modules import MODULES, Constant
from .operations import BINARY, COMPARISONS, UNARY, member, set_item, set_member, subscript
from .scope import Frame, Getter, Scope, Setter, Unsupported
from .values import UNBOUND


def expression(node: ast.expr, scope: Scope) -> Getter:
    """Return the closure that evaluates an expression in a frame."""
    compile_node = scope.language.expressions.get(type(node)) or EXPRESSIONS.get(type(node))
    try:
        if compile_node is None:
            raise Unsupported(node, f"{type(node).__name__} is not supported")
        return compile_node(node, scope)
    except Unsupported as error:
        scope.report(error)
        return _none  # a program with problems does not run


# --- names ---------------------------------------------------------------------------------------


def _constant(node: ast.Constant, scope: Scope) -> Getter:
    value = node.value
    if isinstance(value, (bytes, complex)) or (value is Ellipsis and not scope.language.has_classes):
        raise Unsupported(node, f"{type(value).__name__} values are not supported; use str, int or float")
    return lambda frame: value


def _name(node: ast.Name, scope: Scope) -> Getter:
    place = scope.find(node.id)
    if place is None:
        return _global(node, scope)
    return load(node.id, place, scope)


def load(name: str, place: tuple[int, int], scope: Scope) -> Getter:
    """Return the closure that reads a name of the program."""

    # Unbound, it raises NameError as Python does.
    hops, slot = place

    def unbound(frame: Frame) -> BaseException:
        if scope.is_function and hops == 0:
            return UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
        if scope.owner(hops).is_function:
            text = "where it is not associated with a value in enclosing scope"
            return NameError(f"cannot access free variable '{name}' {text}")
        return NameError(f"name '{name}' is not defined")

    # Names are read most often of all, so the usual distances have closures without a loop.
    if hops == 0:

        def get(frame: Frame) -> Any:
            value = frame[slot]
            if value is UNBOUND:
                raise unbound(frame)
            return value
    elif hops == 1:

        def get(frame: Frame) -> Any:
            value = frame[1][slot]
            if value is UNBOUND:
                raise unbound(frame)
            return value
    else:

        def get(frame: Frame) -> Any:
            outer = frame
            for _ in range(hops):
                outer = outer[1]
            value = outer[slot]
            if value is UNBOUND:
                raise unbound(frame)
            return value

    return get


def _global(node: ast.Name, scope: Scope) -> Getter:
    """Return the closure for a name that the program does not bind: imported, built in, or unknown."""
    name = node.id
    if name in scope.imports:
        return _imported(node, scope.imports[name], scope)
    if name in TYPE_NAMES or name in EXCEPTIONS:
        kind = TYPE_NAMES.get(name) or EXCEPTIONS[name]
        return lambda frame: kind
    function = FUNCTIONS.get(name)
    if function is not None:
        return lambda frame: BuiltinFunction(name, function, frame[0])
    if name == "__name__":
        return lambda frame: "__main__"
    message = f"name '{name}' is not defined"

    def fail(frame: Frame) -> Any:
        raise NameError(message)

    return fail


def module_entry(path: str, scope: Scope) -> Any:
    """Return the function or Constant `module.member`, or None."""
    module, _, name = path.rpartition(".")
    added = scope.language.modules.get(module, {}).get(name)
    return added if added is not None else MODULES.get(module, {}).get(name)


def _imported(node: ast.expr, path: str, scope: Scope) -> Getter:
    """Return the closure for `module.member` of an imported module."""
    name = path.rpartition(".")[2]
    if name == path:
        raise Unsupported(node, f"the module {path} is not a value; call one of its functions")
    entry = module_entry(path, scope)
    if entry is None:
        raise Unsupported(node, f"{path} is not supported")
    if isinstance(entry, Constant):
        value = entry.value
        return lambda frame: value
    return lambda frame: BuiltinFunction(name, entry, frame[0])


def module_path(node: ast.expr, scope: Scope) -> str | None:
    """Return `module.member` for an attribute of an imported module, else None."""
    if not isinstance(node, ast.Attribute):
        return None
    module = module_path(node.value, scope)
    if isinstance(node.value, ast.Name) and scope.find(node.value.id) is None:
        module = scope.imports.get(node.value.id)
    # `itertools.chain` is a function, and has functions; `os.path` and `email.utils` are modules.
    is_module = module is not None and ("." not in module or module in {**MODULES, **scope.language.modules})
    return f"{module}.{node.attr}" if is_module else None


# --- members, subscripts, operators ----------------------------------------------------------------


def _attribute(node: ast.Attribute, scope: Scope) -> Getter:
    path = module_path(node, scope)
    if path is not None:
        return _imported(node, path, scope)
    value, name = expression(node.value, scope), node.attr
    scope.language.check_member(node)
    return lambda frame: member(frame[0], value(frame), name)


def _subscript(node: ast.Subscript, scope: Scope) -> Getter:
    value, key = expression(node.value, scope), expression(node.slice, scope)
    return lambda frame: subscript(frame[0], value(frame), key(frame))


def _slice(node: ast.Slice, scope: Scope) -> Getter:
    lower, upper, step = (
        expression(part, scope) if part is not None else _none for part in (node.lower, node.upper, node.step)
    )
    return lambda frame: slice(lower(frame), upper(frame), step(frame))


def _none(frame: Frame) -> None:
    return None


def _binary(node: ast.BinOp, scope: Scope) -> Getter:
    operate = BINARY.get(type(node.op).__name__)
    if operate is None:
        raise Unsupported(node, "the operator @ is not supported")
    left, right = expression(node.left, scope), expression(node.right, scope)
    return lambda frame: operate(frame[0], left(frame), right(frame))


def _unary(node: ast.UnaryOp, scope: Scope) -> Getter:
    operate, operand = UNARY[type(node.op).__name__], expression(node.operand, scope)
    return lambda frame: operate(operand(frame))


def _logical(node: ast.BoolOp, scope: Scope) -> Getter:
    parts = [expression(value, scope) for value in node.values]
    stop_at = isinstance(node.op, ast.Or)

    def run(frame: Frame) -> Any:
        value: Any = None
        for part in parts:
            value = part(frame)
            if bool(value) is stop_at:
                break
        return value

    return run


def _compare(node: ast.Compare, scope: Scope) -> Getter:
    first = expression(node.left, scope)
    links = [
        (COMPARISONS[type(operator).__name__], expression(right, scope))
        for operator, right in zip(node.ops, node.comparators, strict=True)
    ]
    if len(links) == 1:
        compare, second = links[0]
        return lambda frame: compare(frame[0], first(frame), second(frame))

    def chain(frame: Frame) -> Any:
        left, result = first(frame), True
        for compare, get in links:
            right = get(frame)
            result = compare(frame[0], left, right)
            if not result:
                break
            left = right
        return result

    return chain


def _conditional(node: ast.IfExp, scope: Scope) -> Getter:
    test, then, otherwise = (expression(part, scope) for part in (node.test, node.body, node.orelse))
    return lambda frame: then(frame) if test(frame) else otherwise(frame)


def _walrus(node: ast.NamedExpr, scope: Scope) -> Getter:
    value = expression(node.value, scope)
    owner, hops = scope, 0
    while owner.comprehension and owner.parent is not None:
        owner, hops = owner.parent, hops + 1
    place = owner.find(node.target.id)  # in another function if it is declared nonlocal or global
    assert place is not None
    hops, slot = hops + place[0], place[1]

    def run(frame: Frame) -> Any:
        result = value(frame)
        holder = frame
        for _ in range(hops):
            holder = holder[1]
        holder[slot] = result
        return result

    return run


# --- displays and text -----------------------------------------------------------------------------


def _elements(nodes: list[ast.expr], scope: Scope, in_set: bool = False) -> Callable[[Frame], list[Any]]:
    """Return the closure that gives the elements of a display, in a new list."""
    if not any(isinstance(node, ast.Starred) for node in nodes):
        parts = [expression(node, scope) for node in nodes]

        def build(frame: Frame) -> list[Any]:
            stored = frame[0].stored
            return [stored(part(frame)) for part in parts]

        return build
    spread = [
        (isinstance(node, ast.Starred), expression(node.value if isinstance(node, ast.Starred) else node, scope))
        for node in nodes
    ]

    def build_spread(frame: Frame) -> list[Any]:
        items: list[Any] = []
        for is_starred, part in spread:
            if is_starred:
                items.extend(frame[0].collect(part(frame)) if in_set else frame[0].spread(part(frame)))
            else:
                items.append(frame[0].stored(part(frame)))
        return items

    return build_spread


def _list(node: ast.List, scope: Scope) -> Getter:
    return _elements(node.elts, scope)


def _tuple(node: ast.Tuple, scope: Scope) -> Getter:
    build = _elements(node.elts, scope)
    return lambda frame: frame[0].new_tuple(build(frame))


def _set(node: ast.Set, scope: Scope) -> Getter:
    build = _elements(node.elts, scope, in_set=True)
    return lambda frame: frame[0].new_set(build(frame))


def _dict(node: ast.Dict, scope: Scope) -> Getter:
    pairs = [
        (None if key is None else expression(key, scope), expression(value, scope))
        for key, value in zip(node.keys, node.values, strict=True)
    ]

    def build(frame: Frame) -> dict[Any, Any]:
        evaluation: Evaluation = frame[0]
        fields: dict[Any, Any] = {}
        for key, value in pairs:
            if key is None:  # {**other}
                other = value(frame)
                if not isinstance(other, dict):
                    raise TypeError(f"'{type(other).__name__}' object is not a mapping")
                evaluation.reserve(64 * len(other))
                fields.update(other)
            else:
                set_item(evaluation, fields, key(frame), value(frame))
        return fields

    return build


def _joined(node: ast.JoinedStr, scope: Scope) -> Getter:
    parts = [expression(part, scope) for part in node.values]

    def run(frame: Frame) -> str:
        texts = [part(frame) for part in parts]
        length = sum(map(len, texts))
        frame[0].step(1 + length // 4096)
        if length > 100_000:
            frame[0].reserve(length)
        return "".join(texts)

    return run


def _formatted(node: ast.FormattedValue, scope: Scope) -> Getter:
    value = expression(node.value, scope)
    spec = expression(node.format_spec, scope) if node.format_spec is not None else None
    conversion = chr(node.conversion) if node.conversion != -1 else None

    def run(frame: Frame) -> str:
        shown = converted(frame[0], value(frame), conversion)
        return format_value(frame[0], shown, "" if spec is None else spec(frame))

    return run


# --- comprehensions --------------------------------------------------------------------------------


class _Loops:
    """The `for` and `if` clauses of a comprehension."""

    def __init__(self, generators: list[ast.comprehension], scope: Scope) -> None:
        from .scope import bound_names

        for part in generators:
            if part.is_async:
                raise Unsupported(part.target, "async for over a list; write for")
        self.inner = Scope(bound_names([part.target for part in generators]), scope, comprehension=True)
        self.first = expression(generators[0].iter, scope)
        self.levels = [
            (
                None if index == 0 else expression(part.iter, self.inner),
                assign_target(part.target, self.inner),
                [expression(test, self.inner) for test in part.ifs],
            )
            for index, part in enumerate(generators)
        ]

    def each(self, frame: Frame, visit: Callable[[Frame], None]) -> None:
        """Call `visit` with the inner frame for each combination that passes the tests."""
        evaluation: Evaluation = frame[0]
        own = self.inner.new_frame(evaluation, frame, UNBOUND)
        self._level(0, own, evaluation.iterate(self.first(frame)), visit)

    def _level(self, index: int, own: Frame, values: Iterator[Any], visit: Callable[[Frame], None]) -> None:
        _, assign, tests = self.levels[index]
        last = index + 1 == len(self.levels)
        for value in values:
            assign(own, value)
            if all(test(own) for test in tests):
                if last:
                    visit(own)
                else:
                    source = self.levels[index + 1][0]
                    assert source is not None
                    self._level(index + 1, own, own[0].iterate(source(own)), visit)

    def lazily(self, frame: Frame) -> Iterator[Frame]:
        """Return an iterator over the inner frame; the first iterable is evaluated at once, as in Python."""
        evaluation: Evaluation = frame[0]
        own = self.inner.new_frame(evaluation, frame, UNBOUND)
        return self._lazy_level(0, own, evaluation.iterate(self.first(frame)))

    def _lazy_level(self, index: int, own: Frame, values: Iterator[Any]) -> Iterator[Frame]:
        _, assign, tests = self.levels[index]
        last = index + 1 == len(self.levels)
        for value in values:
            assign(own, value)
            if all(test(own) for test in tests):
                if last:
                    yield own
                else:
                    source = self.levels[index + 1][0]
                    assert source is not None
                    yield from self._lazy_level(index + 1, own, own[0].iterate(source(own)))


def _list_comprehension(node: ast.ListComp, scope: Scope) -> Getter:
    loops = _Loops(node.generators, scope)
    element = expression(node.elt, loops.inner)

    def run(frame: Frame) -> list[Any]:
        items: list[Any] = []
        stored = frame[0].stored
        loops.each(frame, lambda own: items.append(stored(element(own))))
        return items

    return run


def _set_comprehension(node: ast.SetComp, scope: Scope) -> Getter:
    loops = _Loops(node.generators, scope)
    element = expression(node.elt, loops.inner)

    def run(frame: Frame) -> set[Any]:
        items: set[Any] = frame[0].new_set()
        stored = frame[0].stored
        loops.each(frame, lambda own: items.add(stored(element(own))))
        return items

    return run


def _dict_comprehension(node: ast.DictComp, scope: Scope) -> Getter:
    loops = _Loops(node.generators, scope)
    key, value = expression(node.key, loops.inner), expression(node.value, loops.inner)

    def run(frame: Frame) -> dict[Any, Any]:
        fields: dict[Any, Any] = {}
        evaluation = frame[0]
        loops.each(frame, lambda own: set_item(evaluation, fields, key(own), value(own)))
        return fields

    return run


def _generator(node: ast.GeneratorExp, scope: Scope) -> Getter:
    loops = _Loops(node.generators, scope)
    element = expression(node.elt, loops.inner)
    return lambda frame: (element(own) for own in loops.lazily(frame))


# --- targets -------------------------------------------------------------------------------------


def assign_target(node: ast.expr, scope: Scope) -> Setter:
    """Return the closure that assigns a value to a target: a name, names, an entry or a member."""
    if isinstance(node, ast.Name):
        place = scope.find(node.id)
        if place is None:
            raise Unsupported(node, f"the name {node.id} belongs to another function")
        hops, slot = place
        if hops:  # declared nonlocal or global
            return _set_outer(hops, slot)

        def set_name(frame: Frame, value: Any) -> None:
            frame[slot] = value

        return set_name
    if isinstance(node, ast.Subscript):
        holder, key = expression(node.value, scope), expression(node.slice, scope)
        return lambda frame, value: set_item(frame[0], holder(frame), key(frame), value)
    if isinstance(node, ast.Attribute):
        scope.language.check_member(node)
        owner, name = expression(node.value, scope), node.attr
        return lambda frame, value: set_member(frame[0], owner(frame), name, value)
    if isinstance(node, (ast.Tuple, ast.List)):
        return _assign_several(node, scope)
    raise Unsupported(node, f"cannot assign to {type(node).__name__}")


def _set_outer(hops: int, slot: int) -> Setter:
    def set_outer(frame: Frame, value: Any) -> None:
        holder = frame
        for _ in range(hops):
            holder = holder[1]
        holder[slot] = value

    return set_outer


def _assign_several(node: ast.Tuple | ast.List, scope: Scope) -> Setter:
    setters = [assign_target(part, scope) for part in targets_of(node)]
    unpack = unpacking(node)

    def assign(frame: Frame, value: Any) -> None:
        for setter, item in zip(setters, unpack(frame, value), strict=True):
            setter(frame, item)

    return assign


def targets_of(node: ast.Tuple | ast.List) -> list[ast.expr]:
    """Return the targets of an unpacking, without stars."""
    return [part.value if isinstance(part, ast.Starred) else part for part in node.elts]


def unpacking(node: ast.Tuple | ast.List) -> Callable[[Frame, Any], list[Any]]:
    """Return the closure that gives the item of a value for each target."""
    starred = next((index for index, part in enumerate(node.elts) if isinstance(part, ast.Starred)), None)
    expected = len(node.elts)

    def unpack(frame: Frame, value: Any) -> list[Any]:
        # Python reads no more of an iterator than it needs.
        items = list(islice(frame[0].parts(value), None if starred is not None else expected + 1))
        if starred is None:
            if len(items) > expected:
                raise ValueError(f"too many values to unpack (expected {expected})")
            if len(items) < expected:
                raise ValueError(f"not enough values to unpack (expected {expected}, got {len(items)})")
        else:
            after = expected - starred - 1
            if len(items) < expected - 1:
                raise ValueError(f"not enough values to unpack (expected at least {expected - 1}, got {len(items)})")
            items = [*items[:starred], items[starred : len(items) - after], *items[len(items) - after :]]
        return items

    return unpack


def _starred(node: ast.Starred, scope: Scope) -> Getter:
    raise Unsupported(node, "a starred value stands only in a list, a call or an assignment")


def _awaited(node: ast.expr, scope: Scope) -> Getter:
    raise Unsupported(node, "await is not allowed in a local function without async")


EXPRESSIONS: Final[dict[type[ast.AST], Callable[[Any, Scope], Getter]]] = {
    ast.Attribute: _attribute,
    ast.Await: _awaited,
    ast.BinOp: _binary,
    ast.BoolOp: _logical,
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.Dict: _dict,
    ast.DictComp: _dict_comprehension,
    ast.FormattedValue: _formatted,
    ast.GeneratorExp: _generator,
    ast.IfExp: _conditional,
    ast.JoinedStr: _joined,
    ast.List: _list,
    ast.ListComp: _list_comprehension,
    ast.Name: _name,
    ast.NamedExpr: _walrus,
    ast.Set: _set,
    ast.SetComp: _set_comprehension,
    ast.Slice: _slice,
    ast.Starred: _starred,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.UnaryOp: _unary,
}
"""Every kind of expression of the language; `calls` adds calls and lambdas."""
