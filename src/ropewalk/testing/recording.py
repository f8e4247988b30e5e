"""Recorded runs as tests: a flow runs again with the recorded results of its tool calls.

A case is a document (`kind: test`) that people can edit: the flow or its file, the input, the outcomes of the tool
calls by path, the values of waits, and the expected outcome. `make_case` makes one from a run in a store, `replay` runs
one and returns every difference, `update_case` accepts the differences.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from ..app.runs.steps import late_attempts
from ..app.start import Start
from ..errors import ExecutionFailed, InvalidFlow, Problem
from ..events import Event
from ..fast_dataclass import dataclass
from ..journal.protocol import APPROVAL, ENDS, Entry, RunRow
from ..notations.registry import NOTATIONS, TEST, is_test, value_in
from ..redaction import Redaction
from ..source.document import with_places
from ..source.load import load
from ..tools.backends.route import Args, OnProgress, Route
from ..tools.bound_call import Bound, Rules, bind_route
from ..values import Json, did_you_mean, fresh

if TYPE_CHECKING:
    from ..app.prepared import Prepared

_ATTEMPT_NUMBER: Final = re.compile(r"@\d+")
_TIMEOUT_MESSAGE: Final = re.compile(r"^run .+ (took longer than its timeout of )")
_BACKEND_KIND: Final = re.compile(r"^(run: \w+ \S+) \[[^\]]+\]:")
_SECRET_REFERENCE: Final = re.compile(r"\bsecret\.([A-Za-z_]\w*)")
_KEYS: Final = ("kind", "name", "flow", "input", "variables", "waits", "calls", "expect")
_OUTCOMES: Final = ("gives", "fails", "hangs")
_OUTCOME_KEYS: Final = ("tool", "args", "after", *_OUTCOMES)
_FAILURE_KEYS: Final = ("message", "retryable", "kind", "ran")
_STATUSES: Final = (*ENDS, "waiting")
_OWN_FAILURE: Final = "ExecutionFailed"
_HANG_SECONDS: Final = (
    10 * 365 * 86400.0
)  # a fake clock skips them; without a limit a flow without timeouts would never end


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference between a case and its replay: the path, a message, and the old and new value."""

    path: str
    message: str
    was: Json = None
    now: Json = None

    def to_dict(self) -> dict[str, Json]:
        """Return the difference as a JSON object."""
        return {"path": self.path, "message": self.message, "was": self.was, "now": self.now}


class RecordedFailure(ExecutionFailed):
    """The recorded failure of a tool call."""

    is_recorded = True

    def __init__(self, message: str, retryable: bool, kind: str | None = None, ran: bool = False) -> None:
        super().__init__(message)
        self.retryable, self.kind, self.ran = retryable, kind, ran


