"""Clean requests to the Messages API, and find the part of a request that it refused.

`to_sendable_request` converts or drops what the API would refuse and notes each change. Without it, one bad block or
tool would make the API refuse every later request of the conversation.

`find_refused_part` handles a refusal that happens anyway. It becomes a turn of its own, journaled like every other, in
which the model says nothing. The next turn leaves the part out, also in a process that resumes the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import orjson

from ..errors import ModelError
from ..notations.agent import EMPTY, MAX_REFUSALS
from ..values import Json, digest
from .content_blocks import Note, block_digest, clean_blocks, order_messages, start_of_pause
from .model import Request
from .tool_definitions import check_definition

MAX_CACHE_MARKS: Final = 4
"""Blocks with `cache_control` that the API accepts in one request."""
MIN_THINKING_TOKENS: Final = 1024
"""The smallest budget for thinking that the API accepts, in tokens."""


def to_sendable_request(request: Request, refused: Collection[str] = ()) -> tuple[Request, tuple[str, ...]]:
    """Return a request that the Messages API accepts."""
    if request.checked:
        return request, ()
    notes: dict[str, None] = {}

    def note(place: str, change: str) -> None:
        notes[f"{place}: {change}"] = None

    request = _without_surrogates(request, note)
    system, messages = _clean_messages(request, note, refused)
    tools = _clean_tools(request.tools, note)
    _limit_marks(tools, messages, note)
    options = _clean_options(request, tools, note)
    checked = replace(request, messages=messages, system=system, tools=tools, options=options, checked=True)
    return checked, tuple(notes)


def _clean_messages(request: Request, note: Note, refused: Collection[str]) -> tuple[str, list[dict[str, Any]]]:
    """Return the system prompt and the messages; system messages in the conversation join the system prompt."""
    system = [request.system] if request.system.strip() else []
    if request.system and not system:
        note("system", "it is blank; it was left out")
    cleaned: list[dict[str, Any]] = []
    # If the API has refused the unchanged content of a paused turn, it is converted like any other.
    paused = len(request.messages) if request.refused else start_of_pause(request.messages, refused)
    for i, message in enumerate(request.messages):
        place, role = f"messages[{i}]", str(message.get("role"))
        if role in ("system", "developer"):
            note(place, "a system message inside the conversation was sent as the system prompt")
            blocks = clean_blocks(message.get("content"), "user", place, note)
            system += [block["text"] for block in blocks if block["type"] == "text"]
            continue
        if role not in ("user", "assistant"):
            note(place, f"its role {role!r} is not known; it was sent as the user's")
            role = "user"
        if i >= paused:
            blocks = [dict(block) for block in message["content"]]
            cleaned.append({"role": role, "content": blocks, "place": place, "paused": True})
            continue
        # A user message with no blocks left keeps its place, so that the roles still alternate.
        blocks = clean_blocks(message.get("content"), role, place, note, refused)
        if not blocks and role == "user" and message.get("content") != []:
            blocks = [{"type": "text", "text": EMPTY}]
        plain = not isinstance(message.get("content"), list)
        cleaned.append({"role": role, "content": blocks, "place": place, "plain": plain})
    in_order = order_messages(cleaned, note)
    return "\n\n".join(system), in_order or [{"role": "user", "content": EMPTY}]


def _clean_tools(tools: Sequence[Mapping[str, Any]], note: Note) -> list[dict[str, Any]]:
    """Return the definitions that the API accepts, one for each name."""
    definitions: dict[str, dict[str, Any]] = {}
    for tool in tools:
        name = str(tool.get("name"))
        definition, problems = _check_definition(orjson.dumps(tool, option=orjson.OPT_NON_STR_KEYS))
        for problem in problems:
            note(f"tool {name}", problem)
        if definition is not None and name in definitions:
            note(f"tool {name}", "another tool has this name; it was left out")
        elif definition is not None:
            definitions[name] = dict(definition)
    return list(definitions.values())


@lru_cache(maxsize=512)
def _check_definition(raw: bytes) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    return check_definition(orjson.loads(raw))


# --- marks of the prompt cache --------------------------------------------------------------------


def _limit_marks(tools: list[dict[str, Any]], messages: list[dict[str, Any]], note: Note) -> None:
    """Keep the last four valid `cache_control` marks, wherever they are nested."""
    marked: list[tuple[str, dict[str, Any]]] = []
    for i, tool in enumerate(tools):
        tools[i] = _copy_with_marks(tool, f"tool {tool['name']}", marked, note)
    for i, message in enumerate(messages):
        if isinstance(message["content"], list):
            place = f"messages[{i}]"
            blocks = [_copy_with_marks(block, place, marked, note) for block in message["content"]]
            messages[i] = {**message, "content": blocks}
    for place, holder in marked[:-MAX_CACHE_MARKS]:
        del holder["cache_control"]
        note(place, f"a request may have {MAX_CACHE_MARKS} cache_control marks; the first ones were left out")
    # The API also requires that marks of an hour come first.
    has_short_ttl = False
    for place, holder in marked[-MAX_CACHE_MARKS:]:
        if holder["cache_control"].get("ttl") == "1h" and has_short_ttl:
            holder["cache_control"] = {"type": "ephemeral"}
            note(place, "cache_control of an hour may not follow one of five minutes; it was shortened")
        has_short_ttl = has_short_ttl or holder["cache_control"].get("ttl") != "1h"


def _copy_with_marks(
    block: dict[str, Any], place: str, marked: list[tuple[str, dict[str, Any]]], note: Note
) -> dict[str, Any]:
    """Copy a block and its inner blocks without invalid marks, and append the holders of valid ones to `marked`."""
    block = dict(block)
    inner = block.get("content")
    if isinstance(inner, list) and block.get("type") in ("tool_result", "search_result"):
        block["content"] = [_copy_with_marks(part, place, marked, note) for part in inner]
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


def _clean_options(request: Request, tools: Sequence[Mapping[str, Any]], note: Note) -> dict[str, Json]:
    options: dict[str, Any] = dict(request.options)
    options = limit_thinking(options, request.max_tokens, note)
    choice = options.get("tool_choice")
    if isinstance(choice, Mapping):
        options["tool_choice"] = _clean_tool_choice(choice, tools, options.get("thinking"), note)
        if options["tool_choice"] is None:
            del options["tool_choice"]
    stops = options.get("stop_sequences")
    if isinstance(stops, list):
        options["stop_sequences"] = [text for text in stops if isinstance(text, str) and text.strip()]
        if len(options["stop_sequences"]) < len(stops):
            note("stop_sequences", "a blank stop sequence was left out")
    return options


def limit_thinking(
    options: dict[str, Any], max_tokens: int | None, note: Note = lambda place, change: None
) -> dict[str, Any]:
    """Return options with a thinking budget that the API accepts together with `max_tokens`."""
    thinking = options.get("thinking")
    if not isinstance(thinking, Mapping) or thinking.get("type") != "enabled":
        return options
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int) or budget < MIN_THINKING_TOKENS:
        note(
            "thinking", f"its budget must be at least {MIN_THINKING_TOKENS:,} tokens; {MIN_THINKING_TOKENS:,} was sent"
        )
        budget = MIN_THINKING_TOKENS
    if max_tokens is not None and budget >= max_tokens:
        budget = max_tokens - 1
        note("thinking", f"its budget must be below max_tokens; {budget:,} was sent")
    if budget < MIN_THINKING_TOKENS:
        note("thinking", f"max_tokens leaves less than {MIN_THINKING_TOKENS:,} tokens for it; it was left out")
        return {key: value for key, value in options.items() if key != "thinking"}
    return {**options, "thinking": {**thinking, "budget_tokens": budget}}


def _clean_tool_choice(
    choice: Mapping[str, Any], tools: Sequence[Mapping[str, Any]], thinking: Any, note: Note
) -> dict[str, Any] | None:
    kind = choice.get("type")
    if not tools:
        note("tool_choice", "the request has no tools; it was left out")
        return None
    if kind == "tool" and choice.get("name") not in {tool["name"] for tool in tools}:
        note("tool_choice", f"the tool {choice.get('name')!r} was left out; the model chooses by itself")
        return None
    forced = kind in ("any", "tool")
    if forced and isinstance(thinking, Mapping) and thinking.get("type") in ("enabled", "adaptive"):
        note(
            "tool_choice",
            "the API does not allow a forced tool call together with thinking; the model chooses by itself",
        )
        return None
    known = {"type"} | ({"name"} if kind == "tool" else set())
    known |= {"disable_parallel_tool_use"} if kind != "none" else set()
    return {key: value for key, value in choice.items() if key in known}


# --- lone surrogates ------------------------------------------------------------------------------


def _without_surrogates(request: Request, note: Note) -> Request:
    """Replace lone surrogates in a request, which UTF-8 cannot encode."""
    values = [request.system, list(request.messages), list(request.tools), dict(request.options), request.schema]
    try:
        orjson.dumps(values, option=orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError):
        pass
    else:
        return request
    parts: dict[str, Any] = {
        "system": _replace_surrogates(request.system, "system", note),
        "messages": [
            _replace_surrogates(message, f"messages[{i}]", note) for i, message in enumerate(request.messages)
        ],
        "tools": [_replace_surrogates(tool, f"tool {tool.get('name')!a}", note) for tool in request.tools],
        "options": _replace_surrogates(dict(request.options), "options", note),
        "schema": _replace_surrogates(request.schema, "output schema", note),
    }
    return replace(request, **parts)


def _replace_surrogates(value: Any, place: str, note: Note) -> Any:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            note(place, "it contains half of a surrogate pair, which is not a character; it was replaced")
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, Mapping):
        return {
            _replace_surrogates(key, place, note): _replace_surrogates(inner, place, note)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_replace_surrogates(inner, place, note) for inner in value]
    return value


_ACCOUNT_PATTERN: Final = r"credit balance|billing|usage limit|spend limit|organization|workspace|api key"
_TOOL_PATTERN: Final = r"^tools\.(\d+)\b"
_BLOCK_PATTERN: Final = r"^messages\.(\d+)\.content\.(\d+)((?:\.\w+)*)"
_NESTED_PATTERN: Final = r"^\.tool_result\.content\.(\d+)\b"
_SCHEMA_PATTERN: Final = (
    r"output_config|output_format|output format|structured output|compiled grammar|schema is too complex"
)
_ESSENTIAL_TYPES: Final = ("text", "tool_use", "tool_result")
"""Types of blocks that cannot be left out of a conversation."""


def is_about_account(message: str) -> bool:
    """Return True if a refusal is about the account, such as one for lack of credit, and not about the request."""
    return re.search(_ACCOUNT_PATTERN, message, re.IGNORECASE) is not None


def find_refused_part(message: str, body: Mapping[str, Any]) -> dict[str, str] | None:
    """Find the part of a request that a refusal is about."""
    if is_about_account(message):
        return None
    # The API names a part by its position, or a tool by its name.
    tools = body.get("tools") or []
    match = re.search(_TOOL_PATTERN, message)
    if match and int(match[1]) < len(tools):
        return {"tool": str(tools[int(match[1])].get("name"))}
    tool_by_name = next((tool for tool in tools if message.startswith("tool") and _mentions_tool(message, tool)), None)
    if tool_by_name is not None:
        return {"tool": str(tool_by_name.get("name"))}
    block = _refused_block(message, body)
    if block is not None:
        return {"block": block_digest(block)}
    output_format = (body.get("output_config") or {}).get("format")
    if output_format is not None and re.search(_SCHEMA_PATTERN, message, re.IGNORECASE):
        return {"schema": digest(output_format)}
    return {"request": digest(dict(body))}


def _mentions_tool(message: str, tool: Mapping[str, Any]) -> bool:
    return re.search(rf"['\"`]{re.escape(str(tool.get('name')))}['\"`]", message) is not None


def _refused_block(message: str, body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the block that a refusal names; None if the conversation needs it."""
    match = re.search(_BLOCK_PATTERN, message)
    if match is None:
        return None
    block = _block_at(body.get("messages"), int(match[1]), int(match[2]))
    nested = re.search(_NESTED_PATTERN, match[3])
    if nested is not None and block is not None:
        inner = block.get("content")
        block = inner[int(nested[1])] if isinstance(inner, list) and int(nested[1]) < len(inner) else None
    return block if isinstance(block, Mapping) and block.get("type") not in _ESSENTIAL_TYPES else None


def _block_at(messages: Any, index: int, position: int) -> Mapping[str, Any] | None:
    content = messages[index].get("content") if isinstance(messages, list) and index < len(messages) else None
    block = content[position] if isinstance(content, list) and position < len(content) else None
    return block if isinstance(block, Mapping) else None


def is_repairable(error: Exception, refused: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if a conversation can continue after a refusal, because the refused part is a new one."""
    part = error.part if isinstance(error, ModelError) else None
    known_parts = [{key: earlier[key] for key in earlier if key != "why"} for earlier in refused]
    return part is not None and part not in known_parts and len(refused) < MAX_REFUSALS


def refused_values(refused: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    """Return the names or digests of one kind that were refused so far."""
    return [str(part[kind]) for part in refused if kind in part]


def describe_refused_part(part: Mapping[str, Json], why: str) -> str | None:
    """Return the warning for a part that is left out; None for a part without one."""
    if "tool" in part:
        return f"tool {part['tool']}: left out: {why}"
    if "schema" in part:
        return f"output schema: sent to the model as an instruction in the prompt: {why}"
    return f"a block was left out: {why}" if "block" in part else None
