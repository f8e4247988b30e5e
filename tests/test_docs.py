"""Every block of code in the documents runs, in order, in a folder of its own per document.

Blocks marked ```python and ```sh run; others (text, toml, yaml, json) are only read. A block that
cannot run says why in the line above it: <!-- not run: the reason -->. A block with a title is a
file of the example; doors/test_cli_docs.py writes it and runs the console blocks after it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import fork_server
from ropewalk import events

PROJECT = Path(__file__).parents[1]
DOCUMENTS = [
    PROJECT / name for name in ("README.md", "examples/README.md", "bench/README.md") if (PROJECT / name).is_file()
]
EVENTS = PROJECT / "docs" / "events-reference.md"
DOCUMENTS += sorted((PROJECT / "docs").rglob("*.md"))

_FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+?) -->\n+)?^```(?P<kind>python|sh)(?![^\n]*title=)[^\n]*\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


@dataclass(frozen=True)
class Block:
    line: int
    kind: str
    code: str
    reason: str | None


def blocks(text: str) -> list[Block]:
    found = []
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        found.append(Block(line, match["kind"], match["code"], match["reason"]))
    return found


def run(block: Block, folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(fork_server.programs()), str(Path(sys.executable).parent), os.environ["PATH"]])
    interpreter = [fork_server.program("python")] if block.kind == "python" else ["bash", "-euo", "pipefail"]
    command = [*interpreter, "-c", block.code]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
    )


@pytest.mark.timeout(1800)  # a document of recipes is some thirty commands
@pytest.mark.process
@pytest.mark.parametrize("document", DOCUMENTS, ids=[str(d.relative_to(PROJECT)) for d in DOCUMENTS])
def test_every_block_of_a_document_runs(document: Path, tmp_path: Path) -> None:
    if (document.parent, document.name) == (PROJECT / "examples", "README.md"):
        shutil.copytree(PROJECT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns(".ropewalk"))
    for block in blocks(document.read_text("utf-8")):
        if block.reason is None:
            done = run(block, tmp_path)
            where = f"{document.relative_to(PROJECT)}:{block.line}"
            assert done.returncode == 0, f"{where}: exit code {done.returncode}\n{done.stdout}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=[str(d.relative_to(PROJECT)) for d in DOCUMENTS])
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    broken = [link for link in _LINK.findall(document.read_text("utf-8")) if not (document.parent / link).exists()]
    assert broken == []


def test_a_block_that_fails_or_says_why_it_is_not_run_is_told_apart(tmp_path: Path) -> None:
    text = "# A\n```sh\nfalse\ntrue\n```\n<!-- not run: a reason -->\n```python\n1 / 0\n```\n```text\nno\n```\n"
    failing, marked = blocks(text)
    assert (failing.line, failing.reason, marked.reason) == (3, None, "a reason")
    assert run(failing, tmp_path).returncode != 0
    assert "ZeroDivisionError" in run(marked, tmp_path).stdout


def test_the_readme_fits_one_screen_and_has_the_set_up_commands() -> None:
    text = (PROJECT / "README.md").read_text("utf-8")
    for command in ("./demo.sh", "./test.sh", "./test.sh --all", "apt-get install"):
        assert command in text
    assert len(text.splitlines()) <= 105
    assert sum(block.reason is None for block in blocks(text)) >= 1


@pytest.mark.process
@pytest.mark.parametrize("document", ["README.md", "docs/migration-langgraph.md"])
def test_a_python_example_prints_what_the_block_below_it_shows(document: str, tmp_path: Path) -> None:
    text = (PROJECT / document).read_text("utf-8")
    shown = re.findall(r"^```python\n((?:(?!```).*\n)+)```\n\n```text\n((?:(?!```).*\n)+)```$", text, re.MULTILINE)
    assert shown
    for code, output in shown:
        assert run(Block(0, "python", code, None), tmp_path).stdout == output


def test_every_event_is_on_the_page() -> None:
    cells = re.findall(r"^\| (`.*?)\|", EVENTS.read_text("utf-8"), re.MULTILINE)
    there_are = re.findall(r"\w+\.\w+", (events.__doc__ or "").split("\n\n")[1])
    assert set(re.findall(r"`(\w+\.\w+)`", "".join(cells))) == set(there_are)
