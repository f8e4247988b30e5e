"""Python tool modules: find the function that is the tool, and call it.

The tool is the function named after a colon; without one it is `run(args)`, else `main(args)`, else the only public
function that the file defines. `async def` runs in the event loop, `def` in a thread. A failure names the file and the
line. A file without such a function, or with several, is refused, and so is one that does not take `args` alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ...errors import attribute_of, describe_exception, is_interruption
from ...fast_dataclass import dataclass
from ..backends.local import maybe_await, threads
from ..module_result import ModuleFailed
from ..signature import is_async
from .imports import current_package
from .paths import Impl, describe_ambiguity, describe_missing_function


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """The function of a tool; `in_loop` is True for `async def`."""

    call: Callable[[Any], Any]
    in_loop: bool


class PythonModule:
    """One module of a directory, imported at the first call."""

    def __init__(self, root: Path, impl: Impl) -> None:
        self.root, self.impl = root, impl
        self._function: ToolFunction | None = None

    async def call(self, args: dict[str, Any]) -> Any:
        """Call the function and return its result."""
        function = self._function or await self._load()
        try:
            if function.in_loop:
                return await function.call(args)
            return await maybe_await(await threads.run(partial(function.call, args)))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if is_interruption(error):
                raise
            raise self._failed(error) from error

    async def _load(self) -> ToolFunction:
        # In a thread, because a first import can take seconds and would block other nodes.
        function: ToolFunction = await threads.run(partial(load_function, self.root, self.impl))
        self._function = function
        return function

    def _failed(self, error: BaseException) -> ModuleFailed:
        cause: BaseException = error
        if isinstance(error, RuntimeError) and error.__cause__ is not None and not _own_location(error, self.root):
            cause = error.__cause__  # SystemExit or StopIteration, wrapped because it would end the event loop
        retryable = attribute_of(error, "retryable") is not False
        return ModuleFailed(
            f"{_own_location(cause, self.root) or self.impl.display}: {describe_exception(cause)}", retryable=retryable
        )


def load_function(root: Path, impl: Impl) -> ToolFunction:
    """Import a module and find the function that is the tool."""
    try:
        module = current_package(root).module(impl.file)
    except SyntaxError as error:
        file = _relative(error.filename, root) or impl.display
        raise ModuleFailed(f"{file}:{error.lineno or 1}: {error.msg}", retryable=False) from error
    except (Exception, SystemExit) as error:
        message = f"importing it failed: {describe_exception(error)}"
        raise ModuleFailed(f"{_own_location(error, root) or impl.display}: {message}", retryable=False) from error
    function = _named_function(module, impl) if impl.function is not None else _default_function(module, impl.display)
    with contextlib.suppress(ValueError):  # a builtin without a signature may still work
        try:
            inspect.signature(function).bind({})
        except TypeError as error:
            name = getattr(function, "__name__", "its function")
            raise ModuleFailed(
                f"{impl.display}: {name} must take one argument, args: {error}", retryable=False
            ) from error
    return ToolFunction(function, is_async(function))


def _named_function(module: ModuleType, impl: Impl) -> Callable[[Any], Any]:
    member = getattr(module, impl.function or "", None)
    if callable(member):
        return member  # type: ignore[no-any-return]  # called with one argument, which `load_function` has checked
    if member is not None:
        message = f"{impl.function} is {type(member).__name__}, not a function"
    else:
        message = describe_missing_function(impl.function or "", _public_functions(module))
    raise ModuleFailed(f"{impl.display}: {message}", retryable=False)


def _default_function(module: ModuleType, display: str) -> Callable[[Any], Any]:
    for name in ("run", "main"):
        member = vars(module).get(name)
        if callable(member) and not isinstance(member, type) and not _is_imported(member, name, module):
            return member  # type: ignore[no-any-return]
    public = _public_functions(module)
    if len(public) == 1:
        return public[next(iter(public))]
    raise ModuleFailed(f"{display}: {describe_ambiguity(display, list(public))}", retryable=False)


def _public_functions(module: ModuleType) -> dict[str, Callable[[Any], Any]]:
    """Return the public functions that the module itself defines."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
    }


def _is_imported(value: Any, name: str, module: ModuleType) -> bool:
    """Return True if a value comes from another module, as `run` of `from subprocess import run` does."""
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    return home is not None and home is not module and getattr(home, name, None) is value


def _own_location(error: BaseException, root: Path) -> str | None:
    """Return the innermost line of the directory's own code in an error's traceback, as `tools/x.py:12`."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = _relative(frame.filename, root)
        if file is not None:
            return f"{file}:{frame.lineno}"
    return None


def _relative(file: str | None, root: Path) -> str | None:
    if file is None:
        return None
    path = Path(file)
    return path.relative_to(root).as_posix() if path.is_absolute() and path.is_relative_to(root) else None
