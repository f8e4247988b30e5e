"""The values of the setting `trust` of an MCP server."""

from __future__ import annotations

from typing import Final

TRUST_HINTS: Final = "hints"
"""What the server says of its tools counts, such as `readOnlyHint`."""
