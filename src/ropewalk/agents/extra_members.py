"""Add the members of the option `extra` to the bodies of requests, for the SDKs of every maker alike.

pydantic-ai passes members that it does not know to some makers only. The HTTP client that the SDKs share adds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from httpx2 import AsyncClient

_members: ContextVar[Mapping[str, Any] | None] = ContextVar("ropewalk_extra_members", default=None)
_LENGTH: Final = "content-length"


@contextmanager
def adding_members(members: Mapping[str, Any] | None) -> Iterator[None]:
    """Add members to the body of every request within the block; each replaces a member of the same name."""
    token = _members.set(members)
    try:
        yield
    finally:
        _members.reset(token)


def create_http_client(**settings: Any) -> AsyncClient:
    """Create a client that adds the members."""
    import httpx2

    class Client(httpx2.AsyncClient):
        """A client that adds members to JSON bodies."""

        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            members = _members.get()
            if members and request.headers.get("content-type", "").startswith("application/json"):
                body = {**orjson.loads(await request.aread()), **members}
                headers = {name: value for name, value in request.headers.items() if name != _LENGTH}
                request = httpx2.Request(
                    request.method,
                    request.url,
                    headers=headers,
                    content=orjson.dumps(body),
                    extensions=request.extensions,
                )
            return await super().send(request, **options)

    return Client(**settings)
