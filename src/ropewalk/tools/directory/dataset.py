"""Datasets: rows from a file of the directory, a SQLite query, a URL or a resource of an MCP server.

A source is an object with one of the keys in `SOURCES`. Files must be inside the directory. A SQLite file is opened for
reading, and only one SELECT is allowed, because ATTACH would reach other files. Values that are not JSON are refused.
To add a source, add a function that reads it to `SOURCES`, and its keys to
`notations/experience/nodes.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw

from ...config.network import AddressPolicy
from ...errors import ConfigError, InvalidValue
from ...values import MAX_BYTES, Json, check_json
from ..backends.http import AddressRefused, Http, HttpFailure, InvalidRequest, Request, check_url, policy_for
from ..backends.local import threads
from ..mcp.requests import ServerRefused
from .paths import PathError, find, read
from .rows import DatasetFailed, choose_format, parse_rows

_EXTRA_KEYS: Final = ("format", "query", "server", "method")
_METHODS: Final = ("GET", "POST")


class Datasets:
    """Reads the datasets of one directory."""

    def __init__(self, root: Path, index: Any = None) -> None:
        self._root, self._index = root, index
        network = getattr(index, "network", None)
        self._policy = network if isinstance(network, AddressPolicy) else AddressPolicy()

    async def read(self, source: Json) -> Json:
        """Read a source and return its rows, or any other JSON."""
        if type(source) is not dict or len(kinds := source.keys() & SOURCES.keys()) != 1:
            raise DatasetFailed(f"a dataset needs exactly one of {', '.join(SOURCES)}; this is {source!r:.200}")
        kind = kinds.pop()
        for key, value in source.items():
            if key == "body" and kind == "http":
                continue  # any JSON
            if key not in (kind, *_EXTRA_KEYS):
                raise DatasetFailed(f"unknown key {key!r} next to {kind}")
            if not isinstance(value, str):
                raise DatasetFailed(f"{key} must be a string, not {value!r:.200}")
        return await SOURCES[kind](self, source)

    async def _file(self, source: dict[str, str]) -> Json:
        path = source["file"]
        format = _choose_format(path, source)
        data = await threads.run(partial(read, self._root, path, MAX_BYTES))
        return await threads.run(partial(parse_rows, data, format, _display_path(path)))

    async def _sqlite(self, source: dict[str, str]) -> Json:
        if "query" not in source:
            raise DatasetFailed("a sqlite source needs a query")
        query = Query(find(self._root, source["sqlite"]), _display_path(source["sqlite"]), source["query"])
        try:
            return await threads.run(query.rows)
        finally:
            query.stop()  # frees the thread after a cancellation

    async def _http(self, source: dict[str, Any]) -> Json:
        url = check_url(source["http"], "dataset")
        method = source.get("method", _METHODS[0])
        if method not in _METHODS:
            raise DatasetFailed(f"{url}: method must be {' or '.join(_METHODS)}, not {method!r:.50}")
        http = Http({}, place="dataset", policy=policy_for(self._policy, url))
        try:
            has_body = method == "POST" and "body" in source  # a GET request never has a body
            request = Request(method=method, url=source["http"], json=source.get("body"), has_json=has_body)
            content_type, data = await http.read(request)
        except ConfigError:
            raise
        except (AddressRefused, InvalidRequest) as error:
            raise DatasetFailed(f"{url}: {error}") from error
        except HttpFailure as error:
            raise DatasetFailed(f"{url}: {error}", retryable=error.retryable) from error
        except Exception as error:
            raise DatasetFailed(f"{url}: {type(error).__name__}: {error}", retryable=True) from error
        finally:
            await http.close()
        format = _choose_format(url.partition("?")[0], source, content_type)
        return await threads.run(partial(parse_rows, data, format, url))

    async def _resource(self, source: dict[str, str]) -> Json:
        uri = source["mcp-resource"]
        if "server" not in source:
            raise DatasetFailed("an mcp-resource source needs a server")
        servers = getattr(self._index, "mcp", None)
        if servers is None:
            raise DatasetFailed(f"{uri}: there is no MCP server {source['server']!r}; none is configured")
        try:
            contents = await servers.read_resource(source["server"], uri)
        except ServerRefused as error:
            raise DatasetFailed(f"{uri}: {error}", retryable=error.retryable) from error
        values = [_content_value(content, uri, source) for content in contents]
        return values[0] if len(values) == 1 else values


SOURCES: Final[dict[str, Callable[[Datasets, dict[str, Any]], Awaitable[Json]]]] = {
    "file": Datasets._file, "sqlite": Datasets._sqlite, "http": Datasets._http, "mcp-resource": Datasets._resource,
}  # fmt: skip


def source_problem(root: Path, source: Json) -> tuple[str, str] | None:
    """Return the problem with a source's files and formats as (key, message), or None."""

    # Nothing is read.
    if type(source) is not dict:
        return None
    for key in ("file", "sqlite"):
        if isinstance(source.get(key), str):
            try:
                find(root, source[key])
            except PathError as error:
                return key, str(error)
    if isinstance(source.get("file"), str) and ("format" not in source or isinstance(source["format"], str)):
        try:
            _choose_format(source["file"], source)
        except DatasetFailed as error:
            return ("format" if "format" in source else "file"), str(error)
    return None


