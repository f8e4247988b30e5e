"""Offered tools: a tool as a client sees it, and the source that answers its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ...fast_dataclass import dataclass
from ...tools.tool import ProgressEvent
from ...values import Json
from .client_channel import ClientChannel

if TYPE_CHECKING:
    from ...engine.engine import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The circumstances of a call.

    Attributes:
        key: Idempotency key of the call, if the client sent one.
        on_progress: Receives progress, if the client wants it.
        found_by: Requests by which this client found tools, by their ids.
        client: What the client can be asked.
        input_responses: Answers of the client to the input requests of an earlier result of this call.
        request_state: The state that this earlier result had.
    """

    key: str | None = None
    found_by: dict[str, str] = field(default_factory=dict)
    on_progress: Callable[[ProgressEvent], Awaitable[None]] | None = None
    client: ClientChannel | None = None
    input_responses: Any = None
    request_state: str | None = None


Call: TypeAlias = Callable[[dict[str, Json], CallContext], Awaitable[Any]]
"""Gives an MCP CallToolResult; what it raises becomes one with `isError`, or a protocol error."""


PrepareTask: TypeAlias = Callable[[dict[str, Json], str], Awaitable["Job"]]
"""Makes the job of a task: arguments, run id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedTool:
    """One tool. `id` says what it is here (`flow:shout`, `git:git_log`), `wanted` how it would like to be called.
    With `verbatim` its results are an MCP server's own, else they fit `output_schema`. One that is `withheld` is shown
    to nobody; its call says why. One of the project's `own` keeps its name where another wants the same. A tool with a
    `task` can run as a task, one that is `task_only` runs in no other way."""

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
    task: PrepareTask | None = None
    task_only: bool = False


class Source(Protocol):
    """Some of what is offered."""

    def version(self) -> Any:
        """Something that is unequal to what it was whenever `offered` may be; cheap."""
        ...

    def offered(self) -> Iterable[ExposedTool]:
        """All of it, now."""
        ...

    async def connect(self) -> None:
        """Reach what it needs to describe itself; what cannot be reached is left out, never raised."""
        ...

    async def reach(self, name: str) -> None:
        """Connect to the servers that may have a tool of this name. Raise if one of them cannot be reached."""
        ...
