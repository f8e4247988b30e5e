"""Which era a server speaks: the 2026-07-28 revision without a handshake, or the older ones.

The SDK's own probe waits 10 s for a server that ignores unknown methods; this one is short, and
the answer is remembered by whoever owns the server's link.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp import ClientSession

    from .mcp_listing import Listing

MODERN: Final = "2026-07-28"
LEGACY: Final = "legacy"
_PROBE: Final = 2.0  # seconds
_RELISTEN: Final = 1.0  # seconds before listening again to a stream that ended, doubling
_LONGEST: Final = 30.0


class LegacyOnly(Exception):
    """The server hung up when asked which era it speaks: it must be started again and not asked."""


async def negotiate(session: ClientSession, mode: str, known: str | None, *, hangs_up: bool) -> str:
    """Bring `session` to life in the era that `mode` asks for, or else in the one the server
    speaks (`known` from an earlier connection, if any), and name it."""
    import anyio
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, UNSUPPORTED_PROTOCOL_VERSION
    from pydantic import ValidationError

    if mode == MODERN:
        await session.discover()
        return MODERN
    if mode == "auto" and known != LEGACY:
        with anyio.move_on_after(_PROBE):
            try:
                await session.discover()
                return MODERN
            except MCPError as error:
                if error.error.code == CONNECTION_CLOSED and error.error.message == "Connection closed" and hangs_up:
                    raise LegacyOnly from error
            except (RuntimeError, ValidationError):
                pass  # it answers, but not as a server of that era
    try:
        await session.initialize()
    except MCPError as error:
        if mode == "auto" and error.error.code == UNSUPPORTED_PROTOCOL_VERSION:
            # A slow start: the probe timed out here but has settled the era over there.
            await session.discover()
            return MODERN
        raise
    return LEGACY


async def follow_changes(session: ClientSession, listing: Listing) -> None:
    """Tell `listing` each change of the tool list that a 2026-07-28 server announces, and when nobody announces
    any more; older servers announce it to the session's message handler."""
    from mcp import MCPError
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen

    capabilities = session.server_capabilities
    offers = capabilities is not None and capabilities.tools is not None and capabilities.tools.list_changed
    if session.discover_result is None or not offers:
        return
    heard = False
    pause = _RELISTEN
    while True:
        try:
            async with listen(session, tools_list_changed=True) as events:
                if heard:
                    listing.announce()  # whatever changed while nobody listened
                heard, pause = True, _RELISTEN
                async for _ in events:
                    listing.announce()
        except (ListenNotSupportedError, MCPError):
            if not heard:
                return
        except SubscriptionLost:
            pass
        listing.doubt()  # what changes now is not announced
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST)
