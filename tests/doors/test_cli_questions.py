"""Questions of MCP servers to the person at the terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import fork_server
from ropewalk.doors.cli.questions import answer_question, form_lines
from ropewalk.tools.mcp.local_client import Elicitation

COMMAND = str(Path(sys.executable).with_name("ropewalk"))
SERVER = next(Path(__file__).parents[1].rglob("curious.py"))
FORM = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "City", "minLength": 2, "description": "Where\x1b[2J to."},
        "days": {"type": "integer", "default": 3, "maximum": 9},
        "class": {"type": "string", "oneOf": [{"const": "e", "title": "Economy"}, {"const": "b", "title": "Business"}]},
        "meals": {"type": "array", "items": {"enum": ["vegan", "fish"]}},
        "quiet": {"type": "boolean"},
        "price": {"type": "number"},
    },
    "required": ["city", "quiet"],
}


def ask(lines: list[str | None], **question: Any) -> tuple[Any, str]:
    """The answer of a person who types these lines, and everything that was shown."""
    shown: list[str] = []
    remaining = list(lines)

    async def read(sign: str) -> str | None:
        shown.append(sign)
        return remaining.pop(0)

    answer = asyncio.run(answer_question(Elicitation(server="air", message="Fly?", **question), read, shown.append))
    assert not remaining
    return answer, "\n".join(shown)


def test_a_form_is_asked_field_by_field_by_its_schema() -> None:
    answer, shown = ask(["", "B", "Bern", "12", "", "2", "1, fish", "maybe", "n", ""], schema=FORM)
    assert answer == {"city": "Bern", "days": 3, "class": "b", "meals": ["vegan", "fish"], "quiet": False}
    assert "? air asks: Fly?" in shown
    assert "City (text, length at least 2): " in shown
    assert "days (integer, at most 9, default 3): " in shown
    assert "1. Economy (e)" in shown
    assert "price (number, optional): " in shown
    assert shown.count("  ! ") == 3  # of B, 12 and maybe
    assert "\x1b" not in shown


def test_a_printed_form_has_the_limits_of_its_fields_and_the_words_of_json() -> None:
    row = {"type": "integer", "minimum": 1, "maximum": 20}
    weight = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 9.5}
    email = {"type": "string", "pattern": ".+@.+", "maxLength": 40}
    meals = {"type": "array", "items": {"enum": ["vegan", "fish"]}, "minItems": 1, "maxItems": 2}
    properties = {"row": row, "weight": weight, "email": email, "sure": {"type": "boolean"}, "meals": meals}
    lines = form_lines({"schema": {"properties": properties, "required": list(properties)}})
    assert lines[:5] == [
        "row (integer, at least 1, at most 20)",
        "weight (number, more than 0, less than 9.5)",
        "email (text, length at most 40, pattern .+@.+)",
        "sure (true or false)",
        "meals (array, items at least 1, items at most 2): vegan, fish",
    ]


def test_a_person_declines_or_cancels() -> None:
    assert ask(["n"], schema=FORM)[0] == "decline"
    assert ask([None], schema=FORM)[0] == "cancel"
    assert ask(["", "Bern", None], schema=FORM)[0] == "cancel"


@pytest.mark.parametrize(
    ("question", "offer"), [({"schema": FORM}, "Enter to answer"), ({"url": "https://a.example"}, "y")]
)
def test_a_line_that_is_neither_consent_nor_refusal_is_asked_again(question: dict[str, Any], offer: str) -> None:
    answer, shown = ask(["Bern", "99", "n"], **question)
    assert answer == "decline"
    assert shown.count(f"  ! {offer}") == 2


def test_an_address_is_not_declined_by_an_empty_line() -> None:
    assert ask(["", "y"], url="https://pay.example/1")[0] is True


def test_an_address_is_printed() -> None:
    answer, shown = ask(["y"], url="https://pay.example/1")
    assert answer is True
    assert "open this address: https://pay.example/1" in shown
    assert ask(["n"], url="https://pay.example/1")[0] == "decline"
    assert ask([None], url="https://pay.example/1")[0] == "cancel"


@pytest.mark.process
def test_a_run_on_a_terminal_asks_and_without_one_the_server_learns_that_nobody_answers(tmp_path: Path) -> None:
    server = f"[mcp.air]\ncommand = {fork_server.program('python')!r}\nargs = [{str(SERVER)!r}]\nmode = 'legacy'\n"
    (tmp_path / "ropewalk.toml").write_text(server)
    node = "{id: ask, type: tool, tool: 'air:ask', params: {what: form}}"
    (tmp_path / "fly.yaml").write_text(f"kind: chain\nname: fly\nnodes: [{node}]\n")
    done = fork_server.run([COMMAND, "run", "fly.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert "refused" in done.stdout + done.stderr

    master, slave = pty.openpty()
    child = fork_server.Popen(
        [COMMAND, "run", "fly.yaml"], cwd=tmp_path, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    shown = ""
    answers = [("Enter to answer", b"\n"), ("city", b"Bern\n"), ("days", b"5\n")]
    while True:
        try:
            shown += os.read(master, 65536).decode("utf-8", "replace")
        except OSError:  # the other end is closed
            break
        if answers and re.search(rf"{answers[0][0]}[^\n]*: $", shown):
            os.write(master, answers.pop(0)[1])
    os.close(master)
    assert child.wait(timeout=50) == 0, shown
    for field in ('"city": ?"Bern"', '"days": ?5'):
        assert re.search(field, shown), shown
