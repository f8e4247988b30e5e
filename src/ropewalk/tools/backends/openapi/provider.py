"""Calls the operations of an OpenAPI document over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ....config.network import AddressPolicy
from ....errors import ConfigError
from ....values import Json
from ...definition import Definition
from ...tool import StreamEvent
from ..http import Http
from ..provider import open_events
from .operations import Api, Operation
from .security import flat_credentials


class OpenApiProvider:
    """Calls the operations of one document; safe for concurrent use."""

    def __init__(
        self,
        api: Api,
        headers: Mapping[str, str],
        *,
        place: str,
        policy: AddressPolicy | None = None,
        credentials: Mapping[str, Any] | None = None,
    ) -> None:
        self._api = api
        texts = flat_credentials(credentials or {})
        # An operation may have a server of its own, with connections of its own.
        self._clients = {
            base: Http(headers, place=place, base=base, policy=policy, credentials=texts)
            for base in {api.base, *(operation.base for operation in api.operations.values())}
        }

    def definitions(self) -> list[Definition]:
        """Return the definition of each tool and the address of its requests, for pins."""
        return [
            Definition(
                name=tool.name,
                description=tool.description,
                input_schema=tool.input_schema,
                output_schema=tool.output_schema,
                annotations={key: v for key, v in (tool.annotations or {}).items() if key != "timeout"} or None,
                request=f"{self._api.operations[tool.name].method} {self._api.operations[tool.name].url}",
            )
            for tool in self._api.tools
        ]

    async def call_tool(self, tool_id: str, args: dict[str, Json], *, key: str | None = None) -> Json:
        """Call an operation and return its JSON."""

        # Raises HttpFailure for an error status.
        operation = self._find_operation(tool_id)
        request = operation.request(args, key, "application/json, text/*;q=0.5, */*;q=0.1")
        return await self._clients[operation.base].fetch(request)

    async def call_tool_stream(
        self, tool_id: str, args: dict[str, Json], *, key: str | None = None
    ) -> AsyncGenerator[StreamEvent, None] | None:
        """Call an operation and return its events; None if the answer is not a stream."""
        operation = self._find_operation(tool_id)
        request = operation.request(args, key, "text/event-stream, application/x-ndjson")
        return await open_events(self._clients[operation.base], request)

    async def close(self) -> None:
        """Close the connections of this event loop."""
        for client in self._clients.values():
            await client.close()

    def _find_operation(self, tool_id: str) -> Operation:
        declared = self._api.operations.get(tool_id)
        if declared is None:
            raise ConfigError(f"the document has no operation {tool_id!r}")
        return declared
