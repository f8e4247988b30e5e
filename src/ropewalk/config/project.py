"""Read the configuration of a project, and find the files of its definitions.

`read_config` reads the nearest `ropewalk.toml` into a `Config`; it is what the command line and `App.open` begin with.
The readers of single sections are in `servers.py`; `toml.py` checks keys and finds their places. The environment
overrides the address of the store.

`flow_files` finds definitions by file, directory, experience or glob, without reading any. A file that may not be read
is listed like any other: its reader reports the error. This is why `os.path` is used here, as Path.is_file and
Path.is_dir would raise.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import filter as filter_names
from os.path import isdir, isfile
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigError
from .models import read_models
from .python_flows import python_flows
from .secrets import secret_names
from .servers import SERVERS_FILE, read_backends, read_providers, read_servers, read_worker_settings
from .settings import (
    NO_EMBEDDER,
    BudgetSettings,
    Config,
    Limits,
    McpServed,
    PlanSettings,
    Provider,
    Retention,
    UndoSettings,
    fill_variables,
)
from .toml import SECTIONS, TomlFile, file_exists

CONFIG_FILE: Final = "ropewalk.toml"
LOCK_FILE: Final = "ropewalk.lock"
PHRASE_FILE: Final = "ropewalk.phrases"
PROJECT_FLOWS: Final = ("*.yaml", "*.yml", "*.json", "*.py")
"""The definitions of a project that names none: those in the directory of `ropewalk.toml`, JSON with a `kind`."""


def _check_sections(table: TomlFile) -> None:
    """Read the values of the sections without a reader of their own, and collect the errors of wrong keys."""
    known = (*SECTIONS, "mcp", "providers", "backends", "queues", "schedules", "model")
    for name in table.data:
        with table.collecting_errors():
            if name not in known:
                raise table.unknown_key_error((name,), known)
            if name in SECTIONS:
                table.data[name] = table.check_table((name,), SECTIONS[name])
    with table.collecting_errors():
        _check_secrets(table)


def read_config(directory: Path | str | None = None, *, environ: Mapping[str, str] = os.environ) -> Config:
    """Read the nearest `ropewalk.toml` upward."""
    start = Path(directory or Path.cwd()).resolve()
    file = find_config_file(start)
    project_directory = file.parent if file else start
    table = TomlFile(file)
    _check_sections(table)
    failures: dict[str, str] = {}  # each section is read although another one is wrong
    warnings: list[str] = []
    with table.collecting_errors():
        servers, untrusted = read_servers(table, project_directory, environ, failures, warnings)
    with table.collecting_errors():
        providers = read_providers(table, project_directory, environ, failures, warnings)
    with table.collecting_errors():
        backends = read_backends(table, environ, failures)
    with table.collecting_errors():
        worker_settings = read_worker_settings(table)
    with table.collecting_errors():
        allow_hosts = _read_allowed_hosts(table)
    with table.collecting_errors():
        store_url = _read_store_url(table, project_directory, environ)
    with table.collecting_errors():
        models = read_models(table)
    table.raise_collected()

    data, store, tools = table.data, table.data.get("store", {}), table.data.get("tools", {})
    return Config(
        directory=project_directory,
        file=file,
        files=tuple(_read_files(project_directory, data, providers)),
        modules=tuple(tools.get("modules", ())),
        flows=tuple(tools.get("flows", ())),
        strict_output=tools.get("strict_output", False),
        cache_ttl=_read_cache_ttl(tools.get("cache_ttl", {})),
        servers=servers,
        untrusted=untrusted,
        providers=providers,
        backends=backends,
        store=store_url,
        sync=store.get("sync", "normal"),
        engine=store.get("engine", "local"),
        worker_settings=worker_settings,
        retention=_read_retention(store.get("retention", {})),
        limits=Limits(**{key: value for key, value in data.get("limits", {}).items() if key != "tools"}),
        allow_hosts=allow_hosts,
        selector_model=data.get("selector", {}).get("model", NO_EMBEDDER),
        models=models,
        claude=dict(data.get("claude", {})),
        n8n_tools=dict(data.get("n8n", {}).get("tools", {})),
        secrets=tuple(data.get("secrets", {}).get("allow", ())),
        http_secrets=tuple(data.get("secrets", {}).get("http", ())),
        mcp_server=_read_mcp_server(data.get("mcp_server", {})),
        plans=PlanSettings(**data.get("plans", {})),
        failures=failures,
        budget=BudgetSettings(**data.get("budget", {})),
        undo=UndoSettings(**data.get("undo", {}), where=lambda tool: table.place_of(("undo", "tools", tool))),
        warnings=tuple(warnings),
        where=table.place_of,
    )


def _read_cache_ttl(value: Any) -> dict[str, float]:
    """Return the seconds by pattern of tool ids; a single duration is for all tools."""
    return value if isinstance(value, dict) else {"*": value}


def _read_files(directory: Path, data: Mapping[str, Any], providers: Mapping[str, Provider]) -> Iterator[Path]:
    """Yield the files whose content the configuration depends on."""
    servers = data.get("mcp", {}).get("file") or SERVERS_FILE
    yield from (directory / name for name in (CONFIG_FILE, LOCK_FILE, PHRASE_FILE, servers))
    yield from (Path(each.openapi) for each in providers.values() if each.openapi and "://" not in each.openapi)


def _check_secrets(table: TomlFile) -> None:
    """Raise ConfigError for a name that cannot be allowed, and for one that only HTTP would have."""
    names = table.check_table(("secrets",), SECTIONS["secrets"])
    for key in ("allow", "http"):
        try:
            secret_names(names.get(key, ()))
        except ConfigError as error:
            table.raise_at(("secrets", key), f"[secrets] {key}: {str(error).removeprefix('secrets: ')}")
    not_allowed = set(names.get("http", ())) - set(names.get("allow", ()))
    if not_allowed:
        table.raise_at(("secrets", "http"), f"[secrets] http: {', '.join(sorted(not_allowed))} must be in allow, too")


def _read_retention(value: Any) -> Retention | None:
    """Return the retention."""

    # A table that names only days, or only runs, sets no limit on the other.
    if value is False:
        return None
    return Retention(**{"days": None, "runs": None, **value}) if value else Retention()


def _read_allowed_hosts(table: TomlFile) -> tuple[str, ...]:
    hosts = tuple(table.check_table(("network",), SECTIONS["network"]).get("allow", ()))
    if not hosts:
        return ()
    from .network import exemption  # few projects need it

    for host in hosts:
        try:
            exemption(host)
        except ConfigError as error:
            table.raise_at(("network", "allow"), f"[network] allow: {error}")
    return hosts


def _read_mcp_server(values: Mapping[str, Any]) -> McpServed:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    return McpServed(**fields)


def find_config_file(directory: Path) -> Path | None:
    """Return the nearest `ropewalk.toml`, from a directory upward, or None."""
    start = directory.resolve()  # the parents of a path with `..` are not those of the directory
    for parent in (start, *start.parents):
        file = parent / CONFIG_FILE
        if (parent == start or os.access(parent, os.X_OK)) and file_exists(file):
            return file
    return None


def _read_store_url(table: TomlFile, directory: Path, environ: Mapping[str, str]) -> str | None:
    """Return the address of the journal; a relative file is relative to the directory of `ropewalk.toml`."""
    override = environ.get("ROPEWALK_STORE")
    if override:
        return override
    url: str | None = table.check_table(("store",), SECTIONS["store"]).get("url")
    if url is None:
        return None
    try:
        url = fill_variables(url, environ)
    except KeyError as unset:
        table.raise_at(("store", "url"), f"[store] url: the environment variable {unset.args[0]} is not set")
    if url.lower() == "memory" or url.removeprefix("sqlite:///").startswith((":memory:", "file:")):
        return url  # memory, or an address that the store refuses when it is opened
    scheme, colon, address = url.partition("://")
    if not colon:
        return str(directory / url)
    if scheme == "sqlite" and address.startswith("/") and not address.startswith("//"):
        return f"sqlite:///{directory / address[1:]}"
    return url


_SIGNS: Final = frozenset("*?[")
DEFINITION_SUFFIXES: Final = (".yaml", ".yml", ".json")
EXPERIENCE_DOCUMENTS: Final = ("experience.yaml", "experience.yml", "experience.json")


def flow_files(directory: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the definitions that match patterns, each once, in the order of the patterns."""
    return list(dict.fromkeys(file for pattern in patterns for file in _files_of_pattern(directory, pattern)))


