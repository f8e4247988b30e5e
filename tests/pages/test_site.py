"""The documentation site: a strict check of all pages, and what a browser shows of a few pages, or of all of them."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

from tiers import Scale, sampled

from .page import PROJECT

CHROMIUM = Path("/usr/bin/chromium")
PHONE = {"width": 375, "height": 740}
FEW = (
    "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "bench/README.md", "examples/README.md",
    "docs/chains.md", "docs/index.md", "docs/waits.md",
)  # fmt: skip
# Made by Sphinx itself, without a page of ours.
WITHOUT_SOURCE = {"genindex.html", "search.html"}

pytestmark = [pytest.mark.campaign("site"), pytest.mark.process, pytest.mark.timeout(900)]


def build(folder: Path, *options: str, project: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(project / "scripts" / "build_site.py"), str(folder), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


def small_project(project: Path) -> Path:
    """Copy the pages of `FEW`, without their links, and what a build needs."""
    docs = project / "docs"
    shutil.copytree(PROJECT / "scripts", project / "scripts")
    for folder in ("site", "pictures"):
        shutil.copytree(PROJECT / "docs" / folder, docs / folder)
    (project / "scripts" / "api_reference.py").write_text("def pages():\n    return []\n", "utf-8")
    for page in FEW:
        (project / page).parent.mkdir(exist_ok=True)
        text = (PROJECT / page).read_text("utf-8")
        (project / page).write_text(re.sub(r"!?\[([^]]*)\]\((?!https?:)[^)]*\)", r"\1", text), "utf-8")
    return project


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, scale: Scale) -> Path:
    """The built site: a few pages in a slice, all of them in the campaign."""
    folder = tmp_path_factory.mktemp("built") / "site"
    is_whole = scale(False, True)
    project = PROJECT if is_whole else small_project(folder.parent / "project")
    done = build(folder, project=project)
    assert done.returncode == 0, done.stdout
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if not CHROMIUM.exists() and "CI" not in os.environ:
        pytest.skip(f"no Chromium at {CHROMIUM}: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture
def view(chromium: Browser) -> Iterator[Page]:
    """An empty browser tab. An error of a script or a request to another host fails the test."""
    context = chromium.new_context(viewport={"width": 1300, "height": 900})
    tab = context.new_page()
    complaints = watch(tab)
    yield tab
    context.close()
    assert complaints == []


def watch(tab: Page) -> list[str]:
    """The list to which the tab adds each error of a script, and each request that fails or goes to another host."""
    complaints: list[str] = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("requestfailed", lambda request: complaints.append(request.url))
    tab.on(
        "request",
        lambda request: None if re.match(r"http://127\.|data:", request.url) else complaints.append(request.url),
    )
    return complaints


@dataclass(frozen=True)
class Shown:
    """A page as a browser shows it on a phone."""

    links: list[str]
    anchors: set[str]
    headings: list[dict[str, str]]
    contents: list[str]
    overflow: int  # pixels


@pytest.fixture(scope="module")
def shown_pages(site: Path, chromium: Browser, address: str) -> dict[str, Shown]:
    """Every page by name. An error of a script or a request to another host fails the tests."""
    context = chromium.new_context(viewport=PHONE, is_mobile=True)  # type: ignore[arg-type]
    tab = context.new_page()
    complaints = watch(tab)
    pages = {}
    for name in page_names(site):
        tab.goto(address + name)
        pages[name] = Shown(
            links=tab.evaluate(LINKS),
            anchors=set(tab.evaluate(ANCHORS)),
            headings=tab.evaluate(HEADINGS),
            contents=tab.evaluate(CONTENTS),
            overflow=tab.evaluate(OVERFLOW),
        )
    context.close()
    assert complaints == []
    return pages


def page_names(site: Path) -> list[str]:
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return [name for name in names if not name.startswith("_")]


def headings_of_source(markdown: str) -> list[str]:
    """Return the texts of the headings of a Markdown page as a CommonMark parser of its own sees them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    titles = [tokens[index + 1] for index, token in enumerate(tokens) if token.type == "heading_open"]
    return ["".join(child.content for child in title.children or ()).strip() for title in titles]


HEADINGS = """() => [...document.querySelectorAll('article h1, article h2, article h3, article h4')].map(heading => {
    const copy = heading.cloneNode(true);
    copy.querySelectorAll('.headerlink').forEach(link => link.remove());
    return {text: copy.textContent.trim(), level: heading.tagName, anchor: heading.closest('section').id};
})"""
CONTENTS = "() => [...document.querySelectorAll('.toc-tree a')].map(link => link.getAttribute('href'))"
LINKS = """() => [...document.querySelectorAll('a[href], img[src], link[href], script[src]')]
    .map(element => element.getAttribute('href') || element.getAttribute('src'))"""
ANCHORS = "() => [...document.querySelectorAll('[id]')].map(element => element.id)"
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"


