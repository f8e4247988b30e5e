"""What `$secret.X` names reaches the tool and nothing else: no journal, no result, no event, no error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.lab import call, compute, graph, job, leaves_nothing, line, lit, node, obj, out
from ropewalk.app.app import App
from ropewalk.engine.engine import Engine
from ropewalk.events import Event
from ropewalk.expr.ast import Arr, Fn, Ref
from ropewalk.ir import Flow, Graph, OnError, Policy, Retry
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.sqlite.store import SqliteStore
from ropewalk.ops import Branch, Map, Program, ProgramTool
from ropewalk.testing import ScriptedTools

SECRET = "s3cr3t-t0k3n-9f8e7d"
TOKEN = Ref("secret", ("TOKEN",))


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", SECRET)


def echoes(**args: Any) -> Any:
    return {"echo": args, "text": f"got {args}", SECRET: 1}


def complains(**args: Any) -> Any:
    raise RuntimeError(f"cannot log in with {args}")


def asks_itself() -> Any:
    raise ValueError(f"the token {SECRET} is stale")


def files_with_the_secret(folder: Path) -> list[str]:
    return [file.name for file in sorted(folder.iterdir()) if SECRET.encode() in file.read_bytes()]


PROGRAM = """
print("with", token)
got = await echo(token="Bearer " + token)
try:
    await bad(token=token)
except Exception as error:
    return [str(error), got, token]
"""
ECHO, BAD = ((ProgramTool(name=name), line(call(name, args=Ref("item")), result=out(name))) for name in ("echo", "bad"))
NESTED = Graph(nodes=(call("in_", "echo", obj(token=Ref("item"))),), ordered=True, result=out("in_"))
FAILS = call("bad", args=obj(token=TOKEN), policy=Policy(retry=Retry(attempts=2)))
SHAPES: dict[str, Graph] = {
    "echoed": line(call("echo", args=obj(token=TOKEN)), result=out("echo")),
    "echoed in a graph": graph(call("echo", args=obj(token=TOKEN)), call("e2", "echo"), result=out("echo")),
    "computed": line(compute("c", obj(header=Fn("+", (lit("Bearer "), TOKEN)))), call("echo", args=out("c"))),
    "failed": line(FAILS),
    "failed and reported": line(
        call("bad", args=obj(token=TOKEN), policy=Policy(on_error=OnError(value=Ref("error"), reported=True))),
        result=out("bad"),
    ),
    "failed with it later": line(call("echo", args=obj(token=TOKEN)), call("asks")),
    "items": line(node("m", Map(items=Arr((TOKEN, lit("x"))), body=NESTED)), result=out("m")),
    "stated": line(
        compute("c", lit(1), writes=obj(token=TOKEN)), call("echo", args=obj(t=Ref("state", ("token",)))),
        result=Ref("state"),
    ),
    "a condition": line(
        node("b", Branch(arms=((Fn("==", (TOKEN, lit("x"))), line()),), default=line(compute("d", TOKEN))))
    ),
    "a program": line(node("p", Program(text=PROGRAM, tools=(ECHO, BAD), inputs=obj(token=TOKEN))), result=out("p")),
    "a program in a child": line(
        node("p", Program(text=PROGRAM, tools=(ECHO, BAD), inputs=obj(token=TOKEN), contained=True)), result=out("p")
    ),
    "the value itself": Graph(nodes=(compute("c", TOKEN),), result=out("c")),
}  # fmt: skip


def flow(body: Graph) -> Flow:
    from ropewalk.ir import Channel

    return Flow(name="f", body=body, state={"token": Channel()})


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
async def test_a_secret_is_nowhere_but_in_the_call(shape: Graph, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    events: list[Event] = []
    tools = ScriptedTools(echo=echoes, bad=complains, asks=asks_itself)
    result = await Engine(store).run(job(flow(shape), tools, watcher=events.append))
    row = store.get_run("r")
    store.close()
    told = repr(result) + repr(events) + repr(row)
    assert SECRET not in told
    assert not files_with_the_secret(tmp_path)
    if shape is not SHAPES["the value itself"] and shape is not SHAPES["a condition"]:
        assert any(SECRET in repr(c.args) for c in tools.calls), "the tool did not get it"


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
async def test_a_secret_is_in_no_answer_of_a_run_in_memory(shape: Graph) -> None:
    for watched in (False, True):
        store, events = MemoryStore(), list[Event]()
        engine = Engine(store)
        tools = ScriptedTools(echo=echoes, bad=complains, asks=asks_itself)
        watcher = events.append if watched else None
        with leaves_nothing():
            result = await engine.run(job(flow(shape), tools, watcher=watcher))
        assert SECRET not in repr(result) + repr(events) + repr(store.get_run("r")) + repr(store.history("r"))


async def test_a_secret_of_a_chain_is_in_no_record_of_it(tmp_path: Path) -> None:
    chain = {
        "nodes": [
            {"id": "a", "type": "tool", "tool": "echo", "params": {"auth": "Bearer ${$secret.TOKEN}"}},
            {"id": "b", "type": "tool", "tool": "bad", "params": {"x": "$secret.TOKEN"}, "errorStrategy": "continue"},
        ]
    }
    tools, events = ScriptedTools(echo=echoes, bad=complains), list[Event]()
    async with App(SqliteStore(tmp_path / "s.db"), secrets=["TOKEN"]) as app:
        done = await app.run(chain, run_id="x", executor=tools, on_event=events.append)
        told = json.dumps(done.to_dict()) + repr(events) + json.dumps(app.runs.get("x"))
    assert done.status == "partial"
    assert tools.calls[0].args == {"auth": f"Bearer {SECRET}"}
    assert SECRET not in told
    assert not files_with_the_secret(tmp_path)


async def test_a_run_with_secrets_goes_on_after_a_crash(tmp_path: Path) -> None:
    from engine.lab import resumed
    from ropewalk.errors import StoreError
    from ropewalk.testing import DyingStore

    for name, shape in SHAPES.items():
        tools = ScriptedTools(echo=echoes, bad=complains, asks=asks_itself)
        whole = DyingStore(MemoryStore(durable=True))
        expected = await Engine(whole).run(job(flow(shape), tools))
        for at in range(1, whole.writes + 1):
            dying = DyingStore(MemoryStore(durable=True), at)
            with pytest.raises(StoreError):
                await Engine(dying).run(job(flow(shape), tools))
            assert await resumed(await dying.survivor(), flow(shape), tools) == expected, (name, at)


async def test_a_secret_that_is_not_set_fails_its_node_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN")
    tools = ScriptedTools(echo=echoes)
    result = await Engine(MemoryStore()).run(job(flow(SHAPES["echoed"]), tools))
    assert result["status"] == "failed"
    assert "environment variable TOKEN is not set" in result["error"]
    assert tools.calls == []
