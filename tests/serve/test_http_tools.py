"""The toolbox over HTTP: bounded pages, and no way to call what agents are made of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ropewalk import App, Tool
from ropewalk.agents.decision import approval_tool
from ropewalk.doors.cli.output import notify_failed_runs
from ropewalk.doors.http.site import make_site
from ropewalk.testing import ScriptedModel

HEAD = {"Authorization": "Bearer t"}


def asking(app: App, *asked: tuple[str, str, Any]) -> list[httpx2.Response]:
    async def scenario() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(make_site(app, "t"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEAD) as client:
            return [await client.request(method, path, json=body) for method, path, body in asked]

    return asyncio.run(scenario())


def toolbox(count: int) -> App:
    app = App("memory")
    for i in range(count):
        app.toolbox.register(Tool(f"tool{i:06}", f"Number {i}", {"type": "object"}, namespace="many", handler=dict))
    return app


def test_a_failed_call_and_a_failed_run_say_where_in_the_answer_and_on_the_console(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    app = App("memory")
    app.toolbox.register(Tool("need", "Fail", {"type": "object"}, handler=lambda **arguments: arguments["n"]))
    notify_failed_runs(app)
    document = {"kind": "chain", "name": "c", "nodes": [{"id": "a", "type": "tool", "tool": "need"}]}
    called, _, run, _ = asking(
        app,
        ("POST", "/api/tools/need", {"arguments": {}}),
        ("POST", "/api/tools/need", {"arguments": {"n": 1}}),
        ("POST", "/api/runs", {"document": document, "runId": "r", "wait": 60}),
        ("POST", "/api/tools/nix", {"arguments": {}}),
    )
    error = called.json()["error"]
    assert error["at"].endswith(" in <lambda>")
    assert error["stack"].endswith("KeyError: 'n'")
    assert caplog.messages == [f"tool need: KeyError: 'n' ({error['at']})"]
    assert run.json()["status"] == "failed"
    assert capsys.readouterr().err.endswith(
        f"run r failed at a: KeyError: 'n' ({error['at']}); see `ropewalk runs show r`\n"
    )


WRONG = {"kind": "chain", "name": "c", "nodes": [{"id": "a", "type": "transform", "input": 1}],
         "result": "$input", "outputSchema": {"type": "string"}}  # fmt: skip
LINE = 'run r failed: result: output: 1 is not of type "string"'


def test_a_failed_run_of_a_mounted_app_has_a_line_in_its_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        transport = httpx2.ASGITransport(App("memory").asgi(token="t"))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=HEAD) as client:
            await client.post("/api/runs", json={"document": WRONG, "input": 1, "runId": "r", "wait": 60})

    asyncio.run(scenario())
    assert caplog.messages == [f"{LINE}; see `ropewalk runs show r`"]


def test_a_document_with_an_unknown_tool_is_not_valid_as_it_cannot_start() -> None:
    document = {"kind": "chain", "name": "c", "nodes": [{"id": "a", "type": "tool", "tool": "nix"}]}
    checked, started = asking(
        App("memory"),
        ("POST", "/api/validate", {"document": document}),
        ("POST", "/api/runs", {"document": document}),
    )
    assert started.status_code == 422
    assert (checked.json()["valid"], checked.json()["problems"]) == (False, started.json()["error"]["problems"])


def test_tools_come_in_bounded_pages_in_one_order() -> None:
    app, seen, after = toolbox(2_500), [], ""
    for _ in range(10):
        [page] = asking(app, ("GET", f"/api/tools?after={after}", None))
        found = page.json()
        assert len(found["tools"]) <= 1_000
        assert found["total"] == 2_500
        seen += [f"{tool['namespace']}:{tool['name']}" for tool in found["tools"]]
        after = found["next"]
        if after is None:
            break
    assert seen == [f"many:tool{i:06}" for i in range(2_500)]


def test_a_page_has_as_many_as_asked_for_of_those_with_a_text() -> None:
    few, rest, none, many, zero = asking(
        toolbox(300),
        ("GET", "/api/tools?text=NUMBER%2029&limit=3", None),
        ("GET", "/api/tools?text=number%2029&limit=10&after=many:tool000291", None),
        ("GET", "/api/tools?after=zzz", None),
        ("GET", "/api/tools?limit=1001", None),
        ("GET", "/api/tools?limit=0", None),
    )
    assert ([tool["description"] for tool in few.json()["tools"]], few.json()["total"]) == (
        ["Number 29", "Number 290", "Number 291"], 11,
    )  # fmt: skip
    assert few.json()["next"] == "many:tool000291"
    assert ([tool["name"][-3:] for tool in rest.json()["tools"]], rest.json()["next"]) == (
        [f"{i}" for i in range(292, 300)], None,
    )  # fmt: skip
    assert (none.json()["tools"], none.json()["next"]) == ([], None)
    assert (many.status_code, zero.status_code) == (422, 422)


@pytest.mark.parametrize("own", ["ropewalk:model", "ropewalk:approval"])
def test_what_agents_are_made_of_is_not_called_over_http(own: str) -> None:
    app = App("memory", model=ScriptedModel("never said"))
    if own == "ropewalk:approval":
        app.toolbox.register(approval_tool())  # as an agent does that asks
    node = {"id": "a", "type": "tool", "tool": own, "params": {"messages": []}}
    loop = {"id": "l", "type": "loop", "items": [1], "nodes": [node]}
    documents = [
        {"kind": "chain", "nodes": [node]},
        {"kind": "chain", "nodes": [loop]},
        {"kind": "composition", "nodes": [{"id": "a", "type": "tool", "tool": own}]},
        {"kind": "composite", "name": "c", "steps": [{"tool": own, "name": "s"}]},
        f"kind: chain\nnodes: [{{id: a, type: tool, tool: '{own}'}}]\n",
    ]
    asked = [("POST", path, {"document": one}) for one in documents for path in ("/api/runs", "/api/preview")]
    calls = [("POST", f"/api/tools/{id}", {"arguments": {}}) for id in (own, own.partition(":")[2])]
    direct, short, typo, *sent = asking(app, *calls, ("POST", "/api/tools/ropewalk:valeu", {"arguments": {}}), *asked)
    assert (typo.status_code, "did you mean ropewalk:value?" in typo.text) == (404, True), typo.text
    assert (direct.status_code, "a part of agents" in direct.text) == (403, True), direct.text
    assert short.status_code in (403, 404), short.text
    for answer in sent:
        assert (answer.status_code, "a part of agents" in answer.text) == (422, True), answer.text


def test_a_document_over_http_starts_no_program_of_a_coding_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "codex"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    node = {"id": "a", "kind": "cli-agent", "provider": "codex", "prompt": "hi"}
    graph = {"nodes": [node], "edges": []}
    document = {"kind": "experience", "name": "x", "version": "0.1.0", "state": {"schema": {}}, "graph": graph}
    paths = ("/api/runs", "/api/preview", "/api/definitions/chain")
    for answer in asking(App("memory"), *(("POST", path, {"document": document}) for path in paths)):
        assert (answer.status_code, "names files of its directory" in answer.text) == (422, True), answer.text
    assert not (tmp_path / "started").exists()
