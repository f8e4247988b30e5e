# ruff: noqa: E501 - documents in few lines
"""What requests of OpenAPI operations carry, read off a raw socket or off the request that is sent."""

from __future__ import annotations

import asyncio
import json
import threading
import traceback
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ropewalk.errors import ConfigError, ExecutionFailed
from ropewalk.tools.backends.openapi import read_openapi
from ropewalk.tools.runner import Runner
from ropewalk.tools.toolbox import Toolbox

STRING, ARRAY, OBJECT = "blue", ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}
PLACES = {
    "matrix": "path", "label": "path", "simple": "path", "form": "query", "spaceDelimited": "query",
    "pipeDelimited": "query", "deepObject": "query", "cookie": "cookie",
}  # fmt: skip
# The table "Style Examples" of OpenAPI 3.2, which has the one of 3.1 in it. None is "n/a" there.
STYLE_EXAMPLES = [
    ("matrix", False, ";color", ";color=blue", ";color=blue,black,brown", ";color=R,100,G,200,B,150"),
    ("matrix", True, ";color", ";color=blue", ";color=blue;color=black;color=brown", ";R=100;G=200;B=150"),
    ("label", False, None, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
    ("label", True, None, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
    ("simple", False, None, "blue", "blue,black,brown", "R,100,G,200,B,150"),
    ("simple", True, None, "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ("form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("form", True, "color=", "color=blue", "color=blue&color=black&color=brown", "R=100&G=200&B=150"),
    ("spaceDelimited", False, None, None, "color=blue%20black%20brown", "color=R%20100%20G%20200%20B%20150"),
    ("pipeDelimited", False, None, None, "color=blue%7Cblack%7Cbrown", "color=R%7C100%7CG%7C200%7CB%7C150"),
    ("deepObject", True, None, None, None, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ("cookie", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("cookie", True, "color=", "color=blue", "color=blue; color=black; color=brown", "R=100; G=200; B=150"),
]


def parameter(where: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "color",
        "in": where,
        "required": where == "path",
        **({} if "content" in more else {"schema": {}}),
        **more,
    }


def document(*parameters: dict[str, Any], body: Any = None, version: str = "3.2.0", **more: Any) -> dict[str, Any]:
    operation = {"operationId": "call", "parameters": list(parameters), "responses": {}, **more}
    if body is not None:
        operation["requestBody"] = {"content": body}
    path = "/p/{color}" if any(p["in"] == "path" for p in parameters) else "/p"
    return {"openapi": version, "servers": [{"url": "http://h.example"}], "paths": {path: {"post": operation}}}


def sent(source: dict[str, Any], args: dict[str, Any]) -> httpx2.Request:
    """The request that a call builds, with its address and body as they go onto the wire."""
    api = read_openapi(source, name="p")
    request = api.operations["call"].request(args, None, "*/*")
    url = request.url + ("?" + request.query if request.query else "")
    data, kind = request.content or (b"", "")
    headers = {**request.headers, **({"Content-Type": kind} if kind else {})}
    return httpx2.Request(request.method, url, headers=headers, content=data)


def written(where: str, request: httpx2.Request) -> str:
    if where == "cookie":
        return request.headers["cookie"]
    target = request.url.raw_path.decode()
    return target.removeprefix("/p/") if where == "path" else target.partition("?")[2]


@pytest.mark.parametrize("row", STYLE_EXAMPLES, ids=lambda row: f"{row[0]}-{row[1]}")
def test_every_cell_of_the_style_examples_is_on_the_wire(row: Any) -> None:
    style, explode, *cells = row
    where = PLACES[style]
    for value, cell in zip(("", STRING, ARRAY, OBJECT), cells, strict=True):
        if cell is not None:
            source = document(parameter(where, style=style, explode=explode))
            assert written(where, sent(source, {"color": value})) == cell
    if where == "path":
        return
    assert written(where, sent(document(parameter(where, style=style)), {"color": STRING})) == "color=blue"
    assert "color" not in str(sent(document(parameter(where, style=style)), {"color": None}).url)


@pytest.mark.parametrize(("explode", "cell"), [(False, "R,100,G,200,B,150"), (True, "R=100,G=200,B=150")])
def test_headers_have_the_simple_style(explode: bool, cell: str) -> None:
    source = document(parameter("header", explode=explode))
    assert sent(source, {"color": OBJECT}).headers["color"] == cell
    assert sent(source, {"color": ARRAY}).headers["color"] == "blue,black,brown"


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ({"explode": False}, ["a,b", "c"], "color=a%2Cb,c"),
        ({"allowReserved": True}, "a/b?c:d%20é&x=1#y", "color=a/b?c:d%20%C3%A9%26x=1%23y"),
        ({"style": "deepObject"}, {"in": ["a", "b"], "sub": {"k": 1}},
         "color%5Bin%5D%5B0%5D=a&color%5Bin%5D%5B1%5D=b&color%5Bsub%5D%5Bk%5D=1"),
        ({"style": "deepObject"}, ["a"], "color%5B0%5D=a"),
        ({"content": {"application/json": {"schema": {}}}}, {"a": [1]}, "color=%7B%22a%22%3A%5B1%5D%7D"),
        ({"content": {"text/plain": {"schema": {}}}}, "a b", "color=a%20b"),
        ({}, [], ""),
        ({}, [1.5, True, None, "x"], "color=1.5&color=true&color=x"),
    ],
)  # fmt: skip
def test_query_parameters(declared: Any, value: Any, expected: str) -> None:
    assert written("query", sent(document(parameter("query", **declared)), {"color": value})) == expected


def test_a_parameter_may_be_the_whole_query() -> None:
    form = parameter("querystring", content={"application/x-www-form-urlencoded": {"schema": {"type": "object"}}})
    assert written("query", sent(document(form), {"color": {"a": "1 2", "b": ["x", "y"]}})) == "a=1+2&b=x&b=y"
    whole = parameter("querystring", content={"application/json": {"schema": {}}})
    assert written("query", sent(document(whole), {"color": {"a": 1}})) == "%7B%22a%22%3A1%7D"


def test_a_value_that_a_style_cannot_write_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ValueError, match="cannot write a list inside another value"):
        sent(document(parameter("query")), {"color": {"a": [1]}})


FORM = "application/x-www-form-urlencoded"
DEEP = {"style": "deepObject", "explode": True}


@pytest.mark.parametrize(
    ("encoding", "body", "expected"),
    [
        ({}, {"user": "a b", "roles": ["x", "y"], "none": None}, "user=a+b&roles=x&roles=y"),
        ({}, {"at": {"street": "1 A"}}, "at=%7B%22street%22%3A%221+A%22%7D"),
        ({"at": DEEP}, {"at": {"b": {"c": 1}}}, "at%5Bb%5D%5Bc%5D=1"),
        ({"items": DEEP}, {"items": [{"price": "p", "qty": 2}]}, "items%5B0%5D%5Bprice%5D=p&items%5B0%5D%5Bqty%5D=2"),
        ({"roles": {"style": "form", "explode": False}}, {"roles": ["x", "y"]}, "roles=x,y"),
        ({"roles": {"contentType": "application/json"}}, {"roles": ["x"]}, "roles=%5B%22x%22%5D"),
    ],
)  # fmt: skip
def test_forms(encoding: Any, body: Any, expected: str) -> None:
    media = {FORM: {"schema": {"type": "object"}, "encoding": encoding}}
    request = sent(document(body=media), {"body": body})
    assert (request.content.decode(), request.headers["content-type"]) == (expected, FORM)


def test_a_multipart_upload() -> None:
    properties = {
        "file": {"type": "string", "format": "binary"},
        "more": {"type": "array", "items": {"type": "string", "contentMediaType": "image/png"}},
        "about": {"type": "object"},
        "n": {"type": "integer"},
    }
    media = {"multipart/form-data": {"schema": {"type": "object", "properties": properties, "required": ["file"]}}}
    file = {"base64": "AP8=", "filename": 'a".bin', "type": "image/png"}
    args = {"file": file, "more": ["x", {"text": "y"}], "about": {"k": 1}, "n": 7}
    request = sent(document(body=media), {"body": args})
    kind, _, boundary = request.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/form-data"
    parts = request.content.split(f"--{boundary}".encode())
    assert parts[-1] == b"--\r\n"
    heads = [part.partition(b"\r\n\r\n") for part in parts[1:-1]]
    assert [(head.decode().strip().split("\r\n"), body.removesuffix(b"\r\n")) for head, _, body in heads] == [
        (['Content-Disposition: form-data; name="file"; filename="a%22.bin"', "Content-Type: image/png"], b"\x00\xff"),
        (
            ['Content-Disposition: form-data; name="more"; filename="more"', "Content-Type: application/octet-stream"],
            b"x",
        ),
        (
            ['Content-Disposition: form-data; name="more"; filename="more"', "Content-Type: application/octet-stream"],
            b"y",
        ),
        (['Content-Disposition: form-data; name="about"', "Content-Type: application/json"], b'{"k":1}'),
        (['Content-Disposition: form-data; name="n"'], b"7"),
    ]


@pytest.mark.parametrize(
    ("kind", "body", "data", "sent_kind"),
    [
        ("application/octet-stream", {"base64": "AP8=", "type": "image/png"}, b"\x00\xff", "image/png"),
        ("application/octet-stream", "text", b"text", "application/octet-stream"),
        ("text/plain", "é", "é".encode(), "text/plain"),
        ("application/xml", "<a/>", b"<a/>", "application/xml"),
        ("application/merge-patch+json", {"a": None}, b'{"a":null}', "application/merge-patch+json"),
        ("*/*", [1], b"[1]", "application/json"),
    ],
)
def test_other_bodies(kind: str, body: Any, data: bytes, sent_kind: str) -> None:
    request = sent(document(body={kind: {"schema": {}}}), {"body": body})
    assert (request.content, request.headers["content-type"]) == (data, sent_kind)


# --- Swagger 2.0 -----------------------------------------------------------------------------


def test_a_swagger_document_is_converted() -> None:
    many = {"name": "ids", "in": "query", "type": "array", "items": {"type": "integer"}, "collectionFormat": "pipes"}
    pet = {"type": "object", "properties": {"name": {"type": "string", "x-nullable": True}}}
    api = read_openapi(
        {
            "swagger": "2.0", "host": "h.example", "basePath": "/v1", "schemes": ["http"],
            "consumes": ["application/json"], "produces": ["application/json"], "definitions": {"Pet": pet},
            "parameters": {"Ids": many}, "responses": {"Pet": {"schema": {"$ref": "#/definitions/Pet"}}},
            "paths": {
                "/pets": {
                    "post": {
                        "operationId": "add",
                        "parameters": [
                            {"$ref": "#/parameters/Ids"},
                            {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}},
                        ],
                        "responses": {"200": {"$ref": "#/responses/Pet"}},
                    }
                },
                "/photo": {
                    "post": {
                        "operationId": "photo",
                        "parameters": [{"name": "file", "in": "formData", "type": "file", "required": True}],
                    }
                },
            },
        },
        name="p",
    )  # fmt: skip
    add = api.operations["add"].request({"ids": [1, 2], "body": {"name": None}}, None, "*/*")
    assert (add.url, add.query, add.content) == (
        "http://h.example/v1/pets", "ids=1%7C2", (b'{"name":null}', "application/json")
    )  # fmt: skip
    tools = {tool.name: tool for tool in api.tools}
    assert tools["add"].input_schema["required"] == ["body"]
    assert tools["add"].output_schema is not None
    assert tools["add"].output_schema["$defs"]["Pet"]["properties"]["name"]["type"] == ["string", "null"]
    assert api.operations["photo"].body is not None
    assert api.operations["photo"].body.files == {"file"}


# --- schemas, references and names -----------------------------------------------------------

USER = {
    "type": "object",
    "required": ["id", "name", "password"],
    "properties": {
        "id": {"type": "integer", "readOnly": True},
        "name": {"type": "string", "pattern": "^(?!x)"},
        "password": {"type": "string", "writeOnly": True},
        "big": {"type": "integer", "maximum": 9223372036854776000, "minimum": 1e400, "required": True},
    },
}


def api_of(paths: Any, **more: Any) -> Any:
    settings = {key: more.pop(key) for key in ("include", "exclude", "rename", "credentials", "headers") if key in more}
    return read_openapi(
        {"openapi": "3.0.3", "servers": [{"url": "http://h"}], "paths": paths, **more}, name="p", **settings
    )


def test_arguments_lack_what_is_read_only_and_results_what_is_write_only(tmp_path: Path) -> None:
    ref = {"$ref": "#/components/schemas/U"}
    answer = {"200": {"content": {"application/json": {"schema": ref}}}}
    operation = {
        "operationId": "add",
        "requestBody": {"content": {"application/json": {"schema": ref}}},
        "responses": answer,
    }
    whole = {"openapi": "3.0.3", "servers": [{"url": "http://h"}], "paths": {"/u": {"post": operation}},
             "components": {"schemas": {"U": USER}}}  # fmt: skip
    file = tmp_path / "api.json"
    file.write_text(json.dumps(whole))
    (tool,) = read_openapi(str(file), name="p").tools
    taken = tool.input_schema["$defs"]["U"]
    assert (taken["required"], list(taken["properties"])) == (["name", "password", "big"], ["name", "password", "big"])
    assert taken["properties"]["name"] == {"type": "string", "x-pattern": "^(?!x)"}
    assert taken["properties"]["big"]["maximum"] == 9223372036854776000.0
    assert "required" not in taken["properties"]["big"]
    assert tool.output_schema is not None
    given = tool.output_schema["$defs"]["U"]
    assert (given["required"], list(given["properties"])) == (["id", "name", "big"], ["id", "name", "big"])


def test_references_lead_anywhere_in_the_folder_and_not_out_of_it(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "secret.yaml").write_text("openapi: 3.0.0\n")
    folder = tmp_path / "api"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "op.yaml").write_text(
        "operationId: real\nparameters: [{name: n, in: query, schema: {$ref: 'types.json#/N/properties/name'}}]\n"
    )
    (folder / "parts" / "types.json").write_text(
        '{"N": {"properties": {"name": {"$ref": "#/S"}}}, "S": {"type": "string"}}'
    )
    (folder / "api.yaml").write_text(
        "openapi: 3.1.0\nservers: [{url: 'http://h'}]\npaths:\n"
        "  /a: {get: {$ref: 'parts/op.yaml'}}\n"
        "  /b: {get: {operationId: out, parameters: [{$ref: '../secret.yaml#/x'}]}}\n"
        "  /c: {get: {operationId: lost, parameters: [{$ref: 'parts/none.yaml#/x'}]}}\n"
        "  /d: {get: {operationId: anchor, parameters: [{name: n, in: query, schema: {$ref: '#named'}}]}}\n"
        "components: {schemas: {A: {$anchor: named, type: integer}}}\n"
    )
    api = read_openapi(str(folder / "api.yaml"), name="p")
    assert [tool.name for tool in api.tools] == ["real", "anchor"]
    assert api.tools[0].input_schema["$defs"] == {
        "N_properties_name": {"$ref": "#/$defs/S"}, "S": {"type": "string"}
    }  # fmt: skip
    assert api.tools[1].input_schema["$defs"] == {"A": {"type": "integer"}}
    assert "outside the folder" in api.skipped["out"]
    assert "no file" in api.skipped["lost"]


