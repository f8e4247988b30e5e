"""Definitions of one project, run and resumed from another place: whose tools, and whose store."""

from __future__ import annotations

import os
import signal

import pytest

from patience import wait_until

pytestmark = pytest.mark.process

HANG = """\
kind: chain
name: hang
nodes:
  - {id: first, type: tool, tool: add, params: {a: 1}}
  - {id: wait, type: tool, tool: hang, params: {seconds: 0.3}}
"""
MOVED = """\
name: moved
version: 0.1.0
state: {schema: {a: {type: string}}}
graph:
  nodes:
    - {id: wait, kind: call, tool: hang, args: {seconds: 0.3}, writes: [a]}
"""
OTHER = '''
from ropewalk.tools.tool import tool

@tool
def upper(text: str) -> str:
    """Not the one that is meant."""
    return "of here"
'''


@pytest.fixture
def here(project, tmp_path_factory):
    """A project beside, with a tool of the same name and a store of its own."""
    place = tmp_path_factory.mktemp("here")
    (place / "ropewalk.toml").write_text("[tools]\nmodules = ['rw_other_tools']\n[store]\nurl = 'mine.db'\n")
    (place / "rw_other_tools.py").write_text(OTHER)
    (place / "deeper").mkdir()
    return place


def killed(project, started, cwd):
    """A run whose process has died, started from `cwd` with a relative path."""
    project.write("hang.yaml", HANG)
    child = started("run", os.path.relpath(project.home / "hang.yaml", cwd), "--id", "killed", cwd=cwd)
    wait_until((cwd / "hanging").exists)
    os.kill(child.pid, signal.SIGKILL)
    child.wait(timeout=300)


def test_resume_of_an_experience_whose_directory_is_gone_says_so(project, started):
    project.write("exp/experience.yaml", MOVED)
    child = started("run", "exp", "--id", "moved")
    wait_until((project.home / "hanging").exists)
    os.kill(child.pid, signal.SIGKILL)
    child.wait(timeout=300)
    (project.home / "exp").rename(project.home / "other")
    done = project("resume", "moved")
    assert done.code == 2
    where = project.home / "exp"
    said = "error: no directory 'exp': run 'moved' was started from it; put it back there to resume\n"
    assert done.err.endswith(said)
    (project.home / "other").rename(where)
    assert project("resume", "moved").code == 0


def test_of_a_run_that_is_not_there_it_is_said_where_it_was_looked_for(project, here):
    for words in (["resume"], ["runs", "show"], ["runs", "watch"], ["runs", "stop"]):
        done = project(*words, "nope", cwd=here)
        assert done.code == 2
        assert (
            "no run 'nope': there is no store at mine.db; to name another one, add -C PROJECT or --store URL\n"
            in done.err
        )
    assert project("runs", "prune", "--keep", "5", cwd=here).code == 0
    assert not (here / "mine.db").exists()
    project("run", str(project.home / "shout.yaml"), "--input", '{"text": "a"}', cwd=here)
    for words in (["resume"], ["runs", "show"]):
        done = project(*words, "nope", cwd=here)
        assert "no run 'nope': searched mine.db; to search another store, add -C PROJECT or --store URL\n" in done.err


def test_a_run_from_outside_of_its_project_finds_its_tools_and_is_listed_here(project, tmp_path_factory):
    project.write("ropewalk.toml", "[tools]\nmodules = ['rw_cli_tools']\n")
    outside = tmp_path_factory.mktemp("outside")
    done = project("run", str(project.home / "shout.yaml"), "--json", "--input", '{"text": "a"}', cwd=outside)
    assert done.code == 0, done.err
    assert [row["runId"] for row in project("runs", "ls", "--json", cwd=outside).data] == [done.data["runId"]]


def test_a_definition_has_the_tools_of_its_own_project_and_is_recorded_in_that_of_here(project, here):
    path = os.path.relpath(project.home / "shout.yaml", here / "deeper")
    done = project("run", path, "--json", "--input", '{"text": "a"}', cwd=here / "deeper")
    assert done.code == 0, done.err
    assert done.data["result"] == {"up": "A!"}
    assert (here / "mine.db").exists()
    assert not (project.home / "runs.db").exists()
    assert [row["runId"] for row in project("runs", "ls", "--json", cwd=here).data] == [done.data["runId"]]


def test_a_definition_outside_of_every_project_has_the_tools_of_here(project, here, tmp_path_factory):
    loose = tmp_path_factory.mktemp("loose") / "shout.yaml"
    loose.write_text((project.home / "shout.yaml").read_text())
    done = project("run", str(loose), "--json", "--input", '{"text": "a"}', cwd=here)
    assert done.data["result"] == {"up": "of here"}, done.err


def test_what_is_said_wins_over_where_the_definition_stands(project, here):
    path = str(project.home / "shout.yaml")
    done = project("run", path, "-C", str(here), "--json", "--input", '{"text": "a"}', cwd=project.home)
    assert done.data["result"] == {"up": "of here"}, done.err
    assert (here / "mine.db").exists()


def test_a_run_from_outside_is_resumed_there_with_the_tools_of_its_project(project, started, here):
    killed(project, started, here)
    done = project("resume", "killed", "--json", cwd=here)
    assert done.code == 0, done.err
    assert done.data["result"] == {"first": 2, "wait": "rested"}


def test_a_run_whose_project_has_moved_is_resumed_where_it_is_now(project, started, tmp_path_factory):
    killed(project, started, project.home)
    moved = project.home.rename(tmp_path_factory.mktemp("new") / "place")
    done = project("resume", "killed", "--json", cwd=moved)
    assert done.code == 0, done.err
    assert done.data["result"] == {"first": 2, "wait": "rested"}


def test_a_run_from_outside_of_every_project_is_in_the_store_its_project_names(project, started, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    killed(project, started, outside)
    assert (project.home / "runs.db").exists()
    done = project("resume", "killed", "-C", str(project.home), "--json", cwd=outside)
    assert done.code == 0, done.err
    assert done.data["result"] == {"first": 2, "wait": "rested"}
