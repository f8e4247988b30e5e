"""The border between the Toolbox and what has tools: MCP servers, providers, backends, saved plans, Ropewalk's own.

*What it gives.* Each prefix of tool ids (`git:`, `plans:`) belongs to one source. The Toolbox asks the sources with the
prefixes of the tools that it needs, and no other. A source puts its tools on the `Shelf`, which is the Toolbox as a
source sees it. Why a tool or a whole prefix cannot be used is in `failures`, and is never raised.

*What it is ignorant of.* A source knows no flow, no run and no check. The Toolbox knows neither processes nor addresses
nor stores, and imports the module of a source with the first table that configures it.

*Above* are the Toolbox and the Runner, which sends calls to `executor`. *Below* are `mcp/server_tools.py`,
`backends/provider_registry.py` and `backends/sources.py`. The sources of an app are in `app/own_tools.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ConfigError, Place, Problem
from .mcp.login_errors import Reason

if TYPE_CHECKING:
    from ..config.network import AddressPolicy
    from .definition import Definition
    from .pins import Pins
    from .tool import Tool, ToolBackend


class Failures(dict[str, str]):
    """Why sources and tools cannot be used, by name; `places` has what returns the place of a source's settings."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, Callable[..., Place]] = {}

    def record(self, name: str, error: BaseException, *usual_key: str) -> None:
        """Keep the error of a source, with the place of the setting that it names, or else of its usual key."""
        from ..source.document import render_problem  # few processes have a source that fails

        problems: Sequence[Problem] = [Problem(path="", message=str(error) or type(error).__name__)]
        if isinstance(error, ConfigError):
            problems = error.problems
        key = getattr(error, "key", ()) or usual_key
        if (where := self.places.get(prefix_of(name))) is not None:
            problems = [each if each.place else _placed(each, name, where, key) for each in problems]
        text = "\n".join(map(render_problem, problems))
        self[name] = Reason(text, getattr(error, "remedy", None), problems[0].place)


def _placed(problem: Problem, name: str, where: Callable[..., Place], key: Sequence[str]) -> Problem:
    """Give a problem the place of a setting, without the text of the line, which may hold a secret."""
    start, _, path = problem.path.partition(f"backends.{name}.")
    return replace(problem, place=replace(where(*(path.split(".") if path and not start else key)), text=""))


class Shelf(Protocol):
    """Where a source puts its tools."""

    failures: Failures
    left_out: dict[str, str]
    shortened: dict[str, str]
    refused: dict[str, str]
    pins: Pins | None

    @property
    def network(self) -> AddressPolicy:
        """The policy for addresses that come from data."""
        ...

    def register(self, tool: Tool, /) -> Tool:
        """Add a tool with the backend or handler that it has."""
        ...

    def replace_tools(self, name: str, tools: Mapping[str, tuple[Tool, ToolBackend | None]], /) -> dict[str, str]:
        """Keep exactly these tools of a server, and return why one cannot be kept; both by label."""
        ...

    def touch(self) -> None:
        """Count a change in how tools are run."""
        ...


class Source:
    """Tools under some prefixes; one that overrides nothing has none."""

    names: Collection[str] = ()
    """The prefixes of the ids of its tools, whether they are connected or not; "" is that of an id without a colon."""

    def is_listed(self, name: str) -> bool:
        """Return True if its tools with this prefix are known and current."""
        return False

    async def connect(self, tool_ids: Collection[str] | None = None) -> None:
        """Make these tools known, or all; `failures` of the shelf says which prefixes failed."""

    def definitions(self, name: str) -> Sequence[Definition]:
        """Return what it says about its tools with this prefix, as pins compare it."""
        return ()

    def executor(self, backend: ToolBackend) -> Any:
        """Return the object whose `call_tool` calls the tools of a backend; None if there is none."""
        return None

    async def close(self) -> None:
        """Close connections; the tools stay on the shelf."""


def prefix_of(tool_id: str) -> str:
    """Return the part of a tool id that says which source has the tool."""
    return tool_id.partition(":")[0]


async def connect_sources(sources: Iterable[Source], tool_ids: Iterable[str]) -> None:
    """Let the sources with the prefixes of tools make these tools known, all at once."""
    wanted = {id: prefix_of(id) if ":" in id else "" for id in tool_ids if isinstance(id, str)}
    parts = [(source, {id for id in wanted if wanted[id] in source.names}) for source in sources]
    await asyncio.gather(*(source.connect(part) for source, part in parts if part))
