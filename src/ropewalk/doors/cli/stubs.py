"""`tools stubs`: the types of the tools of servers, for modules with `from ropewalk.servers import NAME`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from ...plans.read.tools import python_name
from ...source.document import escape_invisible
from ...source.load import replace_file
from ...tools.stubs import servers_stub
from ..errors import failure_text
from ..remedies import Door
from .cached_lists import Fresh, cached_line, prefer_lists
from .dispatch import FAILED, Answer, UsageError
from .options import Json, Project
from .session import Interrupts, directory, with_app
from .tools import all_connected

if TYPE_CHECKING:
    from ...app.app import App
    from ...tools.tool import Tool

FOLDER: Final = "typings"
_PLACE: Final = Path("ropewalk", "servers", "__init__.pyi")
_OWN: Final = frozenset(("ropewalk", "plans"))  # tools that no project configures
_HEAD: Final = '"""The tools of this project, for type checkers. `ropewalk tools stubs` writes this file."""'


def stubs(
    folder: Annotated[
        Path | None, Parameter(name="DIR", help="Directory of stubs. [default: `typings` in the project directory]")
    ] = None,
    /,
    *,
    fresh: Fresh = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Write the types of the tools of MCP servers and providers for type checkers and editors.

    Pyright reads `typings` without configuration; for mypy set `mypy_path = "typings"`. The exit code is 1 if the tools
    of a server are not known.
    """

    async def work(app: App, _: Interrupts) -> Answer:
        prefer_lists(app, fresh)
        await all_connected(app)
        servers = _tools_by_server(app)
        target = (folder or directory(None, project) / FOLDER) / _PLACE
        text = f"{_HEAD}\n\n{servers_stub(servers)}"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, text.encode())
        except OSError as error:
            raise UsageError(f"{target}: cannot be written: {error}") from error
        counts = {name: None if tools is None else len(tools) for name, tools in servers.items()}
        unknown = {name: why for name, why in app.toolbox.failures.items() if counts.get(python_name(name), 0) is None}
        lines = [f"written to {target}: {sum(count or 0 for count in counts.values())} tools of {len(counts)} servers"]
        lines += [escape_invisible(f"! {name}: {failure_text(why, Door.CLI)}") for name, why in unknown.items()]
        data = {"file": str(target), "servers": counts, "failures": unknown}
        return Answer(exit=FAILED if unknown else 0, data=data, text="\n".join([*lines, *cached_line(app)]))

    return with_app(work, project=project, store="memory")


def _tools_by_server(app: App) -> dict[str, dict[str, Tool] | None]:
    """Return the tools of each server and provider by their names in Python, or None if it has not listed them."""
    toolbox = app.toolbox
    found: dict[str, dict[str, Tool] | None] = {}
    for space in sorted(toolbox.spaces - _OWN):
        found[python_name(space)] = {} if toolbox.is_listed(space) else None
    for tool in sorted(toolbox.list(), key=lambda tool: tool.id):
        # Plans import tools that have no namespace from the modules that define them.
        server, dot, name = python_name(tool.id).partition(".")
        if dot and tool.namespace not in _OWN:
            tools = found.get(server)
            found[server] = {**(tools or {}), name: tool}
    return found
