"""`ropewalk store copy`."""

from __future__ import annotations

from typing import Any

CHAIN = "kind: chain\nname: c\nnodes:\n  - {id: up, type: tool, tool: upper, params: {text: $input.text}}\n"


def test_runs_are_copied_and_shown_from_the_copy(project: Any) -> None:
    project.write("c.yaml", CHAIN)
    assert project("run", "c.yaml", "-i", '{"text": "a"}', "--id", "r", "--store", "one.db").code == 0
    done = project("store", "copy", "one.db", "two.db")
    assert done.code == 0
    assert done.out.split() == ["COPIED", "THERE", "BEFORE", "definitions", "0", "0", "runs", "1", "0"]
    shown = project("runs", "show", "r", "--store", "two.db", "--json")
    assert (shown.code, shown.data["status"]) == (0, "completed")
    again = project("store", "copy", "one.db", "two.db", "--json")
    assert again.data == {"definitions": 0, "definitionsThere": 0, "runs": 0, "parts": 0, "there": 1, "live": []}


def test_a_store_that_is_not_there_is_not_made(project: Any) -> None:
    done = project("store", "copy", "nope.db", "two.db")
    assert done.code == 1
    assert "nope.db: this store does not exist" in done.err
    assert not (project.home / "nope.db").exists()


def test_log_whose_database_is_gone_is_told_by_every_command_and_stays(project):
    log = project.write("runs.db-wal", "what was recorded")
    for words in (("run", "shout.yaml"), ("runs", "ls"), ("doctor",), ("runs", "ls", "--store", "runs.db")):
        done = project(*words)
        assert done.code != 0, words
        assert "runs.db: the log of another database" in done.out + done.err
    assert log.read_text() == "what was recorded"
