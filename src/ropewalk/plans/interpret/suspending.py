"""Expressions that suspend: `await`, `yield`, and whatever holds one.

A strict node evaluates its parts up to the last one that suspends, in Python's order, into hidden slots; then the
ordinary closure of the node runs, whose parts are now names. Nodes that are not strict have closures of their own.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, TypeAlias

from ...expr.python.evaluation import LocalFunction, Members
from ...expr.python.expressions import assign_target, expression, module_path, targets_of, unpacking
from ...expr.python.failures import RAISED
from ...expr.python.method_table import method_of
from ...expr.python.operations import COMPARISONS, member, set_item
from ...expr.python.scope import Frame, Scope, bound_names, every_annotation, names_type
from ...expr.python.values import UNBOUND
from ..read.names import set_suspends, suspends
from .calls import StepCoroutine, is_module_function, is_recorded_value, tool_name
from .futures import Coroutine, Enter, Future
from .scope import hidden_slot, load_of

Suspending: TypeAlias = Callable[[Frame], Awaitable[Any]]
Part: TypeAlias = tuple[bool, Callable[[Frame], Any]]
"""Whether a closure suspends, and the closure."""


class Yielded:
    """Yielded by the closures of a generator: the value of its `yield`."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self)


def part(node: ast.expr, scope: Scope) -> Part:
    """Return the closure of an expression that may suspend, and whether it does."""
    return (True, suspending(node, scope)) if suspends(node) else (False, expression(node, scope))


def suspending(node: ast.expr, scope: Scope) -> Suspending:
    """Return the closure of an expression that suspends."""
    special = SPECIAL.get(type(node))
    made = special(node, scope) if special is not None else None
    if made is not None:
        return made
    before = Parts(scope)
    return before.then(expression(before.replaced(node), scope))


