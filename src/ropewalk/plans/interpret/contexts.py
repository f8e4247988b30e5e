"""The context managers of `contextlib`, and stacks of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...expr.python.evaluation import UNCATCHABLE, BuiltinFunction, Members
from ...expr.python.failures import RAISED, is_instance, kind_of
from .functions import AsyncGenerator, Generator, drive
from .shared import Shared
from .statements import context_of
from .suspending import END, result_of

Leave = Callable[[BaseException | None], Any]
"""Leaves a block, which raised this exception; what it returns is awaited, and true if the exception ends there."""


class Manager(Members):
    """A context manager made of two coroutine functions."""

    __slots__ = ("_enter", "_kinds", "_leave")

    def __init__(self, enter: Callable[[], Any], leave: Leave, *kinds: bool) -> None:
        self._enter, self._leave, self._kinds = enter, leave, kinds

    @staticmethod
    def named(name: str) -> type[Manager]:
        """Return the class that has a name in messages."""
        made: type[Manager] = type(name, (Manager,), {"__slots__": ()})
        return made

    def context(self, evaluation: Any, is_async: bool) -> tuple[Any, Any]:
        """Return the functions that enter and leave a `with` block."""
        return (self._enter, self._leave) if is_async in self._kinds else super().context(evaluation, is_async)


_Suppress, _Null = Manager.named("suppress"), Manager.named("nullcontext")
_Closing, _Generated = Manager.named("closing"), Manager.named("_GeneratorContextManager")


def suppress(evaluation: Any, *kinds: Any) -> Manager:
    """Return a manager that ends exceptions of these classes."""

    async def enter() -> None:
        return None

    async def leave(error: BaseException | None) -> bool:
        return error is not None and is_instance(error, kinds)

    return _Suppress(enter, leave, False)


def nullcontext(evaluation: Any, enter_result: Any = None) -> Manager:
    """Return a manager that does nothing."""

    async def enter() -> Any:
        return enter_result

    async def leave(error: BaseException | None) -> None:
        return None

    return _Null(enter, leave, False, True)


def closing(is_async: bool) -> Callable[..., Manager]:
    """Return `closing` or `aclosing`."""

    def make(evaluation: Any, thing: Any) -> Manager:
        async def enter() -> Any:
            return thing

        async def leave(error: BaseException | None) -> None:
            ended = evaluation.call(thing.get_member(evaluation, "aclose" if is_async else "close"), [], {})
            if is_async:
                await result_of(evaluation, ended)

        return _Closing(enter, leave, is_async)

    return make


def contextmanager(is_async: bool) -> Callable[..., Any]:
    """Return the decorator `contextmanager` or `asynccontextmanager`."""

    def decorate(evaluation: Any, function: Any) -> BuiltinFunction:
        def make(evaluation: Any, *values: Any, **named: Any) -> Manager:
            generator = evaluation.call(function, [*values], named)
            if not isinstance(generator, AsyncGenerator if is_async else Generator):
                raise TypeError(f"{function.__name__}() must be a generator function")
            return _generated(generator, is_async)

        return BuiltinFunction(function.__name__, make, evaluation, __wrapped__=function)

    return decorate


def _generated(generator: Any, is_async: bool) -> Manager:
    async def next_value(error: BaseException | None = None) -> Any:
        if is_async:
            return await generator.next_value(END, None, error)
        try:
            return generator.throw(error) if error is not None else next(generator)
        except StopIteration:
            return END

    async def enter() -> Any:
        value = await next_value()
        if value is END:
            raise RuntimeError("generator didn't yield")
        return value

    async def leave(error: BaseException | None) -> bool:
        try:
            value = await next_value(error)
        except UNCATCHABLE:
            raise
        except RAISED as raised:
            if raised is error:
                return False
            raise
        if value is not END:
            raise RuntimeError("generator didn't stop" + ("" if error is None else " after throw()"))
        return error is not None

    return _Generated(enter, leave, is_async)


class Stack(Shared):
    """`ExitStack` and `AsyncExitStack`."""

    functions: tuple[str, ...] = ("callback", "close", "enter_context", "pop_all", "push")

    def __init__(self, evaluation: Any, is_async: bool) -> None:
        self._evaluation, self.is_async = evaluation, is_async
        self._leaves: list[Leave] = []

    async def enter(self) -> Any:
        """Return the stack itself."""
        return self

    async def leave(self, error: BaseException | None) -> bool:
        """Leave what was entered, the last one first; each sees the exception of the one before."""
        pending = error
        while self._leaves:
            try:
                if await self._leaves.pop()(pending):
                    pending = None
            except UNCATCHABLE:
                raise
            except RAISED as raised:
                pending = raised
        if pending is not None and pending is not error:
            raise pending
        return error is not None and pending is None

    def enter_context(self, manager: Any) -> Any:
        """Enter a manager, and leave it with the stack."""
        enter, leave = context_of(self._evaluation, manager, False)
        value = drive(enter())
        self._add(leave)
        return value

    def push(self, exit: Any) -> Any:
        """Leave a manager, or call a function with the exception, with the stack."""

        async def call(error: BaseException | None) -> Any:
            return self._evaluation.call(exit, [None if error is None else kind_of(error), error, None], {})

        self._add(call if callable(exit) else context_of(self._evaluation, exit, False)[1])
        return exit

    def callback(self, function: Any, /, *values: Any, **named: Any) -> Any:
        """Call a function at the end of the stack."""

        async def call(error: BaseException | None) -> None:
            self._evaluation.call(function, [*values], named)

        self._add(call)
        return function

    def pop_all(self) -> Stack:
        """Move everything to another stack."""
        other = type(self)(self._evaluation, bool(self.is_async))
        other._leaves, self._leaves = self._leaves, []
        return other

    def close(self) -> None:
        """Leave everything now."""
        drive(self.leave(None))

    def _add(self, leave: Leave) -> None:
        self._leaves.append(self._evaluation.stored(leave))


class AsyncStack(Stack):
    """`AsyncExitStack`."""

    functions = ("callback", "enter_context", "pop_all", "push", "push_async_callback", "push_async_exit")
    coroutines = ("aclose", "enter_async_context")

    async def enter_async_context(self, manager: Any) -> Any:
        """Enter an asynchronous manager, and leave it with the stack."""
        enter, leave = context_of(self._evaluation, manager, True)
        value = await enter()
        self._add(leave)
        return value

    def push_async_exit(self, manager: Any) -> Any:
        """Leave an asynchronous manager with the stack."""
        self._add(context_of(self._evaluation, manager, True)[1])
        return manager

    def push_async_callback(self, function: Any, /, *values: Any, **named: Any) -> Any:
        """Await the call of a function at the end of the stack."""

        async def call(error: BaseException | None) -> None:
            await result_of(self._evaluation, self._evaluation.call(function, [*values], named))

        self._add(call)
        return function

    async def aclose(self) -> None:
        """Leave everything now."""
        await self.leave(None)


CONTEXTS: Final[dict[str, Any]] = {
    "AsyncExitStack": lambda evaluation: AsyncStack(evaluation, True),
    "ExitStack": lambda evaluation: Stack(evaluation, False),
    "aclosing": closing(True),
    "asynccontextmanager": contextmanager(True),
    "closing": closing(False),
    "contextmanager": contextmanager(False),
    "nullcontext": nullcontext,
    "suppress": suppress,
}
"""The functions of the module."""
