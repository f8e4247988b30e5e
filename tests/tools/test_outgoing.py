"""What goes over the wire: data changes only the value it is encoded into, and is never expanded."""

from __future__ import annotations

import asyncio
import json
import posixpath
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ropewalk import App, Toolbox, tool
from ropewalk.errors import ConfigError, ExecutionFailed, ValidationFailed
from ropewalk.tools.backends.openapi import read_openapi
from ropewalk.tools.runner import Runner
from tiers import examples
from tools.raw_server import RawServer, raw_server

SECRET = "AKIA-very-secret-9999"
TOKEN = "tok-123456789"
HEX = re.compile(rb"(?i)\r\nidempotency-key: [0-9a-f]{64}\r\n")
MARKER = "MARKER"


def operation(id: str, *parameters: tuple[str, str], **more: Any) -> dict[str, Any]:
    described = [{"name": name, "in": where, "schema": {"type": "string"}} for name, where in parameters]
    return {"operationId": id, "parameters": described, "responses": {"200": {"description": "ok"}}, **more}


def document(paths: dict[str, Any]) -> dict[str, Any]:
    return {"openapi": "3.0.3", "info": {"title": "x", "version": "1"}, "paths": paths}


FORM = {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}}
BODY = {"content": {"application/json": {"schema": {}}}}
LIST = {"name": "many", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}
DEEP = {"name": "deep", "in": "query", "style": "deepObject", "schema": {"type": "object"}}
READ = operation("read", ("step", "path"), ("part", "path"), ("q", "query"), ("X-Trace", "header"), ("c", "cookie"))
READ["parameters"] += [LIST, DEEP]
PATHS = {
    "/items/{step}/pre-{part}.json": {"get": READ},
    "/json": {"post": operation("json", requestBody=BODY)},
    "/form": {"post": operation("form", requestBody=FORM)},
}
HEADERS = {"Authorization": "Bearer ${API_TOKEN}", "X-Fixed": "fixed"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RawServer]:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("API_TOKEN", TOKEN)
    with raw_server() as found:
        yield found


def box_for(server: RawServer, paths: dict[str, Any], **more: Any) -> Toolbox:
    given = {"url": f"http://127.0.0.1:{server.port}/base", "openapi": document(paths), "headers": HEADERS, **more}
    return Toolbox(providers={"p": given})


def sent(server: RawServer, box: Toolbox, tool_id: str, args: Any, key: str | None = None) -> bytes | None:
    """The bytes of one call, None where nothing was sent; the length of the body is not compared."""

    async def case() -> None:
        async with box:
            await Runner(box).run(tool_id, args, key=key)

    try:
        asyncio.run(case())
    except (ExecutionFailed, ValidationFailed):
        assert server.received == []
        return None
    return re.sub(rb"(?i)content-length: \d+", b"content-length: N", server.taken())


def read(value: str, place: str) -> dict[str, Any]:
    """Arguments of `read` with a value at one place; the others are always the same."""
    plain: dict[str, Any] = {
        "step": "s",
        "part": "p",
        "q": "q",
        "X-Trace": "t",
        "c": "c",
        "many": ["m"],
        "deep": {"d": "d"},
    }
    wrapped = {"many": ["m", value], "deep": {"d": value}, "deep key": {value: "d"}}
    return {**plain, place.partition(" ")[0]: wrapped.get(place, value)}


