"""Whether a server over HTTP has lost our session, and whether a call that met the loss may be made again.

The protocol says 404 for an unknown session. Servers, and proxies in front of them, also say 400, 401, 410 or 503, or
put an error into an answer with the status 200. All of these have other meanings, too. So after one of them a ping
decides: if it is refused in the same way, the session is lost. Servers before 2026-07-28 alone have sessions.

Statuses from 400 to 499 say that the server has not executed the request. After 503, or an error with the status 200,
it may have: a call is made again only if it is idempotent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .requests import Request
from .transports import ANSWER, RETRY_AFTER, STATUS

if TYPE_CHECKING:
    from mcp import ClientSession, MCPError

    from ..definition import Definition

UNKNOWN_SESSION: Final = 404
"""The status of the protocol for a session that the server does not know."""
_DOUBTFUL: Final = (400, 401, 410, 503)
_PING_TIMEOUT: Final = 10.0  # seconds; a server that does not answer may still have the session


def take_status(error: MCPError) -> int | None:
    """Return the HTTP status that refused a request of a session, and restore the data that the server sent."""
    data = error.error.data
    if not isinstance(data, dict) or STATUS not in data:
        return None
    error.error.data = data.get("data")
    error.retry_after = data.get(RETRY_AFTER)  # type: ignore[attr-defined]  # which the retries of a node read
    error.answer = data.get(ANSWER)  # type: ignore[attr-defined]
    status = data[STATUS]
    return status if isinstance(status, int) else None


async def is_session_lost(session: ClientSession, error: MCPError, status: int | None) -> bool:
    """Return True if a request failed because the server does not know the session any more."""
    import anyio
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND

    if status == UNKNOWN_SESSION:
        return True
    if error.error.code == METHOD_NOT_FOUND if status is None else status not in _DOUBTFUL:
        return False
    try:
        with anyio.move_on_after(_PING_TIMEOUT):
            await session.send_ping()
    except MCPError as refusal:
        again = take_status(refusal)
        if status is None:
            # A server without ping says so, and knows the session.
            return again == UNKNOWN_SESSION or _words(refusal) == _words(error)
        return again == UNKNOWN_SESSION or again in _DOUBTFUL
    except Exception:  # noqa: BLE001 - an answer that is not a result of a ping is no refusal either
        return False
    return False


def _words(error: MCPError) -> Any:
    return error.error.code, error.error.message


def may_repeat(request: Request, status: int | None, definition: Definition | None) -> bool:
    """Return True if a request that met the loss of its session may be sent again."""
    if not request.sent or (status is not None and status < 500):
        return True
    # The hints are those of the server whose call it is: nobody else is harmed if they are wrong.
    hints: Any = (definition.annotations if definition is not None else None) or {}
    # An idempotency key does not count: nothing says that the server knows what `ropewalk/idempotencyKey` means.
    return bool(request.tool) and (hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True)
