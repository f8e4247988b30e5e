"""What Ctrl-C and SIGTERM do while a command goes on, also where a tool holds the event loop.

Python runs the handlers of `signal.signal` in the main thread between any two instructions, so that they come also
where an `async def` spins and the loop itself would never hear of a signal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import threading
import time
from collections.abc import Coroutine
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import CompletionFailed, RunStopped
from .exits import INTERRUPTED
from .logs import tell

if TYPE_CHECKING:
    from ...app import App

_STOP_WITHIN = 5.0
_HELD = 2.0  # seconds that the loop may take to notice a signal
_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_OF_A_TURN = 2  # so many signals are for the turn alone
_Answer = TypeVar("_Answer")


class Interrupts:
    """SIGINT and SIGTERM: the first asks the run to stop, which records it as stopped; the second, or a first one
    without a run, or with one that workers execute, cancels whatever goes on here. What holds the loop meanwhile is
    broken off; where that does not help either, the process ends. Within a turn (`turn`) it is the turn that they
    stop, and only a third one ends the command."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._run_id = ""
        self._hits = 0
        self.came = False
        """Whether there was a signal at all: what else cancels the command does so from inside."""
        self._last = 0  # the number of the newest signal
        self._since: float | None = None  # when the first signal came that the loop has not noticed yet
        self._broken_off = 0  # how often what holds the loop since then was broken off
        self._reminder = False
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        self._turn: asyncio.Task[Any] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._again: threading.Timer | None = None
        self._before: dict[int, Any] = {}

    def running(self, run_id: str) -> None:
        """Says which run is to be stopped."""
        self._run_id = run_id

    @property
    def kept(self) -> bool:
        """Whether a run that is broken off can go on afterwards."""
        return self._app.store.durable

    @property
    def run_id(self) -> str:
        """The run that goes on; "" before there is one."""
        return self._run_id

    async def turn(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Do a part of the command whose signals end this part only: then it is RunStopped."""
        self._run_id, self._hits = "", 0
        self._turn = turn = self._loop.create_task(work)
        try:
            return await turn
        except asyncio.CancelledError:
            if self._main is not None and self._main.cancelling():
                raise
            if self._run_id:  # also where it was not yet in the store when it was to be stopped
                self._app.runs.stop(self._run_id)
            raise RunStopped(self._run_id) from None
        except CompletionFailed as error:
            if not self._hits:
                raise
            raise RunStopped(self._run_id) from error
        finally:
            self._run_id, self._hits, self._turn = "", 0, None
            if self._stopping is not None:  # it would cancel what comes next
                self._stopping.cancel()

    def install(self) -> None:
        """Take the signals; outside the main thread they stay as they are."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._came) for number in _NUMBERS}

    def remove(self) -> None:
        """Give them back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._rest()

    def _came(self, number: int, _: FrameType | None) -> None:
        """A signal, at whatever the main thread does just now."""
        self.came, self._last = True, number
        if self._loop.is_closed():
            raise KeyboardInterrupt
        now, reminder = time.monotonic(), self._reminder
        self._since, self._reminder = now if self._since is None else self._since, False
        held = now - self._since >= _HELD
        if not held and not reminder:
            self._loop.call_soon_threadsafe(self._noticed)
        self._rest()
        self._again = threading.Timer(_HELD, self._remind, (number,))
        self._again.daemon = True
        self._again.start()
        if held:
            self._break_off()

    def _break_off(self) -> None:
        self._broken_off += 1
        if self._broken_off == 1:
            tell("\na tool holds the process; it is broken off", logging.WARNING)
            raise asyncio.CancelledError  # an error like any other for the tool that holds the loop
        tell("a tool holds the process and does not let go; the process ends", logging.ERROR)
        os._exit(INTERRUPTED)

    def _remind(self, number: int) -> None:
        """Let the signal come again, from another thread: the loop has not noticed it."""
        self._reminder = True
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _rest(self) -> None:
        if self._again is not None:
            self._again.cancel()

    def _noticed(self) -> None:
        self._rest()
        self._since, self._broken_off = None, 0
        self._hits += 1
        if self._hits == 1 and self._run_id and self._elsewhere():
            run = shlex.quote(self._run_id)
            tell(f"\nthe run goes on with the workers; look at it with: ropewalk runs watch {run}")
            tell(f"stop it with: ropewalk runs stop {run}")
        elif self._hits == 1 and self._last == signal.SIGTERM and self._only_waits():
            tell("\nthe run keeps waiting, without this process")
        elif self._hits == 1 and self._run_id:
            tell("\nstopping the run; its tools are being cancelled")
            self._stopping = self._loop.create_task(self._stop())
            return
        self._cancel()

    def _cancel(self) -> None:
        """Cancel the turn; the command, where there is none or that has not helped."""
        task = self._turn if self._turn is not None and self._hits <= _OF_A_TURN else self._main
        if task is not None:
            task.cancel()

    def _elsewhere(self) -> bool:
        """Whether it is workers that execute the run, and this process only waits for it."""
        return self._app.distributed and self._run_id not in self._app.engine.live

    def _only_waits(self) -> bool:
        """Whether the run does nothing but wait, and can do so without a process."""
        live = self._app.engine.live.get(self._run_id)
        return live is not None and live.halted is not None and self.kept

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(_STOP_WITHIN):
                if self._app.runs.stop(self._run_id):
                    await asyncio.sleep(_STOP_WITHIN)  # the run ends first, and this task with the loop
        except TimeoutError:
            pass
        self._cancel()
