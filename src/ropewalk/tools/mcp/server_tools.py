"""The MCP servers of a toolbox as a source of tools: their configurations, and their tools on its shelf.

The client (`servers.py`) is imported and created when a server is first connected or called.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...config.settings import TRUST_HINTS
from ...errors import ConfigError, InvalidTool
from ...values import Json
from ..definition import Definition
from ..source import Shelf, Source, prefix_of
from ..tool import Tool, ToolBackend
from .config import ServerConfig, server_config
from .login_errors import Reason
from .tool_definitions import get_member, mcp_tool

if TYPE_CHECKING:
    from .local_client import OnElicit, OnSample
    from .servers import McpServers


class ServerTools(Source):
    """The servers by name, and the tools that they have listed."""

    # `answers`: Returns what answers the questions of servers, and their requests for a model.

    def __init__(self, shelf: Shelf, answers: Callable[[], tuple[OnElicit | None, OnSample | None]]) -> None:
        self._shelf, self._answers = shelf, answers
        self._configs: dict[str, ServerConfig] = {}
        self._timeouts: dict[str, Json] = {}
        self._listed: set[str] = set()
        self._client: McpServers | None = None
        self._lock = threading.Lock()

    def add(self, name: str, config: Mapping[str, Any]) -> None:
        """Configure a server, without starting anything."""
        checked = server_config(name, config)
        if self._configs.setdefault(name, checked) != checked:
            raise ConfigError(f"MCP server {name!r} is already configured with other settings")
        self._timeouts[name] = config.get("timeout")
        if self._client is not None:
            self._client.add(name, checked)

    @property
    def names(self) -> Collection[str]:  # type: ignore[override]
        """The names of the configured servers, in the order they were added."""
        return self._configs

    @property
    def client(self) -> McpServers:
        """The client, which connects and calls the servers."""
        with self._lock:
            if self._client is None:
                from .servers import McpServers

                client = McpServers()
                client.answers, client.failures = self._answers, self._shelf.failures
                client.judge = self._refused_by_pins
                client.on_lost = self._shelf.touch  # bound tools of the lost server must be resolved again
                client.on_tools(self.take)
                for name, config in self._configs.items():
                    client.add(name, config)
                self._client = client
            return self._client

    @property
    def lost(self) -> Collection[str]:
        """The servers that died and were not tried since; their tools may differ now."""
        return () if self._client is None else self._client.lost

    def trusts_hints(self, name: str) -> bool:
        """Return True if the hints of a server count."""
        config = self._configs.get(name)
        return config is not None and config.trust == TRUST_HINTS

    def has_listed(self, name: str) -> bool:
        """Return True if a server has listed its tools, now or before it was lost."""
        return name in self._listed

    def is_listed(self, name: str) -> bool:
        """Return True if a server has listed its tools and has not failed since."""
        return name in self._listed and name not in self._shelf.failures

    async def connect(self, tool_ids: Collection[str] | None = None) -> None:
        """Connect the servers of these tools, or all servers, at once."""
        names = list(self._configs) if tool_ids is None else sorted(set(map(prefix_of, tool_ids)))
        if not names:
            return
        results = await asyncio.gather(*map(self.client.connect, names), return_exceptions=True)
        for name, result in zip(names, results, strict=True):
            if isinstance(result, Exception):
                reason = Reason(str(result), getattr(result, "remedy", None))
                self._shelf.failures.setdefault(name, reason)

    def definitions(self, name: str) -> Sequence[Definition]:
        """Return the tools that a server listed last."""
        return () if self._client is None else self._client.tools(name)

    def executor(self, backend: ToolBackend) -> Any:
        """Return the client."""
        return self.client

    async def close(self) -> None:
        """Close every connection and end every process."""
        if self._client is not None:
            await self._client.close()

    def take(self, name: str, definitions: Iterable[Any]) -> None:
        """Put exactly the tools on the shelf that a server lists now."""
        shelf, definitions = self._shelf, list(definitions)
        refused = self._refused_by_pins(name, definitions) or {}
        # Failures of the server's previous list are out of date.
        for reasons in (shelf.failures, shelf.refused):
            for key in [key for key in reasons if key.startswith(f"{name}:")]:
                del reasons[key]
        if self._client is not None and name in self._configs:
            shelf.failures.update({f"{name}:{tool}": why for tool, why in self._client.left_out(name).items()})
        tools: dict[str, tuple[Tool, ToolBackend]] = {}
        ids = set[str]()
        for definition in definitions:
            tool_name = get_member(definition, "name")
            label = f"{name}:{tool_name}"
            try:
                reason = refused.get(tool_name)
                if reason is not None:
                    shelf.refused[label] = reason
                    raise InvalidTool(reason)
                tool, backend = mcp_tool(name, definition, self._timeouts.get(name), trusted=self.trusts_hints(name))
                if tool.id in ids:
                    raise InvalidTool(f"tool {tool.id!r} is listed twice")
                ids.add(tool.id)
                tools[label] = tool, backend
            except InvalidTool as error:
                shelf.failures[label] = str(error)
        shelf.failures.update(shelf.replace_tools(name, tools))
        self._listed.add(name)

    def _refused_by_pins(self, name: str, definitions: Sequence[Any]) -> Mapping[str, str] | None:
        return None if self._shelf.pins is None else self._shelf.pins.refused(name, definitions)
