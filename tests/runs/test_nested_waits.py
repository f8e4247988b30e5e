"""A wait inside a flow that another flow calls: the outermost run waits, is answered, and is resumed.

Each notation as the flow that waits and as the flow that calls it, in memory, SQLite and Postgres.
"""

from __future__ import annotations

import asyncio
import itertools
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from engine.lab import turns
from patience import until
from ropewalk import flow
from ropewalk.app.app import App
from ropewalk.errors import NotWaiting, PartOfRun, RopewalkError
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Store
from ropewalk.testing import DyingStore, ScriptedModel, ScriptedTools, wants
from tiers import on_each_store, sampled

Document = Any
CALLS = ("before", "after", "last")


def step(id: str, tool: str | None = None, **more: Any) -> Document:
    return {"id": id, "type": "tool", "tool": tool or id, **more}


def chain(*nodes: Document, **more: Any) -> Document:
    return {"kind": "chain", "name": "c", "nodes": list(nodes), **more}


def ask(id: str = "ask", **more: Any) -> Document:
    return {"id": id, "type": "wait", "approval": f"{id}?", **more}


def experience(folder: Path, name: str, *nodes: str) -> Path:
    """A directory with these nodes in a row."""
    ids = [node.partition("id: ")[2].partition(",")[0] for node in nodes]
    edges = ", ".join(f"{{from: {a}, to: {b}}}" for a, b in pairwise(ids))
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "experience.yaml").write_text(
        f"name: {name}\nversion: 0.1.0\nstate: {{schema: {{r: {{type: object}}}}}}\n"
        f"graph:\n  nodes: [{', '.join(nodes)}]\n  edges: [{edges}]\n"
    )
    return path


def python(name: str, *tools: str | None) -> Document:
    """A Python flow that calls these tools; None is the approval."""
    made = flow(name)
    for tool in tools:
        if tool is None:
            made.options(name="ask").approval("ask?")
        else:
            made.options(name=tool).call(tool)
    return made


def waits_in(kind: str, folder: Path) -> Document:
    """The flow `leaf`: it calls `before`, waits for an approval, and calls `after`."""
    made: dict[str, Any] = {
        "chain": lambda: chain(step("before"), ask(), step("after"), name="leaf"),
        "python": lambda: python("leaf", "before", None, "after"),
        "agent": lambda: {
            "kind": "agent",
            "name": "leaf",
            "prompt": "leaf",
            "tools": ["before", "after"],
            "approve": ["after"],
        },
        "experience": lambda: experience(
            folder,
            "leaf",
            "{id: b, kind: call, tool: before}",
            '{id: ask, kind: wait, approval: "ask?"}',
            "{id: a, kind: call, tool: after}",
        ),
    }
    return made[kind]()


def calls(kind: str, tool: str, folder: Path) -> Document:
    """A flow that calls a tool and then `last`."""
    made: dict[str, Any] = {
        "chain": lambda: chain(step("call", tool), step("last")),
        "loop": lambda: chain(
            {"id": "each", "type": "parallel", "nodes": [step("call", tool)]},
            step("last"),
        ),
        "composition": lambda: {
            "kind": "composition",
            "name": "c",
            "nodes": [step("call", tool), step("last", inputMapping={"given": "$output.call"})],
        },
        "composite": lambda: {
            "kind": "composite",
            "name": "c",
            "mode": "compose",
            "inputSchema": {"type": "object"},
            "steps": [{"name": "call", "tool": tool}, {"name": "last", "tool": "last"}],
        },
        "python": lambda: python("c", tool, "last"),
        "agent": lambda: {"kind": "agent", "name": "c", "prompt": "outer", "tools": [tool, "last"]},
        "experience": lambda: experience(
            folder, "outer", f"{{id: call, kind: call, tool: {tool}}}", "{id: last, kind: call, tool: last}"
        ),
        "directory": lambda: experience(
            folder, "outer", "{id: call, kind: experience, impl: ./leaf}", "{id: last, kind: call, tool: last}"
        ),
    }
    return made[kind]()


