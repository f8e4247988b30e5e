"""Pages and their fenced blocks, and how a page says what its examples need.

A page runs in an empty directory of its own, its blocks in the order of the page. Each kind of block has one treatment:

    ```KIND title="FILE"      is written to FILE: modules, projects (ropewalk.toml) and servers that later blocks use
    ```python, ```sh          runs and must succeed; a shell block may start a server or a worker in the background
    ```console                each line after `$ ` runs; the lines below it are its output, `...` is any text; the line
                              `$ echo $?` gives the exit code of the command before it
    ```text                   is what the block before it prints: all of it for Python, a part of it for a shell
    ```yaml, json, toml, ini  is parsed; definitions with a `kind` and settings of ropewalk.toml are checked as well
    ```expr, ```reference     is evaluated line by line, with the data of the page that has ```json title="scope"

A comment in the line above a block, or at the top of the page, says the rest:

    <!-- runs: {"tools": ..., "input": ..., "expect": ...} -->  a definition in YAML runs with these scripted tools
    <!-- not run: REASON -->                                    why it is not run; its syntax is checked all the same
    <!-- needs: NEED, NEED -->                                  what the page finds: the keys of `NEEDS`
"""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
DOCS = PROJECT / "docs"
NEEDS = {
    "examples": "a copy of the directory examples",
    "model": "a stand-in for the Messages API, to which ANTHROPIC_BASE_URL leads",
    "postgres": "an empty Postgres store, whose address is in DATABASE_URL",
}
RUN = frozenset({"python", "sh", "console", "text"})
CHECKED = frozenset({"yaml", "json", "toml", "ini", "expr", "reference"})

_FENCE = re.compile(
    r"(?:^ *<!-- (?P<word>runs|not run): (?P<note>[^\n]+?) -->\n+)?"
    r"^(?P<indent> *)```(?P<kind>\w*) ?(?P<info>[^\n]*)\n(?P<code>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_NEEDS = re.compile(r"^<!-- needs: ([^\n]+) -->$", re.MULTILINE)
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    line: int  # of its first line of code
    kind: str
    file: str | None
    code: str
    reason: str | None = None  # why it is not run
    runs: dict[str, Any] | None = None

    @property
    def treatment(self) -> str | None:
        """Name what the harness does with the block, or return None for a block that nothing would notice."""
        if self.reason is not None:
            return "reason"
        if self.kind in RUN:
            return "run"
        return "run" if self.runs else "checked" if self.kind in CHECKED else None


@dataclass(frozen=True)
class Page:
    """A page of the documentation."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(PROJECT)) if self.path.is_relative_to(PROJECT) else self.path.name

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def needs(self) -> frozenset[str]:
        return frozenset(need for line in _NEEDS.findall(self.text) for need in line.split(", "))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(_block(self.text, match) for match in _FENCE.finditer(self.text))

    @property
    def has_examples(self) -> bool:
        """Return True if a block of the page starts a process."""
        return any(block.treatment == "run" and block.kind in RUN and not block.file for block in self.blocks)


def _block(text: str, match: re.Match[str]) -> Block:
    title = _TITLE.search(match["info"])
    code = textwrap.dedent(match["code"]) if match["indent"] else match["code"]
    return Block(
        line=text.count("\n", 0, match.start("code")) + 1,
        kind=match["kind"],
        file=title[1] if title else None,
        code=code,
        reason=match["note"] if match["word"] == "not run" else None,
        runs=json.loads(match["note"]) if match["word"] == "runs" else None,
    )


PAGES = [
    Page(path)
    for path in (
        *(PROJECT / name for name in ("README.md", "examples/README.md", "bench/README.md")),
        *sorted(DOCS.rglob("*.md")),
    )
]
