"""Notice answers that another program gave in place of a model's API, such as the page of a proxy.

They have the status 200, so that an SDK reads them as an empty or a cut answer. `noticing` collects what `check` finds
in the responses of a block; the SDK sees the status 400, and requests nothing again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import orjson

_EXCERPT: Final = 300
_PAGES: Final = ("text/html", "application/xhtml+xml")
_found: ContextVar[list[str] | None] = ContextVar("ropewalk_foreign_answers", default=None)


@contextmanager
def noticing() -> Iterator[list[str]]:
    """Collect a message for each such answer within the block."""
    found: list[str] = []
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)


async def check(response: Any) -> None:
    """Examine a response before an SDK reads it; an event hook of the HTTP client."""
    found = _found.get()
    if found is None or response.status_code != 200:
        return
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _PAGES and not (kind == "application/json" and _asks_for_stream(response.request)):
        return
    await response.aread()
    wanted = "a stream of events" if _asks_for_stream(response.request) else "JSON"
    text = " ".join(response.text[: 2 * _EXCERPT].split())[:_EXCERPT]
    found.append(f"{response.request.url} answered with {kind} in place of {wanted}: {text}")
    response.status_code = 400


def _asks_for_stream(request: Any) -> bool:
    if "alt=sse" in str(request.url):
        return True
    # Only the member of the body counts: arguments of tools have members of this name, too.
    try:
        body = orjson.loads(request.content)
    except ValueError:
        return False
    return isinstance(body, dict) and body.get("stream") is True
