"""Convert the tool definitions of MCP servers to Tools."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from ...errors import InvalidTool
from ...values import Json, fresh
from ..annotations import counted_annotations
from ..tool import Tool, ToolBackend

_UNSAFE_CHARACTERS: Final = r"[^A-Za-z0-9_.-]"
_MAX_NAME: Final = 128


def tool_names(names: Iterable[Any]) -> dict[str, str]:
    """Return the name in a tool id for each name of a server's list; no two are equal, whatever their order."""

    # MCP allows names that a tool id cannot have, such as `時間`. A name that an id can have is kept. Another one is
    # cleaned, and gets a digest if letters are lost or the cleaned name belongs to another tool.
    texts = sorted({name for name in names if isinstance(name, str) and name})
    cleaned = {name: re.sub(_UNSAFE_CHARACTERS, "_", name) for name in texts}
    uses = Counter(short[:_MAX_NAME] for short in cleaned.values())
    result = {}
    for name, short in cleaned.items():
        loses_letters = len(short) > _MAX_NAME or any(c.isalnum() and not c.isascii() for c in name)
        if (short != name and (loses_letters or uses[short[:_MAX_NAME]] > 1)) or len(name) > _MAX_NAME:
            digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            short = f"{short[: _MAX_NAME - 9].strip('_') or 'tool'}_{digest}"
        result[name] = short
    return result


def mcp_tool(server: str, name: str, definition: Any, timeout: Json, *, trusted: bool) -> tuple[Tool, ToolBackend]:
    """Convert a server's definition to a Tool with a name; `timeout` and `trusted` come from its configuration."""
    server_name = get_member(definition, "name")
    if not isinstance(server_name, str) or not server_name:
        raise InvalidTool(f"a tool of MCP server {server!r} has no name")
    annotations = counted_annotations(_plain(get_member(definition, "annotations")), trusted=trusted)
    title = get_member(definition, "title")
    if isinstance(title, str) and title:
        annotations.setdefault("title", title)
    annotations.pop("timeout", None)  # the project decides how long it waits, not the server
    if timeout is not None:
        annotations["timeout"] = timeout
    tool = Tool(
        name,
        get_member(definition, "description") or "",
        get_member(definition, "inputSchema", "input_schema"),
        get_member(definition, "outputSchema", "output_schema"),
        namespace=server,
        annotations=annotations or None,
        icons=[_plain(icon) for icon in get_member(definition, "icons") or ()] or None,
        meta=_plain(get_member(definition, "_meta", "meta")) or None,
    )
    # The backend keeps the server's name for calls.
    return tool, ToolBackend.mcp(server, None if name == server_name else server_name)


def get_member(definition: Any, *names: str) -> Any:
    """Return the first member with one of these names that is not None."""
    for name in names:
        value = definition.get(name) if isinstance(definition, dict) else getattr(definition, name, None)
        if value is not None:
            return value
    return None


def _plain(value: Any) -> Any:
    """Return a value of a definition as JSON."""
    dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
    return dump(mode="json", by_alias=True, exclude_none=True) if dump is not None else fresh(value)
