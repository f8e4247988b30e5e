"""Read the options of a selection; one InvalidInput names every wrong option.

To add an option, add a field to Options, its name to `_NAMES` and its check to `_read_option`. Tools and doors import
this module for its names, so it must not import numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from ..errors import InvalidInput, Problem, RopewalkError
from ..fast_dataclass import dataclass
from ..values import did_you_mean

MAX_RESULTS: Final = 1000


class NoTools(RopewalkError):
    """Raised when a selector without tools gets a request."""

    def __init__(self) -> None:
        super().__init__(
            "there are no tools to select from; register some first (initialize_selector(tools), the toolbox, or"
            " [tools] and [mcp.NAME] in ropewalk.toml)"
        )


class SelectionStrategy(StrEnum):
    """The documented strategies. LEGACY_HYBRID is HYBRID as it was first documented."""

    EXACT = "exact"
    FUZZY = "fuzzy"
    SEMANTIC = "semantic"
    INTENT = "intent"
    HYBRID = "hybrid"
    LEGACY_HYBRID = "legacy_hybrid"


STRATEGIES: Final = tuple(strategy.value for strategy in SelectionStrategy)

_NAMES: Final = {
    "strategy": "strategy",
    "maxResults": "max_results",
    "threshold": "threshold",
    "context": "context",
    "excludeTools": "exclude_tools",
    "allowTools": "allow_tools",
    "category": "category",
    "namespace": "namespace",
}
_OPTION_NAMES: Final = {**{name: name for name in _NAMES}, **{snake: name for name, snake in _NAMES.items()}}

THRESHOLD: Final = 0.3
"""The default least score of a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to select."""

    # None for a filter means all tools; `allow_tools` and `exclude_tools` hold ids or names.

    strategy: str = "hybrid"
    max_results: int = 5
    threshold: float = THRESHOLD
    recent: tuple[str, ...] = ()
    exclude_tools: tuple[str, ...] = ()
    allow_tools: tuple[str, ...] | None = None
    category: tuple[str, ...] | None = None
    namespace: tuple[str, ...] | None = None


@cache
def missing_libraries() -> list[str]:
    """Return the libraries of the extra `select` that are not installed; without one, `hybrid` is LEGACY_HYBRID."""
    return [name for name in ("numpy", "rapidfuzz", "Stemmer") if find_spec(name) is None]


def read_options(query: object, options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> Options:
    """Read options in camelCase or snake_case."""

    # `query`: The request, which must be a string.
    problems: list[Problem] = []
    if not isinstance(query, str):
        problems.append(_problem("query", f"must be a string, not {_type_name(query)}"))
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInput([*problems, _problem("options", f"must be an object, not {_type_name(options)}")])
    values: dict[str, Any] = {}
    for key, value in {**(options or {}), **more}.items():
        name = _OPTION_NAMES.get(key)
        if name is None:
            suggestion = did_you_mean(str(key), _OPTION_NAMES)
            problems.append(Problem(path=f"options.{key}", message="unknown option", suggestion=suggestion))
        elif value is not None:
            values[name] = value
    fields: dict[str, Any] = {}
    for name, value in values.items():
        fields |= _read_option(name, value, problems)
    if problems:
        raise InvalidInput(problems)
    return Options(**fields)


def _read_option(name: str, value: Any, problems: list[Problem]) -> dict[str, Any]:
    path = f"options.{name}"
    if name == "strategy":
        word = getattr(value, "value", value)
        word = word.lower() if isinstance(word, str) else word
        if word not in STRATEGIES:
            suggestion = did_you_mean(word, STRATEGIES) if isinstance(word, str) else None
            message = f"must be one of {', '.join(STRATEGIES)}, not {value!r}"
            problems.append(Problem(path=path, message=message, suggestion=suggestion))
        return {"strategy": word}
    # Each option has its own type; a wrong value is reported and kept, because the error is raised anyway.
    if name == "maxResults":
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_RESULTS:
            problems.append(_problem(path, f"must be an integer from 1 to {MAX_RESULTS}, not {value!r}"))
        return {"max_results": value}
    if name == "threshold":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            problems.append(_problem(path, f"must be a number from 0 to 1, not {value!r}"))
        return {"threshold": value}
    if name == "context":
        if not isinstance(value, Mapping):
            problems.append(
                _problem(path, f"must be an object such as {{recentTools: [...]}}, not {_type_name(value)}")
            )
            return {}
        for key in value:
            if key not in ("recentTools", "recent_tools"):
                suggestion = did_you_mean(str(key), ("recentTools",))
                problems.append(Problem(path=f"{path}.{key}", message="unknown option", suggestion=suggestion))
        recent_tools = [recent for key in ("recentTools", "recent_tools") if (recent := value.get(key)) is not None]
        return {"recent": _read_names(f"{path}.recentTools", recent_tools[0], problems) if recent_tools else ()}
    return {_NAMES[name]: _read_names(path, value, problems, single_allowed=name in ("category", "namespace"))}


def _read_names(path: str, value: Any, problems: list[Problem], single_allowed: bool = False) -> tuple[str, ...]:
    if single_allowed and isinstance(value, str):
        return (value,)
    if isinstance(value, str) or not isinstance(value, (Sequence, set, frozenset)):
        problems.append(_problem(path, f"must be a list of strings, not {_type_name(value)}"))
        return ()
    others = [item for item in value if not isinstance(item, str)]
    if others:
        problems.append(_problem(path, f"must be a list of strings; {others[0]!r} is not a string"))
        return ()
    return tuple(value)


def _problem(path: str, message: str) -> Problem:
    return Problem(path=path, message=message)


def _type_name(value: object) -> str:
    return type(value).__name__
