"""What the journal keeps of a call: its times, its failure in full, and a digest without secrets."""

from __future__ import annotations

import inspect
import json
import time
from itertools import product
from typing import Any

import pytest

from engine.lab import call, job, line, obj, on, out, resumed
from ropewalk.engine.compile.durable import describe_call, failure_from_json, failure_to_json
from ropewalk.engine.engine import Engine
from ropewalk.errors import JournalConflict, NodeFailed, Problem, StoreError
from ropewalk.expr.ast import Fn, Lit, Ref
from ropewalk.ir import OnError, Policy, Retry
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing import DyingStore, ScriptedTools, fails, in_turn

FIELDS = ("path", "message", "node", "tool", "kind", "attempts", "problems", "retryable", "ran", "ran_at", "classes")
FAILURES = [
    NodeFailed(
        "m[0]/n", "no luck", node="n", tool=tool, kind="call", attempts=3, retryable=retryable, ran=ran, ran_at=ran_at,
        problems=problems, classes=classes,
    )
    for tool, retryable, (ran, ran_at), problems, classes in product(
        (None, "t"), (True, False), ((False, None), (True, "m[0]/n"), (True, "m[0]/n/inner")),
        ([], [Problem(path="a.b", message="is missing", keyword="required"), Problem(path="c", message="is wrong")]),
        ((), ("Timeout", "OSError")),
    )
]  # fmt: skip


def as_fields(failure: NodeFailed) -> dict[str, Any]:
    fields = {name: getattr(failure, name) for name in FIELDS}
    fields["problems"] = [(problem.path, problem.message, problem.keyword) for problem in failure.problems]
    return {**fields, "classes": tuple(failure.classes)}


@pytest.mark.parametrize("failure", FAILURES, ids=range(len(FAILURES)))
def test_a_recorded_failure_is_the_same_failure(failure: NodeFailed) -> None:
    recorded = json.loads(json.dumps(failure_to_json(failure)))
    assert as_fields(failure_from_json(recorded)) == as_fields(failure)


@pytest.mark.parametrize("fails_first", [True, False])
async def test_every_entry_has_the_times_of_its_work(fails_first: bool) -> None:
    store = MemoryStore(durable=True)
    tools = ScriptedTools(t=in_turn(fails("no"), 1) if fails_first else 1, u=2)
    before = time.time()
    await on(store, line(call("t", policy=Policy(retry=Retry(attempts=2))), call("u", args=obj(x=out("t")))), tools)
    after = time.time()
    times = [(entry.started, entry.ended) for entry in store.history("r")]
    assert len(times) >= 2
    # The clocks of the wall and of durations may differ by a little.
    assert all(before - 1 <= started <= ended <= after + 1 for started, ended in times)


async def test_a_call_is_described_by_its_tool_and_run() -> None:
    described: list[str | None] = []

    def look(**_: Any) -> int:
        frame = inspect.currentframe()
        while frame is not None:
            described.append(describe_call(frame))
            frame = frame.f_back
        return 1

    await on(MemoryStore(durable=True), line(call("look")), ScriptedTools(look=look), "some-run")
    assert [text for text in described if text is not None] == ["look of run some-run"]


@pytest.mark.parametrize(("changes", "is_same"), [("the secret", True), ("nothing", True), ("the input", False)])
async def test_a_secret_may_change_between_a_crash_and_the_rest(
    changes: str, is_same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "the first secret")
    args = obj(token=Ref("secret", ("TOKEN",)), x=Ref("input"))
    body = line(call("first", args=args), call("second", args=obj(x=out("first"))))
    tools = ScriptedTools(first=lambda **_: 1, second=lambda x: x + 1)
    dying = DyingStore(MemoryStore(durable=True), 2)
    with pytest.raises(StoreError):
        await Engine(dying).run(job(body, tools, input="a"))
    survivor = await dying.survivor()
    assert [entry.path for entry in survivor.history("r")] == ["first"]
    if changes == "the secret":
        monkeypatch.setenv("TOKEN", "another secret")
    rest = resumed(survivor, body, tools, input="b" if changes == "the input" else "a")
    if is_same:
        assert (await rest)["status"] == "completed"
        assert [made.tool for made in tools.calls].count("first") == 1
    else:
        with pytest.raises(JournalConflict, match="the recorded call of first had other arguments than this one"):
            await rest


async def test_a_resumed_run_repeats_the_recorded_failure_in_full() -> None:
    shown = obj(message=Ref("error", ("message",)), kind=Ref("error", ("kind",)), ran=Ref("error", ("ran",)))
    body = line(call("bad", policy=Policy(on_error=OnError(value=shown))), call("after"), result=out("bad"))
    tools = ScriptedTools(bad=fails("no luck"), after=1)
    whole = await on(None, body, tools)
    for written in range(1, 4):
        dying = DyingStore(MemoryStore(durable=True), written)
        with pytest.raises(StoreError):
            await Engine(dying).run(job(body, tools))
        done = await resumed(await dying.survivor(), body, tools)
        assert (done["status"], done["value"]) == (whole["status"], whole["value"])


@pytest.mark.parametrize(
    ("on_error", "is_handled"),
    [
        (None, False),
        (OnError(value=Ref("error", ("message",))), True),
        (OnError(value=Ref("error", ("message",)), reported=True), False),
        (OnError(value=Fn("/", (Lit(1), Ref("input")))), False),  # the fallback fails too
    ],
)
async def test_the_last_attempt_says_whether_its_failure_was_handled(
    on_error: OnError | None, is_handled: bool
) -> None:
    store = MemoryStore(durable=True)
    policy = Policy(retry=Retry(attempts=2), on_error=on_error)
    await on(store, line(call("bad", policy=policy)), ScriptedTools(bad=fails("no luck")), input="text")
    attempts = [entry.data for entry in store.history("r") if entry.kind == "attempt"]
    assert [data.get("handled", False) for data in attempts] == [False, is_handled]
    assert [data["due"] is None for data in attempts] == [False, True]
    assert [data["attempts"] for data in attempts] == [1, 2]
