"""Authorize requests to an MCP server with OAuth: logins of people, and credentials of machines (`machine_auth.py`).

The flows are the SDK's. Added here: requests that do not wait for each other; logins that are kept (`logins.py`), so
that a later process can refresh them; a refresh that only one process does at a time; and a run that never waits for
a person but fails with `LoginRequired`. Refused here: an authorization server other than the configured `issuer`, and
addresses that are neither https nor on this machine. A client secret goes to its `issuer` only.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    extract_field_from_www_auth,
    extract_resource_metadata_from_www_auth,
    issuers_match,
    union_scopes,
)
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import calculate_token_expiry
from pydantic import AnyHttpUrl, AnyUrl, BaseModel, ValidationError

from ...config.secrets import remember_secrets
from ...errors import ConfigError
from .auth_settings import read_variables, require_safe_address, resolved_auth
from .authorization_server import (
    client_answer,
    refresh_answer,
    refusal_answer,
    require_same_network,
    send_bounded,
    token_answer,
)
from .config import ServerConfig
from .login_errors import LoginRequired
from .logins import LoginStore

if TYPE_CHECKING:
    from .dpop import ProofKey

FAILURES: Final = (OAuthFlowError, LoginRequired, ConfigError, ValidationError)
"""What an authorization may raise; none of it says anything about other requests."""

_NO_REDIRECT: Final = "http://127.0.0.1/callback"
_EXPIRED: Final = 1.0  # seconds since 1970: the SDK refreshes a token with such an end

Show = Callable[[str], Awaitable[None]]
Receive = Callable[[], Awaitable[AuthorizationCodeResult]]


class Login(BaseModel):
    """A login at one server."""

    # The answer of the token endpoint.
    tokens: OAuthToken | None = None
    # When the access token expires, in seconds since 1970; None if that is unknown.
    expires_at: float | None = None
    # The client as the authorization server registered it.
    client: OAuthClientInformationFull | None = None
    # The metadata of the authorization server.
    server: OAuthMetadata | None = None
    # The metadata of the MCP server.
    resource: ProtectedResourceMetadata | None = None
    # The private key that the tokens are bound to, as PEM.
    key: str | None = None

    def secrets(self) -> frozenset[str]:
        """Return the texts that nobody may be shown."""
        texts = {self.key, self.client and self.client.client_secret}
        if self.tokens is not None:
            texts |= {self.tokens.access_token, self.tokens.refresh_token}
        return frozenset(text for text in texts if text)


async def load_login(store: LoginStore) -> Login:
    """Return the login that is kept; an empty one if nobody has logged in, or if the kept one is damaged."""
    data = await store.load()
    try:
        login = Login() if data is None else Login.model_validate_json(data)
    except ValidationError:
        login = Login()
    remember_secrets(login.secrets())
    return login


class ServerAuth(httpx2.Auth):
    """Sends a request with the token that there is; only a refused one starts a flow of the SDK, which stores here."""

    # The SDK's flow holds a lock until a server begins to answer. With it, calls of a server would run one by one.
    #
    # `key`: Binds the tokens, or None.

    # The SDK's flow; a subclass sets it, with this object as its storage.
    provider: httpx2.Auth

    def __init__(self, config: ServerConfig, issuer: str | None = None) -> None:
        self.config, self.issuer = config, issuer
        self.key = proof_key() if config.auth.dpop else None
        self.tokens: OAuthToken | None = None
        self.expires_at: float | None = None  # seconds since 1970
        self._lock = asyncio.Lock()

    def secrets(self) -> frozenset[str]:
        """Return the texts that nobody may be shown."""
        return Login(tokens=self.tokens, key=None if self.key is None else self.key.pem).secrets()

    @property
    def token(self) -> str | None:
        """The access token, unless it has expired."""
        has_expired = self.expires_at is not None and time.time() > self.expires_at
        return None if self.tokens is None or has_expired else self.tokens.access_token

    # --- the storage of the SDK

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens."""
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take new tokens."""
        self.tokens, self.expires_at = tokens, calculate_token_expiry(tokens.expires_in)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client, if it is registered."""
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Take a client that has been registered."""

    # --- the requests to the server

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token that there is; where the server refuses it, with a new one."""
        # Each at most once per request: a server that refuses every token must not keep us busy.
        renewals = iter((self.refresh, self.authorize))
        token = self.token or await self.refresh(request, None, None)
        while True:
            if token is not None:
                request.headers["authorization"] = f"Bearer {token}"
            if self.key is not None:
                self.key.prove(request)
            response = yield request
            if self.key is not None:
                # Repeat once only: a server that always wants a new nonce would never let the request end.
                if self.key.wants_nonce(response):
                    self.key.prove(request)
                    response = yield request
                self.key.take_nonce(response)
            if response.status_code != 401 and not wants_scope(response):
                return
            sent = token
            for renew in renewals:
                token = await renew(request, sent, response)
                if token not in (None, sent):
                    break
            else:
                return

    async def refresh(self, request: httpx2.Request, sent: str | None, response: httpx2.Response | None) -> str | None:
        """Return a new token in place of one that has expired or was refused, if the authorization server gives one."""
        return None

    async def authorize(self, request: httpx2.Request, sent: str | None, response: httpx2.Response) -> str | None:
        """Return a new token for a request that was refused, from a new authorization; arguments as for `refresh`."""
        raise NotImplementedError

    # --- the requests to the authorization server

    async def run_flow(self, request: httpx2.Request, refusal: httpx2.Response | None) -> None:
        """Run the SDK's flow up to where it would send the request (again)."""
        async with (
            httpx2.AsyncClient(timeout=self.config.connect_timeout) as client,
            contextlib.aclosing(self.provider.async_auth_flow(request)) as flow,
        ):
            outgoing = await anext(flow)
            while outgoing is not request or refusal is not None:
                if outgoing is request and refusal is not None:
                    response, refusal = refusal, None
                else:
                    response = await self.send(client, outgoing)
                outgoing = await flow.asend(response)

    async def send(self, client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the flow, and return the answer in the form that the SDK reads."""
        # The server chose the address, and gets the login or a secret.
        require_safe_address(f"{self.config}: authorization", str(request.url))
        context: OAuthContext | None = getattr(self.provider, "context", None)
        if context is not None and (context.auth_server_url is not None or request.method != "GET"):
            self._require_issuer(context)
        await require_same_network(str(request.url), self.config.url, self.issuer or self.config.url)
        wants_tokens, seconds = b"grant_type=" in request.content, self.config.connect_timeout
        is_refresh = b"grant_type=refresh_token" in request.content
        if wants_tokens:
            request.headers["accept"] = "application/json"  # otherwise some servers answer as a form
        if self.key is not None:
            self.key.prove(request)
        response = await send_bounded(client, request, seconds)
        if self.key is not None:
            if self.key.wants_nonce(response):
                self.key.prove(request)
                response = await send_bounded(client, request, seconds)
            self.key.take_nonce(response)
            if "dpop" in request.headers and response.status_code in (200, 201):
                try:
                    response = self.key.unwrap(response, response.content)
                except ValueError as error:
                    raise OAuthTokenError(str(error)) from error
        is_busy = response.status_code >= 500 or response.status_code == 429
        if is_busy and is_refresh:
            # The SDK would forget the login.
            raise OAuthTokenError(f"the authorization server cannot refresh the login now: HTTP {response.status_code}")
        if request.method != "POST":
            return response
        if not response.is_success:
            return refusal_answer(response)
        if is_refresh:
            return refresh_answer(response)
        return token_answer(response) if wants_tokens else client_answer(response)

    def _require_issuer(self, context: OAuthContext) -> None:
        """Check the authorization server before the flow registers a client there, or shows a secret to it."""
        issuer = context.auth_server_url or context.get_authorization_base_url(context.server_url)
        if self.issuer is not None and not issuers_match(issuer, self.issuer):
            raise OAuthFlowError(f"its authorization server is {issuer}, and auth.issuer names {self.issuer}")


class LoginAuth(ServerAuth):
    """Authorizes requests with the login of a person; without one it raises LoginRequired."""

    provider: OAuthClientProvider

    def __init__(
        self,
        config: ServerConfig,
        redirect_uri: str = _NO_REDIRECT,
        show: Show | None = None,
        receive: Receive | None = None,
        scope: str | None = None,
    ) -> None:
        texts, _ = resolved_auth(str(config), config.auth)
        super().__init__(config, texts.get("issuer"))
        self._store = LoginStore(config.name, config.url)
        self._show = show
        # A configured client is already registered, so the login must not register another one.
        self._fixed = None
        if "client_id" in texts:
            secret = texts.get("client_secret")
            self._fixed = OAuthClientInformationFull(
                client_id=texts["client_id"],
                client_secret=secret,
                token_endpoint_auth_method="client_secret_basic" if secret else "none",
                issuer=self.issuer,
            )
        metadata = OAuthClientMetadata(
            client_name="Ropewalk",
            redirect_uris=[AnyUrl(redirect_uri)],
            scope=union_scopes(texts.get("scope"), scope),
        )
        metadata_url = texts.get("client_metadata_url")
        self._metadata_issuer = texts.get("metadata_issuer")
        self._stated_issuer: str | None = None  # the issuer as the metadata spell it, if they spell it differently
        self._host_has_logins: bool | None = None  # None while nobody has looked
        self._receive = receive
        self.provider = OAuthClientProvider(config.url, metadata, self, self._redirect, self._result, metadata_url)
        self._context = self.provider.context

    def secrets(self) -> frozenset[str]:
        """Return the texts of the login that nobody may be shown."""
        return self._snapshot().secrets()

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep new tokens."""
        await super().set_tokens(tokens)
        await self._save()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client, if it is registered."""
        return self._context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep a client that has been registered."""
        await self._save()

    async def refresh(self, request: httpx2.Request, sent: str | None, response: httpx2.Response | None) -> str | None:
        """Return the token of the login that is kept, after a refresh if that is refused or has expired."""
        async with self._lock:
            if self.token in (sent, None):
                await self._load()  # another process may have a newer login
            if (response is None or response.status_code == 401) and self._must_refresh(sent):
                async with self._store.lock():
                    await self._load()
                    if self._must_refresh(sent):
                        self._context.token_expiry_time = _EXPIRED
                        await self.run_flow(request, None)
                        if self._context.current_tokens is None:
                            # The refresh token has ended, too: nobody needs to try it again.
                            self.tokens = None
                            await self._save()
            return self.token

    async def authorize(self, request: httpx2.Request, sent: str | None, response: httpx2.Response) -> str | None:
        """Raise LoginRequired: a person must take part; return None if the server knows no logins."""
        if response.status_code == 401 and not await self._has_logins(response):
            return None
        scope = extract_field_from_www_auth(response, "scope") if wants_scope(response) else None
        why = "wants a login" if scope is None else f"wants a login with more rights: {scope}"
        error = LoginRequired(f"{self.config} {why} (HTTP {response.status_code})", self.config.name, scope)
        error.challenge = response.headers.get("www-authenticate", "")
        raise error

    async def _has_logins(self, response: httpx2.Response) -> bool:
        """Return False if neither a refusal nor the server's host names an authorization server."""

        # Without its metadata, a login is refused anyway: only they say that it is protected by PKCE.
        is_sure = self.tokens is not None or self.issuer is not None or self.config.auth.assume_pkce
        challenge = extract_resource_metadata_from_www_auth(response)
        if self._host_has_logins is None and not is_sure and challenge is None:
            urls = build_protected_resource_metadata_discovery_urls(None, self.config.url)
            urls += build_oauth_authorization_server_metadata_discovery_urls(None, self.config.url)
            try:
                require_safe_address(f"{self.config}: authorization", self.config.url)
                async with httpx2.AsyncClient(timeout=self.config.connect_timeout) as client:
                    requests = (httpx2.Request("GET", url) for url in urls)
                    answers = [await send_bounded(client, each, self.config.connect_timeout) for each in requests]
            except (ConfigError, OAuthFlowError, httpx2.HTTPError):
                return True  # the login finds out
            self._host_has_logins = any(not 400 <= answer.status_code < 500 for answer in answers)
        return is_sure or challenge is not None or self._host_has_logins is True

    async def log_in(self, challenge: str, *, more: bool) -> None:
        """Take the person through the authorization server, and keep the tokens."""
        require_safe_address(f"{self.config}: url", self.config.url)
        await self._load()
        context = self._context
        metadata = context.client_metadata
        if more and self.tokens is not None:
            metadata.scope = union_scopes(self.tokens.scope, metadata.scope)
        # Discover everything again: the server may have moved to other logins.
        context.clear_tokens()
        self.tokens = context.oauth_metadata = context.auth_server_url = None
        registered = context.client_info
        uris = None if registered is None or registered is self._fixed else registered.redirect_uris
        if uris and metadata.redirect_uris and metadata.redirect_uris[0] not in uris:
            context.client_info = None  # another program has its port: register again
        request = httpx2.Request("POST", self.config.url, headers={"mcp-protocol-version": "2025-11-25"})
        await self.run_flow(request, refusal_for_scope(challenge))

    async def send(self, client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the flow as the settings want it; the SDK sees the answer as it expects it."""
        is_refresh = b"grant_type=refresh_token" in request.content
        if request.method == "POST":
            if not is_refresh and self._context.oauth_metadata is None:
                self._require_pkce(None)
            request = self._with_settings(request, is_refresh=is_refresh)
        response = await super().send(client, request)
        if request.method != "GET" or response.status_code != 200:
            return response
        return self._own_resource(response) or self._own_metadata(response) or response

    def _own_resource(self, response: httpx2.Response) -> httpx2.Response | None:
        """Return the metadata of the MCP server with the configured authorization server first."""
        try:
            resource = ProtectedResourceMetadata.model_validate_json(response.content)
        except ValidationError:
            return None  # another document
        if self.issuer is not None:
            resource.authorization_servers.sort(key=lambda url: not issuers_match(str(url), str(self.issuer)))
        return httpx2.Response(200, content=resource.model_dump_json(exclude_none=True), request=response.request)

    def _own_metadata(self, response: httpx2.Response) -> httpx2.Response | None:
        """Return the metadata of the authorization server, if this login may use it, under the issuer it is expected
        to name.
        """
        try:
            metadata = OAuthMetadata.model_validate_json(response.content)
        except ValidationError:
            return None  # another document
        self._require_pkce(metadata.code_challenge_methods_supported)
        stated = str(metadata.issuer)
        expected = self._context.auth_server_url or self._context.get_authorization_base_url(self.config.url)
        if stated != expected:
            if stated.rstrip("/") != expected.rstrip("/") and stated != self._metadata_issuer:
                why = f"the metadata of the authorization server {expected} name the issuer {stated}"
                raise OAuthFlowError(f'{why}; if that is right, set auth.metadata_issuer = "{stated}"')
            metadata.issuer = AnyHttpUrl(expected)
            self._stated_issuer = stated
        return httpx2.Response(200, content=metadata.model_dump_json(exclude_none=True), request=response.request)

    def _require_pkce(self, methods: list[str] | None) -> None:
        """Refuse an authorization server that does not say that it protects codes with PKCE and S256."""
        if "S256" in (methods or ()) or (methods is None and self.config.auth.assume_pkce):
            return
        said = "does not say that it supports PKCE" if methods is None else f"supports PKCE only with {methods!r:.100}"
        hint = "; if it does, set auth.assume_pkce = true" if methods is None else ""
        raise OAuthFlowError(f"its authorization server {said} (S256), which protects logins from theft{hint}")

    def _with_settings(self, request: httpx2.Request, *, is_refresh: bool) -> httpx2.Request:
        """Return a request for tokens as the settings want it: without `resource`, or with the scope at a refresh."""
        auth = self.config.auth
        if b"grant_type=" not in request.content or (auth.resource and not (is_refresh and auth.refresh_scope)):
            return request
        form = dict(parse_qsl(request.content.decode(), keep_blank_values=True))
        if not auth.resource:
            form.pop("resource", None)
        scope = None if self.tokens is None else self.tokens.scope or self._context.client_metadata.scope
        if is_refresh and auth.refresh_scope and scope:
            form["scope"] = scope
        headers = {name: text for name, text in request.headers.items() if name != "content-length"}
        return httpx2.Request("POST", request.url, headers=headers, content=urlencode(form))

    async def _result(self) -> AuthorizationCodeResult:
        """Wait for the browser, and return its answer with the issuer in the spelling that the SDK expects."""
        assert self._receive is not None, "only a login runs this part of the flow"
        result = await self._receive()
        server = self._context.oauth_metadata
        if result.iss is not None and result.iss == self._stated_issuer and server is not None:
            result.iss = str(server.issuer)
        return result

    async def _redirect(self, address: str) -> None:
        """Show the address to the person; the metadata of the authorization server is known by now."""
        client, server = self._context.client_info, self._context.oauth_metadata
        self._require_issuer(self._context)
        if client is not None and client is self._fixed and client.client_secret and server is not None:
            methods = server.token_endpoint_auth_methods_supported or []
            if "client_secret_basic" not in methods and "client_secret_post" in methods:
                client.token_endpoint_auth_method = "client_secret_post"
        assert self._show is not None, "only a login runs this part of the flow"
        auth, where = self.config.auth, f"{self.config}: auth.authorization_params"
        more = {name: read_variables(where, text, {}) for name, text in auth.authorization_params.items()}
        if more or not auth.resource:
            place, _, query = address.partition("?")
            # The address of the authorization server may have a query of its own.
            dropped = {*more, *([] if auth.resource else ["resource"])}
            kept = [pair for pair in parse_qsl(query) if pair[0] not in dropped]
            address = f"{place}?{urlencode([*kept, *more.items()])}"
        await self._show(address)

    def _must_refresh(self, sent: str | None) -> bool:
        return self.token in (sent, None) and self._context.can_refresh_token()

    async def _load(self) -> None:
        """Take the login that is kept."""
        login, context = await load_login(self._store), self._context
        self.tokens = context.current_tokens = login.tokens
        self.expires_at = context.token_expiry_time = login.expires_at
        context.client_info = self._fixed or login.client
        context.oauth_metadata, context.protected_resource_metadata = login.server, login.resource
        context.auth_server_url = None if login.resource is None else str(login.resource.authorization_servers[0])
        if login.key is not None and self.key is not None:
            self.key = proof_key(login.key)

    async def _save(self) -> None:
        """Keep the login as it is now."""
        login = self._snapshot()
        remember_secrets(login.secrets())
        await self._store.save(login.model_dump_json(exclude_none=True).encode())

    def _snapshot(self) -> Login:
        context = self._context
        return Login(
            tokens=self.tokens,
            expires_at=self.expires_at,
            client=None if self._fixed is not None else context.client_info,
            server=context.oauth_metadata,
            resource=context.protected_resource_metadata,
            key=None if self.key is None else self.key.pem,
        )


def refusal_for_scope(challenge: str) -> httpx2.Response:
    """Return a refusal that asks for more rights: only then does the SDK request those that the client wants itself."""
    return httpx2.Response(403, headers={"www-authenticate": f'Bearer error="insufficient_scope", {challenge}'})


def wants_scope(response: httpx2.Response) -> bool:
    """Return True if a server refuses a request because the token has too few rights."""
    return response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"


def proof_key(pem: str | None = None) -> ProofKey:
    """Return a key for proofs: the kept one, or a new one."""
    from .dpop import ProofKey  # its imports take long

    return ProofKey(pem)
