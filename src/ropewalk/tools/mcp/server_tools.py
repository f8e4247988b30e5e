"""The MCP servers of a toolbox as a source of tools: their configurations, and their tools on its shelf.

The client (`servers.py`) is imported and created when a server is first connected or called. With `prefers_lists` a
server is not connected while the list of its tools in `lists` is young. Such tools have no backend, so nothing can call
them, and `cached` names the server. `take` replaces them with what the connected server says.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...config.settings import TRUST_HINTS
from ...errors import ConfigError, InvalidTool
from ...values import Json, distinct_names
from ..definition import Definition
from ..source import Shelf, Source, prefix_of
from ..tool import Tool, ToolBackend
from .config import SWITCHED_OFF, ServerConfig, server_config
from .list_cache import MAX_AGE, ListCache
from .tool_definitions import get_member, mcp_tool

if TYPE_CHECKING:
    from .local_client import OnElicit, OnSample
    from .servers import McpServers


class ServerTools(Source):
    """The servers by name, and the tools that they have listed."""

    # `answers`: Returns what answers the questions of servers, and their requests for a model.
    # `lists`: Keeps the list of each connected server for other processes; None keeps nothing.
    # `prefers_lists`: Take a young list in place of connecting its server.
    # `cached`: The servers whose tools are known from a list only, with its age in seconds.

    def __init__(self, shelf: Shelf, answers: Callable[[], tuple[OnElicit | None, OnSample | None]]) -> None:
        self._shelf, self._answers = shelf, answers
        self._configs: dict[str, ServerConfig] = {}
        self._timeouts: dict[str, Json] = {}
        self._listed: set[str] = set()
        self.lists: ListCache | None = None
        self.prefers_lists = False
        self.cached: dict[str, float] = {}
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

    def share(self, other: ServerTools) -> None:
        """Use the connections of another toolbox to the servers that have the same settings there."""
        if other._client is None or self._shelf.pins != other._shelf.pins:  # a connection refuses tools by its pins
            return
        for name in [name for name, config in self._configs.items() if other._configs.get(name) == config]:
            self.client.share(name, other._client)
            if name in other._listed and name not in other.cached:
                self.take(name, self.client.tools(name))

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
        """The servers to connect before a call: they died and were not tried since, or only a list of them is known."""
        return self.cached if self._client is None else {*self._client.lost, *self.cached}

    def trusts_hints(self, name: str) -> bool:
        """Return True if the hints of a server count."""
        config = self._configs.get(name)
        return config is not None and config.trust == TRUST_HINTS

    def has_listed(self, name: str) -> bool:
        """Return True if a server has listed its tools, now or before it was lost."""
        return name in self._listed

    def is_listed(self, name: str) -> bool:
        """Return True if a server has listed its tools and has not failed since, or if its list is preferred."""
        is_known = name in self._listed and name not in self._shelf.failures
        return is_known and (self.prefers_lists or name not in self.cached)

    async def connect(self, tool_ids: Collection[str] | None = None) -> None:
        """Connect the servers of these tools, or all servers, at once."""
        names = list(self._configs) if tool_ids is None else sorted(set(map(prefix_of, tool_ids)))
        if self.prefers_lists:
            names = [name for name in names if not await self._take_list(name, MAX_AGE)]
        if not names:
            return
        results = await asyncio.gather(*map(self.client.connect, names), return_exceptions=True)
        for name, result in zip(names, results, strict=True):
            if not isinstance(result, BaseException):
                await self._keep_list(name)
            elif isinstance(result, Exception):
                if name not in self._shelf.failures:
                    self._shelf.failures.record(name, result, self._configs[name].transport)
                if self.prefers_lists:
                    await self._take_list(name, math.inf)

    async def _take_list(self, name: str, max_age: float) -> bool:
        """Put the tools of a server's list on the shelf, unless it is connected; return False without a young list."""
        if self.lists is None or name in self.cached or name in self._listed:
            return name in self.cached
        known = await asyncio.to_thread(self.lists.read, self._configs[name])
        if known is None or known.age > max_age or name in self._listed:
            return False
        self._shelve(name, known.definitions, known.left_out, is_connected=False)
        self.cached[name] = known.age
        return True

    async def forget_list(self, name: str) -> None:
        """Delete the list of a server, which another login may change."""
        if self.lists is not None:
            await asyncio.to_thread(self.lists.forget, self._configs[name])

    async def _keep_list(self, name: str) -> None:
        """Keep the list of a connected server, unless it holds one of the server's secrets."""
        definitions, left_out = self.client.tools(name), self.client.left_out(name)
        if self.lists is not None and not self.client.shows_secrets(name, definitions, left_out):
            await asyncio.to_thread(self.lists.write, self._configs[name], definitions, left_out)

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
        is_ours = self._client is not None and name in self._configs
        self.cached.pop(name, None)
        self._shelve(name, list(definitions), self.client.left_out(name) if is_ours else {})

    def _shelve(
        self, name: str, definitions: Sequence[Any], left_out: Mapping[str, str], *, is_connected: bool = True
    ) -> None:
        shelf = self._shelf
        refused = self._refused_by_pins(name, definitions) or {}
        # Failures of the server's previous list are out of date.
        for reasons in (shelf.failures, shelf.refused, shelf.left_out):
            for key in [key for key in reasons if key.startswith(f"{name}:")]:
                del reasons[key]
        for left, why in left_out.items():
            (shelf.left_out if why == SWITCHED_OFF else shelf.failures)[f"{name}:{left}"] = why
        tools: dict[str, tuple[Tool, ToolBackend | None]] = {}
        ids = set[str]()
        names = distinct_names([get_member(definition, "name") for definition in definitions])
        for definition in definitions:
            tool_name = get_member(definition, "name")
            label = f"{name}:{tool_name}"
            try:
                reason = refused.get(tool_name)
                if reason is not None:
                    shelf.refused[label] = reason
                    raise InvalidTool(reason)
                tool, backend = mcp_tool(
                    name,
                    names.get(tool_name, ""),
                    definition,
                    self._timeouts.get(name),
                    trusted=self.trusts_hints(name),
                )
                if tool.id in ids:
                    raise InvalidTool(f"tool {tool.id!r} is listed twice")
                ids.add(tool.id)
                tools[label] = tool, backend if is_connected else None
            except InvalidTool as error:
                shelf.failures[label] = str(error)
        shelf.failures.update(shelf.replace_tools(name, tools))
        if name in self._configs:
            self._report_unmatched(name, [*(get_member(item, "name") for item in definitions), *left_out])
        self._listed.add(name)

    def _report_unmatched(self, name: str, listed: Collection[str]) -> None:
        """Report what the settings of a server call a tool and the server does not have."""
        shelf, hints = self._shelf, list[str]()
        for error in self._configs[name].unmatched(listed):
            id = f"{name}:{error.key[1]}"
            shelf.failures.record(id, error)
            hints += [shelf.failures[id]] if error.key[0] == "tools" else []
        # A tool that is switched off is often the one that a misspelt name means.
        for id in shelf.left_out if hints else ():
            if prefix_of(id) == name:
                shelf.left_out[id] = f"{SWITCHED_OFF}; {hints[0]}"

    def _refused_by_pins(self, name: str, definitions: Sequence[Any]) -> Mapping[str, str] | None:
        return None if self._shelf.pins is None else self._shelf.pins.refused(name, definitions)
