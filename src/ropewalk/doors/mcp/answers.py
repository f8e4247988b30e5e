"""Values and errors as CallToolResults: one table from an error to what a client is told.

A tool that fails answers with `isError` and says which node failed, so that a model can react; only a request that
makes no sense is a protocol error. Texts of errors that nobody raised on purpose stay here, in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import orjson

from ...content import about_of, parts_in, to_mcp
from ...errors import FlowFailed, InvalidFlow, InvalidInput, RopewalkError, ToolError, ToolNotApproved, ValidationFailed
from ...source import visible
from ...told import RAN, has_run
from ...tools.mcp_request import BrokenResult, ServerRefused
from ...values import Json
from .schemas import shown_value

log = logging.getLogger("ropewalk.mcp.server")

RUN: Final = "ropewalk/run"
ERROR: Final = "ropewalk/error"
_LONGEST: Final = 4_000  # characters of an error; a model has to read them


def given(value: Json, schema: dict[str, Json] | None, *, about: dict[str, Json] | None = None, note: str = "") -> Any:
    """A value as structured content and, for clients that do not read that, as text. `note` is said beside it."""
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
    made: list[Any] = [{"type": "text", "text": text}]
    if not isinstance(value, str) and (inside := list(parts_in(value))):
        listed = value if isinstance(value, list) else [value]
        if all(isinstance(item, str) or about_of(item) is not None for item in listed):
            made = [
                {"type": "text", "text": one} if isinstance(one, str) else to_mcp(about_of(one) or {}) for one in listed
            ]
        else:
            made += [to_mcp(about) for about in {orjson.dumps(about): about for about in inside}.values()]
    return list(CallToolResult.model_validate({"content": made}).content)


def failed(message: str, about: dict[str, Json]) -> Any:
    """A result that says what went wrong, in words and (`_meta`) as data."""
    import mcp_types as types

    text = visible(message)
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    meta: Any = {ERROR: about}
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True, _meta=meta)


def explained(name: str, error: Exception) -> Any:
    """The result for what a call raised; raises MCPError for what is no answer of a tool."""
    if isinstance(error, ServerRefused):
        return _refused(error)
    about: dict[str, Json] = {"kind": type(error).__name__}
    if isinstance(error, FlowFailed):
        return flow_failed(error)
    if isinstance(error, InvalidFlow):  # what a refused tool says of itself may stand in it: for the operator only
        log.warning("%s cannot run now: %s", name, visible(str(error)))
        return failed("the flow cannot run now; the operator has to look at it: the log of the server has why", about)
    if isinstance(error, (InvalidInput, ValidationFailed)):
        about["problems"] = [{"path": p.path, "message": p.message} for p in error.problems]
        said = ["the arguments do not fit:", *map(str, error.problems)]
        return failed("\n".join(said) if error.problems else str(error), about)
    if isinstance(error, ToolNotApproved):
        log.warning("%s was called and is refused: %s", error.tool_id, visible(error.differs))
    if isinstance(error, ToolError):
        about["tool"] = error.tool_id
        if has_run(error):
            about["ran"] = True
        return failed(f"{error.tool_id}: {error.reason}" + (f"\n{RAN}" if has_run(error) else ""), about)
    if isinstance(error, (RopewalkError, ConnectionError, TimeoutError)):
        return failed(str(error), about)
    log.error("calling %s raised", name, exc_info=error)
    return failed("internal error; the log of the server has it", {"kind": "InternalError"})


def _refused(error: ServerRefused) -> Any:
    from mcp import MCPError

    if isinstance(error, BrokenResult):
        return failed(str(error), {"kind": "BrokenResult", "ran": True})
    if isinstance(error.__cause__, MCPError):
        raise protocol_error(error) from error
    return failed(str(error), {"kind": "ServerRefused"})


def protocol_error(error: ServerRefused) -> Exception:
    """The protocol error of a server behind us, as it sent it."""
    from mcp import MCPError
    from mcp_types import INTERNAL_ERROR

    cause = error.__cause__
    return (
        MCPError.from_error_data(cause.error) if isinstance(cause, MCPError) else MCPError(INTERNAL_ERROR, str(error))
    )


def unmarked(result: Any) -> Any:
    """The result without the mark of the server that made it: to our client it comes from us."""
    from mcp_types import SERVER_INFO_META_KEY

    if not result.meta or SERVER_INFO_META_KEY not in result.meta:
        return result
    left = {key: value for key, value in result.meta.items() if key != SERVER_INFO_META_KEY}
    return result.model_copy(update={"meta": left or None})


def flow_failed(error: FlowFailed, paths: Mapping[str, str] | None = None) -> Any:
    """The result for a flow that did not reach its end; `paths` are those of its nodes that failed."""
    about: dict[str, Json] = {"kind": type(error).__name__}
    return failed(_of_flow(error, about, paths or {}), about)


def _of_flow(error: FlowFailed, about: dict[str, Json], paths: Mapping[str, str]) -> str:
    """The node that failed, its tool and why; the same goes into `about`."""
    result = error.result
    about |= {"runId": error.run_id, "status": error.status, "message": str(error)}
    said = result.get("error")
    listed = result.get("errors")
    if not isinstance(said, dict) and isinstance(listed, list) and listed:
        said = listed[-1]
    if not isinstance(said, dict):
        return f"{error} (run {error.run_id}, {error.status})"
    node = said.get("nodeId") or said.get("node") or said.get("path")
    about |= {key: said[key] for key in ("path", "tool", "attempts", "message") if said.get(key) is not None}
    if node:
        about["node"] = node
        about.setdefault("path", paths.get(str(node), node))
    where = f"node {node!r} failed" if node else f"the run ended as {error.status}"
    tool = f" in tool {said['tool']!r}" if said.get("tool") else ""
    return f"{where}{tool}: {said.get('message', '')} (run {error.run_id})"
