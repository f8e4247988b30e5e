"""The command `validate`: checks definitions, or a whole project, without running them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from ...app.project_problems import UNMATCHED, project_definitions, project_problems
from ...check import UNKNOWN_TOOL, Checked
from ...config.project import CONFIG_FILE, EXPERIENCE_DOCUMENTS, find_config_file, read_config, with_python_flows
from ...errors import InvalidFlow, NotFound, Problem, display_path
from ...notations.registry import NOTATIONS, kind_of_file
from ...source.document import render_problem
from ..errors import validity_payload, word_problem
from ..remedies import Door
from .cached_lists import Fresh, ask_servers, cached_line, cached_lists, prefer_lists
from .dispatch import Answer, UsageError
from .options import Json, NoCode, Project
from .output import notify
from .session import Interrupts, directory, stored_definitions, with_app

if TYPE_CHECKING:
    from ...app.app import App
    from ...app.flow_list import FlowFile

_FOREIGN: Final = frozenset({"node_modules", "site-packages", "venv"})
"""Folders with files of other people."""
_MOST_LISTED: Final = 10
"""Files that a message lists."""


@dataclass
class _Findings:
    """The problems and warnings of several definitions."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    checked: list[tuple[str, int]] = field(default_factory=list)
    """The name of each definition and the number of its unknown tools."""


