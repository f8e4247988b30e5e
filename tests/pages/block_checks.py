"""Check what a page shows without running it: links, commands, and the syntax and settings of blocks."""

from __future__ import annotations

import ast
import asyncio
import configparser
import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from chains.scripted import ScriptedTools
from expr.expr_scope import lifted, value
from ropewalk.app.app import App
from ropewalk.config.project import read_config
from ropewalk.doors.cli.commands import COMMANDS
from ropewalk.errors import ExpressionError
from ropewalk.source.load import load

from .page import DOCS, PAGES, Block, Page

_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
_CODE = re.compile(r"^```[^\n]*\n(.*?)^```$|`([^`\n]+)`", re.DOTALL | re.MULTILINE)
_CALL = re.compile(r"(?:^|[\s/(])ropewalk (?!\[|\d|import )([^\n|;&>)]*)")
_HANGS = 20  # seconds


def check_page(page: Page, directory: Path) -> None:
    """Raise AssertionError for everything that is wrong on a page."""
    wrong = [f"{page.name}: the link {link} leads nowhere" for link in dead_links(page)]
    wrong += [f"{page.name}: {problem}" for problem in wrong_commands(page.text)]
    for block in page.blocks:
        check = _CHECKS.get(block.kind)
        if check is not None:
            try:
                check(block, directory)
            except Exception as error:  # noqa: BLE001 - whatever a reader would meet
                wrong.append(f"{page.name}:{block.line}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def dead_links(page: Page) -> list[str]:
    return [link for link in _LINK.findall(page.text) if not (page.path.parent / link).exists()]


def wrong_commands(text: str) -> list[str]:
    """Return a problem for each `ropewalk` command of a text that does not exist or lacks an option."""
    return [problem for call in _calls(text) if re.match("[a-z]", call) and (problem := _problem(call))]


def _calls(text: str) -> list[str]:
    found = []
    for match in _CODE.finditer(text):
        code = (match[1] or match[2]).replace("\\\n", " ")
        code = re.sub(r'"ropewalk"((?:, "[^"]*"(?!:))+)', lambda m: "ropewalk " + re.sub(r'[",]', "", m[1]), code)
        found += [re.sub(r"#.*|'[^']*'|\"[^\"]*\"", " ", call).strip() for call in _CALL.findall(code)]
    return found


def _problem(call: str) -> str | None:
    words = call.split()
    name = next((n for n in (" ".join(words[:2]), *words[:1]) if n in COMMANDS), None)
    if name is None:
        return f"ropewalk {call}: no such command"
    known = options_of_commands()[name] | {"--help"}
    options = re.findall(r"(?<![\w-])--[a-z][\w-]*", call)
    unknown = [option for option in options if not {option, option.replace("--no-", "--")} & known]
    return f"ropewalk {call}: {name} has no option {unknown}" if unknown else None


@cache
def options_of_commands() -> dict[str, set[str]]:
    """Return the options of each command, from the reference page that is made from the code."""
    text = (DOCS / "reference" / "commands.md").read_text("utf-8")
    sections = re.split(r"^## `?ropewalk ", text, flags=re.MULTILINE)[1:]
    return {
        re.split(r"[`\n]", section, maxsplit=1)[0].strip(): set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", section))
        for section in sections
    }


def _check_python(block: Block, directory: Path) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if block.reason else 0
    compile("\n" * (block.line - 1) + block.code, "page", "exec", flags)


def _check_shell(block: Block, directory: Path) -> None:
    if block.reason is not None:  # other blocks run
        done = subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr


def _check_yaml(block: Block, directory: Path) -> None:
    data = load(block.code, form="yaml").data
    if block.runs is not None:
        for address in ("memory", f"sqlite:///{directory}/line{block.line}.db"):
            asyncio.run(asyncio.wait_for(_run_definition(data, block.runs, address), _HANGS))
    elif block.file is None and isinstance(data, dict) and "kind" in data:  # commands check files
        app = App("memory")
        assert not app.check(app.load(data)).problems


async def _run_definition(data: Any, case: dict[str, Any], address: str) -> None:
    async with App(address) as app:
        outcome = await app.run(data, case.get("input"), executor=ScriptedTools(case["tools"]))
        if "results" in outcome:
            assert outcome["errors"] == []
        result = outcome["data"] if "data" in outcome else outcome["results"]
        assert result == case["expect"], result


def _check_json(block: Block, directory: Path) -> None:
    json.loads(block.code)


def _check_toml(block: Block, directory: Path) -> None:
    table = tomllib.loads(block.code)
    if block.file is None and "project" not in table:
        (directory / "ropewalk.toml").write_text(block.code, encoding="utf-8")
        read_config(directory)


def _check_ini(block: Block, directory: Path) -> None:
    configparser.ConfigParser(interpolation=None, strict=False).read_string(block.code)


def _check_expressions(block: Block, directory: Path) -> None:
    for line in filter(str.strip, block.code.splitlines()):
        text, arrow, expected = (part.strip() for part in line.rpartition(" -> "))
        assert arrow, line
        if expected.startswith("error"):
            message = expected.removeprefix("error").lstrip(": ")
            assert message in _error(block.kind, text), line
        else:
            assert json.dumps(_evaluate(block.kind, text)) == json.dumps(json.loads(expected)), line


def _evaluate(kind: str, text: str) -> Any:
    return value(text, **_scope()) if kind == "expr" else lifted(json.loads(text), **_scope())


def _error(kind: str, text: str) -> str:
    try:
        result = _evaluate(kind, text)
    except ExpressionError as error:
        return str(error)
    raise AssertionError(f"{text} gives {result}")


@cache
def _scope() -> dict[str, Any]:
    [scope] = [block.code for page in PAGES for block in page.blocks if block.file == "scope"]
    return dict(json.loads(scope))


_CHECKS: dict[str, Callable[[Block, Path], None]] = {
    "python": _check_python,
    "sh": _check_shell,
    "yaml": _check_yaml,
    "json": _check_json,
    "toml": _check_toml,
    "ini": _check_ini,
    "expr": _check_expressions,
    "reference": _check_expressions,
}
