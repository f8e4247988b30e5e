"""Accepting results that were rejected: a person looked, and the run continues without calling the tool again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from ...errors import InvalidInput, NotFound, NothingToRetry, Problem
from ...fast_dataclass import dataclass
from ...ir import Flow
from ...journal.protocol import Entry, RunRow
from ...values import Json, check_json
from .argument_checks import require
from .instances import Attempt, Instances, without_attempts
from .rerun_plan import instances_named, instances_of_nodes

RECORDED: Final[Any] = object()
"""Placeholder for the recorded result, used if the caller gives no other value."""
Accept: TypeAlias = Sequence[str] | Mapping[str, Json]
"""Nodes whose recorded results are accepted, or values for them by node."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A call that is not repeated: its attempt, and the result to record, or None if the journal has it already."""

    attempt: Attempt
    entry: Entry | None


def read_accept(accept: Accept) -> dict[str, Any]:
    """Read the argument `accept` of a retry."""
    if not isinstance(accept, Mapping):
        require([("accept", "Sequence[str]", accept)])
        return dict.fromkeys(accept, RECORDED)
    if not all(isinstance(name, str) for name in accept):
        raise InvalidInput([Problem(path="accept", message="must have the names of nodes as its keys")])
    return {n: value if value is RECORDED else check_json(value, f"accept.{n}") for n, value in accept.items()}


def split_names(
    instances: Instances, flow: Flow, accept: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, NotFound]]:
    """Separate the nodes of this run from those that must be in runs inside it."""
    mine: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    missing: dict[str, NotFound] = {}
    for name, value in accept.items():
        try:
            instances_named(instances, flow, name)
            mine[name] = value
        except NotFound as error:
            rest[name], missing[name] = value, error
    return mine, rest, missing


def name_inside(path: str, name: str) -> str:
    """Return the name of a node as the run inside `path` knows it: `call/make` is `make` inside `call`."""
    return without_attempts(name).removeprefix(f"{without_attempts(path)}/")


def names_inside(path: str, accept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the accepted names as the run inside `path` knows them."""
    return {name_inside(path, name): value for name, value in accept.items()}


def find_accepted(row: RunRow, instances: Instances, flow: Flow, accept: Mapping[str, Any]) -> list[Accepted]:
    """Find the calls with an accepted result."""
    created: list[Accepted] = []
    for name, value in accept.items():
        rejected = [i.last for i in instances_of_nodes(instances, flow, [name]) if _is_rejected(i.last)]
        if not rejected:
            raise NothingToRetry(row.id, f"{name} has no rejected result to accept")
        if value is not RECORDED and len(rejected) > 1:
            paths = ", ".join(attempt.path for attempt in rejected[:5])
            raise NothingToRetry(row.id, f"{name} has {len(rejected)} rejected results ({paths}); give values by path")
        created += [_accepted_call(row, name, attempt, value) for attempt in rejected]
    return created


def select_repeated(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Select the calls that took effect and that a retry makes again."""
    return [attempt for attempt in attempts if _is_rejected(attempt)]


def _is_rejected(attempt: Attempt) -> bool:
    """Return True if the tool ran and only its result, or what was written of it, was rejected."""
    failure, ended = attempt.facts.get("call_failed"), attempt.facts.get("attempt")
    if failure is not None:
        return "result" in failure.data
    return "call" in attempt.facts and ended is not None and ended.data.get("ran") is True


def _accepted_call(row: RunRow, name: str, attempt: Attempt, value: Any) -> Accepted:
    failure = attempt.facts.get("call_failed")
    if failure is None:
        if value is not RECORDED:
            message = (
                f"the result of {name} is recorded, but the state rejected it; it cannot be replaced, so correct the "
                "definition"
            )
            raise NothingToRetry(row.id, message)
        return Accepted(attempt, None)
    result = failure.data["result"]
    if value is RECORDED:
        if "value" not in result:
            message = f"the result of {name} is not JSON ({result.get('text', '')[:200]}); give a value to use instead"
            raise NothingToRetry(row.id, message)
        value = result["value"]
    return Accepted(attempt, replace(failure, kind="call", data=value))
