"""Datasets: rows from a file of the directory, a SQLite file, a URL, a resource of an MCP server.

A source is an object with one of the keys in `SOURCES`. Files are only those inside the directory; SQLite files are
read, and their queries may do nothing else. To add a source, add a function that reads it to
`SOURCES`, and what a definition may say of it to `dialects/experience_nodes.py` and `experience.schema.json`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..config.network import AddressPolicy
from ..errors import ConfigError
from ..values import MAX_BYTES, Json
from .checked_transport import AddressRefused, policy_for
from .http import CannotBeSent, Http, HttpFailure, Request, checked_url
from .inside import WrongPath, find, read
from .local import threads
from .mcp_request import ServerRefused
from .rows import DatasetFailed, format_of, rows_of

_WORDS: Final = ("format", "query", "server", "method")
_METHODS: Final = ("GET", "POST")


class Datasets:
    """Reads the datasets of one directory; `index` is a Toolbox, or None: its MCP servers have the resources.

    The address of an http source is data, as it is a part of a definition: its policy is the toolbox's.
    """

    def __init__(self, root: Path, index: Any = None) -> None:
        self._root, self._index = root, index
        network = getattr(index, "network", None)
        self._policy = network if isinstance(network, AddressPolicy) else AddressPolicy()

    async def read(self, source: Json) -> Json:
        """What a source gives, checked; DatasetFailed, WrongPath or ConfigError says why it does not."""
        if type(source) is not dict or len(found := source.keys() & SOURCES.keys()) != 1:
            raise DatasetFailed(f"a dataset comes from one of {', '.join(SOURCES)}; this is {source!r:.200}")
        kind = found.pop()
        for key, value in source.items():
            if key == "body" and kind == "http":
                continue  # any JSON
            if key not in (kind, *_WORDS):
                raise DatasetFailed(f"unknown key {key!r} beside {kind}")
            if not isinstance(value, str):
                raise DatasetFailed(f"{key} must be a text, not {value!r:.200}")
        return await SOURCES[kind](self, source)

    async def _file(self, source: dict[str, str]) -> Json:
        path = source["file"]
        format = _format(path, source)
        data = await threads.run(partial(read, self._root, path, MAX_BYTES))
        return await threads.run(partial(rows_of, data, format, _shown(path)))

    async def _sqlite(self, source: dict[str, str]) -> Json:
        from .query import Query  # SQLite is loaded for those who ask it

        if "query" not in source:
            raise DatasetFailed("a sqlite source has a query")
        query = Query(find(self._root, source["sqlite"]), _shown(source["sqlite"]), source["query"])
        try:
            return await threads.run(query.rows)
        finally:
            query.stop()  # where we are cancelled, the thread is let go

    async def _http(self, source: dict[str, Any]) -> Json:
        url = checked_url(source["http"], "dataset")
        method = source.get("method", _METHODS[0])
        if method not in _METHODS:
            raise DatasetFailed(f"{url}: the method of a dataset is {' or '.join(_METHODS)}, not {method!r:.50}")
        http = Http({}, place="dataset", policy=policy_for(self._policy, url))
        try:
            sent = method == "POST" and "body" in source  # a GET request has no body, whatever the definition says
            request = Request(method=method, url=source["http"], json=source.get("body"), has_json=sent)
            kind, data = await http.read(request)
        except ConfigError:
            raise
        except (AddressRefused, CannotBeSent) as error:
            raise DatasetFailed(f"{url}: {error}") from error
        except HttpFailure as error:
            raise DatasetFailed(f"{url}: {error}", retryable=error.retryable) from error
        except Exception as error:
            raise DatasetFailed(f"{url}: {type(error).__name__}: {error}", retryable=True) from error
        finally:
            await http.close()
        format = _format(url.partition("?")[0], source, kind)
        return await threads.run(partial(rows_of, data, format, url))

    async def _resource(self, source: dict[str, str]) -> Json:
        uri = source["mcp-resource"]
        if "server" not in source:
            raise DatasetFailed("an mcp-resource source has a server")
        servers = getattr(self._index, "mcp", None)
        if servers is None:
            raise DatasetFailed(f"{uri}: there is no MCP server {source['server']!r}; none is configured")
        try:
            found = await servers.read_resource(source["server"], uri)
        except ServerRefused as error:
            raise DatasetFailed(f"{uri}: {error}", retryable=error.retryable) from error
        contents = [_content(one, uri, source) for one in found]
        return contents[0] if len(contents) == 1 else contents


SOURCES: Final[dict[str, Callable[[Datasets, dict[str, Any]], Awaitable[Json]]]] = {
    "file": Datasets._file, "sqlite": Datasets._sqlite, "http": Datasets._http, "mcp-resource": Datasets._resource,
}  # fmt: skip


def source_problem(root: Path, source: Json) -> tuple[str, str] | None:
    """What is wrong with the files and formats that a source names: (key, message), or None. Reads nothing."""
    if type(source) is not dict:
        return None
    for key in ("file", "sqlite"):
        if isinstance(source.get(key), str):
            try:
                find(root, source[key])
            except WrongPath as wrong:
                return key, str(wrong)
    if isinstance(source.get("file"), str) and ("format" not in source or isinstance(source["format"], str)):
        try:
            _format(source["file"], source)
        except DatasetFailed as wrong:
            return ("format" if "format" in source else "file"), str(wrong)
    return None


def _format(name: str, source: dict[str, Any], kind: str = "") -> str:
    found = format_of(_shown(name), source.get("format"), kind)
    if found is None:
        raise DatasetFailed(f"{_shown(name)}: its name does not tell the format; say format: csv, json or jsonl")
    return found


def _content(content: Any, uri: str, source: dict[str, str]) -> Json:
    text = getattr(content, "text", None)
    if not isinstance(text, str):
        raise DatasetFailed(f"{uri}: the resource is binary; only texts can be a dataset")
    format = format_of(uri, source.get("format"), getattr(content, "mime_type", None) or "")
    return text if format is None else rows_of(text.encode("utf-8", "surrogatepass"), format, uri)


def _shown(path: str) -> str:
    return path.removeprefix("./")
