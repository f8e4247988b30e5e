"""The model as a tool: each call of `ropewalk:model` is one turn of a conversation, journaled like every tool call.

ModelTool builds the request, sends it through the client and lets `decide` work out what follows from the answer. It
refuses messages that are not objects, an empty prompt, and a `tool_choice` that names an unknown tool: each is a
ModelError. `listen` reports the events of a turn to the caller of the conversation.

To pass another option to the model, add a field to `model.Request` and fill it in `_build_request`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

from ..errors import CORRECTION, RESTART, ModelError, PriceUnknown
from ..notations.agent import ENDS, RESULT_SIZE, rendered
from ..ops import MODEL
from ..tools.backends.route import Args, EngineGetter, OnProgress, Route, Routed
from ..tools.listener import Listener as CallListener
from ..tools.tool import Tool, parse_tool_id
from ..tools.toolbox import Toolbox
from ..values import Json, did_you_mean
from .client import DEFAULT_MODEL, no_price_reason
from .decision import TurnState, next_turn, refused_turn
from .model import BROKEN_OFF, Answer, ModelClient, Request
from .request_checks import is_repairable, refused_values, to_sendable_request
from .result_cache import Caching, ResultCache, caching_of
from .tool_definitions import Cards, make_cards
from .tool_search import visible_tools

TURN_TIMEOUT: Final = 3600.0
"""Seconds; the client has a limit of its own per request."""
_MAX_CACHED_CARDS: Final = 256  # lists of tools
_USAGE: Final = {
    "output_tokens": "gen_ai.usage.output_tokens",
    "cache_read_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_creation_input_tokens": "gen_ai.usage.cache_write.input_tokens",
}
_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "google-cloud": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "openai-chat": "openai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
"""The names of providers in the conventions for traces, where they differ."""
_log = logging.getLogger("ropewalk.tools")
Listener = Callable[[dict[str, Json]], Any]
_listener: ContextVar[Listener | None] = ContextVar("ropewalk_claude_listener", default=None)


@contextmanager
def listen(listener: Listener | None) -> Iterator[None]:
    """Report the events of every turn within the block to a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def model_tool(
    client: Callable[[], ModelClient], toolbox: Toolbox, cache_ttl: Mapping[str, float] = MappingProxyType({})
) -> Tool:
    """Create the tool `ropewalk:model`."""
    tool_id = parse_tool_id(MODEL)
    return Tool(
        tool_id.name,
        "One turn of the model in an agent's conversation.",
        {"type": "object"},
        namespace=tool_id.namespace,
        annotations={"timeout": TURN_TIMEOUT, "readOnlyHint": True},
        handler=ModelTool(client, toolbox, cache_ttl),
    )


