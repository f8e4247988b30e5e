"""Access to n8n-mcp: the server, the ten tools that phases offer the model, and the facts about node types.

A project can configure the server as `[mcp.n8n-mcp]`. Otherwise the command `n8n-mcp` is looked up in the project's
`node_modules` and on the PATH; nothing is downloaded. A server that is not available raises ServerDown.

n8n-mcp no longer lists node types, so `list_node_types` combines searches. Complete definitions of nodes are large
(200 kB for Slack): code reads them, and the model gets only the part that it asks for.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from ..errors import OutputValidationFailed, RopewalkError, ToolError
from ..fast_dataclass import dataclass
from ..tools.runner import Runner
from ..tools.tool import Tool
from ..tools.toolbox import Toolbox
from ..values import Json
from .node_types import TRIGGERS, closest_type, last_name, short_type

SERVER: Final = "n8n-mcp"
ENVIRONMENT: Final = {
    "MCP_MODE": "stdio",
    "LOG_LEVEL": "error",
    "DISABLE_CONSOLE_OUTPUT": "true",
    "N8N_MCP_TELEMETRY_DISABLED": "true",
}
INSTALL_HINT: Final = "install it with `npm install n8n-mcp`, or name it as [mcp.n8n-mcp] in ropewalk.toml"


class ServerDown(ConnectionError):
    """n8n-mcp is not available."""


class Server:
    """Calls n8n-mcp through a toolbox."""

    # If the server died, the next call restarts it.

    def __init__(self, toolbox: Toolbox, directory: Path) -> None:
        self._toolbox, self._runner = toolbox, Runner(index=toolbox)
        if toolbox.mcp is None or SERVER not in toolbox.mcp.names:
            command = command_of(directory)
            if command is not None:
                toolbox.add_mcp(SERVER, {"command": command, "env": dict(ENVIRONMENT)})

    @property
    def not_installed(self) -> str | None:
        """A message that says how to install the server, if it is missing; else None."""
        packages = self._toolbox.mcp is not None and SERVER in self._toolbox.mcp.names
        return None if packages else f"n8n-mcp is not installed; {INSTALL_HINT}"

    async def connect(self) -> str | None:
        """Connect the server."""
        if self.not_installed is not None:
            return self.not_installed
        try:
            await self._toolbox.connect(SERVER)
        except (OSError, RopewalkError) as error:
            return f"could not connect to n8n-mcp: {error}"
        return None

    async def call(self, tool: str, arguments: Mapping[str, Json]) -> Any:
        """Call a tool of the server."""

        # If the server died, the call is repeated once, since its tools only read.
        if self._toolbox.get(f"{SERVER}:{tool}") is None and (reason := await self.connect()) is not None:
            raise ServerDown(reason)
        try:
            return await self._run(tool, arguments)
        except ToolError as error:
            if (reason := await self.connect()) is not None:
                raise ServerDown(reason) from error
            if not isinstance(error.__cause__, ConnectionError):
                raise
        return await self._run(tool, arguments)

    async def _run(self, tool: str, arguments: Mapping[str, Json]) -> Any:
        try:
            return (await self._runner.run(f"{SERVER}:{tool}", dict(arguments))).structured
        except OutputValidationFailed as error:
            # The schema of n8n-mcp calls `details` of a verdict a text, but many are objects: the schema is wrong.
            if error.result is None or not isinstance(error.result.value, dict):
                raise
            return error.result.value


def command_of(directory: Path) -> str | None:
    """Return the path of the command `n8n-mcp`; None if it is not installed."""
    local = directory / "node_modules" / ".bin"
    return shutil.which(SERVER, path=str(local)) or shutil.which(SERVER)


NAMESPACE: Final = "n8n-builder"
Question: TypeAlias = Callable[[Server, Mapping[str, Any]], Awaitable[Json]]

_BROAD_WORDS: Final = (
    "trigger",
    "transform",
    "input",
    "output",
    "webhook",
    "database",
    "message",
    "file",
    "agent",
    "model",
)
_MAX_RESULTS: Final = 100
_CONNECTIONS_ONLY: Final[Json] = {"validateNodes": False, "validateExpressions": False, "validateConnections": True}


async def core_nodes(
    server: Server, words: Iterable[str], per_word: int = _MAX_RESULTS, mode: str = "OR"
) -> list[dict[str, Any]]:
    """Search n8n's own nodes for words."""

    # Community nodes are left out, because n8n cannot import them everywhere.
    request = {"limit": _MAX_RESULTS, "source": "core", "mode": mode}
    searches = [server.call("search_nodes", {"query": word, **request}) for word in words]
    nodes: dict[str, dict[str, Any]] = {}
    for answer in await asyncio.gather(*searches):
        core = [row for row in answer["results"] if not row.get("isCommunity")]
        nodes.update((row["nodeType"], row) for row in core[:per_word])
    return list(nodes.values())


