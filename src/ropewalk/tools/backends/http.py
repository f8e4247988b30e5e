"""HTTP for providers: requests with size limits, checked addresses and secrets masked; and the rate limiter.

Only http and https are allowed. Redirects are not followed, because they would carry headers elsewhere. `${NAME}` and
`${NAME:-default}` in a configured header are read from the environment once; arguments and run ids are never
expanded. A configured header wins over one of the request. `httpx2` is imported at the first request.

An address that comes from data is checked, and the connection goes to the checked address: the name is resolved once
per request, so a later change of its address has no effect. TLS still verifies the name. Proxies are not used for
these requests, because they would resolve the name again.

RateLimiter lets calls of a tool wait for their turn. Each limit is one queue for all tools whose id matches its
pattern (`github:*`, `fetch`), in this process or shared by many. The wait does not count for the call's timeout.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

import orjson

from ...config.network import AddressPolicy
from ...config.secrets import Secrets, redact_text, secrets_of
from ...config.settings import Rate, fill_variables
from ...errors import ConfigError, StackTrace, describe_exception
from ...fast_dataclass import dataclass
from ...values import MAX_BYTES, Json
from ..raw_result import MAX_TEXT, RawResult, UnusableResult, bounded
from ..signature import hash_key
from .http_answers import read_answer, retry_after

if TYPE_CHECKING:
    import httpx2

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class AddressRefused(ValueError):
    """The address is loopback, private or otherwise not public, and the settings do not allow it."""

    retryable = False


def policy_for(policy: AddressPolicy, url: str) -> AddressPolicy | None:
    """Return the policy for a URL that comes from data; None where the settings name its host."""
    parts = urlsplit(url)
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    return None if policy.allows_host(parts.hostname or "", port) else policy


def make_checked_transport(policy: AddressPolicy, connect_seconds: float) -> Any:
    """Return a transport for httpx2 that connects only to addresses which the policy allows."""
    import httpx2

    class CheckedTransport(httpx2.AsyncBaseTransport):
        def __init__(self) -> None:
            # One pool per name: a connection that was verified for one name never serves another one.
            self._pools: dict[str, httpx2.AsyncHTTPTransport] = {}

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            host = request.url.host
            port = request.url.port or _DEFAULT_PORTS[request.url.scheme]
            addresses = await _allowed_addresses(policy, host, port, connect_seconds)
            pool = self._pools.setdefault(host, httpx2.AsyncHTTPTransport())
            for address in addresses[:-1]:
                try:
                    return await pool.handle_async_request(_with_address(request, address))
                except (httpx2.ConnectError, httpx2.ConnectTimeout):
                    continue  # nothing was sent yet; the name has another address
            return await pool.handle_async_request(_with_address(request, addresses[-1]))

        async def aclose(self) -> None:
            for pool in self._pools.values():
                await pool.aclose()

    return CheckedTransport()


def _with_address(request: httpx2.Request, address: str) -> httpx2.Request:
    """Return a request that goes to an IP address."""

    # `Host` header and TLS verification keep the original name.
    import httpx2

    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )


async def _allowed_addresses(policy: AddressPolicy, host: str, port: int, seconds: float) -> list[str]:
    """Resolve a name and return the addresses that the policy allows."""

    # Raises AddressRefused if there are none.
    import httpx2

    try:
        async with asyncio.timeout(seconds):
            infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError as error:
        raise httpx2.ConnectTimeout(f"could not resolve {host!r} within {seconds:g} s") from error
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(f"could not resolve {host!r}: {error}") from error
    addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    refused = {address: policy.refusal(address, port) for address in addresses}
    allowed = [address for address in addresses if refused[address] is None]
    if not allowed:
        address, kind = next(iter(refused.items()))
        subject = f"{host} is" if host == address else f"{host} is at {address},"
        raise AddressRefused(
            f"{subject} a {kind} address; addresses from documents and arguments must be public; to allow it, "
            "add it to [network] allow in ropewalk.toml"
        )
    return allowed


_MAX_EXCERPT: Final = 500
_MAX_BODY: Final = 4_000
"""Characters of an answer that the record of a failure has."""
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_INVALID_HEADER_VALUE: Final = re.compile(r"[^\t\x20-\x7e]|\A\s|\s\Z")
_INVALID_URL_CHARACTER: Final = re.compile(r"[\s\\\0-\x1f\x7f]")
_CONNECT_SECONDS: Final = 10.0
_PACED_STATUSES: Final = (429, 503)
"""Statuses whose `Retry-After` says when to send the request again."""
_ADDRESS_STATUSES: Final = (404, 405)
"""Statuses that a wrong address has."""
_TOKEN_SECONDS: Final = 30.0
_MAX_TOKEN_BYTES: Final = 1_000_000
_TOKEN_ERRORS: Final = frozenset(
    ("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
     "invalid_scope", "invalid_target", "access_denied", "server_error", "temporarily_unavailable", "slow_down")
)  # fmt: skip
"""The errors of OAuth. Any other text of a token answer may contain a secret."""
_MEDIA_TYPE: Final = re.compile(r"[\w.+-]{1,40}/[\w.+-]{1,60}")
_RETRYABLE_STATUSES: Final = frozenset((408, 409, 425, 429))


REFUSED_HEADERS: Final = frozenset(
    ("connection", "content-length", "cookie", "expect", "forwarded", "host", "keep-alive", "proxy-authenticate",
     "proxy-authorization", "proxy-connection", "set-cookie", "te", "trailer", "transfer-encoding", "upgrade")
)  # fmt: skip
"""Headers that control where a request goes and where it ends; no argument or API key may set them."""


class HttpFailure(Exception):
    """The provider answered with an error status, or not with JSON; `body` is an excerpt of the answer."""

    # `received`: More of the answer, for the record of the failure. `address`: Where the request was sent. The message
    # rarely has it: failures are counted by their messages, and paths contain ids.

    def __init__(self, text: str, status: int, body: str = "", received: str = "", address: str = "") -> None:
        self.status, self.body = status, body
        self.text = text
        # The seconds after which the provider wants the request again; None if it does not say.
        self.retry_after: float | None = None
        self.trace = StackTrace(address or None, f"{text}\n\n{received or body}" if received or body else None)
        self.retryable = status >= 500 or status in _RETRYABLE_STATUSES
        # Where nothing answers to a path or a method, the configured address may be wrong.
        source = f" from {address}" if address and status in _ADDRESS_STATUSES else ""
        super().__init__(f"{text}{source}: {body}" if body else f"{text}{source}")


class BrokenResponse(HttpFailure, UnusableResult):
    """The provider carried out the request, but its answer is not readable; `result` is the received part."""

    def __init__(self, text: str, status: int, received: str, address: str) -> None:
        super().__init__(text, status, "", received[:_MAX_BODY], address)
        self.result = RawResult(False, text=bounded(received))


class ConnectionFailed(ConnectionError):
    """The provider could not be reached, or the connection broke; `trace` has the address of the request."""

    def __init__(self, text: str, address: str) -> None:
        self.trace = StackTrace(address, None)
        super().__init__(text)


class InvalidRequest(ValueError):
    """The arguments do not make a valid HTTP request; a retry would fail as well."""

    retryable = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A credential of the settings, and its place in a request."""

    # header, query or cookie.
    where: str
    name: str
    # Return the text to send, from the filled-in settings of credentials.
    text: Callable[[Mapping[str, str]], str]
    # The URL that gives a token for `client_id` and `client_secret`, and the scopes; None sends `text` at once.
    token_url: str | None = None
    scope: str = ""
    # The key of the setting.
    credential: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """An HTTP request."""

    # The method, in upper case.
    method: str
    url: str
    # The query, encoded, without its question mark.
    query: str = ""
    # Headers; configured ones override them.
    headers: Mapping[str, str] = field(default_factory=dict)
    # The JSON body, sent if `has_json`.
    json: Json = None
    has_json: bool = False
    # Another body and its media type; None for no body.
    content: tuple[bytes, str] | None = None
    # The credentials to send.
    credentials: tuple[Placement, ...] = ()
    # The idempotency key; its hash becomes the header Idempotency-Key.
    key: str | None = None
    # The answer may be a page of HTML; for any other request a page is unusual.
    expects_page: bool = False


