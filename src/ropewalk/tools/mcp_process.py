"""The child process behind an MCP server on stdio: its group, its environment, its last words.

A child gets its own session (so its whole group can be signalled), a given environment and no
descriptor of ours but the three pipes. Refused here: a shell, waiting without a bound. A process
that leaves its group on purpose (a daemon) is out of reach by design.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import weakref
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import Mapping
from typing import Final

from .mcp_config import ServerConfig, child_environment

GRACE: Final = 1.0  # seconds to leave after stdin closes, and again after SIGTERM
_REAP: Final = 2.0  # seconds for the loop to notice a SIGKILL
_SETTLE: Final = 0.1
_TAIL: Final = 4096  # bytes of stderr kept
_LINGER: Final = 0.2  # seconds for output that the process wrote just before it ended


class _Wire(SubprocessStreamProtocol):
    """Keeps the end of stderr, and knows at once when the process has gone: asyncio's own
    `wait()` also waits for the pipes, which a grandchild may hold open for ever."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=2**18, loop=loop)
        self.exited = asyncio.Event()
        self.quiet = asyncio.Event()  # stderr has ended
        self._tail: deque[bytes] = deque()
        self._kept = 0
        self._loop_ = loop
        self._cut = False

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        if fd != 2 or isinstance(data, str):
            if not self._cut:
                super().pipe_data_received(fd, data)
            return
        self._tail.append(data[-_TAIL:])
        self._kept += len(self._tail[-1])
        while self._kept - len(self._tail[0]) >= _TAIL:
            self._kept -= len(self._tail.popleft())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 2:
            self.quiet.set()
        super().pipe_connection_lost(fd, exc)

    def process_exited(self) -> None:
        self.exited.set()
        super().process_exited()
        self._loop_.call_later(_LINGER, self._cut_off)

    def _cut_off(self) -> None:
        self._cut = True
        if self.stdout is not None:
            self.stdout.feed_eof()

    def tail(self) -> str:
        return b"".join(self._tail)[-_TAIL:].decode(errors="replace")


class Child:
    """A running child. `stop()` leaves no process of its group behind, whatever happens."""

    def __init__(self, process: Process, wire: _Wire, transport: asyncio.SubprocessTransport) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin, self.stdout = process.stdin, process.stdout
        self.pid = process.pid
        self._wire, self._transport = wire, transport
        # Last resort, for a loop that was closed under us or an interpreter that exits.
        self._finalizer = weakref.finalize(self, _kill_group, self.pid, os.getpid())

    @property
    def exited(self) -> asyncio.Event:
        """Set as soon as the process itself has ended."""
        return self._wire.exited

    def stderr_tail(self) -> str:
        """The last 4 KiB that the child wrote to stderr."""
        return self._wire.tail()

    async def last_words(self, bound: float = 0.5) -> str:
        """How the process ended ("was killed by SIGKILL"), waiting at most `bound` seconds for it
        to end and for its stderr to arrive; empty when it is still running."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(bound):
                await self.exited.wait()
                await self._wire.quiet.wait()
        code = self._transport.get_returncode()
        if code is None:
            return ""
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    async def stop(self) -> None:
        """End the whole group: close stdin, SIGTERM, SIGKILL, each step with a bound."""
        try:
            with contextlib.suppress(OSError):
                self.stdin.close()
            if not self.exited.is_set():
                await _within(GRACE, self.exited)
            if not _signal_group(self.pid, signal.SIGTERM) or await self._group_gone(GRACE):
                self._finalizer.detach()  # the number may belong to somebody else from now on
        finally:
            # Also when we are cancelled in between: synchronous, so nothing can stop it.
            self.kill()
        await _within(_REAP, self.exited)
        # What SIGKILL hit is as good as gone; how soon its zombie is reaped is up to process 1.
        await self._group_gone(_SETTLE)
        self._transport.close()

    def kill(self) -> None:
        """SIGKILL to the group, now, from any thread; harmless when it has gone."""
        self._finalizer()

    async def _group_gone(self, bound: float) -> bool:
        loop = asyncio.get_running_loop()
        end = loop.time() + bound
        while _signal_group(self.pid, 0):
            if loop.time() >= end:
                return False
            await asyncio.sleep(0.01)  # a group has no event to wait for
        return True


async def spawn(config: ServerConfig) -> tuple[Child, frozenset[str]]:
    """Start the program; also gives the secret values in its environment.

    Raises ConnectionError that says what could not be started and why."""
    env, secrets = child_environment(config)
    if config.cwd is not None and not os.path.isdir(config.cwd):  # noqa: ASYNC240 - one stat beside a fork
        raise ConnectionError(f"{config}: cwd {config.cwd!r} is not a directory")
    loop = asyncio.get_running_loop()
    try:
        transport, wire = await loop.subprocess_exec(
            lambda: _Wire(loop),
            _program(config.command, env),
            *config.args,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=env,
            cwd=config.cwd,
            start_new_session=True,
            close_fds=True,
        )
    except FileNotFoundError as error:
        hint = '; arguments belong in "args"' if " " in config.command else ""
        raise ConnectionError(f"{config}: no program {config.command!r} on the PATH{hint}") from error
    except (OSError, ValueError) as error:
        raise ConnectionError(f"{config}: cannot start {config.command!r}: {error}") from error
    return Child(Process(transport, wire, loop), wire, transport), secrets


def _program(command: str, env: Mapping[str, str]) -> str:
    """`command`, or where it stands beside our Python when it is not on the child's PATH: a virtual
    environment that is used without being activated has its servers there."""
    if os.sep in command or shutil.which(command, path=env.get("PATH")):
        return command
    beside = os.path.join(os.path.dirname(sys.executable), command)
    return beside if shutil.which(beside) else command


async def _within(bound: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(bound):
            await event.wait()


def _signal_group(pgid: int, number: int) -> bool:
    """Whether the group still has members (that we may not signal all of them proves nothing)."""
    try:
        os.killpg(pgid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _kill_group(pgid: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked copy of us must not end our children
        _signal_group(pgid, signal.SIGKILL)
