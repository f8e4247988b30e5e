"""The providers of a toolbox, by id; a Runner calls their tools here.

A provider is a configuration (a `url`, or an `openapi` document) or an object with
`call_tool(provider_id, tool_id, args)`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from ...errors import ConfigError, InvalidTool
from ...values import Json, did_you_mean
from ..definition import Definition
from ..signature import is_async
from ..source import Shelf, Source, prefix_of
from ..tool import Tool, ToolBackend
from ..vendor_tools import read_tool_list
from .http import Http, HttpFailure, Request, check_base_url, check_headers, check_url, policy_for
from .local import maybe_await, threads
from .openapi import OpenApiProvider, parse_fetched, read_openapi
from .openapi import document as document_reader
from .openapi.security import check_credentials, origin_of
from .provider import HttpProvider
from .route import executor_extras

_DOCUMENT_KEYS: Final = ("read_only", "include", "exclude", "rename", "server_variables", "credentials")
_CONFIG_KEYS: Final = frozenset(("url", "headers", "timeout", "tools", "openapi", *_DOCUMENT_KEYS))
_FETCH_TIMEOUT: Final = 30.0
_ALL_FETCH_TIMEOUT: Final = 60.0
"""Seconds for a document together with those that it refers to."""
_ACCEPT: Final = "application/json, application/yaml;q=0.9, */*;q=0.5"


class Providers(Source):
    """The providers by id."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._providers: dict[str, Any] = {}
        self._unfetched: dict[str, Callable[[], Awaitable[list[Tool]]]] = {}

    @property
    def names(self) -> Collection[str]:  # type: ignore[override]
        """The ids of all providers."""
        return self._providers

    def add(self, name: str, config: Any) -> None:
        """Add a provider, and register its tools unless its document must be fetched."""
        self._register(name, self._open(name, config))

    def _open(self, name: str, config: Any) -> list[Tool]:
        place = f"provider {name!r}"
        if name in self._providers:
            raise ConfigError(f"{place} exists already; choose another name")
        if not isinstance(config, dict):
            if not callable(getattr(config, "call_tool", None)):
                raise ConfigError(
                    f"{place}: must be a configuration or an object with call_tool, not {type(config).__name__}"
                )
            self._providers[name] = config
            return []
        for key in config:
            if key not in _CONFIG_KEYS:
                suggestion = did_you_mean(str(key), _CONFIG_KEYS)
                raise ConfigError(
                    f"{place}: unknown key {key!r}" + (f"; did you mean {suggestion}?" if suggestion else "")
                ).at_key(str(key))

        # Paths are appended to the url of a document, so it cannot have a query.
        headers = check_headers(config.get("headers"), place)
        annotations = {"timeout": config["timeout"]} if config.get("timeout") is not None else {}
        document = config.get("openapi")
        check = check_url if document is None else check_base_url
        url = check(config["url"], place) if config.get("url") is not None else None
        settings = _document_settings(config, place)

        # A document at an address is fetched when the toolbox connects.
        if document is not None:
            read_document = partial(self._take_document, name, url, headers, annotations, settings)
            try:
                if not isinstance(document, str) or not document.startswith(("http://", "https://")):
                    return read_document(None, document)
                self._providers[name] = None
                address = check_url(document, place)
            except ConfigError as error:
                raise error.at_key("openapi") from error.__cause__
            self._unfetched[name] = partial(
                self._fetch_document, address, headers, place, partial(read_document, address)
            )
            return []
        if url is None:
            raise ConfigError(f"{place} needs a url or an openapi document")
        if settings:
            key = next(iter(settings))
            raise ConfigError(f"{place}: {key} needs openapi; describe the tools in `tools` instead").at_key(key)
        try:
            entries = read_tool_list(config.get("tools") or ())
        except InvalidTool as error:
            raise ConfigError(f"{place}: {error}").at_key("tools") from error
        tools = [_configured_tool(name, tool, annotations, place) for tool in entries]
        self._providers[name] = HttpProvider(url, headers, place=place)
        return tools

    def is_listed(self, name: str) -> bool:
        """Return True for a provider with a document that has been read."""
        return isinstance(self._providers.get(name), OpenApiProvider)

    @property
    def documented(self) -> list[str]:
        """The providers with an OpenAPI document, fetched or not."""
        return [name for name in self._providers if name in self._unfetched or self.is_listed(name)]

    def definitions(self, name: str) -> list[Definition]:
        """Return the definitions in the document of a provider; empty without a document."""
        provider = self._providers.get(name)
        return provider.definitions() if isinstance(provider, OpenApiProvider) else []

    async def connect(self, tool_ids: Collection[str] | None = None) -> None:
        """Fetch the remote documents of these tools, or all, and register their tools."""
        asked = None if tool_ids is None else set(map(prefix_of, tool_ids))
        names = [name for name in self._unfetched if asked is None or name in asked]
        results = await asyncio.gather(*(self._unfetched[name]() for name in names), return_exceptions=True)
        failures = self._shelf.failures
        for name, answer in zip(names, results, strict=True):
            if isinstance(answer, BaseException):
                failures.record(name, answer, "openapi")
            else:
                self._unfetched.pop(name, None)
                failures.pop(name, None)
                self._register(name, answer)

    def executor(self, backend: ToolBackend) -> Providers:
        """Return the providers themselves."""
        return self

    def _register(self, name: str, tools: Iterable[Tool]) -> None:
        """Register a provider's tools, except those whose definition differs from the approved one."""
        shelf = self._shelf
        refused = {} if shelf.pins is None else shelf.pins.refused(name, self.definitions(name))
        for tool in tools:
            if tool.name in refused:
                shelf.failures[tool.id] = shelf.refused[tool.id] = refused[tool.name]
            else:
                shelf.register(tool)

    async def _fetch_document(
        self, address: str, headers: dict[str, str], place: str, read_document: Any
    ) -> list[Tool]:
        loop, room = asyncio.get_running_loop(), document_reader.MAX_BYTES
        http = Http(headers, place=place, max_bytes=room)
        deadline = loop.time() + _ALL_FETCH_TIMEOUT

        async def fetch(url: str) -> tuple[str, bytes]:
            nonlocal room
            try:
                async with asyncio.timeout(min(_FETCH_TIMEOUT, deadline - loop.time())):
                    kind, body = await http.read(Request(method="GET", url=url, headers={"Accept": _ACCEPT}))
            except TimeoutError as error:
                raise ConfigError(f"{place}: {_shown(url)} did not answer within {_FETCH_TIMEOUT:g} s") from error
            room -= len(body)
            if room < 0:
                raise ConfigError(f"{place}: its documents are larger than {document_reader.MAX_BYTES:,} bytes")
            return kind.partition(";")[0].strip().lower(), body

        def parse(answer: tuple[str, bytes], url: str) -> dict[str, Json]:
            kind, body = answer
            if kind == "text/html":
                message = f"{place}: openapi: {_shown(url)} is a page (text/html), not an OpenAPI document"
                raise ConfigError(
                    f"{message}; name the address of the document, such as {urljoin(_shown(url), '/openapi.json')}"
                )
            return parse_fetched(body, _shown(url), f"{place}: openapi")

        def fetch_from_thread(url: str) -> dict[str, Json]:
            try:
                return parse(asyncio.run_coroutine_threadsafe(fetch(url), loop).result(), url)
            except HttpFailure as error:
                raise ConfigError(f"{_answered(url, error)}") from error
            except (ConnectionError, ValueError) as error:
                raise ConfigError(f"{_shown(url)}: {error}") from error

        try:
            try:
                answer = await fetch(address)
            except HttpFailure as error:
                message = f"{place}: the OpenAPI document cannot be read: {_answered(address, error)}"
                raise ConfigError(message) from error
            # A large document takes seconds: a thread keeps the event loop free.
            tools: list[Tool] = await threads.run(lambda: read_document(parse(answer, address), fetch_from_thread))
        finally:
            await http.close()
        return tools

    def _take_document(
        self,
        name: str,
        url: str | None,
        headers: dict[str, str],
        annotations: dict[str, Json],
        settings: dict[str, Any],
        address: str | None,
        document: Any,
        fetch: Callable[[str], Any] | None = None,
    ) -> list[Tool]:
        """Read a document; `address` is where it was fetched from, None for one of the project."""
        place, policy = f"provider {name!r}", None
        own: dict[str, Any] = {"url": url, "address": address, "annotations": annotations, "headers": headers}
        api = read_openapi(document, name=name, fetch=fetch, **own, **settings)
        credentials = settings.get("credentials")
        if url is None and address is not None and origin_of(api.base) != origin_of(address):
            # A remote document chose this server: it must not get our headers or be in our network.
            if headers or credentials:
                server, fetched_from = (f"{o[0]}://{o[1]}" for o in (origin_of(api.base), origin_of(address)))
                problem = f"the document names the server {server}, but headers are only sent to {fetched_from}"
                raise ConfigError(f"{place}: openapi: {problem}; set url to the server that should get them")
            policy = policy_for(self._shelf.network, api.base)
        self._providers[name] = OpenApiProvider(api, headers, place=place, policy=policy, credentials=credentials)
        skipped = {f"{name}:{operation}": reason for operation, reason in api.skipped.items()}
        self._shelf.left_out.update(skipped)
        self._shelf.shortened.update({f"{name}:{tool}": what for tool, what in api.shortened.items()})
        excluded = {f"{name}:{operation}" for operation in api.excluded}
        self._shelf.failures.update({id: reason for id, reason in skipped.items() if id not in excluded})
        return list(api.tools)

    async def call_tool(
        self,
        provider_id: str,
        tool_id: str,
        args: dict[str, Json],
        *,
        key: str | None = None,
        timeout: float | None = None,
        on_progress: Callable[..., Any] | None = None,
    ) -> Any:
        """Call a tool of a provider."""

        # `key` is sent as the header Idempotency-Key; `timeout` is in seconds.
        provider = self._find(provider_id)
        if isinstance(provider, (HttpProvider, OpenApiProvider)):
            return await provider.call_tool(tool_id, args, key=key)
        extras = {"key": key, "timeout": timeout, "on_progress": on_progress}
        takes = executor_extras(provider.call_tool)
        accepted = {name: value for name, value in extras.items() if name in takes and value is not None}
        if is_async(provider.call_tool):
            return await provider.call_tool(provider_id, tool_id, args, **accepted)
        return await maybe_await(await threads.run(partial(provider.call_tool, provider_id, tool_id, args, **accepted)))

    async def call_tool_stream(
        self, provider_id: str, tool_id: str, args: dict[str, Json], *, key: str | None = None
    ) -> Any:
        """Call a tool and return its events; None if the provider does not stream."""
        provider = self._find(provider_id)
        if isinstance(provider, (HttpProvider, OpenApiProvider)):
            return await provider.call_tool_stream(tool_id, args, key=key)
        opener = getattr(provider, "call_tool_stream", None)
        return None if opener is None else await maybe_await(opener(provider_id, tool_id, args))

    async def close(self) -> None:
        """Close every provider."""
        for provider in self._providers.values():
            close: Callable[[], Awaitable[None] | None] | None = getattr(provider, "close", None)
            if close is not None:
                result = close()
                if inspect.isawaitable(result):
                    await result

    def _find(self, provider_id: str) -> Any:
        provider = self._providers.get(provider_id)
        if provider_id in self._unfetched:
            raise ConfigError(
                f"the openapi document of provider {provider_id!r} is not fetched yet; connect the toolbox first"
            )
        if provider is None:
            suggestion = did_you_mean(provider_id, self._providers)
            raise ConfigError(
                f"provider {provider_id!r} not found" + (f"; did you mean {suggestion}?" if suggestion else "")
            )
        return provider


