"""Fills the store of a project with the runs of the pictures: `python fill.py ordinary|huge|duty` in its directory."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import documents as d

from ropewalk import App
from ropewalk.journal.protocol import Entry, NewRun
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


async def duty(app: App) -> None:
    """A week of runs: more by day than by night, and some hours in which a warehouse was away."""
    app.schedules.apply()
    app.schedules.pause("month-end")
    chance, now = random.Random(7), time.time()
    gone = "warehouse: connection refused while reading sales; {} of 3 replicas are down"
    document: dict[str, Any] = {"nodes": [d.call("rows", "echo")]}
    flows = ["Nightly import", "Weekly digest", "Price watch", "Refund an order", "Sync stock"]
    begun = []
    while len(begun) < 900:
        ago = chance.random() * 7 * 86_400
        if chance.random() < (1.0 if 8 <= time.gmtime(now - ago).tm_hour < 20 else 0.3):
            begun.append(now - ago)
    for n, at in enumerate(sorted(begun)):
        name = chance.choices(flows, (5, 1, 9, 3, 4))[0]
        new = NewRun(id=f"duty-{n:04}", kind="chain", name=name, document=document, started_at=at)
        log = await app.store.open(new)
        if n < 2:
            data = {"approval": f"Refund order A-10{n}?", "due": None}
            await log.append(Entry("paid", "wait", "paid", data, "", at, at))
            await log.park(None)
            continue
        error = None
        if name == "Nightly import" and chance.random() < (0.7 if now - at < 20_000 else 0.04):
            error = {"kind": "NodeFailed", "message": f"rows: {gone.format(chance.choice((2, 3)))}"}
        elif name == "Price watch" and chance.random() < 0.03:
            error = {"kind": "NodeFailed", "message": f"each[{n % 7}]/price: KeyError: 'amount'"}
        elif chance.random() < 0.01:
            error = {"kind": "FlowTimeout", "message": "no end within 60 s"}
        late = error is not None and error["kind"] == "FlowTimeout"
        good = "partial" if chance.random() < 0.03 else "completed"
        await log.finish("timeout" if late else "failed" if error else good, {}, error)


def write_flows() -> None:
    Path("import.json").write_text(json.dumps({**d.IMPORT, "kind": "chain"}))


async def main(what: str) -> None:
    with capture(None):
        async with App.open(Path()) as app:
            await {"ordinary": ordinary, "huge": huge, "duty": duty}[what](app)


if sys.argv[1] == "duty":
    write_flows()
asyncio.run(main(sys.argv[1]))
