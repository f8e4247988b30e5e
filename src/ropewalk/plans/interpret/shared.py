"""Values of asyncio whose methods programs call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...expr.python.evaluation import BuiltinFunction, Members
from .futures import Coroutine


def method(name: str, function: Callable[..., Any], evaluation: Any) -> BuiltinFunction:
    """Return a method as a function value."""
    return BuiltinFunction(name, lambda evaluation, *values, **named: function(*values, **named), evaluation)


class Shared(Members):
    """A value of asyncio whose methods programs call."""

    # functions: The methods that return at once.
    # coroutines: The methods that are awaited.

    is_async: bool | None = None
    """Whether it has blocks of `async with`, of `with`, or none."""
    functions: tuple[str, ...] = ()
    coroutines: tuple[str, ...] = ()

    def get_member(self, evaluation: Any, name: str) -> Any:
        """Return a method as a function value."""
        if name in self.functions:
            return method(name, getattr(self, name), evaluation)
        if name not in self.coroutines:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        run = getattr(self, name)
        return method(name, lambda *values, **named: Coroutine(name, lambda: run(*values, **named)), evaluation)

    def context(self, evaluation: Any, is_async: bool) -> tuple[Any, Any]:
        """Return the functions that enter and leave a `with` block."""
        if self.is_async is not is_async:
            return super().context(evaluation, is_async)
        return self.enter, self.leave

    async def enter(self) -> Any:
        """Enter a block."""

    async def leave(self, error: BaseException | None) -> bool:
        """Leave a block, which raised `error`; return True if it ends here."""
        return False

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
