"""`find_tools` and `call_tool`: what stands in a list in place of hundreds of tools.

A long list eats the context of a model and makes it choose worse. So it is shown two tools: one finds those that fit
a request, with their schemas, the other calls one of them. The selector of `select/` ranks them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from ...select.options import THRESHOLD
from ...values import Json, closest
from .answers import failed, given
from .finder import Finder
from .offer import Asked, Offered
from .schemas import shown_input

Find: TypeAlias = Callable[[str], Awaitable[Offered | None]]
"""Gives what is called by a name."""

FIND: Final = "find_tools"
CALL: Final = "call_tool"
_MOST: Final = 50
_USUAL: Final = 8
_ROW: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "description": {"type": "string"},
        "inputSchema": {"type": "object"},
        "score": {"type": "number"},
    },
    "required": ["name", "description", "inputSchema", "score"],
}
_OUTPUT: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "tools": {"type": "array", "items": _ROW},
        "total": {"type": "integer"},
        "fits": {"type": "boolean"},
        "note": {"type": "string"},
        "connecting": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Servers that have not listed their tools yet.",
        },
    },
    "required": ["tools", "total", "fits"],
}


def find_tools(tools: Mapping[str, Offered], finder: Finder) -> Offered:
    """The tool that finds the others."""
    names = (
        "the tools of this server by what you want to do; gives their names, descriptions and input schemas, best "
        "first, each with how sure one can be of it (score, 0 to 1), and says when none fits"
    )

    async def call(args: dict[str, Json], asked: Asked) -> Any:
        query, limit = args.get("query"), args.get("limit", _USUAL)
        if not isinstance(query, str) or not query.strip():
            return failed("query: say what you want to do", {"kind": "InvalidInput"})
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MOST:
            return failed(f"limit: a whole number from 1 to {_MOST}", {"kind": "InvalidInput"})
        found = [
            (name, tools[name], score) for name, score in await asyncio.to_thread(finder.best, tools, query, limit)
        ]
        finder.note(asked, query, [one.id for _, one, _ in found])
        rows = [
            {
                "name": name,
                "description": one.description,
                "inputSchema": shown_input(one.input_schema),
                "score": score,
            }
            for name, one, score in found
        ]
        fits = any(score >= THRESHOLD for _, _, score in found)
        said: dict[str, Json] = {"tools": rows, "total": len(tools), "fits": fits}
        if connecting := finder.connecting:
            said["connecting"] = connecting
        if fits:
            return given(said, _OUTPUT)
        near = "; those listed come nearest, and are probably not what is wanted" if found else ""
        note = f"no tool here fits this request (none has a score of {THRESHOLD:g} or more){near}"
        if connecting:
            note += f"; the tools of {', '.join(connecting)} are not known yet: ask again in a few seconds"
        return given({**said, "note": note}, _OUTPUT)

    return Offered(
        id=FIND,
        wanted=FIND,
        description=f"Finds {names}. Call what it finds with {CALL}.",
        input_schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What you want to do, in a few words."},
                "limit": {"type": "integer", "minimum": 1, "maximum": _MOST, "default": _USUAL},
            },
            "required": ["query"],
        },
        output_schema=_OUTPUT,
        annotations={"readOnlyHint": True},
        call=call,
    )


def call_tool(find: Find, tools: Mapping[str, Offered], finder: Finder) -> Offered:
    """The tool that calls the others by name; its answers are theirs."""

    async def call(args: dict[str, Json], asked: Asked) -> Any:
        name, arguments, request = args.get("name"), args.get("arguments", {}), args.get("request")
        tool = await find(name) if isinstance(name, str) and name not in (FIND, CALL) else None
        if tool is None:
            near = closest(str(name), tools)
            hint = f"; did you mean {near}?" if near else f"; ask {FIND}"
            return failed(f"name: there is no tool {name!r}{hint}", {"kind": "NotFound"})
        if not isinstance(arguments, dict):
            return failed("arguments: an object, by the input schema of the tool", {"kind": "InvalidInput"})
        if request is not None and not (isinstance(request, str) and request.strip()):
            return failed("request: the words that the tool was found by", {"kind": "InvalidInput"})
        return await finder.call(tool, arguments, asked, request)

    return Offered(
        id=CALL,
        wanted=CALL,
        description=f"Calls a tool that {FIND} has found.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": f"As {FIND} gives it."},
                "arguments": {"type": "object", "description": "By the input schema of that tool."},
                "request": {
                    "type": "string",
                    "description": f"What the tool is called for: the query of {FIND}. Later searches learn from it.",
                },
            },
            "required": ["name"],
        },
        call=call,
        verbatim=True,
    )
