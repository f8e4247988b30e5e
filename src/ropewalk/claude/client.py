"""Claude: the ModelClient that speaks the Messages API through the official SDK, which is imported when it is first
asked.

The SDK sends again what was turned away (429, 5xx, overloaded), waiting as long as it is told to. An answer that
was interrupted is an error that the loop tries again. A request that the API refuses for what is in it is an
error that names the part (`refusals.py`); a tool or schema that was refused once is not sent again.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import weakref
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from ..errors import ModelError
from ..errors.given import install
from ..schema.drafts import modern_schema
from ..values import Json, digest
from .answer import instruction
from .caching import marked
from .model import Answer, Request, Tell
from .outgoing import limit_thinking, sendable
from .price import cost_of, no_price
from .refusals import STATUSES, refused_part
from .settings import Settings

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_NO_KEY: Final = "there is no key for the Messages API; set ANTHROPIC_API_KEY"
_NO_SDK: Final = f"the model needs the package anthropic: {install('claude')}"
_ADVICE: Final = {
    401: "; is ANTHROPIC_API_KEY right?",
    404: "; is the name of the model right? It is set by [claude] model in ropewalk.toml or ANTHROPIC_MODEL",
}
_MOST_REMEMBERED: Final = 1000
_PASSING: Final = ("overloaded_error", "api_error", "rate_limit_error", "timeout_error")
"""What an error event inside of a stream may be called when asking again can help."""


class ClaudeClient:
    """Gives turns of Claude; safe for use from several event loops, with connections for each."""

    def __init__(self, settings: Settings | None = None, *, api_key: str | None = None) -> None:
        self.settings = settings or Settings()
        self._key = api_key
        self._open: weakref.WeakKeyDictionary[Any, AsyncAnthropic] = weakref.WeakKeyDictionary()
        self._refused: dict[str, str] = {}  # digests of tools and schemas, and what the API said of them

    def missing(self) -> str | None:
        """What has to be there before anything can be asked, and is not: the SDK, or a key. It looks at what the SDK
        would use, without asking anybody."""
        if find_spec("anthropic") is None:
            return _NO_SDK
        if self._key or any(os.environ.get(name) for name in _KEYS):
            return None
        from anthropic import AnthropicError, AsyncAnthropic  # which knows other places where a key may be

        try:
            return _NO_KEY if _keyless(AsyncAnthropic(base_url=self.settings.base_url)) else None
        except AnthropicError as error:
            return f"the key for the Messages API cannot be had: {error}"

    async def turn(self, request: Request, tell: Tell, /) -> Answer:
        """One request to the Messages API, streamed unless it is set otherwise."""
        await _imported()
        client = self._client()
        from anthropic import APIStatusError

        request, notes = sendable(request)
        body = self.body(request)
        if request.priced and cost_of(body["model"], {}) is None:
            raise no_price(body["model"])
        self._check_refused(body, request)
        try:
            answer = await self._asked(client, body, request, tell)
        except APIStatusError as error:
            part = refused_part(_message_of(error), body) if error.status_code in STATUSES else None
            self._remember(part, body, _message_of(error))
            raise _turned_away(error, part) from error
        return replace(answer, warnings=(*notes, *answer.warnings))

    def body(self, request: Request) -> dict[str, Any]:
        """Return the parameters of the request to the Messages API, in the SDK's words."""
        return self._body(sendable(request)[0])

    def _check_refused(self, body: dict[str, Any], request: Request) -> None:
        """Raise the refusal of a request, tool or schema that the API has refused before."""
        if request.refused and digest(body) in request.refused:
            part = {"request": digest(body)}
            raise ModelError("the Messages API refused this request before; it was not sent again", part=part)
        if not self._refused:
            return
        for part in [{"tool": str(tool.get("name"))} for tool in body.get("tools", ())] + [{"schema": ""}]:
            key = _part_digest(part, body)
            if key in self._refused:
                named = {"schema": key} if "schema" in part else part
                raise ModelError(f"the Messages API refused: {self._refused[key]}", status=400, part=named)

    def _remember(self, part: Mapping[str, str] | None, body: dict[str, Any], said: str) -> None:
        key = _part_digest(part, body) if part is not None else None
        if key is not None:
            self._refused[key] = said
        if len(self._refused) > _MOST_REMEMBERED:
            del self._refused[next(iter(self._refused))]

    async def close(self) -> None:
        """Close the connections of this event loop."""
        client = self._open.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _client(self) -> AsyncAnthropic:
        loop = asyncio.get_running_loop()
        found = self._open.get(loop)
        if found is None:
            from anthropic import AsyncAnthropic

            given = self.settings
            found = AsyncAnthropic(
                api_key=self._key,
                base_url=given.base_url,
                max_retries=given.max_retries,
                timeout=given.timeout,
            )
            if _keyless(found):
                raise ModelError(_NO_KEY)
            self._open[loop] = found
        return found

    async def _asked(self, client: AsyncAnthropic, body: dict[str, Any], request: Request, tell: Tell) -> Answer:
        from anthropic import APIConnectionError, APIResponseValidationError, APITimeoutError
        from httpx2 import HTTPError

        streamed = self.settings.stream if request.stream is None else request.stream
        try:
            message = await (_streamed(client, body, tell) if streamed else client.messages.create(**body))
        except APITimeoutError as error:
            waited = f"gave no answer within {self.settings.timeout:g} s ([claude] timeout)"
            raise ModelError(f"the Messages API at {client.base_url} {waited}{_tried(error)}") from error
        except APIConnectionError as error:
            # The SDK has tried as often as it may; what is left is to say so.
            away = f"the Messages API cannot be reached at {client.base_url}: {_why(error)}"
            raise ModelError(away + _tried(error)) from error
        except (HTTPError, APIResponseValidationError, ValueError) as error:
            raise ModelError(f"the answer broke off: {_why(error)}", retryable=True) from error
        return _answer(message, body["model"])

    def _body(self, request: Request) -> dict[str, Any]:
        """The parameters of the request, in the SDK's words."""
        model = request.model or self.settings.model
        most = request.max_tokens or self.settings.max_tokens
        options = limit_thinking(dict(request.options), most)
        effort = options.pop("effort", None)
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": most,
            "messages": list(request.messages),
            **options,
        }
        system, config = request.system, {"effort": effort} if effort else {}
        if request.schema is not None:
            form = output_form(request.schema) if request.structured else None
            if form is not None:
                config["format"] = {"type": "json_schema", "schema": form}
            else:
                system = "\n\n".join(text for text in (system, instruction(request.schema)) if text)
        if config:
            body["output_config"] = config
        if system:
            body["system"] = system
        if request.tools:
            body["tools"] = list(request.tools)
        cached = self.settings.prompt_cache if request.prompt_cache is None else request.prompt_cache
        return marked(body) if cached else body


