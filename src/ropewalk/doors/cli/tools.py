"""`tools ls|show|call`: the toolbox, as definitions see it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter

from ...config import read_config
from ...source import visible
from .answer import Answer
from .exits import UsageError
from .given import read_input, read_pairs
from .interrupts import Interrupts
from .options import Input, Json, Project
from .servers import all_connected
from .session import directory, with_app
from .table import columns, first_line

if TYPE_CHECKING:
    from ...app import App


def ls(*, json: Json = False, project: Project = None) -> Answer:
    """List the tools that definitions can use; a server that cannot be reached is named with the reason."""

    async def work(app: App, _: Interrupts) -> Answer:
        await all_connected(app)
        tools = sorted(app.toolbox.list(), key=lambda t: t.id)
        failures = {name: str(why) for name, why in app.toolbox.failures.items()}
        rows = [(t.id, first_line(t.description or "")) for t in tools]
        text = [columns(("TOOL", "DESCRIPTION"), rows) if rows else _none(directory(None, project))]
        text += [visible(f"! {name}: {why}") for name, why in failures.items()]
        return Answer(data={"tools": [t.to_dict() for t in tools], "failures": failures}, text="\n".join(text))

    return with_app(work, project=project, store="memory")


def _none(place: Path) -> str:
    """Why there are no tools, as far as it can be told."""
    modules = read_config(place).modules
    if not modules:
        return "no tools; see [tools] and [mcp.NAME] in ropewalk.toml"
    many = len(modules) > 1
    was = (
        f"modules {', '.join(modules)} were imported and hold"
        if many
        else f"module {modules[0]} was imported and holds"
    )
    return f"no tools: the {was} no function with @tool (from ropewalk import tool)"


def show(tool_id: str, /, *, json: Json = False, project: Project = None) -> Answer:
    """Show one tool: its description and schemas."""

    async def work(app: App, _: Interrupts) -> Answer:
        found = (await app.toolbox.find(tool_id)).to_dict()
        text = visible(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return Answer(data=found, text=text)

    return with_app(work, project=project, store="memory")


def call(
    tool_id: str,
    /,
    *pairs: Annotated[
        str, Parameter(name="NAME=VALUE", help="Arguments; a value that is JSON is that, any other is text.")
    ],
    input: Input = None,
    request: Annotated[str | None, Parameter(help="What it is called for; `tools select` learns from it.")] = None,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Call one tool and print its result. Arguments: NAME=VALUE, or --input '{...}'."""
    given = read_input(input)
    if given is not None and not isinstance(given, dict):
        raise UsageError("--input must be a JSON object: the tool's arguments by name")
    arguments = {**(given or {}), **read_pairs(pairs, "argument")}

    async def work(app: App, _: Interrupts) -> Answer:
        await app.toolbox.find(tool_id)
        value = await app.call_tool(tool_id, arguments, on_progress=None if json else _progress, request=request)
        text = value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
        return Answer(data={"tool": tool_id, "result": value}, text=visible(text))

    return with_app(work, project=project, store="memory" if request is None else None)


def _progress(event: Any) -> None:
    total = f"/{event.total:g}" if event.total is not None else ""
    sys.stderr.write(visible(f"… {event.progress:g}{total}  {event.message or ''}".rstrip()) + "\n")
