"""The pool of children: each program leases a child of its own while it computes.

The pool belongs to the process: every event loop and every thread leases from it. A child that is left in the middle of
a program, by an error or a cancellation, is killed. The others are used again, up to 100 programs or 200 MB.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeAlias

from ...errors import ExpressionError
from ...fast_dataclass import dataclass
from ...values import Json
from . import frames
from .child import DONE, FAILED
from .forks import Forks, Process
from .watch import Watch

MOST_CHILDREN: Final = 8
"""How many programs compute at once in one process; others wait for their turn."""
MOST_PROGRAMS: Final = 100
"""How many programs one child computes before a new one takes its place."""
MOST_MEMORY: Final = 200 << 20
"""Bytes of memory above which a child is not used again."""
_REASONS: Final = {
    "cpu": "it took more than {cpu:g} seconds of processor time",
    "wall": "it took longer than {wall:g} seconds",
    "memory": "it needs too much memory",
    "depth": "its values or expressions are nested too deeply",
    "output": f"its answer has more than {frames.MOST_BYTES:,} bytes",
    "input": f"its input has more than {frames.MOST_BYTES:,} bytes",
    "start": "its process did not start",
    "printed": "it prints too much text",
    "forged": "its process sent what no program can ask for",
    "died": "it crashed the interpreter",
    "error": "it cannot be interpreted ({error})",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a program, in seconds."""

    cpu: float = 3.0  # processor time of the child for one program
    wall: float = 8.0  # from a message to the next one of the child; it includes no waiting for the parent


class ProgramStopped(ExpressionError):
    """A program was ended because it exceeded a limit or crashed its child; no handler of a program catches it."""

    def __init__(self, reason: str, limits: Limits, error: str = "") -> None:
        self.reason = reason
        why = _REASONS[reason].format(cpu=limits.cpu, wall=limits.wall, error=error)
        super().__init__(f"the program was stopped: {why}")


Conversation: TypeAlias = Generator[Mapping[str, Json], dict[str, Any], None]
"""The messages of a parent for one program; each gets the child's answer, unless that is the last one."""


