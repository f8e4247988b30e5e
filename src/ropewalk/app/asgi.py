"""The HTTP API and the web UI of an app, to mount in another ASGI app."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..argument_checks import wrong_type

if TYPE_CHECKING:
    from .app import App


def make_asgi(app: App, token: str | None, hosts: Iterable[str]) -> Any:
    """Check the arguments of `App.asgi`, which documents them, and build the ASGI app."""

    # `token`: The bearer token that requests must show, or None.
    if token is not None and not (isinstance(token, str) and token.isascii()):
        raise wrong_type("token", "a string of ASCII characters", token)
    if isinstance(hosts, (str, bytes)) or not isinstance(hosts, Iterable):
        raise wrong_type("hosts", "a list of host names", hosts)
    hosts = list(hosts)
    for index, host in enumerate(hosts):
        if not isinstance(host, str):
            raise wrong_type(f"hosts[{index}]", "a string", host)
    # The package of the HTTP API is above this one, so its name is only known here.
    return import_module("ropewalk.doors.http.embedding").embedded(app, token, hosts)
