"""The problems of a project: missing files, schedules that cannot run, settings that match nothing, and definitions.

`project_problems` is the one list of them, for every interface. The definitions are checked by the caller, which knows
which of them have changed and how long it may wait for servers.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from ..config.project import PROJECT_FLOWS, flow_files
from ..engine.flow_tool import tool_name
from ..errors import ConfigError, InvalidFlow, Problem, RopewalkError, display_path, message_of
from ..tools.reserved import PREFIXES
from ..tools.tool import strict_patterns
from ..values import did_you_mean
from .flow_list import is_definition

if TYPE_CHECKING:
    from ..check import Checked
    from ..config.settings import Config, Schedule
    from ..journal.protocol import Store
    from .app import App

T = TypeVar("T")
UNMATCHED: Final = "unmatched"
"""The keyword of a problem with a setting for a tool or a definition that does not exist: nothing fails by it."""
_TABLES_OF_NAMES: Final = (("limits", "tools"), ("plans", "effects"), ("undo", "tools"), ("budget", "definitions"))
Names: TypeAlias = Callable[[], Iterable[str] | None]
"""Returns the names and ids of the stored definitions; None if they cannot be read."""


async def project_problems(app: App, definitions: Iterable[Problem] = (), stored: Names | None = None) -> list[Problem]:
    """Return what is wrong in a project, each problem once: in its settings, and in its `definitions`."""
    errors = (await app.workers.broken()).values() if app.settings.schedules else ()
    schedules = [problem for error in errors for problem in problems_of(error)]
    found = [*schedules, *await settings_problems(app, stored), *definitions]
    return list(dict.fromkeys(map(_with_short_path, found)))


async def settings_problems(app: App, stored: Names | None = None) -> list[Problem]:
    """Return the problems with entries of `flows`, and with settings that name nothing."""
    config = app.context.config
    if config is None:
        return []
    names = [] if app.context.unchecked else await asyncio.to_thread(list, _unmatched(app, config, stored))
    return [*missing_files(config), *names]


def project_definitions(app: App, config: Config) -> list[Path]:
    """Return the definitions that a server of the project offers, and those of its schedules."""
    listed = app.jobs.flow_list(config.directory, config.served_flows)
    offered = [file.path for file in listed.look().values() if listed.is_named or is_definition(file)]
    scheduled = [config.directory / schedule.flow for schedule in app.settings.schedules.values()]
    return list(dict.fromkeys([*offered, *scheduled]))


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
    """Return the finished task of a coroutine; None if it takes longer, because servers do not answer."""
    task = asyncio.ensure_future(work)
    if (await asyncio.wait([task], timeout=seconds))[0]:
        return task
    task.add_done_callback(lambda late: late.cancelled() or late.exception())
    return None


async def problems_within(seconds: float, checking: Coroutine[Any, Any, Checked]) -> Sequence[Problem] | None:
    """Return the problems that the check of a definition finds; None if its servers do not answer in time."""
    if (task := await within(seconds, checking)) is None:
        return None
    try:
        return list(map(_with_short_path, task.result().problems))
    except (RopewalkError, OSError) as error:
        return problems_of(error)


def problems_of(error: Exception) -> Sequence[Problem]:
    """Return an error as problems."""
    problems = error.problems if isinstance(error, InvalidFlow | ConfigError) else ()
    return list(map(_with_short_path, problems)) or [Problem(path="", message=message_of(error))]


def schedule_faults(schedules: Mapping[str, Schedule]) -> Mapping[str, ConfigError]:
    """Return what is wrong with the times of schedules, by name."""
    if not schedules:
        return {}
    from ..workers.cron import schedule_faults  # few projects have schedules

    return schedule_faults(schedules)


def missing_files(config: Config) -> Iterator[Problem]:
    """Yield a problem for each entry of `flows` that no file matches, at its line."""
    for section, entries in (("tools", config.flows), ("mcp_server", config.mcp_server.flows)):
        for entry in entries:
            files = (re.sub(r"(\.py):\w+$", r"\1", str(file)) for file in flow_files(config.directory, [entry]))
            if not any(map(os.path.exists, files)):
                others = (
                    str(file.relative_to(config.directory)) for file in flow_files(config.directory, PROJECT_FLOWS)
                )
                near = did_you_mean(entry, others)
                what = "no definition matches" if set(entry) & set("*?[") else "no file"
                message = f"[{section}] flows: {what} {entry!r}" + (f"; did you mean {near!r}?" if near else "")
                yield Problem(path="", message=message, place=config.where((section, "flows", entry)))


def _unmatched(app: App, config: Config, stored: Names | None) -> Iterator[Problem]:
    """Yield a problem for each setting that names a tool or a definition which does not exist, at its line."""

    yield from unmatched_tools(app, config)
    served = config.mcp_server
    named = [(("budget", "definitions", name), name) for name in config.budget.definitions]
    named += [(("mcp_server", "task_only", name), name) for name in served.task_only]
    named += [(("mcp_server", "prompts", name), name) for name in served.prompts]
    if not named:
        return
    known = _names_of_files(app, config)
    unknown = [(keys, name) for keys, name in named if tool_name(name) not in known]
    if unknown and (of_store := () if stored is None else stored()) is not None:
        known |= set(map(tool_name, of_store))
        for keys, name in unknown:
            if tool_name(name) not in known:
                near = did_you_mean(name, known)
                why = f"there is no definition {name!r}" + (f"; did you mean {near}?" if near else "")
                yield _unmatched_name(config, keys, why)


def _names_of_files(app: App, config: Config) -> set[str]:
    """Return the names and ids of the definitions in files, as names of tools."""
    patterns = [*config.tool_flows, *config.served_flows, *(item.flow for item in app.settings.schedules.values())]
    files = app.jobs.flow_list(config.directory, patterns).look()
    names = {file.name for file in files.values() if file.stamp}
    for file in files.values():
        with suppress(RopewalkError, OSError):  # its own problem says why
            loaded = app.load(file.path)
            names |= {tool_name(name) for name in (loaded.name, loaded.compiled.id, loaded.definition_id) if name}
    return names


def stored_names(store: Store) -> list[str]:
    """Return the names and ids of the definitions in a store."""
    return [name for each in store.list_definitions() for name in (each.id, each.name) if name]


def _unmatched_name(config: Config, keys: tuple[str, ...], why: str) -> Problem:
    """Return the problem of a key of a table, or of an entry of a list."""
    *section, name = keys
    is_key = keys[:2] in _TABLES_OF_NAMES
    label = f'[{".".join(section)}."{name}"]' if is_key else f"[{'.'.join(section[:-1])}] {section[-1]}:"
    if keys[:2] == ("limits", "tools"):  # every command refuses it
        return Problem(path="", message=f"{label} {why}", place=config.where((*keys, "per_second")))
    return Problem(path="", message=f"{label} {why}", place=config.where(keys), keyword=UNMATCHED)


def unmatched_tools(app: App, config: Config) -> Iterator[Problem]:
    """Yield a problem for each setting that matches no tool and no server."""
    undos = app.toolbox.undos
    named: list[tuple[tuple[str, ...], str]] = [
        (("limits", "tools", pattern), pattern) for pattern in app.settings.rates
    ]
    named += [(("tools", "strict_output", name), name) for name in strict_patterns(config.strict_output) if name != "*"]
    named += [(("plans", "effects", pattern), pattern) for pattern in config.plans.effects]
    named += [(("n8n", "tools", phase, name), name) for phase, names in config.n8n_tools.items() for name in names]
    named += [(("undo", "tools", name), id) for name in config.undo.tools for id in (name, *_undo_of(undos.get(name)))]
    if not named:
        return
    toolbox = app.toolbox
    ids = {*app.context.definitions.cards.names(), *(tool.id for tool in toolbox.list())}
    spaces = {*PREFIXES, *toolbox.spaces, *(id.partition(":")[0] for id in ids if ":" in id)}
    for keys, pattern in named:
        if (why := _why_unmatched(pattern, ids, spaces)) is not None:
            yield _unmatched_name(config, keys, why)


def _undo_of(undo: Any) -> Iterator[str]:
    if undo is not None:
        yield undo.tool


def _why_unmatched(pattern: str, ids: Iterable[str], spaces: Iterable[str]) -> str | None:
    """Return why a pattern of tool ids matches no tool and no server; None if it matches one."""

    # The tools of servers that are not connected yet may exist.
    space, colon, _ = pattern.partition(":")
    is_named = any(fnmatchcase(item, space) if colon else fnmatchcase(f"{item}:", pattern) for item in spaces)
    if is_named or any(fnmatchcase(id, pattern) for id in ids):
        return None
    if not colon and space in spaces:
        near: str | None = f"{space}:*"
    else:
        near = did_you_mean(space, spaces) if colon else did_you_mean(pattern, ids)
        near = f"{near}:*" if colon and near else near
    hint = f"; did you mean {near}?" if near else ""
    return f"there is no {f'server {space!r}' if colon else f'tool {pattern!r}'}{hint}"


def _with_short_path(problem: Problem) -> Problem:
    """Return a problem with the path of its file as people write it."""
    place = problem.place
    if place is None or not os.path.isabs(place.file):
        return problem
    return replace(problem, place=replace(place, file=display_path(Path(place.file))))