PCHAR = rb"[A-Za-z0-9._~%-]*"
QUERY = rb"[A-Za-z0-9._~%+*!'()-]*"
PLACES: dict[str, tuple[str, Any, bytes, Any]] = {
    "step": ("read", read, PCHAR, unquote),
    "part": ("read", read, PCHAR, unquote),
    "q": ("read", read, QUERY, lambda text: unquote(text.replace("+", " "))),
    "many": ("read", read, QUERY, lambda text: unquote(text.replace("+", " "))),
    "deep": ("read", read, QUERY, lambda text: unquote(text.replace("+", " "))),
    "deep key": ("read", read, QUERY, lambda text: unquote(text.replace("+", " "))),
    "X-Trace": ("read", read, rb"[\t\x20-\x7e]*", str),
    "c": ("read", read, rb"[A-Za-z0-9._~%/-]*", unquote),
    "json": ("json", lambda value, _: {"body": {"a": [value]}}, rb'(?:[^"\\]|\\.)*', lambda t: json.loads(f'"{t}"')),
    "form": ("form", lambda value, _: {"body": {"a": value}}, QUERY, lambda text: unquote(text.replace("+", " "))),
}
HOSTILE = (
    "${AWS_SECRET_ACCESS_KEY}", "${NOT_THERE}", "${NOT_THERE:-x}", "\r\nX-Evil: 1", "../../admin", "..", "%2e%2e",
    "?a=b#c", "a&b=c", "a;b=c", "{part}", "{step}", "\\..\\", "//evil.com",
    ":18082/x", "@evil.com", "é", " ", "\u2028", "\0", '"',
    "=",
)  # fmt: skip
texts = st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=5)), min_size=1, max_size=4).map("".join)


@pytest.mark.parametrize("place", PLACES)
def test_a_value_changes_only_its_own_bytes(server: RawServer, place: str) -> None:
    name, arguments, allowed, decoded = PLACES[place]
    box = box_for(server, PATHS)
    template = sent(server, box, f"p:{name}", arguments(MARKER, place))
    assert template is not None
    before, found, after = template.partition(MARKER.encode())
    assert found

    @examples(25)
    @given(texts)
    @example(HOSTILE[0])
    def check(value: str) -> None:
        wire = sent(server, box, f"p:{name}", arguments(value, place))
        if wire is None:
            return
        assert wire.startswith(before)
        assert wire.endswith(after)
        middle = wire[len(before) : len(wire) - len(after)]
        assert re.fullmatch(allowed, middle, re.DOTALL)
        assert decoded(middle.decode()) == value
        assert SECRET.encode() not in wire

    check()


def test_a_key_changes_only_its_hash(server: RawServer) -> None:
    box = box_for(server, PATHS)
    template = sent(server, box, "p:json", {"body": 1}, key=MARKER)
    assert template is not None

    @examples(25)
    @given(texts)
    @example("${AWS_SECRET_ACCESS_KEY}")
    @example("r-${NOT_THERE}")
    def check(key: str) -> None:
        wire = sent(server, box, "p:json", {"body": 1}, key=key)
        assert wire is not None
        assert HEX.sub(b"", wire) == HEX.sub(b"", template) != wire
        assert (HEX.search(wire)[0] == HEX.search(template)[0]) is (key == MARKER)  # type: ignore[index]
        assert SECRET.encode() not in wire

    check()


@pytest.mark.parametrize("run_id", ["${AWS_SECRET_ACCESS_KEY}", "r-${NOT_THERE}", "Lauf-ü"])
def test_a_run_id_is_hashed_and_what_a_tool_returns_is_text(server: RawServer, run_id: str) -> None:
    @tool
    def page() -> dict[str, str]:
        """A page of the web, which an attacker wrote."""
        return {"trace": "${AWS_SECRET_ACCESS_KEY}"}

    box = box_for(server, {"/items": {"get": operation("items", ("X-Trace", "header"))}})
    box.register(page)
    chain = {
        "kind": "chain",
        "nodes": [
            {"id": "a", "type": "tool", "tool": "page"},
            {"id": "b", "type": "tool", "tool": "p:items", "params": {"X-Trace": "$prev.trace"}},
        ],
    }

    async def case() -> Any:
        async with App("memory", toolbox=box) as app:
            return await app.run(chain, {}, run_id=run_id)

    assert asyncio.run(case()).status == "completed"
    wire = server.taken()
    assert HEX.search(wire)
    assert b"X-Trace: ${AWS_SECRET_ACCESS_KEY}\r\n" in wire
    assert SECRET.encode() not in wire
    assert f"Bearer {TOKEN}".encode() in wire


