"""Composite tools in Python: a builder of them, and tools with which an agent builds its own."""

from .builder import ComposableTool, ComposableToolBuilder, ValidationResult
from .workflows import workflow_tools

__all__ = ["ComposableTool", "ComposableToolBuilder", "ValidationResult", "workflow_tools"]
