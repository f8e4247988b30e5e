"""Run the console examples of the pages and compare the output.

A fenced block with a title, such as ```toml title="ropewalk.toml", is written to the file of that
name. In a `console` block each line that starts with `$ ` is run. The lines after it must be its
output; `...` matches anything.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fork_server

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TITLE = re.compile(r'title="([^"]+)"')
PAGES = [page.name for page in sorted(DOCS.glob("*.md")) if "```console" in page.read_text(encoding="utf-8")]


def examples(page):
    found = []
    for kind, info, body in FENCE.findall((DOCS / page).read_text(encoding="utf-8")):
        title = TITLE.search(info)
        found.append((kind, title[1] if title else info.strip(), body))
    return found


def as_pattern(expected):
    lines = [".*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") for line in expected.splitlines()]
    return re.compile(r"\s*".join(lines) + r"\s*", re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_do_what_they_say(page, project, tmp_path_factory):
    home = tmp_path_factory.mktemp("docs")
    env = project.env({"PATH": f"{fork_server.programs()}:{Path(sys.executable).parent}:/usr/bin:/bin"})
    code, ran = 0, 0
    for kind, info, body in examples(page):
        if info:
            (home / info).parent.mkdir(parents=True, exist_ok=True)
            (home / info).write_text(body, encoding="utf-8")
        if kind != "console":
            continue
        for command, expected in re.findall(r"^\$ ([^\n]*)\n((?:(?!\$ )[^\n]*\n)*)", body, re.MULTILINE):
            if command == "echo $?":
                assert int(expected) == code
                continue
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=home,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            code, ran = done.returncode, ran + 1
            assert as_pattern(expected).fullmatch(done.stdout), f"$ {command}\n{done.stdout}"
    assert ran
