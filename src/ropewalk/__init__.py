"""Ropewalk: compose, check, run and serve tool chains for LLM agents.

The names here are imported when they are first used, so that `import ropewalk` costs little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import toolchain as toolchain
    from .app import App as App
    from .app import Outcome as Outcome
    from .builder.flow import flow as flow
    from .composite import ComposableToolBuilder as ComposableToolBuilder
    from .dialects.chain import ChainMode as ChainMode
    from .dialects.chain import ErrorStrategy as ErrorStrategy
    from .dialects.chain import NodeType as NodeType
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
    from .runchain import Runner as Runner
    from .tools.result import RunResult as RunResult
    from .tools.result import StreamEvent as StreamEvent
    from .tools.result import ToolExecutionResult as ToolExecutionResult
    from .tools.signature import IdempotencyKey as IdempotencyKey
    from .tools.steps import ChainResult as ChainResult
    from .tools.steps import ChainStep as ChainStep
    from .tools.tool import Tool as Tool
    from .tools.tool import ToolBackend as ToolBackend
    from .tools.tool import parse_tool_id as parse_tool_id
    from .tools.tool import tool as tool
    from .tools.toolbox import Toolbox as Toolbox

_HOME = {
    "App": "app",
    "ChainMode": "dialects.chain",
    "ChainResult": "tools.steps",
    "ChainStep": "tools.steps",
    "ComposableToolBuilder": "composite",
    "ErrorStrategy": "dialects.chain",
    "Event": "events",
    "ExpressionError": "errors",
    "IdempotencyKey": "tools.signature",
    "InvalidFlow": "errors",
    "NodeFailed": "errors",
    "NodeType": "dialects.chain",
    "NotFound": "errors",
    "Outcome": "app",
    "Problem": "errors",
    "RopewalkError": "errors",
    "RunResult": "tools.result",
    "Runner": "runchain",
    "StreamEvent": "tools.result",
    "Tool": "tools.tool",
    "ToolBackend": "tools.tool",
    "ToolError": "errors",
    "ToolExecutionResult": "tools.result",
    "Toolbox": "tools.toolbox",
    "UnresolvedReference": "errors",
    "flow": "builder.flow",
    "parse_tool_id": "tools.tool",
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
    from .uncollected import uncollected  # the collector takes a tenth of the time that a hundred modules need

    value = getattr(uncollected(import_module)(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
