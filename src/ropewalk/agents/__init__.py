"""Agents: conversations in which a model calls tools, phases of longer tasks, and the ModelClient protocol.

Begin to read in `loop.py`; the agent loop itself is a flow that `notations/agent.py` builds. The package `anthropic` is
imported, and a key needed, at the first turn. To use another model, implement `model.ModelClient`.
"""

from __future__ import annotations

from ..notations.composite import ComposableStep, ComposableToolSpec
from ..tools.tool import ProgressEvent, StreamEventKind, ToolExecutionResult
from .client import ClaudeClient, Completion, Settings
from .loop import complete_json_with_tools, complete_with_tools, resume_completion
from .model import Answer, ModelClient, Request, ToolCall, ToolDefinition, ToolResult
from .session import Phase, PhaseResult, PhaseResults, run_phases
from .tool_definitions import select

__all__ = [
    "Answer",
    "ClaudeClient",
    "Completion",
    "ComposableStep",
    "ComposableToolSpec",
    "ModelClient",
    "Phase",
    "PhaseResult",
    "PhaseResults",
    "ProgressEvent",
    "Request",
    "Settings",
    "StreamEventKind",
    "ToolCall",
    "ToolDefinition",
    "ToolExecutionResult",
    "ToolResult",
    "complete_json_with_tools",
    "complete_with_tools",
    "resume_completion",
    "run_phases",
    "select",
]
