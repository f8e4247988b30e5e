"""The HTTP API and the page of an app, `ropewalk serve`.

A door: a request becomes a call on App, the answer is rendered, and errors become statuses by the one table
in `answers.py`. Refused: requests without the token, from other hosts and origins, code and paths of files.
To add a route, add it to the router of its noun (`runs.py`, `definitions.py`, `tools.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .site import make_site


def __getattr__(name: str) -> Any:
    if name == "make_site":  # with FastAPI behind it
        from .site import make_site

        return make_site
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["make_site"]
