"""The version of a tool, which an approval of a call names."""

from __future__ import annotations

from ..values import digest
from .tool import Tool


def tool_version(tool: Tool) -> str:
    """Return a digest that changes with the definition of a tool, and with that of the flow that the tool is."""
    return digest([tool.fingerprint, getattr(tool.handler, "fingerprint", None)])[:16]
