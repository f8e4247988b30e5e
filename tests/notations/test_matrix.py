"""One vocabulary: each field of a node and of a document, with one spelling, in every notation.

A cell of the matrix is a row in one notation. It passes by the calls that were made and by the result. At most one
cell in sixteen may be refused, and docs/node-fields.md gives the reason of each.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App, InvalidFlow, ToolError, tool
from ropewalk.notations.json_schema import schema_of
from ropewalk.schema import compile_schema

NOTATIONS = ("chain", "composition", "composite", "experience")
PAGE = Path(__file__).parents[2] / "docs" / "node-fields.md"


class Recorder:
    """The tools of a cell, and the arguments of each call that was made."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.undone: list[Any] = []
        self.failures = 0
        self.meeting = asyncio.Event()

    def tools(self) -> list[Any]:
        @tool
        async def up(s: Any = "q") -> Any:
            """Return the text in capitals."""
            self.calls.append(s)
            return str(s).upper()

        @tool
        async def flaky(s: Any = "q") -> Any:
            """Fail as often as the cell asks for."""
            self.calls.append(s)
            if self.failures > 0:
                self.failures -= 1
                raise ToolError("no")
            return str(s).upper()

        @tool
        async def never(s: Any = "q") -> Any:
            """Never return."""
            self.calls.append(s)
            await asyncio.Event().wait()

        @tool
        async def meet(s: Any = "q") -> Any:
            """Return once a second call has begun."""
            self.calls.append(s)
            if len(self.calls) == 2:
                self.meeting.set()
            await self.meeting.wait()
            return s

        @tool
        async def back(s: Any = None) -> None:
            """Undo a call of `up`."""
            self.undone.append(s)

        return [up, flaky, never, meet, back]


def node(notation: str, id: str = "a", use: str = "up", /, **fields: Any) -> dict[str, Any]:
    """A node that calls a tool, in the words that the notation has always had for its kind and name."""
    if notation == "composite":
        return {"name": id, "tool": use, **fields}
    if notation == "experience":
        return {"id": id, "kind": "call", "tool": use, **fields}
    # Without arguments, a node of a composition passes on its data.
    given = {"args": {}} if notation == "composition" else {}
    return {"id": id, "type": "tool", "tool": use, **given, **fields}


def wait(notation: str, id: str = "a", /, **fields: Any) -> dict[str, Any]:
    """A node that waits."""
    key = "kind" if notation == "experience" else "type"
    return {"name" if notation == "composite" else "id": id, key: "wait", **fields}