class ModelTool(Routed):
    """The handler of `ropewalk:model`: takes the arguments of `agent_loop` and returns a turn of `decide`."""

    # While the model writes, text and thinking are reported as chunks of the call.

    def __init__(
        self, client: Callable[[], ModelClient], toolbox: Toolbox, cache_ttl: Mapping[str, float] = MappingProxyType({})
    ) -> None:
        self._client, self._toolbox, self._cache = client, toolbox, ResultCache(toolbox, cache_ttl)
        self._cards_by_tools: dict[tuple[tuple[str, ...], tuple[str, ...] | None], tuple[int, Cards]] = {}

    def route(self, get_engine: EngineGetter | None, /) -> Route:
        """Return the route to the model."""

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            call_listener = on_progress if isinstance(on_progress, CallListener) else None
            engine, option = get_engine() if get_engine is not None else None, args["options"].get("cache")
            caching = caching_of(self._cache, engine, key, option, args.pop("approve", ()))
            return await self._turn(**args, call_listener=call_listener, caching=caching)

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
        call_listener: CallListener | None = None,
        caching: Caching | None = None,
    ) -> dict[str, Json]:
        if caching is not None:
            caching.keep(trace)
        listener = _listener.get()
        offered = options.get("offered")
        cards = self.cards(tools, None if offered is None else visible_tools(offered, trace))
        refused = list((totals or {}).get("refused", ()))
        _check_messages(messages)
        if totals is None and _is_blank(messages):
            raise ModelError("the prompt is empty: nothing was asked", needs=CORRECTION)
        request, notes = to_sendable_request(
            _build_request(options, cards, messages, trace, refused), refused_values(refused, "block")
        )
        before = TurnState(options, cards, trace, totals or {}, notes, None if caching is None else caching.find)

        # A part that the API refuses is left out of the next turn, so the conversation continues without it.
        try:
            client = self._client()
            _record_request(client, request.model)
            answer = await _ask(client, request, listener, call_listener)
        except ModelError as error:
            if not is_repairable(error, refused):
                raise _with_first_reason(error, refused) from error
            _log.warning("%s", error)
            return refused_turn(error, before)

        # Without a price the budget could not be kept.
        _record_on_span(answer)
        if options.get("cost_budget") is not None and answer.cost is None:
            raise PriceUnknown(no_price_reason(answer.model or "the model"), needs=CORRECTION)
        turn = next_turn(answer, before)
        _report_turn(turn, listener)
        stop = turn["stop_reason"]
        if options.get("must_end") and stop is not None and stop not in ENDS:
            raise ModelError(turn["totals"]["why"], needs=RESTART)
        return turn

    def cards(self, tools: Sequence[str], visible: Sequence[str] | None = None) -> Cards:
        """Return the definitions of the tools that a model sees (default: all), cached until the toolbox changes."""
        key, version = (tuple(tools), None if visible is None else tuple(visible)), self._toolbox.version
        cached = self._cards_by_tools.get(key)
        if cached is not None and cached[0] == version:
            return cached[1]
        known = [self._toolbox.get(tool) for tool in tools]
        cards = make_cards((tool for tool in known if tool is not None), visible)
        self._cards_by_tools[key] = (version, cards)
        if len(self._cards_by_tools) > _MAX_CACHED_CARDS:
            del self._cards_by_tools[next(iter(self._cards_by_tools))]
        return cards


def _build_request(
    options: Mapping[str, Any],
    cards: Cards,
    messages: Sequence[Mapping[str, Any]],
    trace: Sequence[Mapping[str, Any]],
    refused: Sequence[Mapping[str, Any]],
) -> Request:
    """Build the request of a turn without the parts that the API refused earlier in this conversation."""
    refused_tools = refused_values(refused, "tool")
    extra = {key: options[key] for key in ("thinking", "effort", "stop_sequences", "extra") if key in options}
    system, sent = rendered(messages, trace, options.get("result_size") or RESULT_SIZE)
    return Request(
        messages=sent,
        system=system,
        tools=[card.definition for card in cards.cards if card.name not in refused_tools],
        structured=not refused_values(refused, "schema"),
        refused=refused_values(refused, "request"),
        schema=options.get("output_schema"),
        model=options.get("model"),
        max_tokens=options.get("max_tokens"),
        stream=options.get("stream"),
        prompt_cache=options.get("prompt_cache"),
        priced=options.get("cost_budget") is not None,
        options={**extra, **_tool_choice(options.get("tool_choice"), cards)},
    )


def _with_first_reason(error: ModelError, refused: Sequence[Mapping[str, Any]]) -> ModelError:
    """Return the error with the reason that the API gave when it first refused the same part."""
    for refusal_before in refused:
        if error.part and error.part.items() <= refusal_before.items():
            why = str(refusal_before["why"])
            return ModelError(why, status=error.status, part=error.part, needs=error.needs)
    return error


def _check_messages(messages: Sequence[Any]) -> None:
    """Raise ModelError for a message that is not an object."""
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            kind = {"str": "a string", "list": "a list", "NoneType": "null"}.get(type(message).__name__, "a number")
            message_fault = f"messages[{i}] must be an object with role and content, not {kind}"
            raise ModelError(message_fault, needs=CORRECTION)