class Recording:
    """A caller of the engine that answers tool calls from a recording."""

    # `calls_made`: The tool and the arguments of each call that was made, by path.
    # `wait_answers`: The value of each wait that was answered, by path.
    # `differences`: The differences from the recording so far.

    version = 0

    def __init__(
        self,
        calls: Mapping[str, Sequence[Mapping[str, Any]]],
        secrets: Mapping[str, str],
        *,
        is_original_run: bool = False,
    ) -> None:
        self._is_original_run = is_original_run
        self._calls = {path: list(outcomes) for path, outcomes in calls.items()}
        self._secrets = Redaction(secrets)
        self._counts: dict[str, int] = {}
        self.calls_made: dict[str, list[dict[str, Json]]] = {}
        self.wait_answers: dict[str, Json] = {}
        self.differences: list[Difference] = []
        self.run_id = "test"
        self.is_misnamed = False
        """Whether a call found no answer at its path, but one at a similar path."""

    def bind(self, tool_id: str) -> Bound:
        """Return a tool that answers from the recording."""

        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            outcome = self._next_outcome(tool_id, args, (key or "").removeprefix(f"{self.run_id}/"))
            if (seconds := _HANG_SECONDS if outcome.get("hangs") else outcome.get("after")) is not None:
                await asyncio.sleep(seconds)
            if outcome.get("hangs"):
                raise RecordedFailure(
                    f"{tool_id} did not answer when it was recorded, and no timeout ends the call", False
                )
            if "fails" in outcome:
                fails = outcome["fails"]
                kind, ran = fails.get("kind"), bool(fails.get("ran"))
                raise RecordedFailure(str(fails.get("message", "")), bool(fails.get("retryable", True)), kind, ran)
            return fresh(outcome.get("gives"))

        return bind_route(
            tool_id, None, None, Route(send=send, timeout=math.inf, per_attempt=self._is_original_run), Rules()
        )

    async def __call__(self, tool_id: str, args: Args) -> Json:
        raise NotImplementedError("a recording needs the path of a call; use bind")

    def _next_outcome(self, tool: str, args: Args, path: str) -> Mapping[str, Any]:
        masked_args: Any = self._secrets.value(args)  # as a journal keeps them
        self.calls_made.setdefault(path, []).append({"tool": tool, "args": fresh(masked_args)})
        count = self._counts[path] = self._counts.get(path, 0) + 1

        # Find the outcome of this attempt; attempts that were not recorded repeat the last one.
        outcomes = self._calls.get(path, [])
        if not outcomes and self._is_original_run:
            return {"hangs": True}
        if not outcomes:
            near = did_you_mean(path, self._calls.keys() - self._counts.keys())
            self.is_misnamed = self.is_misnamed or near is not None
            remedy = "add its answer under calls"
            remedy = f"rename {near!r} under calls, or add its answer there" if near else remedy
            message = f"calls {tool}, which was not recorded; {remedy}"
            self.differences.append(Difference(path=path, message=message, now=masked_args))
            raise RecordedFailure(f"no call of {tool} is recorded at {path}", False)
        if count > len(outcomes):
            message = f"calls {tool} {count} times; recorded: {len(outcomes)}"
            self.differences.append(Difference(path=path, message=message))
        outcome = outcomes[min(count, len(outcomes)) - 1]

        # A case need not name tools and arguments; if it does, they must match.
        if outcome.get("tool", tool) != tool:
            message = "calls a different tool"
            self.differences.append(Difference(path=path, message=message, was=outcome["tool"], now=tool))
        if "args" in outcome and outcome["args"] != masked_args:
            for place, was, now in value_differences(outcome["args"], masked_args, "args"):
                self.differences.append(Difference(path=path, message=f"{place} of {tool} differs", was=was, now=now))
        return outcome

    def missing_calls(self) -> Iterator[Difference]:
        """Yield a difference for each recorded call that was not made."""
        for path, outcomes in self._calls.items():
            count = self._counts.get(path, 0)
            if count < len(outcomes):
                tool = outcomes[count].get("tool", "its tool")
                changed = (
                    f"calls {tool} {count} times; recorded: {len(outcomes)}" if count else f"no longer calls {tool}"
                )
                yield Difference(path=path, message=changed)


