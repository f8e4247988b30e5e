"""Images, audio, links and resources of MCP results pass from node to node and out of the flow, in every notation."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import fork_server
from mcp_servers.pictures import EVERYTHING, PDF, PNG, WAV
from patience import wait_until
from ropewalk import App, Runner, flow, tool
from ropewalk.agents.scripted import ScriptedModel
from ropewalk.content import Contents, content, content_bytes, contents
from ropewalk.doors.mcp.results import blocks
from ropewalk.errors import InvalidValue, NotFound
from ropewalk.journal.memory import MemoryStore
from ropewalk.journal.protocol import Entry, NewRun, Store
from ropewalk.journal.sql.copying import copy
from ropewalk.journal.sqlite.store import SqliteStore
from tools.mcp_lab import forked, node, python

pytestmark = pytest.mark.process


def sha(data: str) -> str:
    return hashlib.sha256(base64.b64decode(data)).hexdigest()


IMAGE = {"$content": {"type": "image", "mimeType": "image/png", "blob": sha(PNG), "size": 261}}
VALUE: list[Any] = [
    "look",
    IMAGE,
    {"$content": {"type": "audio", "mimeType": "audio/wav", "blob": sha(WAV), "size": 104}},
    {"$content": {"type": "resource_link", "mimeType": "text/csv", "uri": "shelf://a", "size": 3, "name": "a"}},
    {"$content": {"type": "resource", "mimeType": "text/plain", "uri": "shelf://t", "text": "tëxt", "size": 5}},
    {"$content": {
        "type": "resource", "mimeType": "application/pdf", "uri": "shelf://p", "blob": sha(PDF), "size": 8,
    }},
]  # fmt: skip
SEEN = [
    "look",
    *(
        [kind, hashlib.sha256(data.encode()).hexdigest()[:8]]
        for kind, data in (
            ("image", PNG), ("audio", WAV), ("resource_link", "shelf://a"), ("resource", "tëxt"), ("resource", PDF),
        )
    ),
]  # fmt: skip


@tool
def sizes(parts: list[Any]) -> list[int]:
    """Count the bytes."""
    return [len(content_bytes(part)) for part in parts if isinstance(part, dict) and "blob" in part["$content"]]


def python_flow() -> Any:
    with flow("f") as f:
        got = f.call("pics:everything")
        f.result({"got": got, "seen": f.call("pics:seen", parts=got), "sizes": f.call("sizes", parts=got)})
    return f.done()


NOTATIONS: dict[str, Any] = {
    "chain": {
        "kind": "chain", "name": "f", "nodes": [
            {"id": "got", "type": "tool", "tool": "pics:everything"},
            {"id": "seen", "type": "tool", "tool": "pics:seen", "params": {"parts": "$output.got"}},
            {"id": "sizes", "type": "tool", "tool": "sizes", "params": {"parts": "$output.got"}},
        ],
    },
    "composition": {
        "kind": "composition", "name": "f", "concurrency": 1, "nodes": [
            {"id": "got", "type": "tool", "tool": "pics:everything"},
            {"id": "seen", "type": "tool", "tool": "pics:seen", "inputMapping": {"parts": "$output.got"}},
            {"id": "sizes", "type": "tool", "tool": "sizes", "inputMapping": {"parts": "$output.got"}},
        ],
    },
    "composite": {
        "kind": "composite", "name": "f", "description": "d", "inputSchema": {"type": "object"}, "steps": [
            {"name": "got", "tool": "pics:everything"},
            {"name": "seen", "tool": "pics:seen", "inputMapping": {"parts": "$steps.got"}},
            {"name": "sizes", "tool": "sizes", "inputMapping": {"parts": "$steps.got"}},
        ],
    },
    "experience": {
        "kind": "experience", "name": "f", "version": "0.1.0",
        "state": {"schema": {"got": {"type": "array"}, "seen": {"type": "array"}, "sizes": {"type": "array"}}},
        "graph": {
            "nodes": [
                {"id": "got", "kind": "call", "tool": "pics:everything", "writes": ["got"]},
                {"id": "seen", "kind": "call", "tool": "pics:seen", "args": {"parts": "$.got"}, "writes": ["seen"]},
                {"id": "sizes", "kind": "call", "tool": "sizes", "args": {"parts": "$.got"}, "writes": ["sizes"]},
            ],
            "edges": [{"from": "got", "to": "seen"}, {"from": "got", "to": "sizes"}],
        },
    },
    "flow": python_flow(),
}  # fmt: skip


ONE_NODE = {
    "composition": {**NOTATIONS["composition"], "nodes": NOTATIONS["composition"]["nodes"][:1]},
    "composite": {**NOTATIONS["composite"], "steps": NOTATIONS["composite"]["steps"][:1]},
}


@asynccontextmanager
async def pictures(store: Any = "memory", **more: Any) -> AsyncIterator[App]:
    async with App(store, tools=[sizes], **more) as app:
        app.toolbox.add_mcp("pics", forked("pictures.py"))
        yield app


def values_of(app: App, run_id: str) -> dict[str, Any]:
    """The value of each call of a run."""
    told: Any = app.runs.get(run_id)
    return {node["tool"] if "tool" in node else node["path"]: node["value"] for node in told["nodes"]}


@pytest.mark.parametrize("store", ["memory", "file"])
@pytest.mark.parametrize("notation", NOTATIONS)
async def test_content_passes_between_nodes_and_out_of_every_notation(
    notation: str, store: str, tmp_path: Path
) -> None:
    async with pictures("memory" if store == "memory" else tmp_path / "s.db") as app:
        outcome = await app.run(NOTATIONS[notation])
        assert outcome.success, outcome.to_dict()
        values = list(values_of(app, outcome.run_id).values())
        assert [value for value in (VALUE, SEEN, [261, 104, 8]) if value not in values] == []
        kept = app.runs.content(outcome.run_id, sha(PNG))
        assert (kept.data, kept.mime_type) == (base64.b64decode(PNG), "image/png")
        with pytest.raises(NotFound):
            app.runs.content(outcome.run_id, "0" * 64)
        # Its value is what the tool of the flow gives, whatever the notation calls it.
        if notation in ONE_NODE:
            alone = await app.run(ONE_NODE[notation])
            assert alone.result == VALUE
        elif notation == "experience":
            assert outcome.final_state["got"] == VALUE
        else:
            assert outcome.result["got"] == VALUE


async def test_content_of_a_flow_called_as_a_tool_and_of_a_runner_alone(tmp_path: Path) -> None:
    async with pictures(tmp_path / "s.db") as app:
        inner = {"kind": "chain", "name": "inner", "nodes": [{"id": "got", "type": "tool", "tool": "pics:everything"}]}
        app.toolbox.register(app.as_tool(inner))
        nodes = [
            {"id": "sub", "type": "tool", "tool": "inner"},
            {"id": "seen", "type": "tool", "tool": "pics:seen", "params": {"parts": "$output.sub.got"}},
        ]
        outcome = await app.run({"kind": "chain", "name": "outer", "nodes": nodes})
        assert outcome.results["seen"] == SEEN
        alone = await Runner(index=app.toolbox).run("pics:everything")
        assert alone.structured == VALUE
        assert content_bytes(alone.structured[1]) == base64.b64decode(PNG)


@pytest.mark.node
async def test_the_image_of_the_everything_server_is_one_in_a_chain() -> None:
    async with App("memory", tools=[sizes]) as app:
        app.toolbox.add_mcp("every", node("server-everything", "stdio"))
        nodes = [
            {"id": "image", "type": "tool", "tool": "every:get-tiny-image"},
            {"id": "sizes", "type": "tool", "tool": "sizes", "params": {"parts": "$output.image"}},
            {"id": "links", "type": "tool", "tool": "every:get-resource-links", "params": {"count": 1}},
        ]
        outcome = await app.run({"kind": "chain", "name": "c", "nodes": nodes})
    before, image, after = outcome.results["image"]
    assert isinstance(before, str)
    assert isinstance(after, str)
    assert image["$content"]["mimeType"] == "image/png"
    assert outcome.results["sizes"] == [image["$content"]["size"]]
    assert content_bytes(image).startswith(b"\x89PNG")
    assert outcome.results["links"][1]["$content"]["type"] == "resource_link"


def test_an_mcp_client_gets_real_content_blocks() -> None:
    for block in EVERYTHING:  # as a result would keep them
        if block.type in ("image", "audio"):
            contents.keep(base64.b64decode(block.data))
    contents.keep(base64.b64decode(PDF))
    assert blocks(VALUE) == [block for block in EVERYTHING if getattr(block, "text", None) != ""]
    assert blocks(IMAGE) == [EVERYTHING[1]]
    nested = blocks({"a": [IMAGE, {"b": IMAGE}]})
    assert [block.type for block in nested] == ["text", "image"]
    assert blocks("plain")[0].text == "plain"
    gone = {"$content": {"type": "image", "mimeType": "image/png", "blob": "0" * 64, "size": 1}}
    assert blocks([gone])[0].type == "text"


async def test_a_model_sees_the_image_that_a_flow_gives() -> None:
    chain = {"kind": "chain", "name": "draw", "nodes": [{"id": "got", "type": "tool", "tool": "pics:picture"}]}
    wants = [{"type": "tool_use", "id": "1", "name": "draw", "input": {}}]
    model = ScriptedModel(wants, [{"type": "tool_use", "id": "2", "name": "picture", "input": {}}], "seen")
    async with pictures(model=model) as app:
        app.toolbox.register(app.as_tool(chain))
        agent = {"kind": "agent", "prompt": "go", "tools": ["draw", "pics:picture"]}
        outcome = await app.run(agent)
    assert outcome.success, outcome.to_dict()
    sent = [block for request in model.requests[1:] for block in request.messages[-1]["content"]]
    assert [isinstance(result["content"], list) for result in sent] == [True, True], sent
    for result in sent:
        assert [b["source"]["data"] for b in result["content"] if b["type"] == "image"] == [PNG]
    assert PNG not in str(outcome.to_dict()["conversation"]["trace"])  # the record of a call has the hash


async def test_text_parameters_take_content_as_base64() -> None:
    @tool
    async def echo(a: str, b: str) -> list[str]:
        """Echo."""
        return [a, b]

    async with pictures() as app:
        app.toolbox.register(echo) if hasattr(echo, "id") else app.toolbox.register_all([echo])
        params = {"a": "${base64($output.got[0])}", "b": "${dataUri($output.got[0])}"}
        nodes = [
            {"id": "got", "type": "tool", "tool": "pics:picture"},
            {"id": "e", "type": "tool", "tool": "echo", "params": params},
        ]
        outcome = await app.run({"kind": "chain", "name": "c", "nodes": nodes})
    assert outcome.results["e"] == [PNG, f"data:image/png;base64,{PNG}"]


async def test_a_python_tool_gives_content() -> None:
    @tool
    async def draw() -> Any:
        """Draw."""
        return content(b"drawn", "image/png", name="plan")

    async with App("memory", tools=[draw]) as app:
        part: Any = await app.call_tool("draw")
    assert part["$content"]["name"] == "plan"
    assert content_bytes(part) == b"drawn"
    with pytest.raises(InvalidValue):
        content("text", "image/png")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue):
        content(b"", "png")
    for wrong in ("text", {"$content": 1}, VALUE[3]):
        with pytest.raises(InvalidValue):
            content_bytes(wrong)


def test_memory_keeps_the_newest_content() -> None:
    kept = Contents(limit=10)
    first, second, third = (kept.keep(data) for data in (b"aaaa", b"bbbb", b"cccc"))
    assert (kept.find(first), kept.find(second), kept.find(third)) == (None, b"bbbb", b"cccc")
    large = kept.keep(b"d" * 100)
    assert (kept.find(third), kept.find(large)) == (None, b"d" * 100)


SCRIPT = """
import asyncio, sys
from pathlib import Path
from ropewalk import App, tool
from ropewalk.content import content_bytes

