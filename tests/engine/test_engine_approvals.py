"""Where a refusal is an answer: something reads `approved` of it, however it gets there."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk import App, flow
from ropewalk.events import Event

ASK = {"id": "ask", "type": "wait", "approval": "ok?"}
SURE = {"id": "sure", "type": "wait", "approval": "sure?"}
LOOP = {"id": "l", "type": "loop", "items": [1, 2], "nodes": [ASK]}
SPREAD = {**LOOP, "concurrency": 2}
BOTH = {"id": "l", "type": "parallel", "nodes": [ASK, SURE]}
CHOSEN = {"id": "l", "type": "condition", "condition": "true", "then": [ASK]}
AGAIN = {
    "id": "l",
    "type": "loop",
    "until": "$iteration == 1",
    "nodes": [{**ASK, "condition": "$prev.approved != false"}],
}
KEPT = {"id": "l", "type": "condition", "condition": "true", "then": [{**ASK, "outputVar": "said"}]}


def reads(value: Any, **more: Any) -> dict[str, Any]:
    return {"id": "r", "type": "transform", "input": value, **more}


async def refused(chain: dict[str, Any]) -> str:
    """How a chain ends of which every approval is refused."""
    async with App("memory") as app:

        def refuse(event: Event) -> None:
            if event.kind == "wait.started":
                app.runs.approve(event.run_id, event.path, approved=False)

        made = await app.chains.create_chain(chain)
        return (await app.chains.execute_chain(made.id, on_event=refuse)).status


@pytest.mark.parametrize(
    "nodes",
    [
        [LOOP, reads("${$output.l.filter($item.approved)}")],
        [SPREAD, reads("${$output.l.filter($item.approved)}")],
        [LOOP, reads("$output.l[0].approved")],
        [LOOP, reads("$output.l", transform={"type": "FILTER", "config": {"expression": "$item.approved"}})],
        [LOOP, reads("$output.l", transform={"type": "PICK", "config": {"fields": ["approved"]}})],
        [LOOP, reads('${query($output.l, "$[*].approved")}')],
        [LOOP, reads('${$output.l.map({"a": $item}).filter($item.a.approved)}')],
        [LOOP, {"id": "m", "type": "loop", "items": "$output.l", "nodes": [reads("$item.approved")]}],
        [LOOP, reads("${$output.l.reduce($acc + ($item.approved ? 1 : 0), 0)}")],
        [CHOSEN, reads("$output.l.approved")],
        [CHOSEN, reads("$prev.approved")],
        [CHOSEN, {"id": "t", "type": "transform", "input": {"a": ["$output.l"]}}, reads("$output.t.a[0].approved")],
        [KEPT, reads("$var.said.approved")],
        [LOOP, reads('${$output.l[0]["approved"]}')],
        [{"id": "o", "type": "condition", "condition": "true", "then": [LOOP, reads("$output.l[0].approved")]}],
        [AGAIN],
    ],
    ids=str,
)
async def test_a_refusal_is_an_answer_wherever_it_is_read(nodes: list[dict[str, Any]]) -> None:
    assert await refused({"nodes": nodes}) == "completed"


@pytest.mark.parametrize(
    "nodes",
    [
        [LOOP, reads("$output.l")],
        [LOOP, reads("${$output.l.filter($item.by == null)}")],
        [LOOP, reads("$output.l", transform={"type": "OMIT", "config": {"fields": ["approved"]}})],
        [CHOSEN, reads("$input.approved")],
        [CHOSEN, reads({"approved": True}), reads("$prev.approved", id="s")],
        [BOTH, reads("$output.l.ask.approved")],  # and of the other one nothing
        [BOTH, reads("${merge($output.l).ask.approved}")],
        [{**ASK, "outputVar": "x"}, {**SURE, "outputVar": "y"}, reads("$var.x.approved")],
    ],
    ids=str,
)
async def test_where_nothing_reads_it_a_refusal_fails_the_run(nodes: list[dict[str, Any]]) -> None:
    assert await refused({"nodes": nodes}) == "failed"


async def test_of_the_answers_in_a_parallel_block_each_may_be_read() -> None:
    nodes = [BOTH, reads("$output.l.ask.approved"), reads("$output.l.sure.approved", id="s")]
    assert await refused({"nodes": nodes}) == "completed"


async def test_answers_that_go_round_in_a_variable_are_followed_to_an_end() -> None:
    """Each round wraps what the one before it left: no depth is enough for all of it."""
    wrap = {"id": "w", "type": "transform", "input": {"in": "$var.x", "and": "$output.a"}, "outputVar": "x"}
    loop = {"id": "l", "type": "loop", "items": [1, 2, 3], "nodes": [{**ASK, "id": "a"}, wrap]}
    assert await refused({"nodes": [loop, reads("$var.x.in.in.and.approved")]}) == "completed"


async def test_so_it_is_of_a_for_each_written_in_python() -> None:
    with flow("ask", items=list) as f:
        said = f.for_each(f.input.items, lambda item: f.approval("ok?"))
        f.result(said.filter(lambda one: one["approved"]))
    async with App("memory") as app:

        def refuse(event: Event) -> None:
            if event.kind == "wait.started":
                app.runs.approve(event.run_id, event.path, approved=False)

        done = await app.run(f, {"items": [1, 2]}, on_event=refuse)
        assert (done.status, done.result) == ("completed", [])
