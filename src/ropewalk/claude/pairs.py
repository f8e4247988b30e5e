"""The order that the Messages API asks of a conversation: roles, and results right after their calls.

A conversation begins with the user. The message after one with calls answers each of them once, before anything else.
Consecutive messages of one role are one message to the API, so they are joined here.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from ..dialects.agent_blocks import EMPTY
from .blocks import Note

UNANSWERED: Final = "not called: this call has no result in the conversation"
_ID: Final = r"[A-Za-z0-9_-]{1,128}"
_NAME: Final = r"[A-Za-z0-9_-]{1,128}"

Message = dict[str, Any]


def ordered(messages: Sequence[Message], note: Note) -> list[Message]:
    """Return messages in the order that the API accepts.

    Args:
        messages: Each has a `role` (`user` or `assistant`), a list of blocks as `content`, its `place`, and `plain`
            when it was given as a text.
        note: Is called with the place of what was changed.

    Returns:
        Messages with `role` and `content`. Roles alternate, the first one is the user's, and every call is answered.
    """
    joined = _joined(messages)
    if joined and joined[0]["role"] == "assistant":
        note(joined[0]["place"], "the conversation begins with the assistant; a user message was put before it")
        joined.insert(0, {"role": "user", "content": _text(EMPTY), "place": "messages", "plain": True})
    paired = _paired(joined, note)
    if paired and paired[-1]["role"] == "assistant":
        _trim_end(paired, note)
    return [{"role": one["role"], "content": _content(one)} for one in paired]


def _content(message: Message) -> Any:
    """The blocks; the text alone of a message that was given as a text."""
    content = message["content"]
    alone = message.get("plain") and len(content) == 1 and content[0].keys() == {"type", "text"}
    return content[0]["text"] if alone else content


def _joined(messages: Sequence[Message]) -> list[Message]:
    """Neighbours of one role as one message, and without what has no content."""
    found: list[Message] = []
    for message in messages:
        if not message["content"]:
            continue
        if found and found[-1]["role"] == message["role"]:
            found[-1]["content"] += message["content"]
            found[-1]["plain"] = False
        else:
            found.append({**message, "content": list(message["content"])})
    return found


def _paired(messages: list[Message], note: Note) -> list[Message]:
    used: dict[str, int] = {}  # ids of calls, and the number that the next one like it gets
    waiting: list[tuple[str, str]] = []  # calls of the message before: their ids as given, and as sent
    found: list[Message] = []
    for message in messages:
        place, content = message["place"], list(message["content"])
        if message["role"] == "assistant":
            content, waiting = _calls(content, place, used, note)
        else:
            content, waiting = _answers(content, waiting, place, note), []
        if content:
            found.append({**message, "content": content})
    if waiting:
        note("messages", f"{len(waiting)} call(s) at the end have no result; they were answered as not called")
        found.append({"role": "user", "content": [_unanswered(id) for _, id in waiting], "place": "messages"})
    return found


def _calls(content: list[Any], place: str, used: dict[str, int], note: Note) -> tuple[list[Any], list[tuple[str, str]]]:
    """The blocks of the assistant, with calls that have a valid id of their own, a name and an object as input."""
    made: list[Any] = []
    waiting: list[tuple[str, str]] = []
    for block in content:
        if block["type"] != "tool_use":
            made.append(block)
            continue
        given, name, input = str(block.get("id") or ""), str(block.get("name") or ""), block.get("input")
        id = given
        if not re.fullmatch(_ID, id) or id in used:
            id = _new_id(given, used)
            note(place, f"the id {given!r} of a call is not valid or is used twice; it was sent as {id}")
        if not re.fullmatch(_NAME, name):
            name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unnamed"
            note(place, f"the name of a call is not valid; it was sent as {name}")
        if not isinstance(input, dict):
            note(place, f"the input of the call {name} is not an object; it was left out")
            input = {}
        used.setdefault(id, 1)
        waiting.append((given, id))
        made.append({**block, "id": id, "name": name, "input": input})
    return made, waiting


def _new_id(given: str, used: dict[str, int]) -> str:
    base = re.sub(r"[^A-Za-z0-9_-]", "_", given)[:100] or "call"
    number = used.get(base, 1)
    while f"{base}_{number}" in used:
        number += 1
    used[base] = number + 1
    return f"{base}_{number}"


def _answers(content: list[Any], waiting: list[tuple[str, str]], place: str, note: Note) -> list[Any]:
    """The blocks of the user: first one result for each call, in their order, then everything else."""
    results: dict[str, Any] = {}
    rest: list[Any] = []
    left: dict[str, deque[str]] = {}  # of one id there may be several calls
    for given, id in waiting:
        left.setdefault(given, deque()).append(id)
    for block in content:
        if block["type"] != "tool_result":
            rest.append(block)
            continue
        open_calls = left.get(block["tool_use_id"])
        if not open_calls:
            note(place, f"the result {block['tool_use_id']!r} belongs to no call before it; its text was sent")
            rest += _orphan(block)
            continue
        id = open_calls.popleft()
        results[id] = {**block, "tool_use_id": id}
    for given in (given for given, ids in left.items() if ids):
        note(place, f"the call {given!r} has no result; it was answered as not called")
    return [*(results.get(id) or _unanswered(id) for _, id in waiting), *rest]


def _orphan(block: Message) -> list[Any]:
    content = block.get("content")
    if isinstance(content, list):
        return [inner for inner in content if inner["type"] in ("text", "image", "document", "search_result")]
    return _text(f"[result of a call: {content}]")


def _trim_end(messages: list[Message], note: Note) -> None:
    """The last message of an assistant may not end with white space."""
    *blocks, last = messages[-1]["content"]
    if last["type"] != "text" or last["text"] == last["text"].rstrip():
        return
    note(messages[-1]["place"], "the last text ends with white space; it was left out")
    messages[-1] = {**messages[-1], "content": [*blocks, {**last, "text": last["text"].rstrip()}]}


def _unanswered(id: str) -> Message:
    return {"type": "tool_result", "tool_use_id": id, "content": UNANSWERED, "is_error": True}


def _text(text: str) -> list[Message]:
    return [{"type": "text", "text": text}]
