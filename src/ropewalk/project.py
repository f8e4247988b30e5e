"""An app from a project's configuration: its tools, its servers, its store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .config import import_tools, read_config
from .config.table import named as shown
from .config.table import stands
from .errors import ConfigError, InvalidTool, Place
from .source import render
from .tools.tool import Tool, tool_of
from .tools.toolbox import Toolbox

LOCK = "ropewalk.lock"  # tools.pins.FILE: that room is read only where there is one

if TYPE_CHECKING:
    from .app import App
    from .journal import Store


def open_project(
    kind: type[App],
    directory: Path | str | None,
    store: str | Path | Store | None,
    home: Path | str | None = None,
    engine: Literal["local", "dbos"] | None = None,
) -> App:
    """The app of `directory` (or the nearest `ropewalk.toml` above it); its runs are kept in `home`."""
    if directory is not None and not Path(directory).is_dir():
        why = "is a file; name its directory" if Path(directory).exists() else "there is no such directory"
        raise ConfigError(f"{directory}: {why}")
    config = read_config(directory)
    kept = config if home is None else read_config(home)
    named = config if kept.file is None else kept
    toolbox = Toolbox(allow_hosts=config.allow_hosts)
    for one in import_tools(config, _is_tool):
        try:
            toolbox.register(one)
        except InvalidTool as error:
            raise ConfigError(str(error), place=_defined(one)) from error
    if stands(config.directory / LOCK):  # something else there must not pass for "nothing is pinned"
        from .tools.pins import Pins

        toolbox.pins = Pins.read(config.directory)
    for name, server in config.servers.items():
        try:
            toolbox.add_mcp(name, _given(server))
        except ConfigError as error:  # one server never stops the others
            toolbox.failures[name] = str(error)
    for name, provider in config.providers.items():
        try:
            given = _given(provider)
            if provider.openapi and Path(provider.openapi).is_absolute():  # no address; told of by its short name
                given["openapi"] = Path(shown(Path(provider.openapi)))
            toolbox.add_provider(name, given)
        except ConfigError as error:  # nor one provider
            toolbox.failures[name] = "\n".join(map(render, error.problems))
        except InvalidTool as error:
            toolbox.failures[name] = str(error)
    for name, reason in config.broken.items():
        toolbox.failures[name] = reason
    for doubt in config.doubts:
        import logging

        logging.getLogger("ropewalk.config").warning("%s", doubt)
    app = kind(
        store or named.store,
        toolbox=toolbox,
        directory=kept.directory,
        sync=named.sync,
        limits=config.limits,
        engine=engine or named.engine,
        settings=config.workplace,
        secrets=config.secrets,
    )
    app.http_secrets = frozenset(config.http_secrets)
    app.project = str(config.directory)
    app.model_settings = config.claude
    app.retention = named.retention
    return app


def _is_tool(value: Any) -> bool:
    """What a module offers: functions under `@tool`, and Tools that can be called, such as composites."""
    return tool_of(value) is not None or (isinstance(value, Tool) and value.handler is not None)


def _defined(one: Any) -> Place | None:
    """Where a function of a module stands, or that of a Tool; None of what is no function of Python."""
    from inspect import unwrap

    function: Any = one.handler if isinstance(one, Tool) else one
    code = getattr(unwrap(function), "__code__", None)
    return None if code is None else Place(shown(Path(code.co_filename)), code.co_firstlineno, 1)


def _given(setting: Any) -> dict[str, Any]:
    """A setting as the dict it was written as: without what was not given."""
    fields = {name: value for name, value in asdict(setting).items() if name != "name"}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items() if v not in (None, (), {}, "")}
