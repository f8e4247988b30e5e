"""Durations such as `10s`: one reader, and every key, option, field and argument that is a duration uses it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import ropewalk.doors.http.site
import ropewalk.notations
from ropewalk import App, Runner, Toolbox, flow, plan, tool
from ropewalk.app.run_budget import read_budget
from ropewalk.config import toml
from ropewalk.config.project import read_config
from ropewalk.config.servers_file import _times
from ropewalk.doors.cli.commands import COMMANDS, program
from ropewalk.doors.cli.dispatch import UsageError
from ropewalk.doors.cli.store import instant, span
from ropewalk.doors.http.models import RequestBody
from ropewalk.duration import DAY, MILLISECOND, SECOND, read_duration
from ropewalk.errors import InvalidFlow, InvalidInput, InvalidTool
from ropewalk.notations import fields
from ropewalk.notations.json_schema import schema_of
from ropewalk.notations.node_types import NODE_TYPES
from ropewalk.notations.registry import NOTATIONS
from ropewalk.schema import compile_schema
from ropewalk.tools.mcp.config import server_config

TIME = re.compile(r"(?i)timeout|delay|base_?ms|_ms$|seconds|duration|interval|period|ttl|grace|pause|lease|wait_for")
SPOKEN = re.compile(r"(?i)\b(seconds|milliseconds|minutes|hours|days)\b")


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        ("500ms", MILLISECOND, 500),
        ("10s", SECOND, 10),
        ("10s", MILLISECOND, 10_000),
        ("5m", SECOND, 300),
        ("2h", SECOND, 7200),
        ("1d", SECOND, 86_400),
        ("2w", DAY, 14),
        ("36h", DAY, 1.5),
        ("1.5s", MILLISECOND, 1500),
        ("1h30m", SECOND, 5400),
        ("500ms", SECOND, 0.5),
        (" 3s ", SECOND, 3),
        (10, SECOND, 10),
        (0.5, MILLISECOND, 0.5),
        (True, SECOND, True),
        (None, SECOND, None),
        *((text, SECOND, text) for text in ("", "10", "s", "10 s", "-1s", "1e3s", "10sec", "1s,", "$input.x", "٣s")),
        ("1s" * 60, SECOND, "1s" * 60),  # nobody writes that
    ],
)
def test_the_reader(value: Any, unit: float, expected: Any) -> None:
    result = read_duration(value, unit)
    assert (result, type(result)) == (expected, type(expected))


# --- definitions ------------------------------------------------------------------------------------------------


def tables() -> Iterator[tuple[str, str, Any]]:
    """Yield the table, the key and the checker of every key of every notation."""
    for info in pkgutil.walk_packages(ropewalk.notations.__path__, "ropewalk.notations."):
        module = importlib.import_module(info.name)
        for name, table in vars(module).items():
            if isinstance(table, dict) and table and all(map(callable, table.values())):
                for key, checker in table.items():
                    if isinstance(key, str):
                        yield f"{info.name}.{name}", key, checker
    for kind, node_type in NODE_TYPES.items():
        for key, checker in node_type.fields.items():
            yield f"node type {kind}", key, checker


def test_every_key_of_a_definition_that_is_a_duration_reads_one() -> None:
    durations, numbers = set(), set()
    for table, key, checker in tables():
        if checker is fields.number:
            numbers.add(key)
        if not TIME.search(key) or not inspect.isfunction(checker) or checker is fields.anything:
            continue
        report: list[Any] = []
        assert (checker("90s", key, report), report) == (90_000, []), f"{table}: {key}"
        checker("90", key, report)  # only a delay can also be a reference, which its compiler checks
        assert len(report) == (checker is not fields.milliseconds_or_reference), f"{table}: {key}"
        durations.add(key)
    assert {"timeout", "retryDelay", "delay", "base_ms", "timeout_ms"} <= durations
    assert numbers == {"budget"}, "a number with a unit of time reads durations: fields.milliseconds"


WORDS = {"policy": "retry", "attempts": 2, "delay": "250ms"}
STEP = {"id": "a", "type": "tool", "tool": "t", "timeout": "10s", "wait": {"event": "e", "timeout": "1h"}}
STEPS = [
    {**STEP, "errorStrategy": "retry", "retryDelay": "2s"},
    {"id": "p", "type": "delay", "delay": "1.5s"},
    {"id": "w", "type": "wait", "event": "e", "timeout": "1d"},
]
COMMON = {"timeout": "5m", "budget": {"seconds": "2m"}}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "chain": {"name": "c", "nodes": STEPS, "errorStrategy": "retry", "retryDelay": "3s", **COMMON},
    "composition": {"name": "c", "nodes": [{**STEPS[0], "onError": WORDS}, *STEPS[1:]], **COMMON},
    "composite": {
        "name": "c",
        "inputSchema": {"type": "object"},
        "steps": [{"name": "s", "tool": "t", "timeout": "10s", "on_error": WORDS}],
        **COMMON,
    },
    "experience": {
        "name": "x",
        "version": "0.1.0",
        "state": {"schema": {"n": {"type": "number"}}},
        "graph": {
            "nodes": [
                {"id": "a", "kind": "call", "tool": "t", "timeout": "10s", "on_error": {**WORDS, "base_ms": "1s"}},
                {"id": "p", "kind": "delay", "delay": "1.5s"},
                {"id": "c", "kind": "cli-agent", "provider": "claude-code", "prompt": "x", "timeout_ms": "1m"},
            ],
            "edges": [{"from": "a", "to": "p"}, {"from": "p", "to": "c"}],
        },
    },
    "agent": {"name": "a", "prompt": "x", **COMMON},
    "plan": {"name": "p", "code": "return 1", **COMMON},
}
DOCUMENTS["experience"]["graph"]["nodes"][0]["on_error"].pop("delay")


def in_milliseconds(value: Any, key: str = "") -> Any:
    """Return a document with numbers in place of its durations."""
    if isinstance(value, dict):
        return {name: in_milliseconds(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [in_milliseconds(item) for item in value]
    return read_duration(value, SECOND if key == "seconds" else MILLISECOND)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_definition_with_durations_is_that_with_numbers(kind: str) -> None:
    document = {"kind": kind, **DOCUMENTS[kind]}
    numbers = in_milliseconds(document)
    text = str(document)
    assert any(unit in text for unit in ("ms'", "s'", "m'")), text
    assert not re.search(r"'[0-9.]+(ms|s|m|h|d)'", str(numbers))
    written, plain = (NOTATIONS[kind].compile(each) for each in (document, numbers))
    assert written.flow == plain.flow
    assert written.document == plain.document or kind == "experience", (
        "only an experience keeps its document as written"
    )
    for each in (document, numbers):
        assert compile_schema(schema_of(kind)).problems(each) == []


def test_a_wrong_duration_says_what_to_write() -> None:
    nodes = [
        {"id": "a", "type": "tool", "tool": "t", "timeout": "10 sec"},
        {"id": "p", "type": "delay", "delay": "1 s"},
    ]
    with pytest.raises(InvalidFlow) as caught:
        App("memory").load({"kind": "chain", "nodes": nodes})
    assert [str(problem) for problem in caught.value.problems] == [
        "nodes[0].timeout: must be a number of milliseconds, or a duration such as 10s, 5m or 2h, not '10 sec'",
        "nodes[1].delay: must be milliseconds of 0 or more, or a reference to them, not '1 s'; write a duration such as"
        " 10s, 5m or 2h",
    ]


# --- ropewalk.toml ------------------------------------------------------------------------------------------------

TABLES: dict[str, dict[str, toml.ValueType]] = {
    **toml.SECTIONS,
    "mcp.x": toml.SERVER_KEYS,
    "providers.x": toml.PROVIDER_KEYS,
    "workers.queues.x": toml.QUEUE_KEYS,
    "budget.definitions.x": toml._BUDGET_KEYS,
    "store.retention": toml._RETENTION_KEYS,
}


def test_every_key_of_the_project_that_is_a_duration_reads_one() -> None:
    found = set()
    for table, keys in TABLES.items():
        for key, kind in keys.items():
            spoken = SPOKEN.search(kind.expected.partition(", or")[0]) and not kind.expected.startswith("{")
            if (TIME.search(key) or spoken) and kind.accepts(5):
                assert kind.read("36h") == (1.5 if key == "days" else 129_600), f"[{table}] {key}"
                assert not kind.accepts(kind.read("36 hours")), f"[{table}] {key}"
                found.add(key)
    assert {"timeout", "tool_timeout", "lease", "grace", "delay", "period", "seconds", "cpu_seconds", "days"} <= found


def test_the_settings_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "ropewalk.toml").write_text(
        """
