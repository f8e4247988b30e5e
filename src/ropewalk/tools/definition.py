"""A tool as its MCP server or its OpenAPI document describes it.

Its text is data: shown and hashed, never followed.
"""

from __future__ import annotations

import hashlib

from ..fast_dataclass import dataclass
from ..values import Json, canonical, check_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One tool as its server describes it; schemas and annotations are JSON, as sent."""

    name: str
    description: str = ""
    input_schema: Json
    output_schema: Json = None
    annotations: Json = None
    title: str | None = None
    # The method and address of an operation of an OpenAPI document.
    request: str | None = None
    # For the index. No model sees `icons` and `meta`, so they are not part of a pin.
    icons: Json = None
    # The `_meta` of MCP, for the index.
    meta: Json = None

    def to_dict(self) -> dict[str, Json]:
        """Return everything but the name, with the keys of MCP; without those that are None."""
        return {key: value for key, value in self._members().items() if value is not None}

    @classmethod
    def from_dict(cls, name: str, data: dict[str, Json]) -> Definition:
        """Build a definition from the result of `to_dict`; other keys are ignored."""
        return cls(
            name=name,
            title=data.get("title"),
            description=data["description"],
            input_schema=data["inputSchema"],
            output_schema=data.get("outputSchema"),
            annotations=data.get("annotations"),
            request=data.get("request"),
        )

    def fingerprint(self, server: str) -> str:
        """Return the SHA-256, in hex, of everything that a model or a user may see of the tool."""
        fields = {"server": server, "name": self.name, **self._members()}
        if self.request is None:
            del fields["request"]
        return hashlib.sha256(canonical(check_json(fields, f"tool {self.name}"))).hexdigest()

    def _members(self) -> dict[str, Json]:
        return {
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.annotations,
            "request": self.request,
        }
