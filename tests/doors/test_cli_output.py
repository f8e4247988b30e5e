"""What large runs print: enough to see how it goes, and what is to be done now last."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.process

WIDE = """
kind: chain
name: wide
nodes:
  - id: each
    type: loop
    items: $input.items
    concurrency: 10
    nodes:
      - {id: one, type: tool, tool: add, params: {a: $item}}
  - {id: ask, type: wait, approval: "Go on?"}
  - {id: fragile, type: tool, tool: add, params: {a: $input.last}, maxRetries: 0}
"""
ITEMS = "[" + ", ".join(map(str, range(400))) + "]"


def test_a_large_run_prints_no_more_than_one_can_read_and_says_last_what_it_waits_for(project: Any) -> None:
    project.write("wide.yaml", WIDE)
    done = project("run", "wide.yaml", "--id", "x", "-i", f'{{"items": {ITEMS}, "last": 1}}')
    assert done.code == 4
    lines = done.err.splitlines()
    assert len(lines) < 120
    assert lines[-1] == "… 401 nodes done; --watch shows each one"
    last = done.out.splitlines()[-3:]
    assert [line.strip().partition(" ")[0] for line in last] == ["ask", "ropewalk", "then:"]
    shown = project("runs", "show", "x").out.splitlines()
    assert len(shown) < 300
    assert any("steps are left out here; --json has all" in line for line in shown)
    waiting = project("runs", "ls", "--json").data[0]["resultCount"]
    assert "· ask  waits for an approval: Go on?" in shown
    assert project("runs", "approve", "x").code == 0
    answered = project("runs", "show", "x").out.splitlines()
    assert "· ask  waited for an approval: Go on?" in answered
    assert project("runs", "show", "x", "--json").data["waitingFor"] == []
    resumed = project("resume", "x")
    assert resumed.code == 0
    assert "↺ each[0]/one  recorded" in resumed.err
    ended = project("runs", "ls", "--json").data[0]["resultCount"]
    assert (waiting, ended) == (1, 3)  # nodes, not items


def test_a_result_that_is_long_is_cut_where_runs_are_shown(project: Any) -> None:
    project.write("wide.yaml", WIDE.replace('  - {id: ask, type: wait, approval: "Go on?"}\n', ""))
    items = "[" + ", ".join(map(str, range(1_000_000, 1_003_000))) + "]"
    assert project("run", "wide.yaml", "--id", "x", "-i", f'{{"items": {items}, "last": 1}}', "--json").code == 0
    shown = project("runs", "show", "x").out
    assert len(shown) < 40_000
    assert shown.endswith(" more characters; --json has all\n")
    assert len(project("runs", "show", "x", "--json").data["nodes"]) > 3000


def test_many_differences_of_a_test_are_counted(project: Any) -> None:
    project.write("wide.yaml", WIDE.replace('  - {id: ask, type: wait, approval: "Go on?"}\n', ""))
    assert project("run", "wide.yaml", "--id", "x", "-i", f'{{"items": {ITEMS}, "last": 1}}').code == 0
    case = yaml.safe_load(project("runs", "export", "x", "--as-test").out)
    case["flow"]["nodes"][0]["nodes"][0]["params"]["b"] = 2
    project.write("x.test.yaml", yaml.safe_dump(case))
    done = project("test", "x.test.yaml")
    assert done.code == 1
    assert len(done.out.splitlines()) < 100
    assert " more differences; --json has all" in done.out


def test_names_of_any_length_fill_no_screen(project: Any) -> None:
    long = "n" * 100_000
    project.write("long.json", json.dumps({"kind": "chain", "nodes": [{"id": long, "type": "delay", "delay": 1}]}))
    project.write(
        "key.json", json.dumps({"kind": "chain", "nodes": [{"id": "a", "type": "delay", "delay": 1, long: 1}]})
    )
    project.write("tool.json", json.dumps({"kind": "chain", "nodes": [{"id": "a", "type": "tool", "tool": long}]}))
    assert len(project("run", "long.json", "--store", "memory").err) < 1000
    for name, said in (("key.json", "unknown key"), ("tool.json", "unknown tool")):
        done = project("run", name, "--store", "memory")
        assert (done.code, said in done.err, len(done.err) < 5000) == (3, True, True)
    assert len(json.loads(project("validate", "tool.json", "--json").out)["error"]["problems"][0]["message"]) > 100_000


def test_the_text_that_a_plan_prints_goes_to_standard_error_and_into_json(project: Any) -> None:
    code = 'n: int\nprint("hello", n)\nprint("a\\x1b[31mb")\nreturn n + 1\n'
    project.write("p.yaml", json.dumps({"kind": "plan", "name": "p", "code": code}))
    done = project("run", "p.yaml", "--id", "x", "-i", '{"n": 2}')
    assert (done.code, done.out.splitlines()[-1], "hello" in done.out) == (0, "result: 3", False)
    assert "hello 2\n" in done.err
    assert "\x1b[31mb" not in done.err
    again = project("resume", "x")
    assert ("hello 2\n" in again.err, "result: 3" in again.out) == (True, True)
    shown = project("run", "p.yaml", "-i", '{"n": 2}', "--json")
    assert (shown.data["result"], shown.data["printed"]) == (3, "hello 2\na\x1b[31mb\n")
    assert "hello" not in shown.err
