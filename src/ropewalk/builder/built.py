"""A finished flow: what an app runs, draws, stores and writes in other notations."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ..codec import flow_to_json
from ..frozen import dataclass
from ..ir import Flow
from ..tools.tool import Tool
from ..values import Json, digest

if TYPE_CHECKING:
    from ..dialects import Compiled


@dataclass(frozen=True, eq=False, repr=False)
class Built:
    """`flow` is the graph, `tools` the functions it calls: an app that runs it knows them."""

    flow: Flow
    tools: tuple[Tool, ...] = ()

    @property
    def name(self) -> str:
        return self.flow.name

    @cached_property
    def document(self) -> dict[str, Json]:
        """The flow as a document of kind `flow`: what is stored, and what `ropewalk run` reads."""
        written = flow_to_json(self.flow)
        for region in written["regions"]:
            for node in region["nodes"]:
                # Where it stands in the source would be another document after every edit above it.
                said = {key: value for key, value in node.pop("meta", {}).items() if key not in ("source", "labels")}
                if said:
                    node["meta"] = said
        return {"kind": "flow", **written}

    @cached_property
    def compiled(self) -> Compiled:
        """The same as the notation of flows makes of the document."""
        from ..dialects.flow import compiled_flow

        return compiled_flow(self.flow, self.document)

    @cached_property
    def fingerprint(self) -> str:
        return digest(self.compiled.document)

    def done(self) -> Built:
        """Itself: where a flow is wanted, a finished one and one being written are both right."""
        return self

    def draw(self, format: str = "text") -> str:
        """The graph as `text`, `mermaid` or `svg`."""
        from ..draw import draw

        return draw(self.flow, format)

    def export(self, kind: str) -> dict[str, Json]:
        """The document of another notation that does the same; InvalidFlow lists what it cannot hold."""
        from ..dialects import write

        return write(self.flow, kind)

    def __repr__(self) -> str:
        return f"<flow {self.name!r}, {len(self.flow.body.nodes)} nodes>"
