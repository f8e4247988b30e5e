"""HTTP as the providers use it: one request, a bounded answer, errors that quote it.

http and https only. Redirects are not followed (they would carry headers elsewhere); a body is read up
to a limit; `${NAME}` or `${NAME:-default}` in a header is read from the environment at each request, so
that no secret has to stand in a configuration. `httpx2` is imported at the first request.
"""

from __future__ import annotations

import asyncio
import os
import re
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from ..config.secret import Secrets, secrets_of, without
from ..config.variables import fill
from ..errors import ConfigError, InvalidValue
from ..errors.foreign import with_type
from ..frozen import dataclass
from ..values import MAX_BYTES, Json, parsed
from .raw import MAX_TEXT, RawResult, UnusableResult, bounded

_EXCERPT: Final = 500
_NO_HEADER: Final = re.compile(r"[^\t\x20-\x7e]|\A\s|\s\Z")
_CONNECT_SECONDS: Final = 10.0
_WORTH_ANOTHER_TRY: Final = frozenset((408, 409, 425, 429))


class HttpFailure(Exception):
    """The provider answered with an error status, or with what is not JSON; `body` is an excerpt."""

    def __init__(self, text: str, status: int, body: str = "") -> None:
        self.status, self.body = status, body
        self.retryable = status >= 500 or status in _WORTH_ANOTHER_TRY
        super().__init__(f"{text}: {body}" if body else text)


class BrokenAnswer(HttpFailure, UnusableResult):
    """The provider carried out the request, but its answer cannot be read; `result` is what arrived of it."""

    def __init__(self, text: str, status: int, received: str, excerpt: str = "") -> None:
        super().__init__(text, status, excerpt)
        self.result = RawResult(False, text=bounded(received))


