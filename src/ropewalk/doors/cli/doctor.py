"""`doctor`: what is installed, whether the configuration, the store and every server work, and
what to do about what does not."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter, validators

from ...config import Config, find, read_config
from ...errors import ConfigError, RopewalkError
from ...errors.given import install
from ...fitting import misplaced
from ...frozen import dataclass
from ...journal.address import DEFAULT, file_of, is_postgres, is_there
from ...journal.blobs import ASK
from ...journal.soundness import Unfinished
from ...journal.walfile import orphan
from ...source import visible
from .answer import Answer
from .doctor_limits import LIMIT, SERVERS, Parts, Stalled
from .exits import FAILED
from .interrupts import Interrupts
from .options import Json, Project, StoreAddress
from .session import directory, with_app

if TYPE_CHECKING:
    from ...app import App

_PACKAGES = ("ropewalk", "cyclopts", "rich", "orjson", "pyyaml", "jsonschema-rs", "google-re2", "apsw")
_EXTRA_PACKAGES = ("mcp", "httpx2", "psycopg")
_DEFINITIONS = (".yaml", ".yml", ".json")
_MOST_RUNS = 1000
_LEAST_FREE = 1 << 20  # bytes of a disk; a run of a few steps takes less
_MOST_DAMAGE = 20
_EXAMINE = 5.0
"""Seconds for reading the pages and values of the store, at most."""
_NEXT = (
    "; what comes next: end what uses the store, copy it with its -wal file to a safe place, have `doctor --save FILE`"
    " write what can be read to a new store, and go on with that or with a backup"
)
_BACKUP = "; what comes next: a backup of your server, or `ropewalk store copy` of what can be read"
_MARK = {"ok": "✓", "note": "-", "fault": "✗"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: `state` is ok, note (works without) or fault."""

    name: str
    state: str
    said: str