def turn(request: Any) -> Any:
    """What the model wants next: of the inner agent `before` and `after`, of the outer one the flow and `last`."""
    turns = sum(message["role"] == "assistant" for message in request.messages)
    names = [tool["name"] for tool in request.tools]
    wanted = ["before", "after"] if "before" in names else [next(name for name in names if name != "last"), "last"]
    return wants(wanted[turns]) if turns < 2 else "done"


class Scene:
    """One store, and apps on it that come and go like processes."""

    def __init__(self, store: Store, *flows: Document, tools: ScriptedTools | None = None) -> None:
        self.store, self.flows = store, flows
        self.tools = tools or ScriptedTools(before=1, after=2, last=3)

    def app(self) -> App:
        app = App(self.store, tools=self.tools.tools(), model=ScriptedModel(turn))
        for document in self.flows:
            app.toolbox.register(app.as_tool(document))
        app.close = _left_open(app)  # type: ignore[method-assign]
        return app

    def counts(self) -> dict[str, int]:
        return {name: self.tools.count(name) for name in CALLS}


def _left_open(app: App) -> Any:
    """Closing one of several apps must leave the store to the others."""

    async def close() -> None:
        await app.toolbox.close()

    return close


LEAVES = ("chain", "python", "agent", "experience")
OUTER = ("chain", "loop", "composition", "composite", "python", "agent", "experience")


@on_each_store(
    "reliability",
    "outer inner",
    [*itertools.product(OUTER, LEAVES), ("directory", "experience")],  # a directory calls directories
    9,
)
async def test_a_nested_wait_releases_the_outer_run_and_is_answered_through_it(
    store: Store, tmp_path: Path, inner: str, outer: str
) -> None:
    leaf = waits_in(inner, tmp_path / "outer" if outer == "directory" else tmp_path)
    scene = Scene(store, *([] if outer == "directory" else [leaf]))
    document = calls(outer, "leaf", tmp_path)
    first = await scene.app().run(document, {}, run_id="r", park=True)
    assert first.status == "waiting"
    [wait] = first.waiting_for
    assert "/" in wait["path"]
    assert store.get_run("r").status == "waiting"  # type: ignore[union-attr]
    assert {row.status for row in store.list_runs()} == {"waiting"}, "no run is left to a process that is gone"
    assert not store.orphans()
    assert scene.counts() == {"before": 1, "after": 0, "last": 0}

    app = scene.app()
    asked = app.runs.waiting()
    assert [(one["runId"], one["path"]) for one in asked] == [("r", wait["path"])], "listed once"
    assert app.runs.get("r")["waitingFor"] == first.waiting_for  # type: ignore[index]
    answered = app.runs.approve("r", wait["node"], by="ann")
    assert (answered["path"], answered["by"]) == (wait["path"], "ann")
    assert [row.id for row in store.orphans()] == ["r"]
    assert app.runs.liveness_of(store.list_runs(top=True)) == {"r": "answered"}

    done = await scene.app().resume("r")
    assert done.status == "completed", done.to_dict()
    assert scene.counts() == {"before": 1, "after": 1, "last": 1}
    assert not app.runs.waiting()
    assert (await scene.app().resume("r")).status == "completed"
    assert scene.counts() == {"before": 1, "after": 1, "last": 1}


@pytest.mark.parametrize("outer", OUTER)
async def test_in_memory_a_nested_wait_is_answered_through_the_outer_run(tmp_path: Path, outer: str) -> None:
    scene = Scene(MemoryStore(), waits_in("chain", tmp_path))
    app = scene.app()
    started = asyncio.Event()

    def watch(event: Any) -> None:
        if event.kind == "wait.started":
            started.set()

    running = asyncio.ensure_future(app.run(calls(outer, "leaf", tmp_path), {}, run_id="r", on_event=watch, park=True))
    await started.wait()
    [wait] = app.runs.waiting()
    assert (wait["runId"], wait["node"]) == ("r", "ask")
    app.runs.approve("r", "ask")
    assert (await running).status == "completed"
    assert scene.counts() == {"before": 1, "after": 1, "last": 1}


