"""HTTP as the providers use it: one request, a bounded answer, errors that quote it.

http and https only. Redirects are not followed (they would carry headers elsewhere); a body is read up
to a limit. `${NAME}` or `${NAME:-default}` in a configured header is read from the environment once, by itself: what
arguments and run ids hold is never expanded. A configured header wins over one that a request brings. `httpx2` is
imported at the first request.
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

from ..config.network import AddressPolicy
from ..config.secret import Secrets, secrets_of, without
from ..config.variables import fill
from ..errors import ConfigError, InvalidValue
from ..errors.foreign import with_type
from ..frozen import dataclass
from ..values import MAX_BYTES, Json, parsed
from .checked_transport import checked_transport
from .idempotency import hash_key
from .raw import MAX_TEXT, RawResult, UnusableResult, bounded

_EXCERPT: Final = 500
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_HEADER: Final = re.compile(r"[^\t\x20-\x7e]|\A\s|\s\Z")
_NO_ADDRESS: Final = re.compile(r"[\s\\\0-\x1f\x7f]")
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
    """One request; `json` is sent as a JSON body when `has_json`, `form` as a form, a hash of `key` as a header."""

    method: str
    url: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Json = None
    has_json: bool = False
    form: Mapping[str, Any] | None = None
    key: str | None = None


def checked_url(url: Any, place: str) -> str:
    """An http or https URL without its trailing slash; ConfigError for anything else."""
    if not isinstance(url, str):
        raise ConfigError(f"{place}: url must be a string, not {type(url).__qualname__}")
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:  # a port or an IPv6 address that is none
        wrong = True
    if wrong or _NO_ADDRESS.search(url):
        raise ConfigError(f"{place}: {url!r} is not an http or https URL")
    return url.rstrip("/")


def checked_base(url: Any, place: str) -> str:
    """An http or https URL that paths can be added to; ConfigError for one with a query or a fragment."""
    base = checked_url(url, place)
    if "?" in base or "#" in base:
        raise ConfigError(f"{place}: the url {url!r} must end before its query and fragment; put keys into headers")
    return base


def checked_headers(headers: Any, place: str) -> dict[str, str]:
    """Header names and values, both strings; ConfigError for anything else."""
    if headers is None:
        return {}
    if not isinstance(headers, dict) or not all(isinstance(x, str) for pair in headers.items() for x in pair):
        raise ConfigError(f"{place}: headers must map names to strings")
    for name in headers:
        if not is_header_name(name):
            raise ConfigError(f"{place}: {name!r} is not the name of a header")
    return dict(headers)


def is_header_name(name: str) -> bool:
    """Return True if HTTP allows a header of this name."""
    return _HEADER_NAME.fullmatch(name) is not None


class Http:
    """Clients kept open, one per event loop, for one provider.

    Args:
        headers: The configured headers, `${NAME}` unread. They are sent with every request.
        place: Who asks, for errors.
        base: Every request must have its scheme, host and port, and a path below its path; None: any address.
        policy: Which addresses may be connected to, where they come from data; None: any.
        most_bytes: The largest answer that is read.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        place: str,
        base: str | None = None,
        policy: AddressPolicy | None = None,
        most_bytes: int = MAX_BYTES,
    ) -> None:
        self._settings = headers
        self._own: dict[str, str] | None = None
        self._place = place
        self._base = base
        self._policy = policy
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
        headers = self._headers_of(request)
        client = self._client()
        import httpx2

        try:
            built = self._built(client, request, headers)
            response = await client.send(built, stream=True)
            try:
                if response.status_code >= 300:
                    await self._refuse(response)
                yield response
            finally:
                await response.aclose()
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

    def _built(self, client: Any, request: Request, headers: dict[str, str]) -> Any:
        """The request as it goes out; CannotBeSent where its address is not below the configured one."""
        import httpx2

        extra: dict[str, Any] = {}
        if request.has_json:
            extra["content"] = orjson.dumps(request.json)
        if request.form is not None:
            extra["data"] = request.form
        if request.query:
            extra["params"] = request.query
        try:
            built = client.build_request(request.method, request.url, headers=headers, **extra)
            base = None if self._base is None else httpx2.URL(self._base)
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise CannotBeSent(f"{self._place}: the address cannot be sent: {error}") from error
        if base is not None and not _is_below(base, built.url):
            raise CannotBeSent(
                f"{self._place}: the request would leave {base.scheme}://{base.netloc.decode()}{base.path}"
            )
        return built

    def _headers_of(self, request: Request) -> dict[str, str]:
        """The headers of a request. Names are compared without case, and the configured ones win."""
        own = self._configured()
        headers = {**request.headers}
        if request.has_json:
            headers["Content-Type"] = "application/json"
        if request.key is not None:
            headers = {name: value for name, value in headers.items() if name.lower() != "idempotency-key"}
            headers["Idempotency-Key"] = hash_key(request.key)
        configured = {name.lower() for name in own}
        headers = {name: value for name, value in headers.items() if name.lower() not in configured} | own
        for name, value in headers.items():
            if _NO_HEADER.search(value):
                why = "a header is one line of ASCII without spaces at its ends"
                raise CannotBeSent(f"{self._place}: the value of the header {name!r} cannot be sent: {why}")
        return headers

    def _configured(self) -> dict[str, str]:
        """The configured headers with their variables, read once; what is secret of them is kept in mind."""
        if self._own is None:
            read: dict[str, dict[str, str]] = {name: {} for name in self._settings}
            try:
                own = {name: fill(value, os.environ, read[name]) for name, value in self._settings.items()}
            except KeyError as unset:
                raise ConfigError(f"{self._place}: the environment variable {unset.args[0]} is not set") from None
            self._secrets = secrets_of(own, read)
            self._own = own
        return self._own

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
            timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
            if self._policy is None:
                client = httpx2.AsyncClient(timeout=timeout)
            else:
                transport = checked_transport(self._policy, _CONNECT_SECONDS)
                client = httpx2.AsyncClient(timeout=timeout, transport=transport, trust_env=False)
            self._clients[loop] = client
        return client


def _is_below(base: Any, url: Any) -> bool:
    """Return True if a URL has the scheme, host and port of another one and a path below its path."""
    same = (url.scheme, url.host, url.port, url.userinfo) == (base.scheme, base.host, base.port, base.userinfo)
    path = url.raw_path.partition(b"?")[0]
    root = base.raw_path.rstrip(b"/")
    steps = path[len(root) :].split(b"/")
    return same and path.startswith(root + b"/") and not any(step in (b".", b"..") for step in steps)
