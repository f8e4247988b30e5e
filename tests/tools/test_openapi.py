"""OpenAPI documents as tools, called against a real server."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import ConfigError, ExecutionFailed, ValidationFailed
from ropewalk.tools.runner import Runner
from ropewalk.tools.toolbox import Toolbox

DOCUMENT: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "paths": {
        "/pets/{petId}": {
            "parameters": [{"$ref": "#/components/parameters/PetId"}],
            "get": {
                "operationId": "getPet",
                "summary": "One pet.",
                "tags": ["Pet Shop"],
                "parameters": [
                    {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {
                        "name": "ids",
                        "in": "query",
                        "explode": False,
                        "schema": {"type": "array", "items": {"type": "integer"}},
                    },
                    {"name": "filter", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                    {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                    {"name": "petId", "in": "query", "schema": {"type": "boolean"}},
                ],
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
                },
            },
            "put": {
                "operationId": "putPet",
                "requestBody": {"$ref": "#/components/requestBodies/Pet"},
                "responses": {"204": {"description": "done"}},
            },
        },
        "/login": {
            "post": {
                "requestBody": {
                    "content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}},
                },
                "responses": {"200": {"content": {"text/plain": {}}}},
            }
        },
        "/photo": {
            "post": {"operationId": "photo", "requestBody": {"content": {"multipart/related": {}}}, "responses": {}}
        },
    },
    "components": {
        "parameters": {
            "PetId": {"name": "petId", "in": "path", "description": "Which pet", "schema": {"type": "string"}}
        },
        "requestBodies": {
            "Pet": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
        },
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                    "owner": {"$ref": "#/components/schemas/Owner"},
                    "colour": {"type": "string", "enum": ["red"], "nullable": True},
                },
            },
            "Owner": {
                "type": "object",
                "nullable": True,
                "properties": {"pets": {"type": "array", "items": {"$ref": "#/components/schemas/Pet"}}},
            },
        },
    },
}


def box_for(lab: Any, document: Any = None) -> Toolbox:
    return Toolbox(providers={"pets": {"openapi": document or DOCUMENT, "url": lab.url, "headers": {"X-Key": "k"}}})


def called(lab: Any, tool_id: str, args: dict[str, Any], **more: Any) -> Any:
    async def case() -> Any:
        async with box_for(lab) as box:
            return (await Runner(box).run(tool_id, args, **more)).structured

    return asyncio.run(case())


def test_every_operation_is_a_tool_and_what_cannot_be_is_reported(lab: Any) -> None:
    box = box_for(lab)
    assert box.ids() == ["pets:getPet", "pets:post_login", "pets:putPet"]
    assert "multipart" in box.failures["pets:photo"]
    get = box.get("pets:getPet")
    assert get is not None
    assert (get.description, get.tags, get.has_side_effects) == ("One pet.", ("pet-shop",), True)
    assert get.input_schema["properties"]["petId"] == {"description": "Which pet", "type": "string"}
    assert set(get.input_schema["properties"]) == {
        "petId",
        "tags",
        "ids",
        "filter",
        "X-Trace",
        "session",
        "query_petId",
    }
    assert get.input_schema["required"] == ["petId"]
    assert get.output_schema is not None
    assert set(get.output_schema["$defs"]) == {"Pet", "Owner"}


def test_parameters_go_where_the_document_says(lab: Any) -> None:
    lab.on("/pets/a%2Fb%20c", {"name": "Rex", "age": 3, "owner": None})
    args = {
        "petId": "a/b c",
        "tags": ["x", "y z"],
        "ids": [1, 2],
        "filter": {"a": 1, "b": True},
        "X-Trace": "t1",
        "session": "s;1",
        "query_petId": False,
    }
    assert called(lab, "pets:getPet", args, key="k9") == {"name": "Rex", "age": 3, "owner": None}
    (asked,) = lab.asked
    assert asked.method == "GET"
    assert asked.query == [
        ("tags", "x"),
        ("tags", "y z"),
        ("ids", "1,2"),
        ("filter[a]", "1"),
        ("filter[b]", "true"),
        ("petId", "false"),
    ]
    assert asked.headers["x-trace"] == "t1"
    assert asked.headers["cookie"] == "session=s%3B1"
    assert asked.headers["x-key"] == "k"
    assert asked.headers["idempotency-key"] == hashlib.sha256(b"k9").hexdigest()
    assert asked.body == b""


def test_json_body_is_sent_and_an_empty_answer_is_null(lab: Any) -> None:
    lab.on("/pets/7", b"", status=204)
    assert called(lab, "pets:putPet", {"petId": "7", "body": {"name": "Rex"}}) is None
    assert (lab.asked[0].method, lab.asked[0].json) == ("PUT", {"name": "Rex"})


def test_form_body_is_sent_as_a_form(lab: Any) -> None:
    lab.on("/login", b"welcome", kind="text/plain")
    assert called(lab, "pets:post_login", {"body": {"user": "a b", "roles": ["x", "y"]}}) == "welcome"
    assert lab.asked[0].body == b"user=a+b&roles=x&roles=y"


@pytest.mark.parametrize(
    ("args", "path"),
    [
        ({"petId": "7"}, "args"),
        ({"petId": "7", "body": {}}, "args.body"),
        ({"petId": "7", "body": {"name": "x", "age": 0}}, "args.body.age"),
        ({"petId": "7", "body": {"name": "x", "owner": {"pets": [{}]}}}, "args.body.owner.pets[0]"),
        ({"petId": "7", "body": {"name": "x"}, "nme": 1}, "args.nme"),
    ],
)
def test_arguments_are_checked_against_the_document(lab: Any, args: Any, path: str) -> None:
    with pytest.raises(ValidationFailed) as caught:
        called(lab, "pets:putPet", args)
    assert path in [problem.path for problem in caught.value.problems]
    assert lab.asked == []


def test_nullable_of_3_0_means_null_is_fine(lab: Any) -> None:
    lab.on("/pets/7", b"", status=204)
    called(lab, "pets:putPet", {"petId": "7", "body": {"name": "x", "owner": None, "colour": None}})
    assert len(lab.asked) == 1


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_path_parameter_cannot_climb(lab: Any, value: str) -> None:
    with pytest.raises(ExecutionFailed, match="path parameter") as caught:
        called(lab, "pets:getPet", {"petId": value})
    assert not caught.value.retryable
    assert lab.asked == []


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_document_may_be_a_file(lab: Any, tmp_path: Path, form: str) -> None:
    import yaml

    file = tmp_path / f"pets.{form}"
    file.write_text(json.dumps(DOCUMENT) if form == "json" else yaml.safe_dump(DOCUMENT))
    assert box_for(lab, str(file)).ids() == box_for(lab).ids()


def test_document_may_be_elsewhere_and_is_fetched_when_connecting(lab: Any) -> None:
    lab.on("/openapi.json", DOCUMENT)
    lab.on("/pets/7", {"name": "Rex"})

    async def case() -> None:
        box = box_for(lab, f"{lab.url}/openapi.json")
        assert box.ids() == []
        async with box:
            assert "pets:getPet" in box.ids()
            assert (await Runner(box).run("pets:getPet", {"petId": "7"})).structured == {"name": "Rex"}

    asyncio.run(case())


def test_document_that_cannot_be_fetched_is_a_failure_that_stops_nothing(lab: Any) -> None:
    async def case() -> None:
        async with box_for(lab, f"{lab.url}/absent.json") as box:
            assert "404" in box.failures["pets"]
            lab.on("/absent.json", DOCUMENT)
            await box.connect()
            assert "pets" not in box.failures
            assert "pets:getPet" in box.ids()

    asyncio.run(case())


def test_a_page_in_place_of_a_document_is_named_with_its_address(lab: Any) -> None:
    async def case() -> None:
        lab.on("/docs", b"<!doctype html>", kind="text/html; charset=utf-8")
        async with box_for(lab, f"{lab.url}/docs") as box:
            what = f"{lab.url}/docs is a page (text/html), not an OpenAPI document; name the address of the document"
            assert f"{what}, such as {lab.url}/openapi.json" in box.failures["pets"]

    asyncio.run(case())


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    node: Any = document
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = value
    return document


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"swagger": "1.2"}, "only OpenAPI 3.x"),
        ("/no/such/file.yaml", "no file"),
        ([1], "not an object"),
    ],
)
def test_document_that_cannot_be_read_is_refused(lab: Any, document: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        box_for(lab, document)


def test_what_is_wrong_in_the_text_of_a_document_is_told_with_its_line(lab: Any, tmp_path: Path) -> None:
    file = tmp_path / "pets.yaml"
    file.write_text("openapi: 3.0.0\npaths: {\nopenapi: 3.1.0\n")
    with pytest.raises(ConfigError) as caught:
        box_for(lab, str(file))
    (problem,) = caught.value.problems
    assert problem.message.startswith("provider 'pets': openapi: expected ',' or '}'")
    assert problem.place is not None
    assert (problem.place.file, problem.place.line) == (str(file), 4)
    file.write_text("openapi: 3.0.0\nopenapi: 3.1.0\npaths: {}\npaths: {}\n")
    with pytest.raises(ConfigError) as caught:
        box_for(lab, str(file))
    assert [problem.place.line for problem in caught.value.problems if problem.place] == [2, 4]


@pytest.mark.parametrize("kind", ["application/json", "application/yaml", "text/plain"])
def test_so_is_that_of_one_that_is_fetched_and_what_else_is_in_its_address_is_not_shown(lab: Any, kind: str) -> None:
    lab.on("/api", b'{"openapi": "3.0.0",\n "paths": {,}}', kind=kind)

    async def case() -> None:
        async with box_for(lab, f"{lab.url}/api?key=hush") as box:
            place, shown = f"{lab.url}/api:2:12: ", '     "paths": {,}}\n               ^'
            said = "provider 'pets': openapi: expected a key in double quotes"
            assert box.failures["pets"] == f"{place}{said}\n{shown}"

    asyncio.run(case())


@pytest.mark.parametrize("kind", ["application/yaml", "application/openapi+yaml", "text/yaml"])
def test_a_document_that_is_fetched_may_be_yaml(lab: Any, kind: str) -> None:
    import yaml

    lab.on("/api", yaml.safe_dump(DOCUMENT).encode(), kind=kind)

    async def case() -> None:
        async with box_for(lab, f"{lab.url}/api") as box:
            assert "pets:getPet" in box.ids()

    asyncio.run(case())


def test_one_line_that_is_fetched_is_never_the_path_of_a_file_here(lab: Any, tmp_path: Path) -> None:
    file = tmp_path / "pets.json"
    file.write_text(json.dumps(DOCUMENT))
    lab.on("/api", str(file).encode(), kind="text/plain")

    async def case() -> None:
        async with box_for(lab, f"{lab.url}/api") as box:
            assert box.ids() == []
            assert "the document is str, not an object" in box.failures["pets"]

    asyncio.run(case())


@pytest.mark.parametrize(
    ("document", "label", "said"),
    [
        (changed(["paths", "/login"], {"$ref": "other.json#/x"}), "login", "/login: .*outside the document"),
        (changed(["paths", "/login"], {"$ref": "http://127.0.0.1:1/x"}), "login", "/login: .*outside the document"),
        (changed(["paths", "/login"], {"$ref": "#/paths/absent"}), "login", "/login: .*has no target"),
        (
            changed(["components", "parameters", "PetId"], {"$ref": "#/components/parameters/PetId"}),
            "getPet",
            "GET /pets/{petId}: .*form a cycle",
        ),
        (
            changed(
                ["paths", "/zz"],
                {"get": {"operationId": "zz", "parameters": [{"$ref": "#/components/parameters/No"}]}},
            ),
            "zz",
            "GET /zz: the reference '#/components/parameters/No' has no target",
        ),
    ],
)  # fmt: skip
def test_an_operation_with_a_reference_that_leads_nowhere_is_left_out_alone(
    lab: Any, document: Any, label: str, said: str
) -> None:
    whole, box = box_for(lab, DOCUMENT), box_for(lab, document)
    assert re.search(said, box.failures[f"pets:{label}"])
    assert len(box.ids()) >= 1
    assert set(box.ids()) <= set(whole.ids()) - {f"pets:{label}"}


def test_server_comes_from_the_document_unless_given() -> None:
    with pytest.raises(ConfigError, match="no absolute server"):
        Toolbox(providers={"pets": {"openapi": DOCUMENT}})
    named = {**DOCUMENT, "servers": [{"url": "https://{host}/v1", "variables": {"host": {"default": "example.org"}}}]}
    assert Toolbox(providers={"pets": {"openapi": named}}).ids()


@pytest.mark.parametrize("config", [{"url": "ftp://x"}, {"url": "http://x", "openapi": "absent.yaml"}, {"urll": "x"}])
def test_what_is_wrong_in_itself_is_raised_and_what_connecting_finds_is_a_failure(lab: Any, config: Any) -> None:
    with pytest.raises(ConfigError, match="provider 'p'"):
        Toolbox(providers={"p": config})

    async def case() -> None:
        async with Toolbox(providers={"p": {"url": lab.url, "openapi": f"{lab.url}/absent"}}) as box:
            assert f"the OpenAPI document cannot be read: {lab.url}/absent: HTTP 404" in box.failures["p"]

    asyncio.run(case())
