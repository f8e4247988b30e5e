"""Functions of a program: plain, async, generators, and those that call themselves."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from ...expr.python.calls import function_maker
from ...expr.python.evaluation import BuiltinFunction, LocalFunction, Members
from ...expr.python.expressions import EXPRESSIONS, assign_target, expression
from ...expr.python.failures import Closed
from ...expr.python.scope import Frame, Getter, Scope, Unsupported, every_annotation, names_type, parameter_names
from ...expr.python.statements import Run, block
from ...expr.python.values import UNBOUND, Refused
from ..read.names import own_names, own_nodes, suspends, yields
from .futures import Coroutine, EndedEarly, Native, raised
from .machine import run_frames
from .scope import FunctionScope, root_of, store_of
from .statements import suspending_block
from .suspending import Elements, RecursiveFunction, Suspending, Yielded, clauses_of, each, part


def function(node: Any, scope: Scope) -> Run:
    """Compile a `def` or `async def` with its decorators."""
    make = made_function(node, scope)
    decorators = [expression(decorator, scope) for decorator in node.decorator_list]
    annotations = annotation_parts(node, scope)
    bind = assign_target(store_of(node.name, node), scope)

    def run(frame: Frame) -> None:
        wrappers = [get(frame) for get in decorators]
        value = make(frame)
        for get in annotations:
            get(frame)
        for wrapper in reversed(wrappers):
            value = frame[0].call(wrapper, [value], {})
        bind(frame, value)

    return run


def annotation_parts(node: Any, scope: Scope) -> list[Getter]:
    """Return the closures of what annotations compute or read of the program; names of types are for readers."""
    parts: list[ast.expr] = []
    for annotation in every_annotation(node):
        parts += _read_parts(annotation, scope) if names_type(annotation) else [annotation]
    return [expression(part, scope) for part in parts]


def _read_parts(node: ast.expr, scope: Scope) -> list[ast.expr]:
    root: ast.expr = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if isinstance(root, ast.Name) and scope.find(root.id) is not None:
        return [node]
    return [
        part
        for child in ast.iter_child_nodes(node)
        if isinstance(child, ast.expr)
        for part in _read_parts(child, scope)
    ]


def made_function(node: Any, scope: Scope) -> Getter:
    """Return the closure that makes a function value."""
    if any(suspends(default) for default in [*node.args.defaults, *node.args.kw_defaults] if default is not None):
        raise Unsupported(node, "await in a default value is not supported; assign it to a name before the function")
    declared = [name for part in own_nodes(node.body) if isinstance(part, ast.Global) for name in part.names]
    inner = FunctionScope([*parameter_names(node.args), *own_names(node.body)], scope, declared)
    inner.prefix = f"{scope.prefix}{node.name}.<locals>."
    is_async = isinstance(node, ast.AsyncFunctionDef)
    is_generator = yields(node.body)
    if not is_async and not is_generator and not any(suspends(part) for part in node.body):
        run_plain = block(node.body, inner)

        def result(own: Frame) -> Any:
            leave = run_plain(own)
            return leave.value if leave is not None else None

        return function_maker(node.name, node.args, scope, inner, result)
    if not is_async:
        _refuse_await(node)
    if is_async and is_generator and not getattr(node, "is_closed", False):
        _refuse_guarded_yield(node)
    kind_name = ("async " if is_async else "") + "generator" if is_generator else "coroutine" if is_async else ""
    body = _body(suspending_block(node.body, inner), kind_name)
    if is_generator:
        kind = AsyncGenerator if is_async else Generator
        return function_maker(
            node.name, node.args, scope, inner, lambda own: kind(node.name, lambda: body(own), own[0])
        )
    if is_async:
        make = function_maker(
            node.name, node.args, scope, inner, lambda own: Coroutine(node.name, lambda: body(own), is_local=True)
        )
        return lambda frame: AsyncFunction(node.name, make(frame).invoke, frame[0])
    return _recursive(node, scope, inner, body)


class AsyncFunction(LocalFunction):
    """A function whose calls are awaited."""

    __slots__ = ()


AsyncFunction.__name__ = "function"


def _refuse_await(node: ast.FunctionDef) -> None:
    for item in own_nodes(node.body):
        if isinstance(item, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            raise Unsupported(item, f"await is only allowed in an async function; write async def {node.name}")


def _refuse_guarded_yield(node: ast.AsyncFunctionDef) -> None:
    """Refuse `yield` under a `finally` or `with`, which Python leaves at a time of its own when a loop ends early."""
    for item in own_nodes(node.body):
        if not isinstance(item, (ast.With, ast.AsyncWith, ast.Try)) or not yields(item.body):
            continue
        if not isinstance(item, ast.Try) or item.finalbody:
            raise Unsupported(item, "yield in with, or in try with finally, of an async generator; return a list")


def _body(run: Suspending, kind: str) -> Any:
    async def body(own: Frame) -> Any:
        try:
            leave = await run(own)
        except RuntimeError as error:
            if kind and isinstance(raised(error), StopIteration):
                raise EndedEarly(f"{kind} raised StopIteration") from error.__cause__
            raise
        return leave.value if leave is not None else None

    return body


def _recursive(node: ast.FunctionDef, scope: Scope, inner: Scope, body: Any) -> Getter:
    """Compile a plain function that suspends inside: called from outside, it runs on a list of frames of its own."""
    make = function_maker(node.name, node.args, scope, inner, body)
    root_of(scope).recursive.add(node.name)

    def made(frame: Frame) -> LocalFunction:
        plain = make(frame)

        def invoke(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            return drive(plain.invoke(arguments, keywords))

        return RecursiveFunction(node.name, invoke, frame[0], plain.invoke)

    return made


def drive(coroutine: Native) -> Any:
    """Run a coroutine of the closures that never waits for the host, and return its result."""
    frames = [coroutine]
    try:
        run_frames(frames)
    except StopIteration as end:
        return end.value
    except RuntimeError as error:
        raise raised(error) from None
    finally:
        while frames:
            frames.pop().close()
    raise Refused("a plain function cannot wait; write async def and await")


class Generator(Members):
    """A generator of the program: its own list of frames, which run up to each `yield`."""

    __slots__ = ("_evaluation", "_frames", "_start", "name")

    def __init__(self, name: str, start: Callable[[], Native], evaluation: Any) -> None:
        self.name, self._evaluation = name, evaluation
        self._start: Callable[[], Native] | None = start
        self._frames: list[Native] = []

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Continue after the `yield`, which gives this value."""
        return self._continue(value, None)

    def throw(self, error: Any) -> Any:
        """Raise an exception at the `yield`."""
        return self._continue(None, error() if isinstance(error, type) else error)

    def _continue(self, value: Any, error: BaseException | None) -> Any:
        if not self._has_frames():
            if error is not None:
                raise error
            raise StopIteration
        evaluation = self._evaluation
        evaluation.step()
        line = evaluation.line
        yielded = _run_to_yield(self._frames, value, error)
        evaluation.line = line
        if type(yielded) is not Yielded:
            raise Refused("a generator that is not async cannot wait")
        return yielded.value

    def _has_frames(self) -> bool:
        """Return False after the end; the first time, make the frame."""
        if self._start is not None:
            self._frames.append(self._start())
            self._start = None
        return bool(self._frames)

    def close(self) -> None:
        """End the generator."""
        self._start = None
        while self._frames:
            self._frames.pop().close()

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return a method as a function value."""
        if name not in ("send", "throw", "close"):
            raise AttributeError(f"'generator' object has no attribute '{name}'")
        method = getattr(self, name)
        return BuiltinFunction(name, lambda evaluation, *values: method(*values), evaluation)

    def __repr__(self) -> str:
        return f"<generator object {self.name}>"


def _run_to_yield(frames: list[Native], value: Any, error: BaseException | None) -> Any:
    """Run frames until one yields; the value of the last `yield` is `value`."""
    if value is None:
        return run_frames(frames, error)
    return frames[-1].send(value)


class AsyncGenerator(Generator):
    """An async generator: what it waits for, its task waits for."""

    __slots__ = ()

    async def next_value(self, end: Any, value: Any = None, error: BaseException | None = None) -> Any:
        """Return the next value, or `end`; the `yield` where it stands gives a value or raises an exception."""
        if not self._has_frames():
            if error is not None and not isinstance(error, Closed):
                raise error
            return end
        coroutine, sent = self._frames[0], value
        while True:
            try:
                yielded = coroutine.send(sent) if error is None else coroutine.throw(error)
            except StopIteration:
                self._frames.clear()
                return end
            except BaseException:
                self._frames.clear()
                raise
            if type(yielded) is Yielded:
                return yielded.value
            sent = error = None
            try:
                sent = await Passed(yielded)
            except BaseException as failure:  # noqa: BLE001 - the generator handles it, or not
                error = failure

    async def _next(self, value: Any = None, error: Any = None) -> Any:
        found = await self.next_value(self, value, error() if isinstance(error, type) else error)
        if found is self:
            raise StopAsyncIteration
        return found

    async def _close(self) -> None:
        try:
            if self._start is None and await self.next_value(self, None, Closed()) is not self:
                raise RuntimeError("async generator ignored GeneratorExit")
        except Closed:
            pass
        self._start = None

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return a method as a function value."""
        runs: dict[str, Any] = {"__anext__": self._next, "aclose": self._close, "asend": self._next}
        runs["athrow"] = lambda error: self._next(None, error)
        if name not in runs:
            raise AttributeError(f"'async_generator' object has no attribute '{name}'")
        return BuiltinFunction(
            name, lambda evaluation, *values: Coroutine(name, lambda: runs[name](*values)), evaluation
        )

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("'async_generator' object is not iterable")

    def __next__(self) -> Any:
        raise TypeError("'async_generator' object is not an iterator")

    def __repr__(self) -> str:
        return f"<async_generator object {self.name}>"


