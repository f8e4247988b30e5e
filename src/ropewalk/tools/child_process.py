"""Child processes of tools: start them, collect their output, and end their whole process group.

A child gets its own session, so that its whole group can be signalled, a given environment, and no file descriptor
except the three pipes and those passed to `start`. Shells and waits without a limit are refused. A process
that leaves its group on purpose (a daemon) is out of reach by design.

A watcher process kills the groups of our children if we cannot, even after SIGKILL. It reads a pipe of ours; when the
pipe closes, it kills every group on its list. There is one watcher per process, a small shell with its own session that
is started with the first child and ends with us.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import weakref
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from subprocess import DEVNULL
from threading import RLock
from typing import Final

log = logging.getLogger("ropewalk.tools")

# Only shell built-ins of POSIX. `+ 12` adds a group to the list, `- 12` removes it.
_SCRIPT: Final = """# ropewalk: kills what a process of Ropewalk leaves behind
trap '' HUP INT TERM
groups=' '
while read -r what group; do
  case $what in
    +) groups="$groups$group " ;;
    -) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class Watcher:
    """The watcher process, started on demand and restarted if it died."""

    # Safe to use from any thread.

    def __init__(self) -> None:
        self._lock = RLock()  # the garbage collector may call `remove` within `add`
        self._groups: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: int | None = None

    def add(self, group: int) -> None:
        """Kill a group when this process ends."""
        with self._lock:
            self._groups.add(group)
            if not self._send(f"+ {group}\n"):
                self._start()

    def remove(self, group: int) -> None:
        """Remove a group that has ended; its number may be used again."""
        with self._lock:
            if group in self._groups:
                self._groups.discard(group)
                self._send(f"- {group}\n")

    def end(self) -> None:
        """End the watcher, which then kills the groups on its list."""
        with self._lock:
            self._close()

    def forget(self) -> None:
        """Reset in a forked copy of this process: its parent owns the children and the watcher."""
        if self._process is not None:
            self._process.returncode = 0  # prevents a wait for it
        pipe = self._pipe
        self.__init__()  # type: ignore[misc]  # also the lock, which a thread of the parent may hold
        if pipe is not None:
            os.close(pipe)  # otherwise the watcher would wait for this copy to end

    def _send(self, line: str) -> bool:
        try:
            return self._pipe is not None and os.write(self._pipe, line.encode()) == len(line)
        except OSError:  # the watcher died, or does not read
            return False

    def _start(self) -> None:
        if self._process is not None:
            self._process.kill()  # a living one would take its closed pipe for our end
        self._close()
        try:
            read_end, self._pipe = os.pipe()
            with open(read_end, "rb") as stdin:
                os.set_blocking(self._pipe, False)
                self._process = subprocess.Popen(
                    ["/bin/sh", "-c", _SCRIPT], stdin=stdin, stdout=DEVNULL, stderr=DEVNULL, env={}, cwd="/",
                    start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            log.warning(
                "could not start the watcher of child processes: %s; they may survive if this process is killed", error
            )
        self._send("".join(f"+ {group}\n" for group in tuple(self._groups)))

    def _close(self) -> None:
        pipe, self._pipe = self._pipe, None
        process, self._process = self._process, None
        if pipe is not None:
            os.close(pipe)
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)


WATCHER: Final = Watcher()
atexit.register(WATCHER.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WATCHER.forget)


GRACE: Final = 1.0  # seconds to leave after stdin closes, and again after SIGTERM
HURRIED_GRACE: Final = (0.1, 0.25)  # the same for a child that nobody waits for: together below half a second
_REAP_TIMEOUT: Final = 2.0  # seconds for the loop to notice a SIGKILL
_SETTLE_TIMEOUT: Final = 0.1
_POLL_INTERVAL: Final = 0.01
_MAX_TAIL: Final = 2**16  # bytes of stderr kept: an exception of a Python server takes some 20,000
_CONTROL_CHARACTERS: Final = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
_OUTPUT_GRACE: Final = 0.2  # seconds for output that the process wrote just before it ended

# What a child may inherit. Everything else in our environment, tokens above all, stays here.
INHERITED_VARIABLES: Final = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"
)  # fmt: skip


