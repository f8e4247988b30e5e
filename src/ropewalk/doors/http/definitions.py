"""Definitions over HTTP: store, list, look at, check, plan, draw."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, HTTPException, Path, Query
from fastapi.responses import PlainTextResponse, Response

from ...app import App
from ...deadline import DEFINITION_SECONDS, limited
from ...draw import draw, graph_data
from ...errors import InvalidFlow, Problem
from ...plan import plan as planned
from ...runs import iso
from ...stored import STORED
from ...told import problem_data
from . import shapes
from .answers import Answer, Files, Route, Served, patiently
from .given import Asked, Document, read, size_of, stored

Kind = Annotated[Literal["chain", "composition"], Path(description="The notation.")]
Id = Annotated[str, Path(max_length=500)]
Format = Annotated[Literal["mermaid", "svg", "text"], Query()]
DRAWN: Final[dict[str, Any]] = {
    "response_class": Response,
    "responses": {200: {"content": {"text/plain": {}, "image/svg+xml": {}}, "description": "The drawing"}},
}


class Given(Asked):
    document: Document


router = APIRouter(prefix="/api", tags=["definitions"], route_class=Route, default_response_class=Answer)


@router.get("/definitions", summary="List definitions", response_model=shapes.DefinitionList)
def ls(app: Served, files: Files) -> Answer:
    """The stored definitions and the project's flows in files (`kind: file`), without their documents."""
    return Answer({"definitions": [*map(_line, app.store.list_definitions()), *files.listed()]})


@router.get("/definitions/file/{id:path}/drawing", summary="Draw a flow in a file", **DRAWN)
def file_drawing(id: Id, files: Files, format: Format = "mermaid") -> Response:
    """Its graph as Mermaid text, an SVG picture or a tree."""
    return _drawn(draw(files.loaded(id).flow, format), format)


@router.get("/definitions/file/{id:path}", summary="Get a flow in a file", response_model=shapes.WholeDefinition)
def file(id: Id, files: Files) -> Answer:
    """A flow of the project in a file, as it is now: its document and its graph. It is changed where it is."""
    return Answer(files.whole(id))


@router.delete("/definitions/file/{id:path}", include_in_schema=False)
def delete_file(id: Id, files: Files) -> None:
    files.loaded(id)
    said = f"{id} is a file of the project, which is changed and deleted where it is; DELETE is for stored definitions"
    raise HTTPException(405, said, {"allow": "GET"})


@router.post(
    "/definitions/{kind}", summary="Store a definition", status_code=201, response_model=shapes.WholeDefinition
)
def create(kind: Kind, given: Given, app: Served) -> Answer:
    """Check and store a definition; an id that is taken is replaced."""
    with limited(DEFINITION_SECONDS):
        loaded = read(app, given.document)
    if loaded.kind != kind:
        said = f"this is a {loaded.kind}, and {kind}s are stored here; "
        where = f"send it to /api/definitions/{loaded.kind}" if loaded.kind in STORED else "it is kept in a file"
        raise InvalidFlow([Problem(path="kind", message=said + where)])
    if loaded.compiled.id in (".", ".."):
        raise InvalidFlow([Problem(path="id", message="not . or .., which no address can end with")])
    service: Any = app.chains.core if kind == "chain" else app.compositions.core
    made = service.create(loaded.document)
    return Answer(_whole(app, stored(app, kind, made.id)), 201)


@router.get("/definitions/{kind}/{id:path}/drawing", summary="Draw a definition", **DRAWN)
def drawing(kind: Kind, id: Id, app: Served, format: Format = "mermaid") -> Response:
    """Its graph as Mermaid text, an SVG picture or a tree."""
    return _drawn(draw(app.definitions.stored(stored(app, kind, id)).flow, format), format)


@router.get("/definitions/{kind}/{id:path}", summary="Get a definition", response_model=shapes.WholeDefinition)
def get(kind: Kind, id: Id, app: Served) -> Answer:
    """One definition with its document and its graph."""
    return Answer(_whole(app, stored(app, kind, id)))


@router.delete("/definitions/{kind}/{id:path}", summary="Delete a definition", status_code=204, response_class=Response)
def delete(kind: Kind, id: Id, app: Served) -> Response:
    """Its runs stay."""
    stored(app, kind, id)
    app.store.delete_definition(kind, id)
    return Response(status_code=204)


@router.post("/validate", summary="Check a document", response_model=shapes.Validity)
async def validate(given: Given, app: Served) -> Answer:
    """Everything that is wrong with a document, and what is doubtful; calls no tool."""
    size = size_of(given.document)
    try:
        loaded = await patiently(size, lambda: read(app, given.document))
        await app.connect_for(loaded.flow)
        checked = await patiently(size, lambda: app.check(loaded, unknown_tools="certain"))
    except InvalidFlow as error:
        found = await app.definitions.with_tools(error, app.connect_for)
        problems, warnings = ([problem_data(p) for p in said] for said in (found.problems, found.warnings))
        return Answer({"valid": False, "problems": problems, "warnings": warnings})
    return Answer(
        {
            "valid": not checked.problems,
            "problems": [problem_data(p) for p in checked.problems],
            "warnings": [problem_data(p) for p in checked.warnings],
            "graph": await patiently(size, lambda: graph_data(loaded.flow)),
        }
    )


@router.post("/plan", summary="Plan a run", response_model=shapes.Plan)
async def plan(given: Given, app: Served) -> Answer:
    """What would run, in which order, with which tools; calls nothing."""
    size = size_of(given.document)
    loaded = await patiently(size, lambda: read(app, given.document))
    await app.connect_for(loaded.flow)
    checked = await patiently(size, lambda: app.check(loaded, unknown_tools="certain"))
    if checked.problems:
        raise InvalidFlow(checked.problems)
    cards, about = app.definitions.cards_for(loaded), checked.warnings
    made = await patiently(size, lambda: planned(loaded.flow, cards, about, kind=loaded.kind).to_dict())
    return Answer(made)


def _drawn(text: str, format: str) -> Response:
    kind = "image/svg+xml" if format == "svg" else "text/plain"
    # A picture of ours has no scripts; shown by itself it could not run any either.
    return PlainTextResponse(
        text,
        media_type=kind,
        headers={"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"},
    )


def _line(definition: Any) -> dict[str, Any]:
    return {
        "kind": definition.kind,
        "id": definition.id,
        "name": definition.name,
        "description": (definition.document or {}).get("description", ""),
        "fingerprint": definition.fingerprint,
        "created": iso(definition.created),
        "runCount": definition.run_count,
    }


def _whole(app: App, definition: Any) -> dict[str, Any]:
    flow = app.definitions.stored(definition).flow
    return {**_line(definition), "document": definition.document, "graph": graph_data(flow)}