async def test_at_any_depth(store: Store) -> None:
    middle = {"kind": "composition", "name": "middle", "nodes": [step("m", "leaf")]}
    top = {"kind": "composite", "name": "top", "inputSchema": {"type": "object"}, "mode": "compose"}
    top = {**top, "steps": [{"name": "t", "tool": "middle"}]}
    leaf = chain(step("before"), ask(), {"id": "paid", "type": "wait", "event": "paid"}, step("after"), name="leaf")
    scene = Scene(store, leaf, middle, top)
    first = await scene.app().run(chain(step("call", "composable:top"), step("last")), run_id="r", park=True)
    assert [wait["path"] for wait in first.waiting_for] == ["call/t/m/ask"]
    # An inner part names the run that can be answered and resumed: the outermost.
    part = scene.app().runs.get("r/call/t")
    assert part is not None
    assert [(wait["runId"], wait["path"]) for wait in part["waitingFor"]] == [("r", "call/t/m/ask")]
    assert scene.app().runs.outermost("r/call/t/m") == "r"
    with pytest.raises(PartOfRun) as refused:
        await scene.app().resume("r/call/t/m")
    assert refused.value.parent == "r"
    answered = scene.app().runs.approve("r/call/t", "m/ask")
    assert (answered["runId"], answered["path"]) == ("r", "call/t/m/ask")
    second = await scene.app().resume("r", park=True)
    assert [(wait["path"], wait["event"]) for wait in second.waiting_for] == [("call/t/m/paid", "paid")]
    with pytest.raises(NotWaiting, match=r"it waits for the event 'paid' \(call/t/m/paid\)"):
        scene.app().runs.send("r/call", "other", early=False)
    assert scene.app().runs.send("r", "paid", early=False)
    assert (await scene.app().resume("r", park=True)).status == "completed"
    assert scene.counts() == {"before": 1, "after": 1, "last": 1}


async def test_an_ambiguous_name_is_refused_with_the_list(store: Store) -> None:
    document = chain(step("a", "leaf"), step("b", "leaf"), ask(), mode="parallel")
    scene = Scene(store, chain(ask(), name="leaf"))
    app = scene.app()
    first = await app.run(document, run_id="r", park=True)
    assert first.status == "waiting", first.to_dict()
    assert sorted(wait["path"] for wait in first.waiting_for) == ["a/ask", "ask", "b/ask"]
    with pytest.raises(NotWaiting, match=r"there are 3 open approvals; name one of them: .*a/ask"):
        app.runs.approve("r")
    assert app.runs.approve("r", "ask")["path"] == "ask", "a path is exact"
    assert app.runs.approve("r", "a")["path"] == "a/ask", "a node that calls the flow"
    second = await app.resume("r", park=True)
    assert [wait["path"] for wait in second.waiting_for] == ["b/ask"]
    app.runs.approve("r", "ask")
    assert (await app.resume("r", park=True)).status == "completed"

    await app.run(chain(step("a", "leaf"), step("b", "leaf"), mode="parallel"), run_id="s", park=True)
    with pytest.raises(NotWaiting, match="there are 2 open approvals; name one of them: a/ask, b/ask"):
        app.runs.approve("s", "ask")


async def test_other_work_keeps_the_process_until_it_is_done(store: Store) -> None:
    from ropewalk.testing import held

    tools = ScriptedTools(before=1, after=2, last=held(3))
    scene = Scene(store, chain(step("before"), ask(), step("after"), name="leaf"), tools=tools)
    document = chain(step("call", "leaf"), step("last"), mode="parallel")
    app = scene.app()
    running = asyncio.ensure_future(app.run(document, run_id="r", park=True))
    await tools.called("last")
    await until(lambda: app.runs.waiting("r"))
    await turns()
    assert not running.done()
    assert store.get_run("r").status == "running"  # type: ignore[union-attr]
    tools.release("last")
    assert (await running).status == "waiting"
    scene.app().runs.approve("r")
    assert (await scene.app().resume("r")).status == "completed"
    assert scene.counts() == {"before": 1, "after": 1, "last": 1}


