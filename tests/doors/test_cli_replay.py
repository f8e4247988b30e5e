"""`ropewalk test`, as a process: cases in files, differences, --update."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.process

CASE = """\
kind: test
flow: shout.yaml
input: {text: a}
calls:
  up: {tool: upper, args: {text: "a!"}, gives: "A!"}
expect: {status: completed, results: {up: "A!"}}
"""


def test_a_case_passes_without_any_tool(project):
    project.write("cases/shout.test.yaml", CASE.replace("shout.yaml", "../shout.yaml"))
    done = project("test")
    assert (done.code, done.out.splitlines()) == (0, ["✓ cases/shout.test.yaml", "1 passed"])
    assert "noise" not in done.out + done.err


def test_what_differs_is_shown_and_can_be_taken_over(project):
    file = project.write("shout.test.yaml", CASE.replace('text: "a!"', 'text: "b!"').replace('up: "A!"', 'up: "B!"'))
    done = project("test", "shout.test.yaml", "--json")
    assert (done.code, done.data["failed"]) == (1, 1)
    found = [(d["path"], d["message"], d["was"], d["now"]) for d in done.data["tests"][0]["differences"]]
    assert found == [("up", "args.text of upper differs", "b!", "a!"), ("", "results.up differs", "B!", "A!")]
    shown = project("test", "shout.test.yaml").out
    assert "  up: args.text of upper differs\n" in shown
    assert '    was "b!"\n    now "a!"\n' in shown
    written = project("test", "--update")
    assert (written.code, written.out.splitlines()) == (0, [
        "↻ shout.test.yaml: accepted, the file now expects",
        *shown.splitlines()[1:-1],
        "1 updated",
    ])  # fmt: skip
    assert project("test").code == 0
    assert "text: a!" in file.read_text()


def test_a_day_of_pauses_takes_no_time(project):
    project.write(
        "slow.yaml",
        """\
kind: chain
timeout: 1000000000
nodes:
  - {id: pause, type: delay, delay: 86400000}
  - {id: late, type: wait, event: never, timeout: 3600000, errorStrategy: continue}
  - {id: up, type: tool, tool: upper, params: {text: a}, errorStrategy: retry, maxRetries: 2, retryDelay: 3600000}
""",
    )
    project.write(
        "slow.test.yaml",
        """\
kind: test
flow: slow.yaml
calls:
  up: [{fails: {message: busy}}, {fails: {message: busy}}, {gives: A}]
expect: {status: partial}
""",
    )
    done = project("test")
    assert done.code == 0, done.out


def test_calls_take_the_time_they_are_said_to_take_and_those_that_hang_end_at_a_timeout(project):
    project.write(
        "slow.yaml",
        """\
kind: chain
timeout: 7000000
nodes:
  - {id: a, type: tool, tool: upper, params: {text: a}, timeout: 1000, errorStrategy: retry, retryDelay: 3600000}
  - {id: pause, type: delay, delay: 2000000}
""",
    )
    project.write(
        "slow.test.yaml",
        """\
kind: test
flow: slow.yaml
calls:
  a: [{hangs: true}, {after: 0.5, gives: A}]
expect: {status: completed, errors: []}
""",
    )
    done = project("test")
    assert done.code == 0, done.out
    project.write("slow.yaml", (project.home / "slow.yaml").read_text().replace("2000000", "4000000"))
    told = project("test")
    assert 'was "completed"\n    now "timeout"' in told.out
    text = (project.home / "slow.yaml").read_text()
    project.write(
        "slow.yaml", text.replace("timeout: 7000000", "timeout: 1000000000000").replace("timeout: 1000, ", "")
    )
    assert "did not answer when it was recorded, and no timeout ends the call" in project("test", "--json").out


def test_a_wrong_case_is_shown_at_its_line_and_the_others_run(project):
    project.write("a.test.yaml", "kind: test\nflow: nothing.yaml\n")
    project.write("b.test.yaml", "kind: test\nflwo: shout.yaml\n")
    project.write("c.test.yaml", CASE)
    done = project("test")
    assert done.code == 1
    assert "b.test.yaml:2:1: flwo: unknown key" in done.out
    assert "no file 'nothing.yaml'" in done.out
    assert "✓ c.test.yaml" in done.out
    assert done.out.splitlines()[-1] == "1 passed, 2 failed"
    assert project("test", "nowhere").code == 2


def test_a_run_becomes_a_case_that_the_flow_passes(project):
    project.write(
        "slow.yaml",
        """\
kind: chain
timeout: 1000000000
nodes:
  - {id: pause, type: delay, delay: 30}
  - {id: l, type: loop, items: [a, b], nodes: [{id: up, type: tool, tool: upper, params: {text: $item}}]}
  - {id: f, type: tool, tool: fail, errorStrategy: continue, maxRetries: 1}
