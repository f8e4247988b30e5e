"""The client on whose behalf a call of a server is made, where a gateway stands between the two.

A server may ask that client during the call: for input of its user (elicitation), for a completion of its model
(sampling), for its directories (roots). It may also send it log messages. `CLIENT` holds the client of the current
task; a request to a server remembers it. `only_client` decides whose call a request of an older server belongs to,
since only the 2026-07-28 revision states it. Refused: asking one client during the call of another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

from ...values import Json


class CallClient(Protocol):
    """The client of one call."""

    # Equal for all calls of one client.
    id: object
    # What the client can be asked, as the protocol's ClientCapabilities.
    capabilities: Mapping[str, Json]
    # The least severe log level that the client wants, or None.
    log_level: str | None

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client, and return its answer."""
        ...

    def log(self, params: dict[str, Any]) -> None:
        """Send the client a log message, if it wants messages of this level."""
        ...


CLIENT: ContextVar[CallClient | None] = ContextVar("ropewalk_mcp_client", default=None)
"""The client of the current task, if a call of a gateway runs in it."""

CAPABILITY_OF: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""The capability that a client needs to be asked with a method."""


def announced_capabilities(client: CallClient | None) -> dict[str, Json]:
    """Return what a handshake tells a server that a client can be asked."""
    if client is None:
        return {}
    known = {name: client.capabilities[name] for name in CAPABILITY_OF.values() if name in client.capabilities}
    return {**known, "roots": {}} if "roots" in known else known


def only_client(clients: Iterable[CallClient | None]) -> CallClient | None:
    """Return the client that all these calls belong to; None if there is none, or more than one."""
    by_id = {None if client is None else client.id: client for client in clients}
    return next(iter(by_id.values())) if len(by_id) == 1 else None


async def ask_client(client: CallClient | None, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the client of a call, if it can be asked."""
    from mcp import MCPError
    from mcp_types import INVALID_REQUEST, METHOD_NOT_FOUND

    if client is None:
        raise MCPError(INVALID_REQUEST, f"{method}: it is not clear which client to ask: no call, or calls of several")
    if not can_ask(client.capabilities, method, params):
        raise MCPError(METHOD_NOT_FOUND, f"{method}: the client does not support this")
    return await client.ask(method, params)


def can_ask(capabilities: Mapping[str, Json], method: str, params: Mapping[str, Any]) -> bool:
    """Return True if a client with these capabilities can be asked this."""
    capability = capabilities.get(CAPABILITY_OF.get(method, ""))
    if not isinstance(capability, Mapping):
        return False
    # Without a mode the capability means forms, the only mode before 2025-11-25.
    return method != "elicitation/create" or params.get("mode", "form") in (capability or {"form": {}})
