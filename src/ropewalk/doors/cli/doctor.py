"""The commands `doctor` and `bench`: what is installed and works, and how fast steps are here.

`doctor` checks the packages, the project, the store, the workers, the servers and the agents, and says how to
fix everything that does not work. It prints each finding as soon as it is known. Each part has a time limit
(`Parts`), so that a part that hangs does not keep the others from being checked. `doctor --runs` also finds
every unfinished run. `bench` measures steps in plain Python, in memory, and on the disk or server of a store.
To add a check, write a function that yields `Finding`s and call it in `_check_app`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextvars import copy_context
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from cyclopts import Parameter, validators

from ...app.open_project import NOT_LOADED
from ...app.project_problems import UNMATCHED, problems_of, project_definitions, project_problems
from ...app.python_file import NOT_IMPORTED
from ...check import UNKNOWN_TOOL
from ...config.models import ModelSettings
from ...config.project import find_config_file, read_config
from ...config.settings import NO_EMBEDDER, Config
from ...errors import (
    Action,
    ConfigError,
    NotFound,
    Problem,
    Remedy,
    RopewalkError,
    display_path,
    install_command,
    relative_paths,
)
from ...fast_dataclass import dataclass
from ...journal.address import DEFAULT, file_of, is_postgres, is_there
from ...journal.sqlite.doctor import Unfinished
from ...journal.sqlite.wal_check import orphan_wal
from ...select.options import missing_libraries
from ...source.document import escape_invisible
from ...tools.mcp.login_errors import Reason
from ..errors import error_message, word_problem
from ..remedies import Door, given_options, word_remedy
from .dispatch import FAILED, Answer
from .options import Json, NoCode, Project, StoreAddress, read_seconds
from .output import columns
from .session import Interrupts, directory, how_to_execute, stored_definitions, with_app
from .streams import write_stdout

if TYPE_CHECKING:
    from ...app.app import App

T = TypeVar("T")

LIMIT: Final = 20.0
"""Seconds for each part of the check."""
SERVERS: Final = 40.0
"""Seconds for connecting all servers, where no limit is given: more than the time that a server has by itself."""


class Stalled(Exception):
    """A part did not answer within its limit."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"no answer within {limit:g} s")


class Parts:
    """Runs the parts of a check one after another, and remembers whether one of them still hangs."""

    def __init__(self, limit: float | None) -> None:
        self.limit, self.servers = limit or LIMIT, limit or SERVERS
        self.is_stalled = False

    async def check(self, work: Callable[[], T]) -> T:
        """Run `work` on a daemon thread, which cannot delay the end of the process, and return its result."""
        loop, result = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def settle(value: T | None, error: BaseException | None) -> None:
            if result.done():
                return
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(value)

        def run() -> None:
            value, raised = None, None
            try:
                value = work()
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                raised = error
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits for the result
                loop.call_soon_threadsafe(settle, value, raised)

        threading.Thread(target=copy_context().run, args=(run,), name="ropewalk-doctor", daemon=True).start()
        value: T = await self.within(result, self.limit)
        return value

    async def within(self, awaited: Awaitable[T], limit: float) -> T:
        """Await something for at most `limit` seconds."""
        # `asyncio.wait_for` would wait for a task that ignores its cancellation.
        task = asyncio.ensure_future(awaited)
        done, _ = await asyncio.wait({task}, timeout=limit)
        if done:
            return task.result()
        task.cancel()
        self.is_stalled = True
        raise Stalled(limit)

    async def close(self, app: App) -> None:
        """Stop the servers that were started, for at most one second."""
        with contextlib.suppress(Exception):
            await self.within(app.toolbox.close(), 1.0)


