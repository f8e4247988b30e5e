"""Python tool modules: which function of a file is the tool, and calling it.

The tool is `run(args)`, else `main(args)`, else the one public function that the file defines; or the one named
after a colon. `async def` runs in the loop, `def` in a thread, as local tools do. A failure names the file and
the line. Refused: a file with no such function, with several, or with one that cannot take `args` alone.
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

from ..errors.foreign import passes, with_type
from ..frozen import dataclass
from .delta import ModuleFailed
from .imports import package_of
from .inside import Impl
from .local import maybe_await, threads
from .outline import no_function, which
from .signature import is_async


@dataclass(frozen=True, slots=True)
class Function:
    """The function that is the tool. `in_loop` says that it is `async def`."""

    call: Callable[[Any], Any]
    in_loop: bool


class PythonModule:
    """One module of a directory, imported at the first call."""

    def __init__(self, root: Path, impl: Impl) -> None:
        self.root, self.impl = root, impl
        self._function: Function | None = None

    async def call(self, args: dict[str, Any]) -> Any:
        """What the function gives; ModuleFailed names the file, and the line where it failed."""
        function = self._function or await self._load()
        try:
            if function.in_loop:
                return await function.call(args)
            return await maybe_await(await threads.run(partial(function.call, args)))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if passes(error):
                raise
            raise self._failed(error) from error

    async def _load(self) -> Function:
        # In a thread: a first import can take seconds, and other nodes go on meanwhile.
        found: Function = await threads.run(partial(load, self.root, self.impl))
        self._function = found
        return found

    def _failed(self, error: BaseException) -> ModuleFailed:
        said: BaseException = error
        if isinstance(error, RuntimeError) and error.__cause__ is not None and not _traced(error, self.root):
            said = error.__cause__  # what would have ended the loop: SystemExit, StopIteration
        retryable = getattr(error, "retryable", True) is not False
        return ModuleFailed(f"{_traced(said, self.root) or self.impl.shown}: {with_type(said)}", retryable=retryable)


def load(root: Path, impl: Impl) -> Function:
    """Import the module and find its function; ModuleFailed says what is wrong, and where."""
    try:
        module = package_of(root).module(impl.file)
    except SyntaxError as error:
        file = _relative(error.filename, root) or impl.shown
        raise ModuleFailed(f"{file}:{error.lineno or 1}: {error.msg}", retryable=False) from error
    except (Exception, SystemExit) as error:
        said = f"importing it failed: {with_type(error)}"
        raise ModuleFailed(f"{_traced(error, root) or impl.shown}: {said}", retryable=False) from error
    found = _named(module, impl) if impl.function is not None else _chosen(module, impl.shown)
    with contextlib.suppress(ValueError):  # a builtin without a signature is given the benefit of the doubt
        try:
            inspect.signature(found).bind({})
        except TypeError as error:
            name = getattr(found, "__name__", "its function")
            raise ModuleFailed(
                f"{impl.shown}: {name} must take one argument, args: {error}", retryable=False
            ) from error
    return Function(found, is_async(found))


def _named(module: ModuleType, impl: Impl) -> Callable[[Any], Any]:
    found = getattr(module, impl.function or "", None)
    if callable(found):
        return found  # type: ignore[no-any-return]  # called with one argument, which `load` has tried
    if found is not None:
        said = f"{impl.function} is {type(found).__name__}, not a function"
    else:
        said = no_function(impl.function or "", _public(module))
    raise ModuleFailed(f"{impl.shown}: {said}", retryable=False)


def _chosen(module: ModuleType, shown: str) -> Callable[[Any], Any]:
    for name in ("run", "main"):
        found = vars(module).get(name)
        if callable(found) and not isinstance(found, type) and not _imported(found, name, module):
            return found  # type: ignore[no-any-return]
    public = _public(module)
    if len(public) == 1:
        return public[next(iter(public))]
    raise ModuleFailed(f"{shown}: {which(shown, list(public))}", retryable=False)


def _public(module: ModuleType) -> dict[str, Callable[[Any], Any]]:
    """The public functions that the module itself defines."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__
    }


def _imported(value: Any, name: str, module: ModuleType) -> bool:
    """Whether it came from another module: `from subprocess import run` makes no tool."""
    home = sys.modules.get(getattr(value, "__module__", None) or "")
    return home is not None and home is not module and getattr(home, name, None) is value


def _traced(error: BaseException, root: Path) -> str | None:
    """`tools/x.py:12`: the last line of the directory's own code that an error went through."""
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