async def _list_types(server: Server, arguments: Mapping[str, Any]) -> Json:
    """Combine searches for a category, or for frequent words, because no call of n8n-mcp lists all types."""
    category = arguments["category"]
    rows = await core_nodes(server, (category,) if category else _BROAD_WORDS)
    matching = [row for row in rows if not category or row["category"].lower() == category.lower()]
    listed: list[Json] = [
        {key: row[key] for key in ("nodeType", "displayName", "category")} for row in matching[: arguments["limit"]]
    ]
    return {"nodes": listed, "complete": False}


@dataclass(frozen=True, slots=True)
class _NodeTool:
    """A tool of the phases: a call of n8n-mcp, or a question of several calls."""

    description: str
    # The schemas of its arguments; those with a default are optional.
    properties: Mapping[str, dict[str, Json]]
    call: str | Question
    # Arguments of the call that are always the same.
    constants: Mapping[str, Json] = field(default_factory=dict)
    # The names that n8n-mcp has for arguments, if it has others.
    names: Mapping[str, str] = field(default_factory=dict)
    # The fields of the answer that the model gets; none means all.
    fields: tuple[str, ...] = ()

    async def ask(self, server: Server, arguments: Mapping[str, Any]) -> Json:
        """Ask n8n-mcp."""
        request = {name: arguments.get(name, schema.get("default")) for name, schema in self.properties.items()}
        if "nodeType" in request:
            request["nodeType"] = short_type(request["nodeType"])
        if not isinstance(self.call, str):
            return await self.call(server, request)
        renamed = {self.names.get(name, name): value for name, value in request.items()}
        answer: Any = await server.call(self.call, {**renamed, **self.constants})
        return {name: answer.get(name) for name in self.fields} if self.fields else answer


_TYPE: Final[dict[str, dict[str, Json]]] = {
    "nodeType": {"type": "string", "description": "Such as nodes-base.httpRequest"}
}
_QUERY: Final[dict[str, dict[str, Json]]] = {"query": {"type": "string"}}
_WORKFLOW: Final[dict[str, dict[str, Json]]] = {
    "workflow": {"type": "object", "description": "The workflow: nodes and connections"}
}


def _count(default: int) -> dict[str, Json]:
    return {"type": "integer", "minimum": 1, "maximum": _MAX_RESULTS, "default": default}


TOOLS: Final = {
    "search_node_properties": _NodeTool(
        "Search the properties of a node (authentication, headers, retry, ...).",
        {**_TYPE, **_QUERY, "maxResults": _count(20)},
        "get_node",
        {"mode": "search_properties"},
        {"query": "propertyQuery", "maxResults": "maxPropertyResults"},
    ),
    "get_node_documentation": _NodeTool("The documentation of a node.", _TYPE, "get_node", {"mode": "docs"}),
    "validate_node_minimal": _NodeTool(
        "Which required fields a configuration of a node lacks.",
        {**_TYPE, "config": {"type": "object"}},
        "validate_node",
        {"mode": "minimal"},
    ),
    "validate_workflow": _NodeTool("Validate a whole workflow.", _WORKFLOW, "validate_workflow"),
    "check_connections": _NodeTool(
        "Validate only the connections of a workflow.", _WORKFLOW, "validate_workflow", {"options": _CONNECTIONS_ONLY}
    ),
    "get_input_schema": _NodeTool(
        "The required and the common properties of a node.",
        _TYPE,
        "get_node",
        {"detail": "standard"},
        fields=("nodeType", "requiredProperties", "commonProperties"),
    ),
    "get_output_schema": _NodeTool(
        "The outputs of a node, in their order.",
        _TYPE,
        "get_node",
        {"detail": "full"},
        fields=("nodeType", "outputs", "outputNames"),
    ),
    "search_nodes": _NodeTool("Find nodes by what they do.", {**_QUERY, "limit": _count(10)}, "search_nodes"),
    "get_node_info": _NodeTool(
        "A node: what it does, its version, its main properties.", _TYPE, "get_node", {"detail": "standard"}
    ),
    "list_node_types": _NodeTool(
        "List node types, of one category (trigger, input, output, transform) or of all; never the complete list.",
        {"category": {"type": "string", "default": ""}, "limit": _count(50)},
        _list_types,
    ),
}


def register(toolbox: Toolbox, server: Server) -> None:
    """Register the ten tools of the phases."""
    for name, tool in TOOLS.items():
        schema: dict[str, Json] = {
            "type": "object",
            "properties": dict(tool.properties),
            "required": [key for key, value in tool.properties.items() if "default" not in value],
            "additionalProperties": False,
        }
        register_question(toolbox, f"{NAMESPACE}:{name}", tool.description, schema, partial(tool.ask, server))


def register_question(
    toolbox: Toolbox,
    id: str,
    description: str,
    schema: dict[str, Json],
    ask: Callable[[Mapping[str, Any]], Awaitable[Json]],
) -> None:
    """Register a question to n8n-mcp as a tool that only reads."""

    async def handler(**arguments: Any) -> Json:
        return await ask(arguments)

    namespace, _, name = id.partition(":")
    toolbox.register(
        Tool(name, description, schema, namespace=namespace, annotations={"readOnlyHint": True}, handler=handler)
    )