limits.tool_timeout = "2m"
workers = {lease = "10s", grace = "1m30s"}
claude.timeout = "5m"
undo.delay = "500ms"
plans.cpu_seconds = "3s"
budget = {seconds = "1h", definitions = {x = {seconds = "90s", calls = 3}}}
store.retention = {days = "2w", runs = 5}
mcp_server.wait_for_servers = "0s"
mcp.s = {command = "x", timeout = "10s", connect_timeout = "1m"}
providers.p = {url = "https://example.com", timeout = "4s"}
""",
        encoding="utf-8",
    )
    config = read_config(tmp_path)
    assert (config.limits.tool_timeout, config.claude["timeout"], config.undo.delay) == (120, 300, 0.5)
    assert (config.worker_settings.limits.lease, config.worker_settings.limits.grace) == (10, 90)
    assert (config.plans.cpu_seconds, config.budget.seconds) == (3, 3600)
    assert config.budget.definitions == {"x": {"seconds": 90, "calls": 3}}
    assert config.retention is not None
    assert (config.retention.days, config.retention.runs, config.mcp_server.wait_for_servers) == (14, 5, 0)
    assert (config.servers["s"].timeout, config.servers["s"].connect_timeout) == (10, 60)
    assert config.providers["p"].timeout == 4


def test_files_of_other_programs_keep_their_units() -> None:
    entry = {"initTimeout": "2s", "startup_timeout_sec": "1m", "timeout": "2500ms"}
    assert _times(entry, True) == {"connect_timeout": 2.0, "timeout": 2.5}
    assert _times({"initTimeout": 2000, "timeout": 2500}, True) == {"connect_timeout": 2.0, "timeout": 2.5}


# --- command line, HTTP and Python --------------------------------------------------------------------------------


def test_every_option_that_is_a_duration_reads_one() -> None:
    found, root = [], program()
    for words in COMMANDS:
        command: Any = root
        for word in words.split():
            command = command[word]
        for argument in command.assemble_argument_collection():
            if re.search(r"\b(int|float)\b", str(argument.hint)) and SPOKEN.search(argument.parameter.help or ""):
                _, bound, _ = root.parse_args(
                    [*words.split(), argument.name, "1m30s"], exit_on_error=False, print_error=False
                )
                assert 90 in bound.arguments.values(), f"{words} {argument.name}"
                found.append(f"{words} {argument.name}")
    assert found == ["worker --grace", "doctor --timeout"]
    assert (span("1.5h", "--older-than"), instant("1970-01-02", "--since")) == (5400, instant("1970-01-02T00:00", "x"))
    with pytest.raises(UsageError, match="such as 2h or 30d"):
        span("30", "--older-than")


def bodies(kind: type[BaseModel] = RequestBody) -> Iterator[type[BaseModel]]:
    for inner in kind.__subclasses__():
        yield inner
        yield from bodies(inner)


def test_every_field_of_a_request_that_is_a_duration_reads_one() -> None:
    found = set()
    for body in bodies():
        for name, field in body.model_fields.items():
            if name == "budget":
                continue  # `read_budget` reads it
            if TIME.search(name) or SPOKEN.search(field.description or ""):
                validated = body.__pydantic_validator__.validate_assignment(body.model_construct(), name, "1m")
                assert getattr(validated, name) == 60, f"{body.__name__}.{name}"
                found.add(name)
    assert found == {"wait"}
    assert read_budget({"seconds": "1m", "calls": 3}) == {"seconds": 60, "calls": 3}
    with pytest.raises(InvalidInput, match=r"budget\.seconds: must be a number above 0"):
        read_budget({"seconds": "1 minute"})


def built(make: Callable[[Any], object]) -> Any:
    with flow("f") as f:
        make(f)
    return f.done().compiled.flow


def test_arguments_in_python() -> None:
    @tool(timeout="1m")
    def t() -> int:
        return 1

    @plan(timeout="1m")
    async def p() -> int:
        return 1

    box = Toolbox([t])
    registered = box.get("t")
    assert registered is not None
    assert (registered.timeout, p.timeout) == (60, 60)
    assert Runner(box, timeout="1m")._rules.timeout == 60  # type: ignore[arg-type]
    assert App("memory", timeout="1m").runner._rules.timeout == 60
    assert server_config("s", {"command": "x", "timeout": "1m"}).timeout == 60
    for make in (
        lambda f, m: (f.settings(timeout=m), f.value(1)),
        lambda f, m: f.sleep(m),
        lambda f, m: f.wait("e", timeout=m),
        lambda f, m: f.approval("x", timeout=m),
        lambda f, m: f.options(timeout=m, attempts=2, delay=m, max_delay=m).call(t),
    ):
        assert built(lambda f, make=make: make(f, "1m")) == built(lambda f, make=make: make(f, 60))  # type: ignore[misc]
    for wrong in (lambda: tool(timeout="1 minute")(test_the_settings_are_numbers), lambda: Runner(box, timeout="soon")):  # type: ignore[arg-type]
        with pytest.raises((InvalidTool, ValueError), match="number of seconds above 0"):
            wrong()
