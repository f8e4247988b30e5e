"""Facts of the models of a project, without asking them: keys, prices, capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from ..config.models import ModelSettings
from ..config.providers import is_class
from ..config.secrets import process_redaction
from ..errors import ModelError
from ..values import Json
from .client import DEFAULT_MODEL, estimate_cost
from .models import create_models

_MILLION: Final = 1_000_000
_CAPABILITIES: Final = {
    "supports_tools": "tools",
    "supports_json_schema_output": "structured answers",
    "supports_thinking": "thinking",
    "supports_image_input": "images",
}
_OF_CLAUDE: Final = ["tools", "structured answers", "thinking", "images", "prompt cache"]


def model_facts(models: Mapping[str, ModelSettings], claude: Mapping[str, Any]) -> list[dict[str, Json]]:
    """Return the facts of each model, the default first."""
    clients = create_models(models, claude)
    facts: list[dict[str, Json]] = []
    for name in dict.fromkeys(["", *sorted(models)]):
        settings = clients.settings_of(name)
        own = is_class(settings.model)
        model = settings.name or DEFAULT_MODEL
        missing = _missing(clients, name)  # the client knows then what to mask
        prices = [None, None] if own else [_price(settings.provider, model, kind) for kind in ("input", "output")]
        facts.append(
            {
                "name": name,
                "model": settings.model if own else f"{settings.provider}:{model}",
                "baseUrl": process_redaction().text(settings.base_url) if settings.base_url else None,
                "missing": missing,
                "inputPrice": prices[0],
                "outputPrice": prices[1],
                "capabilities": None if own else _capabilities(settings.provider, model),
                "fallback": list(settings.fallback),
            }
        )
    return facts


def _missing(clients: Any, name: str) -> str | None:
    try:
        find = getattr(clients.client_of(name), "missing", None)
    except ModelError as error:
        return str(error)
    reason: str | None = find() if find is not None else None
    return reason


def _price(provider: str, model: str, kind: str) -> float | None:
    """Return the US dollars of a million tokens at the rate of small requests; None if it is not known."""
    cost = estimate_cost(model, {f"{kind}_tokens": 1000}, provider)
    return None if cost is None else round(cost * _MILLION / 1000, 6)


def _capabilities(provider: str, model: str) -> list[Json] | None:
    """Return what a model can do as far as its maker's documentation says; None if that is not known."""
    if provider == "anthropic":
        return list(_OF_CLAUDE)
    if find_spec("pydantic_ai") is None:
        return None
    from pydantic_ai.providers import infer_provider_class

    try:
        profile = infer_provider_class(provider).model_profile(model)
    except (ValueError, ImportError):
        return None
    usual = {"supports_tools": True, "supports_image_input": True}
    known = {**usual, **(profile or {})}
    return [word for key, word in _CAPABILITIES.items() if known.get(key)]
