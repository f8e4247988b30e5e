"""A document of the matrix that becomes another notation makes the same calls and gives the same result.

Where the other notation cannot do the same, the conversion is refused; REFUSED has the reason of each refusal.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from notations.test_matrix import NOTATIONS, ROWS, Recorder, Row, answered
from notations.test_matrix import REFUSED as NOT_READ
from ropewalk import App, InvalidFlow

AT_ONCE = "the steps of a composite run in sequence, not as soon as their inputs are ready"
"""Two nodes of an experience start at once."""
SEEDED = "starts with the property 'v' of the input if present; a {} always starts with the default"
"""The state of an experience that is read before it is written begins with the input."""
REFUSED: dict[tuple[str, str, str], str] = {
    **{
        (f"on_error{form} {policy}", "experience", "composite"): AT_ONCE
        for form in (":", ".policy")
        for policy in ("stop", "skip", "continue")
    },
    ("document: errorStrategy", "experience", "composite"): AT_ONCE,
    **{
        (f"document: variables, ${root}", "experience", to): SEEDED.format(to)
        for root in ("var", "state")
        for to in ("chain", "composition", "composite")
    },
}


async def played(definition: Any, row: Row) -> tuple[Any, ...]:
    """What a run does: its status, its calls, what was undone, and its result."""
    recorder = Recorder()
    recorder.failures = row.failures
    async with App("memory", tools=recorder.tools()) as app:
        if row.answer is None:
            outcome = await app.run(definition, row.input)
        else:
            outcome = await answered(app, definition, row.input, row.answer)
        if row.undone:
            await app.runs.undo(outcome.run_id)
    return outcome.status, recorder.calls, recorder.undone, outcome.result


async def compare(name: str, notation: str) -> None:
    """Run a document, and what it becomes in each other notation."""
    row = ROWS[name]
    definition = row.make(notation)
    expected = await played(definition, row)
    for to in NOTATIONS:
        with App("memory", tools=Recorder().tools()) as app:
            if reason := REFUSED.get((name, notation, to)):
                with pytest.raises(InvalidFlow) as refused:
                    app.convert(definition, to)
                assert [problem.message for problem in refused.value.problems] == [reason]
            elif to != notation:
                made = app.convert(definition, to)
                assert await played(made, row) == expected, (notation, made)


@pytest.mark.parametrize("name", ROWS)
def test_a_document_does_the_same_in_every_notation(name: str) -> None:
    async def run() -> None:
        await asyncio.gather(*(compare(name, each) for each in NOTATIONS if (name, each) not in NOT_READ))

    asyncio.run(run())
