"""Build the documentation site: HTML, a Markdown copy of every page, and llms.txt.

    python scripts/build_site.py [FOLDER] [--check]

The default folder is build/site. A warning, such as a link to a page or heading that does not exist, fails the build.
`--check` finds the same warnings in a third of the time, and writes no HTML.
The pages come from docs/ and from the files in OTHER_PAGES; scripts/api_reference.py writes the Python API pages.
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import re
import runpy
import shutil
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PROJECT = Path(__file__).resolve().parents[1]
DOCS = PROJECT / "docs"
SITE = DOCS / "site"
OTHER_PAGES = {
    "README.md": "readme",
    "ARCHITECTURE.md": "architecture",
    "CHANGELOG.md": "changelog",
    "bench/README.md": "bench",
    "examples/README.md": "examples",
}
UNLISTED = frozenset({"index", "readme"})

_CODE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+).*?^(?P=indent)(?P=fence) *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()(?!\w+:|#|//)([^)#\s]+)(#[^)\s]*)?(\))")


@dataclass(frozen=True)
class Page:
    """A page of the site: its name without ending, and its Markdown."""

    name: str
    text: str

    @property
    def title(self) -> str:
        return re.search(r"^# (.+)$", self.text, re.MULTILINE)[1]  # type: ignore[index]

    @property
    def summary(self) -> str:
        """The first sentence below the title, as plain text."""
        body = _CODE.sub("", self.text.partition("\n# ")[2] or self.text.partition("# ")[2])
        for paragraph in re.split(r"\n\s*\n", body.partition("\n")[2]):
            if paragraph.strip() and not re.match(r"\s*([#|>!<]|[-*] |\d+\.)", paragraph):
                plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
                return re.split(r"(?<=[.]) (?=[A-Z`])", plain.replace("**", ""))[0].rstrip(":")
        return ""


@dataclass(frozen=True)
class Section:
    """A section of the navigation."""

    title: str
    pages: tuple[Page, ...]


def main(folder: Path = PROJECT / "build" / "site", *, builder: str = "html") -> None:
    """Build the site into `folder`, whose contents are replaced."""
    source = folder.parent / f"{folder.name}-source"
    for path in (folder, source):
        shutil.rmtree(path, ignore_errors=True)
    pages = {page.name: page for page in collect_pages(source)}
    sections = read_navigation(pages)
    write_source(source, pages, sections)
    run_sphinx(source, folder, builder)
    for page in pages.values():
        copy = folder / f"{page.name}.md"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(page.text, encoding="utf-8")
    for name in ("files", "pictures"):  # the Markdown copies link to them
        shutil.copytree(source / name, folder / name, dirs_exist_ok=True)
    (folder / "llms.txt").write_text(llms_txt(pages["index"], sections), encoding="utf-8")


def collect_pages(source: Path) -> Iterator[Page]:
    """Yield every page with links that fit the site. Files that pages link to are copied to `source`/files."""
    files = {path: path.relative_to(DOCS).with_suffix("").as_posix() for path in sorted(DOCS.rglob("*.md"))}
    files |= {PROJECT / path: name for path, name in OTHER_PAGES.items()}
    (source / "files").mkdir(parents=True)
    for path, name in files.items():
        yield Page(name, _move_links(path, name, files, source))
    yield from (Page(*page) for page in runpy.run_path(str(PROJECT / "scripts" / "api_reference.py"))["pages"]())


def _move_links(path: Path, name: str, files: dict[Path, str], source: Path) -> str:
    """Return the text of a page with its links rewritten from the places in the repository to those in the site."""

    def moved(match: re.Match[str]) -> str:
        before, link, anchor, after = match.groups(default="")
        target = (path.parent / link).resolve()
        if target.is_dir() and target / "README.md" in files:
            target = target / "README.md"
        if target in files:
            place = f"{files[target]}.md"
        elif target.is_dir():
            raise SystemExit(f"{path}: the site has no page for the folder {link}; link to a file in it")
        elif target.is_relative_to(DOCS):
            place = target.relative_to(DOCS).as_posix()
        elif not target.is_file():
            raise SystemExit(f"{path}: {link} does not exist")
        else:
            place = f"files/{target.relative_to(PROJECT).as_posix()}"
            (source / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, source / place)
        return f"{before}{_relative(place, name)}{anchor}{after}"

    return _outside_code(path.read_text(encoding="utf-8"), lambda text: _LINK.sub(moved, text))


def _relative(place: str, page: str) -> str:
    return "../" * (len(PurePosixPath(page).parts) - 1) + place


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts: list[str] = []
    end = 0
    for block in _CODE.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


def read_navigation(pages: dict[str, Page]) -> list[Section]:
    """Read docs/site/nav.toml. A name may be a pattern; pages that it does not name get a section "More"."""
    left = {name: page for name, page in pages.items() if name not in UNLISTED}
    sections = []
    for section in tomllib.loads((SITE / "nav.toml").read_text(encoding="utf-8"))["section"]:
        patterns = section["pages"]
        named = [left.pop(name) for pattern in patterns for name in fnmatch.filter(list(left), pattern)]
        if named:
            sections.append(Section(section["title"], tuple(named)))
    return [*sections, *([Section("More", tuple(left.values()))] if left else [])]


def write_source(source: Path, pages: dict[str, Page], sections: list[Section]) -> None:
    """Write what Sphinx reads: the pages, with the navigation at the end of the start page."""
    for page in pages.values():
        text = page.text
        if page.name == "index":
            text += "".join(f"\n{_toctree(section)}" for section in sections)
        elif page.name in UNLISTED:
            text = f"---\norphan: true\n---\n{text}"
        target = source / f"{page.name}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    shutil.copytree(DOCS / "pictures", source / "pictures", dirs_exist_ok=True)


def _toctree(section: Section) -> str:
    names = "\n".join(page.name for page in section.pages)
    return f"```{{toctree}}\n:hidden:\n:caption: {section.title}\n\n{names}\n```\n"


def run_sphinx(source: Path, folder: Path, builder: str) -> None:
    """Run a builder of Sphinx; every warning is an error."""
    from sphinx.cmd.build import build_main

    cache = source / ".doctrees"
    options = ["-q", "-W", "--keep-going", "-E", "-b", builder, "-c", str(SITE), "-d", str(cache)]
    status = build_main([*options, str(source), str(folder)])
    if status:
        raise SystemExit(status)
    (folder / ".buildinfo").unlink(missing_ok=True)


def llms_txt(start: Page, sections: list[Section]) -> str:
    """Return the list of pages for language models (llmstxt.org)."""
    lines = [f"# {start.title}", "", f"> {start.summary}", "", f"- [{start.title}](index.md)"]
    for section in sections:
        lines += ["", f"## {section.title}", ""]
        for page in section.pages:
            lines.append(f"- [{page.title}]({page.name}.md)" + (f": {page.summary}" if page.summary else ""))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    gc.disable()  # it would look at trees that stay until the end, for a third of the time
    arguments = argparse.ArgumentParser(description="Build the documentation site.")
    arguments.add_argument(
        "folder", nargs="?", type=Path, default=PROJECT / "build" / "site", help="default: build/site"
    )
    arguments.add_argument("--check", action="store_true", help="check every page without writing HTML")
    parsed = arguments.parse_args()
    main(parsed.folder.resolve(), builder="dummy" if parsed.check else "html")
