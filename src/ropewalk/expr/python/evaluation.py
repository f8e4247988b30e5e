"""One evaluation of a program: its budget, the line it is at, what it prints, and the values that can be called."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, Final

from ..operators import LIST_ELEMENT, Budget, OverBudget, grow
from .failures import ProgramExit, is_instance
from .values import Refused, in_stable_order

UNCATCHABLE: Final = (ProgramExit, OverBudget, Refused, RecursionError, MemoryError)
"""What no `except` of a program catches."""

MAX_BITS: Final = 4096
"""How many bits an integer may have while a program computes with it."""

MAX_CALLS: Final = 60
"""How deep local functions may call each other."""

CALLABLE_TYPES: Final[dict[type[Any], Callable[..., Any]]] = {}
"""What a call of a type does, the evaluation first; `builtins` fills it."""

_HUGE: Final = 1 << MAX_BITS
_SIZED: Final[tuple[type[Any], ...]] = (
    list,
    tuple,
    str,
    dict,
    range,
    deque,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)


class Evaluation:
    """The budget and the printed text of one evaluation."""

    # `budget`: Steps, seconds and bytes that are left.
    # `line`: The line of the statement that is being executed, from 1.
    # `printed`: The texts that `print` wrote.
    # `handling`: The exceptions that are being handled, innermost last.

    __slots__ = ("budget", "calls", "handling", "line", "printed")

    def __init__(self) -> None:
        self.budget = Budget()
        self.line = 0
        self.calls = 0
        self.printed: list[str] = []
        self.handling: list[BaseException] = []

    def __deepcopy__(self, known: Any) -> Evaluation:
        return self

    def step(self, count: int = 1) -> None:
        """Spend steps of the budget."""

        # Raises OverBudget when none are left.
        self.budget.spend(count)

    def reserve(self, size: int) -> None:
        """Spend bytes of the budget before a value of this size is built."""

        # Raises OverBudget when none are left.
        grow(self.budget, size)

    def stored(self, value: Any) -> Any:
        """Reserve the room that `value` takes as an element of a container, and return it."""
        grow(self.budget, LIST_ELEMENT + len(value) if type(value) is str else LIST_ELEMENT)
        return value

    def new_set(self, items: Iterable[Any] = ()) -> set[Any]:
        """Return a set of the elements."""
        return set(items)

    def new_frozenset(self, items: Iterable[Any] = ()) -> frozenset[Any]:
        """Return a frozenset of the elements."""
        return frozenset(items)

    def new_tuple(self, items: Iterable[Any]) -> tuple[Any, ...]:
        """Return a tuple of the elements."""
        return tuple(items)

    def clock(self, name: str) -> float:
        """Return what a clock (`now` or `monotonic`) shows, in seconds."""
        raise Refused("the clock is not for this part of a program; write now()")

    def walk(self, *values: Any) -> None:
        """Pay for a walk through nested values, such as a comparison."""
        # Raises OverBudget.
        self.budget.check_clock()

    def iterate(self, values: Any) -> Iterator[Any]:
        """Return an iterator over `values` that spends a step for each element."""

        # Sets are iterated in an order that is the same in every process. Raises TypeError as Python does.
        if isinstance(values, (set, frozenset)):
            self.step(2 * len(values))
            return iter(in_stable_order(values))
        if isinstance(values, _SIZED):
            self.step(len(values))
            return iter(values)
        if type(values) is type:
            raise TypeError(f"'{type(values).__name__}' object is not iterable")
        return self._counted(iter(values))

    def _counted(self, values: Iterator[Any]) -> Iterator[Any]:
        spend = self.budget.spend
        for value in values:
            spend(1)
            yield value

    def collect(self, values: Iterable[Any]) -> list[Any]:
        """Return the elements of `values` as a new list, within the budget."""
        if isinstance(values, Sized):
            self.reserve(LIST_ELEMENT * len(values))
            return list(self.iterate(values))
        stored = self.stored
        return [stored(value) for value in self.iterate(values)]

    def spread(self, values: Iterable[Any], holder: str = "Value") -> list[Any]:
        """Return the elements of `*values` in a list, a tuple or a call; what has none is refused in Python's words."""
        try:
            return self.collect(values)
        except TypeError as error:
            raise _of_iterable(error, holder + " after * must be an iterable, not {}") from None

    def parts(self, values: Any) -> Iterator[Any]:
        """Return an iterator to unpack `values`; what has no elements is refused in Python's words."""
        try:
            return self.iterate(values)
        except TypeError as error:
            raise _of_iterable(error, "cannot unpack non-iterable {} object") from None

    def integer(self, value: Any) -> Any:
        """Return `value` unless it is an integer with more than MAX_BITS bits."""

        # Raises Refused.
        if type(value) is int and not -_HUGE < value < _HUGE:
            raise Refused(
                f"an integer of more than {MAX_BITS} bits; a result takes at most 64 bits, so use a float or text"
            )
        return value

    def callable(self, function: Any) -> Callable[..., Any]:
        """Return a callable of Python for a function value of the program."""

        # Raises TypeError if it cannot be called.
        if isinstance(function, (LocalFunction, BuiltinFunction)):
            return function
        if isinstance(function, type):
            if function in CALLABLE_TYPES:
                return BuiltinFunction(function.__name__, CALLABLE_TYPES[function], self)
            if issubclass(function, BaseException):
                return function
        raise TypeError(f"'{type(function).__name__}' object is not callable")

    def call(self, function: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Call a function value of the program."""
        self.step()
        return self.callable(function)(*arguments, **keywords)


def _of_iterable(error: TypeError, message: str) -> TypeError:
    """Return an error with that message about the same type if `error` says that a value is not iterable."""
    kind, _, rest = str(error).removeprefix("'").partition("'")
    return TypeError(message.format(kind)) if rest == " object is not iterable" else error


class Members:
    """A value that knows its own members."""

    # The kinds of values of a larger language derive from it.

    __slots__ = ()

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, known: Any) -> Any:
        return self

    def get_member(self, evaluation: Evaluation, name: str) -> Any:
        """Return a member."""
        # Raises AttributeError if there is none.
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def set_member(self, evaluation: Evaluation, name: str, item: Any) -> None:
        """Set a member."""
        # Raises AttributeError if it cannot be set.
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def delete_member(self, name: str) -> None:
        """Delete a member."""
        # Raises AttributeError if it cannot be deleted.
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @classmethod
    def set_class_member(cls, evaluation: Evaluation, name: str, item: Any) -> None:
        """Set a member of the class itself, or raise AttributeError if it cannot be set."""
        raise AttributeError(f"cannot set '{name}' of type object '{cls.__name__}'")

    def context(self, evaluation: Evaluation, is_async: bool) -> tuple[Any, Any]:
        """Return the functions that enter and leave a `with` block."""
        # Raises TypeError if it has none.
        protocol = "asynchronous context manager protocol" if is_async else "context manager protocol"
        raise TypeError(f"'{type(self).__name__}' object does not support the {protocol}")

    @classmethod
    def class_member(cls, evaluation: Evaluation, name: str) -> Any:
        """Return a member of the class itself."""
        # Raises AttributeError if there is none.
        raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")


class Function(Members):
    """A function as a value, with the attributes that it has or that a program gives it."""

    __slots__ = ("__name__", "attributes", "evaluation")

    def __init__(self, name: str, evaluation: Any) -> None:
        self.__name__, self.evaluation = name, evaluation
        self.attributes: dict[str, Any] | None = None

    def get_member(self, evaluation: Evaluation, name: str) -> Any:
        """Return the name of the function, or an attribute."""
        if name in ("__name__", "__qualname__"):
            return self.__name__
        if name == "__class__":
            return type(self)
        if self.attributes is not None and name in self.attributes:
            return self.attributes[name]
        return super().get_member(evaluation, name)

    def set_member(self, evaluation: Evaluation, name: str, item: Any) -> None:
        """Set an attribute."""
        evaluation.reserve(64)
        if name == "__name__":
            self.__name__ = str(item)
        else:
            self.attributes = {**(self.attributes or {}), name: item}

    def delete_member(self, name: str) -> None:
        """Delete an attribute."""
        if self.attributes is None or self.attributes.pop(name, self) is self:
            super().delete_member(name)


class LocalFunction(Function):
    """A function or lambda of the program, together with the frame in which it was defined."""

    __slots__ = ("invoke",)

    def __init__(self, name: str, invoke: Callable[..., Any], evaluation: Evaluation) -> None:
        super().__init__(name, evaluation)
        self.invoke = invoke

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        evaluation = self.evaluation
        evaluation.step()
        if evaluation.calls >= MAX_CALLS:
            raise Refused(f"functions call each other more than {MAX_CALLS} deep; write a loop")
        evaluation.calls += 1
        try:
            return self.invoke(arguments, keywords)
        finally:
            evaluation.calls -= 1

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"


class BuiltinFunction(Function):
    """A function of the language as a value: `key=len`, `map(str.strip, lines)`."""

    __slots__ = ("run",)

    def __init__(self, name: str, run: Callable[..., Any], evaluation: Any, **attributes: Any) -> None:
        super().__init__(name, evaluation)
        self.run = run
        if attributes:
            self.attributes = attributes

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.run(self.evaluation, *arguments, **keywords)

    def __repr__(self) -> str:
        return f"<built-in function {self.__name__}>"


LocalFunction.__name__ = "function"  # as messages name them
BuiltinFunction.__name__ = "builtin_function_or_method"


def catches(error: BaseException, kinds: Any) -> bool:
    """Return True if an `except` with these classes catches the exception."""

    # Raise TypeError if they are not classes.
    classes = kinds if isinstance(kinds, tuple) else (kinds,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in classes):
        raise TypeError("catching classes that do not inherit from BaseException is not allowed")
    return is_instance(error, classes)
