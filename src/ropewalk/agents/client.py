"""ClaudeClient: turns of Claude over the Messages API, with its settings, costs and the Completion of a conversation.

The official SDK is imported at the first turn. It retries requests that fail with 429 or 5xx and honours
`retry-after`. An interrupted answer is a retryable ModelError. If the API refuses a request because of its
content, the ModelError names the part (`request_checks.py`), and a refused tool or schema is not sent again.

Prompt cache: a request gets two of its four possible `cache_control` marks, one after the tools or the system prompt
and one, set by the API, at the last block. Messages that have marks of their own are sent unchanged.

Settings come from the environment and from `[claude]` in `ropewalk.toml`, which wins. Costs are estimates from
`genai-prices`.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from ..config.providers import KEY_VARIABLES, address_fault, is_provider_forgotten, provider_advice
from ..config.secrets import process_redaction
from ..errors import CORRECTION, REFUSAL_STATUSES, ModelError, PriceUnknown, install_command
from ..fast_dataclass import dataclass
from ..notations.agent import EMPTY, ENDS
from ..schema_drafts import modern_schema
from ..values import Json, digest
from .api_errors import connection_cause, connection_needs, status_in_stream
from .decision import REASONS, json_instruction
from .foreign_answers import check, noticing
from .model import Answer, OnPiece, Request
from .request_checks import find_refused_part, limit_thinking, to_sendable_request
from .silence import reporting_silence

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

CACHE_MARK: Final = {"type": "ephemeral"}


def with_cache_marks(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request with `cache_control` marks."""

    # A first question without tools gets none: it is sent only once, and writing the cache costs extra.
    messages = body["messages"]
    marks = [*messages, *(body.get("tools") or ())]
    if (not body.get("tools") and len(messages) < 2) or any(map(_has_cache_mark, marks)):
        return dict(body)
    result = {**body, "cache_control": CACHE_MARK}
    if body.get("system"):
        result["system"] = [{"type": "text", "text": body["system"], "cache_control": CACHE_MARK}]
    elif body.get("tools"):
        *earlier, last = body["tools"]
        result["tools"] = [*earlier, {**last, "cache_control": CACHE_MARK}]
    return result


def _has_cache_mark(value: Any) -> bool:
    """Return True if a message has a mark, also inside tool results."""
    if isinstance(value, Mapping):
        return value.get("cache_control") is not None or _has_cache_mark(value.get("content"))
    return isinstance(value, list) and any(map(_has_cache_mark, value))


def estimate_cost(model: str, usage: Mapping[str, int], provider: str = "anthropic") -> float | None:
    """Return the cost of a turn's tokens in US dollars; None if the model's price is not known."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    cache_reads, cache_writes = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
    tokens = Usage(
        input_tokens=usage.get("input_tokens", 0) + cache_reads + cache_writes,  # `genai-prices` expects the total
        cache_read_tokens=cache_reads,
        cache_write_tokens=cache_writes,
        output_tokens=usage.get("output_tokens", 0),
    )
    try:
        return float(calc_price(tokens, model_ref=model, provider_id=provider.partition("-")[0]).total_price)
    except LookupError:
        return None


def no_price_reason(model: str) -> str:
    """Return the message for a `cost_budget` with a model whose price is not known."""
    return f"cost_budget: the price of {model} is not known; set token_budget instead"


DEFAULT_MODEL: Final = "claude-sonnet-5-5"
DEFAULT_SERVER: Final = "mcp"
"""The name of the MCP server that `MCP_SERVER_URL` sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of ClaudeClient. The key is not among them: it comes from `ANTHROPIC_API_KEY`.

    Attributes:
        model: The name of the model.
        base_url: The address of the API; None is Anthropic's own.
        max_tokens: The longest answer of one turn, in tokens.
        max_retries: How often the SDK repeats a request that failed with 429 or 5xx or was not delivered.
        timeout: Seconds for one request.
        stream: Receive answers piece by piece.
        prompt_cache: Let the API cache what the rounds of a conversation have in common.
    """

    model: str = DEFAULT_MODEL
    base_url: str | None = None
    max_tokens: int = 16_000
    max_retries: int = 4
    timeout: float = 600.0
    stream: bool = True
    prompt_cache: bool = True


def read_settings(table: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of the environment, overridden by those of a project's `[claude]` table."""
    from_environment: dict[str, Any] = {}
    for name, variable in (("base_url", "ANTHROPIC_BASE_URL"), ("model", "ANTHROPIC_MODEL")):
        if environ.get(variable):
            from_environment[name] = environ[variable]
    return Settings(**{**from_environment, **(table or {})})


