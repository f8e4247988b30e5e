"""The toolbox over HTTP: list, look at, call."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field

from ...values import check_json
from . import shapes
from .answers import Answer, Route, Served
from .given import Asked

_PATIENCE = 2.0  # seconds for servers to connect; one that says nothing must not hold up the answer
ToolId = Annotated[str, Path(max_length=500, description="namespace:name, or a name.")]


class Arguments(Asked):
    arguments: dict[str, Any] = Field(default_factory=dict)


router = APIRouter(prefix="/api/tools", tags=["tools"], route_class=Route, default_response_class=Answer)


@router.get("", summary="List tools", response_model=shapes.ToolList)
async def ls(
    app: Served, text: Annotated[str, Query(max_length=500, description="In id or description.")] = ""
) -> Answer:
    """Every tool. Servers that cannot be reached are in `failures` with the reason, and those that have not answered
    yet in `connecting`: their tools are missing until they do."""
    connecting = await app.toolbox.connect_within(_PATIENCE)
    wanted = text.casefold()
    tools = sorted(app.toolbox.list(), key=lambda t: str(t.id))
    listed = [t.to_dict() for t in tools if wanted in f"{t.id}\n{t.description or ''}".casefold()]
    failures = {name: str(why) for name, why in app.toolbox.failures.items()}
    return Answer({"tools": listed, "failures": failures, "connecting": connecting})


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
    await app.toolbox.find(tool_id)
    value = await app.call_tool(tool_id, check_json(given.arguments, "arguments"))
    return Answer({"tool": tool_id, "result": value})
