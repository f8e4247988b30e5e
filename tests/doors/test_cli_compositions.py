"""Compositions on the command line: run, checked, planned, drawn, made new."""

from __future__ import annotations

import pytest

COMPOSITION = """\
kind: composition
name: shouts
inputSchema: {type: object, required: [texts]}
outputSchema: {type: array}
nodes:
  - {id: long, type: filter, items: $input.texts, expression: length($item) > $var.least}
  - {id: up, type: map, tool: upper, inputMapping: {text: $item}}
  - id: some
    type: branch
    branches:
      - condition: length($prev) == 0
        nodes: [{id: why, type: tool, tool: fail, inputMapping: {why: nothing to shout}}]
variables: {least: 2}
"""


@pytest.fixture
def shouts(project):
    project.write("shouts.yaml", COMPOSITION)
    return project


def test_a_composition_is_run(shouts):
    done = shouts("run", "shouts.yaml", "--input", '{"texts": ["a", "rope", "sail"]}', "--json")
    assert done.code == 0, done.err
    assert (done.data["result"], done.data["executionPath"]) == (["ROPE", "SAIL"], ["long", "up", "some"])
    shown = shouts(
        "run", "shouts.yaml", "--input", '{"texts": ["a", "rope"]}', "--var", "least=0", "--concurrency", "1"
    )
    assert 'result: ["A","ROPE"]' in shown.out
    assert "data:" not in shown.out
    assert shouts("run", "shouts.yaml", "--input", '{"texts": ["rope"]}', "--concurrency", "1").code == 0
    listed = shouts("runs", "ls", "--json")
    assert [run["kind"] for run in listed.data] == ["composition"] * 3


def test_a_failure_says_which_node_and_why(shouts):
    done = shouts("run", "shouts.yaml", "--input", '{"texts": []}')
    assert done.code == 1
    assert "why (tool fail): nothing to shout" in done.out
    data = shouts("run", "shouts.yaml", "--input", '{"texts": []}', "--json").data
    assert (data["failedNode"], data["executionPath"]) == ("why", ["long", "up", "some", "why"])


def test_an_input_that_does_not_fit_is_refused(shouts):
    done = shouts("run", "shouts.yaml", "--input", "{}")
    assert done.code == 2
    assert 'input: "texts" is a required property' in done.err


def test_a_composition_is_checked_planned_and_drawn(shouts):
    assert shouts("validate", "shouts.yaml").code == 0
    planned = shouts("preview", "shouts.yaml", "--json")
    assert [node["path"] for node in planned.data["nodes"]] == ["long", "up", "up/up.call", "some", "some/why"]
    drawn = shouts("graph", "shouts.yaml")
    assert "upper" in drawn.out
    shouts.write("wrong.yaml", COMPOSITION.replace("tool: upper", "tool: uper").replace("$item)", "$itm)"))
    refused = shouts("validate", "wrong.yaml")
    assert refused.code == 3
    assert "wrong.yaml:6:" in refused.err
    assert "^" in refused.err


def test_a_new_composition_runs_at_once(project, tmp_path_factory):
    home = tmp_path_factory.mktemp("new")
    made = project("new", "demo", "--kind", "composition", cwd=home)
    assert made.code == 0, made.err
    assert "ropewalk run composition.yaml" in made.out
    demo = home / "demo"
    assert {p.name for p in demo.iterdir()} == {"README.md", "ropewalk.toml", "tools.py", "composition.yaml", "tests"}
    for command in ("validate", "run"):
        done = project(command, "composition.yaml", "--json", cwd=demo)
        assert done.code == 0, done.err
    assert done.data["result"] == {"favourite": "round", "common": ["round"]}
    assert project("new", "other", "--kind", "compsition", cwd=home).code == 2
