"""Which protocol era a server speaks, and the changes and contents that the protocol delivers.

- `negotiate` starts a session with the 2026-07-28 revision, which has no handshake, or with an older
  one. The SDK's own probe waits 10 s for a server that ignores unknown methods; this one is short,
  and the server's link remembers the answer.
- `follow_changes` listens to the changes of a server's tool list.
- `with_content` keeps the parts of a result that are not text, such as pictures, next to its value.
  Flows compute with the value; a model can look at the parts.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...content import from_mcp
from ...values import Json, check_json
from ..backends.route import Args, OnProgress, get_field, plain
from ..bound_call import Bound

if TYPE_CHECKING:
    from mcp import ClientSession

    from .listing import Listing

MODERN: Final = "2026-07-28"
LEGACY: Final = "legacy"
_PROBE_TIMEOUT: Final = 2.0  # seconds
_FIRST_PAUSE: Final = 1.0  # seconds before listening again to a stream that ended, doubling
_MAX_PAUSE: Final = 30.0


class LegacyOnly(Exception):
    """The server hung up when asked which era it speaks: start it again without asking."""


async def negotiate(session: ClientSession, mode: str, known: str | None, *, hangs_up: bool) -> str:
    """Start a session, and return the era that it uses."""
    import anyio
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, UNSUPPORTED_PROTOCOL_VERSION
    from pydantic import ValidationError

    if mode == MODERN:
        await session.discover()
        return MODERN
    if mode == "auto" and known != LEGACY:
        with anyio.move_on_after(_PROBE_TIMEOUT):
            try:
                await session.discover()
                return MODERN
            except MCPError as error:
                if error.error.code == CONNECTION_CLOSED and error.error.message == "Connection closed" and hangs_up:
                    raise LegacyOnly from error
            except (RuntimeError, ValidationError):
                pass  # it answers, but not like a server of that era
    try:
        await session.initialize()
    except MCPError as error:
        if mode == "auto" and error.error.code == UNSUPPORTED_PROTOCOL_VERSION:
            # The server started slowly: the probe timed out here, but has set the era on the other side.
            await session.discover()
            return MODERN
        raise
    return LEGACY


async def follow_changes(session: ClientSession, listing: Listing, for_clients: bool = False) -> None:
    """Announce to `listing` each change that a 2026-07-28 server announces, and each gap in its announcements."""

    # Older servers announce changes to the session's message handler.
    from mcp import MCPError
    from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, ToolsListChanged, listen

    if session.discover_result is None:
        return
    capabilities = session.server_capabilities
    kinds = ("tools", "prompts", "resources") if for_clients else ("tools",)
    offered = [kind for kind in kinds if getattr(getattr(capabilities, kind, None), "list_changed", None)]
    if not offered:
        return
    wanted: Any = {f"{kind}_list_changed": True for kind in offered}
    has_listened = False
    pause = _FIRST_PAUSE
    while True:
        try:
            async with listen(session, **wanted) as events:
                if has_listened:
                    listing.announce()  # there may have been changes in the gap
                has_listened, pause = True, _FIRST_PAUSE
                async for event in events:
                    if isinstance(event, ToolsListChanged):
                        listing.announce()
        except (ListenNotSupportedError, MCPError):
            if not has_listened:
                return
        except SubscriptionLost:
            pass
        listing.doubt()  # changes are not announced from here on
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)


def with_content(bound: Bound) -> Bound:
    """Return the tool with results of the form `{value}`, and `content` if a result has parts that are not text."""

    async def call(
        args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        result = await bound.execute(args, key, timeout, on_progress)
        output: dict[str, Json] = {"value": result.structured}
        content = get_field(result.mcp_result, "content") if result.mcp_result is not None else None
        parts = list(content) if isinstance(content, (list, tuple)) else []
        if any(get_field(part, "type") != "text" for part in parts):
            output["content"] = check_json([from_mcp(plain(part)) for part in parts], "result.content")
        return output

    return replace(bound, call=call, direct=None)