def default_server(environ: Mapping[str, str] = os.environ) -> dict[str, Any] | None:
    """Return the configuration of the MCP server at `MCP_SERVER_URL`, with `SMITHERY_API_KEY` as its bearer token."""
    url = environ.get("MCP_SERVER_URL")
    if not url:
        return None
    # The header names the variable, so that a `$` in the key itself is not expanded.
    headers = {"headers": {"Authorization": "Bearer ${SMITHERY_API_KEY}"}} if environ.get("SMITHERY_API_KEY") else {}
    return {"url": url, **headers}


_KEY_VARIABLES: Final = KEY_VARIABLES["anthropic"]
_ADDRESS: Final = "ANTHROPIC_BASE_URL"
_DEFAULT_URL: Final = "https://api.anthropic.com"
_NO_KEY: Final = "there is no key for the Messages API; set ANTHROPIC_API_KEY"
_NO_SDK: Final = f"the model needs the package anthropic: {install_command('claude')}"
_ADVICE: Final = {
    401: "; is {key} right?",
    404: "; does {url} have the model {model}? They are set by base_url and model under [model] in ropewalk.toml, or by"
    " ANTHROPIC_BASE_URL and ANTHROPIC_MODEL",
}
_MAX_REMEMBERED: Final = 1000
_TRANSIENT_ERRORS: Final = ("overloaded_error", "api_error", "rate_limit_error", "timeout_error")
"""Types of error events inside a stream after which a retry can succeed."""


