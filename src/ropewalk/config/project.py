"""From a directory to its Config: the nearest `ropewalk.toml`, and what the environment overrides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .limits import Limits, Retention
from .lines import read_workplace
from .servers import read_providers, read_servers
from .settings import Config, McpServed
from .table import SECTIONS, TomlFile, named, stands, together
from .variables import fill

FILE: Final = "ropewalk.toml"


def read_config(directory: Path | str | None = None, *, environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration that holds in `directory` (default: the working directory)."""
    start = Path(directory or Path.cwd()).resolve()
    file = find(start)
    home = file.parent if file else start
    table = TomlFile(file, named(file)) if file else None
    data = table.data if table else {}
    if table:
        known = (*SECTIONS, "mcp", "providers", "queues", "schedules")
        wrong = [table.unknown((name,), known) for name in data if name not in known]
        together(wrong + [one for name, keys in SECTIONS.items() for one in table.faults((name,), keys)])
    broken: dict[str, str] = {}
    doubts: list[str] = []
    servers = read_servers(table, home, environ, broken, doubts)
    providers = read_providers(table, home, environ, broken, doubts)
    store, tools = data.get("store", {}), data.get("tools", {})
    sync, engine = store.get("sync", "normal"), store.get("engine", "local")
    if table and sync not in ("normal", "full"):
        table.wrong(("store", "sync"), f'[store] sync: "normal" or "full", not "{sync}"')
    if table and engine not in ("local", "dbos"):
        table.wrong(("store", "engine"), f'[store] engine: "local" or "dbos", not "{engine}"')
    return Config(
        directory=home,
        file=file,
        modules=tuple(tools.get("modules", ())),
        servers=servers,
        providers=providers,
        store=environ.get("ROPEWALK_STORE") or _store(table, store.get("url"), home, environ),
        sync=sync,
        engine=engine,
        workplace=read_workplace(table),
        retention=_kept(store.get("retention", {})),
        limits=Limits(**{key: value for key, value in data.get("limits", {}).items() if key != "tools"}),
        claude=dict(data.get("claude", {})),
        mcp_server=_served(data.get("mcp_server", {})),
        broken=broken,
        doubts=tuple(doubts),
    )


def _kept(given: Any) -> Retention | None:
    """One that names only the days, or only the runs, has no bound on the other."""
    return None if given is False else Retention(**({"days": None, "runs": None, **given} if given else {}))


def _served(given: Mapping[str, Any]) -> McpServed:
    named: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return McpServed(**named)


def find(directory: Path) -> Path | None:
    """The nearest `ropewalk.toml`, from `directory` upward; None without one, ConfigError where it is no file."""
    start = directory.resolve()  # the parents of `..` as it is written are not those of the directory
    for place in (start, *start.parents):
        if (place == start or os.access(place, os.X_OK)) and stands(file := place / FILE):
            return file
    return None


def _store(table: TomlFile | None, url: str | None, home: Path, environ: Mapping[str, str]) -> str | None:
    """A relative file belongs beside `ropewalk.toml`, wherever in the project one stands."""
    if table is None or url is None:
        return url
    try:
        url = fill(url, environ)
    except KeyError as unset:
        table.wrong(("store", "url"), f"[store] url: the environment variable {unset.args[0]} is not set")
    if url.lower() == "memory" or url.removeprefix("sqlite:///").startswith((":memory:", "file:")):
        return url  # memory, or what is no file: whoever opens it says so
    scheme, colon, rest = url.partition("://")
    if not colon:
        return str(home / url)
    if scheme == "sqlite" and rest.startswith("/") and not rest.startswith("//"):
        return f"sqlite:///{home / rest[1:]}"
    return url
