"""A server of ours, for what real ones do not show. `odd.py` speaks stdio; `odd.py PORT` speaks
streamable HTTP (both eras) and prints "ready" on stdout once it listens.

Built with the low-level Server, whose handlers and schemas pass verbatim.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ToolsListChanged

ANY = {"type": "object"}
HOSTILE = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}, "required": ["s"]}

started: list[str] = []
cancelled: list[str] = []
extra: list[str] = []
bus = InMemorySubscriptionBus()


def text(value: object, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=str(value))], **more)


async def slow(ctx: Any, args: dict[str, Any]) -> types.CallToolResult:
    name = args.get("name", "")
    started.append(name)
    await ctx.session.report_progress(0, 1, str(os.getpid()))
    try:
        await anyio.sleep(args.get("seconds", 30))
    except anyio.get_cancelled_exc_class():
        cancelled.append(name)
        raise
    return text("slept")


async def progress(ctx: Any, args: dict[str, Any]) -> types.CallToolResult:
    for i in range(args["count"]):
        await ctx.session.report_progress(i + 1, args["count"], f"step {i + 1}")
    return text("done")


async def grow(ctx: Any, args: dict[str, Any]) -> types.CallToolResult:
    extra.append(args["name"])
    await bus.publish(ToolsListChanged())
    await ctx.session.send_tool_list_changed()
    return text(len(extra))


async def grandchild(ctx: Any, args: dict[str, Any]) -> types.CallToolResult:
    """A process that ignores SIGTERM and keeps our stdout open."""
    code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)  # noqa: ASYNC220
    return text(child.pid)


async def die(ctx: Any, args: dict[str, Any]) -> types.CallToolResult:
    print("last \x1b[31mwords\x1b[0m " + os.environ.get("TOKEN", ""), file=sys.stderr, flush=True)
    os._exit(args.get("code", 3))


async def simple(ctx: Any, name: str, args: dict[str, Any]) -> types.CallToolResult:
    match name:
        case "echo":
            return text(args.get("text", ""))
        case "pid":
            return text(os.getpid())
        case "environment":
            return types.CallToolResult(content=[], structured_content=dict(os.environ))
        case "descriptors":
            return text(sorted(int(fd) for fd in os.listdir("/proc/self/fd")))
        case "meta":
            return types.CallToolResult(content=[], structured_content=dict(ctx.meta or {}))
        case "headers":
            found = dict(ctx.request.headers)
            digest = hashlib.sha256(found.get("authorization", "").encode()).hexdigest()
            return types.CallToolResult(content=[], structured_content={**found, "digest": digest})
        case "calls":
            return types.CallToolResult(content=[], structured_content={"started": started, "cancelled": cancelled})
        case "hostile":
            return types.CallToolResult(content=[], structured_content={"s": "a" * 40 + "!"})
        case "unstructured":
            return text("no structured content, though the schema asks for it")
        case "fails":
            return text("it went wrong", is_error=True)
        case "big":
            return text("x" * args["size"])
    raise ValueError(f"no tool {name}")


SPECIAL = {"slow": slow, "progress": progress, "grow": grow, "grandchild": grandchild, "die": die}
SIMPLE = ("echo", "pid", "environment", "descriptors", "meta", "headers", "calls", "fails", "big")


async def call(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name in extra:
        return text(params.name)
    if params.name in SPECIAL:
        return await SPECIAL[params.name](ctx, params.arguments or {})
    return await simple(ctx, params.name, params.arguments or {})


async def tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Pages of three, so that whoever reads only the first sees too little."""
    listed = [types.Tool(name=n, input_schema=ANY) for n in (*SIMPLE, *SPECIAL, *extra)]
    listed += [types.Tool(name=n, input_schema=ANY, output_schema=HOSTILE) for n in ("hostile", "unstructured")]
    at = int((params and params.cursor) or 0)
    return types.ListToolsResult(tools=listed[at : at + 3], next_cursor=str(at + 3) if at + 3 < len(listed) else None)


RESOURCES: dict[str, list[tuple[str | None, str | bytes]]] = {
    "shelf://rows.csv": [("text/csv", "a,b\n1,2\n")],
    "shelf://rows": [("application/json; charset=utf-8", '[{"a": 1}]')],
    "shelf://note": [("text/plain", "some text")],
    "shelf://two": [(None, "one"), ("application/json", "2")],
    "shelf://none": [],
    "shelf://bad": [("application/json", "{")],
    "shelf://picture": [("image/png", b"AAAA")],
}


async def resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    if params.uri == "shelf://slow":
        await anyio.sleep(30)
    if params.uri not in RESOURCES:
        raise MCPError(types.INVALID_PARAMS, f"no resource {params.uri}")
    contents: list[Any] = []
    for kind, data in RESOURCES[params.uri]:
        if isinstance(data, bytes):
            contents.append(types.BlobResourceContents(uri=params.uri, mime_type=kind, blob=data.decode()))
        else:
            contents.append(types.TextResourceContents(uri=params.uri, mime_type=kind, text=data))
    return types.ReadResourceResult(contents=contents)


server: Server[Any] = Server(
    "odd",
    on_list_tools=tools,
    on_call_tool=call,
    on_read_resource=resource,
    on_subscriptions_listen=ListenHandler(bus),
)


def http(port: int) -> None:
    import uvicorn
    from starlette.applications import Starlette

    inner = server.streamable_http_app()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    class Said(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print("ready", flush=True)

    app = Starlette(lifespan=lifespan)
    app.mount("/", inner)
    Said(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", timeout_graceful_shutdown=1)).run()


async def stdio() -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options(NotificationOptions(tools_changed=True)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        http(int(sys.argv[1]))
    else:
        anyio.run(stdio)