def value_differences(was: Json, now: Json, path: str, limit: int = 20) -> list[tuple[str, Json, Json]]:
    """Return the innermost paths at which two values differ, each with the old and the new value."""
    differences: list[tuple[str, Json, Json]] = []

    def compare(was: Json, now: Json, path: str) -> None:
        if len(differences) >= limit or (was == now and type(was) is type(now)):
            return
        if type(was) is dict and type(now) is dict:
            for key in {**was, **now}:
                compare(was.get(key), now.get(key), f"{path}.{key}" if path else key)
        elif type(was) is list and type(now) is list and len(was) == len(now):
            for i, (old_item, new_item) in enumerate(zip(was, now, strict=True)):
                compare(old_item, new_item, f"{path}[{i}]")
        else:
            differences.append((path, was, now))

    compare(was, now, path)
    return differences


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The result of replaying a case."""

    # Every difference from the case.
    differences: list[Difference]
    # The tool and the arguments of each call, by path.
    calls_made: Mapping[str, list[dict[str, Json]]]
    # The value of each answered wait, by path.
    wait_answers: Mapping[str, Json]
    # The result of the run.
    outcome: dict[str, Json]
    # The part of `outcome` that a case records under `expect`.
    expect: dict[str, Json]
    # The paths of calls without a recorded answer.
    unrecorded: Sequence[str]


async def replay(case: Mapping[str, Any], loaded: Prepared) -> Replayed:
    """Run a flow with the recorded calls of a case, in an app without tools and in memory."""
    calls = {path: _as_list(outcomes) for path, outcomes in (case.get("calls") or {}).items()}
    recording = Recording(calls, secret_stand_ins(loaded))
    outcome = await _run_case(case, loaded, recording)
    expect = expected_of(outcome, loaded.kind, str(outcome.get("status")))
    differences = list(recording.differences)
    if not recording.is_misnamed:  # everything else would follow from the call without an answer
        differences += [*recording.missing_calls(), *_other_differences(case, recording, outcome, expect)]
    return Replayed(
        differences=differences,
        calls_made=recording.calls_made,
        wait_answers=recording.wait_answers,
        outcome=outcome,
        expect=expect,
        unrecorded=[path for path in recording.calls_made if not calls.get(path)],
    )


def _other_differences(
    case: Mapping[str, Any], recording: Recording, outcome: Mapping[str, Json], expect: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield a difference for each recorded wait that did not come, and for each part of the outcome that differs."""
    for path in case.get("waits") or {}:
        if path not in recording.wait_answers:
            yield Difference(path=path, message="no longer waits")
    actual = {**outcome, **expect}
    for key, expected in (case.get("expect") or {}).items():
        for place, was, now in value_differences(expected, actual.get(key), key):
            why = _failure_text(expect) if key == "status" and "errors" not in case["expect"] else ""
            yield Difference(path="", message=f"{place} differs{why}", was=was, now=now)


async def _run_case(case: Mapping[str, Any], loaded: Prepared, recording: Recording) -> dict[str, Any]:
    from ..app.app import App

    waits: Mapping[str, Json] = case.get("waits") or {}
    async with App("memory", secrets=names_of_secrets(loaded)) as app:

        def answer_wait(event: Event) -> None:
            if event.kind == "wait.started" and event.path in waits and isinstance(event.data, dict):
                event_name = event.data.get("event")
                name = str(event_name) if event_name is not None else f"{APPROVAL}{event.path}"
                recording.wait_answers[event.path] = waits[event.path]
                app.store.send(recording.run_id, name, fresh(waits[event.path]))

        start = Start(
            definition=loaded,
            run_id=recording.run_id,
            input=case.get("input"),
            variables=case.get("variables"),
            executor=recording,
            on_event=answer_wait,
        )
        job = await app.jobs.new(start)
        job.caller = recording  # an executor alone does not get the paths of calls
        return await app.engine.run(job)


def names_of_secrets(loaded: Prepared) -> list[str]:
    """Return the names of the secrets that a definition mentions."""
    return sorted(set(_SECRET_REFERENCE.findall(orjson.dumps(loaded.document).decode())))


def secret_stand_ins(loaded: Prepared) -> dict[str, str]:
    """Give a value to every secret that a definition names, in the environment, and return references by value."""
    names = names_of_secrets(loaded)
    # CI sets a secret that is not available to an empty text.
    values = {name: os.environ.get(name) or f"stand-in for {name}" for name in names}
    os.environ.update(values)
    return {value: f"$secret.{name}" for name, value in values.items()}