class _ChildProtocol(SubprocessStreamProtocol):
    """Keeps the end of stderr and reports the exit of the process at once."""

    # asyncio's own `wait()` also waits for the pipes, which a grandchild may keep open for ever.

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_output: Callable[[int, bytes], None] | None,
        on_stderr: Callable[[bytes], None] | None,
    ) -> None:
        super().__init__(limit=2**18, loop=loop)
        self._on_output, self._on_stderr = on_output, on_stderr
        self.exited = asyncio.Event()
        self._open = {2} if on_output is None else {1, 2}
        self.output_ended = asyncio.Event()  # set when the collected output has ended
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._event_loop = loop
        self._is_cut_off = False
        self.piece_count = 0  # pieces of output so far

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Pass output on, and keep the last 64 KiB of what is collected."""
        self.piece_count += 1
        if self._on_output is not None and isinstance(data, bytes):
            self._on_output(fd, data)
        elif fd != 2 or isinstance(data, str):
            if not self._is_cut_off:
                super().pipe_data_received(fd, data)
            return
        if isinstance(data, str):
            return
        if self._on_stderr is not None and fd == 2:
            self._on_stderr(data)
        self._tail.append(data[-_MAX_TAIL:])
        self._tail_size += len(self._tail[-1])
        while self._tail_size - len(self._tail[0]) >= _MAX_TAIL:
            self._tail_size -= len(self._tail.popleft())

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note the end of a pipe."""
        self._open.discard(fd)
        if not self._open:
            self.output_ended.set()
        super().pipe_connection_lost(fd, exc)
        closed: asyncio.Future[None] | None = getattr(self, "_stdin_closed", None)
        if fd == 0 and closed is not None and closed.done():
            # Retrieved, because Python 3.11.2 warns if nobody awaits `stdin.wait_closed()`.
            closed.exception()

    def process_exited(self) -> None:
        """Note the exit; output that arrives much later is ignored."""
        self.exited.set()
        super().process_exited()
        self._event_loop.call_later(_OUTPUT_GRACE, self._end_output)

    def _end_output(self) -> None:
        self._is_cut_off = True
        if self.stdout is not None:
            self.stdout.feed_eof()

    def tail(self) -> str:
        """Return the last 64 KiB of the collected output."""
        return b"".join(self._tail)[-_MAX_TAIL:].decode(errors="replace")


