"""Runs that wait for the answer to a question of an MCP server, at every interface: shown, answered, continued."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_project import Served, served
from test_mcp_http import AUTHORIZED, TOKEN, listening

from patience import wait_until
from ropewalk import App, Toolbox
from ropewalk.doors.http.site import make_site
from ropewalk.tools.mcp.servers import McpServers
from tools.mcp_lab import SERVERS, HttpServer, free_port

__all__ = ["served"]
pytestmark = pytest.mark.process

DEPLOY = """\
kind: chain
name: deploy
inputSchema: {type: object, properties: {service: {type: string}}}
nodes: [{id: ask, type: tool, tool: "asker:deploy", params: {service: "${input.service}"}}]
"""
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    port, ledger = free_port(), tmp_path_factory.mktemp("asker") / "calls"
    server = HttpServer([sys.executable, str(SERVERS / "asker.py"), str(port)], "ready", port, LEDGER=str(ledger))
    try:
        yield server
    finally:
        server.kill()


def waits_of(home: Path, run_id: str) -> list[Any]:
    with_store = App(f"{home}/runs.db")
    try:
        return with_store.runs.waiting(run_id) if with_store.runs.row(run_id) is not None else []
    finally:
        with_store.store.close()


async def settled(look: Callable[[], Any], unsettled: tuple[str, ...]) -> Any:
    while (state := await look())["status"] in unsettled:
        pass
    return state


def test_on_the_command_line_a_killed_run_waits_on_and_is_answered(
    project: Any, started: Any, asker: HttpServer
) -> None:
    settings = f'[store]\nurl = "runs.db"\n[mcp.asker]\nurl = "{asker.url}"\nmode = "legacy"\nquestions = "wait"\n'
    project.write("ropewalk.toml", settings)
    project.write("deploy.yaml", DEPLOY)
    process = started("run", "deploy.yaml", "--input", '{"service": "shop"}', "--id", "d", "--wait")
    wait_until(lambda: waits_of(project.home, "d"))
    process.kill()  # SIGKILL, while the run waits in its process
    process.wait()

    resumed = project("resume", "d")
    assert resumed.code == 4, resumed.err
    assert resumed.out.splitlines()[-6:] == [
        "  ask/question-1 waits for an answer: asker asks: Which branch of shop?",
        "    branch (text): main, next",
        "    copies (integer, at least 1, default 2)",
        '    payload: an object with these fields, or "decline", or "cancel"',
        "    ropewalk runs send d ask/question-1 --payload '{\"branch\":\"main\"}'",
        "  then: ropewalk resume d",
    ]  # fmt: skip
    assert "waits for an answer: asker asks: Which branch of shop?" in project("runs", "show", "d").out
    [listed] = project("runs", "ls", "--status", "waiting", "--json").data
    assert listed["runId"] == "d"

    wrong = project("runs", "send", "d", "ask/question-1", "--payload", '{"branch": "main", "copies": 0}')
    assert wrong.code == 2
    assert "the payload does not fit the form of the server\npayload.copies: " in wrong.err
    assert project("runs", "send", "d", "ask/question-1", "--payload", '{"branch": "main"}').code == 0
    again = project("runs", "send", "d", "ask/question-1", "--payload", '{"branch": "main"}')
    assert again.out.splitlines()[0] == "ask/question-1 was sent to d before"
    assert project("resume", "d").code == 4
    assert project("runs", "send", "d", "ask/question-2", "--payload", '"decline"').code == 0
    done = project("resume", "d", "--json")
    assert done.code == 0, done.err
    assert done.data["result"]["ask"] == {
        "service": "shop",
        "branch": {"action": "accept", "content": {"branch": "main", "copies": 2}},
        "sure": {"action": "decline"},
    }


def test_over_http_the_form_is_shown_and_the_answer_continues_the_run(tmp_path: Path, asker: HttpServer) -> None:
    document = {
        "kind": "chain",
        "name": "pay",
        "nodes": [{"id": "ask", "type": "tool", "tool": "asker:pay", "params": {"service": "shop"}}],
    }

    async def case() -> None:
        toolbox = Toolbox(mcp={"asker": {"url": asker.url}})
        async with App(f"{tmp_path}/runs.db", toolbox=toolbox) as app:
            transport = httpx2.ASGITransport(make_site(app, TOKEN))
            client = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=AUTHORIZED)
            await app.run(document, {}, run_id="r", park=True)
            [wait] = (await client.get("/api/waiting")).json()["waiting"]
            expected = {"server": "asker", "message": "Pay for shop", "url": "https://pay.example/shop"}
            assert (wait["event"], wait["question"]) == ("ask/question-1", expected)
            refused = await client.post("/api/runs/r/send", json={"event": wait["event"], "payload": {}})
            assert refused.status_code == 422
            assert "payload" in refused.text
            sent = await client.post("/api/runs/r/send", json={"event": wait["event"], "payload": True})
            assert sent.json()["sent"] is True

            async def look() -> Any:
                return (await client.get("/api/runs/r")).json()

            done = await settled(look, ("running", "waiting"))
            assert done["status"] == "completed"
            [call] = [entry.data for entry in app.store.history("r") if entry.kind == "call"]
            assert call == {"service": "shop", "pay": {"action": "accept"}}

    asyncio.run(case())


def test_an_mcp_client_without_forms_is_told_and_a_task_shows_the_form_of_the_server(
    served: Served, asker: HttpServer
) -> None:
    served.write("flows/deploy.yaml", DEPLOY)
    served.write("ropewalk.toml", (served.home / "ropewalk.toml").read_text() + f'[mcp.asker]\nurl = "{asker.url}"\n')

    async def case(url: str) -> None:
        async with McpServers() as servers, httpx2.AsyncClient(headers=AUTHORIZED) as client:
            servers.add("here", {"url": url, "headers": {"Authorization": f"Bearer {TOKEN}"}})
            waiting = await servers.call_tool("here", "deploy", {"service": "shop"})
            about = waiting.meta["ropewalk/error"]
            assert about["kind"] == "Waiting"
            assert "Which branch of shop?" in waiting.content[0].text
            app = App(f"{served.home}/runs.db")
            for answer in ({"branch": "main"}, {"sure": True}):
                [wait] = app.runs.waiting(about["runId"])
                app.runs.send(about["runId"], wait["event"], answer)
                done = await servers.call_tool("here", "resume_run", {"runId": about["runId"]})
            assert done.structured_content["result"]["ask"]["sure"]["content"] == {"sure": True}
            app.store.close()

            async def ask(method: str, of: str, **params: Any) -> Any:
                headers = {"mcp-method": method, "mcp-name": of, "mcp-protocol-version": MODERN}
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
                text = (await client.post(url, json=body, headers=headers, timeout=60)).text
                return json.loads(text if text.startswith("{") else re.findall(r"^data: (\{.*)$", text, re.M)[-1])

            task = (await ask("tools/call", "deploy", name="deploy", arguments={"service": "web"}))["result"]["taskId"]

            async def look() -> Any:
                return (await ask("tasks/get", task, taskId=task))["result"]

            async def questions(answered: str | None = None) -> Any:
                state = await settled(look, ("working",))
                while answered in state.get("inputRequests", ()):  # the answer is still on its way to the run
                    state = await settled(look, ("working",))
                return state

            async def update(key: str, **content: Any) -> Any:
                responses = {key: {"action": "accept", "content": content}}
                return await ask("tasks/update", task, taskId=task, inputResponses=responses)

            state = await questions()
            assert state["status"] == "input_required"
            [(key, request)] = state["inputRequests"].items()
            assert (key, request["method"]) == ("ask/question-1", "elicitation/create")
            assert request["params"]["message"] == "asker asks: Which branch of web?"
            assert request["params"]["requestedSchema"]["properties"]["branch"]["enum"] == ["main", "next"]
            assert "payload.branch" in (await update(key, branch="old"))["error"]["message"]
            await update(key, branch="next")
            [key] = (await questions(key))["inputRequests"]
            await update(key, sure=False)
            done = await questions(key)
            assert done["status"] == "completed"
            assert done["result"]["structuredContent"]["ask"]["branch"]["content"] == {"branch": "next", "copies": 2}

    with listening(served) as here:
        asyncio.run(case(here.url))
