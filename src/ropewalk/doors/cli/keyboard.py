"""Lines typed at a terminal, in the order of the keys.

The event loop reads the terminal itself. So it knows what was typed before a question was shown, and can drop it.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import termios
from typing import Final

_CHUNK: Final = 4096


class Keyboard:
    """Reads lines from a terminal while the event loop runs."""

    def __init__(self, fd: int, encoding: str) -> None:
        self._fd = fd
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._partial_line = ""  # a line without its end
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._ended = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(fd, self._read)

    async def line(self) -> str | None:
        """Wait for the next line; None after the end of input (Ctrl-D)."""
        if self._ended and self._lines.empty():
            return None
        return await self._lines.get()

    def discard(self) -> bool:
        """Drop everything typed so far, also a line that is not finished; return True if a whole line was dropped."""
        termios.tcflush(self._fd, termios.TCIFLUSH)
        self._decoder.reset()
        self._partial_line = ""
        dropped = False
        while not self._lines.empty():
            dropped = self._lines.get_nowait() is not None or dropped
        return dropped

    def close(self) -> None:
        """Stop reading."""
        self._loop.remove_reader(self._fd)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return  # it was dropped meanwhile
        except OSError:  # the terminal is gone
            data = b""
        *lines, self._partial_line = (self._partial_line + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._lines.put_nowait(line)
        if not data:
            self._ended = True
            if self._partial_line:
                self._lines.put_nowait(self._partial_line)
            self._lines.put_nowait(None)
            self.close()
