"""An ASGI app served until the task is cancelled: for commands, which have their own way with signals.

Uvicorn would take SIGTERM itself and, once its connections are closed, raise it again with the handler of before: the
process would be gone before its app is closed, and the servers that it has started would be left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .connections import ConnectionLimits

_NOISY: Final = ("asyncio", "uvicorn.error")
"""Loggers that have a line for each connection that goes wrong."""


async def serve_until_cancelled(
    app: Any, listening: socket.socket, leaving: int, limits: ConnectionLimits | None = None
) -> None:
    """Returns when it was cancelled and every answer has ended, or had `leaving` seconds to: to be told to end is how
    a server ends well. Cancelled again meanwhile, it raises CancelledError. `limits` are those of its connections."""
    import uvicorn

    from .connections import ConnectionLimits, Connections, RateLimit

    limits = limits or ConnectionLimits.of_this_process()

    class Quiet(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    settings = uvicorn.Config(
        app,
        log_config=None,  # as everything else is logged
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        http=Connections(limits).protocol,  # type: ignore[arg-type]  # any callable will do
        backlog=limits.backlog,
        timeout_graceful_shutdown=leaving,
    )
    server = Quiet(settings)
    noisy = [(logging.getLogger(name), RateLimit()) for name in _NOISY]
    for logger, limit in noisy:
        logger.addFilter(limit)
    task = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        # As a signal would, which is what open streams of events listen for, too.
        server.handle_exit(signal.SIGTERM, None)
        if (current := asyncio.current_task()) is not None:
            current.uncancel()
        await asyncio.wait([task], timeout=2 * leaving)
    finally:
        listening.close()
        for logger, limit in noisy:
            logger.removeFilter(limit)
