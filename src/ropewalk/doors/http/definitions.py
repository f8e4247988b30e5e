"""Definitions over HTTP: store, list, look at, check, preview, draw."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response

from ...app.app import App
from ...app.lookup import STORED
from ...app.presenters import definition_details, stored_definition_line
from ...app.preview import preview as preview_of
from ...app.project_versions import ProjectVersions
from ...deadline import DEFINITION_SECONDS, limited
from ...draw import draw, graph_data
from ...errors import InvalidFlow, Problem
from ..errors import problem_payload, validity_payload
from ..remedies import Door
from . import models
from .errors import SMALL, Answer, Files, Route, Served, load_patiently, patiently
from .flow_files import PATIENCE
from .models import Document, RequestBody, read, size_of, stored

Kind = Annotated[Literal["chain", "composition"], Path(description="The notation.")]
Id = Annotated[str, Path(max_length=500)]
Format = Annotated[Literal["mermaid", "svg", "text"], Query()]
DRAWN: Final[dict[str, Any]] = {
    "response_class": Response,
    "responses": {200: {"content": {"text/plain": {}, "image/svg+xml": {}}, "description": "The drawing"}},
}


class DocumentBody(RequestBody):
    document: Document


router = APIRouter(prefix="/api", tags=["definitions"], route_class=Route, default_response_class=Answer)


@router.get("/definitions", summary="List definitions", response_model=models.DefinitionList)
async def ls(app: Served, files: Files, request: Request) -> Answer:
    """List the stored definitions and the project's flows in files (`kind: file`), without their documents."""

    def definitions() -> list[dict[str, Any]]:
        return [*map(stored_definition_line, app.store.list_definitions()), *files.list_items()]

    listed = await asyncio.to_thread(definitions)
    if files.lacks_tools:  # a plan is known only with the tools that it names
        await app.toolbox.connect_within(PATIENCE)
        listed = await asyncio.to_thread(definitions)
    versions: ProjectVersions = request.app.state.versions
    wrong = versions.problems if versions.is_checked else await files.problems()
    problems = [problem_payload(problem, Door.HTTP) for problem in wrong]
    about = {"hasFiles": files.are_of_project, "keepsGood": versions.is_checked}
    return Answer({"definitions": listed, "problems": problems, **about})


@router.get("/definitions/file/{id:path}/drawing", summary="Draw a flow in a file", **DRAWN)
async def file_drawing(id: Id, app: Served, files: Files, format: Format = "mermaid") -> Response:
    """Draw the graph as Mermaid text, an SVG picture or a tree."""
    loaded = await load_patiently(app, SMALL + 1, lambda: files.loaded(id))
    return _drawing_response(await asyncio.to_thread(draw, loaded.flow, format), format)


@router.get("/definitions/file/{id:path}", summary="Get a flow in a file", response_model=models.WholeDefinition)
async def file(id: Id, app: Served, files: Files) -> Answer:
    """Return the present document and graph of a flow in a file of the project. It is edited in its file."""
    return Answer(await load_patiently(app, SMALL + 1, lambda: files.details(id)))


@router.delete("/definitions/file/{id:path}", include_in_schema=False)
def delete_file(id: Id, files: Files) -> None:
    files.loaded(id)
    message = (
        f"{id} is a file of the project, which is changed and deleted where it is; DELETE is for stored definitions"
    )
    raise HTTPException(405, message, {"allow": "GET"})


@router.post(
    "/definitions/{kind}", summary="Store a definition", status_code=201, response_model=models.WholeDefinition
)
def create(kind: Kind, body: DocumentBody, app: Served, files: Files) -> Answer:
    """Check and store a definition; an id that is taken is replaced."""
    with limited(DEFINITION_SECONDS):
        loaded = read(app, body.document)
    if loaded.kind != kind:
        message = f"this is a {loaded.kind}, but this address stores {kind}s only; "
        where = (
            f"send it to /api/definitions/{loaded.kind}"
            if loaded.kind in STORED
            else "keep it in a file of the project"
        )
        raise InvalidFlow([Problem(path="kind", message=message + where)])
    if loaded.compiled.id in (".", ".."):
        raise InvalidFlow([Problem(path="id", message="not . or .., which no address can end with")])
    service: Any = app.chains.core if kind == "chain" else app.compositions.core
    created = service.create(loaded.document)
    return Answer(_details(app, stored(app, files, kind, created.id)), 201)


@router.get("/definitions/{kind}/{id:path}/drawing", summary="Draw a definition", **DRAWN)
def drawing(kind: Kind, id: Id, app: Served, files: Files, format: Format = "mermaid") -> Response:
    """Draw the graph as Mermaid text, an SVG picture or a tree."""
    return _drawing_response(draw(app.definitions.get(stored(app, files, kind, id)).flow, format), format)


@router.get("/definitions/{kind}/{id:path}", summary="Get a definition", response_model=models.WholeDefinition)
def get(kind: Kind, id: Id, app: Served, files: Files) -> Answer:
    """Return a definition with its document and its graph."""
    return Answer(_details(app, stored(app, files, kind, id)))


@router.delete("/definitions/{kind}/{id:path}", summary="Delete a definition", status_code=204, response_class=Response)
def delete(kind: Kind, id: Id, app: Served, files: Files) -> Response:
    """Delete a definition. Its runs stay."""
    stored(app, files, kind, id)
    app.store.delete_definition(kind, id)
    return Response(status_code=204)


@router.post("/validate", summary="Check a document", response_model=models.Validity)
async def validate(body: DocumentBody, app: Served) -> Answer:
    """Return every problem and warning of a document. No tool is called."""
    size = size_of(body.document)
    try:
        loaded = await load_patiently(app, size, lambda: read(app, body.document))
        await app.connect_for(loaded.flow)
        checked = await patiently(size, lambda: app.check(loaded, unknown_tools="problem"))
    except InvalidFlow as error:
        result = await app.definitions.with_tool_problems(error)
        return Answer(validity_payload(result.problems, result.warnings, Door.HTTP))
    graph = await patiently(size, lambda: graph_data(loaded.flow))
    return Answer({**validity_payload(checked.problems, checked.warnings, Door.HTTP), "graph": graph})


@router.post("/preview", summary="Preview a run", response_model=models.Preview)
async def preview(body: DocumentBody, app: Served) -> Answer:
    """Show the steps that would run, their order and their tools. No tool is called."""
    size = size_of(body.document)
    loaded = await load_patiently(app, size, lambda: read(app, body.document))
    await app.connect_for(loaded.flow)
    checked = await patiently(size, lambda: app.check(loaded, unknown_tools="certain"))
    if checked.problems:
        raise InvalidFlow(checked.problems)
    created = await patiently(size, lambda: preview_of(app.context, loaded, checked.warnings).to_dict())
    return Answer(created)


def _drawing_response(text: str, format: str) -> Response:
    kind = "image/svg+xml" if format == "svg" else "text/plain"
    # A picture of ours has no scripts; shown by itself it could not run any either.
    return PlainTextResponse(
        text,
        media_type=kind,
        headers={"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"},
    )


def _details(app: App, definition: Any) -> dict[str, Any]:
    flow = app.definitions.get(definition).flow
    return definition_details(stored_definition_line(definition), definition.document, flow)
