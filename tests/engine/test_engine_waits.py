"""Waiting for events and approvals: what comes, what is over."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from engine.lab import HANDLED, block, call, compute, each, flow, graph, line, lit, node, on, out
from engine.waits_lab import INSIDE, STORES, Started, approval, event
from ropewalk.expr.ast import Obj, Ref
from ropewalk.ir import OnError, Policy, Retry
from ropewalk.journal.open_waits import open_waits
from ropewalk.journal.protocol import Store
from ropewalk.ops import Sleep, Wait
from ropewalk.testing import ScriptedTools, gives, held


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = STORES[request.param](tmp_path)
    yield made
    made.close()


# --- what comes ----------------------------------------------------------------------------------


async def test_the_value_of_a_wait_is_what_was_sent(store: Store) -> None:
    run = await Started(store, line(event("paid"), compute("c", out("paid", "sum")), result=out("c"))).waits("paid")
    run.send("other", 1)
    run.send("paid", {"sum": 3})
    assert (await run.task)["value"] == 3
    told = [(e.kind, e.path, e.data) for e in run.events if e.kind in ("wait.started", "signal.received")]
    assert told == [
        ("wait.started", "paid", {"event": "paid", "node": "paid", "timeout": None, "due": None}),
        ("signal.received", "paid", {"sum": 3}),
    ]


async def test_an_approval_gives_who_said_so_and_what(store: Store) -> None:
    run = await Started(store, line(approval("ask"), result=out("ask"))).waits("ask")
    run.approve("ask", by="ann", note="fine", more="is left out")
    assert (await run.task)["value"] == {"approved": True, "by": "ann", "note": "fine"}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"approved": False}, "rejected"),
        ({"approved": False, "by": "ann", "note": "too dear"}, "rejected by ann: too dear"),
        ({"approved": "yes"}, "the answer must be an object {approved: true or false}"),
        ("yes", "the answer must be an object {approved: true or false}"),
    ],
)
async def test_what_is_no_approval_fails_the_node_once_and_for_all(store: Store, said: Any, message: str) -> None:
    tries = Policy(retry=Retry(attempts=3))
    run = await Started(store, line(approval("ask", policy=tries), call("send"))).waits("ask")
    run.send("approval:ask", said)
    result = await run.task
    assert (result["status"], result["failures"]) == ("failed", [f"ask: {message}"])


async def test_a_refusal_can_be_stood_in_for(store: Store) -> None:
    policy = Policy(on_error=OnError(value=Obj((("why", Ref("error", ("message",))),))))
    run = await Started(store, line(approval("ask", policy=policy), result=out("ask"))).waits("ask")
    run.send("approval:ask", {"approved": False, "by": "bob"})
    assert (await run.task)["value"] == {"why": "rejected by bob"}


async def test_what_was_sent_before_the_wait_is_kept_for_it(store: Store) -> None:
    tools = ScriptedTools(first=held())
    run = Started(
        store,
        line(call("first"), event("a", "go"), event("b", "go"), result=Obj((("a", out("a")), ("b", out("b"))))),
        tools,
    )
    await tools.called("first")
    for i in range(2):
        run.send("go", i)
    tools.release("first")
    assert (await run.task)["value"] == {"a": 0, "b": 1}


@pytest.mark.parametrize("where", INSIDE)
async def test_a_wait_works_inside_every_region(store: Store, where: str) -> None:
    body, paths, value = INSIDE[where]
    run = await Started(store, body).waits(*paths)
    run.send("b", "B")
    run.send("a", "A")
    assert (await run.task)["value"] == value


async def test_each_signal_goes_to_the_first_that_waits(store: Store) -> None:
    body = line(each("m", [1, 2, 3], event("w", "go"), result=out("w")), result=out("m"))
    run = await Started(store, body).waits("m[0]/w", "m[1]/w", "m[2]/w")
    for i in range(3):
        run.send("go", i)
    assert (await run.task)["value"] == [0, 1, 2]


# --- what is over --------------------------------------------------------------------------------


async def test_a_wait_whose_time_is_over_fails_like_a_timeout(store: Store) -> None:
    result = await on(store, line(event("paid", timeout=0.02)), ScriptedTools())
    assert (result["status"], result["failures"]) == (
        "failed",
        ["paid: timed out after 0.02 s waiting for event 'paid'"],
    )
    late = node("ask", Wait(approval=lit("Send it?"), timeout=lit(0.02)), policy=HANDLED)
    result = await on(store, line(late, result=out("ask")), ScriptedTools(), "again", fingerprint="two")
    assert (result["status"], result["value"]) == ("completed", "handled")


async def test_a_failed_wait_is_tried_again_at_a_path_of_its_own(store: Store) -> None:
    body = line(event("w", timeout=0.05, policy=Policy(retry=Retry(attempts=50))), result=out("w"))
    run = await Started(store, body).waits("w@2")
    run.send("w", 1)
    assert (await run.task)["value"] == 1


async def test_a_refused_name_is_a_failure_of_the_node(store: Store) -> None:
    result = await on(store, line(compute("x", lit("")), event("w", out("x"))), ScriptedTools())
    assert result["failures"] == ["w: the event or approval of a wait must be a text that is not empty, not ''"]


async def test_waiting_does_not_count_toward_the_timeout_of_the_run(store: Store) -> None:
    """DUR-13"""
    tools = ScriptedTools(slow=gives(1, after=0.05), hang=held())
    body = graph(event("w"), call("slow"), call("hang", after={"w", "slow"}))
    began = time.monotonic()
    run = await Started(store, flow(body, timeout=0.25), tools).waits("w")
    await asyncio.sleep(0.4)  # the time itself is what this is about
    run.send("w")
    await tools.called("hang")
    assert (await run.task)["status"] == "timeout"
    assert time.monotonic() - began > 0.55


async def test_a_run_that_waits_is_stopped_at_once(store: Store) -> None:
    run = await Started(store, line(event("w"))).waits("w")
    assert run.engine.stop("r")
    assert (await run.task)["status"] == "stopped"


async def test_a_sibling_that_fails_ends_the_wait(store: Store) -> None:
    tools = ScriptedTools(bad=RuntimeError("no"))
    policy = Policy(retry=Retry(attempts=2))
    run = Started(
        store,
        line(block("p", event("w"), call("bad", after="s"), node("s", Sleep(seconds=lit(0.01))), policy=policy)),
        tools,
    )
    assert (await run.task)["status"] == "failed"
    assert open_waits(store.history("r")) == []
