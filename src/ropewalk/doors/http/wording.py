"""Errors in the words of somebody on HTTP: routes for commands, keys for options, what a request should have been."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, get_args

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel

from ...errors import ToolError
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
        return f"tool {error.tool_id}: {error.reason}"
    said = str(error)
    for pattern, instead in _WORDS:
        said = pattern.sub(instead, said)
    return said


def no_route(request: Request, status: int) -> tuple[str, str] | None:
    """Kind and message for a path or a method that nothing answers; None where it is not that."""
    path, method = request.url.path, request.method
    routes: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    fitting = [known for known in routes if re.fullmatch(re.sub(r"\{\w+\}", ".+", known), path)]
    takes = sorted({name.upper() for known in fitting for name in routes[known]})
    if status == 405 and takes:
        return "MethodNotAllowed", f"{path} takes {' and '.join(takes)}, not {method}"
    if status in (404, 405):
        near = closest(path, routes)
        hint = f"; did you mean {near}?" if near else ""
        return "NotFound", f"no route {path}{hint}; GET /api/openapi.json describes every one"
    return None


def unknown_key(request: Request, place: Sequence[Any]) -> tuple[str, str | None]:
    """What is said of a key that a body does not have, and which one was probably meant."""
    route = request.scope.get("route")
    field = route.body_field if isinstance(route, APIRoute) else None
    model: Any = field.field_info.annotation if field is not None else None
    for part in place[1:-1]:
        model = _model(model.model_fields[part].annotation) if isinstance(part, str) and model else None
    if model is None:
        return "no such key", None
    keys = [one.alias or name for name, one in model.model_fields.items()]
    return f"no such key; there are {', '.join(keys)}", closest(str(place[-1]), keys)


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model in `Model | None`."""
    found = [one for one in (annotation, *get_args(annotation)) if isinstance(one, type) and issubclass(one, BaseModel)]
    return found[0] if found else None