_PACKAGES = ("ropewalk", "cyclopts", "rich", "orjson", "pyyaml", "jsonschema-rs", "google-re2", "apsw")
_EXTRA_PACKAGES = ("mcp", "httpx2", "psycopg")
_DEFINITIONS = (".yaml", ".yml", ".json")
_RUN_LIMIT = 1000
_MIN_FREE_BYTES = 1 << 20  # bytes of a disk; a run of a few steps takes less
_DAMAGE_LIMIT = 20
_EXAMINE_LIMIT = 5.0
"""Seconds for reading the pages and values of the store, at most."""
_REPAIR_ADVICE = (
    "; next: stop every process that uses the store, copy it and its -wal file to a safe place, write"
    " everything readable to a new store with `ropewalk doctor --save FILE{options}`, and continue with that store or"
    " with a backup"
)
_BACKUP_ADVICE = "; next: restore a backup of your server, or copy everything readable with `ropewalk store copy`"
_NAME_WIDTH = 13  # characters; longer names are not cut
_STATE_MARKS = {"ok": "✓", "note": "-", "fault": "✗"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    # The part that was checked.
    name: str
    # `ok`, `note` (Ropewalk works without it) or `fault`.
    state: str
    # A sentence about it.
    message: str


class Report:
    """The findings of a check, each printed as soon as it is known."""

    def __init__(self, quiet: bool) -> None:
        self.findings: list[Finding] = []
        self._quiet = quiet
        self._shows_progress = not quiet and sys.stderr.isatty()

    def start(self, part: str) -> None:
        """Show on a terminal which part is checked now."""
        if self._shows_progress:
            sys.stderr.write(f"\r… {part}\x1b[K")
            sys.stderr.flush()

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings and print one line for each; lines that a server wrote are indented below it."""
        for finding in findings:
            self.findings.append(finding)
            if self._quiet:
                continue
            self.clear()
            first, *more = escape_invisible(relative_paths(finding.message)).splitlines() or [""]
            line = f"{_STATE_MARKS[finding.state]} {escape_invisible(finding.name).ljust(_NAME_WIDTH)}  {first}"
            write_stdout("\n".join([line.rstrip(), *(f"    {text}" for text in more)]) + "\n")

    def clear(self) -> None:
        """Remove the line that shows the progress."""
        if self._shows_progress:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def answer(self) -> Answer:
        """Return the answer: all findings as data, and a last line; the exit code is 1 if one is a fault."""
        self.clear()
        faults = sum(finding.state == "fault" for finding in self.findings)
        rows = [{"name": item.name, "state": item.state, "message": item.message} for item in self.findings]
        text = f"{faults} {'problem' if faults == 1 else 'problems'} found" if faults else "no problems found"
        return Answer(exit=FAILED if faults else 0, data={"ok": not faults, "findings": rows}, text=text)


def doctor(
    *,
    save: Annotated[
        Path | None, Parameter(help="Write everything readable of a damaged store to this new file.")
    ] = None,
    runs: Annotated[
        bool,
        Parameter(
            negative="",
            help=(
                "Also check every unfinished run, and queue again those that are neither queued, executed nor waiting."
            ),
        ),
    ] = False,
    timeout: Annotated[
        float | None,
        Parameter(
            converter=read_seconds,
            validator=validators.Number(gt=0),
            help="Seconds, or a duration such as 1m, per part of the check."
            f" [default: {LIMIT:g}, and {SERVERS:g} for all servers]",
        ),
    ] = None,
    no_code: NoCode = False,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Check the installation, the project, the store and the servers. The exit code is 1 if something is wrong."""
    report, parts = Report(quiet=json), Parts(timeout)
    report.extend(_check_packages())
    report.extend([_check_node(), _check_project(directory(None, project))])

    async def work(app: App, _: Interrupts) -> Answer:
        await _check_app(app, report, config, store, runs, parts)
        # A part that hangs would also delay the end of the process.
        if parts.is_stalled:
            await parts.close(app)
            if save is not None:
                report.extend(_salvage(directory(None, project), store, save))
            from .dispatch import exit_now

            exit_now(report.answer(), as_json=json)
        return Answer()

    try:
        config = read_config(directory(None, project))
        if no_code:
            from ...app.open_project import without_code

            config, unchecked = without_code(config)
            report.extend(Finding("not checked", "note", part) for part in unchecked)
        with_app(work, project=project, store=store, lenient=True, code=not no_code)
    except RopewalkError as error:
        errors = [ConfigError([item]) for item in error.problems] if isinstance(error, ConfigError) else [error]
        report.extend(Finding("project", "fault", _with_repair_advice(item)) for item in errors)
    if save is not None:
        report.extend(_salvage(directory(None, project), store, save))
    return report.answer()


def _check_packages() -> Iterator[Finding]:
    supported = sys.version_info >= (3, 11)
    yield Finding("python", "ok" if supported else "fault", f"{platform.python_version()} ({sys.executable})")
    versions = {name: _installed_version(name) for name in (*_PACKAGES, *_EXTRA_PACKAGES)}
    missing = [name for name, number in versions.items() if number is None]
    packages = [name for name in missing if name in _PACKAGES]
    message = ", ".join(f"{name} {number}" for name, number in versions.items() if number)
    if packages:
        message += f"; missing: {', '.join(packages)}"
    yield Finding("packages", "fault" if packages else "ok", message)
    if "mcp" in missing:
        yield Finding("mcp", "note", f"not installed; for MCP servers: {install_command('mcp')}")
    if missing_libraries():
        yield Finding("selection", "note", f"strategy legacy_hybrid; for hybrid: {install_command('select')}")
    yield _check_sqlite()


def _installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:  # the finding says so
        return None


def _check_sqlite() -> Finding:
    try:
        import apsw
    except ImportError as error:
        return Finding("sqlite", "fault", f"apsw cannot be imported: {error}; pip install --force-reinstall apsw")
    return Finding("sqlite", "ok", f"{apsw.sqlite_lib_version()} (with apsw)")


def _check_node() -> Finding:
    path = shutil.which("node")
    if path is None:
        return Finding("node", "note", "not found; only JavaScript tools (.mjs, .js) need it: https://nodejs.org")
    try:
        number = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("node", "note", f"{path} does not answer: {error}")
    return Finding("node", "ok", f"{number} ({path})")


def _check_project(where: Path) -> Finding:
    file = find_config_file(where)
    if file is None:
        return Finding(
            "project",
            "note",
            f"no ropewalk.toml in {where.resolve()} or a parent directory; `ropewalk new DIR` creates one",
        )
    return Finding("project", "ok", str(file))


async def _check_app(app: App, report: Report, config: Config, store: str | None, runs: bool, parts: Parts) -> None:
    """Check everything that needs the App, each part for no longer than its limit."""
    address = store or config.store or str(config.directory / DEFAULT)
    missing_store = _check_missing_store(address, config, store)

    async def check(name: str, work: Callable[[], Iterable[Finding]], advice: str) -> bool:
        report.start(name)
        try:
            report.extend(await parts.check(lambda: list(work())))
            return True
        except Stalled as error:
            report.extend([Finding(name, "fault", f"{error}; {advice}")])
            return False

    # The store and what it holds. A store in a file that does not exist is not created.
    read_limit = min(_EXAMINE_LIMIT, parts.limit / 2)
    lock_advice = _lock_advice(address)
    is_there = await check("store", lambda: [missing_store or _check_store(app, address, read_limit)], lock_advice)
    await check("workers", lambda: _check_engine(app, address), lock_advice)
    if runs and missing_store is None and not is_there:
        report.extend([Finding("runs", "note", "not checked, because the store does not answer")])
    elif runs and missing_store is None:
        await check("runs", lambda: (Finding(*finding) for finding in unfinished(app)), lock_advice)

    # The servers, the tools and what the configuration says of them.
    report.start(f"servers (up to {parts.servers:g} s)")
    try:
        await parts.within(app.connect(), parts.servers)
        silence = ""
    except Stalled as error:
        silence = str(error)
    report.extend(_check_tools(app, config, silence))
    await check("selection", lambda: _check_selection(app, config), "[selector] model takes long to load")
    for name, checking in (("schedules", _check_schedules(app)), ("definitions", _check_definitions(app, store))):
        report.start(name)
        try:
            report.extend(await parts.within(checking, parts.limit))
        except Stalled as error:
            report.extend([Finding(name, "fault", f"{error}; {lock_advice}")])

    # The definitions of the project, which may ask a model.
    cause = (
        "a definition may be on a drive that does not answer"
        if is_there
        else "Ropewalk needs the store to look for them"
    )
    await check("agents", lambda: _check_agents(app, config), cause)


def _lock_advice(address: str) -> str:
    """Say what to do about a store that does not answer."""
    if is_postgres(address):
        return "another session may hold a lock, or the server is stopped: look at pg_stat_activity"
    return f"another process may be writing to it: find it with `fuser {file_of(address) or address}`"


def _check_tools(app: App, config: Config, silence: str) -> Iterator[Finding]:
    """Check the project's tools, servers, providers and approved tools."""
    toolbox = app.toolbox
    failures = {**config.failures, **toolbox.failures}
    failures = {name: reason for name, reason in failures.items() if reason != NOT_LOADED}
    counts = Counter(tool.namespace or "" for tool in toolbox.list())
    local = sum(n for name, n in counts.items() if name not in config.servers)
    yield Finding(
        "tools",
        "ok",
        f"{local} from the project's modules and providers; the servers are listed below"
        if config.servers
        else f"{local} in this project",
    )
    for name in config.servers:
        if silence and name not in failures and not toolbox.is_listed(name):
            yield Finding(
                f"server {name}", "fault", f"{silence}; a run waits as long as the connect_timeout of the server says"
            )
        elif name not in failures:
            tools = "tool" if counts[name] == 1 else "tools"
            usable = " may be used" if any(id.startswith(f"{name}:") for id in toolbox.refused) else ""
            yield Finding(f"server {name}", "ok", f"connected, {counts[name]} {tools}{usable}")
    for warning in config.warnings:
        yield Finding("configuration", "note", warning)
    for name, reason in failures.items():
        if ":" in name:  # a tool of a server
            if name in toolbox.refused:
                reason += f"; {word_remedy(Remedy(Action.APPROVE_TOOL, {'tool': name}), Door.CLI)}"
            yield Finding(f"tool {name}", "fault", reason)
        else:
            kind, advice = "server", "check its command, url and environment in ropewalk.toml or .mcp.json"
            if isinstance(reason, Reason) and reason.remedy is not None:
                advice = word_remedy(reason.remedy, Door.CLI)
            if name in config.providers:
                kind, advice = (
                    "provider",
                    f"check [providers.{name}] in ropewalk.toml and the files and addresses in it",
                )
            if name in config.backends:
                kind, advice = "backend", f"check [backends.{name}] in ropewalk.toml and the files and addresses in it"
            is_untrusted = name in (config.untrusted.servers if config.untrusted is not None else ())
            separator = "\n" if "\n" in reason else "; "  # what a server wrote has lines of its own
            yield Finding(f"{kind} {name}", "note" if is_untrusted else "fault", f"{reason}{separator}{advice}")
    yield from _check_pins(app)


def _check_selection(app: App, config: Config) -> Iterator[Finding]:
    """Say which embedding model selects tools, and try it on one."""
    if config.selector_model == NO_EMBEDDER:
        if not missing_libraries():
            yield Finding("selection", "ok", "strategy hybrid, without an embedding model")
        return
    try:
        app.context.selection.new([{"name": "doctor"}])
    except ConfigError as error:
        yield Finding("selection", "fault", str(error))
    else:
        yield Finding("selection", "ok", f"strategy hybrid, with the embedding model {config.selector_model}")


def _check_pins(app: App) -> Iterator[Finding]:
    toolbox = app.toolbox
    known = [] if toolbox.mcp is None else toolbox.mcp.names
    if toolbox.pins is None:
        if known:
            command = f"`ropewalk tools pin --approve{given_options(store=False)}`"
            message = f"no ropewalk.lock, so every tool of a server may be used; {command}"
            yield Finding("pins", "note", f"{message} approves the current tools, and later changes are then refused")
        return
    pins = toolbox.pins
    count = sum(len(pins.names(server)) for server in pins.servers)
    yield Finding("pins", "ok", f"{count} approved in {pins.path}, {len(toolbox.refused)} refused")
    for server in pins.servers:
        if server in known and toolbox.is_listed(server):
            for difference in pins.differences(server, toolbox.definitions(server)):
                if difference.kind == "gone":
                    advice = f"to remove it: ropewalk tools pin {difference.id} --approve{given_options(store=False)}"
                    yield Finding(f"tool {difference.id}", "note", f"approved, and {difference.message}; {advice}")


def _check_engine(app: App, address: str) -> Iterator[Finding]:
    """Check who executes runs: this process or workers; and whether a worker takes each queued run."""
    if not app.distributed:
        yield Finding("engine", "ok", "local: the process that starts a run executes it")
        file = file_of(address)
        if file is not None and is_there(file):  # in a file, runs can be queued
            yield from _check_workers(app)
        elif app.settings.schedules:
            advice = "start `ropewalk serve` or `ropewalk worker`" if file is not None else "use a store in a file"
            yield Finding("workers", "note", _nobody(app, advice))
        return
    dbos_version = _installed_version("dbos")
    if dbos_version is None:
        yield Finding("engine", "fault", f"dbos, but DBOS is not installed: {install_command('distributed')}")
        return
    if not is_postgres(address):
        yield Finding("engine", "fault", f"dbos needs a store in Postgres ([store] url), not {address}")
        return
    yield Finding("engine", "ok", f"dbos {dbos_version}: workers execute runs")
    yield from _check_workers(app)


def _check_workers(app: App) -> Iterator[Finding]:
    """Check whether a process executes queued runs, and serves the queues in which runs wait."""
    try:
        alive, waiting = app.workers.registry.live_workers(), app.workers.registry.count_waiting_runs()
    except (RopewalkError, OSError) as error:  # the store's finding says more
        yield Finding("workers", "fault", str(error))
        return
    total = sum(waiting.values())
    if not (app.distributed or alive or total or app.settings.schedules or app.settings.queues):
        return
    queues = ", ".join(f"{count:,} in {queue}" for queue, count in sorted(waiting.items()))
    idle = [queue for queue in waiting if not any(queue in worker.about["queues"] for worker in alive)]
    from ...workers.queues import describe_other_versions, is_of_this_version

    if not alive:
        yield Finding("workers", "fault" if total else "note", _nobody(app, how_to_execute(app)))
    elif not any(map(is_of_this_version, alive)):
        yield Finding("workers", "fault" if total else "note", f"{len(alive)}, but {describe_other_versions(alive)}")
    else:
        yield Finding("workers", "ok", f"{len(alive)}: " + ", ".join(worker.id for worker in alive))
    if alive and idle:
        yield Finding("queues", "fault", f"queued: {queues}; no worker serves {', '.join(sorted(idle))}")
    else:
        yield Finding("queues", "ok", f"queued: {queues}" if total else "no queued runs")


def _nobody(app: App, advice: str) -> str:
    """Say that no process executes queued runs and schedules, and what does."""
    names = ", ".join(app.settings.schedules)
    schedules = f", so nothing executes the schedules ({names})" if names else ""
    return f"no worker is running{schedules}; {advice}"


def _check_agents(app: App, config: Config) -> Iterator[Finding]:
    """Check what agents need; it is a fault only if the project has agents."""
    has_agents = any(_find_agents(app, config.directory))
    if app.distributed:
        yield Finding("model", "note", "workers call the model; their own doctor checks it")
    for name in () if app.distributed else dict.fromkeys(("", *config.models)):
        missing, label = app.jobs.why_model_unavailable(name), f"model {name}".strip()
        is_set = config.models.get(name, ModelSettings()) != ModelSettings()
        used = has_agents or is_set or bool(config.claude and not name)
        if missing is None and (fallback := app.jobs.why_fallback_unavailable(name)) is not None:
            yield Finding(label, "note", f"configured; {fallback}")
        elif missing is None:
            yield Finding(label, "ok", "configured; it was not asked")
        elif used:
            yield Finding(label, "fault", f"{missing}; agents, chat and n8n build need it")
        else:
            yield Finding(label, "note", f"{missing}; only agents need it")
    from ...n8n.node_tools import INSTALL_HINT, SERVER, command_of

    if SERVER not in config.servers:  # a configured server has a finding of its own
        where = command_of(config.directory)
        message = where or f"not installed; only `ropewalk n8n build` needs it: {INSTALL_HINT}"
        yield Finding(SERVER, "ok" if where else "note", str(message))


def _find_agents(app: App, home: Path) -> Iterator[Path]:
    """Find the definitions that ask a model, in a project's directory and its direct subdirectories."""
    for place in (home, *sorted(path for path in home.glob("[!._]*") if path.is_dir() and path.name != "node_modules")):
        for file in sorted(place.glob("*")):
            if (
                file.suffix not in _DEFINITIONS
                or not os.path.isfile(file)
                or file.stat().st_size > app.limits.file_size
            ):
                continue
            try:
                loaded = app.load(file)
            except RopewalkError:  # another kind of file, or a definition that `validate` reports
                continue
            if app.jobs.model_checks(loaded):
                yield file


async def _check_schedules(app: App) -> list[Finding]:
    if not app.settings.schedules:
        return []
    if app.distributed and _installed_version("dbos") is None:
        return []
    broken_entries = await app.workers.broken()
    findings = []
    for name, schedule in app.settings.schedules.items():
        text, error = f"{schedule.flow} at {schedule.cron} {schedule.timezone}", broken_entries.get(name)
        keywords = {problem.keyword for problem in getattr(error, "problems", ())}
        if error is None:
            findings.append(Finding(f"schedule {name}", "ok", text))
        elif app.context.unchecked and keywords and keywords <= {UNKNOWN_TOOL, NOT_IMPORTED}:
            findings.append(Finding(f"schedule {name}", "note", f"{text}; it was not checked with its code"))
        else:
            findings.append(Finding(f"schedule {name}", "fault", _in_lines(problems_of(error))))
    return findings


async def _check_definitions(app: App, store: str | None) -> list[Finding]:
    """Check the definitions of the project, and the settings that name definitions and tools."""
    config, wrong = app.context.config, list[Problem]()
    files = [] if config is None else project_definitions(app, config)
    for file in files:
        with contextlib.suppress(NotFound):  # the settings that name it are wrong
            wrong += (
                await app.validate(Path(display_path(file)), allow_missing_tools=bool(app.context.unchecked))
            ).problems
    problems = await project_problems(app, wrong, lambda: stored_definitions(app.project, store))
    of_schedules = {each for error in (await app.workers.broken()).values() for each in problems_of(error)}
    findings = [
        Finding("project", "note" if problem.keyword == UNMATCHED else "fault", _in_lines([problem]))
        for problem in problems
        if problem not in of_schedules
    ]
    return findings if problems or not files else [Finding("definitions", "ok", f"{len(files)} in this project")]


def _in_lines(problems: Iterable[Problem]) -> str:
    """Return problems as text, a line each."""
    return "\n".join(str(ConfigError([word_problem(problem, Door.CLI)])) for problem in problems)


def _check_missing_store(address: str, config: Config, option: str | None) -> Finding | None:
    """Report a store in a file that does not exist; opening it would create it."""
    file = file_of(address)
    if file is None or is_there(file):
        return None
    if wal_message := orphan_wal(file):
        return Finding("store", "fault", f"{address}: {wal_message}")
    folder = file.parent if option or config.store or file.parent.exists() else config.directory
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        reason = "" if folder.is_dir() or not folder.exists() else ": it is not a directory"
        return Finding("store", "fault", f"{address} does not exist and cannot be created in {folder}{reason}")
    if disk_message := _disk_full_message(folder):
        return Finding("store", "fault", f"{address} does not exist yet, and {disk_message}")
    return Finding("store", "note", f"{address} does not exist yet; the first run creates it")


def _disk_full_message(place: Path) -> str:
    """Return a message if the disk has no space for a run, else ""."""
    free = shutil.disk_usage(place).free
    if free >= _MIN_FREE_BYTES:
        return ""
    return f"its disk is full: {free // 1024:,} kB are free; runs cannot be recorded until you free some space"


def _check_store(app: App, address: str, limit: float) -> Finding:
    """Check every page and every value of the store, within `limit` seconds."""

    # Opening it already checks that it is a store of this version.
    damage: list[str] = []
    unread = ""
    try:
        runs = len(app.runs.list(limit=_RUN_LIMIT))
        if is_postgres(address):
            from ...journal.postgres.store import examine

            address, damage = examine(address, limit)
        else:
            from ...journal.sqlite.doctor import examine_open

            file = file_of(address)
            damage = examine_open(file, limit) if file is not None else []
    except Unfinished as stopped:
        damage = stopped.damage
        unread = f"; the check stopped after {limit:g} s; it read {stopped.read}"
    except RopewalkError as error:
        return Finding("store", "fault", _with_repair_advice(error))
    if damage:
        rest = f"; and {len(damage) - _DAMAGE_LIMIT:,} more" if len(damage) > _DAMAGE_LIMIT else ""
        advice = _REPAIR_ADVICE.format(options=given_options()) if file_of(address) else _BACKUP_ADVICE
        message = f"{'; '.join(damage[:_DAMAGE_LIMIT])}{rest}"
        return Finding("store", "fault", f"{address} is damaged: {message}{advice}")
    schema = app.store.schema
    version = "" if schema is None else f", version {schema} of its schema"
    message = f"{address}{version}, {runs}{'+' if runs == _RUN_LIMIT else ''} runs{unread}"
    file = file_of(address)
    if file is not None and (disk_message := _disk_full_message(file.parent)):
        return Finding("store", "fault", f"{message}; {disk_message}")
    unwritable = getattr(app.store, "unwritable", "")  # only a store in a file says so
    if unwritable:
        return Finding("store", "note", f"{message}; can only be read: {unwritable}")
    return Finding("store", "note" if unread else "ok", message)


def _with_repair_advice(error: RopewalkError) -> str:
    """Return the text of an error, for a damaged store with the next steps in place of the hint to run `doctor`."""
    if error.remedy is not None and error.remedy.action is Action.EXAMINE_STORE:
        return Exception.__str__(error) + _REPAIR_ADVICE.format(options=given_options())
    return error_message(error, Door.CLI)


def _salvage(project: Path, option: str | None, target: Path) -> Iterator[Finding]:
    """Write everything readable of the store to a new file."""

    # The App must be closed.
    from ...journal.sqlite.doctor import salvage

    try:
        config = read_config(project)
        file = file_of(option or config.store, config.directory)
        if file is None:
            yield Finding(
                "saved",
                "fault",
                "only a store in a file can be saved; use a backup of your server, or `ropewalk store copy`",
            )
            return
        runs, losses = salvage(file, target)
    except RopewalkError as error:
        yield Finding("saved", "fault", str(error))
        return
    message = f"{target}, a valid store with {runs:,} runs; use it with --store {target} or [store] url"
    yield Finding("saved", "ok", message)
    if losses:
        rest = f"; and {len(losses) - _DAMAGE_LIMIT:,} more" if len(losses) > _DAMAGE_LIMIT else ""
        yield Finding("left out", "fault", "; ".join(losses[:_DAMAGE_LIMIT]) + rest)


def bench(
    *,
    steps: Annotated[
        int, Parameter(validator=validators.Number(gte=1, lte=10_000), help="Number of steps in each measured run.")
    ] = 1000,
    rounds: Annotated[
        int,
        Parameter(validator=validators.Number(gte=1, lte=1000), help="Number of measurements; the median is reported."),
    ] = 5,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Measure the time per step: in plain Python, in memory, and on the disk or server of the store.

    The tool returns at once, so the time is that of Ropewalk and its store. The store itself is not changed: the
    measurement uses an empty file next to it, or a schema of its own in Postgres, and deletes it.
    """
    from ...testing import speeds

    config = read_config(project)
    results = asyncio.run(speeds(store or config.store, config.directory, config.sync, steps, rounds))
    rows, data = [], []
    for result in results:
        microseconds = result.seconds * 1e6
        rows.append((result.where, result.case, f"{microseconds:,.1f} us", f"{1 / result.seconds:,.0f}"))
        row = {"where": result.where, "case": result.case, "steps": result.steps}
        data.append({**row, "microsecondsPerStep": round(microseconds, 3)})
    head = ("WHERE", "CASE", "PER STEP", "STEPS/S")
    return Answer(data={"rounds": rounds, "cases": data}, text=columns(head, rows))


_VIOLATION_LIMIT = 20  # violations named


def unfinished(app: App) -> Iterator[tuple[str, str, str]]:
    """Yield findings about unfinished runs: a name, a state (ok, note or fault) and a sentence."""
    try:
        if app.distributed:
            yield from _check_queued_runs(app)
        else:
            yield from _check_local_runs(app)
    except (RopewalkError, OSError) as error:
        yield "runs", "fault", str(error)


def _check_queued_runs(app: App) -> Iterator[tuple[str, str, str]]:
    places = app.workers.places()
    yield "runs", "ok", _counts_text(places.counts)
    if not places.violations:
        return
    repaired = set(app.workers.repair())
    for violation in places.violations[:_VIOLATION_LIMIT]:
        what = "queued again" if violation.id in repaired else "a running worker repairs it within a few seconds"
        yield f"run {violation.id}", "note" if violation.id in repaired else "fault", f"{violation.why}; {what}"
    if len(places.violations) > _VIOLATION_LIMIT:
        yield "runs", "note", f"and {len(places.violations) - _VIOLATION_LIMIT:,} more runs like these"


def _check_local_runs(app: App) -> Iterator[tuple[str, str, str]]:
    """Count unfinished runs: each has an owner, is queued, waits, is parked, or its process is gone."""
    from ...app.runs.liveness import liveness_of

    statuses = ("running", "waiting", "parked")
    rows = {status: app.store.list_runs(status=status, top=True, limit=10_000) for status in statuses}
    running = rows.pop("running")
    states = liveness_of(app.context, running)
    interrupted = [id for id, state in states.items() if state != "queued"]
    queued = len(states) - len(interrupted)
    counts = {"queued": queued} if queued else {}
    counts["executing"] = len(running) - len(states)
    counts |= {status: len(group) for status, group in rows.items()}
    yield "runs", "ok", _counts_text({**counts, "interrupted": len(interrupted)})
    for id in interrupted[:_VIOLATION_LIMIT]:
        yield f"run {id}", "note", f"its process is gone; continue it with: ropewalk resume {id}{given_options()}"


def _counts_text(counts: dict[str, int]) -> str:
    return "unfinished: " + ", ".join(f"{count:,} {place}" for place, count in counts.items())
