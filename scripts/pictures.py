"""Make the pictures of the web UI: those in docs/pictures, or every view.

    python scripts/pictures.py                       # docs/pictures
    python scripts/pictures.py --all /tmp/pictures   # every view, both themes, three widths, little and much

A project is filled with runs (scripts/pictured), served by `ropewalk serve`, and looked at with Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "pictured"))
import documents  # noqa: E402

DOCS = HERE.parent / "docs" / "pictures"
TOKEN = "only-for-pictures"
WIDTHS = {360: 780, 768: 1024, 1280: 800}
THEMES = ("light", "dark")
CHROMIUM = "/usr/bin/chromium"


@dataclass(frozen=True)
class View:
    """A place of the page, and what is done there before the picture is taken."""

    name: str
    place: str
    project: str = "ordinary"
    act: Callable[[Page], Any] | None = None
    token: bool = True


def click(role: Any, name: str) -> Callable[[Page], Any]:
    return lambda page: page.get_by_role(role, name=name, exact=True).first.click()


def fill(label: str, text: str, button: str) -> Callable[[Page], Any]:
    def act(page: Page) -> None:
        page.get_by_label(label).first.fill(text)
        page.get_by_role("button", name=button, exact=True).first.click()
        page.wait_for_timeout(400)

    return act


def document(page: Page) -> None:
    page.get_by_text("Run a document").first.click()
    page.get_by_label("as YAML or JSON").fill("kind: chain\nname: draft\nnodes:\n  - {id: a, type: tol}\n  - {id: a}\n")
    page.get_by_role("button", name="Check").click()
    page.wait_for_timeout(400)


VIEWS = [
    View("overview", "/overview", "duty"),
    View("overview-week", "/overview?range=7d", "duty"),
    View("overview-ordinary", "/overview"),
    View("overview-empty", "/overview", "empty"),
    View("overview-huge", "/overview", "huge"),
    View("schedules", "/schedules", "duty"),
    View("schedules-empty", "/schedules", "empty"),
    View("runs", "/runs"),
    View("runs-chosen", "/runs", act=lambda page: [page.get_by_label(f"Compare digest-{n}").check() for n in (1, 2)]),
    View("runs-none", "/runs?text=nothing-is-called-this"),
    View("runs-empty", "/runs", "empty"),
    View("runs-huge", "/runs", "huge"),
    View("run", "/runs/import-1?node=rows"),
    View("run-done", "/runs/digest-1"),
    View("run-node", "/runs/digest-1?node=each%2Fsummary"),
    View("run-live", "/runs/live"),
    View("run-waiting", "/runs/refund-1"),
    View("run-event", "/runs/delivery-1"),
    View("run-partial", "/runs/partial?node=each%2Fstock"),
    View("run-agent", "/runs/agent"),
    View("run-agent-node", "/runs/agent?node=agent%2Fturn"),
    View("run-logs", "/runs/import-1?view=logs"),
    View("run-logs-live", "/runs/live?view=logs"),
    View("run-logs-cut", "/runs/ledger?view=logs"),
    View("run-logs-none", "/runs/refund-1?view=logs"),
    View(
        "run-node-logs", "/runs/import-1?node=rows", act=lambda page: page.get_by_role("tab", name="Logs").last.click()
    ),
    View(
        "run-stack",
        "/runs/import-1?node=rows",
        act=lambda page: [one.click() for one in page.get_by_text("in load_rows").all()],
    ),
    View("run-costs", "/runs/agent?view=costs"),
    View("run-data", "/runs/digest-1?view=data"),
    View("run-hebrew", "/runs/strange-0?node=%D7%97%D7%99%D7%A4%D7%95%D7%A9"),
    View("run-chinese", "/runs/strange-2?node=%E6%91%98%E8%A6%81"),
    View("run-hostile", "/runs/strange-4?node=ok"),
    View("run-long", f"/runs/strange-5?node={documents.LONG}"),
    View("run-megabyte", "/runs/megabyte?node=text"),
    View("run-megabyte-data", "/runs/megabyte?view=data"),
    View("run-missing", "/runs/nothing-has-this-id"),
    View("run-fork", "/runs/digest-1", act=click("button", "Fork…")),
    View("run-compare", "/runs/digest-1", act=click("button", "Compare…")),
    View("large", "/runs/wide-1", "huge"),
    View("large-node", "/runs/wide-1?node=step-1234", "huge"),
    View("loop", "/runs/loop?node=each%2Fhalf", "huge"),
    View("timeline", "/runs/digest-1?view=time&node=each%2Fsummary"),
    View("timeline-failed", "/runs/import-1?view=time"),
    View("timeline-huge", "/runs/wide-1?view=time", "huge"),
    View("timeline-long", "/runs/strange-5?view=time"),
    View("diff", "/runs/digest-1/diff?with=digest-2"),
    View("diff-same", "/runs/digest-1/diff?with=digest-1"),
    View("diff-huge", "/runs/wide-1/diff?with=wide-2", "huge"),
    View("diff-large", "/runs/megabyte/diff?with=strange-5"),
    View("diff-missing", "/runs/digest-1/diff?with=gone"),
    View("definitions", "/definitions"),
    View("definitions-empty", "/definitions", "empty"),
    View("definitions-huge", "/definitions", "huge"),
    View("definition", "/definitions/chain/weekly-digest"),
    View("definition-refused", "/definitions/chain/weekly-digest", act=fill("days", "0", "Start")),
    View("definition-huge", "/definitions/chain/wide-2000", "huge"),
    View("definition-missing", "/definitions/chain/gone"),
    View("document", "/definitions", act=document),
    View("tools", "/tools"),
    View("tools-empty", "/tools", "empty"),
    View("tools-select", "/tools?for=give+money+back+to+a+customer"),
    View("tools-huge", "/tools", "huge"),
    View("tools-huge-select", "/tools?for=read+the+invoices+of+a+customer", "huge"),
    View("tool-huge", "/tools/ledger_reconcile_invoices", "huge"),
    View("tools-none", "/tools", act=lambda page: page.get_by_role("searchbox").fill("zzzzzz")),
    View("tool", "/tools/search_news", act=fill("topic", "rope", "Call")),
    View("tool-refused", "/tools/search_news", act=fill("days", "seven", "Call")),
    View("waiting", "/waiting"),
    View("waiting-empty", "/waiting", "empty"),
    View("waiting-huge", "/waiting", "huge"),
    View("keys", "/runs", act=lambda page: page.keyboard.press("?")),
    View("lost", "/nowhere"),
    View("unauthorised", "/runs", token=False),
]
FOR_DOCS = {
    ("overview", 1280, "light"), ("tools", 1280, "light"),
    ("runs", 1280, "light"), ("run", 1280, "light"), ("timeline", 1280, "dark"), ("diff", 1280, "light"),
    ("large", 1280, "light"), ("definition", 1280, "light"), ("tools-select", 1280, "light"),
    ("run-costs", 1280, "dark"), ("run-logs", 1280, "light"), ("run-waiting", 360, "light"), ("runs", 360, "dark"),
}  # fmt: skip


SCHEDULES = """
[schedules.nightly-import]
cron = "30 2 * * *"
flow = "import.json"
timezone = "Europe/Berlin"
queue = "imports"

