"""Which tools may be called again after a call that took effect."""

from __future__ import annotations

from .tool import Tool, ToolBackend


def has_trusted_hints(tool: Tool, backend: ToolBackend | None) -> bool:
    """Return True if Ropewalk may rely on a tool's annotations (`readOnlyHint`, `idempotentHint`).

    Local tools and the tools of a provider are declared by the project itself. An MCP server describes its own
    tools, so its hints are claims of a third party.
    """
    return backend is None or backend.kind != "mcp"


def is_repeatable(tool: Tool | None, backend: ToolBackend | None) -> bool:
    """Return True if trusted annotations say that calling the tool again changes nothing more."""
    if tool is None or not tool.annotations or not has_trusted_hints(tool, backend):
        return False
    return tool.annotations.get("readOnlyHint") is True or tool.annotations.get("idempotentHint") is True
