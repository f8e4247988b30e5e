"""`kind: runchain`: the Runner's chains as documents, with the Runner itself as the oracle."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import App, ChainStep, Runner
from ropewalk.errors import InvalidFlow, ToolError
from ropewalk.notations.registry import notation_of, write

steps = st.lists(
    st.builds(
        ChainStep,
        st.sampled_from(["echo", "fail"]),
        st.dictionaries(st.sampled_from(["a", "previous"]), st.integers(0, 9) | st.just("$input.x"), max_size=2),
        st.booleans(),
    ),
    max_size=4,
)


async def echo(**args: Any) -> dict[str, Any]:
    return {"got": args}


async def fail(**args: Any) -> None:
    raise RuntimeError("no luck")


@given(steps)
def test_it_does_what_run_chain_does(steps: list[ChainStep]) -> None:
    async def run() -> None:
        document = {"kind": "runchain", "name": "c", "steps": [step.to_dict() for step in steps]}
        async with App("memory", tools=[echo, fail]) as app:
            done = (await app.run(document)).to_dict()
            failed: ToolError | None = None
            try:
                result = await Runner(app.toolbox).run_chain(steps)
            except ToolError as error:
                failed = error
            if failed is not None:
                assert (done["status"], len(done["steps"])) == ("failed", len(failed.steps))
                assert done["steps"][-1]["error"]["message"] == "no luck"
                return
            assert done["status"] == "completed"
            assert done["result"] == (result.final.structured if result.final else None)
            assert [s["result"]["structured"] for s in done["steps"]] == [s.result.structured for s in result.steps]

    asyncio.run(run())


@given(steps)
def test_it_is_written_as_it_was_read(steps: list[ChainStep]) -> None:
    document = {"kind": "runchain", "name": "c", "steps": [step.to_dict() for step in steps]}
    flow = notation_of(document).compile(document).flow
    back = write(flow, "runchain")
    assert write(notation_of(back).compile(back).flow, "runchain") == back
    assert [step["toolId"] for step in back["steps"]] == [step.tool_id for step in steps]
    assert [step.get("usePrevious", False) for step in back["steps"]] == [step.use_previous for step in steps]


def test_wrong_documents_are_told_with_their_places() -> None:
    document = {"kind": "runchain", "nam": "c", "steps": [{"tool": "t"}, 3, {"toolId": "t", "args": []}]}
    with pytest.raises(InvalidFlow) as caught:
        notation_of(document).compile(document)
    said = [str(problem) for problem in caught.value.problems]
    assert said[0] == "nam: unknown key; did you mean name?"
    assert [line.partition(":")[0] for line in said[1:]] == [
        "steps[0].tool",
        "steps[0].toolId",
        "steps[1]",
        "steps[2].args",
    ]


def test_it_is_known_by_its_steps_and_becomes_other_notations() -> None:
    document = {"name": "c", "steps": [{"toolId": "a", "args": {"x": "$input"}}, {"toolId": "b", "usePrevious": True}]}
    assert notation_of(document).kind == "runchain"
    flow = notation_of(document).compile(document).flow
    made = write(flow, "composite")
    assert [step["tool"] for step in made["steps"]] == ["a", "b"]
    assert write(notation_of(made).compile(made).flow, "runchain")["steps"] == document["steps"]
    chain = {"nodes": [{"id": "a", "type": "tool", "tool": "a", "params": {"x": "$input.y"}}], "timeout": 0}
    refused = notation_of(chain).compile(chain).flow
    with pytest.raises(InvalidFlow, match="run chain"):
        write(refused, "runchain")