def _files_of_pattern(directory: Path, pattern: str) -> Iterator[Path]:
    """Yield the files of a pattern: the file itself, the definitions in a directory, or the matches of a glob."""
    path = directory / pattern
    if isdir(path):
        if is_experience(path) or not os.access(path, os.R_OK):
            yield path
            return
        for child in sorted(path.iterdir()):
            if not isdir(child):
                yield from _definitions_in(child)
            elif is_experience(child):
                yield child
    elif not _SIGNS.isdisjoint(pattern) and not isfile(path):
        for match in _matches(directory, pattern):
            files = list(_definitions_in(match))
            yield from files
            if not files and isdir(match):
                yield match
    else:
        yield from with_python_flows([path])


def with_python_flows(files: Iterable[Path]) -> list[Path]:
    """Return files, with the flows `FILE.py:NAME` of a Python file in place of it; one without flows stays."""
    return [each for file in files for each in (file.suffix == ".py" and list(_definitions_in(file))) or [file]]


def _definitions_in(file: Path) -> Iterator[Path]:
    """Yield the file of a document, and the place `FILE.py:NAME` of each flow in a Python file."""
    if file.suffix in DEFINITION_SUFFIXES:
        yield file
    elif file.suffix == ".py":
        for name in python_flows(file):
            yield Path(f"{file}:{name}")


def _matches(directory: Path, pattern: str) -> list[Path]:
    """Return the sorted matches of a glob."""
    parent, name = os.path.split(pattern)
    if "**" in name or not _SIGNS.isdisjoint(parent):
        return sorted(directory.glob(pattern))
    # One folder is listed without Path.glob, which takes four times as long; running servers do this every second.
    folder = directory / parent
    with suppress(OSError), os.scandir(folder) as entries:
        return [folder / each for each in sorted(filter_names((entry.name for entry in entries), name))]
    return []


def is_experience(path: Path) -> bool:
    """Return True for a directory with the document of an experience."""
    return any(isfile(path / name) for name in EXPERIENCE_DOCUMENTS)
