"""What a very long run costs to resume and to read.

    python bench/long_run.py [steps] [store]

Records a run of STEPS steps (default 1,000,000) whose process is gone before the last ten. New processes then read the
first page of its steps by the command line and over HTTP, resume it, and read its result and the first page again.
Prints the time, the CPU time and the peak memory of each. `store` is the URL of an empty Postgres database; default: a
SQLite file.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

STEPS, LEFT = 1_000_000, 10
AT_ONCE = 10_000
RUN, TOKEN = "long", "token"
LINE = "{:36}{:>8.2f} s{:>10} CPU{:>8.0f} MB"
COMMAND = str(Path(sys.executable).with_name("ropewalk"))
TOOLS = '''
from ropewalk import tool

@tool
def step() -> int:
    """Count."""
    return 1
'''
RESUME = """
import asyncio, time
from ropewalk import App

async def main():
    async with App.open(".") as app:
        began = time.perf_counter()
        outcome = await app.resume("long")
        print(outcome.status, time.perf_counter() - began)

asyncio.run(main())
"""


def make_project(folder: Path, steps: int, store: str | None) -> None:
    """Write a project with one chain, which calls one tool `steps` times."""
    nodes = [{"id": "step", "type": "tool", "tool": "step"}]
    chain = {"kind": "chain", "name": "long", "mode": "loop", "maxIterations": steps, "nodes": nodes}
    (folder / "long.json").write_text(json.dumps({**chain, "timeout": 86_400_000}))
    (folder / "mytools.py").write_text(TOOLS)
    os.environ["ROPEWALK_TOKEN"] = TOKEN
    url = json.dumps(store or "runs.db")
    (folder / "ropewalk.toml").write_text(f'[tools]\nmodules = ["mytools"]\n[store]\nurl = {url}\n')


async def record(folder: Path, steps: int) -> None:
    """Write the journal of the run as its process would have, but for the last ten steps."""
    from ropewalk import App
    from ropewalk.journal.protocol import Entry
    from ropewalk.values import digest

    async with App.open(folder) as app:
        job = await app.jobs.make(app.load(folder / "long.json"), run_id=RUN, input={})
        log = await app.store.open(job.new)
        mark, now = digest(["step", {}]), time.time() - steps / 1e4
        for first in range(0, steps - LEFT, AT_ONCE):
            rounds = range(first, min(first + AT_ONCE, steps - LEFT))
            entries = (
                Entry(f"rounds[{n}]/step", "call", "step", 1, mark, now + n / 1e4, now + (n + 1) / 1e4) for n in rounds
            )
            await [log.append(entry) for entry in entries][-1]
        await log.release()


def measure(name: str, command: list[str], folder: Path) -> None:
    """Run a command to its end; print how long it took and its peak memory."""
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    if status:
        sys.exit(f"{name} failed: {said.decode()}")
    cpu = f"{used.ru_utime + used.ru_stime:.2f} s"
    print(LINE.format(name, took, cpu, used.ru_maxrss / 1024), f"  {len(said):,} bytes", flush=True)


def measure_http(name: str, folder: Path, paths: list[str]) -> None:
    """Have a server answer; print how long each answer took, and the peak memory of the server."""
    command = [COMMAND, "serve", "--port", "0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "http://" in line:
                break
        url = "http://" + line.partition("http://")[2].partition("/")[0]
        for path in paths:
            began = time.perf_counter()
            request = urllib.request.Request(f"{url}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
            with urllib.request.urlopen(request) as answer:
                size = len(answer.read())
            took = time.perf_counter() - began
            peak = next(x for x in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmHWM" in x)
            place = path.removeprefix(f"/api/runs/{RUN}")
            print(LINE.format(f"{name}: {place}", took, "", int(peak.split()[1]) / 1024), f"  {size:,} bytes")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    if sys.argv[1:2] == ["record"]:
        asyncio.run(record(Path(sys.argv[2]), int(sys.argv[3])))
        return
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_project(folder, steps, sys.argv[2] if len(sys.argv) > 2 else None)
        # In a process of its own: a child's peak begins with the size of its parent.
        measure("record", [sys.executable, __file__, "record", str(folder), str(steps)], folder)
        measure("command alone (ropewalk runs ls)", [COMMAND, "runs", "ls"], folder)
        measure("interrupted: runs show", [COMMAND, "runs", "show", RUN], folder)
        measure("resume", [sys.executable, "-c", RESUME], folder)
        measure("ended: runs show", [COMMAND, "runs", "show", RUN], folder)
        measure_http("HTTP", folder, [f"/api/runs/{RUN}?limit=200", f"/api/runs/{RUN}?limit=200&after={steps // 2}"])


if __name__ == "__main__":
    main()