def _choose_format(name: str, source: dict[str, Any], kind: str = "") -> str:
    format = choose_format(_display_path(name), source.get("format"), kind)
    if format is None:
        raise DatasetFailed(
            f"{_display_path(name)}: the name does not show the format; set format to csv, json or jsonl"
        )
    return format


def _content_value(content: Any, uri: str, source: dict[str, str]) -> Json:
    text = getattr(content, "text", None)
    if not isinstance(text, str):
        raise DatasetFailed(f"{uri}: the resource is binary; only texts can be a dataset")
    format = choose_format(uri, source.get("format"), getattr(content, "mime_type", None) or "")
    return text if format is None else parse_rows(text.encode("utf-8", "surrogatepass"), format, uri)


def _display_path(path: str) -> str:
    return path.removeprefix("./")


_READ_OPERATIONS: Final = frozenset(
    (apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, getattr(apsw, "SQLITE_RECURSIVE", 33))
)
_BUSY_TIMEOUT_MS: Final = 5000


class Query:
    """One SQLite query."""

    # Run it in a thread; another thread can `stop` it.

    def __init__(self, file: Path, display: str, sql: str) -> None:
        self._file, self._display, self._sql = file, display, sql
        self._connection: apsw.Connection | None = None
        self._statements = 0
        self._stopped = False

    def stop(self) -> None:
        """Interrupt the query if it is in progress."""
        self._stopped = True
        if self._connection is not None:
            self._connection.interrupt()

    def rows(self) -> Json:
        """Return the rows as objects by column name."""

        # Raises DatasetFailed if the query fails.
        try:
            # Links were followed already; a link created since then is refused.
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW
            connection = apsw.Connection(str(self._file), flags=flags)
            try:
                connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
                connection.authorizer = _authorize_reading
                connection.exec_trace = self._allow_one_statement
                self._connection = connection
                return check_json(self._fetch_rows(connection), self._display)
            finally:
                self._connection = None
                connection.close()
        except InvalidValue as error:
            raise DatasetFailed(str(error)) from error
        except apsw.AuthError as error:
            raise DatasetFailed(f"{self._display}: the query may only read this file: {error}") from error
        except apsw.BusyError as error:
            raise DatasetFailed(f"{self._display}: {error}", retryable=True) from error
        except apsw.Error as error:
            raise DatasetFailed(f"{self._display}: {error}") from error

    def _allow_one_statement(self, cursor: Any, sql: str, bindings: Any) -> bool:
        self._statements += 1
        if self._statements > 1:
            raise DatasetFailed(f"{self._display}: the query has several statements; write one SELECT")
        if self._stopped:
            raise DatasetFailed(f"{self._display}: stopped")
        return True

    def _fetch_rows(self, connection: apsw.Connection) -> list[Json]:
        rows: list[Json] = []
        names: list[str] | None = None
        size = 0
        cursor = connection.cursor()
        for row in cursor.execute(self._sql):
            if names is None:
                names = _check_columns([str(column[0]) for column in cursor.get_description()], self._display)
            for name, value in zip(names, row, strict=True):
                if type(value) is bytes:
                    raise DatasetFailed(f"{self._display}: column {name} contains a blob; select hex({name})")
                size += len(value) if type(value) is str else 8
            if size > MAX_BYTES:
                raise DatasetFailed(f"{self._display}: the rows have more than {MAX_BYTES:,} bytes; select fewer")
            rows.append(dict(zip(names, row, strict=True)))
        return rows


def _check_columns(names: list[str], display: str) -> list[str]:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DatasetFailed(f"{display}: two columns of the query are named {name!r}; rename one with AS")
    return names


def _authorize_reading(operation: int, *_: str | None) -> int:
    return apsw.SQLITE_OK if operation in _READ_OPERATIONS else apsw.SQLITE_DENY
