"""What a definition without an id is called in results is the same in every process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk import App

NODES = 'nodes: [{id: ask, type: wait, approval: "Ship it?"}]\n'


@pytest.mark.parametrize("name", ["name: ask\n", ""])
def test_a_run_that_is_gone_on_with_keeps_the_id_of_its_definition(project: Any, name: str) -> None:
    project.write("wait.yaml", f"kind: chain\n{name}{NODES}")
    begun = project("run", "wait.yaml", "--id", "w", "--json").data["chainId"]
    assert project("resume", "w", "--json").data["chainId"] == begun
    (project.home / "wait.yaml").unlink()
    assert project("resume", "w", "--json").data["chainId"] == begun


@pytest.mark.parametrize("kind", ["chain", "composition"])
def test_two_runs_of_one_file_do_not_differ_in_its_id(project: Any, kind: str) -> None:
    given = "params" if kind == "chain" else "inputMapping"
    project.write("up.yaml", f"kind: {kind}\nnodes: [{{id: up, type: tool, tool: upper, {given}: {{text: a}}}}]\n")
    for run in ("a", "b"):
        assert f"{kind}Id" in project("run", "up.yaml", "--id", run, "--json").out
    told = project("runs", "diff", "a", "b", "--json").data
    assert [one for one in told["result"] if f"{kind}Id" in one["path"]] == []


def test_definitions_that_are_stored_have_ids_of_their_own_whatever_their_names(tmp_path: Path) -> None:
    node = {"id": "a", "type": "tool", "tool": "t"}
    for service in (chains := App(store="memory").chains.core, App(store="memory").compositions.core):
        made = [service.create({"name": "same", "nodes": [node]}).id for _ in range(3)]
        assert len({*made}) == len(service.list()) == 3
    before = {one.id for one in chains.list()}
    assert chains.clone_chain(min(before)).id not in before