def test_references_by_identifier_and_by_self() -> None:
    schemas = {
        "Pet": {"$id": "https://s.example/pet", "properties": {"n": {"$ref": "#/$defs/N"}, "o": {"$ref": "owner"}},
                "$defs": {"N": {"type": "string"}}},
        "Owner": {"$id": "https://s.example/owner", "properties": {"pet": {"$ref": "pet#/$defs/N"}, "a": {"$ref": "#age"},
                  "whole": {"$ref": "#/components/schemas/Tail"}}, "$defs": {"A": {"$anchor": "age", "type": "integer"}}},
        "Tail": {"type": "boolean"},
    }  # fmt: skip
    refs = (
        "https://s.example/pet",
        "https://h.example/api.json#/components/schemas/Tail",
        "https://s.example/owner#age",
    )
    parameters = [{"name": f"p{n}", "in": "query", "schema": {"$ref": ref}} for n, ref in enumerate(refs)]
    source = {**document(*parameters), "$self": "https://h.example/api.json", "components": {"schemas": schemas}}
    given = read_openapi(source, name="p").tools[0].input_schema
    assert given["$defs"] == {
        "pet": {"properties": {"n": {"$ref": "#/$defs/N"}, "o": {"$ref": "#/$defs/owner"}}},
        "Tail": {"type": "boolean"},
        "A": {"type": "integer"},
        "N": {"type": "string"},
        "owner": {"properties": {"pet": {"$ref": "#/$defs/N"}, "a": {"$ref": "#/$defs/A"}, "whole": {"$ref": "#/$defs/Tail"}}},
    }  # fmt: skip
    lost = read_openapi(document({**parameters[0], "schema": {"$ref": "https://s.example/none"}}), name="p")
    assert "points outside the document" in lost.skipped["call"]
    odd = {"$ref": "#/components/schemas/X", "$id": "http://[", "$self": 5}
    broken = {
        **document({**parameters[0], "schema": odd}),
        "components": {"schemas": {"X": {"$id": "http://h:99999/"}}},
    }
    assert read_openapi(broken, name="p").tools


