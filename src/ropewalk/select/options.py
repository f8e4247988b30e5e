"""The options of a selection, checked all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from ..errors import InvalidInput, Problem, RopewalkError
from ..frozen import dataclass
from ..values import closest

MOST_RESULTS: Final = 1000


class NoTools(RopewalkError):
    """A selector was asked before it had any tools."""

    def __init__(self) -> None:
        super().__init__(
            "there are no tools to select from; register some first (initialize_selector(tools), the toolbox, or"
            " [tools] and [mcp.NAME] in ropewalk.toml)"
        )


class SelectionStrategy(StrEnum):
    """The documented strategies, and LEGACY_HYBRID: what HYBRID is documented to be."""

    EXACT = "exact"
    FUZZY = "fuzzy"
    SEMANTIC = "semantic"
    INTENT = "intent"
    HYBRID = "hybrid"
    LEGACY_HYBRID = "legacy_hybrid"


STRATEGIES: Final = tuple(one.value for one in SelectionStrategy)

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
_KNOWN: Final = {**{name: name for name in _NAMES}, **{snake: name for name, snake in _NAMES.items()}}

THRESHOLD: Final = 0.3
"""Below this no tool fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to select. None for a filter means all tools; `allow_tools` and `exclude_tools` hold ids or names."""

    strategy: str = "hybrid"
    max_results: int = 5
    threshold: float = THRESHOLD
    recent: tuple[str, ...] = ()
    exclude_tools: tuple[str, ...] = ()
    allow_tools: tuple[str, ...] | None = None
    category: tuple[str, ...] | None = None
    namespace: tuple[str, ...] | None = None


def read_options(query: object, given: Mapping[str, Any] | None, more: Mapping[str, Any]) -> Options:
    """Options in camelCase or snake_case; InvalidInput names everything that is wrong with them, and with the query."""
    problems: list[Problem] = []
    if not isinstance(query, str):
        problems.append(_problem("query", f"must be a string, not {_type(query)}"))
    if given is not None and not isinstance(given, Mapping):
        raise InvalidInput([*problems, _problem("options", f"must be an object, not {_type(given)}")])
    values: dict[str, Any] = {}
    for key, value in {**(given or {}), **more}.items():
        name = _KNOWN.get(key)
        if name is None:
            near = closest(str(key), _KNOWN)
            problems.append(Problem(path=f"options.{key}", message="there is no such option", suggestion=near))
        elif value is not None:
            values[name] = value
    fields: dict[str, Any] = {}
    for name, value in values.items():
        fields |= _read(name, value, problems)
    if problems:
        raise InvalidInput(problems)
    return Options(**fields)


def _read(name: str, value: Any, problems: list[Problem]) -> dict[str, Any]:
    path = f"options.{name}"
    if name == "strategy":
        word = getattr(value, "value", value)
        word = word.lower() if isinstance(word, str) else word
        if word not in STRATEGIES:
            near = closest(word, STRATEGIES) if isinstance(word, str) else None
            what = f"must be one of {', '.join(STRATEGIES)}, not {value!r}"
            problems.append(Problem(path=path, message=what, suggestion=near))
        return {"strategy": word}
    if name == "maxResults":
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_RESULTS:
            problems.append(_problem(path, f"must be a whole number from 1 to {MOST_RESULTS}, not {value!r}"))
        return {"max_results": value}
    if name == "threshold":
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            problems.append(_problem(path, f"must be a number from 0 to 1, not {value!r}"))
        return {"threshold": value}
    if name == "context":
        if not isinstance(value, Mapping):
            problems.append(_problem(path, f"must be an object such as {{recentTools: [...]}}, not {_type(value)}"))
            return {}
        for key in value:
            if key not in ("recentTools", "recent_tools"):
                near = closest(str(key), ("recentTools",))
                problems.append(Problem(path=f"{path}.{key}", message="there is no such option", suggestion=near))
        given = [recent for key in ("recentTools", "recent_tools") if (recent := value.get(key)) is not None]
        return {"recent": _names(f"{path}.recentTools", given[0], problems) if given else ()}
    return {_NAMES[name]: _names(path, value, problems, one=name in ("category", "namespace"))}


def _names(path: str, value: Any, problems: list[Problem], one: bool = False) -> tuple[str, ...]:
    if one and isinstance(value, str):
        return (value,)
    if isinstance(value, str) or not isinstance(value, (Sequence, set, frozenset)):
        problems.append(_problem(path, f"must be a list of strings, not {_type(value)}"))
        return ()
    wrong = [item for item in value if not isinstance(item, str)]
    if wrong:
        problems.append(_problem(path, f"must be a list of strings; {wrong[0]!r} is none"))
        return ()
    return tuple(value)


def _problem(path: str, message: str) -> Problem:
    return Problem(path=path, message=message)


def _type(value: object) -> str:
    return type(value).__name__
