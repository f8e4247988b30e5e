"""What a server says about its tools. Its text is data: shown and hashed, never followed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from ..frozen import dataclass
from ..values import Json, canonical, check_json
from .mcp_request import ServerRefused

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp_types import Tool

_MOST_TOOLS: Final = 10_000
_MOST_PAGES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One tool as its server describes it; schemas and annotations are JSON, as sent. `request` is where the one of
    an OpenAPI document goes: its method and address."""

    name: str
    description: str = ""
    input_schema: Json
    output_schema: Json = None
    annotations: Json = None
    title: str | None = None
    request: str | None = None
    icons: Json = None
    meta: Json = None
    """`icons` and `_meta` are kept for the index. No model is told of them, so they are no part of a pin."""

    def to_dict(self) -> dict[str, Json]:
        """What it says beside its name, as MCP spells it; what is absent is left out."""
        said = {
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.annotations,
            "request": self.request,
        }
        return {key: value for key, value in said.items() if value is not None}

    @classmethod
    def from_dict(cls, name: str, said: dict[str, Json]) -> Definition:
        """The opposite of `to_dict`; other keys are ignored, KeyError names one that is missing."""
        return cls(
            name=name,
            title=said.get("title"),
            description=said["description"],
            input_schema=said["inputSchema"],
            output_schema=said.get("outputSchema"),
            annotations=said.get("annotations"),
            request=said.get("request"),
        )

    def fingerprint(self, server: str) -> str:
        """SHA-256, in hex, over everything a model or a user may be told about the tool: it
        changes when the server changes a word of it."""
        said = {
            "server": server,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.annotations,
            **({} if self.request is None else {"request": self.request}),
        }
        return hashlib.sha256(canonical(check_json(said, f"tool {self.name}"))).hexdigest()


async def list_definitions(session: ClientSession) -> tuple[Definition, ...]:
    """Every tool, all pages; an endless or circular list is an error, no tools are no error."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND, PaginatedRequestParams

    found: list[Definition] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        try:
            page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            if error.error.code == METHOD_NOT_FOUND and not found:
                return ()
            raise
        found.extend(map(_definition, page.tools))
        cursor = page.next_cursor
        if cursor is None:
            return tuple(found)
        if cursor in seen or len(found) > _MOST_TOOLS:
            break
        seen.add(cursor)
    raise ServerRefused(f"its list of tools does not end (after {len(found)} tools)")


def _definition(tool: Tool) -> Definition:
    annotations: Any = tool.annotations
    return Definition(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=annotations.model_dump(by_alias=True, mode="json", exclude_none=True) if annotations else None,
        title=tool.title,
        icons=[icon.model_dump(by_alias=True, mode="json", exclude_none=True) for icon in tool.icons or ()] or None,
        meta=dict(tool.meta) if tool.meta else None,
    )
