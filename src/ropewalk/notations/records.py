"""Definitions and results as Python objects: attributes in snake_case, items in camelCase."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from json import dumps
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self, TypeVar

from ..argument_checks import wrong_type
from ..errors import RESTART, Action, FailedResult, FlowFailed, Remedy, display_path, raised_at
from ..ops import MODEL
from ..values import Json
from .fields import camel, closest_attribute
from .registry import NOTATIONS, value_in


def copy_containers(value: Json) -> Json:
    """Return the same JSON in new lists and objects; any other value is returned as it is."""
    kind = type(value)
    if kind is dict:  # inlined for speed: most inner values are neither dicts nor lists
        return {k: copy_containers(v) if (kind := type(v)) is dict or kind is list else v for k, v in value.items()}
    if kind is list:
        return [copy_containers(v) if (kind := type(v)) is dict or kind is list else v for v in value]
    return value


class Record(dict[str, Json]):
    """Show a document as attributes and items: `r.error_strategy`, `r["errorStrategy"]`, `r.to_dict()`."""

    # A dict, so that `json.dumps` takes it; it cannot be changed. Lists and objects are copied when they are first
    # read, so that changing them changes nothing that is stored.

    _unsaved: ClassVar[tuple[str, ...]] = ("_data", "_copies")

    def __init__(self, data: dict[str, Json]) -> None:
        if not isinstance(data, dict):
            raise wrong_type("data", "an object", data)
        super().__init__(data)
        self._data = data
        self._copies: dict[str, Json] = {}

    def __getitem__(self, key: str) -> Json:
        if key not in self._data:
            key = camel(key)
        value = self._data[key]
        if type(value) is dict or type(value) is list:
            if key not in self._copies:
                self._copies[key] = copy_containers(value)
            return self._copies[key]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __reduce__(self) -> tuple[Any, ...]:
        own = {name: value for name, value in vars(self).items() if name not in self._unsaved}
        return type(self), (self._data,), own

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be changed; change a copy: to_dict()")

    __setitem__ = __delitem__ = __ior__ = pop = popitem = clear = update = setdefault = _refuse
    if not TYPE_CHECKING:  # what reads a dict reads the copies; a key has either spelling
        get, items, values, __contains__ = Mapping.get, Mapping.items, Mapping.values, Mapping.__contains__

    def copy(self) -> dict[str, Json]:
        """Return the same as `to_dict`."""
        return self.to_dict()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(closest_attribute(type(self).__name__, name, self._data)) from None

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == (other.to_dict() if isinstance(other, Record) else other)

    __hash__ = None

    def to_dict(self) -> dict[str, Json]:
        """Return the document as a dict, in the documented spelling.

        Returns:
            A dict of the same values.
        """
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
    """The result of a run in the words of its notation, with `run_id`, `status` and `success`."""

    _read: Callable[[Any], Any] | None = None
    _cause: BaseException | None = None
    # The file of the definition, and what can help, of a run that did not complete.
    _source: str | None = None
    _remedy: Remedy | None = None
    # The exception of a tool may hold anything, such as a connection, so a copy of the outcome has none.
    _unsaved = ("_data", "_copies", "_cause")
    # The other name that `result` has in Python.
    _alias = ""

    def __getitem__(self, key: str) -> Json:
        return super().__getitem__("runId" if key in ("executionId", "execution_id") else key)

    def to_answer(self) -> dict[str, Json]:
        """Return the outcome as every interface answers it: its value once, as `result`."""
        return {name: self[name] for name in self._data if name == "result" or name != self._alias}

    @property
    def run_id(self) -> str:
        """Return the id of the run."""
        return str(self._data["runId"])

    @property
    def waiting_for(self) -> list[Any]:
        """Return the waits of a run with the status `waiting`; of any other run an empty list."""
        waits: Any = self["waitingFor"] if "waitingFor" in self._data else []
        return waits  # type: ignore[no-any-return]

    def raise_if_failed(self) -> Self:
        """Return the outcome itself if the run completed.

        Returns:
            This outcome.

        Raises:
            FlowFailed: The run failed, was stopped, timed out, waits, or completed only in part.
        """
        status = str(self._data.get("status"))
        if status != "completed":
            messages = [_failure_text(error) for error in failures_of(self._data)[:20]]
            why = f": {'; '.join(messages)}" if messages else ""
            source = "" if self._source is None else f" of {display_path(self._source)}"
            message = f"run {self.run_id}{source} did not complete (status {status}){why}"
            failed = FlowFailed(message, run_id=self.run_id, status=status, result=self.to_dict())
            failed.remedy = self._remedy
            raise failed from self._cause
        return self

    def _repr_html_(self) -> str:
        """Return the table that notebooks show: run, status, result and errors."""
        from html import escape  # imported only by notebooks

        rows = {"run": self.run_id, "status": self._data.get("status"), "result": self._data.get("result")}
        if errors := failures_of(self._data):
            rows["errors"] = [error.get("message") or error for error in errors]
        cells = [f"<tr><th>{name}</th><td>{escape(display_text(value))}</td></tr>" for name, value in rows.items()]
        return f"<table>{''.join(cells)}</table>"

    @property
    def value(self) -> Any:
        """The result of a completed run, in the type that the flow declares; `result` is the same as JSON.

        Raises:
            FlowFailed: The run did not complete.
        """
        self.raise_if_failed()
        result = self["result"]
        return result if self._read is None else self._read(result)


R = TypeVar("R")


class TypedOutcome(Outcome, Generic[R]):
    """The outcome of a function with `@plan`: type checkers know the type of its `value`."""

    if TYPE_CHECKING:

        @property
        def value(self) -> R: ...


def display_text(value: Json) -> str:
    """Return a value as text for people: text itself, anything else as JSON, cut after 2,000 characters."""
    text = value if isinstance(value, str) else dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 2000 else f"{text[:2000]}…"


def failures_of(data: Mapping[str, Any]) -> list[dict[str, Json]]:
    """Return the errors that a result lists, whichever notation it is of."""
    errors = data.get("errors")
    listed = [error for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    if not listed and data.get("error"):
        error = data["error"]
        listed = [error if isinstance(error, dict) else {"message": str(error)}]
    return listed


def _failure_text(error: Mapping[str, Any]) -> str:
    """Return the node and the tool of an error of a result, its message, and where it was raised."""
    node = str(error.get("path") or error.get("nodeId") or "").partition("@")[0]
    tool = f" (tool {error['tool']})" if error.get("tool") else ""
    return f"{node}{tool}: {error.get('message') or error}".removeprefix(": ") + raised_at(error)


def retry_remedy(data: Mapping[str, Any], kind: str, file: str | None) -> Remedy | None:
    """Return how to retry the run of a result; None if it did not fail at steps that a retry can repeat."""
    errors, run_id = failures_of(data), str(data.get("runId"))
    # A result that does not fit needs another definition, and a call that took effect is not to be repeated.
    helpless = any(error.get("ran") is True for error in errors)
    steps = [error for error in errors if error.get("path") or error.get("nodeId")]
    if data.get("status") not in ("failed", "partial", "timeout") or helpless:
        return None
    if not needs_restart(errors):
        return Remedy(Action.RETRY, {"run_id": run_id}) if steps else None
    nodes, action = nodes_to_restart(errors, kind), Action.RETRY_UPGRADED if file else Action.RETRY_FROM
    about = {"run_id": run_id, **({"file": display_path(file)} if file else {})}
    return Remedy(action, {**about, "node": nodes[0]}) if len(nodes) == 1 else None


def needs_restart(errors: Iterable[Mapping[str, Any]]) -> bool:
    """Return True if the failed steps of a run must start over to succeed, or to use a corrected definition."""

    # A flow that the run called as a tool keeps its definition until its call starts over.
    needs = [(error["needs"], error.get("tool")) for error in errors if "needs" in error]
    return any(need == RESTART or tool != MODEL for need, tool in needs)


def nodes_to_restart(errors: Iterable[Mapping[str, Any]], kind: str) -> list[str]:
    """Return the steps with which a retry starts over: those whose answers are at fault, else those that failed."""
    nodes = [node for error in errors for node in error.get("steps") or (_node_to_restart(error, kind),)]
    return list(dict.fromkeys(node for node in nodes if node))


def _node_to_restart(error: Mapping[str, Any], kind: str) -> str:
    """Return the node with which a failed step starts over; for a turn, that of the whole conversation."""
    if kind == "agent":
        return "agent"
    is_turn = error.get("tool") == MODEL or error.get("kind") == "Unfinished"
    node, path = error.get("nodeId"), error.get("path")
    return str(((node or path) if is_turn else (path or node)) or "")


def outcome(result: Mapping[str, Json], kind: str, read: Callable[[Any], Any] | None = None) -> Outcome:
    """Return the result of a run with the fields that every outcome has: `runId`, and `result` for its value."""
    rest = {name: value for name, value in result.items() if name != "executionId"}
    record = Outcome({"runId": result.get("executionId"), "result": value_in(result, kind), **rest})
    # A document that declares a result has another value under the name of its notation.
    if "result" not in result and kind in NOTATIONS:
        record._alias = NOTATIONS[kind].value
    if read is not None:
        record._read = read
    if isinstance(result, FailedResult):
        record._cause = result.cause
    return record
