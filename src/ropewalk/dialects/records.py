"""Definitions and results as users read them: attributes in snake_case, items in camelCase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..values import Json
from .fields import camel, closest_attribute


class Record(Mapping[str, Json]):
    """A read-only view of a document: `r.error_strategy`, `r["errorStrategy"]`, `r.to_dict()`."""

    __slots__ = ("_data",)

    def __init__(self, data: dict[str, Json]) -> None:
        self._data = data

    def __getitem__(self, key: str) -> Json:
        data = self._data
        return data[key] if key in data else data[camel(key)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._data[camel(name)]
        except KeyError:
            raise AttributeError(closest_attribute(type(self).__name__, name, self._data)) from None

    def __eq__(self, other: object) -> bool:
        return self._data == (other._data if isinstance(other, Record) else other)

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Json]:
        """The data itself, in the documented spelling."""
        return self._data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data!r})"


class ChainObject(Record):
    """A stored chain: id, name, description, mode, nodes, errorStrategy, maxRetries, retryDelay,
    timeout, variables, concurrency, maxIterations, metadata {created, runCount}."""


class ChainSummary(Record):
    """id, name, description, mode, nodeCount, runCount, created."""


class ExecutionResult(Record):
    """success, executionId, chainId, status, results {nodeId: output}, variables, errors, duration (ms)."""


class ExecutionStatus(Record):
    """id, chainId, status, startTime, endTime, currentNode, resultCount, errorCount."""


class ExecutionDetails(ExecutionStatus):
    """A status with results, variables, errors, input, nodes (every recorded step) and events."""
