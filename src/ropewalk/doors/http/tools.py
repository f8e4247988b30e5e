"""The toolbox over HTTP: list, look at, call."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import Field

from ...tools.tool import Tool
from ...values import check_json
from . import shapes
from .answers import Answer, Route, Served
from .given import OWN, Asked

MOST_LISTED = 1_000  # tools in one page

_PATIENCE = 2.0  # seconds for servers to connect; one that says nothing must not hold up the answer
ToolId = Annotated[str, Path(max_length=500, description="namespace:name, or a name.")]


class Arguments(Asked):
    arguments: dict[str, Any] = Field(default_factory=dict)


router = APIRouter(prefix="/api/tools", tags=["tools"], route_class=Route, default_response_class=Answer)


@router.get("", summary="List tools", response_model=shapes.ToolList)
async def ls(
    app: Served,
    text: Annotated[str, Query(max_length=500, description="In id or description.")] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED, description="How many tools, at most 1000.")] = MOST_LISTED,
    after: Annotated[str, Query(max_length=500, description="The last tool of the page before: `next`.")] = "",
) -> Answer:
    """Tools in the order of their ids. Servers that cannot be reached are in `failures` with the reason, and those that
    have not answered yet in `connecting`: their tools are missing until they do."""
    connecting = await app.toolbox.connect_within(_PATIENCE)
    # In a thread: there may be a hundred thousand.
    found, total = await asyncio.to_thread(_matching, app.toolbox.list(), text.casefold(), after)
    page = found[:limit]
    return Answer(
        {
            "tools": [tool.to_dict() for tool in page],
            "total": total,
            "next": str(page[-1].id) if len(found) > limit else None,
            "failures": {name: str(why) for name, why in app.toolbox.failures.items()},
            "connecting": connecting,
        }
    )


def _matching(tools: list[Tool], text: str, after: str) -> tuple[list[Tool], int]:
    """Return the tools behind `after` that have the text, in the order of their ids, and how many have it in all."""
    known = [tool for tool in tools if not text or text in f"{tool.id}\n{tool.description or ''}".casefold()]
    rest = [tool for tool in known if str(tool.id) > after] if after else known
    return sorted(rest, key=lambda tool: str(tool.id)), len(known)


class Wanted(Asked):
    query: str = Field(max_length=10_000, description="What is to be done, in words.")
    limit: int = Field(5, ge=1, le=100)
    threshold: float | None = Field(None, ge=0, le=1, description="The least score.")


@router.post("/select", summary="Select tools", response_model=shapes.Selection)
async def select(given: Wanted, app: Served) -> Answer:
    """The tools that fit a request, the best first, with how sure one can be of each and why. Those of servers that
    have not answered yet are not among them."""
    await app.toolbox.connect_within(_PATIENCE)
    least: dict[str, Any] = {} if given.threshold is None else {"threshold": given.threshold}
    query = check_json(given.query, "query")
    # In a thread: the first request reads every tool.
    found = await asyncio.to_thread(lambda: app.selector.select(query, maxResults=given.limit, **least))
    return Answer(found.to_dict())


@router.get("/{tool_id:path}", summary="Get a tool", response_model=shapes.Tool)
async def get(tool_id: ToolId, app: Served) -> Answer:
    """One tool with its schemas."""
    return Answer((await app.toolbox.find(tool_id)).to_dict())


@router.post("/{tool_id:path}", summary="Call a tool", response_model=shapes.Called)
async def call(tool_id: ToolId, given: Arguments, app: Served) -> Answer:
    """Call one tool with the whole pipeline around it."""
    if tool_id.startswith(OWN) or str((await app.toolbox.find(tool_id)).id).startswith(OWN):
        raise HTTPException(403, f"{tool_id} is a part of agents and not called by itself; run an agent instead")
    value = await app.call_tool(tool_id, check_json(given.arguments, "arguments"))
    return Answer({"tool": tool_id, "result": value})
