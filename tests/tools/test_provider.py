"""Generic HTTP providers against a real server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ropewalk.app.app import App
from ropewalk.engine.stack_trace import trace_of_call
from ropewalk.errors import (
    ConfigError,
    ExecutionFailed,
    StreamNotSupported,
    ToolError,
    ToolTimeout,
)
from ropewalk.tools.backends.http import HttpFailure
from ropewalk.tools.runner import Runner
from ropewalk.tools.tool import StreamEvent, Tool, ToolBackend
from ropewalk.tools.toolbox import Toolbox

T = Tool("t", "", {"type": "object"})


def box_for(lab: Any, tool_id: str = "t", **config: Any) -> Toolbox:
    box = Toolbox(providers={"p": {"url": lab.url, **config}})
    box.register(T, backend=ToolBackend.provider("p", tool_id))
    return box


def called(lab: Any, args: Any = None, *, tool_id: str = "t", config: Any = None, **more: Any) -> Any:
    async def case() -> Any:
        async with box_for(lab, tool_id, **(config or {})) as box:
            return (await Runner(box).run("t", args, **more)).structured

    return asyncio.run(case())


def streamed(lab: Any, **more: Any) -> list[StreamEvent]:
    async def case() -> list[StreamEvent]:
        async with box_for(lab) as box:
            return [event async for event in Runner(box).run_stream("t", {"q": 1}, **more)]

    return asyncio.run(case())


def test_arguments_go_out_as_json_with_key_and_headers(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_TOKEN", "s3cret")
    lab.on("/t", {"answer": [1, 2.5, None, "é"]})
    headers = {"Authorization": "Bearer ${LAB_TOKEN}"}
    assert called(lab, {"q": "é"}, config={"headers": headers}, key="k-1") == {"answer": [1, 2.5, None, "é"]}
    (asked,) = lab.asked
    assert (asked.method, asked.path, asked.json) == ("POST", "/t", {"q": "é"})
    assert asked.headers["idempotency-key"] == hashlib.sha256(b"k-1").hexdigest()
    assert asked.headers["authorization"] == "Bearer s3cret"
    assert asked.headers["content-type"] == "application/json"


def test_without_a_key_there_is_no_such_header(lab: Any) -> None:
    lab.on("/t", None)
    assert called(lab) is None
    assert lab.asked[0].json == {}
    assert "idempotency-key" not in lab.asked[0].headers


@pytest.mark.parametrize("tool_id", ["a/b", "../etc", "x?y#z", "a b"])
def test_tool_id_stays_one_segment_of_the_path(lab: Any, tool_id: str) -> None:
    with pytest.raises(ExecutionFailed):
        called(lab, tool_id=tool_id)
    assert lab.asked[0].path.count("/") == 1
    assert lab.asked[0].query == []


@pytest.mark.parametrize(
    ("body", "kind", "value"),
    [(b"", "application/json", None), (b"plain", "text/plain", "plain"), (b"3", "application/problem+json", 3)],
)
def test_answers_that_are_empty_or_text(lab: Any, body: bytes, kind: str, value: Any) -> None:
    lab.on("/t", body, kind=kind)
    assert called(lab) == value


@pytest.mark.parametrize(
    ("status", "retryable"), [(400, False), (401, False), (404, False), (429, True), (500, True), (503, True)]
)
def test_error_status_is_told_with_an_excerpt_of_the_body(lab: Any, status: int, retryable: bool) -> None:
    lab.on("/t", b"because of " + b"x" * 2000, status=status, kind="text/plain")
    with pytest.raises(ExecutionFailed) as caught:
        called(lab)
    assert f"tool t: HTTP {status}" in caught.value.message
    assert "because of xxx" in str(caught.value)
    assert len(str(caught.value)) < 700
    assert caught.value.retryable is retryable
    cause = caught.value.__cause__
    assert isinstance(cause, HttpFailure)
    assert cause.status == status


def test_redirect_is_not_followed(lab: Any) -> None:
    lab.on("/t", status=302, Location=f"{lab.url}/elsewhere")
    with pytest.raises(ExecutionFailed, match="redirects are not followed"):
        called(lab)
    assert [asked.path for asked in lab.asked] == ["/t"]


def test_answer_that_never_comes_times_out(lab: Any) -> None:
    release = threading.Event()
    lab.chunks("/t", "application/json", b"[1,", release, b"2]")
    with pytest.raises(ToolTimeout):
        called(lab, timeout=0.1)
    release.set()


def test_server_that_is_not_there_is_a_failure_with_its_cause() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ExecutionFailed) as caught:
        called(SimpleNamespace(url=f"http://127.0.0.1:{port}"))
    assert caught.value.__cause__ is not None


def test_variable_that_is_not_set_is_named(lab: Any) -> None:
    with pytest.raises(ExecutionFailed, match="NOT_SET_ANYWHERE"):
        called(lab, config={"headers": {"X": "${NOT_SET_ANYWHERE}"}})
    assert lab.asked == []


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"url": "ftp://host"},
        {"url": "file:///etc/passwd"},
        {"url": "host:80"},
        {"url": 3},
        {"url": "http://host", "header": {}},
        {"url": "http://host", "headers": {"a": 1}},
        {"url": "http://host", "tools": [{"description": "nameless"}]},
        {"url": "http://host", "timeout": -1, "tools": [{"name": "t"}]},
        "text",
    ],
)
def test_configuration_that_is_wrong_is_refused_at_once(config: Any) -> None:
    with pytest.raises(ConfigError, match="provider 'p'"):
        Toolbox(providers={"p": config})


def test_listed_tools_are_registered_with_their_backend(lab: Any) -> None:
    lab.on("/forecast", {"sky": "blue"})
    listed = {"name": "forecast", "description": "Weather.", "inputSchema": {"type": "object", "required": ["city"]}}
    box = Toolbox(providers={"weather": {"url": lab.url, "tools": [listed], "timeout": 3}})
    found = box.get("weather:forecast")
    assert found is not None
    assert found.timeout == 3

    async def case() -> Any:
        async with box:
            return (await Runner(box).run("weather:forecast", {"city": "Ulm"})).structured

    assert asyncio.run(case()) == {"sky": "blue"}


def test_providers_of_a_project_are_declared_in_its_file(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.on("/forecast", {"sky": "blue"})
    lab.on("/pets", ["Rex"])
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": lab.url}],
        "paths": {"/pets": {"get": {"operationId": "list", "responses": {"200": {"description": "all"}}}}},
    }
    (tmp_path / "pets.json").write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "ropewalk.toml").write_text(
        f"""
