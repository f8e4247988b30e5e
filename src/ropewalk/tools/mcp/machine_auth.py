"""Authorize requests to an MCP server with credentials of a machine: no person takes part.

Each kind has the SDK's flow for it, or one with another request for a token. Tokens stay in this process. Refused
here: an authorization server other than the configured `issuer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl

import httpx2
from mcp.client.auth import OAuthFlowError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE

from .auth_settings import ENTERPRISE, WORKLOAD, read_file, require_safe_address, resolved_auth
from .config import ServerConfig
from .oauth import ServerAuth, refusal_for_scope

_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"


class MachineAuth(ServerAuth):
    """Authorizes requests with the credentials of a machine, which gets a new token whenever it needs one."""

    def __init__(self, config: ServerConfig) -> None:
        require_safe_address(f"{config}: url", config.url)
        self.texts, _ = resolved_auth(str(config), config.auth)
        super().__init__(config, self.texts["issuer"])
        self.provider = self._provider()

    async def authorize(self, request: httpx2.Request, sent: str | None, response: httpx2.Response) -> str | None:
        """Return a new token, or the one that another request has got meanwhile."""
        async with self._lock:
            if self.token in (sent, None):
                await self.run_flow(request, self._refusal(response))
            return self.token

    async def send(self, client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the flow; the identity of a workload is in one for a token (RFC 7523)."""
        if self.config.auth.kind == WORKLOAD and request.method == "POST":
            assertion = await self._text_or_file("assertion")
            grant = {"grant_type": JWT_BEARER_GRANT_TYPE, "assertion": assertion, "client_id": self.texts["client_id"]}
            data = {**dict(parse_qsl(request.content.decode())), **grant}
            request = httpx2.Request("POST", request.url, data=data)
        return await super().send(client, request)

    def _provider(self) -> httpx2.Auth:
        """Return the SDK's flow for the kind of credentials."""
        texts, url, storage = self.texts, self.config.url, cast(Any, self)
        client, issuer, scope = texts["client_id"], texts["issuer"], texts.get("scope")
        method: Literal["client_secret_basic", "client_secret_post"] = "client_secret_basic"
        if texts.get("client_auth") == "client_secret_post":
            method = "client_secret_post"
        if self.config.auth.kind == ENTERPRISE:
            secret = texts["client_secret"]
            return IdentityAssertionOAuthProvider(url, storage, client, secret, issuer, self._grant, scope, method)
        if self.config.auth.kind == WORKLOAD:
            # `send` puts the identity into the request; a workload has no secret.
            return ClientCredentialsOAuthProvider(url, storage, client, "", scope=scope, issuer=issuer)
        if "client_secret" in texts:
            return ClientCredentialsOAuthProvider(url, storage, client, texts["client_secret"], method, scope, issuer)
        return PrivateKeyJWTOAuthProvider(url, storage, client, self._sign, scope, issuer)

    def _refusal(self, response: httpx2.Response) -> httpx2.Response:
        """Return the refusal for the SDK's flow, which otherwise requests only the rights that the server names."""
        if isinstance(self.provider, IdentityAssertionOAuthProvider):
            return response  # its flow requests those of the settings
        if response.status_code == 401:
            cast(Any, self.provider).context.oauth_metadata = None  # discover again
        return refusal_for_scope(response.headers.get("www-authenticate", ""))

    async def _sign(self, audience: str) -> str:
        """Return an assertion for the authorization server that the private key signs."""
        pem, client = await self._text_or_file("private_key"), self.texts["client_id"]
        algorithm = self.texts.get("algorithm", "ES256")
        parameters = SignedJWTParameters(issuer=client, subject=client, signing_key=pem, signing_algorithm=algorithm)
        try:
            return await parameters.create_assertion_provider()(audience)
        except Exception as error:  # noqa: BLE001
            # The library's errors differ by kind of key, and their texts may quote it.
            raise OAuthFlowError(f"the private key cannot sign: {type(error).__name__}") from None

    async def _grant(self, audience: str, resource: str) -> str:
        """Return the grant for the server that the identity provider of an enterprise issues (SEP-990)."""
        texts: Mapping[str, str] = self.texts
        data = {
            "grant_type": _EXCHANGE,
            "requested_token_type": _ID_JAG,
            "subject_token": await self._text_or_file("id_token"),
            "subject_token_type": _ID_TOKEN,
            "audience": audience,
            "resource": resource,
            "client_id": texts["idp_client_id"],
        }
        if "scope" in texts:
            data["scope"] = texts["scope"]
        if "idp_client_secret" in texts:
            data["client_secret"] = texts["idp_client_secret"]
        # A client of its own: the identity provider must not get the credentials of the MCP server.
        async with httpx2.AsyncClient(timeout=self.config.connect_timeout) as client:
            response = await client.post(texts["idp_token_url"], data=data)
        if response.status_code != 200:
            raise OAuthTokenError(f"the identity provider refuses the exchange: HTTP {response.status_code}")
        token = response.json()
        # RFC 8693 lets a provider issue another type of token than the requested one.
        if token.get("issued_token_type") != _ID_JAG or not isinstance(token.get("access_token"), str):
            raise OAuthTokenError("the identity provider returned no grant for the server")
        return str(token["access_token"])

    async def _text_or_file(self, key: str) -> str:
        """Return a setting, or the text of the file that `KEY_file` names; files are read at each use."""
        if key in self.texts:
            return self.texts[key]
        return await asyncio.to_thread(read_file, str(self.config), self.texts[f"{key}_file"])
