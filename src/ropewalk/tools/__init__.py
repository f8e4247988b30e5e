"""Tools: their definitions, the Toolbox that has them, and the Runner that calls them.

`tool.py` defines a tool, `toolbox.py` keeps tools with their handlers and connections, `runner.py` calls one through a
pipeline: resolve, select, validate, dispatch, normalise, validate. Discovery, ranking and flows are elsewhere. To add
a kind of backend, write a function that opens its sources and register it (`backends/kinds.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from ..fast_dataclass import dataclass
from ..values import Json
from .tool import RunResult, ToolBackend, backend_from_dict, backend_to_dict, error_from_dict, error_to_dict, read


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One step of a sequential chain.

    Attributes:
        tool_id: The tool to call.
        args: Its arguments.
        use_previous: Pass the result of the previous step as the argument `previous`.
    """

    tool_id: str
    args: dict[str, Json] = field(default_factory=dict)
    use_previous: bool = False

    def to_dict(self) -> dict[str, Json]:
        """Return the step as JSON.

        Returns:
            `{toolId, args, usePrevious}`; empty arguments and a false flag are left out.
        """
        fields: dict[str, Json] = {"toolId": self.tool_id}
        if self.args:
            fields["args"] = self.args
        return {**fields, "usePrevious": True} if self.use_previous else fields

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> ChainStep:
        """Rebuild a step from the JSON of `to_dict`.

        Args:
            data: The JSON.

        Returns:
            The step.

        Raises:
            InvalidInput: A key is unknown or missing.
        """
        document: Any = read(data, "step", ("toolId", "args", "usePrevious"), ("toolId",))
        return cls(document["toolId"], document.get("args") or {}, document.get("usePrevious", False))


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of a step."""

    tool_id: str
    # The backend that ran it.
    backend: ToolBackend | None = None
    # The result, if the call succeeded.
    result: RunResult | None = None
    # The error that ended the chain, if it failed.
    error: Exception | None = None

    def to_dict(self) -> dict[str, Json]:
        """Return the step as JSON: `{toolId, backend, result, error}`; absent values are left out."""
        fields = {
            "toolId": self.tool_id,
            "backend": backend_to_dict(self.backend) if self.backend is not None else None,
            "result": self.result.to_dict() if self.result is not None else None,
            "error": error_to_dict(self.error) if self.error is not None else None,
        }
        return {key: value for key, value in fields.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> StepResult:
        """Rebuild a step from the JSON of `to_dict`; its error is a RecordedError."""
        document: Any = read(data, "step", ("toolId", "backend", "result", "error"), ("toolId",))
        backend, result = document.get("backend"), document.get("result")
        return cls(
            document["toolId"],
            None if backend is None else backend_from_dict(backend),
            None if result is None else RunResult.from_dict(result),
            error_from_dict(document.get("error")),
        )


@dataclass(frozen=True, slots=True)
class ChainResult:
    """The outcome of a chain.

    Attributes:
        final: The last result; None for an empty chain.
        steps: The outcomes of all steps.
        error: The error that ended the chain, or None.
    """

    final: RunResult | None = None
    steps: tuple[StepResult, ...] = ()
    error: Exception | None = None

    def __iter__(self) -> Iterator[Any]:
        """Unpack the result: `final, steps = await runner.run_chain(...)`."""
        return iter((self.final, self.steps))