class ClaudeClient:
    """A ModelClient for Claude. It may be used from several event loops; each has its own connections.

    Args:
        settings: The settings; None uses the defaults.
        api_key: The key; None lets the SDK find it, as in `ANTHROPIC_API_KEY`. "" is a missing key.
        no_key: The message if there is no key; None names `ANTHROPIC_API_KEY`.
        key_name: The variable with the key, for messages.
    """

    provider: Final = "anthropic"

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        api_key: str | None = None,
        no_key: str | None = None,
        key_name: str | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self._key, self._no_key = api_key, no_key
        self._key_name = key_name or _KEY_VARIABLES[0]
        self._clients: weakref.WeakKeyDictionary[Any, AsyncAnthropic] = weakref.WeakKeyDictionary()
        self._refused: dict[str, str] = {}  # the API's reason, by digest of the tool or schema

    def missing(self) -> str | None:
        """Return a message if the SDK or a key is missing, without any request to the API.

        Returns:
            The message; None if turns can be requested.
        """
        has_key = any(map(os.environ.get, _KEY_VARIABLES)) if self._key is None else bool(self._key)
        if find_spec("anthropic") is None:
            return _NO_SDK if has_key else self._no_key or _NO_SDK
        # An address of the project was checked when its file was read.
        if self.settings.base_url == os.environ.get(_ADDRESS) and (fault := address_fault(_ADDRESS)) is not None:
            return fault
        if has_key or self._key is not None:
            return None if has_key else self._no_key or _NO_KEY
        from anthropic import AnthropicError, AsyncAnthropic  # the SDK finds keys in more places

        try:
            client = AsyncAnthropic(base_url=self.settings.base_url)
            return (self._no_key or _NO_KEY) if _has_no_key(client) else None
        except AnthropicError as error:
            return f"could not read the key for the Messages API: {error}"

    def why_unpriced(self, model: str | None = None) -> str | None:
        """Return why a `cost_budget` cannot be kept; None if the price of the model is known."""
        model = model or self.settings.model
        return None if estimate_cost(model, {}) is not None else no_price_reason(model)

    async def check_reachable(self, seconds: float) -> None:
        """Raise ModelError if the Messages API does not answer at all; `turn` would try again for much longer.

        Args:
            seconds: How long to wait for any answer of the server.

        Raises:
            ModelError: There was no answer in time, or no connection.
        """
        from httpx2 import AsyncClient, HTTPError

        address = self.settings.base_url or os.environ.get("ANTHROPIC_BASE_URL") or _DEFAULT_URL
        url = process_redaction().text(address)
        try:
            async with asyncio.timeout(seconds), AsyncClient(timeout=seconds) as client:
                await client.head(address)  # every status is an answer
        except TimeoutError:
            raise ModelError(
                f"cannot reach the Messages API at {url}: no answer within {seconds:g} s{self._address_advice()}"
            ) from None
        except HTTPError as error:
            reason = f"{connection_cause(error)}{self._address_advice()}"
            raise ModelError(f"cannot reach the Messages API at {url}: {reason}") from error

    async def turn(self, request: Request, on_piece: OnPiece, /) -> Answer:
        """Send one request to the Messages API.

        Args:
            request: The request. Parts that the API would refuse are converted or left out.
            on_piece: Called with the kind (`text` or `thinking`) and the text of each streamed piece.

        Returns:
            The answer; its `warnings` say what was converted or left out.

        Raises:
            ModelError: The API refused the request, was not reachable or ended its answer early. Also raised if the
                SDK, the key, or a price for `cost_budget` is missing.
        """
        await _import_sdk()
        client = self._client()
        from anthropic import APIStatusError

        request, notes = to_sendable_request(request)
        body = self.body(request)
        if request.priced and (reason := self.why_unpriced(body["model"])) is not None:
            raise PriceUnknown(reason, needs=CORRECTION)
        self._check_refused(body, request)
        try:
            model = f"{body['model']} at {_address_of(client)}"
            with noticing() as foreign, reporting_silence(model, self.settings.timeout, on_piece) as take:
                answer = await self._send(client, body, request, take)
        except APIStatusError as error:
            if foreign:
                raise ModelError(foreign[0], needs=CORRECTION) from error
            part = find_refused_part(_message_of(error), body) if _status_of(error) in REFUSAL_STATUSES else None
            self._remember(part, body, _message_of(error))
            asked = {"key": self._key_name, "url": _address_of(client), "model": body["model"]}
            raise _refused_error(error, part, asked) from error
        return replace(answer, warnings=(*notes, *answer.warnings))

    def body(self, request: Request) -> dict[str, Any]:
        """Return the parameters with which the SDK would send a request.

        Args:
            request: The request. Parts that the API would refuse are converted or left out.

        Returns:
            The keyword arguments of the SDK's `messages.create`.
        """
        return self._build_body(to_sendable_request(request)[0])

    def _check_refused(self, body: dict[str, Any], request: Request) -> None:
        """Raise the refusal of a request, tool or schema that the API has refused before."""
        if request.refused and digest(body) in request.refused:
            part = {"request": digest(body)}
            raise ModelError("the Messages API refused this request earlier; it was not sent again", part=part)
        if not self._refused:
            return
        for part in [{"tool": str(tool.get("name"))} for tool in body.get("tools", ())] + [{"schema": ""}]:
            key = _part_digest(part, body)
            if key in self._refused:
                refused_part = {"schema": key} if "schema" in part else part
                raise ModelError(f"the Messages API refused: {self._refused[key]}", status=400, part=refused_part)

    def _remember(self, part: Mapping[str, str] | None, body: dict[str, Any], reason: str) -> None:
        key = _part_digest(part, body) if part is not None else None
        if key is not None:
            self._refused[key] = reason
        if len(self._refused) > _MAX_REMEMBERED:
            del self._refused[next(iter(self._refused))]

    async def close(self) -> None:
        """Close the connections of this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _client(self) -> AsyncAnthropic:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient

            # Not the SDK's own default: that one, if its loop ended without `close`, closes itself in another loop.
            client = AsyncAnthropic(
                http_client=DefaultAsyncHttpxClient(timeout=self.settings.timeout, event_hooks={"response": [check]}),
                api_key=self._key,
                base_url=self.settings.base_url,
                max_retries=self.settings.max_retries,
                timeout=self.settings.timeout,
            )
            if self._key == "" or _has_no_key(client):
                raise ModelError(self._no_key or _NO_KEY, needs=CORRECTION)
            self._clients[loop] = client
        return client

    async def _send(self, client: AsyncAnthropic, body: dict[str, Any], request: Request, on_piece: OnPiece) -> Answer:
        from anthropic import APIConnectionError, APIResponseValidationError, APITimeoutError
        from httpx2 import HTTPError

        use_stream = self.settings.stream if request.stream is None else request.stream
        try:
            message = await (_stream_message(client, body, on_piece) if use_stream else client.messages.create(**body))
        except APITimeoutError as error:
            limit = f"{self.settings.timeout:g} s (timeout under [model] in ropewalk.toml)"
            message = f"the Messages API at {_address_of(client)} did not answer within {limit}{_attempts(error)}"
            raise ModelError(message) from error
        except APIConnectionError as error:
            # Not retryable: the SDK has already retried `max_retries` times.
            reason = f"{connection_cause(error)}{_attempts(error)}{self._address_advice()}"
            message = f"could not reach the Messages API at {_address_of(client)}: {reason}"
            raise ModelError(message, needs=connection_needs(error)) from error
        except (HTTPError, APIResponseValidationError, ValueError) as error:
            raise ModelError(f"the answer was interrupted: {_reason(error)}", retryable=True) from error
        return _to_answer(message, body["model"])

    def _address_advice(self) -> str:
        # The settings have the address of the variable if the project has none.
        address = self.settings.base_url or os.environ.get(_ADDRESS)
        setting = "base_url in ropewalk.toml" if address != os.environ.get(_ADDRESS) else _ADDRESS
        return f"; {setting} sets the address" if address else "; check the network connection"

    def _build_body(self, request: Request) -> dict[str, Any]:
        model = request.model or self.settings.model
        max_tokens = request.max_tokens or self.settings.max_tokens
        # `effort` is an option here, but belongs to `output_config` in the API.
        options = limit_thinking(dict(request.options), max_tokens)
        effort, extra = options.pop("effort", None), options.pop("extra", None)
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": max_tokens,
            "messages": _without_other_providers(request.messages),
            **options,
        }
        system, config = request.system, {"effort": effort} if effort else {}
        if request.schema is not None:
            # Without a schema that the API accepts, the model gets the original one as an instruction.
            schema = output_schema(request.schema) if request.structured else None
            if schema is not None:
                config["format"] = {"type": "json_schema", "schema": schema}
            else:
                system = "\n\n".join(text for text in (system, json_instruction(request.schema)) if text)
        if extra:
            body["extra_body"] = extra
        if config:
            body["output_config"] = config
        if system:
            body["system"] = system
        if request.tools:
            body["tools"] = list(request.tools)
        use_cache = self.settings.prompt_cache if request.prompt_cache is None else request.prompt_cache
        return with_cache_marks(body) if use_cache else body


def _without_other_providers(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Leave out what only another provider understands: its thinking, and the member `provider` of blocks."""

    def clean(message: Mapping[str, Any]) -> Mapping[str, Any]:
        content = message["content"]
        if message["role"] != "assistant" or not any("provider" in block for block in content):
            return message
        blocks = [block for block in content if "provider" not in block or block["type"] != "thinking"]
        cleaned = [{key: block[key] for key in block if key != "provider"} for block in blocks]
        return {**message, "content": cleaned or EMPTY}  # the API refuses a message without content

    return list(map(clean, messages))