def test_documents_on_the_same_server_are_fetched_once_and_no_others(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def path(id: str, ref: str) -> dict[str, Any]:
        return {"get": {"operationId": id, "parameters": [{"name": "n", "in": "query", "schema": {"$ref": ref}}]}}

    refs = {
        "near": "parts/types.json#/N", "again": "/docs/parts/types.json#/N", "gone": "gone.json#/N", "html": "html#/N",
        "far": "http://127.0.0.2:1/x#/N", "upper": f"{lab.url}/other.json#/N",
    }  # fmt: skip
    lab.on("/docs/api.json", {"openapi": "3.1.0", "paths": {f"/{id}": path(id, ref) for id, ref in refs.items()}})
    lab.on("/docs/parts/types.json", {"N": {"$ref": "more.yaml#/M"}})
    lab.on("/docs/parts/more.yaml", b"M: {type: integer}", kind="application/yaml")
    lab.on("/docs/html", b"<html>", kind="text/html")
    lab.on("/other.json", {"N": {"type": "string"}})

    async def load() -> Toolbox:
        config = {"openapi": f"{lab.url}/docs/api.json?key=hush", "headers": {"X-Key": "k"}}
        async with Toolbox(providers={"p": config}) as box:
            return box

    box = asyncio.run(load())
    assert box.ids() == ["p:again", "p:near", "p:upper"]
    assert {asked.path for asked in lab.asked} == {
        "/docs/api.json", "/docs/parts/types.json", "/docs/parts/more.yaml", "/docs/gone.json", "/docs/html", "/other.json",
    }  # fmt: skip
    assert len(lab.asked) == 6
    assert box.get("p:near").input_schema["$defs"] == {"N": {"$ref": "#/$defs/M"}, "M": {"type": "integer"}}
    assert f"cannot be read: {lab.url}/docs/gone.json: HTTP 404" in box.left_out["p:gone"]
    assert "points to another server" in box.left_out["p:far"]
    assert "p:html" in box.left_out
    assert "hush" not in str(box.left_out)
    monkeypatch.setattr("ropewalk.tools.backends.openapi.references.MAX_FETCHED", 2)
    assert "refers to more than 2 others" in asyncio.run(load()).left_out["p:upper"]


def test_a_document_above_the_limit_is_refused_whole_in_a_file_and_fetched(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.tools.backends.openapi.document.MAX_BYTES", 2_000)
    small = document(parameter("query"))
    large = {**small, "x-rest": "r" * 2_000}
    for name, text in {"s.json": json.dumps(small), "l.json": json.dumps(large), "l.yaml": f"x: {'r' * 2_000}"}.items():
        (tmp_path / name).write_text(text)
    assert len(read_openapi(str(tmp_path / "s.json"), name="p").tools) == 1
    for name in ("l.json", "l.yaml"):
        with pytest.raises(ConfigError, match="larger than 2,000 bytes"):
            read_openapi(str(tmp_path / name), name="p")
    lab.on("/large.json", large)
    lab.on("/half.json", {**small, "x-rest": "r" * 1_000, "paths": {"/p": {"$ref": "rest.json#/x"}}})
    lab.on("/rest.json", {"x": {"get": {}}, "x-rest": "r" * 1_000})

    async def load(name: str) -> Toolbox:
        async with Toolbox(providers={"p": {"openapi": f"{lab.url}/{name}", "url": lab.url}}) as box:
            return box

    assert "larger than 2,000 bytes" in asyncio.run(load("large.json")).failures["p"]
    assert "its documents are larger than 2,000 bytes" in str(asyncio.run(load("half.json")).left_out)


def test_names_are_cleaned_distinct_and_the_settings_choose_among_them() -> None:
    ids = ("list/all", "list all", "список", "имена", "drop", "keep")
    paths = {f"/{i}": {"get": {"operationId": id}} for i, id in enumerate(ids)}
    api = api_of(paths)
    names = [tool.name for tool in api.tools]
    assert names[:2] == ["list_all", "list_all_2"]
    assert len(set(names)) == 6
    chosen = api_of(paths, include=["list*", "drop", "keep"], exclude=["drop"], rename={"keep": "kept"})
    assert [tool.name for tool in chosen.tools] == ["list_all", "list_all_2", "kept"]
    assert len(chosen.skipped) == 3
    assert "exclude names it" in chosen.skipped["drop"]
    with pytest.raises(ConfigError, match="rename: 'kept' matches no operation; did you mean 'keep'"):
        api_of(paths, rename={"kept": "x"})


def test_one_bad_operation_is_left_out_and_every_operation_is_accounted_for() -> None:
    paths = {
        "/a": {"get": {"operationId": "same"}, "post": {"operationId": "same", "parameters": 5}, "trace": {}},
        "/b": {"get": {"operationId": "same", "parameters": [{"$ref": "#/no"}]}, "query": {"operationId": "ask"}},
        "/c": {"get": {"operationId": "odd", "requestBody": {"content": []}}, "additionalOperations": {"COPY": {}}},
        "x-other": {"get": {}},
    }
    api = api_of(paths)
    assert len(api.tools) + len(api.skipped) == 7
    assert [operation.method for operation in api.operations.values()] == ["GET", "POST", "QUERY", "COPY"]


def scheme(**fields: Any) -> dict[str, Any]:
    return {**document(security=[{"k": []}]), "components": {"securitySchemes": {"k": fields}}}


def only(**methods: Any) -> dict[str, Any]:
    return {**document(), "paths": {"/p": methods}}


BIG = 10**400
# A document, what is used of it, and what is said of the rest.
ODD: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "an answer without a target": (document(responses={"200": {"$ref": "#/none"}}), ["call"], "its answer is not checked: the reference '#/none'"),
    "an answer of null": (document(responses={"200": None}), ["call"], "its answer is not checked: expected an object"),
    "an answer without a code": (document(responses={"": {}}), ["call"], "its answer is not checked"),
    "a number past 64 bits": (document(parameter("query", schema={"maximum": BIG})), ["call"], ""),
    "a version that YAML reads as a number": ({**document(), "openapi": 3.1}, ["call"], ""),
    "both versions": ({**document(), "swagger": "2.0"}, ["call"], ""),
    "a path of a number": ({**document(), "paths": {5: {"get": {"operationId": "x"}}}}, [], "a path must begin with /"),
    "a method with a space": (only(additionalOperations={"GET X": {"operationId": "x"}}), [], "'GET X' is not a method"),
    "TRACE by another way": (only(additionalOperations={"TRACE": {"operationId": "x"}}), [], "so it is never sent"),
    "a tunnel": (only(additionalOperations={"CONNECT": {"operationId": "x"}}), [], "opens a tunnel"),
    "security of text": (document(security="k"), [], "its security must be a list of objects"),
    "security with a text": (document(security=["k"]), [], "its security must be a list of objects"),
    "security of null": ({**document(security=None), "security": [{"k": []}]}, ["call"], "the undefined security scheme 'k'"),
    "a key in Host": (scheme(type="apiKey", name="Host", **{"in": "header"}), ["call"], "where none can be sent"),
    "a key without a name": (scheme(type="apiKey", **{"in": "query"}), ["call"], "where none can be sent"),
    "a client certificate": (scheme(type="mutualTLS"), ["call"], "a client certificate, which cannot be sent"),
    "schemes in a list": ({**document(security=[{"k": []}]), "components": {"securitySchemes": [1]}}, ["call"], "undefined"),
    "definitions of security in a list": ({"swagger": "2.0", "host": "h", "securityDefinitions": [1], "paths": document()["paths"]}, ["call"], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_an_odd_part_costs_no_more_than_itself_and_is_named(name: str) -> None:
    source, used, said = ODD[name]
    before = repr(source)
    api = read_openapi(source, name="p")
    assert [tool.name for tool in api.tools] == used
    missing = [operation.security.missing or "" for operation in api.operations.values()]
    reasons = " ".join((*api.skipped.values(), *api.shortened.values(), *missing))
    assert said in reasons if said else not reasons.strip()
    assert repr(source) == before  # it belongs to the caller


def test_a_query_that_is_always_the_same_is_sent() -> None:
    query = {"name": "q", "in": "query", "schema": {"type": "object"}, "style": "form", "explode": True}
    source = document(query)
    source["paths"] = {"/p?beta=true&v=%20": source["paths"]["/p"]}
    assert str(sent(source, {"q": {"a": 1}}).url) == "http://h.example/p?beta=true&v=%20&a=1"
    with pytest.raises(ValueError, match="'beta' of 'q' is the name of another query parameter"):
        sent(source, {"q": {"beta": "false"}})
    scheme = {"type": "apiKey", "in": "query", "name": "v"}
    source |= {"components": {"securitySchemes": {"k": scheme}}, "security": [{"k": []}]}
    api = read_openapi(source, name="p", credentials={"k": "x"})
    assert api.skipped["call"].endswith("its path has a value for the credential 'v'")


def test_a_base_path_never_lengthens_the_host() -> None:
    source = {"swagger": "2.0", "host": "h.example", "basePath": "v1", "paths": {}}
    assert read_openapi(source, name="p").base == "https://h.example/v1"
    nested = [{"url": "https://{a}", "variables": {"a": {"default": "{b}"}, "b": {"default": "x"}}}]
    with pytest.raises(ConfigError, match="a variable inside the value of another one"):
        read_openapi({**document(), "servers": nested}, name="p")


# --- servers and security --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("servers", "base"),
    [
        (None, "http://h.example"),
        ([], "http://h.example"),
        ([{"url": "/v1"}], "http://h.example/v1"),
        ([{"url": "v1/"}], "http://h.example/docs/v1"),
        (
            [{"url": "{s}://x.example/{v}", "variables": {"s": {"default": "https"}, "v": {"default": "2"}}}],
            "https://x.example/2",
        ),
    ],
)
def test_servers_are_relative_to_the_address_of_the_document(servers: Any, base: str) -> None:
    source = {"openapi": "3.1.0", "paths": {}, **({} if servers is None else {"servers": servers})}
    assert read_openapi(source, name="p", address="http://h.example/docs/openapi.json").base == base


VARIABLES = {"region": {"default": "eu", "enum": ["eu", "us"]}, "port": {"default": "443"}}
SERVER = [{"url": "https://{region}.x.example:{port}/{base}", "variables": VARIABLES}]


@pytest.mark.parametrize(
    ("chosen", "base"),
    [
        ({"base": "v2"}, "https://eu.x.example:443/v2"),
        ({"region": "us", "port": "8443", "base": "v3"}, "https://us.x.example:8443/v3"),
        ({}, r"has no value for \{base\}; set server_variables\.base"),
        ({"base": "v2", "region": "mars"}, "server_variables.region: 'mars' is not one of eu, us"),
        ({"base": "v2", "regoin": "us"}, "server_variables.regoin: no server .* did you mean 'region'"),
    ],
)
def test_settings_choose_the_variables_of_servers(chosen: dict[str, str], base: str) -> None:
    source = {**document(), "servers": SERVER}
    if base.startswith("https://"):
        assert read_openapi(source, name="p", server_variables=chosen).base == base
        return
    with pytest.raises(ConfigError, match=base):
        read_openapi(source, name="p", server_variables=chosen)
    assert (
        read_openapi(source, name="p", url="http://own.example", server_variables=chosen).base == "http://own.example"
    )


SCHEMES = {
    "head": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "oauth": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token", "scopes": {"read": ""}}}},
}


def secured(lab: Any, name: str) -> dict[str, Any]:
    lab.on("/p", {"ok": True})
    return {
        **document(security=[{name: ["read"] if name == "oauth" else []}]),
        "components": {"securitySchemes": SCHEMES},
        "servers": [{"url": lab.url}],
    }


@pytest.mark.parametrize(
    ("name", "credential", "header", "expected"),
    [
        ("head", "${OPENAPI_TEST_KEY}", "x-key", "hush-1234"),
        ("query", "${OPENAPI_TEST_KEY}", None, [("key", "hush-1234")]),
        ("cookie", "${OPENAPI_TEST_KEY}", "cookie", "sid=hush-1234"),
        ("bearer", "${OPENAPI_TEST_KEY}", "authorization", "Bearer hush-1234"),
        ("basic", {"username": "me", "password": "pw"}, "authorization", "Basic bWU6cHc="),
        ("oauth", {"client_id": "me", "client_secret": "pw"}, "authorization", "Bearer given-token"),
    ],
)
def test_credentials_are_sent_where_the_scheme_says(
    lab: Any, monkeypatch: pytest.MonkeyPatch, name: str, credential: Any, header: str | None, expected: Any
) -> None:
    monkeypatch.setenv("OPENAPI_TEST_KEY", "hush-1234")
    lab.on("/token", {"access_token": "given-token", "expires_in": 3600})

    async def calls() -> None:
        provider = {"openapi": secured(lab, name), "credentials": {name: credential}}
        async with Toolbox(providers={"p": provider}) as box:
            for _ in range(2):
                await Runner(box).run("p:call", {})

    asyncio.run(calls())
    tokens = [asked for asked in lab.asked if asked.path == "/token"]
    if name == "oauth":
        (token,) = tokens
        assert token.body == b"grant_type=client_credentials&scope=read"
        assert token.headers["authorization"] == "Basic bWU6cHc="
    last = lab.asked[-1]
    assert (last.query if header is None else last.headers[header]) == expected


@pytest.mark.parametrize("name", list(SCHEMES))
def test_a_call_without_its_security_says_so_and_is_not_sent(lab: Any, name: str) -> None:
    async def call(**settings: Any) -> Any:
        async with Toolbox(providers={"p": {"openapi": secured(lab, name), **settings}}) as box:
            return await Runner(box).run("p:call", {})

    with pytest.raises(ExecutionFailed, match=rf"needs .*\(credentials.{name}\).* or credentials.{name} = false if"):
        asyncio.run(call())
    assert lab.asked == []
    asyncio.run(call(credentials={name: False}))
    asyncio.run(call(credentials=False))
    assert len(lab.asked) == 2


@pytest.mark.parametrize(
    ("requirements", "said"),
    [
        ([{"head": []}, {}], None),
        ([], None),
        (None, None),
        ([{"head": []}, {"bearer": []}], "set them, or credentials = false if the server asks for none"),
        ([{"undefined": []}], "needs the undefined security scheme 'undefined'"),
    ],
)
def test_optional_security_is_no_reason_to_refuse(requirements: Any, said: str | None) -> None:
    more = {} if requirements is None else {"security": requirements}
    source = {**document(**more), "components": {"securitySchemes": SCHEMES}}
    missing = read_openapi(source, name="p").operations["call"].security.missing
    assert (missing is None) if said is None else (said in str(missing))
    assert read_openapi(source, name="p", credentials=False).operations["call"].security.missing is None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            {"status": 401, "body": {"error": "invalid_client", "error_description": "hush-1234"}},
            "HTTP 401: invalid_client",
        ),
        ({"status": 401, "body": {"error": "hush-1234"}}, "HTTP 401, and no access_token"),
        ({"body": b"<html>hush-1234</html>", "kind": "text/html"}, "HTTP 200 with text/html, not JSON"),
        (
            {"status": 302, "body": b"", "Location": "https://x/?s=hush-1234"},
            "HTTP 302 with application/json, not JSON",
        ),
        ({"body": {"access_token": 5, "id_token": "hush-1234"}}, "HTTP 200, and no access_token"),
        ({"body": b"hush-1234" * 200_000}, "answered more than 1,000,000 bytes"),
        ("silent", "did not answer within 0.05 s"),
        ("refused", "token URL at http://127.0.0.1:1: "),
    ],
)
def test_a_token_url_that_gives_no_token_is_named_with_the_reason_and_no_secret(
    lab: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answer: Any, said: str
) -> None:
    caplog.set_level("DEBUG", logger="ropewalk")
    source, server, release = secured(lab, "oauth"), lab.url, threading.Event()
    client = {"client_id": "me", "client_secret": "hush-1234"}
    if answer == "silent":
        monkeypatch.setattr("ropewalk.tools.backends.http._TOKEN_SECONDS", 0.05)
        lab.chunks("/token", "application/json", b"{", release)
    elif answer == "refused":
        client["token_url"] = server = "http://127.0.0.1:1"
    else:
        lab.on("/token", **answer)

    async def call() -> None:
        async with Toolbox(providers={"p": {"openapi": source, "credentials": {"oauth": client}}}) as box:
            await Runner(box).run("p:call", {})

    try:
        with pytest.raises(ExecutionFailed) as caught:
            asyncio.run(call())
    finally:
        release.set()
    assert f"the token URL at {server}" in str(caught.value)
    assert said in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert "hush" not in shown
    assert all(asked.path == "/token" for asked in lab.asked)