def test_every_page_has_its_headings_and_every_link_leads_to_a_page_and_an_anchor(
    site: Path, address: str, shown_pages: dict[str, Shown], scale: Scale
) -> None:
    wrong: list[str] = []
    anchors = {name: page.anchors for name, page in shown_pages.items()}
    for name, page in shown_pages.items():
        if name in WITHOUT_SOURCE:
            continue
        shown = page.headings
        source = (site / name).with_suffix(".md").read_text(encoding="utf-8")
        if [heading["text"] for heading in shown] != headings_of_source(source):
            wrong.append(f"{name}: headings differ from the source: {[heading['text'] for heading in shown]}")
        missing = [
            each["text"] for each in shown if each["level"] != "H1" and f"#{each['anchor']}" not in page.contents
        ]
        if missing:
            wrong.append(f"{name}: not in the table of contents: {missing}")
    for name, page in shown_pages.items():
        for link in page.links:
            if reason := dead(link, name, address, site, anchors):
                wrong.append(f"{name}: {link}: {reason}")
    assert len(shown_pages) > scale(len(FEW), 30)
    assert wrong == []


def dead(link: str, page: str, address: str, site: Path, anchors: dict[str, set[str]]) -> str | None:
    """Return why a link leads nowhere, or None for one that is right."""
    target, fragment = urldefrag(urljoin(address + page, link))
    if not target.startswith(address):
        return None if re.match(r"https://|data:|mailto:", link) else "leaves the site"
    name = unquote(target.removeprefix(address)).partition("?")[0] or "index.html"
    if not (site / name).is_file():
        return "no such file"
    if fragment and name in anchors and unquote(fragment) not in anchors[name]:
        return "no such anchor"
    return None


@pytest.mark.campaign("site", only=True)
def test_file_names_of_code_blocks_are_shown(site: Path, address: str, view: Page) -> None:
    named = re.compile(r'^```\w+ +(?:title=")?([^\s`"]+)"?$', re.MULTILINE)
    pages = {path: named.findall(path.read_text(encoding="utf-8")) for path in site.rglob("*.md")}
    pages = {path: names for path, names in pages.items() if names}
    assert pages
    for path, names in pages.items():
        view.goto(address + path.relative_to(site).with_suffix(".html").as_posix())
        captions = view.locator("article .code-block-caption .caption-text").all_inner_texts()
        assert captions == names


@pytest.mark.parametrize("scheme", sampled("site", ["dark", "light"], 1))
def test_the_site_follows_the_colour_scheme(chromium: Browser, address: str, scheme: str) -> None:
    context = chromium.new_context(color_scheme=scheme)  # type: ignore[arg-type]
    tab = context.new_page()
    tab.goto(f"{address}chains.html")
    red, green, blue = map(int, re.findall(r"\d+", tab.evaluate(BACKGROUND))[:3])
    context.close()
    assert (red + green + blue > 600) is (scheme == "light")


def test_no_page_scrolls_sideways_on_a_phone(shown_pages: dict[str, Shown]) -> None:
    assert {name: page.overflow for name, page in shown_pages.items() if page.overflow > 0} == {}


def test_search_finds_a_page(address: str, view: Page) -> None:
    view.goto(f"{address}search.html?q=approval")
    view.wait_for_selector("ul.search li a", timeout=30_000)
    assert "waits" in " ".join(link.get_attribute("href") or "" for link in view.locator("ul.search li a").all())


def test_every_page_has_a_markdown_copy(site: Path) -> None:
    pages = {Path(name).with_suffix(".md").as_posix() for name in page_names(site) if name not in WITHOUT_SOURCE}
    assert pages - {"readme.md"} == markdown_copies(site)


def test_every_link_and_anchor_is_right_and_every_page_is_in_llms_txt(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    done = build(folder, "--check")
    assert done.returncode == 0, done.stdout
    listed = re.findall(r"\]\(([^)]+)\)", (folder / "llms.txt").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(markdown_copies(folder))
    assert len(listed) > 100
    for name in listed:
        text = without_code((folder / name).read_text(encoding="utf-8"))
        for link in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", text):
            assert ((folder / name).parent / link).is_file(), f"{name}: {link}"


def markdown_copies(site: Path) -> set[str]:
    names = {path.relative_to(site).as_posix() for path in site.rglob("*.md")} - {"readme.md"}
    return {name for name in names if not name.startswith("files/")}


def without_code(markdown: str) -> str:
    return re.sub(r"^( *)```.*?^\1``` *$|`[^`\n]*`", "", markdown, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.campaign("site", only=True)
def test_a_dead_link_fails_the_build_and_the_check(tmp_path: Path) -> None:
    project = small_project(tmp_path / "project")
    dead_links = ["nowhere.md", "chains.md#no-such-heading", "pictures/no-such.png"]
    page = project / "docs" / "comparison.md"
    page.write_text("# Comparison\n" + "".join(f"\n[link]({link})\n" for link in dead_links), "utf-8")
    for options in ((), ("--check",)):
        done = build(tmp_path / "site", *options, project=project)
        assert done.returncode != 0
        warnings = [line for line in done.stdout.splitlines() if ": WARNING: " in line]
        assert len(warnings) == len(dead_links), done.stdout
        for name in ("nowhere.md", "no-such-heading", "no-such.png"):
            assert name in done.stdout
    page.write_text("# Comparison\n\n[link](../no-such-file.py)\n", "utf-8")
    done = build(tmp_path / "site", project=project)
    assert done.returncode != 0
    assert "no-such-file.py" in done.stdout
