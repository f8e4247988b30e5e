"""A flow that is written as a plan makes the same calls and gives the same value, or is refused with the place."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import currently_in_test_context, given, note
from hypothesis import strategies as st

from properties.made_flows import flows
from properties.test_prop_chain_write import built_flows
from properties.test_prop_convert import MAKERS, at_once, played
from ropewalk import App, flow
from ropewalk.codec import flow_to_json
from ropewalk.errors import InvalidFlow
from ropewalk.expr.ast import NULL, Expr, Lit, Ref, rebind
from ropewalk.ir import Flow, Graph, Node
from ropewalk.notations.writing import ConvertedDocument
from ropewalk.values import canonical
from tiers import examples

FIGURES: Counter[str] = Counter()
"""How often each kind of source was the same, or refused; printed by the long form."""


async def compare(source: Any, kind: str, n: int) -> ConvertedDocument | None:
    """Convert a source and run both; None if it is refused."""
    async with App("memory") as app:
        made: ConvertedDocument = app.convert(source, "plan", allow_loss=True)
        if made.losses:
            FIGURES[f"{kind} refused"] += 1
            assert all(loss.path and loss.message for loss in made.losses)
            return None
        if currently_in_test_context():
            note(str(made["code"]))
        notation = "flow" if kind == "graph" else kind
        before, after = await played(app, source, notation, n), await played(app, dict(made), "plan", n)
        FIGURES["failed runs"] += before["status"] == "failed"
        if at_once(app.load(source).flow.body):
            # Nodes that run at the same time start some calls or none where one of them fails.
            before["calls"].sort(key=canonical)
            after["calls"].sort(key=canonical)
            if before["status"] == "failed":
                before["calls"] = after["calls"] = []
        assert after == before
        FIGURES[f"{kind} same"] += 1
        return made


ORDER = """
kind: chain
name: order
timeout: 60000
inputSchema: {type: object, properties: {id: {type: string}, copies: {type: integer}}, required: [id, copies]}
nodes:
  - {id: order, type: tool, tool: "shop:get-order", params: {id: $input.id}, description: Look up the order.}
  - id: rate
    type: condition
    condition: $input.copies > 3
    then: [{id: bulk, type: tool, tool: rate, params: {kind: bulk}}]
    otherwise: [{id: single, type: tool, tool: rate, params: {kind: single}}]
  - id: mails
    type: loop
    items: [1, 2]
    concurrency: 4
    nodes: [{id: mail, type: tool, tool: mail, params: {to: $item}}]
  - {id: rounds, type: loop, maxIterations: 3, nodes: [{id: poll, type: tool, tool: poll}]}
  - {id: ask, type: wait, approval: "Ship?", timeout: 60000}
  - {id: pay, type: tool, tool: pay, errorStrategy: retry, maxRetries: 2, retryDelay: 500}
  - {id: ship, type: tool, tool: ship, timeout: 5000, errorStrategy: fallback, fallback: {why: $input.id}}
"""
WRITTEN = """
# Look up the order.
order = await shop.get_order(id=id)
if copies > 3:
    rate_2 = await rate(kind='bulk')
else:
    rate_2 = await rate(kind='single')
mails = await asyncio.gather(*[mail(to=item) for item in [1, 2]])
rounds = []
for round_2 in range(3):
    poll_2 = await poll()
    rounds.append(poll_2)
answer = await approve('Ship?', timeout=60.0)
if not answer:
    raise Rejected(answer.note or 'rejected')
ask = {'approved': bool(answer), 'by': answer.by, 'note': answer.note}
for attempt in range(3):
    try:
        pay_2 = await pay()
        break
    except (ToolError, TimeoutError) as failure:
        if attempt == 2 or not retryable(failure):
            raise
        await asyncio.sleep(0.5)
try:
    ship_2 = await asyncio.wait_for(ship(), 5)
except Exception:
    ship_2 = {'why': id}
