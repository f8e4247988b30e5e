"""What a conversation came to: the answer, and everything that was said, called and spent on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ..dialects.agent_flow import ENDS
from ..frozen import dataclass
from ..values import Json
from .decision import REASONS


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The end of a conversation.

    `text` and `content` are the last answer, `data` its JSON where that was asked for. `stop_reason` is the model's,
    or the limit that was reached (`max_rounds`, `max_calls`, `token_budget`, `cost_budget`, `invalid_json`); `why`
    says it in words. `trace` are the calls in order, each with `tool`, `input`, `round` and its whole `outcome`
    (`value` or `error`; `same_as` names the call whose result was used again). `usage` are tokens of all rounds,
    `cost` US dollars, None where no price is known. `messages` go on with
    `complete_with_tools(messages=[*completion.messages, ...])`. `warnings` name tools that the model could not have,
    and why.
    """

    text: str
    content: list[dict[str, Json]] = field(default_factory=list)
    data: Json = None
    rounds: int
    usage: dict[str, int]
    cost: float | None = None
    trace: list[dict[str, Json]] = field(default_factory=list)
    stop_reason: str
    messages: list[dict[str, Json]] = field(default_factory=list)
    warnings: tuple[str, ...] = ()
    model: str = ""
    details: str = ""
    run_id: str = ""

    @property
    def finished(self) -> bool:
        """Whether the model said all it had to say, and JSON fits where it was asked for."""
        return self.stop_reason in ENDS

    @property
    def why(self) -> str:
        """Why it stopped, in words."""
        said = REASONS.get(self.stop_reason, f"the model stopped: {self.stop_reason}")
        return f"{said}: {self.details}" if self.details else said


def completion_of(result: Mapping[str, Any], warnings: tuple[str, ...] = ()) -> Completion | None:
    """The completion in the result of an agent's run; None where the run came to no end."""
    said = result.get("conversation")
    if not isinstance(said, Mapping):
        return None
    totals = said["totals"]
    return Completion(
        text=said["text"],
        content=list(said["content"]),
        data=said["data"],
        rounds=totals["rounds"],
        usage=dict(totals["usage"]),
        cost=totals["cost"],
        trace=list(said["trace"]),
        stop_reason=said["stop_reason"] or "max_rounds",
        messages=list(said["messages"]),
        warnings=(*warnings, *totals["notes"]),
        model=totals["model"],
        details=totals["details"],
        run_id=str(result.get("executionId", "")),
    )
