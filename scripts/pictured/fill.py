"""Fills the store of a project with the runs of the pictures: `python fill.py ordinary|huge` in its directory."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import documents as d

from ropewalk import App
from ropewalk.testing import ScriptedModel, wants
from ropewalk.tools.capture import capture

MANY_RUNS, MANY_DEFINITIONS, MANY_WAITS = 5_000, 150, 60
MODEL = [
    [wants("stock", {"material": "nylon"}), wants("stock", {"material": "hemp"})],
    [wants("order", {"material": "nylon", "metres": 42})],
    "There were 8 m of nylon left, so I ordered 42 m; there is enough hemp.",
]


async def ordinary(app: App) -> None:
    for document in (d.DIGEST, d.IMPORT, d.REFUND, d.DELIVERY):
        await app.chains.create_chain(document)
    for document in d.STRANGE:
        await app.run({**document, "kind": "chain"}, run_id=f"strange-{d.STRANGE.index(document)}")
    await app.run({**d.LARGE_OUTPUT, "kind": "chain"}, run_id="megabyte")
    await app.run({**d.PARTIAL, "kind": "chain"}, run_id="partial")
    await app.run({**d.LEDGER, "kind": "chain"}, run_id="ledger")
    app.model = ScriptedModel(*MODEL, usage={"input_tokens": 1840, "output_tokens": 212}, cost=0.0087)
    await app.run(d.AGENT, {"material": "nylon"}, run_id="agent")
    await app.chains.execute_chain("nightly-import", {"executionId": "import-1"})
    await app.chains.execute_chain("weekly-digest", {"input": {"topic": "ropes"}, "executionId": "digest-1"})
    await app.runs.fork("digest-1", input={"topic": "knots"}, new_id="digest-2")


async def huge(app: App) -> None:
    for n in range(MANY_DEFINITIONS):
        more = {
            "id": f"flow-{n}",
            "name": f"Flow {n} {d.LONG if n % 10 == 7 else ''}",
            "description": "Text. " * (n % 60),
        }
        await app.chains.create_chain({**d.IMPORT, **more})
    await app.chains.create_chain(d.wide(2_000))
    small = {"kind": "chain", "name": "Small", "nodes": [d.call("a", "echo", value="$input")]}
    names = ["Price watch", "Weekly digest", "Sync stock", "Read mail", d.LONG, d.CHINESE, d.ARABIC]
    for n in range(MANY_RUNS):
        await app.run({**small, "name": names[n % len(names)]}, n, run_id=f"run-{n:05}")
    await app.run({**d.many(10_000), "kind": "chain"}, run_id="loop")
    await app.chains.execute_chain("wide-2000", {"executionId": "wide-1"})
    await app.runs.fork("wide-1", input={"other": True}, at=["step-0"], new_id="wide-2")


async def main(what: str) -> None:
    with capture(None):
        async with App.open(Path()) as app:
            await {"ordinary": ordinary, "huge": huge}[what](app)


asyncio.run(main(sys.argv[1]))
