"""Tools that the tests of flows in Python call, and one way to run a flow."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, TypedDict

from ropewalk.app.app import App
from ropewalk.tools.tool import tool


class Hit(TypedDict):
    url: str
    score: float


calls: Counter[str] = Counter()


@tool
async def search(query: str, limit: int = 5) -> list[Hit]:
    """Find."""
    return [{"url": f"{query}/{i}", "score": i / 10} for i in range(10)][:limit]


@tool
async def fetch(url: str) -> str:
    """Get a page."""
    return f"page {url}"


@tool
async def count(of: list[str]) -> dict[str, int]:
    """How many."""
    return {"n": len(of)}


@tool(name="net.get", namespace="web")
async def get(url: str, **more: Any) -> str:
    """Get."""
    return f"{url} {more}"


@tool
async def flaky(key: str, good: int = 3) -> str:
    """Fails until it has been called `good` times with the key."""
    calls[key] += 1
    if calls[key] < good:
        raise RuntimeError(f"call {calls[key]} of {key}")
    return f"{key} after {calls[key]}"


@tool
async def bad(why: str = "no luck") -> str:
    """Always fails."""
    raise RuntimeError(why)


def run(flow: Any, input: Any = None, *, store: str = "memory", **more: Any) -> dict[str, Any]:
    """The outcome of a flow in an app of its own."""

    async def main() -> dict[str, Any]:
        async with App(store, secrets=["KEY"]) as app:
            return (await app.run(flow, input, **more)).to_dict()

    return asyncio.run(main())


def result(flow: Any, input: Any = None, **more: Any) -> Any:
    """What a flow gives that ends well."""
    done = run(flow, input, **more)
    assert done["status"] == "completed", done
    return done["result"]