def tool_ids(*names: str) -> tuple[str, ...]:
    """Return the ids of tools of this module."""
    return tuple(f"{NAMESPACE}:{name}" for name in names)


_CREDENTIAL_PARAMETERS: Final = ("nodeCredentialType", "genericAuthType")
"""Parameters with the name of a credential as their value."""
_MAX_OPTIONS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a node type."""

    # The type in the spelling of workflows.
    type: str
    version: float
    # True for a trigger.
    trigger: bool
    # The summary for the model.
    essentials: dict[str, Json]
    # Its credentials: `{name, displayOptions}`.
    credentials: tuple[Mapping[str, Any], ...]
    # The defaults of its parameters, by name.
    defaults: Mapping[str, Json]

    def needs(self, parameters: Mapping[str, Any]) -> list[str]:
        """Return the credentials that a node needs."""
        names = [
            credential["name"]
            for credential in self.credentials
            if credential.get("required") and self._is_shown(credential, parameters)
        ]
        if self._value("authentication", parameters) != "none":
            names += [str(parameters[name]) for name in _CREDENTIAL_PARAMETERS if parameters.get(name)]
        return list(dict.fromkeys(names))

    def _is_shown(self, credential: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
        show = (credential.get("displayOptions") or {}).get("show") or {}
        return all(self._value(name, parameters) in allowed for name, allowed in show.items() if name[:1] != "@")

    def _value(self, name: str, parameters: Mapping[str, Any]) -> Any:
        return parameters.get(name, self.defaults.get(name))


class NodeTypeFacts:
    """Facts about the node types of a draft; each type is fetched once."""

    def __init__(self, ask: Callable[[list[str]], Awaitable[list[Any]]]) -> None:
        self._ask = ask
        self._facts: dict[str, Facts | None] = {}

    def get(self, type: str) -> Facts | None:
        """Return the facts about a type; None if n8n-mcp does not know it."""
        return self._facts.get(short_type(type))

    async def learn(self, types: Iterable[str]) -> None:
        """Fetch the facts about types that are new."""
        new = [type for type in dict.fromkeys(map(short_type, types)) if type not in self._facts]
        for type, fields in zip(new, await self._ask(new) if new else (), strict=True):
            self._facts[type] = facts = Facts(**fields) if fields is not None else None
            if facts is not None:
                self._facts.setdefault(short_type(facts.type), facts)  # the type is corrected

    def essentials(self, types: Iterable[str]) -> list[Json]:
        """Return the summaries of types for the model."""
        known = (self.get(type) for type in dict.fromkeys(map(short_type, types)))
        return [facts.essentials for facts in known if facts is not None]


async def fetch_facts(server: Server, type: str) -> dict[str, Json] | None:
    """Fetch the fields of Facts for a node type, or for the one that it misspells; None if there is none."""
    try:
        summary = await server.call("get_node", {"nodeType": type, "detail": "standard"})
        details = await server.call("get_node", {"nodeType": type, "detail": "full"})
    except ToolError:
        correct = await _correct_type(server, type)
        return await fetch_facts(server, correct) if correct else None  # validation reports the unknown type
    defaults: dict[str, Json] = {}
    for parameter in details.get("properties") or ():
        defaults.setdefault(parameter["name"], parameter.get("default"))
    return {
        "type": summary["workflowNodeType"],
        "version": float(summary["version"]),
        "trigger": bool(details.get("isTrigger")),
        "essentials": _essentials(summary, details),
        "credentials": details.get("credentials") or [],
        "defaults": defaults,
    }


async def _correct_type(server: Server, type: str) -> str | None:
    try:
        similar = await core_nodes(server, (last_name(type),), mode="FUZZY")
    except ToolError:
        similar = []
    correct = closest_type(type, (*(row["nodeType"] for row in similar), *TRIGGERS))
    return correct if correct != type else None


def _essentials(summary: Mapping[str, Any], details: Mapping[str, Any]) -> dict[str, Json]:
    basics = {key: summary.get(key) for key in ("nodeType", "displayName", "description", "version")}
    properties = [
        _property_summary(field)
        for key in ("requiredProperties", "commonProperties")
        for field in summary.get(key) or ()
    ]
    extras = {key: details[key] for key in ("outputs", "isTrigger") if details.get(key)}
    return {
        **basics,
        "properties": properties,
        "operations": (summary.get("operations") or [])[:_MAX_OPTIONS],
        **extras,
    }


def _property_summary(field: Mapping[str, Any]) -> dict[str, Json]:
    summary = {key: field[key] for key in ("name", "type", "description", "required", "default") if key in field}
    options = [
        option.get("value")
        for option in field.get("options") or ()
        if isinstance(option, Mapping) and "value" in option
    ]
    return {**summary, "options": options[:_MAX_OPTIONS]} if options else summary
