"""The models of a project: `[model]`, `[model.NAME]`, and `[claude]` of earlier versions.

`[model]` is the default model. `[model.NAME]` has a name of its own, which agents, nodes and `--model` may write in
place of `provider:model`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Final

from ..errors import ConfigError
from ..fast_dataclass import dataclass
from ..values import Json
from .model_options import option_faults
from .providers import model_error, provider_error
from .toml import MODEL_KEYS, TomlFile, raise_all

DEFAULT_PROVIDER: Final = "anthropic"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """A model and how to ask it."""

    # `provider:model`, or a model of Anthropic, or `module:Class` of your own.
    model: str = ""
    # The address of the API, and the variable with the key, if they are not the provider's own.
    base_url: str | None = None
    key: str | None = None
    max_tokens: int | None = None
    max_retries: int | None = None
    timeout: float | None = None
    stream: bool | None = None
    prompt_cache: bool | None = None
    # Options in the words of pydantic-ai, such as `temperature`, and members to add to the body of each request.
    options: Mapping[str, Json] = field(default_factory=dict)
    extra: Mapping[str, Json] = field(default_factory=dict)
    # The models to ask, in order, if this one is overloaded or refuses.
    fallback: tuple[str, ...] = ()
    # Where the project's file names the model, such as `ropewalk.toml:3`; "" if it does not.
    place: str = field(default="", compare=False)

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
    """Return the models by name; the default, if there is one, has the name ""."""
    section = table.get_table(("model",))
    named = {key: value for key, value in section.items() if isinstance(value, dict) and key not in MODEL_KEYS}
    errors: list[ConfigError] = []
    models: dict[str, ModelSettings] = {}
    for path in [("model",), *(("model", name) for name in named)]:
        try:
            settings = _settings(table.check_table(path, MODEL_KEYS, tables=named if len(path) == 1 else ()))
            if settings.model:
                settings = replace(settings, place=table.place_of((*path, "model")).spot)
            errors += _name_errors(table, path, settings, named)
            errors += _option_errors(table, path, settings)
            models[path[-1] if len(path) == 2 else ""] = settings
        except ConfigError as error:
            errors.append(error)
    raise_all(errors)
    if not section.keys() - named.keys():
        models.pop("", None)
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


def _option_errors(table: TomlFile, path: tuple[str, ...], settings: ModelSettings) -> Iterator[ConfigError]:
    """Yield an error for each option that the model does not have, and for each value of another type."""
    for name, fault in option_faults(settings.model, settings.provider, settings.options):
        key = (*path, "options", name)
        yield ConfigError(f"[{'.'.join(key[:-1])}] {name}: {fault}", place=table.place_of(key))


def _settings(table: Mapping[str, Any]) -> ModelSettings:
    return ModelSettings(**{**table, "fallback": tuple(table.get("fallback", ()))})