[schedules.price-watch]
cron = "*/10 * * * *"
flow = "import.json"

[schedules.month-end]
cron = "0 7 1-3 1,4,7,10 mon-fri"
flow = "import.json"

[queues.imports]
concurrency = 1
"""


@contextlib.contextmanager
def served(project: str, folder: Path) -> Iterator[str]:
    """A project of this name, filled, and a server over it; gives its address."""
    if not (folder / "ropewalk.toml").exists():
        shutil.copytree(HERE / "pictured", folder, dirs_exist_ok=True)
        tools = '[tools]\nmodules = ["tools"]\n'
        modules = {
            "empty": "",
            "huge": '[tools]\nmodules = ["tools", "many_tools"]\n',
            "duty": tools + SCHEDULES,
        }.get(project, tools)
        (folder / "ropewalk.toml").write_text(modules)
        if project != "empty":
            subprocess.run([sys.executable, "fill.py", project], cwd=folder, check=True)
    command = [str(Path(sys.executable).with_name("ropewalk")), "serve", "--port", "0"]
    env = {**os.environ, "ROPEWALK_TOKEN": TOKEN}
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().partition("/?token=")[0]
            for run in LIVE.get(project, []):
                if post(url, "/api/runs", run).get("new") is False:  # of a project that was kept
                    with contextlib.suppress(urllib.error.HTTPError):  # the server has taken it by itself
                        post(url, f"/api/runs/{run['runId']}/resume", {})
            yield url
        finally:
            process.terminate()  # what waits stays where it is; the next start begins it anew


# What waits or runs while it is looked at is begun by the server itself.
LIVE: dict[str, list[dict[str, Any]]] = {
    "ordinary": [
        {"definition": {"kind": "chain", "id": "refund"}, "input": {"order": "A-1042"}, "runId": "refund-1", "wait": 1},
        {"definition": {"kind": "chain", "id": "delivery"}, "runId": "delivery-1", "wait": 1},
        {"document": {**documents.SLOW, "kind": "chain"}, "runId": "live", "wait": 1},
    ],
    "huge": [
        {"document": {**documents.REFUND, "kind": "chain"}, "input": {"order": f"A-{n} {documents.LONG * (n == 3)}"}}
        for n in range(40)
    ],
}  # fmt: skip


def post(url: str, path: str, data: Any) -> Any:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url + path, json.dumps(data).encode(), headers)) as answer:
        return json.load(answer)


def take(browser: Browser, url: str, view: View, width: int, theme: Any, file: Path) -> list[str]:
    """One picture; gives what is wrong that a program can see."""
    context = browser.new_context(
        viewport={"width": width, "height": WIDTHS[width]}, color_scheme=theme, base_url=url, reduced_motion="reduce",
        has_touch=width == 360,
    )  # fmt: skip
    context.set_default_timeout(15_000)
    page = context.new_page()
    if view.token:
        page.goto(f"/?token={TOKEN}")
    page.goto(view.place)
    page.wait_for_function(READY, timeout=30_000)
    if view.act is not None:
        view.act(page)
    page.wait_for_timeout(250)  # what is drawn a frame later
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(file))
    wrong = page.evaluate(AUDIT, width) if view.token else []
    context.close()
    return [f"{file.name}: {one}" for one in wrong]


READY = "() => !/(Loading|Selecting|Laying out [^ ]+ nodes)…/.test(document.body.innerText)"
AUDIT = (HERE / "pictured" / "audit.js").read_text()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", type=Path, metavar="DIR", help="every view in both themes and three widths")
    parser.add_argument("--only", default="", help="only views whose name begins with this; several with commas")
    parser.add_argument("--shapes", default="", help="only such as 360-light,1280-dark")
    parser.add_argument("--projects", type=Path, help="keep the filled projects there, and use them again")
    given = parser.parse_args()
    home = given.projects or Path(tempfile.mkdtemp())
    shown = {name for name, _, _ in FOR_DOCS}
    wanted = [
        v for v in VIEWS if v.name.startswith(tuple(given.only.split(","))) and (given.all or v.name in shown)
    ]  # fmt: skip
    shapes = [(w, t) for w in WIDTHS for t in THEMES if f"{w}-{t}" in given.shapes or not given.shapes]
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for project in sorted({view.project for view in wanted}):
            with served(project, home / project) as url:
                for view in [view for view in wanted if view.project == project]:
                    for width, theme in shapes:
                        if given.all:
                            file = given.all / f"{view.name}-{width}-{theme}.png"
                        elif (view.name, width, theme) in FOR_DOCS:
                            file = DOCS / f"{'phone-' * (width == 360)}{view.name}.png"
                        else:
                            continue
                        wrong += take(browser, url, view, width, theme, file)
    sys.stdout.write("".join(f"{line}\n" for line in wrong))


if __name__ == "__main__":
    main()
