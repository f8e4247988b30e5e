"""A sequential chain of calls, as `Runner.run_chain` takes it and answers: steps, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ..frozen import dataclass
from ..values import Json
from .json_form import backend_from_dict, backend_to_dict, error_from_dict, error_to_dict, read
from .result import RunResult
from .tool import ToolBackend


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One step of a sequential chain; `use_previous` puts the last result at `args["previous"]`."""

    tool_id: str
    args: dict[str, Json] = field(default_factory=dict)
    use_previous: bool = False

    def to_dict(self) -> dict[str, Json]:
        """Return the step as JSON: `{toolId, args, usePrevious}`; empty arguments and a false flag are left out."""
        made: dict[str, Json] = {"toolId": self.tool_id}
        if self.args:
            made["args"] = self.args
        return {**made, "usePrevious": True} if self.use_previous else made

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> ChainStep:
        """Read what `to_dict` returned. Raises InvalidInput."""
        given: Any = read(data, "step", ("toolId", "args", "usePrevious"), ("toolId",))
        return cls(given["toolId"], given.get("args") or {}, given.get("usePrevious", False))


@dataclass(frozen=True, slots=True)
class StepResult:
    """What happened at one step: a `result`, or the `error` that ended the chain."""

    tool_id: str
    backend: ToolBackend | None = None
    result: RunResult | None = None
    error: Exception | None = None

    def to_dict(self) -> dict[str, Json]:
        """Return the step as JSON: `{toolId, backend, result, error}`; what is absent is left out."""
        made = {
            "toolId": self.tool_id,
            "backend": backend_to_dict(self.backend) if self.backend is not None else None,
            "result": self.result.to_dict() if self.result is not None else None,
            "error": error_to_dict(self.error) if self.error is not None else None,
        }
        return {key: value for key, value in made.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> StepResult:
        """Read what `to_dict` returned; the error is a RecordedError. Raises InvalidInput or InvalidTool."""
        given: Any = read(data, "step", ("toolId", "backend", "result", "error"), ("toolId",))
        backend, result = given.get("backend"), given.get("result")
        return cls(
            given["toolId"],
            None if backend is None else backend_from_dict(backend),
            None if result is None else RunResult.from_dict(result),
            error_from_dict(given.get("error")),
        )


@dataclass(frozen=True, slots=True)
class ChainResult:
    """What a chain gave: `final` is the last result (None for an empty chain), `steps` all of them."""

    final: RunResult | None = None
    steps: tuple[StepResult, ...] = ()
    error: Exception | None = None
