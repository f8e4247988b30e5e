"""Opening the App for one command, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import asyncio
import logging
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
    run: str | None = None,
    project: Path | None = None,
    store: str | None = None,
    tools: bool = True,
) -> Answer:
    """Open the App, do the work on a loop of its own, close the App; Ctrl-C is KeyboardInterrupt.

    The tools are those of the definition's project (`near`), or of the one that `run` was started
    with. Without `tools` none of a project's code is imported: runs can be looked at and stopped
    also when a tool module is broken.
    """

    async def main() -> Answer:
        if tools and run is not None and project is None:
            app = _reopened(run, store)
        elif tools:
            from ...app import App

            app = App.open(directory(near, project), store=store, home=_home(project))
        else:
            app = _without_tools(project, store)
        interrupts = Interrupts(app)
        interrupts.install()
        _show_lines()
        async with app:
            return await work(app, interrupts)

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _show_lines() -> None:
    """What JavaScript tool modules print, on standard error; a Python one prints there by itself."""
    log = logging.getLogger("ropewalk.modules")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(line)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def directory(near: Path | None, project: Path | None) -> Path:
    """Where `ropewalk.toml` is looked for: as said; else beside the definition and above it, if there
    is one; else here."""
    if project is not None:
        return project
    if near is not None:
        beside = (near if near.is_dir() else near.parent).resolve()
        if find(beside) is not None:
            return beside
    return Path.cwd()


def _home(project: Path | None) -> Path | None:
    """What is run from elsewhere is recorded here, where `runs ls` is typed next."""
    return Path.cwd() if project is None else None


def _without_tools(project: Path | None, store: str | None) -> App:
    from ...app import App

    config = read_config(project)
    return App(store or config.store, directory=config.directory, sync=config.sync)


def _reopened(run: str, address: str | None) -> App:
    """The App of the project that a run of here was started with, while that is where it was."""
    from ...app import App

    here = _without_tools(None, address)
    try:
        row = here.store.get_run(run)
        began = (row.context or {}).get("project") if row is not None else None
        where = Path(began) if began and Path(began).is_dir() else Path.cwd()
        return App.open(where, store=here.store, home=Path.cwd())
    except BaseException:
        here.store.close()
        raise
