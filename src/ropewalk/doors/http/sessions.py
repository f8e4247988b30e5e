"""The end of browser sessions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from ...guard import SESSION, SESSIONS
from ...sessions import Sessions
from .answers import Answer, Route

router = APIRouter(prefix="/api", tags=["sessions"], route_class=Route, default_response_class=Answer)


class Ended(BaseModel):
    ended: int = Field(description="How many sessions have been ended.")


@router.post("/logout", summary="Log out", response_model=Ended)
def logout(
    request: Request,
    all: Annotated[bool, Query(description="End the sessions of every browser, not only this one.")] = False,
) -> Answer:
    """End the browser session that the request came with, and take its cookie back. The token stays valid."""
    sessions: Sessions = request.scope[SESSIONS]
    session: str | None = request.scope[SESSION]
    ended = 0
    if session is not None:
        sessions.end(session)
        ended = 1
    if all:
        ended += sessions.end_all()
    server: Any = request.scope.get("server")
    cookie = sessions.clear_cookie(server[1] if server else None).decode()
    return Answer({"ended": ended}, headers={"set-cookie": cookie})
