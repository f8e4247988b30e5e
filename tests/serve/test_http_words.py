"""What is said over HTTP to somebody who has asked for something that is not there, or in the wrong way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .server import TOKEN, Served
from .test_http_api import call, chain, fresh

ADD = chain(call("a", "add", a=1))


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/api/runs?lmit=1", "query.lmit: no such parameter; the parameters are status, kind, "),
        ("/api/runs?lmit=1", "; did you mean limit?"),
        ("/api/runs?limit=1&limit=2", "query.limit: is given more than once"),
        ("/api/waiting?all=1", "query.all: no such parameter; this route takes none"),
        ("/api/tools?txt=x", "did you mean text?"),
        ("/api/definitions?kind=chain", "query.kind: no such parameter"),
        ("/metrics?x=1", "query.x: no such parameter"),
        ("/api/runs?limit=abc", "query.limit: must be a whole number, not 'abc'"),
        ("/api/runs?limit=0", "query.limit: must be at least 1, not '0'"),
        ("/api/runs?all=maybe", "query.all: must be true or false, not 'maybe'"),
        ("/api/definitions/chian/x", "path.kind: must be 'chain' or 'composition', not 'chian'; did you mean chain?"),
    ],
)
def test_an_address_is_taken_as_it_is_meant_or_refused(served: Served, path: str, says: str) -> None:
    found = served.get(path)
    assert (found.status_code, says in found.json()["error"]["message"]) == (422, True), found.text


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([1], "body: must be an object, not a list"),
        ({"document": 5}, "body.document: must be an object or text, not 5"),
        ({"document": ADD, "wait": "5"}, "body.wait: must be a number, not '5'"),
        ({"document": ADD, "wait": True}, "body.wait: must be a number, not true"),
        ({"document": ADD, "wait": 61}, "body.wait: must be at most 60, not 61"),
        ({"document": ADD, "runId": ""}, "body.runId: must be text of at least 1 character, not ''"),
        ({"definition": {"kind": "fil", "id": "x"}}, "body.definition.kind: must be 'chain', 'composition' or 'file'"),
        ({"definition": {"kind": "chain"}}, "body.definition.id: is missing"),
    ],
)
def test_a_body_is_told_what_would_be_right(served: Served, body: Any, says: str) -> None:
    found = served.post("/api/runs", body)
    assert (found.status_code, says in found.json()["error"]["message"]) == (422, True), found.text
    assert "Input should" not in found.text


def test_a_body_that_is_missing_is_told_so(served: Served) -> None:
    assert served.client.post("/api/runs").json()["error"]["message"] == "body: is missing; send an object, as JSON"


@pytest.mark.parametrize("id", [".", "..", "a/b", "../x", "a\\b", " ", " a", "a\nb", "a\u2028b"])
def test_an_id_that_no_address_or_line_can_hold_is_refused_before_anything_runs(served: Served, id: str) -> None:
    done = served.post("/api/runs", {"document": ADD, "wait": 20}).json()
    for path, body in (("/api/runs", {"document": ADD}), (f"/api/runs/{done['runId']}/fork", {})):
        found = served.post(path, {**body, "runId": id})
        assert (found.status_code, found.json()["error"]["kind"]) == (422, "InvalidValue")
        assert (
            "is not a valid run id; write 1 to 500 characters on one line, without slashes"
            in found.json()["error"]["message"]
        )


@pytest.mark.parametrize("verb", ["resume", "retry", "fork"])
def test_a_run_is_gone_on_with_without_a_body(served: Served, verb: str) -> None:
    id = fresh()
    served.post("/api/runs", {"document": chain({**call("f", "fail"), "maxRetries": 0}), "runId": id, "wait": 20})
    assert served.client.post(f"/api/runs/{id}/{verb}").status_code in (200, 202)


def test_a_route_is_told_by_what_it_takes(served: Served) -> None:
    wrong = served.client.post("/api/runs/r/rety")
    said = "/api/runs/r/rety takes GET, not POST; did you mean /api/runs/{run_id}/retry?"
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (405, said)
    assert (
        served.client.put("/api/definitions/chain/x")
        .json()["error"]["message"]
        .endswith("takes DELETE and GET, not PUT")
    )


def test_a_definition_of_another_notation_is_told_where_it_belongs(served: Served) -> None:
    wrong = served.post("/api/definitions/composition", {"document": ADD})
    said = "kind: this is a chain, but this address stores compositions only; send it to /api/definitions/chain"
    assert (wrong.status_code, wrong.json()["error"]["message"]) == (422, said)


def test_a_definition_is_reached_by_any_id_that_it_can_be_stored_under(served: Served) -> None:
    id = f"{fresh()}/b c"
    assert served.post("/api/definitions/chain", {"document": {**ADD, "id": id}}).status_code == 201
    address = f"/api/definitions/chain/{id.replace('/', '%2F')}"
    assert served.get(address).json()["id"] == id
    assert served.get(f"{address}/drawing").text.startswith("flowchart")
    assert served.client.delete(address).status_code == 204
    assert served.post("/api/definitions/chain", {"document": {**ADD, "id": ".."}}).status_code == 422


def test_an_id_that_is_not_there_is_answered_with_the_most_similar_one(served: Served) -> None:
    served.post("/api/runs", {"document": ADD, "runId": "order-4711", "wait": 20})
    for kind, node in (("chain", ADD["nodes"]), ("composition", [{"id": "a", "type": "TOOL", "tool": "add"}])):
        document = {"kind": kind, "id": f"{kind}-of-4711", "name": "n", "nodes": node}
        assert served.post(f"/api/definitions/{kind}", {"document": document}).status_code == 201
    runs = ["/graph", "/logs", "/actions", "/arguments", "/events", "/waiting", "/diff?with=order-4711"]
    of_run = [("GET", f"/api/runs/order-471{rest}", {}) for rest in ("", *runs, f"/content/{'0' * 64}")]
    verbs = ("stop", "retry", "undo", "resume", "fork", "approve", "send")
    of_run += [("POST", f"/api/runs/oder-4711/{verb}", {"event": "e"} if verb == "send" else {}) for verb in verbs]
    served.post("/api/runs", {"document": ADD, "runId": "4711-is-an-id-that-nobody-writes", "wait": 20})
    asked = {"'order-4711'": [*of_run, ("GET", "/api/runs?after=order", {})]}
    asked["'4711-is-an-id-that-nobody-writes'"] = [("GET", "/api/runs/4711-is", {})]
    asked["'chain-of-4711'"] = [(verb, "/api/definitions/chain/chain-4711", {}) for verb in ("GET", "DELETE")]
    asked["'chain-of-4711'"] += [
        ("GET", "/api/definitions/chain/chain-4711/drawing", {}),
        ("POST", "/api/runs", {"definition": {"kind": "chain", "id": "chin-of-4711"}}),
    ]
    asked["'composition composition-of-4711'"] = [("GET", "/api/definitions/chain/compositionof-4711", {})]
    for meant, requests in asked.items():
        for verb, path, body in requests:
            answer = served.client.request(verb, path, json=body if verb == "POST" else None)
            assert (answer.status_code, f"; did you mean {meant}?" in answer.text) == (404, True), (path, answer.text)


def test_a_page_of_runs_goes_on_behind_a_run_that_is_there(served: Served) -> None:
    assert served.get("/api/runs?after=nope").status_code == 404


def test_the_same_run_sent_by_many_at_once_runs_once_and_is_answered_to_all(served: Served) -> None:
    id, together = fresh(), threading.Barrier(12)

    def send(_: int) -> Any:
        together.wait()
        return served.post("/api/runs", {"document": ADD, "runId": id, "wait": 20})

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(send, range(12)))
    assert [one.status_code for one in found] == [200] * 12, [one.text for one in found]
    assert [one.json()["new"] for one in found].count(True) == 1
    assert {one.json()["result"]["a"] for one in found} == {2}


def test_a_body_that_grows_past_the_limit_is_told_so(served: Served) -> None:
    def parts() -> Iterator[bytes]:
        yield b'{"document":"'
        for _ in range(110):
            yield b"a" * 100_000
        yield b'"}'

    found = served.client.post("/api/validate", content=parts(), headers={"content-type": "application/json"})
    assert (found.status_code, found.json()["error"]["kind"]) == (413, "TooLarge")


def test_a_token_that_was_given_is_not_printed(served: Served) -> None:
    assert served.said == f"{served.url}/?token=$ROPEWALK_TOKEN\n"
    assert TOKEN not in served.said
