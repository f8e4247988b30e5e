"""One program in every notation: the same result, tool calls, events and journal, on every store.

The programs are in `equivalence/programs.yaml` and, in Python, in `equivalence/in_python.py`; what the
flow in Python does is what all others are held to. Compared are, of every node that calls a tool,
the kinds of its events in their order and the facts in the journal. Its path is compared after the
renaming that the program states. Where nodes run one after another, so are the calls and events.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chains.scripted import ScriptedTools, answering
from equivalence.in_python import PROGRAMS
from ropewalk.app.app import App
from ropewalk.codec import fingerprint
from ropewalk.errors import InvalidFlow
from ropewalk.events import Event
from ropewalk.notations.registry import NOTATIONS
from ropewalk.source.load import load

CASES = {case["name"]: case for case in load(Path(__file__).parent / "equivalence" / "programs.yaml").data}
KEYS = {"name", "input", "answers", "tools", "status", "result", "state", "at_once", "where", "renamed", "apart"}
WHERE = {"flow": "result", "composite": "result", "composition": "data"}
STATE = {"flow": "state", "chain": "variables", "experience": "finalState"}
WRITTEN = {
    "composite": [(r"pages\.round$", "page")],
    "composition": [(r"pages\.(call|round)$", "page"), (r"rows\.round\[", "cells["), (r"^parallel/", "")],
    "experience": [(r"pages\.round$", "page")],
    "runchain": [(r"^step0$", "first"), (r"^step1$", "second")],
}
"""The renaming where a writer makes two nodes of one, or one of two."""
TIMES = ("due", "path", "node", "attempts")  # of a failed attempt: when, and names that are renamed


def written() -> Iterator[Any]:
    """(program, notation, document) for every notation a program is written in."""
    for name, case in CASES.items():
        for kind in case:
            if kind not in KEYS and kind in NOTATIONS:
                yield pytest.param(name, kind, id=f"{name}-{kind}")


UNTYPED = set(CASES) - {"until_it_is_done", "fold"}
"""The programs that have no state with a type."""
HELD = {
    "flow": set(CASES),
    "chain": UNTYPED,
    "composite": {
        "sequence", "choice", "skipped_step", "for_each", "tries", "tries_then_stands_in", "nested_data", "failure",
        "silent", "failing_rounds", "waits",
    },
    "composition": UNTYPED,
    "experience": UNTYPED - {"loops_inside"},
    "runchain": {"failure"},  # its arguments are data
}  # fmt: skip
"""The programs in Python that each notation can hold."""


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.mark.parametrize(("name", "kind"), list(written()))
def test_every_notation_does_the_same(name: str, kind: str, address: str) -> None:
    case = CASES[name]
    document = {"kind": kind, **case[kind]}
    where, apart = case.get("where", {}).get(kind, WHERE.get(kind)), _apart(case, kind)
    mine = trace(case, document, address, kind=kind, where=where, apart=apart)
    python = trace(case, PROGRAMS[name](), address, apart=apart)
    assert python["result"] == case.get("result")
    assert python["status"] == case.get("status", "completed")
    for key in ("state", "result"):
        if where is None and key == "result":
            del mine[key], python[key]  # the notation has no place for it: what the tools were given says enough
        elif key == "state":
            assert {k: mine[key][k] for k in case.get("state", {}) if kind in STATE} == (
                case.get("state", {}) if kind in STATE else {}
            )
            del mine[key], python[key]
    assert mine == python


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in HELD for name in CASES])
def test_what_is_exported_does_the_same_or_is_refused(kind: str, name: str, address: str) -> None:
    """Each program in Python, written in every notation that can hold it."""
    case, built = CASES[name], PROGRAMS[name]()
    if name not in HELD[kind]:
        with pytest.raises(InvalidFlow):
            built.export(kind)
        return
    document = built.export(kind)
    apart = _apart(case, kind)
    inline = [(r"^next\[\w+\]/", "")] if kind in ("composite", "experience") else []  # no branches there
    mine = trace(case, document, address, kind=kind, apart=apart, written=True, also=inline)
    python = trace(case, built, address, apart=apart, also=inline)
    if kind not in STATE:
        del mine["state"], python["state"]
    assert mine == python


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in NOTATIONS for name in CASES if kind in CASES[name]]
)
def test_what_is_read_is_written_as_the_same(kind: str, name: str) -> None:
    """Documents that people wrote, read and written: the same flow again."""
    notation = NOTATIONS[kind]
    assert notation.write is not None
    flow = notation.compile({"kind": kind, **CASES[name][kind]}).flow
    again = notation.compile(notation.write(flow)).flow
    assert fingerprint(replace(again, name=flow.name)) == fingerprint(flow)


def test_every_notation_has_a_writer() -> None:
    writers = {kind for kind, notation in NOTATIONS.items() if notation.write is not None}
    # A plan has steps of its own; plans/test_plan_write.py compares its calls and results.
    assert writers - {"plan"} == set(HELD)


def test_the_programs_are_many_and_each_is_written_in_python_and_as_a_chain() -> None:
    assert len(CASES) >= 12
    assert set(CASES) == set(PROGRAMS)
    assert all("chain" in case and set(case) - KEYS <= set(NOTATIONS) for case in CASES.values())


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (lambda nodes: nodes[1]["params"].update(n=7), "calls"),
        (lambda nodes: nodes.insert(2, nodes.pop(0)), "calls"),
        (lambda nodes: nodes[1].update(condition=False), "events"),
        (lambda nodes: nodes[0].update(id="other"), "journal"),
        (lambda nodes: nodes[1].update(errorStrategy="retry", maxRetries=1, retryDelay=0), "events"),
        (lambda nodes: nodes[1].update(errorStrategy="skip"), "status"),
    ],
)
def test_a_notation_that_differs_is_noticed(change: Any, noticed: str) -> None:
    case = CASES["failure"]
    nodes = [dict(node, params=dict(node.get("params", {}))) for node in case["chain"]["nodes"]]
    change(nodes)
    mine = trace(case, {"kind": "chain", "nodes": nodes}, "memory", kind="chain", where=None)
    assert mine[noticed] != trace(case, PROGRAMS["failure"](), "memory")[noticed]


# --- what a run does ------------------------------------------------------------------------------


def trace(
    case: dict[str, Any],
    source: Any,
    address: str,
    *,
    kind: str = "flow",
    where: str | None = "result",
    apart: Any = (),
    written: bool = False,
    also: Any = (),
) -> dict[str, Any]:
    """What there is to see of one run, in the words of the graph. `apart` are nodes whose own events and
    facts are not compared, only their calls. What was `written` by a writer has the names that writers give."""
    renamed = WRITTEN.get(kind, ()) if written else case.get("renamed", {}).get(kind, ())
    renamed = (*renamed, *also)
    return asyncio.run(_trace(case, source, address, kind, where, apart, renamed))


async def _trace(
    case: dict[str, Any], source: Any, address: str, kind: str, where: Any, apart: Any, renamed: Any
) -> dict[str, Any]:
    tools = ScriptedTools(case["tools"])
    events: list[Event] = []

    def path(text: str) -> str:
        for pattern, replacement in renamed:
            text = re.sub(pattern, replacement, text)
        return text

    async with App(address) as app:
        answer = answering(app, case.get("answers", {}))

        def take(event: Event) -> None:
            events.append(event)
            answer(event)

        outcome = await app.run(source, case.get("input"), executor=tools, on_event=take)
        history = app.runs.history(outcome.run_id)
        facts = app.store.history(outcome.run_id)
    assert history is not None
    called = {event.path for event in events if event.kind == "node.started" and event.data and "tool" in event.data}
    called |= {event.path for event in events if event.kind == "wait.started"}
    # In a line a node is ready when it starts, and nothing is told: whether something is a line is for the notation.
    told = [event for event in events if _whole(event.path) in called and event.kind != "node.ready"]
    found = [(path(event.path), event.kind) for event in told]
    calls = [(name, params) for name, params in tools.calls]
    kept = {(path(e.path), e.kind): _fact(e) for e in facts if _whole(e.path) in called}
    if not case.get("state") or kind not in STATE or "state" in apart:
        # Where a program has no state of its own, a notation may keep its values there, and others not.
        found = [(path, kind) for path, kind in found if kind != "state.write"]
    return {
        "status": outcome["status"],
        "result": _at(outcome.to_dict(), where) if where else None,
        "state": _at(outcome.to_dict(), STATE[kind]) if kind in STATE else {},
        "calls": sorted(calls, key=repr) if case.get("at_once") else calls,
        "events": _by_node(found, apart) if case.get("at_once") else [e for e in found if e[0] not in apart],
        "journal": {key: fact for key, fact in sorted(kept.items()) if _whole(key[0]) not in apart},
    }


def _apart(case: dict[str, Any], kind: str) -> list[str]:
    """What of a program is not compared with a notation: its state where that has none."""
    return [*case.get("apart", {}).get(kind, ()), *([] if kind in STATE else ["state"])]


def _whole(path: str) -> str:
    """The path of a node, whatever the attempt."""
    return re.sub(r"@\d+$", "", path)


def _by_node(events: list[tuple[str, str]], apart: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path, kind in events:
        if path not in apart:
            found.setdefault(path, []).append(kind)
    # Of a node that runs several times at once, which of them is first is chance.
    return {path: sorted(kinds) if kinds.count("node.started") > 1 else kinds for path, kinds in sorted(found.items())}


def _fact(entry: Any) -> Any:
    data = entry.data
    if isinstance(data, dict) and entry.kind in ("attempt", "call_failed"):
        data = {key: value for key, value in data.items() if key not in TIMES}
    if entry.kind in ("wait", "signal"):
        return {key: value for key, value in data.items() if key not in ("due", "sent")}
    return (entry.digest, data)


def _at(outcome: dict[str, Any], path: str) -> Any:
    """`results.text`, or `results.{a,b}` for a list of several."""
    value: Any = outcome
    for step in re.findall(r"\{[^}]*\}|[^.]+", path):
        if step.startswith("{"):
            return [value[key] for key in step[1:-1].split(",")]
        value = value.get(step)
    return value
