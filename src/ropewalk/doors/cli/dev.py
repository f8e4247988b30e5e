"""The command `dev`: serve a project, and use its changed files in the next run.

`app/reload.py` decides what a changed file means; here are the watching of files and the words for people.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shlex
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...app.project_versions import ProjectVersions
from ...app.reload import NOT_CONNECTED, Reload, Reloader
from ...errors import ConfigError, describe_exception, install_command
from ...source.document import render_problem
from ..errors import failure_text, word_problem
from ..remedies import Door
from .dispatch import Answer
from .options import AllowHost, Host, Log, LogLevel, Port, Project, RootPath, StoreAddress
from .output import configure_logging, notify
from .serve import Listen, serve_project
from .session import open_again
from .streams import write_stdout

if TYPE_CHECKING:
    from ...app.app import App

_SUFFIXES: Final = (".py", ".yaml", ".yml", ".json", ".toml", ".lock", ".js", ".mjs", ".cjs")
_IGNORED: Final = (".ropewalk", "venv", "site-packages", ".ruff_cache")
_MAX_NAMED: Final = 12  # definitions or tools in a line


def dev(
    *files: Path,
    host: Host = "127.0.0.1",
    port: Port = 8321,
    allow_host: AllowHost = (),
    root_path: RootPath = "",
    log: Log = "text",
    log_level: LogLevel = None,
    store: StoreAddress = None,
    project: Project = None,
) -> Answer:
    """Serve the HTTP API and the web UI, and reload the project when a file of it changes.

    The next run uses a changed tool module, definition or ropewalk.toml. Runs in progress keep theirs. While a changed
    file is wrong, its last good version is used. Every request needs a token, as with `ropewalk serve`.
    """
    if find_spec("watchfiles") is None:
        raise ConfigError(f"`ropewalk dev` needs the package watchfiles: {install_command('serve')}")
    named = [str(file.resolve()) for file in files]
    near = files[0] if files else None

    @contextlib.asynccontextmanager
    async def reloading(versions: ProjectVersions, address: str, token: str) -> AsyncIterator[None]:
        reloader = Reloader(versions, lambda: open_again(near, project, store), named, report)
        write_stdout("\n".join(_banner(versions.app, list(reloader.flows()), address, token)) + "\n")
        folders = {reloader.directory, *(Path(file).parent for file in named)}
        task = asyncio.create_task(_reload_on_change(reloader, folders))
        task.add_done_callback(_report_end)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    configure_logging(log, log_level)
    return serve_project("dev", files, Listen(host, port, allow_host, root_path), reloading, project, store)


async def _reload_on_change(reloader: Reloader, folders: set[Path]) -> None:
    """Check the project, then reload it for every change of its files."""
    from watchfiles import awatch

    def is_relevant(_: Any, path: str) -> bool:
        return matters(path, folders, reloader.config.files)

    changes = awatch(*folders, watch_filter=is_relevant, ignore_permission_denied=True)
    watching: asyncio.Future[Any] = asyncio.ensure_future(anext(changes))  # before the check, so that it misses nothing
    try:
        report(await reloader.start())
        while True:
            paths = [Path(path) for _, path in await watching]
            watching = asyncio.ensure_future(anext(changes))
            try:
                report(await reloader.reload(paths), "runs use the last good version of these files, if there is one")
            except Exception as error:  # noqa: BLE001 - one failure must not end the reloading
                notify(f"reloading failed: {describe_exception(error)}", logging.ERROR)
    finally:
        watching.cancel()
        await asyncio.wait([watching])


def matters(path: str, folders: Iterable[Path], settings: Collection[Path]) -> bool:
    """Return True for a file in one of the folders that a project can consist of, and for a settings file."""
    from watchfiles import Change, DefaultFilter

    if Path(path) in settings:
        return True
    # Only the names below the folder count: the project itself may be in a folder with any name.
    folder = next((each for each in map(str, folders) if path.startswith(each)), "")
    is_ignored = not DefaultFilter(ignore_dirs=[*DefaultFilter.ignore_dirs, *_IGNORED])(
        Change.modified, path[len(folder) :]
    )
    return path.endswith(_SUFFIXES) and not is_ignored


def _report_end(task: asyncio.Task[None]) -> None:
    """Say that changes are no longer noticed, if the watching has failed."""
    if not task.cancelled() and (error := task.exception()) is not None:
        notify(f"changed files are no longer reloaded: {describe_exception(error)}", logging.ERROR)


def report(reload: Reload, consequence: str = "") -> None:
    """Say what has changed, and what is wrong."""
    for what, names in (("reloaded", reload.changed), ("added", reload.added), ("removed", reload.removed)):
        if names:
            notify(f"{what} {', '.join(names)}")
    for problem in reload.problems:
        notify(render_problem(word_problem(problem, Door.CLI)), logging.WARNING)
    if consequence and any(problem.keyword != NOT_CONNECTED for problem in reload.problems):
        notify(consequence, logging.WARNING)
    elif consequence and not reload.problems and reload.remaining:
        notify(
            f"{reload.remaining} earlier problem{'' if reload.remaining == 1 else 's'} of other files", logging.WARNING
        )
    if reload.needs_restart:
        notify("[store] has changed; start `ropewalk dev` again to use it", logging.WARNING)


def _banner(app: App, flows: Sequence[str], address: str, token: str) -> Iterator[str]:
    """Yield the lines that say what is served, and where."""
    yield f"{address}/?token={token}"
    yield ""
    yield f"Project      {app.project}; a changed file is used by the next run"
    yield f"HTTP API     {address}/api, with the header Authorization: Bearer {token}"
    yield f"MCP          ropewalk mcp -C {shlex.quote(app.project or '.')}"
    yield f"Definitions  {_listed(flows) or 'none'}"
    tools = dict(_tools_by_source(app))
    yield f"Tools        {'; '.join(f'{source}: {names}' for source, names in tools.items()) or 'none'}"
    for name, schedule in app.settings.schedules.items():
        yield f"Schedule     {name}: {schedule.cron} {schedule.flow}"


def _tools_by_source(app: App) -> Iterator[tuple[str, str]]:
    """Yield each module, server and provider of the project with its tools, as far as they are known."""
    groups: dict[str, list[str]] = {}
    for tool in app.toolbox.list():
        handler = getattr(tool, "handler", None)
        source = tool.id.partition(":")[0] if ":" in tool.id else getattr(handler, "__module__", None) or "project"
        groups.setdefault(source, []).append(tool.id)
    for source, ids in groups.items():
        yield source, _listed(sorted(ids))
    # The command connects these while it serves, and reports those that fail.
    config = app.context.config
    for names, kind in () if config is None else ((config.servers, "MCP server"), (config.providers, "provider")):
        for name in names:
            if name not in groups and name not in app.toolbox.failures:
                yield name, f"{kind}, connecting"
    for name in app.toolbox.failures.keys() - groups.keys():
        yield name, f"cannot be used: {failure_text(app.toolbox.failures[name], Door.CLI)}"


def _listed(names: Sequence[str]) -> str:
    """Return names in one line; the number of those that do not fit."""
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
