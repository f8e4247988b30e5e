"""No test depends on the clock of a busy machine: `patience.until` waits for what must happen, and bench/ measures.

A file that reads the clock or sleeps all the same is listed with the reason and its number of uses. Lower a number
when there are fewer; raise none without a reason that a slow machine cannot break.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CLOCKS = {"monotonic", "perf_counter", "monotonic_ns", "perf_counter_ns"}
PROGRAMS = "plans/corpus"  # plans as models write them
ALLOWED: dict[str, tuple[int, str]] = {
    "chains/scripted.py": (1, "a scripted tool takes the time that its script gives"),
    "conformance/test_store.py": (1, "shipped without patience.py; a count bounds it"),
    "doors/conformance/conformance_tools.py": (1, "the conformance suite of MCP names the seconds"),
    "doors/conformance/scenario_server.py": (1, "the conformance suite of MCP asks for a pause between messages"),
    "engine/test_engine_cancel.py": (2, "virtual time"),
    "engine/test_engine_journal.py": (7, "virtual time"),
    "engine/test_engine_late.py": (1, "a tool that holds the loop beyond its timeout"),
    "engine/test_engine_parking.py": (3, "the time of a wait is taken off the time that has passed"),
    "engine/test_engine_time.py": (4, "virtual time; tools that take a moment"),
    "engine/test_engine_turns.py": (1, "a tool that outlives its timeout"),
    "engine/test_engine_waits.py": (3, "a wait in real time; only a lower bound"),
    "faults/steps.py": (4, "tools of the campaign take time, so that a process dies in them"),
    "faults/test_every_worker.py": (5, "the campaign records how soon work continues"),
    "faults/test_every_write.py": (1, "a store is locked for longer than one try"),
    "faults/test_hosts.py": (1, "the campaign records how soon work continues"),
    "fuzz/run.py": (2, "the fuzzers run for a given time"),
    "journal/child.py": (1, "a child writes at irregular times until it is killed"),
    "journal/test_claims.py": (5, "claims end at irregular times; an owner beats within its lease"),
    "journal/test_spent.py": (1, "a node that takes time; only a lower bound"),
    "journal/test_writer.py": (1, "nothing happens for a moment"),
    "mcp_servers/faulty.py": (3, "servers that hang, or poll for a file"),
    "mcp_servers/late.py": (2, "servers that hang, or end late"),
    "mcp_servers/odd.py": (2, "a server with slow calls"),
    "mcp_servers/rude.py": (4, "servers that hang"),
    "patience.py": (6, "the bound and the pause of every wait"),
    "plans/agent_child.py": (1, "tools take time, so that the process dies in them"),
    "plans/event_host.py": (1, "the clock of programs"),
    "plans/killed_programs.py": (1, "tools take time, so that a process dies in them"),
    "plans/virtual_app.py": (1, "virtual time"),
    "plans/test_boundary.py": (2, "programs that take time in a process of their own"),
    "plans/virtual_loop.py": (2, "virtual time"),
    "properties/timed_world.py": (2, "virtual time"),
    "properties/virtual_time.py": (1, "virtual time"),
    "recorded/test_recording.py": (2, "virtual time"),
    "runs/test_nested_waits.py": (1, "a wait in real time that is longer than the timeout"),
    "serve/test_http_connections.py": (4, "connections that are silent for longer than the limits"),
    "test_async_store.py": (3, "bounds what never happens: the loop comes around while a query is slow"),
    "tiers.py": (2, "limits and reports how long a campaign takes"),
    "tools/test_mcp_manners.py": (2, "attempts are spaced; only a lower bound"),
    "workers/test_worker_missed.py": (1, "an outage lasts for several due times"),
    "workers/test_worker_outage.py": (3, "an outage lasts for longer than a lease"),
    "workers/test_worker_places.py": (3, "workers and the server are away at random times"),
    "workers/test_worker_words.py": (1, "a tool that takes time; only a lower bound"),
}


def uses(text: str) -> list[int]:
    """Return the lines that read a clock or sleep; `asyncio.sleep(0)` only lets others have their turn."""
    found: list[int] = []
    if not any(name in text for name in (*CLOCKS, "sleep")):
        return found  # without parsing it
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr=name) if name in CLOCKS:
                found.append(node.lineno)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time" | "anyio"), attr="sleep")):
                found.append(node.lineno)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep"), args=[ast.Constant(0), *_]):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="sleep")):
                found.append(node.lineno)
            case ast.ImportFrom(module="time" | "asyncio", names=names):
                found += [node.lineno for alias in names if alias.name in {*CLOCKS, "sleep"}]
    return sorted(found)


def test_only_listed_files_read_the_clock_or_sleep() -> None:
    found = {
        path.relative_to(TESTS).as_posix(): lines
        for path in sorted(TESTS.rglob("*.py"))
        if "node_modules" not in path.parts and PROGRAMS not in path.as_posix()
        if (lines := uses(path.read_text("utf-8")))
    }
    allowed = {file: number for file, (number, _) in ALLOWED.items()}
    assert {file: len(lines) for file, lines in found.items()} == allowed, {
        file: lines for file, lines in found.items() if len(lines) != allowed.get(file)
    }


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("time.sleep(0)", 1),
        ("anyio.sleep(x)", 1),
        ("await asyncio.sleep(0.01)", 1),
        ("await asyncio.sleep(pause)", 1),
        ("await asyncio.sleep(0)", 0),
        ("await asyncio.sleep(0, 'fine')", 0),
        ("began = time.monotonic()", 1),
        ("clock = time.perf_counter", 1),
        ("from time import monotonic, time", 1),
        ("from asyncio import sleep", 1),
        ("due = time.time() + 60", 0),
        ("f.sleep(1)", 0),
    ],
)
def test_what_counts_as_a_use(line: str, number: int) -> None:
    assert len(uses(line)) == number
