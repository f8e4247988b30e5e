"""Serving on standard input and output: newline-delimited JSON-RPC.

The two streams are taken before any of a project's code is imported, so that nothing it prints gets between the
messages: what is written to standard output goes to standard error. They are read and written by threads, whatever
they are (pipes, files, terminals); no thread keeps the process from ending, also when nobody closes its input.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from typing import TYPE_CHECKING, Final

from ...tools.mcp_stdio import StdioStreams

if TYPE_CHECKING:
    from .server import McpDoor

_CHUNK: Final = 2**16
_MOST_CHUNKS: Final = 16  # read and not yet looked at
_MOST_WAITING: Final = 2**22  # bytes to be written


class Wire:
    """Standard input and output, kept for the protocol."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    async def serve(self, door: McpDoor) -> None:
        """Answer until the client closes its end, then what is under way is stopped."""
        door.has_one_client = True
        loop = asyncio.get_running_loop()
        reader, writer = _Reader(loop), _Writer(loop, self._out)
        threading.Thread(target=reader.read_all, args=(self._in,), daemon=True, name="mcp stdin").start()
        threading.Thread(target=writer.write_all, daemon=True, name="mcp stdout").start()
        async with door.open(), StdioStreams(reader, writer).open() as (read, write):
            await door.server.run(read, write, door.server.create_initialization_options())
        await writer.finish()


class _Reader:
    """A descriptor read by a thread, which waits while much of it is unread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(_MOST_CHUNKS)

    async def read(self, _: int, /) -> bytes:
        return await self._chunks.get()

    def read_all(self, fd: int) -> None:
        chunk = b" "
        while chunk:
            try:
                chunk = os.read(fd, _CHUNK)
            except OSError:  # of a terminal that is gone, for one
                chunk = b""
            try:
                asyncio.run_coroutine_threadsafe(self._chunks.put(chunk), self._loop).result()
            except RuntimeError:  # the loop is closed: there is nobody to tell
                return


class _Writer:
    """What a transport writes to, written by a thread in order; `drain` waits while much is unwritten."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        self._loop, self._fd = loop, fd
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting = 0
        self._room = asyncio.Event()
        self._ended = asyncio.Event()
        self._error: OSError | None = None

    def write(self, data: bytes) -> None:
        self._waiting += len(data)
        self._lines.put(data)

    async def drain(self) -> None:
        while self._waiting > _MOST_WAITING and self._error is None:
            self._room.clear()
            await self._room.wait()
        if self._error is not None:
            raise self._error

    async def finish(self) -> None:
        """Wait until everything is written."""
        self._lines.put(None)
        await self._ended.wait()

    def write_all(self) -> None:
        error: OSError | None = None
        while error is None and (data := self._lines.get()) is not None:
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError as gone:
                error = gone
            self._tell(len(data), error)
        self._tell(0, error, ended=True)

    def _tell(self, written: int, error: OSError | None, *, ended: bool = False) -> None:
        def told() -> None:
            self._waiting -= written
            self._error = self._error or error
            self._room.set()
            if ended:
                self._ended.set()

        try:
            self._loop.call_soon_threadsafe(told)
        except RuntimeError:  # the loop is closed
            return
