"""The ten tools of the phases, under the names of their first definition, and what each asks of n8n-mcp.

Only what n8n-mcp offers is asked. `list_node_types` is gone there, so it is made of searches; the whole definition of
a node (200 kB of Slack) is read by code, the model gets the part that it asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..frozen import dataclass
from ..tools.tool import Tool
from ..tools.toolbox import Toolbox
from ..values import Json
from .server import Server

NAMESPACE: Final = "n8n-builder"
Ask: TypeAlias = Callable[[Server, Mapping[str, Any]], Awaitable[Json]]

_PREFIXES: Final = (("@n8n/n8n-nodes-", "nodes-"), ("n8n-nodes-base.", "nodes-base."))
_SWEEP: Final = ("trigger", "transform", "input", "output", "webhook", "database", "message", "file", "agent", "model")
_MOST: Final = 100
_CONNECTIONS: Final = {"validateNodes": False, "validateExpressions": False, "validateConnections": True}


def short_type(given: str) -> str:
    """A node type as n8n-mcp's tools spell it: `nodes-base.slack`."""
    for long, short in _PREFIXES:
        if given.startswith(long):
            return short + given[len(long) :]
    return given if "." in given else f"nodes-base.{given}"


def _node(detail: str = "", **more: str) -> Ask:
    """A question about one node; `more` maps n8n-mcp's parameters to those given, `=` before a constant."""

    async def ask(server: Server, given: Mapping[str, Any]) -> Json:
        arguments: dict[str, Any] = {"nodeType": short_type(given["nodeType"])}
        if detail:
            arguments["detail"] = detail
        for name, source in more.items():
            arguments[name] = source[1:] if source.startswith("=") else given[source]
        return await server.call("get_node", arguments)

    return ask


def _part(ask: Ask, *names: str) -> Ask:
    async def part(server: Server, given: Mapping[str, Any]) -> Json:
        found: Any = await ask(server, given)
        return {name: found.get(name) for name in ("nodeType", *names)}

    return part


async def _search(server: Server, given: Mapping[str, Any]) -> Json:
    return await server.call("search_nodes", {"query": given["query"], "limit": given.get("limit", 10)})


async def _properties(server: Server, given: Mapping[str, Any]) -> Json:
    arguments = {"nodeType": short_type(given["nodeType"]), "mode": "search_properties"}
    more = {"propertyQuery": given["query"], "maxPropertyResults": given.get("maxResults", 20)}
    return await server.call("get_node", {**arguments, **more})


async def _minimal(server: Server, given: Mapping[str, Any]) -> Json:
    arguments = {"nodeType": short_type(given["nodeType"]), "config": given["config"], "mode": "minimal"}
    return await server.call("validate_node", arguments)


async def _workflow(server: Server, given: Mapping[str, Any]) -> Json:
    return await server.call("validate_workflow", {"workflow": given["workflow"]})


async def _connections(server: Server, given: Mapping[str, Any]) -> Json:
    return await server.call("validate_workflow", {"workflow": given["workflow"], "options": dict(_CONNECTIONS)})


async def core_nodes(server: Server, words: Sequence[str], each: int = _MOST) -> list[dict[str, Any]]:
    """n8n's own nodes that searches for these words find, `each` of a word, every node once: community nodes, which
    `source` does not keep away, cannot be imported everywhere."""
    asked = [server.call("search_nodes", {"query": word, "limit": _MOST, "source": "core"}) for word in words]
    found: dict[str, dict[str, Any]] = {}
    for answer in await asyncio.gather(*asked):
        own = [row for row in answer["results"] if not row.get("isCommunity")]
        found.update((row["nodeType"], row) for row in own[:each])
    return list(found.values())


async def _types(server: Server, given: Mapping[str, Any]) -> Json:
    """Several searches, since no call lists all: those of a category, or of words that most nodes have one of."""
    category, limit = given.get("category"), given.get("limit", 50)
    rows = await core_nodes(server, (category,) if category else _SWEEP)
    same = [row for row in rows if not category or row["category"].lower() == category.lower()]
    listed: list[Json] = [{key: row[key] for key in ("nodeType", "displayName", "category")} for row in same[:limit]]
    return {"nodes": listed, "complete": False}


@dataclass(frozen=True, slots=True)
class _NodeTool:
    description: str
    properties: dict[str, Json]
    optional: tuple[str, ...]
    ask: Ask


_TYPE: Final[dict[str, Json]] = {"type": "string", "description": "Such as nodes-base.httpRequest"}
_WORKFLOW: Final[dict[str, Json]] = {"type": "object", "description": "The workflow: nodes and connections"}


def _count(default: int) -> dict[str, Json]:
    return {"type": "integer", "minimum": 1, "maximum": _MOST, "default": default}


TOOLS: Final[dict[str, _NodeTool]] = {
    "search_node_properties": _NodeTool(
        "Search the properties of a node (authentication, headers, retry, ...).",
        {"nodeType": _TYPE, "query": {"type": "string"}, "maxResults": _count(20)},
        ("maxResults",),
        _properties,
    ),
    "get_node_documentation": _NodeTool("The documentation of a node.", {"nodeType": _TYPE}, (), _node(mode="=docs")),
    "validate_node_minimal": _NodeTool(
        "Which required fields a configuration of a node lacks.",
        {"nodeType": _TYPE, "config": {"type": "object"}},
        (),
        _minimal,
    ),
    "validate_workflow": _NodeTool("Validate a whole workflow.", {"workflow": _WORKFLOW}, (), _workflow),
    "check_connections": _NodeTool(
        "Validate only the connections of a workflow.", {"workflow": _WORKFLOW}, (), _connections
    ),
    "get_input_schema": _NodeTool(
        "The required and the common properties of a node.",
        {"nodeType": _TYPE},
        (),
        _part(_node("standard"), "requiredProperties", "commonProperties"),
    ),
    "get_output_schema": _NodeTool(
        "The outputs of a node, in their order.",
        {"nodeType": _TYPE},
        (),
        _part(_node("full"), "outputs", "outputNames"),
    ),
    "search_nodes": _NodeTool(
        "Find nodes by what they do.", {"query": {"type": "string"}, "limit": _count(10)}, ("limit",), _search
    ),
    "get_node_info": _NodeTool(
        "A node: what it does, its version, its main properties.", {"nodeType": _TYPE}, (), _node("standard")
    ),
    "list_node_types": _NodeTool(
        "List node types, of one category (trigger, input, output, transform) or of all; never the complete list.",
        {"category": {"type": "string"}, "limit": _count(50)},
        ("category", "limit"),
        _types,
    ),
}


def register(toolbox: Toolbox, server: Server) -> None:
    """Give a toolbox the ten, over this server."""
    for name, about in TOOLS.items():
        toolbox.register(
            Tool(
                name,
                about.description,
                {
                    "type": "object",
                    "properties": about.properties,
                    "required": [key for key in about.properties if key not in about.optional],
                    "additionalProperties": False,
                },
                namespace=NAMESPACE,
                annotations={"readOnlyHint": True},
                handler=_handler(about.ask, server),
            )
        )


def tool_ids(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{NAMESPACE}:{name}" for name in names)


def _handler(ask: Ask, server: Server) -> Callable[..., Awaitable[Json]]:
    async def handler(**given: Any) -> Json:
        return await ask(server, given)

    return handler
