"""A damaged store, or one that goes away, as the commands tell it."""

from __future__ import annotations

import json
import os

import apsw

LOOP = """\
kind: chain
name: slow
nodes:
  - id: each
    type: tool
    tool: goes
    params: {store: runs.db}
"""


def test_run_whose_store_is_removed_by_a_tool_ends_with_the_error_of_the_store(project):
    tools = project.home / "rw_cli_tools.py"
    tools.write_text(
        tools.read_text() + '\n@tool\nasync def goes(store: str) -> str:\n    """."""\n    os.remove(store)\n'
        "    return 'gone'\n"
    )
    project.write("loop.yaml", LOOP)
    done = project("run", "loop.yaml")
    assert done.code == 1, done.out
    assert "runs.db: the file was deleted, moved or replaced while it was in use" in done.err
    assert "completed" not in done.out + done.err
    assert not os.path.exists(project.home / "runs.db")


def damaged(project, sql):
    for text in ("a", "b"):
        assert project("run", "shout.yaml", "--id", text, "--input", json.dumps({"text": text * 70_000})).code == 0
    connection = apsw.Connection(str(project.home / "runs.db"))
    connection.execute(sql)
    connection.close()


def store_of(done):
    return {one["name"]: (one["state"], one["message"]) for one in done.data["findings"]}


def test_doctor_tells_of_a_damaged_big_value_and_saves_the_other_runs(project):
    damaged(project, "UPDATE blob SET data = zeroblob(length(data)) WHERE hash IN"
            " (SELECT blob FROM held JOIN run ON run = seq WHERE id = 'b')")  # fmt: skip
    done = project("doctor", "--json", "-C", str(project.home))
    assert done.code == 1
    state, said = store_of(done)["store"]
    assert state == "fault"
    assert "run b: " in said
    assert f"ropewalk doctor --save FILE -C {project.home}`" in said
    assert "run `ropewalk doctor`" not in said
    done = project("doctor", "--save", "saved.db", "--json")
    assert done.code == 1
    assert store_of(done)["saved"][0] == "ok"
    assert "run b: " in store_of(done)["left out"][1]
    assert project("doctor", "--store", "saved.db").code == 0
    assert [row["runId"] for row in project("runs", "ls", "--store", "saved.db", "--json").data] == ["a"]
    again = project("doctor", "--save", "saved.db", "--json")
    assert "already exists" in store_of(again)["saved"][1]


def test_one_damaged_run_does_not_take_the_list_away(project):
    damaged(project, """UPDATE run SET error = '{"x":', document = '{"x":' WHERE id = 'b'""")
    done = project("runs", "ls")
    assert done.code == 0, done.err
    assert "damaged" in next(line for line in done.out.splitlines() if line.startswith("b "))
    assert "completed" in next(line for line in done.out.splitlines() if line.startswith("a "))
    assert "run b: its error is damaged" in done.err
    shown = project("runs", "show", "b")
    assert shown.code == 1
    assert "run b: its document is damaged" in shown.err
    assert "internal error" not in shown.err


def test_doctor_that_finds_a_file_that_cannot_be_opened_sends_nobody_to_the_doctor(project):
    project.write("runs.db", "my diary " * 1000)
    done = project("doctor")
    assert done.code == 1
    assert "doctor --save FILE" in done.out
    assert "run `ropewalk doctor`" not in done.out
