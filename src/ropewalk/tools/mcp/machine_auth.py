"""Authorize requests to an MCP server with credentials of a machine: no person takes part.

Each kind is a class, whose flow is the SDK's with another request for a token. Tokens stay in this process. Refused
here: an authorization server other than the configured `issuer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from .auth_settings import ENTERPRISE, WORKLOAD, read_file, require_safe_address, resolved_auth
from .config import ServerConfig
from .logins import LoginStore, NoKeeper
from .oauth import Authorization, QuickAuth, proof_key

if TYPE_CHECKING:
    from .dpop import ProofKey

_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ID_TOKEN: Final = "urn:ietf:params:oauth:token-type:id_token"
_ID_JAG: Final = "urn:ietf:params:oauth:token-type:id-jag"


def machine_authorization(config: ServerConfig) -> Authorization:
    """Return what authorizes the requests to a server whose settings name a kind for machines.

    Raises:
        ConfigError: The settings read a variable that is not set, or name an address that is not safe.
    """
    where = str(config)
    require_safe_address(f"{where}: url", config.url)
    texts, _ = resolved_auth(where, config.auth)
    key = proof_key() if config.auth.dpop else None
    if config.auth.kind == ENTERPRISE:
        return _enterprise(config, texts)
    if config.auth.kind == WORKLOAD:
        return _WorkloadAuth(config, texts, key)
    return _SecretAuth(config, texts, key) if "client_secret" in texts else _KeyAuth(config, texts, key)


class _MachineAuth(QuickAuth):
    def keep_for(self, config: ServerConfig, texts: Mapping[str, str], key: ProofKey | None) -> None:
        """Set what the flow keeps, for this object only: a machine gets a new token whenever it needs one."""
        self.keep(
            config,
            LoginStore(config.name, config.url, NoKeeper()),
            fixed=cast(Any, self)._fixed_client_info,
            issuer=texts["issuer"],
            scope=texts.get("scope"),
            key=key,
        )


class _SecretAuth(_MachineAuth, ClientCredentialsOAuthProvider):
    """Client credentials with a secret."""

    def __init__(self, config: ServerConfig, texts: Mapping[str, str], key: ProofKey | None) -> None:
        ClientCredentialsOAuthProvider.__init__(
            self,
            config.url,
            cast(Any, None),
            texts["client_id"],
            texts["client_secret"],
            _client_auth(texts),
            issuer=texts["issuer"],
        )
        self.keep_for(config, texts, key)


class _KeyAuth(_MachineAuth, PrivateKeyJWTOAuthProvider):
    """Client credentials with an assertion that a private key signs."""

    def __init__(self, config: ServerConfig, texts: Mapping[str, str], key: ProofKey | None) -> None:
        async def sign(audience: str) -> str:
            pem = await _text_or_file(config, texts, "private_key")
            parameters = SignedJWTParameters(
                issuer=texts["client_id"],
                subject=texts["client_id"],
                signing_key=pem,
                signing_algorithm=texts.get("algorithm", "ES256"),
            )
            try:
                return await parameters.create_assertion_provider()(audience)
            except Exception as error:  # noqa: BLE001
                # The library's errors differ by kind of key, and their texts may quote it.
                raise OAuthFlowError(f"the private key cannot sign: {type(error).__name__}") from None

        PrivateKeyJWTOAuthProvider.__init__(
            self, config.url, cast(Any, None), texts["client_id"], sign, issuer=texts["issuer"]
        )
        self.keep_for(config, texts, key)


class _WorkloadAuth(_MachineAuth):
    """The identity of a workload, as a token that its platform signs (RFC 7523)."""

    def __init__(self, config: ServerConfig, texts: Mapping[str, str], key: ProofKey | None) -> None:
        metadata = OAuthClientMetadata(redirect_uris=None, grant_types=[JWT_BEARER_GRANT_TYPE])
        OAuthClientProvider.__init__(self, config.url, metadata, cast(Any, None))
        self._texts = texts
        self._fixed_client_info = OAuthClientInformationFull(
            client_id=texts["client_id"],
            grant_types=[JWT_BEARER_GRANT_TYPE],
            token_endpoint_auth_method="none",
            issuer=texts["issuer"],
        )
        self.keep_for(config, texts, key)

    async def _perform_authorization(self) -> httpx2.Request:
        texts, context = self._texts, self.context
        if context.oauth_metadata is None:
            raise OAuthFlowError(f"could not get the metadata of the authorization server {texts['issuer']}")
        assertion = await _text_or_file(self.config, texts, "assertion")
        data = {"grant_type": JWT_BEARER_GRANT_TYPE, "assertion": assertion, "client_id": texts["client_id"]}
        data["resource"] = context.get_resource_url()
        scope = union_scopes(context.client_metadata.scope, self.extra_scope)
        if scope:
            data["scope"] = scope
        return httpx2.Request("POST", self._get_token_endpoint(), data=data)


def _enterprise(config: ServerConfig, texts: Mapping[str, str]) -> Authorization:
    """Return the flow of an enterprise: its identity provider issues a grant for the server (SEP-990)."""

    async def grant(audience: str, resource: str) -> str:
        id_token = await _text_or_file(config, texts, "id_token")
        data = {
            "grant_type": _EXCHANGE,
            "requested_token_type": _ID_JAG,
            "subject_token": id_token,
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
        async with httpx2.AsyncClient(timeout=config.connect_timeout) as client:
            response = await client.post(texts["idp_token_url"], data=data)
        if response.status_code != 200:
            raise OAuthTokenError(f"the identity provider refuses the exchange: HTTP {response.status_code}")
        token = response.json()
        # RFC 8693 lets a provider issue another type of token than the requested one.
        if token.get("issued_token_type") != _ID_JAG or not isinstance(token.get("access_token"), str):
            raise OAuthTokenError("the identity provider returned no grant for the server")
        return str(token["access_token"])

    return _EnterpriseAuth(
        config.url,
        cast(Any, _Forgetful()),
        texts["client_id"],
        texts["client_secret"],
        texts["issuer"],
        grant,
        texts.get("scope"),
        _client_auth(texts),
    )


class _EnterpriseAuth(IdentityAssertionOAuthProvider):
    def secrets(self) -> frozenset[str]:
        """Return the access token, if there is one."""
        return frozenset() if self._tokens is None else frozenset((self._tokens.access_token,))


class _Forgetful:
    """A storage of the SDK that keeps nothing: the flow itself has its token."""

    async def get_tokens(self) -> None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        pass


async def _text_or_file(config: ServerConfig, texts: Mapping[str, str], key: str) -> str:
    """Return a setting, or the text of the file that `KEY_file` names; files are read at each use."""
    if key in texts:
        return texts[key]
    return await asyncio.to_thread(read_file, str(config), texts[f"{key}_file"])


def _client_auth(texts: Mapping[str, str]) -> Literal["client_secret_basic", "client_secret_post"]:
    return "client_secret_post" if texts.get("client_auth") == "client_secret_post" else "client_secret_basic"
