"""What an executor gave, as one JSON value.

Known: an MCP CallToolResult (an object or the same as a dict, either spelling of its fields; the
`mcp` package is not needed) and a ToolExecutionResult. Everything else is the value itself. A result
that says it is an error raises `ToolReported` with its text.
"""

from __future__ import annotations

from typing import Any, Final, cast

import orjson

from ..content import TYPES, from_mcp
from ..values import Json, is_json, parsed
from .result import ToolExecutionResult

_ABSENT: Any = object()
CONTENT: Final = frozenset(TYPES)
_NAMES: Final = ("type", "text", "data", "uri", "name", "title", "description", "size", "blob", "resource")
_SPELLINGS: Final[dict[str, tuple[str, ...]]] = {
    **{name: (name,) for name in _NAMES},
    "mimeType": ("mimeType", "mime_type"),
}


class ToolReported(Exception):
    """The tool answered that it failed; the text is its own. `result` is the raw answer."""

    def __init__(self, text: str, result: Any) -> None:
        self.result = result
        super().__init__(text)


def normalise_mcp(result: Any) -> tuple[Any, Any]:
    """(value, raw result) of an MCP result; of anything else (value itself, None)."""
    if not _is_mcp(result):
        return normalise_other(result)
    if get_field(result, "isError", "is_error") is True:
        raise ToolReported(_error_text(result), result)
    structured = get_field(result, "structuredContent", "structured_content")
    if structured is not None and structured is not _ABSENT:
        return structured, result
    return _from_content(get_field(result, "content")), result


def normalise_other(result: Any) -> tuple[Any, Any]:
    """(value, raw MCP result or None) of what a handler or a provider gave."""
    if isinstance(result, ToolExecutionResult):
        if not result.success:
            raise ToolReported(result.error or "the tool reported an error", result)
        return result.output, None
    if not isinstance(result, dict) and _is_mcp(result):
        return normalise_mcp(result)
    return result, None


def _is_mcp(result: Any) -> bool:
    return (
        get_field(result, "content") is not _ABSENT
        and (get_field(result, "isError", "is_error") is not _ABSENT or isinstance(result, dict))
    ) or (isinstance(result, dict) and "structuredContent" in result)


def _from_content(content: Any) -> Json:
    """No part: null. One text: its JSON, else the text. Several: the non-empty texts. With an image, audio, a link or a
    resource: a list of the non-empty texts and the parts of content."""
    parts = list(content) if isinstance(content, (list, tuple)) else []
    if any(get_field(part, "type") in CONTENT for part in parts):
        return [value for part in map(plain, parts) if (value := from_mcp(part)) != ""]
    if len(parts) == 1:
        text = _text(parts[0])
        return None if text is None else _parsed(text)
    texts = [text for text in map(_text, parts) if text]
    if not texts:
        return None
    return texts[0] if len(texts) == 1 else texts


def plain(part: Any) -> dict[str, Any]:
    """A content block as a dict in the spelling of MCP."""
    if isinstance(part, dict):
        return part
    dump = getattr(part, "model_dump", None)
    if dump is not None:
        return cast(dict[str, Any], dump(mode="json", by_alias=True, exclude_none=True))
    found = {name: get_field(part, *names) for name, names in _SPELLINGS.items()}
    found = {name: value for name, value in found.items() if value is not _ABSENT and value is not None}
    if "resource" in found:
        found["resource"] = plain(found["resource"])
    return found


def _parsed(text: str) -> Json:
    """The JSON that a text is; the text itself where it is none, or a number we cannot keep exactly. What is wrong
    inside of a list or an object is told as in `structuredContent`."""
    try:
        value = parsed(text)
    except orjson.JSONDecodeError:
        return text
    return value if type(value) in (dict, list) or is_json(value) else text


def _text(part: Any) -> str | None:
    if get_field(part, "type") != "text":
        return None
    text = get_field(part, "text")
    return text if isinstance(text, str) else None


def _error_text(result: Any) -> str:
    content = get_field(result, "content")
    texts = [text for text in map(_text, content if isinstance(content, (list, tuple)) else ()) if text]
    if texts:
        return "\n".join(texts)
    structured = get_field(result, "structuredContent", "structured_content")
    if structured is _ABSENT or structured is None or not is_json(structured):
        return "the tool reported an error"
    return orjson.dumps(structured).decode()


def get_field(holder: Any, *names: str) -> Any:
    for name in names:
        found = holder.get(name, _ABSENT) if isinstance(holder, dict) else getattr(holder, name, _ABSENT)
        if found is not _ABSENT:
            return found
    return _ABSENT
