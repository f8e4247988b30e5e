"""What is offered: a tool as a client sees it, and who answers its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import field
from typing import Any, Protocol, TypeAlias

from ...frozen import dataclass
from ...tools.result import ProgressEvent
from ...values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What comes with a call beside its arguments: `key` names it where a client may call again, `on_progress` is
    there when the client wants to hear of progress. `found_by` holds the requests by which this client found tools, by
    their ids."""

    key: str | None = None
    found_by: dict[str, str] = field(default_factory=dict)
    on_progress: Callable[[ProgressEvent], Awaitable[None]] | None = None


Call: TypeAlias = Callable[[dict[str, Json], Asked], Awaitable[Any]]
"""Gives an MCP CallToolResult; what it raises becomes one with `isError`, or a protocol error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One tool. `id` says what it is here (`flow:shout`, `git:git_log`), `wanted` how it would like to be called.
    With `verbatim` its results are an MCP server's own, else they fit `output_schema`. One that is `withheld` is shown
    to nobody; its call says why. One of the project's `own` keeps its name where another wants the same."""

    id: str
    wanted: str
    description: str
    input_schema: dict[str, Json]
    call: Call
    output_schema: dict[str, Json] | None = None
    title: str | None = None
    annotations: dict[str, Json] | None = None
    verbatim: bool = False
    withheld: bool = False
    own: bool = False


class Source(Protocol):
    """Some of what is offered."""

    def version(self) -> Any:
        """Something that is unequal to what it was whenever `offered` may be; cheap."""
        ...

    def offered(self) -> Iterable[Offered]:
        """All of it, now."""
        ...

    async def connect(self) -> None:
        """Reach what it needs to describe itself; what cannot be reached is left out, never raised."""
        ...

    async def reach(self, name: str) -> None:
        """Reach what a tool of this name may come from, and nothing else. What cannot be reached is raised."""
        ...
