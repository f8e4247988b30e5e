"""An app from a project's configuration: its tools, its servers, its store."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .config import import_tools, read_config
from .errors import ConfigError
from .tools.toolbox import Toolbox

if TYPE_CHECKING:
    from .app import App


def open_project(
    kind: type[App], directory: Path | str | None, store: str | None, home: Path | str | None = None
) -> App:
    """The app of `directory` (or the nearest `ropewalk.toml` above it)."""
    config = read_config(directory)
    toolbox = Toolbox(import_tools(config))
    for name, server in config.servers.items():
        try:
            toolbox.add_mcp(name, _given(server))
        except ConfigError as error:  # one server never stops the others
            toolbox.failures[name] = str(error)
    for name, provider in config.providers.items():
        toolbox.add_provider(name, _given(provider))
    for name, reason in config.broken.items():
        toolbox.failures[name] = reason
    return kind(
        store or config.store,
        toolbox=toolbox,
        directory=home or config.directory,
        sync=config.sync,
        limits=config.limits,
    )


def _given(setting: Any) -> dict[str, Any]:
    """A setting as the dict it was written as: without what was not given."""
    fields = {name: value for name, value in asdict(setting).items() if name != "name"}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items() if v not in (None, (), {}, "")}
