"""JSON forms of calls and their results: the names of the documents, in camelCase.

`read` checks an object against the keys that a form knows, so that a misspelt one is an error and not lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from ..errors import InvalidInput, Problem
from ..values import Json, check_json, closest
from .tool import Tool, ToolBackend

_BACKEND: Final[dict[str, dict[str, str]]] = {
    "local": {"name": "name"},
    "provider": {"providerId": "provider_id", "toolId": "tool_id"},
    "mcp": {"serverName": "server_name", "toolId": "tool_id"},
}
"""By kind of backend, its fields in JSON and in Python."""
_TOOL: Final = {
    "name": "name",
    "namespace": "namespace",
    "version": "version",
    "description": "description",
    "inputSchema": "input_schema",
    "outputSchema": "output_schema",
    "tags": "tags",
    "annotations": "annotations",
    "icons": "icons",
    "_meta": "meta",
}


def read(data: Any, place: str, known: Collection[str], required: Collection[str] = ()) -> Mapping[str, Json]:
    """Return an object whose keys are all known; InvalidInput lists what is wrong with it."""
    if not isinstance(data, Mapping):
        message = f"must be an object, not {type(data).__name__}"
        raise InvalidInput([Problem(path=place, message=message)])
    problems = [
        Problem(path=f"{place}.{key}", message="unknown key", suggestion=closest(key, known))
        for key in data
        if key not in known
    ]
    problems += [Problem(path=f"{place}.{key}", message="required") for key in required if key not in data]
    if problems:
        raise InvalidInput(problems)
    return data


def backend_to_dict(backend: ToolBackend) -> dict[str, Json]:
    """Write a backend as `{kind, <kind>: {...}}`."""
    fields = {key: getattr(backend, name) for key, name in _BACKEND[backend.kind].items()}
    return {"kind": backend.kind, backend.kind: {key: value for key, value in fields.items() if value is not None}}


def backend_from_dict(data: Json) -> ToolBackend:
    """Read what `backend_to_dict` wrote. Raises InvalidInput or InvalidTool."""
    given = read(data, "backend", ("kind", *_BACKEND), ("kind",))
    kind: Any = given["kind"]
    fields = _BACKEND.get(kind, {}) if isinstance(kind, str) else {}
    inner = read(given.get(kind, {}) if fields else {}, f"backend.{kind}", fields)
    return ToolBackend(kind, **{fields[key]: value for key, value in inner.items()})


def tool_from_dict(data: Json) -> Tool:
    """Read what `Tool.to_dict` wrote: the definition, without a handler. Raises InvalidInput or InvalidTool."""
    given = read(data, "tool", _TOOL, ("name", "inputSchema"))
    fields: dict[str, Any] = {_TOOL[key]: value for key, value in given.items()}
    return Tool(**{"description": "", **fields})


def plain(value: Any) -> Json:
    """Write a raw MCP result as JSON: the SDK's model, the same as a dict, or None."""
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json", by_alias=True, exclude_none=True)
    return None if value is None else check_json(value, "mcpResult")


def error_to_dict(error: BaseException) -> dict[str, Json]:
    """Write an error as `{kind, message}`, of a tool's failure also `op`, `toolId` and `ran`."""
    about: dict[str, Json] = {"kind": type(error).__name__, "message": str(error)}
    for key, name in (("toolId", "tool_id"), ("op", "op"), ("ran", "ran")):
        if (value := getattr(error, name, None)) not in (None, False):
            about[key] = value
    return about


class RecordedError(Exception):
    """An error read back from JSON; `kind` names the class it had, `data` is the whole of it."""

    def __init__(self, data: Mapping[str, Json]) -> None:
        self.kind, self.data = str(data.get("kind", "Exception")), dict(data)
        super().__init__(str(data.get("message", "")))


def error_from_dict(data: Json) -> RecordedError | None:
    """Read what `error_to_dict` wrote; None stays None."""
    return None if data is None else RecordedError(read(data, "error", ("kind", "message", "toolId", "op", "ran")))
