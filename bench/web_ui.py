"""Measure the web UI in Chromium: the first paint of its large views, and the frames while somebody uses them.

    python bench/web_ui.py [--runs 100000] [--nodes 2000] [--loads 5]

The store has RUNS runs. One more run has NODES nodes, and one has printed 100,000 lines. Every load begins with an
empty cache. `paint` is the first contentful paint, `content` the moment when the rows, boxes or lines of the view are
there, both in milliseconds since the request of the address. The frames are those of some seconds of turning the wheel,
dragging and opening groups. Other work on the machine is measured, too; the last line has its load.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from overview import fill
from ropewalk import App
from ropewalk.tools.capture import capture

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
TOKEN = "only-for-measuring"
TOOLS = '''
from ropewalk import tool

@tool
def echo(value: int) -> int:
    """Give back what it gets."""
    return value

@tool
def say(count: int) -> int:
    """Print lines."""
    for n in range(count):
        print(f"row {n} is checked against the ledger, without a difference")
    return count
'''
WATCH = """(selector) => {
  const look = () => {
    if (!document.querySelector(selector)) return requestAnimationFrame(look);
    window.contentAt = performance.now();
  };
  requestAnimationFrame(look);
}"""
FRAMES = """() => {
  window.frames_ = [];
  let last = performance.now();
  const next = (now) => (window.frames_.push(now - last), (last = now), requestAnimationFrame(next));
  requestAnimationFrame(next);
}"""


def wide(count: int) -> dict[str, Any]:
    """Return a directed graph, in which each node comes after one or two others."""
    nodes = []
    for i in range(count):
        before = {(i - 1) // 2, i * 2 // 3} if i > 2 else set(range(min(i, 1)))
        call = {"id": f"step-{i}", "type": "tool", "tool": "echo", "params": {"value": i}}
        nodes.append({**call, "dependsOn": [f"step-{b}" for b in sorted(before)]})
    return {"kind": "chain", "name": "Wide", "mode": "dag", "timeout": 0, "nodes": nodes}


async def prepare(folder: Path, runs: int, nodes: int) -> None:
    """Write a project and its runs."""
    (folder / "tools.py").write_text(TOOLS)
    (folder / "ropewalk.toml").write_text('[tools]\nmodules = ["tools"]\n')
    says = [{"id": f"s{n}", "type": "tool", "tool": "say", "params": {"count": 1000}} for n in range(100)]
    with capture(None):
        async with App.open(folder) as app:
            fill(app.store, runs, time.time())
            await app.run(wide(nodes), run_id="wide")
            await app.run({"kind": "chain", "name": "Lines", "nodes": says}, run_id="lines")


def turn(page: Page, times: int = 60) -> None:
    """Turn the wheel down, and up again."""
    for n in range(times):
        page.mouse.wheel(0, 240 if n < times * 2 / 3 else -480)
        page.wait_for_timeout(30)


def use_graph(page: Page) -> None:
    """Drag the graph, zoom it, and open groups."""
    for _ in range(3):
        page.locator(".react-flow__controls-fitview").click()
        page.locator(".fold[aria-expanded=false]").last.dispatch_event("click")
        page.wait_for_timeout(400)
        page.mouse.move(500, 400)
        page.mouse.down()
        for n in range(30):
            page.mouse.move(500 + 8 * (n % 15), 400 + 5 * n)
        page.mouse.up()
    turn(page, 30)


VIEWS: dict[str, tuple[str, str, Callable[[Page], None]]] = {
    "list of runs": ("/runs", ".row .what a", turn),
    "graph": ("/runs/wide", ".graph[data-ready] .react-flow__node", use_graph),
    "timeline": ("/runs/wide?view=time", ".bar-row", turn),
    "logs": ("/runs/lines?view=logs", ".log", turn),
}


def measure(browser: Browser, url: str, view: str, loads: int) -> str:
    """Return the line of a view."""
    place, selector, use = VIEWS[view]
    paints, contents, frames = [], [], list[float]()
    for number in range(loads):
        context = browser.new_context(viewport={"width": 1280, "height": 800}, base_url=url)
        context.request.get(f"/?token={TOKEN}")
        page = context.new_page()
        page.add_init_script(f"({WATCH})({selector!r})")
        page.goto(place)
        page.wait_for_function("() => window.contentAt && performance.getEntriesByType('paint').length", timeout=60_000)
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        contents.append(page.evaluate("contentAt"))
        if number == loads - 1:
            page.wait_for_timeout(1000)
            page.mouse.move(600, 500)
            page.evaluate(FRAMES)
            use(page)
            frames = page.evaluate("frames_")[1:]
        context.close()
    p95 = statistics.quantiles(frames, n=20)[18]
    return (
        f"{view:14} paint {statistics.median(paints):5.0f} (most {max(paints):5.0f})   content "
        f"{statistics.median(contents):5.0f} (most {max(contents):5.0f})   frames {len(frames):4}: median "
        f"{statistics.median(frames):4.1f}, p95 {p95:5.1f}, longest {max(frames):6.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--only", choices=VIEWS, action="append")
    parser.add_argument("--dir", type=Path, help="keep the project there, and use it again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = options.dir or Path(made)
        folder.mkdir(exist_ok=True)
        if not (folder / "ropewalk.toml").exists():
            asyncio.run(prepare(folder, options.runs, options.nodes))
        command = [str(Path(sys.executable).with_name("ropewalk")), "serve", "--port", "0"]
        env = {**os.environ, "ROPEWALK_TOKEN": TOKEN}
        with (
            subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as server,
            sync_playwright() as playwright,
        ):
            assert server.stdout is not None
            url = server.stdout.readline().partition("/?token=")[0]
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            try:
                for view in options.only or VIEWS:
                    print(measure(browser, url, view, options.loads), flush=True)
            finally:
                browser.close()
                server.terminate()
    print("load of the machine:", " ".join(f"{load:.1f}" for load in os.getloadavg()), "on", os.cpu_count(), "cores")


if __name__ == "__main__":
    main()