class Parts:
    """The parts of a node that are evaluated before it, into hidden slots."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._steps: list[Part] = []

    def then(self, final: Callable[[Frame], Any]) -> Suspending:
        """Return the closure that evaluates the parts and then the node itself."""
        steps = self._steps

        async def run(frame: Frame) -> Any:
            for waits, fill in steps:
                if waits:
                    await fill(frame)
                else:
                    fill(frame)
            return final(frame)

        return run

    def put(self, node: ast.expr) -> ast.expr:
        """Evaluate a node into a hidden slot, and return the node that reads the slot."""
        name, slot = hidden_slot(self.scope)
        waits, get = part(node, self.scope)
        if waits:

            async def fill_later(frame: Frame) -> None:
                frame[slot] = await get(frame)

            self._steps.append((True, fill_later))
        else:

            def fill(frame: Frame) -> None:
                frame[slot] = get(frame)

            self._steps.append((False, fill))
        return load_of(name, node)

    def replaced(self, node: Any, later: bool = False) -> Any:
        """Return a copy of a node whose parts up to the last that suspends are slots."""
        # node: The node.
        # later: Whether something after the node suspends, so that all its parts are taken now.
        new = set_suspends(copy.copy(node), False)
        if isinstance(node, ast.Call):
            return self._call(node, new, later)
        if isinstance(node, ast.Lambda):
            return self.with_first_values(new)
        if isinstance(node, ast.Dict):
            return self._dict(node, new, later)
        fields = [(name, value) for name, value in ast.iter_fields(node) if _holds_parts(value)]
        flat = [item for _, value in fields for item in (value if isinstance(value, list) else [value])]
        parts = self._series(flat, later)
        for name, value in fields:
            count = len(value) if isinstance(value, list) else 1
            setattr(new, name, parts[:count] if isinstance(value, list) else parts[0])
            parts = parts[count:]
        return new

    def with_first_values(self, function: Any) -> Any:
        """Take the default values of a copied function, and the annotations that compute or read, and return it."""
        computed = [
            annotation
            for annotation in every_annotation(function)
            if not names_type(annotation)
            or (isinstance(annotation, ast.Name) and self.scope.find(annotation.id) is not None)
        ]
        parameters = function.args = copy.copy(function.args)
        parameters.defaults = [self.put(default) for default in parameters.defaults]
        parameters.kw_defaults = [None if item is None else self.put(item) for item in parameters.kw_defaults]

        def taken(row: Any, field: str = "annotation") -> Any:
            if row is None or getattr(row, field, None) not in computed:
                return row
            row = row if row is function else copy.copy(row)
            setattr(row, field, self.put(getattr(row, field)))
            return row

        for name in ("args", "posonlyargs"):
            setattr(parameters, name, [taken(row) for row in getattr(parameters, name)])
        parameters.vararg = taken(parameters.vararg)
        parameters.kwonlyargs = [taken(row) for row in parameters.kwonlyargs]
        parameters.kwarg = taken(parameters.kwarg)
        return taken(function, "returns")

    def _series(self, nodes: list[Any], later: bool) -> list[Any]:
        last = max((index for index, node in enumerate(nodes) if node is not None and suspends(node)), default=-1)
        return [self._taken(node, later or index < last) for index, node in enumerate(nodes)]

    def _taken(self, node: Any, later: bool) -> Any:
        if node is None or isinstance(node, ast.Constant) or not (suspends(node) or later):
            return node
        # Starred and formatted parts left of an await are copied at once, as Python does.
        if later and isinstance(node, ast.Starred):
            spread = ast.copy_location(ast.Tuple([node], ast.Load()), node)
            return ast.copy_location(ast.Starred(self.put(spread), ast.Load()), node)
        if later and isinstance(node, ast.keyword) and node.arg is None:
            copied = ast.copy_location(ast.Dict([None], [node.value]), node)
            return ast.copy_location(ast.keyword(None, self.put(copied)), node)
        if later and isinstance(node, ast.FormattedValue):
            text = ast.copy_location(ast.JoinedStr([node]), node)
            return ast.copy_location(ast.FormattedValue(self.put(text), -1, None), node)
        if isinstance(node, (ast.Starred, ast.keyword, ast.FormattedValue, ast.JoinedStr, ast.Slice)):
            return self.replaced(node, later)
        return self.put(node)

    def _dict(self, node: ast.Dict, new: ast.Dict, later: bool) -> ast.Dict:
        flat: list[Any] = []
        for key, value in zip(node.keys, node.values, strict=True):
            flat += [None, ast.copy_location(ast.keyword(None, value), value)] if key is None else [key, value]
        taken = self._series(flat, later)
        new.keys = taken[::2]
        new.values = [item.value if isinstance(item, ast.keyword) else item for item in taken[1::2]]
        return new

    def _call(self, node: ast.Call, new: ast.Call, later: bool) -> ast.Call:
        parts: list[Any] = [*node.args, *node.keywords]
        function = node.func
        if isinstance(function, ast.Attribute):
            if not _is_known_function(function, self.scope):
                new.func = self._method(function)
        elif not isinstance(function, ast.Name) or self.scope.find(function.id) is not None:
            new.func = self._taken(function, later or any(suspends(item) for item in parts))
        if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
            # Python spreads the only argument in the call itself, after the keywords.
            only = self._taken(node.args[0].value, later or any(map(suspends, node.keywords)))
            new.args = [ast.copy_location(ast.Starred(only, ast.Load()), node.args[0])]
            new.keywords = self._series(node.keywords, later)
            return new
        taken = self._series(parts, later)
        new.args, new.keywords = taken[: len(node.args)], taken[len(node.args) :]
        return new

    def _method(self, function: ast.Attribute) -> ast.expr:
        """Take the holder of a method, and look the method up before the arguments, as Python does."""
        holder = self._taken(function.value, True)
        get, name = expression(holder, self.scope), function.attr

        def look(frame: Frame) -> None:
            value = get(frame)
            if isinstance(value, (type, Members)) or method_of(type(value), name) is None:
                member(frame[0], value, name)

        self._steps.append((False, look))
        return ast.copy_location(ast.Attribute(holder, name, ast.Load()), function)


def target_part(node: ast.expr, scope: Scope) -> tuple[bool, Callable[[Frame, Any], Any]]:
    """Return the closure that assigns a value to a target that may suspend, and whether it does."""
    if not suspends(node):
        return False, assign_target(node, scope)
    if isinstance(node, (ast.Tuple, ast.List)):
        unpack, parts = unpacking(node), [target_part(item, scope) for item in targets_of(node)]

        async def assign_each(frame: Frame, value: Any) -> None:
            for (waits, assign), item in zip(parts, unpack(frame, value), strict=True):
                if waits:
                    await assign(frame, item)
                else:
                    assign(frame, item)

        return True, assign_each
    before = Parts(scope)
    assign_to = assign_target(before.replaced(node), scope)
    evaluate = before.then(lambda frame: None)

    async def assign_later(frame: Frame, value: Any) -> None:
        await evaluate(frame)
        assign_to(frame, value)

    return True, assign_later


def _holds_parts(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and isinstance(value[0], (ast.expr, ast.keyword))
    return isinstance(value, ast.AST) and not isinstance(
        value, (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
    )


def _is_known_function(node: ast.Attribute, scope: Scope) -> bool:
    if tool_name(node, scope) is not None or module_path(node, scope) is not None:
        return True
    inner = node.value
    return isinstance(inner, ast.Attribute) and module_path(inner, scope) is not None


# --- await -----------------------------------------------------------------------------------------


def _await(node: ast.Await, scope: Scope) -> Suspending:
    waits, get = part(node.value, scope)
    is_read = not getattr(node, "unread", False)

    async def run(frame: Frame) -> Any:
        value = await get(frame) if waits else get(frame)
        if not is_read and isinstance(value, StepCoroutine):
            value.is_read = False
        return await result_of(frame[0], value)

    return run


async def result_of(evaluation: Any, value: Any) -> Any:
    """Wait for an awaitable of the program, and return its result."""
    if isinstance(value, Future):
        return await value
    if not isinstance(value, Coroutine):
        raise TypeError(f"object {type(value).__name__} can't be used in 'await' expression")
    line = evaluation.line
    result = await (Enter(value.start()) if value.is_local else value.start())
    evaluation.line = line
    return result


def _call(node: ast.Call, scope: Scope) -> Suspending | None:
    """Compile the call of a function that calls itself: it enters a frame of the task in place of Python's stack."""
    if is_recorded_value(node, scope):
        if getattr(node, "is_awaited", False):
            return None
        read = set_suspends(copy.copy(node), any(map(suspends, node.args)))
        read.is_awaited = True
        return _await(ast.copy_location(ast.Await(read), node), scope)
    if is_module_function(node.func, scope, "asyncio.run"):
        return _await(ast.copy_location(ast.Await(node.args[0]), node), scope) if node.args else None
    if not isinstance(node.func, ast.Name) or not getattr(node, "_suspends", False):
        return None
    from ...expr.python.calls import _arguments

    before = Parts(scope)
    new = before.replaced(node)
    function, arguments = expression(new.func, scope), _arguments(new, scope)
    prepare = before.then(lambda frame: (function(frame), *arguments(frame)))

    async def run(frame: Frame) -> Any:
        called, values, keywords = await prepare(frame)
        begin = getattr(called, "begin", None)
        if begin is None:
            return frame[0].call(called, values, keywords)
        line = frame[0].line
        frame[0].step()
        result = await Enter(begin(tuple(values), keywords))
        frame[0].line = line
        return result

    return run


