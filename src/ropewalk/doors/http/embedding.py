"""The HTTP API and the web UI as a part of another ASGI app."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...errors import ConfigError, install_command
from ..security import Site

if TYPE_CHECKING:
    from ...app.app import App


def embedded(app: App, token: str | None, hosts: Iterable[str]) -> Site:
    """Return the routes of an app for `App.asgi`, which documents the arguments."""
    try:
        from .flow_files import FlowFiles
        from .site import make_site
    except ModuleNotFoundError as error:
        raise ConfigError(f"app.asgi() needs the package {error.name}: {install_command('serve')}") from None
    return make_site(app, token, hosts=hosts, files_of=FlowFiles.of_project, is_embedded=True)