def generator_expression(node: ast.GeneratorExp, scope: Scope) -> Getter:
    """Compile a generator expression; one that awaits gives an async generator."""
    clauses_wait = [suspends(clause) for clause in node.generators]
    clauses_wait[0] = bool(node.generators[0].is_async) or any(map(suspends, _parts_after_first(node.generators[0])))
    if not suspends(node.elt) and not any(clauses_wait):
        return EXPRESSIONS[ast.GeneratorExp](node, scope)
    inner, clauses = clauses_of(node, scope)
    waits, element = part(node.elt, inner)

    def make(frame: Frame) -> AsyncGenerator:
        own = inner.new_frame(frame[0], frame, UNBOUND)
        values = Elements(frame[0], clauses[0].source(frame), clauses[0].is_async)

        async def visit() -> None:
            await Yielded(await element(own) if waits else element(own))

        return AsyncGenerator("<genexpr>", lambda: each(clauses, 0, own, values, visit), frame[0])

    return make


def _parts_after_first(clause: ast.comprehension) -> list[ast.expr]:
    return [clause.target, *clause.ifs]


Generator.__name__, AsyncGenerator.__name__ = "generator", "async_generator"  # as messages name them


class Passed:
    """Yields to the task what an async generator waits for."""

    __slots__ = ("awaited",)

    def __init__(self, awaited: Any) -> None:
        self.awaited = awaited

    def __await__(self) -> Any:
        return (yield self.awaited)
