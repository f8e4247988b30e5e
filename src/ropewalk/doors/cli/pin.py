"""`tools pin`: what MCP servers and OpenAPI documents say about tools, held against what was approved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ...errors import NotFound
from ...source import visible
from ...values import closest
from .answer import Answer
from .exits import FAILED, UsageError
from .interrupts import Interrupts
from .options import Json, Project
from .session import with_app

if TYPE_CHECKING:
    from ...app import App
    from ...tools.mcp_definition import Definition
    from ...tools.pins import Difference, Pins

_MARK = {"new": "+", "changed": "~", "renamed": "~", "shadows": "!", "gone": "-"}


def pin(
    what: str | None = None,
    /,
    *,
    approve: Annotated[
        bool, Parameter(name="--approve", negative=(), help="Write what they say now into ropewalk.lock.")
    ] = False,
    json: Json = False,
    project: Project = None,
) -> Answer:
    """Show what differs from the approved tools of MCP servers and OpenAPI providers (of all, of a SERVER, or of one
    SERVER:TOOL).

    Exit code 1 where something does and is not approved, and where a server was left out as it cannot be reached.
    """

    async def work(app: App, _: Interrupts) -> Answer:
        from ...tools.pins import FILE, Pins

        toolbox = app.toolbox
        pins = toolbox.pins or Pins(Path(app.project or ".") / FILE)
        server, tool = [*(what or "").split(":", 1), ""][:2]
        servers, left = await _reached(app, server)
        found = [d for name in servers for d in pins.differences(name, _said(app, name)) if tool in ("", d.tool)]
        if tool and not found and tool not in (one.name for one in _said(app, server)):
            near = closest(tool, [one.name for one in _said(app, server)])
            raise NotFound("tool", f"{server}:{tool}", suggestion=near and f"{server}:{near}")
        if approve:
            for name in servers:
                pins.approve(name, _said(app, name), tool or None)
            pins.write()
        rows = [{"tool": d.id, "kind": d.kind, "message": d.done if approve else d.said} for d in found]
        return Answer(
            exit=FAILED if left or (found and not approve) else 0,
            data={"differences": rows, "leftOut": left, "approved": approve, "file": str(pins.path)},
            text=_text(found, left, approve, pins),
        )

    return with_app(work, project=project, store="memory")


async def _reached(app: App, server: str) -> tuple[list[str], dict[str, str]]:
    """The servers asked for, connected; all of them where none is named. Then why each of the others cannot be reached:
    one that is down keeps none that works from being approved."""
    known = [] if app.toolbox.mcp is None else list(app.toolbox.mcp.names)
    known += app.toolbox.provider.documented
    if not known:
        raise UsageError("this project has no MCP servers and no OpenAPI documents; see [mcp.NAME] in ropewalk.toml")
    if server and server not in known:
        raise NotFound("server", server, suggestion=closest(server, known))
    asked = [server] if server else known
    await app.toolbox.connect_for(f"{name}:" for name in asked)
    left = {name: app.toolbox.failures[name] for name in asked if name in app.toolbox.failures}
    if len(left) == len(asked):
        raise UsageError("; ".join([*left.values(), "nothing is approved of a server that cannot be reached"]))
    return [name for name in asked if name not in left], left


def _said(app: App, server: str) -> list[Definition]:
    """What a server, or the document of a provider, says now."""
    servers = app.toolbox.mcp
    if servers is not None and server in servers.names:
        return list(servers.tools(server))
    return app.toolbox.provider.definitions(server)


def _text(found: list[Difference], left: dict[str, str], approve: bool, pins: Pins) -> str:
    lines = [visible(f"{_MARK[d.kind]} {d.id}  {d.done if approve else d.said}") for d in found]
    for name, why in left.items():
        said = f"; when it is there again: ropewalk tools pin {name} --approve" if approve else ""
        lines.append(visible(f"? {name}  left out, nothing of it is looked at or approved: {why}{said}"))
    if approve and found:
        lines.append(f"written to {pins.path}; serve, mcp and worker read it when they are started again")
    elif approve:
        lines.append(f"nothing differs from {pins.path}")
    elif found:
        lines.append(f"{len(found)} to look at; --approve writes what they say now into {pins.path}")
    else:
        lines.append("nothing differs from what was approved")
    return "\n".join(lines)
