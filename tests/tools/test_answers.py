"""Answers of third parties are data: every source of tools, with every kind of answer, in a run and in its record."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from properties.virtual_time import run_virtually
from ropewalk import App, Runner, Tool, Toolbox
from ropewalk.content import content_bytes
from ropewalk.errors import StoreError
from ropewalk.journal.memory import MemoryStore
from ropewalk.testing import DyingStore
from ropewalk.tools.backends.http_answers import retry_after
from ropewalk.values import is_json

PAST = 2**64 + 1
BIG = "integer past 64 bits is kept as text"
MISFIT = "does not fit the tool's own output schema"


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Hit:
    on: datetime.date
    ids: set[int]


class Text(str):
    pass


def deep(levels: int, inner: Any = 0) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


def last(value: Any) -> Any:
    while isinstance(value, list):
        value = value[0]
    return value


OBJECT = {"type": "object", "properties": {"id": {"type": "integer"}}}
# The JSON text of an answer, the value of the node, and the warning of the run; None for no warning.
TEXTS: dict[str, tuple[str, Any, str | None]] = {
    "plain": ('{"id": 9007199254740993}', {"id": 9007199254740993}, None),
    "big": (f'{{"big": {PAST}}}', {"big": str(PAST)}, f"result.big: {BIG}"),
    "most negative": ('{"big": -9223372036854775809}', {"big": "-9223372036854775809"}, BIG),
    "unsigned": ('{"big": 9223372036854775808}', {"big": "9223372036854775808"}, BIG),
    "not a number": ('{"x": NaN}', {"x": None}, "nan is not JSON and became null"),
    "NUL": ('{"x": "a\\u0000b"}', {"x": "a\ufffdb"}, "became U+FFFD"),
    "misfit": ('{"id": "seven"}', {"id": "seven"}, f'{MISFIT}: result.id: "seven" is not of type "integer"'),
}
# A Python value, that of the node, and the warning.
PYTHON: dict[str, tuple[Any, Any, str | None]] = {
    "big": ({"big": PAST}, {"big": str(PAST)}, f"result.big: {BIG}"),
    "infinite": ({"x": float("inf")}, {"x": None}, "result.x: inf is not JSON and became null"),
    "surrogate": ({"x": "\ud800"}, {"x": "\ufffd"}, "became U+FFFD"),
    "misfit": ({"id": "seven"}, {"id": "seven"}, MISFIT),
    "dates": (
        {"d": datetime.date(2026, 1, 2), "t": datetime.timedelta(seconds=1.5)},
        {"d": "2026-01-02", "t": 1.5},
        None,
    ),
    "texts": (
        {"u": uuid.UUID(int=7), "d": Decimal("1.10"), "p": Path("a/b"), "s": Text("x")},
        {"u": str(uuid.UUID(int=7)), "d": "1.10", "p": "a/b", "s": "x"},
        None,
    ),
    "lists": ({"t": (1, (2,)), "s": {3, 1, 2}, "e": Colour.RED}, {"t": [1, [2]], "s": [1, 2, 3], "e": "red"}, None),
    "keys": ({1: "a", None: "b", Colour.RED: "c"}, {"1": "a", "null": "b", "red": "c"}, None),
    "objects": ({"hit": Hit(datetime.date(2026, 1, 2), {1})}, {"hit": {"on": "2026-01-02", "ids": [1]}}, None),
}
PNG = b"\x89PNG\r\n\x1a\n\0\xff"
# The body and the type of an answer over HTTP, the value of the node (bytes for content), and the warning.
BODIES: dict[str, tuple[bytes, str | None, Any, str | None]] = {
    "pdf": (b"%PDF-1.7\xff\0", "application/pdf", b"%PDF-1.7\xff\0", None),
    "image": (PNG, "image/png", PNG, None),
    "svg": (b"<svg/>", "image/svg+xml", b"<svg/>", None),
    "zip": (b"PK\3\4\xff", "application/zip", b"PK\3\4\xff", None),
    "bytes": (b"\0\xff", "application/octet-stream", b"\0\xff", None),
    "unnamed bytes": (b"\0\xff", None, b"\0\xff", None),
    "unnamed JSON": (b'{"id": 1}', None, {"id": 1}, None),
    "other JSON": (b'{"id": 1}', "application/vnd.api+json; charset=utf-8", {"id": 1}, None),
    "JSON with a mark": (b'\xef\xbb\xbf{"id": 1}', "application/json", {"id": 1}, None),
    "JSON in UTF-16": ('{"é": 1}'.encode("utf-16"), "application/json", {"é": 1}, None),
    "JSON in Latin-1": ('{"é": 1}'.encode("latin-1"), "application/json; charset=iso-8859-1", {"é": 1}, None),
    "XML": ('<?xml version="1.0" encoding="iso-8859-1"?><a>é</a>'.encode("latin-1"), "text/xml", "é", MISFIT),
    "HTML": ('<html><meta charset="windows-1252">é'.encode("cp1252"), "text/html", "é", MISFIT),
    "text": ("é".encode("utf-16"), "text/plain", "é", MISFIT),
    "text in a wrong encoding": ("é".encode("latin-1"), "text/plain; charset=utf-8", b"\xe9", None),
    "text in an unknown encoding": (b"\xe9", "text/csv; charset=klingon", b"\xe9", None),
    "HTML called JSON": (b"<html>down</html>", "application/json", "down", "application/json that is not JSON"),
    "JSON too deep": (b"[" * 5000 + b"]" * 5000, "application/json", "[[[[", "that is nested deeper than 200"),
    "deep JSON": (json.dumps(deep(205)).encode(), "application/json", "[[[[[0]]]]]", "kept as JSON text"),
    "infinite": (b'{"x": 1e400}', "application/json", {"x": "1e400"}, "number over 1.8e308 is kept as text"),
    "lone surrogate": (b'{"x": "\\ud800"}', "application/json", {"x": "\ufffd"}, "became U+FFFD"),
    "nothing": (b"", "application/json", None, MISFIT),
    "JSON without a slash": (b'{"id": 1}', "json", {"id": 1}, None),
    "text without a slash": (b"down", "text", "down", MISFIT),
    "JSON in an encoding with NUL": (b'{"id": 1}', "application/json; charset*=us-ascii''%00", {"id": 1}, None),
    "text in an encoding with NUL": (b"\xe9", "text/plain; charset*=us-ascii''%00", b"\xe9", None),
}


Made = dict[str, tuple[str, Any, str | None]]
"""For each kind of answer the tool that gives it, the value and the warning that it becomes."""


def python_tools(app: App) -> Made:
    made: Made = {}
    for number, (kind, (answer, value, warning)) in enumerate(PYTHON.items()):

        async def direct(answer: Any = answer) -> Any:
            return answer

        def threaded(answer: Any = answer) -> Any:
            return answer

        for function in (direct, threaded):
            name = f"{function.__name__}_{number}"
            app.toolbox.register(Tool(name, "", {"type": "object"}, OBJECT, handler=lambda f=function: f()))
            made[f"{kind}, {name}"] = name, value, warning
    return made


def over_http(app: App, lab: Any) -> Made:
    """A provider and an OpenAPI document, which has an operation for each kind."""
    bodies: dict[str, tuple[bytes, str | None, Any, str | None]] = {
        **BODIES, **{kind: (text.encode(), "application/json", *wanted) for kind, (text, *wanted) in TEXTS.items()}
    }  # fmt: skip
    paths: dict[str, Any] = {}
    made: Made = {}
    ok = {"200": {"description": "", "content": {"application/json": {"schema": OBJECT}}}}
    tools = [{"name": f"t{i}", "inputSchema": {"type": "object"}, "outputSchema": OBJECT} for i in range(len(bodies))]
    for number, (kind, (body, content_type, value, warning)) in enumerate(bodies.items()):
        lab.on(f"/t{number}", body, kind=content_type)
        paths[f"/t{number}"] = {"get": {"operationId": f"t{number}", "responses": ok}}
        made[f"{kind} of a provider"] = f"p:t{number}", value, warning
        made[f"{kind} of a document"] = f"o:t{number}", value, warning
    document = {"openapi": "3.1.0", "servers": [{"url": lab.url}], "paths": paths}
    lab.on("/openapi.json", document)
    app.toolbox.add_provider("p", {"url": lab.url, "tools": tools})
    app.toolbox.add_provider("o", {"openapi": f"{lab.url}/openapi.json"})
    return made


def of_mcp(app: App, lab: Any) -> Made:
    """A server that is written by hand, so that its JSON is what the table says."""
    names = {f"{form}{number}": (form, kind) for form in ("text", "data") for number, kind in enumerate(TEXTS)}
    tools = [{"name": name, "inputSchema": {"type": "object"}, "outputSchema": OBJECT} for name in names]

    def result(message: Any) -> str:
        if message["method"] == "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
            return json.dumps({"protocolVersion": message["params"]["protocolVersion"], **about})
        if message["method"] == "tools/list":
            return json.dumps({"tools": tools})
        form, kind = names[message["params"]["name"]]
        text = TEXTS[kind][0]
        if form == "data":
            return f'{{"content": [], "structuredContent": {text}}}'
        return json.dumps({"content": [{"type": "text", "text": text}]})

    def write(handler: Any, asked: Any) -> None:
        message = json.loads(asked.body or b"{}")
        body = b""
        if "id" in message and message["method"] in ("initialize", "tools/list", "tools/call"):
            body = f'{{"jsonrpc": "2.0", "id": {message["id"]}, "result": {result(message)}}}'.encode()
        elif "id" in message:
            error = {"code": -32601, "message": "no such method"}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
        handler.send_response(200 if body else 202 if asked.method == "POST" else 405)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    lab.answers["/mcp"] = write
    app.toolbox.add_mcp("m", {"url": f"{lab.url}/mcp"})
    return {f"{kind} as {form}": (f"m:{name}", *TEXTS[kind][1:]) for name, (form, kind) in names.items()}


def check_value(kind: str, value: Any, wanted: Any) -> None:
    if isinstance(wanted, bytes):
        assert content_bytes(value) == wanted, kind
    elif isinstance(wanted, str) and kind.split(" of ")[0] in BODIES:
        assert wanted in last(value), (kind, value)
    else:
        assert value == wanted, kind


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
@pytest.mark.parametrize("source", [python_tools, over_http, of_mcp])
def test_every_answer_is_a_value_and_what_is_unusual_a_warning(source: Any, durable: bool, lab: Any) -> None:
    asyncio.run(in_a_run(source, durable, lab))


async def in_a_run(source: Any, durable: bool, lab: Any) -> None:
    async with App(MemoryStore(durable=durable)) as app:
        made: Made = source(app) if source is python_tools else source(app, lab)
        nodes = [{"id": f"n{i}", "type": "tool", "tool": tool} for i, (tool, *_) in enumerate(made.values())]
        done = await app.run({"kind": "chain", "id": "c", "name": "c", "nodes": nodes}, run_id="r")
        assert done.status == "completed", done.errors
        told = done.to_dict().get("warnings", [])
        recorded = {entry.path: entry.data for entry in app.store.history("r") if entry.kind == "warning"}
        for number, (kind, (tool, wanted, warning)) in enumerate(made.items()):
            check_value(kind, done.results[f"n{number}"], wanted)
            here = [text for text in told if text.startswith(f"n{number} (tool {tool}): ")]
            assert any(warning in text for text in here) if warning else not here, (kind, here)
            assert (f"n{number}" in recorded) == (warning is not None)
        assert app.store.get_run("r").result["warnings"] == told  # type: ignore[union-attr,index,call-overload]


def chain(*tools: str, **more: Any) -> dict[str, Any]:
    nodes = [{"id": tool, "type": "tool", "tool": tool, **more} for tool in tools]
    return {"kind": "chain", "id": "c", "name": "c", "nodes": nodes}


def misfit(name: str = "search") -> Tool:
    async def answer() -> Any:
        return {"id": "seven"}

    return Tool(name, "", {"type": "object"}, OBJECT, handler=answer)


def test_a_page_in_place_of_an_answer_is_a_warning_with_its_type_and_address(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEY", "hush-4711")
    declared = {"unknown": {}, "json": {"application/json": {}}, "page": {"text/html": {}}, "any": {"*/*": {}}}
    paths: dict[str, Any] = {}
    for name, kinds in declared.items():
        lab.on(f"/hush-4711/{name}", b"<html>log in</html>", kind="text/html; charset=utf-8")
        answer = {"200": {"description": "", **({"content": kinds} if kinds else {})}}
        query = [{"name": "q", "in": "query", "schema": {"type": "string"}}]
        paths[f"/{name}"] = {"get": {"operationId": name, "responses": answer, "parameters": query}}
    lab.on("/hush-4711/text", b"fine", kind="text/plain")
    url = f"{lab.url}/hush-4711"
    lab.on("/openapi.json", {"openapi": "3.1.0", "paths": paths})

    async def test() -> None:
        async with App("memory") as app:
            headers = {"x-key": "${LAB_KEY}"}
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("unknown", "text")]
            app.toolbox.add_provider("p", {"url": url, "tools": tools, "headers": headers})
            app.toolbox.add_provider("o", {"openapi": f"{lab.url}/openapi.json", "url": url, "headers": headers})
            names = [*(f"o:{name}" for name in declared), "p:unknown", "p:text"]
            nodes = [{"id": name[2:] + name[0], "type": "tool", "tool": name} for name in names]
            nodes[0]["args"] = {"q": "private"}
            done = await app.run({"kind": "chain", "id": "c", "name": "c", "nodes": nodes})
        assert (done.status, done.results.get("unknowno")) == ("completed", "<html>log in</html>"), done
        page = "result: an answer of the type text/html from {} is kept as text"
        assert done["warnings"] == [
            f"{node} (tool {tool}): " + page.format(f"{lab.url}/***/{tool[2:]}")
            for node, tool in (("unknowno", "o:unknown"), ("jsono", "o:json"), ("unknownp", "p:unknown"))
        ]

    asyncio.run(test())


def test_warnings_survive_a_death_a_retry_and_a_fork() -> None:
    async def test() -> None:
        for at in (1, 2, 3, 4):  # the warning, the result, the next result, the ending
            store = DyingStore(MemoryStore(durable=True), at=at)
            with pytest.raises(StoreError):
                await App(store, tools=[misfit(), misfit("next")]).run(chain("search", "next"), run_id="r")
            async with App(await store.survivor(), tools=[misfit(), misfit("next")]) as app:
                done = await app.run(chain("search", "next"), run_id="r")
                assert [text[: text.index(":")] for text in done["warnings"]] == [
                    "search (tool search)", "next (tool next)",
                ]  # fmt: skip
        async with App(MemoryStore(durable=True), tools=[misfit(), misfit("next")]) as app:
            first = await app.run(chain("search", "next"), run_id="r")
            assert (await app.runs.retry("r", ["next"]))["warnings"] == first["warnings"]
            assert len((await app.runs.fork("r", at=["next"]))["warnings"]) == 2
            app.toolbox.remove("next")
            app.toolbox.register(Tool("next", "", {"type": "object"}, handler=misfit().handler))
            assert (await app.runs.retry("r", ["next"]))["warnings"] == first["warnings"][:1]

    asyncio.run(test())


def test_warnings_of_loops_attempts_and_flows_have_their_paths() -> None:
    tries: list[int] = []

    async def unsteady() -> Any:
        tries.append(1)
        if len(tries) < 2:
            raise OSError("down")
        return {"id": "seven"}

    async def test() -> None:
        async with App(MemoryStore(durable=True), tools=[misfit()]) as app:
            app.toolbox.register(Tool("unsteady", "", {"type": "object"}, OBJECT, handler=unsteady))
            inner = {**chain("search"), "result": "fine"}
            app.toolbox.register(app.as_tool(inner, name="inner"))
            loop = {"id": "each", "type": "loop", "items": [1, 2], "nodes": chain("search")["nodes"]}
            retried = chain("unsteady", errorStrategy="retry", maxRetries=2)["nodes"]
            document = {**chain("inner"), "nodes": [*chain("inner")["nodes"], loop, *retried]}
            done = await app.run(document, run_id="r")
            assert [text.partition(" (")[0] for text in done["warnings"]] == [
                "inner/search", "each[0]/search", "each[1]/search", "unsteady@2",
            ]  # fmt: skip
            assert app.store.get_run("r/inner").result["warnings"]  # type: ignore[union-attr,index,call-overload]

    asyncio.run(test())


def test_a_result_lists_a_bounded_number_of_warnings() -> None:
    async def test() -> None:
        async with App("memory", tools=[misfit()]) as app:
            loop = {"id": "each", "type": "loop", "items": list(range(150)), "nodes": chain("search")["nodes"]}
            done = await app.run({**chain(), "nodes": [loop]})
            assert len(done["warnings"]) == 101
            assert done["warnings"][-1] == "50 more warnings"

    asyncio.run(test())


def test_a_result_that_its_flow_does_not_announce_names_the_tool_that_broke_its_schema() -> None:
    announced = OBJECT  # the value is that of the last node
    composition = {**chain(), "kind": "composition", "outputSchema": announced}
    composition["nodes"] = [{"id": "search", "type": "tool", "tool": "search"}]
    blame = "the answer of {} (tool search) does not fit the tool's own output schema"

    async def test() -> None:
        async with App("memory", tools=[misfit()]) as app:
            done = await app.run(composition)
            assert (done.status, blame.format("search") in str(done.error)) == ("failed", True)
            # A flow as a tool announces the types of the tools that give its value.
            app.toolbox.register(app.as_tool(chain("search"), name="inner"))
            outer = await app.run(chain("inner"))
            assert (outer.status, blame.format("search") in outer.errors[0]["message"]) == ("failed", True)

    asyncio.run(test())


@pytest.mark.parametrize("strict", [True, ["other", "sea*"]])
def test_strict_tools_fail_and_others_do_not(strict: Any) -> None:
    async def test() -> None:
        async with App("memory", toolbox=Toolbox([misfit()], strict_output=strict)) as app:
            done = await app.run(chain("search"))
            assert (done.status, done.errors[0]["kind"]) == ("failed", "OutputValidationFailed")
            assert done.errors[0]["ran"] is True
        result = await Runner(Toolbox([misfit()], strict_output=["other"])).run("search")
        assert (result.structured, len(result.warnings)) == ({"id": "seven"}, 1)

    asyncio.run(test())


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 0.5 ", 0.5),
        ("Thu, 01 Jan 2026 00:00:09 GMT", 9.0),
        ("Wed, 31 Dec 2025 23:59:00 GMT", 0.0),
        ("Thursday, 01-Jan-26 00:00:09 GMT", 9.0),
        ("Thu, 01 Jan 2026 00:00:09 +99999999999999", None),
        ("soon", None),
        ("-1", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)) == seconds


class Busy(Exception):
    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after


@pytest.mark.parametrize(("wanted", "pause"), [(20.0, 20.0), (0.5, 2.0), (1e9, 3600.0)])
@pytest.mark.parametrize("dies", [False, True])
def test_a_retry_waits_as_long_as_the_provider_wants(wanted: float, pause: float, dies: bool) -> None:
    """Also a run whose process dies in the pause."""
    at: list[float] = []

    async def test(clock: Any) -> None:
        async def busy() -> str:
            at.append(clock.now)
            if len(at) < 2:
                raise Busy(wanted)
            return "done"

        store: Any = DyingStore(MemoryStore(durable=True), at=3) if dies else MemoryStore(durable=True)
        document = chain("busy", errorStrategy="retry", maxRetries=1, retryDelay=2000)
        document["timeout"] = 0
        try:
            await App(store, tools=[busy]).run(document, run_id="r")
        except StoreError:
            at.pop()
            async with App(await store.survivor(), tools=[busy]) as app:
                await app.run(document, run_id="r")
        assert at[1] - at[0] == pause

    run_virtually(test)


@pytest.mark.parametrize(("status", "wanted"), [(429, True), (503, True), (500, False)])
def test_a_provider_says_when_to_retry(lab: Any, status: int, wanted: bool) -> None:
    lab.on("/t", b"", status=status, Retry_After="70")
    pauses: list[float] = []

    async def test() -> None:
        async with App("memory") as app:

            def watch(event: Any) -> None:
                if event.kind == "attempt.failed":
                    pauses.append(event.data["due"] - event.at)
                    app.runs.stop("r")

            app.toolbox.add_provider("p", {"url": lab.url, "tools": [{"name": "t", "inputSchema": {"type": "object"}}]})
            await app.run(chain("p:t", errorStrategy="retry", maxRetries=1), run_id="r", on_event=watch)

    asyncio.run(test())
    assert [pause > 60 for pause in pauses] == [wanted]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(), max_size=4)
    | st.binary(max_size=4)
    | st.dates()
    | st.datetimes()
    | st.timedeltas()
    | st.uuids()
    | st.decimals()
    | st.just(Colour.RED)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.frozensets(SCALARS, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.none() | st.dates(), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(value=st.lists(VALUES, min_size=6, max_size=12))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_value_is_the_same_in_the_journal_and_in_a_resumed_run(tmp_path: Path, value: Any) -> None:
    """Compared as JSON texts, which tell -0.0 from 0 and 1 from 1.0."""
    seen: list[str] = []

    async def give() -> Any:
        return value

    async def take(value: Any) -> int:
        seen.append(json.dumps(value))
        if len(seen) < 2:
            raise OSError("down")
        return 1

    async def test() -> None:
        nodes = [
            {"id": "give", "type": "tool", "tool": "give"},
            {"id": "take", "type": "tool", "tool": "take", "params": {"value": "$output.give"}},
        ]
        async with App(f"sqlite:///{tmp_path}/runs.db", tools=[give, take]) as app:  # one store for all examples
            first = await app.run({**chain(), "nodes": nodes})
            done = await app.runs.retry(first.run_id)
            history = app.store.history(first.run_id)
        [recorded] = [entry.data for entry in history if (entry.path, entry.kind) == ("give", "call")]
        assert is_json(done.results["give"])
        assert seen == [json.dumps(recorded)] * 2

    asyncio.run(test())
