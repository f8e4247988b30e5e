"""The process dies between the effect and the record, or between the record and the end of the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ropewalk import App, IdempotencyKey, Toolbox
from ropewalk.errors import StoreError
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing import DyingStore

from .ledger import CHAIN

pytestmark = pytest.mark.process

DOCUMENT = {"id": "c", "name": "c", "nodes": [{"id": "pay", "type": "tool", "tool": "pay"}], **CHAIN}
PROGRAM = """
import asyncio, os, signal, sys
from ropewalk import App, Toolbox, IdempotencyKey

moment = sys.argv[1]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def pay(key: IdempotencyKey) -> dict:
    with open("ledger", "a") as file:
        file.write(key + "\\n")
    if moment == "before the record":
        die()
    return "paid"

def heard(event):
    if moment == event.kind:
        die()

async def main():
    async with App("sqlite:///runs.db", toolbox=Toolbox([pay], strict_output=True)) as app:
        await (app.run(%r, run_id="r", on_event=heard) if moment else app.resume("r"))
        print(app.runs.get("r")["errors"])

asyncio.run(main())
"""


def started(folder: Path, moment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", PROGRAM % DOCUMENT, moment]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(("moment", "payments"), [("before the record", 2), ("attempt.failed", 1), ("node.failed", 1)])
def test_kill_9(tmp_path: Path, moment: str, payments: int) -> None:
    """A call without a record is made again with its idempotency key; one with a record is not made again."""
    assert started(tmp_path, moment).returncode == -9
    again = started(tmp_path, "")
    assert again.returncode == 0, again.stderr
    assert "'ran': True" in again.stdout
    keys = (tmp_path / "ledger").read_text().splitlines()
    assert len(keys) == payments
    assert len(set(keys)) == 1


@pytest.mark.parametrize("written", [False, True])
async def test_death_at_every_write(written: bool) -> None:
    """Around the call is a block that is tried again, too: its own decision must survive a death."""
    block = {"id": "block", "type": "parallel", "errorStrategy": "retry", "nodes": DOCUMENT["nodes"]}
    document = {**DOCUMENT, "nodes": [block]}
    at = 1
    while True:
        keys: list[str] = []

        def pay(key: IdempotencyKey, keys: list[str] = keys) -> dict:  # type: ignore[type-arg]
            keys.append(key)
            return "paid"  # type: ignore[return-value]

        store = DyingStore(MemoryStore(durable=True), at=at, written=written)
        try:
            await App(store, toolbox=Toolbox([pay], strict_output=True)).run(document, run_id="r")
            break
        except StoreError:
            pass
        alive = await store.survivor()
        recorded = any(entry.kind == "call_failed" for entry in alive.history("r")) if alive.get_run("r") else False
        before = len(keys)
        async with App(alive, toolbox=Toolbox([pay], strict_output=True)) as app:
            done = await app.run(document, run_id="r")
        assert done.status == "failed"
        assert len(keys) == before + (not recorded), (at, recorded)
        assert len(set(keys)) == 1
        at += 1
    assert at > 3, f"it died at {at - 1} writes (process {os.getpid()})"
