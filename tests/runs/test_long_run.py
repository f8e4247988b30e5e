"""Runs of very many steps: resuming one holds a few pages of its journal, never all of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from ropewalk import App, tool
from ropewalk.journal.past import KEPT_PAGES, PAGE, PagedPast
from ropewalk.journal.protocol import Entry
from ropewalk.values import digest

STEPS, LEFT = 20_000, 3
CHAIN = {
    "kind": "chain",
    "name": "long",
    "mode": "loop",
    "maxIterations": STEPS,
    "timeout": 600_000,
    "nodes": [{"id": "step", "type": "tool", "tool": "step", "params": {"n": "$iteration"}}],
}


async def record(app: App) -> None:
    """Write what a process would have recorded that died before the last steps."""
    log = await app.store.open((await app.jobs.make(app.load(CHAIN), run_id="long", input={})).new)
    now = time.time()
    for n in range(STEPS - LEFT):
        mark = digest(["step", {"n": n}])
        done = log.append(Entry(f"rounds[{n}]/step", "call", "step", n, mark, now + n / 1e4, now + (n + 1) / 1e4))
    await done
    await log.release()


def test_resuming_a_long_run_holds_a_few_pages_of_its_journal(tmp_path: Path) -> None:
    called: list[int] = []

    @tool
    def step(n: int) -> int:
        """Count."""
        called.append(n)
        return n

    async def test() -> None:
        async with App(str(tmp_path / "runs.db"), tools=[step]) as app:
            await record(app)
            pages, held, fetched = [], [0], [0]
            job = await app.jobs.for_existing(app.runs.row("long"))
            log = await app.store.reopen("long")
            past = log.past
            assert isinstance(past, PagedPast)
            read, keep = past.source.page, past._keep

            def page(places):
                pages.append(len(places))
                return read(places)

            def kept(some, then):
                keep(some, then)
                held[0], fetched[0] = max(held[0], past.entries_in_memory), fetched[0] + len(some)

            past.source.page, past._keep = page, kept
            result = await app.jobs.continue_run(job, log)
            assert (result["status"], result["results"]) == ("completed", {"step": STEPS - 1})
            assert called == list(range(STEPS - LEFT, STEPS))
            assert max(pages) <= PAGE
            assert PAGE <= held[0] <= KEPT_PAGES * PAGE
            assert fetched[0] < 1.3 * STEPS  # each page about once

    asyncio.run(test())
