"""Every provider of a toolbox, by id: the executor that a Runner asks.

A provider is a configuration (`url`, or an `openapi` document) or an executor of one's own with
`call_tool(provider_id, tool_id, args)`. Refused: unknown keys, and ids nobody added.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from ..config.network import AddressPolicy
from ..errors import ConfigError, InvalidTool
from ..source import render
from ..values import Json, closest
from .checked_transport import policy_for
from .http import Http, Request, checked_base, checked_headers, checked_url
from .local import maybe_await, threads
from .mcp_definition import Definition
from .openapi import OpenApiProvider, read_openapi
from .openapi_schema import fetched
from .provider import HttpProvider
from .route import executor_extras
from .signature import is_async
from .tool import Tool, ToolBackend

_KEYS: Final = frozenset(("url", "headers", "timeout", "tools", "openapi", "read_only"))
_FETCH_SECONDS: Final = 30.0
_ACCEPT: Final = "application/json, application/yaml;q=0.9, */*;q=0.5"


class Providers:
    """Routes a provider's call to the one of that id; `skipped` says which operations were not taken.

    Args:
        policy: Which addresses may be connected to that a fetched OpenAPI document names.
    """

    def __init__(self, policy: AddressPolicy | None = None) -> None:
        self._policy = AddressPolicy() if policy is None else policy
        self._known: dict[str, Any] = {}
        self._waiting: dict[str, Callable[[], Awaitable[list[Tool]]]] = {}
        self.skipped: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        return [*self._known, *(name for name in self._waiting if name not in self._known)]

    def add(self, name: str, config: Any) -> list[Tool]:
        """Add a provider and give its tools, each with its backend; ConfigError says what is wrong."""
        place = f"provider {name!r}"
        if name in self._known:
            raise ConfigError(f"{place} is there already")
        if not isinstance(config, dict):
            if not callable(getattr(config, "call_tool", None)):
                raise ConfigError(f"{place}: a configuration or an object with call_tool, not {type(config).__name__}")
            self._known[name] = config
            return []
        for key in config:
            if key not in _KEYS:
                near = closest(str(key), _KEYS)
                raise ConfigError(f"{place}: unknown key {key!r}" + (f"; did you mean {near}?" if near else ""))
        headers = checked_headers(config.get("headers"), place)
        annotations = {"timeout": config["timeout"]} if config.get("timeout") is not None else {}
        document = config.get("openapi")
        check = checked_url if document is None else checked_base
        url = check(config["url"], place) if config.get("url") is not None else None
        read_only = _texts(config.get("read_only"), place)
        if document is not None:
            take = partial(self._take_document, name, url, headers, annotations, read_only)
            if isinstance(document, str) and document.startswith(("http://", "https://")):
                self._known[name] = None
                address = checked_url(document, place)
                self._waiting[name] = partial(self._fetch, address, headers, place, partial(take, address))
                return []
            return take(None, document)
        if url is None:
            raise ConfigError(f"{place} needs a url or an openapi document")
        if read_only:
            raise ConfigError(f"{place}: read_only goes with openapi; a tool in `tools` has annotations of its own")
        tools = [_listed(name, one, annotations, place) for one in config.get("tools") or ()]
        self._known[name] = HttpProvider(url, headers, place=place)
        return tools

    @property
    def listed(self) -> list[str]:
        """The providers that have said which tools there are."""
        return [name for name, known in self._known.items() if isinstance(known, OpenApiProvider)]

    @property
    def documented(self) -> list[str]:
        """The providers whose tools are what an OpenAPI document says, fetched or not."""
        return [
            name for name, known in self._known.items() if name in self._waiting or isinstance(known, OpenApiProvider)
        ]

    def definitions(self, name: str) -> list[Definition]:
        """What the document of a provider says of its tools, for pins; nothing where there is none."""
        known = self._known.get(name)
        return known.definitions() if isinstance(known, OpenApiProvider) else []

    async def fetch(self) -> dict[str, list[Tool] | str]:
        """Fetch the documents that are elsewhere: by provider its tools, or why there are none."""
        names = list(self._waiting)
        found = await asyncio.gather(*(self._waiting[name]() for name in names), return_exceptions=True)
        answers: dict[str, list[Tool] | str] = {}
        for name, answer in zip(names, found, strict=True):
            if isinstance(answer, ConfigError):
                answers[name] = "\n".join(map(render, answer.problems))
            elif isinstance(answer, BaseException):
                answers[name] = str(answer) or type(answer).__name__
            else:
                answers[name] = answer
                del self._waiting[name]
        return answers

    async def _fetch(self, address: str, headers: dict[str, str], place: str, take: Any) -> list[Tool]:
        http = Http(headers, place=place)
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                _, body = await http.read(Request(method="GET", url=address, headers={"Accept": _ACCEPT}))
        except TimeoutError as error:
            raise ConfigError(f"{place}: {address} gave no document within {_FETCH_SECONDS:g} s") from error
        finally:
            await http.close()
        shown = urlsplit(address)  # what else is in an address may be secret
        name = f"{shown.scheme}://{shown.netloc.rpartition('@')[2]}{shown.path}"
        tools: list[Tool] = take(fetched(body, name, f"{place}: openapi"))
        return tools

    def _take_document(
        self,
        name: str,
        url: str | None,
        headers: dict[str, str],
        annotations: dict[str, Json],
        read_only: tuple[str, ...],
        address: str | None,
        document: Any,
    ) -> list[Tool]:
        """Read a document; `address` is where it was fetched, None for one of the project."""
        place, policy = f"provider {name!r}", None
        api = read_openapi(document, name=name, url=url, annotations=annotations, headers=headers, read_only=read_only)
        if url is None and address is not None and _origin(api.base) != _origin(address):
            # The server is what a stranger wrote, so it gets no header of ours and may not be in our network.
            if headers:
                server, own = (f"{o[0]}://{o[1]}" for o in (_origin(api.base), _origin(address)))
                said = f"the document names the server {server}, and headers are only sent to {own}"
                raise ConfigError(f"{place}: openapi: {said}; set url to the server that should get them")
            policy = policy_for(self._policy, api.base)
        self._known[name] = OpenApiProvider(api, headers, place=place, policy=policy)
        self.skipped.update({f"{name}:{operation}": why for operation, why in api.skipped.items()})
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
        """One call. `key` goes along as the header Idempotency-Key."""
        found = self._find(provider_id)
        if isinstance(found, (HttpProvider, OpenApiProvider)):
            return await found.call_tool(tool_id, args, key=key)
        extras = {"key": key, "timeout": timeout, "on_progress": on_progress}
        takes = executor_extras(found.call_tool)
        wanted = {name: value for name, value in extras.items() if name in takes and value is not None}
        if is_async(found.call_tool):
            return await found.call_tool(provider_id, tool_id, args, **wanted)
        return await maybe_await(await threads.run(partial(found.call_tool, provider_id, tool_id, args, **wanted)))

    async def call_tool_stream(
        self, provider_id: str, tool_id: str, args: dict[str, Json], *, key: str | None = None
    ) -> Any:
        """The events of one call, or None where this provider does not stream."""
        found = self._find(provider_id)
        if isinstance(found, (HttpProvider, OpenApiProvider)):
            return await found.call_tool_stream(tool_id, args, key=key)
        opener = getattr(found, "call_tool_stream", None)
        return None if opener is None else await maybe_await(opener(provider_id, tool_id, args))

    async def close(self) -> None:
        """Close what every provider holds open."""
        for found in self._known.values():
            close: Callable[[], Awaitable[None] | None] | None = getattr(found, "close", None)
            if close is not None:
                result = close()
                if inspect.isawaitable(result):
                    await result

    def _find(self, provider_id: str) -> Any:
        found = self._known.get(provider_id)
        if provider_id in self._waiting:
            raise ConfigError(f"the openapi document of provider {provider_id!r} is not fetched yet: connect first")
        if found is None:
            near = closest(provider_id, self._known)
            raise ConfigError(f"provider {provider_id!r} not found" + (f"; did you mean {near}?" if near else ""))
        return found


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _texts(given: Any, place: str) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, (list, tuple)) or not all(isinstance(one, str) for one in given):
        raise ConfigError(f"{place}: read_only must be a list of names of operations, not {given!r:.200}")
    return tuple(given)


def _listed(name: str, given: Any, annotations: dict[str, Json], place: str) -> Tool:
    """A tool of the `tools` list: `{name, description, inputSchema, outputSchema?}`."""
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise ConfigError(f"{place}: tools are objects with a name, a description and an inputSchema")
    takes: Any = given.get("inputSchema", given.get("input_schema", {"type": "object"}))
    try:
        return Tool(
            given["name"],
            given.get("description", ""),
            takes,
            given.get("outputSchema", given.get("output_schema")),
            namespace=name,
            annotations={**annotations, **(given.get("annotations") or {})} or None,
            backend=ToolBackend.provider(name, given["name"]),
        )
    except InvalidTool as error:
        raise ConfigError(f"{place}: {error}") from error
