"""How tools did for the requests they were used for: what the selector learns from, and where it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ..frozen import dataclass

KEPT_USES: Final = 16
"""Requests that are remembered of one tool: those that differ most, then the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """How a tool did for one request: unique by (tool, request). `at` is the latest use, in seconds since the epoch.
    An empty request stands for uses without one, and for the older ones."""

    tool: str
    request: str
    successes: int = 0
    failures: int = 0
    at: float = 0.0

    def plus(self, later: ToolUse) -> ToolUse:
        """Both together."""
        return ToolUse(
            tool=self.tool,
            request=self.request,
            successes=self.successes + later.successes,
            failures=self.failures + later.failures,
            at=max(self.at, later.at),
        )


class UseStore(Protocol):
    """The part of every store that keeps them."""

    def put_uses(self, uses: Sequence[ToolUse], /) -> None:
        """Add to what is remembered; of each tool KEPT_USES different requests stay, the others are added
        up."""
        ...

    def list_uses(self, tool: str | None = None, /) -> list[ToolUse]:
        """Of one tool or of all, by tool, newest first; the one without a request last."""
        ...

    def delete_uses(self, tool: str | None = None, /) -> int:
        """Forget those of one tool or of all; returns how many went."""
        ...
