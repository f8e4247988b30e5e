"""The tools of a conversation, however they are named: ids, functions, Tools, a Toolbox, or a request to select.

A tool whose server cannot be reached is left out, and said; a name that nothing has is an error. Refused: the loop's
own tools, and definitions that nothing runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ..dialects.agent_flow import APPROVAL, MODEL
from ..dialects.fields import Report, say
from ..errors import ConfigError, InvalidFlow, InvalidTool, NotFound
from ..frozen import dataclass
from ..select.options import read_options
from ..tools.lent import Lender
from ..tools.tool import Tool, parse_tool_id, tool_from
from ..tools.toolbox import Toolbox
from ..values import closest

OWN = MODEL.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Selected:
    """The tools that fit a request best, found when the conversation begins."""

    query: str
    options: Mapping[str, Any]


def select(query: str, **options: Any) -> Selected:
    """Let the selector find the tools: `tools=select(query, max_results=8)`. Options are those of the selector; without
    a `threshold` the best are taken, however unsure that is, since a model can do without one that it has. InvalidInput
    names everything that is wrong with them."""
    read_options(query, None, options)
    return Selected(query, {"threshold": 0, **{name: value for name, value in options.items() if value is not None}})


class Selector(Protocol):
    """Finds tools for a request: `ropewalk.select.selector.Selector` is one."""

    def select(self, query: str, options: Mapping[str, Any] | None = None, /, **more: Any) -> Any:
        """`{results: [{name, ...}]}`, best first; a name is a tool's id."""
        ...


GivenTools: TypeAlias = "Toolbox | Selected | Iterable[str | Tool | Callable[..., Any]] | None"


async def resolve(
    given: GivenTools, toolbox: Toolbox, selector: Selector | None, *, lenient: bool = False
) -> tuple[list[str], list[str]]:
    """The ids of the tools, those that are functions or Tools being registered, and what is to be said of those that
    cannot be had; with `lenient` also of those that nothing has."""
    if given is None:
        return [], []
    if isinstance(given, Selected):
        chosen = await _selected(given, toolbox, selector)
        return chosen, [] if chosen else [f"no tool fits {given.query!r}"]
    if isinstance(given, Toolbox):
        return await _all_of(given, toolbox)
    if isinstance(given, (str, Mapping)):
        raise TypeError(f"tools are a list of names, functions or Tools, not {type(given).__name__}")
    ids: dict[str, None] = {}
    warnings: list[str] = []
    for one in given:
        if not isinstance(one, str):
            ids[_register(one if isinstance(one, Tool) else tool_from(one), toolbox)] = None
            continue
        try:
            id = await _found(one, toolbox)
        except NotFound as missing:
            if not lenient:
                raise
            warnings.append(f"{one} is left out: {missing}")
            continue
        if id is not None:
            ids[id] = None
        else:
            near = near_tool(one, toolbox.list())
            hint = f"; did you mean {near!r}?" if near else ""
            warnings.append(f"{one} is left out: {_why(one, toolbox)}{hint}")
    return list(ids), warnings


async def _all_of(given: Toolbox, toolbox: Toolbox) -> tuple[list[str], list[str]]:
    """Every tool of a toolbox, its servers connected: it runs them itself, whoever's conversation it is."""
    await given.connect()
    found = [tool for tool in given.list() if tool.namespace != OWN]
    warnings = [f"{name}: {why}" for name, why in given.failures.items()]
    warnings += [f"{tool.id} is left out: nothing runs it" for tool in found if not given.backends(tool.id)]
    ids = [tool.id for tool in found if given.backends(tool.id)]
    for name in ids if given is not toolbox else ():
        _register(given.lend(name), toolbox)
    return ids, warnings


