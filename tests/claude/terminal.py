"""A command at a terminal of its own: what it shows, and what is typed."""

from __future__ import annotations

import os
import pty
import select
import signal
from collections.abc import Mapping
from pathlib import Path

import fork_server

_LONGEST = 60.0


class Terminal:
    """`shown` is all that it has shown so far; what was waited for is not looked at again."""

    def __init__(self, argv: list[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        self.child = fork_server.Popen(
            argv, cwd=cwd, env={**env, "TERM": "dumb"}, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.shown, self._at = "", 0

    def until(self, text: str) -> None:
        """Read on until it shows this."""
        while text not in self.shown[self._at :]:
            assert self._read(), f"it ended before {text!r}: {self.shown}"
        self._at = self.shown.index(text, self._at) + len(text)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.child.send_signal(signal.SIGINT)

    def ended(self) -> int:
        """The exit code, and all that it still shows until then."""
        while self._read():
            pass
        os.close(self._master)
        return self.child.wait(timeout=_LONGEST)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], _LONGEST)
        if not ready:
            self.child.kill()
            raise AssertionError(f"it shows nothing more: {self.shown}")
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # the other end is closed: Linux says so with EIO
            return False
        self.shown += chunk.decode()
        return bool(chunk)
