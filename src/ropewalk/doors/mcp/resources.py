"""Runs, definitions and values of runs as resources.

`[mcp_server] resources` names what clients may read. A client reads only runs of the project that it is served, and
only what the journal holds: secrets are removed before anything is recorded. Lists of runs have pages, newest first.
Values have no list; their template, and the steps of a run, lead to them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import orjson

from ...app.presenters import definition_content
from ...app.recorded_run import outermost
from ...app.runs.steps import steps
from ...content import about_of, to_mcp
from ...fast_dataclass import dataclass
from ...journal.address import run_sync_in_thread
from ...journal.protocol import ENDS, RunRow
from ...notations.registry import value_in
from ...values import Json
from .prompts import MAX_COMPLETIONS

if TYPE_CHECKING:
    from ...app.app import App
    from ...app.prepared import Prepared
    from .tool_source import ExposedTool

SCHEME: Final = "ropewalk://"
_RUN, _DEFINITION, _VALUE = "runs", "definitions", "values"
_JSON: Final = "application/json"
_PAGE: Final = 50  # runs in one page of the list
_MAX_STEPS: Final = 1000  # of a run
_MAX_CURSOR: Final = 1000  # characters
_ENDED_TTL: Final = 60_000  # milliseconds for which a client may keep a run that has ended; a retry changes it
_LIST_TTL: Final = 5_000  # milliseconds; changes of definitions are announced
_NO_CURSOR: Final = "cursor: not one that this server has given"


@dataclass(frozen=True, slots=True)
class _Template:
    kind: str
    uri: str
    title: str
    description: str


_TEMPLATES: Final = (
    _Template(_RUN, "ropewalk://runs/{id}", "Run", "A run: its status, input, result, steps and what it waits for."),
    _Template(_DEFINITION, "ropewalk://definitions/{name}", "Definition", "A flow: its document and its schemas."),
    _Template(
        _VALUE,
        "ropewalk://values/{run}/{node}",
        "Value",
        "The value of a node in a run, by its id or its path.",
    ),
)


class ProjectResources:
    """The resources of a project."""

    def __init__(self, app: App, tools: Callable[[], Mapping[str, ExposedTool]], kinds: Collection[str]) -> None:
        self._app, self._tools, self._kinds = app, tools, frozenset(kinds)
        self._known: list[str] | None = None  # the definitions that clients have listed
        self._stamps: dict[str, Any] = {}  # the state of subscribed resources, by URI
        self._places: dict[str, int] = {}  # in the journals of runs, up to which nothing changes, by run

    def owns(self, uri: str) -> bool:
        """Return True if a URI or a template belongs to this project."""
        return self._parts(uri) is not None

    # --- lists

    async def page(self, cursor: str | None) -> tuple[list[Any], str | None]:
        """Return one page of the resources: first the definitions, then runs, newest first."""
        from mcp_types import Resource

        after, resources = _read_cursor(cursor), []
        if after is None and _DEFINITION in self._kinds:
            definitions = self._definitions()
            self._known = _fingerprints(definitions)
            for name, loaded in definitions.items():
                description = str(loaded.document.get("description") or f"The {loaded.kind} {loaded.name!r}.")
                uri = _uri(_DEFINITION, name)
                resources.append(Resource(uri=uri, name=name, description=description, mime_type=_JSON))
        if _RUN not in self._kinds:
            return resources, None
        rows, following = await run_sync_in_thread(self._app.store, lambda: self._runs(after))
        for row in rows:
            text = f"{row.kind} {row.name!r}, {row.status}"
            resources.append(Resource(uri=_uri(_RUN, row.id), name=row.id, description=text, mime_type=_JSON))
        return resources, following

    def _runs(self, after: str | None) -> tuple[list[RunRow], str | None]:
        """Return one page of runs, and the cursor of the next one."""
        rows = self._app.runs.list(after=after, limit=_PAGE + 1)
        following = _cursor(rows[_PAGE - 1].id) if len(rows) > _PAGE else None
        return [row for row in rows[:_PAGE] if self._row(row.id) is not None], following

    def templates(self) -> list[Any]:
        """Return the templates of the URIs."""
        from mcp_types import ResourceTemplate

        return [
            ResourceTemplate(
                name=item.kind, title=item.title, uri_template=item.uri, description=item.description, mime_type=_JSON
            )
            for item in _TEMPLATES
            if item.kind in self._kinds
        ]

    def hint(self) -> dict[str, Any]:
        """Return how long clients may keep a list."""
        return {"ttl_ms": _LIST_TTL if _RUN not in self._kinds else 0, "cache_scope": "private"}

    # --- reading

    async def read(self, uri: str) -> Any:
        """Read a resource."""
        kind, names = self._parts(uri) or ("", [])
        if kind == _DEFINITION:
            loaded = self._definitions().get(names[0])
            return None if loaded is None else _json_result(uri, _described(loaded), _LIST_TTL)
        return await run_sync_in_thread(self._app.store, lambda: self._read_run(uri, kind, names))

    def _read_run(self, uri: str, kind: str, names: list[str]) -> Any:
        row = self._row(names[0])
        if row is None:
            return None
        ttl = _ENDED_TTL if row.status in ENDS else 0
        if kind == _RUN:
            run = self._app.runs.get(row.id, events=False, limit=_MAX_STEPS)
            return None if run is None else _json_result(uri, run, ttl)
        values = self._values(row, names[1])
        return _value_result(uri, values[-1], ttl) if values else None

    def _values(self, row: RunRow, node: str) -> list[Json]:
        """Return the recorded values of a node, given by its path or else its id; the last one counts."""
        entries = self._app.runs.history(row.id)
        at = [entry for entry in entries if entry.path == node] or [entry for entry in entries if entry.node == node]
        values = [step["value"] for step in steps(at, row) if step["status"] == "ok" and "value" in step]
        if values:
            return values
        # A node that calls nothing is not recorded; the result of the run may have its value.
        result: Any = row.result
        value = value_in(result, row.kind) if isinstance(result, dict) else None
        return [value[node]] if isinstance(value, dict) and node in value else []

    # --- completions and changes

    async def complete(self, uri: str, argument: str, value: str, known: Mapping[str, str]) -> list[str]:
        """Return the values that a variable of a template can have and that begin with a text."""
        kind = (self._parts(uri) or ("", []))[0]
        if kind == _DEFINITION:
            return _beginning(self._definitions(), value)
        return await run_sync_in_thread(self._app.store, lambda: self._complete_run(argument, value, known))

    def _complete_run(self, argument: str, value: str, known: Mapping[str, str]) -> list[str]:
        if argument in ("id", "run"):
            rows = self._app.runs.list(text=value or None, limit=MAX_COMPLETIONS)
            return _beginning((row.id for row in rows if self._row(row.id) is not None), value)
        row = self._row(known.get("run", ""))
        if row is None:
            return []
        recorded = (str(step["path"]) for step in steps(self._app.runs.history(row.id), row) if step.get("value"))
        return _beginning(dict.fromkeys(recorded), value)

    def has_changed(self) -> bool:
        """Return True once for each time that a definition has come, gone or changed since clients had a list."""
        if self._known is None:
            return False
        now = _fingerprints(self._definitions())
        changed, self._known = now != self._known, now
        return changed

    async def watch(self, uri: str) -> bool:
        """Begin to watch a resource for changes."""
        stamp = (await self._stamps_of([uri]))[uri]
        if stamp is not None:
            self._stamps[uri] = stamp
        return stamp is not None

    async def changed(self, subscribed: Collection[str]) -> list[str]:
        """Return the watched resources that have changed since the last look; forget those that nobody watches."""
        self._stamps = {uri: stamp for uri, stamp in self._stamps.items() if uri in subscribed}
        if not self._stamps:
            self._places = {}
            return []
        known = dict(self._stamps)
        now = await self._stamps_of(known)
        self._stamps |= now
        return [uri for uri, stamp in now.items() if stamp != known[uri]]

    async def _stamps_of(self, uris: Collection[str]) -> dict[str, Any]:
        """Return for each resource a value that changes whenever it does; None if there is no such resource."""
        stamps: dict[str, Any] = {}
        of_runs: dict[str, list[str]] = {}
        definitions = self._definitions()
        for uri in uris:
            kind, names = self._parts(uri) or ("", [""])
            if kind == _DEFINITION:
                loaded = definitions.get(names[0])
                stamps[uri] = None if loaded is None else loaded.fingerprint
            else:
                of_runs[uri] = names

        def look() -> dict[str, Any]:
            return {uri: self._stamp(*names) for uri, names in of_runs.items()}

        return stamps | (await run_sync_in_thread(self._app.store, look) if of_runs else {})

    def _stamp(self, run_id: str, node: str | None = None) -> Any:
        row = self._row(run_id)
        if row is None:
            return None
        if node is not None:
            return row.epoch, orjson.dumps(self._values(row, node)[-1:])
        return row.status, row.epoch, row.ended_at, self._app.runs.current(row), self._recorded(row.id)

    def _recorded(self, run_id: str) -> Any:
        """Return how much is recorded of a run; of a long one, only the end is read again."""
        store = self._app.store
        if not store.durable:
            return len(self._app.runs.history(run_id))
        place: int | None = self._places.get(run_id, 0)
        while place is not None:
            self._places[run_id] = place
            entries, place = store.history_page(run_id, place, _MAX_STEPS)
        return self._places[run_id], len(entries)

    # --- inside

    def _parts(self, uri: str) -> tuple[str, list[str]] | None:
        """Return the kind of a URI and the names in it; None for a URI that is not ours."""
        kind, _, rest = uri.removeprefix(SCHEME).partition("/")
        if not uri.startswith(SCHEME) or kind not in self._kinds or not rest:
            return None
        names = [unquote(name) for name in rest.split("/", 1 if kind == _VALUE else 0)]
        return (kind, names) if len(names) == (2 if kind == _VALUE else 1) and all(names) else None

    def _row(self, run_id: str) -> RunRow | None:
        """Return a run of this project, or None."""
        row = self._app.store.get_run(run_id) if run_id else None
        if row is None:
            return None
        return row if (outermost(self._app.store, row).context or {}).get("project") == self._app.project else None

    def _definitions(self) -> dict[str, Prepared]:
        return {name: item.definition for name, item in self._tools().items() if item.definition is not None}


def _fingerprints(definitions: Mapping[str, Prepared]) -> list[str]:
    return [f"{name} {loaded.fingerprint}" for name, loaded in definitions.items()]


def _uri(kind: str, name: str) -> str:
    return f"{SCHEME}{kind}/{quote(name, safe='')}"


def _described(loaded: Prepared) -> dict[str, Json]:
    return {
        "kind": loaded.kind,
        "name": loaded.name,
        "fingerprint": loaded.fingerprint,
        **definition_content(loaded.document, loaded.flow),
    }


def _json_result(uri: str, value: Json, ttl: int) -> Any:
    return _result(uri, {"text": orjson.dumps(value).decode(), "mimeType": _JSON}, ttl)


def _value_result(uri: str, value: Json, ttl: int) -> Any:
    """Return a value: a text as it is, content with its bytes, anything else as JSON."""
    if isinstance(value, str):
        return _result(uri, {"text": value, "mimeType": "text/plain"}, ttl)
    about = about_of(value)
    block = to_mcp(about) if about is not None else {}
    inner = block.get("resource") if isinstance(block.get("resource"), dict) else block
    if isinstance(inner, dict) and (inner.get("data") or inner.get("blob")):
        return _result(uri, {"blob": inner.get("data") or inner["blob"], "mimeType": inner.get("mimeType")}, ttl)
    return _json_result(uri, value, ttl)


def _result(uri: str, contents: dict[str, Any], ttl: int) -> Any:
    from mcp_types import ReadResourceResult

    return ReadResourceResult.model_validate(
        {"contents": [{"uri": uri, **contents}], "ttlMs": ttl, "cacheScope": "private"}
    )


def _beginning(names: Iterable[str], value: str) -> list[str]:
    return list(islice((name for name in names if name.lower().startswith(value.lower())), MAX_COMPLETIONS))


def _cursor(after: str) -> str:
    return base64.urlsafe_b64encode(after.encode()).decode()


def _read_cursor(cursor: str | None) -> str | None:
    """Return the id of the run behind which a page begins."""
    from mcp import MCPError
    from mcp_types import INVALID_PARAMS

    if cursor is None:
        return None
    try:
        if len(cursor) > _MAX_CURSOR:
            raise ValueError(cursor)
        return base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode() or None
    except ValueError as error:
        raise MCPError(INVALID_PARAMS, _NO_CURSOR) from error
