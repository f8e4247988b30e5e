"""The stdio transport: newline-delimited JSON-RPC over the pipes of a child, or over our own to whoever started us.

Ours and not the SDK's because lines are cut in linear time, a message has a size limit, the end
of the other side is seen at once, and what it wrongly prints is kept for the error text.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..values import MAX_BYTES
from .mcp_unreadable import OpenRequests

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_MOST_GARBAGE: Final = 2**24  # bytes without a message in between; a server that prints more has no end to wait for


class Reader(Protocol):
    """Where bytes come from; empty ones are the end."""

    async def read(self, n: int, /) -> bytes: ...


class Writer(Protocol):
    """Where bytes go; `drain` waits until there is room for more."""

    def write(self, data: bytes, /) -> None: ...
    async def drain(self) -> None: ...


class StdioStreams:
    """The two message streams of a session over a pair of pipes. `garbage` is the last line that
    was no JSON-RPC message, `broken` why reading stopped when it was not the other side's end."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader, self._writer = reader, writer
        self.garbage = ""
        self.broken = ""
        self.ended = asyncio.Event()  # no further message will come
        self._outward: Any = None
        self._open = OpenRequests()
        self._printed = 0  # bytes of garbage since the last message

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Any, Any]]:
        """The pair (read, write); on leaving, all tasks and streams are closed."""
        import anyio
        from mcp.shared.message import SessionMessage

        inward, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outward = anyio.create_memory_object_stream[SessionMessage](0)
        self._outward = outward
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._receive, inward)
                group.start_soon(self._send, outward, inward)
                try:
                    yield read, write
                finally:
                    group.cancel_scope.cancel()
        finally:
            for stream in (inward, read, write, outward):
                stream.close()

    def hang_up(self) -> None:
        """Take no more messages: whoever is writing to a child that does not read is let go."""
        if self._outward is not None:
            self._outward.close()

    async def _receive(self, inward: Any) -> None:
        import anyio
        import mcp_types
        from mcp.shared.message import SessionMessage
        from pydantic import ValidationError

        parse = mcp_types.jsonrpc_message_adapter.validate_json
        try:
            with inward:
                async for line in self._lines():
                    if not self._open.may_read(line):
                        self._keep(line)
                        continue
                    try:
                        message = self._open.received(parse(line, by_name=False))
                        self._printed = 0
                    except ValidationError as error:
                        self._keep(line)
                        message = self._open.failed(line, error)
                        if message is None:
                            continue
                    await inward.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session is gone: nobody reads any more
        finally:
            self.ended.set()

    def _keep(self, line: bytes) -> None:
        """Remember garbage for the error text, and how much of it there was."""
        self._printed += len(line) + 1
        if line.strip():
            self.garbage = line[:200].decode(errors="replace")

    async def _lines(self) -> AsyncIterator[bytes]:
        parts: list[bytes] = []
        size = 0
        while chunk := await self._reader.read(2**18):
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                parts.append(line)
                yield b"".join(parts)
                parts, size = [], 0
            if self._printed > _MOST_GARBAGE:
                self.broken = f"printed {_MOST_GARBAGE // 2**20} MiB that are not JSON-RPC, and no message"
                return
            await asyncio.sleep(0)  # a pipe that is never empty must not keep the loop from everything else
            parts.append(rest)
            size += len(rest)
            if size > MAX_BYTES:
                self.broken = f"sent a message of more than {MAX_BYTES // 10**6} MB"
                return

    async def _send(self, outward: Any, inward: Any) -> None:
        import anyio

        writer = self._writer
        try:
            async for item in outward:
                self._open.sent(item.message)
                writer.write(_encoded(item))
                await writer.drain()
        except OSError:
            # It closed its stdin but may live on: without this the call would wait for its timeout.
            self.broken = self.broken or "closed its stdin"
            self.ended.set()
            self.hang_up()
            inward.close()
        except anyio.ClosedResourceError:
            pass  # we hung up


def _encoded(item: SessionMessage) -> bytes:
    return item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
