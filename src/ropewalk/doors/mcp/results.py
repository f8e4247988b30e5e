"""Convert values and errors to CallToolResults, with one table from an error to the client's message.

A failed tool answers with `isError` and the failed node, so a model can react. Only a malformed request is a protocol
error. The texts of unexpected errors go to the log only.

Schemas have an object at the root, as MCP clients need, for results too. The protocol before 2026-07-28 allows only
objects as structured content, so other values are wrapped as `{"result": value}`. Its clients ignore a root `$ref`,
`oneOf`, `anyOf` or `allOf`; they get an object schema that all branches match. The app checks arguments against the
original schema.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import orjson

from ...content import about_of, parts_in, to_mcp
from ...errors import (
    FlowFailed,
    InvalidFlow,
    InvalidInput,
    RopewalkError,
    ToolError,
    ToolNotApproved,
    ValidationFailed,
    message_of,
)
from ...source.document import escape_invisible, shorten
from ...tools.mcp.requests import TASK_META, BrokenResult, ServerRefused
from ...values import Json
from ..errors import RAN, describe_difference, error_message, has_run
from ..remedies import Door

_CHOICES: Final = ("oneOf", "anyOf", "allOf")
_PLACES: tuple[str, ...] = ("$defs", "definitions")
_MOST_STEPS: Final = 16


def shown_input(schema: dict[str, Json], *, choices: bool = False) -> dict[str, Json]:
    """The schema of arguments with `type: object` at its root; without `choices` nothing there that clients drop."""
    if choices:
        return schema if schema.get("type") == "object" else {**schema, "type": "object"}
    root = _followed(schema)
    if not any(choice in root for choice in _CHOICES):
        return root if root.get("type") == "object" else {**root, "type": "object"}
    shown: dict[str, Any] = {key: value for key, value in root.items() if key not in _CHOICES}
    properties: dict[str, Json] = dict(shown.get("properties") or {})
    required = set(shown.get("required") or ())
    for choice in _CHOICES:
        branches = [_followed(b, root) for b in root.get(choice, ()) if isinstance(b, dict)]
        for branch in branches:
            for name, value in (branch.get("properties") or {}).items():
                known = properties.get(name, value)
                properties[name] = known if known == value else {"anyOf": _alternatives(known, value)}
        needs = [set(branch.get("required") or ()) for branch in branches]
        if needs:
            required |= set.union(*needs) if choice == "allOf" else set.intersection(*needs)
    shown |= {"type": "object", "properties": properties}
    return {**shown, "required": sorted(required)} if required else shown


def is_object(schema: Json) -> bool:
    """Return True if a schema accepts only objects, as far as its root shows."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def shown_output(schema: dict[str, Json] | None) -> dict[str, Json]:
    """The schema of structured content: of the value where it is an object, else of the wrapped one."""
    if schema is not None and is_object(schema):
        return schema
    moved = {key: schema[key] for key in _PLACES if schema is not None and key in schema}
    inner = {key: value for key, value in (schema or {}).items() if key not in (*moved, "$schema")}
    return {"type": "object", "properties": {"result": inner}, "required": ["result"], **moved}


def shown_value(schema: dict[str, Json] | None, value: Json) -> dict[str, Json]:
    """The structured content for a value of that schema."""
    return value if is_object(schema) and isinstance(value, dict) else {"result": value}


