"""Check the types of arguments that callers pass. Errors are InvalidInput with the path of the argument."""

from __future__ import annotations

from typing import Any

from .errors import InvalidInput, Problem


def wrong_type(path: str, expected: str, argument: object) -> InvalidInput:
    """Make the error for an argument of a wrong type."""
    kind = type(argument)
    name = "None" if argument is None else kind.__name__ if kind.__module__ == "builtins" else kind.__qualname__
    return InvalidInput([Problem(path=path, message=f"must be {expected}, not {name}")])


def require_type(kind: type, **arguments: object) -> None:
    """Check the type of arguments."""
    for path, argument in arguments.items():
        if not isinstance(argument, kind):
            raise wrong_type(path, f"a {kind.__name__}", argument)


def require_method(method: str, **arguments: Any) -> Any:
    """Check that an argument has a method."""
    [(path, argument)] = arguments.items()
    if isinstance(argument, type) or not callable(getattr(argument, method, None)):
        raise wrong_type(path, f"an object with the method {method}", argument)
    return argument