async def _import_sdk() -> None:
    """Import the SDK in a thread: the import takes a second or more and would block the event loop."""
    if "anthropic" in sys.modules:
        return
    try:
        await asyncio.to_thread(importlib.import_module, "anthropic")
    except ImportError as error:
        raise ModelError(_NO_SDK, needs=CORRECTION) from error


def _has_no_key(client: AsyncAnthropic) -> bool:
    return not client.api_key and client.auth_token is None and client.credentials is None


async def _stream_message(client: AsyncAnthropic, body: dict[str, Any], on_piece: OnPiece) -> Any:
    """Return the complete message and report its pieces."""

    # Raises a retryable ModelError if the stream ends early.
    async with client.messages.stream(**body) as stream:
        async for event in stream:
            if event.type == "text":
                on_piece("text", event.text)
            elif event.type == "thinking":
                on_piece("thinking", event.thinking)
        try:
            message = stream.current_message_snapshot
        except AssertionError:
            raise ModelError("the connection ended before the answer began", retryable=True) from None
    if message.stop_reason is None:
        raise ModelError("the connection ended before the answer was complete", retryable=True)
    return message


def _to_answer(message: Any, model: str) -> Answer:
    # Blocks of unknown types are kept as well: the next request must send them back unchanged.
    content = [_block_to_send(block.model_dump(mode="json", exclude_unset=True)) for block in message.content]
    counts = message.usage.model_dump(mode="json", exclude_none=True)
    usage = {key: value for key, value in counts.items() if isinstance(value, int) and not isinstance(value, bool)}
    details = getattr(message.stop_details, "explanation", None) or ""
    return Answer(
        content=content,
        stop_reason=str(message.stop_reason),
        usage=usage,
        model=message.model or model,
        cost=estimate_cost(message.model or model, usage),
        details=str(details),
        provider=ClaudeClient.provider,
    )


