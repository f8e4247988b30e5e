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
    from ...app.prepared import Prepared
    from ...engine.engine import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The circumstances of a call."""

    # Idempotency key of the call, if the client sent one.
    key: str | None = None
    # Requests by which this client found tools, by their ids.
    found_by: dict[str, str] = field(default_factory=dict)
    # Receives progress, if the client wants it.
    on_progress: Callable[[ProgressEvent], Awaitable[None]] | None = None
    # What the client can be asked.
    client: ClientChannel | None = None
    # Answers of the client to the input requests of an earlier result of this call.
    input_responses: Any = None
    # The state that this earlier result had.
    request_state: str | None = None


Call: TypeAlias = Callable[[dict[str, Json], CallContext], Awaitable[Any]]
"""Gives an MCP CallToolResult; what it raises becomes one with `isError`, or a protocol error."""


PrepareTask: TypeAlias = Callable[[dict[str, Json], str], Awaitable["Job"]]
"""Makes the job of a task: arguments, run id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedTool:
    """One tool as clients see it."""

    # What it is here, such as `flow:shout` or `git:git_log`.
    id: str
    # The name that it should have.
    wanted: str
    description: str
    input_schema: dict[str, Json]
    call: Call
    output_schema: dict[str, Json] | None = None
    title: str | None = None
    annotations: dict[str, Json] | None = None
    # Its results are those of an MCP server; others fit `output_schema`.
    verbatim: bool = False
    # No client sees it; a call says why.
    withheld: bool = False
    # It belongs to the project, and keeps its name if another tool wants the same.
    own: bool = False
    # Makes the job of a task; None if it cannot run as one.
    task: PrepareTask | None = None
    # It runs only as a task.
    task_only: bool = False
    # Its arguments are checked against `input_schema` before `call` gets them: nothing else checks them.
    checked: bool = False
    # It is also a prompt.
    prompt: bool = False
    # The flow that it runs; None if it is not a flow.
    definition: Prepared | None = None
    # Returns True if the tool is certainly as its source offers it now. It must be quick.
    is_current: Callable[[], bool] = lambda: False
    # Returns False for a client that is not shown it: its server offers it to other clients only.
    is_for: Callable[[ClientChannel], bool] = lambda client: True


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
        """Connect to the servers that may have a tool of this name."""

        # Raise if one of them cannot be reached.
        ...
