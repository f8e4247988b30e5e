"""Plans: programs in Python that are interpreted, and whose awaited calls are recorded.

`messages.py` holds the messages between the machine that interprets a program and its host. `boundary/` runs the
programs that come from models in child processes.

The functions here are for type checkers and editors: a function with `@plan` may import the names that every program
has. Their text is never executed, because Python does not execute plans.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from ..errors import InvalidTool, Rejected, ToolError

MODULE: Final = __name__
__all__ = ["Approval", "Rejected", "ToolError", "approve", "call_tool", "now", "random", "uuid", "value", "wait_for"]


class Approval:
    """The answer of `approve`, which is true only if a person approved."""

    approved: bool
    by: str
    note: str | None

    def __bool__(self) -> bool:
        return self.approved


async def approve(question: str, *, timeout: float | None = None) -> Approval:
    """Wait until a person approves; a refusal that the program does not read raises Rejected."""
    raise _not_here("approve")


async def wait_for(event: str, *, timeout: float | None = None) -> Any:
    """Wait for an event and return its payload; TimeoutError after `timeout` seconds."""
    raise _not_here("wait_for")


async def call_tool(name: str, arguments: dict[str, Any] | None = None, /, **more: Any) -> Any:
    """Call a tool by its literal name or id, also if Python cannot write the name."""
    raise _not_here("call_tool")


def now(zone: tzinfo = UTC) -> datetime:
    """Return the time, which is recorded."""
    raise _not_here("now")


def random() -> float:
    """Return a number from 0 to 1, made of the seed of the run."""
    raise _not_here("random")


def uuid() -> str:
    """Return a new id, made of the seed of the run."""
    raise _not_here("uuid")


def value(handle: str, /) -> Any:
    """Return what a run recorded, by the text of a handle: "RUN/NODE"."""
    raise _not_here("value")


def language_name(function: object) -> str | None:
    """Return the name of the function of this module that every program has; None for anything else."""
    return next((name for name in __all__ if name[0].islower() and globals()[name] is function), None)


def _not_here(name: str) -> InvalidTool:
    return InvalidTool(f"{name} can be called in a function with @plan only")