def _is_blank(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a new conversation has no question."""
    for message in messages:
        if message.get("role") not in ("assistant", "system"):
            content = message.get("content")
            is_blank_text = isinstance(content, str) and not content.strip()
            if content not in (None, []) and not is_blank_text:
                return False
    return True


def _tool_choice(choice: Mapping[str, Any] | None, cards: Cards) -> dict[str, Any]:
    """Return the option `tool_choice` with the name by which the model knows the tool."""
    if choice is None:
        return {}
    if choice.get("type") != "tool":
        return {"tool_choice": dict(choice)}

    # A choice of a tool that is left out stays as it is: `to_sendable_request` drops it later.
    name = str(choice.get("name"))
    if not cards.cards or any(name in (id, parse_tool_id(id).name) for id in cards.left_out):
        return {"tool_choice": dict(choice)}

    # An exact name or id wins over a name without its namespace.
    exact = {card.name for card in cards.cards if name in (card.name, card.tool)}
    for matches in (exact, cards.without_namespace(name)):
        if len(matches) == 1:
            return {"tool_choice": {**choice, "name": matches.pop()}}
    near = did_you_mean(name, [known for card in cards.cards for known in (card.tool, card.name)])
    hint = f"; did you mean {near!r}?" if near else ""
    raise ModelError(f"tool_choice: {name!r} is not one of the tools{hint}", needs=CORRECTION)


async def _ask(
    client: ModelClient, request: Request, listener: Listener | None, call_listener: CallListener | None
) -> Answer:
    """Send a request and report the answer as it arrives."""

    # If it is interrupted, report which text is void.
    received: dict[str, list[str]] = {"text": [], "thinking": []}

    def report_void(reason: str) -> None:
        lost = {kind: "".join(pieces) for kind, pieces in received.items()}
        if listener is not None and any(lost.values()):
            listener({"type": BROKEN_OFF, **lost, "error": reason})
        for pieces in received.values():
            pieces.clear()

    def report_piece(kind: str, piece: str) -> None:
        if kind == BROKEN_OFF:
            report_void(piece)
            return
        if call_listener is not None:
            call_listener.chunk({"type": kind, "text": piece})
        if listener is not None:
            received[kind].append(piece)
            listener({"type": kind, "text": piece})

    try:
        return await client.turn(request, report_piece)
    except Exception as error:
        report_void(str(error))
        raise


def _report_turn(turn: Mapping[str, Any], listener: Listener | None) -> None:
    """Report a turn to the log and to the listener."""
    uses = turn["uses"]
    if uses:
        _log.info("the model asks for %d tool(s): %s", len(uses), ", ".join(str(use["name"]) for use in uses))
    if listener is None:
        return
    listener({"type": "turn", "round": turn["totals"]["rounds"], "usage": turn["usage"], "cost": turn["cost"]})
    for use in uses:
        event = {key: use[key] for key in ("id", "tool", "name", "input", "error", "same_as")}
        cached = {"cached": use["cached"]["cached"]} if "cached" in use else {}
        listener({"type": "tool_use", **event, **cached})


def _record_request(client: ModelClient, model: str | None) -> None:
    """Record the model that is asked on the current span, if one is recording."""
    from opentelemetry import trace  # comes with the MCP library, which the extra `claude` has

    span = trace.get_current_span()
    if not span.is_recording():
        return
    provider = getattr(client, "provider", None)
    if (find := getattr(client, "settings_of", None)) is not None:  # the models of a project
        settings = find(model or "")
        provider, model = settings.provider, settings.name or DEFAULT_MODEL
    if provider:
        span.set_attribute("gen_ai.provider.name", _PROVIDERS.get(provider, provider))
    model = model or getattr(getattr(client, "settings", None), "model", None)
    if model:
        span.update_name(f"chat {model}")
        span.set_attribute("gen_ai.request.model", model)


def _record_on_span(answer: Answer) -> None:
    """Record model, stop reason and token usage on the current span, if one is recording."""
    from opentelemetry import trace

    span = trace.get_current_span()
    if not span.is_recording():
        return
    if answer.provider:
        span.set_attribute("gen_ai.provider.name", _PROVIDERS.get(answer.provider, answer.provider))
    span.set_attribute("gen_ai.response.model", answer.model)
    span.set_attribute("gen_ai.response.finish_reasons", [answer.stop_reason])
    # The conventions count cached tokens as input, the API does not.
    parts = [answer.usage.get(kind) or 0 for kind in ("input_tokens", *_USAGE) if kind != "output_tokens"]
    span.set_attribute("gen_ai.usage.input_tokens", sum(parts))
    for kind, count in answer.usage.items():
        if kind in _USAGE:
            span.set_attribute(_USAGE[kind], count)


__all__ = ["Listener", "ModelTool", "listen", "model_tool"]
