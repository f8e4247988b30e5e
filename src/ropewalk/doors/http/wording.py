"""Errors in the words of somebody on HTTP: routes for commands, keys for options, what a request should have been."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fastapi import Request
from fastapi.routing import APIRoute

from ...errors import ToolError, ToolNotApproved
from ...values import closest

_WORDS: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        (r"ropewalk runs retry (\S+) --from (\S+)", r'POST /api/runs/\1/retry with {"nodes": ["\2"]}'),
        (r"ropewalk resume (\S+) --upgrade FILE", r"ropewalk resume \1 --upgrade FILE, on the server's host"),
        (r"ropewalk resume (\S+)(?! --upgrade)", r"POST /api/runs/\1/resume"),
        (r"\(--from NODE\)", '("nodes" in the body)'),
        (r"add --from (\S+)", r'add "\1" to "nodes"'),
    )
)
"""What the rest of the program tells people to type, and the request that does the same."""


def message_of(error: BaseException) -> str:
    """What an error says here."""
    if isinstance(error, ToolError):
        return f"tool {error.tool_id}: {error.differs if isinstance(error, ToolNotApproved) else error.reason}"
    said = str(error)
    for pattern, instead in _WORDS:
        said = pattern.sub(instead, said)
    return said


def operation_id(route: APIRoute) -> str:
    """What programs that are made of the OpenAPI document call a route: `start_run`."""
    return re.sub(r" (?:an?|the) | ", "_", route.summary or route.name).lower()


def no_route(request: Request, status: int) -> tuple[str, str] | None:
    """Kind and message for a path or a method that nothing answers; None where it is not that."""
    path, method = request.url.path, request.method
    routes: list[APIRoute] = [route for route in request.app.state.routes if route.include_in_schema]
    takes = sorted({name for route in routes if route.path_regex.match(path) for name in route.methods or ()})
    if status == 405 and takes:
        hint = _meant(path, [route for route in routes if method in (route.methods or ())])
        return "MethodNotAllowed", f"{path} takes {' and '.join(takes)}, not {method}{hint}"
    if status in (404, 405):
        near = closest(path, (route.path_format for route in routes))
        hint = f"; did you mean {near}?" if near else ""
        return "NotFound", f"no route {path}{hint}; GET /api/openapi.json describes every one"
    return None


def _meant(path: str, routes: Sequence[APIRoute]) -> str:
    """The route whose last word was misspelt: `/api/runs/ID/rety`."""
    words = {route.path_format.rpartition("/")[2]: route.path_format for route in routes}
    near = closest(path.rpartition("/")[2], [word for word in words if "{" not in word])
    return "" if near is None else f"; did you mean {words[near]}?"
