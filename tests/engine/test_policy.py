"""What a node's policy, conditions and writes make of each way in which its op can end."""

from __future__ import annotations

from typing import Any

import pytest

from engine.lab import Way, block, call, compute, every_way, flow, graph, line, lit, obj, out
from ropewalk.expr.ast import Ref
from ropewalk.ir import Channel, Node, OnError, Policy, Retry
from ropewalk.testing import ScriptedTools, fails
from ropewalk.tools.runner import Runner
from ropewalk.tools.tool import tool
from ropewalk.tools.toolbox import Toolbox

FALLBACK = lit("fallback")
POLICIES = {
    "no policy": Policy(),
    "a timeout": Policy(timeout=100),
    "attempts": Policy(retry=Retry(attempts=2)),
    "a fallback": Policy(on_error=OnError(value=FALLBACK)),
    "a fallback after attempts": Policy(retry=Retry(attempts=2), on_error=OnError(value=FALLBACK)),
    "a reported fallback": Policy(on_error=OnError(value=FALLBACK, reported=True)),
    "a fallback without writes": Policy(on_error=OnError(value=FALLBACK, writes=False)),
}
ENDS = ("succeeds", "fails", "is skipped", "is dead")
STATE = {
    "own": Channel(initial="unwritten"),
    "inner": Channel(initial="unwritten"),
    "total": Channel(initial=0, reduce="sum"),
}


def make_node(form: str, end: str, policy: Policy) -> Node:
    conditions = {"when": lit(end != "is skipped"), "gate": lit(end != "is dead")} if end.startswith("is") else {}
    more = {"policy": policy, "writes": obj(own=out("n"), total=lit(2)), **conditions}
    if form == "call":
        return call("n", "bad" if end == "fails" else "good", **more)
    inside = [compute("i", lit("inner"), writes=obj(inner=lit("written"), total=lit(1)))]
    inside.append(call("c", "bad" if end == "fails" else "good"))
    return block("n", *inside, ordered=True, result=out("c"), **more)


@every_way
@pytest.mark.parametrize("is_ordered", [True, False], ids=["ordered", "unordered"])
@pytest.mark.parametrize("form", ["call", "block"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
async def test_a_node_ends_as_its_policy_says(way: Way, policy: Policy, end: str, form: str, is_ordered: bool) -> None:
    tools = ScriptedTools(good="good", bad=fails("no luck"))
    nodes = [
        make_node(form, end, policy),
        compute("after", obj(own=Ref("state", ("own",)), n=Ref("status", ("n",))), after="n"),
    ]
    done = await way(flow((line if is_ordered else graph)(*nodes, result=out("after")), state=STATE), tools)
    on_error = policy.on_error

    if end == "fails" and on_error is None:
        assert done["status"] == "failed"
        assert "no luck" in done["error"]
        assert done["state"] == {"own": "unwritten", "inner": "unwritten", "total": 0}
    else:
        was_reported = end == "fails" and on_error is not None and on_error.reported
        assert done["status"] == ("partial" if was_reported else "completed")
        assert len(done["failures"]) == was_reported
        has_written = end == "succeeds" or (end == "fails" and on_error is not None and on_error.writes)
        own = {"succeeds": "good", "fails": "fallback"}[end] if has_written else "unwritten"
        status = {"succeeds": "ok", "fails": "failed", "is skipped": "skipped", "is dead": "dead"}[end]
        assert done["value"] == {"own": own, "n": status}
        wrote_inside = end == "succeeds" and form == "block"
        inner = "written" if wrote_inside else "unwritten"
        assert done["state"] == {"own": own, "inner": inner, "total": 2 * has_written + wrote_inside}
    assert len(tools.calls) == {"succeeds": 1, "fails": policy.retry.attempts}.get(end, 0)


@every_way
@pytest.mark.parametrize("annotations", [{}, {"readOnlyHint": False}, {"readOnlyHint": True}, {"idempotentHint": True}])
async def test_a_refused_write_repeats_only_what_may_be_repeated(way: Way, annotations: dict[str, Any]) -> None:
    calls: list[str] = []

    @tool(annotations=annotations)
    def give() -> str:
        """Give text."""
        calls.append("called")
        return "text"

    runner = Runner(Toolbox([give]))
    is_repeatable = True in annotations.values()
    failure = obj(ran=Ref("error", ("ran",)), kind=Ref("error", ("kind",)))
    policy = Policy(retry=Retry(attempts=3), on_error=OnError(value=failure, writes=False))
    done = await way(
        flow(line(call("n", "give", policy=policy, writes=obj(total=out("n"))), result=out("n")), state=STATE), runner
    )
    assert len(calls) == (3 if is_repeatable else 1)
    assert done["value"]["ran"] is not is_repeatable
    assert done["state"]["total"] == 0
