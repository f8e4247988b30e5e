"""A directory with modules of both languages and a dataset, run as its user runs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import fork_server
from modules.folder import needs_node, written
from ropewalk.app.app import App
from ropewalk.errors import InvalidFlow
from tools.mcp_lab import gone

pytestmark = pytest.mark.process

DOCUMENT = """\
name: amounts
version: 0.1.0
state:
  schema:
    rows: {type: array}
    total: {type: number}
    results: {type: array, merge: array_append}
    seen: {type: object}
    pid: {type: number}
runtime: {env: [AMOUNTS_TOKEN]}
graph:
  nodes:
    - {id: load, kind: dataset, source: {file: ./data/rows.csv}, writes: [rows]}
    - {id: total, kind: tool, impl: ./tools/total.mjs, writes: [total]}
    - {id: each, kind: tool, impl: ./tools/each.mjs, for_each: {source: $.rows}, writes: [results, pid]}
    - {id: show, kind: tool, impl: ./tools/show.py, writes: [seen], args: {rows: $.rows}}
  edges:
    - {from: load, to: total}
    - {from: load, to: each}
    - {from: total, to: show}
    - {from: each, to: show}
"""
FILES = {
    "experience.yaml": DOCUMENT,
    "data/rows.csv": "id,amount\n1,10\n2,32\n",
    # As in the source of the notation.
    "tools/total.mjs": """export default async function aggregate(args) {
  const rows = args._state?.rows ?? []
  const total = rows.reduce((acc, r) => acc + Number(r.amount ?? 0), 0)
  console.log(`total ${total}`)
  return { state_delta: { total }, edge_output: { env: args._env, token: process.env.AMOUNTS_TOKEN } }
}
""",
    "tools/each.mjs": """export default async function process_(args) {
  const row = args._item
  args._state.rows.length = 0
  return { state_delta: { results: [{ id: row.id, index: args._item_index }], pid: process.pid } }
}
""",
    "tools/show.py": """def show(args):
    print("shown")
    inputs, rows = args["_edge_inputs"], args["_state"].pop("rows")
    return {"state_delta": {"seen": {"inputs": inputs["total"], "rows": len(rows), "env": args["_env"]}}}
""",
}


@needs_node
@pytest.mark.parametrize("store", ["memory", "sqlite:///run.db"])
async def test_a_directory_with_both_languages_and_a_dataset_runs(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MODULE-5 MODULE-13"""
    monkeypatch.setenv("AMOUNTS_TOKEN", "t")
    monkeypatch.chdir(tmp_path)
    async with App(store) as app:
        outcome = await app.run(written(tmp_path / "amounts", FILES))
        assert outcome.status == "completed"
        state = outcome.to_dict()["finalState"]
        assert gone(state.pop("pid")), "its process went with the run, not with the app"
    assert state == {
        "rows": [{"id": "1", "amount": "10"}, {"id": "2", "amount": "32"}],
        "total": 42,
        "results": [{"id": "1", "index": 0}, {"id": "2", "index": 1}],
        "seen": {
            "inputs": {"env": {"AMOUNTS_TOKEN": "t"}, "token": "t"}, "rows": 2, "env": {"AMOUNTS_TOKEN": "t"},
        },
    }  # fmt: skip


@needs_node
def test_the_command_line_shows_what_modules_print_beside_the_result(tmp_path: Path) -> None:
    written(tmp_path, FILES)
    command = [sys.executable, "-m", "ropewalk", "run", str(tmp_path), "--store", "memory"]
    done = fork_server.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "AMOUNTS_TOKEN": "t"}
    )
    assert done.returncode == 0, done.stderr
    assert "result: {" in done.stdout
    lines = done.stderr.splitlines()
    assert "total: total 42" in lines
    assert any(line.endswith(": shown") for line in lines)
    assert "total 42" not in lines


async def test_what_is_wrong_with_files_is_told_with_its_place_before_anything_runs(tmp_path: Path) -> None:
    files = {
        **FILES,
        "experience.yaml": DOCUMENT.replace("rows.csv}", "row.csv}").replace("each.mjs", "each.ts")
                                   .replace("./tools/show.py", "../show.py"),
        "tools/total.mjs": "throw new Error('a check ran me')",
    }  # fmt: skip
    async with App("memory") as app:
        with pytest.raises(InvalidFlow) as caught:
            await app.run(written(tmp_path, files))
    told = {problem.path: problem.message for problem in caught.value.problems}
    assert told["graph.nodes[0].source.file"] == "there is no file data/row.csv; did you mean data/rows.csv?"
    assert "is TypeScript" in told["graph.nodes[2].impl"]
    assert "'..' is not allowed" in told["graph.nodes[3].impl"]
    assert all(problem.place is not None for problem in caught.value.problems)
