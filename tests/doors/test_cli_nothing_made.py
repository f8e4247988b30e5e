"""Where a command looks when `-C` or `--store` say where, and that who only looks makes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest


def files(place: Path) -> set[str]:
    return {str(path.relative_to(place)) for path in place.rglob("*") if "__pycache__" not in path.parts}


def test_a_relative_directory_is_looked_at_from_its_own_place_upward(project, tmp_path):
    inner = tmp_path / "up" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "ropewalk.toml").write_text("[store]\nurl = 'inner.db'\n")
    done = project("doctor", "-C", "..", "--json", cwd=inner)
    found = {one["name"]: one["message"] for one in done.data["findings"]}
    assert found["project"] == str(tmp_path / "ropewalk.toml")  # the project above, not the one that stands below
    assert str(tmp_path / "runs.db") in found["store"]
    done = project("tools", "ls", "-C", "../..", cwd=inner)
    assert "upper" in done.out, done.err


def test_a_directory_without_a_project_is_told_and_left_as_it_is(project, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    for words in (("runs", "ls"), ("tools", "ls"), ("tools", "stats"), ("tools", "learnt"), ("runs", "show", "x")):
        done = project(*words, "-C", str(empty))
        assert f"warning: project directory {empty}: no ropewalk.toml in it or a parent directory" in done.err, words
        assert files(empty) == set(), words
    assert project("runs", "ls", "-C", str(empty)).out == "no runs\n"
    assert project("doctor", "-C", str(empty)).out.count("no ropewalk.toml") == 1
    assert "warning" not in project("runs", "ls", "-C", str(project.home)).err
    assert files(empty) == set()
    done = project("runs", "ls", "-C", str(project.home / "shout.yaml"))
    assert done.code == 2
    assert "project directory shout.yaml: is a file; name its directory" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "ls"), ("runs", "show", "x"), ("runs", "watch", "x"), ("runs", "diff", "x", "y"),
        ("runs", "stop", "x"),
        ("runs", "export", "x"), ("runs", "export", "x", "--as-test"), ("runs", "versions", "x"), ("tools", "stats"),
        ("runs", "prune", "--keep", "1"), ("runs", "send", "x", "e"), ("runs", "approve", "x"), ("resume", "x"),
        ("runs", "retry", "x"), ("runs", "fork", "x"),
    ],
)  # fmt: skip
def test_a_store_that_is_not_there_is_not_made_by_who_looks(project, words):
    before = files(project.home)
    done = project(*words, "--store", "typo.db")
    assert done.code == 1, done.out
    assert "--store typo.db: there is no such store" in done.err
    assert files(project.home) == before


def test_a_project_that_has_run_nothing_has_no_runs_and_gets_no_store(project):
    before = files(project.home)
    done = project("runs", "ls")
    assert (done.code, done.out) == (0, "no runs\n")
    assert f"there is no store at {project.home / 'runs.db'} yet" in done.err
    assert project("runs", "ls", "--json").data == []
    done = project("runs", "show", "x")
    assert done.code == 2
    assert "there is no store at" in done.err
    assert "runs.db" in done.err
    assert project("doctor").code == 0
    assert files(project.home) == before
    assert project("run", "shout.yaml", "--input", '{"text": "a"}', "--id", "one").code == 0
    assert "one" in project("runs", "ls").out
    assert "store at" not in project("runs", "ls").err


@pytest.mark.parametrize("place", ["/proc/zz", "shout.yaml/x", "shout.yaml/x/y"])
def test_a_project_that_cannot_be_written_is_a_plain_error(project, place):
    done = project("new", place)
    assert done.code == 2
    assert "cannot write" in done.err
    assert "Traceback" not in done.err
    assert "internal error" not in done.err


def test_each_empty_list_says_how_to_get_its_first_entry(project, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    (empty / "ropewalk.toml").write_text("")
    for words, step in (
        (("runs", "ls"), "ropewalk run FILE"),
        (("runs", "ls", "--status", "failed"), "ropewalk run FILE"),
        (("overview",), "ropewalk run FILE"),
        (("workers", "ls"), "ropewalk worker"),
        (("schedules", "ls"), "[schedules.NAME]"),
        (("tools", "ls"), "[tools]"),
        (("tools", "stats"), "ropewalk run FILE"),
    ):
        done = project(*words, cwd=empty)
        assert (done.code, step in done.out) == (0, True), (words, done.out, done.err)
    (empty / "ropewalk.toml").unlink()
    assert "ropewalk new DIR" in project("validate", cwd=empty).err
