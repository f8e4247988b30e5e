"""Recorded runs as tests: what each call of a tool gave in a run, given again to another run of the flow.

A case is a document (`kind: test`) that people read and change: the flow or the file it is in, the input, what
each call gives by its path, the signals that came, and what is expected of the outcome. `case_of` makes one of a
run in a store, `replay` runs one and tells every difference.
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

from ..dialects.notation import NOTATIONS, TEST, is_test
from ..errors import InvalidFlow, Problem
from ..events import Event
from ..frozen import dataclass
from ..journal.journal import APPROVAL, Entry, RunRow
from ..redaction import Redaction
from ..runs.steps import too_late
from ..source import attach, load
from ..tools.bound import Bound, Rules, bind_route
from ..tools.route import Args, OnProgress, Route
from ..values import Json, closest, fresh

if TYPE_CHECKING:
    from ..app import Loaded

_ATTEMPT: Final = re.compile(r"@\d+")
_TIMED: Final = re.compile(r"^run .+ (took longer than its timeout of )")
_BACKEND: Final = re.compile(r"^(run: \w+ \S+) \[[^\]]+\]:")
_SECRET: Final = re.compile(r"\bsecret\.([A-Za-z_]\w*)")
_KEYS: Final = ("kind", "name", "flow", "input", "variables", "waits", "calls", "expect")
_OUTCOMES: Final = ("gives", "fails", "hangs")
_GIVES: Final = ("tool", "args", "after", *_OUTCOMES)
_FAILS: Final = ("message", "retryable")
_HANGS: Final = 10 * 365 * 86400.0  # seconds, which pass at once; for ever would be for ever where nothing ends it


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that is otherwise than recorded: where, and what was and what is."""

    path: str
    message: str
    was: Json = None
    now: Json = None

    def to_dict(self) -> dict[str, Json]:
        return {"path": self.path, "message": self.message, "was": self.was, "now": self.now}


class RecordedFailure(Exception):
    """What a tool failed with when it was recorded."""

    def __init__(self, message: str, retryable: bool) -> None:
        self.retryable = retryable
        super().__init__(message)


class Recording:
    """Calls tools from a recording: by the path of the call, one outcome after another where it was tried again.
    What differs from the recording is in `differences`. With `cut` it is what a run has recorded itself: paths have
    attempts, and a call that has no outcome was cut off with what is around it."""

    version = 0

    def __init__(
        self, calls: Mapping[str, Sequence[Mapping[str, Any]]], secrets: Mapping[str, str], *, cut: bool = False
    ) -> None:
        self._cut = cut
        self._calls = {path: list(outcomes) for path, outcomes in calls.items()}
        self._secrets = Redaction(secrets)
        self._made: dict[str, int] = {}
        self.asked: dict[str, list[dict[str, Json]]] = {}
        """The tool and the arguments of every call that was made, by path."""
        self.answered: dict[str, Json] = {}
        """What each wait was answered with, by path."""
        self.differences: list[Difference] = []
        self.run_id = "test"

    def bind(self, tool_id: str) -> Bound:
        async def send(args: Args, key: str | None, timeout: float | None, on_progress: OnProgress | None) -> Any:
            outcome = self._answer(tool_id, args, (key or "").removeprefix(f"{self.run_id}/"))
            if (seconds := _HANGS if outcome.get("hangs") else outcome.get("after")) is not None:
                await asyncio.sleep(seconds)
            if outcome.get("hangs"):
                raise RecordedFailure(f"{tool_id} gave no answer when it was recorded, and nothing ends that", False)
            if "fails" in outcome:
                fails = outcome["fails"]
                raise RecordedFailure(str(fails.get("message", "")), bool(fails.get("retryable", True)))
            return fresh(outcome.get("gives"))

        return bind_route(tool_id, None, None, Route(send=send, timeout=math.inf, per_attempt=self._cut), Rules())

    async def __call__(self, tool_id: str, args: Args) -> Json:
        raise NotImplementedError("a recording is bound; by name alone it does not know which call is meant")

    def _answer(self, tool: str, args: Args, path: str) -> Mapping[str, Any]:
        shown: Any = self._secrets.value(args)  # as a journal would have them
        self.asked.setdefault(path, []).append({"tool": tool, "args": fresh(shown)})
        count = self._made[path] = self._made.get(path, 0) + 1
        outcomes = self._calls.get(path, [])
        if not outcomes and self._cut:
            return {"hangs": True}
        if not outcomes:
            self.differences.append(Difference(path=path, message=f"calls {tool}, which was not recorded", now=shown))
            raise RecordedFailure(f"no call of {tool} is recorded at {path}", False)
        if count > len(outcomes):
            message = f"calls {tool} {count} times; {len(outcomes)} are recorded"
            self.differences.append(Difference(path=path, message=message))
        outcome = outcomes[min(count, len(outcomes)) - 1]
        if outcome.get("tool", tool) != tool:
            message = "calls another tool"
            self.differences.append(Difference(path=path, message=message, was=outcome["tool"], now=tool))
        if "args" in outcome and outcome["args"] != shown:
            for place, was, now in differing(outcome["args"], shown, "args"):
                self.differences.append(Difference(path=path, message=f"{place} of {tool} differs", was=was, now=now))
        return outcome

    def unmade(self) -> Iterator[Difference]:
        """Recorded calls that did not come."""
        for path, outcomes in self._calls.items():
            made = self._made.get(path, 0)
            if made < len(outcomes):
                tool = outcomes[made].get("tool", "its tool")
                times = f"{made} times; {len(outcomes)} are recorded" if made else "no more"
                yield Difference(path=path, message=f"calls {tool} {times}")


