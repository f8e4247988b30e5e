"""Providers of models: their names, the variables of their keys and addresses, and what is wrong with a model's name.

A provider that only a newer pydantic-ai knows needs no entry. An entry names its variables in messages.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

from ..values import did_you_mean

KEY_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "alibaba": ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "azure-responses": ("AZURE_OPENAI_API_KEY",),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "zai": ("ZAI_API_KEY",),
}
"""The variables of which one holds the key, by provider."""
ADDRESSES: Final[Mapping[str, tuple[str, str]]] = {
    "ollama": ("OLLAMA_BASE_URL", "http://localhost:11434/v1"),
    "vllm": ("VLLM_BASE_URL", "http://localhost:8000/v1"),
}
"""The variable of the address and a usual address, by provider that you run yourself. These need no key."""
PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "bedrock": ("boto3", "bedrock"),
    "cohere": ("cohere", "cohere"),
    "groq": ("groq", "groq"),
    "huggingface": ("huggingface_hub", "huggingface"),
    "mistral": ("mistralai", "mistral"),
    "typesafe": ("typesafe_sdk", "typesafe"),
    "voyageai": ("voyageai", "voyageai"),
    "xai": ("xai_sdk", "xai"),
}
"""The module that a provider needs beyond the extra `models`, and the extra of pydantic-ai that installs it."""
_OTHERS: Final = (
    *("bedrock", "bedrock-mantle", "crusoe", "elevenlabs", "github", "github-copilot", "google-cloud"),
    *("google-decisions", "heroku", "litellm", "meta", "nebius", "openai-chatgpt", "openai-codex", "openai-decisions"),
    *("ovhcloud", "sambanova", "sentence-transformers", "snowflake", "system-one", "typesafe", "vercel", "voyageai"),
)
PROVIDERS: Final = (*KEY_VARIABLES, *ADDRESSES, *_OTHERS)
_COMMON: Final = (
    "anthropic",
    "openai",
    "google",
    "azure",
    "deepseek",
    "groq",
    "mistral",
    "openrouter",
    "ollama",
)
EXAMPLES: Final[Mapping[str, str]] = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-5",
    "google": "gemini-2.5-flash",
    "deepseek": "deepseek-flash",
    "groq": "openai/gpt-oss-120b",
    "mistral": "mistral-large-latest",
    "openrouter": "openai/gpt-5",
    "xai": "grok-4.3",
}
"""A model of each provider, for messages."""
_OWNERS: Final = {"gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "gemini": "google", "grok": "xai"}


def is_web_address(value: Any) -> bool:
    """Return True for the http or https address of a host, with a possible port."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def address_fault(variable: str) -> str | None:
    """Return what is wrong with the address in an environment variable, or None."""
    if is_web_address(os.environ.get(variable) or "http://default"):
        return None
    return f"{variable}: must be an address that begins with http:// or https://"


def is_class(model: str) -> bool:
    """Return True if a model is named as `module:Class`; the name of a provider is never a module."""
    module, colon, name = model.partition(":")
    if not colon or module in PROVIDERS:  # such as `azure:GPT4o`
        return False
    return name[:1].isupper() and name.isidentifier() and all(map(str.isidentifier, module.split(".")))


def provider_error(model: str) -> str | None:
    """Return what is wrong with the provider of a model, or None."""
    provider, colon, name = model.partition(":")
    if not colon or provider in PROVIDERS or is_class(model) or _is_newer(provider):
        return None
    near = did_you_mean(provider, PROVIDERS)
    hint = f"did you mean {near}:{name}? Known" if near else "known"
    known = ", ".join(_COMMON)
    return f"there is no provider {provider!r}; {hint} are {known} and others, and your own classes as module:Class"


def name_error(
    model: str, names: Iterable[str], *, configured: Iterable[str] = (), is_own_address: bool = False
) -> str | None:
    """Return what is wrong with a model without a provider that is none of these names, or None."""

    # All models of Anthropic begin alike, but at an address of their own people have other names.
    if model.startswith("claude"):
        return None
    if near := did_you_mean(model, names):
        return f"there is no model {model!r}; did you mean {near!r}?"
    if (same := next((item for item in configured if item.partition(":")[2] == model), None)) is not None:
        return f"there is no model {model!r}; a name without a provider means Anthropic; did you mean {same}?"
    if is_own_address:
        return None
    owner = _owner_of(model)
    hint = f"did you mean {owner}:{model}?" if owner else "write it as provider:model, or define it in ropewalk.toml"
    return f"there is no model {model!r}; {hint}"


def model_error(
    model: str, names: Collection[str], *, configured: Iterable[str] = (), is_own_address: bool = False
) -> str | None:
    """Return what is wrong with a model as a project names it, or None."""
    if not model or model in names:
        return None
    if ":" in model:
        return provider_error(model)
    return name_error(model, names, configured=configured, is_own_address=is_own_address)


def _owner_of(model: str) -> str | None:
    return next((owner for start, owner in _OWNERS.items() if model.startswith(start)), None)


def is_provider_forgotten(model: str) -> bool:
    """Return True if a model has no provider and no name like Anthropic's models."""
    return bool(model) and ":" not in model and not model.startswith("claude")


def no_key_message(model: str, place: str = "", variable: str = KEY_VARIABLES["anthropic"][0]) -> str:
    """Return the message for a model whose provider is probably forgotten and that has no key for Anthropic."""
    at = f"{place}: " if place else ""
    return (
        f'{at}model "{model}" has no provider, so Ropewalk uses the Messages API of Anthropic, and there is no key '
        f"for it; set {variable}, or {provider_advice(model)}"
    )


def provider_advice(model: str) -> str:
    """Return how to name the provider of a model."""
    return f'write the provider, as in "{_owner_of(model) or "openai"}:{model}"'


def key_advice(provider: str, variable: str | None) -> str:
    """Return what to do if a provider refuses the key, which a variable of its own or of the provider holds."""
    names = (variable,) if variable else KEY_VARIABLES.get(provider, ())
    if (sent := next(filter(os.environ.get, names), None)) is not None:
        return f"; is {sent} right?"
    usual = f"set {names[0]}, or " if names else ""
    return f"; no key was sent; {usual}name the variable of the key as key in ropewalk.toml"


def suggest_models(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return a variable by model: of the providers whose key is set, or of common ones if none is."""
    named = {f"{provider}:{model}": KEY_VARIABLES[provider] for provider, model in EXAMPLES.items()}
    found = {model: name for model, names in named.items() for name in names if environ.get(name)}
    return found or {model: named[model][0] for model in list(named)[:3]}


def no_model_message(environ: Mapping[str, str] = os.environ) -> str:
    """Return the message for a project that configures no model and has no key for Anthropic's."""
    found = [(model, name) for model, name in suggest_models(environ).items() if environ.get(name)]
    if found:
        [(model, name), *_] = found
        return f'no model is configured; {name} is set, so write model = "{model}" under [model] in ropewalk.toml'
    return (
        "no model is configured; set ANTHROPIC_API_KEY for Claude, or the key of another provider, such as "
        'OPENAI_API_KEY, and write its model under [model] in ropewalk.toml, such as model = "openai:gpt-5"'
    )


def _is_newer(provider: str) -> bool:
    """Return True if pydantic-ai knows a provider that is not listed here."""
    if provider.startswith("gateway/"):
        return True
    if find_spec("pydantic_ai") is None:
        return False
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(provider)
    except ValueError:
        return False
    except ImportError:
        return True
    return True
