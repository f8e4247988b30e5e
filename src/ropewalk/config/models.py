"""The models of a project: `[model]`, `[model.NAME]`, and `[claude]` of earlier versions.

`[model]` is the default model. `[model.NAME]` has a name of its own, which agents, nodes and `--model` may write in
place of `provider:model`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from ..errors import ConfigError
from ..fast_dataclass import dataclass
from ..values import Json
from .providers import model_error, provider_error
from .toml import MODEL_KEYS, TomlFile, raise_all

DEFAULT_PROVIDER: Final = "anthropic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """A model and how to ask it.

    Attributes:
        model: The model as `provider:model`, such as `openai:gpt-5`. Without a provider it is Anthropic's. "" is the
            default of Anthropic. `module:Class` with a capital letter names a ModelClient of your own.
        base_url: The address of the API; None is the provider's own.
        key: The environment variable that holds the key; None is the provider's own, such as `OPENAI_API_KEY`.
        max_tokens: The longest answer of one turn, in tokens.
        max_retries: How often a request that failed with 429 or 5xx is repeated.
        timeout: Seconds for one request.
        stream: Receive answers piece by piece.
        prompt_cache: Let the API cache what the rounds of a conversation have in common.
        options: Options of the provider's API in the words of pydantic-ai, such as `temperature`.
        extra: Fields that are added to the body of each request unchanged.
        fallback: Models to ask, in order, if this one is overloaded or refuses.
    """

    model: str = ""
    base_url: str | None = None
    key: str | None = None
    max_tokens: int | None = None
    max_retries: int | None = None
    timeout: float | None = None
    stream: bool | None = None
    prompt_cache: bool | None = None
    options: Mapping[str, Json] = field(default_factory=dict)
    extra: Mapping[str, Json] = field(default_factory=dict)
    fallback: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        """The provider of the model."""
        provider, colon, _ = self.model.partition(":")
        return provider if colon else DEFAULT_PROVIDER

    @property
    def name(self) -> str:
        """The name of the model without its provider."""
        return self.model.partition(":")[2] if ":" in self.model else self.model


def read_models(table: TomlFile) -> dict[str, ModelSettings]:
    """Return the models by name; the default has the name ""."""
    section = table.get_table(("model",))
    named = {key: value for key, value in section.items() if isinstance(value, dict) and key not in MODEL_KEYS}
    errors: list[ConfigError] = []
    models: dict[str, ModelSettings] = {}
    for path in [("model",), *(("model", name) for name in named)]:
        try:
            settings = _settings(table.check_table(path, MODEL_KEYS, tables=named if len(path) == 1 else ()))
            errors += _name_errors(table, path, settings, named)
            models[path[-1] if len(path) == 2 else ""] = settings
        except ConfigError as error:
            errors.append(error)
    raise_all(errors)
    return models


def _name_errors(
    table: TomlFile, path: tuple[str, ...], settings: ModelSettings, names: Collection[str]
) -> Iterator[ConfigError]:
    """Yield an error for the model of a table and for each fallback that nothing can be meant by."""
    faults = [
        ("model", provider_error(settings.model)),
        *(("fallback", model_error(m, names)) for m in settings.fallback),
    ]
    for key, fault in faults:
        if fault is not None:
            yield ConfigError(f"[{'.'.join(path)}] {key}: {fault}", place=table.place_of((*path, key)))


def _settings(table: Mapping[str, Any]) -> ModelSettings:
    return ModelSettings(**{**table, "fallback": tuple(table.get("fallback", ()))})
