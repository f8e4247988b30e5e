"""The model as a tool: `ropewalk:model`, one turn of a conversation per call, journaled like every other call.

It knows the tools by the ids the loop gives it, asks the client, and says what follows from the answer. `listening`
is how whoever started a conversation hears it as it comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from ..dialects.agent_blocks import RESULT_SIZE, rendered
from ..dialects.agent_flow import ENDS, MODEL
from ..errors import ModelError
from ..tools.listener import Listener as CallListener
from ..tools.route import Args, Flows, OnProgress, Route, Routed
from ..tools.tool import Tool, parse_tool_id
from ..tools.toolbox import Toolbox
from ..values import Json, closest
from .decision import Before, decide, refusal
from .definitions import Cards, cards_of
from .model import Answer, ModelClient, Request
from .outgoing import sendable
from .price import no_price
from .refusals import is_repairable, parts

LONGEST_TURN: Final = 3600.0
"""Seconds; the client has a limit of its own per request."""
_USAGE: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_creation_input_tokens": "gen_ai.usage.cache_creation.input_tokens",
}
_log = logging.getLogger("ropewalk.tools")
Listener = Callable[[dict[str, Json]], Any]
_listener: ContextVar[Listener | None] = ContextVar("ropewalk_claude_listener", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Whoever is asked inside tells the listener what comes, as events with a `type`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def model_tool(client: Callable[[], ModelClient], toolbox: Toolbox) -> Tool:
    """The tool behind which a model stands; `client` gives it when it is first asked."""
    id = parse_tool_id(MODEL)
    return Tool(
        id.name,
        "One turn of the model in an agent's conversation.",
        {"type": "object"},
        namespace=id.namespace,
        annotations={"timeout": LONGEST_TURN, "readOnlyHint": True},
        handler=Turns(client, toolbox),
    )


class Turns(Routed):
    """The handler: arguments as `agent_loop` gives them, a turn as `decide` makes it.

    Text and thinking are chunks of the call while the model still writes.
    """

    def __init__(self, client: Callable[[], ModelClient], toolbox: Toolbox) -> None:
        self._client, self._toolbox = client, toolbox
        self._known: dict[tuple[str, ...], tuple[int, Cards]] = {}

    def route(self, flows: Flows, /) -> Route:
        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            return await self._turn(**args, hear=on_progress if isinstance(on_progress, CallListener) else None)

        return Route(send=send)

    async def __call__(self, **args: Any) -> dict[str, Json]:
        return await self._turn(**args)

    async def _turn(
        self,
        *,
        options: Mapping[str, Any],
        tools: Sequence[str] = (),
        messages: Sequence[Mapping[str, Any]] = (),
        trace: Sequence[Mapping[str, Any]] = (),
        totals: Mapping[str, Any] | None = None,
        hear: CallListener | None = None,
    ) -> dict[str, Json]:
        tell = _listener.get()
        cards = self.cards(tools)
        refused = list((totals or {}).get("refused", ()))
        _check_messages(messages)
        if totals is None and _blank(messages):
            raise ModelError("the prompt is empty: nothing was asked")
        request, notes = sendable(_request(options, cards, messages, trace, refused), parts(refused, "block"))
        before = Before(options, cards, trace, totals or {}, notes)
        try:
            answer = await _asked(self._client(), request, tell, hear)
        except ModelError as error:
            if not is_repairable(error, refused):
                raise _failure(error, refused) from error
            _log.warning("%s", error)
            return refusal(error, before)
        _trace(answer)
        if options.get("cost_budget") is not None and answer.cost is None:
            raise no_price(answer.model or "the model")
        turn = decide(answer, before)
        _say(turn, tell)
        stop = turn["stop_reason"]
        if options.get("must_end") and stop is not None and stop not in ENDS:
            raise ModelError(turn["totals"]["why"])
        return turn

    def cards(self, tools: Sequence[str]) -> Cards:
        """What the model is told of the tools, made once for as long as they are the same."""
        key, version = tuple(tools), self._toolbox.version
        known = self._known.get(key)
        if known is None or known[0] != version:
            found = [self._toolbox.get(tool) for tool in tools]
            known = self._known[key] = (version, cards_of(tool for tool in found if tool is not None))
            if len(self._known) > 256:
                del self._known[next(iter(self._known))]
        return known[1]


def _request(
    options: Mapping[str, Any],
    cards: Cards,
    messages: Sequence[Mapping[str, Any]],
    trace: Sequence[Mapping[str, Any]],
    refused: Sequence[Mapping[str, Any]],
) -> Request:
    """The turn that is asked for, without the tools and the schema that were refused in this conversation."""
    gone = parts(refused, "tool")
    system, sent = rendered(messages, trace, options.get("result_size") or RESULT_SIZE)
    return Request(
        messages=sent,
        system=system,
        tools=[card.definition for card in cards.cards if card.name not in gone],
        structured=not parts(refused, "schema"),
        refused=parts(refused, "request"),
        schema=options.get("output_schema"),
        model=options.get("model"),
        max_tokens=options.get("max_tokens"),
        stream=options.get("stream"),
        prompt_cache=options.get("prompt_cache"),
        priced=options.get("cost_budget") is not None,
        options={
            **{key: options[key] for key in ("thinking", "effort", "stop_sequences") if key in options},
            **_choice(options.get("tool_choice"), cards),
        },
    )


def _failure(error: ModelError, refused: Sequence[Mapping[str, Any]]) -> ModelError:
    """The error, with what the API said when it refused the same request before."""
    why = next((str(one["why"]) for one in refused if error.part and error.part.items() <= one.items()), None)
    return error if why is None else ModelError(why, status=error.status, part=error.part)


def _check_messages(messages: Sequence[Any]) -> None:
    """Raise ModelError for a message that is not an object; nothing could be said of who wrote it."""
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            kind = {"str": "a string", "list": "a list", "NoneType": "null"}.get(type(message).__name__, "a number")
            raise ModelError(f"messages[{i}] must be an object with role and content, not {kind}")


def _blank(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there is no question in a conversation that begins."""
    said = [message.get("content") for message in messages if message.get("role") not in ("assistant", "system")]
    return all(content in (None, []) or (isinstance(content, str) and not content.strip()) for content in said)


