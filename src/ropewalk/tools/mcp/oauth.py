"""Authorize requests to an MCP server with OAuth: logins of people, and credentials of machines.

The flows are the SDK's. Added here: logins that are kept (`logins.py`), so that a later process can refresh them; a
refresh that only one process does at a time; requests that do not wait for each other; and a run that never waits for
a person but fails with `LoginRequired`. Refused here: an authorization server other than the configured `issuer`, and
addresses that are neither https nor on this machine. A client secret goes to its `issuer` only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.auth.utils import extract_field_from_www_auth, issuers_match, union_scopes
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from ...errors import ConfigError
from .auth_settings import require_safe_address, resolved_auth
from .config import ServerConfig
from .login_errors import LoginRequired
from .logins import Login, LoginStore, login_keeper

if TYPE_CHECKING:
    from .dpop import ProofKey

FAILURES: Final = (OAuthFlowError, LoginRequired, ConfigError, ValidationError)
"""What an authorization may raise; none of it says anything about other requests."""

_NO_REDIRECT: Final = "http://127.0.0.1/callback"

Show = Callable[[str], Awaitable[None]]
Receive = Callable[[], Awaitable[AuthorizationCodeResult]]


class Authorization(Protocol):
    """Authorizes requests: any `httpx2.Auth` with a method for its secrets."""

    def async_auth_flow(self, request: httpx2.Request, /) -> AsyncGenerator[httpx2.Request, httpx2.Response]: ...
    def secrets(self) -> frozenset[str]: ...


class _Storage:
    """Stores for the SDK: its parts are parts of a `Login`."""

    def __init__(self, auth: KeptAuth) -> None:
        self._auth = auth

    async def get_tokens(self) -> OAuthToken | None:
        return self._auth.context.current_tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self._auth.save()

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._auth.context.client_info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._auth.save()


class KeptAuth(OAuthClientProvider):
    """The SDK's flow with a login that is kept.

    Args:
        config: The server.
        store: Keeps the login.
        fixed: A client that is registered already, or None.
        scope: Rights to request in addition to those that the server names.
    """

    config: ServerConfig
    store: LoginStore
    fixed: OAuthClientInformationFull | None
    issuer: str | None
    extra_scope: str | None
    key: ProofKey | None
    _loading: asyncio.Lock

    def keep(
        self,
        config: ServerConfig,
        store: LoginStore,
        *,
        fixed: OAuthClientInformationFull | None = None,
        issuer: str | None = None,
        scope: str | None = None,
        key: ProofKey | None = None,
    ) -> None:
        """Set what the flow keeps; call it after the constructor of the SDK's class."""
        self.config, self.store, self.fixed, self.issuer, self.extra_scope = config, store, fixed, issuer, scope
        self.key = key
        self.context.storage = _Storage(self)
        self._loading = asyncio.Lock()

    def secrets(self) -> frozenset[str]:
        """Return the texts of the login that nobody may be shown."""
        return frozenset(self._snapshot().secrets())

    async def save(self) -> None:
        """Keep the login as it is now."""
        await self.store.save(self._snapshot())

    async def load(self) -> None:
        """Take the login that is kept; another process may have changed it."""
        login = await self.store.load()
        context = self.context
        context.current_tokens = _parse(OAuthToken, login.tokens)
        context.token_expiry_time = login.expires_at
        context.client_info = self.fixed or _parse(OAuthClientInformationFull, login.client)
        context.oauth_metadata = _parse(OAuthMetadata, login.server)
        context.protected_resource_metadata = _parse(ProtectedResourceMetadata, login.resource)
        if context.protected_resource_metadata is not None:
            context.auth_server_url = str(context.protected_resource_metadata.authorization_servers[0])
        if login.key is not None and self.key is not None:
            self.key = proof_key(login.key)
        self._initialized = True

    def _snapshot(self) -> Login:
        context = self.context
        return Login(
            tokens=_dump(context.current_tokens),
            expires_at=context.token_expiry_time,
            client=None if self.fixed is not None else _dump(context.client_info),
            server=_dump(context.oauth_metadata),
            resource=_dump(context.protected_resource_metadata),
            key=None if self.key is None else self.key.pem,
        )

    async def _initialize(self) -> None:
        await self.load()

    def _expected_issuer(self) -> str:
        issuer = super()._expected_issuer()
        if self.issuer is not None and not issuers_match(issuer, self.issuer):
            # Without this the flow would register a new client elsewhere, or show the secret there.
            raise OAuthFlowError(f"its authorization server is {issuer}, and auth.issuer names {self.issuer}")
        return issuer

    def _select_authorization_server(self, advertised: list[str]) -> str:
        configured = (url for url in advertised if self.issuer is not None and issuers_match(url, self.issuer))
        return next(configured, advertised[0])

    async def _perform_authorization(self) -> httpx2.Request:
        metadata, context = self.context.client_metadata, self.context
        metadata.scope = union_scopes(metadata.scope, self.extra_scope)
        client, server = context.client_info, context.oauth_metadata
        if self.fixed is not None and client is not None and client.client_secret and server is not None:
            methods = server.token_endpoint_auth_methods_supported or []
            if "client_secret_basic" not in methods and "client_secret_post" in methods:
                client.token_endpoint_auth_method = "client_secret_post"
        return await super()._perform_authorization()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add proofs of the key to the requests of the flow, and repeat one for which a server wants its nonce."""
        flow = super().async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                # All requests but the caller's belong to the login. The server chose their addresses, so check each.
                if outgoing is not request:
                    require_safe_address(f"{self.config}: authorization", str(outgoing.url))
                if self.key is None:
                    response = yield outgoing
                else:
                    self.key.prove(outgoing)
                    response = yield outgoing
                    # Repeat once only: a server that always wants a new nonce would never let the request end.
                    if self.key.wants_nonce(response):
                        self.key.prove(outgoing)
                        response = yield outgoing
                    self.key.take_nonce(response)
                    # The SDK reads only Bearer tokens, so convert the answer for it.
                    if outgoing is not request and "dpop" in outgoing.headers and response.status_code in (200, 201):
                        response = _unwrapped(self.key, response, await response.aread())
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


class QuickAuth(KeptAuth):
    """Sends a request with the token that there is; only a refused one starts a flow.

    The SDK's flow holds a lock until a server begins to answer. With it, calls of a server would run one by one.
    """

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        context = self.context
        context.protocol_version = request.headers.get("mcp-protocol-version")
        if not self._initialized:
            async with self._loading:
                await self.load()

        # Refresh a token that has expired, or that the server refuses because it has ended it.
        response: httpx2.Response | None = None
        for may_refresh in (True, False):
            sent = self._access_token()
            if sent and context.is_token_valid():
                self._add_auth_header(request)
                response = yield request
                if response.status_code != 401 and not _wants_scope(response):
                    break
            if not may_refresh:
                break
            async with self._loading:
                if self._access_token() == sent:
                    await self.load()  # another process may have a newer login
                is_refused = response is None or response.status_code == 401
                if is_refused and self._access_token() == sent and context.can_refresh_token():
                    async with self.store.lock():
                        await self.load()
                        if self._access_token() == sent and context.can_refresh_token():
                            await self._take_refreshed((yield await self._refresh_token()))
            if self._access_token() in (sent, None):
                break
        if response is None:
            response = yield request
        if response.status_code != 401 and not _wants_scope(response):
            return

        # The SDK's flow sends the request first. Its answer is known, unless another request has authorized meanwhile.
        await self._before_authorization(response)
        sent = self._access_token()
        flow = super()._auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            if outgoing is request and self._access_token() == sent:
                outgoing = await flow.asend(response)
            while outgoing is not request:
                outgoing = await flow.asend((yield outgoing))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()  # its lock is free while the server works on the request
        self._add_auth_header(request)
        yield request

    async def _before_authorization(self, response: httpx2.Response) -> None:
        """Say no to an authorization that needs a person."""

    def _access_token(self) -> str | None:
        tokens = self.context.current_tokens
        return None if tokens is None else tokens.access_token

    async def _take_refreshed(self, response: httpx2.Response) -> None:
        if response.status_code >= 500 or response.status_code == 429:
            raise OAuthTokenError(f"the authorization server cannot refresh the login now: HTTP {response.status_code}")
        if not await self._handle_refresh_response(response):
            await self.save()  # the refresh token has ended, too: nobody needs to try it again


class LoginAuth(QuickAuth):
    """Authorizes requests with the login of a person; without one it raises LoginRequired.

    Args:
        config: The server.
        redirect_uri: Where the authorization server sends the browser back.
        show: Shows an address to the person who logs in.
        receive: Waits until the browser has come back.
        scope: Rights to request in addition to those that the server names.
    """

    def __init__(
        self,
        config: ServerConfig,
        redirect_uri: str = _NO_REDIRECT,
        show: Show | None = None,
        receive: Receive | None = None,
        scope: str | None = None,
    ) -> None:
        texts, _ = resolved_auth(str(config), config.auth)
        # A configured client is already registered, so the login must not register another one.
        fixed = None
        if "client_id" in texts:
            secret = texts.get("client_secret")
            fixed = OAuthClientInformationFull(
                client_id=texts["client_id"],
                client_secret=secret,
                token_endpoint_auth_method="client_secret_basic" if secret else "none",
                issuer=texts.get("issuer"),
            )
        metadata = OAuthClientMetadata(client_name="Ropewalk", redirect_uris=[AnyUrl(redirect_uri)])
        # Without a storage for now: `keep` sets one that belongs to this login.
        OAuthClientProvider.__init__(
            self, config.url, metadata, cast(Any, None), show, receive, texts.get("client_metadata_url")
        )
        self.keep(
            config,
            login_store(config),
            fixed=fixed,
            issuer=texts.get("issuer"),
            scope=union_scopes(texts.get("scope"), scope),
            key=proof_key() if config.auth.dpop else None,
        )

    async def _before_authorization(self, response: httpx2.Response) -> None:
        challenge = response.headers.get("www-authenticate", "")
        scope = extract_field_from_www_auth(response, "scope") if _wants_scope(response) else None
        why = "wants a login" if scope is None else f"wants a login with more rights: {scope}"
        error = LoginRequired(f"{self.config} {why} (HTTP {response.status_code})", self.config.name, scope)
        error.challenge = challenge
        raise error

    async def authorize(self, client: httpx2.AsyncClient, challenge: str, *, more: bool) -> None:
        """Log in: take the person through the authorization server, and keep the tokens.

        Args:
            client: Sends the requests to the authorization server. It has no authorization of its own.
            challenge: The WWW-Authenticate header with which the server refused a request; may be empty.
            more: Keep the rights of the login that there is.

        Raises:
            OAuthFlowError: The authorization failed.
            ConfigError: An address is not safe.
        """
        require_safe_address(f"{self.config}: url", self.config.url)
        await self.load()
        tokens = self.context.current_tokens
        if more and tokens is not None:
            self.extra_scope = union_scopes(tokens.scope, self.extra_scope)
        registered = self.context.client_info
        if registered is not None and registered is not self.fixed and registered.redirect_uris:
            ours = self.context.client_metadata.redirect_uris or []
            if not set(map(str, ours)) <= set(map(str, registered.redirect_uris)):
                self.context.client_info = None  # another program has its port: register again
        request = client.build_request("POST", self.config.url, headers={"mcp-protocol-version": "2025-11-25"})
        header = {"www-authenticate": challenge} if challenge else {}
        refusal = httpx2.Response(401, headers=header, request=request)
        self._forced = refusal
        flow = self.async_auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while outgoing is not request:
                outgoing = await flow.asend(await client.send(outgoing))
        finally:
            await flow.aclose()
            self._forced = None

    _forced: httpx2.Response | None = None

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._forced is None:
            flow = super()._auth_flow(request)
        else:
            # The SDK's own flow: it begins with a request, whose answer is known already.
            self.context.protocol_version = request.headers.get("mcp-protocol-version")
            self.context.clear_tokens()
            flow = OAuthClientProvider._auth_flow(self, request)
        try:
            outgoing = await flow.__anext__()
            if self._forced is not None:
                outgoing = await flow.asend(self._forced)
            while True:
                outgoing = await flow.asend((yield outgoing))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def proof_key(pem: str | None = None) -> ProofKey:
    """Return a key for proofs: the kept one, or a new one."""
    from .dpop import ProofKey  # its imports take long

    return ProofKey(pem)


def login_store(config: ServerConfig) -> LoginStore:
    """Return where the login of a server is kept."""
    return LoginStore(config.name, config.url, login_keeper())


def _unwrapped(key: ProofKey, response: httpx2.Response, body: bytes) -> httpx2.Response:
    try:
        return key.unwrap(response, body)
    except ValueError as error:
        raise OAuthTokenError(str(error)) from error


def _wants_scope(response: httpx2.Response) -> bool:
    return response.status_code == 403 and extract_field_from_www_auth(response, "error") == "insufficient_scope"


def _dump(model: BaseModel | None) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _parse(model: type[Any], data: Mapping[str, Any] | None) -> Any:
    """Return the model of kept data, or None for data that another version wrote."""
    try:
        return None if data is None else model.model_validate(data)
    except ValidationError:
        return None
