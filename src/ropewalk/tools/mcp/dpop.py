"""Bind tokens to a key, so that a stolen token is useless without it (RFC 9449, DPoP).

A proof is a JWT that the key signs for one request. A server may want its nonce in it: it refuses the first proof and
says which. Refused here: other algorithms than ES256, which every server with this extension supports.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

import jwt
import orjson
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from jwt.utils import base64url_encode

from ...config.secrets import remember_secrets

if TYPE_CHECKING:
    import httpx2

_HEADER: Final = "DPoP"
_SCHEME: Final = "DPoP "
_BEARER: Final = "Bearer "


class ProofKey:
    """The key of one login."""

    def __init__(self, pem: str | None = None) -> None:
        if pem is None:
            private_key = ec.generate_private_key(ec.SECP256R1())
            encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
            pem = private_key.private_bytes(encoding, form, serialization.NoEncryption()).decode()
        self.pem = pem
        self._key: ec.EllipticCurvePrivateKey = _load(pem)
        self._jwk: dict[str, Any] = ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self._nonces: dict[str, str] = {}  # by origin
        remember_secrets({pem})

    def prove(self, request: httpx2.Request) -> None:
        """Put a new proof into a request for a token, or into one that has a token; leave others as they are."""
        authorization = request.headers.get("authorization", "")
        has_token = authorization.startswith((_BEARER, _SCHEME))
        asks_for_token = b"grant_type=" in request.content if request.method == "POST" and not has_token else False
        if not has_token and not asks_for_token:
            return
        # RFC 9449: the address in a proof has no query and no fragment.
        url = request.url.copy_with(query=None, fragment=None, userinfo=b"")
        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": request.method,
            "htu": str(url),
            "iat": int(time.time()),
        }
        if has_token:
            # `ath` binds the proof to this token, so that it is useless with another one.
            token = authorization.partition(" ")[2]
            claims["ath"] = base64url_encode(hashlib.sha256(token.encode()).digest()).decode()
            request.headers["authorization"] = _SCHEME + token
        # A server that has sent a nonce refuses proofs without it.
        nonce = self._nonces.get(_origin(request))
        if nonce is not None:
            claims["nonce"] = nonce
        header = {"typ": "dpop+jwt", "jwk": self._jwk}
        request.headers[_HEADER] = jwt.encode(claims, self._key, algorithm="ES256", headers=header)

    def unwrap(self, response: httpx2.Response, body: bytes) -> httpx2.Response:
        """Return the answer of a token endpoint in the form that the SDK reads: it knows no other type than Bearer."""
        import httpx2

        token = orjson.loads(body)
        if str(token.get("token_type", "")).lower() != "dpop":
            raise ValueError("the authorization server does not bind tokens to a key; remove auth.dpop")
        content = orjson.dumps({**token, "token_type": "Bearer"})
        return httpx2.Response(
            response.status_code,
            headers={"content-type": "application/json"},
            content=content,
            request=response.request,
        )

    def wants_nonce(self, response: httpx2.Response) -> bool:
        """Return True if a server refuses a proof because it wants a nonce in it that we did not have; take it."""
        if response.status_code == 401 and "use_dpop_nonce" not in response.headers.get("www-authenticate", ""):
            return False
        # The token endpoint says so in its body, and sends this header for nothing else.
        return response.status_code in (400, 401) and self.take_nonce(response)

    def take_nonce(self, response: httpx2.Response) -> bool:
        """Take the nonce that a server wants from now on; return False if it names none that is new."""
        nonce = response.headers.get("dpop-nonce")
        origin = _origin(response.request)
        if not nonce or self._nonces.get(origin) == nonce:
            return False
        self._nonces[origin] = nonce
        return True


def _load(pem: str) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an EC key")
    return key


def _origin(request: httpx2.Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc.decode()}"
