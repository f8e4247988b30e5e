"""Opening the App for one command."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ...config import find, read_config
from ...config.project import FILE
from ...errors import ConfigError, ModelError, NotFound, StoreError
from ...errors.foreign import with_type
from ...errors.given import install
from ...journal.address import Unmade, file_of, is_there
from ...journal.walfile import orphan
from .answer import Answer
from .exits import BrokenOff, Interrupted
from .interrupts import Interrupts
from .logs import Form, Level, begin, follow, tell

if TYPE_CHECKING:
    from ...app import App
    from ...config import Config
    from ...journal import Store

_ALIKE = 200
_STOPPED = "Event loop stopped before Future completed."  # as asyncio says it


def with_app(
    work: Callable[[App, Interrupts], Awaitable[Answer]],
    *,
    near: Path | None = None,
    run: str | None = None,
    project: Path | None = None,
    store: str | None = None,
    engine: Literal["local", "dbos"] | None = None,
    tools: bool = True,
    log: Form = "text",
    log_level: Level | None = None,
    lenient: bool = False,
) -> Answer:
    """Open the App, do the work on a loop of its own, close the App; Ctrl-C is KeyboardInterrupt.

    The tools are those of the definition's project (`near`), or of the one that `run` was started
    with. Without `tools` none of a project's code is imported: runs can be looked at and stopped
    also when a tool module is broken. `lenient` leaves limits for what there is not to the command.
    """

    begin(log, log_level)
    if not lenient:
        warn_without(project)

    async def main() -> Answer:
        if tools and run is not None and project is None:
            app = _reopened(run, store, engine)
        elif tools:
            from ...app import App

            app = App.open(directory(near, project), store=store, home=_home(project), engine=engine)
        else:
            app = without_tools(project, store)
        interrupts = Interrupts(app)
        installed.append(interrupts)
        interrupts.install()
        async with app:
            if tools and not lenient and app.settings.rates:
                from ...fitting import misplaced

                for wrong in misplaced(app.settings.rates, app.toolbox):
                    raise wrong
            with _traced(app):
                follow(app)
                return await work(app, interrupts)

    installed: list[Interrupts] = []
    try:
        return asyncio.run(main())
    except (asyncio.CancelledError, SystemExit, RuntimeError) as error:
        meant = _broken_off(error, installed[0]) if installed else None
        raise meant or error from (None if isinstance(meant, Interrupted) else error.__cause__)
    finally:  # not before: what a tool still does while the loop ends can hold it, too
        for interrupts in installed:
            interrupts.remove()


def _broken_off(error: BaseException, interrupts: Interrupts) -> BaseException | None:
    """What it means that the loop came to its end before the command did: a signal, or what tools can do to it."""
    run_id = interrupts.run_id
    if isinstance(error, asyncio.CancelledError):
        inside = run_id and not interrupts.came
        what = "cancelled the task that called it" if inside else None
    elif isinstance(error, SystemExit):
        what = f"raised {with_type(error)} in a task of its own, which ends the event loop"
    else:
        what = "stopped the event loop" if str(error) == _STOPPED else None
    if what is None:
        return Interrupted(run_id) if isinstance(error, asyncio.CancelledError) else None
    return BrokenOff(what, run_id, kept=interrupts.kept)


@contextlib.contextmanager
def _traced(app: App) -> Iterator[None]:
    """Traces and metrics, where the environment says that they are wanted."""
    if not any(name.startswith("OTEL_EXPORTER_OTLP") for name in os.environ):
        yield
        return
    try:
        from ...telemetry import from_environment

        telemetry = from_environment(app)
    except ModuleNotFoundError as error:
        said = f"traces need more: {install('otel')} ({error.name} is missing), or set OTEL_SDK_DISABLED=true"
        raise ConfigError(said) from None
    try:
        yield
    finally:
        if telemetry is not None:
            telemetry.close()


def directory(near: Path | None, project: Path | None) -> Path:
    """Where `ropewalk.toml` is looked for: as said; else beside the definition and above it, if there
    is one; else here."""
    if project is not None:
        return _there(project)
    if near is not None:
        beside = (near if os.path.isdir(near) else near.parent).resolve()  # Path.is_dir raises for a name too long
        if os.access(beside, os.X_OK) and find(beside) is not None:
            return beside
    return Path.cwd()


def _there(project: Path) -> Path:
    if not project.is_dir():
        why = "is a file; name its directory" if project.exists() else "there is no such directory"
        raise ConfigError(f"-C {project}: {why}")
    return project


def warn_without(project: Path | None) -> None:
    """Say that the directory somebody named is no project: everything has its default there."""
    if project is not None and find(_there(project)) is None:
        tell(f"warning: -C {project}: there is no {FILE} in it or above; everything has its default", logging.WARNING)


def _home(project: Path | None) -> Path | None:
    """What is run from elsewhere is recorded here, where `runs ls` is typed next."""
    return Path.cwd() if project is None else None


def without_tools(project: Path | None, store: str | None) -> App:
    from ...app import App

    config = read_config(project if project is None else _there(project))
    app = App(_made(store, config), directory=config.directory, sync=config.sync)
    app.retention = None  # who only looks deletes nothing
    return app


def _made(store: str | None, config: Config) -> str | Store | None:
    """The address of the store as it is: who only looks makes none."""
    address = store or config.store
    file = file_of(address, config.directory)
    if file is None or is_there(file):
        return address
    if lost := orphan(file):
        raise StoreError(f"{file}: {lost}")
    if store is not None:
        raise StoreError(f"--store {store}: there is no such store")
    return Unmade(file, given=address is not None)


def needs_model(app: App) -> None:
    """Refuse, before anything is asked or called, where the model cannot be asked."""
    why = app.jobs.model_missing()
    if why is not None:
        raise ModelError(why)


def unknown_run(app: App, run_id: str) -> NotFound:
    """There is no such run: where it was looked for, and how another place is named."""
    from ...values import closest

    if isinstance(app.store, Unmade):
        why = f"there is no store at {app.store.path}; -C PROJECT or --store URL names another"
        return NotFound("run", run_id, why=why)
    near = closest(run_id, (row.id for row in app.runs.list(limit=_ALIKE)))
    where = getattr(app.store, "where", None)  # of Postgres; its name is the address without a password
    searched = where.name if where is not None else getattr(app.store, "path", "this store")
    why = f"{searched} was searched; -C PROJECT or --store URL names another"
    return NotFound("run", run_id, suggestion=near, why=why)


def _reopened(run: str, address: str | None, engine: Literal["local", "dbos"] | None) -> App:
    """The App of the project that a run of here was started with, while that is where it was."""
    from ...app import App

    here = without_tools(None, address)
    try:
        row = here.store.get_run(run)
        began = (row.context or {}).get("project") if row is not None else None
        where = Path(began) if began and Path(began).is_dir() else Path.cwd()
        return App.open(where, store=here.store, home=Path.cwd(), engine=engine)
    except BaseException:
        here.store.close()
        raise