class Child:
    """A running child."""

    # After `stop()` no process of its group is left, whatever happens.

    def __init__(self, process: Process, protocol: _ChildProtocol, transport: asyncio.SubprocessTransport) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin, self.stdout = process.stdin, process.stdout
        self.pid = process.pid
        self._protocol, self._transport = protocol, transport
        # Last resort, for an event loop that was closed early or an interpreter that exits.
        self._finalizer = weakref.finalize(self, _kill_group, self.pid, os.getpid())

    @property
    def exited(self) -> asyncio.Event:
        """Set as soon as the process itself has ended."""
        return self._protocol.exited

    def stderr_tail(self) -> str:
        """Return the last 64 KiB of stderr; with `on_output`, also of stdout."""
        return self._protocol.tail()

    async def describe_end(self, timeout: float = 0.5) -> str:
        """Describe how the process ended, such as "was killed by SIGKILL"; empty if it is still running."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self.exited.wait()
                await self._protocol.output_ended.wait()
        code = self._transport.get_returncode()
        if code is None:
            return ""
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-code).name}"
        return f"exited with code {code}"

    async def wait_for_output(self, piece_timeout: float, total_timeout: float) -> bool:
        """Wait for the end of the process while it still writes output."""
        loop = asyncio.get_running_loop()
        deadline, protocol = loop.time() + total_timeout, self._protocol
        while not protocol.exited.is_set() and loop.time() < deadline:
            pieces = protocol.piece_count
            await _wait_at_most(piece_timeout, protocol.exited)
            if pieces == protocol.piece_count:
                break
        if protocol.exited.is_set():
            await _wait_at_most(_OUTPUT_GRACE, protocol.output_ended)  # a grandchild may keep the pipes open
        return protocol.exited.is_set()

    async def stop(self, *, hurried: bool = False) -> None:
        """End the whole group: close stdin, then SIGTERM, then SIGKILL, each with a time limit."""
        try:
            await self._end_group(*(HURRIED_GRACE if hurried else (GRACE, GRACE)))
            await _wait_at_most(_REAP_TIMEOUT, self.exited)
            await self._wait_for_group(_SETTLE_TIMEOUT)
        finally:
            self._transport.close()

    async def _end_group(self, exit_timeout: float, term_timeout: float) -> None:
        try:
            with contextlib.suppress(OSError):
                self.stdin.close()
            if not self.exited.is_set():
                await _wait_at_most(exit_timeout, self.exited)
            if not _signal_group(self.pid, signal.SIGTERM) or await self._wait_for_group(term_timeout):
                self._finalizer.detach()  # the number may be used again from now on
                WATCHER.remove(self.pid)
        finally:
            # Also after a cancellation: this is synchronous, so nothing can interrupt it.
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL to the group at once, from any thread."""

        # Does nothing if the group has ended.
        self._finalizer()

    async def _wait_for_group(self, timeout: float) -> bool:
        """Return True if the group ends within `timeout` seconds, so that its number is free."""

        # Returns early if only zombies are left: process 1 may take seconds to reap them.
        loop = asyncio.get_running_loop()
        start, next_look = loop.time(), 2 * _POLL_INTERVAL
        while _signal_group(self.pid, 0):
            elapsed = loop.time() - start
            if elapsed >= timeout:
                return False
            if elapsed >= next_look:  # scanning /proc is slow, so at growing intervals
                if not _has_live_member(self.pid):
                    return False
                next_look = 2 * elapsed
            await asyncio.sleep(_POLL_INTERVAL)  # a group has no event to wait for
        return True


async def start(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None = None,
    *,
    pass_fds: Sequence[int] = (),
    on_output: Callable[[int, bytes], None] | None = None,
    on_stderr: Callable[[bytes], None] | None = None,
) -> Child:
    """Start a program in a session of its own."""

    # `on_output`: Gets all output as (1 or 2, bytes); None leaves standard output in `Child.stdout`. `on_stderr` gets
    # standard error as well.
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: _ChildProtocol(loop, on_output, on_stderr),
        *argv,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
        close_fds=True,
        pass_fds=tuple(pass_fds),
    )
    WATCHER.add(transport.get_pid())
    return Child(Process(transport, protocol, loop), protocol, transport)


def inherited_environment() -> dict[str, str]:
    """Return the part of our environment that a child may inherit."""
    # A value that begins with () is an exported shell function: code, not data.
    return {key: value for key in INHERITED_VARIABLES if (value := os.environ.get(key)) and not value.startswith("()")}


def without_control_characters(text: str) -> str:
    """Remove control characters and escape sequences, which could change a terminal."""
    return _CONTROL_CHARACTERS.sub("", text)


def find_program(command: str, env: Mapping[str, str]) -> str:
    """Return a command, or its path next to our Python if it is not on the child's PATH."""

    # A virtual environment that is not activated has its programs there.
    if os.sep in command or shutil.which(command, path=env.get("PATH")):
        return command
    local = os.path.join(os.path.dirname(sys.executable), command)
    return local if shutil.which(local) else command


async def _wait_at_most(timeout: float, event: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await event.wait()


def _signal_group(group: int, number: int) -> bool:
    """Signal a group."""

    # Return True if it still has members, even some that we may not signal.
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _has_live_member(group: int) -> bool:
    """Return True if a group has a member that is not a zombie, or if there is no /proc to tell."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    for pid in pids:
        with contextlib.suppress(OSError):  # the process has ended meanwhile
            if os.getpgid(pid) == group:
                with open(f"/proc/{pid}/stat", "rb") as file:
                    state = file.read().rpartition(b")")[2].split(None, 1)[0]
                if state not in (b"Z", b"X"):
                    return True
    return not pids


def _kill_group(group: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked copy must not end the children of its parent
        _signal_group(group, signal.SIGKILL)
        WATCHER.remove(group)
