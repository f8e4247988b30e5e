"""Reload a changed project: new code and settings become a new version, and wrong files keep their last good one.

`reload` gets the paths that have changed. A changed module or settings file makes a new app, for which every module of
the project is imported again, in a thread, and every new or changed source of tools is connected: MCP servers,
providers and backends. If that fails, the present version stays. Each use of a definition reads its file again, so
here they are only checked: `Definitions.kept` holds the last good version of each wrong one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..config.modules import describe_import_error, fresh_modules, imported_files
from ..errors import Action, ConfigError, InvalidFlow, Problem, RopewalkError, display_path
from ..fast_dataclass import dataclass
from ..tools.directory.paths import MODULES
from .definitions import KeptVersion
from .flow_list import FlowFile, is_definition
from .project_problems import (
    problems_of,
    problems_within,
    project_problems,
    schedule_faults,
    stored_names,
    within,
)
from .python_file import load_from_python, python_place, refuse_program

if TYPE_CHECKING:
    from ..check import Checked
    from ..config.settings import Config
    from .app import App
    from .project_versions import ProjectVersions


NOT_CONNECTED: Final = "not connected"
"""The keyword of a problem of a source of tools of the present version, which does not answer or needs a login."""
_SOURCES: Final = {"mcp": "servers", "providers": "providers", "backends": "backends"}
"""The sections of `ropewalk.toml` with sources of tools, and the field of the configuration that each sets."""
_PATIENCE: Final = 2.0  # seconds for servers to connect: a silent one must not delay the next change
_LEAST_PATIENCE: Final = 0.1  # seconds for each definition after that


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """The result of a reload: the changes, and what is wrong."""

    # Modules, settings files and definitions, as they are used from now on.
    changed: Sequence[str] = ()
    added: Sequence[str] = ()
    removed: Sequence[str] = ()
    # What is wrong in the changed files, or because of them.
    problems: Sequence[Problem] = ()
    # How many problems there are in all.
    remaining: int = 0
    # Whether the store has got other settings, which the running server cannot use.
    needs_restart: bool = False


class Reloader:
    """Keeps one project up to date."""

    # `open_again`: Opens the project as the first version was opened.
    # `files`: Definitions that are served in addition to those of the project.
    # `on_late`: Called with the problems of servers that fail after the reload that has connected them.

    def __init__(
        self,
        versions: ProjectVersions,
        open_again: Callable[[], App],
        files: Sequence[str] = (),
        on_late: Callable[[Reload], None] = lambda _: None,
    ) -> None:
        self._versions, self._open_again, self._files = versions, open_again, tuple(files)
        self._on_late = on_late
        self._connected: Mapping[str, str] = {}  # the sources that were new in the present version, and their sections
        self._store_settings = self._first_store_settings = versions.app.context.store_settings
        self._flows: Mapping[str, FlowFile] = {}
        self._good: dict[str, tuple[FlowFile, Any]] = {}  # by path: the last good version, and its file at that time
        self._code_problems: Sequence[Problem] = ()
        self._flow_problems: dict[str, Sequence[Problem]] = {}
        self._malformed: dict[str, Problem] = {}
        """Python files that cannot be read, by path; some are no modules and no flows yet."""

    @property
    def config(self) -> Config:
        """The configuration in use."""
        config = self._versions.context.config
        assert config is not None  # an opened project has one
        return config

    @property
    def directory(self) -> Path:
        """The directory of the project."""
        return self.config.directory

    def flows(self) -> Iterator[str]:
        """Yield the ids of the definitions that are served."""
        yield from (id for id, file in self._look(self._versions.app).items() if file.stamp)

    async def start(self) -> Reload:
        """Check every definition of the project for the first time."""
        await self._check(sorted(self.directory.glob("*.py")))
        return Reload(problems=self._versions.problems, remaining=len(self._versions.problems))

    async def reload(self, paths: Iterable[Path]) -> Reload:
        """Use what has changed in these files, and report what is wrong."""
        paths = list(map(_real, paths))
        earlier, code = self._flows, self._code_among(paths)
        known, renewed = self._versions.problems, list[Path]()
        if code or self._code_problems:
            renewed = code if await self._renew(code) else []
        elif self._versions.app.engine.live and any(not file.is_unchanged() for file in earlier.values()):
            await self._renew(())  # runs in progress keep the definitions that they call
        await self._check(paths)

        flows = self._flows
        right = {id for id, file in flows.items() if not self._flow_problems[str(file.path)]}
        changed = {
            id for id in right & earlier.keys() if not earlier[id].is_unchanged() or self._holds(flows[id], paths)
        }
        # A flow in Python changes with its file.
        modules = {self._shown(path) for path in renewed}
        return Reload(
            changed=sorted(
                modules | {id for id in changed if not id.startswith(tuple(f"{each}:" for each in modules))}
            ),
            added=sorted(right - earlier.keys()),
            removed=sorted(earlier.keys() - flows.keys()),
            problems=[each for each in self._versions.problems if each not in known or _is_in(each, paths)],
            remaining=len(self._versions.problems),
            needs_restart=self._has_other_store(),
        )

    def _holds(self, file: FlowFile, paths: Iterable[Path]) -> bool:
        """Return True if one of the paths is a module in the directory of a definition."""
        _, good = self._good.get(str(file.path), (None, None))
        root = getattr(good, "root", None)
        return root is not None and any(path.suffix in MODULES and path.is_relative_to(_real(root)) for path in paths)

    def _has_other_store(self) -> bool:
        """Return True once after each change of the store to one that is not in use."""
        before, self._store_settings = self._store_settings, self._versions.context.store_settings
        return self._store_settings not in (before, self._first_store_settings)

    def _code_among(self, paths: Iterable[Path]) -> list[Path]:
        """Return the paths of imported modules, flows in Python and settings files."""
        flows = [place[0] for file in self._flows.values() if (place := python_place(file.path)) is not None]
        files = {os.path.realpath(file) for file in (*self.config.files, *flows)}
        files |= imported_files(self.directory)
        return [path for path in paths if str(path) in files]

    async def _renew(self, changed: Collection[Path]) -> bool:
        """Open a new version of the project, with new modules if code has changed; if that fails, return False."""
        earlier = self._versions.app
        try:
            with fresh_modules(self.directory) if changed or self._code_problems else nullcontext():
                app = await asyncio.to_thread(self._open_changed, changed)  # the loop answers requests meanwhile
                self._check_schedules(app)
                connected = await self._connect_changed(app)
        except (RopewalkError, OSError) as error:
            self._code_problems = problems_of(error)
            return False
        self._code_problems, self._connected = (), connected
        app.definitions.kept.update(earlier.definitions.kept)
        self._versions.replace(app)
        return True

    def _open_changed(self, changed: Iterable[Path]) -> App:
        """Open the project with the present content of changed files."""
        for path in changed:  # Python compares bytecode by seconds, and a file may change twice in one
            if path.suffix == ".py":
                Path(cache_from_source(str(path))).unlink(missing_ok=True)
        file = self.config.file
        if file is not None and not os.path.lexists(file):
            raise ConfigError(f"{display_path(file)}: the file is gone; put it back, or start the server again")
        return self._open_again()

    async def _connect_changed(self, app: App) -> Mapping[str, str]:
        """Connect the sources that are new or changed in a version, and return their sections; raise if one fails."""
        known, failures = self._versions.app.toolbox.failures, app.toolbox.failures
        names = {
            name: section
            for section, field in _SOURCES.items()
            for name, settings in getattr(app.context.config, field).items()
            # The document of a provider may have changed, although its settings have not.
            if getattr(self.config, field).get(name) != settings or (name in failures and name not in known)
        }
        if not names:
            return names
        connecting = asyncio.ensure_future(app.toolbox.connect_for([f"{name}:" for name in names]))
        done, _ = await asyncio.wait([connecting], timeout=_PATIENCE)
        problems = self._source_problems(app, names)
        # Nobody can log in at a server that no version names.
        if fatal := [each for each in problems if each.remedy is None or each.remedy.action is not Action.LOG_IN]:
            await app.close()
            raise ConfigError([replace(each, keyword=None) for each in fatal])
        if not done:
            connecting.add_done_callback(lambda _: self._report_late(app, names, problems))
        return names

    def _report_late(self, app: App, names: Mapping[str, str], known: Sequence[Problem]) -> None:
        """Report the sources of the present version that have failed since it was opened."""
        problems = [each for each in self._source_problems(app, names) if each not in known]
        if problems and app is self._versions.app:
            self._versions.problems = (*self._versions.problems, *problems)
            self._on_late(Reload(problems=problems, remaining=len(self._versions.problems)))

    def _source_problems(self, app: App, names: Mapping[str, str]) -> Sequence[Problem]:
        """Return why sources of a version cannot be used."""
        failures, problems = app.toolbox.failures, []
        for reason in (failures[name] for name in names if name in failures):
            place, remedy = getattr(reason, "place", None), getattr(reason, "remedy", None)
            start = "" if place is None else f"{display_path(place.file)}:{place.line}:{place.column}: "
            problem = Problem(path="", message=reason.removeprefix(start), place=place, remedy=remedy)
            problems.append(replace(problem, keyword=NOT_CONNECTED))
        return problems

    async def _check(self, paths: Iterable[Path]) -> None:
        """Check the changed Python files and all definitions, and publish what is wrong."""
        for path in paths:
            self._check_syntax(path)
        await self._check_flows()
        # The settings that name a missing file have a problem of their own.
        missing = {str(file.path) for file in self._flows.values() if file.stamp is None} - set(self._files)
        flows = [each for path, group in self._flow_problems.items() if path not in missing for each in group]
        app = self._versions.app
        checked = await within(_PATIENCE, project_problems(app, flows, lambda: stored_names(app.store)))
        sources = self._source_problems(app, self._connected)
        others = [*self._code_problems, *sources, *(flows if checked is None else checked.result())]
        lines = {(each.place.file, each.place.line) for each in others if each.place is not None}
        malformed = [
            each
            for each in self._malformed.values()
            if each.place is None or (each.place.file, each.place.line) not in lines
        ]
        self._versions.problems, self._versions.is_checked = tuple(dict.fromkeys([*others, *malformed])), True

    def _check_schedules(self, app: App) -> None:
        """Raise ConfigError for a schedule of a new version that is wrong, unless it was before."""
        faults = schedule_faults(app.settings.schedules)
        known = schedule_faults(self._versions.app.settings.schedules)
        if new := [problem for name in faults.keys() - known.keys() for problem in faults[name].problems]:
            raise ConfigError(new)

    def _check_syntax(self, path: Path) -> None:
        self._malformed.pop(str(path), None)
        if path.suffix != ".py" or not path.is_file():
            return
        try:
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, OSError) as error:
            why, place = describe_import_error(error, self.directory)
            self._malformed[str(path)] = Problem(path="", message=why, place=place)

    async def _check_flows(self) -> None:
        """Check all definitions, and keep the last good version of each that is wrong."""
        app = self._versions.app
        self._flows = self._look(app)
        paths = [str(file.path) for file in self._flows.values()]
        for path in self._good.keys() - set(paths):
            del self._good[path]
            app.definitions.kept.pop(path, None)
        known, self._flow_problems = self._flow_problems, dict.fromkeys(paths, ())
        end = asyncio.get_running_loop().time() + _PATIENCE
        for file in self._flows.values():
            path, place = str(file.path), python_place(file.path)
            good, kept = self._good.get(path), app.definitions.kept.pop(path, None)
            problems = await self._problems_in(app, file, end)
            if problems is None:  # a server is silent; the next change checks again
                problems = known.get(path, ())
                app.definitions.kept.update({} if kept is None else {path: kept})
            elif not problems:
                self._good[path] = file, app.load(file.path) if place is None else load_from_python(*place)
            elif good is not None and file.stamp is not None and not good[0].is_unchanged():
                app.definitions.kept[path] = KeptVersion(file.path, file.stamp, good[1])
            self._flow_problems[path] = problems

    def _look(self, app: App) -> Mapping[str, FlowFile]:
        """Return the definitions that are served, by id, as their files are now."""
        listed = app.jobs.flow_list(self.directory, [*self.config.served_flows, *self._files])
        return {id: file for id, file in listed.look().items() if listed.is_named or is_definition(file)}

    async def _problems_in(self, app: App, file: FlowFile, end: float) -> Sequence[Problem] | None:
        """Return what is wrong with a definition as its file is now; None if its servers do not answer in time."""
        if (place := python_place(file.path)) is not None and (error := await _import_error(*place)) is not None:
            return problems_of(error)
        patience = max(_LEAST_PATIENCE, end - asyncio.get_running_loop().time())

        async def check() -> Checked:
            loaded = await app.definitions.find_async(file.path, connect=True)
            return app.definitions.check(loaded, unknown_tools="problem")

        return await problems_within(patience, check())

    def _shown(self, path: Path) -> str:
        directory = _real(self.directory)
        return str(path.relative_to(directory)) if path.is_relative_to(directory) else str(path)


async def _import_error(file: Path, name: str) -> RopewalkError | OSError | None:
    """Import a flow in Python in a thread; return why that fails, unless a server that is not connected is missing."""
    try:
        refuse_program(file, name)
        await asyncio.to_thread(load_from_python, file, name)
    except (RopewalkError, OSError) as error:
        return None if isinstance(error, InvalidFlow) and (error.unlisted or error.unknown) else error
    return None


def _real(path: Path | str) -> Path:
    return Path(os.path.realpath(path))


def _is_in(problem: Problem, paths: Iterable[Path]) -> bool:
    return problem.place is not None and _real(Path(problem.place.file)) in paths
