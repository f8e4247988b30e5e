"""Every way to start a run takes the same options, and checks them alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ropewalk import App
from ropewalk.errors import InvalidFlow, InvalidInput

pytestmark = pytest.mark.anyio

CHAIN = {
    "kind": "chain",
    "mode": "parallel",
    "nodes": [{"id": f"n{i}", "type": "tool", "tool": "note"} for i in range(4)],
}
Starts = Callable[..., Awaitable[Any]]


class Noted:
    """A tool that counts how many of its calls are in progress at once."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def note(self) -> int:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return self.most


def by_run(app: App) -> Starts:
    return lambda **options: app.run(CHAIN, **options)


def by_execute(app: App) -> Starts:
    return lambda **options: app.execute(app.load(CHAIN), **options)


def by_stream(app: App) -> Starts:
    async def start(**options: Any) -> None:
        async with app.stream(CHAIN, **options) as events:
            async for _ in events:
                pass

    return start


WAYS = [by_run, by_execute, by_stream]


@pytest.mark.parametrize("way", WAYS)
async def test_concurrency_limits_the_nodes_at_once(way: Callable[[App], Starts]) -> None:
    free, limited = Noted(), Noted()
    for noted, options in ((free, {}), (limited, {"concurrency": 1})):
        async with App("memory", tools=[noted.note]) as app:
            await way(app)(**options)
    assert limited.most == 1 < free.most


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"variables": {"x": 1}}, InvalidInput, "variables.x: the definition has no variables"),
        ({"concurrency": 0, "variables": {"x": 1}}, InvalidFlow, "concurrency: must be 1 or more, not 0"),
        ({"budget": {"calls": -1}, "request": 3}, InvalidInput, "request: must be a string, not int"),
        ({"undo": "never"}, InvalidInput, "undo: must be one of on_request, on_failure, not 'never'"),
    ],
)
async def test_a_wrong_option_is_refused_before_anything_runs(
    way: Callable[[App], Starts], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    noted = Noted()
    async with App("memory", tools=[noted.note]) as app:
        with pytest.raises(error) as caught:
            await way(app)(**options)
        assert message in str(caught.value)
        assert (noted.most, app.runs.list()) == (0, [])
