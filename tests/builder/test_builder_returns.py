"""The declared type of a flow's result holds when it runs, in whatever notation it is written."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from builder.tools_for_flows import run
from ropewalk import App, flow, tool


async def loose(n: int) -> Any:
    """A tool of the app, which says little of what it gives."""
    return {"n": n}


@pytest.mark.parametrize("kind", ["flow", "composition", "composite"])
def test_what_does_not_fit_fails_the_run(kind: str) -> None:
    with flow("typed", n=int) as f:
        f.settings(returns={"type": "object", "properties": {"n": {"maximum": 3}}})
        f.result(f.call("loose", n=f.input.n))

    async def done(n: int) -> dict[str, Any]:
        async with App("memory") as app:
            app.toolbox.register(tool(loose))
            return (await app.run(f if kind == "flow" else f.done().export(kind), {"n": n})).to_dict()

    assert asyncio.run(done(3))["status"] == "completed"
    failed = asyncio.run(done(4))
    assert failed["status"] == "failed"
    assert "output.n: 4 is greater than the maximum of 3" in str(failed)


def test_the_message_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "hush-hush")
    with flow("typed") as f:
        f.settings(returns={"properties": {"key": {"pattern": "^[0-9]+$"}}})
        f.result({"key": f.secret.KEY})
    failed = run(f)
    assert failed["status"] == "failed"
    assert "hush" not in str(failed)
