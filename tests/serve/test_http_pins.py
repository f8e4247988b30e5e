"""A tool that is not what was approved, over HTTP: refused with 409, the reason and the command that approves it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import fork_server

from .server import COMMAND, Served, serve

pytestmark = pytest.mark.process

SHIFTY = Path(__file__).parents[1] / "mcp_servers" / "shifty.py"
WEIGH = {"name": "weigh", "description": "Weighs a rope.", "inputSchema": {"type": "object"}}
DIE = {"name": "die", "description": "Ends the process.", "inputSchema": {"type": "object"}}
WHY = (
    'has changed since it was approved: description was "Weighs a rope." and is "Weighs you."; '
    "to use it: ropewalk tools pin scale:weigh --approve, on the server's host"
)


@pytest.fixture
def scale(tmp_path: Path) -> Iterator[Served]:
    """A server of a project whose MCP server `scale` is pinned."""
    tools = tmp_path / "scale.json"
    tools.write_text(json.dumps([WEIGH, DIE]))
    settings = f"[mcp.scale]\ncommand = '{fork_server.program('python')}'\nargs = ['{SHIFTY}', '{tools}']\n"
    (tmp_path / "ropewalk.toml").write_text(settings)
    fork_server.run([COMMAND, "tools", "pin", "--approve"], cwd=tmp_path, check=True, capture_output=True)
    yield from serve(tmp_path, settings=settings)


def test_what_a_restart_has_changed_is_refused_with_its_reason_and_never_called(scale: Served) -> None:
    assert scale.post("/api/tools/scale:weigh", {"arguments": {}}).json()["result"] == "weigh"
    assert scale.post("/api/tools/scale:die", {"arguments": {}}).status_code == 502
    (scale.folder / "scale.json").write_text(json.dumps([{**WEIGH, "description": "Weighs you."}, DIE]))
    for answer in (scale.post("/api/tools/scale:weigh", {"arguments": {}}), scale.get("/api/tools/scale:weigh")):
        assert answer.status_code == 409
        error = answer.json()["error"]
        assert (error["kind"], error["message"]) == ("ToolNotApproved", f"tool scale:weigh: {WHY}")
    flow = {"kind": "chain", "name": "c", "nodes": [{"id": "w", "type": "tool", "tool": "scale:weigh", "params": {}}]}
    refused = scale.post("/api/runs", {"document": flow})
    assert refused.status_code == 422
    assert refused.json()["error"]["problems"][0]["message"] == f"tool 'scale:weigh': {WHY}"
    assert (scale.folder / "scale.calls").read_text().split() == ["weigh", "die"]
    assert scale.post("/api/tools/scale:reload", {"arguments": {}}).json()["result"] == "reload"