def _register(tool: Tool, toolbox: Toolbox) -> str:
    if tool.handler is None and tool.backend is None and not toolbox.backends(tool.id):
        hint = f"toolbox.lend({tool.id!r}) of the toolbox that runs it, or that toolbox itself"
        raise InvalidTool(f"tool {tool.id!r}: nothing runs it: a definition has no handler; give {hint}")
    known, there = toolbox.get(tool.id), toolbox.local.get(tool.id)
    if known == tool and (there == tool.handler or (tool.handler is None and tool.backend is None)):
        return tool.id
    if known is not None and known != tool and isinstance(there, Lender) and there == tool.handler:
        toolbox.remove(tool.id)  # its server lists it anew
    toolbox.register(tool)
    return tool.id


async def _found(name: str, toolbox: Toolbox) -> str | None:
    """The id of a tool by its id, or by its bare name where only one has it; None where it cannot be reached."""
    if name.partition(":")[0] == OWN and ":" in name:
        raise NotFound("tool", name, why="it is the loop's own")
    if not toolbox.lacks(name):
        return name
    if ":" in name:
        await toolbox.connect_for([name])
        if toolbox.get(name) is not None:
            return name
    else:
        await toolbox.connect()
        same = [tool.id for tool in toolbox.list() if tool.name == name and tool.namespace != OWN]
        if len(same) == 1:
            return same[0]
        if same:
            raise NotFound("tool", name, why=f"several have this name: {', '.join(sorted(same))}")
    if _why(name, toolbox):
        return None
    there = [tool for tool in toolbox.list() if tool.namespace != OWN]
    if not there:
        raise NotFound("tool", name, why="there is no tool here; give the function itself, or app=, which has tools")
    raise NotFound("tool", name, suggestion=near_tool(name, there))


def approved(approve: bool | Collection[str], ids: Sequence[str], given: GivenTools, toolbox: Toolbox) -> list[str]:
    """The ids of the tools that somebody is asked about first, which may be named as the tools are; InvalidFlow lists
    what is none of them. Of tools that are selected, or could not be reached, one may be named that is not there."""
    if isinstance(approve, bool):
        return list(ids) if approve else []
    if isinstance(approve, str):
        raise TypeError(f"approve is True or a list of tools: [{approve!r}]")
    listed = list(approve)
    found: dict[str, None] = {}
    report: Report = []
    around = toolbox.ids() if isinstance(given, Selected) else []
    if given is not None and not isinstance(given, (Selected, Toolbox)):
        around = [one for one in given if isinstance(one, str)]
    failures = given.failures if isinstance(given, Toolbox) else toolbox.failures
    for i, name in enumerate(listed):
        meant = [id for id in ids if name in (id, parse_tool_id(id).name)]
        found |= dict.fromkeys(meant)
        if not meant and name not in around and name.partition(":")[0] not in failures:
            tools = [tool for tool in map(toolbox.get, ids) if tool is not None]
            say(report, f"approve[{i}]", f"{name!r} is none of the tools", near_tool(name, tools))
    if report:
        raise InvalidFlow(report)
    return list(found)


def near_tool(name: str, there: Sequence[Tool]) -> str | None:
    """The id of the tool that is meant by a misspelt id, or by a misspelt name without its server."""
    found = closest(name, (tool.id for tool in there))
    bare = closest(name.rpartition(":")[2], (tool.name for tool in there)) if found is None else None
    return found or next((tool.id for tool in there if tool.name == bare), None)


def _why(name: str, toolbox: Toolbox) -> str:
    """Why a tool is not there, where servers could not be reached that may have it."""
    failures = toolbox.failures
    if ":" in name:
        return str(failures.get(name) or failures.get(name.partition(":")[0]) or "")
    return "; ".join(f"{server}: {why}" for server, why in failures.items())


async def _selected(given: Selected, toolbox: Toolbox, selector: Selector | None) -> list[str]:
    if selector is None:
        raise ConfigError("there is no selector here to find tools with; give an app, or name the tools")
    await toolbox.connect()
    left_out = [*read_options(given.query, None, given.options).exclude_tools, MODEL, APPROVAL]
    options = {name: value for name, value in given.options.items() if name not in ("exclude_tools", "excludeTools")}
    found = selector.select(given.query, excludeTools=left_out, **options)
    return [str(row["name"]) for row in found["results"]]