class RecursiveFunction(LocalFunction):
    """A function that calls itself; `begin` gives the coroutine of one call."""

    __slots__ = ("begin",)

    def __init__(self, name: str, invoke: Callable[..., Any], evaluation: Any, begin: Callable[..., Any]) -> None:
        super().__init__(name, invoke, evaluation)
        self.begin = begin


RecursiveFunction.__name__ = "function"


# --- what is not strict ----------------------------------------------------------------------------


def _logical(node: ast.BoolOp, scope: Scope) -> Suspending:
    parts = [part(value, scope) for value in node.values]
    stop_at = isinstance(node.op, ast.Or)

    async def run(frame: Frame) -> Any:
        value: Any = None
        for waits, get in parts:
            value = await get(frame) if waits else get(frame)
            if bool(value) is stop_at:
                break
        return value

    return run


def _conditional(node: ast.IfExp, scope: Scope) -> Suspending:
    (test_waits, test), then, otherwise = (part(item, scope) for item in (node.test, node.body, node.orelse))

    async def run(frame: Frame) -> Any:
        waits, get = then if (await test(frame) if test_waits else test(frame)) else otherwise
        return await get(frame) if waits else get(frame)

    return run


def _compare(node: ast.Compare, scope: Scope) -> Suspending | None:
    if len(node.ops) == 1:
        return None
    first_waits, first = part(node.left, scope)
    links = [
        (COMPARISONS[type(operator).__name__], *part(right, scope))
        for operator, right in zip(node.ops, node.comparators, strict=True)
    ]

    async def run(frame: Frame) -> Any:
        left, result = await first(frame) if first_waits else first(frame), True
        for compare, waits, get in links:
            right = await get(frame) if waits else get(frame)
            result = compare(frame[0], left, right)
            if not result:
                break
            left = right
        return result

    return run