return {
    'order': order,
    'rate': rate_2,
    'mails': mails,
    'rounds': rounds,
    'ask': ask,
    'pay': pay_2,
    'ship': ship_2,
}
"""


def test_a_chain_becomes_readable_python() -> None:
    made = App("memory").convert(ORDER, "plan")
    helper, program = made["code"].split("\n\n", 1)
    assert helper.startswith("def retryable(error):")
    assert program == WRITTEN.lstrip("\n")
    assert made["tools"]["shop.get_order"] == {"id": "shop:get-order"}
    assert (made["input"]["required"], made["timeout"]) == (["id", "copies"], 60000)


def test_a_flow_without_a_value_gives_none_as_a_plan() -> None:
    f = flow("made")
    f.call("mix", v=1)
    f.result(None)
    made = asyncio.run(compare(f.done(), "flow", 1))
    assert made is not None
    assert made["code"] == "await mix(v=1)\nreturn None\n"


def test_each_loop_keeps_its_own_limit_and_a_timeout_its_state() -> None:
    def loop(id: str, width: int) -> dict[str, Any]:
        nodes = [{"id": f"{id}_mix", "type": "tool", "tool": "mix", "params": {"v": "$item"}}]
        return {"id": id, "type": "loop", "items": "$input.rows", "concurrency": width, "nodes": nodes}

    tried = {"id": "c", "type": "tool", "tool": "echo", "params": {"v": "$input.n"}, "condition": "$input.n > 1"}
    source = {
        "kind": "chain",
        "name": "c",
        "variables": {"kept": 0},
        "nodes": [loop("a", 2), loop("b", 3), {**tried, "timeout": 5000, "outputVar": "kept"}],
    }
    for n in (1, 5):
        made = asyncio.run(compare(source, "chain", n))
        assert made is not None
        code = made["code"]
        assert ("asyncio.Semaphore(2)" in code, "asyncio.Semaphore(3)" in code) == (True, True)
        assert "async with asyncio.timeout(5):\n" in code


REFUSED = [
    ({"id": "a", "type": "tool", "tool": "f", "params": {"v": "$secret.KEY"}}, "a.args: a plan reads no secrets"),
    ({"id": "a", "type": "tool", "tool": "f", "errorStrategy": "continue"}, "a: plans cannot express a reported"),
    ({"id": "a", "type": "tool", "tool": "f", "params": {"v": "$input"}}, "a.args: a plan reads its input by names"),
    ({"id": "a", "type": "tool", "tool": "f", "condition": "$input.n == null"}, "a.when: a plan cannot tell null"),
    ({"id": "a", "type": "tool", "tool": "f", "params": {"v": "$input.class"}}, "a.args: the input 'class' cannot be"),
    ({"id": "a", "type": "transform", "input": "${base64($input.n)}"}, "a/value: the function base64 has no equal"),
]


def test_what_a_plan_cannot_hold_is_refused_with_its_node() -> None:
    app = App("memory", secrets=["KEY"])
    for node, message in REFUSED:
        source = {"kind": "chain", "name": "c", "nodes": [node]}
        with pytest.raises(InvalidFlow) as refused:
            app.convert(source, "plan")
        assert str(refused.value.problems[0]).startswith(message), refused.value
        made = app.convert(source, "plan", allow_loss=True)
        assert str(made.losses[0]).startswith(message)
        app.load(dict(made))


@examples(20)
@given(kind=st.sampled_from(sorted(MAKERS)), seed=st.integers(0, 10**9), n=st.sampled_from([1, 5]))
def test_documents_of_every_notation_do_the_same_as_plans(kind: str, seed: int, n: int) -> None:
    asyncio.run(compare(MAKERS[kind](random.Random(seed)), kind, n))


@examples(15)
@given(built=built_flows(), n=st.sampled_from([1, 2]))
def test_python_flows_do_the_same_as_plans(built: Any, n: int) -> None:
    asyncio.run(compare(built, "flow", n))


@examples(20)
@given(made=flows(), n=st.sampled_from([1, 2]))
def test_graphs_of_every_op_do_the_same_as_plans(made: Flow, n: int) -> None:
    # A plan holds no status and no reported failure, so these flows are made without.
    body = without_reports(made.body)
    asyncio.run(compare({"kind": "flow", **flow_to_json(replace(made, body=body))}, "graph", n))


def without_reports(part: Any) -> Any:
    """Return a part of a flow in which nothing reads a status or an error's kind, and no failure is reported."""
    if isinstance(part, Graph):
        return replace(part, nodes=tuple(map(without_reports, part.nodes)), result=_without_status(part.result))
    if isinstance(part, Node):
        on_error = part.policy.on_error
        if on_error is not None:
            stand_in = NULL if any(ref.root == "error" for ref in _refs(on_error.value)) else on_error.value
            on_error = replace(on_error, reported=False, value=stand_in)
        return replace(part, op=without_reports(part.op), policy=replace(part.policy, on_error=on_error))
    if isinstance(part, tuple):
        return tuple(map(without_reports, part))
    if hasattr(part, "body") or hasattr(part, "arms"):
        names = [name for name in ("body", "arms", "default") if getattr(part, name, None) is not None]
        return replace(part, **{name: without_reports(getattr(part, name)) for name in names})
    return part


def _refs(expr: Expr) -> list[Ref]:
    found: list[Ref] = []
    rebind(expr, lambda ref: found.append(ref) or ref)  # type: ignore[func-returns-value]
    return found


def _without_status(expr: Expr) -> Expr:
    return rebind(expr, lambda ref: Lit("?") if ref.root == "status" else ref)
