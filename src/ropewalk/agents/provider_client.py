"""ProviderClient: turns of the models of OpenAI, Google and other makers, through pydantic-ai.

pydantic-ai and the SDK of the maker are imported at the first turn. The SDK repeats requests that fail with 429 or 5xx.
To add a maker that pydantic-ai knows, nothing is needed; `config/providers.py` names the variable of its key.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any, Final, cast

from ..config.models import ModelSettings
from ..config.network import AddressPolicy
from ..config.providers import ADDRESSES, KEY_VARIABLES, PACKAGES, address_fault, key_advice
from ..config.secrets import process_redaction
from ..errors import CORRECTION, RESTART, ModelError, PriceUnknown, install_command
from .api_errors import connection_cause, connection_needs, status_in_stream
from .client import estimate_cost, no_price_reason
from .decision import json_instruction
from .downloads import Downloads
from .extra_members import adding_members, create_http_client
from .foreign_answers import check, noticing
from .model import Answer, OnPiece, Request
from .request_checks import is_about_account, to_sendable_request
from .silence import reporting_silence

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from pydantic_ai.models import Model, ModelRequestParameters

_NO_PACKAGE: Final = f"models of other makers need the package pydantic-ai-slim: {install_command('models')}"
_DEFAULTS: Final = {"timeout": 600.0, "max_retries": 4}
_GOOGLE_FILES: Final = "https://generativelanguage.googleapis.com/v1beta/files"
"""Where Gemini has files that were uploaded before."""
_TAKE_IMAGES: Final = ("GroqModel", "HuggingFaceModel", "MistralModel", "XaiModel")
"""Models of pydantic-ai that pass on the URL of an image, for the API to fetch."""
_MAX_EXCERPT: Final = 300
_OPTIONS: Final = {"parallel_tool_calls": "disable_parallel_tool_use"}


class ProviderClient:
    """A ModelClient for one model of any maker that pydantic-ai knows."""

    def __init__(self, settings: ModelSettings, network: AddressPolicy | None = None) -> None:
        self.settings = settings
        self._downloads = Downloads(network or AddressPolicy())
        self._models: weakref.WeakKeyDictionary[Any, tuple[Model[Any], AsyncClient]] = weakref.WeakKeyDictionary()

    @property
    def _label(self) -> str:
        return f"{self.settings.provider}:{self.settings.name}"

    def missing(self) -> str | None:
        """Return a message if the package or a key is missing, without any request to the API."""
        if find_spec("pydantic_ai") is None:
            return _NO_PACKAGE
        module, extra = PACKAGES.get(self.settings.provider, ("", ""))
        if (reason := self._missing_key()) is not None or not module or find_spec(module) is not None:
            return reason
        return f"{self._label} needs a package: pip install 'pydantic-ai-slim[{extra}]'"

    def why_unpriced(self) -> str | None:
        """Return why a `cost_budget` cannot be kept; None if the price of the model is known."""
        is_known = estimate_cost(self.settings.name, {}, self.settings.provider) is not None
        return None if is_known else no_price_reason(self._label)

    def _missing_key(self) -> str | None:
        if self.settings.key is not None:
            if os.environ.get(self.settings.key):
                return None
            return f"there is no key for {self._label}; set {self.settings.key}"
        provider, has_address = self.settings.provider, self.settings.base_url is not None
        if provider in ADDRESSES:
            variable, usual = ADDRESSES[provider]
            if has_address or os.environ.get(variable):
                return None if has_address else address_fault(variable)
            return f'there is no address for {self._label}; set {variable}, or base_url in ropewalk.toml, to "{usual}"'
        names = KEY_VARIABLES.get(provider, ())
        if not names or has_address or any(map(os.environ.get, names)):
            return None
        return f"there is no key for {self._label}; set {names[0]}"

    async def turn(self, request: Request, on_piece: OnPiece, /) -> Answer:
        """Send one request to the API of the model."""
        if (reason := self.missing()) is not None:
            raise ModelError(reason, needs=CORRECTION)
        await _import_package()
        model = await self._model()
        from .provider_messages import Names, stop_reason, to_content, to_messages, to_parameters, to_settings, to_usage

        request, notes = to_sendable_request(request)
        if request.priced and (unpriced := self.why_unpriced()) is not None:
            raise PriceUnknown(unpriced, needs=CORRECTION)
        native = request.structured and _answers_by_schema(model, request)
        if request.schema is not None and not native:
            instruction = json_instruction(request.schema)
            request = replace(request, system="\n\n".join(filter(None, (request.system, instruction))))
        use_stream = next((choice for choice in (request.stream, self.settings.stream) if choice is not None), True)
        names = Names(self.settings.provider, request.tools)
        parameters = to_parameters(request, names, native=native)
        settings = dict(to_settings(request, self._options(), names))
        left_out = _left_out(model, settings)
        taken = {key: value for key, value in settings.items() if key not in left_out}
        request = await self._downloads.with_files(request, partial(_takes_url, model))
        sent = (to_messages(request, names), parameters, taken)
        waiting = reporting_silence(f"{self._label}{_at(model.base_url)}", self._options()["timeout"], on_piece)
        with (
            adding_members(request.options.get("extra")),
            noticing() as foreign,
            self._errors(model, foreign),
            waiting as take,
        ):
            response = await (_stream(model, *sent, take) if use_stream else _request(model, *sent))
        content, warnings = to_content(response, names)
        name, usage = response.model_name or self.settings.name, to_usage(response)
        return Answer(
            content=content,
            stop_reason=stop_reason(response, content),
            usage=usage,
            model=name,
            cost=estimate_cost(name, usage, self.settings.provider),
            warnings=(
                *notes,
                *_lost(self._label, model, parameters),
                *(f"{self._label} does not take {_OPTIONS.get(key, key)}; left out" for key in left_out),
                *warnings,
            ),
        )

    async def close(self) -> None:
        """Close the connections of this event loop."""
        _, http = self._models.pop(asyncio.get_running_loop(), (None, None))
        if http is not None:
            await http.aclose()

    def _options(self) -> dict[str, Any]:
        given = {"timeout": self.settings.timeout, "max_tokens": self.settings.max_tokens}
        given["max_retries"] = self.settings.max_retries
        set_options = {key: value for key, value in given.items() if value is not None}
        return {**_DEFAULTS, **set_options, **self.settings.options}

    async def _model(self) -> Model[Any]:
        loop = asyncio.get_running_loop()
        if loop not in self._models:
            http = create_http_client(timeout=_DEFAULTS["timeout"], event_hooks={"response": [check]})
            self._models[loop] = self._create(http), http
        return self._models[loop][0]

    def _create(self, http: AsyncClient) -> Model[Any]:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import Provider, infer_provider_class

        key = os.environ.get(self.settings.key) if self.settings.key is not None else None
        address = "azure_endpoint" if self.settings.provider.startswith("azure") else "base_url"
        given = {address: self.settings.base_url, "api_key": key, "http_client": http}
        options = {name: value for name, value in given.items() if value is not None}

        def create(provider: str) -> Provider[Any]:
            return infer_provider_class(provider)(**options)

        try:
            model = infer_model(self._label, provider_factory=create)
            # A stream that is cut must not pass for a short answer.
            cast(dict[str, Any], model.profile)["openai_chat_streaming_requires_finish_reason"] = True
            return model
        except (UserError, ImportError, ValueError, TypeError) as error:
            raise ModelError(f"cannot use the model {self._label}: {error}", needs=CORRECTION) from error

    @contextmanager
    def _errors(self, model: Model[Any], foreign: list[str]) -> Iterator[None]:
        """Turn the errors of pydantic-ai and the SDKs into ModelError; what is `foreign` is their cause."""
        from pydantic_ai.exceptions import (
            AgentRunError,
            ModelAPIError,
            ModelConnectionError,
            ModelHTTPError,
            ModelOverloadedError,
            ModelQuotaExceededError,
            ModelServerError,
            ModelTimeoutError,
            UserError,
        )

        try:
            yield
        except ModelHTTPError as error:
            if foreign:
                raise ModelError(f"{self._label}: {foreign[0]}", needs=CORRECTION) from error
            later = error.in_stream and isinstance(error, (ModelServerError, ModelOverloadedError))
            refusal = self._refusal(error, error.status_code, model, retryable=later)
            # A refusal of the account, such as one for lack of credit, is not about the request.
            if isinstance(error, ModelQuotaExceededError) or is_about_account(_message(error)):
                refusal.needs = CORRECTION
            raise refusal from error
        except ModelTimeoutError as error:
            limit = f"{self._options()['timeout']:g} s (timeout under [model] in ropewalk.toml)"
            message = f"{self._label}{_at(model.base_url)} did not answer within {limit}"
            raise ModelError(message, retryable=error.in_stream) from error
        except ModelConnectionError as error:
            reason = f"{connection_cause(error)}; {self._address_advice()}"
            message = f"could not reach {self._label}{_at(model.base_url)}: {reason}"
            raise ModelError(message, retryable=error.in_stream, needs=connection_needs(error)) from error
        except (ModelAPIError, AgentRunError) as error:
            # An event of a stream that reports an error has no status of its own.
            if (status := status_in_stream(getattr(error.__cause__, "body", None))) is not None:
                raise self._refusal(error, status, model) from error
            raise ModelError(
                f"the answer of {self._label} cannot be used: {_message(error)}", retryable=True
            ) from error
        except (UserError, ValueError) as error:
            message = f"{self._label} cannot take the request: {_message(error)}"
            raise ModelError(message, needs=RESTART) from error

    def _refusal(self, error: Exception, status: int, model: Model[Any], *, retryable: bool = False) -> ModelError:
        at = _at(model.base_url) if status >= 500 else ""
        message = f"{self._label}{at} refused: {status}: {_message(error)}{self._advice(status, model.base_url)}"
        return ModelError(message, status=status, retryable=retryable)

    def _advice(self, status: int, address: str | None) -> str:
        if status in (401, 403):
            return key_advice(self.settings.provider, self.settings.key)
        if status != 404:
            return ""
        where = process_redaction().text(address) if address else "the API"
        return f"; does {where} (base_url) have the model {self.settings.name}?"

    def _address_advice(self) -> str:
        variable, _ = ADDRESSES.get(self.settings.provider, ("", ""))
        if self.settings.base_url is not None or variable:
            return f"{'base_url in ropewalk.toml' if self.settings.base_url else variable} sets the address"
        return "check the network connection"


def _answers_by_schema(model: Model[Any], request: Request) -> bool:
    """Return True if a model takes the schema of the answer, next to its tools if there are any."""
    profile = cast(Mapping[str, Any], model.profile)
    # Gemini before 3 takes either tools or a schema.
    is_exclusive = model.system.startswith("google") and not profile.get("google_supports_tool_combination")
    if not profile.get("supports_json_schema_output") or (request.tools and is_exclusive):
        return False
    # OpenAI and those that speak its protocol take the schema of an object only.
    is_object = isinstance(request.schema, dict) and request.schema.get("type") == "object"
    return is_object or model.system.startswith("google")


def _left_out(model: Model[Any], settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that pydantic-ai would drop, some of them with a warning of Python only."""
    from pydantic_ai.profiles.openai import SAMPLING_PARAMS

    profile = cast(Mapping[str, Any], model.profile)
    dropped = {*model.unsupported_settings, *profile.get("openai_unsupported_model_settings", ())}
    if _reasons(profile, settings):
        dropped.update(SAMPLING_PARAMS)
    if any(profile.get(f"{maker}_disallows_sampling_settings") for maker in ("anthropic", "bedrock")):
        dropped.update(("temperature", "top_p", "top_k") if model.system == "bedrock" else ())
    return [key for key in settings if key in dropped]


