"""A model that follows a script, for tests: a real ModelClient that answers what it was told to.

Each turn of the script is a text, a list of calls and texts, an Answer, an exception, or a function of the request.
Shipped as part of `ropewalk.testing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from ..tools.local import maybe_await
from ..values import Json, fresh
from .model import Answer, Request, Tell, ToolCall, ToolResult
from .price import no_price

Turn: TypeAlias = "str | Mapping[str, Any] | list[Any] | Answer | Exception | Callable[[Request], Any]"


def wants(name: str, input: dict[str, Json] | None = None, id: str | None = None) -> ToolCall:
    """A call of a tool, by the name that the model knows it by."""
    return {"type": "tool_use", "id": id or "", "name": name, "input": input or {}}


class ScriptedModel:
    """Gives the turns of a script in order; the last one again and again. `requests` are what it was asked.

    A turn with calls stops as `tool_use`, any other as `end_turn`. Ids that are not given are `call_1`, `call_2`...
    """

    def __init__(self, *turns: Turn, usage: Mapping[str, int] | None = None, cost: float | None = 0.0) -> None:
        if not turns:
            raise TypeError("a script needs at least one turn")
        self.turns: tuple[Turn, ...] = turns
        self.requests: list[Request] = []
        self._usage, self._cost, self._calls = dict(usage or {"input_tokens": 10, "output_tokens": 5}), cost, 0
        self._at = 0

    async def turn(self, request: Request, tell: Tell, /) -> Answer:
        """The next turn of the script."""
        self.requests.append(fresh_request(request))
        if request.priced and self._cost is None:
            raise no_price(request.model or "scripted")
        turn: Any = self.turns[min(self._at, len(self.turns) - 1)]
        self._at += 1
        if callable(turn):
            turn = await maybe_await(turn(request))
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, Answer):
            return turn
        blocks = [self._block(part) for part in ([turn] if isinstance(turn, (str, Mapping)) else turn)]
        for block in blocks:
            if block["type"] == "text":
                tell("text", block["text"])
        calls = any(block["type"] == "tool_use" for block in blocks)
        return Answer(
            content=blocks,
            stop_reason="tool_use" if calls else "end_turn",
            usage=self._usage,
            model=request.model or "scripted",
            cost=self._cost,
        )

    async def close(self) -> None:
        """Nothing is open."""

    def _block(self, part: Any) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        block = dict(part)
        if block.get("type") == "tool_use" and not block.get("id"):
            self._calls += 1
            block["id"] = f"call_{self._calls}"
        return block


def results_in(request: Request) -> list[ToolResult]:
    """The tool results in the last message of a request."""
    last: Iterable[Any] = request.messages[-1]["content"] if request.messages else ()
    return [block for block in last if isinstance(block, Mapping) and block.get("type") == "tool_result"]  # type: ignore[misc]


def fresh_request(request: Request) -> Request:
    """The request as it is now: the loop goes on with its own lists."""
    return replace(
        request,
        messages=fresh([dict(message) for message in request.messages]),
        tools=fresh([dict(tool) for tool in request.tools]),
        options=dict(request.options),
    )
