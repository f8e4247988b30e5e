"""The servers of the project, as `@plan` functions import them: `from ropewalk.servers import fs`.

An import reads no configuration and starts no server, so a module can be imported anywhere. The check of a plan knows
which servers exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .errors import InvalidTool, RopewalkError
from .fast_dataclass import dataclass

if TYPE_CHECKING:
    # The stubs of a project are `typings/ropewalk/servers/__init__.pyi`. Pyright reads them instead of this file. Mypy
    # reads this file, because `typings/ropewalk` is no package, but finds the stubs by their other name.
    from ropewalk.servers.__init__ import *  # type: ignore # noqa: F403

MODULE: Final = __name__


@dataclass(frozen=True, slots=True)
class Server:
    """A server by its name in Python, or one of its tools; only plans call them."""

    _name: str

    def __getattr__(self, name: str) -> Server:
        if name.startswith("__") or "." in self._name:
            raise AttributeError(f"{self._name} has no attribute {name!r}")
        return Server(f"{self._name}.{name}")

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Raise InvalidTool, because Python does not execute plans."""
        server, dot, tool = self._name.partition(".")
        if not dot:
            raise InvalidTool(f"{server} is a server; call one of its tools in a function with @plan: {server}.NAME()")
        call = f"await app.call_tool({f'{server}:{tool}'!r}, {{...}})"
        raise InvalidTool(f"{self._name} can be called in a function with @plan only; elsewhere write {call}")

    def __repr__(self) -> str:
        return f"<{'tool' if '.' in self._name else 'server'} {self._name}>"


def name_of(value: object) -> str | None:
    """Return the name of a server or of one of its tools, such as `fs.read_file`; None for anything else."""
    return value._name if isinstance(value, Server) else None


if not TYPE_CHECKING:  # for type checkers a server without a stub does not exist

    def __getattr__(name: str) -> Server:
        if name.startswith("_"):
            raise AttributeError(f"module {MODULE!r} has no attribute {name!r}")
        server = globals()[name] = Server(name)
        return server


def __dir__() -> list[str]:
    """Return the names of the servers and providers in the configuration of the working directory."""
    from pathlib import Path

    from .config.project import read_config
    from .plans.read.tools import python_name

    try:
        config = read_config(Path.cwd())
    except RopewalkError:
        return []
    return sorted(python_name(name) for name in {*config.servers, *config.providers})
