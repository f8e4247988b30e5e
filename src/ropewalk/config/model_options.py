"""Checks of `options` of a model: find names that its API does not have, and values of another type.

The settings that all makers share are listed here, as pydantic-ai names them. Those of one maker begin with its name,
such as `openai_reasoning_effort`; pydantic-ai says which there are.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from ..values import did_you_mean
from .providers import is_class

_Check = tuple[str, Callable[[Any], bool]]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_NUMBER: Final[_Check] = ("a number", _is_number)
_INTEGER: Final[_Check] = ("a whole number", _is_integer)
_FLAG: Final[_Check] = ("true or false", lambda value: isinstance(value, bool))
_TEXT: Final[_Check] = ("text", lambda value: isinstance(value, str))
_TABLE: Final[_Check] = ("a table", lambda value: isinstance(value, dict))
_TEXTS: Final[_Check] = (
    "a list of texts",
    lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
)
_ANYTHING: Final[_Check] = ("anything", lambda value: True)
SHARED: Final[Mapping[str, _Check]] = {
    "temperature": _NUMBER,
    "top_p": _NUMBER,
    "top_k": _INTEGER,
    "seed": _INTEGER,
    "presence_penalty": _NUMBER,
    "frequency_penalty": _NUMBER,
    "stop_sequences": _TEXTS,
    "service_tier": _TEXT,
    "parallel_tool_calls": _FLAG,
    "thinking": ('true, false or a level such as "high"', lambda value: isinstance(value, (bool, str))),
    "logit_bias": _TABLE,
    "citations": _FLAG,
    "cache": _ANYTHING,
    "tool_choice": _ANYTHING,
    "max_tokens": _INTEGER,
    "max_retries": _INTEGER,
    "timeout": _NUMBER,
    "request_timeout": _NUMBER,
    "first_event_timeout": _NUMBER,
    "framing_announcement": _ANYTHING,
    "extra_headers": _TABLE,
    "extra_body": _TABLE,
}
"""The settings of pydantic-ai for the models of all makers."""
_CLAUDE: Final[Mapping[str, _Check]] = {
    **{name: SHARED[name] for name in ("temperature", "top_p", "top_k", "stop_sequences", "service_tier")},
    **dict.fromkeys(("metadata", "thinking", "tool_choice", "output_config", "context_management"), _TABLE),
    **dict.fromkeys(("container", "inference_geo", "speed", "mcp_servers"), _ANYTHING),
}
"""Fields of the Messages API. A field that is not listed is sent, unless it is close to a name of the list."""
_MAKERS: Final = (
    *("anthropic", "bedrock", "cerebras", "cohere", "google", "groq", "huggingface", "mistral", "openai"),
    *("openrouter", "snowflake", "typesafe", "xai", "zai"),
)
"""Modules of pydantic-ai, with whose name the settings of a maker begin."""


def option_faults(model: str, provider: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each wrong option of a model and what is wrong with it."""
    if is_class(model):  # which gets none of them
        return
    is_claude = provider == "anthropic"
    known = _CLAUDE if is_claude else SHARED
    for name, value in options.items():
        if name in known:
            expected, accepts = known[name]
            if not accepts(value):
                yield name, f"must be {expected}"
            continue
        names = known.keys() if is_claude else _names_like(name)
        if names is None or name in names:
            continue
        near = did_you_mean(name, names)
        if near or not is_claude:
            hint = f"did you mean {near}?" if near else "extra sends a field of the API unchanged"
            yield name, f"there is no such option; {hint}"


def _names_like(name: str) -> Collection[str] | None:
    """Return the known names among which an option must be; None if only a package that is missing knows them."""
    maker = name.partition("_")[0]
    if maker not in _MAKERS:
        return SHARED.keys()
    try:
        module = importlib.import_module(f"pydantic_ai.models.{maker}")
    except ImportError:
        return None
    tables = [value for key, value in vars(module).items() if key.endswith("ModelSettings")]
    return {key for table in tables for key in getattr(table, "__annotations__", {}) if key.startswith(f"{maker}_")}