def _shown(address: str) -> str:
    """Return an address without the parts that may be secret."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _answered(address: str, error: HttpFailure) -> str:
    """Return an address and what it answered, without a page for people."""
    body = "" if not error.body or error.body.startswith("<") else f": {error.body}"
    return f"{_shown(address)}: {error.text}{body}"


def _document_settings(config: dict[str, Any], place: str) -> dict[str, Any]:
    """Return what a configuration says about the operations of its document."""
    settings = {key: config[key] for key in _DOCUMENT_KEYS if config.get(key) is not None}
    for key in ("read_only", "include", "exclude"):
        names = settings.get(key, ())
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{place}: {key} must be a list of operation names, not {names!r:.200}").at_key(key)
    for key, what in (("rename", "operation names to names"), ("server_variables", "variables to texts")):
        table = settings.get(key, {})
        if not isinstance(table, dict) or not all(isinstance(text, str) for pair in table.items() for text in pair):
            raise ConfigError(f"{place}: {key} must map {what}, not {table!r:.200}").at_key(key)
    settings["credentials"] = check_credentials(settings.get("credentials"), place)
    return {key: value for key, value in settings.items() if value or value is False}


def _configured_tool(name: str, definition: dict[str, Any], annotations: dict[str, Json], place: str) -> Tool:
    """Make a Tool from an entry of `tools`."""
    try:
        return Tool(
            definition["name"],
            definition.get("description", ""),
            definition.get("inputSchema", {"type": "object"}),
            definition.get("outputSchema"),
            namespace=name,
            annotations={**annotations, **(definition.get("annotations") or {})} or None,
            backend=ToolBackend.provider(name, definition["name"]),
        )
    except InvalidTool as error:
        raise ConfigError(f"{place}: {error}").at_key("tools") from error
