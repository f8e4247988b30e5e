"""Waits in flows written in Python."""

from __future__ import annotations

import asyncio

import pytest

from ropewalk import App, flow
from ropewalk.errors import InvalidFlow
from ropewalk.expr.ast import Lit
from ropewalk.ir import NO_POLICY
from ropewalk.ops import Wait


def test_a_wait_and_an_approval_are_nodes_with_values() -> None:
    with flow("order", order=int) as f:
        paid = f.wait(f"paid-{f.input.order}")
        ask = f.approval(f"Ship {f.input.order}?", timeout=60)
        f.result({"sum": paid["sum"], "by": ask["by"]})

    async def test() -> None:
        async with App("memory") as app:

            def answer(event: object) -> None:
                if getattr(event, "kind", "") == "wait.started":
                    if event.path == "wait":  # type: ignore[attr-defined]
                        app.runs.send("r", "paid-7", {"sum": 3})
                    else:
                        assert [w["approval"] for w in app.runs.waiting("r")] == ["Ship 7?"]
                        app.runs.approve("r", by="ann")

            outcome = await app.run(f, {"order": 7}, run_id="r", on_event=answer)
            assert outcome.result == {"sum": 3, "by": "ann"}

    asyncio.run(test())


def test_the_timeout_of_the_options_is_that_of_the_wait() -> None:
    f = flow("f")
    f.options(name="w", timeout=5).wait("paid")
    [node] = f.done().flow.body.nodes
    assert node.op == Wait(event=Lit("paid"), timeout=Lit(5))
    assert node.policy == NO_POLICY


def test_a_wait_for_no_text_is_refused() -> None:
    f = flow("f")
    f.wait(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidFlow, match="must be a string; this is an integer"):
        f.done()


def test_nobody_can_answer_within_a_lambda() -> None:
    f = flow("f", items=list[str])
    with pytest.raises(InvalidFlow, match="cannot hold nodes"):
        f.input.items.map(lambda item: f.wait(item))
