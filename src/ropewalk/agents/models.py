"""Models: the ModelClient of a project, which sends each request to the model that it names.

A request names a model as `provider:model`, by its name in `[model.NAME]`, or not at all, for the default. If a model
is overloaded, unreachable or refuses, the models of its `fallback` are asked in order; the answer's warnings name both.

To add a protocol of your own, write a ModelClient and name it as `module:Class`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..config.models import ModelSettings
from ..config.network import AddressPolicy
from ..config.providers import (
    KEY_VARIABLES,
    is_class,
    is_provider_forgotten,
    model_error,
    no_key_message,
    no_model_message,
    provider_error,
)
from ..config.secrets import remember_secrets
from ..errors import CORRECTION, ModelError, PriceUnknown
from .client import DEFAULT_MODEL, ClaudeClient, read_settings
from .model import BROKEN_OFF, Answer, ModelClient, OnPiece, Request
from .provider_client import ProviderClient

_OVERLOADED: Final = (408, 429, 500, 502, 503, 504, 529)


class Models:
    """The models of a project, as one ModelClient."""

    def __init__(self, models: Mapping[str, ModelSettings], network: AddressPolicy | None = None) -> None:
        self._named = dict(models)
        self._network = network
        self._clients: dict[str, ModelClient] = {}

    def missing(self) -> str | None:
        """Return a message if the default model lacks something, such as a key."""
        find = getattr(self.client_of(""), "missing", None)
        return find() if find is not None else None

    def missing_fallback(self, name: str) -> str | None:
        """Return why a fallback of a model cannot be asked; None if all can."""
        settings = self.settings_of(name)
        for fallback in settings.fallback:
            find = getattr(self.client_of(fallback), "missing", None)
            if find is not None and (reason := find()) is not None:
                at = f"{settings.place}: " if settings.place else ""
                return f"{at}the fallback {fallback} cannot be asked: {reason}"
        return None

    def client_of(self, name: str) -> ModelClient:
        """Return the client that asks a model."""
        return self._client(self.settings_of(name))

    def settings_of(self, name: str) -> ModelSettings:
        """Return the settings of a model."""
        default = self._named.get("", ModelSettings())
        if not name:
            return default
        if name in self._named:
            return self._named[name]
        # The address of another provider has no models of Anthropic.
        own = default.base_url if default.provider == "anthropic" else None
        is_own_address = bool(own or os.environ.get("ANTHROPIC_BASE_URL"))
        configured = [settings.model for settings in self._named.values()]
        fault = model_error(name, self._named, configured=configured, is_own_address=is_own_address)
        if fault is not None:
            raise ModelError(fault, needs=CORRECTION)
        given = ModelSettings(model=name)
        if given.provider == default.provider:
            return replace(default, model=name, fallback=(), place="")
        return given

    async def turn(self, request: Request, on_piece: OnPiece, /) -> Answer:
        """Send one request to the model that it names, or to its fallbacks."""
        settings = self.settings_of(request.model or "")
        names = list(settings.fallback)
        notes: list[str] = []
        refusals: list[Answer] = []
        is_shown = can_recover = False

        def show(kind: str, piece: str) -> None:
            nonlocal is_shown
            is_shown = True
            on_piece(kind, piece)

        while True:
            try:
                asked = replace(request, model=settings.name or None, options=_options(request, settings))
                answer = await self._client(settings).turn(asked, show)
                if answer.stop_reason != "refusal" or not names:
                    provider = answer.provider or settings.provider
                    answer = replace(answer, warnings=(*notes, *answer.warnings), provider=provider)
                    return _with_refusals(answer, refusals)
                refusals.append(answer)
                notes.append(f"{_label(settings)} refused; {names[0]} was asked")
            except ModelError as error:
                if not names or not _is_overload(error):
                    if not notes or isinstance(error, PriceUnknown):
                        raise
                    # The last model alone does not say why the first one was not used.
                    message = ": ".join((*notes, str(error)))
                    needs = "" if can_recover else error.needs
                    raise ModelError(
                        message, status=error.status, retryable=error.retryable, part=error.part, needs=needs
                    ) from error
                can_recover |= not error.needs
                notes.append(f"{error}; {names[0]} was asked")
            if is_shown:  # the next model begins its answer from the start
                on_piece(BROKEN_OFF, notes[-1])
                is_shown = False
            settings = replace(self.settings_of(names.pop(0)), fallback=())

    async def close(self) -> None:
        """Close the connections of this event loop."""
        for client in list(self._clients.values()):  # another loop may add one
            await client.close()

    def _client(self, settings: ModelSettings) -> ModelClient:
        key = repr(settings)
        if key not in self._clients:
            _remember_secrets(settings)
            self._clients[key] = _create(settings, self._network)
        return self._clients[key]


def create_models(
    models: Mapping[str, ModelSettings],
    claude: Mapping[str, Any] | None = None,
    network: AddressPolicy | None = None,
) -> Models:
    """Return the models of a project; `network` decides which files at URLs are downloaded for them."""
    default = models.get("", ModelSettings())
    if claude and default.provider == "anthropic":
        given = {key: value for key, value in claude.items() if getattr(default, key) in (None, "")}
        default = replace(default, **given)
    return Models({**models, "": default}, network)


def _remember_secrets(settings: ModelSettings) -> None:
    """Let the key and the password of the address be masked, whatever the name of the variable is."""
    try:
        password = urlsplit(settings.base_url or "").password or ""
    except ValueError:  # no address; the first request says so
        password = ""
    remember_secrets((os.environ.get(settings.key or "", ""), password, unquote(password)))


def _create(settings: ModelSettings, network: AddressPolicy | None) -> ModelClient:
    if settings.provider == "anthropic":
        return _create_claude(settings)
    if is_class(settings.model):
        return _create_own(settings)
    if (fault := provider_error(settings.model)) is not None:
        raise ModelError(fault, needs=CORRECTION)
    return ProviderClient(settings, network)


def _create_claude(settings: ModelSettings) -> ClaudeClient:
    names = ("base_url", "max_tokens", "max_retries", "timeout", "stream", "prompt_cache")
    given: dict[str, Any] = {name: value for name in names if (value := getattr(settings, name)) is not None}
    if settings.name:
        given["model"] = settings.name
    no_key = None
    if is_provider_forgotten(settings.model):
        no_key = no_key_message(settings.model, settings.place, settings.key or KEY_VARIABLES["anthropic"][0])
    if settings.key is not None:
        no_key = no_key or f"there is no key for {_label(settings)}; set {settings.key}"
        key = os.environ.get(settings.key, "")
        return ClaudeClient(read_settings(given), api_key=key, no_key=no_key, key_name=settings.key)
    # Without any configuration nobody has chosen Claude yet.
    return ClaudeClient(read_settings(given), no_key=no_model_message() if settings == ModelSettings() else no_key)


def _create_own(settings: ModelSettings) -> ModelClient:
    module, _, name = settings.model.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ModelError(f"cannot use the model {settings.model}: {error}", needs=CORRECTION) from error
    if not hasattr(made, "turn"):
        raise ModelError(f"cannot use the model {settings.model}: the class has no method turn", needs=CORRECTION)
    client: ModelClient = made()
    return client


def _options(request: Request, settings: ModelSettings) -> Mapping[str, Any]:
    """Return the options of a request with the `extra` of the model; what the request says wins."""
    of_claude = settings.options if settings.provider == "anthropic" else {}  # others have them from ProviderClient
    extra = {**of_claude, **settings.extra, **(request.options.get("extra") or {})}
    return {**request.options, "extra": extra} if extra else request.options


def _with_refusals(answer: Answer, refusals: Iterable[Answer]) -> Answer:
    """Return an answer with the tokens and the cost of those that were refused before it."""
    usage, cost = dict(answer.usage), answer.cost
    for refusal in refusals:
        for kind, count in refusal.usage.items():
            usage[kind] = usage.get(kind, 0) + count
        cost = None if cost is None or refusal.cost is None else cost + refusal.cost
    return replace(answer, usage=usage, cost=cost)


def _label(settings: ModelSettings) -> str:
    return f"{settings.provider}:{settings.name or DEFAULT_MODEL}"


def _is_overload(error: ModelError) -> bool:
    """Return True if another model may answer: the API is overloaded or cannot be reached."""
    if error.part is not None or isinstance(error, PriceUnknown):
        return False
    return error.status is None or error.status in _OVERLOADED
