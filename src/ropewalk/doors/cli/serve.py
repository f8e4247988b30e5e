"""The commands `serve` (HTTP API and web UI) and `mcp` (flows and tools for MCP clients).

Both listen on the loopback interface and ask for a token, unless options say otherwise. They only start the
servers: `doors.http` and `doors.mcp` answer the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from cyclopts import Parameter

from ...app.executing import executing
from ...app.project_problems import settings_problems, stored_names, unmatched_tools
from ...app.project_versions import ProjectVersions
from ...app.runs.recovery import recovering
from ...config.project import read_config, with_python_flows
from ...config.settings import Config
from ...errors import ConfigError, RopewalkError, install_command
from ...source.document import render_problem
from ..security import TOKEN, new_token, serve_until_cancelled, token_given
from .dispatch import Answer
from .options import AllowHost, Host, Log, LogLevel, Port, Project, RootPath, StoreAddress
from .output import configure_logging, notify, notify_failed_runs
from .session import Interrupts, directory, warn_of_idle_schedules, with_app
from .streams import write_stdout
from .unusable_parts import UnusableParts

if TYPE_CHECKING:
    from ...app.app import App
    from ..mcp.flows import Flows
    from ..mcp.server import McpDoor
    from ..mcp.tool_source import Source

_PATIENCE = 2  # seconds for the servers of a plan on the command line
_STREAM_GRACE = 2  # seconds for open streams when the server ends


def serve(
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
    """Serve the HTTP API and the web UI. FILES are listed as definitions, as those of [mcp_server] flows are.

    Every request needs a token: the one in ROPEWALK_TOKEN, which is never printed, or a new one, which is part of
    the printed address.
    """

    @contextlib.asynccontextmanager
    async def announced(versions: ProjectVersions, address: str, token: str) -> AsyncIterator[None]:
        write_stdout(f"{address}/?token={token}\n")
        task = asyncio.create_task(_report_settings(versions.app))  # requests are answered meanwhile
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    configure_logging(log, log_level)
    return serve_project("serve", files, Listen(host, port, allow_host, root_path), announced, project, store)


class Listen(NamedTuple):
    """Where a server listens, and under which other names clients reach it."""

    host: str
    port: int
    allowed: tuple[str, ...]
    root_path: str

    @property
    def names(self) -> tuple[str, ...]:
        """The host names that requests may name."""
        is_every = self.host in ("0.0.0.0", "::")
        return self.allowed if is_every else (*self.allowed, f"[{self.host}]" if ":" in self.host else self.host)

    @property
    def name_in_url(self) -> str:
        """The host name for the printed address."""
        return f"[{self.host}]" if ":" in self.host else "127.0.0.1" if self.host == "0.0.0.0" else self.host


Beside: TypeAlias = "Callable[[ProjectVersions, str, str], contextlib.AbstractAsyncContextManager[None]]"
"""What a command does while it serves; it gets the address and the token as people may see it."""


async def _report_settings(app: App) -> None:
    """Write a line for each problem with the settings of a project that was not logged when it was opened."""
    config = app.context.config
    logged = [] if config is None else list(unmatched_tools(app, config))
    for problem in await settings_problems(app, lambda: stored_names(app.store)):
        if problem not in logged:
            notify(render_problem(problem), logging.WARNING)


def serve_project(
    command: str, files: Sequence[Path], listen: Listen, beside: Beside, project: Path | None, store: str | None
) -> Answer:
    """Serve the HTTP API and the web UI of a project until the command is interrupted."""
    configured_token = token_given()
    token = configured_token or new_token()
    named = [str(file.resolve()) for file in files]

    async def work(app: App, _: Interrupts) -> Answer:
        try:
            import uvicorn  # noqa: F401

            from ..http.flow_files import FlowFiles
            from ..http.root_path import read_root_path
            from ..http.site import make_site
        except ModuleNotFoundError as error:
            message = f"`ropewalk {command}` needs the package {error.name}: {install_command('serve')}"
            raise ConfigError(message) from None
        try:
            root = read_root_path(listen.root_path)
        except ValueError as error:
            raise ConfigError(f"--root-path: {error}") from None
        listening = _listen(listen.host, listen.port)
        versions = ProjectVersions(app)
        notify_failed_runs(app)  # of the engine, which later versions of the project use, too
        site = make_site(
            versions,
            token,
            hosts=listen.names,
            files_of=lambda app: FlowFiles.of_project(app, named),
            root_path=root,
        )
        address = f"http://{listen.name_in_url}:{listening.getsockname()[1]}{root}"
        # The shell of the reader fills in a configured token, so that no log holds it.
        shown_token = token if configured_token is None else f"${TOKEN}"
        try:
            async with (
                recovering(versions),
                executing(versions),
                beside(versions, address, shown_token),
                UnusableParts(app).watching(connect=True),
            ):
                await warn_of_idle_schedules(app)
                if not (named or app.toolbox.spaces or app.toolbox.ids() or _has_definitions(app)):
                    notify(f"nothing to serve: {_no_definitions(app.project or '.')}")
                await serve_until_cancelled(site, listening, _STREAM_GRACE)
        finally:
            await versions.close()
        return Answer()

    return with_app(work, near=files[0] if files else None, project=project, store=store)


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)  # clients that connect from now on wait, so the address may be printed
    except (OSError, OverflowError, UnicodeError, TypeError) as error:  # also a port above 65535, a malformed host
        listening.close()
        why = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"cannot listen on {host}:{port}: {why}; choose another port with --port") from None
    return listening


_Tools: TypeAlias = Annotated[
    bool | None, Parameter(name="--tools", help="Also offer the tools of the project and of its MCP servers.")
]
_Gateway: TypeAlias = Annotated[
    bool | None,
    Parameter(name="--gateway", help="Offer the tools, prompts and resources of the project's MCP servers unchanged."),
]
_Plans: TypeAlias = Annotated[
    bool | None,
    Parameter(name="--plans", help="Let clients find tools, and check, run, resume and save programs that call them."),
]
_MaxListed: TypeAlias = Annotated[
    int | None,
    Parameter(help="Maximum number of listed tools. With more, list tools that find and call them. [default: 100]"),
]
_Http: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--http",
        help="Serve streamable HTTP on HOST:PORT or PORT, with a token (default: standard input and output).",
    ),
]
_NoToken: TypeAlias = Annotated[
    bool,
    Parameter(name="--no-token", negative=(), help="Accept requests without a token; only on loopback addresses."),
]


def mcp(
    *files: Path,
    tools: _Tools = None,
    gateway: _Gateway = None,
    plans: _Plans = None,
    max_listed: _MaxListed = None,
    http: _Http = None,
    allow_host: AllowHost = (),
    no_token: _NoToken = False,
    log: Log = "text",
    log_level: LogLevel = None,
    project: Project = None,
    store: StoreAddress = None,
) -> Answer:
    """Serve flows as the tools of an MCP server: the FILES, and stored ones unless [mcp_server] says otherwise.

    Without FILES, it serves [mcp_server] flows, else the definitions in the project directory. It uses standard
    input and output, as MCP clients expect; with --http it serves over HTTP.
    """
    if find_spec("mcp") is None:
        raise ConfigError(f"`ropewalk mcp` needs the package mcp: {install_command('mcp')}")
    near, files = files[0] if files else None, tuple(with_python_flows(files))
    config = read_config(directory(near, project))
    options: dict[str, Any] = {"tools": tools, "gateway": gateway, "max_listed": max_listed}
    options = {key: value for key, value in options.items() if value is not None}
    config = replace(config, mcp_server=replace(config.mcp_server, **options))
    if plans is not None:
        config = replace(config, plans=replace(config.plans, offer=plans))
    if http is None:
        from ..mcp.transports import Wire

        wire = Wire()  # before the project's code is imported, because it may print

        async def on_stdio(app: App, _: Interrupts) -> Answer:
            await _require_valid(app, files)
            await warn_of_idle_schedules(app)
            parts = UnusableParts(app)
            async with parts.watching(connect=False):  # a client starts this process even for sessions without calls
                await wire.serve(_make_door(app, config, files, parts.report))
            return Answer()

        configure_logging(log, log_level)
        return with_app(on_stdio, near=near, project=project, store=store)

    from ..mcp.transports import Address, serve

    address = Address.read(http, allow_host)
    token = None if no_token else token_given() or new_token()

    async def on_http(app: App, _: Interrupts) -> Answer:
        await _require_valid(app, files)
        await warn_of_idle_schedules(app)
        parts = UnusableParts(app)
        door = _make_door(app, config, files, parts.report)
        async with parts.watching(connect=True):
            await serve(door, address, token, lambda url: _announce(url, token), config.mcp_server.max_sessions)
        return Answer()

    configure_logging(log, log_level)
    return with_app(on_http, near=near, project=project, store=store)


async def _require_valid(app: App, files: Iterable[Path]) -> None:
    """Raise InvalidFlow for a wrong flow on the command line: now, not at the first call of a client."""

    # A plan whose servers do not answer soon is left to the list of tools: no client waits for a silent server.
    for file in files:
        loading = asyncio.ensure_future(app.load_async(file))
        done, _ = await asyncio.wait([loading], timeout=_PATIENCE)
        if done:
            app.ensure(loading.result())
        else:
            loading.add_done_callback(lambda late: late.cancelled() or late.exception())  # the list tells it


def _make_door(app: App, config: Config, files: tuple[Path, ...], on_connected: Callable[[], None]) -> McpDoor:
    """Return the MCP server of an app: the flows, and the tools if the project offers them."""
    notify_failed_runs(app)
    from ..mcp.catalogue import Catalogue, Finder
    from ..mcp.flows import Flows
    from ..mcp.gateway import GatewayPassthrough, Tools
    from ..mcp.primitives import Primitives
    from ..mcp.prompts import FlowPrompts
    from ..mcp.resources import ProjectResources
    from ..mcp.server import McpDoor
    from ..mcp.task_methods import TaskMethods
    from ..mcp.tasks import Tasks

    served = config.mcp_server
    places = [str(file.resolve()) for file in files] or config.served_flows
    flows = Flows(
        app,
        places,
        config.directory,
        stored=served.stored,
        task_only=served.task_only,
        prompts=served.prompts,
        plans=config.plans.offer,
    )
    tools: list[Source] = []
    if served.tools or served.gateway:
        tools.append(Tools(app, servers_only=not served.tools, prefix=served.prefix))
    _announce_flows(flows, config.directory)
    always: list[Source] = [flows]
    if config.plans.offer or served.tools:
        from ..mcp.plans import PlanOperations

        plans = PlanOperations(app, saved_only=not config.plans.offer)
        (always if config.plans.offer else tools).append(plans)
    catalogue = Catalogue(Finder(app), always, tools, max_listed=served.max_listed)
    primitives = Primitives(
        FlowPrompts(lambda: catalogue.tools),
        ProjectResources(app, lambda: catalogue.tools, served.resources) if served.resources else None,
        GatewayPassthrough(app, prefix=served.prefix) if served.gateway else None,
    )
    return McpDoor(
        catalogue,
        instructions=served.instructions,
        primitives=primitives,
        patience=served.wait_for_servers,
        tasks=TaskMethods(app, Tasks(app)),
        on_connected=on_connected,
    )


def _has_definitions(app: App) -> bool:
    """Return True if the project has the file of a definition, valid or not."""
    from ...app.flow_list import is_definition

    config = app.context.config
    files = {} if config is None else app.jobs.flow_list(config.directory, config.served_flows).look()
    return any(map(is_definition, files.values()))


def _no_definitions(home: Path | str) -> str:
    """Say that a project has no definitions, and how to get some."""
    hint = "to create a project with an example: ropewalk new DIR"
    return f"there are no definitions in {home}; name files, or `flows` in [mcp_server]; {hint}"


def _announce_flows(flows: Flows, home: Path) -> None:
    """Say on standard error which flows are offered, and which files are not."""
    try:
        names = [tool.wanted for tool in flows.offered()]
    except ConfigError:  # no store will ever answer at this address
        raise
    except RopewalkError as error:  # the server starts all the same, and answers once the store does
        notify(f"warning: the flows could not be listed: {error}", logging.WARNING)
        return
    if names:
        notify(f"offering {len(names)} {'flow' if len(names) == 1 else 'flows'}: {', '.join(names)}")
    else:
        why = "none of the definitions is valid" if flows.broken else _no_definitions(home)
        notify(f"offering no flows: {why}")
    if flows.broken:
        broken_names = ", ".join(os.path.relpath(name, home) if os.path.isabs(name) else name for name in flows.broken)
        notify(f"not offered: {broken_names}; `ropewalk validate FILE` shows why")


def _announce(url: str, token: str | None) -> None:
    notify(f"MCP server at {url}")
    if token is None:
        notify("no token is required: every program on this machine can call it")
    elif token_given() is not None:
        notify(f"clients send: Authorization: Bearer (the value of {TOKEN})")
    else:
        notify(f"clients send: Authorization: Bearer {token}")
