"""What an MCP result holds besides its value: the parts of content, for whoever can look at them, such as a model.

A value is what flows compute with. A tool may give `structuredContent` as its value and pictures next to it.
"""

from __future__ import annotations

from dataclasses import replace

from ..content import from_mcp
from ..values import Json, check_json
from .bound import Bound
from .normalise import get_field, plain
from .route import Args, OnProgress


def with_content(bound: Bound) -> Bound:
    """The same tool giving `{value}`, and `content` where its result has parts that are no text."""

    async def call(
        args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        result = await bound.execute(args, key, timeout, on_progress)
        found: dict[str, Json] = {"value": result.structured}
        content = get_field(result.mcp_result, "content") if result.mcp_result is not None else None
        parts = list(content) if isinstance(content, (list, tuple)) else []
        if any(get_field(part, "type") != "text" for part in parts):
            found["content"] = check_json([from_mcp(plain(part)) for part in parts], "result.content")
        return found

    return replace(bound, call=call, direct=None)
