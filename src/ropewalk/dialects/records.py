"""Definitions and results as users read them: attributes in snake_case, items in camelCase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..values import Json
from .fields import camel, closest_attribute
from .notation import value_in


def copied(value: Json) -> Json:
    """The same JSON in containers of its own; what is no plain dict or list is handed on as it is."""
    kind = type(value)
    if kind is dict:  # most of what is inside is neither: a call for each would be most of the cost
        return {k: copied(v) if (kind := type(v)) is dict or kind is list else v for k, v in value.items()}
    if kind is list:
        return [copied(v) if (kind := type(v)) is dict or kind is list else v for v in value]
    return value


class Record(Mapping[str, Json]):
    """A view of a document: `r.error_strategy`, `r["errorStrategy"]`, `r.to_dict()`.

    The lists and objects it gives are its reader's own: they are copied when they are first looked
    at, so that changing them changes nothing that is stored.
    """

    __slots__ = ("_data", "_mine")

    def __init__(self, data: dict[str, Json]) -> None:
        self._data = data
        self._mine: dict[str, Json] = {}

    def __getitem__(self, key: str) -> Json:
        if key not in self._data:
            key = camel(key)
        value = self._data[key]
        if type(value) is dict or type(value) is list:
            if key not in self._mine:
                self._mine[key] = copied(value)
            return self._mine[key]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(closest_attribute(type(self).__name__, name, self._data)) from None

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == (other.to_dict() if isinstance(other, Record) else other)

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Json]:
        """The whole of it in the documented spelling."""
        return {key: self[key] for key in self._data}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_dict()!r})"


class ChainObject(Record):
    """A stored chain: id, name, description, mode, nodes, errorStrategy, maxRetries, retryDelay,
    timeout, variables, concurrency, maxIterations, metadata {created, runCount}."""


class ChainSummary(Record):
    """id, name, description, mode, nodeCount, runCount, created."""


class CompositionObject(Record):
    """A stored composition: id, name, description, nodes, inputSchema, outputSchema, variables,
    concurrency, metadata {created, runCount}."""


class CompositionSummary(Record):
    """id, name, description, nodeCount, runCount, created."""


class CompositionResult(Record):
    """success, executionId, compositionId, executionPath, errors [{path, message, keyword, nodeId, tool,
    kind}], status, duration (ms); data and nodeCount, or error and, where it was a node, failedNode."""


class ExecutionResult(Record):
    """success, executionId, chainId, status, results {nodeId: output}, variables, errors, duration (ms)."""


class ExecutionStatus(Record):
    """id, chainId, status, startTime, endTime, currentNode, resultCount, errorCount."""


class ExecutionDetails(ExecutionStatus):
    """A status with results, variables, errors, input, nodes (every recorded step) and events."""


class Outcome(Record):
    """How a run ended, in the words of its notation, with `run_id`, `status` and `success`."""

    @property
    def run_id(self) -> str:
        return str(self._data["runId"])


def outcome(result: Mapping[str, Json], kind: str) -> Outcome:
    """Return the result of a run with the names that every outcome has: `runId`, and `result` for its value.

    Args:
        result: The result in the words of the notation.
        kind: The notation of the run's definition.
    """
    return Outcome({"runId": result.get("executionId"), "result": value_in(result, kind), **result})