async def make_case(row: RunRow, history: Iterable[Entry], loaded: Prepared, flow: Json) -> dict[str, Any]:
    """Make a case from a recorded run."""

    # A journal has the results of calls but not their arguments, so the flow runs once with the recorded results to
    # find them. The case has durations only if the outcome depends on them, as at a timeout.
    recorded: dict[str, dict[str, Json]] = {}
    times: dict[str, dict[str, Json]] = {}
    waits: dict[str, Json] = {}
    entries = list(history)
    rejected = late_attempts(entries)

    # Outcomes of calls, their durations and the values of waits, by path.
    for entry in entries:
        data: Any = entry.data
        if entry.kind == "call" and entry.path not in rejected:
            recorded[entry.path] = {"gives": data}
        elif entry.kind == "call_failed":
            failure = {"message": data["message"], "retryable": bool(data.get("retryable", True))}
            # Only failures of tools themselves need neither.
            failure |= {"kind": data["kind"]} if data.get("kind", _OWN_FAILURE) != _OWN_FAILURE else {}
            failure |= {"ran": True} if data.get("ran") else {}
            recorded[entry.path] = {"fails": failure}
        elif entry.kind == "signal" and "late" not in data:
            waits[entry.path] = data["value"]
        if entry.path in recorded:
            times[entry.path] = {"after": round(entry.ended - entry.started, 3)}

    # Keys without a value are left out: people read the file.
    context = row.context or {}
    case: dict[str, Any] = {"kind": TEST, "name": row.name or row.id, "flow": flow}
    case |= {"input": row.input} if row.input is not None else {}
    case |= {"variables": context["variables"]} if context.get("variables") else {}
    case |= {"waits": waits} if waits else {}
    expect = expected_of(row.result or {}, loaded.kind, row.status)
    case |= {"calls": await _calls_of(case, loaded, recorded), "expect": expect}
    if (await replay(case, loaded)).differences:
        with_times = {path: {**times[path], **outcome} for path, outcome in recorded.items()}
        timed_case = {**case, "calls": await _calls_of(case, loaded, with_times)}
        return case if (await replay(timed_case, loaded)).differences else timed_case
    return case


async def _calls_of(case: Mapping[str, Any], loaded: Prepared, recorded: Mapping[str, Mapping[str, Json]]) -> Json:
    """Return the calls of a case by path without attempts, each with tool, arguments and outcome."""
    recording = Recording(
        {path: [outcome] for path, outcome in recorded.items()}, secret_stand_ins(loaded), is_original_run=True
    )
    await _run_case(case, loaded, recording)
    calls: dict[str, list[dict[str, Json]]] = {}
    for path in {**recording.calls_made, **recorded}:
        call = recording.calls_made.get(path, [{}])[0]
        calls.setdefault(_ATTEMPT_NUMBER.sub("", path), []).append({**call, **recorded.get(path, {"hangs": True})})
    return {path: outcomes[0] if len(outcomes) == 1 else outcomes for path, outcomes in calls.items()}


def update_case(case: Mapping[str, Any], replayed: Replayed) -> dict[str, Any]:
    """Return a case with the calls, waits and expectations of its replay, which must have no unrecorded calls."""

    # A call that was made more often than recorded repeats its last outcome.
    calls: dict[str, Json] = {}
    for path, recorded in (case.get("calls") or {}).items():
        outcomes = _as_list(recorded)
        merged = []
        for i, call in enumerate(replayed.calls_made.get(path, [])):
            outcome = outcomes[min(i, len(outcomes) - 1)]
            merged.append({**call, **{key: value for key, value in outcome.items() if key not in ("tool", "args")}})
        if merged:
            calls[path] = merged[0] if len(merged) == 1 else merged
    new_case = {**case, "calls": calls, "waits": dict(replayed.wait_answers)}
    new_case["expect"] = replayed.expect
    return {key: value for key, value in new_case.items() if value or key not in ("calls", "waits")}


def expected_of(outcome: Mapping[str, Json], kind: str, status: str) -> dict[str, Json]:
    """Return what a case records of an outcome: the status, the value and the errors."""
    expectation: dict[str, Json] = {"status": status}
    if not outcome.keys().isdisjoint(("result", NOTATIONS[kind].value)):
        expectation["result"] = value_in(outcome, kind)
    errors: Any = outcome.get("errors")
    return expectation | (
        {"errors": [_comparable_error(error) for error in errors]} if isinstance(errors, list) and errors else {}
    )


