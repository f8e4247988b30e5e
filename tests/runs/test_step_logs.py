"""What tools print and log is kept with their step, whatever prints it and whoever asks."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from modules.folder import needs_node
from patience import until
from ropewalk import App, Toolbox, tool
from ropewalk.config.settings import Limits
from ropewalk.doors.http.site import make_site
from ropewalk.events import Event
from ropewalk.tools.capture import capture

pytestmark = pytest.mark.anyio
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method, id = message["method"], message.get("id")
    answer = {"jsonrpc": "2.0", "id": id}
    if method == "initialize":
        info, can = {"name": "s", "version": "1"}, {"tools": {}, "logging": {}}
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": info}
    elif method == "tools/list":
        answer["result"] = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        print("on stderr", file=sys.stderr, flush=True)
        note = {"level": "warning", "data": "a notification"}
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": note}), flush=True)
        answer["result"] = {"content": [{"type": "text", "text": "done"}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    if id is not None:
        print(json.dumps(answer), flush=True)
"""
SCRIPT = "export default () => { console.log('from JavaScript'); console.error('its error'); return { output: 1 } }"


@tool
async def in_task() -> str:
    """Print in several ways, and in a task of its own."""
    print("printed", end="")
    print(" and ended")
    print("an error", file=sys.stderr)
    logging.getLogger("shop").info("logged %d", 7)

    async def inner() -> None:
        await asyncio.sleep(0)
        print("in a task")

    await asyncio.create_task(inner())
    child = await asyncio.create_subprocess_exec("echo", "a child of a task")
    await child.wait()
    return "done"


@tool
def in_thread() -> str:
    """Print in a thread."""
    print("printed")
    thread = threading.Thread(target=print, args=("in a thread of its own",))
    thread.start()
    thread.join()
    subprocess.run(["sh", "-c", "echo a child; echo its error >&2"], check=True)
    return "done"


CASES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "async": (
        "in_task",
        [("stdout", "printed and ended"), ("stderr", "an error"), ("log", "logged 7"), ("stdout", "in a task"),
         ("stdout", "a child of a task")],
    ),
    "thread": (
        "in_thread",
        [("stdout", "printed"), ("stdout", "in a thread of its own"), ("stdout", "a child"), ("stderr", "its error")],
    ),
    "mcp": ("s:say", [("server", "on stderr"), ("server", "a notification")]),
}  # fmt: skip


def chain(*tools: str, **args: Any) -> dict[str, Any]:
    nodes = [{"id": f"n{i}", "type": "tool", "tool": name, "params": args} for i, name in enumerate(tools)]
    return {"kind": "chain", "name": "c", "nodes": nodes}


async def shown(app: App, run_id: str) -> list[dict[str, Any]]:
    transport = httpx2.ASGITransport(make_site(app, None))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        answer = await client.get(f"/api/runs/{run_id}/logs")
        assert answer.status_code == 200, answer.text
        lines: list[dict[str, Any]] = answer.json()["lines"]
        return lines


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("case", CASES)
async def test_lines_reach_the_record_the_events_and_http(tmp_path: Path, case: str, store: str) -> None:
    name, expected = CASES[case]
    (tmp_path / "server.py").write_text(SERVER)
    servers = {"s": {"command": sys.executable, "args": [str(tmp_path / "server.py")]}} if case == "mcp" else None
    toolbox = Toolbox([in_task, in_thread], mcp=servers)
    events: list[Event] = []
    address = store if store == "memory" else f"sqlite:///{tmp_path / 'runs.db'}"
    with capture(None):
        async with App(address, toolbox=toolbox) as app:
            outcome = await app.run(chain(name), on_event=events.append)
            assert outcome.status == "completed"
            kept = [(line["stream"], line["text"]) for line in app.runs.logs(outcome.run_id)]
            assert sorted(kept) == sorted(expected)
            told: list[Any] = [event.data for event in events if event.kind == "node.log"]
            assert sorted((line["stream"], line["text"]) for data in told for line in data["lines"]) == sorted(expected)
            assert [line["text"] for line in await shown(app, outcome.run_id)] == [text for _, text in kept]
            assert [event.path for event in events if event.kind == "node.log"] == ["n0"] * len(told)


