"""Opening the App for one command, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ...config import find, read_config
from .answer import Answer

if TYPE_CHECKING:
    from ...app import App

_STOP_WITHIN = 5.0


class Interrupts:
    """SIGINT and SIGTERM: the first asks the run to stop, which records it as stopped; the
    second, or a first one without a run, cancels whatever goes on."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._run_id = ""
        self._hits = 0
        self._main: asyncio.Task[object] | None = None
        self._stopping: asyncio.Task[None] | None = None

    def running(self, run_id: str) -> None:
        """Says which run is to be stopped."""
        self._run_id = run_id

    def install(self) -> None:
        self._main = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, self._hit)
            except (NotImplementedError, RuntimeError):  # Windows, or not the main thread: the default stays
                return

    def _hit(self) -> None:
        self._hits += 1
        if self._hits == 1 and self._run_id:
            sys.stderr.write("\nstopping the run; its tools are being cancelled\n")
            self._stopping = asyncio.get_running_loop().create_task(self._stop())
        elif self._main is not None:
            self._main.cancel()

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(_STOP_WITHIN):
                if self._app.runs.stop(self._run_id):
                    await asyncio.sleep(_STOP_WITHIN)  # the run ends first, and this task with the loop
        except TimeoutError:
            pass
        if self._main is not None:
            self._main.cancel()


def with_app(
    work: Callable[[App, Interrupts], Awaitable[Answer]],
    *,
    near: Path | None = None,
    project: Path | None = None,
    store: str | None = None,
    tools: bool = True,
) -> Answer:
    """Open the App, do the work on a loop of its own, close the App; Ctrl-C is KeyboardInterrupt.

    Without `tools` none of the project's code is imported: runs can be looked at and stopped
    also when a tool module is broken.
    """

    async def main() -> Answer:
        from ...app import App

        where = directory(near, project)
        if tools:
            app = App.open(where, store=store, home=_home(near, project))
        else:
            config = read_config(where)
            app = App(store or config.store, directory=config.directory, sync=config.sync)
        interrupts = Interrupts(app)
        interrupts.install()
        async with app:
            return await work(app, interrupts)

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def directory(near: Path | None, project: Path | None) -> Path:
    """Where `ropewalk.toml` is looked for: as said; else here, if there is one here or above;
    else beside the definition; else here."""
    if project is not None:
        return project
    here = Path.cwd()
    if near is None or find(here) is not None:
        return here
    beside = (near if near.is_dir() else near.parent).absolute()
    return beside if find(beside) is not None else here


def _home(near: Path | None, project: Path | None) -> Path | None:
    """A definition run from outside of its project is recorded here, where `runs ls` is typed
    next; unless its project names a store."""
    where = directory(near, project)
    return None if project is not None or where == Path.cwd() else Path.cwd()
