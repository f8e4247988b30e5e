"""The pages of the site: reference pages are what the code says, and every page is in the menu."""

from __future__ import annotations

import runpy
from pathlib import Path

import yaml

PROJECT = Path(__file__).parents[1]


def test_the_reference_is_what_the_code_says(tmp_path: Path) -> None:
    runpy.run_path(str(PROJECT / "scripts" / "reference.py"))["main"](tmp_path)
    for page in ("commands.md", "http.md"):
        kept = (PROJECT / "docs" / "reference" / page).read_text(encoding="utf-8")
        assert (tmp_path / page).read_text(encoding="utf-8") == kept, "run python scripts/reference.py"


def test_every_page_is_in_the_menu_once() -> None:
    def files(entry: object) -> list[str]:
        if isinstance(entry, dict):
            return [file for value in entry.values() for file in files(value)]
        if isinstance(entry, list):
            return [file for value in entry for file in files(value)]
        return [str(entry)]

    menu = files(yaml.safe_load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    docs = PROJECT / "docs"
    assert sorted(menu) == sorted(file.relative_to(docs).as_posix() for file in docs.rglob("*.md"))
