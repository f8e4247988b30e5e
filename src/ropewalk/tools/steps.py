"""A sequential chain of calls, as `Runner.run_chain` takes it and answers: steps, and what came of each."""

from __future__ import annotations

from dataclasses import field

from ..frozen import dataclass
from ..values import Json
from .result import RunResult
from .tool import ToolBackend


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One step of a sequential chain; `use_previous` puts the last result at `args["previous"]`."""

    tool_id: str
    args: dict[str, Json] = field(default_factory=dict)
    use_previous: bool = False


@dataclass(frozen=True, slots=True)
class StepResult:
    """What happened at one step: a `result`, or the `error` that ended the chain."""

    tool_id: str
    backend: ToolBackend | None = None
    result: RunResult | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class ChainResult:
    """What a chain gave: `final` is the last result (None for an empty chain), `steps` all of them."""

    final: RunResult | None = None
    steps: tuple[StepResult, ...] = ()
    error: Exception | None = None
