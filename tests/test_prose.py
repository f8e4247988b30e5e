"""The English of docs, CLI help, messages and docstrings keeps to the limits of scripts/prose.py."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.usefixtures("collector_off")
PROJECT = Path(__file__).parents[1]
SCRIPT = PROJECT / "scripts" / "prose.py"


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prose", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["prose"] = module
    spec.loader.exec_module(module)
    return module


def test_the_project_keeps_to_the_limits(prose: ModuleType) -> None:
    assert list(prose.problems()) == []


@pytest.mark.parametrize(
    ("sentence", "phrase"),
    [
        ("The caller is told of it.", "is told"),
        ("A region ends.", "region"),
        ("The run goes on after a crash.", "goes on"),
        ("The key stands twice.", "stands twice"),
        ("There is a file beside it.", "beside"),
        ("Keep the newest so many.", "so many"),
        ("The index is made anew.", "anew"),
        ("The task is let go of.", "let go of"),
        ("This is no string that JSON can hold.", "is no string"),
        ("What a value begins with says what it is.", "What"),
        ("Ropewalk does it so.", "so."),
        ("The id of the execution is kept.", "the execution"),
        ("A run chain calls tools.", "run chain"),
        ("The fields that every format has.", "every format"),
    ],
)
def test_a_phrase_to_reword_is_found(prose: ModuleType, sentence: str, phrase: str) -> None:
    report = prose.examine([prose.Text("docs/page.md", 1, sentence)])
    assert [phrase in str(finding) for finding in report.phrases] == [True]


@pytest.mark.parametrize(
    "sentence",
    ["Ropewalk resumes the run.", "There is no such run.", "What is a chain?", "It is no longer needed.", "Go online."],
)
def test_plain_sentences_pass(prose: ModuleType, sentence: str) -> None:
    assert prose.examine([prose.Text("docs/page.md", 1, sentence)]).phrases == ()


def test_former_names_are_found_in_code_too(prose: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("`kind: runchain`\n", encoding="utf-8")
    for name in ("chains.md", "page.md"):
        (tmp_path / "docs" / name).write_text("```python\nrun['executionId']\n```\n", encoding="utf-8")
    monkeypatch.setattr(prose, "PROJECT", tmp_path)
    assert [(finding.path, finding.line) for finding in prose.former_names()] == [("README.md", 1), ("docs/page.md", 2)]


def test_long_sentences_are_counted_without_code(prose: ModuleType, tmp_path: Path) -> None:
    page = PROJECT / "README.md"
    assert all("import asyncio" not in text.text for text in prose.markdown_texts(page))
    long = "This sentence has " + "many " * 30 + "words."
    report = prose.examine([prose.Text("page.md", 1, f"This one is short. {long} This is short, too. Cell.")])
    assert (report.sentences, len(report.long)) == (3, 1)
    assert report.long_share == pytest.approx(1 / 3)


def test_messages_and_docstrings_are_read(prose: ModuleType) -> None:
    source = PROJECT / "src" / "ropewalk" / "errors.py"
    assert any("RopewalkError" in text.text or "error" in text.text for text in prose.docstrings(source))
    assert sum(1 for _ in prose.messages(PROJECT / "src" / "ropewalk" / "schema.py")) > 0
    assert list(prose.docstring_paragraphs("Do it.\n\nArgs:\n    name: The name.\n    other: Another one.\n")) == [
        "Do it.",
        "Args:",
        "name: The name.",
        "other: Another one.",
    ]


def test_the_command_exits_with_1_for_a_file_with_findings(tmp_path: Path) -> None:
    page = PROJECT / "build" / "prose-example.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text("# A page\n\nThe run goes on.\n", encoding="utf-8")
    try:
        done = subprocess.run([sys.executable, str(SCRIPT), str(page)], capture_output=True, text=True)
    finally:
        page.unlink()
    assert done.returncode == 1
    assert "build/prose-example.md:3: 'goes on' (write: continue, resume)" in done.stdout


def test_the_changelog_of_a_version_fits_in_60_lines() -> None:
    text = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    for version in re.sub(r"\n### For contributors\n(?:(?!##).*\n?)*", "\n", text).split("\n## ")[1:]:
        assert len(version.rstrip().splitlines()) <= 60, version.splitlines()[0]