[providers.weather]
url = "{lab.url}"
[[providers.weather.tools]]
name = "forecast"
description = "The weather, as ${{NOT_A_VARIABLE}} says."
inputSchema = {{type = "object", required = ["city"]}}
[providers.pets]
openapi = "pets.json"
[providers.lost]
openapi = "lost.json"
[providers.odd]
url = "{lab.url}"
tools = [{{description = "has no name"}}]
""",
        encoding="utf-8",
    )
    monkeypatch.chdir("/")

    async def case() -> Any:
        async with App.open(tmp_path, store="memory") as app:
            await app.connect()
            assert set(app.toolbox.failures) == {"lost", "odd"}
            assert f"{str(tmp_path)[1:]}/lost.json" in app.toolbox.failures["lost"]
            assert "tool 1 needs a name" in app.toolbox.failures["odd"]
            with pytest.raises(ToolError, match="city"):
                await app.call_tool("weather:forecast", {})
            return [await app.call_tool("weather:forecast", {"city": "Ulm"}), await app.call_tool("pets:list")]

    assert asyncio.run(case()) == [{"sky": "blue"}, ["Rex"]]


def test_an_openapi_document_beside_the_project_is_told_of_as_it_is_named_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad: pets.json").write_text('{"openapi": "3.0.0",\n "paths": {,}}', encoding="utf-8")
    named = '[providers.bad]\nopenapi = "bad: pets.json"\n[providers.lost]\nopenapi = "specs/lost.json"\n'
    (tmp_path / "ropewalk.toml").write_text(named, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    async def case() -> Any:
        async with App.open(tmp_path, store="memory") as app:
            return app.toolbox.failures

    told = asyncio.run(case())
    line = next(n for n, text in enumerate(named.splitlines(), 1) if "lost.json" in text)
    assert told["bad"].startswith("bad: pets.json:2:12: provider 'bad': openapi: expected a key in double quotes")
    assert told["lost"] == f"ropewalk.toml:{line}:1: provider 'lost': openapi: no file 'specs/lost.json'"


def test_provider_of_ones_own_is_called_with_the_ids() -> None:
    class Mine:
        async def call_tool(self, provider_id: str, tool_id: str, args: Any, *, key: str | None = None) -> Any:
            return [provider_id, tool_id, args, key]

    box = Toolbox(providers={"p": Mine()})
    box.register(T, backend=ToolBackend.provider("p", "there"))
    result = asyncio.run(Runner(box).run("t", {"a": 1}, key="k"))
    assert result.structured == ["p", "there", {"a": 1}, "k"]


def test_unknown_provider_is_named_with_a_suggestion() -> None:
    box = Toolbox(providers={"weather": {"url": "http://127.0.0.1:1"}})
    box.register(T, backend=ToolBackend.provider("wether", "x"))
    with pytest.raises(ToolError, match="did you mean weather"):
        asyncio.run(Runner(box).run("t"))


def test_one_toolbox_serves_one_event_loop_after_another(lab: Any) -> None:
    lab.on("/t", 1)
    box = box_for(lab)

    async def case() -> Any:
        try:
            return (await Runner(box).run("t")).structured
        finally:
            await box.close()

    assert [asyncio.run(case()) for _ in range(2)] == [1, 1]


# --- streams ---------------------------------------------------------------------------------


def test_server_sent_events_are_a_stream(lab: Any) -> None:
    lab.chunks(
        "/t",
        "text/event-stream; charset=utf-8",
        b': hello\n\nevent: progress\ndata: {"progress": 1}\n\nda',
        b'ta: first\ndata: second\r\n\r\ndata: {"kind": "chunk", "toolId": "mine", "data": [1]}\n\n',
        b'event: message\ndata: {"n": 2}\n\ndata: [DONE]\n\ndata: never\n\n',
    )
    assert [(e.kind, e.tool_id, e.data) for e in streamed(lab)] == [
        ("progress", "t", {"progress": 1}),
        ("chunk", "t", "first\nsecond"),
        ("chunk", "mine", [1]),
        ("chunk", "t", {"n": 2}),
        ("done", "t", None),
    ]


def test_json_lines_are_a_stream(lab: Any) -> None:
    for kind in ("application/x-ndjson", "application/jsonl", "application/json"):
        lab.chunks("/t", kind, b'{"a":', b' 1}\n\n[2]\n{"kind": "done", "data": 3}', b"\n")
        assert [(e.kind, e.data) for e in streamed(lab)] == [("chunk", {"a": 1}), ("chunk", [2]), ("done", 3)]


def test_events_arrive_while_the_answer_is_still_open(lab: Any) -> None:
    release = threading.Event()
    lab.chunks("/t", "application/x-ndjson", b"1\n", release, b"2\n")

    async def case() -> list[Any]:
        async with box_for(lab) as box:
            seen = []
            async for event in Runner(box).run_stream("t"):
                seen.append(event.data)
                release.set()
            return seen

    assert asyncio.run(case()) == [1, 2, None]


def test_stream_that_breaks_ends_in_an_error(lab: Any) -> None:
    lab.chunks("/t", "application/x-ndjson", b"1\nnot json\n")
    events = streamed(lab)
    assert [event.kind for event in events] == ["chunk", "error"]
    assert "not JSON" in str(events[-1].error)


def test_silent_stream_ends_in_a_timeout(lab: Any) -> None:
    release = threading.Event()
    lab.chunks("/t", "application/x-ndjson", b"1\n", release)
    events = streamed(lab, timeout=0.1)
    release.set()
    assert [event.kind for event in events] == ["chunk", "error"]
    assert isinstance(events[-1].error, ToolTimeout)


def test_answer_that_is_no_stream_is_not_one(lab: Any) -> None:
    lab.on("/t", b"plain", kind="text/plain")
    with pytest.raises(StreamNotSupported):
        streamed(lab)


def test_refusal_comes_before_the_first_event(lab: Any) -> None:
    with pytest.raises(ExecutionFailed, match=rf"t \[provider\]: HTTP 404 .* from \w+ {lab.url}/t"):
        streamed(lab)


def test_a_provider_that_cannot_be_reached_is_named_with_its_address(lab: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ExecutionFailed) as caught:
        called(SimpleNamespace(url=f"{address}/v1?key=rw-secret-key"))
    assert re.fullmatch(f"provider '.*' at {address}: ConnectError: .+ \\(Connection refused\\)", caught.value.reason)
    assert caught.value.retryable
    assert trace_of_call(caught.value).at == f"POST {address}/v1/t"


@pytest.mark.parametrize(
    ("status", "message"), [(500, "HTTP 500 Internal Server Error"), (302, "HTTP 302: redirects are not followed")]
)
def test_every_refusal_has_its_address_next_to_its_message(lab: Any, status: int, message: str) -> None:
    lab.on("/orders%2F17", b"", status=status)
    with pytest.raises(ExecutionFailed, match=message) as caught:
        called(SimpleNamespace(url=lab.url.replace("://", "://me:secret@")), tool_id="orders/17")
    assert trace_of_call(caught.value).at == f"POST {lab.url}/orders%2F17"
    assert "17" not in caught.value.reason


def test_a_timeout_names_the_address_of_the_provider() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ToolTimeout) as caught:
            called(SimpleNamespace(url=address), timeout=0.2)
    assert caught.value.reason == f"no answer within 0.2 s; provider 'p' at {address} was still to answer"


def test_a_connection_that_breaks_off_names_the_provider(lab: Any) -> None:
    def hang_up(handler: Any, asked: Any) -> None:
        handler.close_connection = True

    lab.answers["/t"] = hang_up
    with pytest.raises(ExecutionFailed, match=f"at {lab.url}: RemoteProtocolError"):
        called(lab)


@pytest.mark.parametrize("value", ["to\nken", "token ", "gr\u00fcn"])
def test_a_header_that_cannot_be_sent_is_told_without_its_value(
    lab: Any, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", value)
    with pytest.raises(ExecutionFailed, match="the value of the header 'X-Key' must be one line") as caught:
        called(lab, config={"headers": {"X-Key": "${TOKEN}"}})
    assert not caught.value.retryable
    assert value not in str(caught.value)
    assert lab.asked == []