@pytest.mark.parametrize("store", sampled("reliability", ["sqlite", "memory", "postgres"], 1), indirect=True)
async def test_waiting_inside_counts_toward_no_timeout(store: Store) -> None:
    leaf = chain(ask(timeout=60_000), step("after"), name="leaf", timeout=1000)
    scene = Scene(store, leaf)
    app = scene.app()
    running = asyncio.ensure_future(app.run(chain(step("call", "leaf"), timeout=1000), run_id="r"))
    await until(lambda: store.get_run("r") and app.runs.waiting("r"))
    await asyncio.sleep(1.2)
    app.runs.approve("r")
    assert (await running).status == "completed"


async def test_a_nested_wait_whose_time_is_over_fails_its_node(store: Store) -> None:
    for timeout in (250, 2000, 16_000):  # the time can be over before a busy machine has come to the wait
        scene = Scene(store, chain(ask(timeout=timeout, errorStrategy="fallback", fallback="late"), name="leaf"))
        first = await scene.app().run(chain(step("call", "leaf")), run_id=f"r{timeout}", park=True)
        if first.status == "waiting":
            break
    assert first.status == "waiting"
    await until(lambda: [row.id for row in store.orphans()] == [first.run_id])
    done = await scene.app().resume(first.run_id, park=True)
    assert (done.status, done.results) == ("completed", {"call": {"ask": "late"}})


async def test_a_refusal_inside_is_retried_with_a_new_question(store: Store) -> None:
    scene = Scene(store, chain(step("before"), ask(), step("after"), name="leaf"))
    app = scene.app()
    await app.run(chain(step("call", "leaf"), step("last")), run_id="r", park=True)
    app.runs.approve("r", approved=False, by="bob")
    failed = await app.resume("r", park=True)
    assert failed.status == "failed"
    assert not app.runs.waiting()
    again = await app.runs.retry("r", park=True)
    assert [wait["path"] for wait in again.waiting_for] == ["call/ask"], "the refusal is not used again"
    app.runs.approve("r")
    assert (await app.resume("r")).status == "completed"
    assert scene.counts() == {"before": 1, "after": 1, "last": 1}
    await app.runs.retry("r", ["call"], park=True)
    assert [wait["path"] for wait in app.runs.waiting("r")] == ["call/ask"], "from the beginning"
    assert scene.counts()["before"] == 2


@pytest.mark.process
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("inner", LEAVES)
async def test_each_call_happens_once_wherever_the_process_dies(tmp_path: Path, inner: str, written: bool) -> None:
    """The process dies at every write of the journal in turn; the next one resumes, and somebody approves."""
    document = calls("chain", "leaf", tmp_path)
    leaf = waits_in(inner, tmp_path)
    at, died = 0, True
    while died:
        at, died = at + 1, False
        store: Any = DyingStore(MemoryStore(durable=True), at, written)
        tools = ScriptedTools(before=1, after=2, last=3)
        done: Any = None
        for _ in range(10):
            app = Scene(store, leaf, tools=tools).app()
            try:
                if store.get_run("r") is None:
                    done = await app.run(document, {}, run_id="r", park=True)
                else:
                    done = await app.resume("r", park=True)
            except RopewalkError:
                assert store.dead, at
                died, store = True, DyingStore(await store.survivor())
                continue
            if done.status != "waiting":
                break
            if waits := app.runs.waiting("r"):
                app.runs.approve("r", waits[0]["path"])
        assert done.status == "completed", (at, done.to_dict())
        counts = [tools.count(name) for name in CALLS]
        assert min(counts) == 1, at
        assert sum(counts) <= 4, (at, "only the call that was cut off is made again")
    assert at > 12
