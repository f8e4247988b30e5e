"""Ropewalk: compose, check, run and serve tool chains for LLM agents.

The names here are imported when they are first used, so that `import ropewalk` costs little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import toolchain as toolchain
    from .api.composite_builder import ComposableToolBuilder as ComposableToolBuilder
    from .api.run_chain import Runner as Runner
    from .app.app import App as App
    from .app.plan_function import plan as plan
    from .builder.flow import flow as flow
    from .errors import ExpressionError as ExpressionError
    from .errors import InvalidFlow as InvalidFlow
    from .errors import NodeFailed as NodeFailed
    from .errors import NotFound as NotFound
    from .errors import Problem as Problem
    from .errors import RopewalkError as RopewalkError
    from .errors import ToolError as ToolError
    from .errors import UnresolvedReference as UnresolvedReference
    from .events import Event as Event
    from .expr.reshape import transform as transform
    from .notations.chain.read import ChainMode as ChainMode
    from .notations.chain.read import ErrorStrategy as ErrorStrategy
    from .notations.node_types import NodeType as NodeType
    from .notations.records import Outcome as Outcome
    from .tools import ChainResult as ChainResult
    from .tools import ChainStep as ChainStep
    from .tools import StepResult as StepResult
    from .tools.signature import IdempotencyKey as IdempotencyKey
    from .tools.tool import ProgressEvent as ProgressEvent
    from .tools.tool import RunResult as RunResult
    from .tools.tool import StreamEvent as StreamEvent
    from .tools.tool import StreamEventKind as StreamEventKind
    from .tools.tool import Tool as Tool
    from .tools.tool import ToolBackend as ToolBackend
    from .tools.tool import ToolExecutionResult as ToolExecutionResult
    from .tools.tool import parse_tool_id as parse_tool_id
    from .tools.tool import tool as tool
    from .tools.toolbox import Toolbox as Toolbox

_HOME = {
    "App": "app.app",
    "ChainMode": "notations.chain.read",
    "ChainResult": "tools",
    "ChainStep": "tools",
    "ComposableToolBuilder": "api.composite_builder",
    "ErrorStrategy": "notations.chain.read",
    "Event": "events",
    "ExpressionError": "errors",
    "IdempotencyKey": "tools.signature",
    "InvalidFlow": "errors",
    "NodeFailed": "errors",
    "NodeType": "notations.node_types",
    "NotFound": "errors",
    "Outcome": "app.app",
    "Problem": "errors",
    "ProgressEvent": "tools.tool",
    "RopewalkError": "errors",
    "RunResult": "tools.tool",
    "Runner": "api.run_chain",
    "StepResult": "tools",
    "StreamEvent": "tools.tool",
    "StreamEventKind": "tools.tool",
    "Tool": "tools.tool",
    "ToolBackend": "tools.tool",
    "ToolError": "errors",
    "ToolExecutionResult": "tools.tool",
    "Toolbox": "tools.toolbox",
    "UnresolvedReference": "errors",
    "flow": "builder.flow",
    "parse_tool_id": "tools.tool",
    "plan": "app.plan_function",
    "tool": "tools.tool",
    "transform": "expr.reshape",
}

__all__ = sorted([*_HOME, "toolchain"])


def __getattr__(name: str) -> Any:
    if name == "toolchain":
        return import_module(".toolchain", __name__)
    if name == "__version__":
        from importlib.metadata import version

        return version("ropewalk")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'ropewalk' has no attribute {name!r}")
    from .values import gc_disabled  # the collector takes a tenth of the time that a hundred modules need

    value = getattr(gc_disabled(import_module)(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