def check_url(url: Any, place: str) -> str:
    """Return an http or https URL without its trailing slash."""

    # Raises ConfigError for anything else.
    if not isinstance(url, str):
        raise ConfigError(f"{place}: url must be a string, not {type(url).__qualname__}")
    try:
        parts = urlsplit(url)
        is_invalid = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
    except ValueError:  # an invalid port or IPv6 address
        is_invalid = True
    if is_invalid or _INVALID_URL_CHARACTER.search(url):
        raise ConfigError(f"{place}: {url!r} is not an http or https URL")
    return url.rstrip("/")


def check_base_url(url: Any, place: str) -> str:
    """Return an http or https URL to which paths can be added."""

    # Raises ConfigError if it has a query or a fragment.
    base = check_url(url, place)
    if "?" in base or "#" in base:
        raise ConfigError(f"{place}: the url {url!r} must end before its query and fragment; put keys into headers")
    return base


def check_headers(headers: Any, place: str) -> dict[str, str]:
    """Return headers as a dict."""

    # Raises ConfigError unless names and values are valid strings.
    if headers is None:
        return {}
    if not isinstance(headers, dict) or not all(isinstance(x, str) for pair in headers.items() for x in pair):
        raise ConfigError(f"{place}: headers must map names to strings").at_key("headers")
    for name in headers:
        if not is_header_name(name):
            raise ConfigError(f"{place}: {name!r} is not the name of a header").at_key("headers", name)
    return dict(headers)