def _reasons(profile: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Return True if a model of OpenAI reasons in a request with these settings; it takes no sampling then."""
    if not profile.get("openai_supports_reasoning"):
        return False
    efforts = profile.get("openai_reasoning_efforts")
    can_rest = profile.get("openai_supports_reasoning_effort_none") if efforts is None else "none" in efforts
    effort, thinking = settings.get("openai_reasoning_effort"), settings.get("thinking")
    if not can_rest:
        return True
    if effort is not None:
        return bool(effort != "none")
    if thinking is not None:
        return thinking is not False or bool(profile.get("thinking_always_enabled"))
    return bool(profile.get("thinking_enabled_by_default"))


def _takes_url(model: Model[Any], kind: str, url: str) -> bool:
    """Return True if the API fetches an image or a document itself; pydantic-ai would download every other one."""
    classes = {base.__name__ for base in type(model).__mro__}
    if "OpenAIResponsesModel" in classes:
        return True
    if "OpenAIChatModel" in classes:
        return kind == "image" or bool(cast(Mapping[str, Any], model.profile).get("openai_chat_supports_file_urls"))
    if model.system == "google-cloud":
        # The API gets the type with the URL, which pydantic-ai reads in its ending.
        return (guess_type(url)[0] or "").startswith(("image/",) if kind == "image" else ("application/pdf", "text/"))
    if model.system.startswith("google"):
        return url.startswith(_GOOGLE_FILES)
    return kind == "image" and not classes.isdisjoint(_TAKE_IMAGES)


def _lost(label: str, model: Model[Any], parameters: ModelRequestParameters) -> Iterator[str]:
    """Yield a warning for each tool whose schema the provider does not take as it is."""
    from .provider_messages import lost_keywords

    sent = model.customize_request_parameters(parameters).function_tools
    for before, after in zip(parameters.function_tools, sent, strict=True):
        if words := lost_keywords(before.parameters_json_schema, after.parameters_json_schema):
            yield f"tool {before.name}: {label} does not take {', '.join(words)} of its schema; left out"


def _at(address: str | None) -> str:
    return f" at {process_redaction().text(address)}" if address else ""


async def _import_package() -> None:
    """Import pydantic-ai in a thread: the import takes half a second and would block the event loop."""
    if "pydantic_ai.direct" in sys.modules:
        return
    try:
        await asyncio.to_thread(importlib.import_module, "pydantic_ai.direct")
    except ImportError as error:
        raise ModelError(_NO_PACKAGE, needs=CORRECTION) from error


async def _request(model: Model[Any], messages: Any, parameters: Any, settings: Any) -> Any:
    from pydantic_ai.direct import model_request

    return await model_request(model, messages, model_settings=settings, model_request_parameters=parameters)


async def _stream(model: Model[Any], messages: Any, parameters: Any, settings: Any, on_piece: OnPiece) -> Any:
    """Return the complete answer and report its pieces."""
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import (
        PartDeltaEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
    )

    stream = model_request_stream(model, messages, model_settings=settings, model_request_parameters=parameters)
    async with stream as events:
        async for event in events:
            if isinstance(event, PartStartEvent) and isinstance(event.part, (TextPart, ThinkingPart)):
                kind, piece = event.part.part_kind, event.part.content
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, (TextPartDelta, ThinkingPartDelta)):
                kind, piece = event.delta.part_delta_kind, event.delta.content_delta or ""
            else:
                continue
            if piece:
                on_piece(kind, piece)
        response = events.get()
    if response.finish_reason is None:
        raise ModelError("the connection ended before the answer was complete", retryable=True)
    return response


def _message(error: BaseException) -> str:
    text = str(getattr(error, "message", "") or error)
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        with contextlib.suppress(KeyError, TypeError):
            text = str(body["error"]["message"] if isinstance(body.get("error"), Mapping) else body["message"])
    elif isinstance(body, str) and body not in text:
        text = f"{text}: {body}"
    return text if len(text) <= _MAX_EXCERPT else f"{text[:_MAX_EXCERPT]}…"
