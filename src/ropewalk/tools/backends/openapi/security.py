"""The security of operations: which credentials of the settings a call sends, and where.

Credentials are configured by the name of their scheme: a text (an API key, a bearer token, `user:password`), or a table
(`client_id` and `client_secret`; `username` and `password`). `false` says that the server does not ask for this scheme,
and `credentials = false` that it asks for none. A call without the security that its document demands is refused before
it is sent.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote_plus, urljoin, urlsplit

from ....errors import ConfigError, InvalidTool
from ....fast_dataclass import dataclass
from ....values import did_you_mean
from ..http import REFUSED_HEADERS, Placement, check_url, is_header_name

_TABLE_KEYS: Final = frozenset(("username", "password", "client_id", "client_secret", "scope", "token_url"))


@dataclass(frozen=True, slots=True)
class Security:
    """The credentials that a call of one operation sends."""

    placements: tuple[Placement, ...] = ()
    # Why the call cannot be made; None if it can.
    missing: str | None = None


def check_credentials(credentials: Any, place: str) -> Any:
    """Return the credentials of a provider by scheme; False if the server asks for none."""
    if credentials is None or credentials is False:
        return {} if credentials is None else False
    if not isinstance(credentials, dict):
        raise ConfigError(f"{place}: credentials must be a table of security schemes, or false").at_key("credentials")
    for name, value in credentials.items():
        if value is False or isinstance(value, str):
            continue
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            message = f"{place}: credentials.{name} must be a text, a table of texts, or false"
            raise ConfigError(message).at_key("credentials", name)
        for key in value:
            if key not in _TABLE_KEYS:
                hint = did_you_mean(key, _TABLE_KEYS)
                raise ConfigError(
                    f"{place}: credentials.{name}: unknown key {key!r}" + (f"; did you mean {hint}?" if hint else "")
                ).at_key("credentials", name)
    return credentials


def flat_credentials(credentials: Mapping[str, Any]) -> dict[str, str]:
    """Return every text of the credentials by `SCHEME` or `SCHEME.KEY`."""
    texts: dict[str, str] = {}
    for name, value in credentials.items():
        if isinstance(value, str):
            texts[name] = value
        elif isinstance(value, dict):
            texts |= {f"{name}.{key}": text for key, text in value.items()}
    return texts


class SecurityRules:
    """The security schemes of one document, with the configured credentials."""

    # `headers`: The names of the configured headers, in lower case.
    # `address`: Where the document was fetched. It cannot send the credentials of a client to a third server.

    def __init__(
        self,
        schemes: Mapping[str, Any],
        credentials: Any,
        headers: frozenset[str],
        base: str,
        address: str | None = None,
    ) -> None:
        self._schemes, self._headers = schemes, headers
        self._is_open = credentials is False
        self._credentials: Mapping[str, Any] = {} if credentials is False else credentials
        self._base, self._address = base, address

    def check_names(self, place: str) -> None:
        """Raise ConfigError for credentials of a scheme that the document does not define."""
        for name in self._credentials:
            if name not in self._schemes:
                hint = did_you_mean(name, self._schemes)
                known = f"did you mean {hint}?" if hint else f"it defines {', '.join(self._schemes) or 'none'}"
                message = f"{place}: credentials.{name}: the document has no such security scheme; {known}"
                raise ConfigError(message).at_key("credentials", name)

    def own_parameters(self) -> frozenset[tuple[str, str]]:
        """Return the place and the name of each parameter that a configured credential fills."""
        own: set[tuple[str, str]] = set()
        for name in self._credentials:
            scheme = self._schemes.get(name, {})
            if isinstance(scheme, dict) and scheme.get("type") == "apiKey":
                own.add((str(scheme.get("in")), str(scheme.get("name")).lower()))
        return frozenset(own)

    def of(self, requirements: Any) -> Security:
        """Return what an operation with these requirements sends: the first alternative that is configured."""
        if requirements is not None and not (
            isinstance(requirements, list) and all(isinstance(item, dict) for item in requirements)
        ):
            raise InvalidTool("its security must be a list of objects")
        if self._is_open or not requirements:
            return Security()
        reasons: list[str] = []
        names: list[str] = []
        is_optional = False
        for alternative in requirements:
            if not alternative:
                is_optional = True
                continue
            placements: list[Placement] = []
            missing: list[str] = []
            for name, scopes in alternative.items():
                placement = self._placement(name, scopes)
                if isinstance(placement, str):
                    missing.append(placement)
                elif placement is not None:
                    placements.append(placement)
            if not missing:
                return Security(tuple(placements))
            reasons.append(" and ".join(missing))
            names += [name for name in alternative if isinstance(self._schemes.get(name), dict)]
        if is_optional or not reasons:
            return Security()
        # The server may ask for less than its document says.
        setting = f"credentials.{names[0]} = false" if len(set(names)) == 1 else "credentials = false"
        hint = f"set them, or {setting} if the server asks for none"
        return Security((), f"the operation needs {' or '.join(dict.fromkeys(reasons))}; it was not sent: {hint}")

    def _placement(self, name: str, scopes: Any) -> Placement | str | None:
        """Return where a scheme's credential goes, None if nothing is to be added, or what is missing."""
        scheme, credential = self._schemes.get(name), self._credentials.get(name)
        if credential is False:
            return None
        if not isinstance(scheme, dict):
            return None if "authorization" in self._headers else f"the undefined security scheme {name!r}"
        kind, where = scheme.get("type"), scheme.get("in", "header")
        header = str(scheme.get("name", "")) if kind == "apiKey" else "Authorization"
        if kind == "apiKey":
            is_sent = where == "header" and header.lower() in self._headers
            is_sent |= where == "cookie" and "cookie" in self._headers
            what = f"an API key in the {where} {header!r}"
        else:
            is_sent = "authorization" in self._headers
            what = f"{scheme.get('scheme', kind)} authorization"
        if is_sent:
            return None
        if kind == "mutualTLS":
            return f"a client certificate, which cannot be sent (credentials.{name})"
        is_header = is_header_name(header) and header.lower() not in REFUSED_HEADERS - {"cookie"}
        if kind == "apiKey" and not (header and (where in ("query", "cookie") or (where == "header" and is_header))):
            return f"an API key in the {where} {header!r}, where none can be sent (credentials.{name})"
        if credential is None:
            return f"{what} (credentials.{name})"
        if kind == "apiKey":
            return self._text(name, credential, str(where), header, "")
        scheme_name = str(scheme.get("scheme", "")).lower() if kind == "http" else "bearer"
        if scheme_name == "basic":
            return Placement(where="header", name=header, text=lambda texts: _basic(texts, name), credential=name)
        if isinstance(credential, dict) and "client_id" in credential:
            return self._client(name, scheme, credential, scopes)
        prefix = "Bearer " if scheme_name == "bearer" else f"{scheme.get('scheme')} "
        return self._text(name, credential, "header", header, prefix)

    def _text(self, name: str, credential: Any, where: str, target: str, prefix: str) -> Placement | str:
        if not isinstance(credential, str):
            return f"a text as credentials.{name}"
        return Placement(where=where, name=target, text=lambda texts: prefix + texts[name], credential=name)

    def _client(self, name: str, scheme: Mapping[str, Any], credential: Any, scopes: Any) -> Placement | str:
        flows = scheme.get("flows")
        flow = flows.get("clientCredentials") if isinstance(flows, dict) else None
        url = credential.get("token_url") or (flow.get("tokenUrl") if isinstance(flow, dict) else None)
        if not isinstance(url, str):
            return f"a token URL (credentials.{name}.token_url)"
        try:
            url = check_url(urljoin(self._base + "/", url), f"credentials.{name}: token_url")
        except ConfigError as error:
            raise InvalidTool(str(error)) from error
        origins = {origin_of(self._base), origin_of(self._address or self._base)}
        if self._address is not None and "token_url" not in credential and origin_of(url) not in origins:
            return f"credentials.{name}.token_url, because a fetched document names another server for tokens"
        scope = credential.get("scope") or " ".join(s for s in scopes or () if isinstance(s, str))
        return Placement(
            where="header",
            name="Authorization",
            text=lambda texts: _client_basic(texts, name),
            token_url=url,
            scope=scope,
            credential=name,
        )


def origin_of(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _basic(texts: Mapping[str, str], name: str) -> str:
    pair = texts.get(name) or f"{texts.get(f'{name}.username', '')}:{texts.get(f'{name}.password', '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _client_basic(texts: Mapping[str, str], name: str) -> str:
    pair = f"{quote_plus(texts[f'{name}.client_id'])}:{quote_plus(texts.get(f'{name}.client_secret', ''))}"
    return "Basic " + base64.b64encode(pair.encode()).decode()
