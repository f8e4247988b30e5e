"""How Ropewalk authorizes itself at an MCP server: the checked form of `auth`.

A kind is a text or the `type` of a table: `oauth` for a person who logs in, the others for machines. Refused here:
unknown keys, a client secret or key without the `issuer` that may see it, and addresses that are neither https nor on
this machine. To add a kind, add its keys to `_KEYS` and a branch to `MachineAuth`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlsplit

from ...config.secrets import Secrets, remember_secrets, secrets_of
from ...config.settings import fill_variables
from ...errors import ConfigError
from ...fast_dataclass import dataclass
from ...values import did_you_mean

LOGIN: Final = "oauth"
CLIENT_CREDENTIALS: Final = "client_credentials"
WORKLOAD: Final = "workload"
ENTERPRISE: Final = "enterprise"
NO_AUTH: Final = "none"

_KEYS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    # kind: the keys that it needs, and those that it may have
    LOGIN: (
        (),
        (
            *("client_id", "client_secret", "issuer", "client_metadata_url", "scope", "redirect_port", "dpop"),
            *("metadata_issuer", "assume_pkce", "resource", "refresh_scope", "authorization_params"),
        ),
    ),
    CLIENT_CREDENTIALS: (
        ("client_id", "issuer"),
        ("client_secret", "client_auth", "private_key", "private_key_file", "algorithm", "scope", "dpop"),
    ),
    WORKLOAD: (("client_id", "issuer"), ("assertion", "assertion_file", "scope", "dpop")),
    ENTERPRISE: (
        ("client_id", "client_secret", "issuer", "idp_token_url", "idp_client_id"),
        ("idp_client_secret", "id_token", "id_token_file", "client_auth", "scope"),
    ),
    NO_AUTH: ((), ()),
}
_EITHER: Final[Mapping[str, tuple[str, ...]]] = {
    CLIENT_CREDENTIALS: ("client_secret", "private_key", "private_key_file"),
    WORKLOAD: ("assertion", "assertion_file"),
    ENTERPRISE: ("id_token", "id_token_file"),
}
_SWITCHES: Final = ("dpop", "assume_pkce", "resource", "refresh_scope")
_NO_TEXTS: Final = ("type", "redirect_port", "authorization_params", *_SWITCHES)
_OF_THE_PROTOCOL: Final = frozenset(
    (
        *("client_id", "code_challenge", "code_challenge_method", "redirect_uri"),
        *("resource", "response_type", "scope", "state"),
    )
)
"""The parameters of the authorization address that no setting may change."""
_CLIENT_AUTH: Final = ("client_secret_basic", "client_secret_post")
_ALGORITHMS: Final = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSettings:
    """How to authorize at one server."""

    # Texts are as written: `resolved_auth` reads their variables.

    # `oauth`, `client_credentials`, `workload`, `enterprise` or `none`.
    kind: str = LOGIN
    # The settings that are texts, by key.
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The port to which the authorization server sends the browser back; 0 for any.
    redirect_port: int = 0
    # Bind tokens to a key of this process (RFC 9449).
    dpop: bool = False
    # Log in at an authorization server whose metadata do not mention PKCE.
    assume_pkce: bool = False
    # Name the MCP server in requests for tokens (RFC 8707).
    resource: bool = True
    # Name the rights of the login again at each refresh.
    refresh_scope: bool = False
    # More parameters of the address that the person opens to log in, as texts.
    authorization_params: Mapping[str, str] = field(default_factory=dict)


def auth_settings(what: str, value: Any) -> AuthSettings:
    """Check the `auth` of a server."""
    settings = {} if value is None else {"type": value} if isinstance(value, str) else value
    if not isinstance(settings, Mapping):
        kinds = ", ".join(_KEYS)
        raise ConfigError(f"{what}: must be one of {kinds}, or a table with a type, not {type(value).__name__}")
    kind = settings.get("type", LOGIN)
    if kind not in _KEYS:
        near = did_you_mean(str(kind), _KEYS)
        hint = f"; did you mean {near!r}?" if near else ""
        raise ConfigError(f"{what}: type {kind!r} is not one of {', '.join(_KEYS)}{hint}")
    needed, optional = _KEYS[kind]
    # Check for unknown keys first: otherwise a misspelled key is reported as a missing one.
    for key in settings:
        if key not in ("type", *needed, *optional):
            raise ConfigError(f"{what}: {unknown_key(key, (*needed, *optional), f' for {kind}')}")
    for key in needed:
        if key not in settings:
            raise ConfigError(f"{what}: {kind} needs {key}")
    group = _EITHER.get(kind)
    if group is not None and sum(key in settings for key in group) != 1:
        raise ConfigError(f"{what}: {kind} needs exactly one of {', '.join(group)}")
    # Without a fixed issuer, any authorization server that the MCP server names would get the secret.
    if "client_secret" in settings and "issuer" not in settings:
        why = "the address of the authorization server that may see the secret"
        raise ConfigError(f"{what}: client_secret needs issuer: {why}")
    texts = {key: text for key, text in settings.items() if key not in _NO_TEXTS}
    _check_texts(what, texts)
    port = settings.get("redirect_port", 0)
    switches: dict[str, Any] = {key: settings[key] for key in _SWITCHES if key in settings}
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:
        raise ConfigError(f"{what}: redirect_port must be a port, not {port!r:.100}")
    for key, value in switches.items():
        if not isinstance(value, bool):
            raise ConfigError(f"{what}: {key} must be true or false, not {value!r:.100}")
    params = settings.get("authorization_params", {})
    if not isinstance(params, Mapping) or not all(isinstance(text, str) for pair in params.items() for text in pair):
        raise ConfigError(f"{what}: authorization_params must be a table of texts, not {params!r:.100}")
    if fixed := sorted(_OF_THE_PROTOCOL & params.keys()):
        raise ConfigError(f"{what}: authorization_params cannot set {', '.join(fixed)}")
    return AuthSettings(kind=kind, texts=texts, redirect_port=port, authorization_params=dict(params), **switches)


def resolved_auth(where: str, auth: AuthSettings) -> tuple[dict[str, str], Secrets]:
    """Return the texts with `${VAR}` and `${VAR:-default}` read from our environment, and the secrets among them."""
    read: dict[str, dict[str, str]] = {}
    texts = {
        key: read_variables(f"{where}: auth.{key}", text, read.setdefault(key, {})) for key, text in auth.texts.items()
    }
    for key in ("issuer", "idp_token_url"):
        if key in texts:
            require_safe_address(f"{where}: auth.{key}", texts[key])
    values = {key: text for key, text in texts.items() if not key.endswith(("_file", "_url", "_auth"))}
    return texts, secrets_of(values, read)


def read_variables(what: str, text: str, used: dict[str, str]) -> str:
    """Return a setting with its `${VAR}` and `${VAR:-default}` read from our environment."""
    try:
        return fill_variables(text, os.environ, used)
    except KeyError as unset:
        missing = f"${{{unset.args[0]}}}"
        raise ConfigError(f"{what} reads {missing}, which is not set in the environment") from None


def unknown_key(key: Any, known: Iterable[str], of: str = "") -> str:
    """Word the error for a key that does not exist, with the nearest one, or with all that do."""
    near = did_you_mean(str(key), known)
    hint = f"did you mean {near!r}?" if near else f"known keys: {', '.join(known) or 'none'}"
    return f"unknown key {key!r}{of}; {hint}"


def read_file(where: str, path: str) -> str:
    """Return the text of a file with a key or an assertion; it is read at each use, because others replace it."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            text = file.read().strip()
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{where}: cannot read {path!r}: {error}") from error
    remember_secrets({text})
    return text


def require_safe_address(what: str, url: str) -> None:
    """Refuse an address to which a secret must not be sent."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme != "http" or parts.hostname not in _LOCAL:
        raise ConfigError(f"{what}: {url!r:.200} must be an https address; others would show secrets to the network")


def _check_texts(what: str, texts: Mapping[str, Any]) -> None:
    for key, value in texts.items():
        if not isinstance(value, str) or not value or "\0" in value:
            raise ConfigError(f"{what}: {key} must be text, not {type(value).__name__}")
    for key, allowed in (("client_auth", _CLIENT_AUTH), ("algorithm", _ALGORITHMS)):
        if key in texts and texts[key] not in allowed:
            raise ConfigError(f"{what}: {key} must be one of {', '.join(allowed)}")
    url = urlsplit(texts.get("client_metadata_url", "https://any/path"))
    if url.scheme != "https" or url.path in ("", "/"):
        raise ConfigError(f"{what}: client_metadata_url must be an https address with a path")
