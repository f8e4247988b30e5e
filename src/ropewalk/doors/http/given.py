"""Definitions as they are given over HTTP: the name of a stored one, or a document. Never a path, never code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from ...check import SECRET, check
from ...errors import InvalidFlow, NotFound, Problem
from ...source import Limits, attach, load
from ...stored import can_be
from ...values import closest
from .flow_files import FILE, FlowFiles

if TYPE_CHECKING:
    from ...app import App, Loaded


class Asked(BaseModel):
    """The body of a request: no other keys, and values of the types that they say (`"no"` is no boolean)."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)


class Definition(Asked):
    """One of those that `GET /api/definitions` lists: a stored one, or with `kind: file` a flow in a file."""

    kind: Literal["chain", "composition", "file"]
    id: str = Field(max_length=500)


OWN = "ropewalk:"
"""What the ids of the tools begin with that agents are made of."""

Document = dict[str, Any] | str
"""A definition itself: as an object, or as its YAML or JSON text."""


def loaded_of(
    app: App, files: FlowFiles, named: Definition | None, document: Document | None
) -> tuple[Loaded, str | None]:
    """The definition, compiled, and its id when it has one: not a document. InvalidFlow when neither or both are
    given."""
    if (named is None) == (document is None):
        raise InvalidFlow([Problem(path="", message="give either definition {kind, id} or document")])
    if named is not None and named.kind == FILE:
        loaded = files.loaded(named.id)
        return loaded, loaded.root or named.id
    if named is not None:
        if named.id in files and app.store.get_definition(named.kind, named.id) is None:
            raise NotFound("definition", f"{named.kind} {named.id}", why=f"it is a file; name it with kind {FILE}")
        return app.definitions.stored(stored(app, named.kind, named.id)), named.id
    assert document is not None
    return read(app, document), None


def size_of(document: Document | None) -> int:
    """Return about how many bytes a document has."""
    return len(document) if isinstance(document, str) else len(orjson.dumps(document))


def stored(app: App, kind: str, id: str) -> Any:
    """A stored definition; NotFound with what was probably meant."""
    found = app.store.get_definition(kind, id) if can_be(kind) and can_be(id) else None
    if found is None:
        ids = [definition.id for definition in app.store.list_definitions(kind)] if can_be(kind) else []
        raise NotFound("definition", f"{kind} {id}", suggestion=closest(id, ids))
    return found


def read(app: App, document: Document) -> Loaded:
    """A document from somebody on HTTP, compiled. One whose tools are files of a directory is refused."""
    if isinstance(document, str):
        most = app.limits
        limits = Limits(size=most.file_size, nesting=most.nesting, aliases=most.aliases)
        # With a form it is always a text: what looks like a path is never opened.
        text = load(document, form="yaml", name="document", limits=limits)
        try:
            loaded = app.loaded(text.data, text)
        except InvalidFlow as error:
            wrong = InvalidFlow(attach(error.problems, text), error.flow)
            wrong.file = text
            raise wrong from None
    else:
        loaded = app.loaded(document)
    own = own_tool(loaded.document)
    if own is not None:
        said = f"{own} is a part of agents and not called by itself; send an agent instead"
        raise InvalidFlow([Problem(path="", message=said)])
    if loaded.compiled.local:
        said = f"an {loaded.kind} names files of its directory; run it with `ropewalk run`, or as a flow of the project"
        raise InvalidFlow([Problem(path="kind", message=said)])
    _check_secrets(app, loaded)
    return loaded


def _check_secrets(app: App, loaded: Loaded) -> None:
    """Raise InvalidFlow for a document that reads secrets which are not allowed over HTTP."""
    if "secret" not in loaded.flow.body.roots:
        return
    found = check(loaded.flow, secrets=app.http_secrets).problems
    refused = [problem for problem in found if problem.keyword == SECRET]
    if refused:
        said = "a definition that is sent over HTTP may not read it; add its name to `http` under [secrets]"
        told = [replace(one, message=f"{one.message.partition(' ')[0]}: {said}", suggestion=None) for one in refused]
        raise InvalidFlow(attach(told, loaded.file))


_DATA = frozenset(("params", "inputMapping", "args", "variables", "input", "inputSchema", "outputSchema", "value"))
"""Fields that hold data, in which anything may be called `tool`."""


def own_tool(document: Any) -> str | None:
    """Return the first tool of agents' own that a node or step of a document names; None where none does."""
    rest = [document]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            tool = part.get("tool")
            if isinstance(tool, str) and tool.startswith(OWN):
                return tool
            rest += [inside for key, inside in part.items() if key not in _DATA]
        elif isinstance(part, list):
            rest += part
    return None
