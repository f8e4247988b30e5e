"""What an MCP result says beside its value: pictures, sounds, links, documents, as JSON in MCP's spelling.

A value is what flows compute with; the parts are for whoever can look at them, such as a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..values import Json, check_json
from .bound import Bound
from .normalise import get_field
from .route import Args, OnProgress


def with_content(bound: Bound) -> Bound:
    """The same tool giving `{value}`, and `content` where its result has parts that are no text."""

    async def call(
        args: Args, key: str | None = None, timeout: float | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        result = await bound.execute(args, key, timeout, on_progress)
        parts = list(_parts(result.mcp_result))
        found: dict[str, Json] = {"value": result.structured}
        if any(part.get("type") != "text" for part in parts):
            found["content"] = check_json(parts, "result.content")
        return found

    return replace(bound, call=call, direct=None)


def _parts(result: Any) -> Iterator[dict[str, Json]]:
    content = get_field(result, "content") if result is not None else None
    for part in content if isinstance(content, (list, tuple)) else ():
        dump = getattr(part, "model_dump", None)
        plain = dump(mode="json", by_alias=True, exclude_none=True) if dump is not None else part
        if isinstance(plain, dict):
            yield plain
