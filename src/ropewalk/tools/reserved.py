"""Prefixes of tool ids that belong to Ropewalk itself, and why a tool with one of them is missing.

No server has these prefixes, so a message about such a tool names what it is: a saved plan, a built-in tool, or a file
of a directory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..values import did_you_mean

OWN: Final = "ropewalk"
"""The namespace of the tools that are built in."""
PLANS: Final = "plans"
"""The namespace of the tools that saved plans are."""
LOCAL: Final = ("impl:", "dataset:", "experience:", "cli-agent:")
"""The prefixes of tools that are files in the directory of a definition."""
PREFIXES: Final = frozenset((OWN, PLANS, *(prefix.rstrip(":") for prefix in LOCAL)))
"""The prefixes of tools that no server of a toolbox has: the app or a directory has them."""
VALUE: Final = "value"
"""The built-in tool that reads for a plan what another run recorded."""
PLAN_TOOLS: Final = ("find_tools", "check_plan", "run_plan", "resume_run", "save_plan", "store_plan")
"""The built-in tools by which agents write and run plans."""
SEARCH: Final = "find_more_tools"
"""The built-in tool by which the model of an agent finds tools that it does not see yet."""
_BUILT_IN: Final = ("model", "approval", VALUE, SEARCH, *PLAN_TOOLS)
_MOST: Final = 5  # saved plans that a message lists


def is_built_in(tool_id: str) -> bool:
    """Return True if an id is that of a built-in tool."""
    space, _, name = tool_id.partition(":")
    return space == OWN and name in _BUILT_IN


def why_reserved_is_missing(tool_id: str, ids: Iterable[str]) -> str | None:
    """Explain why a tool with a prefix of Ropewalk's own is missing."""
    space, colon, name = tool_id.partition(":")
    if not colon:
        return None
    if space == PLANS:
        return _why_no_plan(name, [id for id in ids if id.startswith(f"{PLANS}:")])
    if is_built_in(tool_id):
        return f"{name!r} is built in, and only a flow can call it"
    if space == OWN:
        return f"there is no built-in tool {name!r}{_near(name, _BUILT_IN, OWN)}"
    if tool_id.startswith(LOCAL):
        return f"{space!r} means a file in a directory of an experience, and only that experience can call it"
    return None


def why_no_server(space: str, spaces: Iterable[str]) -> str:
    """Return the message for the prefix of a tool id that no server has."""
    suggestion = did_you_mean(space, spaces)
    message = f"no server {space!r} in ropewalk.toml or .mcp.json"
    return f"{message}; did you mean {suggestion!r}?" if suggestion else message


def _why_no_plan(name: str, saved: list[str]) -> str:
    near = _near(name, [id.partition(":")[2] for id in saved], PLANS)
    if not near and saved:
        more = ", ..." if len(saved) > _MOST else ""
        near = f"; the saved plans are {', '.join(sorted(saved)[:_MOST])}{more}"
    return f"there is no saved plan {name!r}{near}"


def _near(name: str, known: Iterable[str], space: str) -> str:
    suggestion = did_you_mean(name, known)
    return f"; did you mean {space}:{suggestion}?" if suggestion else ""
