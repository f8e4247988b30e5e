"""Requests to an authorization server, within limits, and what it answers.

No text made here contains a token, a code or a client secret, whatever the server answers. Refused here: an address of
this machine or a private network, unless the MCP server or the configured `issuer` is at such an address itself.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import httpx2
import orjson
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import ValidationError

from ...config.network import range_of
from ...config.secrets import redact_text, remember_secrets
from ..child_process import without_control_characters

_MAX_ANSWER: Final = 2**20  # bytes
_MAX_REASON: Final = 500  # characters of a refusal that an error quotes
_TOKENS: Final = ("access_token", "refresh_token", "id_token")
_CLIENT_SECRETS: Final = ("client_secret", "registration_access_token")
_SENT_SECRETS: Final = (*_TOKENS, *_CLIENT_SECRETS, "assertion", "client_assertion", "code", "code_verifier")


async def send_bounded(client: httpx2.AsyncClient, request: httpx2.Request, seconds: float) -> httpx2.Response:
    """Send a request; its answer may take `seconds` and have 1 MiB."""
    try:
        async with asyncio.timeout(seconds):
            response = await client.send(request, stream=True)
            try:
                body = bytearray()
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_ANSWER:
                        raise OAuthFlowError(f"{_place(request)} answers with more than 1 MiB")
            finally:
                await response.aclose()
    except TimeoutError as error:
        raise OAuthFlowError(f"{_place(request)} gave no complete answer within {seconds:g} s") from error
    # The body is decoded by now.
    headers = [(name, text) for name, text in response.headers.items() if not name.startswith("content-")]
    headers.append(("content-type", response.headers.get("content-type", "no content type")))
    return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=request)


async def require_same_network(url: str, *trusted: str) -> None:
    """Refuse an address that a server names inside a network in which none of the trusted addresses is."""
    host = urlsplit(url).hostname or ""
    trusted_hosts = [urlsplit(address).hostname or "" for address in trusted]
    if host in trusted_hosts:
        return
    network = await _network(host)
    if network is None:
        return
    if network not in [await _network(trusted_host) for trusted_host in trusted_hosts]:
        raise OAuthFlowError(
            f"its metadata leads to {host}, a {network} address; "
            "if that is right, name the authorization server in auth.issuer"
        )


def token_answer(response: httpx2.Response) -> httpx2.Response:
    """Return an answer with tokens as JSON, and keep its tokens out of everything that is shown."""
    answer = _members(response)
    remember_secrets(_texts(answer, _TOKENS))
    if "error" in answer and "access_token" not in answer:
        raise OAuthTokenError(f"the authorization server refuses the login: {_reason(response)}")
    try:
        tokens = OAuthToken.model_validate({"token_type": "Bearer", **answer})
    except ValidationError as error:
        # The text of the error would show the tokens.
        message = f"the answer of the authorization server ({_kind(response)}) has no valid {_wrong_members(error)}"
    else:
        return httpx2.Response(200, content=tokens.model_dump_json(exclude_none=True), request=response.request)
    raise OAuthTokenError(message)


def refresh_answer(response: httpx2.Response) -> httpx2.Response:
    """Return the answer to a refresh; a refusal inside 200, as GitHub sends it, becomes a 400."""
    answer = _members(response)
    if "error" in answer and "access_token" not in answer:
        return httpx2.Response(400, request=response.request)
    return token_answer(response)


def client_answer(response: httpx2.Response) -> httpx2.Response:
    """Return the answer to a registration, and keep its secrets out of everything that is shown."""
    answer = _members(response)
    remember_secrets(_texts(answer, _CLIENT_SECRETS))
    try:
        # The issuer is the SDK's own note, so a server cannot set it.
        OAuthClientInformationFull.model_validate({**answer, "issuer": None})
    except ValidationError as error:
        message = f"the registration ({_kind(response)}) has no valid {_wrong_members(error)}"
    else:
        return response
    raise OAuthRegistrationError(message)


def refusal_answer(response: httpx2.Response) -> httpx2.Response:
    """Return a refusal with its reason as the whole body, which the SDK puts into its error."""
    return httpx2.Response(response.status_code, text=_reason(response), request=response.request)


def _reason(response: httpx2.Response) -> str:
    """Return the words of a refusal without what was sent, which some servers repeat."""
    answer = _members(response)
    error, description = answer.get("error"), answer.get("error_description")
    words = str(description or error or "no reason given")
    sent = _members(response.request)
    words = redact_text(words, _texts(sent, _SENT_SECRETS) | _texts(answer, _SENT_SECRETS))
    return " ".join(without_control_characters(words).split())[:_MAX_REASON]


def _members(message: httpx2.Request | httpx2.Response) -> dict[str, Any]:
    """Return the members of a body in JSON or in the form of HTML forms; {} for any other body."""
    try:
        members = orjson.loads(message.content)
    except orjson.JSONDecodeError:
        members = dict(parse_qsl(message.content.decode(errors="replace")))
    return members if isinstance(members, dict) else {}


def _texts(members: dict[str, Any], names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(str(members[name]) for name in names if members.get(name))


def _wrong_members(error: ValidationError) -> str:
    return ", ".join(".".join(map(str, part["loc"])) for part in error.errors(include_input=False))


def _kind(response: httpx2.Response) -> str:
    return str(response.headers.get("content-type", "no content type"))


def _place(request: httpx2.Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc.decode()}"


async def _network(host: str) -> str | None:
    """Return what kind of address a host has; None for a public one, and for a name that does not resolve."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None  # connecting says why
    kinds = [range_of(ipaddress.ip_address(str(entry[4][0]).partition("%")[0])) for entry in found]
    return next((kind for kind in kinds if kind is not None), None)
