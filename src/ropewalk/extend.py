"""The public API for extensions: tool backends, stores, node types of chains, expression functions.

The page "Extending Ropewalk" shows how each is used. Conformance tests for stores are in `ropewalk.testing`.
"""

from __future__ import annotations

from .expr.function_registry import function as expression_function
from .journal.address import register_store
from .journal.base_store import BaseStore
from .notations.node_types import DocumentNode, DocumentNodeType, add_node_type
from .tools.backends.kinds import BackendKind, backend_kinds, register_backend
from .tools.backends.sources import ToolSource
from .tools.tool import Tool

__all__ = [
    "BackendKind",
    "BaseStore",
    "DocumentNode",
    "DocumentNodeType",
    "Tool",
    "ToolSource",
    "add_node_type",
    "backend_kinds",
    "expression_function",
    "register_backend",
    "register_store",
]
