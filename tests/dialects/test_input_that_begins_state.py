"""Converting experiences whose input begins state: kept where a notation can say it, else a loss with its place."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ropewalk import App
from ropewalk.errors import InvalidFlow
from ropewalk.schema import schema_errors

COUNTS = """\
name: counts
version: 0.1.0
state:
  schema:
    n: {type: any, default: 1}
    seen: {type: array, items: {type: number}, default: []}
graph:
  nodes:
    - id: look
      kind: value
      value: {n: $.n, seen: $.seen}
"""


def look_of(app: App, source: Any, input: Any) -> Any:
    """What the node `look` read, from a run of an experience or of a graph."""
    outcome = asyncio.run(app.run(source, input)).to_dict()
    assert outcome["status"] == "completed", outcome
    return outcome["finalState"] if "finalState" in outcome else outcome["result"]


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    (tmp_path / "experience.yaml").write_text(COUNTS)
    return tmp_path


@pytest.mark.parametrize("to", ["chain", "composition", "composite", "runchain"])
def test_a_notation_without_it_loses_each_field(counts: Path, to: str) -> None:
    app = App("memory")
    with pytest.raises(InvalidFlow) as refused:
        app.convert(counts, to)
    begun = [problem.path for problem in refused.value.problems if "of the input if present" in problem.message]
    assert begun == ["state.n", "state.seen"]
    made = app.convert(counts, to, allow_loss=True)
    assert list(made.losses) == list(refused.value.problems)
    app.load(dict(made))


def test_a_flow_and_back_keep_it(counts: Path) -> None:
    app = App("memory")
    flow = dict(app.convert(counts, "flow"))
    back = dict(app.convert(flow, "experience"))
    for input in ({"n": 7}, {"seen": [3]}, {}):
        expected = {"n": 1, "seen": [], **input}
        assert look_of(app, flow, input) == look_of(app, back, input) == look_of(app, counts, input) == expected


def test_a_field_of_any_type_has_no_type_in_the_input(counts: Path) -> None:
    schema = App("memory").load(counts).flow.input_schema
    assert schema == {"type": "object", "properties": {"n": {}, "seen": {"type": "array", "items": {"type": "number"}}}}
    assert not list(schema_errors(schema))
    declared = COUNTS + "inputSchema: {type: object, properties: {n: {type: string}}}\n"
    (counts / "experience.yaml").write_text(declared)
    assert App("memory").load(counts).flow.seeds == ("n",)


def test_an_experience_does_not_begin_state_that_the_flow_does_not() -> None:
    chain: dict[str, Any] = {
        "kind": "chain",
        "variables": {"v": 1},
        "nodes": [{"id": "a", "type": "delay", "delay": 0}],
        "result": {"v": "$var.v"},
    }
    app = App("memory")
    made = app.convert(chain, "experience")  # whose final state is the result, so no node is left
    assert look_of(app, dict(made), {"v": 9}) == {"v": 1}
    chain["result"] = {"w": "$var.v"}
    made = app.convert(chain, "experience")
    assert app.run_sync(dict(made), {"v": 9}).result == {"w": 1}
    typed = {**chain, "inputSchema": {"type": "object", "properties": {"v": {"type": "number"}}}}
    with pytest.raises(InvalidFlow, match="the state field 'v' has the name of a property of the input"):
        app.convert(typed, "experience")
    lost = app.convert(typed, "experience", allow_loss=True)
    assert len(lost.losses) == 1
    app.load(dict(lost))
