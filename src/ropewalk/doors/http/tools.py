"""Tools over HTTP: list, select, show and call them."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import Field

from ...app.presenters import tool_list, tool_selection
from ...engine.stack_trace import trace_of_call
from ...errors import ConfigError, ExecutionFailed, OutputValidationFailed
from ...source.document import escape_invisible
from ...tools.reserved import is_built_in
from ...tools.tool import Tool
from ...values import check_json
from ..errors import error_message
from ..remedies import Door
from . import models
from .errors import Answer, Route, Served
from .flow_files import PATIENCE
from .models import OWN, RequestBody

log = logging.getLogger("ropewalk.tools")
MAX_LISTED = 1_000  # tools in one page

ToolId = Annotated[str, Path(max_length=500, description="namespace:name, or a name.")]


class Arguments(RequestBody):
    arguments: dict[str, Any] = Field(default_factory=dict)


stats_router = APIRouter(prefix="/api", tags=["tools"], route_class=Route, default_response_class=Answer)


@stats_router.get("/tool-stats", summary="Get tool statistics", response_model=models.ToolStats)
def stats(
    app: Served,
    since: models.Since = None,
    limit: Annotated[int, Query(ge=1, le=10_000, description="Maximum number of runs to read, newest first.")] = 1000,
) -> Answer:
    """Return calls, failures and durations of each tool in recorded runs."""
    return Answer(app.runs.tool_stats(since=models.instant("since", since), limit=limit))


router = APIRouter(prefix="/api/tools", tags=["tools"], route_class=Route, default_response_class=Answer)


@router.get("", summary="List tools", response_model=models.ToolList)
async def ls(
    app: Served,
    text: Annotated[str, Query(max_length=500, description="Text in the id or the description.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED, description="Maximum number of tools.")] = MAX_LISTED,
    after: Annotated[str, Query(max_length=500, description="`next` of the previous page.")] = "",
) -> Answer:
    """List the tools, ordered by id.

    `failures` has the reason for each server that cannot be reached. `connecting` has the servers that have not
    answered yet; their tools are missing until they do.
    """
    connecting = await app.toolbox.connect_within(PATIENCE)
    await app.jobs.connect_own()
    # In a thread: there may be a hundred thousand.
    result, total = await asyncio.to_thread(_matching, app.toolbox.list(), text.casefold(), after)
    page = result[:limit]
    return Answer(
        {
            **tool_list(app.context, page),
            "total": total,
            "next": str(page[-1].id) if len(result) > limit else None,
            "connecting": connecting,
        }
    )


def _matching(tools: list[Tool], text: str, after: str) -> tuple[list[Tool], int]:
    """Return the tools behind `after` that have the text, in the order of their ids, and how many have it in all."""
    matching = [tool for tool in tools if not text or text in f"{tool.id}\n{tool.description or ''}".casefold()]
    rest = [tool for tool in matching if str(tool.id) > after] if after else matching
    return sorted(rest, key=lambda tool: str(tool.id)), len(matching)


class SelectionBody(RequestBody):
    query: str = Field(max_length=10_000, description="The task in words.")
    limit: int = Field(5, ge=1, le=100)
    threshold: float | None = Field(None, ge=0, le=1, description="Minimum score.")


@router.post("/select", summary="Select tools", response_model=models.Selection)
async def select(body: SelectionBody, app: Served) -> Answer:
    """Select the tools that fit a request, best first, each with a confidence and the reasons.

    Tools of servers that have not answered yet are missing.
    """
    await app.toolbox.connect_within(PATIENCE)
    await app.jobs.connect_own()
    least: dict[str, Any] = {} if body.threshold is None else {"threshold": body.threshold}
    query = check_json(body.query, "query")
    # In a thread: the first request reads every tool.
    try:
        result = await asyncio.to_thread(lambda: app.selector.select(query, maxResults=body.limit, **least))
    except ConfigError as error:  # of the embedding model, which only the operator can repair
        log.warning("tools cannot be selected: %s", escape_invisible(error_message(error, Door.HTTP)))
        raise
    return Answer(tool_selection(app.jobs, result))


@router.get("/{tool_id:path}", summary="Get a tool", response_model=models.Tool)
async def get(tool_id: ToolId, app: Served) -> Answer:
    """Return one tool with its schemas."""
    return Answer((await app.jobs.find_tool(tool_id)).to_dict())


@router.post("/{tool_id:path}", summary="Call a tool", response_model=models.Called)
async def call(tool_id: ToolId, body: Arguments, app: Served) -> Answer:
    """Call one tool, with its validation, timeout, retries, cache and limits."""
    if is_built_in(tool_id) or str((await app.jobs.find_tool(tool_id)).id).startswith(OWN):
        raise HTTPException(403, f"{tool_id} is a part of agents and cannot be called alone; run an agent instead")
    try:
        value = await app.call_tool(tool_id, check_json(body.arguments, "arguments"))
    except (ExecutionFailed, OutputValidationFailed) as error:
        error.trace = trace_of_call(error)
        place = f" ({error.trace.at})" if error.trace.at else ""
        log.warning("%s%s", escape_invisible(error_message(error, Door.HTTP)), place)
        raise
    return Answer({"tool": tool_id, "result": value})
