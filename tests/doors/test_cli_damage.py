"""A damaged store, or one that goes away, as the commands tell it."""

from __future__ import annotations

import os

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
