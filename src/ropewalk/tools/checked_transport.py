"""Connections to addresses that come from data: each is checked, and the connection goes to what was checked.

A name is resolved once per request. The request then goes to one of the addresses found, so a name that means another
address a moment later changes nothing. TLS still verifies the name. Proxies are not used here: they would resolve it
again.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ..config.network import AddressPolicy

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


def checked_transport(policy: AddressPolicy, connect_seconds: float) -> Any:
    """Return a transport for httpx2 that connects only to addresses which the policy allows."""
    import httpx2

    class CheckedTransport(httpx2.AsyncBaseTransport):
        def __init__(self) -> None:
            # One pool per name: a connection that was verified for one name never serves another one.
            self._pools: dict[str, httpx2.AsyncHTTPTransport] = {}

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            host = request.url.host
            port = request.url.port or _DEFAULT_PORTS[request.url.scheme]
            addresses = await _allowed(policy, host, port, connect_seconds)
            pool = self._pools.setdefault(host, httpx2.AsyncHTTPTransport())
            for address in addresses[:-1]:
                try:
                    return await pool.handle_async_request(_sent_to(request, address))
                except (httpx2.ConnectError, httpx2.ConnectTimeout):
                    continue  # nothing was sent yet; the name has another address
            return await pool.handle_async_request(_sent_to(request, addresses[-1]))

        async def aclose(self) -> None:
            for pool in self._pools.values():
                await pool.aclose()

    return CheckedTransport()


def _sent_to(request: httpx2.Request, address: str) -> httpx2.Request:
    """The same request, `Host` header included, addressed to an IP address; TLS asks for and verifies the name."""
    import httpx2

    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )


async def _allowed(policy: AddressPolicy, host: str, port: int, seconds: float) -> list[str]:
    """The addresses of a name that the policy allows; AddressRefused where there are only others."""
    import httpx2

    try:
        async with asyncio.timeout(seconds):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError as error:
        raise httpx2.ConnectTimeout(f"no address of {host!r} within {seconds:g} s") from error
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(f"no address of {host!r}: {error}") from error
    addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
    refused = {address: policy.refusal(address, port) for address in addresses}
    allowed = [address for address in addresses if refused[address] is None]
    if not allowed:
        address, kind = next(iter(refused.items()))
        means = f"{host} is" if host == address else f"{host} is at {address},"
        raise AddressRefused(
            f"{means} a {kind} address; an address that comes from a document or an argument must be public, "
            "unless [network] allow in ropewalk.toml names it"
        )
    return allowed
