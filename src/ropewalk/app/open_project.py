"""An app from a project's configuration: its tools, its servers, its store."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from ..config.modules import import_tools
from ..config.project import LOCK_FILE, read_config
from ..config.settings import NO_EMBEDDER, PlanSettings
from ..config.toml import TomlFile, file_exists
from ..errors import Action, ConfigError, InvalidTool, Place, Remedy
from ..errors import display_path as shown
from ..journal.address import StoreOpener
from ..tools.tool import Tool, tool_of
from ..tools.toolbox import Toolbox
from .flow_list import FlowList
from .flow_tools import FlowTools

if TYPE_CHECKING:
    from ..config.settings import Config
    from ..journal.protocol import Store
    from .context import Context
    from .jobs import Jobs


class HasContext(Protocol):
    """An app, as far as its project sets it up."""

    context: Context
    jobs: Jobs


Opened = TypeVar("Opened", bound=HasContext)
NOT_LOADED = "not loaded, because no code of the project runs"
"""Why the tools of a server, a provider or a backend are not known."""


def open_project(
    kind: Callable[..., Opened],
    directory: Path | str | None,
    store: str | Path | Store | None,
    home: Path | str | None = None,
    engine: Literal["local", "dbos"] | None = None,
    code: bool = True,
) -> Opened:
    """Open the app of a project: the nearest directory with a `ropewalk.toml`, upward."""
    _check_directory(directory)
    config, unchecked = read_config(directory), tuple[str, ...]()
    if not code:
        config, unchecked = without_code(config)
    storing = config if home is None else read_config(home)
    named = config if storing.file is None else storing
    toolbox = Toolbox(allow_hosts=config.allow_hosts, strict_output=config.strict_output)
    for item in import_tools(config, _is_tool):
        try:
            toolbox.register(item)
        except InvalidTool as error:
            raise ConfigError(str(error), place=_definition_place(item)) from error
    if file_exists(config.directory / LOCK_FILE):  # something else there must not pass for "nothing is pinned"
        from ..tools.pins import Pins

        toolbox.pins = Pins.read(config.directory)
    _open_sources(config, toolbox)
    _read_undos(config, toolbox)
    opened = configured_store(store, named, storing.directory)
    # A module may register the address. A missing directory matters only to those that need the store.
    if code and isinstance(opened, StoreOpener):
        opened.check_address()
    app = kind(
        opened,
        toolbox=toolbox,
        directory=storing.directory,
        sync=named.sync,
        limits=config.limits,
        engine=engine or named.engine,
        settings=config.worker_settings,
        secrets=config.secrets,
        selector_model=config.selector_model,
    )
    context = app.context
    context.http_secrets = frozenset(config.http_secrets)
    context.project, context.config = str(config.directory), config
    context.store_settings = store or named.store, named.sync, engine or named.engine, named.retention
    context.models, context.claude, context.n8n_tools = config.models, config.claude, config.n8n_tools
    context.cache_ttl, context.retention = config.cache_ttl, named.retention
    context.plans, context.undo, context.budget = config.plans, config.undo, config.budget
    cards = context.definitions.cards
    cards.effects, cards.directory = config.plans.effects, config.directory
    _limit_plans(config.plans)
    context.untrusted = () if config.untrusted is None else tuple(config.untrusted.servers)
    context.unchecked, context.definitions.imports_code = unchecked, code
    flows, jobs = FlowList(config.directory, config.tool_flows), app.jobs
    jobs.flow_tools = FlowTools(context.definitions, flows, jobs.make_tool, jobs.connect_for)
    jobs.sources.append(jobs.flow_tools)
    return app


def _check_directory(directory: Path | str | None) -> None:
    if directory is not None and not Path(directory).is_dir():
        why = "is a file; name its directory" if Path(directory).exists() else "there is no such directory"
        raise ConfigError(f"{directory}: {why}")


def configured_store(
    store: str | Path | Store | None, config: Config, directory: Path | None = None
) -> str | Path | Store | StoreOpener | None:
    """Return a store that was named, or what opens the one of a configuration when it is first needed."""
    if store:
        return store

    def place() -> Place:  # without the text of the line, which may hold a password
        return replace(TomlFile(config.file).place_of(("store", "url")), text="")

    is_in_file = config.file is not None and config.store is not None and not os.environ.get("ROPEWALK_STORE")
    return StoreOpener(config.store, directory or config.directory, config.sync, place if is_in_file else None)


def _limit_plans(plans: PlanSettings) -> None:
    """Set the limits of programs of models, whose children serve every app of the process."""
    usual = PlanSettings()
    if (plans.cpu_seconds, plans.wall_seconds) != (usual.cpu_seconds, usual.wall_seconds):
        from ..plans.boundary.pool import Limits, pool

        pool().limits = Limits(cpu=plans.cpu_seconds, wall=plans.wall_seconds)


def without_code(config: Config) -> tuple[Config, tuple[str, ...]]:
    """Return the part of a configuration that runs and connects nothing, and the names of the other parts."""
    documents = {
        name: provider
        for name, provider in config.providers.items()
        if provider.openapi and not provider.openapi.startswith(("http://", "https://"))
    }
    parts = {
        "modules": config.modules,
        "servers": (*config.servers, *(config.untrusted.servers if config.untrusted is not None else ())),
        "providers": [name for name in config.providers if name not in documents],
        "backends": config.backends,
        "flows": [pattern for pattern in config.tool_flows if ".py" in pattern],
        "selector model": [config.selector_model] if ":" in config.selector_model else [],
    }
    failures = {name: NOT_LOADED for kind in ("servers", "providers", "backends") for name in parts[kind]}
    reduced = replace(
        config,
        modules=(),
        servers={},
        untrusted=None,
        providers=documents,
        backends={},
        failures=failures,
        selector_model=NO_EMBEDDER if parts["selector model"] else config.selector_model,
    )
    return reduced, tuple(f"{kind} {', '.join(names)}" for kind, names in parts.items() if names)


def _read_undos(config: Config, toolbox: Toolbox) -> None:
    """Give the toolbox the undos that the project sets for its tools."""
    settings = config.undo
    if not settings.tools:
        return
    from ..tools.undo import read_undo  # few projects set any

    for tool_id, value in settings.tools.items():
        try:
            undo = read_undo(value)
        except InvalidTool as error:
            message = f'[undo.tools] "{tool_id}": {str(error).removeprefix("undo: ")}'
            raise ConfigError(message, place=None if settings.where is None else settings.where(tool_id)) from error
        if undo is not None:
            toolbox.undos[tool_id] = undo


def _open_sources(config: Config, toolbox: Toolbox) -> None:
    """Name the servers, providers and backends of a project; why one cannot be used is in `toolbox.failures`."""
    failures = toolbox.failures
    sources: dict[str, Any] = {**config.servers, **config.providers, **config.backends}
    failures.places.update({name: source.where for name, source in sources.items() if source.where is not None})
    for name, server in config.servers.items():
        try:
            toolbox.add_mcp(name, _set_fields(server))
        except ConfigError as error:  # one server never stops the others
            failures.record(name, error, "url" if server.url else "command")
    if toolbox.servers is not None:
        from ..tools.mcp.list_cache import user_cache

        toolbox.servers.lists = user_cache()
    for name, provider in config.providers.items():
        try:
            arguments = _set_fields(provider)
            if provider.openapi and Path(provider.openapi).is_absolute():  # no address; told of by its short name
                arguments["openapi"] = Path(shown(Path(provider.openapi)))
            toolbox.add_provider(name, arguments)
        except (ConfigError, InvalidTool) as error:  # nor one provider
            failures.record(name, error, "openapi" if provider.url is None else "url")
    for name, source in config.backends.items():
        try:
            toolbox.add_source(source.kind, name, source.settings)
        except (ConfigError, InvalidTool) as error:
            failures.record(name, error)
    failures.update(config.failures)
    if config.untrusted is not None:
        from ..tools.mcp.login_errors import Reason

        for name in config.untrusted.servers:
            if name in config.failures:
                failures[name] = Reason(config.failures[name], Remedy(Action.TRUST, {}))
    for doubt in config.warnings:
        import logging

        logging.getLogger("ropewalk.config").warning("%s", doubt)


def _is_tool(value: Any) -> bool:
    """Return True for what a module offers: functions with `@tool`, and Tools that can be called."""
    return tool_of(value) is not None or (isinstance(value, Tool) and value.handler is not None)


def _definition_place(tool: Any) -> Place | None:
    """Return the place of a function or of the function of a Tool; None for anything else."""
    from inspect import unwrap

    function: Any = tool.handler if isinstance(tool, Tool) else tool
    code = getattr(unwrap(function), "__code__", None)
    return None if code is None else Place(shown(Path(code.co_filename)), code.co_firstlineno, 1)


def _set_fields(setting: Any) -> dict[str, Any]:
    """Return the fields of a setting that are set, as a dict like the one in the file."""
    fields = {name: value for name, value in asdict(setting).items() if name not in ("name", "where")}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items() if v not in (None, (), {}, "")}