""",
    )
    assert project("run", "slow.yaml", "--id", "r").code == 0
    lost = project("runs", "export", "r", "--as-test", "--flow", "lost.yaml", "-o", "lost.test.yaml")
    assert (lost.code, lost.err) == (2, "error: --flow: no file 'lost.yaml'\n")
    made = project("runs", "export", "r", "--as-test", "--flow", "slow.yaml", "-o", "slow.test.yaml")
    assert (made.code, made.out) == (0, "wrote slow.test.yaml\n"), made.err
    done = project("test")
    assert done.code == 0, done.out
    text = (project.home / "slow.test.yaml").read_text()
    assert "flow: slow.yaml" in text
    assert "l[1]/up:\n    tool: upper\n    args:\n      text: b\n    gives: B\n" in text
    project.write("slow.yaml", (project.home / "slow.yaml").read_text().replace("[a, b]", "[a, c]"))
    told = project("test")
    assert told.code == 1
    assert "l[1]/up: args.text of upper differs" in told.out
    inside = project("runs", "export", "r", "--as-test", "--json").data
    assert inside["flow"]["kind"] == "chain"
    assert project("runs", "export", "nope", "--as-test").code == 2
    assert [row["runId"] for row in project("runs", "ls", "--all", "--json").data] == ["r"]


def test_a_run_that_was_stopped_makes_no_case(project) -> None:
    project.write("w.yaml", "kind: chain\nname: w\nnodes: [{id: w, type: wait, approval: ok?}]\n")
    assert project("run", "w.yaml", "--id", "w").code == 4
    assert project("runs", "stop", "w").code == 0
    done = project("runs", "export", "w", "--as-test")
    said = "it was ended from outside (stopped); to let it end by itself: `ropewalk runs retry w`"
    assert (done.code, done.out) == (2, "")
    assert f"run w cannot become a test: {said}" in done.err
    assert project("runs", "export", "w").code == 0, "all that is recorded of it is there to be had"


def test_a_case_that_is_updated_passes_whatever_the_flow_asks_less_or_more(project):
    project.write(
        "fewer.yaml",
        """\
kind: chain
nodes:
  - {id: ask, type: wait, approval: "ok?", timeout: 1000}
  - {id: up, type: tool, tool: upper, params: {text: a}, errorStrategy: retry, maxRetries: 2}
""",
    )
    file = project.write(
        "fewer.test.yaml",
        """\
kind: test
flow: fewer.yaml
calls:
  up: {fails: {message: busy}}
  gone: [{gives: 1}, {gives: 2}]
waits: {ask: {approved: true, by: ann}, other: 3}
expect: {status: completed}
""",
    )
    said = project("test", "--update", "fewer.test.yaml").out
    assert "  gone: no longer calls its tool\n  other: no longer waits\n" in said
    assert project("test", "fewer.test.yaml").out == "✓ fewer.test.yaml\n1 passed\n"
    assert (file.read_text().count("message: busy\n"), "gone:" in file.read_text()) == (
        4,
        False,
    )  # three calls, one error
    assert "other" not in file.read_text()


def test_an_update_leaves_a_case_without_the_answer_of_a_call_alone(project):
    project.write("one.yaml", "kind: chain\nnodes: [{id: tell, type: tool, tool: upper, params: {text: a}}]\n")
    case = "kind: test\nflow: one.yaml\ncalls: {tel: {gives: A}, gone: {gives: 1}}\nexpect: {status: completed}\n"
    file = project.write("one.test.yaml", case)
    done = project("test", "--update", "one.test.yaml")
    assert (done.code, file.read_text()) == (1, case)
    assert done.out.splitlines() == [
        "✗ one.test.yaml",
        "not updated, because no answer is recorded for these calls: tell",
        "  tell: calls upper, which was not recorded; rename 'tel' under calls, or add its answer there",
        "    was null",
        '    now {"text":"a"}',
        "1 failed",
    ]


def test_a_case_without_calls_is_updated(project):
    project.write("still.yaml", "kind: chain\nnodes: [{id: x, type: transform, input: 1}]\n")
    file = project.write("still.test.yaml", "kind: test\nflow: still.yaml\nexpect: {status: failed}\n")
    assert project("test", "--update", "still.test.yaml").code == 0
    assert (project("test", "still.test.yaml").code, "calls" in file.read_text()) == (0, False)


def test_an_outcome_that_is_two_and_a_wrong_key_of_a_failure_are_shown(project):
    project.write(
        "two.test.yaml",
        "kind: test\nflow: shout.yaml\ncalls:\n  up: {gives: 1, fails: {mesage: busy}}\n",
    )
    said = project("test", "two.test.yaml").out
    assert "two.test.yaml:4:18: calls.up.fails: a call has only one outcome; remove this key or `gives`\n" in said
    known = "message, retryable, kind, ran"
    assert f"calls.up.fails.mesage: unknown key; expected one of: {known}; did you mean message?" in said