class CannotBeSent(ValueError):
    """What was asked for is no request that HTTP has; asking again changes nothing."""

    retryable = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; `json` is sent as a JSON body when `has_json`, `form` as a form."""

    method: str
    url: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Json = None
    has_json: bool = False
    form: Mapping[str, Any] | None = None


def checked_url(url: Any, place: str) -> str:
    """An http or https URL without its trailing slash; ConfigError for anything else."""
    if not isinstance(url, str):
        raise ConfigError(f"{place}: url must be a string, not {type(url).__qualname__}")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{place}: {url!r} is not an http or https URL")
    return url.rstrip("/")


def checked_headers(headers: Any, place: str) -> dict[str, str]:
    """Header names and values, both strings; ConfigError for anything else."""
    if headers is None:
        return {}
    if not isinstance(headers, dict) or not all(isinstance(x, str) for pair in headers.items() for x in pair):
        raise ConfigError(f"{place}: headers must map names to strings")
    return dict(headers)


class Http:
    """Clients kept open, one per event loop, for one provider."""

    def __init__(self, headers: Mapping[str, str], *, place: str, most_bytes: int = MAX_BYTES) -> None:
        self._headers = headers
        self._place = place
        self._most = most_bytes
        self._secrets = Secrets()
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    async def fetch(self, request: Request) -> Json:
        """The JSON of the answer: null for an empty one, the text of one that says it is text."""
        async with self._sent(request) as response:
            body = await self._read(response)
        if not body:
            return None
        found = self._value(response, body)
        return self._secrets.out_of(found) if self._secrets.are_in(body) else found

    def _value(self, response: Any, body: bytes) -> Json:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind.startswith("text/"):
            return body.decode(response.encoding or "utf-8", "replace")
        try:
            return parsed(body)
        except InvalidValue as error:
            raise self._broken(response, f"with a body that is {error.message}", body) from error
        except orjson.JSONDecodeError as error:
            excerpt = self._excerpt(body)
            raise self._broken(response, "with a body that is not JSON", body, excerpt) from error

    def _broken(self, response: Any, what: str, body: bytes, excerpt: str = "") -> BrokenAnswer:
        status = response.status_code
        return BrokenAnswer(f"HTTP {status} {what}", status, self._received(body), excerpt)

    def _received(self, body: bytes) -> str:
        return self._secrets.hidden(body[: 2 * MAX_TEXT].decode("utf-8", "replace"))

    async def read(self, request: Request) -> tuple[str, bytes]:
        """The answer as it is: (content type, body)."""
        async with self._sent(request) as response:
            body = await self._read(response)
            return response.headers.get("content-type", ""), self._secrets.out_of_bytes(body)

    @asynccontextmanager
    async def lines(self, request: Request) -> AsyncIterator[tuple[str, AsyncIterator[str]]]:
        """The answer line by line as it arrives: (content type, lines)."""
        async with self._sent(request) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            yield kind, self._lines(response)

    async def close(self) -> None:
        """Close the client of this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def _sent(self, request: Request) -> AsyncIterator[Any]:
        headers = {**self._headers, **request.headers}
        extra: dict[str, Any] = {}
        if request.has_json:
            extra["content"] = orjson.dumps(request.json)
            headers.setdefault("Content-Type", "application/json")
        if request.form is not None:
            extra["data"] = request.form
        if request.query:
            extra["params"] = request.query
        resolved = self._resolved(headers)
        client = self._client()
        import httpx2

        try:
            async with client.stream(request.method, request.url, headers=resolved, **extra) as response:
                if response.status_code >= 300:
                    await self._refuse(response)
                yield response
        except httpx2.TransportError as error:
            # Of the address only who is asked: the rest may hold what is secret.
            asked, said = urlsplit(request.url), self._secrets.hidden(with_type(error))
            host = asked.netloc.rpartition("@")[2]
            raise ConnectionError(f"{self._place} at {asked.scheme}://{host}: {said}") from error

    async def _refuse(self, response: Any) -> None:
        if response.status_code < 400:
            where = self._secrets.hidden(response.headers.get("location", "nowhere"))
            raise HttpFailure(
                f"HTTP {response.status_code}: redirects are not followed ({where})", response.status_code
            )
        body = b""
        async for part in response.aiter_bytes():
            body += part
            if len(body) >= 2 * _EXCERPT:  # a secret that goes over the end of the excerpt is seen, too
                break
        raise HttpFailure(
            f"HTTP {response.status_code} {response.reason_phrase}".rstrip(), response.status_code, self._excerpt(body)
        )

    async def _read(self, response: Any) -> bytes:
        import httpx2

        parts: list[bytes] = []
        size = 0
        try:
            async for part in response.aiter_bytes():
                size += len(part)
                parts.append(part)
                if size > self._most:
                    too_large = f"the answer is larger than {self._most:,} bytes"
                    raise BrokenAnswer(too_large, 413, self._received(b"".join(parts)))
        except httpx2.RequestError as error:
            # The status has arrived, so the provider carried out the request: this is no failure to connect.
            what = f"with a body that broke off after {size:,} bytes: {self._secrets.hidden(with_type(error))}"
            broken = self._broken(response, what, b"".join(parts))
            broken.retryable = True  # by itself; whether the call may be repeated is decided where the tool is known
            raise broken from error
        return b"".join(parts)

    async def _lines(self, response: Any) -> AsyncIterator[str]:
        async for line in response.aiter_lines():
            yield without(line, self._secrets.named)

    def _resolved(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers with their variables as they are now; what is secret of them is kept in mind."""
        read: dict[str, dict[str, str]] = {name: {} for name in headers}
        try:
            found = {name: fill(value, os.environ, read[name]) for name, value in headers.items()}
        except KeyError as unset:
            raise ConfigError(f"{self._place}: the environment variable {unset.args[0]} is not set") from None
        for name, value in found.items():
            if _NO_HEADER.search(value):
                why = "a header is one line of ASCII without spaces at its ends"
                raise CannotBeSent(f"{self._place}: the value of the header {name!r} cannot be sent: {why}")
        own = {name: value for name, value in found.items() if name in self._headers}
        self._secrets = secrets_of(own, read)
        return found

    def _excerpt(self, body: bytes) -> str:
        """The beginning of a body, for an error."""
        text = self._secrets.hidden(body.decode("utf-8", "replace")).strip()
        return text[:_EXCERPT] + "…" if len(text) > _EXCERPT else text

    def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            try:
                import httpx2
            except ImportError as error:
                raise ConfigError("HTTP providers need httpx2: install ropewalk[http]") from error
            # How long a call may take is the runner's to say; here only how long a host may stay silent at first.
            client = httpx2.AsyncClient(timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS))
            self._clients[loop] = client
        return client