def validate(
    *sources: Annotated[
        Path,
        Parameter(
            name="SOURCE",
            help="Definitions: YAML or JSON files, FILE.py:NAME, FILE.py for all plans in it, or directories with an"
            " experience.yaml. (default: ropewalk.toml and every definition of the project)",
        ),
    ],
    strict: Annotated[bool, Parameter(negative=(), help="Treat warnings as problems.")] = False,
    allow_missing_tools: Annotated[
        bool, Parameter(negative=(), help="Report unknown tools as warnings, which do not change the exit code.")
    ] = False,
    fresh: Fresh = False,
    no_code: NoCode = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Check definitions and show every problem with its place. No tool is called.

    Without SOURCE, it checks ropewalk.toml and every definition that `ropewalk serve` offers. The exit code is 3 if
    anything is wrong, or if a tool is unknown.
    """
    findings = _Findings()

    async def work(app: App, _: Interrupts, *, named: list[Path]) -> Answer:
        prefer_lists(app, fresh)
        await _check_project(app, named, findings, allow_missing_tools or no_code)
        return Answer()

    for near, group in _group_by_project(with_python_flows(sources), project):
        with_app(
            partial(work, named=group),
            near=near,
            project=project,
            store="memory",
            code=not no_code,
        )
    # Flows that share a function report its problems, too. With --strict, warnings count as problems.
    findings.problems, findings.warnings = (
        list(dict.fromkeys(findings.problems)),
        list(dict.fromkeys(findings.warnings)),
    )
    if findings.problems or (strict and findings.warnings):
        error = InvalidFlow([*findings.problems, *(findings.warnings if strict else ())])
        error.warnings = () if strict else tuple(findings.warnings)
        raise error
    text = [f"warning: {render_problem(word_problem(w, Door.CLI))}" for w in findings.warnings]
    text += [f"{name}: valid{_note(missing, no_code)}" for name, missing in findings.checked]
    return Answer(data=validity_payload((), findings.warnings, Door.CLI), text="\n".join(text))


def _require_document(source: Path) -> None:
    """Raise UsageError for a directory without an experience, and say what to check instead."""
    if os.path.isdir(source) and not any(os.path.exists(source / name) for name in EXPERIENCE_DOCUMENTS):
        advice = f"name its files, such as {quote(str(source))}/*.yaml, or check the project: ropewalk validate"
        raise UsageError(f"no {EXPERIENCE_DOCUMENTS[0]} in the directory {str(source)!r}; {advice}")


def _note(missing: int, no_code: bool) -> str:
    """Say what limits the validity of a definition: it is valid without its tools, but it cannot run."""
    tools = f"{missing} unknown {'tool' if missing == 1 else 'tools'}" if missing else ""
    if no_code:
        return f" as far as it was checked{tools and ': '}{tools}"
    return f", but cannot run: {tools}" if tools else ""


def _group_by_project(sources: Sequence[Path], project: Path | None) -> list[tuple[Path | None, list[Path]]]:
    """Group definitions by their projects, each of which is opened once; each group has a path in its project."""
    if not sources:
        return [(None, [])]
    groups: dict[Path, list[Path]] = {}
    for source in sources:
        start = directory(source, project)
        file = find_config_file(start)
        groups.setdefault(start if file is None else file.parent, []).append(source)
    return [(group[0], group) for group in groups.values()]


def _list_definitions(app: App) -> list[Path]:
    """Return the definitions of a project, as people write their paths."""
    config = read_config(app.project or Path.cwd())
    files = [Path(display_path(file)) for file in project_definitions(app, config)]
    if not files and config.file is None:
        advice = "name the definitions to check, or create a project: ropewalk new DIR"
        raise UsageError(f"there is no definition and no {CONFIG_FILE} here; {advice}")
    return files


async def _check_project(app: App, named: list[Path], findings: _Findings, allow_missing_tools: bool) -> None:
    """Check the definitions that were named, or all of a project, and its settings."""
    # A project was checked as far as its settings go when it was opened.
    files = [source for source in named if source.name != CONFIG_FILE] if named else _list_definitions(app)
    for source in files:
        try:
            await _check_definition(app, source, findings, allow_missing_tools)
        except NotFound:
            if named:
                raise
            # Settings name it: the check of these reports it.
    if not named and (unchecked := _unchecked(app, files)):
        notify(unchecked)
    await _check_settings(app, files, findings, is_whole=not named)
    if len(files) < len(named) or (not named and app.project is not None):
        findings.checked.append((display_path(Path(app.project or ".") / CONFIG_FILE), 0))
    if findings.problems or app.toolbox.failures:
        for line in cached_line(app):
            notify(line)


async def _check_definition(app: App, source: Path, findings: _Findings, allow_missing_tools: bool) -> None:
    _require_document(source)
    checked = await app.validate(source, allow_missing_tools=allow_missing_tools)
    if _may_be_outdated(checked, cached_lists(app)) and ask_servers(app):
        checked = await app.validate(source, allow_missing_tools=allow_missing_tools)
    findings.problems += _with_file(checked.problems, source)
    findings.warnings += _with_file(checked.warnings, source)
    findings.checked.append((str(source), sum(item.keyword == UNKNOWN_TOOL for item in checked.warnings)))


async def _check_settings(app: App, files: Iterable[Path], findings: _Findings, *, is_whole: bool) -> None:
    """Report the problems of ropewalk.toml: as warnings if only definitions are checked, unless they are theirs."""
    config = app.context.config
    if config is None or config.file is None:
        return
    checked = {file.resolve() for file in files}
    scheduled = {
        name
        for name, each in config.worker_settings.schedules.items()
        if (config.directory / each.flow).resolve() in checked
    }
    for problem in await project_problems(app, stored=partial(stored_definitions, app.project)):
        if problem.place is None or not _is_at(problem.place.file, config.file):
            continue  # of a definition: found when it is checked
        is_theirs = problem.message.startswith(tuple(f"[schedules.{name}]" for name in scheduled))
        is_problem = problem.keyword != UNMATCHED and (is_whole or is_theirs)
        (findings.problems if is_problem else findings.warnings).append(problem)


def _is_at(file: str, other: Path) -> bool:
    return os.path.realpath(file) == str(other)


def _unchecked(app: App, files: Iterable[Path]) -> str:
    """Name the definitions in the directories of a project that are not served, so that nobody takes them for valid."""
    from ...app.flow_list import read_flow_file

    config = read_config(app.project or Path.cwd())
    if config.file is None:
        return ""  # the working directory may hold anything
    checked = {file.resolve() for file in files}
    found = []
    for folder, folders, names in os.walk(config.directory):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _FOREIGN)
        if Path(folder) in checked or (Path(folder) != config.directory and CONFIG_FILE in names):
            folders.clear()  # an experience that was checked, or another project
            continue
        paths = (Path(folder, name) for name in sorted(names) if name.endswith((".yaml", ".yml")))
        found += [path for path in paths if path.resolve() not in checked and _is_flow(read_flow_file(path))]
    if not found:
        return ""
    listed = ", ".join(display_path(path) for path in found[:_MOST_LISTED])
    more = f" and {len(found) - _MOST_LISTED:,} more" if len(found) > _MOST_LISTED else ""
    section = "mcp_server" if config.mcp_server.flows else "tools"
    return f"not checked: {listed}{more} (not in [{section}] flows)"


def _is_flow(file: FlowFile) -> bool:
    return file.is_flow and (file.kind in NOTATIONS or kind_of_file(str(file.path)) is not None)


def _may_be_outdated(checked: Checked, servers: Iterable[str]) -> bool:
    """Return True if a finding may come from a cached list: a tool is unknown, or the message names the server."""
    return any(
        problem.keyword == UNKNOWN_TOOL or re.search(rf"\b{re.escape(server)}\b", problem.message)
        for problem in (*checked.problems, *checked.warnings)
        for server in servers
    )


def _with_file(problems: Iterable[Problem], source: Path) -> list[Problem]:
    """Return problems of one of several definitions, each with the name of its file."""
    return [
        problem
        if problem.place is not None or str(source) in problem.message
        else replace(problem, path=": ".join(filter(None, (str(source), problem.path))))
        for problem in problems
    ]