def _followed(schema: dict[str, Any], root: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schema behind a `$ref` to a place of the same document; what cannot be followed stays."""
    for _ in range(_MOST_STEPS):
        way = schema.get("$ref")
        if not isinstance(way, str) or not way.startswith("#/"):
            return schema
        result: Any = root or schema
        for part in way[2:].split("/"):
            result = result.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(result, dict) else None
        if not isinstance(result, dict):
            return schema
        kept = {key: (root or schema)[key] for key in _PLACES if key in (root or schema)}
        schema = {**kept, **{key: value for key, value in schema.items() if key != "$ref"}, **result}
    return schema


def _alternatives(known: Json, value: Json) -> list[Json]:
    before = known["anyOf"] if isinstance(known, dict) and set(known) == {"anyOf"} else [known]
    return before if value in before else [*before, value]


log = logging.getLogger("ropewalk.mcp.server")

RUN: Final = "ropewalk/run"
ERROR: Final = "ropewalk/error"
TASK_SEPARATOR: Final = ":"
"""Between the name of a server behind and the id of its task."""
_NOT_FOUND: Final = -32002  # before 2026-07-28; since then it is one of the parameters that is wrong
_LOGGED: Final = ("InternalError", "InvalidFlow", "ToolNotApproved")
"""Kinds of errors that `explained` logs with more than the client gets."""
_LONGEST: Final = 4_000  # characters of an error; a model has to read them


def given(value: Json, schema: dict[str, Json] | None, *, about: dict[str, Json] | None = None, note: str = "") -> Any:
    """Return a value as structured content, and as text for clients that read only text."""

    # `note` is added as text.
    import mcp_types as types

    content = blocks(value)
    if note:
        content.append(types.TextContent(type="text", text=note))
    meta: Any = None if about is None else {RUN: about}
    return types.CallToolResult(content=content, structured_content=shown_value(schema, value), _meta=meta)


def blocks(value: Json) -> list[Any]:
    """A value as content blocks: a list of texts and parts of content in its order; any other value as its JSON, and
    then each part of content in it once."""
    from mcp_types import CallToolResult

    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    created: list[Any] = [{"type": "text", "text": text}]
    if not isinstance(value, str) and (inside := list(parts_in(value))):
        listed = value if isinstance(value, list) else [value]
        if all(isinstance(item, str) or about_of(item) is not None for item in listed):
            created = [
                {"type": "text", "text": item} if isinstance(item, str) else to_mcp(about_of(item) or {})
                for item in listed
            ]
        else:
            created += [to_mcp(about) for about in {orjson.dumps(about): about for about in inside}.values()]
    return list(CallToolResult.model_validate({"content": created}).content)


def failed(message: str, about: dict[str, Json]) -> Any:
    """A result that says what went wrong, in words and (`_meta`) as data."""
    import mcp_types as types

    text = escape_invisible(message)
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    meta: Any = {ERROR: about}
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True, _meta=meta)


def log_failure(name: str, result: Any) -> None:
    """Log that a call has failed, unless the log has the reason already: a failed run has a line of its own."""
    if getattr(result, "is_error", False) is not True:
        return
    about = (result.meta or {}).get(ERROR)
    about = about if isinstance(about, dict) else {}
    if "runId" not in about and about.get("kind") not in _LOGGED:
        text = next((item.text for item in result.content if item.type == "text"), "it answered with an error")
        reason = " ".join(escape_invisible(text.removeprefix(f"{name}: ")).split())
        log.warning("a call of %s failed: %s", escape_invisible(name), reason)


def log_refusal(method: str, error: Any) -> None:
    """Log the MCPError of a request that names something unknown, such as a tool, or has invalid parameters."""
    from mcp_types import INVALID_PARAMS

    if error.error.code in (INVALID_PARAMS, _NOT_FOUND):
        log.warning("refused %s: %s", escape_invisible(method), escape_invisible(shorten(error.error.message)))


def explained(name: str, error: Exception) -> Any:
    """Return the result for an exception of a call."""

    # Raise MCPError if the exception is not the tool's answer.
    if isinstance(error, ServerRefused):
        return _refused(error)
    about: dict[str, Json] = {"kind": type(error).__name__}
    if isinstance(error, FlowFailed):
        return flow_failed(error)
    if isinstance(error, InvalidFlow):  # what a refused tool says of itself may stand in it: for the operator only
        log.warning("%s cannot run now: %s", name, escape_invisible(message_of(error)))
        return failed("the flow cannot run now; ask the operator of the server, whose log has the reason", about)
    if isinstance(error, (InvalidInput, ValidationFailed)):
        about["problems"] = [{"path": p.path, "message": p.message} for p in error.problems]
        message = ["the arguments do not match the input schema:", *map(str, error.problems)]
        return failed("\n".join(message) if error.problems else message_of(error), about)
    if isinstance(error, ToolNotApproved):
        log.warning(
            "a call of %s was refused: %s", error.tool_id, escape_invisible(describe_difference(error, Door.MCP))
        )
    if isinstance(error, ToolError):
        about["tool"] = error.tool_id
        if has_run(error):
            about["ran"] = True
        return failed(f"{error.tool_id}: {error.reason}" + (f"\n{RAN}" if has_run(error) else ""), about)
    if isinstance(error, (RopewalkError, ConnectionError, TimeoutError)):
        return failed(error_message(error, Door.MCP), about)
    log.error("calling %s raised", name, exc_info=error)
    return failed("internal error; the log of the server has it", {"kind": "InternalError"})


def _refused(error: ServerRefused) -> Any:
    from mcp import MCPError

    if isinstance(error, BrokenResult):
        return failed(message_of(error), {"kind": "BrokenResult", "ran": True})
    if isinstance(error.__cause__, MCPError):
        raise protocol_error(error) from error
    return failed(message_of(error), {"kind": "ServerRefused"})


def protocol_error(error: ServerRefused) -> Exception:
    """The protocol error of a server behind us, as it sent it."""
    from mcp import MCPError
    from mcp_types import INTERNAL_ERROR

    cause = error.__cause__
    return (
        MCPError.from_error_data(cause.error)
        if isinstance(cause, MCPError)
        else MCPError(INTERNAL_ERROR, message_of(error))
    )


def unmarked(result: Any) -> Any:
    """The result without the mark of the server that made it: to our client it comes from us."""
    from mcp_types import SERVER_INFO_META_KEY

    if not result.meta or SERVER_INFO_META_KEY not in result.meta:
        return result
    left = {key: value for key, value in result.meta.items() if key != SERVER_INFO_META_KEY}
    return result.model_copy(update={"meta": left or None})


def passed_task(server: str, result: Any) -> Any:
    """Return the task that a server behind has created, with its name before the id; any other result as it is."""
    task: Any = (getattr(result, "meta", None) or {}).get(TASK_META)
    return result if task is None else {**task, "taskId": f"{server}{TASK_SEPARATOR}{task['taskId']}"}


def missed(result: dict[str, Any]) -> str:
    """List what failed in a partial run; "" for any other run."""
    if result.get("status") != "partial":
        return ""
    message = [
        f"{e.get('nodeId') or e.get('node') or e.get('path')}: {e.get('message')}" for e in result.get("errors") or ()
    ]
    return "\n".join(["the run is partial; what failed:", *message])


def flow_failed(error: FlowFailed, paths: Mapping[str, str] | None = None) -> Any:
    """The result for a flow that did not reach its end; `paths` are those of its nodes that failed."""
    about: dict[str, Json] = {"kind": type(error).__name__}
    return failed(_of_flow(error, about, paths or {}), about)


def _of_flow(error: FlowFailed, about: dict[str, Json], paths: Mapping[str, str]) -> str:
    """The node that failed, its tool and why; the same goes into `about`."""
    result = error.result
    about |= {"runId": error.run_id, "status": error.status, "message": message_of(error)}
    message = result.get("error")
    listed = result.get("errors")
    if not isinstance(message, dict) and isinstance(listed, list) and listed:
        message = listed[-1]
    if not isinstance(message, dict):
        return f"{error} (run {error.run_id}, {error.status})"
    node = message.get("nodeId") or message.get("node") or message.get("path")
    names = ("path", "tool", "attempts", "message", "budgets")
    about |= {name: message[name] for name in names if message.get(name) is not None}
    if node:
        about["node"] = node
        about.setdefault("path", paths.get(str(node), node))
    where = f"node {node!r} failed" if node else f"the run ended as {error.status}"
    tool = f" in tool {message['tool']!r}" if message.get("tool") else ""
    return f"{where}{tool}: {message.get('message', '')} (run {error.run_id})"


def no_resource(ctx: Any, uri: str) -> Exception:
    """Return the error for a resource that does not exist."""
    from mcp import MCPError
    from mcp_types import INVALID_PARAMS
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    code = INVALID_PARAMS if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else _NOT_FOUND
    return MCPError(code, f"Resource not found: {uri}", {"uri": uri})
