"""The ModelClient protocol, through which the agent loop gets the next turn of a conversation.

Requests and answers have the shapes of the Messages API. To use another model, write a ModelClient that maps them and
pass it as `App(model=...)`; `ropewalk.testing.ScriptedModel` is an example. A client never calls tools: the loop does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal, NotRequired, Protocol, TypeAlias, TypedDict

from ..fast_dataclass import dataclass
from ..values import Json

OnPiece: TypeAlias = Callable[[str, str], None]
"""Takes a piece of an answer as it arrives: its kind (`text` or `thinking`) and its text."""
BROKEN_OFF: Final = "broken_off"
"""The kind of a piece whose text is the reason why all pieces before it are void: a fallback answers from the start."""


class ToolDefinition(TypedDict):
    """A tool's definition in the form of the Messages API."""

    name: str
    description: str
    input_schema: dict[str, Json]


class ToolCall(TypedDict):
    """A block in which the model requests a tool call. The result refers to its `id`."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Json]


class ToolResult(TypedDict):
    """The block with the result of a ToolCall. It has `is_error` only if the call failed."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Json
    is_error: NotRequired[bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request for one turn. None means the client's own setting.

    Attributes:
        messages: The conversation. Roles alternate, and every tool result follows its call.
        system: The system prompt.
        tools: Definitions `{name, description, input_schema}`.
        schema: The JSON Schema of the answer; None for an answer in text.
        model: The name of the model.
        max_tokens: The longest answer, in tokens.
        stream: Receive the answer piece by piece.
        prompt_cache: Let the API cache the beginning of the request.
        priced: Raise ModelError before the request is sent if the model's price is not known.
        structured: False after the API has refused `schema`; the model then gets it as an instruction.
        checked: True if nothing is left in the request that the Messages API refuses.
        refused: Digests of requests that the API refused in this conversation. They are never sent again.
        options: `thinking`, `effort`, `tool_choice`, `stop_sequences` and `extra`, if set. The members of `extra` are
            added to the body of the request unchanged.
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
    structured: bool = True
    checked: bool = False
    refused: Sequence[str] = ()
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One turn of a model.

    Attributes:
        content: The content blocks, unchanged.
        stop_reason: The reason why the model stopped, in the words of the Messages API.
        usage: Tokens by kind, such as `input_tokens`.
        model: The name of the model that answered.
        cost: US dollars; None if the price is not known.
        details: The model's explanation of the stop reason, if it has one.
        warnings: Parts of the request that the client left out or converted, for `Completion.warnings`.
        provider: The provider that answered, as in `provider:model`; traces name it.
    """

    content: Sequence[Mapping[str, Any]]
    stop_reason: str
    usage: Mapping[str, int] = field(default_factory=dict)
    model: str = ""
    cost: float | None = None
    details: str = ""
    warnings: Sequence[str] = ()
    provider: str = ""


class ModelClient(Protocol):
    """Gets the turns of a model.

    A client may also have `missing() -> str | None`, which returns a message if it lacks something, such as a key.
    Runs that need the model are then refused before any tool is called.
    """

    async def turn(self, request: Request, on_piece: OnPiece, /) -> Answer:
        """Return the next turn of a conversation.

        Args:
            request: The conversation, the tools and the options.
            on_piece: To be called with the kind (`text` or `thinking`) and the text of each piece that arrives.

        Returns:
            The complete answer.

        Raises:
            ModelError: The turn failed. If it is `retryable`, the loop requests the turn again.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
