"""100 programs of people who had not seen the language, in several worlds: what runs does what Python does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ropewalk.plans.program import Program

from . import corpus_world
from .virtual_loop import compared

PROGRAMS = {path.stem: path.read_text() for path in sorted((Path(__file__).parent / "corpus_strangers").glob("*.py"))}
REFUSED = {
    "061": "except* is not supported",
    "071": "the name must be a text",  # of getattr; and except*
    "093": "id is not supported",  # an address differs between processes
}
"""The programs that the language refuses by design."""
UNORDERED = ("015",)
"""The programs that call tools in the order of a set of texts, which Python shuffles."""
WORLDS = 2
FAILURES = (ValueError, LookupError, TimeoutError, RuntimeError, ConnectionError, PermissionError, FileNotFoundError)


def test_only_programs_outside_the_language_are_refused() -> None:
    refused = {name for name, text in PROGRAMS.items() if Program(text, corpus_world.TOOLS).problems}
    assert len(PROGRAMS) == 100
    assert refused == set(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_why(name: str) -> None:
    assert REFUSED[name] in Program(PROGRAMS[name], corpus_world.TOOLS).problems[0].message


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in REFUSED])
def test_a_program_does_what_python_does(name: str) -> None:
    for world in range(WORLDS):
        assert differences(name, str(world)) == []


def differences(name: str, world: str) -> list[str]:
    """Return what differs between Python and the machine in a world where one of 25 calls fails."""

    def answer(tool: str, arguments: dict[str, Any]) -> Any:
        chance = random.Random(f"{world} {tool} {sorted(arguments.items())!r}")
        if chance.random() < 0.04:
            raise chance.choice(FAILURES)(f"no {tool}")
        return corpus_world.answer(tool, arguments, world)

    found = compared(PROGRAMS[name], corpus_world.TOOLS, answer)
    assert found is not None
    if name in UNORDERED:
        return [part for part in found if not part.startswith("calls")]
    return found
