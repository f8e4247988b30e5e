"""Which network addresses a request may go to when its address comes from data.

Loopback, link-local, private, multicast and reserved addresses are refused, also where an IPv6 address embeds them. The
setting `[network] allow` lists the exceptions. To refuse another range, add it to `range_of`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from ..errors import ConfigError
from ..fast_dataclass import dataclass

Ip: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Range: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|\d+")
_PORT: Final = re.compile(r":(\d{1,5})\Z")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_NOT_PUBLIC: Final = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "64:ff9b:1::/48", "fec0::/10", "100::/64")))
"""Ranges that not every version of Python's `is_global` knows."""


@dataclass(frozen=True, slots=True)
class Exemption:
    """One entry of `[network] allow`: a host name, or a range of addresses; `port` None means every port."""

    host: str | None
    range: _Range | None
    port: int | None


class AddressPolicy:
    """Decides where requests may go if their address comes from data."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self._exemptions = tuple(map(exemption, allow))

    def allows_host(self, host: str, port: int) -> bool:
        """Return True if the settings name this host, so that it may be at any address."""
        name = host.lower().rstrip(".")
        return any(entry.host == name and entry.port in (None, port) for entry in self._exemptions)

    def refusal(self, address: str, port: int) -> str | None:
        """Return what kind of address is forbidden ("loopback", "private", ...), or None if it is allowed."""
        ip = ipaddress.ip_address(address)
        ip = getattr(ip, "ipv4_mapped", None) or ip
        for entry in self._exemptions:
            if entry.range is not None and ip in entry.range and entry.port in (None, port):
                return None
        return range_of(ip)


def exemption(text: str) -> Exemption:
    """Read one entry of `[network] allow`."""
    wrong = f"{text!r} is not a host name, an IP address or a range such as 10.0.0.0/8, with or without :port"
    if (range_ := _in_range(text)) is not None:
        return Exemption(None, range_, None)
    match = _PORT.search(text)
    host, port = (text, None) if match is None else (text[: match.start()], int(match[1]))
    if port is not None and not 0 < port < 65536:
        raise ConfigError(wrong)
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (ranged := _in_range(bare)) is not None:
        return Exemption(None, ranged, port)
    name = host.lower().rstrip(".")
    # A name made of numbers only is an address in a form that we do not read: 127.1, 0x7f.1, 2130706433.
    if not _HOST.fullmatch(name) or all(_NUMBER.fullmatch(part) for part in name.split(".")):
        raise ConfigError(wrong)
    return Exemption(name, None, port)


def _in_range(text: str) -> _Range | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def range_of(ip: Ip) -> str | None:
    """Return what kind of address this is; None for a public one."""
    inner = _embedded(ip)
    if inner is not None:
        return range_of(inner)
    for name, holds in (
        ("unspecified", ip.is_unspecified),
        ("loopback", ip.is_loopback),
        ("link-local", ip.is_link_local),
        ("multicast", ip.is_multicast),
        ("private", ip.is_private),
        ("reserved", ip.is_reserved or not ip.is_global or any(ip in network for network in _NOT_PUBLIC)),
    ):
        if holds:
            return name
    return None


def _embedded(ip: Ip) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside an IPv6 address; None if there is none."""
    if isinstance(ip, ipaddress.IPv4Address):
        return None
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip in _NAT64 or (ip in _COMPATIBLE and int(ip) > 1):
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return None