@needs_node
async def test_lines_of_javascript(tmp_path: Path) -> None:
    (tmp_path / "x.mjs").write_text(SCRIPT)
    nodes = [{"id": "a", "kind": "tool", "impl": "./x.mjs", "args": {}}]
    document = {"name": "e", "version": "0.1.0", "state": {"schema": {}}, "graph": {"nodes": nodes}}
    (tmp_path / "experience.yaml").write_text(json.dumps(document))
    async with App("memory") as app:
        outcome = await app.run(tmp_path)
        lines = [(line["stream"], line["text"]) for line in app.runs.logs(outcome.run_id)]
        assert sorted(lines) == [("stderr", "its error"), ("stdout", "from JavaScript")]


async def test_lines_belong_to_the_step_that_prints_them(tmp_path: Path) -> None:
    @tool
    async def say(word: str) -> str:
        """Say a word, with a pause in which others speak."""
        print(word)
        await asyncio.sleep(0)
        print(word)
        return word

    inner = {**chain("say", word="inner"), "name": "inner"}
    body = [{"id": "one", "type": "tool", "tool": "say", "params": {"word": "$item"}}]
    nodes = [
        {"id": "each", "type": "loop", "items": ["x", "y", "z"], "concurrency": 3, "nodes": body},
        {"id": "part", "type": "tool", "tool": "inner", "dependsOn": []},
    ]
    with capture(None):
        async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[say]) as app:
            app.toolbox.register(app.as_tool(inner))
            outcome = await app.run({"kind": "chain", "name": "c", "nodes": nodes})
            found = [(line["path"], line["text"]) for line in app.runs.logs(outcome.run_id)]
            words = {"each[0]/one": "x", "each[1]/one": "y", "each[2]/one": "z", "part/n0": "inner"}
            assert sorted(found) == sorted(2 * list(words.items()))
            assert len(app.runs.logs(outcome.run_id, "each")) == 6
            assert len(app.runs.logs(outcome.run_id, "each[1]")) == 2
            assert app.runs.logs(outcome.run_id, "eac") == []


async def test_the_first_and_last_lines_are_kept_within_the_limits(tmp_path: Path) -> None:
    @tool
    def flood(count: int) -> int:
        """Print many lines."""
        for i in range(count):
            print(f"line {i}")
        print("x" * 20_000)
        return count

    limits = Limits(log_lines=10)
    with capture(None):
        async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[flood], limits=limits) as app:
            events: list[Event] = []
            outcome = await app.run(chain("flood", count=1000), on_event=events.append)
            lines = app.runs.logs(outcome.run_id)
            numbered = {(line["number"], line.get("text")) for line in lines}
            told: list[Any] = [event.data for event in events if event.kind == "node.log"]
            assert {(line["number"], line["text"]) for data in told for line in data["lines"]} >= numbered - {
                (996, None)
            }
            [recorded] = [event.data async for event in app.runs.watch(outcome.run_id) if event.kind == "node.log"]
            assert {(line["number"], line["text"]) for line in recorded["lines"]} == numbered - {(996, None)}
            assert recorded["leftOut"] == 991
            shown = [line.get("text", line.get("leftOut")) for line in lines]
            assert shown[:-1] == [*(f"line {i}" for i in range(5)), 991, *(f"line {i}" for i in range(996, 1000))]
            assert [line["number"] for line in lines] == [1, 2, 3, 4, 5, 996, 997, 998, 999, 1000, 1001]
            assert len(str(shown[-1])) < 10_100


async def test_a_watcher_in_another_process_gets_each_line_once(tmp_path: Path) -> None:
    seen = [asyncio.Event(), asyncio.Event()]

    @tool
    async def say() -> int:
        """Print a line, and another one once somebody has seen the first."""
        for number, event in enumerate(seen):
            print(f"line {number}")
            await event.wait()
        return 1

    address, lines = f"sqlite:///{tmp_path / 'runs.db'}", list[tuple[int, str]]()
    with capture(None):
        async with App(address, tools=[say]) as app, App(address) as other:
            running = asyncio.ensure_future(app.run(chain("say"), run_id="r"))
            await until(lambda: other.runs.row("r") is not None)
            async for event in other.runs.watch("r", poll=0.01):
                if event.kind == "node.log":
                    data: Any = event.data
                    lines += [(line["number"], line["text"]) for line in data["lines"]]
                    seen[len(lines) - 1].set()
            await running
    assert lines == [(1, "line 0"), (2, "line 1")]


