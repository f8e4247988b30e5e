"""`find_tools` and `call_tool`: what stands in a list in place of hundreds of tools.

A long list eats the context of a model and makes it choose worse. So it is shown two tools: one finds those that fit
a request, with their schemas, the other calls one of them. What ranks them is a `Select`, the app's selector where it
has one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from ...values import Json, closest
from .answers import failed, given
from .offer import Asked, Offered
from .schemas import shown_input

FIND: Final = "find_tools"
CALL: Final = "call_tool"
_MOST: Final = 50
_USUAL: Final = 8
_WORD: Final = re.compile(r"[a-z0-9]+")
_STEM: Final = 4  # letters that two forms of a word share at least


class Select(Protocol):
    """Ranks tools for a request: ids, the best first, at most `limit`, only those that fit."""

    def __call__(self, query: str, tools: Sequence[Offered], limit: int, /) -> list[str]: ...


def find_tools(tools: Mapping[str, Offered], select: Select) -> Offered:
    """The tool that finds the others; `tools` is read at each call."""
    names = "the tools of this server by what you want to do; gives their names, descriptions and input schemas"
    found: dict[str, Json] = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "description": {"type": "string"},
            "inputSchema": {"type": "object"},
        },
        "required": ["name", "description", "inputSchema"],
    }
    output: dict[str, Json] = {
        "type": "object",
        "properties": {"tools": {"type": "array", "items": found}, "total": {"type": "integer"}},
        "required": ["tools", "total"],
    }

    async def call(args: dict[str, Json], asked: Asked) -> Any:
        query, limit = args.get("query"), args.get("limit", _USUAL)
        if not isinstance(query, str) or not query.strip():
            return failed("query: say what you want to do", {"kind": "InvalidInput"})
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _MOST:
            return failed(f"limit: a whole number from 1 to {_MOST}", {"kind": "InvalidInput"})
        by_id = {one.id: (name, one) for name, one in tools.items()}
        best = [by_id[id] for id in select(query, list(tools.values()), limit) if id in by_id]
        rows = [
            {"name": name, "description": one.description, "inputSchema": shown_input(one.input_schema)}
            for name, one in best
        ]
        return given({"tools": rows, "total": len(tools)}, output)

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
        output_schema=output,
        annotations={"readOnlyHint": True},
        call=call,
    )


def call_tool(tools: Mapping[str, Offered]) -> Offered:
    """The tool that calls the others by name; its answers are theirs."""

    async def call(args: dict[str, Json], asked: Asked) -> Any:
        name, arguments = args.get("name"), args.get("arguments", {})
        tool = tools.get(name) if isinstance(name, str) else None
        if tool is None:
            near = closest(str(name), tools)
            hint = f"; did you mean {near}?" if near else f"; ask {FIND}"
            return failed(f"name: there is no tool {name!r}{hint}", {"kind": "NotFound"})
        if not isinstance(arguments, dict):
            return failed("arguments: an object, by the input schema of the tool", {"kind": "InvalidInput"})
        return await tool.call(arguments, asked)

    return Offered(
        id=CALL,
        wanted=CALL,
        description=f"Calls a tool that {FIND} has found.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": f"As {FIND} gives it."},
                "arguments": {"type": "object", "description": "By the input schema of that tool."},
            },
            "required": ["name"],
        },
        call=call,
        verbatim=True,
    )


def by_words(query: str, tools: Sequence[Offered], limit: int) -> list[str]:
    """Those that share words with the request, in their name above all. Good enough for small lists."""
    asked = set(_WORD.findall(query.lower()))
    scored = []
    for tool in tools:
        name = set(_WORD.findall(tool.wanted.lower().replace("_", " ")))
        text = set(_WORD.findall(tool.description.lower()))
        score = sum(3 * _shared(word, name) + _shared(word, text) for word in asked)
        if score:
            scored.append((-score, tool.id))
    return [id for _, id in sorted(scored)[:limit]]


def _shared(word: str, words: set[str]) -> bool:
    if word in words:
        return True
    return len(word) >= _STEM and any(w.startswith(word[:-1]) or word.startswith(w) for w in words if len(w) >= _STEM)
