"""ScriptedModel, a ModelClient for tests that follows a script.

`ropewalk.testing` exports it with its helpers `wants` and `results_in`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from ..errors import CORRECTION, PriceUnknown
from ..tools.backends.local import maybe_await
from ..values import Json, fresh
from .client import no_price_reason
from .model import Answer, OnPiece, Request, ToolCall, ToolResult

Turn: TypeAlias = "str | Mapping[str, Any] | list[Any] | Answer | Exception | Callable[[Request], Any]"


def wants(name: str, input: dict[str, Json] | None = None, id: str | None = None) -> ToolCall:
    """Return a tool call for a script.

    Args:
        name: The name by which the model knows the tool.
        input: The arguments.
        id: The id of the call; by default ScriptedModel numbers its calls.

    Returns:
        A `tool_use` block.
    """
    return {"type": "tool_use", "id": id or "", "name": name, "input": input or {}}


class ScriptedModel:
    """A model that answers with the turns of a script in order, and then repeats the last one.

    A turn with calls stops with `tool_use`, any other with `end_turn`. Calls without an id get `call_1`, `call_2`, ...

    Args:
        *turns: A text, a block, a list of texts and blocks, an Answer, an exception, or a function of the request
            that returns one of these.
        usage: Tokens of each turn, by kind; by default 10 in and 5 out.
        cost: US dollars of each turn; None if the price is not known.

    Attributes:
        requests: Copies of the requests that the model got.
    """

    def __init__(self, *turns: Turn, usage: Mapping[str, int] | None = None, cost: float | None = 0.0) -> None:
        if not turns:
            raise TypeError("a script needs at least one turn")
        self.turns: tuple[Turn, ...] = turns
        self.requests: list[Request] = []
        self._usage = dict(usage or {"input_tokens": 10, "output_tokens": 5})
        self._cost = cost
        self._calls = 0
        self._position = 0

    async def turn(self, request: Request, on_piece: OnPiece, /) -> Answer:
        """Return the next turn of the script.

        Args:
            request: Recorded in `requests`.
            on_piece: Gets each text of the turn as one piece.

        Returns:
            The turn as an Answer.

        Raises:
            ModelError: The request has `priced`, and the model no cost.
        """
        self.requests.append(copy_request(request))
        if request.priced and self._cost is None:
            raise PriceUnknown(no_price_reason(request.model or "scripted"), needs=CORRECTION)
        turn: Any = self.turns[min(self._position, len(self.turns) - 1)]
        self._position += 1
        # A function of the request may return any other kind of turn.
        if callable(turn):
            turn = await maybe_await(turn(request))
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, Answer):
            return turn
        blocks = [self._block(part) for part in ([turn] if isinstance(turn, (str, Mapping)) else turn)]
        for block in blocks:
            if block["type"] == "text":
                on_piece("text", block["text"])
        calls = any(block["type"] == "tool_use" for block in blocks)
        return Answer(
            content=blocks,
            stop_reason="tool_use" if calls else "end_turn",
            usage=self._usage,
            model=request.model or "scripted",
            cost=self._cost,
            provider="scripted",
        )

    async def close(self) -> None:
        """Do nothing: the model has no connections."""

    def _block(self, part: Any) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        block = dict(part)
        if block.get("type") == "tool_use" and not block.get("id"):
            self._calls += 1
            block["id"] = f"call_{self._calls}"
        return block


def results_in(request: Request) -> list[ToolResult]:
    """Return the tool results in the last message of a request.

    Args:
        request: A request, such as `model.requests[1]`.

    Returns:
        The `tool_result` blocks, in order.
    """
    last: Iterable[Any] = request.messages[-1]["content"] if request.messages else ()
    return [block for block in last if isinstance(block, Mapping) and block.get("type") == "tool_result"]  # type: ignore[misc]


def copy_request(request: Request) -> Request:
    """Copy a request: the loop changes its own lists later."""
    return replace(
        request,
        messages=fresh([dict(message) for message in request.messages]),
        tools=fresh([dict(tool) for tool in request.tools]),
        options=dict(request.options),
    )
