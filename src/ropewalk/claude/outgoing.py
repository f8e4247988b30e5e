"""The last step before the Messages API: nothing that it refuses is sent.

`sendable` converts or drops whatever the API would refuse and says what it changed, because one bad block or tool
makes the API refuse the request, and with it every later request of the conversation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import orjson

from ..dialects.agent_blocks import EMPTY
from ..values import Json
from .blocks import Note, clean_blocks
from .definitions import checked_definition
from .model import Request
from .pairs import ordered

MOST_MARKS: Final = 4
"""Blocks with `cache_control` that the API accepts in one request."""
LEAST_THINKING: Final = 1024
"""Tokens that the API asks of a budget for thinking, at least."""


def sendable(request: Request, refused: Collection[str] = ()) -> tuple[Request, tuple[str, ...]]:
    """Make a request that the Messages API accepts.

    Args:
        request: Any request. It is not changed.
        refused: Digests (`block_digest`) of blocks that the API refused before; they are left out.

    Returns:
        The request to send, and for each change a sentence that names the tool or block.
    """
    if request.checked:
        return request, ()
    notes: dict[str, None] = {}

    def note(place: str, what: str) -> None:
        notes[f"{place}: {what}"] = None

    request = _without_surrogates(request, note)
    system, messages = _messages(request, note, refused)
    tools = _tools(request.tools, note)
    _limit_marks(tools, messages, note)
    options = _options(request, tools, note)
    made = replace(
        request, messages=messages, system=system, tools=tools, options=options, checked=True
    )  # fmt: skip
    return made, tuple(notes)


def _messages(request: Request, note: Note, refused: Collection[str]) -> tuple[str, list[dict[str, Any]]]:
    """The system prompt and the messages; a system prompt inside of the conversation joins the first one."""
    system = [request.system] if request.system.strip() else []
    if request.system and not system:
        note("system", "it is blank; it was left out")
    found: list[dict[str, Any]] = []
    for i, message in enumerate(request.messages):
        place, role = f"messages[{i}]", str(message.get("role"))
        if role in ("system", "developer"):
            note(place, "it is a system prompt inside of the conversation; it was sent as the system prompt")
            system += [block["text"] for block in clean_blocks(message.get("content"), "user", place, note)
                       if block["type"] == "text"]  # fmt: skip
            continue
        if role not in ("user", "assistant"):
            note(place, f"its role {role!r} is not known; it was sent as the user's")
            role = "user"
        blocks = clean_blocks(message.get("content"), role, place, note, refused)
        if not blocks and role == "user" and message.get("content") != []:
            blocks = [{"type": "text", "text": EMPTY}]
        plain = not isinstance(message.get("content"), list)
        found.append({"role": role, "content": blocks, "place": place, "plain": plain})
    made = ordered(found, note)
    return "\n\n".join(system), made or [{"role": "user", "content": EMPTY}]


def _tools(tools: Sequence[Mapping[str, Any]], note: Note) -> list[dict[str, Any]]:
    """The definitions that the API accepts, each name once."""
    found: dict[str, dict[str, Any]] = {}
    for tool in tools:
        name = str(tool.get("name"))
        definition, problems = _definition(orjson.dumps(tool, option=orjson.OPT_NON_STR_KEYS))
        for problem in problems:
            note(f"tool {name}", problem)
        if definition is not None and name in found:
            note(f"tool {name}", "another tool has this name; it was left out")
        elif definition is not None:
            found[name] = dict(definition)
    return list(found.values())


@lru_cache(maxsize=512)
def _definition(raw: bytes) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    return checked_definition(orjson.loads(raw))


# --- marks of the prompt cache --------------------------------------------------------------------


def _limit_marks(tools: list[dict[str, Any]], messages: list[dict[str, Any]], note: Note) -> None:
    """Keep the last four valid `cache_control` marks, wherever they are nested."""
    marked: list[tuple[str, dict[str, Any]]] = []
    for i, tool in enumerate(tools):
        tools[i] = _marks_in(tool, f"tool {tool['name']}", marked, note)
    for i, message in enumerate(messages):
        if isinstance(message["content"], list):
            place = f"messages[{i}]"
            blocks = [_marks_in(block, place, marked, note) for block in message["content"]]
            messages[i] = {**message, "content": blocks}
    for place, holder in marked[:-MOST_MARKS]:
        del holder["cache_control"]
        note(place, f"a request may have {MOST_MARKS} cache_control marks; the first ones were left out")
    short = False
    for place, holder in marked[-MOST_MARKS:]:
        if holder["cache_control"].get("ttl") == "1h" and short:
            holder["cache_control"] = {"type": "ephemeral"}
            note(place, "cache_control of an hour may not follow one of five minutes; it was shortened")
        short = short or holder["cache_control"].get("ttl") != "1h"


def _marks_in(
    block: dict[str, Any], place: str, marked: list[tuple[str, dict[str, Any]]], note: Note
) -> dict[str, Any]:
    """A copy of the block in which each mark can be taken away; invalid ones already are."""
    block = dict(block)
    inner = block.get("content")
    if isinstance(inner, list) and block.get("type") in ("tool_result", "search_result"):
        block["content"] = [_marks_in(part, place, marked, note) for part in inner]
    mark = block.get("cache_control")
    if "cache_control" not in block:
        return block
    ttl = mark.get("ttl", "5m") if isinstance(mark, Mapping) else None
    if isinstance(mark, Mapping) and mark.get("type") == "ephemeral" and ttl in ("5m", "1h"):
        block["cache_control"] = {key: mark[key] for key in ("type", "ttl") if key in mark}
        marked.append((place, block))
        return block
    del block["cache_control"]
    if mark is not None:
        note(place, "its cache_control is not valid; it was left out")
    return block


# --- options --------------------------------------------------------------------------------------


def _options(request: Request, tools: Sequence[Mapping[str, Any]], note: Note) -> dict[str, Json]:
    options: dict[str, Any] = dict(request.options)
    options = limit_thinking(options, request.max_tokens, note)
    choice = options.get("tool_choice")
    if isinstance(choice, Mapping):
        options["tool_choice"] = _choice(choice, tools, options.get("thinking"), note)
        if options["tool_choice"] is None:
            del options["tool_choice"]
    stops = options.get("stop_sequences")
    if isinstance(stops, list):
        options["stop_sequences"] = [text for text in stops if isinstance(text, str) and text.strip()]
        if len(options["stop_sequences"]) < len(stops):
            note("stop_sequences", "a blank one was left out")
    return options


def limit_thinking(options: dict[str, Any], most: int | None, note: Note = lambda place, what: None) -> dict[str, Any]:
    """Return options in which the budget for thinking is one that the API accepts beside `most` tokens of answer."""
    thinking = options.get("thinking")
    if not isinstance(thinking, Mapping) or thinking.get("type") != "enabled":
        return options
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int) or budget < LEAST_THINKING:
        note("thinking", f"its budget must be at least {LEAST_THINKING:,} tokens; {LEAST_THINKING:,} was sent")
        budget = LEAST_THINKING
    if most is not None and budget >= most:
        budget = most - 1
        note("thinking", f"its budget must be below max_tokens; {budget:,} was sent")
    if budget < LEAST_THINKING:
        note("thinking", f"max_tokens leaves less than {LEAST_THINKING:,} tokens for it; it was left out")
        return {key: value for key, value in options.items() if key != "thinking"}
    return {**options, "thinking": {**thinking, "budget_tokens": budget}}


def _choice(
    choice: Mapping[str, Any], tools: Sequence[Mapping[str, Any]], thinking: Any, note: Note
) -> dict[str, Any] | None:
    kind = choice.get("type")
    if not tools:
        note("tool_choice", "there are no tools to choose from; it was left out")
        return None
    if kind == "tool" and choice.get("name") not in {tool["name"] for tool in tools}:
        note("tool_choice", f"the tool {choice.get('name')!r} was left out; the model chooses by itself")
        return None
    forced = kind in ("any", "tool")
    if forced and isinstance(thinking, Mapping) and thinking.get("type") in ("enabled", "adaptive"):
        note("tool_choice", "a model that thinks cannot be made to call a tool; it chooses by itself")
        return None
    known = {"type"} | ({"name"} if kind == "tool" else set())
    known |= {"disable_parallel_tool_use"} if kind != "none" else set()
    return {key: value for key, value in choice.items() if key in known}


# --- lone surrogates ------------------------------------------------------------------------------


def _without_surrogates(request: Request, note: Note) -> Request:
    """The request in valid Unicode; UTF-8 has no form for half of a surrogate pair."""
    given = [request.system, list(request.messages), list(request.tools), dict(request.options), request.schema]
    try:
        orjson.dumps(given, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError):
        pass
    else:
        return request
    parts: dict[str, Any] = {
        "system": _valid(request.system, "system", note),
        "messages": [_valid(message, f"messages[{i}]", note) for i, message in enumerate(request.messages)],
        "tools": [_valid(tool, f"tool {tool.get('name')!a}", note) for tool in request.tools],
        "options": _valid(dict(request.options), "options", note),
        "schema": _valid(request.schema, "output schema", note),
    }
    return replace(request, **parts)


def _valid(value: Any, place: str, note: Note) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            note(place, "it holds half of a surrogate pair, which is not a character; it was replaced")
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, Mapping):
        return {_valid(key, place, note): _valid(inner, place, note) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_valid(inner, place, note) for inner in value]
    return value


__all__ = ["limit_thinking", "sendable"]
