"""Convert the tool definitions of MCP servers to Tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import InvalidTool
from ...values import Json, fresh
from ..annotations import counted_annotations
from ..tool import Tool, ToolBackend


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