def doctor(
    *,
    save: Annotated[
        Path | None, Parameter(help="Write what can be read of a damaged store to this new file, a sound store.")
    ] = None,
    runs: Annotated[
        bool, Parameter(negative="", help="Check also where every unfinished run is, and repair what has no place.")
    ] = False,
    limit: Annotated[
        float | None,
        Parameter(
            validator=validators.Number(gt=0),
            help=f"Seconds for each part of the check. [default: {LIMIT:g}, and {SERVERS:g} for all servers]",
        ),
    ] = None,
    json: Json = False,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Check this installation, the store and every configured server; exit code 1 when something is wrong."""
    found = [*_installed(), _node(), _project(directory(None, project))]
    parts = Parts(limit)

    async def work(app: App, _: Interrupts) -> Answer:
        await _opened(app, found, config, store, runs, parts)
        if parts.is_stalled:
            await parts.close(app)
            if save is not None:
                found.extend(_saved(directory(None, project), store, save))
            from .dispatch import leave

            leave(_answer(found))
        return Answer()

    try:
        config = read_config(directory(None, project))
        with_app(work, project=project, store=store, lenient=True)
    except RopewalkError as error:
        each = [ConfigError([one]) for one in error.problems] if isinstance(error, ConfigError) else [error]
        found += [Finding("project", "fault", _next(str(one))) for one in each]
    if save is not None:
        found += _saved(directory(None, project), store, save)
    return _answer(found)


def _answer(found: list[Finding]) -> Answer:
    faults = [f for f in found if f.state == "fault"]
    wide = max(len(f.name) for f in found)
    lines = [visible(f"{_MARK[f.state]} {f.name.ljust(wide)}  {f.said}") for f in found]
    lines.append("all is well" if not faults else f"{len(faults)} to put right")
    return Answer(
        exit=FAILED if faults else 0,
        data={"ok": not faults, "findings": [{"name": f.name, "state": f.state, "message": f.said} for f in found]},
        text="\n".join(lines),
    )


def _installed() -> Iterator[Finding]:
    good = sys.version_info >= (3, 11)
    yield Finding("python", "ok" if good else "fault", f"{platform.python_version()} ({sys.executable})")
    versions = {name: _version(name) for name in (*_PACKAGES, *_EXTRA_PACKAGES)}
    missing = [name for name, found in versions.items() if found is None]
    needed = [name for name in missing if name in _PACKAGES]
    said = ", ".join(f"{name} {found}" for name, found in versions.items() if found)
    yield Finding("packages", "fault" if needed else "ok", said + (f"; missing: {', '.join(needed)}" if needed else ""))
    if "mcp" in missing:
        yield Finding("mcp", "note", f"not installed; for MCP servers: {install('mcp')}")
    yield _sqlite()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:  # the finding says so
        return None


def _sqlite() -> Finding:
    try:
        import apsw
    except ImportError as error:
        return Finding("sqlite", "fault", f"apsw cannot be imported: {error}; pip install --force-reinstall apsw")
    return Finding("sqlite", "ok", f"{apsw.sqlite_lib_version()} (with apsw)")


def _node() -> Finding:
    path = shutil.which("node")
    if path is None:
        return Finding("node", "note", "not found; only JavaScript tools (.mjs, .js) need it: https://nodejs.org")
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("node", "note", f"{path} does not answer: {error}")
    return Finding("node", "ok", f"{said} ({path})")


def _project(where: Path) -> Finding:
    file = find(where)
    if file is None:
        return Finding(
            "project", "note", f"no ropewalk.toml in {where.resolve()} or above; `ropewalk new DIR` makes one"
        )
    return Finding("project", "ok", str(file))


async def _opened(app: App, found: list[Finding], config: Config, store: str | None, runs: bool, parts: Parts) -> None:
    """Look at everything that needs the App, each part for no longer than its limit."""
    address = store or config.store or str(config.directory / DEFAULT)
    unmade = _unmade(address, config, store)

    async def check(name: str, work: Callable[[], Iterable[Finding]], advice: str) -> bool:
        try:
            found.extend(await parts.check(lambda: list(work())))
            return True
        except Stalled as error:
            found.append(Finding(name, "fault", f"{error}; {advice}"))
            return False

    reading = min(_EXAMINE, parts.limit / 2)
    is_there = await check("store", lambda: [unmade or _store(app, address, reading)], _held(address))
    await check("workers", lambda: _engine(app, address), _held(address))
    if runs and unmade is None and not is_there:
        found.append(Finding("runs", "note", "not looked at, as the store does not answer"))
    elif runs and unmade is None:
        from .doctor_runs import unfinished

        await check("runs", lambda: (Finding(*one) for one in unfinished(app)), _held(address))
    try:
        await parts.within(app.connect(), parts.servers)
        silent = ""
    except Stalled as error:
        silent = str(error)
    found.extend(_tools(app, config, silent))
    found.extend(Finding("limits", "fault", str(wrong)) for wrong in misplaced(app.settings.rates, app.toolbox))
    try:
        found.extend(await parts.within(_schedules(app), parts.limit))
    except Stalled as error:
        found.append(Finding("schedules", "fault", f"{error}; {_held(address)}"))
    drive = "a definition may be on a drive that does not answer"
    await check("agents", lambda: _agents(app, config), drive if is_there else "looking for them needs the store")


def _held(address: str) -> str:
    """What to do about a store that does not answer."""
    if is_postgres(address):
        return "another session may hold a lock, or the server is stopped: look at pg_stat_activity"
    return f"another process may be writing to it: find it with `fuser {file_of(address) or address}`"


def _tools(app: App, config: Config, silent: str) -> Iterator[Finding]:
    """The project's tools, its servers and providers, and what is approved of theirs. `silent` says why connecting was
    given up, "" where it was not."""
    toolbox = app.toolbox
    failures = {**config.broken, **toolbox.failures}
    counts = Counter(tool.namespace or "" for tool in toolbox.list())
    local = sum(n for name, n in counts.items() if name not in config.servers)
    yield Finding("tools", "ok", f"{local} of this project")
    for name in config.servers:
        if silent and name not in failures and not toolbox.told(name):
            yield Finding(f"server {name}", "fault", f"{silent}; its connect_timeout may be longer than that")
        elif name not in failures:
            tools = "tool" if counts[name] == 1 else "tools"
            usable = " may be used" if any(id.startswith(f"{name}:") for id in toolbox.refused) else ""
            yield Finding(f"server {name}", "ok", f"connected, {counts[name]} {tools}{usable}")
    for doubt in config.doubts:
        yield Finding("configuration", "note", doubt)
    for name, why in failures.items():
        if ":" in name:  # a tool of a server; what refuses it says what to do
            yield Finding(f"tool {name}", "fault", why)
        else:
            kind, advice = "server", "check its command, url and environment in ropewalk.toml or .mcp.json"
            if name in config.providers:
                kind, advice = "provider", f"check [providers.{name}] in ropewalk.toml and what it names"
            join = "\n" if "\n" in why else "; "  # what a server wrote has lines of its own
            yield Finding(f"{kind} {name}", "fault", f"{why}{join}{advice}")
    yield from _pins(app)


def _pins(app: App) -> Iterator[Finding]:
    toolbox = app.toolbox
    known = [] if toolbox.mcp is None else toolbox.mcp.names
    if toolbox.pins is None:
        if known:
            said = "there is no ropewalk.lock: tools of servers are taken as they come; ropewalk tools pin --approve"
            yield Finding("pins", "note", f"{said} approves them as they are now")
        return
    pins = toolbox.pins
    count = sum(len(pins.names(server)) for server in pins.servers)
    yield Finding("pins", "ok", f"{count} approved in {pins.path}, {len(toolbox.refused)} refused")
    for server in pins.servers:
        if server in known and toolbox.told(server):
            for one in pins.differences(server, toolbox.mcp.tools(server)):
                if one.kind == "gone":
                    cure = f"ropewalk tools pin {one.id} --approve takes it out"
                    yield Finding(f"tool {one.id}", "note", f"approved, and {one.said}; {cure}")


def _engine(app: App, address: str) -> Iterator[Finding]:
    """Who executes runs: this process, or workers, which of them are there, and what waits for them."""
    if not app.distributed:
        yield Finding("engine", "ok", "local: runs are executed by the process that starts them")
        return
    known = _version("dbos")
    if known is None:
        yield Finding("engine", "fault", f"dbos, but DBOS is not installed: {install('distributed')}")
        return
    if not is_postgres(address):
        yield Finding("engine", "fault", f"dbos needs a store in Postgres ([store] url), not {address}")
        return
    yield Finding("engine", "ok", f"dbos {known}: runs are executed by workers")
    try:
        alive, waiting = app.workers.fleet.alive(), app.workers.fleet.waiting()
    except (RopewalkError, OSError) as error:  # the store's finding says more
        yield Finding("workers", "fault", str(error))
        return
    many = sum(waiting.values())
    said = ", ".join(f"{count:,} in {queue}" for queue, count in sorted(waiting.items()))
    idle = [queue for queue in waiting if not any(queue in worker.about["queues"] for worker in alive)]
    from ...workers.lines import is_of_this_version, of_other_versions

    if not alive:
        yield Finding("workers", "fault" if many else "note", "none is there; start one with: ropewalk worker")
    elif not any(map(is_of_this_version, alive)):
        yield Finding("workers", "fault" if many else "note", f"{len(alive)}, but {of_other_versions(alive)}")
    else:
        yield Finding("workers", "ok", f"{len(alive)}: " + ", ".join(worker.id for worker in alive))
    if alive and idle:
        yield Finding("queues", "fault", f"{said} in line; no worker takes {', '.join(sorted(idle))}")
    else:
        yield Finding("queues", "ok", f"in line: {said}" if many else "nothing is in line")


def _agents(app: App, config: Config) -> Iterator[Finding]:
    """What agents need: a fault where the project has any, and only told where it has none."""
    missing = app.jobs.model_missing()
    used = bool(config.claude) or any(_agents_in(app, config.directory))
    if app.distributed:
        yield Finding("model", "note", "workers ask it: what it needs is looked at where they run")
    elif missing is None:
        yield Finding("model", "ok", "there is a key for the Messages API; whether it is right is not asked")
    elif used:
        yield Finding("model", "fault", f"{missing}; agents, chat and n8n build are refused without")
    else:
        yield Finding("model", "note", f"{missing}; only agents need it")
    from ...n8n.server import HOW, SERVER, command_of

    if SERVER not in config.servers:  # else its own finding says how it is
        where = command_of(config.directory)
        told = where or f"not installed; only `ropewalk n8n build` needs it: {HOW}"
        yield Finding(SERVER, "ok" if where else "note", str(told))


def _agents_in(app: App, home: Path) -> Iterator[Path]:
    """The definitions in a project's directory, and in those right inside of it, that ask a model."""
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
            except RopewalkError:  # some other file, or a definition that `validate` says more of
                continue
            if app.jobs.model_missing in app.jobs.models(loaded):
                yield file


async def _schedules(app: App) -> list[Finding]:
    if not app.settings.schedules:
        return []
    if not app.distributed:
        return [Finding("schedules", "note", 'workers keep them: they need [store] engine = "dbos"')]
    if _version("dbos") is None:
        return []
    broken = await app.workers.broken()
    return [
        Finding(f"schedule {name}", "fault", str(broken[name]))
        if name in broken
        else Finding(f"schedule {name}", "ok", f"{schedule.flow} at {schedule.cron} {schedule.timezone}")
        for name, schedule in app.settings.schedules.items()
    ]


def _unmade(address: str, config: Config, given: str | None) -> Finding | None:
    """A store in a file that is not there: looking at it would make it."""
    file = file_of(address)
    if file is None or is_there(file):
        return None
    if lost := orphan(file):
        return Finding("store", "fault", f"{address}: {lost}")
    place = file.parent if given or config.store or file.parent.exists() else config.directory
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        why = "" if place.is_dir() or not place.exists() else ": that is no directory"
        return Finding("store", "fault", f"{address} is not there, and cannot be made in {place}{why}")
    if full := _full(place):
        return Finding("store", "fault", f"{address} is not there yet, and {full}")
    return Finding("store", "note", f"{address} is not there yet; the first run makes it")


def _full(place: Path) -> str:
    """What is said of a disk that has no room for a run, else ""."""
    free = shutil.disk_usage(place).free
    if free >= _LEAST_FREE:
        return ""
    return f"its disk is full: {free // 1024:,} kB are free; free some space, or runs cannot be recorded"


def _store(app: App, address: str, limit: float) -> Finding:
    """Opening it checks that it is ours and of this version; every page and every value is checked on top."""
    said: list[str] = []
    unread = ""
    try:
        runs = len(app.runs.list(limit=_MOST_RUNS))
        if is_postgres(address):
            from ...journal.postgres import examine

            where, found = examine(address, limit)
            address, said = where, found
        else:
            from ...journal.doctor import examine_open

            file = file_of(address)
            said = examine_open(file, limit) if file is not None else []
    except Unfinished as stopped:
        said = stopped.found
        unread = f"; the check stopped after {limit:g} s; it read {stopped.read}"
    except RopewalkError as error:
        return Finding("store", "fault", _next(str(error)))
    if said:
        more = f"; and {len(said) - _MOST_DAMAGE:,} more" if len(said) > _MOST_DAMAGE else ""
        told = f"{'; '.join(said[:_MOST_DAMAGE])}{more}"
        return Finding("store", "fault", f"{address} is damaged: {told}{_NEXT if file_of(address) else _BACKUP}")
    schema = app.store.schema
    version = "" if schema is None else f", version {schema} of its schema"
    told = f"{address}{version}, {runs}{'+' if runs == _MOST_RUNS else ''} runs{unread}"
    file = file_of(address)
    if file is not None and (full := _full(file.parent)):
        return Finding("store", "fault", f"{told}; {full}")
    unwritable = getattr(app.store, "unwritable", "")  # only a store in a file says so
    return Finding(
        "store",
        "note" if unwritable or unread else "ok",
        f"{told}; can only be read: {unwritable}" if unwritable else told,
    )


def _next(said: str) -> str:
    """What comes next, where others say that this command is to be asked."""
    return said.replace(ASK, _NEXT)


def _saved(where: Path, given: str | None, to: Path) -> Iterator[Finding]:
    """What can be read of the store, written to a new file; the App is closed by now."""
    from ...journal.doctor import salvage

    try:
        config = read_config(where)
        file = file_of(given or config.store, config.directory)
        if file is None:
            yield Finding(
                "saved", "fault", "only a store in a file is saved so; use your server's backup, or store copy"
            )
            return
        runs, bad = salvage(file, to)
    except RopewalkError as error:
        yield Finding("saved", "fault", str(error))
        return
    yield Finding("saved", "ok", f"{to}, a sound store with {runs:,} runs: go on with --store {to}, or [store] url")
    if bad:
        more = f"; and {len(bad) - _MOST_DAMAGE:,} more" if len(bad) > _MOST_DAMAGE else ""
        yield Finding("left out", "fault", "; ".join(bad[:_MOST_DAMAGE]) + more)