def _walrus(node: ast.NamedExpr, scope: Scope) -> Suspending:
    before = Parts(scope)
    value = before.put(node.value)
    return before.then(expression(ast.copy_location(ast.NamedExpr(node.target, value), node), scope))


def _yield(node: ast.Yield, scope: Scope) -> Suspending:
    waits, get = part(node.value or ast.Constant(None), scope)

    async def run(frame: Frame) -> Any:
        return await Yielded(await get(frame) if waits else get(frame))

    return run


def _yield_from(node: ast.YieldFrom, scope: Scope) -> Suspending:
    waits, get = part(node.value, scope)

    async def run(frame: Frame) -> Any:
        source = await get(frame) if waits else get(frame)
        iterator: Any = frame[0].iterate(source) if not hasattr(source, "send") else source
        sent, error = None, None
        while True:
            try:
                if error is not None:
                    value = iterator.throw(error)
                else:
                    value = iterator.send(sent) if hasattr(iterator, "send") and sent is not None else next(iterator)
            except StopIteration as end:
                return end.value
            sent, error = None, None
            try:
                sent = await Yielded(value)
            except GeneratorExit:
                if hasattr(iterator, "close"):
                    iterator.close()
                raise
            except RAISED as thrown:
                if not hasattr(iterator, "throw"):
                    raise
                error = thrown

    return run


# --- comprehensions --------------------------------------------------------------------------------


def _comprehension(node: Any, scope: Scope) -> Suspending:
    inner, clauses = clauses_of(node, scope)
    parts = [part(item, inner) for item in ([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])]
    kind = type(node)

    async def run(frame: Frame) -> Any:
        evaluation = frame[0]
        own = inner.new_frame(evaluation, frame, UNBOUND)
        made: Any = [] if kind is ast.ListComp else {} if kind is ast.DictComp else evaluation.new_set()

        async def visit() -> None:
            values = [await get(own) if waits else get(own) for waits, get in parts]
            if kind is ast.ListComp:
                made.append(evaluation.stored(values[0]))
            elif kind is ast.SetComp:
                made.add(evaluation.stored(values[0]))
            else:
                set_item(evaluation, made, *values)

        source = await clauses[0].source(frame) if clauses[0].waits else clauses[0].source(frame)
        await each(clauses, 0, own, Elements(evaluation, source, clauses[0].is_async), visit)
        return made

    return run