def test_a_setting_is_read_once(server: RawServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "${AWS_SECRET_ACCESS_KEY}")
    wire = sent(server, box_for(server, PATHS), "p:json", {"body": 1})
    assert wire is not None
    assert b"Bearer ${AWS_SECRET_ACCESS_KEY}\r\n" in wire


# --- paths of a document ---------------------------------------------------------------------

REFUSED_PATHS = (
    ":18082/steal", ".evil.com/x", "@evil.com/x", "/../../admin", "/..", "/.", "/%2e%2e/admin", "/%2E./admin",
    "/a/.%2e/b", "/%252e%252e/admin", "/..;/admin", "/..%2fadmin", "/..\\admin", "\\\\evil.com", "/a\\..\\b",
    "//evil.com/x",
    "/a//b", "/x?a={id}", "/x?a=1#y", "/x?a=%zz",
    "/x#y", "/a\r\nX-Evil: 1", "/a b", "/%zz", "/{id", "/a%00", "/a%5c..%5cb", "evil.com", "",
    "http://evil.com/", "/{other}",
)  # fmt: skip
pieces = (
    "/",
    "/a",
    "..",
    ".",
    "%2e",
    "%252e",
    "%2f",
    "\\",
    "//",
    "@evil.com",
    ":18082",
    "?x=1",
    "#y",
    ";",
    "é",
    "%",
    "~",
    "'",
)


@pytest.mark.parametrize("path", REFUSED_PATHS)
def test_a_path_that_leaves_the_base_is_no_tool(path: str) -> None:
    given = document({path: {"get": operation("steal", ("id", "path"))}, "/good": {"get": operation("good")}})
    api = read_openapi(given, name="p", url="http://127.0.0.1:18081/base")
    assert [one.name for one in api.tools] == ["good"]
    assert api.skipped["steal"].startswith(f"GET {path}: ")


def test_no_path_of_a_document_leaves_the_base(server: RawServer) -> None:
    @examples(150)
    @given(st.lists(st.one_of(st.sampled_from(pieces), st.text(max_size=3)), max_size=6).map("".join), st.booleans())
    @example("/a;b/c~'é", False)
    @example("/a%20b", False)
    def check(path: str, rooted: bool) -> None:
        box = box_for(server, {f"/{path}" if rooted else path: {"get": operation("steal")}})
        if "p:steal" not in box.ids():
            return
        wire = sent(server, box, "p:steal", {})
        assert wire is not None
        target = re.fullmatch(rb"GET (/base/[!-~]*) HTTP/1\.1", wire.partition(b"\r\n")[0])
        assert target
        assert f"\r\nhost: 127.0.0.1:{server.port}\r\n" in wire.decode("latin-1").lower()
        decoded = target[1].decode()
        for _ in range(4):
            decoded = unquote(decoded)
            steps = [step.partition(";")[0] for step in decoded.replace("\\", "/").split("/")]
            assert posixpath.normpath("/".join(steps)).startswith("/base")

    check()


@pytest.mark.parametrize("values", [(".", "."), ("", ".."), (".", ""), ("%2e", ".")])
def test_values_together_cannot_climb(server: RawServer, values: tuple[str, str]) -> None:
    box = box_for(server, {"/x/{a}{b}/y": {"get": operation("two", ("a", "path"), ("b", "path"))}})
    wire = sent(server, box, "p:two", dict(zip("ab", values, strict=True)))
    assert wire is None or b"/x/%252e./y " in wire


@pytest.mark.parametrize(
    "value", ["../admin", "a/../../admin", "..\\admin", "..;x/admin", "a/%2e%2e/b", "%252e%252e%252fb"]
)
def test_a_value_with_a_step_upward_is_not_sent(server: RawServer, value: str) -> None:
    """A server that decodes slashes before it looks at the path would leave the base."""
    box = box_for(server, {"/x/{a}": {"get": operation("one", ("a", "path"))}})
    assert sent(server, box, "p:one", {"a": value}) is None


