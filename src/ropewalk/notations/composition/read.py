"""Read compositions: one list of nodes, where each node's output is the next one's data.

`read` turns a document into a CompositionDocument; `compile.py` turns that into a Flow. Both report every
problem at once, in the words of the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...errors import Problem
from ...fast_dataclass import dataclass
from ...values import Json
from .. import fields as f
from ..fields import Checker, camel, read_document_with_nodes
from ..node_fields import DOCUMENT_FIELDS
from ..node_types import DocumentNode, NodeType, node_reader

FIELDS: Final[dict[str, Checker]] = {
    "nodes": f.anything,
    **DOCUMENT_FIELDS,
}
DEFAULTS: Final[dict[str, Json]] = {"name": "", "description": "", "concurrency": 8}

_OF_CHAINS: Final = frozenset(("mode", "errorStrategy", "maxRetries", "retryDelay"))
_IN_CHAINS: Final = frozenset(
    ("type condition", "type loop", "type parallel", "type delay", "type wait", "params", "dependsOn", "outputVar")
)
_IN_COMPOSITIONS: Final = frozenset(
    (
        *("outputSchema", "inputMapping", "outputMapping", "transformType"),
        *({f"type {name}" for name in NodeType} - _IN_CHAINS - {"type tool", "type transform"}),
    )
)


@dataclass(frozen=True, slots=True)
class CompositionDocument:
    """A composition as read, with defaults; `problems` is empty if it is valid so far."""

    fields: dict[str, Json]
    nodes: list[DocumentNode]
    problems: list[Problem]

    def ids(self) -> list[str]:
        """Return the ids of all nodes, in the order of running."""
        return [node.id for top in self.nodes for node in top.with_inner()]

    def to_dict(self) -> dict[str, Json]:
        """Return the document in its normal form, with defaults."""
        return {**self.fields, "nodes": [node.to_dict() for node in self.nodes]}


def is_composition(document: Mapping[str, Json]) -> bool:
    """Return True if a document without `kind` has the shape of a composition."""

    # It has an output schema, or nodes of types or with fields that only compositions have, and nothing that only
    # chains have.
    nodes = document.get("nodes")
    if not isinstance(nodes, list) or not _OF_CHAINS.isdisjoint(map(camel, filter(_is_text, document))):
        return False
    features = {"outputSchema"} & set(map(camel, filter(_is_text, document)))
    for node in nodes:
        if isinstance(node, Mapping):
            features.update(map(camel, filter(_is_text, node)))
            features.add(f"type {str(node.get('type')).strip().lower()}")
    return features.isdisjoint(_IN_CHAINS) and not features.isdisjoint(_IN_COMPOSITIONS)


def _is_text(key: Any) -> bool:
    return isinstance(key, str)


def read(config: Mapping[str, Json]) -> CompositionDocument:
    """Read a composition."""
    return CompositionDocument(
        *read_document_with_nodes(config, FIELDS, "composition", DEFAULTS, node_reader("composition"))
    )
