"""The path under which the HTTP API and the web UI are served: a mount in another app, or the prefix of a proxy.

ASGI gives the prefix as `root_path`, and servers disagree on whether `path` has it: a proxy strips the prefix or keeps
it, and FastAPI with `root_path` does not add it. Behind this file both have it, as Starlette's router expects.
"""

from __future__ import annotations

import re
from typing import Final

from ..security import Receive, Scope, Send, Site

_FORM: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
_OWN: Final = ("api", "assets", "metrics", "healthz", "readyz")
"""First parts of own paths: a request without such a prefix looks like one with it."""


def read_root_path(text: str) -> str:
    """Return a prefix without a slash at its end; raise ValueError if the site cannot be served under it."""
    root = f"/{text.strip('/')}" if text.strip("/") else ""
    if root and not _FORM.fullmatch(root):
        raise ValueError(f"{text!r} is not a path such as /ropewalk")
    if root.split("/")[1:2] and root.split("/")[1] in _OWN:
        raise ValueError(f"{root} is a path of the server itself; choose another one, such as /ropewalk")
    return root


def route_path(scope: Scope) -> str:
    """Return the path of a request without the prefix."""
    return str(scope["path"]).removeprefix(str(scope.get("root_path") or ""))


class RootPath:
    """An ASGI app around another, which finds the prefix in both `root_path` and `path` of its requests."""

    def __init__(self, site: Site, root_path: str = "") -> None:
        self._site, self._root = site, root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = self._rooted(scope)
        await self._site(scope, receive, send)

    def _rooted(self, scope: Scope) -> Scope:
        root, path = self._root or str(scope.get("root_path") or "").rstrip("/"), str(scope["path"])
        if not root:
            return scope
        if not f"{path}/".startswith(f"{root}/"):
            path = f"{scope.get('app_root_path', root)}{path}"
        return {**scope, "root_path": root, "path": path if path != root else f"{root}/"}