def is_header_name(name: str) -> bool:
    """Return True if HTTP allows a header of this name."""
    return _HEADER_NAME.fullmatch(name) is not None


class Http:
    """The HTTP clients of one provider, one per event loop."""

    # `base`: Every request must have its scheme, host and port, and a path below its path; None allows any address.
    # `max_bytes`: The largest answer, in bytes.

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        place: str,
        base: str | None = None,
        policy: AddressPolicy | None = None,
        max_bytes: int = MAX_BYTES,
        credentials: Mapping[str, str] | None = None,
    ) -> None:
        self._header_settings = headers
        # Under names that say that they are secret; variables in them are filled in with those of the headers.
        self._credential_settings = {f"{name} secret": value for name, value in (credentials or {}).items()}
        self._credentials: dict[str, str] = {}
        self._tokens: dict[tuple[str, str, str], tuple[str, float]] = {}  # by URL, client and scopes
        self._configured_headers: dict[str, str] | None = None
        self._place = place
        self._base = base
        self._policy = policy
        self._max_bytes = max_bytes
        self._secrets = Secrets()
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    async def fetch(self, request: Request) -> Json:
        """Send a request and return its answer."""
        async with self._send(request) as response:
            body = await self._read(response)
        if not body:
            return None
        kind = response.headers.get("content-type", "")
        address = None if request.expects_page else self._shown(request.url)
        return read_answer(body, kind, self._secrets if self._secrets.are_in(body) else None, address=address)

    def _shown(self, url: str) -> str:
        """Return an address for messages: without user, query and secrets."""
        parts = urlsplit(url)
        return self._secrets.redact_error(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")

    def _address(self, method: str, url: str) -> str:
        return f"{method} {self._shown(url)}"

    def _broken_response(self, response: Any, text: str, status: int, body: bytes) -> BrokenResponse:
        address = self._address(response.request.method, str(response.request.url))
        return BrokenResponse(text, status, self._text_without_secrets(body), address)

    def _text_without_secrets(self, body: bytes) -> str:
        return self._secrets.redact_error(body[: 2 * MAX_TEXT].decode("utf-8", "replace"))

    async def read(self, request: Request) -> tuple[str, bytes]:
        """Send a request and return the content type and the body of the answer."""
        async with self._send(request) as response:
            body = await self._read(response)
            return response.headers.get("content-type", ""), self._secrets.redact_bytes(body)

    @asynccontextmanager
    async def lines(self, request: Request) -> AsyncIterator[tuple[str, AsyncIterator[str]]]:
        """Send a request; yield the content type and the lines of the answer as they arrive."""
        async with self._send(request) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            yield kind, self._lines(response)

    async def close(self) -> None:
        """Close the client of this event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[Any]:
        headers = self._headers_of(request)
        client = self._client()
        import httpx2

        try:
            if request.credentials:
                request = await self._with_credentials(client, request, headers)
            built = self._build(client, request, headers)
            response = await client.send(built, stream=True)
            try:
                if response.status_code == 401:
                    self._tokens.clear()  # the next call gets a new one
                if response.status_code >= 300:
                    await self._refuse(request, response)
                yield response
            finally:
                await response.aclose()
        except httpx2.TransportError as error:
            message = f"{self._server(request.url)}: {self._reason(error)}"
            raise ConnectionFailed(message, self._address(request.method, request.url)) from error
        except asyncio.CancelledError as error:
            error.add_note(f"{self._server(request.url)} was still to answer")  # for the error of the call's timeout
            raise

    def _server(self, url: str) -> str:
        """Return the provider with scheme, host and port of an address; the rest may contain secrets and ids."""
        parts = urlsplit(url)
        return f"{self._place} at {parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def _reason(self, error: BaseException) -> str:
        """Describe a failure of the connection, with the reason of the operating system if httpx2 leaves it out."""
        text, last = describe_exception(error), error
        while (cause := last.__cause__ or last.__context__) is not None:
            last = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause
        # Errors of TLS and of names have numbers of their own, and httpx2 has their text.
        if isinstance(last, OSError) and type(last).__module__ == "builtins" and last.errno:
            text += f" ({os.strerror(last.errno)})"
        return self._secrets.redact_error(text)

    async def _refuse(self, request: Request, response: Any) -> None:
        address = self._address(request.method, request.url)
        if response.status_code < 400:
            where = self._secrets.redact_error(response.headers.get("location", "nowhere"))
            text = f"HTTP {response.status_code}: redirects are not followed ({where})"
            raise HttpFailure(text, response.status_code, address=address)
        body = b""
        async for part in response.aiter_bytes():
            body += part
            if len(body) >= 2 * _MAX_BODY:  # enough to mask a secret across the end of the excerpt
                break
        status = f"HTTP {response.status_code} {response.reason_phrase}".rstrip()
        if response.status_code == 401 and (sent := [each.credential for each in request.credentials]):
            status += f"; sent: {', '.join(f'credentials.{name}' for name in sent)}"
        excerpt, received = self._excerpt(body), self._excerpt(body, _MAX_BODY)
        failure = HttpFailure(status, response.status_code, excerpt, received, address)
        if response.status_code in _PACED_STATUSES:
            failure.retry_after = retry_after(response.headers.get("retry-after"))
        raise failure

    async def _read(self, response: Any) -> bytes:
        import httpx2

        parts: list[bytes] = []
        size = 0
        try:
            async for part in response.aiter_bytes():
                size += len(part)
                parts.append(part)
                if size > self._max_bytes:
                    message = f"the answer is larger than {self._max_bytes:,} bytes, the limit"
                    raise self._broken_response(response, message, 413, b"".join(parts))
        except httpx2.RequestError as error:
            # The status has arrived, so the provider carried out the request: it is not a connection failure.
            what = f"with a body cut off after {size:,} bytes: {self._reason(error)}"
            status = response.status_code
            failure = self._broken_response(response, f"HTTP {status} {what}", status, b"".join(parts))
            failure.retryable = True  # the runner still checks whether the tool may be repeated
            raise failure from error
        return b"".join(parts)

    async def _lines(self, response: Any) -> AsyncIterator[str]:
        async for line in response.aiter_lines():
            yield redact_text(line, self._secrets.named)

    def _build(self, client: Any, request: Request, headers: dict[str, str]) -> Any:
        """Build the request of httpx2."""

        # Raises InvalidRequest if its address is not below the base.
        import httpx2

        extra: dict[str, Any] = {}
        if request.has_json:
            extra["content"] = orjson.dumps(request.json)
        if request.content is not None:
            extra["content"] = request.content[0]
        url = request.url + ("?" + request.query if request.query else "")
        try:
            built = client.build_request(request.method, url, headers=headers, **extra)
            base = None if self._base is None else httpx2.URL(self._base)
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise InvalidRequest(f"{self._place}: invalid address: {error}") from error
        if base is not None and not _is_below(base, built.url):
            raise InvalidRequest(
                f"{self._place}: the request would leave {base.scheme}://{base.netloc.decode()}{base.path}"
            )
        return built

    def _headers_of(self, request: Request) -> dict[str, str]:
        """Return the headers of a request."""

        # Configured ones win; names are compared without case.
        own = self._configured()
        headers = {**request.headers}
        if request.has_json:
            headers["Content-Type"] = "application/json"
        if request.content is not None:
            headers["Content-Type"] = request.content[1]
        if request.key is not None:
            headers = {name: value for name, value in headers.items() if name.lower() != "idempotency-key"}
            headers["Idempotency-Key"] = hash_key(request.key)
        configured = {name.lower() for name in own}
        headers = {name: value for name, value in headers.items() if name.lower() not in configured} | own
        for name, value in headers.items():
            if _INVALID_HEADER_VALUE.search(value):
                problem = "must be one line of ASCII without spaces at its ends"
                raise InvalidRequest(f"{self._place}: the value of the header {name!r} {problem}")
        return headers

    def _configured(self) -> dict[str, str]:
        """Return the configured headers."""

        # Variables are read once, and their values are masked from then on.
        if self._configured_headers is None:
            settings = {**self._header_settings, **self._credential_settings}
            read: dict[str, dict[str, str]] = {name: {} for name in settings}
            try:
                filled = {name: fill_variables(value, os.environ, read[name]) for name, value in settings.items()}
            except KeyError as unset:
                raise ConfigError(f"{self._place}: the environment variable {unset.args[0]} is not set") from None
            self._secrets = secrets_of(filled, read)
            self._credentials = {name.removesuffix(" secret"): filled.pop(name) for name in self._credential_settings}
            self._configured_headers = filled
        return self._configured_headers

    async def _with_credentials(self, client: Any, request: Request, headers: dict[str, str]) -> Request:
        """Put the credentials of a request into its headers and its query."""
        query, cookies = request.query, headers.get("Cookie", "")
        for placement in request.credentials:
            if placement.token_url is not None:
                text = f"Bearer {await self._token(client, placement)}"
            else:
                text = placement.text(self._credentials)
            if placement.where == "query":
                pair = f"{quote(placement.name, safe='')}={quote(text, safe='')}"
                query = f"{query}&{pair}" if query else pair
            elif placement.where == "cookie":
                pair = f"{placement.name}={quote(text, safe='')}"
                cookies = headers["Cookie"] = f"{cookies}; {pair}" if cookies else pair
            else:
                if _INVALID_HEADER_VALUE.search(text):
                    raise InvalidRequest(
                        f"{self._place}: the credential for {placement.name!r} is not one line of ASCII"
                    )
                headers[placement.name] = text
        return replace(request, query=query)

    async def _token(self, client: Any, placement: Placement) -> str:
        """Return the token of OAuth client credentials; one is used until shortly before it expires."""
        url = placement.token_url or ""
        client_text = placement.text(self._credentials)
        known = self._tokens.get((url, client_text, placement.scope))
        if known is not None and time.monotonic() < known[1]:
            return known[0]
        answer = await self._ask_for_token(client, placement, url, client_text)
        token: str = answer["access_token"]
        seconds = answer.get("expires_in")
        lifetime = float(seconds) if isinstance(seconds, (int, float)) else 300.0
        self._tokens[url, client_text, placement.scope] = token, time.monotonic() + max(lifetime - 30, 0)
        fresh = secrets_of({"token": token}, {"token": {}})
        self._secrets = Secrets(self._secrets.read, self._secrets.named | fresh.named)
        return token

    async def _ask_for_token(self, client: Any, placement: Placement, url: str, client_text: str) -> dict[str, Any]:
        """Return the answer of a token URL; an error names its server and the reason, and nothing of the answer."""
        import httpx2

        parts, address = urlsplit(url), self._address("POST", url)
        server = f"{self._place}: the token URL at {parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        fields = {"grant_type": "client_credentials", **({"scope": placement.scope} if placement.scope else {})}
        headers = {"Accept": "application/json", "Authorization": client_text}
        try:
            async with (
                asyncio.timeout(_TOKEN_SECONDS),
                client.stream("POST", url, data=fields, headers=headers) as response,
            ):
                body = b""
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > _MAX_TOKEN_BYTES:
                        raise HttpFailure(
                            f"{server} answered more than {_MAX_TOKEN_BYTES:,} bytes", 413, address=address
                        )
        except TimeoutError as error:
            raise ConnectionFailed(f"{server} did not answer within {_TOKEN_SECONDS:g} s", address) from error
        except httpx2.RequestError as error:
            raise ConnectionFailed(f"{server}: {self._reason(error)}", address) from error
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        answer = answer if isinstance(answer, dict) else {}
        status = response.status_code
        if status < 300 and isinstance(answer.get("access_token"), str):
            return answer
        code, kind = answer.get("error"), response.headers.get("content-type", "").partition(";")[0]
        if isinstance(code, str) and code in _TOKEN_ERRORS:
            why = f": {code}"
        elif answer:
            why = ", and no access_token"
        else:
            why = f" with {kind if _MEDIA_TYPE.fullmatch(kind) else 'a body'}, not JSON"
        raise HttpFailure(f"{server} answered HTTP {status}{why}", status, address=address)

    def _excerpt(self, body: bytes, size: int = _MAX_EXCERPT) -> str:
        """Return the beginning of a body, for an error."""
        text = self._secrets.redact_error(body.decode("utf-8", "replace")).strip()
        return text[:size] + "…" if len(text) > size else text

    def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            try:
                import httpx2
            except ImportError as error:
                raise ConfigError("HTTP providers need httpx2: install ropewalk[http]") from error
            # The runner limits the time of a call; here only the time to connect is limited.
            timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
            from http.cookiejar import CookieJar, DefaultCookiePolicy

            # Keep no cookie: an answer in one run must not change the requests of another.
            cookies = CookieJar(policy=DefaultCookiePolicy(allowed_domains=()))
            if self._policy is None:
                client = httpx2.AsyncClient(timeout=timeout, cookies=cookies)
            else:
                transport = make_checked_transport(self._policy, _CONNECT_SECONDS)
                client = httpx2.AsyncClient(timeout=timeout, transport=transport, trust_env=False, cookies=cookies)
            self._clients[loop] = client
        return client


def _is_below(base: Any, url: Any) -> bool:
    """Return True if a URL has the scheme, host and port of another one and a path below its path."""
    same = (url.scheme, url.host, url.port, url.userinfo) == (base.scheme, base.host, base.port, base.userinfo)
    path = url.raw_path.partition(b"?")[0]
    root = base.raw_path.rstrip(b"/")
    steps = path[len(root) :].split(b"/")
    return same and path.startswith(root + b"/") and not any(step in (b".", b"..") for step in steps)


QueueTurn: TypeAlias = Callable[[str, float, int], Awaitable[float]]
"""`await take_turn(name, per_second, burst)` enters a queue and returns the seconds until the caller's turn."""
WaitTurn: TypeAlias = Callable[[], Awaitable[None]]


class RateLimiter:
    """Delays calls so that they stay within the limits of a project."""

    def __init__(self, rates: Mapping[str, Rate], line: QueueTurn) -> None:
        self._rates, self._take_turn = rates, line

    def turn_for(self, tool_id: str) -> WaitTurn | None:
        """Return a function that waits for the turn of one call of a tool; None if no limit applies."""
        limits = [(name, rate) for name, rate in self._rates.items() if fnmatchcase(tool_id, name)]
        if not limits:
            return None

        async def wait_turn() -> None:
            for name, rate in limits:
                wait = await self._take_turn(name, rate.per_second, rate.burst)
                if wait > 0:
                    await asyncio.sleep(wait)

        return wait_turn


class LocalQueues:
    """Queues of rate limits within one process."""

    def __init__(self) -> None:
        self._next_turns: dict[str, float] = {}

    async def take(self, name: str, per_second: float, burst: int) -> float:
        """Enter a queue and return the seconds until the caller's turn."""
        now, step = time.monotonic(), 1 / per_second
        turn_at = self._next_turns[name] = max(self._next_turns.get(name, now), now) + step
        return turn_at - now - step * burst
