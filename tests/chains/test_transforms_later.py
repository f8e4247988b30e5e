"""Transforms that a process registers later than it reads what names them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.errors import InvalidFlow
from ropewalk.expr import TRANSFORMS, transform

CHAIN = {
    "id": "c",
    "nodes": [
        {"id": "a", "type": "tool", "tool": "count"},
        {"id": "w", "type": "wait", "event": "go"},
        {"id": "b", "type": "tool", "tool": "tell", "params": {"n": "${custom('made_later', output.a)}"}},
    ],
}
ANOTHER_PROCESS = f"""
import asyncio
from ropewalk import App, transform

@transform
def made_later(value):
    return value * 2

async def executor(tool, params):
    return 21

async def main():
    async with App("s.db") as app:
        await app.chains.create_chain({CHAIN!r})
        await app.run({{**{CHAIN!r}, "kind": "chain"}}, run_id="r", executor=executor, park=True)
        app.runs.send("r", "go")

asyncio.run(main())
"""
SAID = (
    r"nodes\[2\].params.n: no transform 'made_later' is registered; put @transform on its function, in a module "
    r"that is imported first, such as those of \[tools\] modules"
)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    TRANSFORMS.pop("made_later", None)


def test_what_was_refused_goes_on_when_the_transform_is_registered(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ANOTHER_PROCESS], cwd=tmp_path, check=True, timeout=300)
    calls: list[str] = []

    async def executor(tool: str, params: dict[str, Any]) -> Any:
        calls.append(tool)
        return params["n"]

    async def case() -> None:
        async with App(str(tmp_path / "s.db")) as app:
            assert [line["id"] for line in await app.chains.list_chains()] == ["c"]
            for refused in (
                app.chains.execute_chain("c", tool_executor=executor),
                app.chains.clone_chain("c"),
                app.chains.create_chain(CHAIN),
                app.resume("r", executor=executor),
            ):
                with pytest.raises(InvalidFlow, match=SAID):
                    await refused
            row = app.store.get_run("r")
            assert row is not None
            assert (row.status in ("running", "waiting"), calls) == (True, [])
            transform("made_later")(lambda value: value * 2)
            done = await app.resume("r", executor=executor)
            assert (done.status, done.results["b"], calls) == ("completed", 42, ["tell"])

    asyncio.run(case())
