"""What a run that goes on says of what was before, and what is said of one that is over, as processes."""

from __future__ import annotations

import re

CHAIN = """\
kind: chain
errorStrategy: continue
nodes:
  - {id: paid, type: wait, event: paid-7, timeout: 60000}
  - {id: a, type: tool, tool: fail}
  - {id: ok, type: wait, approval: Ship it?}
  - {id: b, type: tool, tool: fail, errorStrategy: stop}
"""


def test_what_was_before_is_told_as_that(project):
    project.write("c.yaml", CHAIN)
    assert "… paid  waits for the event 'paid-7'" in project("run", "c.yaml", "--id", "r").err
    project("runs", "send", "r", "paid-7", "--payload", "7")
    first = project("resume", "r").err
    assert "waits for the event" not in first
    assert "! a  attempt failed: no luck" in first
    assert "… ok  waits for an approval: Ship it?" in first
    project("runs", "approve", "r")
    second = project("resume", "r").err
    assert "! a  attempt failed: recorded: no luck" in second
    assert "waits for" not in second
    shown = project("runs", "show", "r").out
    assert re.search(r"· paid  got 7, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n", shown)
    again = project("runs", "retry", "r").err
    assert "waits for the event" not in again
    watched = project("runs", "watch", "r").out
    assert "waits for the event" not in watched


def test_a_run_that_is_over_is_not_run_and_said_to_be(project):
    project.write("c.yaml", "kind: chain\nnodes: [{id: a, type: tool, tool: fail}]\n")
    assert "nothing was executed" not in project("run", "c.yaml", "--id", "my run").err
    for words in (("resume", "my run"), ("run", "c.yaml", "--id", "my run"), ("resume", "my run", "--json")):
        done = project(*words)
        assert done.code == 1
        [told] = [line for line in done.err.splitlines() if "nothing was executed" in line]
        assert re.fullmatch(
            r"run my run had ended before \(failed, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\); nothing was executed now; "
            r"to retry it: ropewalk runs retry 'my run'( --upgrade c.yaml)?",
            told,
        )
    project("run", "shout.yaml", "--id", "well", "--input", '{"text": "a"}')
    told = project("resume", "well").err
    assert "had ended before (completed, " in told
    assert "runs retry" not in told
