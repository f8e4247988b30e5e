"""Every number in ropewalk.toml and on the command line says what it counts or measures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ropewalk.config import toml
from ropewalk.doors.cli.commands import COMMANDS, program

PAGE = Path(__file__).parents[1] / "docs" / "configuration-reference.md"
UNIT = re.compile(
    r"\b(seconds|milliseconds|ms|minutes|days|bytes|USD|\$|dollars|percent|port|tokens?|turns?|tools?|runs?|nodes?"
    r"|levels|depth|sessions|aliases|calls?|repetitions|requests?|iterations|items|steps|workers|processes|characters|lines"
    r"|connections|versions?|measurements|restarts|attempts|rounds|messages|0 to 1|from 0|priority|starts?|deaths?)\b",
    re.IGNORECASE,
)
TABLES: dict[str, dict[str, Any]] = {
    **toml.SECTIONS,
    "mcp.NAME": toml.SERVER_KEYS,
    "http.NAME": toml.PROVIDER_KEYS,
    "workers.queues.NAME": toml.QUEUE_KEYS,
    "limits.tools.PATTERN": toml.RATE_KEYS,
}


def numeric_keys() -> Iterator[tuple[str, str]]:
    """Yield the table and the name of every key with a number."""
    for table, keys in TABLES.items():
        for key, check in keys.items():
            if "number" in check.expected:
                yield table, key


def test_numeric_keys_are_recognized() -> None:
    keys = dict.fromkeys(numeric_keys())
    assert {("workers", "lease"), ("limits", "file_size"), ("mcp.NAME", "timeout")} <= keys.keys()
    assert len(keys) > 20


@pytest.mark.parametrize(("table", "key"), list(numeric_keys()))
def test_a_key_with_a_number_names_its_unit(table: str, key: str) -> None:
    lines = [
        line.partition(f"`{key}`")[2] for line in PAGE.read_text(encoding="utf-8").splitlines() if f"`{key}`" in line
    ]
    assert lines, f"[{table}] {key} is not in the reference"
    assert any(UNIT.search(line) for line in lines), lines


def numeric_options() -> Iterator[tuple[str, str, str]]:
    """Yield the command, the name and the help of every option with a number."""
    root = program()
    for words in COMMANDS:
        command: Any = root
        for word in words.split():
            command = command[word]
        for argument in command.assemble_argument_collection():
            if argument.parameter.show is not False and re.search(r"\b(int|float)\b", str(argument.hint)):
                yield words, argument.name, argument.parameter.help or ""


def test_numeric_options_are_recognized() -> None:
    names = {(words, name) for words, name, _ in numeric_options()}
    assert {("run", "--concurrency"), ("serve", "--port"), ("mcp", "--max-listed")} <= names, names


@pytest.mark.parametrize(("words", "name", "help"), list(numeric_options()))
def test_an_option_with_a_number_names_its_unit(words: str, name: str, help: str) -> None:
    assert UNIT.search(help), f"ropewalk {words} {name}: {help!r}"
