"""The App of one command, and what Ctrl-C and SIGTERM do while the command runs.

`with_app` opens the App, runs the command on an event loop and closes both. `Interrupts` handles the
signals with `signal.signal`: Python runs such a handler in the main thread between any two
instructions, so it runs even if a tool blocks the event loop. The event loop itself is woken by
`add_signal_handler`, because Python runs no handler while the main thread waits for the system.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ...config.modules import import_tools
from ...config.project import CONFIG_FILE, find_config_file, read_config
from ...errors import (
    Action,
    CompletionFailed,
    ConfigError,
    NotFound,
    Remedy,
    RopewalkError,
    RunStopped,
    StoreError,
    describe_exception,
    install_command,
    message_of,
)
from ...journal.address import MissingStore, file_of, has_scheme_of_others, is_there
from ...journal.sqlite.wal_check import orphan_wal
from ...journal.tool_usage import as_source, local_source
from ...source.document import render_problem
from ...tools.capture import capture
from ..remedies import GIVEN
from .dispatch import NOTHING_HAS_RUN, Answer, Interrupted, InterruptedByTool, executes_run
from .output import configure_logging, log_events, notify
from .streams import INTERRUPTED

if TYPE_CHECKING:
    from ...app.app import App
    from ...config.settings import Config
    from ...journal.address import StoreOpener
    from ...journal.protocol import Store

log = logging.getLogger("ropewalk.config")
_STOP_WITHIN = 5.0
_HELD_AFTER = 2.0  # seconds without a reaction of the loop after which a tool is said to hold it
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TURN_SIGNALS = 2  # the signals that stop a turn only; the next one ends the command
_Answer = TypeVar("_Answer")


class Interrupts:
    """Handles SIGINT and SIGTERM for one command."""

    # The first signal stops the run, which is recorded as stopped. The second one cancels the command; so does the
    # first if there is no run, or if workers execute it. A tool that blocks the loop is interrupted; if it still blocks
    # after that, the process ends. During a `turn`, signals stop only the turn, and the third one ends the command.

    def __init__(self, app: App, options: str = "") -> None:
        self._app, self._options = app, options  # the options name the store and the project in commands that are shown
        self._run_id = ""
        self._starting_id = ""
        self._has_ended = False
        self.if_interrupted: str | None = None
        """How to continue after a signal; None: as the run in progress says."""
        self._signal_count = 0
        self.interrupted = False
        """Whether a signal came; without one, a tool cancelled the command."""
        self._last_signal = 0
        # Monotonic time of the first signal that the loop has not noticed yet.
        self._unnoticed_since: float | None = None
        self._break_count = 0  # how often the tool that holds the loop was interrupted
        self._reminder = False
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        self._turn: asyncio.Task[Any] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._timer: threading.Timer | None = None
        self._old_handlers: dict[int, Any] = {}

    def starting(self, run_id: str) -> None:
        """Set the run that the command is about to store or to continue."""
        self._starting_id = run_id

    def running(self, run_id: str) -> None:
        """Set the run that the first signal stops."""
        self._run_id = run_id

    async def find_run(self) -> None:
        """Find out what became of the run that the command was starting when a signal cancelled it."""

        # The store may have the run although the engine has not reported it. Then workers may execute it.
        from ...app.recorded_run import row_after_writes  # few commands are interrupted

        app, run_id = self._app, self._run_id or self._starting_id
        if self._run_id and self._stopping is None:
            return
        if not run_id or not app.context.is_store_open or not self.stored:
            return
        self.if_interrupted = f"to see the run, if it is stored: {self.command('runs show', run_id)}"
        try:
            row = await row_after_writes(app.store, run_id)
            if row is not None and row.undo is not None:
                row = await row_after_writes(app.store, row.undo)
            on_worker = row is not None and await asyncio.to_thread(app.runs.has_worker, row)
        except StoreError:  # the store is away, so nobody can know
            return
        if row is None:
            self.if_interrupted = NOTHING_HAS_RUN
            return
        self._run_id = row.id
        if self._stopping is not None:
            if row.status in ("running", "stopped"):
                return
            self._stopping = None  # the run ended before it was stopped
        if row.status != "running":
            self.if_interrupted = f"run {row.id} is {row.status}; to see it: {self._command('runs show')}"
        elif on_worker:
            self.if_interrupted = ""
            self._explain_workers()
        else:
            self.if_interrupted = f"to continue the run: {self._command('resume')}"

    @property
    def stored(self) -> bool:
        """True if an interrupted run can be resumed."""
        return self._app.store.durable

    @property
    def run_id(self) -> str:
        """The id of the run in progress; "" before there is one."""
        return self._run_id

    async def turn(self, work: Coroutine[Any, Any, _Answer]) -> _Answer:
        """Run a part of the command; signals end this part only."""
        self._run_id, self._signal_count = "", 0
        self._turn = turn = self._loop.create_task(work)
        try:
            return await turn
        except asyncio.CancelledError:
            if self._main is not None and self._main.cancelling():
                raise
            if self._run_id:  # it may not have been in the store when the signal came
                self._app.runs.stop(self._run_id)
            raise RunStopped(self._run_id) from None
        except CompletionFailed as error:
            if not self._signal_count:
                raise
            raise RunStopped(self._run_id) from error
        finally:
            self._run_id, self._signal_count, self._turn = "", 0, None
            self._cancel_stop()  # it would cancel the next turn

    def end(self) -> None:
        """Note that the work of the command has ended, and only its app is to be closed."""
        self._has_ended = True
        self._cancel_stop()

    def _cancel_stop(self) -> None:
        """Cancel the stop of a run that has ended meanwhile."""
        if self._stopping is not None:
            self._stopping.cancel()

    def install(self) -> None:
        """Install the handlers; outside the main thread, do nothing."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._old_handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        for number in _SIGNALS:
            # Without this, a signal that comes just before the loop waits is noticed only after the wait.
            with contextlib.suppress(NotImplementedError):  # on Windows, where the loop wakes up for every signal
                self._loop.add_signal_handler(number, lambda: None)
            signal.signal(number, self._on_signal)

    def remove(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._old_handlers.items():
            with contextlib.suppress(NotImplementedError):
                self._loop.remove_signal_handler(number)
            signal.signal(number, handler)
        self._cancel_reminder()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        """Handle a signal, whatever the main thread executes at the moment."""
        self.interrupted, self._last_signal = True, number
        if self._loop.is_closed():
            raise KeyboardInterrupt
        now, reminder = time.monotonic(), self._reminder
        self._unnoticed_since, self._reminder = now if self._unnoticed_since is None else self._unnoticed_since, False
        is_held = now - self._unnoticed_since >= _HELD_AFTER
        if not is_held and not reminder:
            self._loop.call_soon_threadsafe(self._on_noticed)
        self._cancel_reminder()
        self._timer = threading.Timer(_HELD_AFTER, self._remind, (number,))
        self._timer.daemon = True
        self._timer.start()
        if is_held:
            self._break_off()

    def _break_off(self) -> None:
        self._break_count += 1
        blocker = "a tool" if self._run_id else "a step of the command"  # which imports modules and opens the store
        if self._break_count == 1:
            notify(f"\n{blocker} blocks the process; it is interrupted", logging.WARNING)
            raise asyncio.CancelledError  # an error like any other for the tool that holds the loop
        resume = f"; to continue the run: {self._command('resume')}" if self._run_id and self.stored else ""
        notify(f"{blocker} blocks the process and cannot be interrupted; the process ends{resume}", logging.ERROR)
        os._exit(INTERRUPTED)

    def _remind(self, number: int) -> None:
        """Send the signal again from the timer's thread, because the loop has not noticed it."""
        self._reminder = True
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    def _cancel_reminder(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_noticed(self) -> None:
        self._cancel_reminder()
        self._unnoticed_since, self._break_count = None, 0
        self._signal_count += 1
        if self._has_ended and (run_id := self._run_id or self._starting_id) and self.stored:
            self.if_interrupted = f"to see the run, if it is stored: {self.command('runs show', run_id)}"
        elif self._signal_count == 1 and self._run_id and self._runs_on_worker():
            self._explain_workers()
        elif self._signal_count == 1 and self._last_signal == signal.SIGTERM and self._only_waits():
            notify(f"\nthe run keeps waiting, without this process; once it is answered: {self._command('resume')}")
        elif self._signal_count == 1 and self._run_id:
            notify("\nstopping the run; its tools are being cancelled")
            self._stopping = self._loop.create_task(self._stop())
            return
        self._cancel()

    def _explain_workers(self) -> None:
        notify(f"\nworkers continue the run; to follow it: {self._command('runs watch')}")
        notify(f"stop it with: {self._command('runs stop')}")

    def command(self, name: str, run_id: str) -> str:
        """Return a command for a run."""
        return f"ropewalk {name} {shlex.quote(run_id)}{self._options}"

    def _command(self, name: str) -> str:
        """Return a command for the run in progress."""
        return self.command(name, self._run_id)

    @property
    def next_step(self) -> str:
        """How to continue the run that a second signal has cut off; or that none has started; "" if it is lost."""
        is_stopped = self._stopping is not None and self._run_id and self.stored
        if is_stopped:
            return f"to continue the run: {self._command('runs retry')}"
        if self.if_interrupted is not None:
            return self.if_interrupted
        return NOTHING_HAS_RUN if executes_run() and not self._run_id else ""

    def _cancel(self) -> None:
        """Cancel the turn; or the command, if there is no turn or cancelling it did not help."""
        task = self._turn if self._turn is not None and self._signal_count <= _TURN_SIGNALS else self._main
        if task is not None:
            task.cancel()

    def _runs_on_worker(self) -> bool:
        """Return True if a worker executes the run, and this process only waits for it."""
        from ...app.runs.unattended import is_queued

        if self._run_id in self._app.engine.live:
            return False
        return self._app.distributed or is_queued(self._app.context, self._run_id)

    def _only_waits(self) -> bool:
        """Return True if the run only waits and needs no process for that."""
        live = self._app.engine.live.get(self._run_id)
        return live is not None and live.halted is not None and self.stored

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(_STOP_WITHIN):
                if self._app.runs.stop(self._run_id):
                    await asyncio.sleep(_STOP_WITHIN)  # when the run ends, the loop cancels this task
        except TimeoutError:
            pass
        self._cancel()


_LOOP_STOPPED = "Event loop stopped before Future completed."  # as asyncio says it


def with_app(
    work: Callable[[App, Interrupts], Awaitable[Answer]],
    *,
    near: Path | None = None,
    run: str | None = None,
    project: Path | None = None,
    store: str | None = None,
    engine: Literal["local", "dbos"] | None = None,
    tools: bool = True,
    lenient: bool = False,
    code: bool = True,
) -> Answer:
    """Open the App, run the work of a command on an event loop, and close the App."""
    configure_logging("text")  # unless the command has configured it
    if not lenient:
        warn_without(project)

    async def main() -> Answer:
        if tools and run is not None and project is None:
            app = _open_project_of_run(run, store, engine)
        else:
            app = _open_project(near, project, store, engine, code) if tools else without_tools(project, store)
        interrupts = Interrupts(app, store_options(store, project))
        interrupts.starting(run or "")
        handlers.append(interrupts)
        interrupts.install()
        if app.context.untrusted:
            _warn_of_untrusted(app.context.untrusted)
        async with app:
            if app.context.unchecked:
                notify(f"not checked, because of --no-code: {'; '.join(app.context.unchecked)}")
            if tools and not lenient and code:
                _check_names(app, warn=store != "memory")  # `validate` lists them
            with _telemetry(app), as_source(local_source()), naming_store(app):
                log_events(app)
                try:
                    return await work(app, interrupts)
                except asyncio.CancelledError:
                    await interrupts.find_run()
                    raise
                finally:
                    interrupts.end()

    GIVEN.set((store_options(None if store == "memory" else store, None), store_options(None, project)))
    handlers: list[Interrupts] = []
    logging.getLogger("ropewalk.modules").addFilter(_is_outside_steps)  # lines of steps are shown with their steps
    try:
        with capture(None if executes_run() else _Notices()) if tools else contextlib.nullcontext():
            return asyncio.run(main())
    except KeyboardInterrupt as error:
        # Without handlers, the signal came before the command had begun.
        raise Interrupted(handlers[0].run_id, handlers[0].next_step) if handlers else error from None
    except (asyncio.CancelledError, SystemExit, RuntimeError) as error:
        cause = _explain_loop_end(error, handlers[0]) if handlers else None
        raise cause or error from (None if isinstance(cause, Interrupted) else error.__cause__)
    finally:  # not earlier, because a tool can also block the loop while it closes
        for interrupts in handlers:
            interrupts.remove()


class _Notices:
    """Writes the lines of steps as messages of the command, which are JSON if its log is."""

    def write(self, text: str) -> None:
        """Write lines."""
        for line in text.splitlines():
            notify(line)


def _is_outside_steps(record: logging.LogRecord) -> bool:
    """Return True unless a log record is a line of a step."""
    return not record.__dict__.get("in_step")


def _warn_of_untrusted(names: Sequence[str]) -> None:
    """Log which servers are left out until a person agrees to them, and how to agree."""
    from ..remedies import Door, word_remedy

    remedy = word_remedy(Remedy(Action.TRUST, {}), Door.CLI)
    log.warning(
        "servers of .mcp.json are left out, because nobody has agreed to them: %s; %s", ", ".join(names), remedy
    )


def _open_project(
    near: Path | None, project: Path | None, store: str | None, engine: Literal["local", "dbos"] | None, code: bool
) -> App:
    """Open the App of the project of a definition; its runs are recorded where the command is run."""
    from ...app.app import App

    start = directory(near, project)
    if code and sys.stdin.isatty() and sys.stderr.isatty():
        from .agreement import ask_before_opening

        ask_before_opening(start)
    return App.open(start, store=store, home=_run_directory(project), engine=engine, code=code)


def open_again(near: Path | None, project: Path | None, store: str | None) -> App:
    """Open the App of a project again after a change, as `with_app` opened it."""
    from ...app.app import App

    app = App.open(directory(near, project), store=store, home=_run_directory(project))
    if app.context.untrusted:
        _warn_of_untrusted(app.context.untrusted)
    _check_names(app, warn=False)
    return app


def _check_names(app: App, *, warn: bool) -> None:
    """Raise ConfigError for a rate limit of a tool that does not exist; warn of other settings for such tools."""
    if (config := app.context.config) is None:
        return
    from ...app.project_problems import UNMATCHED, unmatched_tools

    for problem in unmatched_tools(app, config):
        if problem.keyword != UNMATCHED:
            raise ConfigError([problem])
        if warn:
            log.warning("%s", render_problem(problem))


async def warn_of_idle_schedules(app: App) -> None:
    """Warn if no process executes the schedules of the project, and name what does."""
    names = await asyncio.to_thread(app.workers.idle_schedules) if app.settings.schedules else ()
    if names:
        what = f"schedule {names[0]}" if len(names) == 1 else f"schedules {', '.join(names)}"
        notify(f"warning: nothing executes the {what}; {how_to_execute(app)}", logging.WARNING)


def how_to_execute(app: App) -> str:
    """Say what executes queued runs and schedules with the store and the settings of an app."""
    try:
        commands = "`ropewalk serve` or `ropewalk worker`" if app.workers.executes_here else "`ropewalk worker`"
        return f"start {commands}" if app.workers.registry else ""
    except StoreError as error:
        return message_of(error)


def _explain_loop_end(error: BaseException, interrupts: Interrupts) -> BaseException | None:
    """Return why the loop ended before the command did: a signal or a tool; None if neither ended it."""
    run_id = interrupts.run_id
    if isinstance(error, asyncio.CancelledError):
        by_tool = run_id and not interrupts.interrupted
        action = "cancelled the task that called it" if by_tool else None
    elif isinstance(error, SystemExit):
        action = f"raised {describe_exception(error)} in a task of its own, which ends the event loop"
    else:
        action = "stopped the event loop" if str(error) == _LOOP_STOPPED else None
    if action is None:
        return Interrupted(run_id, interrupts.next_step) if isinstance(error, asyncio.CancelledError) else None
    return InterruptedByTool(action, run_id, is_resumable=interrupts.stored)


@contextlib.contextmanager
def _telemetry(app: App) -> Iterator[None]:
    """Export traces and metrics, if the environment configures an exporter."""
    # Most commands need no telemetry, so its module is not imported for them.
    if not any(re.match("OTEL_(EXPORTER_OTLP|TRACES_EXPORTER|METRICS_EXPORTER)", name) for name in os.environ):
        yield
        return
    try:
        from ...telemetry import from_environment

        telemetry = from_environment(app)
    except ModuleNotFoundError as error:
        message = (
            f"traces need more: {install_command('otel')} ({error.name} is missing), or set OTEL_SDK_DISABLED=true"
        )
        raise ConfigError(message) from None
    try:
        yield
    finally:
        if telemetry is not None:
            telemetry.close()


def store_options(store: str | None, project: Path | None) -> str:
    """Return the options that name the same store and project, for a command that is shown; "" if there are none."""
    pairs = (("--store", store), ("-C", str(project) if project is not None else None))
    return "".join(f" {option} {shlex.quote(value)}" for option, value in pairs if value)


def directory(near: Path | None, project: Path | None) -> Path:
    """Return where the search for `ropewalk.toml` starts."""
    if project is not None:
        return _existing_directory(project)
    if near is not None:
        folder = (near if os.path.isdir(near) else near.parent).resolve()  # Path.is_dir raises for a name too long
        if os.access(folder, os.X_OK) and find_config_file(folder) is not None:
            return folder
    return Path.cwd()


def _existing_directory(project: Path) -> Path:
    if not project.is_dir():
        reason = "is a file; name its directory" if project.exists() else "there is no such directory"
        raise ConfigError(f"project directory {project}: {reason}")
    return project


def warn_without(project: Path | None) -> None:
    """Warn if the directory of the command line belongs to no project, so that all settings are defaults."""
    if project is not None and find_config_file(_existing_directory(project)) is None:
        notify(
            f"warning: project directory {project}: no {CONFIG_FILE} in it or a parent directory; using defaults",
            logging.WARNING,
        )


def no_project_note(project: Path | None) -> str | None:
    """Say that there is no project here, and how to make one; None if there is one."""
    if find_config_file(directory(None, project)) is not None:
        return None
    return f"no {CONFIG_FILE} here or in a parent directory; to make a project: ropewalk new DIR"


def _run_directory(project: Path | None) -> Path | None:
    """Return where to record the run: in the working directory, where `runs ls` looks for it."""
    return Path.cwd() if project is None else None


def without_tools(project: Path | None, store: str | None) -> App:
    """Return an App without the project's tools, for commands that only look at a store."""
    from ...app.app import App

    config = read_config(project if project is None else _existing_directory(project))
    if has_scheme_of_others(store or config.store):
        import_tools(config)  # a module of the project may register what opens the store
    existing: Any = _existing_store(store, config)
    app = App(existing, directory=config.directory, sync=config.sync, settings=config.worker_settings)
    app.context.retention = None  # a command that only looks deletes nothing
    return app


def stored_definitions(project: str | None, store: str | None = None) -> list[str] | None:
    """Return the names and ids of the stored definitions of a project; None if its store cannot be read."""
    from ...app.project_problems import stored_names

    try:
        app = without_tools(None if project is None else Path(project), store)
        try:
            return stored_names(app.store)
        finally:
            app.store.close()
    except RopewalkError:  # `doctor` reports it
        return None


def _existing_store(store: str | None, config: Config) -> str | Path | Store | StoreOpener | None:
    """Return the address of the store, or a `MissingStore` if its file does not exist: looking must not create it."""
    address = store or config.store
    file = file_of(address, config.directory)
    if file is None or is_there(file):
        from ...app.open_project import configured_store

        return configured_store(store, config)
    if wal_message := orphan_wal(file):
        raise StoreError(f"{file}: {wal_message}")
    if store is not None:
        raise StoreError(f"--store {store}: there is no such store")
    return MissingStore(file, is_explicit=address is not None)


@contextlib.contextmanager
def naming_store(app: App) -> Iterator[None]:
    """Add to the error for an unknown run where it was searched, and how to name another store."""
    try:
        yield
    except NotFound as error:
        if error.what != "run" or error.why is not None:
            raise
        if isinstance(app.store, MissingStore):
            reason = f"there is no store at {app.store.path}; to name another one, add -C PROJECT or --store URL"
        else:
            address = getattr(app.store, "target", None)  # of Postgres; its name is the address without a password
            searched = address.name if address is not None else getattr(app.store, "path", "this store")
            reason = f"searched {searched}; to search another store, add -C PROJECT or --store URL"
        raise NotFound("run", error.id, suggestion=error.suggestion, why=reason) from None


def facts_with_tools(app: App, run_id: str, project: Path | None) -> list[dict[str, Any]]:
    """Return the facts about the flows of a run that ask for an approval, with what the project's tools say."""
    from ...app.app import App

    folder = project or _folder_of_run(app.store, app.runs.outermost(run_id))
    try:
        return App.open(folder, store=app.store, home=Path.cwd()).runs.facts(run_id)
    except RopewalkError:
        return app.runs.facts(run_id)


def _folder_of_run(store: Store, run_id: str) -> Path:
    """Return the project that a run was started in, or the working directory if that is gone."""
    row = store.get_run(run_id)
    recorded = (row.context or {}).get("project") if row is not None else None
    return Path(recorded) if recorded and Path(recorded).is_dir() else Path.cwd()


def _open_project_of_run(run_id: str, address: str | None, engine: Literal["local", "dbos"] | None) -> App:
    """Open the App of the project that a run was started in, or of the working directory if that is gone."""
    from ...app.app import App

    viewer = without_tools(None, address)
    try:
        folder = _folder_of_run(viewer.store, run_id)
        return App.open(folder, store=viewer.store, home=Path.cwd(), engine=engine)
    except BaseException:
        viewer.store.close()
        raise