def _failure_text(expect: Mapping[str, Any]) -> str:
    """Return where and why a run failed first; "" for a run without errors."""
    error = next(iter(expect.get("errors", ())), None)
    if not isinstance(error, dict):
        return "" if error is None else f"; {error}"
    node = error.get("path") or error.get("nodeId")
    return f"; {node} failed: {error.get('message')}" if node else f"; {error.get('message')}"


def _comparable_error(error: Any) -> Json:
    """Remove from an error what differs in a replay: places, stack, the tool's backend and the id of the run."""
    if not isinstance(error, dict):
        return error
    comparable = {key: value for key, value in error.items() if key not in ("at", "stack", "place")}
    if isinstance(error.get("message"), str):
        message = _BACKEND_KIND.sub(r"\1:", error["message"])
        comparable["message"] = _TIMEOUT_MESSAGE.sub(r"the run \1", message)
    return comparable


def read_case(file: Path) -> tuple[dict[str, Any], Any]:
    """Read a case from its file."""
    document = load(file)
    problems = list(_case_problems(document.data))
    if problems:
        raise InvalidFlow(with_places(problems, document))
    return document.data, document


def _case_problems(data: Json) -> Iterator[Problem]:
    if not isinstance(data, dict) or not is_test(data):
        yield Problem(path="kind", message=f"must be an object with `kind: {TEST}`")
        return
    yield from _unknown_keys(data, _KEYS)
    if not isinstance(data.get("flow"), (str, dict)):
        yield Problem(path="flow", message="must be the file of a definition, or a definition")
    for key in ("calls", "waits", "variables", "expect"):
        if not isinstance(data.get(key) or {}, dict):
            yield Problem(path=key, message="must be an object")
    expect = data.get("expect")
    status = expect.get("status", _STATUSES[0]) if isinstance(expect, dict) else _STATUSES[0]
    if status not in _STATUSES:
        message = f"unknown status {status!r}; expected one of: {', '.join(_STATUSES)}"
        yield Problem(path="expect.status", message=message, suggestion=did_you_mean(status, _STATUSES))
    calls = data.get("calls")
    for path, outcomes in calls.items() if isinstance(calls, dict) else ():
        for i, outcome in enumerate(_as_list(outcomes)):
            place = f"calls.{path}[{i}]" if isinstance(outcomes, list) else f"calls.{path}"
            if isinstance(outcome, dict) and any(key in outcome for key in _OUTCOMES):
                yield from _outcome_problems(outcome, place)
                continue
            unknown = list(_unknown_keys(outcome, _OUTCOME_KEYS, f"{place}.")) if isinstance(outcome, dict) else []
            yield from unknown
            if not any(problem.suggestion in _OUTCOMES for problem in unknown):
                message = "needs an outcome: `gives` with a value, `fails` with a message, or `hangs: true`"
                yield Problem(path=place, message=message)


def _outcome_problems(outcome: dict[str, Any], path: str) -> Iterator[Problem]:
    """Yield the problems of one outcome of a call."""
    if len(kinds := [key for key in _OUTCOMES if key in outcome]) > 1:
        yield Problem(
            path=f"{path}.{kinds[1]}", message=f"a call has only one outcome; remove this key or `{kinds[0]}`"
        )
    if outcome.get("hangs", True) is not True:
        yield Problem(path=f"{path}.hangs", message="must be true, or left out")
    after = outcome.get("after", 0)
    if type(after) not in (int, float) or after < 0:
        yield Problem(path=f"{path}.after", message="must be a number of seconds from 0")
    yield from _unknown_keys(outcome, _OUTCOME_KEYS, f"{path}.")
    fails = outcome.get("fails", {})
    if isinstance(fails, dict):
        yield from _unknown_keys(fails, _FAILURE_KEYS, f"{path}.fails.")
    else:
        yield Problem(path=f"{path}.fails", message="must be an object with a message")


def _unknown_keys(data: dict[str, Any], known: Sequence[str], path: str = "") -> Iterator[Problem]:
    for key in data:
        if key not in known:
            message = f"unknown key; expected one of: {', '.join(known)}"
            yield Problem(path=f"{path}{key}", message=message, suggestion=did_you_mean(key, known))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
