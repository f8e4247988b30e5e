"""What a model is to the loop: one function that gives the next turn of a conversation.

Requests and answers have the shapes of the Messages API, which others can be mapped to. To use another model,
write a ModelClient and give it to `App(model=...)`; `ropewalk.testing` has one that follows a script. Refused here:
anything about tools being called, which is the loop's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict

from ..frozen import dataclass
from ..values import Json

Tell: TypeAlias = Callable[[str, str], None]
"""What a client calls as an answer comes in: a kind (`text` or `thinking`) and the piece."""


class ToolDefinition(TypedDict):
    """A tool as the Messages API takes it."""

    name: str
    description: str
    input_schema: dict[str, Json]


class ToolCall(TypedDict):
    """A block in which the model asks for a call: `id` is what the result refers to."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Json]


class ToolResult(TypedDict):
    """The block that answers a ToolCall; `is_error` is left out where the call succeeded."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Json
    is_error: NotRequired[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One turn to be given: `messages` alternate and every tool result follows its call.

    `tools` are `{name, description, input_schema}`; `schema` is what the answer's JSON must fit, where JSON is asked
    for. None stands for the client's own setting.
    """

    messages: Sequence[Mapping[str, Any]]
    system: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    schema: Json = None
    model: str | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    prompt_cache: bool | None = None
    priced: bool = False
    """Whether the turn has to be refused, before it costs anything, where no price is known."""
    structured: bool = True
    """False: the API refused `schema`, so the model gets it in words."""
    checked: bool = False
    """True: nothing in the request is left that the Messages API refuses (`ropewalk.claude.outgoing`)."""
    refused: Sequence[str] = ()
    """Digests of requests that the API refused in this conversation. A client never sends one of them again."""
    options: Mapping[str, Json] = field(default_factory=dict)
    """`thinking`, `effort`, `tool_choice`, `stop_sequences`, as far as they are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One turn: `content` are the blocks as they came, `usage` the tokens by kind, `cost` in US dollars, None where
    no price is known."""

    content: Sequence[Mapping[str, Any]]
    stop_reason: str
    usage: Mapping[str, int] = field(default_factory=dict)
    model: str = ""
    cost: float | None = None
    details: str = ""
    """Why it stopped, where the model says more than the reason."""
    warnings: Sequence[str] = ()
    """What the client left out of the request or converted, for `Completion.warnings`."""


class ModelClient(Protocol):
    """A model. One that also has `missing() -> str | None` says there what it needs and has not, as a key: runs that
    would ask it are then refused before anything is called."""

    async def turn(self, request: Request, tell: Tell, /) -> Answer:
        """The next turn. Raises ModelError; one that is `retryable` is asked for again."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
