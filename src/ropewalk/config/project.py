"""The Config of a directory, and the files of its definitions.

`read_config` reads the nearest `ropewalk.toml`; the environment overrides the store. `flow_files`
finds definitions by file, directory, experience or glob, without reading any; `stamp` shows whether
one has changed. A file that may not be read is listed like any other: whoever reads it reports the
error. This is why `os.path` is used here, as Path.is_file and Path.is_dir would raise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from os.path import isdir, isfile
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError
from .secrets import secret_names
from .servers import read_backends, read_providers, read_servers, read_workplace
from .settings import Config, Limits, McpServed, PlanSettings, Retention, UndoSettings, fill
from .toml import SECTIONS, TomlFile, stands

FILE: Final = "ropewalk.toml"
PROJECT_FLOWS: Final = ("*.yaml", "*.yml")
"""The definitions of a project that names none: those in the directory of `ropewalk.toml`."""


def _check_sections(table: TomlFile) -> None:
    """Note the unknown sections of the file, and the wrong fields of those that have no reader of their own."""
    known = (*SECTIONS, "mcp", "providers", "backends", "queues", "schedules")
    for name in table.data:
        with table.noting():
            if name not in known:
                raise table.unknown((name,), known)
            if name in SECTIONS:
                table.check((name,), SECTIONS[name])


def read_config(directory: Path | str | None = None, *, environ: Mapping[str, str] = os.environ) -> Config:
    """Read the nearest `ropewalk.toml` upward.

    Args:
        directory: Where the search starts.
        environ: The environment for `${VARIABLE}`.

    Returns:
        The configuration; the default one without a file.

    Raises:
        ConfigError: Everything that is wrong in the file, each problem with its place.
    """
    start = Path(directory or Path.cwd()).resolve()
    file = find(start)
    home = file.parent if file else start
    table = TomlFile(file)
    _check_sections(table)
    failures: dict[str, str] = {}  # a fault in one part must not hide those in the others
    doubts: list[str] = []
    with table.noting():
        servers = read_servers(table, home, environ, failures, doubts)
    with table.noting():
        providers = read_providers(table, home, environ, failures, doubts)
    with table.noting():
        backends = read_backends(table, environ, failures)
    with table.noting():
        workplace = read_workplace(table)
    with table.noting():
        allow_hosts = _read_allowed_hosts(table)
    with table.noting():
        store_url = _read_store_url(table, home, environ)
    with table.noting():
        _check_secrets(table)
    table.raise_noted()

    data, store = table.data, table.data.get("store", {})
    return Config(
        directory=home,
        file=file,
        modules=tuple(data.get("tools", {}).get("modules", ())),
        servers=servers,
        providers=providers,
        backends=backends,
        store=store_url,
        sync=store.get("sync", "normal"),
        engine=store.get("engine", "local"),
        workplace=workplace,
        retention=_retention(store.get("retention", {})),
        limits=Limits(**{key: value for key, value in data.get("limits", {}).items() if key != "tools"}),
        allow_hosts=allow_hosts,
        claude=dict(data.get("claude", {})),
        secrets=tuple(data.get("secrets", {}).get("allow", ())),
        http_secrets=tuple(data.get("secrets", {}).get("http", ())),
        mcp_server=_mcp_server(data.get("mcp_server", {})),
        plans=PlanSettings(**data.get("plans", {})),
        failures=failures,
        undo=UndoSettings(**data.get("undo", {}), where=lambda tool: table.place(("undo", "tools", tool))),
        doubts=tuple(doubts),
    )


def _check_secrets(table: TomlFile) -> None:
    """Raise ConfigError for a name that cannot be allowed, and for one that only HTTP would have."""
    names = table.check(("secrets",), SECTIONS["secrets"])
    for key in ("allow", "http"):
        try:
            secret_names(names.get(key, ()))
        except ConfigError as error:
            table.wrong(("secrets", key), f"[secrets] {key}: {str(error).removeprefix('secrets: ')}")
    not_allowed = set(names.get("http", ())) - set(names.get("allow", ()))
    if not_allowed:
        table.wrong(("secrets", "http"), f"[secrets] http: {', '.join(sorted(not_allowed))} must be in allow, too")


def _retention(value: Any) -> Retention | None:
    """Return the retention. A table that names only days, or only runs, sets no limit on the other."""
    if value is False:
        return None
    return Retention(**{"days": None, "runs": None, **value}) if value else Retention()


def _read_allowed_hosts(table: TomlFile) -> tuple[str, ...]:
    hosts = tuple(table.check(("network",), SECTIONS["network"]).get("allow", ()))
    if not hosts:
        return ()
    from .network import exemption  # few projects need it

    for host in hosts:
        try:
            exemption(host)
        except ConfigError as error:
            table.wrong(("network", "allow"), f"[network] allow: {error}")
    return hosts


def _mcp_server(values: Mapping[str, Any]) -> McpServed:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    return McpServed(**fields)


def find(directory: Path) -> Path | None:
    """Return the nearest `ropewalk.toml`, from a directory upward, or None.

    Args:
        directory: Where the search starts.

    Returns:
        The path of `ropewalk.toml`; None if there is none.

    Raises:
        ConfigError: Something of this name is not a file, or cannot be looked up in `directory` itself.
    """
    start = directory.resolve()  # the parents of a path with `..` are not those of the directory
    for parent in (start, *start.parents):
        file = parent / FILE
        if (parent == start or os.access(parent, os.X_OK)) and stands(file):
            return file
    return None


def _read_store_url(table: TomlFile, home: Path, environ: Mapping[str, str]) -> str | None:
    """Return the address of the journal; a relative file is relative to the directory of `ropewalk.toml`."""
    override = environ.get("ROPEWALK_STORE")
    if override:
        return override
    url: str | None = table.check(("store",), SECTIONS["store"]).get("url")
    if url is None:
        return None
    try:
        url = fill(url, environ)
    except KeyError as unset:
        table.wrong(("store", "url"), f"[store] url: the environment variable {unset.args[0]} is not set")
    if url.lower() == "memory" or url.removeprefix("sqlite:///").startswith((":memory:", "file:")):
        return url  # memory, or an address that the store refuses when it is opened
    scheme, colon, rest = url.partition("://")
    if not colon:
        return str(home / url)
    if scheme == "sqlite" and rest.startswith("/") and not rest.startswith("//"):
        return f"sqlite:///{home / rest[1:]}"
    return url


SUFFIXES: Final = (".yaml", ".yml", ".json")
EXPERIENCE: Final = ("experience.yaml", "experience.yml", "experience.json")


def flow_files(home: Path, places: Sequence[str], but: Callable[[Path], bool]) -> list[Path]:
    """Return the definitions that `places` name, each once, in their order.

    Args:
        home: The directory that the places are relative to.
        places: Files, directories, experiences and globs.
        but: Returns True for a file to leave out, unless a place names that very file.

    Returns:
        The files.
    """
    named = {home / place for place in places}
    files = dict.fromkeys(file for place in places for file in _expand(home, place))
    return [file for file in files if file in named or not but(file)]


def stamp(path: Path) -> Any:
    """Return a value that differs after a change of a definition; for an experience, of its document."""
    documents = [path / name for name in EXPERIENCE] if isdir(path) else [path]
    stamps = []
    for document in documents:
        try:
            status = document.stat()
        except OSError:
            continue
        stamps.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(stamps)


def _expand(home: Path, place: str) -> Iterator[Path]:
    """Yield the files of a place: itself, the definitions in a directory, or the matches of a glob."""
    path = home / place
    if isdir(path):
        if is_experience(path) or not os.access(path, os.R_OK):
            yield path
            return
        for child in sorted(path.iterdir()):
            if is_experience(child) if isdir(child) else child.suffix in SUFFIXES:
                yield child
    elif any(sign in place for sign in "*?["):
        for match in sorted(home.glob(place)):
            if match.suffix in SUFFIXES or isdir(match):
                yield match
    else:
        yield path


def is_experience(path: Path) -> bool:
    """Return True for a directory with the document of an experience.

    Args:
        path: A file or a directory.

    Returns:
        True for an experience.
    """
    return any(isfile(path / name) for name in EXPERIENCE)