async def test_secrets_are_masked_and_what_nobody_runs_is_not_captured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter2hunter2")
    monkeypatch.setenv("ANOTHER_KEY", "hunter2andmore")

    @tool
    async def tell(token: str) -> str:
        """Print what nobody should."""
        print(f"it is {token}")
        print(f"again {os.environ['ANOTHER_KEY']}\u202e, unfinished", end="")
        return "done"

    echo = io.StringIO()
    with capture(echo):
        async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[tell], secrets=["SHOP_TOKEN"]) as app:
            print("before")
            outcome = await app.run(chain("tell", token="$secret.SHOP_TOKEN"), run_id="r")
            print("after")
            texts = ["it is $secret.SHOP_TOKEN", "again ***\u202e, unfinished"]
            assert [line["text"] for line in app.runs.logs(outcome.run_id)] == texts
    assert capsys.readouterr().out == "before\nafter\n"
    # The lines go on as they are kept, each with its run and its step.
    assert echo.getvalue() == "r n0: it is $secret.SHOP_TOKEN\nr n0: again ***\\u202e, unfinished\n"
    assert b"hunter2" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())  # noqa: ASYNC240


@pytest.mark.parametrize("watched", [False, True])
async def test_a_last_line_without_a_newline_is_kept_while_the_next_step_runs(watched: bool) -> None:
    @tool
    async def ask() -> str:
        """Print a line that nothing ends."""
        print("sure? ", end="")
        return "yes"

    @tool
    async def look() -> list[Any]:
        """Return the lines so far."""
        return [line["text"] for line in app.runs.logs("r")]

    events: list[Event] = []
    with capture(None):
        async with App("memory", tools=[ask, look]) as app:
            outcome = await app.run(chain("ask", "look"), run_id="r", on_event=events.append if watched else None)
            assert outcome.results["n1"] == ["sure? "]
            assert [line["text"] for line in app.runs.logs("r")] == ["sure? "]
    kinds = [event.kind for event in events if event.path == "n0"]
    assert kinds == (["node.started", "node.log", "node.finished"] if watched else [])


async def test_a_retry_adds_lines_and_prints_of_python_modules_are_standard_output(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        "import os\ndef run(args):\n    print('as module')\n    os.stat(args['file'])\n    return {'state_delta': {}}\n"
    )
    nodes = [{"id": "a", "kind": "tool", "impl": "./x.py", "args": {"file": str(tmp_path / "there")}}]
    document = {"name": "e", "version": "0.1.0", "state": {"schema": {}}, "graph": {"nodes": nodes}}
    (tmp_path / "experience.yaml").write_text(json.dumps(document))
    with capture(None):
        async with App(f"sqlite:///{tmp_path / 'runs.db'}") as app:
            assert (await app.run(tmp_path, run_id="r")).status == "failed"
            (tmp_path / "there").touch()
            assert (await app.runs.retry("r")).status == "completed"
            lines = [(line["number"], line["stream"], line["text"]) for line in app.runs.logs("r")]
            assert lines == [(1, "stdout", "as module"), (2, "stdout", "as module")]
            run: Any = app.runs.get("r")
            assert (run["resumed"], "earlierStart" in run["nodes"][0]) == (0, False)  # it failed, and was retried


async def test_lines_of_a_step_survive_its_process(tmp_path: Path) -> None:
    started, attempts = asyncio.Event(), 0

    @tool
    async def slow() -> int:
        """Print, and hang the first time."""
        nonlocal attempts
        attempts += 1
        print(f"attempt {attempts}")
        started.set()
        if attempts == 1:
            await asyncio.Event().wait()
        return attempts

    address = f"sqlite:///{tmp_path / 'runs.db'}"
    with capture(None):
        async with App(address, tools=[slow]) as app:
            running = asyncio.ensure_future(app.run(chain("slow"), run_id="r"))
            await started.wait()
            running.cancel()
            await asyncio.wait([running])
        async with App(address, tools=[slow]) as app:
            assert [line["text"] for line in app.runs.logs("r")] == ["attempt 1"]
            outcome = await app.resume("r")
            assert outcome.status == "completed"
            assert [(line["number"], line["text"]) for line in app.runs.logs("r")] == [
                (1, "attempt 1"),
                (2, "attempt 2"),
            ]
            for limit in (None, 10):
                run: Any = app.runs.get("r", limit=limit)
                [step] = run["nodes"]
                assert (run["resumed"], step["earlierStart"] < step["started"]) == (1, True)