class Child:
    """A child while it is leased, for one program."""

    def __init__(self, process: Process, watch: Watch) -> None:
        self.process, self.pid, self._watch = process, process.pid, watch
        self.programs = 0
        self.limits, self._killed_by = Limits(), ""
        self._ends_cpu = self._ends_wall = 0.0

    def begin(self, limits: Limits) -> None:
        """Begin a program."""
        self.programs += 1
        self.limits = limits
        self.allow(limits.cpu)

    def allow(self, seconds: float) -> None:
        """Let the program take these seconds of processor time from now on."""
        self._ends_cpu = self.process.cpu_seconds() + seconds

    # --- asyncio -------------------------------------------------------------------------------

    async def send(self, message: Mapping[str, Json]) -> None:
        """Send a message to the child."""
        with self._computing():
            self.process.connection.setblocking(False)
            await frames.write_async(self.process.connection, message)

    async def receive(self) -> dict[str, Any]:
        """Return the next message of the child, which computes until then."""
        with self._computing():
            self.process.connection.setblocking(False)
            return self._checked(await frames.read_async(self.process.connection))

    async def request(self, message: Mapping[str, Json]) -> Any:
        """Send a message and return the value of the answer."""
        await self.send(message)
        return self._value(await self.receive())

    async def converse(self, conversation: Conversation) -> Any:
        """Send each message of a conversation, give it the child's next one, and return the value of the last one."""
        message = next(conversation)
        while True:
            await self.send(message)
            reply = await self.receive()
            if reply.get("type") == DONE:
                return reply.get("value")
            message = conversation.send(reply)

    # --- without an event loop -----------------------------------------------------------------

    def converse_sync(self, conversation: Conversation) -> Any:
        """Hold a conversation as `converse` does, and wait for each answer."""
        connection, message = self.process.connection, next(conversation)
        connection.setblocking(True)
        while True:
            with self._computing():
                frames.write(connection, message)
                reply = self._checked(frames.read(connection))
            if reply.get("type") == DONE:
                return reply.get("value")
            message = conversation.send(reply)

    # --- limits --------------------------------------------------------------------------------

    def exceeded(self, now: float) -> str | None:
        """Return the limit that the child exceeds, if it does."""
        if now > self._ends_wall:
            return "wall"
        return "cpu" if self.process.cpu_seconds() > self._ends_cpu else None

    def kill(self, reason: str) -> None:
        """End the child, and remember why."""
        self._killed_by = self._killed_by or reason
        self.process.kill()

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Watch the child in the block, and say why it ended there."""
        self._ends_wall = time.monotonic() + self.limits.wall
        self._watch.add(self)
        try:
            yield
        except frames.BadFrame:
            raise ProgramStopped("input", self.limits) from None
        except frames.Closed:
            raise ProgramStopped(self._killed_by or "died", self.limits) from None
        finally:
            self._watch.remove(self)

    def _checked(self, message: dict[str, Any]) -> dict[str, Any]:
        if message.get("type") != FAILED:
            return message
        reason = str(message.get("reason"))
        raise ProgramStopped(reason if reason in _REASONS else "died", self.limits, str(message.get("error"))[:50])

    def _value(self, message: dict[str, Any]) -> Any:
        if message.get("type") != DONE:
            raise ProgramStopped("died", self.limits)
        return message.get("value")


class Pool:
    """The children of this process."""

    def __init__(self, most: int = MOST_CHILDREN, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        self.limits = limits
        self._forks, self._watch = Forks(), Watch()
        self._lock, self._fork_lock = threading.Lock(), threading.Lock()
        self._most = self._free = most  # how many more leases may begin
        self._waiting: deque[Future[None]] = deque()
        self._idle: list[Child] = []
        self._all: set[Child] = set()

    @asynccontextmanager
    async def lease(self) -> AsyncIterator[Child]:
        """Lease a child for one program."""
        await self._take_turn()
        child = None
        try:
            child = self._take_idle() or await _finished(asyncio.to_thread(self._new), self._discard)
            child.begin(self.limits)
            yield child
        except BaseException:
            self._discard(child)
            child = None
            raise
        finally:
            self._return(child)
            self._pass_turn()

    @contextmanager
    def lease_sync(self) -> Iterator[Child]:
        """Lease a child and block meanwhile."""
        # Programs of an event loop that is blocked here may have all turns, so it waits for none.
        is_counted = not _has_running_loop()
        turn = self._turn() if is_counted else None
        if turn is not None:
            turn.result()
        child = None
        try:
            child = self._take_idle() or self._new()
            child.begin(self.limits)
            yield child
        except BaseException:
            self._discard(child)
            child = None
            raise
        finally:
            self._return(child)
            if is_counted:
                self._pass_turn()

    @property
    def leases(self) -> int:
        """How many children are leased now, also to programs that wait."""
        return self._most - self._free

    @property
    def computing(self) -> int:
        """How many children compute now."""
        return self._watch.children

    # --- turns ---------------------------------------------------------------------------------

    def _turn(self) -> Future[None] | None:
        """Take a turn, or return the future that gets one."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return None
            future: Future[None] = Future()
            self._waiting.append(future)
            return future

    async def _take_turn(self) -> None:
        future = self._turn()
        if future is None:
            return
        try:
            await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            # The turn may have come in the same moment.
            if not future.cancel() and not future.cancelled():
                self._pass_turn()
            raise

    def _pass_turn(self) -> None:
        with self._lock:
            while self._waiting:
                if self._waiting[0].set_running_or_notify_cancel():
                    self._waiting.popleft().set_result(None)
                    return
                self._waiting.popleft()
            self._free += 1

    # --- children ------------------------------------------------------------------------------

    def _take_idle(self) -> Child | None:
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None or child.process.is_alive():
                return child
            self._discard(child)  # it died while nobody used it, for example because memory ran out

    def _new(self) -> Child:
        with self._fork_lock:
            try:
                child = Child(self._forks.child(), self._watch)
            except OSError:
                raise ProgramStopped("start", self.limits) from None
        with self._lock:
            self._all.add(child)
        return child

    def _return(self, child: Child | None) -> None:
        if child is None:
            return
        if child.programs >= MOST_PROGRAMS or child.process.memory() > MOST_MEMORY:
            self._discard(child)
            return
        with self._lock:
            self._idle.append(child)

    def _discard(self, child: Child | None) -> None:
        if child is None:
            return
        with self._lock:
            self._all.discard(child)
        child.process.close()

    def close(self) -> None:
        """End the forker and every child."""
        with self._lock:
            children, self._idle = self._idle, []
        for child in children:
            self._discard(child)
        with self._fork_lock:
            self._forks.close()

    def forget(self) -> None:
        """Close this process's copies of descriptors that belong to the process that forked it."""
        for child in self._all:
            with suppress(OSError):
                child.process.forget()
        self._forks.forget()


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _finished(work: Any, discard: Any) -> Any:
    """Return the result of some work in a thread; one that comes after a cancellation is discarded."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(lambda done: done.cancelled() or done.exception() or discard(done.result()))
        raise


_pool = Pool()


def pool() -> Pool:
    """Return the pool of this process."""
    return _pool


def _after_fork() -> None:
    """Give a forked process a pool of its own: its parent's children answer its parent."""
    global _pool
    _pool.forget()
    _pool = Pool(limits=_pool.limits)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