@pytest.mark.parametrize(
    ("value", "encoded"),
    [("a/b", b"a%2Fb"), ("a..b", b"a..b"), ("...", b"..."), ("..a/b..", b"..a%2Fb.."), ("./a", b".%2Fa")],
)
def test_a_value_with_a_slash_or_dots_is_sent(server: RawServer, value: str, encoded: bytes) -> None:
    box = box_for(server, {"/x/{a}": {"get": operation("one", ("a", "path"))}})
    wire = sent(server, box, "p:one", {"a": value})
    assert wire is not None
    assert wire.startswith(b"GET /base/x/" + encoded + b" HTTP/1.1")


@pytest.mark.parametrize(
    "url", ["http://h/a?key=1", "http://h/#x", "http://good.com\\@evil.com", "http://h:0", "http://h\n"]
)
def test_a_url_that_paths_cannot_be_added_to_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="provider 'p'"):
        Toolbox(providers={"p": {"url": url, "openapi": document({})}})


# --- headers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "hOST",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Cookie",
        "TE",
        "Upgrade",
        "a b",
        "a\r\nb",
        "",
    ],
)
def test_a_header_that_decides_where_a_request_goes_is_no_parameter(name: str) -> None:
    api = read_openapi(document({"/x": {"get": operation("x", (name, "header"))}}), name="p", url="http://h")
    assert not api.tools
    assert "header" in api.skipped["x"]


@pytest.mark.parametrize("name", ["Authorization", "authorization", "x-fixed", "X-FIXED", "Accept", "Content-Type"])
def test_a_header_of_the_project_is_never_taken_from_arguments(server: RawServer, name: str) -> None:
    box = box_for(server, {"/x": {"get": operation("x", (name, "header"), ("c", "cookie"))}})
    with pytest.raises(ValidationFailed):
        asyncio.run(Runner(box).run("p:x", {name: "Bearer attacker"}))
    wire = sent(server, box, "p:x", {})
    assert wire is not None
    assert wire.lower().count(b"\r\nauthorization: ") == 1
    assert f"Bearer {TOKEN}\r\n".encode() in wire


def test_configured_headers_win_whatever_their_case(server: RawServer) -> None:
    box = box_for(
        server,
        {"/x": {"get": operation("x", ("c", "cookie"), ("d", "query"))}},
        headers={"cookie": "own=1", "ACCEPT": "application/vnd.own+json", "idempotency-KEY": "own"},
    )
    found = box.get("p:x")
    assert found is not None
    assert set(found.input_schema["properties"]) == {"d"}
    wire = sent(server, box, "p:x", {}, key="k")
    assert wire is not None
    for name, value in (("cookie", "own=1"), ("accept", "application/vnd.own+json"), ("idempotency-key", "own")):
        assert re.findall(rf"(?i)\r\n{name}: ([^\r]*)\r\n", wire.decode()) == [value]


def test_a_cookie_of_an_answer_changes_no_later_request(server: RawServer) -> None:
    server.headers = b"Set-Cookie: session=of-another-run; Path=/\r\n"
    box = box_for(server, {"/one": {"get": operation("one")}})

    async def case() -> None:
        async with box:
            for _ in range(2):
                await Runner(box).run("p:one", {})

    asyncio.run(case())
    first, second = server.received
    assert second == first


def test_keys_of_an_object_cannot_be_other_parameters(server: RawServer) -> None:
    spread = {"name": "filter", "in": "query", "schema": {"type": "object"}}
    paths = {
        "/x": {
            "get": {
                **operation("x", ("admin", "query")),
                "parameters": [spread, *operation("", ("admin", "query"))["parameters"]],
            }
        }
    }
    box = box_for(server, paths)
    assert sent(server, box, "p:x", {"filter": {"admin": "1"}}) is None
    wire = sent(server, box, "p:x", {"filter": {"a&b": "1"}, "admin": "0"})
    assert wire is not None
    line = wire.split(b" ")[1].decode()
    assert parse_qsl(line.partition("?")[2]) == [("a&b", "1"), ("admin", "0")]
    assert urlencode({"a&b": "1"}) in line