def _block_to_send(block: dict[str, Any]) -> dict[str, Any]:
    """Remove what the SDK adds for its own use, and null fields that a request may not have."""
    block.pop("parsed_output", None)
    return {key: value for key, value in block.items() if value is not None or key not in ("citations", "caller")}


def output_schema(schema: Json) -> dict[str, Any] | None:
    """Convert a schema for the API's structured output, where objects have only listed properties."""
    from anthropic import transform_schema

    modern = modern_schema(schema).schema if isinstance(schema, dict) else None
    if modern is None or not _lists_all_properties(modern):
        return None
    try:
        return transform_schema(modern)
    except (ValueError, TypeError, AssertionError, AttributeError):
        return None  # not expressible there; the answer is checked against the original anyway


def _lists_all_properties(schema: Json) -> bool:
    """Return True if every object in the schema forbids properties that it does not list."""
    if isinstance(schema, list):
        return all(map(_lists_all_properties, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" and not schema.get("properties"):
        return False
    if isinstance(schema.get("type"), list) or schema.get("additionalProperties", False) is not False:
        return False
    return all(
        _lists_all_properties(inner)
        for key, inner in schema.items()
        if key not in ("enum", "const", "default", "examples")
    )


def _part_digest(part: Mapping[str, str], body: Mapping[str, Any]) -> str | None:
    """Return a digest that identifies a refused tool or schema in every conversation with the same model."""
    if "schema" in part:
        form = (body.get("output_config") or {}).get("format")
        return digest(form) if form is not None else None
    tool = next((tool for tool in body.get("tools", ()) if tool.get("name") == part.get("tool")), None)
    if tool is None:
        return None
    return digest([body["model"], {key: value for key, value in tool.items() if key != "cache_control"}])


def _message_of(error: Any) -> str:
    return str(error.api_message or error.message)


def _address_of(client: AsyncAnthropic) -> str:
    return process_redaction().text(str(client.base_url))


def _status_of(error: Any) -> int | None:
    """Return the HTTP status of an error; of one inside a stream, the status that it would have before it."""
    return error.status_code if error.status_code >= 400 else status_in_stream(error.body)


def _refused_error(error: Any, part: dict[str, str] | None, asked: Mapping[str, str]) -> ModelError:
    status, kind = _status_of(error), error.type or ""
    in_stream = error.status_code < 400  # an error event in a stream that had begun
    label = kind if in_stream else f"{status} {kind}".strip()
    request_id = f" (request {error.request_id})" if error.request_id else ""
    final = "; the same request is not sent again" if part is not None and "request" in part else ""
    advice = _ADVICE.get(status or 0, "").format(**asked)
    if status == 404 and is_provider_forgotten(asked["model"]):
        advice += f"; if it is not a model of Anthropic, {provider_advice(asked['model'])}"
    details = f"{_message_of(error)}{advice}{request_id}{_attempts(error)}{final}"
    at = f" at {asked['url']}" if status is not None and status >= 500 else ""
    return ModelError(
        f"the Messages API{at} refused: {label}: {details}",
        status=status,
        retryable=in_stream and (kind in _TRANSIENT_ERRORS or not kind),
        part=part,
        # A refusal of the account, such as one for lack of credit, is not about the request.
        needs=CORRECTION if part is None and status in REFUSAL_STATUSES else None,
    )


def _attempts(error: Any) -> str:
    """Return a note with the number of attempts, if the SDK made more than one."""
    before = int(error.request.headers.get("x-stainless-retry-count", 0))
    return f" (after {before + 1} attempts)" if before else ""


def _reason(error: BaseException) -> str:
    cause = error.__cause__
    message = str(error) or type(error).__name__
    return f"{message} ({cause})" if cause is not None and str(cause) and str(cause) not in message else message


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The outcome of a conversation.

    Attributes:
        text: The text of the last answer.
        content: The content blocks of the last answer.
        data: The JSON of the last answer, if the conversation has an output schema.
        rounds: The number of turns.
        usage: Tokens of all rounds, by kind.
        cost: US dollars of all rounds; None if the price is not known.
        trace: The tool calls in order, each with `tool`, `input`, `round` and `outcome` (`value` or `error`).
            `same_as` is the id of an earlier call with the same arguments whose result was reused.
        stop_reason: The model's stop reason, or the limit that was reached: `max_rounds`, `max_calls`,
            `token_budget`, `cost_budget` or `invalid_json`.
        messages: The conversation. To continue it, pass
            `complete_with_tools(messages=[*completion.messages, ...])`.
        warnings: Tools that the model did not get, and parts of requests that were changed, each with the reason.
        model: The name of the model that answered.
        details: The model's explanation of its stop reason.
        run_id: The id of the run that holds the conversation.
    """

    text: str
    content: list[dict[str, Json]] = field(default_factory=list)
    data: Json = None
    rounds: int
    usage: dict[str, int]
    cost: float | None = None
    trace: list[dict[str, Json]] = field(default_factory=list)
    stop_reason: str
    messages: list[dict[str, Json]] = field(default_factory=list)
    warnings: tuple[str, ...] = ()
    model: str = ""
    details: str = ""
    run_id: str = ""

    @property
    def finished(self) -> bool:
        """True if the model ended its answer and, with an output schema, the JSON fits it."""
        return self.stop_reason in ENDS

    @property
    def why(self) -> str:
        """The stop reason as a sentence."""
        reason = REASONS.get(self.stop_reason, f"the model stopped: {self.stop_reason}")
        return f"{reason}: {self.details}" if self.details else reason


def completion_of(result: Mapping[str, Any], warnings: tuple[str, ...] = ()) -> Completion | None:
    """Return the completion in the result of an agent's run; None if the run did not finish."""
    conversation = result.get("conversation")
    if not isinstance(conversation, Mapping):
        return None
    totals = conversation["totals"]
    return Completion(
        text=conversation["text"],
        content=list(conversation["content"]),
        data=conversation["data"],
        rounds=totals["rounds"],
        usage=dict(totals["usage"]),
        cost=totals["cost"],
        trace=list(conversation["trace"]),
        stop_reason=conversation["stop_reason"] or "max_rounds",
        messages=list(conversation["messages"]),
        warnings=(*warnings, *totals["notes"]),
        model=totals["model"],
        details=totals["details"],
        run_id=str(result.get("runId") or result.get("executionId") or ""),
    )