def clauses_of(node: Any, scope: Scope) -> tuple[Scope, list[Clause]]:
    """Return the scope of a comprehension, and its `for` clauses."""
    inner = Scope(bound_names([clause.target for clause in node.generators]), scope, comprehension=True)
    return inner, [Clause(clause, inner if index else scope, inner) for index, clause in enumerate(node.generators)]


class Clause:
    """One `for` with its `if`s."""

    def __init__(self, clause: ast.comprehension, outer: Scope, inner: Scope) -> None:
        self.waits, self.source = part(clause.iter, outer)
        self.assign_waits, self.assign = target_part(clause.target, inner)
        self.tests = [part(test, inner) for test in clause.ifs]
        self.is_async = bool(clause.is_async)


async def each(
    clauses: list[Clause], index: int, own: Frame, values: Elements, visit: Callable[[], Awaitable[None]]
) -> None:
    """Await `visit` for each combination of the values of the clauses that passes their tests."""
    clause = clauses[index]
    while True:
        value = await values.next()
        if value is END:
            return
        if clause.assign_waits:
            await clause.assign(own, value)
        else:
            clause.assign(own, value)
        for waits, test in clause.tests:
            if not (await test(own) if waits else test(own)):
                break
        else:
            if index + 1 == len(clauses):
                await visit()
            else:
                inner = clauses[index + 1]
                source = await inner.source(own) if inner.waits else inner.source(own)
                await each(clauses, index + 1, own, Elements(own[0], source, inner.is_async), visit)


END: Final = object()


class _Own:
    """The values of an object of the program with `__anext__`."""

    def __init__(self, evaluation: Any, source: Any) -> None:
        self._evaluation, self._source = evaluation, source

    async def next_value(self, end: Any) -> Any:
        """Return the next value, or `end`."""
        try:
            call = self._source.get_member(self._evaluation, "__anext__")
            return await result_of(self._evaluation, self._evaluation.call(call, [], {}))
        except StopAsyncIteration:
            return end


def _async_values(evaluation: Any, source: Any) -> Any:
    if isinstance(source, Members) and not hasattr(source, "next_value"):
        try:
            source = evaluation.call(source.get_member(evaluation, "__aiter__"), [], {})
        except AttributeError:
            kind = type(source).__name__
            raise TypeError(f"'async for' requires an object with __aiter__ method, got {kind}") from None
        return source if hasattr(source, "next_value") else _Own(evaluation, source)
    if not hasattr(source, "next_value"):
        raise TypeError(f"'async for' requires an object with __aiter__ method, got {type(source).__name__}")
    return source


class Elements:
    """The values of a `for` or an `async for`."""

    __slots__ = ("_iterator", "_source")

    def __init__(self, evaluation: Any, source: Any, is_async: bool) -> None:
        self._source = _async_values(evaluation, source) if is_async else None
        self._iterator = None if is_async else evaluation.iterate(source)

    async def next(self) -> Any:
        """Return the next value, or END."""
        if self._iterator is not None:
            return next(self._iterator, END)
        assert self._source is not None
        return await self._source.next_value(END)


def _generator(node: ast.GeneratorExp, scope: Scope) -> Suspending:
    """Compile a generator expression whose first iterable awaits."""
    before = Parts(scope)
    new, first = set_suspends(copy.copy(node), False), copy.copy(node.generators[0])
    first.iter = before.put(first.iter)
    new.generators = [set_suspends(first, False), *node.generators[1:]]
    return before.then(expression(new, scope))


SPECIAL: Final[dict[type[ast.AST], Callable[[Any, Scope], Suspending | None]]] = {
    ast.Await: _await,
    ast.BoolOp: _logical,
    ast.Call: _call,
    ast.Compare: _compare,
    ast.DictComp: _comprehension,
    ast.GeneratorExp: _generator,
    ast.IfExp: _conditional,
    ast.ListComp: _comprehension,
    ast.NamedExpr: _walrus,
    ast.SetComp: _comprehension,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}
"""The expressions with a closure of their own; all others are strict. None from one means strict."""
