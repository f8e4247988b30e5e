"""Every `ropewalk` command on a page exists, and takes the options that the page gives it.

Blocks that run check themselves. This checks the rest: service files, Dockerfiles, tables and text.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ropewalk.doors.cli.commands import COMMANDS

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
_CODE = re.compile(r"^```[^\n]*\n(.*?)^```$|`([^`\n]+)`", re.DOTALL | re.MULTILINE)
_CALL = re.compile(r"(?:^|[\s/(])ropewalk (?!\[|\d|import )([^\n|;&>)]*)")


def options_of_commands() -> dict[str, set[str]]:
    text = (DOCS / "reference" / "commands.md").read_text("utf-8")
    sections = re.split(r"^## `?ropewalk ", text, flags=re.MULTILINE)[1:]
    return {
        re.split(r"[`\n]", section, maxsplit=1)[0].strip(): set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", section))
        for section in sections
    }


def calls(text: str) -> list[str]:
    found = []
    for match in _CODE.finditer(text):
        code = (match[1] or match[2]).replace("\\\n", " ")
        code = re.sub(r'"ropewalk"((?:, "[^"]*"(?!:))+)', lambda m: "ropewalk " + re.sub(r'[",]', "", m[1]), code)
        found += [re.sub(r"#.*|'[^']*'|\"[^\"]*\"", " ", call).strip() for call in _CALL.findall(code)]
    return found


def wrong(call: str, options: dict[str, set[str]]) -> str | None:
    words = call.split()
    name = next((n for n in (" ".join(words[:2]), *words[:1]) if n in COMMANDS), None)
    if name is None:
        return f"ropewalk {call}: no such command"
    unknown = [
        w
        for w in re.findall(r"(?<![\w-])--[a-z][\w-]*", call)
        if not {w, w.replace("--no-", "--")} & (options[name] | {"--help"})
    ]
    return f"ropewalk {call}: {name} has no option {unknown}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    options = options_of_commands()
    assert set(COMMANDS) <= options.keys()
    named = [call for call in calls(page.read_text("utf-8")) if re.match("[a-z]", call)]
    assert [problem for call in named if (problem := wrong(call, options))] == []


def test_a_wrong_command_or_option_is_found() -> None:
    text = (
        "```ini\nExecStart=/x/ropewalk serve --prot 1 --log json\n```\n`ropewalk runs lst` and `ropewalk doctor --runs`"
    )
    options = options_of_commands()
    assert [wrong(call, options) is None for call in calls(text)] == [False, False, True]