async def test_threads_print_into_the_step_that_started_them_also_those_of_a_pool(tmp_path: Path) -> None:
    pool, go, threads = ThreadPoolExecutor(1), threading.Event(), list[threading.Thread]()

    @tool
    def first(word: str) -> str:
        """Print in a pool, and in a thread that goes on."""
        pool.submit(print, word).result()

        def later() -> None:
            go.wait()
            print(f"{word}, later")

        threads.append(threading.Thread(target=later))
        threads[-1].start()
        return word

    @tool
    def second() -> str:
        """Let the thread of the first step print, and use the pool."""
        go.set()
        threads[-1].join()
        pool.submit(print, "second").result()
        return "done"

    document = chain("first", "second")
    document["nodes"][1]["dependsOn"] = ["n0"]
    with capture(None):
        async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[first, second]) as app:
            for word in ("one", "two"):
                document["nodes"][0]["params"] = {"word": word}
                outcome = await app.run(document)
                found = [(line["path"], line["text"]) for line in app.runs.logs(outcome.run_id)]
                assert sorted(found) == [("n0", word), ("n0", f"{word}, later"), ("n1", "second")]
                go.clear()
    pool.shutdown()


async def test_an_exception_of_a_thread_of_a_tool_is_in_the_log_of_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)  # pytest has its own

    @tool
    def starts() -> str:
        """Start a thread that fails."""

        def work() -> None:
            raise ValueError("from the thread")

        thread = threading.Thread(target=work, name="its own")
        thread.start()
        thread.join()
        return "done"

    with capture(None):
        async with App(f"sqlite:///{tmp_path / 'runs.db'}", tools=[starts]) as app:
            outcome = await app.run(chain("starts"))
            lines = [line["text"] for line in app.runs.logs(outcome.run_id)]
    assert lines[0] == "Exception in thread its own:"
    assert lines[-1] == "ValueError: from the thread"


async def test_what_is_wrong_with_a_log_record_does_not_fail_the_tool(tmp_path: Path) -> None:
    heard: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.msg)

    @tool
    def log() -> str:
        """Log a record whose arguments do not fit, and one that no handler wants."""
        logger = logging.getLogger("shop")
        logger.warning("%d items", "many")
        logger.info("below the level of the root")
        return "done"

    handler, logger = Handler(), logging.getLogger("shop")
    logger.addHandler(handler)
    logger.propagate = False  # to pytest, which raises for a wrong record
    try:
        with capture(None):
            async with App("memory", tools=[log]) as app:
                outcome = await app.run(chain("log"))
                assert outcome.status == "completed"
                texts = [line["text"] for line in app.runs.logs(outcome.run_id)]
                assert texts == ["%d items", "below the level of the root"]
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
    assert heard == ["%d items"]


async def test_a_run_keeps_no_more_than_a_hundred_full_steps(tmp_path: Path) -> None:
    @tool
    async def say(number: int) -> int:
        """Print a line."""
        print("x" * 90)
        return number

    body = [{"id": "one", "type": "tool", "tool": "say", "params": {"number": "$item"}}]
    document = {
        "kind": "chain",
        "name": "c",
        "nodes": [{"id": "e", "type": "loop", "items": "$input.n", "nodes": body}],
    }
    limits = Limits(log_characters=180)
    with capture(None):
        async with App("memory", tools=[say], limits=limits) as app:
            outcome = await app.run(document, {"n": list(range(300))})
            lines = app.runs.logs(outcome.run_id)
            assert sum(len(line.get("text", "")) for line in lines) == 200 * 90
            assert sum(line.get("leftOut", 0) for line in lines) == 100
