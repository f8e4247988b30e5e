"""The HTTP API of a real server: runs, their events, definitions, tools, what is told when something is wrong."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from patience import wait_until
from ropewalk.app.app import App
from ropewalk.doors.http.site import make_site
from ropewalk.select.selector import Selector

from .server import TOKEN, Served, serve


def chain(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "chain", "nodes": list(nodes), **more}


def call(id: str, tool: str, **params: Any) -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": tool, "params": params}


def events(served: Served, run_id: str, last: str | None = None) -> Iterator[tuple[str | None, str, Any]]:
    """(id, kind, data) of each event until the stream ends."""
    headers = {"Last-Event-ID": last} if last else {}
    with served.client.stream("GET", f"/api/runs/{run_id}/events", headers=headers) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        found: dict[str, str] = {}
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if line == "" and found:
                yield found.get("id"), found["event"], json.loads(found["data"])
                found = {}
            elif line and not line.startswith(":"):
                found[name] = value


def fresh() -> str:
    return uuid.uuid4().hex


def test_a_document_is_run_and_its_result_waited_for(served: Served) -> None:
    done = served.post("/api/runs", {"document": chain(call("a", "add", a="$input.n")), "input": {"n": 4}, "wait": 20})
    assert (done.status_code, done.json()["result"]) == (200, {"a": 5})
    assert done.json()["status"] == "completed"
    known = served.get(f"/api/runs/{done.json()['runId']}").json()
    assert [(n["path"], n["value"]) for n in known["nodes"]] == [("a", 5)]


def test_a_document_may_be_yaml_text_and_its_problems_have_lines(served: Served) -> None:
    text = "kind: chain\nnodes:\n  - {id: a, type: tool, tool: add, params: {a: 1}}\n"
    assert served.post("/api/runs", {"document": text, "wait": 20}).json()["result"] == {"a": 2}
    wrong = served.post("/api/validate", {"document": text.replace("tool: add", "tool: [add]")}).json()
    assert not wrong["valid"]
    assert (wrong["problems"][0]["line"], wrong["problems"][0]["path"]) == (3, "nodes[0].tool")


def test_a_run_is_followed_while_it_goes_on_and_from_where_one_left_off(served: Served) -> None:
    id, go = fresh(), fresh()
    document = chain(call("a", "add", a=1), call("w", "wait_for", name=go))
    begun = served.post("/api/runs", {"document": document, "runId": id})
    assert (begun.status_code, begun.json()) == (202, {"runId": id, "status": "running", "new": True})
    seen = []
    for event_id, kind, data in events(served, id):
        seen.append((event_id, kind, data.get("path")))
        if (kind, data.get("path")) == ("node.started", "w"):
            (served.folder / go).touch()
    # What the tool prints is told when its lines are read, which is no part of this order.
    kinds = [(kind, path) for _, kind, path in seen if kind != "node.log"]
    assert kinds == [
        ("run.started", ""),
        ("node.started", "a"),
        ("node.finished", "a"),
        ("node.started", "w"),
        ("node.finished", "w"),
        ("run.finished", ""),
        ("end", None),
    ]
    recorded = [(event_id, kind, data.get("path")) for event_id, kind, data in events(served, id) if kind != "node.log"]
    assert [(kind, path) for _, kind, path in recorded] == [
        ("node.finished", "a"),
        ("node.finished", "w"),
        ("run.finished", ""),
        ("end", None),
    ]
    rest = [(kind, data.get("path")) for _, kind, data in events(served, id, last=recorded[0][0])]
    assert [event for event in rest if event[0] != "node.log"] == [
        ("node.finished", "w"),
        ("run.finished", ""),
        ("end", None),
    ]


def test_the_same_id_runs_once_and_another_definition_is_refused_it(served: Served) -> None:
    id = fresh()
    given = {"document": chain(call("a", "add", a=1)), "runId": id, "wait": 20}
    first = served.post("/api/runs", given).json()
    assert first["new"]
    again = served.post("/api/runs", given)
    assert (again.status_code, again.json()) == (200, {**first, "new": False})
    other = served.post("/api/runs", {**given, "document": chain(call("a", "add", a=2))})
    assert (other.status_code, other.json()["error"]["kind"]) == (409, "RunExists")
    for more, said in (({"input": {"n": 1}}, "another input"), ({"variables": {"v": 1}}, "other variables")):
        document = {**given["document"], "variables": {"v": 0}} if "variables" in more else given["document"]
        mine = {**given, "document": document, "runId": fresh() if "variables" in more else id}
        served.post("/api/runs", mine)
        other = served.post("/api/runs", {**mine, **more})
        assert other.status_code == 409
        assert said in other.json()["error"]["message"]


def test_the_same_id_again_waits_for_the_run_that_is_under_way(served: Served) -> None:
    id, go = fresh(), fresh()
    given = {"document": chain(call("w", "wait_for", name=go)), "runId": id}
    served.post("/api/runs", given)
    assert served.post("/api/runs", given).json() == {"runId": id, "status": "running", "new": False}
    short = served.post("/api/runs", {**given, "wait": 0.05})
    assert (short.status_code, short.json()["status"]) == (200, "running")
    threading.Timer(0.2, (served.folder / go).touch).start()
    whole = served.post("/api/runs", {**given, "wait": 20}).json()
    assert (whole["status"], whole["new"], list(whole["result"])) == ("completed", False, ["w"])


def test_a_run_is_stopped(served: Served) -> None:
    id, go = fresh(), fresh()
    served.post("/api/runs", {"document": chain(call("w", "wait_for", name=go)), "runId": id})
    stopped = served.post(f"/api/runs/{id}/stop").json()
    assert stopped == {"runId": id, "stopped": True, "status": "stopped"}
    assert [kind for _, kind, _ in events(served, id)][-2:] == ["run.finished", "end"]
    assert (served.folder / f"{go}.cancelled").exists()
    assert not served.post(f"/api/runs/{id}/stop").json()["stopped"]


def test_runs_are_listed_and_searched(served: Served) -> None:
    name = fresh()
    for n in range(3):
        document = chain(call("a", "add", a=n), name=f"{name} {n}")
        served.post("/api/runs", {"document": document, "wait": 20})
    found = served.get("/api/runs", params={"text": name.upper(), "limit": 2}).json()["runs"]
    assert [row["name"] for row in found] == [f"{name} 2", f"{name} 1"]
    assert served.get("/api/runs", params={"text": name, "status": "failed"}).json() == {"runs": []}


def test_a_failure_names_its_node(served: Served) -> None:
    done = served.post("/api/runs", {"document": chain(call("f", "fail"), maxRetries=0), "wait": 20}).json()
    assert (done["status"], done["errors"][0]["nodeId"]) == ("failed", "f")
    assert "no luck" in done["errors"][0]["message"]


def test_a_definition_is_stored_run_drawn_and_deleted(served: Served) -> None:
    id = fresh()
    document = chain(call("a", "add", a="$var.n"), id=id, name="sum", variables={"n": 1})
    made = served.post("/api/definitions/chain", {"document": document})
    assert (made.status_code, made.json()["id"]) == (201, id)
    assert [node["title"] for node in made.json()["graph"]["nodes"]] == ["Call add"]
    assert id in [d["id"] for d in served.get("/api/definitions").json()["definitions"]]
    given = {"definition": {"kind": "chain", "id": id}, "variables": {"n": 6}, "wait": 20}
    run = served.post("/api/runs", given).json()
    assert run["result"] == {"a": 7}
    assert served.get(f"/api/runs/{run['runId']}").json()["definitionId"] == id
    picture = served.get(f"/api/definitions/chain/{id}/drawing", params={"format": "svg"})
    assert picture.headers["content-type"].startswith("image/svg+xml")
    assert "sandbox" in picture.headers["content-security-policy"]
    assert served.client.delete(f"/api/definitions/chain/{id}").status_code == 204
    gone = served.get(f"/api/definitions/chain/{id}")
    assert (gone.status_code, gone.json()["error"]["kind"]) == (404, "NotFound")


def test_a_graph_has_its_regions_inside(served: Served) -> None:
    loop = {"id": "l", "type": "loop", "items": [1, 2], "nodes": [call("in", "add", a="$item")]}
    done = served.post("/api/runs", {"document": chain(call("a", "add", a=1), loop), "wait": 20}).json()
    graph = served.get(f"/api/runs/{done['runId']}/graph").json()
    assert graph["edges"] == [["a", "l"]]
    (group,) = graph["nodes"][1]["groups"]
    assert [node["path"] for node in group["nodes"]] == ["l/in"]
    paths = {node["path"] for node in served.get(f"/api/runs/{done['runId']}").json()["nodes"]}
    assert {"l[0]/in", "l[1]/in"} <= paths


def test_tools_are_listed_and_called(served: Served) -> None:
    found = served.get("/api/tools", params={"text": "TWO NUMBERS"}).json()
    # The fuzzer of another test may have left tools on this server, so only its own tool is compared.
    tools = [tool["name"] for tool in found["tools"] if not tool.get("namespace")]
    assert (tools, found["failures"]) == (["add"], {}), found["tools"]
    assert all("two numbers" in tool["description"] for tool in found["tools"])
    assert served.post("/api/tools/add", {"arguments": {"a": 2}}).json() == {"tool": "add", "result": 3}
    chosen = served.post("/api/tools/select", {"query": "add two numbers", "limit": 2}).json()
    assert "add" in [one["name"] for one in chosen["results"]]
    wrong = served.post("/api/tools/add", {"arguments": {"a": "x"}})
    assert (wrong.status_code, wrong.json()["error"]["problems"][0]["path"]) == (422, "args.a")
    assert wrong.json()["error"]["message"].startswith("tool add: ")
    failed = served.post("/api/tools/fail", {"arguments": {}})
    assert (failed.status_code, failed.json()["error"]["message"]) == (502, "tool fail: no luck")
    missing = served.get("/api/tools/ad")
    assert (missing.status_code, missing.json()["error"]["message"]) == (404, "no tool 'ad'; did you mean 'add'?")


def test_a_tool_whose_server_cannot_be_reached_is_missing_for_that_reason(tmp_path: Path) -> None:
    for server in serve(tmp_path, settings='[mcp.gone]\ncommand = "no-such-program"\n'):
        missing = server.get("/api/tools/gone:x")
        assert missing.status_code == 404
        assert "no-such-program" in missing.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ({}, 422, "give either definition {kind, id} or document"),
        ({"document": chain(), "definition": {"kind": "chain", "id": "x"}}, 422, "give either"),
        ({"definition": {"kind": "chain", "id": "nope"}}, 404, "no definition 'chain nope'"),
        ({"document": chain(call("a", "ad", a=1))}, 422, "did you mean add?"),
        ({"document": chain(call("a", "add", a=1)), "variables": {"x": "\x00"}}, 422, "NUL"),
        ({"document": chain(call("a", "add", a=1)), "wait": -1}, 422, "body.wait"),
        ({"document": chain(call("a", "add", a=1)), "runId": "a\x00"}, 422, "NUL"),
        ({"document": chain(call("a", "add", a=1)), "nope": 1}, 422, "body.nope: no such key; the keys are "),
        ({"document": chain(call("a", "add", a=1)), "inputs": 1}, 422, "; did you mean input?"),
        ({"definition": {"knd": "chain", "id": "x"}}, 422, "body.definition.knd: no such key; the keys are kind, id"),
        ({"definition": "order.yaml"}, 422, """, not 'order.yaml'; write {"kind":"file","id":"order.yaml"}"""),
        ({"definition": 5}, 422, "body.definition: must be an object, not 5"),
        ({"document": chain(call("a", "add", a=2**63))}, 422, "64"),
        ({"document": "tools.py"}, 422, "a definition must be an object"),
    ],
)
def test_a_wrong_request_runs_nothing_and_says_why(served: Served, body: Any, status: int, says: str) -> None:
    before = served.get("/api/runs").json()["runs"][:1]
    found = served.post("/api/runs", body)
    assert (found.status_code, says in found.json()["error"]["message"]) == (status, True), found.text
    assert served.get("/api/runs").json()["runs"][:1] == before


def test_of_very_many_wrong_keys_the_first_are_told(served: Served) -> None:
    found = served.post("/api/runs", {f"k{i}": 1 for i in range(1000)})
    problems = found.json()["error"]["problems"]
    assert (found.status_code, len(problems), problems[-1]["message"]) == (422, 201, "more than 200 problems")


@pytest.mark.parametrize(
    ("method", "path", "status", "says"),
    [
        ("GET", "/api/rums", 404, "no route /api/rums; did you mean /api/runs?"),
        ("POST", "/api/rums", 404, "no route /api/rums; did you mean /api/runs?"),
        ("GET", "/api/runs/0192a-4b7c-a-long-id/lgos", 404, "/lgos'; did you mean /api/runs/{run_id}/logs?"),
        ("GET", "/api/rnus/0192a-4b7c-a-long-id/logs", 404, "logs; did you mean /api/runs/{run_id}/logs?"),
        ("GET", "/api/runs/0192a-4b7c-a-long-id/nothing", 404, "no run '0192a-4b7c-a-long-id/nothing'"),
        ("DELETE", "/api/runs", 405, "/api/runs takes GET and POST, not DELETE"),
        ("GET", "/api/runs?kind=chian", 422, "there is no kind of run 'chian'; did you mean chain?"),
        ("GET", "/API/runs", 404, "no route /API/runs; did you mean /api/runs?"),
        ("GET", "/api/runs?status=complete", 422, "'complete' is not a status of runs; did you mean completed?"),
        ("GET", "/api/runs?status=x", 422, "use one of: running, waiting, completed, "),
        (
            "GET",
            "/api/runs?since=yesterday",
            422,
            "query.since: 'yesterday' is not a time; write seconds since the epoch, or 20",
        ),
        ("GET", "/api/runs?since=nan", 422, "query.since: 'nan' is not a time"),
    ],
)
def test_a_wrong_address_says_what_would_be_right(
    served: Served, method: str, path: str, status: int, says: str
) -> None:
    found = served.client.request(method, path)
    assert (found.status_code, says in found.json()["error"]["message"]) == (status, True), found.text


def test_runs_are_listed_since_a_time(served: Served) -> None:
    served.post("/api/runs", {"document": chain(call("a", "add", a=1)), "wait": 20})
    for since, some in (("0", True), ("2020-01-01", True), ("2020-01-01T00:00:00+02:00", True), ("4e9", False)):
        assert bool(served.get("/api/runs", params={"since": since}).json()["runs"]) == some


def test_what_is_no_json_within_the_limits_is_refused_in_time(served: Served) -> None:
    def send(raw: bytes, **headers: str) -> Any:
        headers = {"content-type": "application/json", **headers}
        return served.client.post("/api/validate", content=raw, headers=headers)

    assert send(b'{"document": NaN}').json()["error"]["message"] == "nan is not JSON; use null"
    assert "nested deeper" in send(b'{"document":' + b"[" * 200_000 + b"]" * 200_000 + b"}").json()["error"]["message"]
    assert "repeated key" in send(b'{"document": {}, "document": {}}').text
    assert send(b"\xff{}").status_code == 422
    assert send(b'{"document": {}}', **{"content-type": "text/plain"}).status_code == 415
    assert send(b" " * 10_000_001).status_code == 413
    told = send(b"{").json()["error"]
    assert (told["problems"][0]["line"], told["problems"][0]["column"]) == (1, 2)


def test_a_server_that_is_stopped_leaves_its_run_to_be_gone_on_with(tmp_path: Path) -> None:
    document = chain(call("a", "add", a=1), call("w", "wait_for", name="go"))
    for server in serve(tmp_path):
        server.post("/api/runs", {"document": document, "runId": "r"})
    for server in serve(tmp_path):
        row = server.get("/api/runs/r").json()
        assert row["status"] == "running"
        assert [node["path"] for node in row["nodes"]] == ["a"]
        (tmp_path / "go").touch()  # the new server resumes it by itself
        wait_until(lambda: server.get("/api/runs/r").json()["status"] == "completed")  # noqa: B023


def test_runs_and_calls_are_counted(tmp_path: Path) -> None:
    for server in serve(tmp_path):
        for node in (call("a", "add", a=1), {**call("f", "fail"), "maxRetries": 0}):
            server.post("/api/runs", {"document": chain(node), "wait": 20})
        told = server.get("/metrics")
        assert told.headers["content-type"].startswith("text/plain")
        lines = set(told.text.splitlines())
        assert {
            "ropewalk_runs_going 0.0",
            "# HELP ropewalk_runs_total Runs that have ended in this process, by status.",
            "ropewalk_run_duration_seconds_count 2.0",
            'ropewalk_tool_call_duration_seconds_count{tool="add"} 1.0',
            'ropewalk_runs_total{status="completed"} 1.0',
            'ropewalk_runs_total{status="failed"} 1.0',
            'ropewalk_tool_calls_total{outcome="ok",tool="add"} 1.0',
            'ropewalk_tool_calls_total{outcome="failed",tool="fail"} 1.0',
        } <= lines
        assert server.client.get("/metrics", headers={"Authorization": "Bearer x"}).status_code == 401


FLOW = "kind: chain\nname: twice\nnodes: [{id: a, type: tool, tool: add, params: {a: $input.n, b: $input.n}}]\n"


@pytest.mark.parametrize(
    ("settings", "id"), [("", "twice.yaml"), ('[mcp_server]\nflows = ["flows"]\n', "flows/twice.yaml")]
)
def test_flows_in_files_are_listed_looked_at_and_started_and_nothing_else_is(
    tmp_path: Path, settings: str, id: str
) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / id).write_text(FLOW)
    (tmp_path / "other.yaml").write_text("a: 1\n")
    for test in ("twice.test.yaml", "flows/recorded.yaml", "recorded.yaml"):
        (tmp_path / test).write_text("kind: test\nflow: twice.yaml\n")
    for server in serve(tmp_path, settings=settings):
        [line] = server.get("/api/definitions").json()["definitions"]
        assert (line["kind"], line["id"], line["name"], line["notation"]) == ("file", id, "twice", "chain")
        whole = server.get(f"/api/definitions/file/{id.replace('/', '%2F')}").json()
        assert (whole["document"]["name"], whole["graph"]["nodes"][0]["path"]) == ("twice", "a")
        address = f"/api/definitions/file/{id}"
        assert server.get(address).json() == whole  # the id of its document too
        assert whole["document"]["id"] == id
        assert server.get(f"{address}/drawing", params={"format": "text"}).text.startswith("twice")
        given = {"definition": {"kind": "file", "id": id}, "input": {"n": 4}, "wait": 20}
        done = server.post("/api/runs", given).json()
        assert (done["result"], done["chainId"]) == ({"a": 8}, id)
        run = server.get(f"/api/runs/{done['runId']}").json()
        assert (run["definitionId"], run["definition"]) == (id, {"kind": "file", "id": id})
        assert run.pop("events")
        assert server.get(f"/api/runs/{run['runId']}", params={"events": "false"}).json() == run
        assert [row["runId"] for row in server.get("/api/runs", params={"definition": id}).json()["runs"]] == [
            run["runId"]
        ]
        kept = server.client.delete(address)
        assert (kept.status_code, "is a file of the project" in kept.text) == (405, True)
        for meant in ("twice", "twice.yaml", "twise.yaml"):
            if meant != id:
                wrong = server.post("/api/runs", {"definition": {"kind": "file", "id": meant}})
                assert wrong.json()["error"]["message"] == f"no definition 'file {meant}'; did you mean {id!r}?"
        stored = server.post("/api/runs", {"definition": {"kind": "chain", "id": id}}).json()["error"]["message"]
        assert stored == f"no definition 'chain {id}': it is a file; name it with kind file"
        near = server.get("/api/definitions/chain/twise.yaml").json()["error"]["message"]
        assert near == f"no definition 'chain twise.yaml'; did you mean 'file {id}'?"
        for wrong in ("tools.py", "ropewalk.toml", "../twice.yaml", "other.yml", str(tmp_path / id)):
            assert server.get(f"/api/definitions/file/{wrong.replace('/', '%2F')}").status_code == 404
            assert server.post("/api/runs", {"definition": {"kind": "file", "id": wrong}}).status_code == 404


class _Broken:
    """A model that cannot be asked."""

    id = "broken"

    def embed_documents(self, texts: list[str]) -> object:
        raise ZeroDivisionError("its own fault")

    embed_query = embed_documents


def test_what_nobody_foresaw_is_told_in_the_usual_shape() -> None:
    def double(number: int) -> int:
        """Twice a number."""
        return 2 * number

    app = App("memory", tools=[double])
    selector = Selector(embedder=_Broken())  # type: ignore[arg-type]
    selector.follow(app.toolbox)
    app.selector = selector
    site = httpx2.ASGITransport(make_site(app, TOKEN), raise_app_exceptions=False)

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=site, base_url="http://localhost") as client:
            head = {"authorization": f"Bearer {TOKEN}"}
            return await client.post("/api/tools/select", json={"query": "double it"}, headers=head)

    found = asyncio.run(ask())
    assert found.status_code == 500
    said = "internal error; the log of the server has it"
    assert found.json() == {"error": {"kind": "InternalError", "message": said, "problems": []}}