def differing(was: Json, now: Json, path: str, most: int = 20) -> list[tuple[str, Json, Json]]:
    """The places where two values differ, the innermost ones, at most so many."""
    found: list[tuple[str, Json, Json]] = []

    def look(was: Json, now: Json, path: str) -> None:
        if len(found) >= most or (was == now and type(was) is type(now)):
            return
        if type(was) is dict and type(now) is dict:
            for key in {**was, **now}:
                look(was.get(key), now.get(key), f"{path}.{key}" if path else key)
        elif type(was) is list and type(now) is list and len(was) == len(now):
            for i, (one, other) in enumerate(zip(was, now, strict=True)):
                look(one, other, f"{path}[{i}]")
        else:
            found.append((path, was, now))

    look(was, now, path)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What came of a case: every difference, the arguments and tools of the calls by path, the answers to its waits,
    the outcome, and what a case expects of such an outcome."""

    differences: list[Difference]
    asked: Mapping[str, list[dict[str, Json]]]
    answered: Mapping[str, Json]
    outcome: dict[str, Json]
    expect: dict[str, Json]


async def replay(case: Mapping[str, Any], loaded: Loaded) -> Replayed:
    """Run a flow with the calls of a case, in an app of its own that keeps nothing and knows no tool."""
    calls = {path: _listed(given) for path, given in (case.get("calls") or {}).items()}
    recording = Recording(calls, stand_ins(loaded))
    outcome = await _played(case, loaded, recording)
    differences = [*recording.differences, *recording.unmade()]
    for path in case.get("waits") or {}:
        if path not in recording.answered:
            differences.append(Difference(path=path, message="waits no more"))
    expect = expected(outcome, loaded.kind, str(outcome.get("status")))
    ended = {**outcome, **expect}
    for key, wanted in (case.get("expect") or {}).items():
        for place, was, now in differing(wanted, ended.get(key), key):
            differences.append(Difference(path="", message=f"{place} differs", was=was, now=now))
    return Replayed(
        differences=differences, asked=recording.asked, answered=recording.answered, outcome=outcome, expect=expect
    )


async def _played(case: Mapping[str, Any], loaded: Loaded, recording: Recording) -> dict[str, Any]:
    from ..app import App

    waits: Mapping[str, Json] = case.get("waits") or {}
    async with App("memory", secrets=names_of_secrets(loaded)) as app:

        def take(event: Event) -> None:
            if event.kind == "wait.started" and event.path in waits and isinstance(event.data, dict):
                said = event.data.get("event")
                name = str(said) if said is not None else f"{APPROVAL}{event.path}"
                recording.answered[event.path] = waits[event.path]
                app.store.send(recording.run_id, name, fresh(waits[event.path]))

        given = {"input": case.get("input"), "variables": case.get("variables")}
        job = await app.jobs.new(loaded, run_id=recording.run_id, **given, executor=recording, on_event=take)
        job.caller = recording  # by itself an executor is not told which call it is
        return await app.engine.run(job)


def names_of_secrets(loaded: Loaded) -> list[str]:
    """Return the names of the secrets that a definition mentions."""
    return sorted(set(_SECRET.findall(orjson.dumps(loaded.document).decode())))


def stand_ins(loaded: Loaded) -> dict[str, str]:
    """The references to the secrets that a definition names, by what they hold; where this machine does not have one,
    by what stands in for it: a case has none of them."""
    names = names_of_secrets(loaded)
    # Empty is what CI makes of a secret that it was not given.
    held = {name: os.environ.get(name) or f"stand-in for {name}" for name in names}
    os.environ.update(held)
    return {value: f"$secret.{name}" for name, value in held.items()}


async def case_of(row: RunRow, history: Iterable[Entry], loaded: Loaded, flow: Json) -> dict[str, Any]:
    """A run as a case, of what a durable store has recorded. What its calls were given is found by running its
    definition once more with what they gave; `flow` is what the case says of that: a path, or the document. How long
    they took it says only where the run comes out otherwise when they take no time, as where its timeout was over."""
    recorded: dict[str, dict[str, Json]] = {}
    times: dict[str, dict[str, Json]] = {}
    waits: dict[str, Json] = {}
    listed = list(history)
    late = too_late(listed)
    for entry in listed:
        data: Any = entry.data
        if entry.kind == "call" and entry.path not in late:
            recorded[entry.path] = {"gives": data}
        elif entry.kind == "call_failed":
            said = {"message": data["message"], "retryable": bool(data.get("retryable", True))}
            recorded[entry.path] = {"fails": said}
        elif entry.kind == "signal" and "late" not in data:
            waits[entry.path] = data["value"]
        if entry.path in recorded:
            times[entry.path] = {"after": round(entry.ended - entry.started, 3)}
    context = row.context or {}
    case: dict[str, Any] = {"kind": TEST, "name": row.name or row.id, "flow": flow}
    case |= {"input": row.input} if row.input is not None else {}
    case |= {"variables": context["variables"]} if context.get("variables") else {}
    case |= {"waits": waits} if waits else {}
    expect = expected(row.result or {}, loaded.kind, row.status)
    case |= {"calls": await _found(case, loaded, recorded), "expect": expect}
    if (await replay(case, loaded)).differences:
        timed = {path: {**times[path], **one} for path, one in recorded.items()}
        other = {**case, "calls": await _found(case, loaded, timed)}
        return case if (await replay(other, loaded)).differences else other
    return case


async def _found(case: Mapping[str, Any], loaded: Loaded, recorded: Mapping[str, Mapping[str, Json]]) -> Json:
    """The calls of a case: what is recorded by path, under paths without attempts, with tools and arguments."""
    found = Recording({path: [one] for path, one in recorded.items()}, stand_ins(loaded), cut=True)
    await _played(case, loaded, found)
    calls: dict[str, list[dict[str, Json]]] = {}
    for path in {**found.asked, **recorded}:
        made = found.asked.get(path, [{}])[0]
        calls.setdefault(_ATTEMPT.sub("", path), []).append({**made, **recorded.get(path, {"hangs": True})})
    return {path: outcomes[0] if len(outcomes) == 1 else outcomes for path, outcomes in calls.items()}


def updated(case: Mapping[str, Any], replayed: Replayed) -> dict[str, Any]:
    """A case as it came out now: its calls say which tool was called with what, as often as it was, and what is not
    asked or waited for any more is gone, for a case that is updated passes. A call made more often than recorded gives
    its last outcome again; one that was never recorded has none to write. A single outcome stands without a list."""
    calls: dict[str, Json] = {}
    for path, given in (case.get("calls") or {}).items():
        outcomes = _listed(given)
        whole = []
        for i, made in enumerate(replayed.asked.get(path, []) if outcomes else []):
            one = outcomes[min(i, len(outcomes) - 1)]
            whole.append({**made, **{key: value for key, value in one.items() if key not in ("tool", "args")}})
        if whole:
            calls[path] = whole[0] if len(whole) == 1 else whole
    now = {**case, "calls": calls, "waits": dict(replayed.answered)}
    now["expect"] = replayed.expect
    return {key: value for key, value in now.items() if value or key not in ("calls", "waits")}


def expected(outcome: Mapping[str, Json], kind: str, status: str) -> dict[str, Json]:
    """What a case expects of an outcome: how it ended, its result, its errors."""
    found: dict[str, Json] = {"status": status}
    value = NOTATIONS[kind].value
    found |= {value: outcome[value]} if value in outcome else {}
    errors: Any = outcome.get("errors")
    return found | ({"errors": [_plain(error) for error in errors]} if isinstance(errors, list) and errors else {})


def _plain(error: Any) -> Json:
    """An error without the kind of backend that the tool had, which a recording is not, and the id that the run had."""
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return {**error, "message": _TIMED.sub(r"the run \1", _BACKEND.sub(r"\1:", error["message"]))}
    return error


def read_case(file: Path) -> tuple[dict[str, Any], Any]:
    """A case from its file, and the document it was read from. Raises InvalidFlow with every problem at its place."""
    document = load(file)
    problems = list(_problems(document.data))
    if problems:
        raise InvalidFlow(attach(problems, document))
    return document.data, document


def _problems(data: Json) -> Iterator[Problem]:
    if not isinstance(data, dict) or not is_test(data):
        yield Problem(path="kind", message=f"a recorded run is an object with `kind: {TEST}`")
        return
    yield from _unknown(data, _KEYS)
    if not isinstance(data.get("flow"), (str, dict)):
        yield Problem(path="flow", message="names the file of a definition, or is one")
    for key in ("calls", "waits", "variables", "expect"):
        if not isinstance(data.get(key) or {}, dict):
            yield Problem(path=key, message="must be an object")
    calls = data.get("calls")
    for path, given in calls.items() if isinstance(calls, dict) else ():
        for outcome in _listed(given):
            if not isinstance(outcome, dict) or not any(key in outcome for key in _OUTCOMES):
                said = "a call `gives` a value, `fails` with a message or `hangs` until it is cut off"
                yield Problem(path=f"calls.{path}", message=said)
                continue
            yield from _wrong(outcome, f"calls.{path}")


def _wrong(outcome: dict[str, Any], path: str) -> Iterator[Problem]:
    """What is wrong with one outcome of a call."""
    if len(said := [key for key in _OUTCOMES if key in outcome]) > 1:
        yield Problem(path=f"{path}.{said[1]}", message=f"a call has one outcome, and `{said[0]}` is one already")
    if outcome.get("hangs", True) is not True:
        yield Problem(path=f"{path}.hangs", message="must be true, or left out")
    after = outcome.get("after", 0)
    if type(after) not in (int, float) or after < 0:
        yield Problem(path=f"{path}.after", message="must be a number of seconds of 0 or more")
    yield from _unknown(outcome, _GIVES, f"{path}.")
    fails = outcome.get("fails", {})
    if isinstance(fails, dict):
        yield from _unknown(fails, _FAILS, f"{path}.fails.")
    else:
        yield Problem(path=f"{path}.fails", message="must be an object with a message")


def _unknown(given: dict[str, Any], known: Sequence[str], path: str = "") -> Iterator[Problem]:
    for key in given:
        if key not in known:
            said = f"unknown key; known here: {', '.join(known)}"
            yield Problem(path=f"{path}{key}", message=said, suggestion=closest(key, known))


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]
