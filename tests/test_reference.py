"""The pages of the site: reference pages are what the code says, and every page is in the navigation."""

from __future__ import annotations

import re
import runpy
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import ropewalk
import ropewalk.agents
import ropewalk.errors
import ropewalk.extend
import ropewalk.toolchain
from ropewalk import events
from ropewalk.doors.cli.help import FILE
from ropewalk.errors import RopewalkError

PROJECT = Path(__file__).parents[1]


def test_the_reference_is_what_the_code_says(tmp_path: Path) -> None:
    runpy.run_path(str(PROJECT / "scripts" / "reference.py"))["main"](tmp_path)
    for page in ("commands.md", "definitions.md", "http.md"):
        kept = (PROJECT / "docs" / "reference" / page).read_text(encoding="utf-8")
        assert (tmp_path / page).read_text(encoding="utf-8") == kept, "run python scripts/reference.py"


def test_the_written_help_of_commands_is_what_the_parser_prints() -> None:
    assert (
        FILE.read_text(encoding="utf-8")
        == runpy.run_path(str(PROJECT / "scripts" / "reference.py"))["help_of_commands"]()
    ), "run python scripts/reference.py"


def api_pages() -> dict[str, str]:
    return dict(runpy.run_path(str(PROJECT / "scripts" / "api_reference.py"))["pages"]())


def test_every_public_name_has_a_section_in_the_api_reference() -> None:
    headings = set(re.findall(r"^## (.+)$", "\n".join(api_pages().values()), re.MULTILINE))
    errors = {name for name, value in vars(ropewalk.errors).items() if is_error(value)}
    modules = (ropewalk, ropewalk.toolchain, ropewalk.agents, ropewalk.extend)
    public = {name for module in modules for name in module.__all__} - {"flow", "toolchain"}
    assert errors | public | {"FlowBuilder", "ScriptedTools", "WorkflowBuilder"} <= headings


def is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, RopewalkError) and not value.__name__.startswith("_")


def test_the_api_reference_shows_signatures_and_sections_of_docstrings() -> None:
    page = api_pages()["reference/python/toolchain"]
    section = page.partition("## execute_chain\n")[2].partition("\n## ")[0]
    assert "async execute_chain(" in section
    assert "context: Mapping[str, Any] | None = None" in section
    for text in ("**Arguments**", "- `chain_id`: ", "**Returns**", "**Raises**", "- `NotFound`: "):
        assert text in section


def test_every_page_is_in_the_navigation_once() -> None:
    """docs/site/nav.toml names every page; the build would put others into a section "More"."""
    sections = tomllib.loads((PROJECT / "docs" / "site" / "nav.toml").read_text(encoding="utf-8"))["section"]
    named = [name for section in sections for name in section["pages"]]
    docs = PROJECT / "docs"
    pages = {file.relative_to(docs).with_suffix("").as_posix() for file in docs.rglob("*.md")} - {"index"}
    assert len(named) == len(set(named))
    missing = {page for page in pages if not any(fnmatch(page, name) for name in named)}
    assert missing == set(), "name these pages in docs/site/nav.toml"


def test_every_event_is_on_the_page() -> None:
    page = (PROJECT / "docs" / "events-reference.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.*?)\|", page, re.MULTILINE)
    there_are = re.findall(r"\w+\.\w+", (events.__doc__ or "").split("\n\n")[1])
    assert set(re.findall(r"`(\w+\.\w+)`", "".join(cells))) == set(there_are)


def test_the_readme_fits_one_screen_and_has_the_set_up_commands() -> None:
    text = (PROJECT / "README.md").read_text("utf-8")
    for command in ("./demo.sh", "./test.sh", "./test.sh --all", "apt-get install"):
        assert command in text
    assert len(text.splitlines()) <= 105
