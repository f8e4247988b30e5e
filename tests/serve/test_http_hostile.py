"""Requests that attack the server: SQL in every parameter, documents that take long, streams that stay open."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from .server import TOKEN, Served

pytestmark = pytest.mark.process

SQL = [
    "'", "''", '"', "\\", "' OR '1'='1", "' OR 1=1 --", "'; DROP TABLE run; --", "') OR ('1'='1", "%", "_", "%%", "\\%",
    "[a-z]*", "*", "?", "$1", "?1", ":a", "1 UNION SELECT 1,2,3", "x' AND (SELECT 1 FROM run)--", "\u02bc OR 1=1",
    "%27", "\0", "a" * 500, "\U0001f600", "NULL", "0x41", "`", "';SELECT pg_sleep(5);--",
    "' || (SELECT sql FROM sqlite_master) || '", "\ud800",
]  # fmt: skip
PATHS = [
    "/api/runs?status={}", "/api/runs?kind={}", "/api/runs?definition={}", "/api/runs?text={}", "/api/runs?after={}",
    "/api/runs?since={}", "/api/runs?limit={}", "/api/runs/{}", "/api/runs/{}/events", "/api/runs/{}/diff?with={}",
    "/api/definitions/chain/{}", "/api/definitions/{}/{}", "/api/tools/{}", "/api/tools?text={}",
    "/api/runs/{}/arguments?node={}",
]  # fmt: skip


def chain(**params: Any) -> dict[str, Any]:
    return {"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": "echo", "params": params}]}


def test_sql_in_a_parameter_is_a_text(served: Served) -> None:
    """No text widens a query, changes a table or makes the server fail."""
    own = "only-this-run"
    assert served.post("/api/runs", {"document": chain(value="x"), "runId": own, "wait": 20}).status_code == 200
    before = {run["runId"] for run in served.get("/api/runs?limit=1000").json()["runs"]}
    for text in SQL:
        word = quote(text.encode("utf-8", "surrogatepass"), safe="")
        for path in PATHS:
            answer = served.get(path.format(word, word))
            assert answer.status_code < 500, (path, text, answer.text)
            if answer.status_code == 200 and path.startswith("/api/runs?") and "limit" not in path:
                found = {run["runId"] for run in answer.json()["runs"]}
                assert own not in found, (path, text)
        body = {"document": chain(value=text), "runId": f"sql {text}"[:99], "wait": 20}
        headers = {"Content-Type": "application/json"}
        started = served.client.post("/api/runs", content=json.dumps(body).encode(), headers=headers)
        assert started.status_code < 500, (text, started.text)
        if started.status_code == 200:
            assert started.json()["result"] == {"a": text}
    assert before <= {run["runId"] for run in served.get("/api/runs?limit=1000").json()["runs"]}


def call(n: int, **more: Any) -> dict[str, Any]:
    return {"id": f"n{n}", "type": "tool", "tool": "echo", "params": {"value": "x"}, **more}


def references(n: int) -> dict[str, Any]:
    """A schema in which each definition refers to the next one twice."""
    definitions: dict[str, Any] = {
        f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]} for i in range(n)
    }
    definitions[f"a{n}"] = {"type": "string"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": definitions}


def nested(depth: int) -> list[dict[str, Any]]:
    inner = [call(depth)]
    for level in reversed(range(depth)):
        inner = [{"id": f"c{level}", "type": "condition", "condition": "true", "then": inner}]
    return inner


def aliases() -> str:
    lines = ["kind: chain", "x: &b0 [1,1,1,1,1,1,1,1,1]"]
    lines += [f"y{i}: &b{i} [{','.join([f'*b{i - 1}'] * 5)}]" for i in range(1, 21)]
    return "\n".join(lines)


HEAVY: dict[str, Callable[[], Any]] = {
    "10,000 nodes": lambda: {"kind": "chain", "mode": "parallel", "nodes": [call(n) for n in range(10_000)]},
    "120,000 dependencies": lambda: {
        "kind": "chain", "mode": "dag",
        "nodes": [call(n, dependencies=[f"n{m}" for m in range(max(0, n - 40), n)]) for n in range(3_000)],
    },
    "10,000 wrong nodes": lambda: {
        "kind": "chain",
        "nodes": [{"id": f"n{n}", "type": "tol", "tol": "x", "params": {"text": "$inptu.x"}} for n in range(10_000)],
    },
    "long expressions": lambda: {
        "kind": "chain",
        "nodes": [call(n, params={"value": "${" + "+".join(["input.a"] * 1_200) + "}"}) for n in range(800)],
    },
    "10,000 nodes of one name": lambda: {"kind": "chain", "nodes": [call(0) for _ in range(10_000)]},
    "long names of tools": lambda: {
        "kind": "chain", "nodes": [{"id": f"n{n}", "type": "tool", "tool": "z" * 400 + str(n)} for n in range(5_000)],
    },
    "50,000 unknown arguments": lambda: chain(**{"k" * 50 + str(n): 1 for n in range(50_000)}),
    "a large enum": lambda: {
        **chain(value="$input.a"),
        "inputSchema": {"type": "object", "properties": {"a": {"enum": [f"v{n}" for n in range(200_000)]}}},
    },
    "a schema that doubles": lambda: {**chain(value="$input.a"), "inputSchema": references(60)},
    "nested conditions": lambda: {"kind": "chain", "nodes": nested(60)},
    "aliases that multiply": aliases,
    "3 million brackets": lambda: "kind: chain\nnodes: " + "[" * 3_000_000,
    "2 million escapes": lambda: 'kind: chain\nnodes: "' + "\\x41" * 2_000_000,
    "60,000 unknown keys": lambda: "kind: chain\n" + "".join(f"k{n}: 1\n" for n in range(60_000)),
    "300,000 unknown keys": lambda: "kind: chain\n" + "".join(f"k{n}: 1\n" for n in range(300_000)),
    "150,000 anchors": lambda: "kind: chain\n" + "".join(f"k{n}: &a{n} x\n" for n in range(150_000)),
}  # fmt: skip


LONGEST = {"300,000 unknown keys", "150,000 anchors", "long expressions"}
LONG = pytest.mark.campaign("sizes", only=True)


@pytest.mark.campaign("sizes")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[LONG] * (name in LONGEST)) for name in HEAVY])
def test_others_are_answered_while_a_document_is_checked(served: Served, name: str) -> None:
    answers: list[int] = []
    work = threading.Thread(
        target=lambda: answers.append(
            served.post("/api/validate", {"document": HEAVY[name]()}, timeout=120).status_code
        )
    )
    work.start()
    while work.is_alive():  # the client gives up after half a minute
        assert served.get("/api/runs?limit=1").status_code == 200
    assert answers
    assert answers[0] < 500


INPUTS: dict[str, tuple[dict[str, Any], Any]] = {
    "a million wrong items": ({"type": "array", "items": {"type": "string"}}, list(range(1_000_000))),
    "300 alternatives of 20,000 items": (
        {"type": "array", "items": {"oneOf": [{"const": -n - 1} for n in range(300)]}},
        list(range(20_000)),
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_others_are_answered_while_an_input_is_refused(served: Served, name: str) -> None:
    schema, value = INPUTS[name]
    document = {**chain(value="x"), "inputSchema": {"type": "object", "properties": {"l": schema}}}
    body = {"document": document, "input": {"l": value}, "wait": 20}
    answer = served.post("/api/runs", body, timeout=120)
    assert answer.status_code == 422
    assert "only its first problem is listed" in answer.text


def test_others_are_answered_while_many_follow_a_run(served: Served) -> None:
    go = "go-on-many-streams"
    document = {"kind": "chain", "nodes": [{"id": "w", "type": "tool", "tool": "wait_for", "params": {"name": go}}]}
    id = served.post("/api/runs", {"document": document}).json()["runId"]
    host, port = "127.0.0.1", int(served.url.rpartition(":")[2])
    head = (
        f"GET /api/runs/{id}/events HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    )
    with contextlib.ExitStack() as streams:
        opened = [streams.enter_context(socket.create_connection((host, port), timeout=60)) for _ in range(200)]
        for stream in opened:
            stream.sendall(head)
        for stream in opened:
            assert stream.recv(12) == b"HTTP/1.1 200"
        assert served.get("/api/runs?limit=1").status_code == 200
        (served.folder / go).touch()
        for stream in opened:  # each stream ends with the run
            last = b""
            while b"event: end" not in last and (piece := stream.recv(1 << 16)):
                last = (last + piece)[-4_000:]
            assert b"event: end" in last
    assert json.loads(served.get(f"/api/runs/{id}").text)["status"] == "completed"
