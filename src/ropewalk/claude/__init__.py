"""Claude calls tools: conversations as flows, phases, what a model is.

`complete_with_tools` and `complete_json_with_tools` are the front doors; `loop.py` is where to begin reading, and
`dialects/agent_flow.py` is the loop itself. `anthropic` is imported when a model is first asked; no key is needed
before that. To use another model see `model.py`.
"""

from .client import ClaudeClient
from .completion import Completion
from .given_tools import select
from .loop import complete_json_with_tools, complete_with_tools, resume_completion
from .model import Answer, ModelClient, Request, ToolCall, ToolDefinition, ToolResult
from .phases import Phase, PhaseResult, PhaseResults, run_phases
from .settings import Settings

__all__ = [
    "Answer",
    "ClaudeClient",
    "Completion",
    "ModelClient",
    "Phase",
    "PhaseResult",
    "PhaseResults",
    "Request",
    "Settings",
    "ToolCall",
    "ToolDefinition",
    "ToolResult",
    "complete_json_with_tools",
    "complete_with_tools",
    "resume_completion",
    "run_phases",
    "select",
]
