"""What n8n-mcp knows of the node types of a draft, each asked once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from ..errors import ToolError
from ..frozen import dataclass
from ..values import Json
from .node_tools import short_type
from .server import Server

_CHOSEN: Final = ("nodeCredentialType", "genericAuthType")
"""Parameters that name a credential themselves."""
_MOST_OPTIONS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One node type. `essentials` is what the model is told; `credentials` are `{name, displayOptions}`."""

    type: str
    version: float
    trigger: bool
    essentials: dict[str, Json]
    credentials: tuple[Mapping[str, Any], ...]
    defaults: Mapping[str, Json]

    def needs(self, parameters: Mapping[str, Any]) -> list[str]:
        """The credentials that a node with these parameters needs."""
        found = [one["name"] for one in self.credentials if one.get("required") and self._shown(one, parameters)]
        if self._value("authentication", parameters) != "none":
            found += [str(parameters[name]) for name in _CHOSEN if parameters.get(name)]
        return list(dict.fromkeys(found))

    def _shown(self, credential: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
        show = (credential.get("displayOptions") or {}).get("show") or {}
        return all(self._value(name, parameters) in allowed for name, allowed in show.items() if name[:1] != "@")

    def _value(self, name: str, parameters: Mapping[str, Any]) -> Any:
        return parameters.get(name, self.defaults.get(name))


class Known:
    """The facts of types, as far as n8n-mcp knows them. `ask` gives for each type what `asked` gives."""

    def __init__(self, ask: Callable[[list[str]], Awaitable[list[Any]]]) -> None:
        self._ask = ask
        self._found: dict[str, Facts | None] = {}

    def __getitem__(self, type: str) -> Facts | None:
        """None: there is no such type."""
        return self._found.get(short_type(type))

    async def learn(self, types: Iterable[str]) -> None:
        """Ask about those that are new. ServerDown where nobody answers."""
        new = [type for type in dict.fromkeys(map(short_type, types)) if type not in self._found]
        for type, facts in zip(new, await self._ask(new) if new else (), strict=True):
            self._found[type] = Facts(**facts) if facts is not None else None

    def essentials(self, types: Iterable[str]) -> list[Json]:
        """What the model is told of these types."""
        known = (self[type] for type in dict.fromkeys(map(short_type, types)))
        return [facts.essentials for facts in known if facts is not None]


async def asked(server: Server, type: str) -> dict[str, Json] | None:
    """The fields of the Facts of a type; None where there is no such type."""
    try:
        told = await server.call("get_node", {"nodeType": type, "detail": "standard"})
        full = await server.call("get_node", {"nodeType": type, "detail": "full"})
    except ToolError:
        return None  # the judge says that there is no such type, and what is near
    defaults: dict[str, Json] = {}
    for one in full.get("properties") or ():
        defaults.setdefault(one["name"], one.get("default"))
    return {
        "type": told["workflowNodeType"],
        "version": float(told["version"]),
        "trigger": bool(full.get("isTrigger")),
        "essentials": _essentials(told, full),
        "credentials": full.get("credentials") or [],
        "defaults": defaults,
    }


def _essentials(told: Mapping[str, Any], full: Mapping[str, Any]) -> dict[str, Json]:
    kept = {key: told.get(key) for key in ("nodeType", "displayName", "description", "version")}
    properties = [_brief(one) for key in ("requiredProperties", "commonProperties") for one in told.get(key) or ()]
    more = {key: full[key] for key in ("outputs", "isTrigger") if full.get(key)}
    return {**kept, "properties": properties, "operations": (told.get("operations") or [])[:_MOST_OPTIONS], **more}


def _brief(told: Mapping[str, Any]) -> dict[str, Json]:
    brief = {key: told[key] for key in ("name", "type", "description", "required", "default") if key in told}
    options = [one.get("value") for one in told.get("options") or () if isinstance(one, Mapping) and "value" in one]
    return {**brief, "options": options[:_MOST_OPTIONS]} if options else brief