def _choice(choice: Mapping[str, Any] | None, cards: Cards) -> dict[str, Any]:
    """The choice of a tool, by the name that the model knows it by. One of a tool that is left out is dropped later."""
    if choice is None or choice.get("type") != "tool":
        return {} if choice is None else {"tool_choice": dict(choice)}
    name = str(choice.get("name"))
    if not cards.cards or any(name in (id, parse_tool_id(id).name) for id in cards.left_out):
        return {"tool_choice": dict(choice)}
    for found in ({card.name for card in cards.cards if name in (card.name, card.tool)}, cards.bare(name)):
        if len(found) == 1:
            return {"tool_choice": {**choice, "name": found.pop()}}
    near = closest(name, [known for card in cards.cards for known in (card.tool, card.name)])
    hint = f"; did you mean {near!r}?" if near else ""
    raise ModelError(f"tool_choice: {name!r} is none of the tools{hint}")


async def _asked(client: ModelClient, request: Request, tell: Listener | None, hear: CallListener | None) -> Answer:
    """The answer, told as it comes; of one that breaks off, that what was told of it does not hold."""
    said: dict[str, list[str]] = {"text": [], "thinking": []}

    def piece_of(kind: str, piece: str) -> None:
        if hear is not None:
            hear.chunk({"type": kind, "text": piece})
        if tell is not None:
            said[kind].append(piece)
            tell({"type": kind, "text": piece})

    try:
        return await client.turn(request, piece_of)
    except Exception as error:
        gone = {kind: "".join(pieces) for kind, pieces in said.items()}
        if tell is not None and any(gone.values()):
            tell({"type": "broken_off", **gone, "error": str(error)})
        raise


def _say(turn: Mapping[str, Any], tell: Listener | None) -> None:
    """Tell of a turn: to the log, and to whoever listens."""
    uses = turn["uses"]
    if uses:
        _log.info("the model asks for %d tool(s): %s", len(uses), ", ".join(str(use["name"]) for use in uses))
    if tell is None:
        return
    tell({"type": "turn", "round": turn["totals"]["rounds"], "usage": turn["usage"], "cost": turn["cost"]})
    for use in uses:
        tell({"type": "tool_use", **{key: use[key] for key in ("id", "tool", "name", "input", "error", "same_as")}})


def _trace(answer: Answer) -> None:
    """Say of the span that the turn is made in, if there is one, which model answered and what it took."""
    from opentelemetry import trace  # comes with the MCP library, which the extra `claude` has

    span = trace.get_current_span()
    if not span.is_recording():
        return
    span.set_attribute("gen_ai.provider.name", "anthropic")
    span.set_attribute("gen_ai.response.model", answer.model)
    span.set_attribute("gen_ai.response.finish_reasons", [answer.stop_reason])
    for kind, count in answer.usage.items():
        if kind in _USAGE:
            span.set_attribute(_USAGE[kind], count)


__all__ = ["Listener", "Turns", "listening", "model_tool"]
