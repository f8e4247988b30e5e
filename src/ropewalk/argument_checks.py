"""Check the types of arguments that callers pass. Errors are InvalidInput with the path of the argument."""

from __future__ import annotations

from typing import Any

from .errors import InvalidInput, Problem


def wrong_type(path: str, expected: str, argument: object) -> InvalidInput:
    """Make the error for an argument of a wrong type.

    Args:
        path: Name of the argument.
        expected: What it should be, such as "a string".
        argument: The wrong argument.

    Returns:
        The error, to be raised.
    """
    kind = type(argument)
    name = "None" if argument is None else kind.__name__ if kind.__module__ == "builtins" else kind.__qualname__
    return InvalidInput([Problem(path=path, message=f"must be {expected}, not {name}")])


def require_type(kind: type, **arguments: object) -> None:
    """Check the type of arguments.

    Args:
        kind: The type.
        **arguments: The arguments by name.

    Raises:
        InvalidInput: An argument is not an instance of `kind`.
    """
    for path, argument in arguments.items():
        if not isinstance(argument, kind):
            raise wrong_type(path, f"a {kind.__name__}", argument)


def require_method(method: str, **arguments: Any) -> Any:
    """Check that an argument has a method.

    Args:
        method: Name of the method.
        **arguments: The one argument, by its name.

    Returns:
        The argument.

    Raises:
        InvalidInput: It is a class, or has no such method.
    """
    [(path, argument)] = arguments.items()
    if isinstance(argument, type) or not callable(getattr(argument, method, None)):
        raise wrong_type(path, f"an object with the method {method}", argument)
    return argument