async def _imported() -> None:
    """Import the SDK, which takes a second or more, where it does not hold up whatever else runs."""
    if "anthropic" in sys.modules:
        return
    try:
        await asyncio.to_thread(importlib.import_module, "anthropic")
    except ImportError as error:
        raise ModelError(_NO_SDK) from error


def _keyless(client: AsyncAnthropic) -> bool:
    return not client.api_key and client.auth_token is None and client.credentials is None


async def _streamed(client: AsyncAnthropic, body: dict[str, Any], tell: Tell) -> Any:
    """The whole message, told piece by piece as it comes. One without its end has broken off."""
    async with client.messages.stream(**body) as stream:
        async for event in stream:
            if event.type == "text":
                tell("text", event.text)
            elif event.type == "thinking":
                tell("thinking", event.thinking)
        try:
            message = stream.current_message_snapshot
        except AssertionError:
            raise ModelError("the answer broke off before it began", retryable=True) from None
    if message.stop_reason is None:
        raise ModelError("the answer broke off before its end", retryable=True)
    return message


def _answer(message: Any, model: str) -> Answer:
    # Every block as it came: what is not known here is sent back untouched, too.
    content = [_sendable(block.model_dump(mode="json", exclude_unset=True)) for block in message.content]
    given = message.usage.model_dump(mode="json", exclude_none=True)
    usage = {key: value for key, value in given.items() if isinstance(value, int) and not isinstance(value, bool)}
    details = getattr(message.stop_details, "explanation", None) or ""
    return Answer(
        content=content,
        stop_reason=str(message.stop_reason),
        usage=usage,
        model=message.model or model,
        cost=cost_of(message.model or model, usage),
        details=str(details),
    )


def _sendable(block: dict[str, Any]) -> dict[str, Any]:
    """The block without what the SDK adds for its own use, and what an answer has and a request may not."""
    block.pop("parsed_output", None)
    return {key: value for key, value in block.items() if value is not None or key not in ("citations", "caller")}


def output_form(schema: Json) -> dict[str, Any] | None:
    """The schema as one for the output of the API, which knows objects with listed properties only; None where it would
    forbid what the schema allows."""
    from anthropic import transform_schema

    modern = modern_schema(schema).schema if isinstance(schema, dict) else None
    if modern is None or not _listed(modern):
        return None
    try:
        return transform_schema(modern)
    except (ValueError, TypeError, AssertionError, AttributeError):
        return None  # it says something that cannot be said there; the answer is checked against it anyway


def _listed(schema: Json) -> bool:
    """Whether no object in the schema may have properties that are not listed in it."""
    if isinstance(schema, list):
        return all(map(_listed, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" and not schema.get("properties"):
        return False
    if isinstance(schema.get("type"), list) or schema.get("additionalProperties", False) is not False:
        return False
    return all(_listed(inner) for key, inner in schema.items() if key not in ("enum", "const", "default", "examples"))


def _part_digest(part: Mapping[str, str], body: Mapping[str, Any]) -> str | None:
    """By what a refused tool or schema is known again, in any conversation with the same model."""
    if "schema" in part:
        form = (body.get("output_config") or {}).get("format")
        return digest(form) if form is not None else None
    tool = next((tool for tool in body.get("tools", ()) if tool.get("name") == part.get("tool")), None)
    if tool is None:
        return None
    return digest([body["model"], {key: value for key, value in tool.items() if key != "cache_control"}])


def _message_of(error: Any) -> str:
    return str(error.api_message or error.message)


def _turned_away(error: Any, part: dict[str, str] | None = None) -> ModelError:
    status, kind = error.status_code, error.type or ""
    inside = status < 400  # an error event in a stream that had begun
    said = _message_of(error)
    number = f" (request {error.request_id})" if error.request_id else ""
    what = kind if inside else f"{status} {kind}".strip()
    final = "; the same request is not sent again" if part is not None and "request" in part else ""
    return ModelError(
        f"the Messages API refused: {what}: {said}{_ADVICE.get(status, '')}{number}{_tried(error)}{final}",
        status=None if inside else status,
        retryable=inside and (kind in _PASSING or not kind),
        part=part,
    )


def _tried(error: Any) -> str:
    """How often the SDK has asked, where that was more than once."""
    before = int(error.request.headers.get("x-stainless-retry-count", 0))
    return f" (asked {before + 1} times)" if before else ""


def _why(error: BaseException) -> str:
    cause = error.__cause__
    said = str(error) or type(error).__name__
    return f"{said} ({cause})" if cause is not None and str(cause) and str(cause) not in said else said
