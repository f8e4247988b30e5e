"""From a directory to its Config: the nearest `ropewalk.toml`, and what the environment overrides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError
from .limits import Limits, Retention
from .lines import read_workplace
from .secret import secret_names
from .servers import read_providers, read_servers
from .settings import Config, McpServed
from .table import SECTIONS, TomlFile, stands
from .variables import fill

FILE: Final = "ropewalk.toml"


def read_config(directory: Path | str | None = None, *, environ: Mapping[str, str] = os.environ) -> Config:
    """The configuration that holds in `directory` (default: the working directory)."""
    start = Path(directory or Path.cwd()).resolve()
    file = find(start)
    home = file.parent if file else start
    table = TomlFile(file)
    known = (*SECTIONS, "mcp", "providers", "queues", "schedules")
    for name in table.data:
        with table.noting():
            if name not in known:
                raise table.unknown((name,), known)
            if name in SECTIONS:
                table.check((name,), SECTIONS[name])
    broken: dict[str, str] = {}
    doubts: list[str] = []
    with table.noting():
        servers = read_servers(table, home, environ, broken, doubts)
    with table.noting():
        providers = read_providers(table, home, environ, broken, doubts)
    with table.noting():
        workplace = read_workplace(table)
    with table.noting():
        allow_hosts = _allowed(table)
    with table.noting():
        address = _store(table, home, environ)
    with table.noting():
        _check_secrets(table)
    table.tell()
    data = table.data
    store = data.get("store", {})
    return Config(
        directory=home,
        file=file,
        modules=tuple(data.get("tools", {}).get("modules", ())),
        servers=servers,
        providers=providers,
        store=address,
        sync=store.get("sync", "normal"),
        engine=store.get("engine", "local"),
        workplace=workplace,
        retention=_kept(store.get("retention", {})),
        limits=Limits(**{key: value for key, value in data.get("limits", {}).items() if key != "tools"}),
        allow_hosts=allow_hosts,
        claude=dict(data.get("claude", {})),
        secrets=tuple(data.get("secrets", {}).get("allow", ())),
        http_secrets=tuple(data.get("secrets", {}).get("http", ())),
        mcp_server=_served(data.get("mcp_server", {})),
        broken=broken,
        doubts=tuple(doubts),
    )


def _check_secrets(table: TomlFile) -> None:
    """Raise ConfigError for a name that cannot be allowed, and for one that only HTTP would have."""
    given = table.check(("secrets",), SECTIONS["secrets"])
    for key in ("allow", "http"):
        try:
            secret_names(given.get(key, ()))
        except ConfigError as error:
            table.wrong(("secrets", key), f"[secrets] {key}: {str(error).removeprefix('secrets: ')}")
    if more := set(given.get("http", ())) - set(given.get("allow", ())):
        table.wrong(("secrets", "http"), f"[secrets] http: {', '.join(sorted(more))} must be in allow, too")


def _kept(given: Any) -> Retention | None:
    """One that names only the days, or only the runs, has no bound on the other."""
    return None if given is False else Retention(**({"days": None, "runs": None, **given} if given else {}))


def _allowed(table: TomlFile) -> tuple[str, ...]:
    """The hosts of `[network] allow`, each checked."""
    given = tuple(table.check(("network",), SECTIONS["network"]).get("allow", ()))
    if not given:
        return ()
    from .network import exemption  # few projects need it

    for one in given:
        try:
            exemption(one)
        except ConfigError as error:
            table.wrong(("network", "allow"), f"[network] allow: {error}")
    return given


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


def _store(table: TomlFile, home: Path, environ: Mapping[str, str]) -> str | None:
    """A relative file belongs beside `ropewalk.toml`, wherever in the project one stands."""
    if given := environ.get("ROPEWALK_STORE"):
        return given
    url: str | None = table.check(("store",), SECTIONS["store"]).get("url")
    if url is None:
        return None
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
