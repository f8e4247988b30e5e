"""Which tools the names in a plan mean: `git.git_log` is the tool `git:git_log` of the toolbox."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...check import UNKNOWN_TOOL
from ...errors import InvalidFlow, Problem
from ...plans.read.tools import python_name
from ...tools.annotations import effect_of
from ...tools.tool import Tool
from ...tools.toolbox import Toolbox
from ...values import Json, did_you_mean
from .read import is_readable

if TYPE_CHECKING:
    from ..project import Project
    from .readers import PlanReader


def with_tools(
    document: Mapping[str, Any], toolbox: Toolbox, reader: PlanReader, effects: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """Return a plan with the tools that its names mean."""

    # A document that names its tools already is returned unchanged.
    code = document.get("code")
    if "tools" in document or not isinstance(code, str):
        return document
    # The tools of agents are no tools of programs.
    names = {
        python_name(id): tool
        for tool in toolbox.list()
        if tool.namespace != "ropewalk"
        for id in (*tool.aliases, tool.id)
    }
    tools = {name: entry_of(names[name], effects) for name in sorted(reader.names(code)) if name in names}
    return {**document, "tools": tools}


@contextmanager
def reading_plan(document: Mapping[str, Any], project: Project, reader: PlanReader) -> Iterator[None]:
    """Complete the InvalidFlow of the block: with suggestions of tools, and with what its types cannot be."""
    try:
        yield
    except InvalidFlow as error:
        toolbox, code = project.toolbox, str(document.get("code"))
        names = [python_name(id) for id in project.names() if not id.startswith("ropewalk:")]
        unlisted = [id for id in servers_in(reader.names(code), toolbox) if not toolbox.is_listed(_space(id))]
        problems = [_with_tools_named(problem, code, project, names) for problem in error.problems]
        if is_readable([problem for problem in problems if problem.path.partition(":")[0] != "code"]):
            problems, _ = with_types(document, project, reader, problems, [])
        complete = InvalidFlow(problems)
        complete.unlisted = tuple(unlisted)
        found = (re.search(_UNKNOWN, problem.message) for problem in error.problems)
        complete.unknown = tuple({match["name"] for match in found if match and "." not in match["name"]})
        raise complete from None


def _with_tools_named(problem: Problem, code: str, project: Project, names: Sequence[str]) -> Problem:
    """Complete a problem about an unknown name: with the nearest tool, or with what is known of its server."""
    unknown = re.search(_UNKNOWN, problem.message)
    if unknown is None:
        return problem
    name = unknown["name"]
    # What a program awaits is a tool.
    if re.search(r"\bawait\s+$", code[: (problem.column or 1) - 1]):
        problem = replace(problem, keyword=UNKNOWN_TOOL)
    toolbox, spaces = project.toolbox, _spaces_by_name(project.toolbox)
    # A tool of Python may have a namespace of its own, which is no source.
    heads = {*spaces, *(each.partition(".")[0] for each in names if "." in each)}
    if name not in heads and unknown["server"]:
        near = did_you_mean(name, sorted(heads))
        known = "" if near else f"; the servers are: {', '.join(sorted(heads)) or 'none'}"
        return replace(problem, message=problem.message + known, suggestion=near)
    if name not in heads:
        if (why := project.why(name)) is not None:
            return replace(problem, message=f"{problem.message}; {why}", suggestion=None)
        # The compiler knows the names of the program and the language; the tools may be nearer.
        known_names = names if problem.suggestion is None else [*names, problem.suggestion]
        if name in known_names:  # a flow that has not been read yet
            return replace(problem, suggestion=None)
        near = did_you_mean(name, known_names)
        return replace(problem, suggestion=near) if near else problem
    server = spaces.get(name)
    called = re.match(r"\w+\.\w+", code[(problem.column or 1) - 1 :])
    if server is not None and not toolbox.is_listed(server):
        why = toolbox.failures.get(server, "it is not connected yet")
        text, near = f"the tools of server {server!r} are not known: {why}", None
    elif called is None:
        text, near = f"{name} is a server; call one of its tools: {name}.NAME()", None
    else:
        text, near = f"there is no tool {called[0]!r}", did_you_mean(called[0], names)
    message = problem.message.replace(" is not defined", "").replace(unknown[0], text)
    return replace(problem, message=message, suggestion=near)


def _spaces_by_name(toolbox: Toolbox) -> dict[str, str]:
    """Return the servers and other sources by their names in programs."""
    return {re.sub(r"\W", "_", space): space for space in toolbox.spaces}


def with_types(
    document: Mapping[str, Any],
    project: Project,
    reader: PlanReader,
    problems: Sequence[Problem],
    warnings: Sequence[Problem],
) -> tuple[list[Problem], list[Problem]]:
    """Add what the types of a plan show to its problems and warnings, in the order of the text."""

    # The check of the graph sees some of the same mistakes, without their columns; those are left out.
    wrong, doubtful, _ = reader.types(document, project)
    if not wrong and not doubtful:
        return list(problems), list(warnings)
    code = str(document["code"])
    lines = {_line_of(problem, code) for problem in (*wrong, *doubtful)}
    rest = [problem for problem in problems if problem.path == "code" or _line_of(problem, code) not in lines]
    columns = {problem.column for problem in rest}
    rest += [problem for problem in wrong if problem.column not in columns]
    rest.sort(key=lambda problem: (_line_of(problem, code), problem.column or 0))
    return rest, [*(one for one in warnings if _line_of(one, code) not in lines), *doubtful]


def _line_of(problem: Problem, code: str) -> int:
    """Return the line of a problem of a program: that of its column, or of the node in its path (`code:3`)."""
    if problem.path == "code" and problem.column is not None:
        return code.count("\n", 0, problem.column - 1) + 1
    line = re.match(r"code:(\d+)", problem.path)
    return int(line[1]) if line else 0


_UNKNOWN = r"(?:name|there is no (?:tool|(?P<server>server))) '(?P<name>[\w.:-]+)'"


def entry_of(tool: Tool, effects: Mapping[str, str] | None = None) -> dict[str, Json]:
    """Return what a plan has to know of a tool."""
    schema: Any = tool.input_schema or {}
    entry: dict[str, Json] = {"id": tool.id, "parameters": list(schema.get("properties") or {})}
    if schema.get("required"):
        entry["required"] = list(schema["required"])
    if effect_of(tool, effects) == "read":
        entry["reads"] = True
    # A schema that lists no properties says that there are none; one without `properties` says nothing.
    if schema.get("properties") == {} and not schema.get("additionalProperties"):
        entry["closed"] = True
    return entry


def _space(tool_id: str) -> str:
    return tool_id.partition(":")[0]


def servers_in(names: Iterable[str], toolbox: Toolbox) -> list[str]:
    """Return the ids of tools that the names in a program may mean on servers that are not connected yet."""
    spaces, servers = _spaces_by_name(toolbox), []
    for name in sorted(names):
        space, dot, member = name.partition(".")
        if dot and space in spaces:
            servers.append(f"{spaces[space]}:{member}")
    return servers
