"""Futures, steps that the host performs, and the coroutines of a program: tasks wait for them.

Futures, tasks and their cancellation have the order of asyncio: callbacks run in the next turn of the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from collections.abc import Coroutine as NativeCoroutine
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from ...expr.python.evaluation import BuiltinFunction, Members
from ...expr.python.failures import CancelledError

if TYPE_CHECKING:
    from .machine import Machine

Native: TypeAlias = NativeCoroutine[Any, Any, Any]
"""A coroutine of the closures, as Python's own."""


class InvalidStateError(Exception):
    """The result of a future was read before it was there."""


class Enter:
    """Yielded to a task: continue with this coroutine, and give its result to the one that yielded it."""

    __slots__ = ("coroutine",)

    def __init__(self, coroutine: Native) -> None:
        self.coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self)


class Turn:
    """Yielded to a task: continue in the next turn."""

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield None)


class Coroutine(Members):
    """The result of calling an async function: it begins when it is awaited, and can be awaited once."""

    __slots__ = ("_start", "is_local", "name")

    def __init__(self, name: str, start: Callable[[], Native], is_local: bool = False) -> None:
        self.name, self._start, self.is_local = name, start, is_local

    def start(self) -> Native:
        """Return the coroutine of the closures."""
        # Raises RuntimeError the second time.
        start, self._start = self._start, _used
        return start()

    def __repr__(self) -> str:
        return f"<coroutine object {self.name}>"


Coroutine.__name__ = "coroutine"  # as messages name it


def raised(error: BaseException) -> BaseException:
    """Return what the program raised: Python makes RuntimeError of a StopIteration where a closure ends."""
    cause = error.__cause__
    is_made = type(error) is RuntimeError and error.args == ("coroutine raised StopIteration",)
    return cause if is_made and isinstance(cause, StopIteration) else error


class EndedEarly(RuntimeError):
    """A coroutine or generator of the program raised StopIteration, which is a RuntimeError for its caller."""


EndedEarly.__name__ = "RuntimeError"


def _used() -> Native:
    raise RuntimeError("cannot reuse already awaited coroutine")


class Future(Members):
    """A result that comes later."""

    # Each waiting task is woken in the next turn.

    __slots__ = ("_callbacks", "_error", "_value", "cancelled", "done", "machine")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.done = self.cancelled = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Any], None]] = []

    def __await__(self) -> Generator[Any, Any, Any]:
        if not self.done:
            yield self
        return self.result()

    def add_callback(self, callback: Callable[[Any], None]) -> None:
        """Call the function in the turn after the end."""
        if self.done:
            self.machine.call_soon(callback, self)
        else:
            self._callbacks.append(callback)

    def remove_callback(self, callback: Callable[[Any], None]) -> None:
        """Forget a callback."""
        self._callbacks = [known for known in self._callbacks if known != callback]

    def _end(self) -> None:
        self.done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self.machine.call_soon(callback, self)

    def set_result(self, value: Any) -> None:
        """End with a value."""
        self._value = value
        self._end()

    def set_error(self, error: BaseException) -> None:
        """End with an exception."""
        self._error = error
        self._end()

    def cancel(self) -> bool:
        """End as cancelled; return False if it had ended."""
        if self.done:
            return False
        self.cancelled = True
        self._end()
        return True

    def result(self) -> Any:
        """Return the value, or raise the exception."""
        if self.cancelled:
            raise CancelledError
        if not self.done:
            raise InvalidStateError("Result is not set.")
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self) -> BaseException | None:
        """Return the exception, None for a value."""
        # Raises CancelledError if it was cancelled.
        if self.cancelled:
            raise CancelledError
        if not self.done:
            raise InvalidStateError("Exception is not set.")
        return self._error

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return a method as a function value."""
        method = self.METHODS.get(name)
        if method is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return BuiltinFunction(
            name, lambda evaluation, *values, **named: method(self, evaluation, *values, **named), evaluation
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'done' if self.done else 'pending'}>"

    METHODS: ClassVar[dict[str, Callable[..., Any]]] = {
        "add_done_callback": lambda self, evaluation, call: self.add_callback(evaluation.callable(call)),
        "cancel": lambda self, evaluation, msg=None: self.cancel(),
        "cancelled": lambda self, evaluation: self.cancelled,
        "done": lambda self, evaluation: self.done,
        "exception": lambda self, evaluation: self.exception(),
        "remove_done_callback": lambda self, evaluation, call: self.remove_callback(evaluation.callable(call)),
        "result": lambda self, evaluation: self.result(),
    }


class Step(Future):
    """A request to the host: a call, a timer or a question."""

    __slots__ = ("path",)

    def __init__(self, machine: Machine, path: str) -> None:
        super().__init__(machine)
        self.path = path

    def cancel(self) -> bool:
        """Let the host abort the step, because no task waits for it."""
        if not super().cancel():
            return False
        self.machine.cancel_step(self)
        return True