def document(notation: str, *nodes: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A definition of these nodes."""
    head: dict[str, Any] = {"kind": notation, "name": "c"}
    if notation == "composite":
        return {**head, "mode": "compose", "inputSchema": {}, "steps": [*nodes], **fields}
    if notation == "experience":
        state = {name: {"type": "any"} for name in ("o", "p")}
        return {**head, "version": "0.1.0", "state": {"schema": state}, "graph": {"nodes": [*nodes]}, **fields}
    return {**head, "nodes": [*nodes], **fields}


def output(notation: str, id: str = "a") -> str:
    """The reference to the output of a node."""
    return f"$steps.{id}" if notation == "composite" else f"$output.{id}"


@dataclass(frozen=True)
class Row:
    """One field: the definition with it, the calls that it makes and the result that it gives."""

    make: Callable[[str], dict[str, Any]]
    result: Any = None
    calls: list[Any] = field(default_factory=list)
    input: Any = field(default_factory=dict)
    status: str = "completed"
    failures: int = 0
    undone: int = 0
    answer: Callable[[App, str], None] | None = None


def one(use: str = "up", /, of: Mapping[str, Any] | None = None, **fields: Any) -> Callable[[str], dict[str, Any]]:
    """A definition of one node with these fields, whose result is the output of the node."""
    return lambda notation: document(
        notation, node(notation, "a", use, **fields), **{"result": output(notation), **(of or {})}
    )


def then(use: str = "up", /, **fields: Any) -> Callable[[str], dict[str, Any]]:
    """A node with these fields, and one after it that does not need it."""
    return lambda notation: document(
        notation, node(notation, "a", use, **fields), node(notation, "b", args={"s": "b"}), result=output(notation, "b")
    )


def written(root: str) -> Callable[[str], dict[str, Any]]:
    """A node that reads what another one writes."""

    def make(notation: str) -> dict[str, Any]:
        reads = {"args": {"s": f"${{{root}.o}}!"}, "when": f'{root}.o == "Q"', "after": ["a"]}
        nodes = node(notation, "a", writes=["o"]), node(notation, "b", **reads)
        return document(notation, *nodes, result={"b": output(notation, "b"), "o": f"{root}.o"})

    return make


def later(key: str) -> Callable[[str], dict[str, Any]]:
    """A node that waits for the one after it in the document."""

    def make(notation: str) -> dict[str, Any]:
        mode = {"mode": "dag"} if notation == "chain" else {}
        nodes = node(notation, "b", args={"s": "b"}, **{key: ["a"]}), node(notation, "a", args={"s": "a"})
        return document(notation, *nodes, result=output(notation, "b"), **mode)

    return make


def waiting(**fields: Any) -> Callable[[str], dict[str, Any]]:
    return lambda notation: document(notation, wait(notation, **fields), result=output(notation))


def varied(root: str) -> Callable[[str], dict[str, Any]]:
    return one(args={"s": f"{root}.v"}, of={"variables": {"v": "w"}})


def doc(**fields: Any) -> Callable[[str], dict[str, Any]]:
    return one(of=fields)


def send(app: App, run: str) -> None:
    app.runs.send(run, "go", {"n": 1})


def approve(app: App, run: str) -> None:
    app.runs.approve(run)


async def answered(app: App, definition: Any, input: Any, answer: Callable[[App, str], None]) -> Any:
    """The outcome of a run that somebody answers while it waits."""
    running = asyncio.ensure_future(app.run(definition, input, run_id="waits"))
    while not (app.runs.row("waits") is not None and app.runs.waiting("waits")):
        assert not running.done(), running.result().errors
        await asyncio.sleep(0)
    answer(app, "waits")
    return await running


FIVE = {"n": 5}
ONE = {"n": 1}
LIST = {"l": ["x", "y", "z"]}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

ROWS: dict[str, Row] = {
    # --- fields of a node
    "args": Row(one(args={"s": "$input.x"}), "V", ["v"], {"x": "v"}),
    "when, true": Row(one(when="$input.n > 3"), "Q", ["q"], FIVE),
    "when, false": Row(one(when="$input.n > 3"), None, [], ONE),
    "timeout": Row(one("never", timeout=20), None, ["q"], status="failed"),
    "timeout_ms": Row(one("never", timeout_ms=20), None, ["q"], status="failed"),
    "on_error: stop": Row(then("flaky", on_error="stop"), None, ["q"], failures=1, status="failed"),
    "on_error: skip": Row(then("flaky", on_error="skip"), "B", ["q", "b"], failures=1),
    "on_error: continue": Row(then("flaky", on_error="continue"), "B", ["q", "b"], failures=1),
    "on_error: fallback": Row(one("flaky", on_error="fallback", fallback="F"), "F", ["q"], failures=1),
    "on_error: retry": Row(one("flaky", on_error="retry"), "Q", ["q", "q"], failures=1),
    "on_error.policy stop": Row(then("flaky", on_error={"policy": "stop"}), None, ["q"], failures=1, status="failed"),
    "on_error.policy skip": Row(then("flaky", on_error={"policy": "skip"}), "B", ["q", "b"], failures=1),
    "on_error.policy continue": Row(then("flaky", on_error={"policy": "continue"}), "B", ["q", "b"], failures=1),
    "on_error.value": Row(one("flaky", on_error={"policy": "fallback", "value": "F"}), "F", ["q"], failures=1),
    "on_error.value null": Row(one("flaky", on_error={"policy": "fallback", "value": None}), None, ["q"], failures=1),
    "on_error.attempts": Row(
        one("flaky", on_error={"policy": "retry", "attempts": 3, "delay": 1}), "Q", ["q"] * 3, failures=2
    ),
    "on_error.attempts, used up": Row(
        one("flaky", on_error={"policy": "retry", "attempts": 2, "delay": 1}),
        None,
        ["q"] * 2,
        failures=9,
        status="failed",
    ),
    "on_error.backoff": Row(
        one("flaky", on_error={"policy": "retry", "attempts": 3, "delay": 1, "backoff": "exponential"}),
        "Q",
        ["q"] * 3,
        failures=2,
    ),
    "on_error.backoff constant": Row(
        one("flaky", on_error={"policy": "retry", "attempts": 3, "delay": 1, "backoff": "constant"}),
        "Q",
        ["q"] * 3,
        failures=2,
    ),
    "on_error.attempts, fallback": Row(
        one("flaky", on_error={"policy": "fallback", "attempts": 3, "delay": 1, "backoff": "linear", "value": "F"}),
        "F",
        ["q"] * 3,
        failures=9,
    ),
    "on_error.attempts, continue": Row(
        one("flaky", on_error={"policy": "continue", "attempts": 2, "delay": 1, "value": "F"}),
        "F",
        ["q"] * 2,
        failures=9,
    ),
    "result": Row(lambda n: document(n, node(n), result={"r": output(n)}), {"r": "Q"}, ["q"]),
    "result, of the input": Row(lambda n: document(n, node(n), result="$input.n"), 5, ["q"], FIVE),
    "outputSchema, held": Row(doc(outputSchema={"type": "string"}), "Q", ["q"]),
    "outputSchema, broken": Row(doc(outputSchema={"type": "integer"}), None, ["q"], status="failed"),
    "for_each": Row(one(args={"s": "$item"}, for_each={"items": "$input.l"}), ["X", "Y", "Z"], ["x", "y", "z"], LIST),
    "for_each, empty": Row(one(args={"s": "$item"}, for_each={"items": "$input.l"}), [], [], {"l": []}),
    "for_each.source": Row(
        one(args={"s": "$index"}, for_each={"source": "$input.l"}), ["0", "1", "2"], [0, 1, 2], LIST
    ),
    "for_each.concurrency": Row(
        one("meet", args={"s": "$item"}, for_each={"items": "$input.l", "concurrency": 2}),
        ["x", "y"],
        ["x", "y"],
        {"l": ["x", "y"]},
    ),
    "for_each, on_error": Row(
        one("flaky", args={"s": "$item"}, for_each="$input.l", on_error={"policy": "fallback", "value": "$item"}),
        ["x", "Y", "Z"],
        ["x", "y", "z"],
        LIST,
        failures=1,
    ),
    "for_each, when": Row(one(for_each="$input.l", when="$input.l == null"), None, [], LIST),
    "wait": Row(one(wait={"event": "go"}), "Q", ["q"], answer=send),
    "wait, for_each": Row(
        one(args={"s": "$item"}, for_each="$input.l", wait={"approval": "Sure?"}),
        ["X", "Y", "Z"],
        ["x", "y", "z"],
        LIST,
        answer=approve,
    ),
    "wait, timeout": Row(one(wait={"event": "go", "timeout": 1}), None, [], status="failed"),
    "wait, on_error": Row(
        one(wait={"event": "go", "timeout": 1}, on_error={"policy": "fallback", "value": "F"}), "F", []
    ),
    "writes, $var": Row(written("$var"), {"b": "Q!", "o": "Q"}, ["q", "Q!"]),
    "writes, $state": Row(written("$state"), {"b": "Q!", "o": "Q"}, ["q", "Q!"]),
    "event": Row(waiting(event="go"), {"n": 1}, answer=send),
    "event, timeout": Row(waiting(event="go", timeout=1), None, status="failed"),
    "approval": Row(
        lambda n: document(n, wait(n, approval="Sure?"), result=f"{output(n)}.approved"), True, answer=approve
    ),
    "dependsOn": Row(later("dependsOn"), "B", ["a", "b"]),
    "after": Row(later("after"), "B", ["a", "b"]),
    "undo": Row(one(undo="back"), "Q", ["q"], undone=1),
    "name": Row(lambda n: one(**({} if n == "composite" else {"name": "Shout"}))(n), "Q", ["q"]),
    "description": Row(one(description="Shout."), "Q", ["q"]),
    # --- keys of a document
    "document: id": Row(doc(id="my-id"), "Q", ["q"]),
    "document: description": Row(doc(description="It shouts."), "Q", ["q"]),
    "document: version": Row(doc(version="1.0.0"), "Q", ["q"]),
    "document: metadata": Row(doc(metadata={"team": "desk"}), "Q", ["q"]),
    "document: inputSchema, held": Row(doc(inputSchema=SCHEMA), "Q", ["q"], FIVE),
    "document: inputSchema, default": Row(
        one(
            args={"s": "$input.s"},
            of={"inputSchema": {"type": "object", "properties": {"s": {"type": "string", "default": "d"}}}},
        ),
        "D",
        ["d"],
    ),
    "document: timeout": Row(one("never", of={"timeout": 20}), None, ["q"], status="failed"),
    "document: concurrency": Row(
        one("meet", args={"s": "$item"}, for_each={"items": "$input.l", "concurrency": 2}, of={"concurrency": 2}),
        ["x", "y"],
        ["x", "y"],
        {"l": ["x", "y"]},
    ),
    "document: variables, $var": Row(varied("$var"), "W", ["w"]),
    "document: variables, $state": Row(varied("$state"), "W", ["w"]),
    "document: errorStrategy": Row(
        lambda n: {**then("flaky")(n), "errorStrategy": "skip"}, "B", ["q", "b"], failures=1
    ),
    "document: on_error": Row(
        one("flaky", of={"on_error": {"policy": "retry", "attempts": 3, "delay": 1}}), "Q", ["q"] * 3, failures=2
    ),
    "document: maxRetries": Row(
        one("flaky", of={"errorStrategy": "retry", "maxRetries": 2, "retryDelay": 1}), "Q", ["q"] * 3, failures=2
    ),
    "document: undo": Row(one(undo="back", of={"undo": "on_request"}), "Q", ["q"], undone=1),
    "document: budget": Row(doc(budget={"seconds": 60}), "Q", ["q"]),
    "document: strict": Row(doc(strict=True), "Q", ["q"]),
    "document: mcpPrompt": Row(doc(mcpPrompt=True), "Q", ["q"]),
}

REFUSED: dict[tuple[str, str], str] = {}
"""The cells that a notation has no meaning for, each with its reason in docs/node-fields.md."""


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("name", ROWS)
def test_a_field_means_the_same_in_every_notation(name: str, notation: str) -> None:
    row = ROWS[name]
    recorder = Recorder()
    recorder.failures = row.failures

    async def run() -> None:
        async with App("memory", tools=recorder.tools()) as app:
            definition = row.make(notation)
            if (name, notation) in REFUSED:
                with pytest.raises(InvalidFlow):
                    await app.run(definition, row.input)
                assert REFUSED[name, notation] in PAGE.read_text()
                return
            if row.answer is None:
                outcome = await app.run(definition, row.input)
            else:
                outcome = await answered(app, definition, row.input, row.answer)
            if row.undone:
                await app.runs.undo(outcome.run_id)
            seen = {"partial": "completed", "timeout": "failed"}.get(outcome.status, outcome.status)
            assert (seen, recorder.calls) == (row.status, row.calls), outcome.errors
            assert len(recorder.undone) == row.undone
            if row.status == "completed":
                assert outcome.result == row.result

    asyncio.run(run())


def test_at_most_one_cell_in_sixteen_is_refused() -> None:
    assert len(REFUSED) * 16 <= len(ROWS) * len(NOTATIONS)


@pytest.mark.parametrize("notation", NOTATIONS)
def test_an_input_that_breaks_the_schema_calls_nothing(notation: str) -> None:
    recorder = Recorder()

    async def run() -> None:
        async with App("memory", tools=recorder.tools()) as app:
            with pytest.raises(Exception, match="n"):
                await app.run(doc(inputSchema=SCHEMA)(notation), {})
        assert recorder.calls == []

    asyncio.run(run())


WRONG = {
    "when": 5,
    "condition": 5,
    "timeout_ms": "soon",
    "onError": {"policy": "nah"},
    "on_error": {"policy": "nah"},
    "args": "$nope",
    "params": "$nope",
    "inputMapping": "$nope",
    "input_mapping": "$nope",
    "max_retries": -1,
    "after": 7,
    "depends_on": 7,
    "writes": 7,
    "outputVar": 7,
}


@pytest.mark.parametrize("notation", NOTATIONS)
@pytest.mark.parametrize("word", WRONG)
def test_a_wrong_field_has_its_place_whatever_its_word(word: str, notation: str) -> None:
    given = node(notation, "a", **{word: WRONG[word]})
    if word in ("params", "inputMapping", "input_mapping"):
        given.pop("args", None)
    text = json.dumps(document(notation, given, strict=True), indent=1)
    with App("memory", tools=Recorder().tools()) as app, pytest.raises(InvalidFlow) as caught:
        app.load(text)
    lines = text.splitlines()
    first = caught.value.problems[0].place
    assert first is not None
    assert f'"{word}"' in "".join(lines[first.line - 2 : first.line])


BEYOND_SCHEMAS = ("args", "params", "inputMapping", "input_mapping")
"""Their faults are in what references mean."""


@pytest.mark.parametrize("notation", NOTATIONS)
def test_editors_accept_and_refuse_what_the_reader_does(notation: str) -> None:
    schema = compile_schema(schema_of(notation))
    for name, row in ROWS.items():
        assert schema.problems(row.make(notation)) == [], name
    for word in WRONG.keys() - set(BEYOND_SCHEMAS):
        assert schema.problems(document(notation, node(notation, "a", **{word: WRONG[word]}))), word
    twice = node(notation, "a", on_error="skip", onError="skip")
    assert schema.problems(document(notation, twice))


@pytest.mark.parametrize("notation", ["composition", "composite"])
def test_a_long_row_of_nodes_that_wait_for_the_next_one_is_read(notation: str) -> None:
    nodes = [node(notation, f"n{i}", args={}, **({"after": [f"n{i + 1}"]} if i < 1999 else {})) for i in range(2000)]
    with App("memory", tools=Recorder().tools()) as app:
        flow = app.load(document(notation, *nodes)).flow
    assert [each.id for each in flow.body.nodes] == [f"n{i}" for i in reversed(range(2000))]
