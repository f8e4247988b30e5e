"""A child process behind tools: its group, its environment, its last words.

A child gets its own session (so its whole group can be signalled), a given environment and no
descriptor of ours but the three pipes, and what `start` is told to pass on. Refused here: a shell,
waiting without a bound. What is left of a group when we are killed, watcher.py ends. A process that leaves its
group on purpose (a daemon) is out of reach by design.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import weakref
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from .watcher import WATCHER

GRACE: Final = 1.0  # seconds to leave after stdin closes, and again after SIGTERM
HURRY: Final = (0.1, 0.25)  # the same two where it is in a call that was given up: both are within half a second
_REAP: Final = 2.0  # seconds for the loop to notice a SIGKILL
_SETTLE: Final = 0.1
_PAUSE: Final = 0.01
_TAIL: Final = 4096  # bytes of stderr kept
_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_LINGER: Final = 0.2  # seconds for output that the process wrote just before it ended

# What a child may inherit. Everything else in our environment, tokens above all, stays here.
INHERITED: Final = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"
)  # fmt: skip


class _Wire(SubprocessStreamProtocol):
    """Keeps the end of stderr, and knows at once when the process has gone: asyncio's own
    `wait()` also waits for the pipes, which a grandchild may hold open for ever."""

    def __init__(self, loop: asyncio.AbstractEventLoop, heard: Callable[[int, bytes], None] | None) -> None:
        super().__init__(limit=2**18, loop=loop)
        self._heard = heard
        self.exited = asyncio.Event()
        self._open = {2} if heard is None else {1, 2}
        self.quiet = asyncio.Event()  # the output that is kept or heard has ended
        self._tail: deque[bytes] = deque()
        self._kept = 0
        self._loop_ = loop
        self._cut = False
        self.pieces = 0  # of output that have arrived

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        self.pieces += 1
        if self._heard is not None and isinstance(data, bytes):
            self._heard(fd, data)
        elif fd != 2 or isinstance(data, str):
            if not self._cut:
                super().pipe_data_received(fd, data)
            return
        if isinstance(data, str):
            return
        self._tail.append(data[-_TAIL:])
        self._kept += len(self._tail[-1])
        while self._kept - len(self._tail[0]) >= _TAIL:
            self._kept -= len(self._tail.popleft())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.quiet.set()
        super().pipe_connection_lost(fd, exc)
        closed: asyncio.Future[None] | None = getattr(self, "_stdin_closed", None)
        if fd == 0 and closed is not None and closed.done():
            # Kept for `stdin.wait_closed()`, which nobody has to await; Python 3.11.2 complains when nobody does.
            closed.exception()

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
        """The last 4 KiB that the child wrote to stderr (with `heard`: to stdout, too)."""
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

    async def heard_out(self, patience: float, most: float) -> bool:
        """Whether the process has ended and all its output arrived, waiting while more of it comes: at most
        `patience` seconds for the next piece, `most` for all of it."""
        loop = asyncio.get_running_loop()
        end, wire = loop.time() + most, self._wire
        while not wire.exited.is_set() and loop.time() < end:
            pieces = wire.pieces
            await _within(patience, wire.exited)
            if pieces == wire.pieces:
                break
        if wire.exited.is_set():
            await _within(_LINGER, wire.quiet)  # a grandchild may hold the pipes open
        return wire.exited.is_set()

    async def stop(self, *, hurried: bool = False) -> None:
        """End the whole group: close stdin, SIGTERM, SIGKILL, each step with a bound, a short one where it is
        `hurried`: for a child that does what nobody waits for any more."""
        try:
            await self._ended(*(HURRY if hurried else (GRACE, GRACE)))
            await _within(_REAP, self.exited)
            await self._group_gone(_SETTLE)
        finally:
            self._transport.close()

    async def _ended(self, leaving: float, terminating: float) -> None:
        try:
            with contextlib.suppress(OSError):
                self.stdin.close()
            if not self.exited.is_set():
                await _within(leaving, self.exited)
            if not _signal_group(self.pid, signal.SIGTERM) or await self._group_gone(terminating):
                self._finalizer.detach()  # the number may belong to somebody else from now on
                WATCHER.remove(self.pid)
        finally:
            # Also when we are cancelled in between: synchronous, so nothing can stop it.
            self.kill()

    def kill(self) -> None:
        """SIGKILL to the group, now, from any thread; harmless when it has gone."""
        self._finalizer()

    async def _group_gone(self, bound: float) -> bool:
        """Whether the group, and with it its number, is gone within `bound` seconds. Zombies are not waited for:
        process 1 may take seconds to reap them."""
        loop = asyncio.get_running_loop()
        began, look = loop.time(), 2 * _PAUSE
        while _signal_group(self.pid, 0):
            waited = loop.time() - began
            if waited >= bound:
                return False
            if waited >= look:  # each look costs more than the signal: at ever longer pauses
                if not _running(self.pid):
                    return False
                look = 2 * waited
            await asyncio.sleep(_PAUSE)  # a group has no event to wait for
        return True


async def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None = None,
    *,
    passed: Sequence[int] = (),
    heard: Callable[[int, bytes], None] | None = None,
) -> Child:
    """Start a program with the descriptors `passed` besides its pipes. With `heard`, all that it writes to its
    standard output and error goes there, as (1 or 2, bytes). Raises FileNotFoundError, OSError or ValueError."""
    loop = asyncio.get_running_loop()
    transport, wire = await loop.subprocess_exec(
        lambda: _Wire(loop, heard),
        *argv,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
        close_fds=True,
        pass_fds=tuple(passed),
    )
    WATCHER.add(transport.get_pid())
    return Child(Process(transport, wire, loop), wire, transport)


def inherited() -> dict[str, str]:
    """The part of our environment that a child may have."""
    # A value that starts like this is an exported shell function: code, not data.
    return {key: value for key in INHERITED if (value := os.environ.get(key)) and not value.startswith("()")}


def harmless(text: str) -> str:
    """What a child said, without what would drive the terminal that shows it."""
    return _CONTROL.sub("", text)


def program(command: str, env: Mapping[str, str]) -> str:
    """`command`, or where it stands beside our Python when it is not on the child's PATH: a virtual
    environment that is used without being activated has its programs there."""
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


def _running(pgid: int) -> bool:
    """Whether a member of the group is more than a zombie; where there is no /proc, it is."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if os.getpgid(pid) == pgid:
                with open(f"/proc/{pid}/stat", "rb") as file:
                    state = file.read().rpartition(b")")[2].split(None, 1)[0]
                if state not in (b"Z", b"X"):
                    return True
    return not pids


def _kill_group(pgid: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked copy of us must not end our children
        _signal_group(pgid, signal.SIGKILL)
        WATCHER.remove(pgid)