def test_an_error_401_names_the_credential_that_was_sent(lab: Any) -> None:
    source = secured(lab, "head")
    lab.on("/p", b"no", status=401)

    async def call() -> None:
        async with Toolbox(providers={"p": {"openapi": source, "credentials": {"head": "hush"}}}) as box:
            await Runner(box).run("p:call", {})

    with pytest.raises(ExecutionFailed, match=r"HTTP 401 Unauthorized; sent: credentials\.head") as error:
        asyncio.run(call())
    assert "hush" not in str(error.value)


def test_a_fetched_document_cannot_send_the_credentials_of_a_client_elsewhere() -> None:
    schemes = {"o": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://evil.example/t"}}}}
    source = {**document(security=[{"o": []}]), "components": {"securitySchemes": schemes}}
    client = {"client_id": "me", "client_secret": "pw"}
    api = read_openapi(source, name="p", address="http://h.example/a.json", credentials={"o": client})
    assert "another server for tokens" in str(api.operations["call"].security.missing)


def test_another_alternative_or_a_configured_header_is_enough() -> None:
    both = [{"head": [], "basic": []}, {"bearer": []}]
    source = {**document(security=both), "components": {"securitySchemes": SCHEMES}}
    assert read_openapi(source, name="p", credentials={"bearer": "t"}).operations["call"].security.missing is None
    assert read_openapi(source, name="p", headers=["Authorization"]).operations["call"].security.missing is None
    missing = read_openapi(source, name="p", credentials={"head": "t"}).operations["call"].security.missing
    assert missing is not None
    assert "credentials.basic" in missing


def test_the_list_of_tools_names_what_is_left_out_on_request(tmp_path: Path) -> None:
    from ropewalk.doors.cli.tools import ls

    paths = {"/a": {"get": {"operationId": "good"}}, "/b": {"get": {"operationId": "bad", "parameters": [{}]}}}
    source = {
        "openapi": "3.1.0",
        "servers": [{"url": "http://h"}],
        "paths": {**paths, "/c": {"get": {"operationId": "no"}}},
    }
    (tmp_path / "api.json").write_text(json.dumps(source))
    (tmp_path / "ropewalk.toml").write_text('[providers.p]\nopenapi = "api.json"\nexclude = ["no"]\n')
    short, long = ls(project=tmp_path), ls(left_out=True, project=tmp_path)
    assert "2 tools are left out; --left-out gives the reasons" in short.text
    assert "p:bad" not in short.text
    assert "- p:bad: GET /b: parameter 'None': in must be path" in long.text
    assert "- p:no: GET /c: the setting exclude names it ('no')" in long.text
    assert set(long.data["leftOut"]) == {"p:bad", "p:no"}


def test_a_schema_of_an_answer_that_is_cut_is_named(tmp_path: Path) -> None:
    from ropewalk.doors.cli.tools import ls

    large = {"enum": list(range(3_001))}
    answers = {"small": {"type": "string"}, "large": {"$ref": "#/components/schemas/L"}}
    paths = {
        f"/{id}": {
            "get": {"operationId": id, "responses": {"200": {"content": {"application/json": {"schema": schema}}}}}
        }
        for id, schema in answers.items()
    }
    source = {
        "openapi": "3.1.0",
        "servers": [{"url": "http://h"}],
        "paths": paths,
        "components": {"schemas": {"L": large}},
    }
    (tmp_path / "api.json").write_text(json.dumps(source))
    (tmp_path / "ropewalk.toml").write_text('[providers.p]\nopenapi = "api.json"\n')
    long = ls(left_out=True, project=tmp_path)
    assert "~ p:large: the schema of its answer has more than 3,000 values; deeper parts accept anything" in long.text
    assert (long.data["leftOut"], list(long.data["shortened"])) == ({}, ["p:large"])
