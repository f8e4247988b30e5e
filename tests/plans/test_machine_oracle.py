"""The machine does what Python with asyncio does: the same result, errors, printed text, calls and their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .oracle import PARAMETERS, World
from .programs import Writer
from .test_plan_oracle import PROGRAMS
from .virtual_loop import compared


def world() -> Callable[[str, dict[str, Any]], Any]:
    """Return the tools of the oracle of plans."""
    made = World()

    def answer(tool: str, arguments: dict[str, Any]) -> Any:
        if tool == "save":
            arguments.setdefault("value", None)
        try:
            made.answer(tool, arguments).send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError(tool)

    return answer


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_python_does(name: str) -> None:
    assert compared(PROGRAMS[name], PARAMETERS, None, fresh=world) == []


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_do_what_python_does(seed: int) -> None:
    text = Writer(90_000 + seed).program()
    assert compared(text, PARAMETERS, None, fresh=world) == [], text