@tool
async def hold(parts: list) -> str:
    if sys.argv[2] == "hang":
        Path(sys.argv[1] + ".held").touch()
        await asyncio.sleep(60)
    return ",".join(str(len(content_bytes(part))) for part in parts)

async def main():
    async with App(sys.argv[1], tools=[hold]) as app:
        app.toolbox.add_mcp("pics", {"command": PYTHON, "args": [sys.argv[3]]})
        nodes = [{"id": "got", "type": "tool", "tool": "pics:picture"},
                 {"id": "hold", "type": "tool", "tool": "hold", "params": {"parts": "$output.got"}},
                 {"id": "seen", "type": "tool", "tool": "pics:seen", "params": {"parts": "$output.got"}}]
        document = {"kind": "chain", "name": "c", "nodes": nodes}
        if sys.argv[2] == "hang":
            await app.run(document, run_id="r")
        else:
            print((await app.resume("r")).results)

asyncio.run(main())
"""


def test_a_run_that_was_killed_has_its_content_when_it_is_resumed(tmp_path: Path) -> None:
    script, store = tmp_path / "script.py", tmp_path / "s.db"
    script.write_text(f"PYTHON = {fork_server.program('python')!r}\n{SCRIPT}")
    server = python("pictures.py")["args"][0]
    process = fork_server.Popen([sys.executable, script, store, "hang", server])
    wait_until(Path(f"{store}.held").exists)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = fork_server.run([sys.executable, script, store, "go", server], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "'hold': '261'" in done.stdout
    assert SEEN[1][1] in done.stdout


# --- stores -------------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    from ropewalk.journal.postgres.store import PostgresStore

    if request.param == "postgres":
        made: Store = PostgresStore(request.getfixturevalue("postgres_url"))
    else:
        made = MemoryStore(durable=True) if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    yield made
    made.close()


def part_of(data: bytes) -> dict[str, Any]:
    return content(data, "application/x-test")


async def kept_run(store: Store, id: str, part: Any, filler: str = "") -> None:
    log = await store.open(NewRun(id=id, kind="chain"))
    await log.append(Entry("a", "call", "a", {"part": part, "filler": filler}))
    await log.finish("completed", {"results": {"a": part}, "filler": filler})


@pytest.mark.parametrize("size", [10, 200_000])
@pytest.mark.parametrize("filler", ["", "x" * 200_000])
async def test_a_store_has_content_until_no_run_refers_to_it(
    store: Store, size: int, filler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(size)
    part = part_of(data)
    hash = part["$content"]["blob"]
    for id in ("one", "two"):
        await kept_run(store, id, part, filler)
    other = await store.open(NewRun(id="in", kind="chain", input={"image": part}))
    await other.finish("completed", None)
    monkeypatch.setattr(contents, "_bytes_by_hash", type(contents._bytes_by_hash)())  # as in another process
    assert store.content(hash) == data
    assert content_bytes(part) == data
    assert store.content("0" * 64) is None
    monkeypatch.setattr(contents, "_bytes_by_hash", type(contents._bytes_by_hash)())
    assert store.prune(keep=1).runs == 2
    assert store.content(hash) == data
    assert store.prune(keep=0).runs == 1
    assert store.content(hash) is None
    with pytest.raises(NotFound):
        content_bytes(part)


async def test_a_store_that_is_copied_has_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ropewalk.journal.sqlite.doctor import bad_values

    data = os.urandom(1000)
    part = part_of(data)
    source, target = SqliteStore(tmp_path / "a.db"), SqliteStore(tmp_path / "b.db")
    await kept_run(source, "r", part)
    copy(source, target)
    assert target.content(part["$content"]["blob"]) == data
    assert list(target._writer.read(lambda c: list(bad_values(c)))) == []
    source.close()
    monkeypatch.setattr(contents, "_bytes_by_hash", type(contents._bytes_by_hash)())
    async with App(target) as app:
        exported: Any = app.runs.export("r")
        assert base64.b64decode(exported["contents"][part["$content"]["blob"]]) == data
    target.close()


async def test_the_same_content_is_stored_once(tmp_path: Path) -> None:
    async with pictures(tmp_path / "s.db") as app:
        for id in ("a", "b"):
            await app.run(NOTATIONS["chain"], run_id=id)
        store: Any = app.store
        rows = store._writer.read(lambda c: c.execute("SELECT size FROM blob WHERE codec = 2 ORDER BY size").fetchall())
        assert [size for (size,) in rows] == [8, 104, 261]


def test_content_is_looked_for_off_the_stores_that_are_closed(tmp_path: Path) -> None:
    async def keep() -> dict[str, Any]:
        part = part_of(os.urandom(10))
        store = SqliteStore(tmp_path / "s.db")
        await kept_run(store, "r", part)
        store.close()
        contents._bytes_by_hash.clear()
        return part

    with pytest.raises(NotFound):
        content_bytes(asyncio.run(keep()))
