"""Asking before a call: `ropewalk:approval`, a tool whose answer is journaled with the arguments it was given for.

Whoever runs a conversation says who is asked, with `asking`; where nobody is, the answer is no.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from ..dialects.agent_flow import APPROVAL
from ..tools.local import maybe_await
from ..tools.tool import Tool, parse_tool_id
from ..values import Json

Ask: TypeAlias = Callable[[str, dict[str, Json]], "bool | str | Awaitable[bool | str]"]
"""From a tool and its arguments to True, or to False or the reason why not."""
LONGEST_WAIT = 7 * 24 * 3600.0
_asked: ContextVar[Ask | None] = ContextVar("ropewalk_claude_ask", default=None)


@contextmanager
def asking(ask: Ask | None) -> Iterator[None]:
    """Calls inside that need an approval ask `ask`."""
    token = _asked.set(ask)
    try:
        yield
    finally:
        _asked.reset(token)


def approval_tool() -> Tool:
    """The tool that asks."""
    id = parse_tool_id(APPROVAL)
    return Tool(
        id.name,
        "Asks whether a call may be made.",
        {"type": "object"},
        namespace=id.namespace,
        annotations={"timeout": LONGEST_WAIT},
        handler=_approval,
    )


async def _approval(*, tool: str, input: dict[str, Json]) -> dict[str, Json]:
    ask = _asked.get()
    if ask is None:
        return {"approved": False, "reason": f"{tool} was not called: it needs an approval, and nobody can be asked"}
    said: Any = await maybe_await(ask(tool, input))
    if said is True:
        return {"approved": True, "reason": ""}
    reason = said if isinstance(said, str) and said else "the user said no"
    return {"approved": False, "reason": f"{tool} was not called: {reason}"}
